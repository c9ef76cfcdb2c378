"""What a plugin author implements: the one file to read before writing a plugin.

The way of the data: objects → `OutputSpace.pack` → batch → `Surrogate.embed` (a loss on outputs, as an
embedding) → `Regressor.predict` (an input to a query in that embedding) → `Decoder.decode` (the structure of
least energy) → `OutputSpace.unpack` → objects.

Every component is a class with a nested pydantic `Config`, and is built as `Component(config, …)`.
A *batch* is a `Tensors` dataclass of small integers; a *point* is the same dataclass, relaxed: its geometric
fields hold floats in the convex sets that `OutputSpace.geometry` names.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar, get_args

import torch
from pydantic import BaseModel, ConfigDict
from torch import Generator, Tensor, nn

from ele_core.display.notebook import curve, table
from ele_core.errors import InvalidInput, InvalidOutput
from ele_core.numerics.keys import fresh_moves, hash_rows
from ele_core.numerics.sets import ConvexSet, all_switches
from ele_core.numerics.sparse import SparseRows
from ele_core.numerics.tensors import Tensors

if TYPE_CHECKING:
    from ele_core.data.dataset import DataSet
    from ele_core.experiments.ranges import Range
    from ele_core.experiments.study import Study
    from ele_core.plugins.registry import Registry
    from ele_core.runtime.context import Context

Y = TypeVar("Y")
"""The user's output objects."""
X = TypeVar("X")
"""The user's input objects."""
T = TypeVar("T", bound=Tensors)
"""The dataclass of a space's batches and points."""


class ComponentConfig(BaseModel):
    """Base of every component's options: unknown keys are refused, each field says what it is for.

    Document a field with a string below it; the reference page and `ele plugins NAME` show it.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, use_attribute_docstrings=True, allow_inf_nan=False
    )


MOST_LAYERS = 1024
"""The most layers an option may ask for: several times as many as the deepest networks in use have.

A configuration may come with a model that somebody else made. Widths are compared with the stored weights before memory
is allocated, but a network of a billion layers could not even be built to be compared.
"""

Kind = Literal["output", "encoder", "surrogate", "input", "backbone", "regressor", "decoder", "task"]
"""The kinds of component; each has one hook, one base class below, and sections of its own in a configuration."""
KINDS: tuple[Kind, ...] = get_args(Kind)


class Choice(BaseModel):
    """A component chosen by name, with its options beside it, as in `{name = "gru", width = 256}`.

    A component that is built of others has fields annotated with the kind it takes, such as
    `encoder: Annotated[Choice, Takes("encoder")] = Choice(name="flat")`.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str
    """The name under which a plugin registered the component."""

    @property
    def options(self) -> dict[str, Any]:
        """The options given, not yet validated: only the component's own `Config` knows them."""
        return dict(self.model_extra or {})


@dataclasses.dataclass(frozen=True)
class Takes:
    """Marks a `Choice` field with the kind of component it takes."""

    kind: Kind


class Component:
    """Anything a plugin can register. Its whole configuration is `self.config`."""

    class Config(ComponentConfig):
        """No options."""

    config: Any
    registry: Registry | None = None
    """The registry that created this component by its name; None if it was built directly."""

    def __init__(self, config: ComponentConfig | None = None) -> None:
        self.config = config if config is not None else self.Config()


@dataclasses.dataclass(frozen=True)
class Metric(Generic[T]):
    """A measure of predictions against truths, one value an example: `function(predicted, true) -> (B,)`."""

    name: str
    direction: Literal["min", "max"]
    function: Callable[[T, T], Tensor]
    summary: str = ""


@dataclasses.dataclass(frozen=True)
class Drawing:
    """How an object looks: SVG where there is a picture, text always."""

    text: str
    svg: str | None = None
    png: Callable[[], bytes] | None = None
    """Draws the same as PNG, where the space can."""
    pieces: tuple[tuple[str, bool], ...] = ()
    """The object as text in pieces, each with whether it differs from what it is drawn against; empty: not known."""

    def _repr_svg_(self) -> str | None:
        return self.svg

    def __str__(self) -> str:
        return self.text


