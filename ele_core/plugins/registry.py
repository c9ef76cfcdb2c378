"""The registry: finds components by name among the loaded plugins.

When two plugins bring a component of the same kind and name, `PLUGIN:NAME` chooses one of them. The name alone means
the component of ELE itself, if it provides one; else it raises an error with both plugins. `clashes` and `ele plugins`
list such names. All other components of both plugins work.
"""

from __future__ import annotations

import functools
import inspect
import pkgutil
import sys
from collections.abc import Iterable, Mapping
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, NoReturn, cast

from ele_core.errors import PluginError, UnknownComponent, closest
from ele_core.extras import OURS
from ele_core.plugins.contained import contained, reason_of, remember
from ele_core.plugins.hookspecs import HOOKS
from ele_core.plugins.loader import DISABLED, collect, load_installed
from ele_core.plugins.records import PluginInfo, Record

if TYPE_CHECKING:
    from ele_core.component import Component
    from ele_core.types import Choice, Kind

NEXT_COMMAND = "Run `ele plugins` to see what is installed."


@functools.cache
def registry() -> Registry:
    """Return the registry of this process: every installed plugin, loaded on the first call."""
    return Registry(load_installed())


def register(plugin: object, name: str | None = None) -> PluginInfo:
    """Add a module or an object with hooks to the registry of this process, as for notebooks and tests."""
    return registry().register(plugin, name)


def registry_of(component: Component) -> Registry:
    """Return the registry that created a component; that of the installed plugins if it was built directly."""
    return component.registry or registry()


def create_part(owner: Component, kind: Kind, choice: Choice, *args: Any, path: str = "") -> Any:
    """Create the component that `choice`, an option of `owner`, names, with the registry that created `owner`."""
    return registry_of(owner).create(kind, choice, *args, path=path)


