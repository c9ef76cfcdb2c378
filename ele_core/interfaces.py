"""The base classes that a plugin author implements: the one file to read before writing a plugin.

How data flow: `OutputSpace.pack` turns objects into a batch; `Surrogate.embed` maps a batch to embeddings, whose
squared distances are the loss; `Regressor.predict` maps inputs to queries, usually predicted embeddings, and
`Regressor.energy` makes an `Energy` of them; `Decoder.decode` finds the structures of least energy for each query;
`OutputSpace.unpack` turns them into objects.

Every component is a class with a nested pydantic `Config`, and is built as `Component(config, …)`.
A *batch* is a `Tensors` dataclass of small integers. A *point* is a relaxed batch: the same dataclass, in which the
fields named by `OutputSpace.geometry` hold floats, each in its convex set.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Generic, Self, TypeVar

import torch
from pydantic import BaseModel, ConfigDict
from torch import Generator, Tensor, nn

from ele_core import optional
from ele_core.errors import InvalidInput, InvalidOutput
from ele_core.numerics.keys import first_two, fresh_moves, hash_rows, ranks
from ele_core.numerics.sets import ConvexSet, all_switches
from ele_core.numerics.sparse import PartEnergies, SparseRows, nearest_rows
from ele_core.numerics.tensors import Tensors
from ele_core.runtime.progress import PlannedStage
from ele_core.types import Candidates, Decoding, Drawing, Metric, Problem, Reference, Stage, Variant
from ele_core.upgrade import refuse_replaced

if TYPE_CHECKING:
    from ele_core.data.dataset import DataSet
    from ele_core.experiments.ranges import Range
    from ele_core.experiments.study import Study
    from ele_core.numerics.error_model import ErrorModel
    from ele_core.plugins.registry import Registry
    from ele_core.runtime.context import Context

Y = TypeVar("Y")
"""The user's output objects."""
X = TypeVar("X")
"""The user's input objects."""
T = TypeVar("T", bound=Tensors)
"""The dataclass of a space's batches and points."""


