"""What the checks of encoders and of backbones share: a network, a batch for it, and what it makes of it."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from ele_core.testing.output_measures import close
from ele_core.testing.results import NotApplicable, require
from ele_core.testing.samples import fixed_weights


def applied(network: nn.Module, batch: Any, *, training: bool = False) -> Tensor:
    """The network's output, in evaluation mode unless asked otherwise; the mode is left as it was, so is randomness."""
    before = network.training
    network.train(training)
    try:
        with fixed_weights():
            found: Tensor = network(batch)
            return found
    finally:
        network.train(before)


def require_embeddings(network: nn.Module, batch: Any, dim: int) -> None:
    """(B, dim) finite floats."""
    found = applied(network, batch)
    require(
        found.shape == (len(batch), dim), f"{len(batch)} rows became {tuple(found.shape)}, not ({len(batch)}, {dim})"
    )
    require(found.is_floating_point(), f"the output is {found.dtype}, not floats")
    require(found.isfinite().all(), "the output is not finite")


def require_independent_rows(network: nn.Module, batch: Any) -> None:
    """A row's output is the same alone."""
    together = applied(network, batch)
    for row in range(len(batch)):
        alone = applied(network, batch[row : row + 1])
        require(close(alone, together[row : row + 1]), f"the output of row {row} depends on the other rows")


def require_small_batches(network: nn.Module, batch: Any, dim: int) -> None:
    """Batches of one and of none, in both modes."""
    for training in (False, True):
        for count in (1, 0):
            found = applied(network, batch[:count], training=training)
            mode = "training" if training else "evaluation"
            require(found.shape == (count, dim), f"a batch of {count} becomes {tuple(found.shape)} in {mode}")


def require_deterministic(network: nn.Module, batch: Any) -> None:
    """In evaluation mode two calls agree to the bit, whatever torch's global generator holds, and change no state."""
    network = copy.deepcopy(network).eval()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        first = network(batch)
        torch.manual_seed(2)
        second = network(batch)
    require(torch.equal(first, second), "two calls in evaluation mode give different outputs")
    after = network.state_dict()
    changed = [name for name, value in before.items() if not torch.equal(value, after[name])]
    require(not changed, f"a call in evaluation mode changes {', '.join(changed)}")


def require_state_round_trip(network: nn.Module, fresh: nn.Module, batch: Any) -> None:
    """A network with other weights, given this one's state_dict, computes the same."""
    fresh.load_state_dict({name: value.clone() for name, value in network.state_dict().items()})
    same = torch.equal(applied(network, batch), applied(fresh, batch))
    require(same, "a copy with the same state_dict gives other outputs: something learned is not in it")


def require_trainable(network: nn.Module, batch: Any) -> None:
    """Finite gradients reach the weights, and not all are zero."""
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    if not weights:
        raise NotApplicable("the network has no weights to train")
    found = applied(network, batch, training=True)
    probe = torch.randn(found.shape, generator=torch.Generator().manual_seed(0)).to(found)
    gradients = torch.autograd.grad((found * probe).sum(), weights, allow_unused=True)
    reached = [gradient for gradient in gradients if gradient is not None]
    require(all(bool(gradient.isfinite().all()) for gradient in reached), "a gradient of the weights is not finite")
    require(any(bool(gradient.any()) for gradient in reached), "no weight gets a gradient")
