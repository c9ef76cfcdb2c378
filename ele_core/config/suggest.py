"""Options that suit the data: what the user did not choose follows from the spaces and from the number of pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ele_core.config.resolve import as_table, merge
from ele_core.config.schema import RunConfig, load
from ele_core.errors import ConfigError, PluginError
from ele_core.interfaces import InputSpace
from ele_core.plugins import Registry

LEAST_STEPS = 500
"""Steps of a stage whose number of epochs the user did not give, however few the pairs."""
MOST_STEPS = 12_000
PASSES = 20
"""Epochs that a network needs, between these bounds."""
LARGEST_SKETCH = 4000
"""Training inputs that a kernel keeps: four thousand solve in seconds."""


CALIBRATED_FROM = 1000
"""Training pairs of the user's own from which on some are set aside for the calibration."""


def calibration_pairs(pairs: int) -> int:
    """Return how many of so many training pairs of the user's own to set aside for the calibration."""
    return min(max(100, pairs // 20), 2000) if pairs >= CALIBRATED_FROM else 0


def suited(config: RunConfig, inputs: InputSpace[Any], pairs: int, *, own_data: bool) -> RunConfig:
    """Return the configuration with the options that the user did not give set to suit `pairs` training pairs.

    With the user's own data, the spaces suggest how to learn and to decode. A task has its own options for this; if
    only a part of its data is used, its numbers of epochs are raised so that no stage has hardly any steps.
    """
    given = config.given
    if own_data:
        suggested = merge(suggestions(config, inputs, pairs), given)
        return within_budget(load(suggested, registry=config.registry) if suggested != given else config)
    raised = {name: floored(as_table(value), given.get(name), pairs) for name, value in config if name in TRAINED}
    changes = {name: table for name, table in raised.items() if table}
    config = load(merge(config.model_dump(), changes), registry=config.registry) if changes else config
    return within_budget(config)


TRAINED = ("surrogate", "regressor")


def suggestions(config: RunConfig, inputs: InputSpace[Any], pairs: int) -> dict[str, Any]:
    """Return sections for options that are not given: an embedding that adds up parts, a network and a kernel, search.

    An option of a section without its name belongs to the component that this
    section has by default.
    """
    own, given = inputs.defaults(pairs), config.given
    network = neural(own.get("backbone") or backbone_for(inputs, config.registry), pairs)
    kernel = {"name": "sketched-ridge", "sketch": {"size": min(pairs, LARGEST_SKETCH)}, **own.get("kernel", {})}
    regressor = as_table(given.get("regressor", {}))
    unnamed = isinstance(regressor, Mapping) and regressor and "name" not in regressor
    stacked = {"name": "stacked", "network": network or "none", "kernel": kernel}
    sections: dict[str, Any] = {
        "input": as_table(config.input),
        "surrogate": {"name": "parts"},
        "regressor": (network or {}) if unnamed else stacked,
        "decoder": {"name": "search"},
    }
    if "surrogate" in given and "name" not in as_table(given["surrogate"]):
        sections["surrogate"] = {"name": config.surrogate.name}
    if "decoder" in given and "name" not in as_table(given["decoder"]):
        sections["decoder"] = {"name": config.decoder.name}
    if "decoder" not in given and "selection" not in given:
        sections["selection"] = {"decoders": ["search", "candidates"]}
    return sections


def neural(backbone: Mapping[str, Any] | None, pairs: int) -> dict[str, Any] | None:
    """Return a network on inputs with a budget of steps for so many pairs; None if no backbone reads the inputs."""
    if backbone is None:
        return None
    batch = 64 if pairs < 10_000 else 128
    steps = min(max(PASSES * pairs / batch, 2 * LEAST_STEPS), MOST_STEPS)
    training = {
        "epochs": round(steps * min(batch, pairs) / pairs, 2),
        "batch_size": batch,
        "learning_rate": 2e-3,
        "weight_decay": 0.01,
        "evaluations": 20,
        "patience": 5,
    }
    return {"name": "neural", "backbone": dict(backbone), "training": training}


def backbone_for(inputs: InputSpace[Any], registry: Registry) -> dict[str, Any] | None:
    """Return the first installed backbone that accepts the input space, or None."""
    for name in registry.names("backbone"):
        try:
            registry.get("backbone", name).accepts(inputs)
        except (ConfigError, PluginError):
            continue
        return {"name": name}
    return None


def floored(section: Mapping[str, Any], given: Any, pairs: int) -> dict[str, Any]:
    """Return the changes that raise `training.epochs` to `LEAST_STEPS` steps, unless the user gave the epochs."""
    training, own = section.get("training"), as_table(given) if given is not None else {}
    if not isinstance(training, Mapping) or "epochs" in (own.get("training") or {}):
        return {}
    batch = min(training["batch_size"], pairs)
    least = LEAST_STEPS * batch / pairs
    return {"training": {"epochs": round(least, 2)}} if training["epochs"] < least else {}


def within_budget(config: RunConfig) -> RunConfig:
    """Return the configuration with its `epochs` or `minutes` given to every stage that trains a network."""
    if config.epochs is None and config.minutes is None:
        return config
    option = "epochs" if config.minutes is None else "minutes"
    if config.epochs is not None and config.minutes is not None:
        raise ConfigError("epochs and minutes exclude each other.", where="config", fix="Give one of them.")
    sections = config.model_dump() | {"epochs": None, "minutes": None}
    stages = [table for name in TRAINED for table in trainings(sections[name], option)]
    if not stages:
        what = "this model trains no network, so its training has no length to choose."
        raise ConfigError(what, where=option, fix="Leave it out.")
    for training in stages:
        training[option] = config.epochs if config.minutes is None else config.minutes / len(stages)
    return load(sections, registry=config.registry)


def trainings(section: dict[str, Any], option: str) -> Iterator[dict[str, Any]]:
    """Yield every table `training` of a section that has the option, also those of components inside components."""
    for name, value in section.items():
        if isinstance(value, dict):
            own = name == "training" and option in value
            yield from [value] if own else trainings(value, option)
