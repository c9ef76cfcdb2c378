"""What plugins of earlier versions define or import that is gone, and what took its place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from ele_core.errors import PluginError

_SHOW = "a nested class `Show(OutputSpace.Show)`"
_TEXTS = "a nested class `Texts(OutputSpace.Texts)`"
_MOVES = "a nested class `Moves(OutputSpace.Moves)`"
_PART_MOVES = "a nested class `Moves` that derives from `ele_core.optional.PartMoves`"
_RULES = "a nested class `Rules(ele_core.Rules)`"
_LIST = "`list`, and `along` if it sorts faster than the default"
_ENERGY = "the `Energy` that `energy(queries)` returns"

REPLACED: Mapping[str, Mapping[str, str]] = {
    "OutputSpace": {
        "defaults": "nothing, options are chosen by recipes and tasks",
        **dict.fromkeys(("render", "properties", "describe"), f"the same of {_SHOW}"),
        "losses": f"`dropped_note` of {_SHOW}",
        "infer_format": f"`infer` of {_TEXTS}",
        "parser": f"`parse`, with its inverse `format`, of {_TEXTS}",
        **dict.fromkeys(("moves", "neighbours", "sorts_moves"), f"{_LIST}, of {_MOVES}"),
        **dict.fromkeys(("best_moves", "ranks_moves"), f"`best` of {_PART_MOVES}"),
        **dict.fromkeys(("Constraint", "violation", "costly"), f"the same of {_RULES}"),
        "satisfies": f"`violation` of {_RULES}, which is 0 where it is satisfied",
        "constraints_of": f"`of` of {_RULES}",
    },
    "Show": {"losses": "`dropped_note`"},
    "TextFormat": {"infer_format": "`infer`", "parser": "`parse`, with its inverse `format`"},
    "Moves": {
        **dict.fromkeys(("moves", "sorts_moves"), _LIST),
        **dict.fromkeys(("best_moves", "ranks_moves"), f"`best` of {_PART_MOVES}"),
    },
    "Rules": {"constraints_of": "`of`"},
    "Surrogate": {
        "fit(outputs, validation, extra, context)": "`fit(data, context)`",
        "energy(queries, batch)": f"`of(batch, owner)` of {_ENERGY}",
        "energies": f"`among(candidates)` of {_ENERGY}",
        "energy_at": f"`at(point, owner)` of {_ENERGY}",
        **dict.fromkeys(("estimate", "estimate_near"), f"`near(batch, owner)` of {_ENERGY}"),
        "compact": "nothing, candidates are kept as embeddings",
        "differentiable": "nothing, a surrogate with `embed_at` has a gradient",
    },
    "Regressor": {
        "fit(train, validation, context)": "`fit(data, context)`",
        "ways": "`modes`",
        "choose(way)": "`use_mode(mode)`",
    },
    "Decoder": {
        "decode(queries, problem)": "`decode(energy, problem, …)`",
        "needs_gradient": "`accepts(energy)`, which refuses an energy that is not `smooth`",
        "accepts(surrogate)": "`accepts(energy)`",
    },
    "InputSpace": {
        **dict.fromkeys(("takes_vectors", "default_for_vectors", "takes_arrays"), "the attribute `reads`"),
        "views": "nothing, it is no longer called",
    },
}
"""Base class → what its subclasses used to define → what they define instead. Parameters: those of old."""

MOVED: Mapping[str, str] = {
    name: module
    for module, names in {
        "ele_core.component": "Component",
        "ele_core.components.inputs.bits": "Bits BitsInput",
        "ele_core.components.inputs.image": "Pictures",
        "ele_core.components.regressors.neural": "NeuralRegressor",
        "ele_core.components.sketching": "KernelOptions Sketch SketchedKernel",
        "ele_core.components.training.optimise": "Training optimise",
        "ele_core.config": "RunConfig",
        "ele_core.data.batches": "ShuffledBatches",
        "ele_core.data.objects": "Rejected",
        "ele_core.data.prepare": "Prepared",
        "ele_core.data.truths": "Truths",
        "ele_core.display.pictures": "Cell sheet_svg",
        "ele_core.errors": "Interrupted InvalidInput ModelError PluginError TrainingError",
        "ele_core.experiments.ranges": "Range",
        "ele_core.experiments.study": "Paths ShareSweep",
        "ele_core.files.atomic": "replace_folder",
        "ele_core.model.evaluate": "Evaluation",
        "ele_core.model.loss": "LearnedLoss",
        "ele_core.model.neighbours": "Neighbours",
        "ele_core.model.results": "DecodingPath PathStep Prediction Predictions",
        "ele_core.model.trust.sets": "PredictionSets",
        "ele_core.networks": "NetworkLearner",
        "ele_core.numerics.edit_distance": "edit_distances",
        "ele_core.numerics.keys": "member mix",
        "ele_core.numerics.sparse": "PartEnergies",
        "ele_core.numerics.sparse_vectors": "SparseColumn SparseVector",
        "ele_core.plugins": "Registry create_part registry",
        "ele_core.report": "Wanted write_report",
        "ele_core.runtime.monitor": "ConsoleMonitor",
        "ele_core.runtime.progress": "PlannedStage",
        "ele_core.types": "MOST_LAYERS Candidates Choice Stage Takes Trace",
    }.items()
    for name in names.split()
}
"""Each name that was public in `ele_core` → the internal module that has it."""

PAGE = "docs/reference/upgrade.md"


def refuse_replaced(cls: type) -> None:
    """Raise `PluginError` if a class, or one nested in it, defines what its base class no longer has."""
    found: dict[str, list[str]] = {}
    for part in (cls, *(part for part in vars(cls).values() if isinstance(part, type))):
        for base in part.__mro__[1:]:
            names = REPLACED.get(base.__name__, {}) if base.__module__.startswith("ele_core.") else {}
            for name in names:
                if _defined(part, base, name):
                    where = name if part is cls else f"{part.__name__}.{name}"
                    found.setdefault(names[name], []).append(f"`{where}`")
    if found:
        listed = "; ".join(f"{', '.join(names)} (now {new})" for new, names in found.items())
        what = f"{cls.__name__} is written for an earlier version of ELE: it defines {listed}."
        raise PluginError(what, fix=f"See {PAGE}.")


def refuse_moved(name: str) -> None:
    """Raise `ImportError` if `name` was public in `ele_core` in an earlier version."""
    if name in MOVED:
        what = f"'{name}' is no longer public in ele_core: write `from {MOVED[name]} import {name}`."
        raise ImportError(f"{what} {PAGE} lists all such names.")


def _defined(cls: type, base: type, replaced: str) -> bool:
    """Whether a class defines a method of this name that its base class does not have, or has with other parameters."""
    name, _, parameters = replaced.rstrip(")").partition("(")
    own = inspect.getattr_static(cls, name, None)
    if not parameters:
        return own is not None and (not hasattr(base, name) or isinstance(own, FunctionType | classmethod))
    if not isinstance(own, FunctionType):
        return False
    old, given = parameters.split(", "), _required(own)
    now = _required(getattr(base, name)) if hasattr(base, name) else old
    return len(given) == len(old) and (len(old) != len(now) or given[0] == old[0])


def _required(function: Callable[..., Any]) -> list[str]:
    """The parameters after `self` that a method must be given by position or name."""
    listed = list(inspect.signature(function).parameters.values())[1:]
    return [one.name for one in listed if one.kind is one.POSITIONAL_OR_KEYWORD and one.default is one.empty]
