"""`ele reproduce`: the tables and figures of a paper, run here and put beside the published ones."""

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
@click.option("--seeds", metavar="N,N,…", help="One run of each row for each seed. [default: those of the scale]")
@click.option("--scale", metavar="NAME", help="How large: small or full. [default: the first of the study, small]")
@click.option("--row", "rows", multiple=True, metavar="NAME", help="Only this row of the study. May be repeated.")
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
    help="Where records, tables and figures go.",
)
@click.option("--runs", metavar="FOLDER", help="Where the trained runs go, which are large. [default: FOLDER/runs]")
@click.option("--again", is_flag=True, help="Remove the rows' records and runs first: train and measure them anew.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done and how long it would take.")
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
) -> None:
    """Run a STUDY of a task: table1, figure3 or figure4 of the paper, on its data, beside its figures.

    What is missing is run, what was interrupted goes on, and what is there with the same settings is left alone: run
    the same command again after an interruption, or with more seeds. The settings are options and files, not code or
    data: where these have changed, --again. A row that needs what is not there is skipped and says so.
    FOLDER/STUDY-SCALE gets a record of each row and seed as JSON, and made of these the table as Markdown and LaTeX, or
    the figure as SVG and PNG. Instead of --file NAME=PATH, --NAME PATH may be written.

    \b
    ele reproduce table1 --dry-run
    ele reproduce table1 --file gdb11=gdb11/
    ele reproduce table1 --scale full --seeds 0,1,2,3,4 --row ELE
    ele reproduce figure3 --file gdb11=gdb11/
    """
    from ele_core.experiments.reproduce import Reproduction, find_study, make_plan
    from ele_core.runtime.monitor import ConsoleMonitor

    name, options = split_words(words)
    registry = shared.registry()
    task, study = find_study(name, registry)
    check_options(options, study)
    plan = make_plan(task, study, scale, parse_seeds(seeds), rows, {**named_files(files), **options}, registry)
    target = usable(Path(folder), "-o")
    own_runs = usable(Path(runs), "--runs") if runs else target / "runs"
    work = Reproduction(plan, target, own_runs, ConsoleMonitor(), again)
    if dry_run:
        describe(work)
        return
    for file in work.run():
        if file.suffix == ".md":
            click.echo(file.read_text("utf-8"))
        click.echo(f"Wrote {file}")


def split_words(words: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The study, and the values of the options that are not the command's own, by name: `--NAME PATH`."""
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
    """Refuse an option that is no file of the study."""
    for name in options:
        if name not in study.files:
            files = ", ".join(f"--file {each}=PATH" for each in study.files)
            raise click.UsageError(f"No such option: --{name}. Files of {study.name}: {files or 'none'}.")


def named_files(files: Iterable[str]) -> dict[str, str]:
    """Name → path, from texts such as NAME=PATH."""
    pairs = [text.partition("=") for text in files]
    for name, _, path in pairs:
        if not name or not path:
            raise click.BadParameter(f"'{name}' is not of the form NAME=PATH.", param_hint="--file")
    return {name: path for name, _, path in pairs}


def usable(folder: Path, option: str) -> Path:
    """A folder that is there or can be made."""
    from ele_core.errors import ConfigError

    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise ConfigError(f"{there} is a file, not a folder.", where=option, fix="Choose another.")
    return folder


def parse_seeds(text: str | None) -> list[int]:
    """Seeds from a list such as 0,1,2."""
    from ele_core.errors import ConfigError

    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    if not all(word.isdecimal() for word in words) or (text is not None and not words):
        raise ConfigError(f"'{text}' is no list of seeds.", where="--seeds", fix="Write it as 0,1,2.")
    return [int(word) for word in words]


def describe(work: Reproduction) -> None:
    """What there is, what is left to do, and for how long."""
    from ele_core.experiments.reproduce import in_words

    plan, missing, forecast = work.plan, work.missing(), work.forecast()
    click.echo(f"{plan.study.title} ({plan.task}, {plan.scale}): {plan.study.scales[plan.scale].summary}")
    for job in plan.jobs:
        state = f"to do, about {in_words(forecast.seconds([job]))}" if job in missing else "done"
        click.echo(f"  {job.name}: {state}")
    for row, reason in plan.skipped.items():
        click.echo(f"  {row}: skipped, {reason}")
    click.echo(f"{len(missing)} of {len(plan.jobs)} to do, about {in_words(forecast.seconds(missing))} in all.")
