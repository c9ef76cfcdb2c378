"""Sets of numbered features with counts, such as the on-bits of a fingerprint: stored sparse, never dense."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AnySet
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from ele_core.component import ComponentConfig
from ele_core.errors import InvalidInput, ModelError, counted, damaged
from ele_core.files.archive import brief, read_json
from ele_core.interfaces import InputSpace
from ele_core.numerics.sparse import SparseRows, nearest_rows
from ele_core.numerics.sparse_vectors import SparseVector
from ele_core.numerics.tensors import Tensors
from ele_core.types import Reads

FeatureSet: TypeAlias = "Mapping[int, int] | AnySet[int] | SparseVector | npt.NDArray[Any] | Sequence[float]"
"""One input: the count of each feature by its number, a set of numbers, or a vector of counts, sparse or dense."""
LARGEST = 1 << 24
"""The greatest number of features: a limit on the weights of a network, which a file from somebody else may set."""
MOST = np.iinfo(np.int16).max
"""The greatest count."""


@dataclass(frozen=True, eq=False)
class Bits(Tensors):
    """Sets of numbered features, each row padded to the length of the longest."""

    numbers: Tensor
    """(B, L) int16, or int32 if there are many features: the number of each feature plus one, ascending; then 0."""
    counts: Tensor
    """(B, L) int16: how often each feature occurs; 0 at padding."""

    @classmethod
    def cat(cls, parts: Iterable[Self]) -> Self:
        """Concatenate batches, padded to the longest row of all."""
        listed = list(parts)
        longest = max(part.numbers.shape[1] for part in listed)
        return super().cat(
            part.map(lambda tensor: functional.pad(tensor, (0, longest - tensor.shape[1]))) for part in listed
        )


@dataclass(frozen=True)
class Entries:
    """The features of one input: `numbers` (K,), ascending, and their `counts` (K,), all positive."""

    numbers: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    size: int | None = None
    """The number of features that a vector has; None: this is a set, which does not tell."""


class BitsInput(InputSpace[FeatureSet]):
    """Sets of numbered features with counts; a vector of counts is such a set, and need not be made dense.

    As text, a set is the numbers of its features with spaces between them, each with its count if that is not 1, as in
    `3 17:2 1024`. A text of as many numbers as there are features is a vector; so is one in which a number repeats.
    """

    class Config(ComponentConfig):
        """How many features there are, and whether counts matter."""

        size: int | None = Field(default=None, ge=1, le=LARGEST)
        """The number of features; they are numbered from 0. None: the length of the training vectors, or one more than
        the greatest number in the training sets."""
        counts: bool = True
        """Whether counts matter; false: a feature is there or not."""

    config: Config
    Batch: ClassVar[type[Tensors]] = Bits
    reads: ClassVar[Reads] = "bits by default"

    def __init__(self, config: ComponentConfig | None = None) -> None:
        super().__init__(config)
        self._size = 0
        self._longest = 0
        self._seen = np.zeros(0, dtype=bool)

    @property
    def size(self) -> int:
        """The number of features."""
        if not self._size:
            what = f"this {type(self).__name__} does not know the number of features yet."
            raise ModelError(what, fix="Call `fit` with the training inputs, or `load`, first.")
        return self._size

    def parse(self, text: str) -> FeatureSet:
        """Read a set such as `3 17:2 1024`, or a vector such as `0 1 0 2`; commas and brackets are allowed."""
        inner = re.fullmatch(r"\s*(?:\[(?P<inner>.*)\]|(?P<plain>.*?))\s*", text, re.DOTALL)
        written = inner["inner"] is not None if inner else False
        words = re.split(r"\s*[,;]\s*|\s+", ((inner["inner"] if written else inner["plain"]) if inner else "").strip())
        if words == [""]:
            if written:
                return {}
            raise InvalidInput("the text is empty.", fix="Write `[]` for a set without features.")
        try:
            pairs = [_pair(word) for word in words]
        except ValueError as error:
            what = f"{brief(text, 60)!r} is not a list of numbered features."
            raise InvalidInput(what, fix="Write whole numbers with spaces between them, as in 3 17:2 1024.") from error
        numbers = [number for number, _ in pairs]
        plain = all(count is None for _, count in pairs)
        if plain and (len(numbers) == (self._size or self.config.size) or len(set(numbers)) < len(numbers)):
            values: FeatureSet = np.array(numbers)
        elif len(set(numbers)) < len(numbers):
            raise InvalidInput(f"{brief(text, 60)!r} lists a feature twice.")
        else:
            values = {number: 1 if count is None else count for number, count in pairs}
        self._entries(values, 0)
        return values

    def format(self, value: FeatureSet) -> str:
        """The numbers of the features with spaces between them, each with its count if that matters and is not 1."""
        entries = self._entries(value, 0)
        counts = entries.counts.tolist() if self.config.counts else [1] * len(entries.counts)
        pairs = zip(entries.numbers.tolist(), counts, strict=True)
        return " ".join(str(number) if count == 1 else f"{number}:{count}" for number, count in pairs) or "[]"

    def properties(self, value: FeatureSet) -> dict[str, Any]:
        """The numbers of the features that it has as a text of `bits`, such as `3 17 1024`."""
        return {"bits": " ".join(map(str, self._entries(value, 0).numbers.tolist()))}

    def fit(self, values: Sequence[FeatureSet]) -> None:
        """Learn the number of features, which of them occur, and how many an input has at most."""
        if len(values) == 0:
            what = "there are no inputs to learn the number of features from."
            raise InvalidInput(what, fix="Give at least one training input.")
        size = self.config.size or self._inferred_size(values)
        seen, longest = np.zeros(size, dtype=bool), 1
        for index, value in enumerate(values):
            entries = _inside(self._entries(value, index), size, index)
            seen[entries.numbers] = True
            longest = max(longest, len(entries.numbers))
        self._size, self._seen, self._longest = size, seen, longest

    def pack(self, values: Sequence[FeatureSet]) -> Bits:
        """Inputs → numbers and counts (B, L), as wide as the longest training input, or wider if one is longer."""
        size = self.size
        rows = [_inside(self._entries(value, index), size, index) for index, value in enumerate(values)]
        lengths = np.array([len(row.numbers) for row in rows], dtype=np.int64)
        shape = len(rows), max(self._longest, *lengths.tolist(), 0)
        filled = np.arange(shape[1]) < lengths[:, None]
        numbers = np.zeros(shape, np.int16 if size <= MOST else np.int32)
        counts = np.zeros(shape, np.int16)
        if rows:
            numbers[filled] = np.concatenate([row.numbers for row in rows]) + 1
            counts[filled] = np.concatenate([row.counts for row in rows]) if self.config.counts else 1
        return Bits(torch.from_numpy(numbers), torch.from_numpy(counts))

    def examples(self) -> list[FeatureSet]:
        """Sets of a few features."""
        return [{0: 1, 3: 1}, {0: 1, 3: 1, 7: 1}, {2: 1}, {1: 1, 2: 1, 5: 1}, {}]

    def features(self, batch: Tensors, *, grams: int = 4) -> SparseRows:
        """The counts of the features."""
        assert isinstance(batch, Bits)
        return SparseRows.summed(batch.numbers.long(), batch.counts.float())

    def nearest(self, batch: Tensors, others: Tensors) -> tuple[Tensor, Tensor]:
        """By the Tanimoto distance of counts."""
        return nearest_rows(self.features(batch), self.features(others), "tanimoto")

    @classmethod
    def defaults(cls, pairs: int) -> dict[str, Any]:
        """A network that sums vectors of features, of a width that follows the number of pairs; a natural kernel."""
        width = 512 if pairs < 10_000 else 1024
        return {"backbone": {"name": "bag", "width": width, "dropout": 0.1}, "kernel": {"kernel": "natural"}}

    def unlike_training(self, values: Sequence[FeatureSet]) -> list[str]:
        """Inputs of which most features never occurred in training."""
        return [self._unlike(_inside(self._entries(value, row), self.size, row)) for row, value in enumerate(values)]

    def save(self, folder: Path) -> None:
        """Write `bits.json`: the number of features, those that occurred, and the largest number in one input."""
        state = {"size": self.size, "longest": self._longest, "seen": np.flatnonzero(self._seen).tolist()}
        (folder / _FILE).write_text(json.dumps(state | self._more()), encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Read what `save` wrote."""
        file = folder / _FILE
        state = read_json(file)
        try:
            size, longest = int(state["size"]), int(state["longest"])
            if not 0 < size <= LARGEST or not 0 < longest <= LARGEST:
                raise ValueError(f"{size} features, {longest} at most in an input")
            numbers = _whole(np.asarray([*state["seen"]], dtype=np.float64), 0)
            seen = np.zeros(size, dtype=bool)
            seen[_inside(Entries(numbers, numbers), size, 0).numbers] = True
            self._restore(state)
        except (KeyError, TypeError, ValueError, InvalidInput) as error:
            raise damaged(f"the features cannot be read: {brief(error)}.", file) from error
        self._size, self._seen, self._longest = size, seen, longest

    def _more(self) -> dict[str, Any]:
        """What a subclass adds to the saved state."""
        return {}

    def _restore(self, state: Mapping[str, Any]) -> None:
        """Read what a subclass added to the saved state."""

    def _entries(self, value: Any, index: int) -> Entries:
        """The features of an input, checked; `index` is its position."""
        return entries_of(value, index)

    def _inferred_size(self, values: Sequence[FeatureSet]) -> int:
        """The length of the first training vector, or one more than the greatest number in a set."""
        found = (self._entries(value, index) for index, value in enumerate(values))
        sizes = [(entries.size, int(entries.numbers.max(initial=-1)) + 1) for entries in found]
        size = next((size for size, _ in sizes if size), max(least for _, least in sizes))
        if not 0 < size <= LARGEST:
            what = f"the training inputs have {counted(size, 'feature')}; from 1 to {LARGEST:,} are possible."
            raise InvalidInput(what, fix="Set input.size to the number of features.")
        return size

    def _unlike(self, entries: Entries) -> str:
        new = int((~self._seen[entries.numbers]).sum())
        if 2 * new <= len(entries.numbers):
            return ""
        return f"{new} of {counted(len(entries.numbers), 'feature')} never occurred in training"


