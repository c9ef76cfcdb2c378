"""The base classes that a plugin author implements: the one file to read before writing a plugin.

How data flow: `OutputSpace.pack` turns objects into a batch; `Surrogate.embed` maps a batch to embeddings, whose
squared distances are the loss; `Regressor.predict` maps inputs to queries, usually predicted embeddings, and
`Regressor.energy` makes an `Energy` of them; a `Proposer` adds −log p(y | x) to it, and structures to begin with;
`Decoder.decode` finds the structures of least energy for each query; `OutputSpace.unpack` turns them into objects.

Every component is a class with a nested pydantic `Config` (`component.py`), and is built as `Component(config, …)`.
A *batch* is a `Tensors` dataclass of small integers. A *point* is a relaxed batch: the same dataclass, in which the
fields named by `OutputSpace.geometry` hold floats, each in its convex set. Beside this page: `networks.py` (backbones),
`sources.py` (tasks, file readers), `optional.py` (what a space may bring) and `types.py` (data of the contract).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import torch
from torch import Generator, Tensor, nn

from ele_core import optional
from ele_core.component import Component, ComponentConfig
from ele_core.errors import InvalidInput, InvalidOutput
from ele_core.numerics.keys import hash_rows, same_keys
from ele_core.numerics.sets import ConvexSet
from ele_core.numerics.sparse import PartEnergies, SparseRows, flat_rows, nearest_rows
from ele_core.numerics.tensors import Tensors
from ele_core.types import Drawing, Metric, PlannedStage

if TYPE_CHECKING:
    from ele_core.numerics.error_model import ErrorModel
    from ele_core.runtime.context import Context
    from ele_core.types import (
        Candidates,
        Decoding,
        Member,
        Placed,
        Problem,
        Proposals,
        Reads,
        Stage,
        StoredVectors,
        TrainingData,
        Variant,
    )

Y = TypeVar("Y")  # the user's output objects
X = TypeVar("X")  # the user's input objects
T = TypeVar("T", bound=Tensors)  # the dataclass of a space's batches and points


class OutputSpace(Component, ABC, Generic[Y, T]):
    """The set of structures to predict, and its relaxation into a product of convex sets.

    Must be written: `Batch`, the dataclass of batches; `geometry`, its fields → convex sets; `augment`, a random view;
    `pack` and `unpack`, objects ↔ batches; `parse` and `format`, texts ↔ objects; `infer`, a configuration from
    objects; `examples`, a few objects for the checks.

    May be written: `relax`, `project`, `unrelax`, if not all vertices are structures; `keys` and `equivalents`, if a
    structure has several packings; `features`, parts for losses that compare parts; `metrics`, `counterexamples`,
    `takes`; and the classes `Texts`, `Moves`, `Rules` and `Show`, which `ele_core/optional.py` describes: the space
    builds them as `space.texts`, `space.moves`, `space.rules` and `space.show`.
    """

    Batch: ClassVar[type[Tensors]]
    """The dataclass of this space's batches and points."""

    # -- the relaxation: relax · project · unrelax · augment ------------------------------------------------------
    @property
    @abstractmethod
    def geometry(self) -> Mapping[str, ConvexSet]:
        """The name of each relaxed field of the batch → the convex set into which it is relaxed."""

    def relax(self, batch: T) -> T:
        """R: map each structure to its vertex of the relaxed set."""
        return batch.replace(**{name: s.vertices(getattr(batch, name)) for name, s in self.geometry.items()})

    def project(self, point: T) -> T:
        """The nearest point of the relaxed set Ȳ: argmin over p in Ȳ of ‖p − point‖²."""
        return point.replace(**{name: s.project(getattr(point, name)) for name, s in self.geometry.items()})

    def unrelax(self, point: T) -> T:
        """R⁻¹: round each point to a structure: the nearest vertex, made valid if it is not."""
        return point.replace(**{name: s.nearest_vertex(getattr(point, name)) for name, s in self.geometry.items()})

    @abstractmethod
    def augment(self, batch: T, generator: Generator) -> T:
        """A random view of each structure, also in this space; contrastive learning moves the two together."""

    # -- objects and batches --------------------------------------------------------------------------------------
    @abstractmethod
    def pack(self, objects: Sequence[Y]) -> T:
        """Pack objects into a batch of small integers; raise `self.invalid(reason, index)` if one is wrong."""

    @abstractmethod
    def unpack(self, batch: T) -> list[Y]:
        """Turn a batch into objects: the inverse of `pack`, up to structures with the same `keys`."""

    def keys(self, batch: T) -> Tensor:
        """(B, 2) int64, equal exactly if structures are the same. The default is correct if packing is canonical."""
        return hash_rows([tensor for _, tensor in batch.named_tensors()])

    def features(self, batch: T) -> SparseRows:
        """The parts of each structure and how often it has them; by default one label at one place is a part."""
        return flat_rows([getattr(self.relax(batch), name) for name in self.geometry])

    # -- objects and texts ----------------------------------------------------------------------------------------
    @classmethod
    @abstractmethod
    def parse(cls, text: str) -> Y:
        """Read an object from its text, such as a CSV cell; raise `InvalidOutput` if that is impossible."""

    @classmethod
    @abstractmethod
    def format(cls, obj: Y) -> str:
        """Write an object as text: the inverse of `parse`."""

    @classmethod
    @abstractmethod
    def infer(cls, objects: Sequence[Y], options: Mapping[str, Any]) -> ComponentConfig:
        """A configuration for all `objects`: labels and sizes from the data, unless the user's `options` give them."""

    # -- measures -------------------------------------------------------------------------------------------------
    @property
    def metrics(self) -> Sequence[Metric[T]]:
        """Measures of a prediction; the first is the primary one. By default `exact_match`."""
        return (self.exact_match,)

    @property
    def exact_match(self) -> Metric[T]:
        """1 if the prediction is the same structure as the truth, else 0."""
        return Metric("exact", "max", partial(same_keys, self.keys), "share of predictions equal to the truth")

    # -- for the checks, and for messages -------------------------------------------------------------------------
    @abstractmethod
    def examples(self) -> list[Y]:
        """A few valid, different objects, on which checks test this space."""

    def counterexamples(self) -> list[Any]:
        """Objects that `pack` must refuse and that only you can know, such as a ranking that lists an item twice."""
        return []

    def equivalents(self, batch: T, generator: Generator) -> T:
        """Other packings of the same structures, with the same keys, such as graphs with reordered nodes."""
        return batch

    takes: ClassVar[str] = ""
    """The objects of this space in a few words, such as `a text or a list of tokens`."""

    def invalid(self, what: str, index: int = 0) -> InvalidOutput:
        """The error to raise for the object at `index`."""
        return InvalidOutput(what, index=index)

    # -- optional: classes with defaults, each built with the space -----------------------------------------------
    Texts: ClassVar[type[optional.TextFormat[Any]]] = optional.TextFormat
    Moves: ClassVar[type[optional.Moves[Any]]] = optional.Moves
    Rules: ClassVar[type[optional.Rules[Any]] | None] = None
    Show: ClassVar[type[optional.Show[Any, Any]]] = optional.Show

    @property
    def texts(self) -> optional.TextFormat[Y]:
        """How objects are read from files and written to them."""
        return self.Texts(type(self), dict(self.config))

    @property
    def moves(self) -> optional.Moves[T]:
        """The small changes of structures that decoders try."""
        return self.Moves(self)

    @property
    def rules(self) -> optional.Rules[T] | None:
        """The constraints on predictions that this space understands; None: there are none."""
        return None if self.Rules is None else self.Rules(self)

    @property
    def show(self) -> optional.Show[Y, T]:
        """How objects are drawn and described."""
        return self.Show(self)


