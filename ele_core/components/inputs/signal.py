"""Signals: series of numbers over time, of one or several channels and of any length."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor

from ele_core.component import ComponentConfig
from ele_core.components.inputs.vector import VectorInput
from ele_core.errors import InvalidInput, ModelError, counted, damaged
from ele_core.files.archive import brief, read_json
from ele_core.interfaces import InputSpace
from ele_core.numerics.sparse import SparseRows, flat_rows
from ele_core.numerics.tensors import Tensors
from ele_core.types import Reads

Signal: TypeAlias = npt.NDArray[Any] | Sequence[float] | Sequence[Sequence[float]]
"""One input: numbers in the order of time (T,), or the numbers of all channels at each time (T, C)."""
Floats: TypeAlias = npt.NDArray[np.float64]
LONGEST = 1 << 20
"""The greatest `max_length`: a limit on the width of batches, which a file from somebody else may set."""
MOST_CHANNELS = 1 << 12
STATES = 64
"""The states that the default network keeps of a signal, at most about twice as many."""


@dataclass(frozen=True, eq=False)
class Signals(Tensors):
    """Signals; row i has `lengths[i]` times, at least one, and then zeros."""

    values: Tensor
    """(B, L, C) float32: channels of mean 0 and deviation 1."""
    lengths: Tensor
    """(B,) int32."""

    def trimmed(self) -> Self:
        """The same signals without the times that no row has."""
        longest = int(self.lengths.max()) if len(self) else 1
        return self.replace(values=self.values[:, :longest])


class SignalInput(InputSpace[Signal]):
    """Series of numbers over time; all have the same channels, and any length up to `max_length`.

    Each channel is shifted and scaled to mean 0 and deviation 1 over all times of all training signals.
    """

    class Config(ComponentConfig):
        """How long signals may be."""

        max_length: int | None = Field(default=None, ge=1, le=LONGEST)
        """Maximum number of times. By default that of the training signals if all have the same, else twice that of the
        longest."""

    config: Config
    Batch: ClassVar[type[Tensors]] = Signals
    reads: ClassVar[Reads] = "signals by default"

    def __init__(self, config: ComponentConfig | None = None) -> None:
        super().__init__(config)
        self._scaling: tuple[Floats, Floats] | None = None
        self._range: tuple[Floats, Floats] = np.zeros(0), np.zeros(0)
        self._length = 0

    @property
    def channels(self) -> int:
        """The number of channels C."""
        return len(self._fitted()[0])

    @property
    def max_length(self) -> int:
        """Maximum number of times L: the width of every batch."""
        self._fitted()
        return self._length

    def parse(self, text: str) -> Signal:
        """Read numbers separated by commas or spaces, `[0.1, 2]`, or of several channels `[[0.1, 2], [3, 4]]`."""
        if not text.replace(" ", "").startswith("[["):
            return VectorInput().parse(text)
        try:
            return _series(json.loads(text), 0)
        except (ValueError, RecursionError) as error:
            what = f"{brief(text, 60)!r} is not a signal."
            raise InvalidInput(what, fix="Write the channels at each time as [[0.1, 2], [3, 4]].") from error

    def format(self, value: Signal) -> str:
        """The numbers with spaces between them, each with all its digits; of several channels as JSON."""
        series = _series(value, 0)
        return VectorInput().format(series[:, 0]) if series.shape[1] == 1 else json.dumps(series.tolist())

    def properties(self, value: Signal) -> dict[str, Any]:
        """The number of its `times`."""
        return {"times": len(_series(value, 0))}

    def fit(self, values: Sequence[Signal]) -> None:
        """Learn the number of channels, the mean, deviation and range of each, and `max_length`."""
        if len(values) == 0:
            raise InvalidInput("there are no signals to learn from.", fix="Give at least one training signal.")
        rows = _checked(values, None)
        lengths = {len(row) for row in rows}
        count = sum(map(len, rows))
        mean = np.sum([row.sum(axis=0) for row in rows], axis=0) / count
        deviation = np.sqrt(np.sum([np.square(row - mean).sum(axis=0) for row in rows], axis=0) / count)
        least, greatest = (
            np.min([row.min(axis=0) for row in rows], axis=0),
            np.max([row.max(axis=0) for row in rows], 0),
        )
        varies = deviation > 1e-9 * np.maximum(np.abs(least), np.abs(greatest))
        self._scaling, self._range = (mean, np.where(varies, deviation, 1.0)), (least, greatest)
        longest = max(lengths) * (1 if len(lengths) == 1 else 2)
        self._length = self.config.max_length or min(longest, LONGEST)

    def pack(self, values: Sequence[Signal]) -> Signals:
        """Signals → values (B, max_length, C) and lengths (B,)."""
        mean, deviation = self._fitted()
        rows = _checked(values, len(mean))
        packed = np.zeros((len(rows), self._length, len(mean)), dtype=np.float32)
        for index, row in enumerate(rows):
            if len(row) > self._length:
                what = f"the signal has {len(row):,} times, and the limit is {self._length:,}."
                raise InvalidInput(what, index=index, fix="Train with a larger `max_length`.")
            packed[index, : len(row)] = (row - mean) / deviation
        lengths = torch.tensor([len(row) for row in rows], dtype=torch.int32)
        return Signals(torch.from_numpy(packed), lengths)

    def examples(self) -> list[Signal]:
        """Short waves of several lengths."""
        return [
            [math.sin(speed * time) for time in range(length)]
            for speed, length in zip((1, 2, 3, 4), (9, 6, 8, 6), strict=True)
        ]

    def sizes(self, batch: Tensors) -> Tensor | None:
        """(B,) the number of times of each signal."""
        return batch.lengths if isinstance(batch, Signals) else None

    def features(self, batch: Tensors, *, grams: int = 4) -> SparseRows:
        """All numbers of all channels, in the order of time."""
        assert isinstance(batch, Signals)
        return flat_rows([batch.values])

    def defaults(self, pairs: int) -> dict[str, Any]:
        """A convolutional network over time, with about as many states for long signals as for short ones."""
        halvings = max(0, round(math.log2(max(1, self._length) / STATES)))
        backbone = {"name": "convolution-1d", "halvings": halvings, "width": 64 if pairs < 3000 else 128}
        return {"backbone": {**backbone, "dropout": 0.1}, "kernel": {"kernel": "gaussian"}}

    def unlike_training(self, values: Sequence[Signal]) -> list[str]:
        """Signals with a number further outside of the range of its channel than this range is wide."""
        least, greatest = self._range
        width = np.where(greatest > least, greatest - least, np.abs(greatest))
        found = []
        for row in _checked(values, self.channels):
            far = np.argwhere((row < least - width) | (row > greatest + width))
            time, channel = far[0] if len(far) else (0, 0)
            where = f"number {time + 1}" + (f" of channel {channel + 1}" if len(least) > 1 else "")
            known = f"in training {least[channel]:g} to {greatest[channel]:g}"
            found.append(f"{where} is {row[time, channel]:g}, {known}" if len(far) else "")
        return found

    def save(self, folder: Path) -> None:
        """Write `signal.json`: the mean, the deviation and the range of each channel, and `max_length`."""
        columns = (*self._fitted(), *self._range)
        state = {name: column.tolist() for name, column in zip(_COLUMNS, columns, strict=True)}
        (folder / _FILE).write_text(json.dumps({**state, "max_length": self._length}), encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Read what `save` wrote."""
        state = read_json(file := folder / _FILE)
        try:
            columns = np.array([state[name] for name in _COLUMNS], dtype=np.float64)
            length = int(state["max_length"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise damaged(f"the scaling cannot be read: {brief(error)}.", file) from error
        whole = columns.ndim == 2 and 0 < columns.shape[1] <= MOST_CHANNELS and bool(np.isfinite(columns).all())
        if not whole or not 1 <= length <= LONGEST or not (columns[1] > 0).all():
            raise damaged("the scaling is damaged.", file)
        self._scaling, self._range, self._length = (columns[0], columns[1]), (columns[2], columns[3]), length

    def _fitted(self) -> tuple[Floats, Floats]:
        if self._scaling is None:
            what = "this signal input does not know its channels yet."
            raise ModelError(what, fix="Call `fit` with the training signals, or `load`, first.")
        return self._scaling


_FILE, _COLUMNS = "signal.json", ("mean", "deviation", "least", "greatest")


def _checked(values: Sequence[Signal], channels: int | None) -> list[Floats]:
    """Signals as (T, C); without `channels`, the first one gives them."""
    rows = []
    for index, value in enumerate(values):
        row = _series(value, index)
        channels = channels or row.shape[1]
        if row.shape[1] != channels:
            what = f"the signal has {counted(row.shape[1], 'channel')} instead of {channels}."
            raise InvalidInput(what, index=index)
        rows.append(row)
    return rows


def _series(value: Signal, index: int) -> Floats:
    """A signal as (T, C), checked."""
    try:
        row = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"not a signal: {brief(error)}.", index=index) from error
    row = row[:, None] if row.ndim == 1 else row
    if row.ndim != 2 or not row.size or row.shape[1] > MOST_CHANNELS:
        what = f"an array of shape {np.shape(value)} is not a signal."
        raise InvalidInput(what, index=index, fix="Give numbers over time (T,), or with channels (T, C).")
    with np.errstate(over="ignore"):
        if not np.isfinite(row.astype(np.float32)).all():
            what = "the signal holds NaN, infinity, or a number too large for 32 bits."
            raise InvalidInput(what, index=index)
    return row
