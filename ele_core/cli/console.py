"""What a command prints: results on standard output, messages on standard error; less, more, or JSON on demand."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ele_core.display.text import CONTROLS, harmless

if TYPE_CHECKING:
    from ele_core.config import RunConfig
    from ele_core.runtime.monitor import Monitor


@dataclasses.dataclass(frozen=True)
class Console:
    """How much a command prints, and in which form."""

    quiet: bool = False
    verbose: bool = False
    as_json: bool = False

    def monitor(self, afterwards: Sequence[str] = ()) -> Monitor:
        """A monitor that prints messages and progress, or nothing if `quiet`."""
        from ele_core.runtime.monitor import ConsoleMonitor, Monitor

        return Monitor() if self.quiet else ConsoleMonitor(afterwards=afterwards)

    def show(self, text: str) -> None:
        """Print a part of the result for people; nothing if the result is printed as JSON."""
        if not self.as_json:
            click.echo(harmless(text))

    def hint(self, text: str) -> None:
        """Print what to do next; nothing if `quiet` or if the result is printed as JSON."""
        if not self.quiet:
            self.show(text)

    def note(self, text: str) -> None:
        """Print a message to standard error; nothing if `quiet`."""
        if not self.quiet:
            click.echo(harmless(text), err=True)

    def json(self, content: Any) -> None:
        """Print the result as one JSON document if that was asked for."""
        if self.as_json:
            click.echo(escaped(json.dumps(content, indent=2, ensure_ascii=False)))

    def configuration(self, config: RunConfig) -> None:
        """If `verbose`, print the versions, the device and every option to standard error."""
        if not self.verbose:
            return
        from ele_core import config as configuration
        from ele_core.runs.training import versions
        from ele_core.runtime.context import pick_device

        click.echo(", ".join(f"{name} {version}" for name, version in versions(config).items()), err=True)
        shown = f"device: {pick_device(config.device)}\n{configuration.dump(config)}"
        click.echo(harmless(shown), err=True, nl=False)


def escaped(document: str) -> str:
    """A JSON document with the characters that a terminal would obey written as escapes."""
    return "".join(f"\\u{ord(each):04x}" if ord(each) in CONTROLS else each for each in document)