class OutputSpace(Component, ABC, Generic[Y, T]):
    """A set of structured outputs, and its relaxation into a product of convex sets.

    An author writes a frozen dataclass for the batches (`Batch`), `geometry`, `pack`, `unpack`, `augment`,
    `parse`, `format`, `infer` and `examples`; everything else has a default that follows from these.
    """

    Batch: ClassVar[type[Tensors]]
    """The dataclass of this space's batches and points."""

    # -- what every space writes ---------------------------------------------------------------------------------

    @property
    @abstractmethod
    def geometry(self) -> Mapping[str, ConvexSet]:
        """Field of the batch → the convex set it is relaxed into."""

    @abstractmethod
    def pack(self, objects: Sequence[Y]) -> T:
        """Objects → a batch of small integers. Raises `InvalidOutput` with the index and the reason."""

    @abstractmethod
    def unpack(self, batch: T) -> list[Y]:
        """The inverse of `pack`, up to `keys`."""

    @abstractmethod
    def augment(self, batch: T, generator: Generator) -> T:
        """Another view of each structure, inside the space: what contrastive learning pulls together."""

    @classmethod
    @abstractmethod
    def parse(cls, text: str) -> Y:
        """An object from its text, as it stands in a CSV cell. Raises `InvalidOutput`.

        No configuration is needed to read an object: that is what lets `infer` learn one from a file.
        """

    @classmethod
    @abstractmethod
    def format(cls, obj: Y) -> str:
        """The inverse of `parse`."""

    @classmethod
    @abstractmethod
    def infer(cls, objects: Sequence[Y], options: Mapping[str, Any]) -> ComponentConfig:
        """The configuration that holds all `objects`: labels and sizes from data; `options` given by hand win."""

    @abstractmethod
    def examples(self) -> list[Y]:
        """A few valid, different objects."""

    # -- the relaxation, by default from the geometry -------------------------------------------------------------

    def relax(self, batch: T) -> T:
        """R: the vertex of the relaxed set that stands for each structure."""
        return batch.replace(**{name: s.vertices(getattr(batch, name)) for name, s in self.geometry.items()})

    def project(self, point: T) -> T:
        """The nearest point of the relaxed set: argmin over p in Ȳ of ‖p − point‖²."""
        return point.replace(**{name: s.project(getattr(point, name)) for name, s in self.geometry.items()})

    def unrelax(self, point: T) -> T:
        """R⁻¹: a relaxed point → the structure it stands for; any point of the relaxed set gives a valid batch."""
        return point.replace(**{name: s.nearest_vertex(getattr(point, name)) for name, s in self.geometry.items()})

    # -- working defaults -----------------------------------------------------------------------------------------

    def keys(self, batch: T) -> Tensor:
        """(B, 2) int64, equal exactly when two structures are the same; right as it is where packing is canonical."""
        return hash_rows([tensor for _, tensor in batch.named_tensors()])

    def equivalents(self, batch: T, generator: Generator) -> T:
        """Other packings of the same structures, such as graphs in another order of their nodes; by default the same.

        Only the conformance kit asks: keys are equal for them, and so is an embedding that is `invariant`.
        """
        return batch

    def moves(self, batch: T, gradient: T | None = None) -> tuple[T, Tensor]:
        """Structures one move away from each of `batch`, and the row (M,) each belongs to, rows in order.

        By default the moves switch one block of one field to another vertex. With `gradient` (of a loss, at the relaxed
        batch) those of a row come by their first-order change. Several moves may lead to one structure, or to none
        that is new: `neighbours` sees to that.
        """
        return all_switches(self.geometry, batch, gradient)

    def neighbours(self, batch: T, gradient: T | None = None, limit: int | None = None) -> tuple[T, Tensor]:
        """What `moves` lead to, each structure once in its row, none of them the row itself.

        `limit` keeps the first so many of each row.
        """
        moved, owner = self.moves(batch, gradient)
        rows = fresh_moves(self.keys(moved), owner, self.keys(batch), limit)
        return moved[rows], owner[rows]

    @property
    def metrics(self) -> Sequence[Metric[T]]:
        """Measures of a prediction; the first is the primary one."""
        return (self.exact_match,)

    @property
    def exact_match(self) -> Metric[T]:
        """1 where the prediction is the same structure as the truth."""

        def equal_keys(predicted: T, true: T) -> Tensor:
            return (self.keys(predicted) == self.keys(true)).all(dim=1).float()

        return Metric("exact", "max", equal_keys, "share of predictions equal to the truth")

    def render(self, obj: Y, against: Y | None = None) -> Drawing:
        """A picture or a text of `obj`, with what differs from `against` marked where the space can."""
        return Drawing(self.format(obj) or "(empty)")

    def properties(self, batch: T) -> dict[str, Tensor]:
        """Numbers that describe each structure, for colouring and filtering in reports."""
        return {}

    def invalid(self, what: str, index: int = 0) -> InvalidOutput:
        """The error for the object at `index`, ready to raise."""
        return InvalidOutput(what, index=index)