class Encoder(Component, nn.Module, ABC):
    """A network on relaxed structures, differentiable in the point. Built as `Encoder(config, space, dim)`."""

    invariant: ClassVar[bool] = False
    """Whether all packings of a structure (`OutputSpace.equivalents`) have the same embedding."""
    additive: ClassVar[bool] = False
    """Whether it is a sum over parts of a structure, with useful random weights: easy to regress from few pairs."""

    def __init__(self, config: ComponentConfig | None, space: OutputSpace[Any, Any], dim: int) -> None:
        nn.Module.__init__(self)
        Component.__init__(self, config)
        self.dim = dim
        self.space = space
        self.accepts(space)

    @classmethod
    def accepts(cls, space: OutputSpace[Any, Any]) -> None:
        """Raise `ConfigError` if this encoder cannot read the points of `space`."""

    def encode(self, batch: Any) -> Tensor:
        """`forward` of the relaxed structures of a batch: (B, dim); an encoder may have a faster way to compute it."""
        return self.forward(self.space.relax(batch))

    @abstractmethod
    def forward(self, point: Any) -> Tensor:
        """A point of B structures → (B, dim), not normalised."""


class Energy(ABC):
    """The energies of structures for B queries, and the only way from queries to energies: a decoder sees nothing else.

    `owner` (N,) int64 is the query of each structure; None: structure i is for query i. `ele_core.energies` has the
    squared distance, a weighted one, and sums of energies.
    """

    @abstractmethod
    def __len__(self) -> int:
        """The number of queries."""

    @abstractmethod
    def __getitem__(self, rows: slice | Tensor) -> Self:
        """The energy of some of the queries."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where energies are computed; `owner` and structures are there too."""

    @abstractmethod
    def identities(self) -> Tensor:
        """A hash of each query (B,) int64, on the CPU, for decoders whose random numbers depend on the query alone."""

    @abstractmethod
    def of(self, batch: Any, owner: Tensor | None = None) -> Tensor:
        """The energy of structure n for query `owner[n]`: (N,)."""

    def among(self, candidates: Candidates) -> Tensor:
        """The energy of every candidate for every query: (B, N)."""
        queries = torch.arange(len(self), device=self.device)
        return torch.stack([self.of(candidates.batch, query.repeat(len(candidates))) for query in queries])

    @property
    def placed(self) -> Placed | None:
        """The energy, or its main term, as a squared distance, by which an `Index` finds candidates; None: neither."""
        return None

    @property
    def smooth(self) -> bool:
        """Whether `at` gives the energy of points, with a gradient."""
        return False

    @property
    def usual(self) -> float | None:
        """An energy that only a tenth of the truths have at most; None: not known. `search` goes on above it."""
        return None

    def at(self, point: Any, owner: Tensor | None = None) -> Tensor:
        """The energy of point n for query `owner[n]`, differentiable in the point: (N,). Only if `smooth`."""
        raise NotImplementedError(f"{type(self).__name__} has no gradient")

    def near(self, batch: Any, owner: Tensor | None = None) -> PartEnergies | None:
        """A fast estimate, from parts, for the structures a move away from structure n; None: there is none."""
        return None

    @property
    def costly(self) -> bool:
        """Whether scoring takes so long that only a few dozen structures of each query should be scored."""
        return False

    @property
    def walk(self) -> Energy:
        """The energy that a decoder follows; the whole then ranks what it found. By default this one."""
        return self

    def proposals(self, count: int) -> Proposals | None:
        """About `count` structures for each query that are likely to have a low energy; None: it knows none."""
        return None


