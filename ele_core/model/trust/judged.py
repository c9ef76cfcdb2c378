"""How far answers can be trusted: a calibration judges their energies, and those of structures found beside them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from ele_core.data.truths import Truths
from ele_core.model.model import Model
from ele_core.model.trust.calibration import Calibration, fit_calibration
from ele_core.runtime.context import Context
from ele_core.types import Choice, Decoding

UNCALIBRATED = "no confidence: this model has no calibration"


@dataclasses.dataclass(frozen=True)
class Trust:
    """The confidence of the answers for B inputs."""

    calibration: Calibration
    found: Decoding
    """The structures found for each input, more than were asked for."""
    signals: Tensor
    """(B, 5) what decoding knows of the answers."""

    @property
    def confidence(self) -> Tensor:
        """(B,) the probability that the answer is exact; 0 where there is none."""
        return self.calibration.confidence(self.signals) * self.found.answered

    @property
    def expected(self) -> Mapping[str, Tensor]:
        """Name of a metric → (B,) its expected value, at most the largest that an answer of the calibration had."""
        model, name = self.calibration.expected, self.calibration.metric
        if model is None or name is None:
            return {}
        return {name: model(self.signals).clamp(max=float(self.calibration.losses[:, 0].max()))}


def without_confidence(
    model: Model, decoder: Choice | None, candidates: Any | None = None, constraints: Any | None = None
) -> str:
    """Return why predictions have no confidence; empty if they have."""
    if model.calibration is None:
        return UNCALIBRATED
    if constraints is not None:
        return "no confidence: the model was not calibrated with these constraints"
    if candidates is not None:
        return "no confidence: the model was calibrated with its own candidates"
    if not model.calibration.fits(model.config, decoder):
        own = model.calibration.decoder.name
        return f"no confidence: the model was calibrated for other options of decoding ({own}); calibrate it for these"
    return ""


def calibrate(model: Model, values: Sequence[Any], truths: Truths, source: str, context: Context) -> Model:
    """Return the model with a calibration learned from pairs; none of its stages should have seen them."""
    return calibrate_with(model, to_judge(model, values, context), truths, source)


def calibrate_with(model: Model, found: Decoding, truths: Truths, source: str) -> Model:
    """Return the model with a calibration learned from what `to_judge` found for the inputs of pairs."""
    learned = fit_calibration(model.config, model.space, found, found.nearest, truths, source)
    return dataclasses.replace(model, calibration=learned)


def to_judge(model: Model, values: Sequence[Any], context: Context) -> Decoding:
    """Decode for inputs as many structures as a calibration looks at, with the least energy of a candidate."""
    assert model.candidates is not None
    many = min(model.config.calibration.structures, len(model.candidates))
    queries = model.queries(values)
    found = model.decode(queries, top_k=many, constraints=model.implied(values), context=context)
    return dataclasses.replace(found, nearest=candidate_energies(model, found, queries, None, context))


def candidate_energies(
    model: Model, found: Decoding, queries: Tensor, decoder: Choice | None, context: Context
) -> Tensor | None:
    """The least energy (B,) of a candidate for each query; None if the decoder does not look at candidates.

    Most decoders tell it with what they found.
    """
    if found.nearest is not None or not model.decoder(decoder or model.config.decoder).uses_candidates:
        return found.nearest
    return model.nearest_candidates(queries, context)
