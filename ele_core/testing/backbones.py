"""`check_backbone`: every law of a backbone, with an input space that it accepts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ele_core.interfaces import Backbone, InputSpace
from ele_core.testing import networks
from ele_core.testing.common import COMMON
from ele_core.testing.results import CheckResult, after, require, run_checks
from ele_core.testing.samples import fixed_weights, same_tensors
from ele_core.testing.saving import check_model_saves_and_loads

Inputs = InputSpace[Any]


def check_backbone_gives_embeddings(backbone: Backbone, inputs: Inputs) -> None:
    """A batch of B inputs becomes (B, dim) finite floats."""
    networks.require_embeddings(backbone, packed(inputs), backbone.dim)


@after(check_backbone_gives_embeddings)
def check_backbone_leaves_its_batch_alone(backbone: Backbone, inputs: Inputs) -> None:
    """The backbone does not change the batch that it is given."""
    batch = packed(inputs)
    before = batch.map(torch.clone)
    networks.applied(backbone, batch)
    require(same_tensors(before, batch), "the backbone changed its batch in place: clone it first")


@after(check_backbone_leaves_its_batch_alone)
def check_backbone_is_deterministic(backbone: Backbone, inputs: Inputs) -> None:
    """In evaluation mode two calls agree bit for bit and change no state."""
    networks.require_deterministic(backbone, packed(inputs))


@after(check_backbone_is_deterministic)
def check_backbone_rows_are_independent(backbone: Backbone, inputs: Inputs) -> None:
    """The output of a row does not depend on the other rows, such as on their lengths, in evaluation mode."""
    networks.require_independent_rows(backbone, packed(inputs))


@after(check_backbone_gives_embeddings)
def check_backbone_takes_small_batches(backbone: Backbone, inputs: Inputs) -> None:
    """Batches of one input and of no inputs work, in training and in evaluation mode."""
    networks.require_small_batches(backbone, packed(inputs), backbone.dim)


@after(check_backbone_is_deterministic)
def check_backbone_state_is_complete(backbone: Backbone, inputs: Inputs) -> None:
    """A backbone of the same configuration with this one's `state_dict` gives the same outputs."""
    with fixed_weights(seed=99):
        fresh = type(backbone)(backbone.config, inputs, backbone.dim)
    networks.require_state_round_trip(backbone, fresh, packed(inputs))


@after(check_backbone_leaves_its_batch_alone)
def check_backbone_is_trainable(backbone: Backbone, inputs: Inputs) -> None:
    """Finite gradients reach the weights, and not all of them are zero."""
    networks.require_trainable(backbone, packed(inputs))


@after(check_backbone_gives_embeddings)
def check_backbone_tells_inputs_apart(backbone: Backbone, inputs: Inputs) -> None:
    """Different inputs have different outputs."""
    found = networks.applied(backbone, packed(inputs))
    require(
        len(torch.unique(found, dim=0)) == len(found),
        "two different inputs have the same output: the backbone ignores a part of its batch",
    )


BACKBONE_CHECKS = (
    check_backbone_gives_embeddings,
    check_backbone_leaves_its_batch_alone,
    check_backbone_is_deterministic,
    check_backbone_rows_are_independent,
    check_backbone_takes_small_batches,
    check_backbone_state_is_complete,
    check_backbone_is_trainable,
    check_backbone_tells_inputs_apart,
    *COMMON,
    check_model_saves_and_loads,
)


def check_backbone(
    backbone: Backbone, inputs: Inputs, expected_failures: Mapping[str, str] | None = None
) -> list[CheckResult]:
    """Run every check of a backbone that was built for the fitted `inputs`. `expected_failures`: check → reason."""
    return run_checks(BACKBONE_CHECKS, (backbone, inputs), expected_failures)


def packed(inputs: Inputs) -> Any:
    """The examples of fitted inputs, packed."""
    return inputs.pack(inputs.examples())