class Learner(Component, ABC):
    """A component that learns in `fit`; what it has learned can be saved, restored and moved to a device."""

    stages: ClassVar[Sequence[Stage]] = ()
    """The stages of `fit` that report evaluations, in order; reports and tuning read the metric that `decides`."""

    def planned(self, examples: int, extra: int) -> Sequence[PlannedStage]:
        """The steps of each stage of `fit` on so many examples and extra outputs, to estimate the time."""
        return [PlannedStage(stage.name) for stage in self.stages]

    @abstractmethod
    def fit(self, data: TrainingData, context: Context) -> None:
        """Learn from packed pairs, which may be read in parts; a surrogate usually from `data.train.outputs` alone."""

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """Everything `fit` learned, as named tensors."""

    @abstractmethod
    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `fit` learned from the tensors that `state` returned."""

    def to(self, device: torch.device) -> Self:
        """Move what was learned to `device`."""
        return self


class Surrogate(Learner):
    """A loss on structures, defined by embeddings: similar structures are close. Built as `Surrogate(config, space)`.

    The energy of a structure y for a query q is `‖embed(y) − q‖²`, with a gradient if there is `embed_at`.
    """

    spherical: bool = True
    """Whether embeddings have norm 1; regressors then normalise their queries too."""

    def __init__(self, config: ComponentConfig | None, space: OutputSpace[Any, Any]) -> None:
        super().__init__(config)
        self.space = space

    @property
    @abstractmethod
    def dim(self) -> int:
        """The dimension of the embedding, known before `fit`."""

    @abstractmethod
    def embed(self, batch: Any) -> Tensor:
        """The embeddings (B, dim) of packed structures, without gradient, computed in chunks that bound the memory."""

    def embed_at(self, point: Any) -> Tensor:
        """The embeddings (B, dim) of points, differentiable in the point. Implement it if the surrogate can."""
        raise NotImplementedError(f"{type(self).__name__} does not embed points")

    def energy(self, queries: Tensor) -> Energy:
        """The energy of structures for queries (B, q); by default the squared distance."""
        from ele_core.energies import SquaredDistance

        return SquaredDistance(self, queries)


class InputSpace(Component, ABC, Generic[X]):
    """How inputs are read and packed into tensors. Built as `InputSpace(config)`, then `fit` on the training inputs.

    `Batch`, `parse`, `format`, `fit`, `pack`, `save` and `load` must be written; all else may be.
    """

    Batch: ClassVar[type[Tensors]]
    """The dataclass of this space's batches, by which a backbone decides whether it accepts them."""
    reads: ClassVar[Reads] = "texts"
    """What `pack` takes besides what `parse` gives, and whether ELE chooses this space for it: see `types.Reads`."""

    @abstractmethod
    def parse(self, text: str) -> X:
        """Read an input from its text, such as a CSV cell; raise `InvalidInput` if that is impossible."""

    @abstractmethod
    def format(self, value: X) -> str:
        """Write an input as text: the inverse of `parse`."""

    @abstractmethod
    def fit(self, values: Sequence[X]) -> None:
        """Learn from the training inputs what packing needs, such as a vocabulary."""

    @abstractmethod
    def pack(self, values: Sequence[X]) -> Tensors:
        """Pack inputs into a batch; raise `self.invalid(reason, index)` if one is wrong."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write what `fit` learned into plain files under `folder`."""

    @abstractmethod
    def load(self, folder: Path) -> None:
        """Read the files that `save` wrote into `folder`."""

    def augment(self, batch: Tensors, generator: Generator) -> Tensors:
        """A random view of each input with the same meaning, for training; by default the inputs themselves."""
        return batch

    def sizes(self, batch: Tensors) -> Tensor | None:
        """The length of each input (B,), so that inputs of similar length are batched together; None: all are equal."""
        return None

    def unlike_training(self, values: Sequence[X]) -> list[str]:
        """For each input a short reason why it is unlike all that `fit` saw, or an empty text: trust it less."""
        return [""] * len(values)

    def properties(self, value: X) -> Mapping[str, Any]:
        """Texts and numbers that an input tells, by name, such as its `words`; None: unknown for this input.

        Constraints on the output can follow from them: `constraints.length=@words`. All inputs have the same names.
        """
        return {}

    def defaults(self, pairs: int) -> dict[str, Any]:
        """Options that suit so many pairs, if the user gives none: `backbone`, a table with a name, and `kernel`."""
        return {}

    def features(self, batch: Tensors, *, grams: int = 4) -> SparseRows:
        """φ(x), which kernels compare, a row per input; `grams`: the longest runs of tokens, if inputs have tokens."""
        return flat_rows([tensor for _, tensor in batch.named_tensors()])

    def nearest(self, batch: Tensors, others: Tensors) -> tuple[Tensor, Tensor]:
        """The row of `others` nearest to each input and its distance (B,), (B,); by default that of the `features`."""
        return nearest_rows(self.features(batch), self.features(others))

    def read_beside(self, file: str) -> None:
        """Called before `parse` with the file that the texts are from: names of files may be relative to its folder."""

    def contents(self, values: Sequence[X]) -> str:
        """A hash of what `parse` read besides its texts, such as the contents of files, for the fingerprint of data."""
        return ""

    def render(self, value: X) -> Drawing:
        """Draw an input as a picture or text; by default as its text."""
        return Drawing(self.format(value) or "(empty)")

    def examples(self) -> list[X]:
        """A few valid, different inputs, on which checks test this space."""
        return []

    def counterexamples(self) -> list[Any]:
        """Inputs that `pack` must refuse and that only you can know, for the checks."""
        return []

    def invalid(self, what: str, index: int = 0) -> InvalidInput:
        """The error to raise for the input at `index`."""
        return InvalidInput(what, index=index)


