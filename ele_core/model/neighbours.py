"""The nearest neighbours of structures by the learned distance, in memory or in a file of any length.

The embeddings of a file can be kept in a folder for the next search.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ele_core.data.objects import CHUNK, Objects, OutputFile, pack_all, read_outputs, refuse
from ele_core.errors import ConfigError, DataError, InvalidObject, ModelError, counted
from ele_core.files.archive import read_json
from ele_core.files.atomic import new_folder, write_text
from ele_core.files.columns import Cell
from ele_core.files.sources import bytes_of
from ele_core.files.tables import Readers, input_places, read_table
from ele_core.model.model import Model
from ele_core.numerics.nearest import Nearest
from ele_core.runtime.context import Context
from ele_core.runtime.monitor import Monitor

Chunk = tuple[Tensor, Tensor]
"""Numbers (N,) of structures, ascending, and their embeddings (N, dim)."""
Precision = Literal["float32", "float16"]
FORMAT = 1
"""The version of a cache of embeddings."""
LARGEST = 1 << 20
"""Bytes of the largest description."""
ROWS, EMBEDDINGS, DESCRIPTION = "rows.i64", "embeddings.bin", "embeddings.json"


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
        return dict(zip(wanted, map(self.model.space.texts.format, objects), strict=True))

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


@dataclasses.dataclass(frozen=True)
class EmbeddingCache:
    """A folder with row numbers, embeddings, and a description that says of which file and by which model."""

    folder: Path
    known: dict[str, Any]

    @classmethod
    def open(cls, folder: Path, identity: dict[str, Any]) -> EmbeddingCache | None:
        """Return the cache in a folder; None if there is none, an error if it is of another file or model."""
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return None
        fix = "Choose another folder, or remove it."
        if not (folder / DESCRIPTION).is_file():
            raise ModelError("the folder is not empty, and it is no cache.", where=str(folder), fix=fix)
        known = read_json(folder / DESCRIPTION, LARGEST)
        if not isinstance(known, dict) or {name: known.get(name) for name in identity} != identity:
            raise ModelError("holds embeddings of another file, column or model.", where=str(folder), fix=fix)
        cache = cls(folder, known)
        if not cache.whole():
            raise ModelError("damaged: its files do not have the size that it names.", where=str(folder), fix=fix)
        return cache

    def whole(self) -> bool:
        """Whether the files have the size of what the description names."""
        count, dim, precision = (self.known.get(name) for name in ("count", "dim", "precision"))
        if not isinstance(count, int) or not isinstance(dim, int) or precision not in ("float32", "float16"):
            return False
        sizes = {ROWS: 8 * count, EMBEDDINGS: np.dtype(precision).itemsize * count * dim}
        files = {name: self.folder / name for name in sizes}
        return all(files[name].is_file() and files[name].stat().st_size == size for name, size in sizes.items())

    def count_chunks(self) -> int:
        """How many chunks there are, to show progress."""
        return -(-int(self.known["count"]) // CHUNK)

    def chunks(self) -> Iterator[Chunk]:
        """Read row numbers and embeddings, a chunk at a time."""
        dim, precision = self.known["dim"], np.dtype(self.known["precision"])
        with (self.folder / ROWS).open("rb") as rows, (self.folder / EMBEDDINGS).open("rb") as embeddings:
            while len(numbers := np.fromfile(rows, np.int64, CHUNK)):
                values = np.fromfile(embeddings, precision, len(numbers) * dim).reshape(-1, dim)
                yield torch.from_numpy(numbers), torch.from_numpy(values.astype(np.float32))

    def restore(self, source: OutputFile) -> None:
        """Tell the file what was found when it was read."""
        source.rows, source.left_out = self.known["rows"], self.known["left_out"]


def written(
    folder: Path, identity: dict[str, Any], chunks: Iterable[Chunk], precision: Precision, source: OutputFile
) -> Iterator[Chunk]:
    """Yield the chunks as they are stored, in a new folder, which is there only once all of them are."""
    count = dim = 0
    with new_folder(folder) as fresh:
        with (fresh / ROWS).open("wb") as rows, (fresh / EMBEDDINGS).open("wb") as embeddings:
            for numbers, values in chunks:
                count, dim = count + len(numbers), values.shape[1]
                rows.write(numbers.cpu().numpy().astype(np.int64).tobytes())
                stored = values.cpu().numpy().astype(precision)
                embeddings.write(stored.tobytes())
                yield numbers, torch.from_numpy(stored.astype(np.float32))
        found = {"rows": source.rows, "left_out": source.left_out, "count": count, "dim": dim, "precision": precision}
        write_text(fresh / DESCRIPTION, json.dumps({**identity, **found}, indent=2) + "\n")


def identity_of(model: Model, source: OutputFile) -> dict[str, Any]:
    """What the embeddings depend on: the contents of the file, the column, and the surrogate of the model."""
    with bytes_of(source.file) as stream:
        contents = hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]  # a stream of bytes
    sections = model.config.model_dump(mode="json", include={"output", "surrogate"})
    digest = hashlib.sha256(json.dumps(sections, sort_keys=True).encode())
    for name, tensor in sorted(model.surrogate.state().items()):
        digest.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
    column = {"column": source.column, "usual_column": source.usual}
    return {"format": FORMAT, "file": contents, **column, "model": digest.hexdigest()}
