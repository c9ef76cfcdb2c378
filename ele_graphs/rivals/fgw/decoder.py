"""`fgw-barycenter`: the barycenter of a query's weighted graphs, rounded to a graph of the space."""

from __future__ import annotations

import math

import torch
from pydantic import Field
from torch import Tensor

from ele_core import ComponentConfig, Context, Decoder, Decoding, Energy, Problem
from ele_graphs.graphs.batch import Graphs
from ele_graphs.rivals.fgw.distance import SoftGraphs, harden
from ele_graphs.rivals.fgw.surrogate import FusedEnergy, barycenters, needs_fused


class BarycenterDecoder(Decoder):
    """ŷ = round(argmin over g of Σ_k w_k FGW(g, g_k)), the best of several descents by the energy after rounding.

    A descent starts at one of the graphs of the query and keeps its size; if the rounded start has less energy, it is
    the answer. Edges get the first edge label, because the distance ignores edge labels.
    """

    class Config(ComponentConfig):
        """How barycenters are computed and rounded."""

        starts: int = Field(3, ge=1)
        """Descents per query, from the graphs of greatest weight."""
        rounds: int = Field(10, ge=1)
        """The largest number of rounds of a descent; it ends earlier if no transport plan changes."""
        threshold: float = Field(0.5, gt=0, lt=1)
        """Entries of the barycenter's structure matrix above this become edges."""

    config: Config

    def accepts(self, energy: Energy) -> None:
        """Accept only the energies of `fgw`, whose queries are weighted graphs."""
        if not isinstance(energy, FusedEnergy):
            raise needs_fused("fgw-barycenter", energy)

    def decode(
        self, energy: Energy, problem: Problem, *, top_k: int = 1, trace: bool = False, context: Context
    ) -> Decoding:
        """The `top_k` distinct structures of least energy found; if there are fewer, the best repeated, energy ∞."""
        self.accepts(energy)
        assert isinstance(energy, FusedEnergy)
        if not len(energy):
            return Decoding(problem.candidates.batch[:0], torch.zeros(0, top_k))
        pool, found = self._pool(energy)
        owner = torch.arange(len(energy)).repeat_interleave(found)
        energies = energy.of(pool, owner.to(energy.device)).reshape(-1, found)
        repeated = repeats(problem.space.keys(pool).reshape(-1, found, 2))
        kept = problem.satisfied(pool, owner).view(-1, found)
        energies = energies.cpu().masked_fill(repeated | ~kept, math.inf)
        best = energies.topk(min(top_k, found), dim=1, largest=False)
        missing = top_k - best.indices.shape[1]
        values = torch.nn.functional.pad(best.values, (0, missing), value=math.inf)
        places = torch.nn.functional.pad(best.indices, (0, missing)).where(values.isfinite(), best.indices[:, :1])
        rows = torch.arange(len(energy)).unsqueeze(1) * found + places
        return Decoding(pool[rows.flatten()], values)

    def _pool(self, energy: FusedEnergy) -> tuple[Graphs, int]:
        """The possible answers, grouped by query, and their number per query."""
        surrogate = energy.surrogate
        weights, graphs = surrogate.layout.unpack(energy.queries)
        weights = weights.clamp(min=0)
        heaviest = weights.topk(min(self.config.starts, weights.shape[1]), dim=1).indices
        first = torch.arange(len(weights), device=weights.device).unsqueeze(1) * weights.shape[1]
        founds = []
        for start in (first + heaviest).T:
            begun = graphs[start]
            center = barycenters(begun, graphs, weights, surrogate, self.config.rounds)
            founds += [center, begun]
        pool = SoftGraphs.cat(founds)
        by_query = torch.arange(len(pool)).reshape(len(founds), -1).T.flatten()
        return harden(pool[by_query], self.config.threshold).to("cpu"), len(founds)


def repeats(keys: Tensor) -> Tensor:
    """(B, N) bool: whether a key of (B, N, 2) occurs earlier in its row."""
    equal = (keys.unsqueeze(1) == keys.unsqueeze(2)).all(dim=3)
    return equal.tril(-1).any(dim=2)
