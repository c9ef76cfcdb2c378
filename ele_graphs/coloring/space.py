"""`cell-graph`: graphs of coloured cells, in which neighbours have different colours."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from ele_core import PartEnergies, SparseRows
from ele_graphs.coloring.parts import Motifs, best_motif_moves, motif_features
from ele_graphs.coloring.pictures import NAMES
from ele_graphs.graphs.batch import Graphs
from ele_graphs.graphs.networkx_space import Labels, PaddedGraphSpace
from ele_graphs.graphs.space import GraphMoves


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
        """The `limit` best by an estimate, compiled."""
        moved, row = best_motif_moves(batch, self.space.alphabet, self.space.config.motifs, estimate, limit)
        return moved.to(batch.device), row.to(batch.device)

    def _kept(self, batch: Graphs, moved: Graphs, row: Tensor) -> tuple[Graphs, Tensor]:
        kept = ~(_alike(moved) & ~_alike(batch)[row]).any(dim=2).any(dim=1)
        return moved[kept], row[kept]


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
        """Small coloured subgraphs: see `Motifs`."""
        return motif_features(batch, self.config.motifs)


PAINT = dict(zip(NAMES, ("#4040bf", "#40bf40", "#bf4040", "#e0ac3c"), strict=True))
"""The colours in which nodes are drawn: those of the pictures, yellow a little darker for white text."""


def _alike(graphs: Graphs) -> Tensor:
    """(B, m, m) bool: which pairs of neighbours have the same colour."""
    same = graphs.nodes[:, :, None] == graphs.nodes[:, None, :]
    return same & (graphs.edges != 0)
