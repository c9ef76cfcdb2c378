"""The same distances by the library POT, pair by pair in Python: slower, to check the compiled solver."""

from __future__ import annotations

from types import ModuleType

import torch
from torch import Tensor

from ele_core import ConfigError
from ele_graphs.rivals.fgw.distance import Pairs, Transport
from ele_graphs.rivals.fgw.soft_graphs import SoftGraphs


def pot() -> ModuleType:
    """Import POT. Raises `ConfigError` if it is not installed."""
    try:
        import ot  # type: ignore[import-untyped]  # POT has no types
    except ImportError as missing:
        what = "solver 'pot' needs POT, which is not installed."
        fix = "Install it with: pip install 'explicit-loss-embedding[baselines]', or use the solver 'compiled'."
        raise ConfigError(what, where="surrogate.solver", fix=fix) from missing
    return ot  # type: ignore[no-any-return]


def solve_with_pot(
    first: SoftGraphs, second: SoftGraphs, pairs: Pairs, tradeoff: float, start: Tensor | None
) -> Transport:
    """As `fused_distances`; without `start`, POT begins with the product of the marginals."""
    solve = pot().gromov.fused_gromov_wasserstein
    nodes = max(first.features.shape[1], second.features.shape[1])
    plans = torch.zeros(len(pairs), nodes, nodes, dtype=torch.float64)
    values = torch.zeros(len(pairs), dtype=torch.float64)
    for row, (a, b) in enumerate(pairs.tolist()):
        n, m = int(first.sizes[a]), int(second.sizes[b])
        if n == 0 or m == 0:
            values[row] = 0.0 if n == m else 2 - tradeoff
            continue
        features_a, features_b = first.features[a, :n].double(), second.features[b, :m].double()
        plan, log = solve(
            torch.cdist(features_a, features_b).square().detach().numpy(),
            first.structure[a, :n, :n].detach().double().numpy(),
            second.structure[b, :m, :m].detach().double().numpy(),
            alpha=tradeoff,
            G0=None if start is None else start[row, :n, :m].double().numpy(),
            log=True,
        )
        plans[row, :n, :m] = torch.from_numpy(plan)
        values[row] = float(log["fgw_dist"])
    return Transport(values, plans)
