"""Whether the tensors of a saved model can be what a training left: their types, their values, and their agreement."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import torch
from torch import Tensor

from ele_core.interfaces import Learner, NetworkLearner, Surrogate
from ele_core.types import Candidates

SAMPLED = 32
"""The candidates that are embedded again when a model is loaded."""
TOLERANCE = 0.01
"""The distance of a stored embedding from that of the encoder, relative to the longest: rounding is far below."""


def weights_problem(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> str | None:
    """Return why tensors cannot be the weights of a model whose untrained ones are `expected`, or None.

    An empty tensor stands for one whose shape is known only after `fit`: its numbers may be more precise.
    """
    for name, tensor in found.items():
        like = expected.get(name)
        if like is not None and not same_type(tensor, like):
            return f"the numbers of '{name}' are {as_word(tensor.dtype)}, not {as_word(like.dtype)}"
        if not finite(tensor):
            return f"'{name}' holds NaN or infinity"
    return None


def same_type(tensor: Tensor, like: Tensor) -> bool:
    """Whether a stored tensor has the type of the one that it is restored to."""
    if like.numel() or not like.is_floating_point():
        return tensor.dtype == like.dtype
    return tensor.dtype in (like.dtype, torch.float64)


def as_word(dtype: torch.dtype) -> str:
    """The name of a type, without the library."""
    return str(dtype).removeprefix("torch.")


def finite(tensor: Tensor) -> bool:
    """Whether a tensor holds no NaN and no infinity; in one pass, without memory of its own."""
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    if tensor.element_size() < 2:  # eight bits, for which torch has no comparisons
        tensor = tensor.float()
    return all(bool(extreme.isfinite()) for extreme in tensor.aminmax())


def emptied(learner: Learner) -> bool:
    """Whether every matrix of a network is zero, which no training leaves; never for learners without a network."""
    if not isinstance(learner, NetworkLearner):
        return False
    matrices = [weight for weight in learner.network.parameters() if weight.dim() > 1 and weight.numel() > 1]
    return bool(matrices) and not any(bool(weight.any()) for weight in matrices)


def disagreement(candidates: Candidates, surrogate: Surrogate) -> str | None:
    """Return why the embeddings of some candidates, drawn anew at each call, are not those of the encoder, or None."""
    generator = torch.Generator().manual_seed(secrets.randbits(63))
    rows = torch.randperm(len(candidates), generator=generator)[:SAMPLED]
    stored = candidates.embeddings[rows.to(candidates.embeddings.device)].float()
    alike = surrogate.embed if stored.shape[1] == surrogate.dim else surrogate.compact
    fresh = alike(candidates.batch[rows]).float()
    apart = (stored - fresh.to(stored.device)).norm(dim=1)
    longest = torch.maximum(stored.norm(dim=1), fresh.to(stored.device).norm(dim=1)).max()
    if bool((apart <= TOLERANCE * longest).all()):
        return None
    return "the embeddings are not those that the model gives to these structures"