class Registry:
    """The components of a set of plugins, by kind and name."""

    def __init__(self, plugins: Iterable[PluginInfo] = ()) -> None:
        self._plugins = list(plugins)

    # -- what there is --------------------------------------------------------------------------------------------

    def plugins(self) -> list[PluginInfo]:
        """Return every plugin, with its distribution, version, status, the reason of a failure, and its records."""
        return list(self._plugins)

    def records(self, kind: Kind) -> list[Record]:
        """Return every component of a kind, sorted by name; those of a clash appear once for each plugin."""
        records = [record for plugin in self._plugins for record in plugin.records.get(kind, ())]
        return sorted(records, key=lambda record: record.name)

    def names(self, kind: Kind) -> list[str]:
        """Return the names of the components of a kind, sorted; of a clash those that choose, as `PLUGIN:NAME`."""
        found: set[str] = set()
        for name in {record.name for record in self.records(kind)}:
            providers = self._providers(kind, name)
            chosen = _preferred(providers)
            found |= {name} if chosen else set()
            found |= {f"{plugin.name}:{name}" for plugin in providers if plugin is not chosen}
        return sorted(found)

    def clashes(self) -> dict[tuple[Kind, str], list[PluginInfo]]:
        """Return the names that several plugins provide, each with these plugins; the one that is used is first."""
        names = {kind: sorted({record.name for record in self.records(kind)}) for kind in HOOKS}
        providers = {(kind, name): self._providers(kind, name) for kind in HOOKS for name in names[kind]}
        return {
            key: sorted(plugins, key=lambda plugin: plugin is not _preferred(plugins))
            for key, plugins in providers.items()
            if len(plugins) > 1
        }

    def export(self) -> dict[str, Any]:
        """Return plugins and clashes as plain values, for `ele plugins --json`."""
        return {
            "plugins": [plugin.as_dict() for plugin in self._plugins],
            "clashes": [
                {
                    "kind": kind,
                    "name": name,
                    "plugins": [str(plugin) for plugin in plugins],
                    "used": str(used) if (used := _preferred(plugins)) else None,
                }
                for (kind, name), plugins in self.clashes().items()
            ],
        }

    # -- one of them ----------------------------------------------------------------------------------------------

    def provider(self, kind: Kind, name: str) -> PluginInfo:
        """Return the plugin that provides a component. Raises `UnknownComponent`, or `PluginError` for a clash."""
        return self._found(kind, name)[0]

    def record(self, kind: Kind, name: str) -> Record:
        """Return the record of a component."""
        return self._found(kind, name)[1]

    def get(self, kind: Kind, name: str) -> type[Any]:
        """Import and return the class of a component; `PluginError` if it does not fit its kind."""
        plugin, record = self._found(kind, name)
        where = f"plugin {plugin}, {HOOKS[kind].singular} '{record.name}'"
        if reason := plugin.unavailable(record):
            raise PluginError(f"the {HOOKS[kind].singular} '{name}' {reason}")
        try:
            target = _imported(record.target) if isinstance(record.target, str) else record.target
        except Exception as error:  # a plugin's module can raise anything
            raise PluginError(f"cannot import {record.location}: {reason_of(error)}.", where=where) from error
        if complaint := _unfit(kind, target):
            raise PluginError(f"{record.location} {complaint}.", where=where)
        if plugin.distribution != OURS:
            remember(cast("type[Any]", target), where)
        return cast("type[Any]", target)

    def usable(self, kind: Kind) -> dict[str, type[Any]]:
        """Import and return every component of a kind by name, without those that cannot be imported or do not fit."""
        found = {}
        for name in self.names(kind):
            with suppress(PluginError):
                found[name] = self.get(kind, name)
        return found

    def create(self, kind: Kind, choice: Choice | Mapping[str, Any] | str, *args: Any, path: str = "") -> Any:
        """Create the component that `choice` names as `cls(config, *args)`; errors name `path`, that of the choice."""
        from ele_core.config.resolve import resolve

        cls, config = resolve(kind, choice, path, self)
        component = cls.__new__(cls)
        component.registered_as = choice if isinstance(choice, str) else dict(choice)["name"]
        component.registry = self  # before its __init__, which may create other components
        component.__init__(config, *args)  # type: ignore[misc]  # this is how Python itself builds an object
        return component

    def unknown(self, name: str) -> NoReturn:
        """Raise the error for a name that no kind of component has."""
        names = sorted({each for kind in HOOKS for each in self.names(kind)})
        sentences = [f"no component is called '{name}'{closest(name, names)}", *self._absent()]
        raise UnknownComponent(" ".join(sentences), fix=NEXT_COMMAND)

    # -- without installing ---------------------------------------------------------------------------------------

    def register(self, plugin: object, name: str | None = None) -> PluginInfo:
        """Add a module or an object with hooks; it replaces one that was registered before under the same name.

        Raises `PluginError` for anything wrong with it, also if another plugin already provides one of its components.
        """
        name = name or str(getattr(plugin, "__name__", type(plugin).__name__))
        others = [other for other in self._plugins if other.installed or other.name != name]
        try:
            added = PluginInfo(name, records=collect(plugin))
        except Exception as error:
            raise PluginError(reason_of(error), where=f"plugin {name}") from error
        _refuse_clashes(added, others)
        self._plugins = [*others, added]
        return added

    # -- helpers --------------------------------------------------------------------------------------------------

    def _found(self, kind: Kind, name: str) -> tuple[PluginInfo, Record]:
        """Return the plugin and the record that `name`, or `PLUGIN:NAME`, refers to."""
        providers, own_name = self._providers(kind, name), name
        if not providers and ":" in name:
            plugin_name, _, own_name = name.partition(":")
            providers = [plugin for plugin in self._providers(kind, own_name) if plugin.name == plugin_name]
        if not providers:
            raise UnknownComponent(self._why_unknown(kind, name), fix=NEXT_COMMAND)
        plugin = _preferred(providers)
        if plugin is None:
            raise PluginError(
                f"the {HOOKS[kind].singular} '{name}' is brought by {' and by '.join(map(str, providers))};",
                fix=f"choose one: {' or '.join(f'{plugin.name}:{name}' for plugin in providers)}.",
            )
        return plugin, next(record for record in plugin.records[kind] if record.name == own_name)

    def _providers(self, kind: Kind, name: str) -> list[PluginInfo]:
        return [p for p in self._plugins if any(record.name == name for record in p.records.get(kind, ()))]

    def _why_unknown(self, kind: Kind, name: str) -> str:
        hook, names = HOOKS[kind], self.names(kind)
        elsewhere = [other.singular for key, other in HOOKS.items() if name in self.names(key)]
        sentences = [f"no {hook.singular} is called '{name}'{closest(name, names)}"]
        if elsewhere:
            sentences.append(f"'{name}' is the name of another kind: {', '.join(elsewhere)}.")
        sentences.append(f"Installed {hook.plural}: {', '.join(names) or 'none'}.")
        return " ".join([*sentences, *self._absent()])

    def _absent(self) -> list[str]:
        """Return sentences on failed and disabled plugins, which may bring a component that is not found."""
        sentences = []
        failed = [f"{plugin}: {plugin.reason.rstrip('.')}" for plugin in self._plugins if plugin.status == "failed"]
        if failed:
            sentences.append(f"Plugins that failed to load: {'; '.join(failed)}.")
        disabled = [str(plugin) for plugin in self._plugins if plugin.status == "disabled"]
        if disabled:
            sentences.append(f"Disabled by {DISABLED}: {', '.join(disabled)}.")
        return sentences


