"""The paper's regressor: a backbone trained on the squared distance to frozen embeddings of the outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from ele_core.component import ComponentConfig
from ele_core.components.regressors.measured import PART, MeasuredRegressor, sampled_rows
from ele_core.components.training.optimise import Training, optimise
from ele_core.data.batches import PerRow, ShuffledBatches
from ele_core.interfaces import InputSpace, Surrogate
from ele_core.networks import Backbone, NetworkLearner
from ele_core.numerics.tensors import Tensors
from ele_core.plugins import create_part
from ele_core.runtime.context import Context
from ele_core.runtime.device import device_of
from ele_core.types import Choice, PlannedStage, Source, Stage, Takes, TrainingData

REGRESSION = Stage("regression", decides="validation_error")
CHUNK = 1024
"""Inputs predicted at once."""


class NeuralRegressor(NetworkLearner, MeasuredRegressor):
    """h(x) = backbone(x) / ‖·‖, minimising ‖h(x) − ψ(y)‖² = 2 − 2⟨h(x), ψ(y)⟩ over the training pairs.

    If the surrogate is not `spherical`, h(x) = μ + σ · backbone(x), with the mean and the standard deviation of each
    coordinate of the targets: coordinates of a kernel differ a hundredfold in spread, and a network that had to learn
    this would predict little more than the mean for a long time.
    """

    stages = (REGRESSION,)

    class Config(ComponentConfig):
        """Options of the regression stage."""

        backbone: Annotated[Choice, Takes("backbone")] = Choice(name="gru")
        """The network on inputs."""
        training: Training = Training(batch_size=128, epochs=20)
        """How the backbone is trained."""
        weigh_errors: bool = True
        """Whether energies may weigh each direction of the embedding by the errors of predictions for training pairs;
        validation pairs decide. With fewer than 200 pairs, or equal outputs, they do not."""

    config: Config

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], surrogate: Surrogate) -> None:
        super().__init__(config, inputs, surrogate)
        choice, dim = self.config.backbone, surrogate.dim
        backbone: Backbone = create_part(self, "backbone", choice, inputs, dim, path="regressor.backbone")
        self.network = (backbone if surrogate.spherical else Standardised(backbone, dim)).eval()

    def planned(self, examples: int, extra: int) -> list[PlannedStage]:
        """The steps of the regression."""
        return [self.config.training.planned(REGRESSION, examples)]

    def _targets(self, outputs: Any, context: Context) -> Any:
        """The embeddings of outputs: computed once if the outputs are in memory, else when they are asked for."""
        if isinstance(outputs, Tensors):
            return context.processes.spread(self.surrogate.embed, outputs)
        return Embedded(self.surrogate, outputs, context.device)

    def fit(self, data: TrainingData, context: Context) -> None:
        """Train on the pairs; keep the weights of the best validation error."""
        inputs, training, held_out = data.train.inputs, self.config.training, data.validation.inputs[:]
        targets = self._targets(data.train.outputs, context)
        some = data.in_memory
        some_targets = targets if data.sample is None else Embedded(self.surrogate, some.outputs, context.device)
        validation_targets = self._targets(data.validation.outputs[:], context)
        if isinstance(self.network, Standardised) and not self.network.measured:
            self.network.measure(some_targets)

        def loss(rows: Tensor, generator: Generator) -> Tensor:
            views = self.inputs.augment(inputs[rows], generator)
            missed: Tensor = self._query(views.to(context.device)) - targets[rows.to(targets.device)]
            return missed.square().sum(dim=1)

        def evaluate() -> dict[str, float]:
            predicted = context.processes.spread(self._predict, held_out)
            return {REGRESSION.decides: (predicted - validation_targets).square().sum(dim=1).mean().item()}

        optimise(
            self.network,
            training,
            count=len(inputs),
            source=ShuffledBatches(
                len(inputs), training.batch_size, context, REGRESSION.name, sizes_of(self.inputs, inputs), inputs.blocks
            ),
            loss=loss,
            evaluate=evaluate,
            context=context,
            stage=REGRESSION,
        )
        if self.weighs and not self.knows_errors(len(some)):
            parts = sampled_rows(len(some))
            predicted = torch.cat([context.processes.spread(self.predict, some.inputs[rows]) for rows in parts])
            self.measure(predicted, torch.cat([some_targets[rows.to(targets.device)] for rows in parts]), context)

    def state(self) -> dict[str, Tensor]:
        """The weights of the network, and the error model if there is one."""
        return {**super().state(), **self.errors_state()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Load the weights of the network and the error model."""
        super().restore({name: value for name, value in state.items() if not name.startswith(f"{PART}.")})
        self.restore_errors(state)

    def predict(self, inputs: Tensors) -> Tensor:
        """Packed inputs → (B, dim), normalised if embeddings are. Evaluations in training call `_predict` alone."""
        return self._predict(inputs)

    def _predict(self, inputs: Tensors) -> Tensor:
        """Packed inputs → (B, dim), normalised if embeddings are; inputs of similar length are computed together."""
        device = device_of(self.network)
        if len(inputs) == 0:
            return torch.zeros(0, self.surrogate.dim, device=device)
        sizes = self.inputs.sizes(inputs)
        order = torch.arange(len(inputs)) if sizes is None else sizes.argsort(stable=True)
        with torch.no_grad():
            sorted_queries = [self._query(inputs[rows].to(device)) for rows in order.split(CHUNK)]
        return torch.cat(sorted_queries)[order.argsort().to(device)]

    def _query(self, batch: Tensors) -> Tensor:
        query: Tensor = self.network(batch)
        return functional.normalize(query, dim=1) if self.surrogate.spherical else query


