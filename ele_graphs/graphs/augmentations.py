"""Augmentations that make views of graphs for contrastive learning: GraphCL's four, batched; views stay in the space.

Each is a function `(graphs, rate, alphabet, generator) -> graphs`; `augment` applies a list of them in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Generator, Tensor

from ele_graphs.graphs.batch import Graphs, keep_nodes


class Augmentation(BaseModel):
    """One augmentation, as in `{name = "drop-nodes", rate = 0.05}`; rate 0 changes nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    name: Literal["drop-nodes", "perturb-edges", "relabel-nodes", "subgraph"] = "drop-nodes"
    """Which augmentation: `drop-nodes` as in the paper, or another of GraphCL's four."""
    rate: float = Field(default=0.05, ge=0, le=1)
    """The probability of a change for each node or edge; for `subgraph` the share of the nodes that is removed."""


class Alphabet(NamedTuple):
    """The numbers of node and edge labels, not counting label 0, "nothing there"."""

    node_labels: int
    edge_labels: int


def augment(graphs: Graphs, steps: Sequence[Augmentation], alphabet: Alphabet, generator: Generator) -> Graphs:
    """Apply all `steps` in turn; every graph keeps at least one of its nodes."""
    for step in steps:
        graphs = FUNCTIONS[step.name](graphs, step.rate, alphabet, generator)
    return graphs


def drop_nodes(graphs: Graphs, rate: float, _alphabet: Alphabet, generator: Generator) -> Graphs:
    """Make each real node virtual with probability `rate`, independently; keep at least one node per graph."""
    chance = _uniform(graphs.nodes.shape, generator, graphs)
    luckiest = chance.masked_fill(~graphs.real, -1).argmax(dim=1, keepdim=True)
    return keep_nodes(graphs, (chance >= rate).scatter(1, luckiest, True))


def perturb_edges(graphs: Graphs, rate: float, alphabet: Alphabet, generator: Generator) -> Graphs:
    """Remove or relabel each edge with probability `rate`, and add about as many new ones.

    A changed edge takes one of the other edge labels or none, all equally likely. A pair of real nodes without an edge
    gets one with probability rate · edges / (pairs − edges): on average as many edges are added as are changed.
    """
    present = graphs.edges != 0
    number = present.sum(dim=(1, 2)) / 2
    free = (graphs.sizes * (graphs.sizes - 1) / 2 - number).clamp(min=1)
    probability = torch.where(present, rate, (rate * number / free)[:, None, None])
    pairs = graphs.real[:, :, None] & graphs.real[:, None, :]
    chosen = (_uniform(graphs.edges.shape, generator, graphs) < probability) & pairs
    switched = _other_label(graphs.edges, 0, alphabet.edge_labels, generator)
    upper = torch.where(chosen, switched, graphs.edges).triu(1)
    return graphs.replace(edges=upper + upper.transpose(1, 2))


def relabel_nodes(graphs: Graphs, rate: float, alphabet: Alphabet, generator: Generator) -> Graphs:
    """Give each real node another label with probability `rate`: attribute masking that stays inside the space."""
    chosen = (_uniform(graphs.nodes.shape, generator, graphs) < rate) & graphs.real
    return graphs.replace(
        nodes=torch.where(chosen, _other_label(graphs.nodes, 1, alphabet.node_labels, generator), graphs.nodes)
    )


def subgraph(graphs: Graphs, rate: float, _alphabet: Alphabet, generator: Generator) -> Graphs:
    """Keep a random part, connected if the graph is, with the share 1 − rate of the nodes (rounded up, at least one).

    It grows from a random node by random neighbours; if a connected component is used up, it continues in another.
    """
    target = torch.minimum(torch.ceil(graphs.sizes * (1 - rate)).clamp(min=1), graphs.sizes)
    adjacent = graphs.edges != 0
    kept = torch.zeros_like(graphs.real)
    reachable = graphs.real
    for _ in range(graphs.max_nodes):
        growing = kept.sum(dim=1) < target
        chance = _uniform(graphs.nodes.shape, generator, graphs).masked_fill(~reachable, -1)
        kept = kept | (torch.nn.functional.one_hot(chance.argmax(dim=1), graphs.max_nodes).bool() & growing[:, None])
        frontier = (adjacent & kept[:, None, :]).any(dim=2) & ~kept
        reachable = torch.where(frontier.any(dim=1, keepdim=True), frontier, graphs.real & ~kept)
    return keep_nodes(graphs, kept)


FUNCTIONS: dict[str, Callable[[Graphs, float, Alphabet, Generator], Graphs]] = {
    "drop-nodes": drop_nodes,
    "perturb-edges": perturb_edges,
    "relabel-nodes": relabel_nodes,
    "subgraph": subgraph,
}


def _uniform(shape: Sequence[int], generator: Generator, graphs: Graphs) -> Tensor:
    """Draw uniform numbers on the generator's device, so that a CPU generator gives every device the same numbers."""
    return torch.rand(tuple(shape), generator=generator, device=generator.device).to(graphs.device)


def _other_label(labels: Tensor, first: int, last: int, generator: Generator) -> Tensor:
    """Replace each label by a uniform draw from the others of first…last (by itself if there is no other)."""
    others = last - first
    step = torch.randint(1, max(others, 1) + 1, labels.shape, generator=generator, device=generator.device)
    moved = first + (labels - first + step.to(labels.device)) % (others + 1)
    return moved.to(labels.dtype)
