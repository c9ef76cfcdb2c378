"""The compiled solver behind `ele_graphs.rivals.fgw`: conditional gradient over transport plans, exact in every step.

For graphs with node features F, G, structures A, B (symmetric) and n and m nodes of equal mass,

    f(T) = (1 − α) Σ_ij ‖F_i − G_j‖² T_ij + α Σ_ijkl (A_ik − B_jl)² T_ij T_kl

over the plans T ≥ 0 whose rows sum to 1/n and columns to 1/m. A plan moves towards the vertex V that is least along the
gradient, found by successive shortest paths, and as far as is best: f is quadratic on the segment. As the marginals are
fixed, only (1 − α) M − 4α A T B of the gradient matters, M being the matrix of squared feature distances. f is not
convex: the end depends on the start. (Vayer et al. 2019, "Optimal transport for structured data".)

All functions are in one file because numba's cache only watches the file of the function called.
"""

import numpy as np
from numpy.typing import NDArray

from ele_graphs.ged.kernels import compiled

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flag = NDArray[np.int8]

NEAR = 1e-12  # differences below this do not count
STEPS = 100  # the largest number of steps of one descent; a few are usual
FLAT = 1e-9  # a descent ends if a step gains no more than this
ROUNDS = 3  # the radius of the neighbourhoods that a start compares


@compiled
def solve_pairs(
    features_a: Floats,
    structures_a: Floats,
    sizes_a: Ints,
    features_b: Floats,
    structures_b: Floats,
    sizes_b: Ints,
    rows: Ints,
    tradeoff: float,
    starts: int,
    stop: Flag,
    plans: Floats,
    values: Floats,
) -> None:
    """Fill plans (P, m, m) and values (P,) for the pairs of graphs `rows` (P, 2), the first of a, the second of b.

    features (N, m, T), structures (N, m, m), sizes (N,): the nodes of a graph come first. starts: how many descents, of
    which the best counts; 0: one, from the given plans. stop: (1,), set to 1 to return early.
    """
    labels = features_a.shape[2]
    for pair in range(len(rows)):
        if stop[0]:
            return
        a, b = rows[pair, 0], rows[pair, 1]
        n, m = sizes_a[a], sizes_b[b]
        if n == 0 or m == 0:
            values[pair] = 0.0 if n == m else 2 - tradeoff
            fill(plans, pair, np.zeros((0, 0)))
            continue
        nodes_a, nodes_b = corner(features_a, a, n, labels), corner(features_b, b, m, labels)
        first, second = corner(structures_a, a, n, n), corner(structures_b, b, m, m)
        cost, plan = np.empty((n, m)), corner(plans, pair, n, m)
        squared_distances(nodes_a, nodes_b, cost)
        values[pair] = np.inf
        for start in range(max(starts, 1)):
            if starts > 0:
                plan = begin(start, nodes_a, first, nodes_b, second)
            value = descend(cost, first, second, tradeoff, plan)
            if value < values[pair] - NEAR:
                values[pair] = value
                fill(plans, pair, plan)
            if values[pair] <= NEAR:
                break


@compiled
def corner(source: Floats, index: int, n: int, m: int) -> Floats:
    """A copy of source[index, :n, :m], in the one layout that all functions are compiled for."""
    copy = np.empty((n, m))
    for i in range(n):
        for j in range(m):
            copy[i, j] = source[index, i, j]
    return copy


@compiled
def fill(target: Floats, index: int, values: Floats) -> None:
    """Write `values` into the corner of target[index], and zeros elsewhere."""
    n, m = values.shape
    for i in range(target.shape[1]):
        for j in range(target.shape[2]):
            target[index, i, j] = values[i, j] if i < n and j < m else 0.0


@compiled
def begin(start: int, features_a: Floats, first: Floats, features_b: Floats, second: Floats) -> Floats:
    """A plan (n, m) to start at: 0 matches similar neighbourhoods, 1 is uniform, others are as 0 with a marked node.

    A mark on the first node of a, and on each node of b in turn, distinguishes nodes that look the same, as in a ring.
    """
    n, m, labels = len(features_a), len(features_b), features_a.shape[1]
    plan, unlike = np.full((n, m), 1.0 / (n * m)), np.zeros((n, m))
    if start == 1:
        return plan
    around_a, around_b = np.zeros((n, labels + 1)), np.zeros((m, labels + 1))
    around_a[:, :labels], around_b[:, :labels] = features_a, features_b
    if start > 1:
        around_a[0, labels] = around_b[(start - 2) % m, labels] = 1
    for _ in range(ROUNDS + 1):
        squared_distances(around_a, around_b, plan)
        for i in range(n):
            for j in range(m):
                unlike[i, j] += plan[i, j]
        around_a, around_b = gathered(first, around_a), gathered(second, around_b)
    transport(unlike, plan)
    return plan


@compiled
def descend(cost: Floats, first: Floats, second: Floats, tradeoff: float, plan: Floats) -> float:
    """Move `plan` (n, m) down to a stationary point and return the objective there."""
    n, m = cost.shape
    here, there, linear, vertex = np.empty((n, m)), np.empty((n, m)), np.empty((n, m)), np.empty((n, m))
    product(first, plan, second, here)
    for _ in range(STEPS):
        for i in range(n):
            for j in range(m):
                linear[i, j] = (1 - tradeoff) * cost[i, j] - 4 * tradeoff * here[i, j]
        transport(linear, vertex)
        product(first, vertex, second, there)
        slope, curvature = 0.0, 0.0
        for i in range(n):
            for j in range(m):
                direction = vertex[i, j] - plan[i, j]
                slope += linear[i, j] * direction
                curvature -= 2 * tradeoff * (there[i, j] - here[i, j]) * direction
        step = 1.0 if curvature <= 0 else min(1.0, max(0.0, -slope) / (2 * curvature))
        if step * (slope + step * curvature) > -FLAT:
            break
        for i in range(n):
            for j in range(m):
                plan[i, j] += step * (vertex[i, j] - plan[i, j])
                here[i, j] += step * (there[i, j] - here[i, j])
    return objective(cost, first, second, tradeoff, plan, here)


