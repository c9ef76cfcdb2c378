"""What confidence and prediction sets of a calibrated run are worth on its test pairs.

    python benchmarks/trust.py RUN [--set PATH=VALUE …] [--library] [--output FILE]

RUN was trained with calibration.pairs, or calibrated by `ele calibrate`. Measured are confidence (area under the curve,
calibration error, each signal alone), prediction sets (coverage, sizes; by a property of the structures; with a bounded
risk), and the coverage over many random divisions of the calibration and test pairs into two halves, which shows the
promise without the luck of one division. With --output a figure is drawn beside the
record. `--library` also measures sets from a fixed library, the training outputs with
and without the truths, decoded by `candidates`.
"""

import dataclasses
import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import torch
from common import parser_of, today
from torch import Tensor

from ele_core import Context
from ele_core.data.prepare import Prepared
from ele_core.data.truths import Truths
from ele_core.errors import EleError
from ele_core.experiments.sweep import STYLE
from ele_core.files.atomic import write_text
from ele_core.model.metrics import means, measure
from ele_core.model.model import Model
from ele_core.model.predict import Request, decode
from ele_core.model.trust import judged
from ele_core.model.trust.assess import COVERAGES, assess, assess_sets, cross_validated, set_line, share
from ele_core.model.trust.calibration import energy_of_truth, nearest_losses, properties_of, rank_of_truth
from ele_core.model.trust.sets import Promise, prediction_sets
from ele_core.numerics.conformal import examples_needed, group_of, merged_groups, threshold
from ele_core.runs.run import Run
from ele_core.runtime.device import pick_device
from ele_core.runtime.monitor import ConsoleMonitor
from ele_core.types import Choice

DIVISIONS = 1000
RISKS = (0.3, 0.2, 0.1)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("run", help="a calibrated run")
    parser.add_argument("--set", dest="overrides", action="append", default=[], help="options of the decoder")
    parser.add_argument("--library", action="store_true", help="also measure sets from a fixed library")
    options = parser.parse_args()
    result = measured(Run(options.run), options.overrides, options.library)
    for each in (*result["test"]["sets"], *result["by_property"], *result["risks"]):
        print(set_line(each) if "covered" in each or "refused" in each else each)
    if options.output:
        write_text(options.output, json.dumps(result, indent=2) + "\n")
        draw(result["test"], options.output.with_suffix(".svg"))


def measured(run: Run, overrides: list[str], library: bool) -> dict[str, Any]:
    """Judge the test pairs, and measure."""
    model = run.model(overrides)
    context = Context(run.config.seed, pick_device(model.config.device), ConsoleMonitor())
    prepared = run.data(context)
    rows, truths = prepared.examples("test")
    queries = model.regressor.predict(prepared.packed[rows])
    started = time.monotonic()
    decoding, trust = decode(model, [queries], None, Request(), context)
    seconds = time.monotonic() - started
    assert trust is not None, "the run is not calibrated for these options"
    rank = rank_of_truth(model.space, trust.found, truths)
    values_of_answers = measure(model.space, decoding.best, truths, context)
    scores = torch.cat([trust.calibration.scores, energy_of_truth(trust.found, rank)])
    own = properties_of(model.space, trust.found, truths, rank)
    values = {name: torch.cat([known, own[name]]) for name, known in trust.calibration.properties.items()}
    return {
        "command": shlex.join(["python", "benchmarks/trust.py", *sys.argv[1:]]),
        "date": today(),
        "task": run.config.task.name if run.config.task else None,
        "source": prepared.data.source,
        "seed": run.config.seed,
        "sizes": {name: len(getattr(prepared.data, name)) for name in ("train", "validation", "calibration", "test")},
        "config": model.config.model_dump(mode="json"),
        "structures": trust.calibration.structures,
        "seconds": round(seconds, 1),
        "cross_validated": cross_validated(trust.calibration),
        "metrics": means(values_of_answers),
        "test": assess(model.space, trust, truths, values_of_answers),
        "divisions": divisions(scores),
        "divisions_by_property": {name: divisions_by(scores, column) for name, column in values.items()},
        "by_property": [
            assess_sets(model.space, trust, rank, truths, Promise(level, by))
            for by in trust.calibration.properties
            for level in COVERAGES[:3]
        ],
        "risks": [risk(model, trust, truths, level) for level in RISKS],
        "library": libraries(model, prepared, context) if library else [],
    }


