"""Compiled keys of graphs, for a CPU: `fill_keys` computes `keys.graph_keys` along edges, not over all pairs of nodes.

Tensors serve other devices and installations without numba.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ele_graphs.ged.kernels import compiled

Codes = NDArray[np.int8]
Hashes = NDArray[np.uint64]
Ints = NDArray[np.int64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
S30, S27, S31 = np.uint64(30), np.uint64(27), np.uint64(31)
ZERO, ONE, TWO = np.uint64(0), np.uint64(1), np.uint64(2)
EDGE_SALT, WALK_SALT = np.uint64(1000), np.uint64(2000)
REFINEMENTS = 2  # as in `keys`; the cache of numba would not see a change of an imported constant


@compiled
def mixed(value: np.uint64) -> np.uint64:
    """`ele_core.numerics.keys.mix` of one number."""
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
