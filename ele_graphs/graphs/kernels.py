"""Compiled versions of keys and of the best moves of graphs, for a CPU: they follow edges, not all pairs of nodes.

`fill_keys` computes `keys.graph_keys`, and `best_moves` what `OutputSpace.best_moves` computes from moves and features
on tensors, which serve other devices and installations without numba. All functions are in one file because numba's
cache only watches the file of the function called.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ele_graphs.ged.kernels import compiled

Codes = NDArray[np.int8]
Hashes = NDArray[np.uint64]
Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
S30, S27, S31 = np.uint64(30), np.uint64(27), np.uint64(31)
ZERO, ONE, TWO = np.uint64(0), np.uint64(1), np.uint64(2)
EDGE_SALT, WALK_SALT = np.uint64(1000), np.uint64(2000)
REFINEMENTS = 2
SHARED = 127  # as in `wl`, and REFINEMENTS as in `keys`; the cache would not see a change of an imported constant
UNSATURATED = np.uint64(128)
SAME = 1e-5  # as in `ele_core.numerics.keys`


@compiled
def mixed(value: np.uint64) -> np.uint64:
    """`ele_core.mix` of one number."""
    value = value + GOLDEN
    value = (value ^ (value >> S30)) * MIX_1
    value = (value ^ (value >> S27)) * MIX_2
    return value ^ (value >> S31)


class Adjacency(NamedTuple):
    """One graph by its edges, for graphs of up to m nodes: written by `load`, read by the functions below."""

    place: Ints  # (m,) the position of each real node
    degree: Ints  # (m,)
    neighbour: Ints  # (m, m) the neighbours of each real node, by their number among the real nodes
    weight: Hashes  # (m, m) the random odd number of the label of each of these edges
    colour: Hashes  # (m,) the hash of each node's label


@compiled
def working_memory(size: int) -> Adjacency:
    """Memory for graphs of up to `size` nodes."""
    return Adjacency(
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
        np.zeros((size, size), np.int64),
        np.zeros((size, size), np.uint64),
        np.zeros(size, np.uint64),
    )


@compiled
def load(nodes: Codes, edges: Codes, graph: Adjacency) -> int:
    """Read one graph, nodes (m,), edges (m, m), into `graph`; return its number of real nodes."""
    count = 0
    number = np.full(len(nodes), -1, np.int64)
    for i in range(len(nodes)):
        if nodes[i] != 0:
            number[i] = count
            graph.place[count] = i
            graph.colour[count] = mixed(np.uint64(nodes[i]))
            count += 1
    for a in range(count):
        i = graph.place[a]
        degree = 0
        for j in range(len(nodes)):
            if edges[i, j] != 0 and number[j] >= 0:
                graph.neighbour[a, degree] = number[j]
                graph.weight[a, degree] = mixed(np.uint64(edges[i, j]) + EDGE_SALT) | ONE
                degree += 1
        graph.degree[a] = degree
    return count


@compiled
def refine(graph: Adjacency, count: int, colours: Hashes, result: Hashes) -> None:
    """One step of Weisfeiler and Lehman, as `keys.refined`: from `colours` to `result`."""
    for a in range(count):
        total = colours[a]
        for k in range(graph.degree[a]):
            total += graph.weight[a, k] * colours[graph.neighbour[a, k]]
        result[a] = mixed(total)


@compiled
def fill_keys(nodes: Codes, edges: Codes, keys: Ints) -> None:
    """Fill keys (B, 2) as `keys.graph_keys` computes them from nodes (B, m), edges (B, m, m)."""
    size = nodes.shape[1]
    graph = working_memory(size)
    colours, other = np.zeros(size, np.uint64), np.zeros(size, np.uint64)
    pairs = np.zeros((size, size), np.uint64)
    walks, longer = np.zeros((size, size), np.uint64), np.zeros((size, size), np.uint64)
    for row in range(len(nodes)):
        count = load(nodes[row], edges[row], graph)
        colours[:count] = graph.colour[:count]
        for _ in range(REFINEMENTS):
            refine(graph, count, colours, other)
            colours, other = other, colours
        for a in range(count):
            for k in range(graph.degree[a]):
                both = colours[a] + colours[graph.neighbour[a, k]]
                pairs[a, k] = graph.weight[a, k] * (mixed(both) | ONE)
        walks[:count, :count] = ZERO
        for length in range(count // 2 + 1, 0, -1):
            factor = mixed(np.uint64(length) + WALK_SALT)
            for a in range(count):
                walks[a, a] += factor
            longer[:count, :count] = ZERO
            for a in range(count):
                for k in range(graph.degree[a]):
                    weight, source = pairs[a, k], graph.neighbour[a, k]
                    for b in range(count):
                        longer[a, b] += weight * walks[source, b]
            walks, longer = longer, walks
        first, second = ZERO, ZERO
        for a in range(count):
            back, between = ONE, ZERO
            for b in range(count):
                back += walks[a, b] * walks[b, a]
                between += mixed(walks[a, b] + colours[b])
            colour = mixed(colours[a] + mixed(walks[a, a]) + mixed(back) + between)
            first += mixed(colour + ONE)
            second += mixed(colour + TWO)
        keys[row, 0] = np.int64(mixed(first + ONE))
        keys[row, 1] = np.int64(mixed(second + TWO))


class Law(NamedTuple):
    """The alphabet and the rules of moves, as arrays; see `rules.Rules`."""

    node_labels: int
    edge_labels: int
    weights: Ints  # one per edge label, 0 for "no edge"
    capacities: Ints  # one per node label, 0 for a virtual node
    connected: bool


RELABEL, REMOVE, REBOND, GROW, INSERT, SWAP, SHIFT, CONTRACT = range(8)
"""The kinds of moves. A move is its kind and three numbers, in the order of the tensors in `moves`."""


@compiled
def write_moves(nodes: Codes, edges: Codes, moves: Codes, moved_nodes: Codes, moved_edges: Codes) -> None:
    """Write the results of `moves` (M, 4) of one graph to moved_nodes (M, m), moved_edges (M, m, m)."""
    slot = first_virtual(nodes)
    for row in range(len(moves)):
        after, bonds = moved_nodes[row], moved_edges[row]
        after[:] = nodes
        bonds[:] = edges
        kind, a, b, c = moves[row]
        if kind == RELABEL:
            after[a] = b
        elif kind == REMOVE:
            after[a] = 0
            bonds[a, :] = 0
            bonds[:, a] = 0
        elif kind == REBOND:
            bind(bonds, a, b, c)
        elif kind == GROW:
            after[slot] = a
            bind(bonds, slot, b, c)
        elif kind == INSERT:
            after[slot] = a
            bind(bonds, b, c, 0)
            bind(bonds, slot, b, edges[b, c])
            bind(bonds, slot, c, edges[b, c])
        elif kind == SWAP:
            after[a], after[b] = nodes[b], nodes[a]
        elif kind == SHIFT:
            bind(bonds, a, b, 0)
            bind(bonds, a, c, edges[a, b])
        else:
            after[a] = 0
            bonds[a, :] = 0
            bonds[:, a] = 0
            bind(bonds, b, c, min(edges[a, b], edges[a, c]))


@compiled
def list_moves(nodes: Codes, edges: Codes, law: Law, moves: Codes) -> int:
    """List the moves of one graph that keep the rules, in the order of `moves.graph_moves` without a gradient.

    Returns their number; only as many are written as `moves` (M, 4) has rows.
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
        find_sides(edges, sides)
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
    return n


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
def listed(moves: Codes, n: int, room: int, kind: int, a: int, b: int, c: int) -> int:
    """Write a move if there is room, and return the number of moves with it."""
    if n < room:
        moves[n, 0] = kind
        moves[n, 1] = a
        moves[n, 2] = b
        moves[n, 3] = c
    return n + 1


