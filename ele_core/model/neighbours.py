"""The nearest neighbours of structures by the learned distance: in memory, in a file of any length or in an index."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ele_core.data.objects import CHUNK, Objects, OutputFile, pack_all, read_outputs, refuse
from ele_core.errors import ConfigError, DataError, InvalidObject, ModelError, counted
from ele_core.files.columns import Cell
from ele_core.files.tables import Readers, input_places, read_table
from ele_core.model.index import is_index, open_index
from ele_core.model.model import Model
from ele_core.numerics.nearest import Nearest
from ele_core.runtime.context import Context
from ele_core.runtime.monitor import Monitor

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

    def __repr__(self) -> str:
        return f"Neighbours({' × '.join(map(str, self.rows.shape))}: objects, distances, rows)"


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


# -- files --------------------------------------------------------------------------------------------------------


def usual_column(model: Model) -> str | None:
    """Return the column of the outputs in the file that a model was trained on, if there was one."""
    return model.config.data.output if model.config.data else None


def read_queries(model: Model, file: str, column: str | None, readers: Readers) -> tuple[Sequence[Cell], Objects]:
    """Read the structures of a file whose neighbours are wanted: its cells, and what of them could be packed."""
    table = read_table(file, None, readers)
    cells = table.cells(input_places(table, column, usual_column(model)))
    found = read_outputs(model.space, cells)
    if not len(found):
        refuse(found.rejected, file, skipping=True)
        raise DataError("there are no structures.", where=file, fix="Give one per row.")
    return cells, found


class Searched:
    """What is searched: an index, the outputs in a file, or the training outputs of the model."""

    def __init__(self, model: Model, among: str | None, column: str | None, readers: Readers, context: Context) -> None:
        self.model = model
        self.context = context
        self.indexed = open_index(Path(among), model) if among is not None and is_index(among) else None
        self.source = None
        if among is not None and self.indexed is None:
            self.source = OutputFile(among, model.space, readers, column, usual_column(model))

    def nearest(self, queries: Tensor, k: int) -> Found:
        """Find the k nearest for each query, of what all processes searched."""
        if self.indexed is not None:
            distances, places = self.indexed.nearest(queries, k)
            return Found(distances, self.indexed.rows(places), self._formatted(self.indexed.structures, places))
        if self.source is None:
            known = nearest_among(queries, k, known_chunks(self.model, self.context.monitor))
            assert self.model.candidates is not None  # they were searched
            return Found(known.distances, known.rows, self._formatted(self.model.candidates.batch, known.rows))
        found = together(nearest_among(queries, k, self._embedded(self.source)), self.source, self.context)
        self.context.monitor.message(self.source.summary())
        if not found.rows.shape[1]:
            what = f"none of its {counted(self.source.rows, 'row')} is a structure of this model."
            raise DataError(what, where=self.source.file, fix="Check the column.")
        rows = found.rows.flatten().tolist()
        known_texts = self.source.texts(rows) if self.context.processes.main else {}
        return Found(found.distances, found.rows, [known_texts.get(row, "") for row in rows])

    def _formatted(self, structures: Any, places: Tensor) -> list[str]:
        """The texts of the structures at `places` (B, k), one after the other."""
        objects = self.model.space.unpack(structures[places.flatten().cpu()])
        return list(map(self.model.space.texts.format, objects))

    def _embedded(self, source: OutputFile) -> Iterator[Chunk]:
        for rows, batch in source.chunks(self.context.monitor, self.context.processes):
            yield rows, self.model.surrogate.embed(batch)


@dataclasses.dataclass(frozen=True)
class Found:
    """The neighbours of each query, nearest first."""

    distances: Tensor
    """(B, k)"""
    rows: Tensor
    """(B, k) their numbers, counted from 0."""
    texts: Sequence[str]
    """Those of the first query, then those of the second, and so on."""


def together(found: Nearest, source: OutputFile, context: Context) -> Nearest:
    """Join what all processes found, and count the rows that they skipped."""
    if context.processes.count == 1:
        return found
    own = {"distances": found.distances.cpu(), "rows": found.rows.cpu(), "left_out": torch.tensor(source.left_out)}
    parts = context.processes.gather_named(own)
    source.left_out = sum(int(part["left_out"]) for part in parts)
    rows = torch.cat([part["rows"] for part in parts], dim=1)
    by_row = rows.argsort(dim=1)
    distances = torch.cat([part["distances"] for part in parts], dim=1).gather(1, by_row)
    distances, order = distances.sort(dim=1, stable=True)
    found.rows = rows.gather(1, by_row).gather(1, order)[:, : found.k]
    found.distances = distances[:, : found.k]
    return found
