"""The records that plugins yield, and the description of a loaded or failed plugin."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from ele_core.display.text import listed
from ele_core.errors import PluginError
from ele_core.extras import OURS, how_to_install, installed

if TYPE_CHECKING:
    from ele_core.types import Kind


@dataclasses.dataclass(frozen=True)
class Record:
    """The name, class and summary of a component: `Record("nearest", "my_package.decoders:Nearest", "One line.")`."""

    name: str
    """What users write in a configuration, such as `decoder = "pgd"`."""
    target: str | type
    """The class as `"package.module:Class"`, which is imported only when it is used; or the class itself."""
    summary: str = ""
    """One line on the component, shown in lists."""
    needs: tuple[str, ...] = ()
    """Modules that a plain install of the plugin does not bring; without them the component cannot be used."""
    extra: str = ""
    """The extra of the plugin's distribution that installs these modules."""

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
    def missing(self) -> list[str]:
        """The modules among `needs` that are not installed."""
        return [module for module in self.needs if not installed(module)]

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
    """Why it failed or is disabled, in one line."""
    details: str = ""
    """The traceback of a failure, without the lines that imported the plugin."""
    seconds: float | None = dataclasses.field(default=None, compare=False)
    """The time that its import took; None if it was not imported."""
    records: Mapping[Kind, tuple[Record, ...]] = dataclasses.field(default_factory=dict)

    @property
    def installed(self) -> bool:
        """Whether it comes from a distribution: only then can another process load a saved model that uses it."""
        return self.distribution is not None

    @property
    def origin(self) -> str:
        """The distribution with its version, as errors name it."""
        return f"{self.distribution} {self.version}" if self.installed else "registered by hand"

    def __str__(self) -> str:
        return f"{self.name} ({self.origin})"

    def unavailable(self, record: Record) -> str:
        """Why a record of this plugin cannot be used here, and what to do; an empty text if it can."""
        if not record.missing:
            return ""
        needed = f"needs {listed(record.missing)}, which {'is' if len(record.missing) == 1 else 'are'} not installed."
        return f"{needed} {how_to_install(record.extra, self.distribution or OURS)}" if record.extra else needed

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, for `ele plugins --json`."""
        return {
            "name": self.name,
            "distribution": self.distribution,
            "version": self.version,
            "status": self.status,
            "reason": self.reason,
            "details": self.details,
            "seconds": self.seconds,
            "records": [
                {
                    "kind": kind,
                    "name": record.name,
                    "target": record.location,
                    "summary": record.summary,
                    "unavailable": self.unavailable(record),
                }
                for kind, records in self.records.items()
                for record in records
            ],
        }


def _is_import_string(target: object) -> bool:
    if not isinstance(target, str):
        return False
    module, colon, attribute = target.partition(":")
    return bool(colon) and all(part.isidentifier() for part in [*module.split("."), *attribute.split(".")])