@compiled
def objective(cost: Floats, first: Floats, second: Floats, tradeoff: float, plan: Floats, moved: Floats) -> float:
    """The value f(plan), where `moved` is A · plan · B."""
    (n, m), linear, structure = cost.shape, 0.0, 0.0
    for i in range(n):
        for j in range(m):
            linear += cost[i, j] * plan[i, j]
            structure -= 2 * moved[i, j] * plan[i, j]
    for i in range(n):
        for k in range(n):
            structure += (first[i, k] / n) ** 2
    for j in range(m):
        for k in range(m):
            structure += (second[j, k] / m) ** 2
    return max(0.0, (1 - tradeoff) * linear + tradeoff * structure)


@compiled
def product(first: Floats, plan: Floats, second: Floats, out: Floats) -> None:
    """Set out (n, m) to A · plan · B; rows of A and entries of a vertex are mostly zero, and skipped."""
    half = gathered(first, plan)
    n, m = half.shape
    for i in range(n):
        for j in range(m):
            out[i, j] = 0
        for k in range(m):
            if half[i, k] != 0:
                for j in range(m):
                    out[i, j] += half[i, k] * second[k, j]


@compiled
def squared_distances(first: Floats, second: Floats, out: Floats) -> None:
    """Set out (n, m) to ‖F_i − G_j‖²."""
    for i in range(len(first)):
        for j in range(len(second)):
            total = 0.0
            for k in range(first.shape[1]):
                total += (first[i, k] - second[j, k]) ** 2
            out[i, j] = total


@compiled
def gathered(structure: Floats, features: Floats) -> Floats:
    """The product: structure · features."""
    result = np.zeros(features.shape)
    for i in range(len(structure)):
        for k in range(len(structure)):
            if structure[i, k] != 0:
                for c in range(features.shape[1]):
                    result[i, c] += structure[i, k] * features[k, c]
    return result


@compiled
def transport(cost: Floats, plan: Floats) -> None:
    """Fill `plan` (n, m) with a vertex of least Σ cost · plan among those of marginals 1/n and 1/m.

    Masses are counted in whole units, m per row and n per column, over their greatest common divisor. One row after the
    other sends its units along shortest paths of reduced cost; with n = m this is the assignment problem.
    """
    n, m = cost.shape
    divisor, rest = n, m
    while rest:
        divisor, rest = rest, divisor % rest
    supply, room = m // divisor, np.full(m, n // divisor, np.int64)
    flow = np.zeros((n, m), np.int64)
    prices = np.zeros((2, max(n, m)))
    previous, through = np.empty(m, np.int64), np.empty(n, np.int64)
    distance, reached = np.empty(m), np.empty(n)
    for row in range(n):
        left = supply
        while left:
            end = shortest(cost, row, flow, room, prices, distance, previous, reached, through)
            amount = send(row, end, min(left, room[end]), flow, previous, through)
            room[end] -= amount
            left -= amount
    for i in range(n):
        for j in range(m):
            plan[i, j] = flow[i, j] / (n * supply)


@compiled
def send(row: int, end: int, most: int, flow: Ints, previous: Ints, through: Ints) -> int:
    """Send as much as the path from `row` to column `end` can carry, at most `most`, and return the amount."""
    amount, column = most, end
    while previous[column] != row:
        owner = previous[column]
        column = through[owner]
        amount = min(amount, flow[owner, column])
    column = end
    while True:
        owner = previous[column]
        flow[owner, column] += amount
        if owner == row:
            return amount
        column = through[owner]
        flow[owner, column] -= amount


@compiled
def shortest(
    cost: Floats,
    start: int,
    flow: Ints,
    room: Ints,
    prices: Floats,
    distance: Floats,
    previous: Ints,
    reached: Floats,
    through: Ints,
) -> int:
    """The nearest column to row `start` with room; `previous` and `through` give the path, prices stay feasible."""
    n, m = cost.shape
    seen = np.zeros(m, np.bool_)
    distance[:] = reached[:] = np.inf
    reached[start] = 0.0
    end, base = -1, 0.0
    relax(cost, start, base, prices, seen, distance, previous)
    while end < 0 or room[end] == 0:
        end = nearest(distance, seen)
        seen[end], base = True, distance[end]
        for i in range(n):  # rows that send to this column can be rerouted at no cost
            if flow[i, end] > 0 and reached[i] == np.inf:
                reached[i], through[i] = base, end
                relax(cost, i, base, prices, seen, distance, previous)
    for i in range(n):
        if reached[i] < np.inf:
            prices[0, i] += base - reached[i]
    for j in range(m):
        if seen[j]:
            prices[1, j] -= base - distance[j]
    return end


@compiled
def nearest(distance: Floats, seen: NDArray[np.bool_]) -> int:
    """The unseen column of least distance."""
    end = -1
    for j in range(len(distance)):
        if not seen[j] and (end < 0 or distance[j] < distance[end]):
            end = j
    return end


@compiled
def relax(
    cost: Floats, row: int, base: float, prices: Floats, seen: NDArray[np.bool_], distance: Floats, previous: Ints
) -> None:
    """Update the distances of columns that are nearer through `row`, which is at distance `base`."""
    for j in range(len(distance)):
        length = base + cost[row, j] - prices[0, row] - prices[1, j]
        if not seen[j] and length < distance[j]:
            distance[j], previous[j] = length, row
