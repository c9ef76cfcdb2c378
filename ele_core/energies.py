"""Energies: the squared distance, one that weighs directions by their errors, and sums of several energies."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import cached_property, reduce
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional

from ele_core.interfaces import Energy, OutputSpace, Proposer, Surrogate
from ele_core.numerics.error_model import ErrorModel
from ele_core.numerics.keys import distinct, fresh_moves, hash_rows, mix, ranks
from ele_core.numerics.nearest import Nearest
from ele_core.numerics.sparse import PartEnergies
from ele_core.optional import PartMoves
from ele_core.types import Candidates, Placed, Problem, Proposals

RIVALS = 64
"""Moves of a truth, and candidates for each term, that it is compared with when weights are fitted."""
STEPS = 50
"""Steps that look for weights: there are a few of them, and the problem is convex."""
MOST = 500.0
"""The largest exponent, below that of the largest double."""
NEGLIGIBLE = 1e-3
"""The share of the largest effect on energies below which a term has no weight: it then costs no time."""
CAUTION = 1e-3
"""The weight of the squared weights beside the mean cross-entropy: keeps them finite where truths always win."""


class RowEnergy(Energy):
    """An energy whose queries are the rows of a tensor (B, q), a field `queries` of a dataclass."""

    queries: Tensor

    def __len__(self) -> int:
        return len(self.queries)

    def __getitem__(self, rows: slice | Tensor) -> Self:
        """The energy of some of the queries."""
        return dataclasses.replace(self, queries=self.queries[rows])  # type: ignore[type-var]

    @property
    def device(self) -> torch.device:
        """The device of the queries."""
        return self.queries.device

    def identities(self) -> Tensor:
        """A hash of the bits of each query (B,)."""
        return hash_rows([self.queries.float().cpu().view(torch.int32)])[:, 0]

    def asked(self, owner: Tensor | None) -> Tensor:
        """The query of each structure: (N, q)."""
        return self.queries if owner is None else self.queries[owner]


@dataclasses.dataclass(frozen=True, eq=False)
class ProposerEnergy(RowEnergy):
    """An energy of a proposer; a subclass defines `of` and `proposals`."""

    proposer: Proposer
    queries: Tensor

    def __str__(self) -> str:
        return f"proposer '{self.proposer.registered_as or type(self.proposer).__name__}'"


@dataclasses.dataclass(frozen=True, eq=False)
class QueryEnergy(RowEnergy):
    """An energy of a surrogate; a subclass defines `of` and `among`."""

    surrogate: Surrogate
    queries: Tensor

    def __str__(self) -> str:
        return f"surrogate '{self.surrogate.registered_as or type(self.surrogate).__name__}'"

    @property
    def smooth(self) -> bool:
        """Whether the surrogate embeds points."""
        return type(self.surrogate).embed_at is not Surrogate.embed_at


@dataclasses.dataclass(frozen=True, eq=False)
class SquaredDistance(QueryEnergy):
    """‖q − ψ(y)‖²."""

    estimate: Callable[[Tensor], PartEnergies | None] | None = None
    """Queries (B, q) → an estimate of their energies from parts; None: the surrogate has none."""

    def of(self, batch: Any, owner: Tensor | None = None) -> Tensor:
        """‖q − ψ(y)‖² of structure n and its query: (N,)."""
        return (self.asked(owner) - self.surrogate.embed(batch)).square().sum(dim=1)

    def among(self, candidates: Candidates) -> Tensor:
        """‖q − ψ(y)‖² of every query and candidate: (B, N)."""
        return all_distances(self.queries, candidates.kept_by(self.surrogate))

    @property
    def placed(self) -> Placed | None:
        """The energy as it is, unless a subclass has another."""
        own = type(self).of is SquaredDistance.of and type(self).among is SquaredDistance.among
        return Placed(self.surrogate, self.queries) if own else None

    def at(self, point: Any, owner: Tensor | None = None) -> Tensor:
        """‖q − ψ(point)‖², differentiable in the point: (N,)."""
        return (self.asked(owner) - self.surrogate.embed_at(point)).square().sum(dim=1)

    def near(self, batch: Any, owner: Tensor | None = None) -> PartEnergies | None:
        """The estimate of the surrogate, wherever structures are."""
        found = self._estimate
        return found if found is None or owner is None else found[owner]

    @cached_property
    def _estimate(self) -> PartEnergies | None:
        return None if self.estimate is None else self.estimate(self.queries)


@dataclasses.dataclass(frozen=True, eq=False)
class WeightedDistance(QueryEnergy):
    """‖R (q − o) − R G ψ(y)‖²: the squared distance with the directions weighted by the errors of a regressor."""

    errors: ErrorModel

    def of(self, batch: Any, owner: Tensor | None = None) -> Tensor:
        """The weighted distance of structure n and its query: (N,)."""
        return self._missing(owner, self.surrogate.embed(batch)).square().sum(dim=1)

    def among(self, candidates: Candidates) -> Tensor:
        """The weighted distance of every query and candidate: (B, N)."""
        placed = self.errors.placed(candidates.kept_by(self.surrogate))
        return all_distances(self._weighted, placed)

    @property
    def placed(self) -> Placed:
        """The distance between R (q − o) and R G ψ(y)."""
        return Placed(self.surrogate, self._weighted, self.errors.mixed.T)

    def at(self, point: Any, owner: Tensor | None = None) -> Tensor:
        """The weighted distance of a point, differentiable in the point: (N,)."""
        return self._missing(owner, self.surrogate.embed_at(point)).square().sum(dim=1)

    def near(self, batch: Any, owner: Tensor | None = None) -> PartEnergies | None:
        """The surrogate's estimate for queries whose plain energies are about the weighted ones near the structures."""
        embeddings = self.surrogate.embed(batch)
        there = embeddings + self.errors.towards(self._missing(owner, embeddings))
        return self.surrogate.energy(there).near(batch)

    @cached_property
    def _weighted(self) -> Tensor:
        return self.errors.weighted(self.queries)

    def _missing(self, owner: Tensor | None, embeddings: Tensor) -> Tensor:
        asked = self._weighted if owner is None else self._weighted[owner]
        return asked - self.errors.placed(embeddings)

    @property
    def usual(self) -> float:
        """The energy that a tenth of the truths have at most, among the pairs whose errors were measured."""
        return self.errors.usual.item()