def _preferred(providers: list[PluginInfo]) -> PluginInfo | None:
    """Return the plugin that a bare name refers to: the only one, or ELE itself; None if several match."""
    ours = [plugin for plugin in providers if plugin.distribution == OURS]
    chosen = ours or providers
    return chosen[0] if len(chosen) == 1 else None


def _imported(target: str) -> object:
    """Return what `"package.module:Class"` names; the first import is contained."""
    with nullcontext() if target.partition(":")[0] in sys.modules else contained():
        return pkgutil.resolve_name(target)


def _refuse_clashes(added: PluginInfo, others: list[PluginInfo]) -> None:
    theirs = Registry(others)
    for kind, records in added.records.items():
        for record in records:
            for other in theirs._providers(kind, record.name):
                raise PluginError(
                    f"the {HOOKS[kind].singular} '{record.name}' is already brought by {other};",
                    where=f"plugin {added}",
                    fix="give it another name.",
                )


def _unfit(kind: Kind, target: object) -> str | None:
    import ele_core

    base: type[Component] = getattr(ele_core, HOOKS[kind].base)
    if not isinstance(target, type) or not issubclass(target, base):
        return f"should be a subclass of ele_core.{base.__name__}"
    if inspect.isabstract(target):
        return f"does not define {', '.join(sorted(getattr(target, '__abstractmethods__', ())))}"
    config = target.Config
    if not isinstance(config, type) or not issubclass(config, ele_core.ComponentConfig):
        return "has a Config that does not derive from ele_core.ComponentConfig"
    if "name" in config.model_fields:
        return "has an option called 'name', which is reserved for the name of the component itself"
    return _unfit_init(target, base)


def _unfit_init(target: Any, base: Any) -> str | None:
    """Return why a class cannot be created as its base is, from a configuration and the components it is built on."""
    given = list(inspect.signature(base.__init__).parameters)[1:]
    try:
        signature = inspect.signature(target.__init__)
    except ValueError:  # Python cannot tell the parameters
        return None
    try:
        signature.bind(None, *given)
    except TypeError as error:
        own = ", ".join(list(signature.parameters)[1:])
        return f"has an __init__({own}) that cannot be called with ({', '.join(given)}): {error}"
    return None
