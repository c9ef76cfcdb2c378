"""`ele reproduce`: the tables and figures of a paper, run here and put beside the published ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ele_core.experiments.reproduce import Reproduction


@click.command()
@click.argument("study", metavar="STUDY")
@click.option("--seeds", metavar="N,N,…", help="One run of each row for each seed. [default: those of the scale]")
@click.option("--scale", metavar="NAME", help="How large: small or full. [default: the first of the study, small]")
@click.option("--row", "rows", multiple=True, metavar="NAME", help="Only this row of the study. May be repeated.")
@click.option("--gdb11", metavar="PATH", help="GDB-11, for the rows that pre-train on it: a file or folder of SMILES.")
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
    study: str,
    seeds: str | None,
    scale: str | None,
    rows: tuple[str, ...],
    gdb11: str | None,
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
    the figure as SVG and PNG.

    \b
    ele reproduce table1 --dry-run
    ele reproduce table1 --gdb11 gdb11/
    ele reproduce table1 --scale full --seeds 0,1,2,3,4 --row ELE
    ele reproduce figure3 --gdb11 gdb11/
    """
    from ele_core.experiments.reproduce import Reproduction, find_study, make_plan
    from ele_core.runtime.monitor import ConsoleMonitor

    task, found = find_study(study)
    files = {"gdb11": gdb11} if gdb11 else {}
    plan = make_plan(task, found, scale, parse_seeds(seeds), rows, files)
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