@dataclasses.dataclass(frozen=True, eq=False)
class SumOfEnergies(Energy):
    """Σ_t w_t E_t(y): terms for the same B queries, with weights w ≥ 0, such as those that `fit_weights` finds."""

    terms: Sequence[Energy]
    weights: Sequence[float]
    measured: float | None = None
    """What a tenth of the truths have at most, if it was measured."""

    def __post_init__(self) -> None:
        """Refuse terms that do not go together."""
        if not self.terms or len(self.terms) != len(self.weights) or len({len(term) for term in self.terms}) > 1:
            raise ValueError("a sum of energies needs terms with as many queries each, and a weight for each term")

    def __len__(self) -> int:
        return len(self.terms[0])

    def __getitem__(self, rows: slice | Tensor) -> Self:
        """The energy of some of the queries."""
        return dataclasses.replace(self, terms=[term[rows] for term in self.terms])

    def __str__(self) -> str:
        return " + ".join(map(str, self.terms))

    @property
    def device(self) -> torch.device:
        """The device of the first term."""
        return self.terms[0].device

    def identities(self) -> Tensor:
        """A hash of those of all terms (B,)."""
        return reduce(lambda known, term: mix(known) ^ term.identities(), self.terms[1:], self.terms[0].identities())

    def of(self, batch: Any, owner: Tensor | None = None) -> Tensor:
        """The sum for structure n and its query: (N,)."""
        return self._added([term.of(batch, owner) for term in self.terms])

    def among(self, candidates: Candidates) -> Tensor:
        """The sum for every query and candidate: (B, N)."""
        return self._added([term.among(candidates) for term in self.terms])

    @property
    def placed(self) -> Placed | None:
        """The first term that is a squared distance."""
        found = next((placed for term in self.terms if (placed := term.placed) is not None), None)
        return None if found is None else dataclasses.replace(found, whole=False)

    @property
    def usual(self) -> float | None:
        """As measured: it does not follow from those of the terms."""
        return self.measured

    @property
    def smooth(self) -> bool:
        """Whether all terms are."""
        return all(term.smooth for term in self.terms)

    def at(self, point: Any, owner: Tensor | None = None) -> Tensor:
        """The sum at point n, differentiable in the point: (N,)."""
        return self._added([term.at(point, owner) for term in self.terms])

    def near(self, batch: Any, owner: Tensor | None = None) -> PartEnergies | None:
        """The sum of the terms that have an estimate; None if none has."""
        estimates = [(weight, term.near(batch, owner)) for weight, term in zip(self.weights, self.terms, strict=True)]
        known = [(weight, found) for weight, found in estimates if found is not None]
        if not known:
            return None
        width = max(found.queries.shape[1] for _, found in known)  # the signs of fewer are the first of those of more
        queries = [
            weight * functional.pad(found.queries, (0, width - found.queries.shape[1])) for weight, found in known
        ]
        return PartEnergies(torch.stack(queries).sum(dim=0), sum(weight * found.squares for weight, found in known))

    def _added(self, energies: Sequence[Tensor]) -> Tensor:
        weighted = (weight * energy for weight, energy in zip(self.weights, energies, strict=True))
        return reduce(torch.add, weighted)


