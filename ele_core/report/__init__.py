"""A run as one page to look at: numbers, curves, pictures, the embedding and how decoding went, in one HTML file."""

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
"""The page's name in a run folder, where no other is asked for."""


def evaluate_for_report(run: Run, wanted: Wanted, monitor: Monitor, processes: Processes) -> None:
    """Make the evaluations that the page shows, unless they were made before; every process of a group calls this."""
    evaluate_missing(run, run.model(wanted.overrides), wanted, monitor, processes)


def metrics_before(run: Run, wanted: Wanted) -> Mapping[str, float]:
    """The means of an evaluation that was made."""
    return outcome_of(run, run.model(wanted.overrides), wanted, oracle=False).metrics


def write_report(run: Run, wanted: Wanted, monitor: Monitor, file: Path | None = None) -> Path:
    """Write the page, evaluating first what was not evaluated yet; where it is."""
    model = run.model(wanted.overrides)
    evaluate_missing(run, model, wanted, monitor, Processes())
    context = Context(model.config.seed, pick_device(model.config.device), monitor)
    contents = collect(run, model, measured_before(run, model, wanted), wanted, context)
    target = file or run.folder / FILE
    write_text(target, render("report.html", contents.shown, contents.data))
    return target


def write_comparison(comparison: Comparison, file: Path) -> Path:
    """Write runs side by side as a page."""
    write_text(file, render("compare.html", {"comparison": comparison}, {"curves": comparison.curves}))
    return file


def split_for(run: Run) -> str:
    """The split to show where none is asked for: the test set, or the validation set where no test was held out."""
    return "test" if run.provenance["test"] else "validation"
