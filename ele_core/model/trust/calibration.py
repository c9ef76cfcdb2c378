"""A calibration: what held-out pairs teach about the trust that predictions deserve, fitted, saved and loaded."""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from ele_core.config import RunConfig
from ele_core.data.dataset import LEAST_CALIBRATION
from ele_core.data.truths import Truths
from ele_core.errors import DataError, ModelError, counted
from ele_core.files.archive import brief, read_json, read_tensors, save_tensors
from ele_core.files.atomic import write_text
from ele_core.interfaces import OutputSpace
from ele_core.numerics.regression import LinearModel, fit_linear
from ele_core.runtime.work import Snapshot, prefixed
from ele_core.types import Choice, Decoding, Metric

NAMES = ("energy", "margin", "ratio", "crowd", "candidate")
"""The signals, in the order of the columns of `signals`. A higher value of each means less trust."""
FAR = 10.0
"""Structures that were not found count as this many times the typical energy away."""
NEAR = 1e-3
"""Energies below this share of the typical one are not distinguished."""


def signals(energies: Tensor, candidate: Tensor | None, scale: float) -> Tensor:
    """One row of signals per query: (B, 5), from the ascending energies (B, K) of the structures found.

    `candidate` (B,) is the least energy of a candidate, None: not known. `scale` is a typical energy of an answer.

    - energy: log of the energy of the answer;
    - margin: minus the log of how much higher the energy of the next structure is;
    - ratio: the energy of the answer divided by that of the next structure;
    - crowd: the mean of this ratio over all further structures;
    - candidate: the energy of the answer divided by that of the nearest candidate, 1 if this is the answer.
    """
    known = energies.double().nan_to_num(posinf=FAR * scale)
    first = known[:, :1]
    further = torch.where(energies[:, 1:].isinf(), first + FAR * scale, known[:, 1:])
    floor = NEAR * scale
    ratios = (first + floor) / (further + floor)
    columns = [
        (first[:, 0] + floor).log(),
        -(further[:, 0] - first[:, 0] + floor).log(),
        ratios[:, 0],
        ratios.mean(dim=1),
        torch.ones_like(first[:, 0]) if candidate is None else (first[:, 0] + floor) / (candidate.double() + floor),
    ]
    return torch.stack(columns, dim=1)


RANKS = 5
"""Structures of an input that are compared with its truth by a metric; further ones are not nearer by assumption."""


def rank_of_truth(space: OutputSpace[Any, Any], found: Decoding, truths: Truths) -> Tensor:
    """The place (B,) of the first right structure among those found for each input, counted from 0; −1: none is."""
    k = found.top_k
    keys = space.keys(found.structures).view(len(truths), k, -1)
    same = (truths.of_examples(keys) == space.keys(truths.outputs)[:, None]).all(dim=2)
    same &= truths.of_examples(found.energies.isfinite())
    places = torch.where(same, torch.arange(k), k).amin(dim=1)
    first = truths.best(places, "min")
    return torch.where(first < k, first, -1)


def energy_of_truth(found: Decoding, rank: Tensor) -> Tensor:
    """The energy (B,) of the right structure at `rank` (B,); infinite if there is none."""
    own = found.energies.gather(1, rank.clamp(min=0)[:, None])[:, 0].double()
    return torch.where(rank >= 0, own, torch.inf)


def nearest_losses(space: OutputSpace[Any, Any], found: Decoding, truths: Truths, metric: Metric[Any]) -> Tensor:
    """The least value (B, K) of a metric among the first k structures of each input, for k from 1 to K.

    The metric has direction `min`. Only structures before the first right one are compared, and only `RANKS` of them.
    """
    k, rank = found.top_k, rank_of_truth(space, found, truths)
    losses = torch.empty(len(truths), k, dtype=torch.double)
    current = torch.full((len(truths),), torch.inf, dtype=torch.double)
    for place in range(k):
        current = torch.where(rank == place, 0.0, current)
        open_rows = ((current > 0) & found.energies[:, place].isfinite()).nonzero().flatten()
        if place < RANKS and len(open_rows):
            values = values_of(metric, found.structures[open_rows * k + place], truths, open_rows)
            current[open_rows] = torch.minimum(current[open_rows], values)
        losses[:, place] = current
    return losses


def values_of(metric: Metric[Any], predicted: Any, truths: Truths, rows: Tensor) -> Tensor:
    """The best value of a metric over the truths of the examples `rows`, for one predicted structure each."""
    place = torch.full((len(truths),), -1)
    place[rows] = torch.arange(len(rows))
    own = (place[truths.example] >= 0).nonzero().flatten()
    chosen = Truths(truths.outputs[own], place[truths.example[own]])
    return chosen.best(metric.worst_and_best(chosen.of_examples(predicted), chosen.outputs)[0].double().cpu(), "min")


