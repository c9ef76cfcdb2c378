"""Start a training from a trained model: in its output space, with its surrogate, and from its regressor."""

from __future__ import annotations

import hashlib
from typing import Any

from ele_core.config import RunConfig, as_table, merge, plan, resolve
from ele_core.config.diff import changes, flatten
from ele_core.config.plan import trainings
from ele_core.errors import ConfigError
from ele_core.model.files import weights_of
from ele_core.model.model import Model

KEPT = ("output", "surrogate")
"""The sections that a training takes from the model as they are."""
FIX = "Omit what differs, or train from the beginning."


def adopt(config: RunConfig, donor: Model) -> RunConfig:
    """Return the configuration with the donor's output space and surrogate; refuse options that contradict them.

    It records the digest of the donor's weights.
    """
    assert config.start is not None
    taken = {kind: adopted(kind, config, donor) for kind in KEPT}
    start = {"name": config.start.name, "sha256": digest(donor)}
    return plan({**config.given, **taken, "start": start}, None, config.registry)


def adopted(kind: str, config: RunConfig, donor: Model) -> dict[str, Any]:
    """Return a section of the donor, unless the configuration was given other options for it."""
    then, given = as_table(getattr(donor.config, kind)), as_table(config.given.get(kind, {}))
    if given.get("name", then["name"]) != then["name"]:
        raise refused(config, f"its {kind} is '{then['name']}', not '{given['name']}'")
    options = [
        resolve(kind, table, kind, config.registry)[1].model_dump(mode="json")  # type: ignore[arg-type]
        for table in (then, merge(then, given))
    ]
    if differ := changes(*map(flatten, options)):
        raise refused(config, f"its {kind} differs: {'; '.join(f'{kind}.{text}' for text in differ.values())}")
    return {"name": then["name"], **options[0]}


def start_from(model: Model, donor: Model) -> str:
    """Copy what the donor knows: its candidates, its surrogate, and its regressor if it is the same on the same inputs.

    Return which parts were taken, for the user.
    """
    model.surrogate.restore(cloned(donor.surrogate.state()))
    model.candidates = donor.candidates
    kept = "its output space and its loss, as they are"
    if model.inputs is not donor.inputs:
        return f"{kept}; the inputs are of another kind, so the regressor is trained anew"
    if without_training(model) != without_training(donor):
        return f"{kept}, and its input space; the regressor is another, and is trained anew"
    if not any(trainings(as_table(model.config.regressor), "learning_rate")):
        return f"{kept}, and its input space; its regressor takes no starting weights, and is fitted anew"
    model.regressor.restore(cloned(donor.regressor.state()))
    return f"{kept}, its input space, and its regressor, which is trained further"


def without_training(model: Model) -> dict[str, Any]:
    """Return the options of a regressor but those of its training."""
    options = flatten(as_table(model.config.regressor))
    return {path: value for path, value in options.items() if "training" not in path.split(".")}


def cloned(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state that shares no memory with the learner it was taken from."""
    return {name: value.clone() for name, value in state.items()}


def digest(model: Model) -> str:
    """Return the SHA-256 of all weights."""
    found = hashlib.sha256()
    for name, tensor in sorted(weights_of(model).items()):
        if not tensor.numel():  # known only after `fit`
            continue
        found.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def refused(config: RunConfig, reason: str) -> ConfigError:
    """Return the error for a model that a training cannot start from."""
    assert config.start is not None
    return ConfigError(f"cannot start from this model: {reason}.", where=config.start.name, fix=FIX)
