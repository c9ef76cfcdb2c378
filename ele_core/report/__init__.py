"""The report of a run, one HTML file: numbers, curves, pictures, the embedding and how decoding went."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ele_core.errors import counted
from ele_core.files.atomic import write_text
from ele_core.interfaces import Learner
from ele_core.model.evaluate import behind
from ele_core.model.model import Model
from ele_core.report.comparison import Comparison
from ele_core.report.decoding import Affordable, ranks, trajectories, usable
from ele_core.report.drawings import MOST, Drawings, examples, maps
from ele_core.report.headline import Headline, advice, label, trust_of
from ele_core.report.learning_curves import Curve, curves, deciding
from ele_core.report.measured import Measured, Wanted, evaluate_missing, measured_before, metrics_of, outcome_of
from ele_core.report.page import render
from ele_core.report.provenance import provenance
from ele_core.runs.folder import training_pairs
from ele_core.runs.measurements import load_all
from ele_core.runs.run import Run
from ele_core.runtime.context import Context
from ele_core.runtime.device import pick_device
from ele_core.runtime.distributed import Processes
from ele_core.runtime.monitor import Monitor

__all__ = ["FILE", "Wanted", "evaluate_for_report", "metrics_before", "split_for", "write_comparison", "write_report"]

FILE = "report.html"
"""The default name of the page in a run folder."""
COUNTS = "report.json"
"""The file of a run folder with the numbers of inputs that parts of the page show."""


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
    shown, data = collect(run, model, measured_before(run, model, wanted), wanted, context)
    target = file or run.folder / FILE
    write_text(target, render("report.html", shown, data))
    return target


def write_comparison(comparison: Comparison, file: Path) -> Path:
    """Write a page with runs side by side, and return its path."""
    write_text(file, render("compare.html", {"comparison": comparison}, {"curves": comparison.curves}))
    return file


def split_for(run: Run) -> str:
    """The split to show by default: the test set, or the validation set if there is no test set."""
    return "test" if run.provenance["test"] else "validation"


def collect(
    run: Run, model: Model, measured: Measured, wanted: Wanted, context: Context
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Gather all parts of the page: the variables of the template, and the data that the page's scripts draw."""
    metrics = metrics_of(model)
    headline, trust, drawings = Headline(measured, metrics), trust_of(measured, model), Drawings(model.space)
    same = wanted.settings(oracle=False)
    others = [
        outcome
        for outcome in load_all(run.folder)
        if outcome.key != measured.outcome.key and {**outcome.settings, "oracle": False} == same
    ]
    groups, drawn = examples(measured, metrics, wanted.examples, drawings, context)
    truths, queries = measured.truths(model, context), measured.queries(model)
    learned = curves(run.folder, deciding(run.config))
    affordable = Affordable(run.folder / COUNTS, measured.outcome.key)
    ways = trajectories(model, queries, measured, groups, drawings, affordable, context)
    if drawings.failures:
        context.monitor.message(f"{counted(drawings.failures, 'drawing')} failed and will be shown as text")
    other_decoders = [choice.name for choice in usable(model)[1:]]
    shown = {
        "provenance": provenance(run, measured),
        "numbers": headline.numbers(),
        "table": headline.table(others, run.references()),
        "loss": headline.loss(),
        "ranks": ranks(model, queries, truths, affordable, context, measured.constraints(model)),
        "advice": [
            *filter(None, [behind(model.space, measured.outcome.metrics, measured.outcome.others)]),
            *advice(measured, training_pairs(run.provenance), regression(learned, run), other_decoders),
        ],
        **trust,
        "primary": label(next(iter(metrics))),
        "count": counted(len(measured), "prediction"),
    }
    affordable.save()
    embeddings, seed = model.surrogate.embed(truths[:MOST]).cpu(), context.derived_seed("report", "map") % (1 << 32)
    properties = {name: values.tolist() for name, values in model.space.show.properties(truths).items()}
    data = {
        "metrics": [
            {
                "name": name,
                "label": label(name),
                "better": metric.direction,
                "best_case": metric.best_case,
                "share": name in headline.shares,
                "summary": metric.summary,
            }
            for name, metric in metrics.items()
        ],
        "rows": measured.columns(),
        "properties": {name: [float(f"{value:.6g}") for value in values] for name, values in properties.items()},
        "groups": groups,
        "drawn": drawn,
        "curves": [dataclasses.asdict(curve) for curve in learned],
        "maps": [dataclasses.asdict(each) for each in maps(embeddings, queries[: len(embeddings)].cpu(), seed)],
        "trajectories": ways,
        "drawings": drawings.stored,
        "trust": trust["trust"],
    }
    return shown, data


def regression(learned: Sequence[Curve], run: Run) -> Curve | None:
    """The learning curve of the run's regressor: of its last stage that was recorded."""
    learner: type[Learner] = run.config.registry.get("regressor", run.config.regressor.name)
    names = {stage.name for stage in learner.stages}
    return next((curve for curve in reversed(learned) if curve.stage in names), None)