@compiled
def bind(edges: Codes, i: int, j: int, label: int) -> None:
    """Give the pair i, j an edge label."""
    edges[i, j] = label
    edges[j, i] = label


@compiled
def first_virtual(nodes: Codes) -> int:
    """The first virtual node, or -1."""
    for i in range(len(nodes)):
        if nodes[i] == 0:
            return i
    return -1


@compiled
def find_sides(edges: Codes, sides: Flags) -> None:
    """Fill sides[i, j] with the nodes connected to i without the edge i–j, for each edge."""
    size = len(edges)
    waiting = np.zeros(size, np.int64)
    neighbours, degrees = np.zeros((size, size), np.int64), np.zeros(size, np.int64)
    for i in range(size):
        for j in range(size):
            if edges[i, j] != 0:
                neighbours[i, degrees[i]] = j
                degrees[i] += 1
    for i in range(size):
        for k in range(degrees[i]):
            j = neighbours[i, k]
            reached = sides[i, j]
            reached[:] = False
            reached[i] = True
            waiting[0] = i
            todo = 1
            while todo:
                todo -= 1
                node = waiting[todo]
                for h in range(degrees[node]):
                    other = neighbours[node, h]
                    if not reached[other] and not (node == i and other == j):
                        reached[other] = True
                        waiting[todo] = other
                        todo += 1


