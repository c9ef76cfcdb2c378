"""Exact graph edit distance, compiled and batched over pairs; for larger graphs, bounds within a budget.

The distance between two graphs is the least number of edits that turn one into the other: insert, delete or relabel a
node, insert, delete or relabel an edge, each at cost 1, as `networkx.graph_edit_distance` counts them when nodes and
edges match by label.

    edit_distances(predicted, truth)                          # (B,) int64, exact
    edit_distance_bounds(predicted, truth)                    # Bounds(lower, upper), limited work per pair
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from ele_graphs.threads import Flag, in_threads

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["MAX_NODES", "Bounds", "PackedGraphs", "default_budgets", "edit_distance_bounds", "edit_distances"]

MAX_NODES = 64  # the memory of a search grows as the cube of this: about 1 MB per thread
PAIRS_PER_CHUNK = 64
UNLIMITED = sys.maxsize
SMALL, SMALLEST_BUDGET = 12, 16
"""Maximum number of nodes of graphs that get the whole budget, and the budget of the largest graphs."""


class PackedGraphs(Protocol):
    """A batch of graphs in which zero always means "nothing there".

    nodes: (B, m) integers, 0 = virtual (at any position), 1… = node labels.
    edges: (B, m, m) integers, 0 = no edge, 1… = edge labels; symmetric. The diagonal and the edges of virtual nodes
    are not read.
    """

    @property
    def nodes(self) -> Tensor:
        """(B, m)."""

    @property
    def edges(self) -> Tensor:
        """(B, m, m)."""


@dataclass(frozen=True)
class Bounds:
    """lower <= distance <= upper, each (B,) int64."""

    lower: Tensor
    upper: Tensor

    @property
    def exact(self) -> Tensor:
        """(B,) bool: whether the bounds are equal: then both are the distance."""
        return self.lower == self.upper


def edit_distances(
    batch_a: PackedGraphs,
    batch_b: PackedGraphs,
    *,
    edge_labels: bool = True,
    threads: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Tensor:
    """Exact distances (B,) int64, on the CPU, between the graphs at the same index of two batches.

    GED(a, b) = min_p sum_i [a_i != b_p(i)] + sum_{i<j} [A_ij != B_p(i)p(j)], p over the permutations of both graphs
    padded with virtual nodes to the same size. The two batches may differ in m. Two unlike molecules of 9 atoms take
    about a tenth of a millisecond, of 18 about ten milliseconds, and each further atom nearly doubles that;
    for larger graphs see `edit_distance_bounds`. Ctrl-C stops a search at once.

    edge_labels: whether a changed edge label counts; node labels always count.
    threads: how many threads work; torch's number of threads by default.
    progress: called in this thread with the number of pairs just finished.
    """
    budgets = torch.full((_check_pairs(batch_a, batch_b),), UNLIMITED)
    return _solve(batch_a, batch_b, edge_labels, budgets, threads, progress).upper


def edit_distance_bounds(
    batch_a: PackedGraphs,
    batch_b: PackedGraphs,
    *,
    budget: int | Tensor | None = None,
    edge_labels: bool = True,
    threads: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Bounds:
    """Bounds on the distances of `edit_distances`, from about `budget` search nodes per pair at most (a few µs each).

    The upper bound is the cost of an edit path found; no path costs less than the lower bound. By default the budget
    depends on the sizes of a pair: see `default_budgets`. A tensor (B,) has a budget for each pair.
    """
    pairs = _check_pairs(batch_a, batch_b)
    budgets = default_budgets(batch_a, batch_b) if budget is None else torch.as_tensor(budget).expand(pairs)
    if (budgets < 1).any():
        msg = f"edit_distance_bounds: budget is {int(budgets.min())}; give at least 1 search node per pair."
        raise ValueError(msg)
    return _solve(batch_a, batch_b, edge_labels, budgets, threads, progress)


def default_budgets(batch_a: PackedGraphs, batch_b: PackedGraphs, small: int = 100_000) -> Tensor:
    """Search nodes for each pair (B,): `small` for graphs of up to 12 nodes, by default far more than molecules need.

    Beyond that the number falls with the fifth power of the size, to 2,094 for 26 nodes: a pair takes at most some tens
    of milliseconds, whatever its size. The number depends on the pair alone, never on the clock.
    """
    size = torch.maximum(*((batch.nodes != 0).sum(1) for batch in (batch_a, batch_b))).clamp(min=SMALL)
    return (small * (SMALL / size.double()) ** 5).long().clamp(min=min(small, SMALLEST_BUDGET))


def _solve(
    a: PackedGraphs,
    b: PackedGraphs,
    edge_labels: bool,
    budgets: Tensor,
    threads: int | None,
    progress: Callable[[int], None] | None,
) -> Bounds:
    """Solve all pairs, in chunks distributed over threads."""
    from ele_graphs.ged.kernels import solve_pairs  # here: importing this package does not import numba

    bounds = torch.zeros(len(budgets), 2, dtype=torch.int64)

    def solve(some: slice, stop: Flag) -> None:
        nodes_a, edges_a, nodes_b, edges_b = (_labels(x[some]) for x in (a.nodes, a.edges, b.nodes, b.edges))
        own = budgets[some].cpu().contiguous().numpy(), stop, bounds[some].numpy()
        solve_pairs(nodes_a, edges_a, nodes_b, edges_b, edge_labels, *own)

    in_threads(solve, len(budgets), PAIRS_PER_CHUNK, threads, progress)
    return Bounds(lower=bounds[:, 0].contiguous(), upper=bounds[:, 1].contiguous())


def _labels(field: Tensor) -> NDArray[np.int16]:
    """Convert a field of a batch for the kernels: always the same type and layout, so they are compiled once."""
    return field.detach().to("cpu", torch.int16).contiguous().numpy()


def _check_pairs(a: PackedGraphs, b: PackedGraphs) -> int:
    """Check that both batches have the documented form, and return the number of pairs."""
    _check_batch("batch_a", a)
    _check_batch("batch_b", b)
    if len(a.nodes) != len(b.nodes):
        msg = (
            f"batch_a and batch_b differ in their numbers of graphs, {len(a.nodes)} and {len(b.nodes)}; "
            "edit distances compare graph i with graph i: give equally many."
        )
        raise ValueError(msg)
    return len(a.nodes)


def _check_batch(name: str, batch: PackedGraphs) -> None:
    """Refuse batches that the kernels, which check nothing, would read wrongly."""
    nodes, edges = batch.nodes, batch.edges
    if nodes.dim() != 2 or edges.shape != (*nodes.shape, nodes.shape[1]):
        msg = (
            f"{name} has nodes {tuple(nodes.shape)} and edges {tuple(edges.shape)}; "
            "edit distances need labels, as nodes (B, m) and edges (B, m, m): pack or unrelax the graphs first."
        )
        raise ValueError(msg)
    if nodes.numel() == 0:
        return
    extremes = [int(x) for field in (nodes, edges) for x in (field.min(), field.max())]
    if min(extremes) < 0 or max(extremes) > torch.iinfo(torch.int16).max:
        msg = (
            f"{name} has labels below 0 or above 32767; number labels from 1 and leave 0 for virtual nodes and no edge."
        )
        raise ValueError(msg)
    sizes = (nodes != 0).sum(1)
    if sizes.max() > MAX_NODES:
        msg = (
            f"{name}: the graph at index {int(sizes.argmax())} has {int(sizes.max())} nodes; "
            f"edit distances take at most {MAX_NODES}: leave larger graphs out."
        )
        raise ValueError(msg)
