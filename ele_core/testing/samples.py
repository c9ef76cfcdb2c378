"""Samples for the checks, drawn from a fixed seed: structures, relaxed points, problems; and comparisons."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from ele_core.component import ComponentConfig
from ele_core.interfaces import Energy, InputSpace, OutputSpace, Surrogate
from ele_core.numerics.keys import distinct
from ele_core.runtime.context import Context
from ele_core.runtime.device import seeded as global_seeded
from ele_core.testing.results import Broken, require
from ele_core.types import Candidates, Problem, TrainingData

Space = OutputSpace[Any, Any]
AnySpace = OutputSpace[Any, Any] | InputSpace[Any]
SEED = 20
LONGEST = 120
"""Maximum number of characters of the labels of a structure in a message."""


def seeded(seed: int = SEED) -> Generator:
    """A fresh generator, equal at every call."""
    return Generator().manual_seed(seed)


@contextmanager
def fixed_weights(seed: int = SEED) -> Iterator[None]:
    """Seed torch's global generator inside the context, and restore it afterwards."""
    with global_seeded(seed):
        yield


def example_batch(space: Space) -> Any:
    """The examples of a space, packed."""
    return space.pack(space.examples())


def examples_of(space: AnySpace) -> list[Any]:
    """The examples of a space; raise `Broken` if it has none."""
    found = [*space.examples()]
    require(found, f"{type(space).__name__} has no examples: write the method `examples`, which returns a few of them")
    return found


def ready(space: AnySpace) -> Any:
    """An output space as it is; of an input space a fresh one of the same configuration, fitted on its examples."""
    if isinstance(space, OutputSpace):
        return space
    fresh = type(space)(space.config)
    fresh.fit(examples_of(fresh))
    return fresh


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
    moved, _ = space.moves.list(examples)
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


def close(left: Any, right: Any) -> bool:
    """Whether two results, tensors or batches, agree up to rounding."""
    if isinstance(left, Tensor):
        return left.shape == right.shape and torch.allclose(left, right, rtol=1e-4, atol=1e-6, equal_nan=True)
    return all(close(tensor, getattr(right, name)) for name, tensor in left.named_tensors())


def same_state(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> bool:
    """Whether two states hold the same tensors under the same names."""
    return left.keys() == right.keys() and all(torch.equal(value, right[name]) for name, value in left.items())


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


def require_labels(space: Space, batch: Any, what: str) -> None:
    """Raise `Broken` unless the fields of the geometry hold labels of their convex sets."""
    for name, convex in space.geometry.items():
        labels = getattr(batch, name)
        require(not labels.is_floating_point(), f"{what}: field '{name}' holds {labels.dtype}, not integers")
        shape = (len(batch), *convex.label_shape)
        require(labels.shape == shape, f"{what}: field '{name}' has shape {tuple(labels.shape)}, not {shape}")
        outside = bool(((labels < 0) | (labels >= convex.label_count)).any())
        require(not outside, f"{what}: field '{name}' has labels outside 0 … {convex.label_count - 1}")


def require_inside(space: Space, batch: Any, what: str) -> None:
    """Raise `Broken` unless `batch` is valid: labels of the geometry, and the same structures if packed again."""
    require(isinstance(batch, space.Batch), f"{what}: a {type(batch).__name__}, not a {space.Batch.__name__}")
    require_labels(space, batch, what)
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


UNUSUAL = 0x5EED_0F_C8EC5
"""The seed of all global generators during a check: no component seeds them with it by chance."""


@contextmanager
def unusual_generators(seed: int = UNUSUAL) -> Iterator[None]:
    """Seed the global generators with an unusual number, and restore them afterwards."""
    python, numpy = random.getstate(), np.random.get_state()
    with global_seeded(seed):
        np.random.seed(seed % (1 << 32))
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


def generators_used(function: Callable[[], Any]) -> list[str]:
    """The global generators, by name, that a call leaves in another state; it restores them."""
    with unusual_generators():
        before = states()
        function()
        return [name for name, state in states().items() if state != before[name]]


def require_own_randomness(what: str, function: Callable[[], Any]) -> None:
    """Raise `Broken` if a call draws from a global generator or seeds one."""
    used = " and ".join(generators_used(function))
    require(
        not used,
        f"{what} draws from or seeds the global generator of {used}: use only the `generator` that it is given, or "
        "`context.generator(name)`",
    )


def states() -> dict[str, bytes | str]:
    """The state of each global generator, as something that can be compared."""
    return {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "numpy": repr([part.tolist() if isinstance(part, np.ndarray) else part for part in np.random.get_state()]),
        "Python's random": repr(random.getstate()),
    }


CANDIDATES = 12


class LinearSurrogate(Surrogate):
    """ψ(y) = W · relax(y), flattened, with a fixed random W; in float64, so that batches of any size round alike."""

    class Config(ComponentConfig):
        """Options: the dimension."""

        dim: int = 16
        """Dimension of the embedding."""

    config: Config

    def __init__(self, config: ComponentConfig | None, space: Space) -> None:
        super().__init__(config, space)
        size, dim = sum(math.prod(convex.point_shape) for convex in space.geometry.values()), self.config.dim
        self.weights = torch.randn(size, dim, generator=seeded(), dtype=torch.float64) / dim**0.5

    @property
    def dim(self) -> int:
        return self.config.dim

    def fit(self, data: TrainingData, context: Context) -> None:
        """Nothing is learned."""

    def embed(self, batch: Any) -> Tensor:
        return self.embed_at(self.space.relax(batch))

    def state(self) -> dict[str, Tensor]:
        return {"weights": self.weights}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.weights = state["weights"]

    def embed_at(self, point: Any) -> Tensor:
        flat = [getattr(point, name).double().flatten(start_dim=1) for name in self.space.geometry]
        found: Tensor = torch.cat(flat, dim=1) @ self.weights
        return found


class BlindSurrogate(LinearSurrogate):
    """The same embedding without a gradient, to check decoders that need none."""

    embed_at = Surrogate.embed_at

    def embed(self, batch: Any) -> Tensor:
        return LinearSurrogate.embed_at(self, self.space.relax(batch))


@dataclasses.dataclass(frozen=True)
class SampleProblem(Problem):
    """A problem with the surrogate whose energies decide."""

    surrogate: Surrogate = dataclasses.field(kw_only=True)

    def energy(self, queries: Tensor) -> Energy:
        """The energy for queries (B, q)."""
        return self.surrogate.energy(queries)


def sample_problem(space: Space, surrogate: Surrogate | None = None) -> SampleProblem:
    """A problem for decoders: a few candidates of `space`, by default under a `LinearSurrogate`."""
    surrogate = surrogate or LinearSurrogate(None, space)
    batch = structures(space, 2 * CANDIDATES)[::2]
    return SampleProblem(space, Candidates(batch, surrogate.embed(batch)), surrogate=surrogate)


def sample_queries(problem: SampleProblem, count: int = 5) -> Tensor:
    """Embeddings of structures, half of which are not candidates."""
    return problem.surrogate.embed(structures(problem.space, 2 * CANDIDATES)[:count])
