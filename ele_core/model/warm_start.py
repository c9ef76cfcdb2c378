"""Start a training from the weights of another model, in the same spaces."""

from __future__ import annotations

import hashlib
from typing import Any

from ele_core.config import RunConfig, with_output
from ele_core.config.diff import changes
from ele_core.errors import ConfigError
from ele_core.interfaces import InputSpace, Learner
from ele_core.model.files import weights_of
from ele_core.model.model import Model

FIX = "Give both the same `output` and `surrogate`, or train from the beginning."


def adopt_output(config: RunConfig, donor: Model) -> RunConfig:
    """Return the configuration with the donor's labels and sizes of outputs; refuse options that contradict them."""
    then, given = donor.config.output, config.output
    if given.name != then.name:
        raise refused(f"its output space is '{then.name}', not '{given.name}'")
    own = with_output(config, donor.space.config)
    differ = changes(own.output.options, {**own.output.options, **given.options})
    if differ:
        raise refused(f"its output space differs: {'; '.join(f'output.{text}' for text in differ.values())}")
    return own


def shared_inputs(config: RunConfig, donor: Model) -> InputSpace[Any] | None:
    """Return the donor's input space, with what it learned, if the configuration asks for the same; else None."""
    return donor.inputs if config.input == donor.config.input else None


def start_from(model: Model, donor: Model) -> list[str]:
    """Copy the donor's surrogate, and its regressor if it is the same on the same inputs; return what was copied."""
    then, now = donor.config.surrogate.name, model.config.surrogate.name
    if then != now:
        raise refused(f"its surrogate is '{then}', not '{now}'")
    if not copied(model.surrogate, donor.surrogate):
        raise refused(f"its surrogate '{then}' has weights of other shapes, or does not learn step by step")
    same = model.inputs is donor.inputs and model.config.regressor.name == donor.config.regressor.name
    return ["surrogate", *(["regressor"] if same and copied(model.regressor, donor.regressor) else [])]


def copied(learner: Learner, donor: Learner) -> bool:
    """Copy what `donor` has learned if it has the same names and shapes; return whether it has.

    A tensor without entries stands for one whose shape is known only after `fit`.
    """
    state, fresh = donor.state(), learner.state()
    same = state.keys() == fresh.keys() and all(
        state[name].shape == value.shape for name, value in fresh.items() if value.numel()
    )
    if same:
        learner.restore({name: value.clone() for name, value in state.items()})
    return same


def digest(model: Model) -> str:
    """Return the SHA-256 of all weights."""
    found = hashlib.sha256()
    for name, tensor in sorted(weights_of(model).items()):
        if not tensor.numel():  # known only after `fit`
            continue
        found.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def refused(reason: str) -> ConfigError:
    """Return the error for a model that a training cannot start from."""
    return ConfigError(f"cannot start from this model: {reason}.", where="warm_start", fix=FIX)