FILE, TENSORS = "calibration.json", "calibration.safetensors"
FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Calibration:
    """The confidence of the predictions of a model with one decoder, learned from pairs that it was not fitted to.

    n pairs, for each of which up to K structures were found.
    """

    decoder: Choice
    share: float
    """The share of the candidates that the decoder saw."""
    constraints: Mapping[str, Any]
    """The constraints that followed from the inputs, as configured."""
    structures: int
    """The number K of structures to find for each input."""
    source: str
    """The pairs it was made from: a split of the run, or a file."""
    date: str
    scale: float
    """A typical energy of an answer."""
    largest_loss: float
    metric: str | None
    """The metric that `expected` and `losses` are of; None: the output space has none to be small."""
    confidence: LinearModel
    """Signals → the probability that the answer is exact."""
    expected: LinearModel | None
    """Signals → the expected value of the metric."""
    scores: Tensor
    """(n,) the energy of the truth; infinite if it was not found."""
    energies: Tensor
    """(n, K) the energies of the structures found."""
    losses: Tensor
    """(n, K) the metric of the nearest of the first k structures, at most `largest_loss`; empty without a metric."""
    properties: Mapping[str, Tensor]
    """(n,) each property of the truths."""
    signals: Tensor
    """(n, 5) the signals of the answers."""
    right: Tensor
    """(n,) whether the answer is exact."""

    def __len__(self) -> int:
        return len(self.scores)

    def fits(self, config: RunConfig, decoder: Choice | None = None) -> bool:
        """Whether predictions with this configuration and decoder are made as those it was learned from."""
        own = config.candidates.share, config.constraints
        return (decoder or config.decoder) == self.decoder and own == (self.share, self.constraints)


def fit_calibration(
    config: RunConfig,
    space: OutputSpace[Any, Any],
    found: Decoding,
    candidate: Tensor | None,
    truths: Truths,
    source: str,
) -> Calibration:
    """Learn from the structures `found` for the inputs of pairs, and the least energy of a `candidate` for each."""
    if len(truths) < LEAST_CALIBRATION:
        what = f"too few to calibrate with: {counted(len(truths), 'pair')}, and at least {LEAST_CALIBRATION} are needed"
        raise DataError(f"{what}.", where=source, fix="Give more pairs.")
    if not bool(found.answered.any()):
        what = "no input has an answer that satisfies its constraint"
        raise DataError(f"{what}: there is nothing to calibrate.", where=source, fix="Check the section `constraints`.")
    scale = typical(found.energies)
    rank, known = rank_of_truth(space, found, truths), signals(found.energies, candidate, scale)
    right = rank == 0
    metric = next((metric for metric in space.metrics if metric.direction == "min"), None)
    losses = torch.empty(0, 0, dtype=torch.double) if metric is None else nearest_losses(space, found, truths, metric)
    largest = config.calibration.largest_loss
    losses = losses.where(losses.isfinite(), largest)  # no answer
    return Calibration(
        decoder=config.decoder,
        share=config.candidates.share,
        constraints=config.constraints,
        structures=found.top_k,
        source=source,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        scale=scale,
        largest_loss=largest,
        metric=None if metric is None else metric.name,
        confidence=fit_linear(known, right, "logistic"),
        expected=None if metric is None else fit_linear(known, losses[:, 0], "poisson"),
        scores=energy_of_truth(found, rank),
        energies=found.energies.double(),
        losses=losses.clamp(max=largest),
        properties=properties_of(space, found, truths, rank),
        signals=known,
        right=right,
    )


def properties_of(space: OutputSpace[Any, Any], found: Decoding, truths: Truths, rank: Tensor) -> dict[str, Tensor]:
    """Each property (B,) of the right structure at `rank`; of the first truth if none was found."""
    own = space.show.properties(found.structures[torch.arange(len(truths)) * found.top_k + rank.clamp(min=0)])
    first = space.show.properties(truths.first)
    return {name: torch.where(rank >= 0, own[name].cpu().double(), first[name].cpu().double()) for name in own}


# -- files --------------------------------------------------------------------------------------------------------


