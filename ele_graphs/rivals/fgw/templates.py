"""`fgw-templates`: a network and a dictionary of graphs, learned together through barycenters: NNBary-FGW."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Generator, Tensor, nn
from torch.nn import functional

from ele_core import Backbone, ComponentConfig, Context, InputSpace, Regressor, Surrogate, Tensors, TrainingData
from ele_core.components.training.optimise import Training, optimise
from ele_core.data.batches import ShuffledBatches
from ele_core.networks import NetworkLearner
from ele_core.plugins import create_part
from ele_core.types import Choice, Stage, Takes
from ele_graphs.rivals.fgw.distance import SoftGraphs, objective
from ele_graphs.rivals.fgw.surrogate import FusedSurrogate, barycenters, require_fused

CERTAIN = 2.0
"""The logit of an entry that a template copies from a graph: close to 0 or 1, but with a gradient."""


class Dictionary(nn.Module):
    """M template graphs: features are rows of a softmax, edges are symmetric sigmoids, the diagonal is zero."""

    sizes: Tensor

    def __init__(self, templates: int, nodes: int, labels: int) -> None:
        super().__init__()
        self.features = nn.Parameter(torch.zeros(templates, nodes, labels))
        self.structure = nn.Parameter(torch.zeros(templates, nodes, nodes))
        self.register_buffer("sizes", torch.full((templates,), nodes))

    def __len__(self) -> int:
        return len(self.features)

    @torch.no_grad()
    def begin(self, graphs: SoftGraphs, generator: Generator) -> None:
        """Start as the largest of `graphs`, in a random order: smaller graphs can be cut out of them."""
        order = torch.randperm(len(graphs), generator=generator)
        order = order[graphs.sizes[order].argsort(descending=True, stable=True)]
        chosen = graphs[order[torch.arange(len(self)) % len(graphs)]]
        self.features.copy_(CERTAIN * chosen.features)
        self.structure.copy_(CERTAIN * (2 * chosen.structure - 1))
        self.sizes.copy_(chosen.sizes)

    def forward(self) -> SoftGraphs:
        """The templates as graphs, differentiable in the parameters."""
        features, logits = self.features.softmax(dim=2), self.structure
        structure = torch.sigmoid((logits + logits.transpose(1, 2)) / 2)
        graphs = SoftGraphs(features, structure, self.sizes)
        real = graphs.real
        apart = real[:, :, None] & real[:, None, :] & ~torch.eye(real.shape[1], dtype=torch.bool, device=real.device)
        return graphs.replace(features=features * real.unsqueeze(2), structure=structure * apart)


class BarycenterNetwork(nn.Module):
    """A backbone that predicts weights of the templates and a size; `mix` gives the barycenter of that size."""

    def __init__(self, backbone: Backbone, dictionary: Dictionary, surrogate: FusedSurrogate, rounds: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.dictionary = dictionary
        self.surrogate = surrogate
        self.rounds = rounds

    def forward(self, batch: Tensors) -> tuple[Tensor, Tensor]:
        """Weights (B, M), and the logits of the sizes 1…m (B, m)."""
        scores: Tensor = self.backbone(batch)
        templates = len(self.dictionary)
        return scores[:, :templates].softmax(dim=1), scores[:, templates:]

    def mix(self, weights: Tensor, sizes: Tensor) -> SoftGraphs:
        """Barycenters for weights (B, M) and sizes (B,), started at the template of greatest weight, cut to size."""
        templates = self.dictionary()
        heaviest = templates.map(Tensor.detach)[weights.argmax(dim=1)]
        start = heaviest.replace(sizes=torch.minimum(sizes, heaviest.sizes))
        real = start.real
        start = start.replace(
            features=start.features * real.unsqueeze(2),
            structure=start.structure * real[:, :, None] * real[:, None, :],
        )
        every = torch.arange(len(templates), device=weights.device).repeat(len(weights))
        return barycenters(start, templates[every], weights, self.surrogate, self.rounds)


REGRESSION = Stage("regression", decides="validation_distance")
CHUNK = 256
"""Inputs predicted at once."""


class TemplateRegressor(NetworkLearner, Regressor):
    """h(x) = δ(g(x)), g(x) = argmin over g of Σ_k w_k(x) FGW(g, t_k), minimising FGW(g(x), y) over the training pairs.

    w is a softmax of a backbone, which also predicts the number of nodes; the templates t_k are learned with it.
    A barycenter takes `templates` × `rounds` distances per input, also in training: keep both small.
    """

    stages = (REGRESSION,)

    class Config(ComponentConfig):
        """The dictionary, the network on it, and its training."""

        backbone: Annotated[Choice, Takes("backbone")] = Choice(name="gru")
        """The network on inputs."""
        templates: int = Field(10, ge=1)
        """Graphs in the dictionary; they start as training graphs."""
        rounds: int = Field(5, ge=1)
        """Rounds of block coordinate descent for a barycenter."""
        size_weight: float = Field(0.1, ge=0)
        """The weight of the cross-entropy of the number of nodes in the loss, beside the distance."""
        validated: int = Field(100, ge=1)
        """The largest number of validation pairs that are evaluated in training."""
        training: Training = Training(batch_size=64, epochs=5, evaluations=10)
        """How backbone and templates are trained."""

    config: Config
    network: BarycenterNetwork

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], surrogate: Surrogate) -> None:
        super().__init__(config, inputs, surrogate)
        self.fused = require_fused("fgw-templates", surrogate)
        layout, options = self.fused.layout, self.config
        outputs = options.templates + layout.nodes
        backbone = create_part(self, "backbone", options.backbone, inputs, outputs, path="regressor.backbone")
        dictionary = Dictionary(options.templates, layout.nodes, layout.labels)
        self.network = BarycenterNetwork(backbone, dictionary, self.fused, options.rounds)
        self.network.eval()

    def fit(self, data: TrainingData, context: Context) -> None:
        """Start the dictionary as training graphs, then train it and the backbone together."""
        inputs, training = data.in_memory.inputs[:], self.config.training
        targets = self.fused.soften(data.in_memory.outputs[:]).to(context.device)
        self.network.dictionary.begin(targets, context.generator(REGRESSION.name, "templates"))
        held_out = data.validation[: self.config.validated]
        seen, truths = held_out.inputs[:], held_out.outputs[:]

        def loss(rows: Tensor, generator: Generator) -> Tensor:
            views = self.inputs.augment(inputs[rows], generator).to(context.device)
            truth = targets[rows.to(context.device)]
            weights, size_logits = self.network(views)
            center = self.network.mix(weights, truth.sizes)
            sizes = functional.cross_entropy(size_logits, (truth.sizes - 1).clamp(min=0), reduction="none")
            return self._distance(center, truth) + self.config.size_weight * sizes

        def evaluate() -> dict[str, float]:
            queries = context.processes.spread(self.predict, seen)
            return {REGRESSION.decides: self.surrogate.energy(queries).of(truths).mean().item()}

        optimise(
            self.network,
            training,
            count=len(inputs),
            source=ShuffledBatches(
                len(inputs), training.batch_size, context, REGRESSION.name, self.inputs.sizes(inputs)
            ),
            loss=loss,
            evaluate=evaluate,
            context=context,
            stage=REGRESSION,
        )

    def predict(self, inputs: Tensors) -> Tensor:
        """Packed inputs → their barycenters, each one graph of weight 1 (B, dim)."""
        device = self.network.dictionary.features.device
        parts = inputs.chunks(CHUNK) if len(inputs) else [inputs]
        with torch.no_grad():
            return torch.cat([self._query(part.to(device)) for part in parts])

    def _query(self, batch: Tensors) -> Tensor:
        weights, size_logits = self.network(batch)
        center = self.network.mix(weights, size_logits.argmax(dim=1) + 1)
        return self.fused.layout.pack(weights.new_ones(len(weights), 1), center)

    def _distance(self, center: SoftGraphs, truth: SoftGraphs) -> Tensor:
        """FGW of each pair (B,), with the gradient in `center` while the best plan is held fixed."""
        plans = self.fused.distances(center.map(Tensor.detach), truth).plans.to(truth.features.dtype)
        return objective(center, truth, plans, self.fused.config.tradeoff)
