"""Euclidean projections onto convex sets: pure, batched functions; each docstring begins with the argmin."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ele_core.extras import installed

_NETWORK_LIMIT = 16
"""Rows up to this size are sorted by a network of whole-column operations; `torch.sort` is slow on short rows."""

SUPPORT = 1e-9
"""Entries of a doubly stochastic matrix that are larger than this are not zero; it is the tolerance of `birkhoff`."""


def simplex(x: Tensor) -> Tensor:
    """Argmin over p ≥ 0 with Σ_k p_k = 1 of ‖p − x‖², for each row (the last dimension) of x: (…, n) → (…, n).

    The solution is p = max(x − τ, 0) with τ = max_k (S_k − 1)/k, where S_k is the sum of the k largest entries
    (Duchi et al., 2008). Entries are measured from the row's maximum, so huge rows lose no precision: the
    threshold starts at −1, and the k-th largest entry, if it is above the threshold, raises it by 1/k of the
    difference.

    Differentiable in x: on the support of p a gradient loses its mean, elsewhere it is 0.
    """
    if x.dtype in (torch.float16, torch.bfloat16):
        return simplex(x.float()).to(x.dtype)
    return _differentiable(x, _simplex, _simplex_gradient)


def _simplex(x: Tensor) -> Tensor:
    """`simplex` without a gradient."""
    if x.shape[-1] > _NETWORK_LIMIT:
        below = x - x.amax(dim=-1, keepdim=True)
        return below.sub_(_threshold(below)[..., None]).clamp_(min=0.0)
    columns = x.movedim(-1, 0)
    largest, *others = _descending(columns)
    threshold = torch.full_like(largest, -1.0)
    for k, column in enumerate(others, start=2):
        # In place, because sorting two or more columns has made new tensors.
        threshold.lerp_(torch.maximum(column.sub_(largest), threshold), 1 / k)
    return (columns - largest).sub_(threshold).clamp_(min=0.0).movedim(0, -1)


def _simplex_gradient(projected: Tensor, gradient: Tensor) -> Tensor:
    """The gradient less its mean on the support, 0 elsewhere."""
    support = projected > 0
    inside = gradient * support
    return (inside - inside.sum(dim=-1, keepdim=True) / support.sum(dim=-1, keepdim=True)) * support


def symmetric_simplex(x: Tensor) -> Tensor:
    """Argmin over p in the set of ‖p − x‖²: (…, n, n, S) → (…, n, n, S).

    The set: p_ij = p_ji on the probability simplex for i ≠ j, and p_ii the vertex 0. By symmetry this is the
    simplex projection of (x_ij + x_ji)/2, needed for i < j only.
    """
    nodes = x.shape[-2]
    upper, lower = _triangles(nodes, x.device)
    flat = x.flatten(-3, -2)
    rows = simplex((flat.index_select(-2, upper) + flat.index_select(-2, lower)) / 2)
    result = torch.zeros_like(flat, memory_format=torch.contiguous_format)
    result.index_copy_(-2, upper, rows).index_copy_(-2, lower, rows)
    result[..., :: nodes + 1, 0] = 1.0
    return result.reshape(x.shape)


def box(x: Tensor, low: float, high: float) -> Tensor:
    """Argmin over low ≤ p_k ≤ high of ‖p − x‖²: every entry clamped."""
    return x.clamp(low, high)


def birkhoff(x: Tensor, *, tolerance: float = 1e-9, iterations: int = 100) -> Tensor:
    """Argmin over doubly stochastic p (p ≥ 0, rows and columns sum to 1) of ‖p − x‖²: (…, n, n) → (…, n, n).

    The solution is p = max(c + a 1ᵀ + 1 bᵀ, 0), where c are the reduced costs of x (see `_reduced_costs`) and (a, b)
    minimise the dual ½‖max(c + a 1ᵀ + 1 bᵀ, 0)‖² − Σa − Σb. Each iteration is a damped semismooth Newton step, the
    best of a few step lengths, followed by the exact minimisation over b and then a. Computed in float64 until rows
    and columns sum to 1 within `tolerance`, or for at most `iterations`; the result is rounded to the dtype of x.

    Differentiable in x: a gradient is projected onto the matrices on the support of p whose rows and columns sum to 0.
    """
    return _differentiable(x, partial(_birkhoff, tolerance=tolerance, iterations=iterations), _birkhoff_gradient)


def _birkhoff(x: Tensor, tolerance: float, iterations: int) -> Tensor:
    """`birkhoff` without a gradient."""
    nodes = x.shape[-1]
    batch = x.double().reshape(x.shape[:-2].numel(), nodes, nodes)
    columns = assignment(batch)
    index = columns[:, None, :].expand_as(batch)
    costs = _reduced_costs(batch.gather(2, index))
    rows, cols = _alternate(costs, torch.zeros_like(costs[:, 0]))
    for _ in range(iterations):
        active = _column_error(costs, rows, cols) > tolerance
        if not active.any():
            break
        rows[active], cols[active] = _newton_step(costs[active], rows[active], cols[active])
    result = torch.empty_like(batch).scatter_(2, index, _primal(costs, rows, cols))
    return result.reshape(x.shape).to(x.dtype)


def _birkhoff_gradient(projected: Tensor, gradient: Tensor) -> Tensor:
    """The gradient less a 1ᵀ + 1 bᵀ on the support, with a and b such that rows and columns sum to 0."""
    support = (projected > SUPPORT).double()
    inside = gradient.double() * support
    rows, columns = torch.diag_embed(support.sum(dim=-1)), torch.diag_embed(support.sum(dim=-2))
    above, below = torch.cat([rows, support], dim=-1), torch.cat([support.transpose(-2, -1), columns], dim=-1)
    sums = torch.cat([inside.sum(dim=-1), inside.sum(dim=-2)], dim=-1)
    inverse = torch.linalg.pinv(torch.cat([above, below], dim=-2), hermitian=True)
    a, b = (inverse @ sums[..., None]).squeeze(-1).tensor_split(2, dim=-1)
    found: Tensor = (inside - a[..., :, None] - b[..., None, :]) * support
    return found.to(gradient.dtype)


def assignment(x: Tensor) -> Tensor:
    """Argmax over permutations σ of Σ_i x[i, σ(i)], for each matrix: (B, n, n) → (B, n) int64.

    Computed by scipy if it is installed, which is faster, else by `_assign`; both are exact.
    """
    matrices = x.detach().double().cpu().numpy()
    if installed("scipy"):
        from scipy.optimize import linear_sum_assignment  # here, because it takes long to import and few sets need it

        found = [linear_sum_assignment(matrix, maximize=True)[1] for matrix in matrices]
    else:
        found = [_assign(-matrix) for matrix in matrices]
    return torch.from_numpy(np.array(found, dtype=np.int64).reshape(x.shape[:2])).to(x.device)


def _assign(costs: NDArray[np.float64]) -> NDArray[np.int64]:
    """The column of each row in an assignment of least cost: shortest augmenting paths (Jonker and Volgenant, 1987)."""
    size = len(costs)
    row_price, column_price = np.zeros(size), np.zeros(size)
    owner, match = np.full(size, -1), np.full(size, -1)
    for start in range(size):
        distance, previous = np.full(size, np.inf), np.full(size, -1)
        seen, row, reached, path = np.zeros(size, dtype=bool), start, 0.0, []
        while row >= 0:
            through = reached + costs[row] - row_price[row] - column_price
            nearer = ~seen & (through < distance)
            distance[nearer], previous[nearer] = through[nearer], row
            column = int(np.where(seen, np.inf, distance).argmin())
            reached = distance[column]
            seen[column] = True
            path.append(column)
            row = int(owner[column])
        done = np.array(path[:-1], dtype=np.int64)
        row_price[start] += reached
        row_price[owner[done]] += reached - distance[done]
        column_price[done] -= reached - distance[done]
        while column >= 0:  # along the path back to the start
            row = int(previous[column])
            owner[column] = row
            column, match[row] = int(match[row]), column
    return match


Pull = Callable[[Tensor, Tensor], Tensor]
"""The gradient in x of a projection, from the projected point and the gradient there."""


def _differentiable(x: Tensor, project: Callable[[Tensor], Tensor], pull: Pull) -> Tensor:
    """`project(x)`; if a gradient is wanted, with that of `pull`."""
    if not (x.requires_grad and torch.is_grad_enabled()):
        return project(x)
    projected: Tensor = _Projection.apply(x, project, pull)  # type: ignore[no-untyped-call]
    return projected


class _Projection(torch.autograd.Function):
    """A projection with its derivative, because its own steps are made in place or are many."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, project: Callable[[Tensor], Tensor], pull: Pull) -> Tensor:
        projected = project(x)
        ctx.save_for_backward(projected)
        ctx.pull = pull
        return projected

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return ctx.pull(ctx.saved_tensors[0], *gradients), None, None


