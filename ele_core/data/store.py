"""Rows of a file that may be larger than memory: parsed and packed once, and kept in the cache in blocks."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ele_core import __version__
from ele_core.data.objects import CHUNK, SHOWN, Rejected, left_out, listed_left_out, read_outputs, readers, refuse
from ele_core.errors import DataError, ModelError, counted
from ele_core.files.archive import read_json, shapes_of
from ele_core.files.atomic import locked, make_folder, write_text
from ele_core.files.columns import FIRST, Column, Table, keep
from ele_core.files.shards import read_rows, shapes_in, write_shard
from ele_core.files.sources import digest_of
from ele_core.files.tables import count_chunks, stream_tables, suffix_of
from ele_core.interfaces import OutputSpace
from ele_core.plugins import Registry
from ele_core.runtime.context import Context

FORMAT = 1
"""Part of the key: changing it invalidates old stores."""
BLOCK, BLOCK_BYTES = 16 * CHUNK, 64 << 20
"""Maximum number of rows of a block, and of bytes that they take packed; but a block has at least `CHUNK` rows."""
SUMMARY, LOCK = "summary.json", ".lock"
OUTPUT = "batch"
PREFIX = f"{OUTPUT}."
"""How the names of the fields of structures begin in a file of them."""
LABELS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)

Chunk = tuple[int, Table]
"""The number of the first row, and the rows."""
Read = tuple[Mapping[str, Sequence[Any]], Sequence[Rejected]]
"""The rows of a table that can be used, packed in parts, for each kind of batch as many; and the other rows."""


def load_outputs(
    file: str, space: OutputSpace[Any, Any], name: str, context: Context, registry: Registry, *, fatal: bool
) -> StoredOutputs:
    """Open the outputs in the first column of `file`, packed by the space `name`; pack them if that was not done yet.

    `fatal`: rows that cannot be used are an error. Otherwise they are left out, counted, and the first few are shown.
    """
    digest = digest_of(file)
    about = [digest, suffix_of(file), *described_by(space, "output", name, registry)]

    def read(table: Table) -> Read:
        found = read_outputs(space, table.read([FIRST])[0], lines=table.lines)
        return {OUTPUT: found.parts}, found.rejected

    empty = {OUTPUT: space.pack([])}
    packing = Packing(file, digest, [FIRST], read, space, empty, folder_for("outputs", about), context, registry)
    found = packing.opened(fatal=fatal)
    if not len(found):
        raise DataError("there are no outputs.", where=file)
    context.monitor.message(found.told(f"{file}: {counted(len(found), 'extra output')}"))
    return StoredOutputs(found)


def described_by(space: Any, kind: Any, name: str, registry: Registry) -> list[Any]:
    """What packing depends on, besides the file: the options of a space, and the versions of what packs."""
    plugin = registry.provider(kind, name)
    return [name, space.config.model_dump(mode="json"), (__version__, str(plugin.distribution), str(plugin.version))]


def folder_for(kind: str, about: Sequence[Any]) -> Path:
    """The folder in the cache for rows that `about` tells from others."""
    key = hashlib.sha256(json.dumps([FORMAT, *about], sort_keys=True).encode()).hexdigest()[:32]
    return cache_folder() / kind / key


def cache_folder() -> Path:
    """`$ELE_CACHE`, or `ele` in the user's cache folder."""
    if chosen := os.environ.get("ELE_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ele"


@dataclasses.dataclass(frozen=True)
class Packing:
    """Packs the rows of a file into a folder of blocks; packing that was stopped is continued.

    A block is written completely or not at all, and `summary.json` after the last: without it a folder is unfinished.
    """

    file: str
    digest: str
    wanted: Sequence[Column]
    """The columns to read."""
    read: Callable[[Table], Read]
    """Parses and packs rows."""
    space: OutputSpace[Any, Any]
    """The space of the batches of outputs."""
    empty: Mapping[str, Any]
    """A batch of each kind without rows, under the name that is put before its fields."""
    folder: Path
    context: Context
    registry: Registry
    fix: str = ""
    """What to do about rows that cannot be used; empty: the usual advice."""

    def opened(self, *, fatal: bool) -> Store:
        """Return what is in the folder, after writing what is missing or damaged.

        `fatal`: rows that cannot be used are an error, as it is one if no other row is left.
        """
        found = self._found()
        if found is None:
            try:
                with locked(self.folder / LOCK, f"packing {self.file}", wait=True):
                    found = self._found() or self._packed(fatal=fatal)  # another process may have packed them
            except OSError as error:
                what = f"cannot be written: {(error.strerror or str(error)).lower()}."
                fix = "Make room, or set ELE_CACHE to another folder. What was packed is kept for the next time."
                raise DataError(what, where=str(error.filename or self.folder), fix=fix) from error
        if fatal or not len(found):
            refuse(found.rejected, self.file, skipping=not fatal, fix=self.fix, count=found.left_out)
        return found

    def _found(self) -> Store | None:
        """Open what is there; None if it is not complete. A block that is missing or damaged is written again."""
        if not (self.folder / SUMMARY).is_file():
            return None
        try:
            return Store(self.file, self.digest, self.space, self.empty, self.folder)
        except (ModelError, KeyError, TypeError):
            return None

    def _packed(self, *, fatal: bool) -> Store:
        """Write the blocks that are missing, then the summary, and open them."""
        make_folder(self.folder)
        (self.folder / SUMMARY).unlink(missing_ok=True)
        rows, files = self._rows(), list[Path]()
        for number, chunks in groupby(self._chunks(), lambda chunk: chunk[0] // rows):
            files.append(self.folder / f"block-{number:05}.safetensors")
            if not whole(files[-1]):
                self._write(files[-1], chunks, fatal=fatal)
        if digest_of(self.file) != self.digest:
            for file in files:
                file.unlink()
            raise DataError("the file changed while it was read.", where=self.file, fix="Give the command again.")
        skipped, listed = listed_left_out(files)
        rejected = [dataclasses.asdict(each) for _, each in listed]
        summary = {"blocks": len(files), "left_out": skipped, "rejected": rejected}
        write_text(self.folder / SUMMARY, json.dumps(summary, indent=2) + "\n")
        return Store(self.file, self.digest, self.space, self.empty, self.folder)

    def _rows(self) -> int:
        """How many rows a block has."""
        fields = [tensor for batch in self.empty.values() for _, tensor in batch.named_tensors()]
        size: int = sum(tensor.shape[1:].numel() * tensor.element_size() for tensor in fields)
        return max(1, min(BLOCK, BLOCK_BYTES // size) // CHUNK) * CHUNK

    def _chunks(self) -> Iterator[Chunk]:
        """Yield the rows of the file, with progress."""
        total = count_chunks(self.file, CHUNK, readers(self.registry))
        tables = stream_tables(self.file, CHUNK, readers(self.registry), keep(self.wanted, self.file))
        first = 0
        for table in self.context.monitor.progress(tables, description=f"packing {self.file}", total=total):
            yield first, table
            first += len(table)

    def _write(self, file: Path, chunks: Iterable[Chunk], *, fatal: bool) -> None:
        """Parse and pack the rows of a block, and write them with the first of those that cannot be used."""
        parts, bad = {kind: list[Any]() for kind in self.empty}, list[Rejected]()
        for first, table in chunks:
            found, rejected = self.read(table)
            bad += (dataclasses.replace(each, row=first + each.row) for each in rejected)
            if fatal:
                refuse(bad, self.file, fix=self.fix)
            for kind, own in found.items():
                parts[kind] += own
        batches = {kind: type(self.empty[kind]).cat(own or [self.empty[kind]]) for kind, own in parts.items()}
        fields = {f"{kind}.{name}": own for kind, batch in batches.items() for name, own in batch.as_dict().items()}
        write_shard(file, {**fields, **left_out(bad, self.file)})


def whole(file: Path) -> bool:
    """Whether a block is there, and is not cut short."""
    try:
        return bool(shapes_of(file))
    except ModelError:
        return False


class Store:
    """Packed rows of a file, in a folder of files, of which one block is in memory.

    With K files, block j holds the j-th of K pieces of each, so that every block is like the whole even if the rows
    are sorted; rows are counted in the order of the blocks.
    """

    def __init__(
        self, source: str, digest: str, space: OutputSpace[Any, Any], empty: Mapping[str, Any], folder: Path
    ) -> None:
        """Open a folder; `ModelError` if it is damaged. `digest` is the SHA-256 of the file `source`."""
        self.source, self.digest, self.space, self.empty, self.folder = source, digest, space, empty, folder
        summary = read_json(folder / SUMMARY)
        self.left_out: int = summary["left_out"]
        self.rejected = [Rejected(**each) for each in summary["rejected"]]
        self.files = [folder / f"block-{number:05}.safetensors" for number in range(summary["blocks"])]
        self.names = [f"{kind}.{name}" for kind, batch in empty.items() for name, _ in batch.named_tensors()]
        self.sizes = [shapes_in(file, self.names)[0][0] for file in self.files]
        self.blocks = [sum(self._cuts(block)) for block in range(len(self.files) + 1)]
        self._kept: tuple[int, dict[str, Any]] = (-1, {})

    def __len__(self) -> int:
        return self.blocks[-1]

    def told(self, what: str) -> str:
        """Lines for the user: what was packed, how many rows were left out, and the first of them."""
        more = ["…"] if self.left_out > SHOWN else []
        return "\n  ".join([f"{what}, {self.left_out:,} left out", *map(str, self.rejected[:SHOWN]), *more])

    def block(self, number: int) -> dict[str, Any]:
        """The batches of a block, by their kinds."""
        if self._kept[0] != number:
            self._kept = -1, {}  # not two blocks in memory
            ends = zip(self.files, self._cuts(number), self._cuts(number + 1), strict=True)
            pieces = [read_rows(file, self.names, first, end) for file, first, end in ends]
            batches = {kind: self._joined(kind, pieces) for kind in self.empty}
            if problem := labels_problem(batches[OUTPUT], self.space):
                raise ModelError(f"damaged: {problem}.", where=str(self.folder), fix="Remove this folder.")
            self._kept = number, batches
        return self._kept[1]

    def _joined(self, kind: str, pieces: Sequence[Mapping[str, Tensor]]) -> Any:
        """One batch of the rows of all pieces."""
        cls, names = type(self.empty[kind]), [name for name, _ in self.empty[kind].named_tensors()]
        return cls.cat([cls.from_dict({name: piece[f"{kind}.{name}"] for name in names}) for piece in pieces])

    def _cuts(self, block: int) -> list[int]:
        """Where the piece for `block` begins in each file; rounded differently, so that blocks are of one size."""
        return [(block * size + number) // len(self.files) for number, size in enumerate(self.sizes)]


@dataclasses.dataclass(frozen=True)
class Stored:
    """A source: the batches of one kind in a store."""

    store: Store
    kind: str

    def __len__(self) -> int:
        return len(self.store)

    def __getitem__(self, rows: slice | Tensor) -> Any:
        """The examples at `rows`, packed."""
        places = torch.arange(*rows.indices(len(self))) if isinstance(rows, slice) else rows.cpu()
        starts, empty = torch.tensor(self.blocks), self.store.empty[self.kind]
        owner = torch.searchsorted(starts, places, right=True) - 1
        parts, found = [], []
        for block in owner.unique().tolist():
            own = (owner == block).nonzero().flatten()
            parts.append(self.store.block(block)[self.kind][places[own] - starts[block]])
            found.append(own)
        if not parts:
            return empty
        return parts[0] if len(parts) == 1 else type(empty).cat(parts)[torch.cat(found).argsort()]

    @property
    def blocks(self) -> Sequence[int]:
        """Where blocks begin, and where the last one ends."""
        return self.store.blocks

    def chunks(self, size: int) -> Iterator[Any]:
        """All examples in order, at most `size` at a time."""
        return (self[start : start + size] for start in range(0, len(self), size))


class StoredOutputs(Stored):
    """A source of packed outputs."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, OUTPUT)

    @property
    def space(self) -> OutputSpace[Any, Any]:
        """The space that packed them."""
        return self.store.space

    @property
    def provenance(self) -> dict[str, Any]:
        """The file, its SHA-256, and how many outputs were read and rows left out."""
        counts = {"outputs": len(self), "left_out": self.store.left_out}
        return {"source": self.store.source, "fingerprint": self.store.digest, **counts}


def labels_problem(batch: Any, space: OutputSpace[Any, Any]) -> str | None:
    """Return why a batch is not one of `space`, or None: an invalid label would be an index out of range later."""
    for name, convex in space.geometry.items():
        labels: Tensor = getattr(batch, name)
        if labels.shape[1:] != convex.label_shape or labels.dtype not in LABELS:
            return f"'{name}' does not have the shape and type of this output space"
        least, greatest = (int(extreme) for extreme in labels.aminmax()) if labels.numel() else (0, 0)
        if least < 0 or greatest >= convex.label_count:
            return f"'{name}' holds labels from {least} to {greatest}; valid are 0 to {convex.label_count - 1}"
    return None
