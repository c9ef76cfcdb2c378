"""What a plugin yields, and what is known of a plugin once it was looked at."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from ele_core.errors import PluginError

if TYPE_CHECKING:
    from ele_core.interfaces import Kind


@dataclasses.dataclass(frozen=True)
class Record:
    """A component under a name: `Record("nearest", "my_package.decoders:Nearest", "One line on it.")`."""

    name: str
    """What users write in a configuration, such as `decoder = "pgd"`."""
    target: str | type
    """Where the class is, as `"package.module:Class"`, imported only when it is used; or the class itself."""
    summary: str = ""
    """One line for lists."""

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
        """The target as text, also where it is a class."""
        if isinstance(self.target, str):
            return self.target
        return f"{self.target.__module__}:{self.target.__qualname__}"


@dataclasses.dataclass(frozen=True)
class PluginInfo:
    """A plugin, where it comes from, and what it brings or why it brings nothing."""

    name: str
    distribution: str | None = None
    version: str | None = None
    status: Literal["ok", "failed", "disabled"] = "ok"
    reason: str = ""
    records: Mapping[Kind, tuple[Record, ...]] = dataclasses.field(default_factory=dict)

    @property
    def installed(self) -> bool:
        """Whether a distribution brings it, so that a saved model finds it again on another machine."""
        return self.distribution is not None

    @property
    def origin(self) -> str:
        """The distribution with its version, as errors name it."""
        return f"{self.distribution} {self.version}" if self.installed else "registered by hand"

    def __str__(self) -> str:
        return f"{self.name} ({self.origin})"

    def as_dict(self) -> dict[str, Any]:
        """Everything above as plain values, for `ele plugins --json`."""
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
