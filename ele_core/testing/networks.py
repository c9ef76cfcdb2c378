"""Requirements that encoders and backbones share, on a network and a batch for it."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from ele_core.errors import counted
from ele_core.testing.global_generators import require_own_randomness
from ele_core.testing.output_measures import close
from ele_core.testing.results import NotApplicable, require
from ele_core.testing.samples import fixed_weights


def applied(network: nn.Module, batch: Any, *, training: bool = False) -> Tensor:
    """The network's output, in evaluation mode unless `training`; restores the mode and torch's global generator."""
    before = network.training
    network.train(training)
    try:
        with fixed_weights():
            found: Tensor = network(batch)
            return found
    finally:
        network.train(before)


def require_embeddings(network: nn.Module, batch: Any, dim: int) -> None:
    """Require outputs of shape (B, dim) that are finite floats."""
    found = applied(network, batch)
    require(
        found.shape == (len(batch), dim), f"{len(batch)} rows became {tuple(found.shape)}, not ({len(batch)}, {dim})"
    )
    require(found.is_floating_point(), f"the output is {found.dtype}, not floats")
    require(found.isfinite().all(), "the output is not finite")


def require_independent_rows(network: nn.Module, batch: Any) -> None:
    """Require that the output of a row is the same alone as in a batch."""
    together = applied(network, batch)
    for row in range(len(batch)):
        alone = applied(network, batch[row : row + 1])
        require(close(alone, together[row : row + 1]), f"the output of row {row} depends on the other rows")


def require_small_batches(network: nn.Module, batch: Any, dim: int) -> None:
    """Require that batches of one row and of none work in both modes."""
    for training in (False, True):
        for count in (1, 0):
            found = applied(network, batch[:count], training=training)
            mode = "training" if training else "evaluation"
            require(
                found.shape == (count, dim),
                f"{counted(count, 'row')} became {tuple(found.shape)} in {mode} mode, not ({count}, {dim})",
            )


def require_deterministic(network: nn.Module, batch: Any) -> None:
    """Require calls in evaluation mode to be bit-equal, to change no state, and to draw nothing."""
    network = copy.deepcopy(network).eval()
    require_own_randomness("a call in evaluation mode", lambda: network(batch))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        first = network(batch)
        torch.manual_seed(2)
        second = network(batch)
    require(
        torch.equal(first, second),
        "two calls in evaluation mode give different outputs: use randomness only if `self.training`",
    )
    after = network.state_dict()
    changed = [name for name, value in before.items() if not torch.equal(value, after[name])]
    require(not changed, f"a call in evaluation mode changes {', '.join(changed)}")


def require_state_round_trip(network: nn.Module, fresh: nn.Module, batch: Any) -> None:
    """Require that a network with other weights computes the same once it has this one's `state_dict`."""
    fresh.load_state_dict({name: value.clone() for name, value in network.state_dict().items()})
    same = torch.equal(applied(network, batch), applied(fresh, batch))
    require(same, "a copy with the same state_dict gives different outputs: it does not hold all that was learned")


def require_trainable(network: nn.Module, batch: Any) -> None:
    """Require that finite gradients reach the weights, and that not all are zero."""
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    if not weights:
        raise NotApplicable("the network has no weights to train")
    found = applied(network, batch, training=True)
    probe = torch.randn(found.shape, generator=torch.Generator().manual_seed(0)).to(found)
    gradients = torch.autograd.grad((found * probe).sum(), weights, allow_unused=True)
    reached = [gradient for gradient in gradients if gradient is not None]
    require(all(bool(gradient.isfinite().all()) for gradient in reached), "a gradient of the weights is not finite")
    require(
        any(bool(gradient.any()) for gradient in reached),
        "all weights have zero gradients: the output does not depend on them, or is detached",
    )