_FILE = "bits.json"


def entries_of(value: Any, index: int) -> Entries:
    """The features of a mapping, a set or a vector; `index` is its position, for the error."""
    if isinstance(value, SparseVector):
        numbers, counts = _whole(value.places, index), _whole(value.values, index)
        size = value.size
    elif isinstance(value, Mapping | AnySet):
        numbers = _whole(_array([*value], index), index)
        counts = _whole(_array([*value.values()], index), index) if isinstance(value, Mapping) else numbers * 0 + 1
        size = None
    else:
        counts = _whole(_array(value, index), index)
        numbers, size = np.flatnonzero(counts), len(counts)
        counts = counts[numbers]
    if len(numbers) and (numbers.min() < 0 or counts.min() < 0):
        raise InvalidInput("the number or the count of a feature is negative.", index=index)
    if len(counts) and counts.max() > MOST:
        raise InvalidInput(f"a count is greater than {MOST:,}.", index=index)
    if (counts == 0).any():
        numbers, counts = numbers[counts > 0], counts[counts > 0]
    if (numbers[1:] <= numbers[:-1]).any():
        numbers, place = np.unique(numbers, return_inverse=True)
        counts = np.bincount(place, weights=counts).astype(np.int64)
    return Entries(numbers, counts, size)


def _inside(entries: Entries, size: int, index: int) -> Entries:
    """The features of an input, after a check that they are among `size` ones."""
    if entries.size is not None and entries.size != size:
        what = f"the vector has {counted(entries.size, 'number')} instead of {size:,}."
        raise InvalidInput(what, index=index)
    if len(entries.numbers) and entries.numbers[-1] >= size:
        what = f"feature {entries.numbers[-1]} is not one of the {size:,} features, which are numbered from 0."
        raise InvalidInput(what, index=index)
    return entries


