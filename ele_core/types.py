"""The data types of the contract: what components are described by, and what they pass to each other."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, get_args

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from ele_core.numerics.tensors import Tensors

if TYPE_CHECKING:
    from ele_core.interfaces import Energy, Index, InputSpace, OutputSpace, Surrogate
    from ele_core.optional import Rules

T = TypeVar("T", bound=Tensors)
"""The dataclass of a space's batches."""

Kind = Literal[
    "output", "encoder", "surrogate", "input", "backbone", "regressor", "proposer", "decoder", "index", "task", "reader"
]
"""The kinds of components. Each has one hook, one base class and, except indexes and readers, its own sections in a
configuration."""
KINDS: tuple[Kind, ...] = get_args(Kind)


Reads = Literal["texts", "vectors", "vectors by default", "bits by default", "arrays", "signals by default", "columns"]
"""What an input space takes: "texts", only what its `parse` gives; "vectors", also arrays of numbers (D,), if the user
chooses it; "vectors by default", the same, and it is chosen for inputs that are vectors; "bits by default", the same,
and it is chosen for vectors of 0 and 1; "arrays", also arrays of two dimensions and more, such as pictures; "signals
by default", also arrays (T,) and (T, C) of any length, and it is chosen for series of numbers over time; "columns",
mappings from the names of columns to values. Vectors of a file are texts for a space that does not take them."""


class Choice(BaseModel):
    """A component chosen by name, with its options beside the name, as in `{name = "gru", width = 256}`.

    A component that contains another one declares a field for it, annotated with its kind, such as
    `encoder: Annotated[Choice, Takes("encoder")] = Choice(name="flat")`.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str
    """The name under which a plugin registered the component."""

    @property
    def options(self) -> dict[str, Any]:
        """The options as given; they are validated later, by the `Config` of the component."""
        return dict(self.model_extra or {})


@dataclasses.dataclass(frozen=True)
class Takes:
    """The annotation of a `Choice` field: the kind of component that the field takes."""

    kind: Kind


MOST_LAYERS = 1024
"""Maximum number of layers that an option may ask for: several times as many as the deepest networks in use have.

