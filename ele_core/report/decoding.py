"""Inputs that are decoded again for a page: the steps of each decoder, and how often the truth is among the first k."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor

from ele_core.errors import EleError
from ele_core.model.model import Model
from ele_core.report.drawings import Drawings
from ele_core.report.measured import Measured
from ele_core.runtime.context import Context
from ele_core.types import Choice, Metric, Trace

TRIED, SHOWN = 8, 3
"""How many inputs per group are decoded, fewer if the decoder is slow, and how many of them are shown: those with the
most structures."""


@dataclasses.dataclass(frozen=True)
class Trajectory:
    """The steps of one decoder for one input, from start to end."""

    decoder: str
    note: str
    """What the steps are, as the decoder declares it."""
    group: str
    row: int
    truth: int
    """The number of the drawing of the truth."""
    steps: list[int]
    energies: list[float]
    scores: list[float]
    """The primary metric of the structure at each step."""
    best_scores: list[float]
    """The best values that these can have: the same unless the metric has bounds."""
    drawings: list[int]


def trajectories(
    model: Model,
    queries: Tensor,
    measured: Measured,
    groups: Mapping[str, Sequence[int]],
    drawings: Drawings,
    context: Context,
) -> list[Trajectory]:
    """Trajectories of every decoder that records a trace, for some rows of each group; `queries` are of all rows."""
    wanted = interleaved([group[:TRIED] for group in groups.values()])
    if not wanted:
        return []
    metric = next(iter(model.space.metrics))
    found = []
    for decoder in traceable(model):
        rows = wanted[: affordable(model, queries[wanted], decoder, context=context)]
        trace = model.decode(queries[rows], decoder, trace=True, context=context).trace
        if trace is None:
            continue
        note = model.decoder(decoder).trace_note
        ways = [followed(model, trace, place, metric, measured.texts["truth"][row]) for place, row in enumerate(rows)]
        for group, members in groups.items():
            own = [rows.index(row) for row in members[:TRIED] if row in rows]
            longest = sorted(own, key=lambda place: -len(set(ways[place].texts)))[:SHOWN]
            found += [ways[place].drawn(decoder.name, note, group, rows[place], drawings) for place in sorted(longest)]
    return found


def interleaved(groups: Sequence[Sequence[int]]) -> list[int]:
    """The first row of each group, then the second of each, and so on."""
    return [row for ranked in zip_longest(*groups) for row in ranked if row is not None]


@dataclasses.dataclass(frozen=True)
class Way:
    """A trajectory as texts, not drawn yet: most are never shown."""

    steps: list[int]
    texts: list[str]
    energies: list[float]
    scores: list[float]
    best_scores: list[float]
    truth: str

    def drawn(self, decoder: str, note: str, group: str, row: int, drawings: Drawings) -> Trajectory:
        """The trajectory, with every structure drawn against the truth."""
        numbers = [drawings.number(text, self.truth) for text in self.texts]
        truth = drawings.number(self.truth)
        measures = self.steps, self.energies, self.scores, self.best_scores
        return Trajectory(decoder, note, group, row, truth, *measures, numbers)


def followed(model: Model, trace: Trace, place: int, metric: Metric[Any], truth: str) -> Way:
    """The way of the input at index `place`, without the last steps if they change nothing."""
    structures = model.space.Batch.cat([batch[place : place + 1] for batch in trace.structures])
    true = model.space.pack([model.space.texts.parse(truth)])
    scores, best = metric.worst_and_best(structures, true[torch.zeros(len(structures), dtype=torch.long)])
    texts = [model.space.texts.format(obj) for obj in model.space.unpack(structures)]
    energies = [float(f"{energies[place].item():.4g}") for energies in trace.energies]
    end = without_rest(texts, energies)
    measures = energies[:end], scores[:end].tolist(), best[:end].tolist()
    return Way(list(trace.steps)[:end], texts[:end], *measures, truth)


def without_rest(texts: Sequence[str], energies: Sequence[float]) -> int:
    """How many steps are left without the last ones that change nothing; at least two if there are so many."""
    end = len(texts)
    while end > 2 and (texts[end - 1], energies[end - 1]) == (texts[end - 2], energies[end - 2]):
        end -= 1
    return end


def traceable(model: Model) -> list[Choice]:
    """The decoders of `usable` that record a trace."""
    return [choice for choice in usable(model) if model.decoder(choice).traces]


def usable(model: Model) -> list[Choice]:
    """The configured decoder and all other installed ones that work with this model."""
    configured = model.config.decoder
    others = [Choice(name=name) for name in model.config.registry.names("decoder") if name != configured.name]
    return [choice for choice in (configured, *others) if works(model, choice)]


def works(model: Model, choice: Choice) -> bool:
    """Whether a decoder accepts this model."""
    try:
        model.decoder(choice)
    except EleError:
        return False
    return True


SECONDS = 60.0
"""How long a decoder may take for one part of the page."""
TIMED = 2
"""Inputs that are decoded to measure the time."""


def affordable(
    model: Model, queries: Tensor, decoder: Choice | None = None, *, top_k: int = 1, context: Context
) -> int:
    """How many of the queries can be decoded in `SECONDS`, judged by the first ones; at least these."""
    started = time.monotonic()
    model.decode(queries[:TIMED], decoder, top_k=top_k, context=context)
    seconds = max(time.monotonic() - started, 1e-9) / TIMED
    return min(len(queries), max(TIMED, int(SECONDS / seconds)))


MOST = 200
"""How many inputs are decoded again, or fewer if the decoder is slow; more would cost as much as an evaluation."""
FIRST = (1, 2, 3, 5, 10)
"""The numbers k of first answers that are shown."""


@dataclasses.dataclass(frozen=True)
class Ranks:
    """The share of truths among the first k answers, as pairs (k, share), measured on `count` inputs."""

    count: int
    deepest: int
    shares: list[tuple[int, float]]


def ranks(model: Model, queries: Tensor, truths: Any, context: Context) -> Ranks | None:
    """Decode the first inputs once more, for as many answers as are shown; None if the decoder gives only one."""
    deepest = min(FIRST[-1], len(model.candidates or ()))
    if not len(queries) or deepest < 2:
        return None
    try:
        count = affordable(model, queries[:MOST], top_k=deepest, context=context)
        decoding = model.decode(queries[:count], top_k=deepest, context=context)
    except EleError:  # fewer answers than asked for: a small share of the candidates, or a decoder with one answer
        return None
    keys = model.space.keys(decoding.structures).view(count, deepest, -1)
    right = (keys == model.space.keys(truths[:count]).unsqueeze(1)).all(dim=2) & decoding.energies.isfinite()
    found = right.cummax(dim=1).values.float().mean(dim=0).tolist()
    return Ranks(count, deepest, [(k, found[k - 1]) for k in FIRST if k <= deepest])
