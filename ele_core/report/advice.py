"""What to try if no prediction is exact: a few sentences, from numbers of the run."""

from __future__ import annotations

from collections.abc import Sequence

from ele_core.report.learning_curves import Curve
from ele_core.report.measured import Measured

FEW = 1000
"""Training pairs below which more pairs are the first advice."""
FAR = 2.0
"""How many times the training loss a validation error is if the regressor memorises its pairs."""
GOOD = 0.5
"""The exact share from the true embedding above which embedding and decoder are good enough."""


def advice(measured: Measured, pairs: int, regression: Curve | None, decoders: Sequence[str]) -> list[str]:
    """Sentences for a run without exact predictions, else none.

    `pairs` is the number of training pairs, `regression` the learning curve of the regressor, `decoders` the other
    decoders that work with the model.
    """
    if measured.outcome.metrics.get("exact", 1.0) > 0:
        return []
    return [*few_pairs(pairs), *oracle(measured, decoders), *regressor(regression)]


def few_pairs(pairs: int) -> list[str]:
    """If there are few pairs."""
    if pairs >= FEW:
        return []
    return [f"The run was trained on {pairs:,} pairs; some thousands are usual. More pairs help most."]


def oracle(measured: Measured, decoders: Sequence[str]) -> list[str]:
    """Whether embedding and decoder could find the truth."""
    best, unseen = measured.oracle.metrics.get("exact", 0.0), measured.outcome.metrics.get("unseen", 0.0)
    if best >= GOOD:
        return [f"Decoded from the true embedding, {percent(best)} are exact: the regression is what fails."]
    sentences = [
        f"Even decoded from the true embedding, {percent(best)} are exact: the embedding or the decoder fails."
    ]
    if best == 0 and unseen > 0:
        what = f"{percent(unseen)} of the truths are not among the candidates"
        sentences.append(f"{what}: a decoder that only chooses among candidates cannot find these.")
    try_decoders = f"another decoder ({', '.join(decoders)}), " if decoders else ""
    return [*sentences, f"Try {try_decoders}more candidates, or an embedding that is larger or trained for longer."]


def regressor(curve: Curve | None) -> list[str]:
    """Whether the regressor memorises its pairs or has not learned them, by the weights that were kept."""
    if curve is None or curve.decides is None or curve.kept is None:
        return []
    at = curve.steps.index(curve.kept)
    loss, error = (curve.series.get(name, [None] * (at + 1))[at] for name in ("loss", curve.decides))
    if loss is None or error is None or loss <= 0:
        return []
    if error > FAR * loss:
        what = f"The error on validation pairs, {error:.3g}, is {error / loss:.1f} times the training loss, {loss:.3g}"
        fix = "Use more pairs, a smaller or more regularised network, or a simpler regressor."
        return [f"{what}: the regressor memorises its pairs.", fix]
    what = f"The training loss, {loss:.3g}, is not far below the error on validation pairs, {error:.3g}"
    fix = "Train for more epochs or use a larger network, and check that the inputs determine the outputs."
    return [f"{what}: the regressor has not learned its pairs.", fix]


def percent(share: float) -> str:
    """A share as text."""
    return f"{100 * share:.0f} %"
