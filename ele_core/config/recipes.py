"""Recipes: the components and sizes of a run that the user does not give. All defaults of components are here.

A recipe gives sections of a configuration for what reading the data found. `learned` learns the loss from outputs and
pairs; `paper` learns it from outputs alone, on a sphere. The configuration of a task is a recipe too, under the task's
name. What a recipe gives is merged with what the user gave, which takes precedence: an option changes the recipe's
component, and only a name replaces it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, cast

from ele_core.config.resolve import NONE, as_table
from ele_core.config.schema import RunConfig
from ele_core.errors import ConfigError, PluginError
from ele_core.interfaces import InputSpace, OutputSpace
from ele_core.optional import PartMoves
from ele_core.plugins import Registry
from ele_core.sources import Task
from ele_core.types import Choice

OWN_DATA = "learned"
"""The recipe for the user's own data, unless another is given."""
LEAST_STEPS = 500
"""Steps of a stage whose number of epochs the user did not give, however few the pairs."""
MOST_STEPS = 12_000
PASSES = 20
"""Epochs that a network needs, between these bounds."""
PACE = {"learning_rate": 2e-3, "weight_decay": 0.01, "evaluations": 20, "patience": 5}
"""The other options of the training of a network."""
LEAST_WRITING, WRITING_PASSES = 1500, 40
"""Steps and epochs that a network needs to learn to write structures."""
ALIGNED = "joint-ngram"
"""The proposer for texts whose outputs stand beside them; it declines pairs that do not align."""
DECISION_BLOCKS = 150_000
"""Blocks of all pairs together that the generic encoder computes in a step."""
DECISION_STEPS, DECISION_PAIRS, LEAST_DECISIONS = 150, 3000, 200
"""Steps that train the embedding with pairs, how many pairs at most, and how many at least: with fewer its weights stay
random."""
MOVES = 128
"""Moves of a structure that `search` scores where no estimate from parts ranks them, but the gradient does."""
LARGEST_SKETCH = 4000
"""Training inputs that a kernel keeps: four thousand solve in seconds."""
CALIBRATED_FROM = 1000
"""Training pairs of the user's own from which on some are set aside for the calibration."""
BARE = {"input": "text", "surrogate": "contrastive", "regressor": "neural", "decoder": "candidates"}
"""The components of a task that does not name them."""
COLUMNS = "columns"
"""The input space for several columns, each read by itself."""

