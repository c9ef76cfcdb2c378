"""What plugins of earlier versions define that nothing calls any more, and what took its place."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import FunctionType

from ele_core.errors import PluginError

REPLACED: Mapping[str, Mapping[str, str]] = {
    "OutputSpace": {
        "defaults": "nothing, options are chosen by recipes and tasks",
        **dict.fromkeys(("render", "properties", "describe"), "the same method of a nested class `Show`"),
        "losses": "`dropped_note` of a nested class `Show`",
        "infer_format": "`infer` of a nested class `Texts`",
        "parser": "`parse` of a nested class `Texts`",
        **dict.fromkeys(("moves", "neighbours"), "`list`, and `along` if it sorts, of a nested class `Moves`"),
        "sorts_moves": "`along` of a nested class `Moves`",
        **dict.fromkeys(("best_moves", "ranks_moves"), "`best` of a nested class `Moves(PartMoves)`"),
        **dict.fromkeys(("Constraint", "satisfies", "violation", "costly"), "the same of a nested class `Rules`"),
        "constraints_of": "`of` of a nested class `Rules`",
    },
    "Surrogate": {
        **dict.fromkeys(
            ("energies", "energy_at", "estimate", "estimate_near"), "a method of the `Energy` that `energy` returns"
        ),
        "compact": "`stored`",
    },
    "Regressor": {"ways": "`modes`", "choose": "`use_mode`"},
    "Decoder": {"needs_gradient": "`accepts(energy)`, which refuses an energy that is not `smooth`"},
    "InputSpace": dict.fromkeys(("takes_vectors", "default_for_vectors", "takes_arrays"), "the attribute `reads`"),
}
"""Base class → what its subclasses used to define → what they define instead."""

PAGE = "docs/reference/upgrade.md"


def refuse_replaced(cls: type) -> None:
    """Raise `PluginError` if a class defines what its base class no longer has: nothing would call it."""
    for base in cls.__mro__[1:]:
        names = REPLACED.get(base.__name__, {}) if base.__module__.startswith("ele_core.") else {}
        if found := [f"`{name}` (now {names[name]})" for name in names if _defined(cls, base, name)]:
            what = f"{cls.__name__} is written for an earlier version of ELE: it defines {', '.join(found)}."
            raise PluginError(what, fix=f"See {PAGE}.")


def _defined(cls: type, base: type, name: str) -> bool:
    """Whether a class defines a method of this name that its base class does not have."""
    own = inspect.getattr_static(cls, name, None)
    return own is not None and (not hasattr(base, name) or isinstance(own, FunctionType | classmethod))
