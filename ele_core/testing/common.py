"""Checks of every component: its options, and the plugin that brings it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from pydantic import ValidationError

from ele_core import interfaces
from ele_core.config.describe import describe_options
from ele_core.interfaces import KINDS, Component, Kind
from ele_core.plugins import HOOKS, PluginInfo, Record, Registry, registry_of
from ele_core.testing.results import Broken, NotApplicable, require

HEAVY = ("torch", "numpy", "scipy", "sklearn")
"""Packages that must not be imported to list plugins."""
NO_OPTION = "no_option_has_this_name"


def check_options_are_documented(component: Component, *_others: Any) -> None:
    """Every option of the `Config` has a description: a string below the field."""
    bare = [option.path for option in describe_options(type(component)) if not option.description.strip()]
    require(not bare, f"options without a description: {', '.join(bare)}. Write a string below each field")


def check_unknown_options_are_refused(component: Component, *_others: Any) -> None:
    """The `Config` refuses an unknown key, so that a misspelt option is not ignored."""
    try:
        type(component).Config(**{**dict(component.config), NO_OPTION: 1})
    except ValidationError as error:
        extra = [each for each in error.errors() if each["type"] == "extra_forbidden"]
        require(extra, f"an unknown option is refused, but for another reason: {error}")
    else:
        raise Broken(f"the unknown option {NO_OPTION}=1 is accepted: keep extra='forbid' of ComponentConfig")


def check_plugin_module_is_light(component: Component, *_others: Any) -> None:
    """Importing the module with the hooks imports no heavy package, such as torch: every `ele` command imports it."""
    plugin, _ = provider_of(component)
    module = module_of(plugin)
    if module == type(component).__module__:
        raise NotApplicable(f"hooks and component are in the same module, {module}: fine for a plugin of one file")
    program = f"import sys, {module}; print(*sorted(set({HEAVY}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    require(done.returncode == 0, f"importing {module} fails: {done.stderr.strip().splitlines()[-1:]}")
    heavy = done.stdout.strip().replace(" ", ", ")
    require(not heavy, f"importing {module} imports {heavy}: keep the hooks in a module without these imports")


def check_record_leads_to_the_component(component: Component, *_others: Any) -> None:
    """The plugin's record has a summary of one line, and its target is an import string of this class."""
    _, record = provider_of(component)
    require(record.summary.strip(), f"the record '{record.name}' has no summary: write one line")
    require(isinstance(record.target, str), f"the target of '{record.name}' is a class: write it as an import string")


def kind_of(component: Component) -> Kind:
    """The kind of a component, by its base class."""
    return next(kind for kind in KINDS if isinstance(component, getattr(interfaces, HOOKS[kind].base)))


def provider_of(component: Component) -> tuple[PluginInfo, Record]:
    """The installed plugin and the record that bring a component's class; raise `NotApplicable` if there is none."""
    kind, cls = kind_of(component), type(component)
    known = registry_of(component)
    for plugin in known.plugins():
        for record in plugin.records.get(kind, ()):
            if plugin.installed and _leads_to(known, record, cls, kind):
                return plugin, record
    raise NotApplicable(f"no installed plugin brings {cls.__qualname__}")


def module_of(plugin: PluginInfo) -> str:
    """The module that an installed plugin's entry point names."""
    from importlib.metadata import entry_points

    for entry in entry_points(group="ele"):
        if entry.name == plugin.name and entry.dist is not None and entry.dist.name == plugin.distribution:
            return entry.module
    raise NotApplicable(f"the entry point of {plugin} is not found")


def _leads_to(registry: Registry, record: Record, cls: type, kind: Kind) -> bool:
    """Whether a record's target is `cls`; the target is imported only if it is in the same package."""
    if record.location == f"{cls.__module__}:{cls.__qualname__}":
        return True
    same_package = record.location.partition(":")[0].partition(".")[0] == cls.__module__.partition(".")[0]
    return same_package and registry.get(kind, record.name) is cls


COMMON = (
    check_options_are_documented,
    check_unknown_options_are_refused,
    check_record_leads_to_the_component,
    check_plugin_module_is_light,
)
