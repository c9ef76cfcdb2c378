"""Make a configuration: what the user gave, and what reading the data found, become one `RunConfig`.

`plan` is the only place where this happens. `load` reads what the user gave and plans without data, which refuses all
that can be known to be wrong before they are read; training plans once more when they are.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import BaseModel

from ele_core.config.recipes import (
    LEAST_STEPS,
    MOST_STEPS,
    PASSES,
    RECIPES,
    Facts,
    own_data,
    recipe_name,
    recipe_sections,
    tabled,
)
from ele_core.config.resolve import as_table, merge, validate
from ele_core.config.schema import RunConfig, dump, with_output
from ele_core.errors import ConfigError, PluginError, UnknownComponent
from ele_core.plugins import Registry
from ele_core.plugins import registry as installed
from ele_core.types import Choice

LARGEST = 4 << 20
"""Bytes of the largest configuration file that is read."""
TRAINED = ("surrogate", "regressor")
"""The sections of components that may train networks."""
GENTLE_RATE = 2e-4
"""The largest learning rate of a network that starts from learned weights."""
Overrides = Sequence[str] | Mapping[str, Any]
"""Options to change: a table of sections, or texts such as `decoder.steps=200`."""


def load(
    source: str | Path | Mapping[str, Any], overrides: Overrides = (), registry: Registry | None = None
) -> RunConfig:
    """Resolve the configuration of a TOML file, a task's name or a mapping, with `overrides`, before data are read."""
    registry = registry or installed()
    return plan(merge(read_source(source, registry), as_changes(overrides)), None, registry)


def plan(given: Mapping[str, Any], facts: Facts | None, registry: Registry) -> RunConfig:
    """Return the configuration of a run from what the user gave and what reading the data found.

    A pure function. What is not given is taken from the recipe. All problems are reported in one `ConfigError`. Without
    `facts`, nothing is known of the data: sizes are the defaults of the components.
    """
    given = {name: as_table(value) if isinstance(value, BaseModel) else value for name, value in given.items()}
    problems: list[str] = []
    name, sections = None, {}
    try:
        name = recipe_name(given, registry)
        sections = recipe_sections(name, given, facts, registry)
    except ConfigError as error:
        problems.append(str(error))
    except PluginError as error:  # of the task, which is the recipe or has the spaces
        problems.append(f"{'recipe' if given.get('recipe') else 'task.name'}: {error}")
    reported = {"task"} if problems and not given.get("recipe") else set()
    known = given if facts is not None or not given.get("start") else without_options(given)
    values = {key: value for key, value in merge(sections, known).items() if key not in reported}
    config = validate(RunConfig, {**values, "recipe": name}, "", registry, known=problems)
    if config.epochs is not None and config.minutes is not None:
        raise ConfigError("epochs and minutes exclude each other.", where="config", fix="Give one of them.")
    if facts is not None:
        config = with_output(config, facts.space.config)
        if name not in RECIPES:
            config = with_least_steps(config, given, facts.pairs)
        config = within_budget(config)
    config._registry, config._given = registry, given
    return config


def without_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was given without options of components that a model to start from names, which is not read yet."""
    unnamed = [name for name in (*TRAINED, "decoder") if "name" not in tabled(given.get(name))]
    return {name: value for name, value in given.items() if name not in unnamed}


def template(config: RunConfig) -> str:
    """Return TOML text to edit: every option of a task; for the user's own data what was given, and the recipe."""
    if not own_data(config.given):
        return dump(config)
    return tomli_w.dumps({"recipe": config.recipe, **config.given})


def with_least_steps(config: RunConfig, given: Mapping[str, Any], pairs: int) -> RunConfig:
    """Raise the `training.epochs` of a task for fewer pairs than its own, unless the user gave them."""
    changed = {}
    for name in TRAINED:
        section = as_table(getattr(config, name))
        training, own = section.get("training"), tabled(tabled(given.get(name)).get("training"))
        if isinstance(training, Mapping) and "epochs" not in own:
            least = LEAST_STEPS * min(training["batch_size"], pairs) / pairs
            if training["epochs"] < least:
                raised = {**training, "epochs": round(least, 2)}
                changed[name] = Choice.model_validate({**section, "training": raised})
    return config.model_copy(update=changed)