def draw(test: dict[str, Any], file: Path) -> None:
    """Draw the share of right answers by confidence, and the error of the most confident answers."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8, 3.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        left.plot([0, 1], [0, 1], color="0.6", linestyle="--")
        own = [(each["confidence"], each["right"], each["examples"]) for each in test["reliability"]]
        most = max(count for _, _, count in own)
        left.scatter(*zip(*[pair[:2] for pair in own], strict=True), s=[20 + 180 * count / most for *_, count in own])
        left.set(xlabel="confidence", ylabel="share of right answers", xlim=(0, 1.02), ylim=(0, 1.02))
        right.plot(*zip(*test["risk_by_coverage"], strict=True))
        right.set(xlabel="share of answers accepted, the most confident first", ylabel="wrong among them", xlim=(0, 1))
        right.yaxis.set_major_formatter("{x:.0%}")
        figure.savefig(file, format="svg", metadata={"Date": None})


def divisions(scores: Tensor) -> list[dict[str, float]]:
    """Mean and standard deviation of the coverage over random divisions of all scores into two halves."""
    generator = torch.Generator().manual_seed(0)
    orders = [torch.randperm(len(scores), generator=generator) for _ in range(DIVISIONS)]
    half, found = len(scores) // 2, []
    for level in COVERAGES:
        limits = [threshold(scores[order[:half]], level) for order in orders]
        if all(limit < float("inf") for limit in limits):
            held = torch.tensor([share(scores[o[half:]] <= limit) for o, limit in zip(orders, limits, strict=True)])
            found.append({"coverage": level, "mean": float(held.mean()), "deviation": float(held.std())})
    return found


def divisions_by(scores: Tensor, values: Tensor, level: float = 0.9) -> list[dict[str, float]]:
    """The same at one coverage for each group of values, with a threshold of its own; groups are those of all pairs."""
    ends = merged_groups(values, 4 * examples_needed(level))
    place = group_of(values, ends)
    found = []
    for number in range(len(ends)):
        own = values[place == number]
        for held in divisions(scores[place == number]):
            if held["coverage"] == level:
                ranged = {"from": float(own.min()), "to": float(own.max()), "pairs": len(own)}
                found.append({**ranged, **held})
    return found


def risk(model: Model, trust: judged.Trust, truths: Truths, level: float) -> dict[str, Any]:
    """The mean distance of the truth to the nearest structure of sets that keep a risk."""
    try:
        sets = prediction_sets(model.space, trust, Promise(risk=level))
    except EleError as error:
        return {"promise": f"risk at most {level:g}", "risk": level, "refused": str(error)}
    metric = next(metric for metric in model.space.metrics if metric.name == trust.calibration.metric)
    losses = nearest_losses(model.space, trust.found, truths, metric).clamp(max=trust.calibration.largest_loss)
    kept = losses.gather(1, sets.sizes[:, None] - 1)[:, 0]
    sizes = sets.sizes.double()
    return {"risk": level, "measured": float(kept.mean()), "mean_size": float(sizes.mean()), "cut": share(sets.cut)}


def libraries(model: Model, prepared: Prepared, context: Context) -> list[dict[str, Any]]:
    """Sets from a fixed library: the training outputs, then these with the truths of calibration and test."""
    data = prepared.data
    config = model.config.model_copy(update={"decoder": Choice(name="candidates")})
    held_out = torch.cat([data.train, data.calibration, data.test])
    found = []
    for name, rows in (("training outputs", data.train), ("training outputs and truths", held_out)):
        own = dataclasses.replace(model, config=config, candidates=model.embed_candidates(data.outputs[rows]))
        calibration_rows, calibration_truths = prepared.examples("calibration")
        own = judged.calibrate(own, prepared.data.inputs_at(calibration_rows), calibration_truths, name, context)
        test, truths = prepared.examples("test")
        _, trust = decode(own, [own.regressor.predict(prepared.packed[test])], None, Request(), context)
        assert trust is not None
        rank = rank_of_truth(own.space, trust.found, truths)
        sets = [assess_sets(own.space, trust, rank, truths, Promise(level)) for level in COVERAGES]
        found.append(
            {"library": name, "structures": len(own.candidates or ()), "found": share(rank >= 0), "sets": sets}
        )
    return found


if __name__ == "__main__":
    main()
