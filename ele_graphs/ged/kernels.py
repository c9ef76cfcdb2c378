"""The compiled search behind `ele_graphs.ged`: branch and bound over node mappings, by iterative deepening.

With unit costs it never pays to delete a node and insert another if one could be turned into the other, so the
smaller graph is padded with virtual nodes (label 0, no edges) to the n nodes of the larger one. With the node labels on
the diagonals of the matrices A and B,

    GED = min over permutations p of  sum_{i<=j} [A_ij != B_p(i)p(j)].

The bound is a linear assignment. Fix p on some rows; for free rows u and free columns v let

    C_uv = 2 [A_uu != B_vv] + 2 sum_{i fixed} [A_ui != B_vp(i)] + d(inner edges of u, inner edges of v)

where inner edges lead to free nodes and d(X, Y) = max(|X|, |Y|) - |X ∩ Y| on multisets of labels. An inner edge counts
at both its ends, so all is doubled: 2 GED >= 2 (cost of the fixed part) + min_p sum_u C_up(u). Fixing one more pair
never lowers an entry of C: the dual prices of a parent stay feasible in its children, and only pairs whose cost rose
are matched again. (Chang et al. 2020, "Speeding up GED computation for graph databases": anchor-aware branch match.)

All functions are in one file because numba's cache only watches the file of the function called. Few arrays and plain
loops shorten the compilation.
"""

import warnings
from collections.abc import Callable
from typing import NamedTuple, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

try:
    import numba
except ModuleNotFoundError:
    from ele_core.extras import how_to_install

    numba = None  # type: ignore[assignment]
    warnings.warn(
        "numba is not installed: distances between graphs are computed in plain Python, about 200 times slower. "
        + how_to_install("graphs"),
        stacklevel=2,
    )

Ints = NDArray[np.int32]
Labels = NDArray[np.int16]
Flag = NDArray[np.int8]
P = ParamSpec("P")
R = TypeVar("R")

FAR = 1 << 30
RESTARTS, CHANGES = 8, 3  # mappings improved again before each pass, and the swaps that change the best one for that

# Rows of `Levels.vector`, the part of a level that has one entry per node …
ROW_PRICE = 0  # dual prices: ROW_PRICE[u] + COLUMN_PRICE[v] <= C[u, v], equal if u is matched with v
COLUMN_PRICE = 1
MATCH = 2  # the column of each row and the row of each column, free or fixed; -1 while unmatched
OWNER = 3
FREE_ROW = 4  # 1 while not fixed
FREE_COLUMN = 5
CHILD = 6  # columns still to try for the row being branched on, the most promising last, with their doubled bounds
CHILD_BOUND = 7
STATE = 8  # … and one row of single numbers: the doubled cost of the fixed part, the row branched on, its columns left
FIXED, ROW, CHILDREN = 0, 1, 2

# Rows of the working memory: a shortest augmenting path, for each column the first one interchangeable with it, the
# best mapping found, and one that is tried.
DISTANCE, PREVIOUS, SEEN, TWIN, BEST, TRIAL = 0, 1, 2, 3, 4, 5


