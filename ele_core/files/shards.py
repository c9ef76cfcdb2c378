"""Rows of named tensors in several safetensors files, of which only those that are asked for are read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import copy
from itertools import accumulate
from pathlib import Path

import torch
from torch import Tensor

from ele_core.errors import ModelError
from ele_core.files.archive import read_tensors, save_tensors, shapes_of
from ele_core.files.atomic import naming, sync_folder


def write_shard(file: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a file of tensors completely or not at all."""
    unfinished = file.with_name(f".{file.name}.unfinished")
    try:
        with naming(file):
            save_tensors(unfinished, tensors)
            with unfinished.open("rb") as stream:
                os.fsync(stream.fileno())
            unfinished.replace(file)
            sync_folder(file.parent)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


class Shards:
    """Rows of tensors with the same names in each of several files, mapped into memory when they are first used."""

    def __init__(self, files: Sequence[Path], names: Sequence[str]) -> None:
        self.files, self.names = files, names
        shapes = [shapes_in(file, names) for file in files]
        for file, own in zip(files, shapes, strict=True):
            if [shape[1:] for shape in own] != [shape[1:] for shape in shapes[0]]:
                raise ModelError("damaged: its tensors do not have the shape of the others.", where=str(file))
        self.starts = torch.tensor([0, *accumulate(own[0][0] for own in shapes)])
        self._opened: dict[int, dict[str, Tensor]] = {}

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __getitem__(self, rows: slice | Tensor) -> dict[str, Tensor]:
        """Name → the rows (n, …) of its tensor."""
        if isinstance(rows, slice):
            first, end, _ = rows.indices(len(self))
            parts = [self._slice(number, first, end) for number in self._between(first, end)]
            return {name: torch.cat([part[name] for part in parts]) for name in self.names}
        rows = rows.cpu().contiguous()
        number = torch.searchsorted(self.starts, rows, right=True) - 1
        order = number.argsort(stable=True)
        places = (rows - self.starts[number])[order].split(number.bincount(minlength=len(self.files)).tolist())
        found = [self._tensors(shard, own) for shard, own in enumerate(places) if len(own)] or [self._tensors(0, rows)]
        back = order.argsort()
        return {name: torch.cat([part[name] for part in found])[back] for name in self.names}

    def only(self, names: Sequence[str]) -> Shards:
        """The same rows of some of the tensors."""
        found = copy(self)
        found.names = names
        return found

    def _between(self, first: int, end: int) -> list[int]:
        """The files with rows from `first` up to `end`, at least one."""
        starts = self.starts.tolist()
        return [n for n in range(len(self.files)) if starts[n] < end and starts[n + 1] > first] or [0]

    def _slice(self, number: int, first: int, end: int) -> dict[str, Tensor]:
        start = int(self.starts[number])
        return self._tensors(number, slice(max(0, first - start), max(0, end - start)))

    def _tensors(self, number: int, rows: slice | Tensor) -> dict[str, Tensor]:
        if number not in self._opened:
            self._opened[number] = read_tensors(self.files[number])
        return {name: self._opened[number][name][rows] for name in self.names}


def read_rows(file: Path, names: Sequence[str], first: int, end: int) -> dict[str, Tensor]:
    """Name → the rows from `first` up to `end` of its tensor, as a copy: nothing of the file stays mapped."""
    stored = read_tensors(file)
    return {name: stored[name][first:end].clone() for name in names}


def shapes_in(file: Path, names: Sequence[str]) -> list[tuple[int, ...]]:
    """The shapes of the tensors of a file; refuse one without these tensors, or with different numbers of rows."""
    found = shapes_of(file)
    shapes = [found.get(name, ()) for name in names]
    if len({shape[:1] for shape in shapes}) != 1 or not shapes[0]:
        raise ModelError("damaged: its tensors do not belong together.", where=str(file))
    return shapes
