"""`cell-graph`: graphs of coloured cells, in which neighbours have different colours."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from ele_core import ComponentConfig, SparseRows
from ele_core.numerics.sparse import PartEnergies
from ele_graphs.coloring.pictures import NAMES
from ele_graphs.graphs.batch import Graphs, without_loose_edges
from ele_graphs.graphs.moves import ranked_moves
from ele_graphs.graphs.networkx_space import Labels, PaddedGraphSpace
from ele_graphs.graphs.space import GraphMoves

PARTS_AT_ONCE = 512
"""Graphs whose parts are listed at a time: bounds the memory."""


class Motifs(ComponentConfig):
    """The weight of each kind of part (surrogate `parts`); 0: parts of this kind do not count."""

    colour: float = Field(1.0, ge=0)
    """Nodes by colour."""
    degree: float = Field(1.0, ge=0)
    """Nodes by colour and number of neighbours."""
    around: float = Field(1.0, ge=0)
    """Nodes by colour and the colours of their neighbours."""
    edge: float = Field(1.0, ge=0)
    """Edges by the colours of their ends."""
    edge_degrees: float = Field(0.7, ge=0)
    """Edges by colour and number of neighbours of their ends."""
    triangle: float = Field(1.0, ge=0)
    """Triangles by colours."""
    between: float = Field(1.0, ge=0)
    """Edges by the colours of their ends and of the nodes that are neighbours of both."""
    triangle_degrees: float = Field(0.5, ge=0)
    """Triangles by colours and numbers of neighbours."""
    edge_around: float = Field(0.3, ge=0)
    """Edges by the colours of their ends and of all neighbours of each end."""
    far: float = Field(0.0, ge=0)
    """Nodes by the colours of all nodes up to two edges away: most of these parts are rare."""

    flaps: float = Field(0.0, ge=0)
    """Triangles by colours, with the colours of the triangles that share an edge with them."""
    kite: float = Field(0.0, ge=0)
    """Edges with their triangles, with the colours of the triangles that share an edge with these."""

    @property
    def weights(self) -> np.typing.NDArray[np.float32]:
        """The weights in the order of `kernels`."""
        return np.array([getattr(self, name) for name in Motifs.model_fields], np.float32)


class CellGraphMoves(GraphMoves):
    """The edits of graphs after which no two more neighbours have the same colour."""

    space: CellGraphSpace

    def list(self, batch: Graphs) -> tuple[Graphs, Tensor]:
        """The edits of each graph that are allowed."""
        return self._kept(batch, *super().list(batch))

    def along(self, batch: Graphs, gradient: Graphs) -> tuple[Graphs, Tensor]:
        """The edits of each graph that are allowed, sorted."""
        return self._kept(batch, *super().along(batch, gradient))

    def best(self, batch: Graphs, estimate: PartEnergies, limit: int) -> tuple[Graphs, Tensor]:
        """The `limit` best by an estimate, compiled, on the CPU."""
        from ele_graphs.coloring.kernels import best_moves
        from ele_graphs.graphs.move_kernels import Law

        alphabet = self.space.alphabet
        weights, capacities = (np.zeros(labels + 1, np.int64) for labels in reversed(alphabet))  # edges weigh nothing
        law = Law(*alphabet, weights, capacities, connected=False)
        moved, row = ranked_moves(best_moves, batch, law, self.space.config.motifs.weights, estimate, limit)
        return moved.to(batch.device), row.to(batch.device)

    def _kept(self, batch: Graphs, moved: Graphs, row: Tensor) -> tuple[Graphs, Tensor]:
        kept = ~(_alike(moved) & ~_alike(batch)[row]).any(dim=2).any(dim=1)
        return self._with_first_nodes(batch, moved[kept], row[kept])

    def _with_first_nodes(self, batch: Graphs, moved: Graphs, row: Tensor) -> tuple[Graphs, Tensor]:
        """The moves, and for a graph without nodes one node of each colour."""
        colours, empty = self.space.alphabet[0], (batch.nodes == 0).all(dim=1).nonzero().flatten()
        if not len(empty):
            return moved, row
        begun = batch[empty.repeat_interleave(colours)].map(torch.clone)
        begun.nodes[:, 0] = torch.arange(1, colours + 1, device=row.device).repeat(len(empty)).to(begun.nodes)
        owner = torch.cat([row, empty.repeat_interleave(colours)])
        order = owner.argsort(stable=True)
        return Graphs.cat([moved, begun])[order], owner[order]


class CellGraphSpace(PaddedGraphSpace):
    """Graphs whose node labels are colours, such as those of the cells of a map, with one kind of edge.

    A graph in which neighbours have the same colour is in the space, but moves do not lead there.
    """

    class Config(PaddedGraphSpace.Config):
        """Colours, size and parts."""

        node_labels: Labels = NAMES
        """The colours a node can have, at most six."""
        edge_labels: Labels = ("border",)
        """The label of an edge."""
        motifs: Motifs = Motifs()
        """The parts of a graph, with their weights (surrogate `parts`)."""

    config: Config
    Moves = CellGraphMoves

    @property
    def colours(self) -> Mapping[str, str]:
        """The colours of the pictures."""
        return PAINT

    def features(self, batch: Graphs) -> SparseRows:
        """Small coloured subgraphs and how often each occurs, times the weight of its kind: see `Motifs`."""
        if not len(batch):
            return SparseRows.counted(torch.zeros(0, 1, dtype=torch.int64), torch.zeros(0, 1))
        return SparseRows.cat(map(self._parts, without_loose_edges(batch).chunks(PARTS_AT_ONCE)))

    def _parts(self, graphs: Graphs) -> SparseRows:
        from ele_graphs.coloring.kernels import fill_parts, most_edges_and_triangles

        nodes, edges = graphs.nodes.cpu().numpy(), graphs.edges.cpu().numpy()
        bonds, triangles = most_edges_and_triangles(edges)
        room = 4 * graphs.max_nodes + 5 * bonds + 3 * triangles
        keys, values = np.zeros((len(graphs), room), np.uint64), np.zeros((len(graphs), room), np.float32)
        fill_parts(nodes, edges, self.config.motifs.weights, keys, values)
        return SparseRows.summed(torch.from_numpy(keys.view(np.int64)), torch.from_numpy(values))


PAINT = dict(zip(NAMES, ("#4040bf", "#40bf40", "#bf4040", "#e0ac3c"), strict=True))
"""The colours in which nodes are drawn: those of the pictures, yellow a little darker for white text."""


def _alike(graphs: Graphs) -> Tensor:
    """(B, m, m) bool: which pairs of neighbours have the same colour."""
    same = graphs.nodes[:, :, None] == graphs.nodes[:, None, :]
    return same & (graphs.edges != 0)
