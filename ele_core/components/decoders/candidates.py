"""The decoder that chooses the best of a finite set of candidates."""

from __future__ import annotations

from ele_core.components.decoders.nearest import nearest
from ele_core.interfaces import Decoder, Energy
from ele_core.runtime.context import Context
from ele_core.types import Decoding, Problem


class CandidatesDecoder(Decoder):
    """ŷ = argmin over the candidates of the energy. Cannot find other structures."""

    def decode(
        self, energy: Energy, problem: Problem, *, top_k: int = 1, trace: bool = False, context: Context
    ) -> Decoding:
        """The `top_k` candidates of least energy for each query."""
        energies, rows = nearest(energy, problem, top_k, context)
        least = energies[:, 0].cpu() if problem.constraints is None else None
        return Decoding(problem.candidates.batch[rows.flatten().cpu()], energies.cpu(), nearest=least)