def within_budget(config: RunConfig) -> RunConfig:
    """Return the configuration with its `epochs` given to every stage that trains a network.

    Its `minutes` stay: the training shares them out on the clock.
    """
    if config.epochs is None and config.minutes is None:
        return config
    option = "epochs" if config.minutes is None else "minutes"
    learning = TRAINED if config.start is None else TRAINED[1:]
    sections = {name: as_table(getattr(config, name)) for name in learning}
    stages = [table for section in sections.values() for table in trainings(section, option)]
    if not stages:
        what = "this model trains no network, so its training has no length to choose."
        raise ConfigError(what, where=option, fix="Omit it.")
    if config.minutes is not None:
        return config
    for training in stages:
        training["epochs"] = config.epochs
    changed = {name: Choice.model_validate(section) for name, section in sections.items()}
    return config.model_copy(update={**changed, "epochs": None})


def continued(choice: Choice, pairs: int) -> dict[str, Any]:
    """Return the section of a component whose networks go on from learned weights: gently, with steps for the pairs."""
    section: dict[str, Any] = as_table(choice)
    for training in trainings(section, "learning_rate"):
        batch, rate = min(64, training["batch_size"]), min(GENTLE_RATE, training["learning_rate"])
        length = {
            "epochs": min(PASSES, round(MOST_STEPS * batch / max(1, pairs), 2)),
            "minutes": None,
            "batch_size": batch,
        }
        gentle = {**length, "learning_rate": rate, "evaluations": 20, "patience": 5, "keep_start": True}
        training |= {option: value for option, value in gentle.items() if option in training}
    return section


def trainings(section: dict[str, Any], option: str) -> Iterator[dict[str, Any]]:
    """Yield every table of a section that trains a network and has the option, also of components inside components."""
    for value in section.values():
        if isinstance(value, dict):
            own = "batch_size" in value and option in value
            yield from [value] if own else trainings(value, option)


# -- what the user gave -----------------------------------------------------------------------------------------------


def read_source(source: str | Path | Mapping[str, Any], registry: Registry) -> dict[str, Any]:
    """Return what a TOML file, a mapping, or the name of a task or an output space gives."""
    if isinstance(source, Mapping):
        return {name: as_table(value) if isinstance(value, BaseModel) else value for name, value in source.items()}
    path = Path(source)
    if isinstance(source, str) and not path.is_file():
        try:
            registry.provider("task", source)
        except UnknownComponent as error:
            if source in registry.names("output"):
                return {"output": {"name": source}}
            raise ConfigError(f"there is no file '{source}', and {error.what}", fix=error.fix) from None
        return {"task": {"name": source}}
    return _read_toml(path)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > LARGEST:
            raise ConfigError(f"is larger than {LARGEST:,} bytes: this cannot be a configuration.", where=str(path))
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}.", where=str(path)) from error
    except (ValueError, RecursionError) as error:  # not TOML or UTF-8, a number of 5,000 digits, nested too deeply
        raise ConfigError(f"is not valid TOML: {error}.", where=str(path)) from error


def as_changes(overrides: Overrides) -> Mapping[str, Any]:
    """Return overrides as one table; texts are parsed, a section's name and its options may come in any order."""
    if isinstance(overrides, Mapping):
        return overrides
    table: dict[str, Any] = {}
    for path, text in sorted(map(_split, overrides), key=lambda pair: len(pair[0])):
        put(table, path, _parse_value(text))
    return table


def at(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by dotted path as one table of sections."""
    table: dict[str, Any] = {}
    for path, value in sorted(options.items(), key=lambda pair: pair[0].count(".")):
        put(table, path.split("."), value)
    return table


def put(table: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Set the option at `path` in a table of sections."""
    *sections, last = path
    for key in sections:
        section = as_table(table.get(key))
        table[key] = dict(section) if isinstance(section, Mapping) else {}
        table = table[key]
    table[last] = value


def _split(override: str) -> tuple[list[str], str]:
    path, equals, text = override.partition("=")
    keys = [key.strip() for key in path.split(".")]
    if not equals or not all(keys):
        raise ConfigError(f"'{override}' is not an override;", fix="write it as section.option=value.")
    return keys, text.strip()


def _parse_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
