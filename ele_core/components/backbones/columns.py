"""A network on inputs of several columns: one network for each, their outputs and states joined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, cast

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn import functional

from ele_core.component import ComponentConfig
from ele_core.components.backbones.pooling import head
from ele_core.components.inputs.columns import Columns, ColumnsInput, is_text
from ele_core.components.inputs.text import Texts
from ele_core.config.recipes import backbone_for
from ele_core.errors import ConfigError
from ele_core.interfaces import InputSpace
from ele_core.networks import Backbone
from ele_core.plugins import create_part, registry_of
from ele_core.types import Choice, Takes

USUAL = 1000
"""Training pairs for which a network is chosen that is not given."""


class ColumnsBackbone(Backbone):
    """The outputs of one network for each column, side by side, and two linear layers.

    The states are those of all columns, one column after the other, columns of texts first.
    """

    class Config(ComponentConfig):
        """The networks."""

        columns: dict[str, Annotated[Choice, Takes("backbone")]] = Field(default_factory=dict)
        """The network of each column, under its name; the default of its input space if it is not given."""
        width: PositiveInt = 256
        """The width of the output and of the states of each network, and of the layer after them."""

    config: Config

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], dim: int) -> None:
        super().__init__(config, inputs, dim)
        assert isinstance(inputs, ColumnsInput)
        width, parts = self.config.width, inputs.columns
        self.places = sorted(range(len(parts)), key=lambda place: not is_text(list(parts.values())[place]))
        """The columns in the order of their states."""
        networks = [self._network(name, part) for name, part in parts.items()]
        self.networks = nn.ModuleList(networks)
        self.states = nn.ModuleList(nn.Linear(network.state_width, width) for network in networks)
        self.head = head(width * len(parts), width, dim)
        self.offsets: dict[int, int] = {}
        """The number of the first token of each column of texts among the tokens of all."""
        count = 0
        for place, part in enumerate(parts.values()):
            if is_text(part):
                self.offsets[place] = count
                count += len(part.names)  # type: ignore[attr-defined]

    @classmethod
    def accepts(cls, inputs: InputSpace[Any]) -> None:
        """Accept the input space `columns`."""
        if not isinstance(inputs, ColumnsInput):
            what = f"backbone 'columns' reads several columns (input 'columns'), not {type(inputs).__name__}."
            raise ConfigError(what, fix="Choose another backbone, or the input 'columns'.")

    def forward(self, batch: Columns) -> Tensor:
        """Columns → (B, dim)."""
        parts = zip(self.networks, batch.parts, strict=True)
        outputs: Tensor = self.head(functional.gelu(torch.cat([network(part) for network, part in parts], dim=1)))
        return outputs

    @property
    def state_width(self) -> int:
        """The width of all states."""
        return self.config.width

    def attended(self, batch: Columns) -> tuple[Tensor, Tensor, Tensor]:
        """The output, and the states of all columns."""
        parts = batch.parts
        networks = cast("Iterable[Backbone]", self.networks)
        found = [network.attended(part) for network, part in zip(networks, parts, strict=True)]
        output: Tensor = self.head(functional.gelu(torch.cat([pooled for pooled, _, _ in found], dim=1)))
        states, masks = [], []
        for place in self.places:
            _, own, mask = found[place]
            more = parts[place].trimmed().tokens.shape[1] - mask.shape[1] if place in self.offsets else 0
            states.append(functional.pad(self.states[place](own), (0, 0, 0, more)))
            masks.append(functional.pad(mask, (0, more)))
        return output, torch.cat(states, dim=1), torch.cat(masks, dim=1)

    def tokens(self, batch: Columns) -> Tensor:
        """The tokens of all columns of texts, numbered as in the `names` of the input space."""
        found = []
        for place in self.places:
            if place in self.offsets:
                part: Texts = batch.parts[place].trimmed()
                found.append((part.tokens.long() + self.offsets[place]).masked_fill(~part.mask, 0))
        return torch.cat(found, dim=1)

    def _network(self, name: str, part: InputSpace[Any]) -> Backbone:
        given: Mapping[str, Choice] = self.config.columns
        choice: Any = given.get(name) or part.defaults(USUAL).get("backbone") or backbone_for(part, registry_of(self))
        if choice is None:
            raise ConfigError(f"no installed backbone reads the column '{name}'.", where="backbone.columns")
        own = Choice.model_validate(choice)
        network: Backbone = create_part(self, "backbone", own, part, self.config.width, path=f"backbone.columns.{name}")
        return network
