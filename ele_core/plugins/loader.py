"""Load the plugins of all installed distributions; a failure of one does not affect the others.

pluggy's own loader silently drops a second distribution with the same name, stops at the first import error and
ignores misspelt hooks. Here every entry point of the group `ele` gives one `PluginInfo`, even if it fails.

When two distributions bring a plugin of the same name, neither is loaded and both report it, except that a plugin of
ELE itself keeps its name. `ELE_DISABLED_PLUGINS` lists plugins (or distributions) that are not imported.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import time
from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

import pluggy

from ele_core.errors import PluginError
from ele_core.extras import OURS
from ele_core.plugins import hookspecs
from ele_core.plugins.contained import contained, details_of, reason_of
from ele_core.plugins.hookspecs import GROUP, HOOKS
from ele_core.plugins.records import PluginInfo, Record

if TYPE_CHECKING:
    from ele_core.types import Kind

DISABLED = "ELE_DISABLED_PLUGINS"


def load_installed() -> list[PluginInfo]:
    """Return every installed plugin, whether loaded, disabled or failed, sorted by distribution and name."""
    found = [(_describe(entry), entry) for entry in entry_points(group=GROUP)]
    found.sort(key=lambda pair: (pair[0].distribution or "", pair[0].name))
    enabled = [info for info, _ in found if info.status != "disabled"]
    return [_load(info, entry, enabled) for info, entry in found]


def collect(plugin: object) -> dict[Kind, tuple[Record, ...]]:
    """Return the records that the hooks of one plugin yield, by kind; `PluginError` if a hook or record is wrong.

    Each plugin has its own manager, so its errors do not affect the others.
    """
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs)
    manager.register(plugin)
    _refuse_misspelt(manager, plugin)
    collected = {kind: tuple(_records(manager, hook.name)) for kind, hook in HOOKS.items()}
    _refuse_repeated(collected)
    return {kind: records for kind, records in collected.items() if records}


def _describe(entry: EntryPoint) -> PluginInfo:
    distribution = entry.dist.name if entry.dist else "unknown distribution"
    version = entry.dist.version if entry.dist else "of unknown version"
    info = PluginInfo(entry.name, distribution, version)
    disabled = {name.strip() for name in os.environ.get(DISABLED, "").split(",")}
    if disabled.isdisjoint({info.name, distribution}):
        return info
    return dataclasses.replace(info, status="disabled", reason=f"named in {DISABLED}")


def _load(info: PluginInfo, entry: EntryPoint, enabled: list[PluginInfo]) -> PluginInfo:
    if info.status == "disabled":
        return info
    began = time.perf_counter()
    try:
        _refuse_namesakes(info, enabled)
        with contained():
            loaded = dataclasses.replace(info, records=collect(entry.load()))
    except Exception as error:  # a plugin can raise anything; the others still load
        loaded = dataclasses.replace(info, status="failed", reason=reason_of(error), details=details_of(error))
    return dataclasses.replace(loaded, seconds=time.perf_counter() - began)


def _refuse_namesakes(info: PluginInfo, enabled: list[PluginInfo]) -> None:
    others = [other for other in enabled if other.name == info.name and other is not info]
    if others and info.distribution != OURS:
        names = " and ".join(sorted(plugin.origin for plugin in [info, *others]))
        raise PluginError(
            f"{names} both bring a plugin called '{info.name}';",
            fix=f"uninstall one, or disable it by its distribution's name: {DISABLED}={info.distribution}",
        )


def _refuse_misspelt(manager: pluggy.PluginManager, plugin: object) -> None:
    hooks = [hook.name for hook in HOOKS.values()]
    marked = [caller.name for caller in manager.get_hookcallers(plugin) or []]
    for name in marked:
        if name not in hooks:
            close = get_close_matches(name, hooks, n=1)
            advice = f"did you mean '{close[0]}'?" if close else f"the hooks are {', '.join(hooks)}"
            raise PluginError(f"there is no hook called '{name}';", fix=advice)
    unmarked = [name for name in hooks if inspect.isroutine(getattr(plugin, name, None)) and name not in marked]
    if unmarked:
        raise PluginError(f"'{unmarked[0]}' is not marked as a hook;", fix="write @hookimpl above it")
    if not marked:
        raise PluginError("it has no hooks;", fix="mark its functions with @hookimpl from ele_core")


def _records(manager: pluggy.PluginManager, hook: str) -> Iterator[Record]:
    for result in getattr(manager.hook, hook)():
        # A single record that is returned instead of yielded is refused too.
        for record in result if hasattr(result, "__iter__") else [result]:
            if not isinstance(record, Record) or record is result:
                raise PluginError(f"{hook} should yield `Record(name, target, summary)`, not {record!r}")
            yield record


def _refuse_repeated(collected: dict[Kind, tuple[Record, ...]]) -> None:
    for kind, records in collected.items():
        for name, count in Counter(record.name for record in records).items():
            if count > 1:
                raise PluginError(f"{HOOKS[kind].name} yields '{name}' {count} times")