def _descending(columns: Tensor) -> list[Tensor]:
    """The columns (n, …), sorted in descending order along the first dimension by a network."""
    ordered = list(columns.unbind(0))
    for i, j in _network(len(columns)):
        ordered[i], ordered[j] = torch.maximum(ordered[i], ordered[j]), torch.minimum(ordered[i], ordered[j])
    return ordered


@cache
def _network(size: int) -> tuple[tuple[int, int], ...]:
    """The comparators of Batcher's odd-even merge sort for `size` wires, in order."""
    comparators: list[tuple[int, int]] = []
    block = 1
    while block < size:
        step = block
        while step >= 1:
            for start in range(step % block, size - step, 2 * step):
                pairs = ((i, i + step) for i in range(start, min(start + step, size - step)))
                comparators += [(i, j) for i, j in pairs if i // (2 * block) == j // (2 * block)]
            step //= 2
        block *= 2
    return tuple(comparators)


def _triangles(nodes: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Positions of (i, j) and of (j, i), i < j, in a flattened (nodes, nodes) matrix."""
    i, j = torch.triu_indices(nodes, nodes, offset=1, device=device)
    return i * nodes + j, j * nodes + i


def _reduced_costs(x: Tensor) -> Tensor:
    """The same projection, at a bounded scale: (B, n, n), best assignment on the diagonal → c ≤ 0 with c_ii = 0.

    Constants on rows and columns do not change the projection. Those of c are potentials u with
    u_i ≤ u_j + x_jj − x_ij, shortest paths by Bellman and Ford. Entries of c below −n are never in the support (sum
    the optimality conditions over a cycle of it), so they are clamped just below, however large x is.
    """
    nodes = x.shape[-1]
    length = x.diagonal(dim1=1, dim2=2)[:, None, :] - x
    potential = torch.zeros_like(x[:, 0])
    for _ in range(nodes - 1):
        potential = (length + potential[:, None, :]).amin(dim=2)
    return (potential[:, :, None] - potential[:, None, :] - length).clamp(min=-(nodes + 1.0), max=0.0)


def _primal(costs: Tensor, rows: Tensor, cols: Tensor) -> Tensor:
    """The primal matrices for dual variables (…, n) and (…, n): (…, n, n)."""
    return (costs + rows[..., :, None] + cols[..., None, :]).clamp_(min=0.0)


def _dual(costs: Tensor, rows: Tensor, cols: Tensor) -> Tensor:
    """The dual function, to be minimised: (…,)."""
    return _primal(costs, rows, cols).square().sum(dim=(-2, -1)) / 2 - rows.sum(dim=-1) - cols.sum(dim=-1)


def _column_error(costs: Tensor, rows: Tensor, cols: Tensor) -> Tensor:
    """How far the column sums are from 1 (the row sums are exact after `_alternate`): (B,)."""
    return (_primal(costs, rows, cols).sum(dim=1) - 1).abs().amax(dim=1)


def _alternate(costs: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The exact minimum of the dual over the column variables, then over the row variables."""
    cols = -_threshold((costs + rows[:, :, None]).transpose(1, 2))
    return -_threshold(costs + cols[:, None, :]), cols


def _threshold(x: Tensor) -> Tensor:
    """The τ for which max(x − τ, 0) sums to 1 over the last dimension."""
    ordered = x.sort(dim=-1, descending=True).values
    counts = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype, device=x.device)
    return ((ordered.cumsum(dim=-1) - 1) / counts).amax(dim=-1)


def _newton_step(costs: Tensor, rows: Tensor, cols: Tensor) -> tuple[Tensor, Tensor]:
    """One damped semismooth Newton step on the dual, then `_alternate`; the dual never rises."""
    nodes = costs.shape[-1]
    primal = _primal(costs, rows, cols)
    residual = 1 - torch.cat([primal.sum(dim=2), primal.sum(dim=1)], dim=1)
    support = (primal > 0).to(costs.dtype)
    hessian = costs.new_zeros(len(costs), 2 * nodes, 2 * nodes)
    hessian[:, :nodes, nodes:] = support
    hessian[:, nodes:, :nodes] = support.transpose(1, 2)
    # Constants can move between the two sides, so the Hessian is singular; damping that vanishes with the residual
    # keeps the fast convergence at the end.
    damping = 1e-2 * residual.norm(dim=1, keepdim=True).clamp(1e-10, 1.0)
    hessian.diagonal(dim1=1, dim2=2).copy_(torch.cat([support.sum(dim=2), support.sum(dim=1)], dim=1) + damping)
    direction = torch.linalg.solve(hessian, residual)
    lengths = torch.cat([0.5 ** torch.arange(12, dtype=costs.dtype), torch.zeros(1)]).to(costs)[:, None, None]
    tried = torch.cat([rows, cols], dim=1) + lengths * direction
    best = _dual(costs, tried[..., :nodes], tried[..., nodes:]).argmin(dim=0)
    chosen = tried[best, torch.arange(len(costs), device=costs.device)]
    return _alternate(costs, chosen[:, :nodes])