It protects from the configuration of somebody else's model. Widths are compared with the stored weights before memory
is allocated, but for this comparison the layers must be built, and a billion of them cannot be.
"""


@dataclasses.dataclass(frozen=True)
class Metric(Generic[T]):
    """A measure of predictions against truths, one value per example: `function(predicted, true) -> (B,)`.

    If the value of some examples is too costly to compute, the function returns `Bounded`.
    """

    name: str
    direction: Literal["min", "max"]
    function: Callable[[T, T], Tensor | Bounded]
    summary: str = ""
    size: Callable[[T], Tensor] | None = None
    """The size of each truth (B,), for a rate such as errors per token: an evaluation then divides each value by the
    mean size of all its truths, so that the mean of the values is the sum of all errors over the sum of all sizes."""

    def values(self, predicted: T, true: T) -> Tensor:
        """One value per example (B,); of two bounds the worse one, so that no prediction looks better than it is."""
        return self.worst_and_best(predicted, true)[0]

    def worst_and_best(self, predicted: T, true: T) -> tuple[Tensor, Tensor]:
        """The worst and the best value that each example can have (B,), (B,): equal unless there are bounds."""
        found = self.function(predicted, true)
        if not isinstance(found, Bounded):
            return found, found
        return (found.upper, found.lower) if self.direction == "min" else (found.lower, found.upper)

    @property
    def best_case(self) -> str:
        """The name of the best values in an evaluation: `NAME_at_least`, or `NAME_at_most` if higher is better."""
        return f"{self.name}_at_{'least' if self.direction == 'min' else 'most'}"


@dataclasses.dataclass(frozen=True)
class Bounded:
    """Values that are too costly to compute for some examples: `lower <= value <= upper`, each (B,) floats."""

    lower: Tensor
    upper: Tensor


@dataclasses.dataclass(frozen=True)
class Drawing:
    """A drawing of an object: always as text, and as an SVG if the space can draw a picture."""

    text: str
    svg: str | None = None
    png: Callable[[], bytes] | None = None
    """A function that draws the same picture as PNG; None: the space cannot."""
    pieces: tuple[tuple[str, bool], ...] = ()
    """The text in pieces, each with whether it differs from the object it is compared with; empty: not known."""

    def _repr_svg_(self) -> str | None:
        return self.svg

    def __str__(self) -> str:
        return self.text


@dataclasses.dataclass(frozen=True)
class Stage:
    """A stage of `fit` that reports evaluations; the weights with the lowest metric `decides` are kept."""

    name: str
    decides: str


@dataclasses.dataclass(frozen=True)
class PlannedStage:
    """A stage that is still to come: its name, and its number of steps."""

    name: str
    steps: int | None = None
    """None: not known."""


@dataclasses.dataclass(frozen=True)
class Candidates:
    """Packed structures as a surrogate keeps them; `owner` (N,) is the input that each is for, None: all."""

    batch: Any
    embeddings: Tensor
    """(N, dim)"""
    owner: Tensor | None = None
    surrogate: Surrogate | None = dataclasses.field(default=None, repr=False, compare=False)
    """The surrogate whose `embeddings` these are; None: that of whoever asks."""
    satisfying: dict[Any, Tensor] = dataclasses.field(default_factory=dict, repr=False, compare=False)
    """The rows that satisfy a constraint, for those that decoders asked for last: see `decoders.constraints`."""
    others: dict[Surrogate, Tensor] = dataclasses.field(default_factory=dict, repr=False, compare=False)
    """The embeddings by other surrogates."""
    index: Index | None = dataclasses.field(default=None, repr=False, compare=False)
    """Finds the nearest by the energy of a model, so that not all are compared; then `batch` and `embeddings` need not
    be in memory, and give the rows that are asked for."""

    def __len__(self) -> int:
        return len(self.embeddings)

    def __getitem__(self, rows: slice | Tensor) -> Candidates:
        """Some of the candidates."""
        owner = None if self.owner is None else self.owner[rows]
        others = {name: kept[rows] for name, kept in self.others.items()}
        return Candidates(self.batch[rows], self.embeddings[rows], owner, self.surrogate, others=others)

    def kept_by(self, surrogate: Surrogate) -> Tensor:
        """The embeddings by `surrogate` (N, dim), for `Energy.among`; computed once for any but their own."""
        if self.surrogate is None or self.surrogate is surrogate:
            return self.embeddings
        if surrogate not in self.others:
            self.others[surrogate] = surrogate.embed(self.batch)
        return self.others[surrogate]


@dataclasses.dataclass(frozen=True)
class Placed:
    """Energies of structures y as squared distances ‖query − ψ(y) · matrix‖²: a search for nearest neighbours."""

    surrogate: Surrogate
    """The surrogate ψ."""
    queries: Tensor
    """(B, m)"""
    matrix: Tensor | None = None
    """(dim, m); None: the unit matrix."""
    whole: bool = True
    """Whether this is the whole energy, and not only its main term."""

    def place(self, embeddings: Tensor) -> Tensor:
        """ψ(y) · matrix: (N, dim) → (N, m)."""
        return embeddings if self.matrix is None else embeddings @ self.matrix.to(embeddings)


@dataclasses.dataclass(frozen=True, eq=False)
class StoredVectors:
    """Vectors (N, m) under numbers from 0 on, of which only those that are asked for need be in memory."""

    stored: Any
    """A tensor (N, dim), or what can be indexed like one: `stored[rows]` for a slice or a tensor of row numbers."""
    matrix: Tensor | None = None
    """(dim, m) a linear map of what is stored; None: the unit matrix."""

    def __len__(self) -> int:
        return len(self.stored)

    def __getitem__(self, rows: slice | Tensor) -> Tensor:
        """The vectors at `rows`, as floats: (n, m)."""
        found: Tensor = self.stored[rows].float()
        return found if self.matrix is None else found @ self.matrix.to(found)

    def chunks(self, size: int) -> Iterator[Tensor]:
        """All vectors in order, at most `size` at a time."""
        return (self[start : start + size] for start in range(0, len(self), size))

    @property
    def dim(self) -> int:
        """The dimension m of the vectors."""
        return self[:0].shape[1]


@dataclasses.dataclass(frozen=True)
class Proposals:
    """Packed structures that may be the answers of queries, and the query (N,) int64 that each is for."""

    batch: Any
    owner: Tensor


@dataclasses.dataclass(frozen=True)
class Member:
    """A part of a regressor that is weighed against others, as a report names it."""

    name: str
    energy: Energy | None
    """Its own energy for some inputs, with `proposals`; None: it has none."""
    weight: float
    """Its weight in the sum of all energies."""
    seconds: float | None
    """The processor time of its training; None: not known."""
    lacking: str = ""
    """Why it has no energy."""


@dataclasses.dataclass(frozen=True)
class Problem:
    """Where a decoder looks for structures: the space, and the candidates to choose or start from."""

    space: OutputSpace[Any, Any]
    candidates: Candidates
    constraints: Sequence[Any | None] | None = None
    """One `Rules.Constraint` per query, which its structures must satisfy, or None if any will do."""
    proposals: Proposals | None = None
    """Further structures to start from. A decoder may ignore them: its answers are compared with them afterwards."""

    @property
    def rules(self) -> Rules[Any]:
        """The rules of the space, by which constraints are judged."""
        if self.space.rules is None:
            raise TypeError(f"{type(self.space).__name__} has no constraints: its `Rules` is None")
        return self.space.rules

    def satisfied(self, structures: Any, owner: Tensor) -> Tensor:
        """(N,) bool: whether structure n satisfies the constraint of query `owner[n]`; true if that has none."""
        kept = torch.ones_like(owner, dtype=torch.bool)
        queries: dict[str, list[int]] = {}
        for query, constraint in enumerate(self.constraints or ()):
            if constraint is not None:
                queries.setdefault(constraint.model_dump_json(), []).append(query)
        for same in queries.values():
            rows = torch.isin(owner, torch.tensor(same, device=owner.device)).nonzero().flatten()
            assert self.constraints is not None
            kept[rows] = self.rules.satisfies(structures[rows], self.constraints[same[0]]).to(kept.device)
        return kept


@dataclasses.dataclass(frozen=True)
class Decoding:
    """The `top_k` best structures of each of B queries, best first: row `i * top_k + j` is the j-th for query i."""

    structures: Any
    energies: Tensor
    trace: Trace | None = None
    nearest: Tensor | None = None
    """(B,) the least energy of a candidate, whatever the constraints; None: the decoder did not look for it."""

    @property
    def top_k(self) -> int:
        """The number of structures for each query."""
        return self.energies.shape[1]

    @property
    def answered(self) -> Tensor:
        """(B,) whether a structure was found that satisfies the constraint of the query, on the CPU."""
        return self.energies[:, 0].isfinite().cpu()

    def rows(self, first: int, end: int) -> Decoding:
        """The decoding of the queries from `first` up to `end`, without the trace."""
        structures = self.structures[first * self.top_k : end * self.top_k]
        return Decoding(structures, self.energies[first:end])

    def ranks(self, first: int, end: int) -> Decoding:
        """The structures at the ranks from `first` up to `end`, counted from 0, of each query."""
        places = torch.arange(self.top_k)[first:end]
        rows = (torch.arange(len(self.energies))[:, None] * self.top_k + places).flatten()
        return dataclasses.replace(self, structures=self.structures[rows], energies=self.energies[:, first:end])

    @classmethod
    def cat(cls, parts: Sequence[Decoding]) -> Decoding:
        """Join the decodings of consecutive queries."""
        batch = type(parts[0].structures)
        nearest = [part.nearest for part in parts if part.nearest is not None]
        traces = [part.trace for part in parts if part.trace is not None]
        return cls(
            batch.cat([part.structures for part in parts]),
            torch.cat([part.energies for part in parts]),
            Trace.cat(traces) if traces else None,
            torch.cat(nearest) if len(nearest) == len(parts) else None,
        )

    @property
    def best(self) -> Any:
        """The best structure of each query."""
        return self.structures[torch.arange(0, len(self.structures), self.top_k)]

    def _repr_html_(self) -> str:
        from ele_core.display.pictures import energy_table

        return energy_table(self.energies.tolist(), self.top_k)


@dataclasses.dataclass(frozen=True)
class Trace:
    """What a decoder passed through: for each recorded step, one packed structure and one energy per input."""

    steps: Sequence[int]
    structures: Sequence[Any]
    energies: Sequence[Tensor]

    @classmethod
    def cat(cls, traces: Sequence[Trace]) -> Trace:
        """Join the traces of consecutive queries; shorter ones repeat their last step."""
        steps = max((trace.steps for trace in traces), key=len)
        batch, structures, energies = type(traces[0].structures[0]), [], []
        for step in range(len(steps)):
            places = [min(step, len(trace.steps) - 1) for trace in traces]
            structures.append(batch.cat([trace.structures[at] for trace, at in zip(traces, places, strict=True)]))
            energies.append(torch.cat([trace.energies[at] for trace, at in zip(traces, places, strict=True)]))
        return cls(steps, structures, energies)

    def _repr_svg_(self) -> str | None:
        from ele_core.display.pictures import energy_curve

        return energy_curve(self.steps, [energies.tolist() for energies in self.energies])


@dataclasses.dataclass(frozen=True)
class Variant:
    """Options of a decoder under a name, as one of the ways of decoding that `ele sweep` compares."""

    name: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    label: str = ""
    """The label in figures; empty: `name`."""


@dataclasses.dataclass(frozen=True)
class Reference:
    """A published result to compare with: values and, if published, standard deviations, by metric name."""

    name: str
    values: Mapping[str, float]
    source: str
    deviations: Mapping[str, float] = dataclasses.field(default_factory=dict)


B = TypeVar("B", covariant=True)
"""The packed batches of a source."""


class Source(Protocol[B]):
    """Packed examples, of which only those that are asked for need be in memory. A packed batch is a source."""

    def __len__(self) -> int:
        """The number of examples."""

    def __getitem__(self, rows: slice | Tensor, /) -> B:
        """The examples at `rows`, packed."""

    def chunks(self, size: int, /) -> Iterator[B]:
        """All examples in order, at most `size` at a time."""

    @property
    def blocks(self) -> Sequence[int]:
        """Where blocks begin, and where the last one ends: 0, …, N. Training shuffles inside blocks and their order.

        Rows of one block are cheap to read together. In memory there is one block.
        """


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Packed inputs and the packed outputs that belong to them: two sources of one length."""

    inputs: Source[Any]
    outputs: Source[Any]

    def __len__(self) -> int:
        return len(self.outputs)

    def __getitem__(self, rows: slice | Tensor) -> Pairs:
        """The pairs at `rows`."""
        return Pairs(self.inputs[rows], self.outputs[rows])


@dataclasses.dataclass(frozen=True)
class TrainingData:
    """What a learner is fitted on. The paper's stage looks at `train.outputs` alone."""

    inputs: InputSpace[Any]
    train: Pairs
    validation: Pairs
    """Pairs to choose options and weights by."""
    extra: Source[Any] | None = None
    """Similar outputs without inputs, for pre-training; None: there are none."""
    sample: Pairs | None = None
    """Some of the training pairs, in memory, if `train` is on disk; None: `train` is in memory."""
    problem: Problem | None = None
    """For a decoder that learns: the space and the candidates."""
    energy: Callable[[Tensors], Energy] | None = None
    """For a decoder that learns: packed inputs → their energy, as it will be given to `decode`."""

    @property
    def in_memory(self) -> Pairs:
        """The training pairs, or a sample if they are on disk: for what needs all at once."""
        return self.train if self.sample is None else self.sample
