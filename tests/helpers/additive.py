"""The laws of encoders that add up parts, for those of all plugins."""

from __future__ import annotations

from typing import Any

import torch

from ele_core import OutputSpace
from ele_core.components.encoders.additive import AdditiveEncoder
from ele_core.testing import check_encoder


def check_additive(cls: type[AdditiveEncoder], space: OutputSpace[Any, Any], batch: Any) -> None:
    """The laws of all encoders, and those of tables of parts."""
    encoder = fresh(cls, space)
    assert [str(result) for result in check_encoder(encoder, space) if result.status == "failed"] == []
    with torch.no_grad():
        found = encoder.encode(batch)
        assert torch.allclose(found, encoder(space.relax(batch)), atol=1e-5)
        assert torch.equal(fresh(cls, space).encode(batch[1:]), found[1:]), "it depends on what was embedded before"
        for weight in encoder.parameters():
            weight.mul_(1.5)
        changed = encoder.encode(batch)
        assert torch.allclose(changed, encoder(space.relax(batch)), atol=1e-5), "the table is of other weights"
        assert encoder.encode(batch[:0]).shape == (0, encoder.dim)
    assert (changed - found).abs().max() > 0.01
    encoder.encode(batch).square().sum().backward()
    fast = {name: weight.grad for name, weight in encoder.named_parameters()}
    encoder.zero_grad()
    encoder(space.relax(batch)).square().sum().backward()
    for name, weight in encoder.named_parameters():
        assert fast[name] is not None
        assert torch.allclose(fast[name], weight.grad, rtol=1e-3, atol=1e-3 * float(weight.grad.abs().max()))


def fresh(cls: type[AdditiveEncoder], space: OutputSpace[Any, Any], dim: int = 24) -> AdditiveEncoder:
    """An encoder with weights of its own seed."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return cls(None, space, dim)
