"""Backbones, the networks on inputs, and learners that are one network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from ele_core.component import Component, ComponentConfig
from ele_core.errors import ConfigError
from ele_core.interfaces import InputSpace, Learner
from ele_core.numerics.tensors import Tensors


class Backbone(Component, nn.Module, ABC):
    """A network on inputs. Built as `Backbone(config, inputs, dim)`, after `inputs.fit`."""

    spread: ClassVar[bool] = False
    """Whether states are spread evenly over an input: place p of P of an output is beside the p-th of P equal spans of
    them, not beside state p."""

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], dim: int) -> None:
        nn.Module.__init__(self)
        Component.__init__(self, config)
        self.dim = dim
        self.accepts(inputs)

    @classmethod
    def accepts(cls, inputs: InputSpace[Any]) -> None:
        """Raise `ConfigError` if this backbone cannot read the batches of `inputs`."""

    @abstractmethod
    def forward(self, batch: Any) -> Tensor:
        """A batch of B inputs → (B, dim), not normalised."""

    @property
    def state_width(self) -> int:
        """The width of the states of `attended`."""
        return self.dim

    def attended(self, batch: Any) -> tuple[Tensor, Tensor, Tensor]:
        """The output (B, dim), and the states (B, T, `state_width`) of parts of the inputs with their mask (B, T).

        By default the output is the only state.
        """
        output = self(batch)
        return output, output[:, None], torch.ones(len(output), 1, dtype=torch.bool, device=output.device)

    def tokens(self, batch: Any) -> Tensor:
        """The token (B, L) at each of the first L states, if inputs have tokens: its place in their `names`."""
        found: Tensor = batch.tokens
        return found


def require_batches(backbone: str, inputs: InputSpace[Any], wanted: type[Tensors], reads: str) -> None:
    """Refuse inputs whose batches (their attribute `Batch`) are not `wanted`; `reads` says in words what these are."""
    if not issubclass(getattr(inputs, "Batch", object), wanted):
        what = f"backbone '{backbone}' reads {reads}, not {type(inputs).__name__}."
        raise ConfigError(what, fix=f"Choose another backbone, or an input whose `Batch` is `{wanted.__name__}`.")


class NetworkLearner(Learner):
    """A learner that learns only the weights of `network`; use it as in `class Mine(NetworkLearner, Surrogate)`."""

    network: nn.Module

    def state(self) -> dict[str, Tensor]:
        """The weights of the network."""
        return self.network.state_dict()

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Load the weights of the network."""
        self.network.load_state_dict(dict(state))

    def to(self, device: torch.device) -> Self:
        """Move the network."""
        self.network.to(device)
        return super().to(device)