def _pair(word: str) -> tuple[int, int | None]:
    """`17:2` → (17, 2); `17` → (17, None)."""
    number, colon, count = word.partition(":")
    return _integer(number), _integer(count) if colon else None


def _integer(word: str) -> int:
    """A whole number, also one that is written as 1.0."""
    number = float(word)
    if not number.is_integer() or abs(number) > LARGEST:
        raise ValueError(word)
    return int(number)


def _array(value: Any, index: int) -> npt.NDArray[Any]:
    """A vector of numbers (D,)."""
    try:
        found = np.asarray(value if len(value) else np.zeros(0, dtype=np.int64))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"not a set of numbered features: {brief(error)}.", index=index) from error
    if found.ndim != 1 or found.dtype.kind not in "fiub":
        raise InvalidInput("not a set of numbered features.", index=index)
    return found


def _whole(values: npt.NDArray[Any], index: int) -> npt.NDArray[np.int64]:
    """Numbers as integers; refuse fractions, NaN and infinity."""
    if values.dtype.kind == "f" and not (np.isfinite(values) & (values == np.round(values))).all():
        raise InvalidInput("a count is not a whole number.", index=index)
    if len(values) and (values.max() > LARGEST or values.min() < -LARGEST):
        raise InvalidInput(f"a number is greater than {LARGEST:,}.", index=index)
    return values.astype(np.int64)
