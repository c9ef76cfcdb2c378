"""`ele reproduce`: run the tables and figures of a paper, and compare them with the published values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ele_core.cli import options as shared

if TYPE_CHECKING:
    from ele_core.experiments.reproduce import Reproduction
    from ele_core.experiments.study import Study


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="STUDY")
@click.option("--seeds", metavar="N,N,…", help="Run each row once per seed [default: the seeds of the scale].")
@click.option("--scale", metavar="NAME", help="The size of the study: small or full [default: its first, small].")
@click.option("--row", "rows", multiple=True, metavar="NAME", help="Run only this row of the study. May be repeated.")
@click.option(
    "--file",
    "files",
    multiple=True,
    metavar="NAME=PATH",
    help="A file or folder that rows of the study need, by the name that the study gives it. May be repeated.",
)
@click.option(
    "-o",
    "--output-folder",
    "folder",
    default="reproduction",
    show_default=True,
    metavar="FOLDER",
    help="Where to write records, tables and figures.",
)
@click.option(
    "--runs", metavar="FOLDER", help="Where to write the trained runs, which are large [default: FOLDER/runs]."
)
@click.option("--again", is_flag=True, help="Remove the records and runs of the rows first: train and measure again.")
@click.option("--dry-run", is_flag=True, help="Only print what would be run and how long it would take.")
@shared.as_json
@shared.output
def reproduce(
    words: tuple[str, ...],
    seeds: str | None,
    scale: str | None,
    rows: tuple[str, ...],
    files: tuple[str, ...],
    folder: str,
    runs: str | None,
    again: bool,
    dry_run: bool,
    console: shared.Console,
) -> None:
    """Reproduce a table or figure of a paper.

    STUDY is one that a task declares: table1, figure3 or figure4. Run the same command again after an interruption, or
    with more seeds: interrupted rows continue, and rows with a record of the same options and files are not run again.
    If code or data have changed, use --again. A row whose requirements are missing is skipped with the reason. Results
    go to FOLDER/STUDY-SCALE: a JSON record of each row and seed, and the table as Markdown and LaTeX, or the figure as
    SVG and PNG, with the published values. --NAME PATH is short for --file NAME=PATH.

    \b
    ele reproduce table1 --dry-run
    ele reproduce table1 --file gdb11=gdb11/
    ele reproduce table1 --scale full --seeds 0,1,2,3,4 --row ELE
    ele reproduce figure3 --file gdb11=gdb11/
    """
    from ele_core.experiments.reproduce import Reproduction, find_study, make_plan

    name, options = split_words(words)
    registry = shared.registry()
    task, study = find_study(name, registry)
    check_options(options, study)
    plan = make_plan(task, study, scale, parse_seeds(seeds), rows, {**named_files(files), **options}, registry)
    target = usable(Path(folder), "-o")
    own_runs = usable(Path(runs), "--runs") if runs else target / "runs"
    work = Reproduction(plan, target, own_runs, console.monitor(), again)
    if dry_run:
        describe(work, console)
        return
    written = work.run()
    for file in written:
        if file.suffix == ".md":
            console.show(file.read_text("utf-8"))
        console.show(f"Wrote {file}")
    names = {"study": study.name, "task": task, "scale": plan.scale}
    console.json({**names, "files": list(map(str, written)), "skipped": plan.skipped, "records": work.records()})


def split_words(words: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the study's name, and the values of the options `--NAME PATH` that the command itself does not have."""
    names, options, rest = [], {}, iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        if not option.startswith("-"):
            names.append(word)
            continue
        value = value if equals else next(rest, "")
        if not value:
            raise click.UsageError(f"Option '{option}' requires an argument.")
        options[option.removeprefix("--")] = value
    if not names:
        raise click.UsageError(f"Missing argument 'STUDY'{f' before --{next(iter(options))}' if options else ''}.")
    if len(names) > 1:
        raise click.UsageError(f"Got unexpected extra argument ({' '.join(names[1:])})")
    return names[0], options


def check_options(options: Iterable[str], study: Study) -> None:
    """Refuse an option that is not a file of the study."""
    for name in options:
        if name not in study.files:
            files = ", ".join(f"--file {each}=PATH" for each in study.files)
            raise click.UsageError(f"No such option: --{name}. Files of {study.name}: {files or 'none'}.")


def named_files(files: Iterable[str]) -> dict[str, str]:
    """Parse texts such as NAME=PATH into name → path."""
    pairs = [text.partition("=") for text in files]
    for name, _, path in pairs:
        if not name or not path:
            raise click.BadParameter(f"'{name}' is not of the form NAME=PATH.", param_hint="--file")
    return {name: path for name, _, path in pairs}


def usable(folder: Path, option: str) -> Path:
    """Return `folder` if it exists or can be created; refuse one that has a file in its path."""
    from ele_core.errors import ConfigError

    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise ConfigError(f"{there} is a file, not a folder.", where=option, fix="Choose another.")
    return folder


def parse_seeds(text: str | None) -> list[int]:
    """Parse seeds such as 0,1,2."""
    from ele_core.errors import ConfigError

    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    if not all(word.isdecimal() for word in words) or (text is not None and not words):
        raise ConfigError(f"'{text}' is no list of seeds.", where="--seeds", fix="Write it as 0,1,2.")
    return [int(word) for word in words]


def describe(work: Reproduction, console: shared.Console) -> None:
    """Print which jobs are done, which are missing, and how long these will take."""
    from ele_core.display.text import in_words

    plan, missing, forecast = work.plan, work.missing(), work.forecast()
    console.show(f"{plan.study.title} ({plan.task}, {plan.scale}): {plan.study.scales[plan.scale].summary}")
    for job in plan.jobs:
        state = f"to do, about {in_words(forecast.seconds([job]))}" if job in missing else "done"
        console.show(f"  {job.name}: {state}")
    for row, reason in plan.skipped.items():
        console.show(f"  {row}: skipped, {reason}")
    seconds = forecast.seconds(missing)
    console.show(f"{len(missing)} of {len(plan.jobs)} to do, about {in_words(seconds)} in all.")
    jobs = [{"name": job.name, "done": job not in missing, "seconds": forecast.seconds([job])} for job in plan.jobs]
    names = {"study": plan.study.name, "task": plan.task, "scale": plan.scale}
    console.json({**names, "jobs": jobs, "skipped": plan.skipped, "seconds": seconds})
