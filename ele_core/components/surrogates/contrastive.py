"""The paper's surrogate: an encoder from relaxed structures to the sphere, trained with a contrastive loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Self

import torch
from pydantic import Field
from torch import Generator, Tensor
from torch.nn import functional

from ele_core.component import ComponentConfig
from ele_core.components.sketching import NEGLIGIBLE
from ele_core.components.surrogates.decisions import DECISIONS, LEAST_PAIRS, DecisionTraining, train_on_decisions
from ele_core.components.surrogates.losses import ContrastiveLoss
from ele_core.components.surrogates.mining import MinedBatches
from ele_core.components.training.chunks import in_chunks
from ele_core.components.training.optimise import Training, optimise
from ele_core.data.batches import Batches, ShuffledBatches
from ele_core.energies import SquaredDistance
from ele_core.errors import damaged
from ele_core.interfaces import Encoder, Energy, OutputSpace, Surrogate
from ele_core.networks import NetworkLearner
from ele_core.numerics.sparse import PartEnergies, signs
from ele_core.optional import PartMoves
from ele_core.plugins import create_part
from ele_core.runtime.context import Context
from ele_core.runtime.device import device_of
from ele_core.types import Choice, PlannedStage, Stage, Takes, TrainingData

OUTLINE, CURVATURE, SCALE = "outline", "outline_curvature", "embedding_scale"
"""The names in `state` of the linear model of the embedding, of its curvature, and of the scale."""
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
    """ψ(y) = encoder(relax(y)) / ‖·‖: a structure and its views are moved together, different structures apart.

    With `spherical = false`, ψ(y) = s · encoder(relax(y)), where s is such that embeddings have a mean squared distance
    of 1 from their mean: an encoder that adds up parts then gives an embedding that adds up parts, which is easy to
    regress from few pairs. On a sphere, inner products compare as squared distances do; elsewhere the loss takes these.
    """

    stages = (PRETRAINING, EMBEDDING, DECISIONS)

    class Config(ComponentConfig):
        """Options of the contrastive stage."""

        dim: int = Field(128, ge=2)
        """Dimension of the embedding."""
        encoder: Annotated[Choice, Takes("encoder")] = Choice(name="flat")
        """The network on relaxed structures."""
        spherical: bool = True
        """Whether embeddings are normalised. If not, they are only scaled: for encoders that add up parts."""
        loss: ContrastiveLoss = ContrastiveLoss()
        """The member of the contrastive family."""
        soft_points: float = Field(0.0, ge=0, le=1)
        """How far each block of a structure is moved towards another vertex at most, to train on soft points too."""
        mining: Mining | None = None
        """Make batches of structures with similar embeddings, so that negatives are hard; None: random batches."""
        pretraining_steps: int = Field(0, ge=0)
        """Steps on the extra outputs before the training outputs (the paper's T₁)."""
        training: Training | None = Training(batch_size=512, epochs=10)
        """How the encoder is trained on outputs alone; None: it keeps its random weights, which serve encoders that add
        up parts."""
        chunk: int | None = Field(None, ge=1)
        """Structures encoded at once in a step of training on outputs, each twice: for batches that do not fit into
        memory; None: the whole batch, once. The gradient is the same, that of all negatives of the batch."""
        decisions: DecisionTraining | None = None
        """How the encoder is then trained with the pairs, so that truths win against their moves; None: it is not. Only
        if not `spherical`, and with at least 200 pairs."""

    config: Config

    def __init__(self, config: ComponentConfig | None, space: OutputSpace[Any, Any]) -> None:
        super().__init__(config, space)
        choice = self.config.encoder
        self.encoder: Encoder = create_part(self, "encoder", choice, space, self.dim, path="surrogate.encoder")
        self.network = self.encoder.eval()
        self.spherical, self.scale = self.config.spherical, 1.0
        self.outline = Outline.empty(self.dim) if isinstance(space.moves, PartMoves) else None

    @property
    def dim(self) -> int:
        """The dimension of the embedding."""
        return self.config.dim

    def planned(self, examples: int, extra: int) -> list[PlannedStage]:
        """Pre-training if configured, then the training on the outputs."""
        training, first = self.config.training, self.config.pretraining_steps if extra else 0
        stages = []
        if training is not None:
            stages += [PlannedStage(PRETRAINING.name, first)] if first else []
            stages.append(training.planned(EMBEDDING, examples))
        if self._decides(examples):
            assert self.config.decisions is not None
            stages.append(self.config.decisions.planned(DECISIONS, min(examples, self.config.decisions.pairs)))
        return stages

    def fit(self, data: TrainingData, context: Context) -> None:
        """Pre-train on the extra outputs if configured, then train; keep the weights of the best validation loss."""
        outputs, known = data.train.outputs, data.in_memory.outputs
        if (training := self.config.training) is not None:
            evaluate = Views(self, data.validation.outputs[:], context).evaluate
            if data.extra is not None and self.config.pretraining_steps:
                self._train(data.extra, training, evaluate, context, PRETRAINING, self.config.pretraining_steps)
            self._train(outputs, training, evaluate, context, EMBEDDING, None)
        self._measure(known, context)
        if self._decides(len(known)):
            assert self.config.decisions is not None
            train_on_decisions(self, self.config.decisions, data, context)
            self._measure(known, context)

    def _decides(self, pairs: int) -> bool:
        return self.config.decisions is not None and not self.spherical and pairs >= LEAST_PAIRS

    def _measure(self, outputs: Any, context: Context) -> None:
        """Choose the scale of the embedding, and fit the estimate of energies from parts."""
        order = torch.randperm(len(outputs), generator=context.generator("embedding", "outline"))
        if not self.spherical:
            self.scale = 1.0
            self.scale = 1 / spread(self.embed(outputs[order[:CHUNK].sort().values]))
        if self.outline is not None:
            self.outline_on(outputs[order[:STRUCTURES].sort().values])

    def outline_on(self, outputs: Any) -> None:
        """Fit the estimate of energies from parts, which lets `search` score fewer structures."""
        if self.spherical:
            self.outline = Outline.fitted(self.space, outputs, self.embed(outputs))
        else:
            self.outline = NearOutline.fitted_to_moves(self.space, outputs, self.embed)
        self.outline.to(device_of(self.encoder))

    def _train(
        self, outputs: Any, training: Training, evaluate: Any, context: Context, stage: Stage, steps: int | None
    ) -> None:
        def loss(rows: Tensor, generator: Generator) -> Tensor:
            batch = outputs[rows]
            return self.losses(batch, self.space.augment(batch, generator), generator, context)

        optimise(
            self.encoder,
            training,
            count=len(outputs),
            source=self._batches(outputs, training.batch_size, context, stage.name),
            loss=loss,
            evaluate=evaluate,
            context=context,
            stage=stage,
            steps=steps,
        )

    def losses(self, batch: Any, views: Any, generator: Generator, context: Context) -> Tensor:
        """The loss (B,) of each structure with its view, among the views of the batches of all processes."""
        processes, chunk = context.processes, self.config.chunk
        points = self.space.relax(batch), self.space.relax(views)
        soft = (self._soften(point, generator).to(context.device) for point in points)
        anchors, own = self.compared(*(in_chunks(self.embed_at, point, chunk) for point in soft))
        everyone = processes.gather_with_gradient(own)
        keys = self.space.keys(batch)
        all_keys, first = processes.gather(keys), processes.first(len(batch))

        def losses(rows: Tensor) -> Tensor:
            start = int(rows[0])
            negative = different(keys[rows], all_keys).to(context.device)
            return self.config.loss(anchors[start : start + len(rows)], everyone, negative, first + start)

        return in_chunks(losses, torch.arange(len(batch)), chunk)

    def compared(self, anchors: Tensor, views: Tensor) -> tuple[Tensor, Tensor]:
        """Both in a form whose inner products the loss compares: ⟨a, v⟩ − ‖v‖²/2 = (‖a‖² − ‖a − v‖²)/2 off the sphere.

        There they are divided by the spread of the anchors, because a loss could otherwise be lessened by their length.
        """
        if self.spherical:
            return anchors, views
        mean = anchors.mean(dim=0)
        size = (anchors - mean).square().sum(dim=1).mean().clamp(min=torch.finfo(anchors.dtype).tiny).sqrt()
        anchors, views = ((part - mean) / size for part in (anchors, views))
        ones = torch.ones_like(anchors[:, :1])
        return torch.cat([anchors, ones], 1), torch.cat([views, -0.5 * views.square().sum(dim=1, keepdim=True)], 1)

    def _batches(self, outputs: Any, size: int, context: Context, stage: str) -> Batches:
        mining = self.config.mining
        if mining is None:
            return ShuffledBatches(len(outputs), size, context, stage, blocks=outputs.blocks)

        def embed(rows: Tensor) -> Tensor:
            self.encoder.eval()
            embeddings = context.processes.spread(lambda own: self.embed(outputs[own]).cpu(), rows)
            self.encoder.train()
            return embeddings

        return MinedBatches(outputs.blocks, size, mining.group, mining.refresh, embed, context, stage)

    def embed(self, batch: Any) -> Tensor:
        """Packed structures → (B, dim), on the unit sphere if `spherical`."""
        device = device_of(self.encoder)
        parts = [batch.to(device)] if len(batch) == 0 else (chunk.to(device) for chunk in batch.chunks(CHUNK))
        with torch.no_grad():
            return torch.cat([self._placed(self.encoder.encode(part)) for part in parts])

    def energy(self, queries: Tensor) -> Energy:
        """The squared distance; a linear model of the embedding on parts estimates it if the space can rank by it."""
        if isinstance(self.outline, NearOutline):
            return OutlinedDistance(self, queries)
        return SquaredDistance(self, queries, None if self.outline is None else self.outline.energies)

    def state(self) -> dict[str, Tensor]:
        """The weights of the encoder, the scale, and the linear model of the embedding if there is one."""
        known = {} if self.outline is None else {OUTLINE: self.outline.weight}
        scale = {} if self.spherical else {SCALE: torch.tensor([self.scale], dtype=torch.float64)}
        curved = {CURVATURE: self.outline.curvature} if isinstance(self.outline, NearOutline) else {}
        return {**super().state(), **known, **scale, **curved}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Load what `state` returned."""
        weights = dict(state)
        outline, scale, curved = (weights.pop(name, None) for name in (OUTLINE, SCALE, CURVATURE))
        super().restore(weights)
        if not self.spherical:
            if scale is None or scale.shape != (1,) or not 0 < float(scale) < math.inf:
                raise damaged("the scale of the embedding is not a positive number.")
            self.scale = float(scale)
        if self.outline is not None:
            self.outline = Outline.empty(self.dim) if outline is None else Outline.restored(outline, self.dim)
            if not self.spherical and len(self.outline.weight):
                self.outline = NearOutline.completed(self.outline, curved)

    def to(self, device: torch.device) -> Self:
        """Move the encoder and the linear model."""
        if self.outline is not None:
            self.outline.to(device)
        return super().to(device)

    def embed_at(self, point: Any) -> Tensor:
        """Points → (B, dim), on the unit sphere if `spherical`, differentiable in the point."""
        return self._placed(self.encoder(point))

    def _placed(self, encoded: Tensor) -> Tensor:
        return functional.normalize(encoded, dim=1) if self.spherical else encoded * self.scale

    def _soften(self, point: Any, generator: Generator) -> Any:
        """Move blocks part of the way to other vertices if `soft_points` is not 0."""
        if not self.config.soft_points:
            return point
        fields = self.space.geometry.items()
        return point.replace(
            **{name: convex.soften(getattr(point, name), self.config.soft_points, generator) for name, convex in fields}
        )


def spread(embeddings: Tensor) -> float:
    """The root of the mean squared distance from their mean (B, dim), or 1 if all are equal."""
    square = (embeddings - embeddings.mean(dim=0)).square().sum(dim=1).mean().item()
    return math.sqrt(square) if square > NEGLIGIBLE * embeddings.square().sum(dim=1).mean().item() else 1.0


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
        anchors, views = self.surrogate.compared(anchors, views)
        losses, nearest = [], []
        for first in range(0, len(anchors), CHUNK):
            some = slice(first, first + CHUNK)
            negative = different(self.keys[some], self.keys)
            losses.append(self.surrogate.config.loss(anchors[some], views, negative, first))
            others = (anchors[some] @ views.T).masked_fill(~negative, -math.inf)
            nearest.append((anchors[some] * views[some]).sum(dim=1) > others.amax(dim=1))
        own_nearest = torch.cat(nearest).float().mean().item()
        return {"validation_loss": torch.cat(losses).mean().item(), "own_view_nearest": own_nearest}


def different(keys: Tensor, others: Tensor) -> Tensor:
    """(B, N) true if keys (B, 2) and (N, 2) differ: equal structures are not negatives of each other."""
    return (keys.unsqueeze(1) != others.unsqueeze(0)).any(dim=2)


STRUCTURES = 20_000
"""Maximum number of structures that the model is fitted to."""
WIDTH = 1024
"""The dimension of the random projection of the parts."""
MOVED, MOVES = 150, 8000
"""Structures whose moves, and moves and structures, that a model is fitted to that serves near structures."""
RIDGE = 0.01
"""The regularisation, relative to the mean square of the projected parts."""


class Outline:
    """ψ(y) ≈ W φ(y) + b, where φ are the parts of y (`OutputSpace.features`), randomly projected.

    On a sphere the energy is 2 − 2⟨q, ψ(y)⟩, so W alone ranks structures for a query.
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
            raise damaged("the estimate of energies from parts does not fit the embedding.")
        return cls(weight)

    def to(self, device: torch.device) -> Self:
        """Move W to `device`."""
        self.weight = self.weight.to(device)
        return self

    def energies(self, queries: Tensor) -> PartEnergies | None:
        """The estimate for each query (B, dim); None if it was never fitted."""
        if not len(self.weight):
            return None
        return PartEnergies(queries @ self.weight.to(queries).T * (-2 / math.sqrt(WIDTH)))


class NearOutline(Outline):
    """A linear model that is used near structures, for embeddings that are not on a sphere.

    For y′ a move away from y, with δ = φ(y′) − φ(y), ‖q − ψ(y′)‖² ≈ ‖q − ψ(y)‖² + 2⟨ψ(y) − q, W δ⟩ + κ ‖δ‖², where κ is
    the mean of ‖ψ(y′) − ψ(y)‖² over moves divided by that of ‖δ‖².
    """

    def __init__(self, weight: Tensor, curvature: Tensor) -> None:
        super().__init__(weight)
        self.curvature = curvature
        """κ (1,)."""

    @classmethod
    def fitted_to_moves(cls, space: OutputSpace[Any, Any], outputs: Any, embed: Callable[[Any], Tensor]) -> NearOutline:
        """Fit W to structures and their moves, and κ to the moves."""
        some = outputs[:: max(1, len(outputs) // MOVED)]
        moved, row = space.moves.list(some)
        chosen = torch.arange(0, len(moved), max(1, len(moved) // MOVES))
        moved, row = moved[chosen], row[chosen]
        both = type(moved).cat([outputs[:MOVES], moved])
        weight = Outline.fitted(space, both, embed(both)).weight
        change = (embed(moved) - embed(some)[row]).square().sum(dim=1).mean()
        parts = (_projected(space, moved) - _projected(space, some)[row]).square().sum(dim=1).mean()
        return cls(weight, (change.cpu() / parts.clamp(min=torch.finfo(parts.dtype).tiny)).reshape(1))

    @classmethod
    def completed(cls, outline: Outline, curvature: Tensor | None) -> NearOutline:
        """The model with a stored κ."""
        if (
            curvature is None
            or curvature.shape != (1,)
            or not bool((curvature >= 0).all() and curvature.isfinite().all())
        ):
            raise damaged("the estimate of energies from parts has no curvature.")
        return cls(outline.weight, curvature)

    def near(self, queries: Tensor, structures: Any, embeddings: Tensor, space: OutputSpace[Any, Any]) -> PartEnergies:
        """The estimate for structures that are a move away from structure i, for query i (B, dim)."""
        kappa = self.curvature.item()
        slope = 2 * (embeddings - queries) @ self.weight.to(queries).T
        parts = _projected(space, structures).to(queries)
        return PartEnergies((slope - 2 * kappa * parts) / math.sqrt(WIDTH), kappa)


class OutlinedDistance(SquaredDistance):
    """‖q − ψ(y)‖² of a surrogate with a `NearOutline`."""

    def near(self, batch: Any, owner: Tensor | None = None) -> PartEnergies:
        """The estimate of the outline around the structures."""
        surrogate: Any = self.surrogate
        return surrogate.outline.near(self.asked(owner), batch, surrogate.embed(batch), surrogate.space)  # type: ignore[no-any-return]


def _projected(space: OutputSpace[Any, Any], batch: Any) -> Tensor:
    """The parts of structures, projected: (B, WIDTH)."""
    features = space.features(batch)
    parts = features.keys.unique()
    return features.within(parts).times(signs(parts, WIDTH)) / math.sqrt(WIDTH)
