"""Samples for the checks: structures and relaxed points of any space, drawn from a fixed seed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Generator, Tensor

from ele_core.interfaces import InputSpace, OutputSpace
from ele_core.numerics.keys import distinct
from ele_core.testing.results import Broken, require

Space = OutputSpace[Any, Any]
SEED = 20
LONGEST = 120
"""The most characters of the labels of a structure in a message."""


def seeded(seed: int = SEED) -> Generator:
    """A fresh generator, equal at every call."""
    return Generator().manual_seed(seed)


@contextmanager
def fixed_weights(seed: int = SEED) -> Iterator[None]:
    """Seed torch's global generator inside the context, and restore it afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def example_batch(space: Space) -> Any:
    """The examples of a space, packed."""
    return space.pack(space.examples())


def examples_of(inputs: InputSpace[Any]) -> list[Any]:
    """The examples of an input space; raise `Broken` if it has none."""
    found = inputs.examples()
    require(found, f"{type(inputs).__name__} has no examples: write the method `examples`, which returns a few inputs")
    return found


def points(space: Space, count: int, generator: Generator, dtype: torch.dtype = torch.float32) -> Any:
    """Random points of the relaxed set: interior, faces and vertices; fields outside the geometry are the examples'."""
    carried = repeated(example_batch(space), count)
    return carried.replace(**{name: s.sample(count, generator, dtype) for name, s in space.geometry.items()})


def points_around(space: Space, count: int, scale: float, dtype: torch.dtype) -> Any:
    """Points in and around the relaxed set: points of it plus noise of size `scale`."""
    generator = seeded()
    inside = points(space, count, generator, torch.float64)
    noisy = {
        name: getattr(inside, name) + scale * torch.randn(getattr(inside, name).shape, generator=generator).double()
        for name in space.geometry
    }
    return inside.replace(**{name: value.to(dtype) for name, value in noisy.items()})


def structures(space: Space, count: int) -> Any:
    """At most `count` different structures: the examples, then unrelaxed random points of the relaxed set."""
    examples = example_batch(space)
    drawn = space.unrelax(points(space, 8 * count, seeded()))
    together = type(examples).cat([examples, cast_like(drawn, examples)])
    return together[distinct(space.keys(together))][:count]


def varied(space: Space, count: int, *, views: bool = True) -> Any:
    """Structures of all sources: the examples, their moves, unrelaxed random points and, with `views`, views.

    A view is in the space, but need not be a structure that `unrelax` gives. Structures are not compared by their keys,
    which may be wrong: some may be the same.
    """
    examples = example_batch(space)
    moved, _ = space.moves(examples)
    step = max(1, len(moved) // count)
    sources = [moved[torch.arange(0, len(moved), step)[:count]], space.unrelax(points(space, count, seeded(1)))]
    if views:
        sources.append(space.augment(repeated(examples, count), seeded()))
    return type(examples).cat([examples, *(cast_like(each, examples) for each in sources)])


def objects_of(space: Space, count: int) -> list[Any]:
    """The examples, and other objects with different texts, `count` in all."""
    found = {str(space.format(obj)): obj for obj in (*space.examples(), *space.unpack(varied(space, count)))}
    return [*found.values()][:count]


def repeated(batch: Any, count: int) -> Any:
    """`count` rows: those of `batch`, repeated in turn."""
    return batch[torch.arange(count) % len(batch)]


def cast_like(batch: Any, like: Any) -> Any:
    """`batch` with the dtypes of `like`."""
    return batch.replace(**{name: tensor.to(getattr(like, name).dtype) for name, tensor in batch.named_tensors()})


def same_tensors(left: Any, right: Any) -> bool:
    """Whether two batches hold the same values."""
    return all(torch.equal(tensor, getattr(right, name)) for name, tensor in left.named_tensors())


def same_rows(left: Tensor, right: Tensor) -> Tensor:
    """(B,) whether two keys (B, 2) are equal, row by row."""
    return (left == right).all(dim=1)


def require_same_structures(space: Space, found: Any, expected: Any, what: str) -> None:
    """Raise `Broken`, with `what` and the first row that differs, unless two batches hold the same structures."""
    require(len(found) == len(expected), f"{what}: {len(expected)} structures became {len(found)}")
    differ = (~same_rows(space.keys(found), space.keys(expected))).nonzero().flatten()
    if len(differ):
        row = int(differ[0])
        raise Broken(f"{what}: row {row}, {described(space, expected, row)}, became {described(space, found, row)}")


def require_inside(space: Space, batch: Any, what: str) -> None:
    """Raise `Broken` unless `batch` is valid: labels of the geometry, and the same structures if packed again."""
    require(isinstance(batch, space.Batch), f"{what}: a {type(batch).__name__}, not a {space.Batch.__name__}")
    for name, convex in space.geometry.items():
        labels = getattr(batch, name)
        require(not labels.is_floating_point(), f"{what}: field '{name}' holds {labels.dtype}, not integers")
        shape = (len(batch), *convex.label_shape)
        require(labels.shape == shape, f"{what}: field '{name}' has shape {tuple(labels.shape)}, not {shape}")
        outside = bool(((labels < 0) | (labels >= convex.label_count)).any())
        require(not outside, f"{what}: field '{name}' has labels outside 0 … {convex.label_count - 1}")
    require_same_structures(space, space.pack(space.unpack(batch)), batch, f"{what}, unpacked and packed again")


def described(space: Space, batch: Any, row: int) -> str:
    """A structure as text, or why it has none, and its labels: different structures may have the same text."""
    try:
        text = repr(space.format(space.unpack(batch[row : row + 1])[0]))
    except Exception as error:  # the structure is reported as wrong: it may have no text either
        text = f"a structure without a text ({type(error).__name__})"
    return f"{text} ({labels_of(batch, row)})"


def require_line(text: Any, what: str) -> None:
    """Raise `Broken` unless `what` gave a text without line breaks."""
    require(isinstance(text, str), f"{what} gives a {type(text).__name__}, not a str")
    require(
        text.splitlines() in ([], [text]), f"{what} gives a text with a line break: {text!r}. Files have one a line"
    )


def labels_of(batch: Any, row: int) -> str:
    """The tensors of one row, as `tokens = [1, 2, 0]`; long ones are cut."""
    shown = (f"{name} = {tensor[row].tolist()}" for name, tensor in batch.named_tensors())
    return "; ".join(text if len(text) <= LONGEST else f"{text[:LONGEST]}…" for text in shown)


def unchanged(batch: Any, function: Any) -> bool:
    """Whether `function(batch)` does not change the tensors of `batch`."""
    before = batch.map(torch.clone)
    function(batch)
    return same_tensors(before, batch)