class Described(BaseModel):
    """The plain values of a calibration, as `calibration.json` must hold them."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    share: float = Field(gt=0, le=1)
    constraints: dict[str, str | int | float]
    structures: int = Field(ge=2)
    source: str
    date: str
    scale: float = Field(gt=0)
    largest_loss: float = Field(gt=0)
    metric: str | None


PLAIN = tuple(Described.model_fields)
ARRAYS = ("scores", "energies", "losses", "signals", "right")
LINEAR = ("confidence", "expected")


def save_calibration(calibration: Calibration, folder: Path) -> None:
    """Write `calibration.json` and `calibration.safetensors`."""
    values = {name: getattr(calibration, name) for name in PLAIN}
    decoder = calibration.decoder.model_dump(mode="json")
    content = {"format": FORMAT, "decoder": decoder, "signals": NAMES, **values}
    write_text(folder / FILE, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    tensors = {name: getattr(calibration, name) for name in ARRAYS} | prefixed("property", calibration.properties)
    for name in LINEAR:
        if (model := getattr(calibration, name)) is not None:
            tensors |= prefixed(name, model.state())
    save_tensors(folder / TENSORS, {name: value.contiguous() for name, value in tensors.items()})


def read_calibration(folder: Path, space: OutputSpace[Any, Any]) -> Calibration:
    """Load what `save_calibration` wrote for a model of `space`; refuse what is damaged."""
    content, tensors = read_json(folder / FILE), read_tensors(folder / TENSORS)
    try:
        if content["format"] != FORMAT or tuple(content["signals"]) != NAMES:
            raise ModelError("made by another version of ELE.", where=str(folder / FILE), fix="Calibrate again.")
        stored = Snapshot(tensors)
        plain = Described.model_validate({name: content[name] for name in PLAIN}).model_dump()
        plain |= {name: tensors[name] for name in ARRAYS}
        linear = {name: stored.part(name) for name in LINEAR}
        found = Calibration(
            decoder=Choice.model_validate(content["decoder"]),
            confidence=LinearModel("logistic", **linear["confidence"]),
            expected=LinearModel("poisson", **linear["expected"]) if linear["expected"] else None,
            properties=stored.part("property"),
            **plain,
        )
    except ValidationError as error:
        first = error.errors()[0]
        what = f"damaged: '{brief('.'.join(map(str, first['loc'])), 60)}': {brief(first['msg'], 200)}."
        raise ModelError(what, where=str(folder / FILE), fix="Calibrate again.") from None
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"damaged: {brief(error)}.", where=str(folder / FILE), fix="Calibrate again.") from None
    if problem := shape_problem(found) or value_problem(found, space):
        raise ModelError(f"damaged: {problem}.", where=str(folder / TENSORS), fix="Calibrate again.")
    return found


def shape_problem(found: Calibration) -> str | None:
    """Return why the shapes and types of the tensors of a calibration do not go together, or None."""
    n, k, signals_known = found.scores.numel(), found.structures, (len(NAMES),)
    shapes = {"scores": (n,), "energies": (n, k), "signals": (n, *signals_known), "right": (n,)}
    shapes["losses"] = (n, k) if found.metric is not None else (0, 0)
    known = {name: (getattr(found, name), shape) for name, shape in shapes.items()}
    known |= {f"property.{brief(name, 60)}": (value, (n,)) for name, value in found.properties.items()}
    for part, model in zip(LINEAR, (found.confidence, found.expected), strict=True):
        fitted = {} if model is None else model.state()
        known |= {f"{part}.{name}": (each, () if name == "bias" else signals_known) for name, each in fitted.items()}
    for name, (tensor, shape) in known.items():
        if tuple(tensor.shape) != shape:
            return f"'{name}' has the shape {tuple(tensor.shape)} instead of {shape}"
        if tensor.dtype != (torch.bool if name == "right" else torch.double):
            return f"the numbers of '{name}' are {str(tensor.dtype).removeprefix('torch.')}"
    return None


def value_problem(found: Calibration, space: OutputSpace[Any, Any]) -> str | None:
    """Return why the values of a calibration cannot have been fitted for `space`, or None."""
    if not len(found):
        return "there are no pairs"
    linear = [model for model in (found.confidence, found.expected) if model is not None]
    numbers = [value for model in linear for value in model.state().values()]
    if not all(bool(value.isfinite().all()) for value in (*numbers, found.signals, found.losses)):
        return "it holds NaN or infinity"
    if bool(found.scores.isnan().any() or found.energies.isnan().any()):
        return "it holds NaN"
    if not all(bool((model.deviation > 0).all()) for model in linear):
        return "a deviation is not positive"
    if (found.expected is None) != (found.metric is None) or found.metric not in {
        None,
        *(m.name for m in space.metrics),
    }:
        return f"the metric '{brief(found.metric, 60)}' is not one of the output space that it was fitted to"
    if not math.isclose(found.scale, typical(found.energies), rel_tol=1e-6):
        return "its scale is not that of its energies"
    return None


def typical(energies: Tensor) -> float:
    """The median energy of the first of the structures that were found: energies (n, K)."""
    found = energies[:, 0].double()
    return float(found[found.isfinite()].median().clamp(min=1e-12))