@compiled
def separates(nodes: Codes, edges: Codes, without: int) -> bool:
    """Whether a graph falls apart without a node that has edges; `rules._cut_nodes` for one node."""
    size = len(nodes)
    reached = np.zeros(size, np.bool_)
    reached[without] = True
    waiting = np.zeros(size, np.int64)
    todo = 0
    for i in range(size):
        if edges[without, i] != 0:
            reached[i] = True
            waiting[0] = i
            todo = 1
            break
    if todo == 0:
        return False
    while todo:
        todo -= 1
        node = waiting[todo]
        for other in range(size):
            if edges[node, other] != 0 and not reached[other]:
                reached[other] = True
                waiting[todo] = other
                todo += 1
    return bool(((nodes != 0) & ~reached).any())


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
    moves = np.zeros((256, 4), np.int8)
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
            moves = np.zeros((2 * count, 4), np.int8)
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
            make(moves[at], nodes[row], edges[row], graph)
            spread(moves[at], nodes[row], edges[row], graph, nearby)
            new.colours[:] = base.colours
            colour(graph, parts, hashes, nearby, new.colours)
            value(graph, parts, queries[row], known, nearby, new.colours, new.values)
            scores[at] = difference(nodes[row], graph, parts, queries[row], squares, known, nearby, base, new)
            undo(moves[at], nodes[row], edges[row], graph)
        order = np.argsort(scores, kind="mergesort")
        chosen = np.empty((min(limit, count), 4), np.int8)
        taken = 0
        for place in range(count):
            score = scores[order[place]]
            equal = place >= 2 and score - scores[order[place - 2]] <= SAME * (1 + abs(score))
            if not equal and taken < limit:
                chosen[taken] = moves[order[place]]
                taken += 1
        counts[row] = taken
        write_moves(nodes[row], edges[row], chosen[:taken], moved_nodes[row], moved_edges[row])