@dataclasses.dataclass(frozen=True, eq=False)
class JointEnergy(SumOfEnergies):
    """E_loss(y) + Σ_t w_t E_t(y): the learned loss, which decoders follow, and terms that rank what they find.

    Terms that are not costly are followed too.
    """

    def __init__(
        self, loss: Energy, terms: Sequence[Energy], weights: Sequence[float], measured: float | None = None
    ) -> None:
        super().__init__([loss, *terms], [1.0, *weights], measured)

    def __getitem__(self, rows: slice | Tensor) -> Self:
        """The energy of some of the queries."""
        loss, *terms = (term[rows] for term in self.terms)
        return type(self)(loss, terms, self.weights[1:], self.measured)

    @property
    def walk(self) -> Energy:
        """The loss, and the terms that are not costly: it is their sum whose energies were `measured`."""
        (loss, *terms), (_, *weights) = self.terms, self.weights
        followed = [(term, weight) for term, weight in zip(terms, weights, strict=True) if not term.costly]
        if not followed:
            return loss
        found, own = zip(*followed, strict=True)
        return SumOfEnergies([loss, *found], [1.0, *own], self.measured)

    def proposals(self, count: int) -> Proposals | None:
        """Those of all terms."""
        found = [each for term in self.terms if (each := term.proposals(count)) is not None]
        if not found:
            return None
        return Proposals(type(found[0].batch).cat([each.batch for each in found]), torch.cat([e.owner for e in found]))


