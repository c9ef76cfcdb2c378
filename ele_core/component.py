"""What every component is: a class with options, created by a registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from ele_core.plugins.registry import Registry


class ComponentConfig(BaseModel):
    """Base class of every component's options. Unknown keys are refused; every field must be described.

    Describe a field in a string below it: the reference page and `ele plugins NAME` show this text.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)


class Component:
    """Base class of everything that a plugin can register. `self.config` holds its validated options."""

    class Config(ComponentConfig):
        """No options."""

    config: Any
    registry: Registry | None = None
    """The registry that created this component by its name; None if it was built directly."""
    registered_as: str = ""
    """The name under which the registry created it."""

    def __init__(self, config: ComponentConfig | None = None) -> None:
        self.config = config if config is not None else self.Config()
