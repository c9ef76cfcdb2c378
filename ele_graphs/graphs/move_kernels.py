"""Compiled moves of graphs, for a CPU: the best by an estimate from parts, without writing the others.

`best_moves` computes what `PartMoves.best` computes from moves and features on tensors, which serve other
devices and installations without numba. All functions are in one file because numba's cache only watches the file of
the function called; `mixed` and the salts never change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ele_graphs.ged.kernels import compiled
from ele_graphs.graphs.key_kernels import EDGE_SALT, ONE, TWO, ZERO, Codes, Hashes, Ints, mixed

Flags = NDArray[np.bool_]

SHARED = 127  # as in `wl`
UNSATURATED = np.uint64(128)
SAME = 1e-5  # as in `ele_core.numerics.keys`


class Law(NamedTuple):
    """The alphabet and the rules of moves, as arrays; see `rules.Valence`."""

    node_labels: int
    edge_labels: int
    weights: Ints  # one per edge label, 0 for "no edge"
    capacities: Ints  # one per node label, 0 for a virtual node
    connected: bool


RELABEL, REMOVE, REBOND, GROW, INSERT, SWAP, SHIFT, CONTRACT, SWITCH = range(9)
"""The kinds of moves. A move is its kind and up to four numbers, in the order of the tensors in `moves`."""
NUMBERS = 5
"""The numbers of a move, with its kind."""


class Change(NamedTuple):
    """What a move changes: written by `describe`, read by all functions that make moves."""

    nodes: Ints  # (2, 2): a node and its new label
    pairs: Ints  # (m + 2, 3): two nodes and the new label of their edge
    counts: Ints  # (2,) how many nodes and pairs


@compiled
def unchanged(size: int) -> Change:
    """Memory for the changes of graphs of up to `size` nodes."""
    return Change(np.zeros((2, 2), np.int64), np.zeros((size + 2, 3), np.int64), np.zeros(2, np.int64))


@compiled
def describe(move: Codes, nodes: Codes, edges: Codes, change: Change) -> None:
    """Fill `change` with what a move (NUMBERS,) of one graph changes."""
    change.counts[:] = 0
    kind, a, b, c = move[0], move[1], move[2], move[3]
    if kind == RELABEL:
        relabel(change, a, b)
    elif kind in (REMOVE, CONTRACT):
        relabel(change, a, 0)
        for j in range(len(nodes)):
            if edges[a, j] != 0:
                rebond(change, a, j, 0)
        if kind == CONTRACT:
            rebond(change, b, c, min(edges[a, b], edges[a, c]))
    elif kind == REBOND:
        rebond(change, a, b, c)
    elif kind == GROW:
        slot = first_virtual(nodes)
        relabel(change, slot, a)
        rebond(change, slot, b, c)
    elif kind == INSERT:
        slot = first_virtual(nodes)
        relabel(change, slot, a)
        rebond(change, b, c, 0)
        rebond(change, slot, b, edges[b, c])
        rebond(change, slot, c, edges[b, c])
    elif kind == SWAP:
        relabel(change, a, nodes[b])
        relabel(change, b, nodes[a])
    elif kind == SHIFT:
        rebond(change, a, b, 0)
        rebond(change, a, c, edges[a, b])
    else:
        d = move[4]
        rebond(change, a, b, 0)
        rebond(change, c, d, 0)
        rebond(change, a, c, edges[a, b])
        rebond(change, b, d, edges[a, b])


@compiled
def relabel(change: Change, node: int, label: int) -> None:
    """Add another label of a node."""
    n = change.counts[0]
    change.nodes[n, 0], change.nodes[n, 1] = node, label
    change.counts[0] = n + 1


@compiled
def rebond(change: Change, i: int, j: int, label: int) -> None:
    """Add another label of the edge of a pair."""
    n = change.counts[1]
    change.pairs[n, 0], change.pairs[n, 1], change.pairs[n, 2] = i, j, label
    change.counts[1] = n + 1


@compiled
def write_moves(nodes: Codes, edges: Codes, moves: Codes, moved_nodes: Codes, moved_edges: Codes) -> None:
    """Write the results of `moves` (M, NUMBERS) of one graph to moved_nodes (M, m), moved_edges (M, m, m)."""
    change = unchanged(len(nodes))
    for row in range(len(moves)):
        moved_nodes[row] = nodes
        moved_edges[row] = edges
        describe(moves[row], nodes, edges, change)
        for n in range(change.counts[0]):
            moved_nodes[row, change.nodes[n, 0]] = change.nodes[n, 1]
        for n in range(change.counts[1]):
            i, j, label = change.pairs[n]
            moved_edges[row, i, j] = label
            moved_edges[row, j, i] = label


@compiled
def list_moves(nodes: Codes, edges: Codes, law: Law, moves: Codes) -> int:
    """List the moves of one graph that keep the rules, in the order of `moves.graph_moves` without a gradient.

    Returns their number; only as many are written as `moves` (M, NUMBERS) has rows.
    """
    size, room = len(nodes), len(moves)
    weights, capacities = law.weights, law.capacities
    used, spare = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for i in range(size):
        for j in range(size):
            used[i] += weights[edges[i, j]]
        spare[i] = capacities[nodes[i]] - used[i]
    sides = np.ones((size, size, size) if law.connected else (0, 0, 0), np.bool_)
    if law.connected:
        find_sides(edges.copy(), sides)
    real = np.count_nonzero(nodes)
    n = 0
    for i in range(size):
        for label in range(1, law.node_labels + 1):
            if nodes[i] != 0 and nodes[i] != label and used[i] <= capacities[label]:
                n = listed(moves, n, room, RELABEL, i, label, 0)
    for i in range(size):
        if nodes[i] != 0 and real > 1 and not (law.connected and separates(nodes, edges, i)):
            n = listed(moves, n, room, REMOVE, i, 0, 0)
    for i in range(size):
        for j in range(i + 1, size):
            if nodes[i] == 0 or nodes[j] == 0:
                continue
            most = min(spare[i], spare[j]) + weights[edges[i, j]]
            for label in range(law.edge_labels + 1):
                cut = law.connected and label == 0 and not sides[i, j, j]
                if label != edges[i, j] and weights[label] <= most and not cut:
                    n = listed(moves, n, room, REBOND, i, j, label)
    if real < size:
        for kind in range(1, law.node_labels + 1):
            for i in range(size):
                for label in range(1, law.edge_labels + 1):
                    if nodes[i] != 0 and weights[label] <= min(spare[i], capacities[kind]):
                        n = listed(moves, n, room, GROW, kind, i, label)
        for kind in range(1, law.node_labels + 1):
            for i in range(size):
                for j in range(i + 1, size):
                    if edges[i, j] != 0 and 2 * weights[edges[i, j]] <= capacities[kind]:
                        n = listed(moves, n, room, INSERT, kind, i, j)
    for i in range(size):
        for j in range(i + 1, size):
            if nodes[i] == 0 or nodes[j] == 0 or nodes[i] == nodes[j]:
                continue
            if used[i] <= capacities[nodes[j]] and used[j] <= capacities[nodes[i]]:
                n = listed(moves, n, room, SWAP, i, j, 0)
    for i in range(size):
        for j in range(size):
            if edges[i, j] == 0:
                continue
            bridge = law.connected and not sides[i, j, j]
            for k in range(size):
                free = k != i and nodes[k] != 0 and edges[i, k] == 0 and weights[edges[i, j]] <= spare[k]
                if free and not (bridge and sides[i, j, k]):
                    n = listed(moves, n, room, SHIFT, i, j, k)
    for i in range(size):
        j, k = two_neighbours(edges[i])
        if k < 0 or edges[j, k] != 0:
            continue
        weight = weights[min(edges[i, j], edges[i, k])]
        if weight <= spare[j] + weights[edges[i, j]] and weight <= spare[k] + weights[edges[i, k]]:
            n = listed(moves, n, room, CONTRACT, i, j, k)
    return list_switches(nodes, edges, law.connected, moves, n)


@compiled
def list_switches(nodes: Codes, edges: Codes, connected: bool, moves: Codes, n: int) -> int:
    """List the moves that exchange ends of two edges with the same label, after the first `n` moves."""
    size, changed, waiting = len(nodes), edges.copy(), np.zeros(len(nodes), np.int64)
    for i in range(size):
        for j in range(i + 1, size):
            if edges[i, j] == 0:
                continue
            for k in range(i + 1, size):  # i–j comes before k–h, and they share no node
                if k == j:
                    continue
                for h in range(k + 1, size):
                    if h == j or edges[k, h] != edges[i, j]:
                        continue
                    for c, d in ((k, h), (h, k)):
                        if edges[i, c] != 0 or edges[j, d] != 0:
                            continue
                        if connected and not connects(nodes, changed, i, j, c, d, waiting):
                            continue
                        n = listed(moves, n, len(moves), SWITCH, i, j, c, d)
    return n


@compiled
def connects(nodes: Codes, edges: Codes, a: int, b: int, c: int, d: int, waiting: Ints) -> bool:
    """Whether a graph stays in one piece if its edges a–b and c–d become a–c and b–d; `edges` are restored."""
    label = edges[a, b]
    edges[a, b] = edges[b, a] = edges[c, d] = edges[d, c] = 0
    edges[a, c] = edges[c, a] = edges[b, d] = edges[d, b] = label
    reached = nodes == 0
    reach(edges, a, reached, waiting)
    edges[a, c] = edges[c, a] = edges[b, d] = edges[d, b] = 0
    edges[a, b] = edges[b, a] = edges[c, d] = edges[d, c] = label
    return bool(reached.all())


@compiled
def two_neighbours(bound: Codes) -> tuple[int, int]:
    """The two nodes to which a node with these edges (m,) is bound; -1, -1 if there are fewer or more."""
    first, second = -1, -1
    for j in range(len(bound)):
        if bound[j] != 0:
            if second >= 0:
                return -1, -1
            first, second = (j, second) if first < 0 else (first, j)
    return (first, second) if second >= 0 else (-1, -1)


@compiled
def listed(moves: Codes, n: int, room: int, kind: int, a: int, b: int, c: int, d: int = 0) -> int:
    """Write a move if there is room, and return the number of moves with it."""
    if n < room:
        moves[n, 0] = kind
        moves[n, 1] = a
        moves[n, 2] = b
        moves[n, 3] = c
        moves[n, 4] = d
    return n + 1


@compiled
def first_virtual(nodes: Codes) -> int:
    """The first virtual node, or -1."""
    for i in range(len(nodes)):
        if nodes[i] == 0:
            return i
    return -1


@compiled
def find_sides(edges: Codes, sides: Flags) -> None:
    """Fill sides[i, j] with the nodes connected to i without the edge i–j, for each edge; `edges` are restored."""
    waiting = np.zeros(len(edges), np.int64)
    for i in range(len(edges)):
        for j in range(len(edges)):
            label = edges[i, j]
            if label != 0:
                sides[i, j] = False
                edges[i, j] = 0
                reach(edges, i, sides[i, j], waiting)
                edges[i, j] = label


@compiled
def separates(nodes: Codes, edges: Codes, without: int) -> bool:
    """Whether a graph falls apart without a node that has edges; `rules._cut_nodes` for one node."""
    reached = nodes == 0
    reached[without] = True
    for i in range(len(nodes)):
        if edges[without, i] != 0:
            reach(edges, i, reached, np.zeros(len(nodes), np.int64))
            return not bool(reached.all())
    return False


@compiled
def reach(edges: Codes, start: int, reached: Flags, waiting: Ints) -> None:
    """Mark all nodes that are connected to `start` without passing marked ones; `waiting` (m,) is memory for it."""
    reached[start] = True
    waiting[0] = start
    todo = 1
    while todo:
        todo -= 1
        node = waiting[todo]
        for other in range(len(edges)):
            if edges[node, other] != 0 and not reached[other]:
                reached[other] = True
                waiting[todo] = other
                todo += 1


# -- the best moves by an estimate of the energy from parts, without writing the others ----------------------------


class Parts(NamedTuple):
    """Which parts are counted: see `wl.PartKinds`."""

    weights: NDArray[np.float32]  # of neighbourhoods of 0, 1, … edges
    double: int
    triple: int
    sizes: NDArray[np.float32]  # the weights at count - 1, count and count + 1 of nodes and of edges: `wl.SIZES`


class Known(NamedTuple):
    """A hash table of the parts met so far and their values for one query; `filled` (1,) says how many."""

    keys: Hashes
    values: NDArray[np.float32]
    filled: Ints


class Editable(NamedTuple):
    """One graph by its edges, to make and undo moves."""

    label: NDArray[np.int64]  # (m,) node labels, 0: virtual
    degree: NDArray[np.int64]  # (m,)
    neighbour: NDArray[np.int64]  # (m, m)
    edge: NDArray[np.int64]  # (m, m) the labels of the edges to these neighbours


@compiled
def best_moves(
    nodes: Codes,
    edges: Codes,
    law: Law,
    parts: Parts,
    queries: NDArray[np.float32],
    owner: Ints,
    squares: float,
    moved_nodes: Codes,
    moved_edges: Codes,
    counts: Ints,
) -> None:
    """Write the moves of least estimated energy of each graph, best first, and how many there are.

    queries (B, d): graph i has that of row i; owner (B,): equal for graphs with the same query, which are neighbours.
    moved_nodes (B, limit, m), moved_edges (B, limit, m, m), counts (B,).
    """
    size, limit = nodes.shape[1], moved_nodes.shape[1]
    graph = Editable(
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
        np.zeros((size, size), np.int64),
        np.zeros((size, size), np.int64),
    )
    moves = np.zeros((256, NUMBERS), np.int8)
    change = unchanged(size)
    known = emptied(1 << 12)
    hashes = label_hashes()
    depths = len(parts.weights)
    base, new = colouring(depths, size), colouring(depths, size)
    everywhere, nearby = np.zeros((depths, size), np.bool_), np.zeros((depths, size), np.bool_)
    for row in range(len(nodes)):
        if row and owner[row] != owner[row - 1]:
            known = emptied(len(known.keys))
        count = list_moves(nodes[row], edges[row], law, moves)
        if count > len(moves):
            moves = np.zeros((2 * count, NUMBERS), np.int8)
            list_moves(nodes[row], edges[row], law, moves)
        edit(nodes[row], edges[row], graph)
        for depth in range(len(parts.weights)):
            everywhere[depth] = graph.label != 0
        colour(graph, parts, hashes, everywhere, base.colours)
        value(graph, parts, queries[row], known, everywhere, base.colours, base.values)
        scores = np.zeros(count, np.float32)
        for at in range(count):
            if 2 * (known.filled[0] + len(parts.weights) * size + 6) > len(known.keys):
                known = enlarged(known)
            describe(moves[at], nodes[row], edges[row], change)
            make(change, graph)
            spread(change, graph, nearby)
            new.colours[:] = base.colours
            colour(graph, parts, hashes, nearby, new.colours)
            value(graph, parts, queries[row], known, nearby, new.colours, new.values)
            scores[at] = difference(nodes[row], graph, parts, queries[row], squares, known, nearby, base, new)
            undo(change, nodes[row], edges[row], graph)
        order = np.argsort(scores, kind="mergesort")
        kept = keep_best(order, scores, limit)
        counts[row] = len(kept)
        write_moves(nodes[row], edges[row], moves[kept], moved_nodes[row], moved_edges[row])


@compiled
def keep_best(order: Ints, scores: NDArray[np.float32], limit: int) -> Ints:
    """The first `limit` of `order` whose score is not infinite; of equal scores only two."""
    kept = np.zeros(min(limit, len(order)), np.int64)
    n = 0
    for place in range(len(order)):
        score = scores[order[place]]
        if n == len(kept) or score == np.inf:
            break
        if place > 1 and score - scores[order[place - 2]] <= SAME * (1 + abs(score)):
            continue
        kept[n] = order[place]
        n += 1
    return kept[:n]


@compiled
def most_moves(nodes: Codes, edges: Codes, law: Law) -> int:
    """The greatest number of moves of a graph."""
    most, none = 0, np.zeros((0, NUMBERS), np.int8)
    for row in range(len(nodes)):
        most = max(most, list_moves(nodes[row], edges[row], law, none))
    return most


@compiled
def label_hashes() -> tuple[Hashes, Hashes]:
    """The hash of each node label, and the random odd number of each edge label."""
    node, edge = np.zeros(256, np.uint64), np.zeros(128, np.uint64)
    for label in range(256):
        node[label] = mixed(np.uint64(label))
    for label in range(128):
        edge[label] = mixed(np.uint64(label) + EDGE_SALT) | ONE
    return node, edge


@compiled
def edit(nodes: Codes, edges: Codes, graph: Editable) -> None:
    """Read one graph."""
    for i in range(len(nodes)):
        graph.label[i] = nodes[i]
        degree = 0
        for j in range(len(nodes)):
            if edges[i, j] != 0:
                graph.neighbour[i, degree] = j
                graph.edge[i, degree] = edges[i, j]
                degree += 1
        graph.degree[i] = degree


@compiled
def connect(graph: Editable, i: int, j: int, label: int) -> None:
    """Give the pair i, j an edge label; 0: no edge."""
    connect_one(graph, i, j, label)
    connect_one(graph, j, i, label)


@compiled
def connect_one(graph: Editable, i: int, j: int, label: int) -> None:
    """Give the list of node i another label for node j."""
    degree = graph.degree[i]
    place = 0
    while place < degree and graph.neighbour[i, place] != j:
        place += 1
    if label != 0:
        graph.neighbour[i, place] = j
        graph.edge[i, place] = label
        graph.degree[i] = max(degree, place + 1)
    elif place < degree:
        graph.neighbour[i, place] = graph.neighbour[i, degree - 1]
        graph.edge[i, place] = graph.edge[i, degree - 1]
        graph.degree[i] = degree - 1


@compiled
def make(change: Change, graph: Editable) -> None:
    """Make a move."""
    for n in range(change.counts[0]):
        graph.label[change.nodes[n, 0]] = change.nodes[n, 1]
    for n in range(change.counts[1]):
        connect(graph, change.pairs[n, 0], change.pairs[n, 1], change.pairs[n, 2])


@compiled
def undo(change: Change, nodes: Codes, edges: Codes, graph: Editable) -> None:
    """Undo a move that was made from nodes, edges."""
    for n in range(change.counts[0]):
        graph.label[change.nodes[n, 0]] = nodes[change.nodes[n, 0]]
    for n in range(change.counts[1]):
        i, j = change.pairs[n, 0], change.pairs[n, 1]
        connect(graph, i, j, edges[i, j])


class Colouring(NamedTuple):
    """The colours of the nodes of a graph at each depth, and the values of the parts that they stand for."""

    colours: Hashes  # (depths + 1, m); the last row holds UNSATURATED for nodes with one double edge, if that counts
    values: NDArray[np.float32]  # (depths, m)


@compiled
def colouring(depths: int, size: int) -> Colouring:
    """Memory for a colouring."""
    return Colouring(np.zeros((depths + 1, size), np.uint64), np.zeros((depths, size), np.float32))


@compiled
def spread(change: Change, graph: Editable, nearby: Flags) -> None:
    """Fill nearby (depths, m) with the nodes whose colour at each depth a move may change."""
    size = len(graph.label)
    nearby[0] = False
    for n in range(change.counts[0]):
        nearby[0, change.nodes[n, 0]] = True
    for n in range(change.counts[1]):
        nearby[0, change.pairs[n, 0]] = True
        nearby[0, change.pairs[n, 1]] = True
    for depth in range(1, len(nearby)):
        nearby[depth] = nearby[depth - 1]
        for i in range(size):
            if nearby[depth - 1, i]:
                for k in range(graph.degree[i]):
                    nearby[depth, graph.neighbour[i, k]] = True


@compiled
def colour(graph: Editable, parts: Parts, hashes: tuple[Hashes, Hashes], where: Flags, colours: Hashes) -> None:
    """Compute the colours of the nodes `where` (depths, m), as `wl.wl_colours`; the others have theirs already."""
    size = len(graph.label)
    node_hash, edge_hash = hashes
    unsaturated = colours[len(where)]
    for i in range(size):
        if not where[0, i] or graph.label[i] == 0:
            continue
        unsaturated[i] = ZERO
        if parts.double:
            doubles, triples = 0, 0
            for k in range(graph.degree[i]):
                doubles += graph.edge[i, k] == parts.double
                triples += graph.edge[i, k] == parts.triple
            if doubles == 1 and triples == 0:
                unsaturated[i] = UNSATURATED
        colours[0, i] = node_hash[graph.label[i] + np.int64(unsaturated[i])]
    for depth in range(1, len(where)):
        for i in range(size):
            if not where[depth, i] or graph.label[i] == 0:
                continue
            hashed = colours[depth - 1, i]
            for k in range(graph.degree[i]):
                j = graph.neighbour[i, k]
                shared = unsaturated[i] != ZERO and unsaturated[j] != ZERO
                hashed += edge_hash[SHARED if shared else graph.edge[i, k]] * colours[depth - 1, j]
            colours[depth, i] = mixed(hashed)


@compiled
def value(
    graph: Editable,
    parts: Parts,
    query: NDArray[np.float32],
    known: Known,
    where: Flags,
    colours: Hashes,
    values: NDArray[np.float32],
) -> None:
    """Compute the values of the parts of the nodes `where` (depths, m)."""
    for depth in range(len(where)):
        for i in range(len(graph.label)):
            if where[depth, i] and graph.label[i] != 0:
                part = mixed(colours[depth, i] + np.uint64(depth))
                values[depth, i] = parts.weights[depth] * valued(part, query, known)


@compiled
def difference(
    nodes: Codes,
    graph: Editable,
    parts: Parts,
    query: NDArray[np.float32],
    squares: float,
    known: Known,
    nearby: Flags,
    base: Colouring,
    new: Colouring,
) -> float:
    """How much the estimate changes with a move, which changes colours only `nearby`; the sizes count as they are."""
    size = len(nodes)
    total = 0.0
    for depth in range(len(nearby)):
        for i in range(size):
            if nearby[depth, i]:
                if nodes[i] != 0:
                    total -= base.values[depth, i]
                if graph.label[i] != 0:
                    total += new.values[depth, i]
    if squares != 0:
        for depth in range(len(nearby)):
            repeats = 0
            for i in range(size):
                if not nearby[depth, i]:
                    continue
                for j in range(size):
                    # a pair of two changed nodes is met twice, a pair with an unchanged one once: count it double
                    twice = 1 if nearby[depth, j] else 2
                    if nodes[i] != 0 and nodes[j] != 0 and base.colours[depth, i] == base.colours[depth, j]:
                        repeats -= twice
                    both = graph.label[i] != 0 and graph.label[j] != 0
                    if both and new.colours[depth, i] == new.colours[depth, j]:
                        repeats += twice
            total += squares * parts.weights[depth] * parts.weights[depth] * repeats
    count, ends = 0, 0
    for i in range(size):
        count += graph.label[i] != 0
        ends += graph.degree[i]
    for step in range(3):
        weight = parts.sizes[step]
        total += weight * valued(mixed(mixed(np.uint64(count + step - 1)) + ONE), query, known)
        total += weight * valued(mixed(mixed(np.uint64(ends // 2 + step - 1)) + TWO), query, known)
    return total


@compiled
def valued(key: np.uint64, query: NDArray[np.float32], known: Known) -> np.float32:
    """The value of a part: ⟨query, signs(key)⟩, looked up or computed."""
    value: np.float32 = known.values[slot_of(key, query, known)]
    return value


@compiled
def slot_of(key: np.uint64, query: NDArray[np.float32], known: Known) -> np.uint64:
    """The place of a part in the table, computed if it is not there."""
    last = np.uint64(len(known.keys) - 1)
    slot = key & last
    while known.keys[slot] != ZERO and known.keys[slot] != key:
        slot = (slot + ONE) & last
    if known.keys[slot] == ZERO:
        known.keys[slot] = key
        known.values[slot] = signed_sum(key, query)
        known.filled[0] += 1
    return slot


@compiled
def signed_sum(key: np.uint64, query: NDArray[np.float32]) -> np.float32:
    """⟨query, signs(key)⟩ with the signs of `ele_core.numerics.sparse.signs`."""
    total = np.float32(0)
    for block in range((len(query) + 63) // 64):
        bits = mixed(key + mixed(np.uint64(block)))
        for k in range(block * 64, min(len(query), block * 64 + 64)):
            total += query[k] if bits & ONE else -query[k]
            bits >>= ONE
    return total


@compiled
def emptied(room: int) -> Known:
    """A table for `room` parts."""
    return Known(np.zeros(room, np.uint64), np.zeros(room, np.float32), np.zeros(1, np.int64))


@compiled
def enlarged(known: Known) -> Known:
    """The same table with twice the room."""
    wider = emptied(2 * len(known.keys))
    last = np.uint64(len(wider.keys) - 1)
    for old in range(len(known.keys)):
        if known.keys[old] != ZERO:
            slot = known.keys[old] & last
            while wider.keys[slot] != ZERO:
                slot = (slot + ONE) & last
            wider.keys[slot] = known.keys[old]
            wider.values[slot] = known.values[old]
    wider.filled[0] = known.filled[0]
    return wider
