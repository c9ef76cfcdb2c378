"""Inputs that are decoded again for a page: the steps of each decoder, and how often the truth is among the first k."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ele_core.errors import EleError, ModelError
from ele_core.files.archive import read_json
from ele_core.files.atomic import write_text
from ele_core.model.model import Model
from ele_core.report.drawings import Drawings
from ele_core.report.measured import Measured
from ele_core.runtime.context import Context
from ele_core.types import Choice, Trace

TRIED, SHOWN = 8, 3
"""How many inputs per group are decoded, fewer if the decoder is slow, and how many of them are shown: those with the
most structures."""


def trajectories(
    model: Model,
    queries: Tensor,
    measured: Measured,
    groups: Mapping[str, Sequence[int]],
    drawings: Drawings,
    affordable: Affordable,
    context: Context,
) -> list[dict[str, Any]]:
    """The steps of every decoder that records a trace, for some rows of each group; `queries` are of all rows.

    Each has its decoder, the decoder's note on what the steps are, group and row, and lists by step: `steps`,
    `energies`, `scores` (the primary metric), `best_scores` (its better bound), `drawings`; `truth` is a drawing too.
    """
    wanted = interleaved([group[:TRIED] for group in groups.values()])
    constraints = measured.constraints(model)
    found: list[dict[str, Any]] = []
    for decoder in usable(model) if wanted else ():
        if not model.decoder(decoder).traces:
            continue
        rows = wanted[: affordable("trajectories", model, queries[wanted], decoder, context=context)]
        bound = [constraints[row] for row in rows]
        trace = model.decode(queries[rows], decoder, constraints=bound, trace=True, context=context).trace
        if trace is None:
            continue
        about = {"decoder": decoder.name, "note": model.decoder(decoder).trace_note}
        truths = [measured.texts["truth"][row] for row in rows]
        ways = [followed(model, trace, place, truth) for place, truth in enumerate(truths)]
        for group, members in groups.items():
            own = [rows.index(row) for row in members[:TRIED] if row in rows]
            for place in sorted(sorted(own, key=lambda place: -len(set(ways[place]["texts"])))[:SHOWN]):
                truth, texts = truths[place], ways[place].pop("texts")
                drawn = {"drawings": [drawings.number(text, truth) for text in texts], "truth": drawings.number(truth)}
                found.append({**about, "group": group, "row": rows[place], **ways[place], **drawn})
    return found


def interleaved(groups: Sequence[Sequence[int]]) -> list[int]:
    """The first row of each group, then the second of each, and so on."""
    return [row for ranked in zip_longest(*groups) for row in ranked if row is not None]


def followed(model: Model, trace: Trace, place: int, truth: str) -> dict[str, list[Any]]:
    """The steps of the input at index `place`, without the last ones if they change nothing; not drawn yet."""
    space = model.space
    structures = space.Batch.cat([batch[place : place + 1] for batch in trace.structures])
    true = space.pack([space.texts.parse(truth)])[torch.zeros(len(structures), dtype=torch.long)]
    scores, best = space.metrics[0].worst_and_best(structures, true)
    texts = [space.texts.format(obj) for obj in space.unpack(structures)]
    energies = [float(f"{energies[place].item():.4g}") for energies in trace.energies]
    end = without_rest(texts, energies)
    columns = {"steps": trace.steps, "texts": texts, "energies": energies}
    return {
        **{name: list(column)[:end] for name, column in columns.items()},
        **{"scores": scores[:end].tolist(), "best_scores": best[:end].tolist()},
    }


def without_rest(texts: Sequence[str], energies: Sequence[float]) -> int:
    """How many steps are left without the last ones that change nothing; at least two if there are so many."""
    end = len(texts)
    while end > 2 and (texts[end - 1], energies[end - 1]) == (texts[end - 2], energies[end - 2]):
        end -= 1
    return end


def usable(model: Model) -> list[Choice]:
    """The configured decoder and all other installed ones that work with this model."""
    configured = model.config.decoder
    others = [Choice(name=name) for name in model.config.registry.names("decoder") if name != configured.name]
    return [choice for choice in (configured, *others) if model.can_use(choice)]


SECONDS = 60.0
"""How long a decoder may take for one part of the page."""
TIMED = 2
"""Inputs that are decoded to measure the time."""


class Affordable:
    """How many inputs a decoder can decode in `SECONDS`, measured once: the next page of a run shows the same inputs.

    `file` keeps the numbers, under the `key` of the model and what is shown of it.
    """

    def __init__(self, file: Path, key: str) -> None:
        self.file = file
        self.all = kept_counts(file)
        self.known = self.all.setdefault(key, {})

    def __call__(self, part: str, model: Model, queries: Tensor, decoder: Choice | None = None, **options: Any) -> int:
        """The number for a `part` of the page: at most that of the queries, at least `TIMED` if there are so many."""
        name = f"{part} {(decoder or model.config.decoder).name}"
        if name not in self.known:
            started = time.monotonic()
            model.decode(queries[:TIMED], decoder, **options)
            self.known[name] = int(SECONDS * TIMED / max(time.monotonic() - started, 1e-9))
        return min(len(queries), max(TIMED, self.known[name]))

    def save(self) -> None:
        """Keep the numbers for the next page, if the folder can be written."""
        with suppress(OSError):
            write_text(self.file, json.dumps(self.all, indent=2) + "\n")


def kept_counts(file: Path) -> dict[str, dict[str, int]]:
    """The numbers in a file, by key and part; none if there is no such file or it is damaged."""
    try:
        found = read_json(file)
        return {str(key): {str(part): int(count) for part, count in own.items()} for key, own in found.items()}
    except (ModelError, AttributeError, TypeError, ValueError, OverflowError):
        return {}


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


def ranks(
    model: Model,
    queries: Tensor,
    truths: Any,
    affordable: Affordable,
    context: Context,
    constraints: Sequence[Any | None] | None = None,
) -> Ranks | None:
    """Decode the first inputs once more, for as many answers as are shown; None if the decoder gives only one.

    `constraints` are those that follow from the inputs.
    """
    deepest = min(FIRST[-1], len(model.candidates or ()))
    if not len(queries) or deepest < 2:
        return None
    try:
        count = affordable("ranks", model, queries[:MOST], top_k=deepest, context=context)
        bound = None if constraints is None else constraints[:count]
        decoding = model.decode(queries[:count], top_k=deepest, constraints=bound, context=context)
    except EleError:  # fewer answers than asked for: a small share of the candidates, or a decoder with one answer
        return None
    keys = model.space.keys(decoding.structures).view(count, deepest, -1)
    right = (keys == model.space.keys(truths[:count]).unsqueeze(1)).all(dim=2) & decoding.energies.isfinite()
    found = right.cummax(dim=1).values.float().mean(dim=0).tolist()
    return Ranks(count, deepest, [(k, found[k - 1]) for k in FIRST if k <= deepest])
