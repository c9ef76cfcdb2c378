"""Defaults on spaces of a third party, beside a network trained by cross-entropy and copying the nearest pair.

    python benchmarks/geometries.py [--sets NAME …] [--seeds N …] [--options JSON] [--output FILE]

Sets:

- assignment: the distances of four tracks from four detections, 16 numbers → which detection belongs to which track, if
  any; 3,000 pairs. Its space is a plugin of its own, with its own convex set (below);
- ranking: five numbers → their names, largest first; 500 pairs. Its space is that of the tutorial.

The defaults are `StructuredPredictor(SPACE).fit(X, y)`. The network has two hidden layers of 256 units and a softmax
for each row; it is trained on the same pairs, and its log-odds are rounded by the space. All are measured on the same
1,000 test pairs. With `--options`, arguments of the predictor as JSON, the same with other options than the defaults.
Results are added to FILE, so that several calls make one record.
"""

from __future__ import annotations

import argparse
import copy
import datetime
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from pydantic import Field
from torch import Generator, Tensor, nn
from torch.nn import functional

from ele_core import ComponentConfig, ConvexSet, OutputSpace, Record, StructuredPredictor, Tensors, hookimpl
from ele_core.files.atomic import write_text
from ele_core.numerics import projections
from ele_core.plugins import Registry
from ele_core.plugins.loader import load_installed

TEST = 1000
ROOT = Path(__file__).resolve().parents[1]
Pairs = tuple[Tensor, list[Any]]