Sections = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Facts:
    """What reading the data found."""

    input: Choice
    """The input space that reads the values."""
    inputs: InputSpace[Any]
    """The same, created and fitted."""
    space: OutputSpace[Any, Any]
    """The output space, with the options inferred from the outputs."""
    pairs: int
    """Training pairs, without those set aside for the calibration."""
    calibration: float
    """Training pairs set aside: a share if below 1, else a number."""


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A named set of defaults."""

    components: Mapping[str, str]
    """The component of each section."""
    tried: tuple[str, ...]
    """Decoders to choose from on validation pairs, unless the user names one."""
    does: str
    """What this recipe does with the loss, for the user."""
    sized: Callable[[Facts, Registry], Sections]
    """Options of its components that follow from the data."""


def learned(facts: Facts, registry: Registry) -> Sections:
    """An encoder that adds up parts, trained with the pairs; a kernel on inputs; networks that propose structures.

    If inputs are texts, also n-grams of aligned tokens; with more pairs than the kernel can keep, also a network onto
    the loss.
    """
    encoder = encoder_for(facts.space, registry, additive=True)
    batch, used = 64, min(facts.pairs, decision_pairs(encoder["name"], facts.space))
    length = {"pairs": used, "epochs": round(DECISION_STEPS * batch / max(1, used), 2), "batch_size": batch}
    decisions = {**length, "learning_rate": 3e-3, "evaluations": 5} if used >= LEAST_DECISIONS else NONE
    surrogate = {
        "name": "contrastive",
        "dim": 512,
        "encoder": encoder,
        "spherical": False,
        "training": NONE,
        "decisions": decisions,
    }
    network = neural(facts, registry) if facts.pairs > LARGEST_SKETCH else None
    kernel = ridge(facts)
    stacked = {"name": "stacked", "network": network or NONE, "kernel": kernel}
    joint = {
        "name": "joint",
        "loss": stacked,
        "writer": writer(facts, registry) or NONE,
        "blocks": blocks(facts, registry) or NONE,
    }
    if accepting(registry, "proposer", ALIGNED, facts.inputs):
        joint["aligned"] = {"name": ALIGNED}
    decoder = {"name": "search"} if isinstance(facts.space.moves, PartMoves) else {"name": "search", "moves": MOVES}
    return {"surrogate": surrogate, "regressor": joint, "decoder": decoder}


def decision_pairs(encoder: str, space: OutputSpace[Any, Any]) -> int:
    """Return how many pairs to train the embedding with: fewer if the generic encoder has many blocks to compute."""
    if encoder != "blocks":
        return DECISION_PAIRS
    blocks = sum(math.prod(convex.label_shape) for convex in space.geometry.values())
    return min(DECISION_PAIRS, max(LEAST_DECISIONS, DECISION_BLOCKS // max(1, blocks)))


def paper(facts: Facts, registry: Registry) -> Sections:
    """An encoder made for the structures, and a network; a kernel if no backbone reads the inputs."""
    batch = min(256, facts.pairs)
    training = {"epochs": epochs(facts.pairs, batch), "batch_size": batch, "evaluations": 20, "patience": 5}
    surrogate = {"name": "contrastive", "encoder": encoder_for(facts.space, registry), "training": training}
    return {"surrogate": surrogate, "regressor": neural(facts, registry) or ridge(facts)}


RECIPES: Mapping[str, Recipe] = {
    "learned": Recipe(
        {"surrogate": "contrastive", "regressor": "joint", "decoder": "search"},
        ("search", "candidates"),
        "the loss is learned from your structures and pairs",
        learned,
    ),
    "paper": Recipe(
        {"surrogate": "contrastive", "regressor": "neural", "decoder": "pgd"},
        ("pgd", "candidates"),
        "the loss is learned from your structures alone, as in the paper",
        paper,
    ),
}


def calibration_pairs(pairs: int) -> int:
    """Return how many of so many training pairs of the user's own to set aside for the calibration."""
    return min(max(100, pairs // 20), 2000) if pairs >= CALIBRATED_FROM else 0


def own_data(given: Mapping[str, Any]) -> bool:
    """Whether a run is trained on the user's own data, not on those of a task."""
    return given.get("task") in (None, NONE) or given.get("data") not in (None, NONE)


def recipe_name(given: Mapping[str, Any], registry: Registry) -> str:
    """Return the name of the recipe of a run: as given, else of its task, or that for the user's own data.

    Raises `ConfigError` if there is no such recipe, and `PluginError` if there is no such task.
    """
    name = given.get("recipe")
    if name in (None, NONE):
        task = named_task(given)
        return OWN_DATA if own_data(given) or task is None else cast("str", task["name"])
    known = [*RECIPES, *registry.names("task")]
    if name not in known:
        close = get_close_matches(str(name), known, n=1)
        guess = f"did you mean '{close[0]}'? " if close else ""
        tasks = ", ".join(known[len(RECIPES) :]) or "none"
        raise ConfigError(f"recipe: no recipe is called {name!r}; {guess}Recipes: {', '.join(RECIPES)}; tasks: {tasks}")
    return cast("str", name)


def recipe_sections(name: str, given: Mapping[str, Any], facts: Facts | None, registry: Registry) -> Sections:
    """Return the sections of a recipe, as far as they are known: without `facts`, sizes are missing.

    The spaces, and what follows from inputs, are those of the given task, else as the data were read.
    """
    own, task = own_data(given), named_task(given)
    spaces = {} if task is None else task_sections(task, registry, own)
    spaces = {key: section for key, section in spaces.items() if key in ("input", "output", "constraints")}
    if name not in RECIPES:
        chosen = task if task is not None and task["name"] == name else {"name": name}
        sections = {**BARE, **task_sections(chosen, registry, own)}
        sections.pop("output", None)
        sections["input"] = input_of(given)
    else:
        recipe = RECIPES[name]
        sections = {"input": input_of(given), **recipe.components, **(recipe.sized(facts, registry) if facts else {})}
        if "name" not in tabled(given.get("decoder")) and "selection" not in given:
            sections["selection"] = {"decoders": list(recipe.tried)}
    if facts is not None:
        sections |= {"input": as_table(facts.input), "calibration": {"pairs": facts.calibration}}
    return {**sections, **spaces}


def input_of(given: Mapping[str, Any]) -> str:
    """Return the input space of a run, as far as it is known before data are read."""
    columns = tabled(given.get("data")).get("input")
    return BARE["input"] if columns is None or isinstance(columns, str) else COLUMNS


def default_components(name: str | None, registry: Registry) -> Sections:
    """Return the components of a recipe for the user's own data, without options that follow from the data."""
    given = {"recipe": name}
    return recipe_sections(recipe_name(given, registry), given, None, registry)


def task_sections(task: Mapping[str, Any], registry: Registry, own: bool) -> Sections:
    """Return the configuration of a task, given as a table; with `own` data without labels and sizes of its outputs.

    These are the required options of the output space, which it infers from data.
    """
    cls = cast("type[Task]", registry.get("task", task["name"]))
    found = cls.defaults_for({key: value for key, value in task.items() if key != "name"})
    sections = {key: as_table(value) if isinstance(value, Choice) else value for key, value in found.items()}
    output = sections.get("output")
    if own and isinstance(output, Mapping):
        fields = registry.get("output", output["name"]).Config.model_fields
        kept = {key: value for key, value in output.items() if key not in fields or not fields[key].is_required()}
        sections["output"] = kept
    return sections


def recipe_line(config: RunConfig) -> str:
    """Return a line for the user: which recipe a run took and why, and which components were given instead."""
    name, given = config.recipe, config.given
    recipe = RECIPES.get(name or "")
    why = "as given" if given.get("recipe") else "your own data" if own_data(given) else "the task's own configuration"
    if recipe is None:
        return f"recipe: {name} ({why})"
    chosen = {kind: getattr(config, kind).name for kind in recipe.components}
    others = [f"{kind}={own}" for kind, own in chosen.items() if own != recipe.components[kind]]
    others = [each for each in others if not (each.startswith("decoder=") and config.selection.decoders)]
    if chosen["surrogate"] == recipe.components["surrogate"]:
        why += f": {recipe.does}"
    return f"recipe: {name} ({why})" + (f", with {', '.join(others)}" if others else "")


# -- sizes that follow from the data --------------------------------------------------------------------------------


def neural(facts: Facts, registry: Registry) -> Sections | None:
    """Return a network on inputs with a budget of steps for the pairs; None if no backbone reads the inputs."""
    backbone = facts.inputs.defaults(facts.pairs).get("backbone") or backbone_for(facts.inputs, registry)
    if backbone is None:
        return None
    batch = 64 if facts.pairs < 10_000 else 128
    training = {"epochs": epochs(facts.pairs, batch), "batch_size": batch, **PACE}
    return {"name": "neural", "backbone": dict(backbone), "training": training}


def writer(facts: Facts, registry: Registry) -> Sections | None:
    """Return a network that writes structures, with steps for the pairs; None if no backbone reads the inputs."""
    backbone = facts.inputs.defaults(facts.pairs).get("backbone") or backbone_for(facts.inputs, registry)
    if backbone is None:
        return None
    width = 256 if facts.pairs >= 3000 else 128
    batch = 32 if facts.pairs < 3000 else 64
    steps = min(max(WRITING_PASSES * facts.pairs / batch, LEAST_WRITING), MOST_STEPS)
    length = round(steps * min(batch, facts.pairs) / facts.pairs, 2)
    training = {"epochs": length, "batch_size": batch, **PACE}
    return {"name": "writer", "backbone": dict(backbone), "width": width, "training": training}


def blocks(facts: Facts, registry: Registry) -> Sections | None:
    """Return a network that gives each block a likelihood, with the budget of `neural`.

    None if no backbone reads the inputs, or if structures have several packings: their blocks have no fixed places.
    """
    network = neural(facts, registry)
    if network is None or type(facts.space).equivalents is not OutputSpace.equivalents:
        return None
    backbone = network["backbone"]
    if backbone["name"] == "mlp":  # a norm loses the scale of features, which log-odds need
        backbone = {"layer_norm": False, **backbone}
    return {**network, "name": "blocks", "backbone": backbone}


def ridge(facts: Facts) -> Sections:
    """Return a kernel on inputs that keeps as many of them as it can solve for."""
    own = facts.inputs.defaults(facts.pairs).get("kernel", {})
    return {"name": "sketched-ridge", "sketch": {"size": min(facts.pairs, LARGEST_SKETCH)}, **own}


def epochs(pairs: int, batch: int) -> float:
    """Return the passes over the pairs that give a network neither few nor too many steps."""
    steps = min(max(PASSES * pairs / batch, 2 * LEAST_STEPS), MOST_STEPS)
    return round(steps * min(batch, pairs) / pairs, 2)


def backbone_for(inputs: InputSpace[Any], registry: Registry) -> Sections | None:
    """Return the first installed backbone that accepts the input space, or None."""
    names = registry.names("backbone")
    return next(({"name": name} for name in names if accepting(registry, "backbone", name, inputs)), None)


def encoder_for(space: OutputSpace[Any, Any], registry: Registry, *, additive: bool = False) -> Sections:
    """Return an installed encoder that accepts the output space; with `additive`, one that adds up parts.

    One that accepts only some spaces is preferred to one for all, one of the same package to others, and of several
    the one that its plugin lists first.
    """
    found = {name: accepting(registry, "encoder", name, space) for name in registry.names("encoder")}
    fitting = {name: cls for name, cls in found.items() if cls is not None and (cls.additive or not additive)}
    listed = [record.name for plugin in registry.plugins() for record in plugin.records.get("encoder", ())]
    own = type(space).__module__.partition(".")[0]

    def preference(name: str) -> tuple[bool, bool, int]:
        cls, place = fitting[name], listed.index(name.rpartition(":")[2])
        return "accepts" not in vars(cls), cls.__module__.partition(".")[0] != own, place

    return {"name": min(fitting, key=preference)}


def accepting(registry: Registry, kind: Any, name: str, space: Any) -> type[Any] | None:
    """Return the component if it can be loaded and accepts a space, else None."""
    try:
        cls: type[Any] = registry.get(kind, name)
        cls.accepts(space)
    except (ConfigError, PluginError):
        return None
    return cls


def named_task(given: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the section of the task if it has a name, else None."""
    task = tabled(given.get("task"))
    return task if isinstance(task.get("name"), str) and task["name"] != NONE else None


def tabled(value: Any) -> Mapping[str, Any]:
    """Return a section as a table; an empty one if it is not given or not a section."""
    table = as_table(value)
    return table if isinstance(table, Mapping) else {}