class Regressor(Learner):
    """A map from inputs to queries, usually predicted embeddings. Built as `Regressor(config, inputs, surrogate)`."""

    errors: ErrorModel | None = None
    """How queries differ from embeddings, if `fit` measured it: energies then weigh errors. By default they do not."""

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], surrogate: Surrogate) -> None:
        super().__init__(config)
        self.inputs = inputs
        self.surrogate = surrogate

    @property
    def modes(self) -> Sequence[str]:
        """The ways to predict between which `use_mode` switches, the usual first; validation pairs decide."""
        return ()

    def use_mode(self, mode: str) -> None:
        """Predict in this one of the `modes` from now on."""
        raise NotImplementedError(f"{type(self).__name__} has only one way to predict")

    def refine(self, inputs: Tensors, truths: Any, problem: Problem) -> Sequence[str]:
        """Learn from packed validation pairs what to combine the present mode with; return further modes to try."""
        return ()

    def weighed(self, inputs: Tensors) -> Sequence[Member]:
        """What `refine` weighed for packed inputs, the cheapest first, itself in the first place; empty: nothing."""
        return ()

    @abstractmethod
    def predict(self, inputs: Tensors) -> Tensor:
        """The queries (B, q) for packed inputs, without gradient, computed in chunks that bound the memory."""

    def regressed(self, queries: Tensor) -> Tensor:
        """The part of the queries that the surrogate understands, by default all: (B, …)."""
        return queries

    def energy(self, queries: Tensor) -> Energy:
        """The energy by which structures are chosen for queries: the surrogate's, with `errors` a weighted one."""
        from ele_core.energies import WeightedDistance

        if self.errors is None:
            return self.surrogate.energy(queries)
        return WeightedDistance(self.surrogate, queries, self.errors)

    def ideal_queries(self, batch: Any) -> Tensor:
        """The queries of a regressor without random errors for inputs whose outputs are `batch`: (B, q)."""
        embeddings = self.surrogate.embed(batch)
        return embeddings if self.errors is None else self.errors.expected(embeddings)


