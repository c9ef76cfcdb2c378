"""Compiled parts and moves of coloured graphs: see `parts.Motifs` for the parts.

All functions are in one file with those that call them, because numba's cache only watches the file of the function
called.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ele_graphs.ged.kernels import compiled
from ele_graphs.graphs.key_kernels import ONE, ZERO, Codes, Hashes, Ints, mixed
from ele_graphs.graphs.move_kernels import (
    NUMBERS,
    Change,
    Known,
    Law,
    describe,
    emptied,
    enlarged,
    keep_best,
    list_moves,
    slot_of,
    unchanged,
    write_moves,
)

Floats = NDArray[np.float32]

COLOUR, DEGREE, AROUND, EDGE, EDGE_DEGREES, TRIANGLE, BETWEEN = range(7)
TRIANGLE_DEGREES, EDGE_AROUND, FAR, FLAPS, KITE = range(7, 12)
"""The kinds of parts, in the order of the weights."""
SALT = np.uint64(1) << np.uint64(56)
"""What distinguishes the codes of two kinds."""
COUNTED = 7
"""The largest degree that is told apart, and the largest number of neighbours of one colour."""
LEAST_ROOM = 1 << 12


class Board(NamedTuple):
    """One graph, to list its parts and to make and undo moves."""

    label: Ints  # (m,) node labels, 0: virtual
    bound: Codes  # (m, m) 1 where there is an edge
    degree: Ints  # (m,) the number of neighbours, at most COUNTED
    around: Hashes  # (m,) colour and numbers of neighbours of each colour
    common: Hashes  # (m, m) how many nodes of each colour are neighbours of both, for neighbours


class Listed(NamedTuple):
    """The parts of one graph."""

    keys: Hashes
    kinds: Ints


@compiled
def most_parts(size: int) -> int:
    """More parts than a graph of `size` nodes can have."""
    return 4 * size + 5 * (size * (size - 1)) // 2 + 3 * (size * (size - 1) * (size - 2)) // 6


@compiled
def most_edges_and_triangles(edges: Codes) -> tuple[int, int]:
    """The largest numbers of edges and of triangles of a graph of `edges` (B, m, m)."""
    most_edges, most_triangles, size = 0, 0, edges.shape[1]
    for row in range(len(edges)):
        bonds, triangles = 0, 0
        for i in range(size):
            for j in range(i + 1, size):
                if edges[row, i, j] != 0:
                    bonds += 1
                    for k in range(j + 1, size):
                        triangles += edges[row, i, k] != 0 and edges[row, j, k] != 0
        most_edges, most_triangles = max(most_edges, bonds), max(most_triangles, triangles)
    return most_edges, most_triangles


@compiled
def board_of(size: int) -> Board:
    """Memory for a graph of up to `size` nodes."""
    return Board(
        np.zeros(size, np.int64),
        np.zeros((size, size), np.int8),
        np.zeros(size, np.int64),
        np.zeros(size, np.uint64),
        np.zeros((size, size), np.uint64),
    )


@compiled
def ordered(first: np.uint64, second: np.uint64, base: int) -> np.uint64:
    """A code for two codes below `base`, in any order."""
    if first > second:
        first, second = second, first
    return first * np.uint64(base) + second


@compiled
def add(listed: Listed, n: int, kind: int, code: np.uint64) -> int:
    """Add a part, and return the number of parts with it."""
    listed.keys[n] = mixed(np.uint64(kind + 1) * SALT + code) | ONE
    listed.kinds[n] = kind
    return n + 1


@compiled
def list_parts(board: Board, weights: Floats, listed: Listed) -> int:
    """List the parts of a graph whose kind has a weight; return how many there are."""
    size, label, bound = len(board.label), board.label, board.bound
    neighbour = np.zeros((size, size), np.int64)
    count = np.zeros(size, np.int64)
    for i in range(size):
        if label[i] != 0:
            numbers = ZERO
            for j in range(size):
                if bound[i, j] != 0:
                    neighbour[i, count[i]] = j
                    count[i] += 1
                    shift = np.uint64(3 * label[j])
                    if (numbers >> shift) & np.uint64(COUNTED) != np.uint64(COUNTED):
                        numbers += ONE << shift
            board.degree[i] = min(count[i], COUNTED)
            board.around[i] = numbers + np.uint64(label[i])
    for i in range(size):
        for a in range(count[i]):
            j = neighbour[i, a]
            if j > i:
                common = ZERO
                for b in range(count[i]):
                    k = neighbour[i, b]
                    if bound[j, k] != 0:
                        common += ONE << np.uint64(3 * label[k])
                board.common[i, j] = board.common[j, i] = common
    n = 0
    for i in range(size):
        if label[i] == 0:
            continue
        node = np.uint64(label[i] * (COUNTED + 1) + board.degree[i])
        if weights[COLOUR] != 0:
            n = add(listed, n, COLOUR, np.uint64(label[i]))
        if weights[DEGREE] != 0:
            n = add(listed, n, DEGREE, node)
        if weights[AROUND] != 0:
            n = add(listed, n, AROUND, board.around[i])
        if weights[FAR] != 0:
            total = mixed(board.around[i])
            for a in range(count[i]):
                total += mixed(board.around[neighbour[i, a]] + ONE)
            n = add(listed, n, FAR, mixed(total) >> np.uint64(8))
        for a in range(count[i]):
            j = neighbour[i, a]
            if j > i:
                n = list_edge(board, weights, listed, n, i, j, neighbour, count)
    return n


@compiled
def list_edge(
    board: Board, weights: Floats, listed: Listed, n: int, i: int, j: int, neighbour: Ints, count: Ints
) -> int:
    """List the parts with the edge i–j, of triangles only those whose third node is after both."""
    label, bound = board.label, board.bound
    pair = ordered(np.uint64(label[i]), np.uint64(label[j]), 8)
    first = np.uint64(label[i] * (COUNTED + 1) + board.degree[i])
    second = np.uint64(label[j] * (COUNTED + 1) + board.degree[j])
    if weights[EDGE] != 0:
        n = add(listed, n, EDGE, pair)
    if weights[EDGE_DEGREES] != 0:
        n = add(listed, n, EDGE_DEGREES, ordered(first, second, 64))
    if weights[EDGE_AROUND] != 0:
        n = add(listed, n, EDGE_AROUND, ordered(board.around[i], board.around[j], 1 << 24))
    kite = ZERO
    for a in range(count[i]):
        k = neighbour[i, a]
        if bound[j, k] == 0:
            continue
        if weights[KITE] != 0:
            sides = mixed(flap(board, i, k, j)) + mixed(flap(board, j, k, i))
            kite += mixed(sides + np.uint64(label[k]))
        if k > j:
            n = list_triangle(board, weights, listed, n, i, j, k)
    if weights[KITE] != 0:
        n = add(listed, n, KITE, mixed(kite + pair) >> np.uint64(8))
    if weights[BETWEEN] != 0:
        n = add(listed, n, BETWEEN, board.common[i, j] * np.uint64(64) + pair)
    return n


@compiled
def flap(board: Board, i: int, j: int, k: int) -> np.uint64:
    """A code for the edge i–j of the triangle i–j–k: the colours of its ends and of its other triangles."""
    others = board.common[i, j] - (ONE << np.uint64(3 * board.label[k]))
    code: np.uint64 = others * np.uint64(64) + ordered(np.uint64(board.label[i]), np.uint64(board.label[j]), 8)
    return code


@compiled
def list_triangle(board: Board, weights: Floats, listed: Listed, n: int, i: int, j: int, k: int) -> int:
    """List the parts that are a triangle."""
    label = board.label
    if weights[TRIANGLE] != 0:
        colours = (ONE << np.uint64(3 * label[i])) + (ONE << np.uint64(3 * label[j])) + (ONE << np.uint64(3 * label[k]))
        n = add(listed, n, TRIANGLE, colours)
    if weights[TRIANGLE_DEGREES] != 0:
        total = ZERO
        for node in (i, j, k):
            total += mixed(np.uint64(label[node] * (COUNTED + 1) + board.degree[node]))
        n = add(listed, n, TRIANGLE_DEGREES, mixed(total) >> np.uint64(8))
    if weights[FLAPS] != 0:
        flaps = mixed(flap(board, i, j, k)) + mixed(flap(board, i, k, j)) + mixed(flap(board, j, k, i))
        n = add(listed, n, FLAPS, mixed(flaps) >> np.uint64(8))
    return n


@compiled
def fill_parts(nodes: Codes, edges: Codes, weights: Floats, keys: Hashes, values: Floats) -> None:
    """Fill keys (B, L) and values (B, L) with the parts of graphs; values beyond the last part stay 0."""
    size = nodes.shape[1]
    board = board_of(size)
    listed = Listed(np.zeros(most_parts(size), np.uint64), np.zeros(most_parts(size), np.int64))
    for row in range(len(nodes)):
        board.label[:] = nodes[row]
        board.bound[:] = edges[row]
        n = list_parts(board, weights, listed)
        for part in range(n):
            keys[row, part] = listed.keys[part]
            values[row, part] = weights[listed.kinds[part]]


@compiled
def best_moves(
    nodes: Codes,
    edges: Codes,
    law: Law,
    weights: Floats,
    queries: Floats,
    owner: Ints,
    squares: float,
    moved_nodes: Codes,
    moved_edges: Codes,
    counts: Ints,
) -> None:
    """Write the moves of least estimated energy of each graph, as `graphs.move_kernels.best_moves` does.

    Only moves after which neighbours have different colours are considered.
    """
    size, limit = nodes.shape[1], moved_nodes.shape[1]
    board, change = board_of(size), unchanged(size)
    listed = Listed(np.zeros(most_parts(size), np.uint64), np.zeros(most_parts(size), np.int64))
    moves = np.zeros((0, NUMBERS), np.int8)
    known = emptied(LEAST_ROOM)
    times = np.zeros(LEAST_ROOM, np.float32)
    for row in range(len(nodes)):
        if row > 0 and owner[row] != owner[row - 1]:
            known.keys[:] = ZERO
            known.filled[0] = 0
        board.label[:] = nodes[row]
        board.bound[:] = edges[row]
        found = list_moves(nodes[row], edges[row], law, moves)
        if found > len(moves):
            moves = np.zeros((2 * found, NUMBERS), np.int8)
            found = list_moves(nodes[row], edges[row], law, moves)
        energies = np.full(found, np.inf, np.float32)
        for move in range(found):
            if 2 * (known.filled[0] + len(listed.keys)) > len(known.keys):
                known = enlarged(known)
                times = np.zeros(len(known.keys), np.float32)
            describe(moves[move], nodes[row], edges[row], change)
            make(board, change)
            if proper(board, change):
                energies[move] = estimated(board, weights, queries[row], squares, listed, known, times)
            undo(board, change, nodes[row], edges[row])
        order = np.argsort(energies, kind="mergesort")
        kept = keep_best(order, energies, limit)
        counts[row] = len(kept)
        write_moves(nodes[row], edges[row], moves[kept], moved_nodes[row], moved_edges[row])


@compiled
def make(board: Board, change: Change) -> None:
    """Make a move."""
    for n in range(change.counts[0]):
        board.label[change.nodes[n, 0]] = change.nodes[n, 1]
    for n in range(change.counts[1]):
        i, j, label = change.pairs[n]
        board.bound[i, j] = board.bound[j, i] = label


@compiled
def undo(board: Board, change: Change, nodes: Codes, edges: Codes) -> None:
    """Undo a move of the graph `nodes` (m,), `edges` (m, m)."""
    for n in range(change.counts[0]):
        board.label[change.nodes[n, 0]] = nodes[change.nodes[n, 0]]
    for n in range(change.counts[1]):
        i, j = change.pairs[n, 0], change.pairs[n, 1]
        board.bound[i, j] = board.bound[j, i] = edges[i, j]


@compiled
def proper(board: Board, change: Change) -> bool:
    """Whether the nodes that a move changed have other colours than their neighbours."""
    for n in range(change.counts[0]):
        i = change.nodes[n, 0]
        for j in range(len(board.label)):
            if board.bound[i, j] != 0 and board.label[i] == board.label[j]:
                return False
    for n in range(change.counts[1]):
        i, j = change.pairs[n, 0], change.pairs[n, 1]
        if board.bound[i, j] != 0 and board.label[i] == board.label[j]:
            return False
    return True


@compiled
def estimated(
    board: Board, weights: Floats, query: Floats, squares: float, listed: Listed, known: Known, times: Floats
) -> float:
    """The estimate of `PartEnergies` for a graph. `times` are zeros as long as the table `known`, also afterwards."""
    n = list_parts(board, weights, listed)
    total = 0.0
    for part in range(n):
        weight = weights[listed.kinds[part]]
        slot = slot_of(listed.keys[part], query, known)
        total += weight * (known.values[slot] + squares * (2 * times[slot] + weight))
        times[slot] += weight
        listed.keys[part] = slot
    for part in range(n):
        times[listed.keys[part]] = 0
    return total
