"""Outputs of a file that may be larger than memory: parsed and packed once, and kept in the cache in blocks."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
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
from ele_core.files.columns import Cell
from ele_core.files.shards import Shards, read_rows, write_shard
from ele_core.files.sources import digest_of
from ele_core.files.tables import count_chunks, stream_column, suffix_of
from ele_core.interfaces import OutputSpace
from ele_core.plugins import Registry
from ele_core.runtime.context import Context

FORMAT = 1
"""Part of the key: changing it invalidates old stores."""
BLOCK, BLOCK_BYTES = 16 * CHUNK, 64 << 20
"""Maximum number of rows of a block, and of bytes that they take packed; but a block has at least `CHUNK` rows."""
SUMMARY, LOCK = "summary.json", ".lock"
PREFIX = "batch."
"""How the names of the fields of structures begin in a file of them."""
LABELS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)

Chunk = tuple[int, Sequence[Cell], Sequence[int] | None]
"""The number of the first row, the cells, and the lines of their rows if the format has lines."""


def load_outputs(
    file: str, space: OutputSpace[Any, Any], name: str, context: Context, registry: Registry, *, fatal: bool
) -> StoredOutputs:
    """Open the outputs in the first column of `file`, packed by the space `name`; pack them if that was not done yet.

    `fatal`: rows that cannot be used are an error. Otherwise they are left out, counted, and the first few are shown.
    """
    plugin = registry.provider("output", name)
    versions = __version__, str(plugin.distribution), str(plugin.version)
    digest = digest_of(file)
    about = [FORMAT, digest, suffix_of(file), name, space.config.model_dump(mode="json"), versions]
    key = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:32]
    found = Packing(file, digest, space, cache_folder() / "outputs" / key, context, registry).opened(fatal=fatal)
    if fatal or not len(found):
        refuse(found.rejected, file, skipping=not fatal, count=found.left_out)
    if not len(found):
        raise DataError("there are no outputs.", where=file)
    told = f"{file}: {counted(len(found), 'extra output')}, {found.left_out:,} left out"
    more = ["…"] if found.left_out > SHOWN else []
    context.monitor.message("\n  ".join([told, *map(str, found.rejected[:SHOWN]), *more]))
    return found


def cache_folder() -> Path:
    """`$ELE_CACHE`, or `ele` in the user's cache folder."""
    if chosen := os.environ.get("ELE_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ele"


@dataclasses.dataclass(frozen=True)
class Packing:
    """Packs the outputs of a file into a folder of blocks; packing that was stopped is continued.

    A block is written completely or not at all, and `summary.json` after the last: without it a folder is unfinished.
    """

    file: str
    digest: str
    space: OutputSpace[Any, Any]
    folder: Path
    context: Context
    registry: Registry

    def opened(self, *, fatal: bool) -> StoredOutputs:
        """Return the outputs in the folder, after writing what is missing or damaged."""
        found = self._found()
        if found is None:
            try:
                with locked(self.folder / LOCK, "packing outputs", wait=True):
                    found = self._found() or self._packed(fatal=fatal)  # another process may have packed them
            except OSError as error:
                what = f"cannot be written: {(error.strerror or str(error)).lower()}."
                fix = "Make room, or set ELE_CACHE to another folder. What was packed is kept for the next time."
                raise DataError(what, where=str(error.filename or self.folder), fix=fix) from error
        return found

    def _found(self) -> StoredOutputs | None:
        """Open what is there; None if it is not complete. A block that is missing or damaged is written again."""
        if not (self.folder / SUMMARY).is_file():
            return None
        try:
            return StoredOutputs(self.file, self.digest, self.space, self.folder)
        except (ModelError, KeyError, TypeError):
            return None

    def _packed(self, *, fatal: bool) -> StoredOutputs:
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
        return StoredOutputs(self.file, self.digest, self.space, self.folder)

    def _rows(self) -> int:
        """How many rows a block has."""
        fields = self.space.pack([]).named_tensors()
        size: int = sum(tensor.shape[1:].numel() * tensor.element_size() for _, tensor in fields)
        return max(1, min(BLOCK, BLOCK_BYTES // size) // CHUNK) * CHUNK

    def _chunks(self) -> Iterator[Chunk]:
        """Yield the cells of the file, with progress."""
        total = count_chunks(self.file, CHUNK, readers(self.registry))
        cells = stream_column(self.file, None, None, CHUNK, readers(self.registry))
        first = 0
        for own, lines in self.context.monitor.progress(cells, description=f"packing {self.file}", total=total):
            yield first, own, lines
            first += len(own)

    def _write(self, file: Path, chunks: Iterable[Chunk], *, fatal: bool) -> None:
        """Parse and pack the rows of a block, and write them with the first of those that cannot be used."""
        parts, bad = list[Any](), list[Rejected]()
        for first, cells, lines in chunks:
            read = read_outputs(self.space, cells, lines=lines)
            bad += (dataclasses.replace(each, row=first + each.row) for each in read.rejected)
            if fatal:
                refuse(bad, self.file)
            parts += read.parts
        batch = self.space.Batch.cat(parts) if parts else self.space.pack([])
        fields = {f"{PREFIX}{name}": tensor for name, tensor in batch.as_dict().items()}
        write_shard(file, {**fields, **left_out(bad, self.file)})


def whole(file: Path) -> bool:
    """Whether a block is there, and is not cut short."""
    try:
        return bool(shapes_of(file))
    except ModelError:
        return False


class StoredOutputs:
    """A source of packed outputs in files, of which one block is in memory.

    With K files, block j holds the j-th of K pieces of each, so that every block is like the whole even if the outputs
    are sorted; rows are counted in the order of the blocks.
    """

    def __init__(self, source: str, digest: str, space: OutputSpace[Any, Any], folder: Path) -> None:
        """Open a folder; `ModelError` if it is damaged. `digest` is the SHA-256 of the file `source`."""
        self.source, self.digest, self.space = source, digest, space
        summary = read_json(folder / SUMMARY)
        self.left_out: int = summary["left_out"]
        self.rejected = [Rejected(**each) for each in summary["rejected"]]
        self.files = [folder / f"block-{number:05}.safetensors" for number in range(summary["blocks"])]
        self.names = [f"{PREFIX}{name}" for name, _ in space.pack([]).named_tensors()]
        self.sizes = Shards(self.files, self.names).starts.diff().tolist()
        self.blocks = [sum(self._cuts(block)) for block in range(len(self.files) + 1)]
        self._kept: tuple[int, Any] = (-1, None)

    def __len__(self) -> int:
        return self.blocks[-1]

    def __getitem__(self, rows: slice | Tensor) -> Any:
        """The outputs at `rows`, packed."""
        places = torch.arange(*rows.indices(len(self))) if isinstance(rows, slice) else rows.cpu()
        starts = torch.tensor(self.blocks)
        owner = torch.searchsorted(starts, places, right=True) - 1
        parts, found = [], []
        for block in owner.unique().tolist():
            own = (owner == block).nonzero().flatten()
            parts.append(self._block(block)[places[own] - starts[block]])
            found.append(own)
        if not parts:
            return self.space.pack([])
        return parts[0] if len(parts) == 1 else self.space.Batch.cat(parts)[torch.cat(found).argsort()]

    @property
    def provenance(self) -> dict[str, Any]:
        """The file, its SHA-256, and how many outputs were read and rows left out."""
        counts = {"outputs": len(self), "left_out": self.left_out}
        return {"source": self.source, "fingerprint": self.digest, **counts}

    def chunks(self, size: int) -> Iterator[Any]:
        """All outputs in order, at most `size` at a time."""
        return (self[start : start + size] for start in range(0, len(self), size))

    def _cuts(self, block: int) -> list[int]:
        """Where the piece for `block` begins in each file; rounded differently, so that blocks are of one size."""
        return [(block * size + number) // len(self.files) for number, size in enumerate(self.sizes)]

    def _block(self, block: int) -> Any:
        if self._kept[0] != block:
            self._kept = -1, None  # not two blocks in memory
            ends = zip(self.files, self._cuts(block), self._cuts(block + 1), strict=True)
            pieces = [read_rows(file, self.names, first, end) for file, first, end in ends]
            fields = {name: torch.cat([piece[name] for piece in pieces]) for name in self.names}
            batch = self.space.Batch.from_dict({name.removeprefix(PREFIX): each for name, each in fields.items()})
            if problem := labels_problem(batch, self.space):
                folder = self.files[0].parent
                raise ModelError(f"damaged: {problem}.", where=str(folder), fix="Remove this folder.")
            self._kept = block, batch
        return self._kept[1]


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
