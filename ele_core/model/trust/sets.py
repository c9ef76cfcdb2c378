"""Prediction sets by split conformal prediction: structures within a threshold that held the truth as often as asked.

The promise: if new pairs and those of the calibration are exchangeable, the set of a new input holds the truth with a
probability of at least `coverage`. The calibration counts a truth that the decoder did not find as missed, so the
promise includes the limits of the search.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ele_core.errors import ConfigError, DataError
from ele_core.interfaces import OutputSpace
from ele_core.model.metrics import property_of
from ele_core.model.model import Model
from ele_core.model.trust.calibration import NAMES, Calibration
from ele_core.model.trust.judged import Trust, without_confidence
from ele_core.numerics.conformal import (
    examples_needed,
    group_of,
    merged_groups,
    most_coverage,
    risk_threshold,
    threshold,
)
from ele_core.types import Choice, Decoding

USUAL = 0.9
"""The coverage of prediction sets if none is asked for."""
ADD_CALIBRATION = "Add one: ele calibrate RUN, or predictor.calibrate(X, y)."
MORE = "Calibrate with more pairs: set calibration.pairs higher and train again, or ele calibrate RUN --data FILE."


@dataclasses.dataclass(frozen=True)
class Promise:
    """What is asked of prediction sets: a `coverage`, for every value of a property if `by` is given, or a `risk`."""

    coverage: float | None = None
    """The least probability that the set holds the truth."""
    by: str | None = None
    """A property of structures, such as `atoms`: the coverage holds for the truths of each group of its values."""
    risk: float | None = None
    """Upper bound on the mean distance between the truth and the nearest structure of the set."""

    def __post_init__(self) -> None:
        if self.by is not None and self.coverage is None:
            raise ConfigError("goes with a coverage.", where="by", fix="Give a coverage, and no risk.")
        if (self.coverage is None) == (self.risk is None):
            raise ConfigError("give a coverage or a risk, one of them.", where="prediction sets")
        if self.coverage is not None and not (is_number(self.coverage) and 0 < self.coverage < 1):
            raise ConfigError(f"should be a number above 0 and below 1, not {self.coverage!r}.", where="coverage")
        if self.risk is not None and not (is_number(self.risk) and 0 < self.risk < math.inf):
            raise ConfigError(f"should be a finite number above 0, not {self.risk!r}.", where="risk")

    def __str__(self) -> str:
        if self.coverage is None:
            return f"risk at most {self.risk:g}"
        return f"coverage {self.coverage:g}" + (f" for each {self.by}" if self.by else "")


def is_number(value: Any) -> bool:
    """Whether a value is a number that can be compared."""
    return isinstance(value, int | float) and not math.isnan(value)


def promised(coverage: float | None, by: str | None, risk: float | None) -> Promise | None:
    """Return the promise that a user asks for; None if nothing is asked for."""
    return None if coverage is None and by is None and risk is None else Promise(coverage, by, risk)


@dataclasses.dataclass(frozen=True)
class PredictionSets:
    """For each of B inputs the structures of its set, among the K that were found for it."""

    promise: Promise
    found: Decoding
    members: Tensor
    """(B, K) bool: which of the structures found are in the set."""

    def __len__(self) -> int:
        return len(self.members)

    @property
    def sizes(self) -> Tensor:
        """(B,) the number of structures in each set."""
        return self.members.sum(dim=1)

    @property
    def cut(self) -> Tensor:
        """(B,) bool: whether all structures found are in the set, so that there may be more that were not found."""
        return self.members.all(dim=1)

    def notes(self) -> list[str]:
        """For each set `complete`, `empty`, or that it is cut."""
        cut = f"cut at {self.members.shape[1]} structures"
        states = zip(self.sizes.tolist(), self.cut.tolist(), strict=True)
        return [cut if full else "complete" if size else "empty: no structure is near enough" for size, full in states]

    def objects(self, space: OutputSpace[Any, Any], rows: Sequence[int]) -> list[list[Any]]:
        """The structures of the sets of the inputs at `rows`, best first."""
        chosen = torch.tensor(rows, dtype=torch.long)
        owner, place = self.members[chosen].nonzero(as_tuple=True)
        sets: list[list[Any]] = [[] for _ in rows]
        structures = self.found.structures[chosen[owner] * self.found.top_k + place]
        for number, obj in zip(owner.tolist(), space.unpack(structures), strict=True):
            sets[number].append(obj)
        return sets


def prediction_sets(space: OutputSpace[Any, Any], trust: Trust, promise: Promise) -> PredictionSets:
    """Return the sets that hold a promise for the answers of `trust`; refuse one that cannot be held."""
    energies = trust.found.energies
    if promise.risk is not None:
        members = energies <= risk_limit(trust.calibration, promise.risk)
        members[:, 0] = True
    elif promise.by is None:
        members = energies <= require_finite(trust.calibration.scores, promise.coverage or 0, "")
    else:
        members = energies <= limits_by_group(space, trust, promise)
    return PredictionSets(promise, trust.found, members & energies.isfinite())


def sets_for(space: OutputSpace[Any, Any], trust: Trust | None, promise: Promise | None) -> PredictionSets | None:
    """Return the sets of a promise, by default of a coverage of 0.9; None if trust is unknown or this is too much."""
    if trust is None:
        return None
    if promise is not None:
        return prediction_sets(space, trust, promise)
    try:
        return prediction_sets(space, trust, Promise(USUAL))
    except DataError:
        return None


def require_promise(
    model: Model,
    promise: Promise | None,
    least_confidence: float,
    decoder: Choice | None = None,
    candidates: Any | None = None,
    constraints: Any | None = None,
) -> None:
    """Refuse a promise, or a least confidence, that the model cannot keep for such predictions."""
    if not (is_number(least_confidence) and 0 <= least_confidence <= 1):
        raise ConfigError(f"should be a number from 0 to 1, not {least_confidence!r}.", where="min_confidence")
    if promise is None and not least_confidence:
        return
    if reason := without_confidence(model, decoder, candidates, constraints):
        where = "min_confidence" if promise is None else "prediction sets"
        raise ConfigError(f"{reason}.", where=where, fix=ADD_CALIBRATION if model.calibration is None else None)
    if promise is not None:
        assert model.calibration is not None
        nothing = Decoding(model.space.pack([]), torch.zeros(0, model.calibration.structures))
        prediction_sets(model.space, Trust(model.calibration, nothing, torch.zeros(0, len(NAMES))), promise)


def limits_by_group(space: OutputSpace[Any, Any], trust: Trust, promise: Promise) -> Tensor:
    """The threshold (B, K) of each structure found: that of the calibration truths with similar values of `by`."""
    assert promise.by is not None
    assert promise.coverage is not None
    own = property_of(space, trust.found.structures, promise.by).cpu()
    known = trust.calibration.properties[promise.by]
    ends = merged_groups(known, examples_needed(promise.coverage))
    place, names = group_of(known, ends), group_names(known, ends, promise.by)
    limits = [
        require_finite(trust.calibration.scores[place == number], promise.coverage, names[number])
        for number in range(len(ends))
    ]
    return torch.tensor(limits)[group_of(own, ends)].view(trust.found.energies.shape)


def group_names(values: Tensor, ends: Tensor, name: str) -> list[str]:
    """For each group of values, such as `atoms 2 to 7`."""
    place = group_of(values, ends)
    spans = [values[place == number] for number in range(len(ends))]
    return [f"{name} {float(span.min()):g} to {float(span.max()):g}" for span in spans]


def require_finite(scores: Tensor, coverage: float, group: str) -> float:
    """Return the threshold of a coverage; refuse one that so many pairs, or the structures found, cannot give."""
    where, of = "coverage", f" of {group}" if group else ""
    needed = examples_needed(coverage)
    if len(scores) < needed:
        what = f"{coverage:g} needs at least {needed:,} calibration pairs{of}, and there are {len(scores):,}."
        raise DataError(what, where=where, fix=MORE)
    limit = threshold(scores, coverage)
    if math.isinf(limit):
        most = math.floor(1000 * most_coverage(scores)) / 1000
        what = f"{coverage:g} cannot be promised{of}: the truth is not among the structures found often enough."
        more = "ele calibrate RUN --set calibration.structures=100, and a decoder that searches more widely."
        fix = f"Ask for at most {most:g}, or find more structures: {more}" if most else f"Find more structures: {more}"
        raise DataError(what, where=where, fix=fix)
    return limit


def risk_limit(calibration: Calibration, risk: float) -> float:
    """Return the threshold on energies that keeps the expected distance to the nearest structure at most `risk`."""
    if calibration.metric is None:
        raise ConfigError("the output space has no metric that measures a distance.", where="risk")
    limit = risk_threshold(calibration.energies, calibration.losses, risk, calibration.largest_loss)
    if limit is None:
        least = float((calibration.losses[:, -1].sum() + calibration.largest_loss) / (len(calibration) + 1))
        what = f"an expected {calibration.metric} of {risk:g} cannot be promised."
        fix = f"Ask for at least {math.ceil(1000 * least) / 1000:g}. {MORE}"
        raise DataError(what, where="risk", fix=fix)
    return limit