class Embedded:
    """The embeddings of outputs that are not in memory, computed when they are asked for."""

    def __init__(self, surrogate: Surrogate, outputs: Source[Any], device: torch.device) -> None:
        self.surrogate, self.outputs, self.device = surrogate, outputs, device

    def __getitem__(self, rows: Tensor) -> Tensor:
        return self.surrogate.embed(self.outputs[rows.cpu()]).to(self.device)

    def mean(self, dim: int = 0) -> Tensor:
        """The mean embedding (dim,)."""
        parts = [self.surrogate.embed(part).double().sum(dim=dim) for part in self.outputs.chunks(CHUNK)]
        return (torch.stack(parts).sum(dim=0) / len(self.outputs)).float().to(self.device)

    def std(self, dim: int = 0, correction: int = 0) -> Tensor:
        """The standard deviation of each coordinate (dim,)."""
        mean = self.mean().double()
        parts = [(self.surrogate.embed(part) - mean).square().sum(dim=dim) for part in self.outputs.chunks(CHUNK)]
        return (torch.stack(parts).sum(dim=0) / (len(self.outputs) - correction)).sqrt().float().to(self.device)


def sizes_of(inputs: InputSpace[Any], source: Source[Any]) -> Tensor | PerRow | None:
    """The length of each input (N,), computed when asked for if they are not in memory; None: all are equal."""
    if isinstance(source, Tensors):
        return inputs.sizes(source)

    def sizes(rows: Tensor) -> Tensor:
        found = [inputs.sizes(source[part]) for part in rows.split(CHUNK)]
        return torch.cat([each for each in found if each is not None])

    return None if inputs.sizes(source[:1]) is None else PerRow(sizes)


class Standardised(nn.Module):
    """μ + σ · backbone(x), with a mean and a standard deviation for each coordinate."""

    mean: Tensor
    spread: Tensor

    def __init__(self, backbone: Backbone, dim: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("spread", torch.ones(dim))

    @property
    def measured(self) -> bool:
        """Whether the mean and the standard deviation are known: those of weights to start from stay."""
        return bool((self.spread != 1).any() or self.mean.any())

    def measure(self, targets: Tensor | Embedded) -> None:
        """Set the mean and the standard deviation to those of `targets` (N, dim)."""
        self.mean.copy_(targets.mean(dim=0))
        self.spread.copy_(targets.std(dim=0, correction=0))

    def forward(self, batch: Tensors) -> Tensor:
        """Inputs → (B, dim)."""
        outputs: Tensor = self.backbone(batch)
        return self.mean + self.spread * outputs
