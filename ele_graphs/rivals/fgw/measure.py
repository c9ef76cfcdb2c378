"""Queries as weighted graphs: Σ_k w_k δ(g_k), each graph and its weight laid out in one row of numbers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ele_core import ModelError
from ele_graphs.rivals.fgw.soft_graphs import SoftGraphs


@dataclass(frozen=True)
class Layout:
    """Graphs of at most m nodes and T labels as rows: weight, number of nodes, features, half of the structure.

    A structure y is one graph of weight 1, which is its embedding. A query is k of them, one after the other.
    """

    nodes: int
    labels: int

    @property
    def width(self) -> int:
        """Numbers per graph: 2 + m T + m (m + 1) / 2, with the diagonal, which barycenters have."""
        return 2 + self.nodes * self.labels + self.nodes * (self.nodes + 1) // 2

    def pack(self, weights: Tensor, graphs: SoftGraphs) -> Tensor:
        """Weights (B, k) and B k graphs → (B, k · width)."""
        upper = self._upper(weights.device)
        parts = [
            weights.reshape(-1, 1),
            graphs.sizes.unsqueeze(1),
            graphs.features.flatten(start_dim=1),
            graphs.structure[:, upper[0], upper[1]],
        ]
        return torch.cat([part.to(weights.dtype) for part in parts], dim=1).reshape(
            len(weights), weights.shape[1] * self.width
        )

    def unpack(self, rows: Tensor) -> tuple[Tensor, SoftGraphs]:
        """The inverse of `pack`: weights (B, k), and B k graphs."""
        if rows.shape[1] % self.width:
            what = f"a query of {rows.shape[1]} numbers cannot be split into graphs of {self.width} numbers each."
            raise ModelError(what, where="surrogate fgw", fix="Use the regressor 'fgw-ridge' or 'fgw-templates'.")
        each = rows.reshape(-1, self.width)
        sizes = [1, 1, self.nodes * self.labels, self.nodes * (self.nodes + 1) // 2]
        weights, counts, features, triangle = each.split(sizes, dim=1)
        upper = self._upper(rows.device)
        structure = rows.new_zeros(len(each), self.nodes, self.nodes)
        structure[:, upper[0], upper[1]] = triangle
        structure[:, upper[1], upper[0]] = triangle
        count = counts.flatten().round().long().clamp(0, self.nodes)
        graphs = SoftGraphs(features.reshape(-1, self.nodes, self.labels), structure, count)
        return weights.reshape(len(rows), rows.shape[1] // self.width), graphs

    def _upper(self, device: torch.device) -> Tensor:
        return torch.triu_indices(self.nodes, self.nodes, device=device)
