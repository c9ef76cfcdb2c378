"""`ele neighbours`: read the objects, search a file or the training outputs, and make a table of what was found."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ele_core.data.output_file import OutputFile
from ele_core.data.packing import accept
from ele_core.data.rejected import Rejected, parsed, refuse
from ele_core.errors import DataError, counted
from ele_core.files.binary_tables import as_parquet
from ele_core.files.columns import cell_text
from ele_core.files.tables import JSONL, Readers, as_csv, input_places, read_table, suffix_of
from ele_core.model.embedding_cache import EmbeddingCache, Precision, identity_of, written
from ele_core.model.model import Model
from ele_core.model.neighbours import Chunk, known_chunks, nearest_among
from ele_core.model.prediction_table import PARQUET
from ele_core.numerics.nearest import Nearest
from ele_core.runtime.context import Context

COLUMNS = ("object_row", "object", "rank", "neighbour", "neighbour_row", "distance", "status")


@dataclasses.dataclass(frozen=True)
class Objects:
    """The objects of a file whose neighbours are wanted, as texts; `refused` says why some cannot be used."""

    texts: Sequence[str]
    batch: Any
    rows: Sequence[int]
    """The row of each packed object."""
    refused: Mapping[int, str]

    def embeddings(self, model: Model) -> Tensor:
        """Return the embeddings of the packed objects (n, dim)."""
        return model.surrogate.embed(self.batch)


def usual_column(model: Model) -> str | None:
    """Return the column of the outputs in the file that a model was trained on, if there was one."""
    return model.config.data.output if model.config.data else None


def read_objects(model: Model, file: str, column: str | None, readers: Readers) -> Objects:
    """Read and pack the objects of a file; it is an error if none can be used."""
    table = read_table(file, None, readers)
    cells = table.cells(input_places(table, column, usual_column(model)))
    parse, rejected = model.space.parser(dict(model.space.config)), list[Rejected]()
    found = ((row, parsed(parse, cells, row, rejected)) for row in range(len(cells)))
    objects = {row: obj for row, obj in found if obj is not None}
    rows = list(objects)
    parts, accepted, others = accept(list(objects.values()), model.space.pack)
    rejected += [Rejected(rows[at], cell_text(cells[rows[at]]), reason) for at, reason in others]
    if not accepted:
        refuse(rejected, file, skipping=True)
        raise DataError("there are no structures.", where=file, fix="Give one per row.")
    refused = {each.row: each.reason for each in rejected}
    return Objects(
        [cell_text(cell) for cell in cells], model.space.Batch.cat(parts), [rows[at] for at in accepted], refused
    )


class Searched:
    """What is searched: the outputs in a file, or the training outputs of the model."""

    def __init__(self, model: Model, file: str | None, column: str | None, readers: Readers, context: Context) -> None:
        self.model = model
        self.context = context
        self.source = None if file is None else OutputFile(file, model.space, readers, column, usual_column(model))

    def nearest(self, queries: Tensor, k: int, cache: Path | None, *, half: bool = False) -> Nearest:
        """Return the k nearest for each query, of what all processes searched; `half`: a cache in half precision."""
        if self.source is None:
            return nearest_among(queries, k, known_chunks(self.model, self.context.monitor))
        found = nearest_among(queries, k, self._chunks(self.source, cache, "float16" if half else "float32"))
        found = together(found, self.source, self.context)
        self.context.monitor.message(self.source.summary())
        if not found.rows.shape[1]:
            what = f"none of its {counted(self.source.rows, 'row')} is a structure of this model."
            raise DataError(what, where=self.source.file, fix="Check the column.")
        return found

    def texts(self, rows: Tensor) -> dict[int, str]:
        """Return the texts of the structures at `rows`, by their numbers."""
        wanted = sorted(set(rows.flatten().tolist()))
        if self.source is not None:
            return self.source.texts(wanted)
        assert self.model.candidates is not None  # they were searched
        objects = self.model.space.unpack(self.model.candidates.batch[wanted])
        return dict(zip(wanted, map(self.model.space.format, objects), strict=True))

    def _chunks(self, source: OutputFile, cache: Path | None, precision: Precision) -> Iterable[Chunk]:
        if cache is None:
            return self._embedded(source)
        identity = identity_of(self.model, source)
        stored = EmbeddingCache.open(cache, identity)
        if stored is None:
            return written(cache, identity, self._embedded(source), precision, source)
        stored.restore(source)
        self.context.monitor.message(f"embeddings of {source.file}: read from {cache} ({stored.known['precision']})")
        return self.context.monitor.progress(stored.chunks(), description="neighbours", total=stored.count_chunks())

    def _embedded(self, source: OutputFile) -> Iterator[Chunk]:
        for rows, batch in source.chunks(self.context.monitor, self.context.processes):
            yield rows, self.model.surrogate.embed(batch)


def together(found: Nearest, source: OutputFile, context: Context) -> Nearest:
    """Join what all processes found, and count the rows that they left out."""
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


@dataclasses.dataclass(frozen=True)
class NeighbourTable:
    """The neighbours of objects as a table: `distances` and `rows` (n, k), and the texts of these rows."""

    objects: Objects
    distances: Tensor
    rows: Tensor
    texts: Mapping[int, str]

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield a mapping per neighbour, and one for each object that could not be used."""
        place = {row: at for at, row in enumerate(self.objects.rows)}
        distances, rows = self.distances.tolist(), self.rows.tolist()
        for row, text in enumerate(self.objects.texts):
            own = {"object_row": row + 1, "object": text}
            if row in self.objects.refused:
                yield {**own, **dict.fromkeys(COLUMNS[2:-1]), "status": self.objects.refused[row]}
                continue
            at = place[row]
            for rank, (distance, other) in enumerate(zip(distances[at], rows[at], strict=True), start=1):
                found = {"rank": rank, "neighbour": self.texts[other], "neighbour_row": other + 1}
                yield {**own, **found, "distance": float(f"{distance:.6g}"), "status": "ok"}

    def written(self, target: str, *, as_json: bool = False) -> bytes:
        """Return the contents of the file `target`: JSON lines, Parquet, TSV or CSV, by its suffix."""
        suffix, lines = suffix_of(target), list(self.lines())
        if suffix in PARQUET:
            return as_parquet(lines, COLUMNS, target)
        if as_json or suffix in JSONL:
            return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
        return as_csv(lines, COLUMNS, "\t" if suffix == ".tsv" else ",").encode()