def fit_weights(terms: Sequence[Energy], truths: Any, problem: Problem) -> list[float]:
    """The weights w ≥ 0 under which truths win most clearly: structure i of `truths` is the truth of query i.

    w minimises the mean over queries of −log softmax(−Σ_t w_t E_t)[truth] among the truth, its moves (at most `RIVALS`
    of them, evenly spaced) and, by each term, its proposals or else the best `RIVALS` candidates: a convex problem.
    Rivals that violate the constraint of their query do not count, unless a query has no others.
    """
    rivals, owner = rivals_of(terms, truths, problem)
    own = torch.stack([term.of(truths.to(term.device)).cpu() for term in terms]).double()
    others = torch.stack([term.of(rivals.to(term.device), owner.to(term.device)).cpu() for term in terms]).double()
    margins = others - own[:, owner]
    scale = margins.abs().mean(dim=1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)
    roots = torch.full((len(terms),), len(terms) ** -0.5, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([roots], max_iter=STEPS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        weights = roots.square()
        odds = torch.zeros(len(truths), dtype=torch.float64).index_add(
            0, owner, (weights @ (margins / -scale)).clamp(max=MOST).exp()
        )
        loss = odds.log1p().mean() + CAUTION * weights.square().sum()
        loss.backward()
        return loss

    optimiser.step(closure)
    effects = roots.detach().square()
    effects = effects.where(effects > NEGLIGIBLE * effects.max(), 0)
    found: list[float] = (effects / scale.flatten()).tolist()
    return found


def rivals_of(terms: Sequence[Energy], truths: Any, problem: Problem) -> tuple[Any, Tensor]:
    """Structures that are not the truth of their query but may be taken for it, and their queries (M,), on the CPU."""
    space, candidates = problem.space, problem.candidates
    truths, queries = truths.to("cpu"), torch.arange(len(truths))
    moved, row = space.moves.list(truths)
    step = row.bincount(minlength=len(truths)).div(RIVALS, rounding_mode="floor").clamp(min=1)[row]
    spaced = (ranks(row) % step == 0).nonzero().flatten()
    batches, owners = [moved[spaced]], [row[spaced]]
    for term in terms:
        proposed = term.proposals(RIVALS)
        if proposed is not None:
            batches.append(proposed.batch.to("cpu"))
            owners.append(proposed.owner.cpu())
            continue
        best = least_among(term, candidates, min(RIVALS, len(candidates)))[1].cpu()
        batches.append(candidates.batch[best.flatten()])
        owners.append(queries.repeat_interleave(best.shape[1]))
    batch, owner = type(truths).cat(batches), torch.cat(owners)
    keys = space.keys(batch)
    wrong = (keys != space.keys(truths)[owner]).any(dim=1)
    rows = distinct(torch.cat([owner[:, None], keys], dim=1)[wrong])
    kept = wrong.nonzero().flatten()[rows]
    batch, owner = batch[kept], owner[kept]
    allowed = problem.satisfied(batch, owner)
    kept = (allowed | (owner[allowed].bincount(minlength=len(truths)) == 0)[owner]).nonzero().flatten()
    return batch[kept], owner[kept]


def likely_moves(energy: Energy, batch: Any, space: OutputSpace[Any, Any], count: int) -> tuple[Any, Tensor]:
    """The moves of each structure i that query i may take for it, and the row (M,) that each comes from, ascending.

    At most `count` of each, by the estimate of the energy from parts, or else by its gradient, or else evenly spaced.
    """
    moves = space.moves
    estimate = energy.near(batch) if isinstance(moves, PartMoves) else None
    if not isinstance(moves, PartMoves) or estimate is None:
        return moves.neighbours(batch, gradient_at(energy, batch, space), count)
    moved, row = moves.best(batch, estimate, 2 * count)
    kept = fresh_moves(space.keys(moved), row, space.keys(batch), count)
    return moved[kept], row[kept]


def gradient_at(energy: Energy, batch: Any, space: OutputSpace[Any, Any], owner: Tensor | None = None) -> Any | None:
    """The gradient of the energy at the vertices of structures, structure n for query `owner[n]`; None: it has none."""
    if not energy.smooth:
        return None
    point = space.relax(batch)
    leaves = {name: getattr(point, name).requires_grad_(True) for name in space.geometry}
    with torch.enable_grad():
        value = energy.at(point.replace(**leaves), owner)
        gradients = torch.autograd.grad(value.sum(), list(leaves.values()))
    return point.replace(**dict(zip(leaves, gradients, strict=True)))


def least_among(energy: Energy, candidates: Candidates, k: int) -> tuple[Tensor, Tensor]:
    """The k least energies of candidates for each query (B, k), ascending, and their rows (B, k)."""
    placed = energy.placed
    if placed is None or not placed.whole:
        best = energy.among(candidates).topk(k, dim=1, largest=False)
        return best.values, best.indices
    found = Nearest(placed.queries, k)
    found.add(torch.arange(len(candidates)), placed.place(candidates.kept_by(placed.surrogate)))
    return found.distances, found.rows


def all_distances(queries: Tensor, embeddings: Tensor) -> Tensor:
    """‖q − e‖² of every row of (B, dim) and of (N, dim), by one product: (B, N)."""
    squares = queries.square().sum(1, keepdim=True) + embeddings.square().sum(1)
    return torch.addmm(squares, queries, embeddings.T, alpha=-2).clamp_(min=0)