class Encoder(Component, nn.Module, ABC):
    """A network on relaxed structures, differentiable in the point. Built as `Encoder(config, space, dim)`."""

    invariant: ClassVar[bool] = False
    """Whether all packings of a structure (`OutputSpace.equivalents`) have the same embedding."""

    def __init__(self, config: ComponentConfig | None, space: OutputSpace[Any, Any], dim: int) -> None:
        nn.Module.__init__(self)
        Component.__init__(self, config)
        self.dim = dim
        self.accepts(space)

    @classmethod
    def accepts(cls, space: OutputSpace[Any, Any]) -> None:
        """Raise `ConfigError` when this encoder cannot read the points of `space`."""

    @abstractmethod
    def forward(self, point: Any) -> Tensor:
        """A point of B structures → (B, dim), not normalised."""


@dataclasses.dataclass(frozen=True)
class Stage:
    """A stage of `fit` that reports evaluations, and the metric, lower is better, by which its weights are kept."""

    name: str
    decides: str


class Learner(Component, ABC):
    """A component that learns: what it has learned can be saved, restored and moved."""

    stages: ClassVar[Sequence[Stage]] = ()
    """The stages of `fit` that report evaluations, in order: reports and tuning read the metric that decides."""

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """Everything `fit` learned, as named tensors."""

    @abstractmethod
    def restore(self, state: Mapping[str, Tensor]) -> None:
        """The inverse of `state`."""

    def to(self, device: torch.device) -> Self:
        """Move what was learned to `device`."""
        return self