# -- the plugin of a third party ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Matchings(ConvexSet):
    """Matrices (size, size) ≥ 0 with rows and columns that sum to 1 at most; label i is the column of row i, or `size`.

    A move gives a row another column, or none; the row that had this column loses it.
    """

    size: int

    @property
    def point_shape(self) -> tuple[int, ...]:
        return (self.size, self.size)

    @property
    def label_shape(self) -> tuple[int, ...]:
        return (self.size,)

    @property
    def label_count(self) -> int:
        return self.size + 1

    @property
    def switches(self) -> int:
        return self.size * (self.size + 1)

    def vertices(self, labels: Tensor) -> Tensor:
        return functional.one_hot(labels.long(), self.size + 1)[..., :-1].float()

    def nearest_vertex(self, x: Tensor) -> Tensor:
        gains = functional.pad(2 * x.double() - 1, (0, self.size, 0, self.size))
        return projections.assignment(gains)[:, : self.size].clamp(max=self.size).to(self.label_dtype)

    def project(self, x: Tensor) -> Tensor:
        found = x.double()
        rows, columns = torch.zeros_like(found), torch.zeros_like(found)
        for _ in range(500):  # Dykstra's algorithm
            before, found = found + rows, at_most_one(found + rows)
            rows = before - found
            before, found = found + columns, at_most_one((found + columns).mT).mT
            columns = before - found
        return found.to(x.dtype)

    def sample(self, count: int, generator: Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        ends = self.vertices(self.sample_labels(3 * count, generator)).reshape(count, 3, self.size, self.size)
        weights = torch.rand(count, 3, 1, 1, generator=generator).pow(4)
        return (ends * weights / weights.sum(dim=1, keepdim=True)).sum(dim=1).to(dtype)

    def sample_labels(self, count: int, generator: Generator) -> Tensor:
        every = self.every
        return every[torch.randint(len(every), (count,), generator=generator)]

    @cached_property
    def every(self) -> Tensor:
        """All matchings."""
        labels = torch.cartesian_prod(*[torch.arange(self.size + 1)] * self.size).reshape(-1, self.size)
        valid = (self.vertices(labels).sum(dim=1) <= 1).all(dim=1)
        return labels[valid].to(self.label_dtype)

    def switch(self, labels: Tensor, which: Tensor) -> Tensor:
        row, column = which[:, None] // (self.size + 1), (which[:, None] % (self.size + 1)).to(labels.dtype)
        return labels.masked_fill(labels == column, self.size).scatter(1, row, column)

    def violations(self, x: Tensor) -> dict[str, Tensor]:
        sums = {"rows": x.double().sum(dim=2), "columns": x.double().sum(dim=1)}
        return {"entries are at least 0": -x} | {f"{name} sum to 1 at most": own - 1 for name, own in sums.items()}


def at_most_one(x: Tensor) -> Tensor:
    """The nearest rows ≥ 0 with a sum of at most 1."""
    clipped = x.clamp(min=0)
    return torch.where(clipped.sum(dim=-1, keepdim=True) <= 1, clipped, projections.simplex(x))


@dataclass(frozen=True, eq=False)
class Assigned(Tensors):
    """(B, n) the detection of each track, n for none; relaxed, (B, n, n)."""

    detections: Tensor


Assignment = tuple[int | None, ...]


class AssignmentSpace(OutputSpace[Assignment, Assigned]):
    """Which of n detections belongs to which of n tracks, or to none."""

    Batch = Assigned

    class Config(ComponentConfig):
        """How many there are."""

        size: int = Field(4, ge=2)
        """Tracks, and detections."""

    config: Config

    @cached_property
    def geometry(self) -> Mapping[str, Matchings]:
        return {"detections": Matchings(self.config.size)}

    def pack(self, objects: Sequence[Assignment]) -> Assigned:
        size = self.config.size
        for index, assignment in enumerate(objects):
            used = [each for each in assignment if each is not None] if isinstance(assignment, tuple) else [-1]
            if len(assignment) != size or len(set(used)) < len(used) or not set(used) <= set(range(size)):
                raise self.invalid(f"{assignment!r} does not assign each of {size} tracks another detection.", index)
        rows = [[size if each is None else each for each in assignment] for assignment in objects]
        return Assigned(torch.tensor(rows, dtype=torch.int8).reshape(len(rows), size))

    def unpack(self, batch: Assigned) -> list[Assignment]:
        return [tuple(None if i == self.config.size else i for i in row) for row in batch.detections.tolist()]

    def augment(self, batch: Assigned, generator: Generator) -> Assigned:
        convex = self.geometry["detections"]
        which = torch.randint(convex.switches, (len(batch),), generator=generator)
        return Assigned(convex.switch(batch.detections, which))

    @classmethod
    def parse(cls, text: str) -> Assignment:
        return tuple(None if each.strip() == "-" else int(each) for each in text.split(","))

    @classmethod
    def format(cls, obj: Assignment) -> str:
        return ", ".join("-" if each is None else str(each) for each in obj)

    @classmethod
    def infer(cls, objects: Sequence[Assignment], options: Mapping[str, Any]) -> ComponentConfig:
        return cls.Config(**{"size": max(map(len, objects), default=4), **options})

    def examples(self) -> list[Assignment]:
        size = self.config.size
        return [tuple(range(size)), (None,) * size, (1, None, *range(2, size))]


class Plugin:
    """The plugin of a third party."""

    @hookimpl
    def ele_output_spaces(self) -> Iterator[Record]:
        yield Record("assignment", AssignmentSpace, "which detection belongs to which track")


# -- the data ----------------------------------------------------------------------------------------------------------


def assignments(count: int, generator: Generator) -> Pairs:
    """Tracks in the unit square; three in four are detected, a little displaced; other detections are anywhere."""
    tracks = torch.rand(count, 4, 2, generator=generator)
    seen = torch.rand(count, 4, generator=generator) < 0.75
    near = tracks + 0.05 * torch.randn(count, 4, 2, generator=generator)
    detections = torch.where(seen[:, :, None], near, torch.rand(count, 4, 2, generator=generator))
    order = torch.rand(count, 4, generator=generator).argsort(dim=1)
    place = order.argsort(dim=1)
    inputs = torch.cdist(tracks, detections.gather(1, order[:, :, None].expand(-1, -1, 2))).flatten(1)
    found = torch.where(seen, place, 4).tolist()
    return inputs, [tuple(None if each == 4 else each for each in row) for row in found]


def rankings(count: int, generator: Generator) -> Pairs:
    """Five numbers, sorted."""
    values = torch.rand(count, 5, generator=generator)
    return values, [tuple("abcde"[i] for i in row) for row in values.argsort(dim=1, descending=True).tolist()]


SETS: dict[str, tuple[str, int, Callable[[int, Generator], Pairs]]] = {
    "assignment": ("assignment", 3000, assignments),
    "ranking": ("ranking", 500, rankings),
}
"""Name → the space, the pairs to train on, and how they are drawn."""


# -- what is compared --------------------------------------------------------------------------------------------------


def network(inputs: Tensor, outputs: list[Any], asked: Tensor, space: OutputSpace[Any, Any], seed: int) -> list[Any]:
    """Predictions of a network that is trained by cross-entropy, a softmax a row, and rounded by the space."""
    torch.manual_seed(seed)
    ((name, convex),) = space.geometry.items()
    labels, classes = getattr(space.pack(outputs), name).long(), convex.label_count
    held_out = len(inputs) // 20
    mean, spread = inputs.mean(dim=0), inputs.std(dim=0)
    model = nn.Sequential(
        nn.Linear(inputs.shape[1], 256),
        nn.ReLU(),
        nn.Linear(256, 256),
        nn.ReLU(),
        nn.Linear(256, labels.shape[1] * classes),
        nn.Unflatten(1, (labels.shape[1], classes)),
    )

    def loss(rows: Tensor | slice) -> Tensor:
        return functional.cross_entropy(model((inputs[rows] - mean) / spread).mT, labels[rows])

    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    least, best = torch.inf, copy.deepcopy(model.state_dict())
    for _ in range(100):
        for rows in (held_out + torch.randperm(len(inputs) - held_out)).split(64):
            optimiser.zero_grad()
            loss(rows).backward()
            optimiser.step()
        with torch.no_grad():
            value = loss(slice(0, held_out)).item()
        if value < least:
            least, best = value, copy.deepcopy(model.state_dict())
    model.load_state_dict(best)
    with torch.no_grad():
        odds = model((asked - mean) / spread).log_softmax(dim=2)
    if classes > convex.point_shape[-1]:  # the last label is none: nearest_vertex takes an entry above one half
        odds = odds[:, :, :-1] - odds[:, :, -1:] + 0.5
    return space.unpack(space.unrelax(space.Batch(**{name: odds})))


def measured(name: str, seed: int, given: str, registry: Registry) -> dict[str, object]:
    """The share of right answers of all, on the same pairs."""
    output, count, draw = SETS[name]
    inputs, outputs = draw(count + TEST, torch.Generator().manual_seed(seed))
    asked, truths = inputs[count:], outputs[count:]

    def right(found: Sequence[Any]) -> float:
        return sum(one == other for one, other in zip(found, truths, strict=True)) / TEST

    began = time.monotonic()
    predictor = StructuredPredictor(output, seed=seed, registry=registry, verbose=True, **json.loads(given))
    predictor.fit(inputs[:count].tolist(), outputs[:count])
    seconds, began = time.monotonic() - began, time.monotonic()
    exact = right(predictor.predict(asked.tolist()))
    predicting, began = time.monotonic() - began, time.monotonic()
    space = predictor.model_.space
    plain = right(network(inputs[:count], outputs[:count], asked, space, seed))
    network_seconds = time.monotonic() - began
    nearest = torch.cdist(asked, inputs[:count]).argmin(dim=1).tolist()
    return {
        "command": f"python benchmarks/geometries.py --sets {name} --seeds {seed} --options '{given}'",
        "set": name,
        "options": json.loads(given),
        "pairs": count,
        "seed": seed,
        "test_pairs": TEST,
        "exact": exact,
        "network": plain,
        "copying": right([outputs[row] for row in nearest]),
        "training_seconds": round(seconds, 1),
        "predicting_seconds": round(predicting, 1),
        "network_seconds": round(network_seconds, 1),
        "machine": {"processor": platform.machine(), "cores": os.cpu_count(), "threads": torch.get_num_threads()},
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def plugins() -> Registry:
    """The installed plugins, the one above and that of the tutorial."""
    sys.path.append(str(ROOT / "docs" / "examples" / "ele-rankings"))
    import ele_rankings

    registry = Registry(load_installed())
    registry.register(Plugin(), "ele-assignments")
    if "ranking" not in registry.names("output"):
        registry.register(ele_rankings, "ele-rankings")
    return registry


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), help="the problems (default all)")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], help="seeds of the pairs and the trainings")
    parser.add_argument("--options", default="{}", help="arguments of the predictor, as JSON (default: none)")
    parser.add_argument("--output", type=Path, help="the record to add to")
    options = parser.parse_args()
    registry = plugins()
    for name in options.sets:
        for seed in options.seeds:
            result = measured(name, seed, options.options, registry)
            print(json.dumps(result), flush=True)
            if options.output:
                known = json.loads(options.output.read_text("utf-8")) if options.output.exists() else []
                same = {key: result[key] for key in ("set", "seed", "options")}
                kept = [each for each in known if any(each[key] != value for key, value in same.items())]
                write_text(options.output, json.dumps([*kept, result], indent=2) + "\n")


if __name__ == "__main__":
    main()
