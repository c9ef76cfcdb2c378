"""The report of a run, one HTML file: numbers, curves, pictures, the embedding and how decoding went."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ele_core.files.atomic import write_text
from ele_core.report.collect import collect
from ele_core.report.comparison import Comparison
from ele_core.report.measured import Wanted, evaluate_missing, measured_before, outcome_of
from ele_core.report.page import render
from ele_core.runs.run import Run
from ele_core.runtime.context import Context
from ele_core.runtime.device import pick_device
from ele_core.runtime.distributed import Processes
from ele_core.runtime.monitor import Monitor

__all__ = ["FILE", "Wanted", "evaluate_for_report", "metrics_before", "split_for", "write_comparison", "write_report"]

FILE = "report.html"
"""The default name of the page in a run folder."""


def evaluate_for_report(run: Run, wanted: Wanted, monitor: Monitor, processes: Processes) -> None:
    """Make the evaluations that the page shows, unless they exist already; every process of a group calls this."""
    evaluate_missing(run, run.model(wanted.overrides), wanted, monitor, processes)


def metrics_before(run: Run, wanted: Wanted) -> Mapping[str, float]:
    """The mean metrics of an existing evaluation."""
    return outcome_of(run, run.model(wanted.overrides), wanted, oracle=False).metrics


def write_report(run: Run, wanted: Wanted, monitor: Monitor, file: Path | None = None) -> Path:
    """Make missing evaluations, write the page, and return its path."""
    model = run.model(wanted.overrides)
    evaluate_missing(run, model, wanted, monitor, Processes())
    context = Context(model.config.seed, pick_device(model.config.device), monitor)
    contents = collect(run, model, measured_before(run, model, wanted), wanted, context)
    target = file or run.folder / FILE
    write_text(target, render("report.html", contents.shown, contents.data))
    return target


def write_comparison(comparison: Comparison, file: Path) -> Path:
    """Write a page with runs side by side, and return its path."""
    write_text(file, render("compare.html", {"comparison": comparison}, {"curves": comparison.curves}))
    return file


def split_for(run: Run) -> str:
    """The split to show by default: the test set, or the validation set if there is no test set."""
    return "test" if run.provenance["test"] else "validation"