class ComponentConfig(BaseModel):
    """Base class of every component's options. Unknown keys are refused; every field must be described.

    Describe a field in a string below it: the reference page and `ele plugins NAME` show this text.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)


MOVES_AT_ONCE = 2048
"""Moves whose parts are counted at once: bounds the memory."""


class Component:
    """Base class of everything that a plugin can register. `self.config` holds its validated options."""

    class Config(ComponentConfig):
        """No options."""

    config: Any
    registry: Registry | None = None
    """The registry that created this component by its name; None if it was built directly."""
    registered_as: str = ""
    """The name under which the registry created it."""

    def __init__(self, config: ComponentConfig | None = None) -> None:
        self.config = config if config is not None else self.Config()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        refuse_replaced(cls)


class OutputSpace(Component, ABC, Generic[Y, T]):
    """The set of structures to predict, and its relaxation into a product of convex sets.

    A subclass defines a frozen dataclass for the batches (`Batch`), `geometry`, `pack`, `unpack`, `augment`,
    `parse`, `format`, `infer` and `examples`; everything else has a default that follows from these.
    """

    Batch: ClassVar[type[Tensors]]
    """The dataclass of this space's batches and points."""
    takes: ClassVar[str] = ""
    """The objects of this space in a few words, such as `a text or a list of tokens`, for messages about others."""
    Constraint: ClassVar[type[BaseModel] | None] = None
    """The constraints on predictions that this space understands, as fields of a model; None: there are none."""

    Show: ClassVar[type[optional.Show[Any, Any]]] = optional.Show
    """How objects are drawn and described."""

    # -- what every space defines --------------------------------------------------------------------------------

    @property
    @abstractmethod
    def geometry(self) -> Mapping[str, ConvexSet]:
        """The name of each relaxed field of the batch → the convex set into which it is relaxed."""

    @abstractmethod
    def pack(self, objects: Sequence[Y]) -> T:
        """Pack objects into a batch of small integers; raise `InvalidOutput` with index and reason if one is wrong."""

    @abstractmethod
    def unpack(self, batch: T) -> list[Y]:
        """Turn a batch into objects: the inverse of `pack`, up to structures with the same `keys`."""

    @abstractmethod
    def augment(self, batch: T, generator: Generator) -> T:
        """A random view of each structure, also in this space; contrastive learning moves the two together."""

    @classmethod
    @abstractmethod
    def parse(cls, text: str) -> Y:
        """Read an object from its text, such as a CSV cell; raise `InvalidOutput` if that is impossible.

        A class method, because the objects of a file are read first: `infer` makes the configuration from them.
        """

    @classmethod
    @abstractmethod
    def format(cls, obj: Y) -> str:
        """Write an object as text: the inverse of `parse`."""

    @classmethod
    @abstractmethod
    def infer(cls, objects: Sequence[Y], options: Mapping[str, Any]) -> ComponentConfig:
        """A configuration for all `objects`: labels and sizes from the data, unless the user's `options` give them."""

    @abstractmethod
    def examples(self) -> list[Y]:
        """A few valid, different objects, on which checks test this space."""

    def counterexamples(self) -> list[Any]:
        """Objects that `pack` must refuse and that only you can know, for the checks; by default an empty list.

        Such as a ranking that lists an item twice, or a text that is too long.
        """
        return []

    # -- the texts of a file, and what was inferred from them -----------------------------------------------------

    @classmethod
    def infer_format(cls, texts: Sequence[str], options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Options that say how the outputs of a file are written, such as a separator; by default none.

        Called with all outputs of a file before `parse`. `infer` gets the options with these added; the user's
        `options` take precedence.
        """
        return {}

    @classmethod
    def parser(cls, options: Mapping[str, Any]) -> Callable[[str], Y]:
        """The function that reads the objects of a file under the `options` of this space; by default `parse`."""
        return cls.parse

    # -- the relaxation, by default from the geometry -------------------------------------------------------------

    def relax(self, batch: T) -> T:
        """R: map each structure to its vertex of the relaxed set."""
        return batch.replace(**{name: s.vertices(getattr(batch, name)) for name, s in self.geometry.items()})

    def project(self, point: T) -> T:
        """The nearest point of the relaxed set Ȳ: argmin over p in Ȳ of ‖p − point‖²."""
        return point.replace(**{name: s.project(getattr(point, name)) for name, s in self.geometry.items()})

    def unrelax(self, point: T) -> T:
        """R⁻¹: round each point to a structure: the nearest vertex, made valid if it is not."""
        return point.replace(**{name: s.nearest_vertex(getattr(point, name)) for name, s in self.geometry.items()})

    # -- working defaults -----------------------------------------------------------------------------------------

    def keys(self, batch: T) -> Tensor:
        """(B, 2) int64, equal exactly if structures are the same. The default is correct if packing is canonical."""
        return hash_rows([tensor for _, tensor in batch.named_tensors()])

    def equivalents(self, batch: T, generator: Generator) -> T:
        """Other packings of the same structures, such as graphs with reordered nodes; by default the batch itself.

        Only checks call it: all packings must have the same keys, and the same embedding if the encoder is `invariant`.
        """
        return batch

    def moves(self, batch: T, gradient: T | None = None) -> tuple[T, Tensor]:
        """The structures one move away from each row of `batch`, and the row (M,) each comes from, ascending.

        By default a move switches one block of one field to another vertex. Moves may repeat a structure or change
        nothing: `neighbours` removes these. It also sorts them by `gradient`, which moves of your own may ignore.
        """
        return all_switches(self.geometry, batch, gradient)

    sorts_moves: ClassVar[bool] = False
    """Whether `moves` itself sorts the moves of a row by ⟨gradient, relaxed move − relaxed structure⟩, least first."""

    def neighbours(self, batch: T, gradient: T | None = None, limit: int | None = None) -> tuple[T, Tensor]:
        """The result of `moves` without repeated and unchanged structures.

        With `gradient` (of a loss, at the relaxed batch), those of a row are sorted by the first-order change of the
        loss, smallest first. `limit`: keep only the first `limit` neighbours of each row.
        """
        moved, owner = self.moves(batch, gradient)
        if gradient is not None and not self.sorts_moves and type(self).moves is not OutputSpace.moves:
            order = self._changes(batch, moved, owner, gradient).argsort(stable=True)
            order = order[owner[order].argsort(stable=True)]
            moved, owner = moved[order], owner[order]
        rows = fresh_moves(self.keys(moved), owner, self.keys(batch), limit)
        return moved[rows], owner[rows]

    def _changes(self, batch: T, moved: T, owner: Tensor, gradient: T) -> Tensor:
        """⟨gradient of the row, relaxed move − relaxed structure⟩ of each move (M,)."""
        here, parts = self.relax(batch), torch.arange(len(owner), device=owner.device).split(MOVES_AT_ONCE)
        found = []
        for part in parts:
            there, row = self.relax(moved[part]), owner[part]
            steps = {name: getattr(there, name) - getattr(here, name)[row] for name in self.geometry}
            terms = [(step * getattr(gradient, name)[row]).flatten(1).sum(dim=1) for name, step in steps.items()]
            found.append(torch.stack(terms).sum(dim=0))
        return torch.cat(found) if found else torch.zeros(0, device=owner.device)

    ranks_moves: ClassVar[bool] = False
    """Whether `best_moves` is much faster than scoring every move by the surrogate, so that `search` uses it."""

    def best_moves(self, batch: T, estimate: PartEnergies, limit: int) -> tuple[T, Tensor]:
        """The first `limit` of the `moves` of each row by an estimate of their energy, best first, and their rows (M,).

        Row i of `estimate` is for row i of `batch`. Of moves with equal estimates, which mostly lead to the same
        structure, only two are listed.
        """
        moved, row = self.moves(batch)
        parts = torch.arange(len(row), device=row.device).split(MOVES_AT_ONCE)
        found = [estimate[row[part]].of(self.features(moved[part])) for part in parts]
        energies = torch.cat(found) if found else estimate.queries.new_zeros(0)
        order = energies.argsort(stable=True)
        order = order[row[order].argsort(stable=True)]
        order = order[first_two(energies[order], row[order])]
        order = order[ranks(row[order]) < limit]
        return moved[order], row[order]

    def features(self, batch: T) -> SparseRows:
        """The parts of each structure and how often it has them, for losses that compare parts.

        By default a part is one label at one place: the relaxed fields, flattened. A space whose parts can move, such
        as the tokens of a sequence or the atoms of a molecule, defines better ones.
        """
        point = self.relax(batch)
        fields = [getattr(point, name).flatten(start_dim=1) for name in self.geometry]
        return SparseRows.dense(torch.cat(fields, dim=1))

    @property
    def metrics(self) -> Sequence[Metric[T]]:
        """Measures of a prediction; the first is the primary one."""
        return (self.exact_match,)

    @property
    def exact_match(self) -> Metric[T]:
        """1 if the prediction is the same structure as the truth, else 0."""

        def equal_keys(predicted: T, true: T) -> Tensor:
            return (self.keys(predicted) == self.keys(true)).all(dim=1).float()

        return Metric("exact", "max", equal_keys, "share of predictions equal to the truth")

    # -- constraints on predictions, if the space defines `Constraint` --------------------------------------------

    def satisfies(self, batch: T, constraint: Any) -> Tensor:
        """(N,) bool: whether each structure satisfies one `Constraint`. Define it together with `Constraint`."""
        raise NotImplementedError(f"{type(self).__name__} has no constraints")

    def violation(self, batch: T, constraint: Any) -> Tensor:
        """(N,) floats: 0 exactly where `satisfies` is true, and larger the further away, about 1 for each move.

        `search` follows it towards structures that satisfy the constraint. By default 1 where it is not satisfied.
        """
        return (~self.satisfies(batch, constraint)).float()

    def costly(self, constraint: Any) -> bool:
        """Whether judging a structure takes so long that decoders should judge only those of least energy.

        By default no. If yes, of the candidates and of each round of `search` only the best few dozen are judged.
        """
        return False

    def constraints_of(self, batch: T, names: Sequence[str]) -> list[Any]:
        """For each structure the `Constraint` of these names that it satisfies, such as its own molecular formula.

        Evaluations use it to give models a part of the truth. Raise `KeyError` for a name of which a structure has no
        single value, such as a substructure. By default there is no name.
        """
        if names:
            raise KeyError(names[0])
        return [None] * len(batch)

    @cached_property
    def show(self) -> optional.Show[Y, T]:
        """How objects are drawn and described."""
        return self.Show(self)

    def invalid(self, what: str, index: int = 0) -> InvalidOutput:
        """The error to raise for the object at `index`."""
        return InvalidOutput(what, index=index)


class Encoder(Component, nn.Module, ABC):
    """A network on relaxed structures, differentiable in the point. Built as `Encoder(config, space, dim)`."""

    invariant: ClassVar[bool] = False
    """Whether all packings of a structure (`OutputSpace.equivalents`) have the same embedding."""

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
        encoded: Tensor = self(self.space.relax(batch))
        return encoded

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
    def smooth(self) -> bool:
        """Whether `at` gives the energy of points, with a gradient."""
        return False

    def at(self, point: Any, owner: Tensor | None = None) -> Tensor:
        """The energy of point n for query `owner[n]`, differentiable in the point: (N,). Only if `smooth`."""
        raise NotImplementedError(f"{type(self).__name__} has no gradient")

    def near(self, batch: Any, owner: Tensor | None = None) -> PartEnergies | None:
        """A fast estimate, from parts, for the structures a move away from structure n; None: there is none."""
        return None


class Learner(Component, ABC):
    """A component that learns in `fit`; what it has learned can be saved, restored and moved to a device."""

    stages: ClassVar[Sequence[Stage]] = ()
    """The stages of `fit` that report evaluations, in order; reports and tuning read the metric that `decides`."""

    def planned(self, examples: int, extra: int) -> Sequence[PlannedStage]:
        """The steps of each stage of `fit` on so many examples and extra outputs, to estimate the time that it takes.

        By default the names of the stages, without numbers of steps.
        """
        return [PlannedStage(stage.name) for stage in self.stages]

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """Everything `fit` learned, as named tensors."""

    @abstractmethod
    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `fit` learned from the tensors that `state` returned."""

    def to(self, device: torch.device) -> Self:
        """Move what was learned to `device`."""
        return self


class NetworkLearner(Learner):
    """A learner that learns only the weights of `network`; use it as in `class Mine(NetworkLearner, Surrogate)`."""

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
    """A loss on structures, defined by embeddings: similar structures are close. Built as `Surrogate(config, space)`.

    The energy of a structure y for a query q is `‖embed(y) − q‖²` unless a subclass defines another. It has a gradient
    if the surrogate embeds points (`embed_at`).
    """

    spherical: ClassVar[bool] = True
    """Whether embeddings have norm 1; regressors then normalise their queries too."""

    def __init__(self, config: ComponentConfig | None, space: OutputSpace[Any, Any]) -> None:
        super().__init__(config)
        self.space = space

    @property
    @abstractmethod
    def dim(self) -> int:
        """The dimension of the embedding, known before `fit`."""

    @abstractmethod
    def fit(self, outputs: Any, validation: Any, extra: Any | None, context: Context) -> None:
        """Learn from packed outputs, without inputs; `extra` are similar outputs for pre-training, if there are any."""

    @abstractmethod
    def embed(self, batch: Any) -> Tensor:
        """The embeddings (B, dim) of packed structures, without gradient, computed in chunks that bound the memory."""

    def embed_at(self, point: Any) -> Tensor:
        """The embeddings (B, dim) of points, differentiable in the point. Implement it if the surrogate can."""
        raise NotImplementedError(f"{type(self).__name__} does not embed points")

    def stored(self, batch: Any) -> Tensor:
        """The form (N, …) in which candidates are kept, for `Energy.among`; by default their embeddings.

        If embeddings are wide but follow from a few numbers, keep these: there may be very many candidates.
        """
        return self.embed(batch)

    def energy(self, queries: Tensor) -> Energy:
        """The energy of structures for queries (B, q); by default the squared distance."""
        from ele_core.energies import SquaredDistance

        return SquaredDistance(self, queries)


class InputSpace(Component, ABC, Generic[X]):
    """How inputs are read and packed into tensors. Built as `InputSpace(config)`, then `fit` on the training inputs."""

    Batch: ClassVar[type[Tensors]]
    """The dataclass of this space's batches, by which a backbone decides whether it accepts them."""

    takes_vectors: ClassVar[bool] = False
    """Whether `pack` takes arrays of numbers (D,); if not, `parse` gets the vectors of a file as texts."""
    default_for_vectors: ClassVar[bool] = True
    """Whether inputs that are vectors may be read by this space although the user chose none, if it takes vectors."""
    takes_arrays: ClassVar[bool] = False
    """Whether `pack` takes arrays of numbers of two or more dimensions, such as pictures."""

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
        """Pack inputs into a batch; raise `InvalidInput` with index and reason if one is wrong."""

    def read_beside(self, file: str) -> None:
        """Called before `parse` with the table that the texts are from: names of files may be relative to its folder.

        By default ignored. It is not called for texts from standard input or from Python.
        """

    def contents(self, values: Sequence[X]) -> str:
        """A hash of what `parse` read besides its texts, such as the contents of files; empty: nothing.

        It is part of the fingerprint of the data.
        """
        return ""

    def examples(self) -> list[X]:
        """A few valid, different inputs, on which checks test this space; by default an empty list."""
        return []

    def render(self, value: X) -> Drawing:
        """Draw an input as a picture or text; by default as its text."""
        return Drawing(self.format(value) or "(empty)")

    def counterexamples(self) -> list[Any]:
        """Inputs that `pack` must refuse and that only you can know, for the checks; by default an empty list."""
        return []

    def features(self, batch: Tensors, *, grams: int = 4) -> SparseRows:
        """φ(x): the features that a kernel on inputs compares, one row per input; by default all tensors, flattened.

        `grams` is the length of the longest runs of tokens that are counted, if inputs are sequences of tokens.
        """
        tensors = [tensor for _, tensor in batch.named_tensors()]
        flat = [tensor.flatten(start_dim=1) if tensor.dim() > 1 else tensor[:, None] for tensor in tensors]
        return SparseRows.dense(torch.cat([part.float() for part in flat], dim=1))

    @classmethod
    def defaults(cls, pairs: int) -> dict[str, Any]:
        """What suits these inputs and a number of training pairs; used for options that the user does not give.

        `backbone`: the network that learns from them, as a table with its name; without it, the first that accepts this
        space. `kernel`: options of the kernel regression that compares them.
        """
        return {}

    def nearest(self, batch: Tensors, others: Tensors) -> tuple[Tensor, Tensor]:
        """The row of `others` nearest to each input of `batch`, and its distance: (B,), (B,).

        By the distance that is natural for these inputs; by default the Euclidean distance of their `features`.
        """
        return nearest_rows(self.features(batch), self.features(others))

    def sizes(self, batch: Tensors) -> Tensor | None:
        """The length of each input (B,), so that inputs of similar length are batched together; None: all are equal."""
        return None

    def unlike_training(self, values: Sequence[X]) -> list[str]:
        """For each input a short reason why it is unlike all that `fit` saw, or an empty text; by default all empty.

        Predictions for such inputs deserve less trust. `save` and `load` keep what this needs.
        """
        return [""] * len(values)

    def augment(self, batch: Tensors, generator: Generator) -> Tensors:
        """A random view of each input with the same meaning, for training; by default the inputs themselves."""
        return batch

    def views(self, batch: Tensors) -> Sequence[Tensors]:
        """All views that `augment` draws from, if they are few, so that predictions can be averaged over them.

        Each view has one row per input, in the same order, and is a function of that input alone. By default the inputs
        themselves, as the only view.
        """
        return [batch]

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write what `fit` learned into plain files under `folder`."""

    @abstractmethod
    def load(self, folder: Path) -> None:
        """Read the files that `save` wrote into `folder`."""

    def invalid(self, what: str, index: int = 0) -> InvalidInput:
        """The error to raise for the input at `index`."""
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
        """Raise `ConfigError` if this backbone cannot read the batches of `inputs`."""

    @abstractmethod
    def forward(self, batch: Any) -> Tensor:
        """A batch of B inputs → (B, dim), not normalised."""


class Regressor(Learner):
    """A map from inputs to queries, usually predicted embeddings. Built as `Regressor(config, inputs, surrogate)`."""

    errors: ErrorModel | None = None
    """How queries differ from embeddings, if `fit` measured it: energies then weigh errors. By default they do not."""

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], surrogate: Surrogate) -> None:
        super().__init__(config)
        self.inputs = inputs
        self.surrogate = surrogate

    @abstractmethod
    def fit(self, train: tuple[Tensors, Any], validation: tuple[Tensors, Any], context: Context) -> None:
        """Learn from pairs of packed inputs and packed outputs."""

    @property
    def ways(self) -> Sequence[str]:
        """The ways to predict that `choose` switches between, the usual one first; by default there is only one.

        After training, each is tried on validation pairs, and the one with the best predictions is kept.
        """
        return ()

    def choose(self, way: str) -> None:
        """Predict in this one of the `ways` from now on."""
        raise NotImplementedError(f"{type(self).__name__} has only one way to predict")

    @abstractmethod
    def predict(self, inputs: Tensors) -> Tensor:
        """The queries (B, q) for packed inputs, without gradient, computed in chunks that bound the memory."""

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


class Decoder(Component, ABC):
    """A search for the structures of least energy. Built as `Decoder(config)`. It must not change any weights."""

    variants: ClassVar[Sequence[Variant]] = ()
    """The variants that `ele sweep` compares; empty: only the decoder as configured, under its registered name."""
    traces: ClassVar[bool] = False
    """Whether `decode` can record a `Trace`; only then is it given the argument `trace`."""
    trace_note: ClassVar[str] = ""
    """What the steps of a trace are, in a sentence or two that the report shows beside them."""
    uses_candidates: ClassVar[bool] = True
    """Whether `decode` looks at the candidates; if so, their energies also tell how far an answer can be trusted."""

    def accepts(self, energy: Energy) -> None:
        """Raise `ConfigError` if this decoder cannot work with such energies; called before training, without queries.

        Check `energy.smooth` here if `decode` needs gradients.
        """

    @abstractmethod
    def decode(
        self, energy: Energy, problem: Problem, *, top_k: int = 1, trace: bool = False, context: Context
    ) -> Decoding:
        """Find the `top_k` distinct structures of least energy for each query; record the steps if `trace`.

        They satisfy the constraint of their query (`Problem.constraints`). If there are fewer than `top_k`, the
        energies of the missing ones are infinite, and any structures take their places.
        """


class Task(Component, ABC):
    """A data set under a name, with a configuration that suits it and results to compare with."""

    references: ClassVar[Sequence[Reference]] = ()
    """Published results for this data set."""
    studies: ClassVar[Sequence[Study]] = ()
    """The tables and figures that `ele reproduce` makes."""
    ranges: ClassVar[Mapping[str, Range]] = {}
    """The ranges that `ele tune` searches, by option; options that the configuration does not have are left out."""

    @classmethod
    @abstractmethod
    def defaults(cls) -> dict[str, Any]:
        """The run configuration of this task: the sections `output`, `input`, `surrogate`, `regressor`, `decoder`."""

    @classmethod
    def defaults_for(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """The run configuration of this task with these options, as given by the user; by default `defaults()`."""
        return cls.defaults()

    @abstractmethod
    def load(self, space: OutputSpace[Any, Any], context: Context) -> DataSet:
        """Load the pairs, packed by `space`, with their split."""


class FileReader(Component, ABC):
    """Reads the files of one suffix as a table. Its name is the suffix, with the dot; built as `FileReader(config)`."""

    @abstractmethod
    def read(self, stream: BinaryIO) -> Mapping[str, Sequence[Any]]:
        """The columns of a file by name, with one value per row; raise `DataError` if it is not such a file.

        By default the first column is the input and the last the output. A value is a text, a number or a list of
        numbers; None: there is none; an exception: the reason why it cannot be read.
        """

    def examples(self) -> list[bytes]:
        """The contents of a few small files, on which checks test this reader; by default an empty list."""
        return []
