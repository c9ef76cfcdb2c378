"""`make demo`: SMILES → molecule on real QM9 molecules in a few minutes, with a table and pictures of the result."""

from __future__ import annotations

import csv
import shlex
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path

import click

from ele_core import EleError, Run, load_config
from ele_core.display.pictures import Cell, sheet_svg
from ele_core.errors import Interrupted, command
from ele_core.report import Wanted, write_report
from ele_core.runs.folder import training_seconds
from ele_core.runs.measurements import circumstances, write_measurements
from ele_core.runtime.monitor import ConsoleMonitor
from ele_graphs.molecules.space import MoleculeSpace

SETTINGS = (
    "task.size=24000",
    "task.test=500",
    "task.validation=500",
    "surrogate.encoder=neighbourhoods",
    "surrogate.dim=512",
    "surrogate.spherical=false",
    "surrogate.mining=none",
    "surrogate.training=none",
    "regressor.backbone.layers=1",
    "regressor.backbone.width=192",
    "regressor.training.epochs=12",
    "regressor.training.evaluations=12",
    "regressor.weigh_errors=true",
)
"""A subset and sizes that train in about five minutes on two cores; `ele train smi2mol` uses all of QM9.

The embedding adds up neighbourhoods: from so few pairs a network learns to predict it better than one on the sphere."""
DECODERS = ("candidates", "search")
"""From the weakest to the strongest; the predictions of the last are shown."""
SHOWN = 10
COLUMNS = 4
AGAIN = "Continue with: make demo"


@click.command()
@click.option("--folder", default="demo", show_default=True, help="Folder for the run and the pictures.")
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Set an option of the configuration.")
@click.option("--record", metavar="FILE", help="Train in a new folder, and write metrics and times as JSON.")
def demo(folder: str, overrides: Sequence[str], record: str | None) -> None:
    """Train on real QM9 molecules, predict unseen ones, and show them. A demo that was stopped continues."""
    started, used = time.monotonic(), time.process_time()
    run = trained(Path(folder), overrides, new=record is not None)
    cpu_seconds = time.process_time() - used
    target = run.folder
    measured = {decoder: metrics_of(run, decoder) for decoder in DECODERS}
    for decoder, metrics in measured.items():
        click.echo(f"{decoder}: {'  '.join(f'{name} {value:.4g}' for name, value in metrics.items())}")
    if record:
        write_record(Path(record), run, measured, time.monotonic() - started, cpu_seconds)
    with (target / "predictions" / f"test-{DECODERS[-1]}.csv").open(encoding="utf-8", newline="") as stream:
        rows = [row for row, _ in zip(csv.DictReader(stream), range(SHOWN), strict=False)]
    click.echo(as_table(rows))
    draw(rows, target / "pictures")
    click.echo(f"Pictures: {target / 'pictures' / 'all.svg'}")
    click.echo(f"Report: {write_report(run, Wanted(), ConsoleMonitor())}")
    click.echo(f"Try: echo 'COC(C)=O' | {command('predict', target, '-')}")


def trained(folder: Path, overrides: Sequence[str], *, new: bool = False) -> Run:
    """Train in a new run folder, or continue in the last one if its demo was stopped; other options start a new run."""
    number = next(number for number in count(1) if not (folder / f"run-{number}").exists())
    last = folder / f"run-{number - 1}"
    stopped = (last / "config.toml").exists() and not (last / "report.html").exists()
    if stopped and not (new or overrides):
        return Run.resume(last, ConsoleMonitor())
    config = load_config("smi2mol", [*SETTINGS, *overrides])
    return Run.start(config, folder / f"run-{number}", ConsoleMonitor())


def metrics_of(run: Run, decoder: str) -> Mapping[str, float]:
    """The metrics of the test molecules with a decoder, measured unless they are stored."""
    chosen = [f"decoder={decoder}"]
    found = run.stored("test", None, False, chosen)
    return (found or run.evaluate(overrides=chosen, monitor=ConsoleMonitor())).metrics


def write_record(
    file: Path, run: Run, measured: Mapping[str, Mapping[str, float]], seconds: float, cpu_seconds: float
) -> None:
    """Write what the demo found, how long it took, and how to get it again; `cpu_seconds` are those of the training."""
    content = {
        **circumstances(run.config, run.provenance, command=(), seconds=round(seconds, 1)),
        "command": shlex.join(["python", "-m", "ele_graphs.smi2mol.demo", *sys.argv[1:]]),
        "training_seconds": training_seconds(run.folder),
        "training_cpu_seconds": round(cpu_seconds, 1),
        "decoders": [{"decoder": decoder, "metrics": dict(metrics)} for decoder, metrics in measured.items()],
    }
    write_measurements(file, content)


def as_table(rows: Sequence[dict[str, str]]) -> str:
    """Input, prediction, truth and distance of a few test molecules, in columns."""
    names = {"input": "input", "prediction": "prediction", "truth": "truth", "ged_with_edges": "GED"}
    cells = [list(names.values()), *([row[name] for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in cells)


def draw(rows: Sequence[dict[str, str]], folder: Path) -> None:
    """Draw each prediction and its truth, with the differences highlighted: SVG files, and one sheet of all."""
    space = MoleculeSpace()
    folder.mkdir(exist_ok=True)
    cells = []
    for number, row in enumerate(rows, start=1):
        predicted, true = space.parse(row["prediction"]), space.parse(row["truth"])
        drawings = {"prediction": space.show.render(predicted, true), "truth": space.show.render(true)}
        for name, drawing in drawings.items():
            (folder / f"{number:02}-{name}.svg").write_text(drawing.svg or "", encoding="utf-8")
        captions = (row["input"], f"truth, at distance {row['ged_with_edges']}")
        cells += [Cell(drawing, [caption]) for drawing, caption in zip(drawings.values(), captions, strict=True)]
    rows_of_cells = [cells[start : start + COLUMNS] for start in range(0, len(cells), COLUMNS)]
    (folder / "all.svg").write_text(sheet_svg(rows_of_cells), encoding="utf-8")


def main() -> None:
    """Run the demo; if it is stopped or fails, print one paragraph and what to do next instead of a traceback."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        demo(standalone_mode=False)
    except Interrupted as stopped:
        fail(f"{stopped.what} {AGAIN}", stopped.exit_code)
    except (click.Abort, KeyboardInterrupt):
        fail(f"stopped. {AGAIN}", 128 + signal.SIGINT)
    except EleError as error:
        fail(str(error), error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)


def fail(reason: str, code: int) -> None:
    """Print the reason and exit with `code`."""
    click.echo(f"Error: {reason}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