class Proposer(Learner):
    """p(y | x): a conditional distribution of structures. Built as `Proposer(config, inputs, space)`.

    Its structures are where decoders begin, and −log p is a term of the energy: see regressor `joint`.
    """

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], space: OutputSpace[Any, Any]) -> None:
        super().__init__(config)
        self.inputs = inputs
        self.space = space

    @abstractmethod
    def predict(self, inputs: Tensors) -> Tensor:
        """What `energy` needs of packed inputs, a row for each: (B, q); q = 0 if `fit` found that it cannot propose."""

    @abstractmethod
    def energy(self, queries: Tensor) -> Energy:
        """−log p(y | x) for the inputs of queries (B, q), with the `proposals` that are the most probable."""


class Decoder(Component, ABC):
    """A search for structures of least energy, built as `Decoder(config)`; one that learns is a `Learner` too."""

    variants: ClassVar[Sequence[Variant]] = ()
    """The variants that `ele sweep` compares; empty: only the decoder as configured, under its registered name."""
    traces: ClassVar[bool] = False
    """Whether `decode` can record a `Trace`; only then is it given the argument `trace`."""
    trace_note: ClassVar[str] = ""
    """What the steps of a trace are, a short text that the report shows beside them."""
    uses_candidates: ClassVar[bool] = True
    """Whether `decode` looks at the candidates; if so, their energies count for confidence too."""

    def accepts(self, energy: Energy) -> None:
        """Raise `ConfigError` if this decoder cannot work with such energies, such as those that are not `smooth`."""

    @abstractmethod
    def decode(
        self, energy: Energy, problem: Problem, *, top_k: int = 1, trace: bool = False, context: Context
    ) -> Decoding:
        """Find the `top_k` distinct structures of least energy for each query; record the steps if `trace`.

        They satisfy the constraint of their query (`Problem.constraints`). If there are fewer than `top_k`, the
        energies of the missing ones are infinite, and any structures take their places.
        """


class Index(Component, ABC):
    """The nearest of many vectors by squared distance. Built as `Index(config, vectors)`, then `build` or `restore`."""

    def __init__(self, config: ComponentConfig | None, vectors: StoredVectors) -> None:
        super().__init__(config)
        self.vectors = vectors

    def build(self, context: Context) -> None:
        """Prepare for searches, with progress. Read the vectors in chunks: they may not fit into memory."""

    @abstractmethod
    def search(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Squared distances (B, k), ascending, and rows (B, k) int64 of the nearest vectors to queries (B, m).

        Distances are those of the vectors, also if the rows are only likely to be the nearest. If fewer than k are
        found, the distances of the missing ones are infinite, and their rows 0.
        """

    def state(self) -> dict[str, Tensor]:
        """What `build` made, as named tensors; by default nothing."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned, which may be read from a file; raise `ValueError` if it cannot be that."""