@compiled
def most_moves(nodes: Codes, edges: Codes, law: Law) -> int:
    """The greatest number of moves of a graph."""
    most, none = 0, np.zeros((0, 4), np.int8)
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
def make(move: Codes, nodes: Codes, edges: Codes, graph: Editable) -> None:
    """Make a move, as `write_moves` does."""
    kind, a, b, c = move[0], move[1], move[2], move[3]
    if kind == RELABEL:
        graph.label[a] = b
    elif kind == REMOVE:
        graph.label[a] = 0
        while graph.degree[a]:
            connect(graph, a, graph.neighbour[a, 0], 0)
    elif kind == REBOND:
        connect(graph, a, b, c)
    elif kind == GROW:
        slot = first_virtual(nodes)
        graph.label[slot] = a
        connect(graph, slot, b, c)
    elif kind == INSERT:
        slot = first_virtual(nodes)
        graph.label[slot] = a
        connect(graph, b, c, 0)
        connect(graph, slot, b, edges[b, c])
        connect(graph, slot, c, edges[b, c])
    elif kind == SWAP:
        graph.label[a], graph.label[b] = nodes[b], nodes[a]
    elif kind == SHIFT:
        connect(graph, a, b, 0)
        connect(graph, a, c, edges[a, b])
    else:
        graph.label[a] = 0
        connect(graph, a, b, 0)
        connect(graph, a, c, 0)
        connect(graph, b, c, min(edges[a, b], edges[a, c]))


@compiled
def undo(move: Codes, nodes: Codes, edges: Codes, graph: Editable) -> None:
    """Undo a move that was made from nodes, edges."""
    kind, a, b, c = move[0], move[1], move[2], move[3]
    if kind == RELABEL:
        graph.label[a] = nodes[a]
    elif kind == REMOVE:
        graph.label[a] = nodes[a]
        for j in range(len(nodes)):
            if edges[a, j] != 0:
                connect(graph, a, j, edges[a, j])
    elif kind == REBOND:
        connect(graph, a, b, edges[a, b])
    elif kind == GROW:
        slot = first_virtual(nodes)
        graph.label[slot] = 0
        connect(graph, slot, b, 0)
    elif kind == INSERT:
        slot = first_virtual(nodes)
        graph.label[slot] = 0
        connect(graph, slot, b, 0)
        connect(graph, slot, c, 0)
        connect(graph, b, c, edges[b, c])
    elif kind == SWAP:
        graph.label[a], graph.label[b] = nodes[a], nodes[b]
    elif kind == SHIFT:
        connect(graph, a, c, 0)
        connect(graph, a, b, edges[a, b])
    else:
        graph.label[a] = nodes[a]
        connect(graph, b, c, 0)
        connect(graph, a, b, edges[a, b])
        connect(graph, a, c, edges[a, c])


class Colouring(NamedTuple):
    """The colours of the nodes of a graph at each depth, and the values of the parts that they stand for."""

    colours: Hashes  # (depths + 1, m); the last row holds UNSATURATED for nodes with one double edge, if that counts
    values: NDArray[np.float32]  # (depths, m)


@compiled
def colouring(depths: int, size: int) -> Colouring:
    """Memory for a colouring."""
    return Colouring(np.zeros((depths + 1, size), np.uint64), np.zeros((depths, size), np.float32))


@compiled
def spread(move: Codes, nodes: Codes, edges: Codes, graph: Editable, nearby: Flags) -> None:
    """Fill nearby (depths, m) with the nodes whose colour at each depth a move may change."""
    size = len(nodes)
    first = nearby[0]
    first[:] = False
    kind, a, b, c = move[0], move[1], move[2], move[3]
    if kind in (GROW, INSERT):
        first[first_virtual(nodes)] = True
    else:
        first[a] = True
    if kind not in (RELABEL, REMOVE):
        first[b] = True
    if kind in (INSERT, SHIFT, CONTRACT):
        first[c] = True
    if kind == REMOVE:
        for j in range(size):
            if edges[a, j] != 0:
                first[j] = True
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
    last = np.uint64(len(known.keys) - 1)
    slot = key & last
    while known.keys[slot] != ZERO and known.keys[slot] != key:
        slot = (slot + ONE) & last
    if known.keys[slot] == ZERO:
        known.keys[slot] = key
        known.values[slot] = signed_sum(key, query)
        known.filled[0] += 1
    value: np.float32 = known.values[slot]
    return value


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
