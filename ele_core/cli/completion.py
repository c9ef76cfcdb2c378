"""What a shell proposes for arguments and options: tasks, components and run folders. Imports nothing slow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from ele_core.plugins import PluginInfo
    from ele_core.types import Kind

Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def components(*kinds: Kind) -> Completion:
    """Propose the names of components of these kinds, each with its summary."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from ele_core.plugins import HOOKS

        found = {
            record.name: record.summary
            for plugin in plugins(ctx)
            for kind in kinds or HOOKS
            for record in plugin.records.get(kind, ())
        }
        return [CompletionItem(name, help=found[name]) for name in sorted(found) if name.startswith(incomplete)]

    return complete


def sources(*kinds: Kind) -> Completion:
    """Propose the names of components of these kinds, and TOML files."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        files = [path for path in beginning_with(incomplete) if path.suffix == ".toml" and path.is_file()]
        return [*components(*kinds)(ctx, param, incomplete), *(CompletionItem(str(path)) for path in files)]

    return complete


def recipes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Propose the recipes, and the tasks, whose configurations are recipes too."""
    named = [CompletionItem(name) for name in ("learned", "paper") if name.startswith(incomplete)]
    return [*named, *components("task")(ctx, param, incomplete)]


def kinds(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Propose the kinds of components."""
    from ele_core.plugins import HOOKS

    return [CompletionItem(kind, help=hook.singular) for kind, hook in HOOKS.items() if kind.startswith(incomplete)]


def runs(incomplete: str) -> list[str]:
    """Run folders whose path begins with `incomplete`, also those one folder deeper, such as runs/NAME-1."""
    folders = [path for path in beginning_with(incomplete) if path.is_dir()]
    inside = [path for folder in folders for path in children(folder)]
    return [str(path) for path in [*folders, *inside] if (path / "config.toml").is_file()]


def beginning_with(incomplete: str) -> list[Path]:
    """The paths that begin with `incomplete`, sorted, without hidden ones."""
    given = Path(incomplete)
    folder, start = (given, "") if not incomplete or incomplete.endswith("/") else (given.parent, given.name)
    return [path for path in children(folder) if path.name.startswith(start)]


def children(folder: Path) -> list[Path]:
    """The files and folders in `folder`, sorted, without hidden ones."""
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError:
        return []


def plugins(ctx: click.Context) -> Iterable[PluginInfo]:
    """The plugins of the registry that the command was invoked with, by default the installed ones."""
    from ele_core.plugins import Registry, registry

    return (ctx.find_object(Registry) or registry()).plugins()
