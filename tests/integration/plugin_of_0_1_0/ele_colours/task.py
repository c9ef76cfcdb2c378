"""The task `colours`: "two red then one blue" → red red blue, with no test row seen in training."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import torch
from ele_core import ComponentConfig, Task
from ele_core.context import Context
from ele_core.data import DataSet, fingerprint, pack_all, split
from pydantic import Field

from ele_colours.space import ColoursSpace, Row

COLOURS = ("red", "green", "blue", "gold", "pink", "grey")
COUNTS = ("no", "one", "two", "three", "four")


class ColoursTask(Task):
    """Distinct rows of four slots, described in words. Generated here: load your own data in `load` instead."""

    class Config(ComponentConfig):
        """How many pairs."""

        size: int = Field(1200, ge=100, le=1296)
        """Pairs in all; there are 6 to the power of 4 rows."""

    config: Config

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        # What `ele train colours` does unless told otherwise; `ele init colours` writes all of it as a file.
        return {
            "output": {"name": "colours", "colours": list(COLOURS), "length": 4},
            "input": {"name": "text", "level": "regex", "pattern": r"\s*\w+"},
            "surrogate": {
                "name": "contrastive",
                "dim": 32,
                "encoder": {"name": "flat", "width": 128},
                "training": {"epochs": 20, "batch_size": 128, "evaluations": 5},
            },
            "regressor": {
                "name": "neural",
                "backbone": {"name": "gru", "embedding": 32, "layers": 1, "width": 64},
                "training": {"epochs": 25, "batch_size": 64, "learning_rate": 5e-3, "evaluations": 5},
            },
            "decoder": {"name": "search"},
        }

    def load(self, space: ColoursSpace, context: Context) -> DataSet:
        rows = draw(self.config.size, space, context.seed)
        texts, outputs = [describe(row) for row in rows], pack_all(space, rows, context)
        train, validation, test = split(len(rows), 0.1, 0.1, context.seed)
        return DataSet(
            inputs=texts,
            outputs=outputs,
            train=train,
            validation=validation,
            test=test,
            source=f"colours (generated, seed {context.seed})",
            fingerprint=fingerprint(texts, outputs),  # a run keeps it, and refuses data that have changed
        )


def draw(count: int, space: ColoursSpace, seed: int) -> list[Row]:
    """`count` distinct rows."""
    colours, length = space.config.colours, space.config.length
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randperm(len(colours) ** length, generator=generator)[:count].tolist()
    return [tuple(colours[number // len(colours) ** i % len(colours)] for i in range(length)) for number in numbers]


def describe(row: Row) -> str:
    """A row in words, one part for each run of a colour."""
    return " then ".join(f"{COUNTS[len(list(run))]} {colour}" for colour, run in groupby(row))