class NetworkLearner(Learner):
    """A learner that learns the weights of one network, such as `class Mine(NetworkLearner, Surrogate)`."""

    network: nn.Module

    def state(self) -> dict[str, Tensor]:
        """The weights of the network."""
        return self.network.state_dict()

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Load the weights of the network."""
        self.network.load_state_dict(dict(state))

    def to(self, device: torch.device) -> Self:
        """Move the network."""
        self.network.to(device)
        return self


class Surrogate(Learner):
    """A loss on outputs, as an embedding: small where two structures are alike. Built as `Surrogate(config, space)`.

    The energy of a structure y for a query q is `‖embed(y) − q‖²` unless a surrogate says otherwise.
    """

    differentiable: ClassVar[bool] = False
    """Whether `energy_at` exists: what gradient decoding needs."""
    spherical: ClassVar[bool] = True
    """Whether embeddings have norm 1: a regressor then puts its queries on the sphere as well."""

    def __init__(self, config: ComponentConfig | None, space: OutputSpace[Any, Any]) -> None:
        super().__init__(config)
        self.space = space

    @property
    @abstractmethod
    def dim(self) -> int:
        """The dimension of the embedding, known before `fit`."""

    @abstractmethod
    def fit(self, outputs: Any, validation: Any, extra: Any | None, context: Context) -> None:
        """Learn from packed outputs alone; `extra` are outputs of a nearby distribution, for pre-training."""

    @abstractmethod
    def embed(self, batch: Any) -> Tensor:
        """Packed structures → (B, dim), without gradient, in chunks that bound the memory."""

    def energies(self, queries: Tensor, embeddings: Tensor) -> Tensor:
        """Every query against every embedding: (B, dim), (N, dim) → (B, N)."""
        squares = queries.square().sum(1, keepdim=True) + embeddings.square().sum(1)
        return torch.addmm(squares, queries, embeddings.T, alpha=-2).clamp_(min=0)

    def energy(self, queries: Tensor, batch: Any) -> Tensor:
        """The energy of structure i for query i: (B,)."""
        return (queries - self.embed(batch)).square().sum(dim=1)

    def energy_at(self, queries: Tensor, point: Any) -> Tensor:
        """The energy at relaxed points, differentiable in the point: (B,). Only where `differentiable`."""
        raise NotImplementedError(f"{type(self).__name__} is not differentiable")


class InputSpace(Component, ABC, Generic[X]):
    """How inputs are read and become tensors. Built as `InputSpace(config)`, then `fit` on the training inputs."""

    Batch: ClassVar[type[Tensors]]
    """The dataclass of this input's batches: what a backbone accepts."""

    @abstractmethod
    def parse(self, text: str) -> X:
        """An input from its text, as it stands in a CSV cell. Raises `InvalidInput`."""

    @abstractmethod
    def format(self, value: X) -> str:
        """The inverse of `parse`."""

    @abstractmethod
    def fit(self, values: Sequence[X]) -> None:
        """Learn what packing needs, such as a vocabulary."""

    @abstractmethod
    def pack(self, values: Sequence[X]) -> Tensors:
        """Inputs → a batch. Raises `InvalidInput` with the index and the reason."""

    def examples(self) -> list[X]:
        """A few valid, different inputs, on which the conformance kit checks this space; by default none."""
        return []

    def features(self, batch: Tensors, *, grams: int = 4) -> SparseRows:
        """φ(x): what a kernel on inputs compares, one row per input; by default the numbers of all tensors, flattened.

        `grams` is the longest run of tokens that counts, for inputs that are sequences of tokens.
        """
        tensors = [tensor for _, tensor in batch.named_tensors()]
        flat = [tensor.flatten(start_dim=1) if tensor.dim() > 1 else tensor[:, None] for tensor in tensors]
        return SparseRows.dense(torch.cat([part.float() for part in flat], dim=1))

    def sizes(self, batch: Tensors) -> Tensor | None:
        """(B,) the length of each input, to batch like with like; None where all are equal."""
        return None

    def augment(self, batch: Tensors, generator: Generator) -> Tensors:
        """Another view of each input that means the same, for training; by default the inputs themselves."""
        return batch

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write what `fit` learned into plain files under `folder`."""

    @abstractmethod
    def load(self, folder: Path) -> None:
        """The inverse of `save`."""

    def invalid(self, what: str, index: int = 0) -> InvalidInput:
        """The error for the input at `index`, ready to raise."""
        return InvalidInput(what, index=index)


class Backbone(Component, nn.Module, ABC):
    """A network on inputs. Built as `Backbone(config, inputs, dim)`, after `inputs.fit`."""

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], dim: int) -> None:
        nn.Module.__init__(self)
        Component.__init__(self, config)
        self.dim = dim
        self.accepts(inputs)

    @classmethod
    def accepts(cls, inputs: InputSpace[Any]) -> None:
        """Raise `ConfigError` when this backbone cannot read the batches of `inputs`."""

    @abstractmethod
    def forward(self, batch: Any) -> Tensor:
        """A batch of B inputs → (B, dim), not normalised."""


class Regressor(Learner):
    """From inputs to queries in a surrogate's embedding. Built as `Regressor(config, inputs, surrogate)`."""

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], surrogate: Surrogate) -> None:
        super().__init__(config)
        self.inputs = inputs
        self.surrogate = surrogate

    @abstractmethod
    def fit(self, train: tuple[Tensors, Any], validation: tuple[Tensors, Any], context: Context) -> None:
        """Learn from pairs of packed inputs and packed outputs."""

    @abstractmethod
    def predict(self, inputs: Tensors) -> Tensor:
        """Packed inputs → queries (B, q), without gradient, in chunks that bound the memory."""


@dataclasses.dataclass(frozen=True)
class Candidates:
    """A finite set of packed structures with their embeddings; `owner` (N,) names the input each belongs to, if any."""

    batch: Any
    embeddings: Tensor
    owner: Tensor | None = None

    def __len__(self) -> int:
        return len(self.embeddings)


