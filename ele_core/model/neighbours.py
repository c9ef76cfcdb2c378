"""The nearest neighbours of structures by the learned distance, among objects in memory or in chunks of a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ele_core.data.objects import PACKED_AT_ONCE, pack_all
from ele_core.errors import ConfigError, DataError, InvalidObject, ModelError
from ele_core.model.model import Model
from ele_core.numerics.nearest import Nearest
from ele_core.runtime.context import Context
from ele_core.runtime.monitor import Monitor

CHUNK = 8 * PACKED_AT_ONCE
"""Structures that are packed, embedded and compared at once."""
Chunk = tuple[Tensor, Tensor]
"""Numbers (N,) of structures, ascending, and their embeddings (N, dim)."""


@dataclasses.dataclass(frozen=True)
class Neighbours:
    """The nearest neighbours of each of n objects, nearest first."""

    objects: list[list[Any]]
    """The neighbours themselves."""
    distances: npt.NDArray[np.float32]
    """(n, k) the learned squared distance of each."""
    rows: npt.NDArray[np.int64]
    """(n, k) the position of each among the objects that were searched."""


def nearest_among(queries: Tensor, k: int, chunks: Iterable[Chunk]) -> Nearest:
    """Return the k nearest of all chunks for each query (B, dim); fewer if there are not as many."""
    if k < 1:
        raise ConfigError(f"should be at least 1, not {k}.", where="k")
    found = Nearest(queries, k)
    for rows, embeddings in chunks:
        found.add(rows, embeddings)
    return found


def neighbours(
    model: Model, objects: Sequence[Any], k: int, among: Sequence[Any] | None, context: Context
) -> Neighbours:
    """Return the k nearest neighbours of each object `among` others, by default among the training outputs."""
    queries = model.embed(objects, context)
    if among is not None and not len(among):
        raise DataError("there are no objects to search.", where="among", fix="Give at least one.")
    chunks = known_chunks(model, context.monitor) if among is None else object_chunks(model, among, context)
    found = nearest_among(queries, k, chunks)
    rows = found.rows.cpu()
    if among is None:
        assert model.candidates is not None  # else there were no chunks
        flat = model.space.unpack(model.candidates.batch[rows.flatten()])
    else:
        flat = [among[row] for row in rows.flatten().tolist()]
    width = rows.shape[1]
    own = [flat[start : start + width] for start in range(0, len(flat), width or 1)]
    return Neighbours(own, found.distances.cpu().numpy(), rows.numpy())


def known_chunks(model: Model, monitor: Monitor) -> Iterable[Chunk]:
    """Yield the training outputs of a model, each once, in chunks."""
    known = model.candidates
    if known is None:
        fix = "Give the objects to search, or load a model with its candidates."
        raise ModelError("the model has no training outputs.", fix=fix)
    starts = range(0, len(known), CHUNK)
    for start in monitor.progress(starts, description="neighbours"):
        embeddings = known.embeddings[start : start + CHUNK]
        yield torch.arange(start, start + len(embeddings)), embeddings


def object_chunks(model: Model, objects: Sequence[Any], context: Context) -> Iterable[Chunk]:
    """Embed objects chunk by chunk; one that is not in the space raises with its position."""
    starts = range(0, len(objects), CHUNK)
    quiet = context.with_monitor(Monitor())
    for start in context.monitor.progress(starts, description="neighbours"):
        try:
            batch = pack_all(model.space, objects[start : start + CHUNK], quiet)
        except InvalidObject as error:
            error.shift(start)
            raise
        yield torch.arange(start, start + len(batch)), model.surrogate.embed(batch)
