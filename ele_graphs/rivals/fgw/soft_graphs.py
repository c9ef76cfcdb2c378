"""Graphs as the fused Gromov-Wasserstein distance sees them: node features and a structure matrix, no edge labels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ele_core import Tensors
from ele_graphs.graphs.batch import Graphs, compact, without_loose_edges

EDGE = 1
"""The label that every edge gets, because the distance ignores edge labels; for bonds it is usually "single"."""


@dataclass(frozen=True, eq=False)
class SoftGraphs(Tensors):
    """B graphs, their nodes first, padded with zeros to m nodes; entries may lie between 0 and 1.

    features: (B, m, T) shares of the node labels; structure: (B, m, m) symmetric, the weight of each edge;
    sizes: (B,) int64.
    """

    features: Tensor
    structure: Tensor
    sizes: Tensor

    @property
    def real(self) -> Tensor:
        """(B, m) bool: which rows are nodes."""
        return torch.arange(self.features.shape[1], device=self.sizes.device) < self.sizes[:, None]


def soften(graphs: Graphs, labels: int) -> SoftGraphs:
    """Convert packed graphs of `labels` node labels: features are one-hot, the structure is the adjacency matrix."""
    graphs = compact(without_loose_edges(graphs))
    one_hot = torch.nn.functional.one_hot(graphs.nodes.long(), labels + 1)[:, :, 1:]
    return SoftGraphs(one_hot.float(), (graphs.edges != 0).float(), graphs.sizes)


def harden(soft: SoftGraphs, threshold: float = 0.5) -> Graphs:
    """Round to packed graphs: the likeliest label of each node, and the edges above `threshold`, all with label 1."""
    real = soft.real
    nodes = (soft.features.argmax(dim=2) + 1) * real
    edges = (soft.structure > threshold) & real[:, :, None] & real[:, None, :]
    edges &= ~torch.eye(edges.shape[1], dtype=torch.bool, device=edges.device)
    return Graphs(nodes.char(), (edges * EDGE).char())
