"""`GraphSpace`: the base class of all spaces of padded labelled graphs, whatever their objects."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import torch
from pydantic import Field
from torch import Generator, Tensor

from ele_core import (
    Bounded,
    ComponentConfig,
    ConvexSet,
    Metric,
    OutputSpace,
    Show,
    Simplex,
    SparseRows,
    SymmetricSimplex,
    Tensors,
)
from ele_core.numerics.sparse import PartEnergies
from ele_core.optional import PartMoves
from ele_graphs.graphs.augmentations import Alphabet, Augmentation, augment
from ele_graphs.graphs.batch import Graphs, component_counts, permute, without_loose_edges
from ele_graphs.graphs.keys import graph_keys, pays
from ele_graphs.graphs.moves import best_graph_moves, graph_moves
from ele_graphs.graphs.valence import Valence
from ele_graphs.graphs.wl import RADIUS, PartKinds, graph_features, one_form

Label = str | int
Y = TypeVar("Y")

MAX_LABELS = 127  # a label and "nothing" fit into a signed byte
MOVES_PER_NODE = 16
"""A graph has roughly so many moves for each of its nodes (measured at nine nodes)."""
GED = "graph edit distance"
MAX_NODES = 64  # the largest graph that the edit distance takes


class GraphMoves(PartMoves[Graphs]):
    """Graphs one edit away, and the row that each belongs to: see `moves.graph_moves`."""

    space: GraphSpace[Any]

    def list(self, batch: Graphs) -> tuple[Graphs, Tensor]:
        """The edits of each graph, family by family."""
        return graph_moves(batch, self.space.alphabet, None, self.space.valence)

    def along(self, batch: Graphs, gradient: Graphs) -> tuple[Graphs, Tensor]:
        """Sorted before the graphs are made."""
        return graph_moves(batch, self.space.alphabet, gradient, self.space.valence)

    def best(self, batch: Graphs, estimate: PartEnergies, limit: int) -> tuple[Graphs, Tensor]:
        """The `limit` best by an estimate, compiled if that is worth it."""
        if not pays(len(batch) * MOVES_PER_NODE, batch.max_nodes):
            return super().best(batch, estimate, limit)
        rules = self.space.valence
        kept = torch.ones(len(batch), dtype=torch.bool) if rules is None else rules.hold(batch).cpu()
        if not pays(int(kept.sum()) * MOVES_PER_NODE, batch.max_nodes):
            return super().best(batch, estimate, limit)
        moved, rows = [], []
        for own, best in ((kept, self._compiled), (~kept, super().best)):
            which = own.nonzero().flatten().to(batch.device)
            found, row = best(batch[which], estimate[which], limit)
            moved.append(found)
            rows.append(which[row])
        order = torch.cat(rows).argsort(stable=True)
        return Graphs.cat(moved)[order], torch.cat(rows)[order]

    def _compiled(self, batch: Graphs, estimate: PartEnergies, limit: int) -> tuple[Graphs, Tensor]:
        moved, row = best_graph_moves(
            batch, self.space.alphabet, self.space.valence, self.space.part_kinds, estimate, limit
        )
        return moved.to(batch.device), row.to(batch.device)


class GraphShow(Show[Y, Graphs]):
    """Graphs by the numbers of their nodes and edges."""

    def properties(self, batch: Graphs) -> dict[str, Tensor]:
        """The numbers of nodes, edges and independent cycles."""
        edges = (batch.edges != 0).sum(dim=(1, 2)) // 2
        return {"nodes": batch.sizes, "edges": edges, "cycles": edges - batch.sizes + component_counts(batch)}


class GraphSpace(OutputSpace[Y, Graphs]):
    """Graphs of at most `max_nodes` nodes with node and edge labels; subclasses define their objects."""

    class Config(ComponentConfig):
        """What graph spaces have in common."""

        augmentations: tuple[Augmentation, ...] = (Augmentation(),)
        """The augmentations that make a view of a graph, applied in turn."""
        ged_budget: int = Field(default=100_000, ge=1)
        """Most search steps per edit distance of graphs of up to 12 nodes, far more than molecules of that size need.
        Larger graphs get fewer, 2,094 for 26 nodes, so that an evaluation takes minutes. If the steps do not suffice,
        the distance is known only between bounds."""
        radius: int | None = Field(default=None, ge=0, le=8)
        """Edges from a node to the border of the largest neighbourhoods that count as parts (surrogate `parts`).
        None: 2."""

    Batch: ClassVar[type[Tensors]] = Graphs
    Moves = GraphMoves
    Show = GraphShow
    _measured: tuple[Graphs, Graphs, tuple[Bounded, Bounded]] | None = None

    @property
    @abstractmethod
    def node_labels(self) -> Sequence[Label]:
        """Node label k + 1 of a batch stands for `node_labels[k]`; 0 is a virtual node."""

    @property
    @abstractmethod
    def edge_labels(self) -> Sequence[Label]:
        """Edge label k + 1 of a batch stands for `edge_labels[k]`; 0 is no edge."""

    @property
    @abstractmethod
    def max_nodes(self) -> int:
        """m, the size that all graphs are padded to."""

    @property
    def alphabet(self) -> Alphabet:
        """The numbers of node and edge labels."""
        return Alphabet(len(self.node_labels), len(self.edge_labels))

    @cached_property
    def geometry(self) -> Mapping[str, ConvexSet]:
        """Nodes: m simplices of T + 1 labels. Edges: symmetric, m × m simplices of S labels, "none" on the diagonal."""
        return {
            "nodes": Simplex(size=len(self.node_labels) + 1, rows=(self.max_nodes,)),
            "edges": SymmetricSimplex(nodes=self.max_nodes, size=len(self.edge_labels) + 1),
        }

    def unrelax(self, point: Graphs) -> Graphs:
        """The likeliest label of each node and edge; virtual nodes lose their edges."""
        nearest = super().unrelax(point)
        return without_loose_edges(nearest.map(lambda labels: labels.char()))

    def augment(self, batch: Graphs, generator: Generator) -> Graphs:
        """Apply the configured augmentations in turn."""
        return augment(batch, self.config.augmentations, self.alphabet, generator)

    def keys(self, batch: Graphs) -> Tensor:
        """(B, 2) int64, equal for isomorphic graphs, across padding sizes too: see `keys.graph_keys`."""
        return graph_keys(one_form(batch, self.part_kinds))

    def equivalents(self, batch: Graphs, generator: Generator) -> Graphs:
        """The same graphs with all their nodes, also virtual ones, in a random order."""
        return permute(batch, torch.rand(batch.nodes.shape, generator=generator).argsort(dim=1).to(batch.device))

    @property
    def valence(self) -> Valence | None:
        """What every result of `moves` keeps; by default any graph of the space is allowed."""
        return None

    @property
    def part_kinds(self) -> PartKinds:
        """Which parts `features` counts."""
        return PartKinds(self.radius)

    @property
    def radius(self) -> int:
        """The radius of the largest neighbourhoods that count as parts."""
        return RADIUS if self.config.radius is None else int(self.config.radius)

    def features(self, batch: Graphs) -> SparseRows:
        """Neighbourhoods of nodes: see `wl.graph_features`."""
        return graph_features(batch, self.part_kinds)

    @property
    def metrics(self) -> Sequence[Metric[Graphs]]:
        """Graph edit distance with and without edge labels, and the share of exact predictions."""
        return (
            Metric("ged_with_edges", "min", lambda *pair: self._distances(*pair)[0], f"{GED}, counting edge labels"),
            Metric("ged_without_edges", "min", lambda *pair: self._distances(*pair)[1], f"{GED}, ignoring edge labels"),
            self.exact_match,
        )

    def comparable(self, batch: Graphs) -> Graphs:
        """The graphs in the form in which `pack` writes them, for edit distances; by default they have only one."""
        return batch

    def _distances(self, predicted: Graphs, true: Graphs) -> tuple[Bounded, Bounded]:
        """The distances with and without edge labels; those of the same batches are measured once for both metrics.

        What is proven without labels holds with them, and an edit path with labels is also one without.
        """
        known = self._measured
        if known is None or known[0] is not predicted or known[1] is not true:
            from ele_graphs import ged  # imports numba when it measures, which takes a while

            given, compared, true = true, self.comparable(predicted), self.comparable(true)
            budget = ged.default_budgets(compared, true, self.config.ged_budget)
            first, second = (
                ged.edit_distance_bounds(compared, true, budget=budget, edge_labels=labels) for labels in (True, False)
            )
            with_labels = Bounded(first.lower.maximum(second.lower).float(), first.upper.float())
            without = Bounded(second.lower.float(), second.upper.minimum(first.upper).float())
            known = self._measured = predicted, given, (with_labels, without)
        return known[2]
