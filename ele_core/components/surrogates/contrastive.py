"""The paper's surrogate: an encoder from relaxed structures to the sphere, trained with a contrastive loss."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Generator, Tensor
from torch.nn import functional

from ele_core.component import ComponentConfig
from ele_core.components.surrogates.losses import ContrastiveLoss
from ele_core.components.surrogates.mining import MinedBatches
from ele_core.components.training.optimise import Training, optimise
from ele_core.data.batches import Batches, ShuffledBatches
from ele_core.energies import SquaredDistance
from ele_core.errors import ModelError
from ele_core.interfaces import Encoder, Energy, OutputSpace, Surrogate
from ele_core.networks import NetworkLearner
from ele_core.numerics.sparse import PartEnergies, signs
from ele_core.optional import PartMoves
from ele_core.plugins import create_part
from ele_core.runtime.context import Context
from ele_core.runtime.progress import PlannedStage
from ele_core.types import Choice, Stage, Takes, TrainingData

OUTLINE = "outline"
"""The name of the linear model of the embedding in `state`."""
PRETRAINING = Stage("pretraining", decides="validation_loss")
EMBEDDING = Stage("embedding", decides="validation_loss")
CHUNK = 2048
"""Structures encoded at once outside training."""


class Mining(ComponentConfig):
    """How batches of structures with similar embeddings are made."""

    group: int = Field(32, ge=2)
    """The number of structures in a group with similar embeddings; a batch is made of such groups."""
    refresh: int = Field(64, ge=1)
    """The number of batches that are made at once, with the embedding learned so far."""


class ContrastiveSurrogate(NetworkLearner, Surrogate):
    """ψ(y) = encoder(relax(y)) / ‖·‖: a structure and its views are moved together, different structures apart."""

    stages = (PRETRAINING, EMBEDDING)

    class Config(ComponentConfig):
        """Options of the contrastive stage."""

        dim: int = Field(128, ge=2)
        """Dimension of the embedding."""
        encoder: Annotated[Choice, Takes("encoder")] = Choice(name="flat")
        """The network on relaxed structures."""
        loss: ContrastiveLoss = ContrastiveLoss()
        """The member of the contrastive family."""
        soft_points: float = Field(0.0, ge=0, le=1)
        """How far each block of a structure is moved towards another vertex at most, to train on soft points too."""
        mining: Mining | None = None
        """Make batches of structures with similar embeddings, so that negatives are hard; None: random batches."""
        pretraining_steps: int = Field(0, ge=0)
        """Steps on the extra outputs before the training outputs (the paper's T₁)."""
        training: Training = Training(batch_size=512, epochs=10)
        """How the encoder is trained."""

    config: Config

    def __init__(self, config: ComponentConfig | None, space: OutputSpace[Any, Any]) -> None:
        super().__init__(config, space)
        choice = self.config.encoder
        self.encoder: Encoder = create_part(self, "encoder", choice, space, self.dim, path="surrogate.encoder")
        self.network = self.encoder.eval()
        self.outline = Outline.empty(self.dim) if isinstance(space.moves, PartMoves) else None

    @property
    def dim(self) -> int:
        """The dimension of the embedding."""
        return self.config.dim

    def planned(self, examples: int, extra: int) -> list[PlannedStage]:
        """Pre-training if configured, then the training on the outputs."""
        training, first = self.config.training, self.config.pretraining_steps if extra else 0
        before = [PlannedStage(PRETRAINING.name, first, training.batch_size)] if first else []
        return [*before, training.planned(EMBEDDING, examples)]

    def fit(self, data: TrainingData, context: Context) -> None:
        """Pre-train on the extra outputs if configured, then train; keep the weights of the best validation loss."""
        outputs = data.train.outputs
        evaluate = Views(self, data.validation.outputs[:], context).evaluate
        if data.extra is not None and self.config.pretraining_steps:
            self._train(data.extra, evaluate, context, PRETRAINING, self.config.pretraining_steps)
        self._train(outputs, evaluate, context, EMBEDDING, None)
        if self.outline is not None:
            order = torch.randperm(len(outputs), generator=context.generator("embedding", "outline"))
            self.outline_on(outputs[order[:STRUCTURES].sort().values])

    def outline_on(self, outputs: Any) -> None:
        """Fit the estimate of energies from parts, which lets `search` score fewer structures."""
        self.outline = Outline.fitted(self.space, outputs, self.embed(outputs))

    def _train(self, outputs: Any, evaluate: Any, context: Context, stage: Stage, steps: int | None) -> None:
        def loss(rows: Tensor, generator: Generator) -> Tensor:
            batch = outputs[rows]
            points = self.space.relax(batch), self.space.relax(self.space.augment(batch, generator))
            anchors, views = (self.embed_at(self._soften(point, generator).to(context.device)) for point in points)
            keys = self.space.keys(batch)
            all_keys = context.processes.gather(keys)
            first = context.processes.first(len(batch))
            negative = different(keys, all_keys).to(context.device)
            return self.config.loss(anchors, context.processes.gather_with_gradient(views), negative, first)

        optimise(
            self.encoder,
            self.config.training,
            count=len(outputs),
            source=self._batches(outputs, context, stage.name),
            loss=loss,
            evaluate=evaluate,
            context=context,
            stage=stage,
            steps=steps,
        )

    def _batches(self, outputs: Any, context: Context, stage: str) -> Batches:
        size, mining = self.config.training.batch_size, self.config.mining
        if mining is None:
            return ShuffledBatches(len(outputs), size, context, stage, blocks=outputs.blocks)

        def embed(rows: Tensor) -> Tensor:
            self.encoder.eval()
            embeddings = context.processes.spread(lambda own: self.embed(outputs[own]).cpu(), rows)
            self.encoder.train()
            return embeddings

        return MinedBatches(outputs.blocks, size, mining.group, mining.refresh, embed, context, stage)

    def embed(self, batch: Any) -> Tensor:
        """Packed structures → (B, dim) on the unit sphere."""
        device = next(self.encoder.parameters()).device
        parts = [batch.to(device)] if len(batch) == 0 else (chunk.to(device) for chunk in batch.chunks(CHUNK))
        with torch.no_grad():
            return torch.cat([functional.normalize(self.encoder.encode(part), dim=1) for part in parts])

    def energy(self, queries: Tensor) -> Energy:
        """The squared distance; a linear model of the embedding on parts estimates it if the space can rank by it."""
        return SquaredDistance(self, queries, None if self.outline is None else self.outline.energies)

    def state(self) -> dict[str, Tensor]:
        """The weights of the encoder, and the linear model of the embedding if there is one."""
        known = {} if self.outline is None else {OUTLINE: self.outline.weight}
        return {**super().state(), **known}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Load what `state` returned."""
        weights = dict(state)
        outline = weights.pop(OUTLINE, None)
        super().restore(weights)
        if self.outline is not None:
            self.outline = Outline.empty(self.dim) if outline is None else Outline.restored(outline, self.dim)

    def embed_at(self, point: Any) -> Tensor:
        """Points → (B, dim) on the unit sphere, differentiable in the point."""
        return functional.normalize(self.encoder(point), dim=1)

    def _soften(self, point: Any, generator: Generator) -> Any:
        """Move blocks part of the way to other vertices if `soft_points` is not 0."""
        if not self.config.soft_points:
            return point
        fields = self.space.geometry.items()
        return point.replace(
            **{name: convex.soften(getattr(point, name), self.config.soft_points, generator) for name, convex in fields}
        )


class Views:
    """The validation structures with views drawn once, so that evaluations are comparable."""

    def __init__(self, surrogate: ContrastiveSurrogate, outputs: Any, context: Context) -> None:
        self.surrogate = surrogate
        self.outputs = outputs
        self.processes = context.processes
        self.views = surrogate.space.augment(outputs, context.generator("embedding", "validation"))
        self.keys = surrogate.space.keys(outputs).to(context.device)

    def evaluate(self) -> dict[str, float]:
        """The validation loss, and how often a structure's own view is the nearest of all views."""
        anchors, views = (self.processes.spread(self.surrogate.embed, part) for part in (self.outputs, self.views))
        losses, nearest = [], []
        for first in range(0, len(anchors), CHUNK):
            some = slice(first, first + CHUNK)
            negative = different(self.keys[some], self.keys)
            losses.append(self.surrogate.config.loss(anchors[some], views, negative, first))
            others = (anchors[some] @ views.T).masked_fill(~negative, -1)
            nearest.append((anchors[some] * views[some]).sum(dim=1) > others.amax(dim=1))
        own_nearest = torch.cat(nearest).float().mean().item()
        return {"validation_loss": torch.cat(losses).mean().item(), "own_view_nearest": own_nearest}


def different(keys: Tensor, others: Tensor) -> Tensor:
    """(B, N) true if keys (B, 2) and (N, 2) differ: equal structures are not negatives of each other."""
    return (keys.unsqueeze(1) != others.unsqueeze(0)).any(dim=2)


STRUCTURES = 20_000
"""The most structures that the model is fitted to."""
WIDTH = 1024
"""The dimension of the random projection of the parts."""
RIDGE = 0.01
"""The regularisation, relative to the mean square of the projected parts."""


class Outline:
    """ψ(y) ≈ W φ(y) + b, where φ are the parts of y (`OutputSpace.features`), randomly projected.

    On a sphere the energy is 2 − 2⟨q, ψ(y)⟩, so that W alone ranks structures for a query.
    """

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight
        """W (WIDTH, dim)."""

    @classmethod
    def empty(cls, dim: int) -> Outline:
        """Before it is fitted."""
        return cls(torch.zeros(0, dim))

    @classmethod
    def fitted(cls, space: OutputSpace[Any, Any], outputs: Any, embeddings: Tensor) -> Outline:
        """Fit W to structures and their embeddings (N, dim) by ridge regression."""
        parts = torch.cat([_projected(space, chunk) for chunk in outputs.chunks(CHUNK)]).double()
        parts, targets = parts - parts.mean(dim=0), (embeddings - embeddings.mean(dim=0)).cpu().double()
        gram = parts.T @ parts
        ridge = RIDGE * gram.diagonal().mean().clamp(min=torch.finfo(torch.float32).tiny)
        gram.diagonal().add_(ridge)
        return cls(torch.linalg.solve(gram, parts.T @ targets).float())

    @classmethod
    def restored(cls, weight: Tensor, dim: int) -> Outline:
        """The model with a stored W, which is empty if it was never fitted."""
        if weight.shape == (0, dim):
            return cls.empty(dim)
        if weight.shape != (WIDTH, dim) or not bool(weight.isfinite().all()):
            raise ModelError(
                "the estimate of energies from parts does not fit the embedding.",
                fix="Get an intact copy, or train again.",
            )
        return cls(weight)

    def energies(self, queries: Tensor) -> PartEnergies | None:
        """The estimate for each query (B, dim); None if it was never fitted."""
        if not len(self.weight):
            return None
        return PartEnergies(queries @ self.weight.to(queries).T * (-2 / math.sqrt(WIDTH)))


def _projected(space: OutputSpace[Any, Any], batch: Any) -> Tensor:
    """The parts of structures, projected: (B, WIDTH)."""
    features = space.features(batch)
    parts = features.keys.unique()
    return features.within(parts).times(signs(parts, WIDTH)) / math.sqrt(WIDTH)
