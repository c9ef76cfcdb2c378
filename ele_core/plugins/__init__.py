"""Plugins: the records that their hooks yield, and the registry that finds components by name.

A plugin is a module with hooks, declared in its package's entry points. It imports nothing heavy:

    from ele_core import Record, hookimpl

    @hookimpl
    def ele_decoders():
        yield Record("nearest", "my_package.decoding:Nearest", "The nearest training output.")

`ele_core.plugins.hookspecs` has one such example for each kind of component.
"""

from ele_core.plugins.contained import noted
from ele_core.plugins.hookspecs import HOOKS, hookimpl
from ele_core.plugins.records import PluginInfo, Record
from ele_core.plugins.registry import Registry, create_part, register, registry, registry_of

__all__ = [
    "HOOKS",
    "PluginInfo",
    "Record",
    "Registry",
    "create_part",
    "hookimpl",
    "noted",
    "register",
    "registry",
    "registry_of",
]