class Levels(NamedTuple):
    """The state of the search at each depth 0…n, which is the first axis of all arrays."""

    cost: Ints  # (n + 1, n, n): C
    inner: Ints  # (n + 1, 2n, 1 + labels): inner edges of the rows, then of the columns, in all ([0]) and by label
    vector: Ints  # (n + 1, STATE + 1, n)


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile to run without the interpreter lock; cache on disk if numba finds a writable folder.

    Without numba the function runs as it is: with the same result, about two hundred times slower.
    """
    if numba is None:
        return function
    try:
        return cast(Callable[P, R], numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # no such folder, not even in the home: compile in each process rather than fail
        return cast(Callable[P, R], numba.njit(nogil=True)(function))


@compiled
def solve_pairs(
    nodes_a: Labels,
    edges_a: Labels,
    nodes_b: Labels,
    edges_b: Labels,
    edge_labels: bool,
    budgets: NDArray[np.int64],
    stop: Flag,
    bounds: NDArray[np.int64],
) -> None:
    """Fill bounds (B, 2) with a lower and an upper bound of each pair, equal unless the budget ran out.

    nodes (B, m), edges (B, m, m), zero is "nothing there"; budgets (B,): the largest number of search nodes of each
    pair; stop: (1,), set to 1 by another thread to return early.
    """
    n = max(most_nodes(nodes_a), most_nodes(nodes_b))
    first, second = np.zeros((n, n), np.int32), np.zeros((n, n), np.int32)
    codes = np.zeros(1 + max(highest(edges_a), highest(edges_b)), np.int32)
    labels_at_most = min(len(codes), n * (n - 1)) if edge_labels else 1  # two graphs have no more edges than that
    levels = Levels(
        np.zeros((n + 1, n, n), np.int32),
        np.zeros((n + 1, 2 * n, 1 + labels_at_most), np.int32),
        np.zeros((n + 1, STATE + 1, max(n, CHILDREN + 1)), np.int32),
    )
    scratch = np.zeros((TRIAL + 1, n), np.int32)
    for pair in range(len(nodes_a)):
        if stop[0]:
            return
        codes[:] = 0
        count_a, labels = load(nodes_a[pair], edges_a[pair], edge_labels, codes, 0, first)
        count_b, labels = load(nodes_b[pair], edges_b[pair], edge_labels, codes, labels, second)
        a, b = (first, second) if count_a <= count_b else (second, first)
        real, total = min(count_a, count_b), max(count_a, count_b)
        bounds[pair, 0], bounds[pair, 1] = search(a, b, real, total, labels, budgets[pair], stop, levels, scratch)


@compiled
def search(
    a: Ints, b: Ints, real: int, n: int, labels: int, budget: int, stop: Flag, levels: Levels, scratch: Ints
) -> tuple[int, int]:
    """Bounds of the distance between a, with `real` nodes, and b, with n >= real nodes.

    Iterative deepening: each pass looks for a mapping of cost `lower` and visits only nodes whose bound allows it. A
    pass that finds none proves `lower` + 1. The last pass visits most of the nodes; if the budget runs out, the lower
    bound is what the passes before have proved.
    """
    vector = levels.vector
    find_twins(b, n, scratch)
    open_root(a, b, n, labels, levels, scratch)
    root = doubled_bound(levels.cost[0], vector[0], n)
    lower = (root + 1) // 2
    scratch[TRIAL, :n] = vector[0, MATCH, :n]
    improve(a, b, n, scratch[TRIAL])
    best = keep_better(a, b, n, scratch[TRIAL], FAR, scratch)
    visited, draws = 1, 1
    while lower < best:
        best, visited = deepen(a, b, real, n, labels, lower, best, root, visited, budget, stop, levels, scratch)
        if visited >= budget or stop[0]:
            return lower, best
        lower += 1
        best, draws = restarted(a, b, n, lower, best, draws, scratch)
        visited += RESTARTS * n // 2  # to improve a mapping takes about as long as to visit n / 2 nodes
    return best, best


@compiled
def deepen(
    a: Ints,
    b: Ints,
    real: int,
    n: int,
    labels: int,
    goal: int,
    best: int,
    bound: int,
    visited: int,
    budget: int,
    stop: Flag,
    levels: Levels,
    scratch: Ints,
) -> tuple[int, int]:
    """Depth-first search for a mapping of cost `goal`, below which there is none; returns best and visited, updated."""
    vector, limit = levels.vector, 2 * goal + 1
    depth = -1
    while True:
        if bound < limit:
            depth += 1
            choose_row(levels.cost[depth], levels.inner[depth], vector[depth], real, n, limit - bound, scratch)
            list_children(levels.cost[depth], vector[depth], n, bound, limit, scratch)
        while depth >= 0 and vector[depth, STATE, CHILDREN] == 0:
            depth -= 1
        if depth < 0 or best <= goal or visited >= budget or stop[0]:
            return best, visited
        vector[depth, STATE, CHILDREN] -= 1
        visited += 1
        open_child(a, b, n, labels, levels, scratch, depth, vector[depth, CHILD, vector[depth, STATE, CHILDREN]])
        bound = doubled_bound(levels.cost[depth + 1], vector[depth + 1], n)
        if bound < limit:
            best = keep_better(a, b, n, vector[depth + 1, MATCH], best, scratch)


@compiled
def open_root(a: Ints, b: Ints, n: int, labels: int, levels: Levels, scratch: Ints) -> None:
    """Set up level 0: nothing fixed, all edges inner."""
    cost, inner, vector = levels.cost[0], levels.inner[0], levels.vector[0]
    count_inner(a, n, labels, inner, 0)
    count_inner(b, n, labels, inner, n)
    vector[STATE, FIXED] = 0
    for u in range(n):
        vector[ROW_PRICE, u] = 0
        vector[COLUMN_PRICE, u] = 0
        vector[MATCH, u] = -1
        vector[OWNER, u] = -1
        vector[FREE_ROW, u] = 1
        vector[FREE_COLUMN, u] = 1
        for v in range(n):
            cost[u, v] = 2 * (a[u, u] != b[v, v]) + inner_distance(inner, u, n + v, labels)
    rematch(cost, vector, n, scratch)


@compiled
def open_child(a: Ints, b: Ints, n: int, labels: int, levels: Levels, scratch: Ints, depth: int, column: int) -> None:
    """Set up level depth + 1: the row branched on at depth is fixed to column."""
    cost, inner, vector = levels.cost[depth + 1], levels.inner[depth + 1], levels.vector[depth + 1]
    before, inner_before = levels.cost[depth], levels.inner[depth]
    row = levels.vector[depth, STATE, ROW]
    for kind in range(CHILD):
        for u in range(n):
            vector[kind, u] = levels.vector[depth, kind, u]
    vector[STATE, FIXED] = levels.vector[depth, STATE, FIXED] + before[row, column]
    vector[STATE, FIXED] -= inner_distance(inner_before, row, n + column, labels)
    fix_pair(vector, row, column)
    leave_inner(a, n, labels, row, inner_before, inner, 0)
    leave_inner(b, n, labels, column, inner_before, inner, n)
    for u in range(n):
        if not vector[FREE_ROW, u]:
            continue
        for v in range(n):
            cost[u, v] = before[u, v]
            if a[u, row] == b[v, column] or not vector[FREE_COLUMN, v]:
                continue
            # an edge that differs now counts as fixed instead of as inner
            cost[u, v] += 2 + inner_distance(inner, u, n + v, labels) - inner_distance(inner_before, u, n + v, labels)
            if vector[MATCH, u] == v:
                vector[MATCH, u] = -1
                vector[OWNER, v] = -1
    rematch(cost, vector, n, scratch)


@compiled
def fix_pair(vector: Ints, row: int, column: int) -> None:
    """Fix the match of row with column, and unmatch the nodes that they were matched with before."""
    if vector[MATCH, row] != column:
        vector[MATCH, vector[OWNER, column]] = -1
        vector[OWNER, vector[MATCH, row]] = -1
    vector[MATCH, row] = column
    vector[OWNER, column] = row
    vector[FREE_ROW, row] = 0
    vector[FREE_COLUMN, column] = 0


@compiled
def rematch(cost: Ints, vector: Ints, n: int, scratch: Ints) -> None:
    """Complete the matching of a level to one of least cost, row by row along shortest augmenting paths."""
    for row in range(n):
        if vector[MATCH, row] < 0:
            column = shortest_path(cost, vector, n, row, scratch)
            while column >= 0:
                previous = scratch[PREVIOUS, column]
                vector[OWNER, column] = previous
                column, vector[MATCH, previous] = vector[MATCH, previous], column


@compiled
def shortest_path(cost: Ints, vector: Ints, n: int, start: int, scratch: Ints) -> int:
    """The unmatched column nearest to row start by reduced costs, with the prices updated (Jonker, Volgenant 1987)."""
    for v in range(n):
        scratch[DISTANCE, v] = FAR
        scratch[SEEN, v] = 0
    row, reached = start, 0
    while True:
        nearest = -1
        for v in range(n):
            if scratch[SEEN, v] or not vector[FREE_COLUMN, v]:
                continue
            through = reached + cost[row, v] - vector[ROW_PRICE, row] - vector[COLUMN_PRICE, v]
            if through < scratch[DISTANCE, v]:
                scratch[DISTANCE, v] = through
                scratch[PREVIOUS, v] = row
            if nearest < 0 or scratch[DISTANCE, v] < scratch[DISTANCE, nearest]:
                nearest = v
        reached = scratch[DISTANCE, nearest]
        if vector[OWNER, nearest] < 0:
            break
        scratch[SEEN, nearest] = 1
        row = vector[OWNER, nearest]
    vector[ROW_PRICE, start] += reached
    for v in range(n):
        if scratch[SEEN, v]:
            vector[ROW_PRICE, vector[OWNER, v]] += reached - scratch[DISTANCE, v]
            vector[COLUMN_PRICE, v] -= reached - scratch[DISTANCE, v]
    return nearest


@compiled
def choose_row(cost: Ints, inner: Ints, vector: Ints, real: int, n: int, slack: int, scratch: Ints) -> None:
    """Branch on the free row with the fewest columns of reduced cost below slack; ties go to more inner edges."""
    fewest, chosen = n + 1, 0
    for u in range(real):
        if not vector[FREE_ROW, u]:
            continue
        count = 0
        for v in range(n):
            if vector[FREE_COLUMN, v] and cost[u, v] - vector[ROW_PRICE, u] - vector[COLUMN_PRICE, v] < slack:
                count += is_first_twin(vector, v, scratch)
        if count < fewest or (count == fewest and inner[u, 0] > inner[chosen, 0]):
            fewest, chosen = count, u
    vector[STATE, ROW] = chosen


@compiled
def list_children(cost: Ints, vector: Ints, n: int, bound: int, limit: int, scratch: Ints) -> None:
    """List the columns worth trying for the chosen row, best last: the bound grows at least by the reduced cost."""
    row, count = vector[STATE, ROW], 0
    for v in range(n):
        value = bound + cost[row, v] - vector[ROW_PRICE, row] - vector[COLUMN_PRICE, v]
        if not vector[FREE_COLUMN, v] or value >= limit or not is_first_twin(vector, v, scratch):
            continue
        place = count
        while place > 0 and vector[CHILD_BOUND, place - 1] < value:
            vector[CHILD, place] = vector[CHILD, place - 1]
            vector[CHILD_BOUND, place] = vector[CHILD_BOUND, place - 1]
            place -= 1
        vector[CHILD, place] = v
        vector[CHILD_BOUND, place] = value
        count += 1
    vector[STATE, CHILDREN] = count


@compiled
def is_first_twin(vector: Ints, column: int, scratch: Ints) -> bool:
    """Whether no earlier free column is interchangeable with this one."""
    for v in range(scratch[TWIN, column], column):
        if scratch[TWIN, v] == scratch[TWIN, column] and vector[FREE_COLUMN, v]:
            return False
    return True


@compiled
def doubled_bound(cost: Ints, vector: Ints, n: int) -> int:
    """Twice the lower bound of a level."""
    value: int = vector[STATE, FIXED]
    for u in range(n):
        if vector[FREE_ROW, u]:
            value += cost[u, vector[MATCH, u]]
    return value


@compiled
def mapping_cost(a: Ints, b: Ints, n: int, mapping: Ints) -> int:
    """sum_{i<=j} [A_ij != B_p(i)p(j)]."""
    cost = 0
    for j in range(n):
        for i in range(j + 1):
            cost += a[i, j] != b[mapping[i], mapping[j]]
    return cost


@compiled
def restarted(a: Ints, b: Ints, n: int, enough: int, best: int, draws: int, scratch: Ints) -> tuple[int, int]:
    """Improve some changed copies of the best mapping; returns the least cost and the state of the draws."""
    mapping, trial = scratch[BEST], scratch[TRIAL]
    for _ in range(RESTARTS):
        if best <= enough:
            break
        trial[:n] = mapping[:n]
        for _ in range(CHANGES):
            draws = (draws * 1103515245 + 12345) & 0x7FFFFFFF  # a generator of our own: the same on all machines
            i, j = (draws >> 8) % n, (draws >> 16) % n
            trial[i], trial[j] = trial[j], trial[i]
        improve(a, b, n, trial)
        best = keep_better(a, b, n, trial, best, scratch)
    return best, draws


@compiled
def keep_better(a: Ints, b: Ints, n: int, mapping: Ints, best: int, scratch: Ints) -> int:
    """Remember a mapping that costs at most `best`; returns the least cost."""
    cost = mapping_cost(a, b, n, mapping)
    if cost <= best:
        scratch[BEST, :n] = mapping[:n]
    return min(cost, best)


@compiled
def improve(a: Ints, b: Ints, n: int, mapping: Ints) -> None:
    """Swap the images of two nodes as long as that helps."""
    improving = True
    while improving:
        improving = False
        for i in range(n):
            for j in range(i):
                if gain(a, b, n, mapping, i, j) > 0:
                    mapping[i], mapping[j] = mapping[j], mapping[i]
                    improving = True


@compiled
def gain(a: Ints, b: Ints, n: int, mapping: Ints, i: int, j: int) -> int:
    """How much cheaper a mapping becomes if the images of i and j are swapped."""
    s, t = mapping[i], mapping[j]
    value = int(a[i, i] != b[s, s]) - int(a[i, i] != b[t, t]) + int(a[j, j] != b[t, t]) - int(a[j, j] != b[s, s])
    for k in range(n):
        if k not in (i, j):
            image = mapping[k]
            value += int(a[i, k] != b[s, image]) - int(a[i, k] != b[t, image])
            value += int(a[j, k] != b[t, image]) - int(a[j, k] != b[s, image])
    return value


@compiled
def count_inner(graph: Ints, n: int, labels: int, inner: Ints, offset: int) -> None:
    """Count the edges of each node, in all and by label, into the rows of `inner` from `offset` on."""
    for u in range(n):
        for label in range(labels + 1):
            inner[offset + u, label] = 0
        for v in range(n):
            if u != v and graph[u, v]:
                inner[offset + u, 0] += 1
                inner[offset + u, graph[u, v]] += 1


@compiled
def leave_inner(graph: Ints, n: int, labels: int, fixed: int, before: Ints, after: Ints, offset: int) -> None:
    """Copy the counts `before` to `after` without the edges that lead to the node `fixed`."""
    for u in range(n):
        for label in range(labels + 1):
            after[offset + u, label] = before[offset + u, label]
        if u != fixed and graph[u, fixed]:
            after[offset + u, 0] -= 1
            after[offset + u, graph[u, fixed]] -= 1


@compiled
def inner_distance(inner: Ints, u: int, v: int, labels: int) -> int:
    """max(|X|, |Y|) - |X ∩ Y| of two multisets of edge labels."""
    distance: int = max(inner[u, 0], inner[v, 0])
    for label in range(1, labels + 1):
        distance -= min(inner[u, label], inner[v, label])
    return distance


@compiled
def find_twins(graph: Ints, n: int, scratch: Ints) -> None:
    """Find for each node the first one interchangeable with it: same label, same edges to all others."""
    for v in range(n):
        scratch[TWIN, v] = v
        for u in range(v):
            alike = graph[u, u] == graph[v, v]
            for w in range(n):
                alike = alike and (w in (u, v) or graph[u, w] == graph[v, w])
            if alike:
                scratch[TWIN, v] = u
                break


@compiled
def load(nodes: Labels, edges: Labels, edge_labels: bool, codes: Ints, labels: int, graph: Ints) -> tuple[int, int]:
    """Copy a graph without its virtual nodes, padded with zeros; edge labels are numbered 1, 2, … as they appear.

    Returns the number of its nodes and of edge labels seen so far, in this graph and before it.
    """
    graph[:] = 0
    count = 0
    for i in range(len(nodes)):
        if not nodes[i]:
            continue
        other = 0
        for j in range(i):
            if not nodes[j]:
                continue
            edge = edges[i, j]
            if edge and not codes[edge]:
                labels = labels + 1 if edge_labels else 1
                codes[edge] = labels
            graph[count, other] = codes[edge]
            graph[other, count] = codes[edge]
            other += 1
        graph[count, count] = nodes[i]
        count += 1
    return count, labels


@compiled
def most_nodes(nodes: Labels) -> int:
    """The size of the largest graph of a batch."""
    most = 0
    for graph in range(len(nodes)):
        count = 0
        for i in range(nodes.shape[1]):
            count += nodes[graph, i] != 0
        most = max(most, count)
    return most


@compiled
def highest(edges: Labels) -> int:
    """The largest edge label, or 0 if there are no edges."""
    label = 0
    for edge in edges.flat:
        label = max(label, int(edge))
    return label