@dataclasses.dataclass(frozen=True)
class Problem:
    """What a decoder searches: a space, the loss on it, and candidates to choose or start from."""

    space: OutputSpace[Any, Any]
    surrogate: Surrogate
    candidates: Candidates


@dataclasses.dataclass(frozen=True)
class Trace:
    """What a decoder passed through: for each recorded step, one packed structure and one energy per input."""

    steps: Sequence[int]
    structures: Sequence[Any]
    energies: Sequence[Tensor]

    def _repr_svg_(self) -> str | None:
        if not len(self.steps):
            return None
        means = [energies.mean().item() for energies in self.energies]
        return curve(self.steps, means, f"mean energy of {len(self.energies[0]):,} inputs, by step")


@dataclasses.dataclass(frozen=True)
class Decoding:
    """The `top_k` best structures of each of B queries, best first: row `i * top_k + j` is the j-th for query i."""

    structures: Any
    energies: Tensor
    trace: Trace | None = None

    @property
    def top_k(self) -> int:
        """How many structures there are for each query."""
        return self.energies.shape[1]

    def rows(self, first: int, end: int) -> Decoding:
        """The decoding of the queries from `first` up to `end`, without the trace."""
        structures = self.structures[first * self.top_k : end * self.top_k]
        return Decoding(structures, self.energies[first:end])

    @property
    def best(self) -> Any:
        """The best structure of each query."""
        return self.structures[torch.arange(0, len(self.structures), self.top_k)]

    def _repr_html_(self) -> str:
        rows = [(str(row), *(f"{energy:.4g}" for energy in own)) for row, own in enumerate(self.energies.tolist())]
        return table(("query", *(f"energy, rank {rank}" for rank in range(1, self.top_k + 1))), rows)


@dataclasses.dataclass(frozen=True)
class Variant:
    """A way of decoding that `ele sweep` compares with others: some options of a decoder, under a name of its own."""

    name: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    label: str = ""
    """What a figure calls it; empty: its name."""


class Decoder(Component, ABC):
    """Finds the structures of least energy for queries. Built as `Decoder(config)`. Never changes a weight."""

    variants: ClassVar[Sequence[Variant]] = ()
    """The ways of decoding that `ele sweep` compares; empty: the decoder itself, under its registered name."""
    traces: ClassVar[bool] = False
    """Whether `decode` records a `Trace` with `trace=True`. Only a decoder that says so is given this argument."""

    @property
    def needs_gradient(self) -> bool:
        """Whether it needs a surrogate that is `differentiable`."""
        return False

    def accepts(self, surrogate: Surrogate) -> None:
        """Raise `ConfigError` when this decoder cannot work with `surrogate`; asked before a training begins."""

    @abstractmethod
    def decode(
        self, queries: Tensor, problem: Problem, *, top_k: int = 1, trace: bool = False, context: Context
    ) -> Decoding:
        """The `top_k` distinct structures of least energy found for each query (B, q); with `trace`, the way there."""


@dataclasses.dataclass(frozen=True)
class Reference:
    """A published result to stand beside ours: metric name → value, and → standard deviation where it was published."""

    name: str
    values: Mapping[str, float]
    source: str
    deviations: Mapping[str, float] = dataclasses.field(default_factory=dict)


class Task(Component, ABC):
    """A named data set with the configuration that suits it and the results known for it."""

    references: ClassVar[Sequence[Reference]] = ()
    """Results that others have published."""
    studies: ClassVar[Sequence[Study]] = ()
    """Tables and figures that `ele reproduce` makes."""
    ranges: ClassVar[Mapping[str, Range]] = {}
    """What `ele tune` tries, by option; those that a configuration does not have are left out."""

    @classmethod
    @abstractmethod
    def defaults(cls) -> dict[str, Any]:
        """The run configuration of this task: the sections `output`, `input`, `surrogate`, `regressor`, `decoder`."""

    @abstractmethod
    def load(self, space: OutputSpace[Any, Any], context: Context) -> DataSet:
        """The pairs, packed by `space`, with their split."""
