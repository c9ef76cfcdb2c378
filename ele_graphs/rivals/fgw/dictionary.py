"""A learned dictionary of template graphs, and a network that mixes them into a barycenter."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

from ele_core import Backbone, Tensors
from ele_graphs.rivals.fgw.barycenter import barycenters
from ele_graphs.rivals.fgw.soft_graphs import SoftGraphs
from ele_graphs.rivals.fgw.surrogate import FusedSurrogate

CERTAIN = 2.0
"""The logit of an entry that a template copies from a graph: close to 0 or 1, but with a gradient."""


class Dictionary(nn.Module):
    """M template graphs: features are rows of a softmax, edges are symmetric sigmoids, the diagonal is zero."""

    sizes: Tensor

    def __init__(self, templates: int, nodes: int, labels: int) -> None:
        super().__init__()
        self.features = nn.Parameter(torch.zeros(templates, nodes, labels))
        self.structure = nn.Parameter(torch.zeros(templates, nodes, nodes))
        self.register_buffer("sizes", torch.full((templates,), nodes))

    def __len__(self) -> int:
        return len(self.features)

    @torch.no_grad()
    def begin(self, graphs: SoftGraphs, generator: Generator) -> None:
        """Start as the largest of `graphs`, in a random order: smaller graphs can be cut out of them."""
        order = torch.randperm(len(graphs), generator=generator)
        order = order[graphs.sizes[order].argsort(descending=True, stable=True)]
        chosen = graphs[order[torch.arange(len(self)) % len(graphs)]]
        self.features.copy_(CERTAIN * chosen.features)
        self.structure.copy_(CERTAIN * (2 * chosen.structure - 1))
        self.sizes.copy_(chosen.sizes)

    def forward(self) -> SoftGraphs:
        """The templates as graphs, differentiable in the parameters."""
        features, logits = self.features.softmax(dim=2), self.structure
        structure = torch.sigmoid((logits + logits.transpose(1, 2)) / 2)
        graphs = SoftGraphs(features, structure, self.sizes)
        real = graphs.real
        apart = real[:, :, None] & real[:, None, :] & ~torch.eye(real.shape[1], dtype=torch.bool, device=real.device)
        return graphs.replace(features=features * real.unsqueeze(2), structure=structure * apart)


class BarycenterNetwork(nn.Module):
    """A backbone that predicts weights of the templates and a size; `mix` gives the barycenter of that size."""

    def __init__(self, backbone: Backbone, dictionary: Dictionary, surrogate: FusedSurrogate, rounds: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.dictionary = dictionary
        self.surrogate = surrogate
        self.rounds = rounds

    def forward(self, batch: Tensors) -> tuple[Tensor, Tensor]:
        """Weights (B, M), and the logits of the sizes 1…m (B, m)."""
        scores: Tensor = self.backbone(batch)
        templates = len(self.dictionary)
        return scores[:, :templates].softmax(dim=1), scores[:, templates:]

    def mix(self, weights: Tensor, sizes: Tensor) -> SoftGraphs:
        """Barycenters for weights (B, M) and sizes (B,), started at the template of greatest weight, cut to size."""
        templates = self.dictionary()
        heaviest = templates.map(Tensor.detach)[weights.argmax(dim=1)]
        start = heaviest.replace(sizes=torch.minimum(sizes, heaviest.sizes))
        real = start.real
        start = start.replace(
            features=start.features * real.unsqueeze(2),
            structure=start.structure * real[:, :, None] * real[:, None, :],
        )
        every = torch.arange(len(templates), device=weights.device).repeat(len(weights))
        return barycenters(start, templates[every], weights, self.surrogate, self.rounds)
