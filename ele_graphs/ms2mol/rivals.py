"""Rivals of `ms2mol`: library search by modified cosine, and a network from spectra to fingerprints."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Generator, Tensor
from torch.nn import functional

from ele_core import Context, Rival
from ele_core.components.training.optimise import Training, optimise
from ele_core.data.batches import ShuffledBatches
from ele_core.runtime.device import seeded
from ele_core.types import Stage
from ele_graphs.molecules.space import MoleculeSpace
from ele_graphs.ms2mol.backbone import PeaksBackbone
from ele_graphs.ms2mol.input_space import Spectra
from ele_graphs.ms2mol.retrieval import BITS, WITHIN, Candidates, measured, tanimoto

HITS, POWERS = (1, 3, 10, 30), (1.0, 4.0)
"""The numbers of library spectra and the powers of their cosines that are tried on validation spectra."""
FINGERPRINTS = Stage("fingerprints", decides="validation_error")


class Ranking(Rival):
    """A rival that scores candidates; its prediction is the best of the training molecules."""

    @abstractmethod
    def scores(self, prepared: Any, rows: Tensor, candidates: Candidates, context: Context) -> Tensor:
        """The score of each candidate for the pairs at `rows`, larger is better: (B, N)."""

    def predict(self, prepared: Any, rows: Tensor, context: Context) -> Any:
        """The training molecule of the largest score."""
        candidates = Candidates.of(prepared.data, cast(MoleculeSpace, prepared.space))
        known = torch.zeros(len(candidates.batch), dtype=torch.bool)
        known[candidates.place[prepared.data.train]] = True
        found = self.scores(prepared, rows, candidates, context).masked_fill(~known, -torch.inf)
        return candidates.batch[found.argmax(dim=1)]


@dataclass(frozen=True)
class ModifiedCosine(Ranking):
    """Analog search: candidates by their Tanimoto similarity to the molecules of the best-matching training spectra.

    A library cannot rank molecules that it does not have by spectra alone. The score of a candidate is
    Σ cosine^p · Tanimoto over the k training spectra of the largest modified cosine.
    """

    hits: int | None = None
    """k; None: the best on validation spectra."""
    power: float | None = None
    """p; None: the best on validation spectra."""

    def scores(self, prepared: Any, rows: Tensor, candidates: Candidates, context: Context) -> Tensor:
        """Σ cosine^p · Tanimoto: (B, N)."""
        hits, power = self._chosen(prepared, candidates, context)
        return self._scored(self._cosines(prepared, rows), prepared, candidates, hits, power)

    def _chosen(self, prepared: Any, candidates: Candidates, context: Context) -> tuple[int, float]:
        """The number of hits and the power with most truths first among the candidates within 10 ppm."""
        if self.hits is not None and self.power is not None:
            return self.hits, self.power
        rows = prepared.data.validation
        cosines = self._cosines(prepared, rows)
        allowed = candidates.sets(prepared.data, rows, cast(MoleculeSpace, prepared.space))
        truth, found = candidates.place[rows], {}
        for hits in HITS:
            for power in POWERS:
                scores = self._scored(cosines, prepared, candidates, hits, power)
                own = measured(scores, truth, allowed)
                found[hits, power] = own[WITHIN]["top_1"] + own["all"]["top_1"]
        best = max(found, key=lambda key: found[key])
        context.monitor.message(f"modified cosine: {best[0]} hits, power {best[1]:g}, chosen on validation")
        return best

    def _cosines(self, prepared: Any, rows: Tensor) -> Tensor:
        from ele_graphs.ms2mol.cosine import modified_cosines  # imports numba, which takes a while

        packed = cast(Spectra, prepared.packed)
        return torch.from_numpy(modified_cosines(packed[rows], packed[prepared.data.train]))

    def _scored(self, cosines: Tensor, prepared: Any, candidates: Candidates, hits: int, power: float) -> Tensor:
        best = cosines.topk(min(hits, cosines.shape[1]), dim=1)
        molecule = candidates.place[prepared.data.train][best.indices]
        weights = torch.zeros(len(cosines), len(candidates.batch)).scatter_reduce_(
            1, molecule, best.values.pow(power), "amax"
        )
        used = weights.any(dim=0).nonzero().flatten()
        return weights[:, used] @ tanimoto(candidates.fingerprints[used], candidates.fingerprints)


@dataclass(frozen=True)
class FingerprintNetwork(Ranking):
    """The network `peaks` from spectra to Morgan fingerprints; candidates by the cosine with the predicted bits."""

    epochs: float = 40.0
    """Passes over the training spectra."""
    dropout: float = 0.3
    learning_rate: float = 2e-3

    def scores(self, prepared: Any, rows: Tensor, candidates: Candidates, context: Context) -> Tensor:
        """The cosine of the predicted probabilities of bits and the fingerprint of each candidate: (B, N)."""
        network = self._trained(prepared, candidates, context)
        with torch.no_grad():
            predicted = torch.cat(
                [network(part).sigmoid() for part in cast(Spectra, prepared.packed)[rows].chunks(512)]
            )
        return functional.normalize(predicted, dim=1) @ functional.normalize(candidates.fingerprints, dim=1).T

    def _trained(self, prepared: Any, candidates: Candidates, context: Context) -> PeaksBackbone:
        data, packed, inputs = prepared.data, cast(Spectra, prepared.packed), prepared.inputs
        bits = candidates.fingerprints[candidates.place]
        train, held_out = packed[data.train], packed[data.validation]
        with seeded(context.derived_seed("fingerprints")):
            network = PeaksBackbone(PeaksBackbone.Config(dropout=self.dropout), inputs, BITS)
        last = cast(torch.nn.Linear, network.head[-1])
        last.bias.data = torch.logit(bits[data.train].mean(dim=0).clamp(1e-4, 1 - 1e-4))
        options = Training(
            epochs=self.epochs, batch_size=256, learning_rate=self.learning_rate, weight_decay=0.01, evaluations=20
        )

        def error(batch: Spectra, wanted: Tensor) -> Tensor:
            return functional.binary_cross_entropy_with_logits(network(batch), wanted, reduction="none").sum(dim=1)

        def loss(rows: Tensor, generator: Generator) -> Tensor:
            views = cast(Spectra, inputs.augment(train[rows], generator))
            return error(views, bits[data.train[rows]])

        def evaluate() -> dict[str, float]:
            with torch.no_grad():
                return {FINGERPRINTS.decides: error(held_out, bits[data.validation]).mean().item()}

        source = ShuffledBatches(len(train), options.batch_size, context, FINGERPRINTS.name, inputs.sizes(train))
        optimise(
            network,
            options,
            count=len(train),
            source=source,
            loss=loss,
            evaluate=evaluate,
            context=context,
            stage=FINGERPRINTS,
        )
        return network
