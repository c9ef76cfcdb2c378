"""The moves of graphs, for `search`: every graph of the space one edit away, sorted by a gradient, best first.

The edits: relabel a node, remove one, add one beside another or within an edge, give a pair of nodes another edge label
or none, swap the labels of two nodes, move one end of an edge, take a node out of a path, exchange ends of two edges
with the same label. The default moves between
vertices of `geometry` would be fewer and worse: they leave edges at virtual nodes and add nodes without an edge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ele_core.numerics.sparse import PartEnergies
from ele_graphs.graphs.augmentations import Alphabet
from ele_graphs.graphs.batch import Graphs
from ele_graphs.graphs.valence import Valence, inside_paths, legal_edits, path_ends
from ele_graphs.graphs.wl import SIZES, PartKinds
from ele_graphs.threads import Flag, in_threads

GRAPHS_PER_CHUNK = 8
"""Graphs whose moves a thread ranks at a time."""


def graph_moves(
    graphs: Graphs, alphabet: Alphabet, gradient: Graphs | None, rules: Valence | None = None
) -> tuple[Graphs, Tensor]:
    """Every graph one edit away from each of `graphs`, and the row (M,) int64 that each belongs to.

    Rows stay in order. With `gradient` (of a loss, at the relaxed batch) the edits of a row are sorted by their
    first-order change of the loss, smallest first. Isomorphic results are not merged. With `rules`, only the results
    that keep them.
    """
    change = _Change.of(graphs, alphabet, gradient)
    families = [_relabel, _remove, _rebond, _grow, _insert, _swap, _shift, _contract]
    gains = [family(graphs, change) for family in families]
    if rules is not None:
        gains = [_where(kept, gain) for kept, gain in zip(legal_edits(graphs, rules), gains, strict=True)]
    result, row, switched = _applied(graphs, [*gains, _switch(graphs, change)])
    if rules is None:
        return result, row
    return _kept(result, row, switched | ~rules.hold(graphs)[row], rules)


def best_graph_moves(
    graphs: Graphs, alphabet: Alphabet, rules: Valence | None, kinds: PartKinds, estimate: PartEnergies, limit: int
) -> tuple[Graphs, Tensor]:
    """As `PartMoves.best`, compiled, on the CPU. All `graphs` must keep the rules."""
    from ele_graphs.graphs.move_kernels import Law, Parts, best_moves

    weights = rules.weights if rules else (0,) * (alphabet.edge_labels + 1)
    capacities = rules.capacities if rules else (0,) * (alphabet.node_labels + 1)
    law = Law(*alphabet, np.array(weights), np.array(capacities), bool(rules and rules.connected))
    parts = Parts(np.array(kinds.weights, np.float32), kinds.double, kinds.triple, np.array(SIZES, np.float32))
    return ranked_moves(best_moves, graphs, law, parts, estimate, limit)


def ranked_moves(
    best_moves: Callable[..., None], graphs: Graphs, law: Any, parts: Any, estimate: PartEnergies, limit: int
) -> tuple[Graphs, Tensor]:
    """The first `limit` moves of each graph as a compiled function `best_moves` ranks them, and their rows (M,).

    `law` are the moves that are allowed, `parts` what the function needs to know of parts.
    """
    from ele_graphs.graphs.move_kernels import most_moves

    graphs = graphs.to("cpu")
    size, count = graphs.max_nodes, len(graphs)
    queries = estimate.queries.detach().cpu().float().contiguous()
    owner = np.zeros(count, np.int64)
    owner[1:] = (queries[1:] != queries[:-1]).any(dim=1).numpy().cumsum()
    limit = min(limit, most_moves(graphs.nodes.numpy(), graphs.edges.numpy(), law))
    nodes = torch.zeros(count, limit, size, dtype=torch.int8)
    edges = torch.zeros(count, limit, size, size, dtype=torch.int8)
    found = torch.zeros(count, dtype=torch.int64)

    def rank(some: slice, _stop: Flag) -> None:
        best_moves(
            graphs.nodes[some].numpy(),
            graphs.edges[some].numpy(),
            law,
            parts,
            queries[some].numpy(),
            owner[some],
            estimate.squares,
            nodes[some].numpy(),
            edges[some].numpy(),
            found[some].numpy(),
        )

    in_threads(rank, count, GRAPHS_PER_CHUNK)
    row, place = (torch.arange(limit) < found[:, None]).nonzero(as_tuple=True)
    return Graphs(nodes[row, place], edges[row, place]), row


def _applied(graphs: Graphs, gains: Sequence[Tensor]) -> tuple[Graphs, Tensor, Tensor]:
    """The results of all possible edits, their rows, and whether each is of the last family.

    `gains` has a tensor for each family.
    """
    ranked = torch.cat([gain.flatten(1) for gain in gains], dim=1).sort(dim=1, stable=True)
    row, rank = ranked.values.isfinite().nonzero(as_tuple=True)
    move = ranked.indices[row, rank]
    result = graphs[row]
    doing = (
        *(_do_relabel, _do_remove, _do_rebond, _do_grow, _do_insert, _do_swap, _do_shift, _do_contract),
        _do_switch,
    )
    last = move >= sum(math.prod(gain.shape[1:]) for gain in gains[:-1])
    for apply, gain in zip(doing, gains, strict=True):
        count = math.prod(gain.shape[1:])
        own = ((move >= 0) & (move < count)).nonzero()[:, 0]
        apply(result, own, _coordinates(move[own], gain.shape[1:]))
        move = move - count
    return result, row, last


def _kept(result: Graphs, row: Tensor, unsure: Tensor, rules: Valence) -> tuple[Graphs, Tensor]:
    """The results without those that are `unsure` (M,) and break the rules."""
    doubtful = unsure.nonzero().flatten()
    if not len(doubtful):
        return result, row
    keep = torch.ones_like(row, dtype=torch.bool)
    keep[doubtful] = rules.hold(result[doubtful])
    return result[keep], row[keep]


def _coordinates(index: Tensor, shape: Sequence[int]) -> tuple[Tensor, ...]:
    """The place in a tensor of each index into its flat version; `torch.unravel_index` would import sympy."""
    found = []
    for size in reversed(shape):
        found.append(index % size)
        index = index // size
    return tuple(reversed(found))


@dataclass(frozen=True)
class _Change:
    """First-order changes of the loss for another label: of a node (B, m, T+1), of a pair of nodes (B, m, m, S)."""

    nodes: Tensor
    edges: Tensor

    @classmethod
    def of(cls, graphs: Graphs, alphabet: Alphabet, gradient: Graphs | None) -> _Change:
        if gradient is None:
            shape = (*graphs.edges.shape, alphabet.edge_labels + 1)
            zero = torch.zeros(1, device=graphs.device)
            return cls(zero.expand(*graphs.nodes.shape, alphabet.node_labels + 1), zero.expand(shape))
        both = gradient.edges + gradient.edges.transpose(1, 2)
        return cls(
            gradient.nodes - gradient.nodes.gather(2, graphs.nodes.long()[..., None]),
            both - both.gather(3, graphs.edges.long()[..., None]),
        )


# -- the change of the loss for every edit of a family, +inf if it is impossible -----------------------------------


def _relabel(graphs: Graphs, change: _Change) -> Tensor:
    """(B, m, T): node i takes label t + 1."""
    labels = torch.arange(1, change.nodes.shape[2], device=graphs.device)
    return _where(graphs.real[..., None] & (graphs.nodes[..., None] != labels), change.nodes[:, :, 1:])


def _remove(graphs: Graphs, change: _Change) -> Tensor:
    """(B, m): node i is removed with its edges; the last node stays."""
    gain = change.nodes[:, :, 0] + change.edges[..., 0].sum(dim=2)
    return _where(graphs.real & (graphs.sizes > 1)[:, None], gain)


def _rebond(graphs: Graphs, change: _Change) -> Tensor:
    """(B, m, m, S): the pair i < j takes edge label s."""
    labels = torch.arange(change.edges.shape[3], device=graphs.device)
    return _where(_pairs(graphs)[..., None] & (graphs.edges[..., None] != labels), change.edges)


def _grow(graphs: Graphs, change: _Change) -> Tensor:
    """(B, T, m, S−1): the first virtual node becomes real with label t + 1, bound to node i by label s + 1."""
    rows = torch.arange(len(graphs), device=graphs.device)
    slot = _first_virtual(graphs)
    gain = change.nodes[rows, slot, 1:, None, None] + change.edges[rows, slot, :, 1:][:, None]
    room = graphs.real & (graphs.sizes < graphs.max_nodes)[:, None]
    return _where(room[:, None, :, None], gain)


def _insert(graphs: Graphs, change: _Change) -> Tensor:
    """(B, T, m, m): the first virtual node, with label t + 1, splits the edge i–j, i < j, in two of the same label."""
    rows = torch.arange(len(graphs), device=graphs.device)
    slot = _first_virtual(graphs)
    label = graphs.edges.long()
    bound = change.edges[rows, slot]  # (B, m, S): the new node and node i take label s
    ends = bound.unsqueeze(1).expand(-1, graphs.max_nodes, -1, -1).gather(3, label[..., None])[..., 0]
    gain = change.edges[..., 0] + ends + ends.transpose(1, 2)
    room = (graphs.edges != 0).triu(1) & (graphs.sizes < graphs.max_nodes)[:, None, None]
    return _where(room[:, None], change.nodes[rows, slot, 1:, None, None] + gain[:, None])


def _swap(graphs: Graphs, change: _Change) -> Tensor:
    """(B, m, m): nodes i < j exchange their labels."""
    other = graphs.nodes.long()[:, None, :].expand(-1, graphs.max_nodes, -1)
    takes = change.nodes.gather(2, other)
    differ = graphs.nodes[:, :, None] != graphs.nodes[:, None, :]
    return _where(_pairs(graphs) & differ, takes + takes.transpose(1, 2))


def _shift(graphs: Graphs, change: _Change) -> Tensor:
    """(B, m, m, m): the edge i–j becomes i–k, if i and k are not yet neighbours."""
    size = graphs.max_nodes
    bound = graphs.edges != 0
    label = graphs.edges.long()[:, :, None, :].expand(-1, -1, size, -1)
    gained = change.edges.gather(3, label).transpose(2, 3)  # entry (i, j, k): the pair i, k takes the label of i, j
    free = ~bound & graphs.real[:, None, :] & ~torch.eye(size, dtype=torch.bool, device=graphs.device)
    return _where(bound[..., None] & free[:, :, None, :], change.edges[..., 0][..., None] + gained)


def _contract(graphs: Graphs, change: _Change) -> Tensor:
    """(B, m): node i, with two neighbours that are not bound to each other, is removed, and these are bound."""
    first, second, label = path_ends(graphs)
    rows = torch.arange(len(graphs), device=graphs.device)[:, None]
    gain = change.nodes[:, :, 0] + change.edges[..., 0].sum(dim=2) + change.edges[rows, first, second, label]
    return _where(inside_paths(graphs), gain)


def _switch(graphs: Graphs, change: _Change) -> Tensor:
    """(B, E, E, 2): the edges e < f of one label, i–j and k–h, become i–k and j–h, or i–h and j–k."""
    ends, label = _edge_list(graphs)
    rows = torch.arange(len(graphs), device=graphs.device)[:, None, None]
    i, j = (end[:, :, None] for end in ends)
    same = (label[:, :, None] == label[:, None, :]) & (label[:, None, :] > 0)
    gains = []
    others = [end[:, None, :] for end in ends]
    for k, h in (others, others[::-1]):
        apart = (i != k) & (i != h) & (j != k) & (j != h)
        free = (graphs.edges[rows, i, k] == 0) & (graphs.edges[rows, j, h] == 0)
        bound = label[:, :, None].expand(same.shape)
        lost = change.edges[rows, i, j, 0] + change.edges[rows, k, h, 0]
        gain = lost + change.edges[rows, i, k, bound] + change.edges[rows, j, h, bound]
        gains.append(_where((same & apart & free).triu(1), gain))
    return torch.stack(gains, dim=3)


def _edge_list(graphs: Graphs) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """The ends i < j (B, E) of the edges of each graph, in order, and their labels (B, E), 0 behind the last."""
    bound = (graphs.edges != 0).triu(1)
    row, i, j = bound.nonzero(as_tuple=True)
    counts = bound.sum(dim=(1, 2))
    place = torch.arange(len(row), device=graphs.device) - (counts.cumsum(0) - counts)[row]
    first, second, label = torch.zeros(
        3, len(graphs), int(counts.max()) if len(graphs) else 0, dtype=torch.long, device=graphs.device
    )
    first[row, place], second[row, place], label[row, place] = i, j, graphs.edges[row, i, j].long()
    return (first, second), label


# -- applying the edits: `own` are the rows of `result` to change in place, `at` the coordinates in the gains --------

_Coordinates = tuple[Tensor, ...]


def _do_relabel(result: Graphs, own: Tensor, at: _Coordinates) -> None:
    node, label = at
    result.nodes[own, node] = (label + 1).to(result.nodes.dtype)


def _do_remove(result: Graphs, own: Tensor, at: _Coordinates) -> None:
    (node,) = at
    result.nodes[own, node] = 0
    result.edges[own, node] = 0
    result.edges[own, :, node] = 0


def _do_rebond(result: Graphs, own: Tensor, at: _Coordinates) -> None:
    first, second, label = at
    _bind(result, own, first, second, label)


def _do_grow(result: Graphs, own: Tensor, at: _Coordinates) -> None:
    label, node, bond = at
    slot = _first_virtual(result[own])
    result.nodes[own, slot] = (label + 1).to(result.nodes.dtype)
    _bind(result, own, slot, node, bond + 1)


def _do_insert(result: Graphs, own: Tensor, at: _Coordinates) -> None:
    node_label, first, second = at
    slot = _first_virtual(result[own])
    label = result.edges[own, first, second]
    result.nodes[own, slot] = (node_label + 1).to(result.nodes.dtype)
    _bind(result, own, first, second, torch.zeros_like(label))
    _bind(result, own, slot, first, label)
    _bind(result, own, slot, second, label)


def _do_swap(result: Graphs, own: Tensor, at: _Coordinates) -> None:
    first, second = at
    labels = result.nodes[own, first], result.nodes[own, second]
    result.nodes[own, second], result.nodes[own, first] = labels


def _do_shift(result: Graphs, own: Tensor, at: _Coordinates) -> None:
    node, old, new = at
    label = result.edges[own, node, old]
    _bind(result, own, node, old, torch.zeros_like(label))
    _bind(result, own, node, new, label)


def _do_contract(result: Graphs, own: Tensor, at: _Coordinates) -> None:
    (node,) = at
    ends = path_ends(result[own])
    first, second, label = (field.gather(1, node[:, None])[:, 0] for field in ends)
    _do_remove(result, own, at)
    _bind(result, own, first, second, label)


def _do_switch(result: Graphs, own: Tensor, at: _Coordinates) -> None:
    (first, second), labels = _edge_list(result[own])
    e, f, way = at
    i, j, label = (field.gather(1, e[:, None])[:, 0] for field in (first, second, labels))
    ends = [end.gather(1, f[:, None])[:, 0] for end in (first, second)]
    k, h = torch.where(way == 0, ends[0], ends[1]), torch.where(way == 0, ends[1], ends[0])
    _bind(result, own, i, j, torch.zeros_like(label))
    _bind(result, own, k, h, torch.zeros_like(label))
    _bind(result, own, i, k, label)
    _bind(result, own, j, h, label)


def _bind(result: Graphs, own: Tensor, first: Tensor, second: Tensor, label: Tensor) -> None:
    result.edges[own, first, second] = result.edges[own, second, first] = label.to(result.edges.dtype)


def _pairs(graphs: Graphs) -> Tensor:
    """(B, m, m): the pairs i < j of real nodes."""
    return (graphs.real[:, :, None] & graphs.real[:, None, :]).triu(1)


def _first_virtual(graphs: Graphs) -> Tensor:
    """(B,) the first virtual node, or 0 if there is none."""
    return (~graphs.real).to(torch.int8).argmax(dim=1)


def _where(possible: Tensor, gain: Tensor) -> Tensor:
    return torch.where(possible, gain, math.inf)
