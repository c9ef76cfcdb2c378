"""Training with the pairs: an embedding under which truths win against the structures that are taken for them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch
from pydantic import Field
from torch import Generator, Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from ele_core.components.sketching import CHUNK, KernelOptions, Sketch, SketchedKernel
from ele_core.components.training.optimise import Training, optimise
from ele_core.data.batches import ShuffledBatches
from ele_core.energies import WeightedDistance, all_distances, likely_moves
from ele_core.interfaces import Encoder
from ele_core.numerics.error_model import ErrorModel
from ele_core.numerics.keys import ranks
from ele_core.runtime.context import Context
from ele_core.types import Stage, TrainingData

if TYPE_CHECKING:
    from ele_core.components.surrogates.contrastive import ContrastiveSurrogate

DECISIONS = Stage("decisions", decides="validation_loss")
LEAST_PAIRS = 200
"""Training pairs from which on it is worth it: an error model needs as many."""
RIVALS = 10
"""Moves that each truth is compared with: those of least energy."""
AT_ONCE = 256
"""Structures whose moves are listed at once: bounds the memory."""
HELD_OUT = 1000
"""Maximum number of validation pairs to use: enough to tell which weights are best."""
CHUNK_WITH_GRADIENT = 256
"""Structures encoded at once by an encoder that does not share the work between them."""
PENALTIES = tuple(10.0**-power for power in range(2, 10))
SHARPNESS = 20.0
"""The factor of energies whose differences are log-odds; energies of truths have a mean of about 1."""


class DecisionTraining(Training):
    """How an encoder is trained with pairs."""

    pairs: int = Field(3000, ge=LEAST_PAIRS)
    """Maximum number of training pairs to use: the regression is solved for all of them at once."""


def train_on_decisions(
    surrogate: ContrastiveSurrogate, training: DecisionTraining, data: TrainingData, context: Context
) -> None:
    """Minimise −log softmax(−β E)[truth] among the truth, its likeliest moves and the other truths of a batch.

    E is the energy of the structure for the query of a kernel ridge regression that was fitted without the pair. The
    queries are linear in the embeddings of all training outputs, q = L ψ(Y), with a fixed matrix L, so the regression
    is solved inside the loss. The weights of errors are those of the embedding that training begins with.
    """
    problem = Decisions(surrogate, data, training.pairs, context)

    def loss(rows: Tensor, _: Generator) -> Tensor:
        return problem.loss(rows.to(context.device))

    def evaluate() -> dict[str, float]:
        with torch.no_grad():
            return {DECISIONS.decides: problem.validation_loss()}

    optimise(
        surrogate.encoder,
        training,
        count=len(problem.truths),
        source=ShuffledBatches(len(problem.truths), training.batch_size, context, DECISIONS.name),
        loss=loss,
        evaluate=evaluate,
        context=context,
        stage=DECISIONS,
    )


class Decisions:
    """The pairs, the rivals of their truths, and the regression as a linear map."""

    def __init__(self, surrogate: ContrastiveSurrogate, data: TrainingData, count: int, context: Context) -> None:
        order = torch.randperm(len(data.in_memory), generator=context.generator(DECISIONS.name, "pairs"))
        pairs = data.in_memory[order[:count].sort().values]
        self.surrogate = surrogate
        data = dataclasses.replace(data, validation=data.validation[torch.arange(min(len(data.validation), HELD_OUT))])
        self.truths, self.held_out = (each.outputs[:].to(context.device) for each in (pairs, data.validation))
        embeddings = surrogate.embed(self.truths)
        self.left_out, self.predicting = linear_maps(pairs.inputs, data, embeddings, context)
        queries = self.left_out @ embeddings
        self.errors = ErrorModel(surrogate.dim).to(context.device).fit(queries, embeddings)
        keys = surrogate.space.keys
        self.keys, self.held_out_keys = keys(self.truths), keys(self.held_out)
        self.rivals, self.places = self._rivals(queries, self.truths, context)
        self.held_out_rivals, self.held_out_places = self._rivals(self.predicting @ embeddings, self.held_out, context)

    def _rivals(self, queries: Tensor, truths: Any, context: Context) -> tuple[Any, Tensor]:
        """The likeliest moves of each truth, and where they are (B, `RIVALS`), −1 for missing ones."""
        energy, found = WeightedDistance(self.surrogate, queries, self.errors), []
        parts = torch.arange(len(truths), device=queries.device).split(AT_ONCE)
        for rows in context.monitor.progress(parts, description="looking for likely mistakes"):
            moved, row = likely_moves(energy[rows], truths[rows], self.surrogate.space, RIVALS)
            found.append((moved, rows[row]))
        row = torch.cat([own for _, own in found])
        places = torch.full((len(truths), RIVALS), -1, device=row.device)
        places[row, ranks(row)] = torch.arange(len(row), device=row.device)
        return type(truths).cat([moved for moved, _ in found]), places

    def loss(self, rows: Tensor) -> Tensor:
        """The cross-entropy of the truths at `rows` (B,), with a gradient."""
        embeddings = self._embedded(self.truths)
        own = self.errors.weighted(self.left_out[rows] @ embeddings)
        truths = self.errors.placed(embeddings[rows])
        return self._cross_entropy(own, truths, self.keys[rows], self.rivals, self.places[rows])

    def validation_loss(self) -> float:
        """The mean cross-entropy of the truths of validation pairs."""
        own = self.errors.weighted(self.predicting @ self._embedded(self.truths))
        truths = self.errors.placed(self._embedded(self.held_out))
        found = self._cross_entropy(own, truths, self.held_out_keys, self.held_out_rivals, self.held_out_places)
        return float(found.mean())

    def _embedded(self, batch: Any) -> Tensor:
        """The embeddings of structures, with a gradient: (B, dim).

        An encoder that computes every part once gets all at once. Others get a few at a time, and compute them again
        for the gradient: memory would not hold them.
        """
        encoder = self.surrogate.encoder
        if type(encoder).encode is not Encoder.encode or len(batch) <= CHUNK_WITH_GRADIENT:
            return encoder.encode(batch) * self.surrogate.scale
        chunks = batch.chunks(CHUNK_WITH_GRADIENT)
        parts = [checkpoint(encoder.encode, part, use_reentrant=False) for part in chunks]
        return torch.cat(parts) * self.surrogate.scale

    def _cross_entropy(self, queries: Tensor, truths: Tensor, keys: Tensor, rivals: Any, places: Tensor) -> Tensor:
        present = places >= 0
        moved = self.errors.placed(self._embedded(rivals[places[present]]))
        own = (queries - truths).square().sum(dim=1, keepdim=True)
        energies = torch.full(places.shape, torch.inf, device=queries.device)
        owner = present.nonzero()[:, 0]
        energies[present] = (queries[owner] - moved).square().sum(dim=1)
        same = (keys[:, None] == keys).all(dim=2)
        others = all_distances(queries, truths).masked_fill(same, torch.inf)
        scores = -SHARPNESS * torch.cat([own, energies, others], dim=1)
        first = torch.zeros(len(own), dtype=torch.long, device=own.device)
        found: Tensor = functional.cross_entropy(scores, first, reduction="none")
        return found


def linear_maps(inputs: Any, data: TrainingData, embeddings: Tensor, context: Context) -> tuple[Tensor, Tensor]:
    """L (n, n), which maps embeddings to the predictions for pairs left out, and that for validation inputs (v, n).

    The kernel is the one that suits the inputs, and the penalty the one of least error for pairs left out.
    """
    options = dict(data.inputs.defaults(len(inputs)).get("kernel", {}))
    grams = {"grams": options.pop("grams")} if "grams" in options else {}
    kernel = SketchedKernel(KernelOptions(**{"kernel": "gaussian", **options, "sketch": Sketch(size=len(inputs))}))

    def features(batch: Any) -> Any:
        return data.inputs.features(batch, **grams)

    kernel.fit(features, inputs, context, DECISIONS.name)
    mapped, held_out = (
        torch.cat([kernel(features(part)) for part in batch.chunks(CHUNK)]).double()
        for batch in (inputs, data.validation.inputs[:])
    )
    values, vectors = torch.linalg.eigh(mapped @ mapped.T)
    rotated = vectors.T @ embeddings.double()

    def inverse(penalty: float) -> Tensor:
        own: Tensor = 1 / (values.clamp(min=0) + len(inputs) * penalty)
        return own

    def missed(penalty: float) -> float:
        own = inverse(penalty)
        diagonal = (vectors.square() * own).sum(dim=1, keepdim=True)
        return float(((vectors @ (own[:, None] * rotated)) / diagonal).square().mean())

    own = inverse(min(PENALTIES, key=missed))
    solved = (vectors * own) @ vectors.T
    left_out = torch.eye(len(inputs), dtype=solved.dtype, device=solved.device) - solved / solved.diagonal()[:, None]
    return left_out.float(), (held_out @ mapped.T @ solved).float()
