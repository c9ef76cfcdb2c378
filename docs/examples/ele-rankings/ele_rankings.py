"""Rankings as an output space: a whole ELE plugin in one file, and a task to try it on."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from pydantic import Field
from torch import Generator, Tensor

from ele_core import (
    Birkhoff,
    ComponentConfig,
    Context,
    DataSet,
    Metric,
    OutputSpace,
    Record,
    Task,
    Tensors,
    hookimpl,
    split,
)

Ranking = tuple[str, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Rankings(Tensors):
    """(B, n) item numbers, best first; relaxed, (B, n, n) doubly stochastic matrices of rank × item."""

    items: Tensor


class RankingSpace(OutputSpace[Ranking, Rankings]):
    """All orders of a set of items."""

    Batch = Rankings

    class Config(ComponentConfig):
        """Which items are ranked."""

        items: tuple[str, ...] = Field(min_length=2)
        """The names of the items."""
        swap_rate: float = Field(0.5, ge=0, le=1)
        """Probability with which a view has two neighbours swapped."""

    config: Config

    @cached_property
    def geometry(self) -> Mapping[str, Birkhoff]:
        return {"items": Birkhoff(size=len(self.config.items))}

    def pack(self, objects: Sequence[Ranking]) -> Rankings:
        number = {item: i for i, item in enumerate(self.config.items)}
        for index, ranking in enumerate(objects):
            if not isinstance(ranking, tuple) or sorted(ranking) != sorted(number):
                raise self.invalid(f"{ranking!r} does not rank each of {', '.join(number)} once.", index)
        rows = [[number[item] for item in ranking] for ranking in objects]
        return Rankings(torch.tensor(rows, dtype=torch.int8).reshape(len(rows), len(number)))

    def unpack(self, batch: Rankings) -> list[Ranking]:
        return [tuple(self.config.items[number] for number in row) for row in batch.items.tolist()]

    def augment(self, batch: Rankings, generator: Generator) -> Rankings:
        count, size = batch.items.shape
        place = torch.randint(0, size - 1, (count, 1), generator=generator)
        swapped = torch.rand(count, 1, generator=generator) < self.config.swap_rate
        order = torch.arange(size).expand(count, size)
        order = torch.where(
            swapped & (order == place), place + 1, torch.where(swapped & (order == place + 1), place, order)
        )
        return Rankings(batch.items.gather(1, order))

    @property
    def metrics(self) -> Sequence[Metric[Rankings]]:
        return self.exact_match, Metric("discordant", "min", discordant_pairs, "share of pairs in the wrong order")

    @classmethod
    def parse(cls, text: str) -> Ranking:
        return tuple(item.strip() for item in text.split(">"))

    @classmethod
    def format(cls, obj: Ranking) -> str:
        return " > ".join(obj)

    @classmethod
    def infer(cls, objects: Sequence[Ranking], options: Mapping[str, Any]) -> ComponentConfig:
        return cls.Config(**{"items": sorted({item for ranking in objects for item in ranking}), **options})

    def examples(self) -> list[Ranking]:
        items = self.config.items
        return [items, items[::-1], items[1:] + items[:1]][: 2 if len(items) == 2 else 3]


def discordant_pairs(predicted: Rankings, true: Rankings) -> Tensor:
    """Kendall's distance, as a share: (B,)."""
    ranks = [batch.items.long().argsort(dim=1) for batch in (predicted, true)]
    signs = [(rank.unsqueeze(1) - rank.unsqueeze(2)).sign() for rank in ranks]
    size = signs[0].shape[1]
    return (signs[0] != signs[1]).sum(dim=(1, 2)) / (size * (size - 1))


class SortByValue(Task):
    """Five numbers → their names, largest first."""

    class Config(ComponentConfig):
        """How many pairs."""

        size: int = Field(3000, ge=100)
        """Pairs in all."""

    config: Config

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        training = {"epochs": 20, "evaluations": 5}
        return {
            "output": {"name": "ranking", "items": list("abcde")},
            "input": {"name": "vector"},
            "surrogate": {"name": "contrastive", "training": training},
            "regressor": {"name": "neural", "backbone": {"name": "mlp"}, "training": training},
            "decoder": {"name": "candidates"},
        }

    def load(self, space: RankingSpace, context: Context) -> DataSet:
        values = torch.rand(self.config.size, 5, generator=torch.Generator().manual_seed(context.seed))
        train, validation, test = split(len(values), 0.1, 0.1, context.seed)
        return DataSet(
            inputs=values.tolist(),
            outputs=Rankings(values.argsort(dim=1, descending=True).to(torch.int8)),
            train=train,
            validation=validation,
            test=test,
            source=f"sort-by-value (generated, seed {context.seed})",
            fingerprint=hashlib.sha256(values.numpy().tobytes()).hexdigest(),
        )


@hookimpl
def ele_output_spaces() -> Iterator[Record]:
    yield Record("ranking", "ele_rankings:RankingSpace", "orders of a set of items")


@hookimpl
def ele_tasks() -> Iterator[Record]:
    yield Record("sort-by-value", "ele_rankings:SortByValue", "five numbers → their names, largest first")
