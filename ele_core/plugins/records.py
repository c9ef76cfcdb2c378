"""The records that plugins yield, and the description of a loaded or failed plugin."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from ele_core.errors import PluginError

if TYPE_CHECKING:
    from ele_core.interfaces import Kind


@dataclasses.dataclass(frozen=True)
class Record:
    """The name, class and summary of a component: `Record("nearest", "my_package.decoders:Nearest", "One line.")`."""

    name: str
    """What users write in a configuration, such as `decoder = "pgd"`."""
    target: str | type
    """The class as `"package.module:Class"`, which is imported only when it is used; or the class itself."""
    summary: str = ""
    """One line on the component, shown in lists."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise PluginError(f"a record's name should be a word, not {self.name!r}")
        if not isinstance(self.target, type) and not _is_import_string(self.target):
            raise PluginError(
                f"the target of '{self.name}' should be a class or 'package.module:Class', not {self.target!r}"
            )
        if not isinstance(self.summary, str) or "\n" in self.summary:
            raise PluginError(f"the summary of '{self.name}' should be one line")

    @property
    def location(self) -> str:
        """The target as `"package.module:Class"`, also if it is a class."""
        if isinstance(self.target, str):
            return self.target
        return f"{self.target.__module__}:{self.target.__qualname__}"


@dataclasses.dataclass(frozen=True)
class PluginInfo:
    """A plugin: its distribution, its status, and its records or the reason why it failed."""

    name: str
    distribution: str | None = None
    version: str | None = None
    status: Literal["ok", "failed", "disabled"] = "ok"
    reason: str = ""
    records: Mapping[Kind, tuple[Record, ...]] = dataclasses.field(default_factory=dict)

    @property
    def installed(self) -> bool:
        """Whether it comes from a distribution, so that a saved model can be loaded in another process."""
        return self.distribution is not None

    @property
    def origin(self) -> str:
        """The distribution with its version, as errors name it."""
        return f"{self.distribution} {self.version}" if self.installed else "registered by hand"

    def __str__(self) -> str:
        return f"{self.name} ({self.origin})"

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, for `ele plugins --json`."""
        return {
            "name": self.name,
            "distribution": self.distribution,
            "version": self.version,
            "status": self.status,
            "reason": self.reason,
            "records": [
                {"kind": kind, "name": record.name, "target": record.location, "summary": record.summary}
                for kind, records in self.records.items()
                for record in records
            ],
        }


def _is_import_string(target: object) -> bool:
    if not isinstance(target, str):
        return False
    module, colon, attribute = target.partition(":")
    return bool(colon) and all(part.isidentifier() for part in [*module.split("."), *attribute.split(".")])
