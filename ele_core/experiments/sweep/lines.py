"""The lines of a sweep: the variants that the installed decoders declare."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from ele_core import config as configuration
from ele_core.config.diff import flatten
from ele_core.errors import ConfigError, EleError
from ele_core.interfaces import Decoder
from ele_core.model.model import Model
from ele_core.plugins import Registry
from ele_core.types import Choice, Variant

Measurement = dict[str, Any]
"""One measurement as `sweep.json` holds it."""


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of the figure: a variant of a decoder, measured on several shares."""

    decoder: str
    variant: Variant

    @property
    def name(self) -> str:
        """The name in `--decoder` and in measurements."""
        return self.variant.name

    @property
    def label(self) -> str:
        """The name in the figure."""
        return self.variant.label or self.variant.name

    @property
    def overrides(self) -> list[str]:
        """Overrides of a run's configuration that select this variant."""
        options = flatten({"decoder": self.variant.options}).items()
        return [f"decoder={self.decoder}", *(written(path, value) for path, value in options)]

    @property
    def choice(self) -> Choice:
        """The decoder with the options of the variant."""
        return Choice(name=self.decoder, **self.variant.options)


def installed_lines(registry: Registry) -> dict[str, Line]:
    """Every variant of every installed decoder, in the order of the registry's names."""
    found: dict[str, Line] = {}
    for line in _declared(registry):
        if line.name in found:
            first, second = (f"'{each.decoder}'" for each in (found[line.name], line))
            what = f"the decoders {first} and {second} both declare a variant '{line.name}'."
            raise ConfigError(what, where="sweep", fix="Uninstall one of them, or rename its variant.")
        found[line.name] = line
    return found


def lines_for(model: Model, asked: Sequence[str] = ()) -> dict[str, Line]:
    """The lines that this model's surrogate allows, and those that `asked` names."""
    return {
        name: line
        for name, line in installed_lines(model.config.registry).items()
        if name in asked or allowed(line, model)
    }


def allowed(line: Line, model: Model) -> bool:
    """Whether the model's surrogate allows a line."""
    try:
        model.decoder(line.choice)
    except EleError:
        return False
    return True


def written(path: str, value: Any) -> str:
    """An override as a user would type it: texts without quotes, unless they would be read as something else."""
    bare, quoted = f"{path}={value}", configuration.override(path, value)
    same = isinstance(value, str) and configuration.parse_overrides([bare]) == configuration.parse_overrides([quoted])
    return bare if same else quoted


def percent(share: float) -> str:
    """A share as text: 0.1 is 10 %."""
    return f"{100 * share:.3g} %"


def _declared(registry: Registry) -> Iterator[Line]:
    decoders: dict[str, type[Decoder]] = registry.usable("decoder")
    for name, decoder in decoders.items():
        prefix = f"{name.rpartition(':')[0]}:" if ":" in name else ""  # another plugin brings a decoder of this name
        for variant in decoder.variants:
            yield Line(name, dataclasses.replace(variant, name=prefix + variant.name))
        if not decoder.variants:
            yield Line(name, Variant(name))
