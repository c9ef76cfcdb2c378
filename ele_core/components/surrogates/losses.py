"""The contrastive family ℓ(z, z⁺, {z⁻}) = φ(Σ_k ϕ(⟨z, z⁻_k⟩ − ⟨z, z⁺⟩)), φ and ϕ increasing."""

from __future__ import annotations

import math
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from ele_core.component import ComponentConfig


class ContrastiveLoss(ComponentConfig):
    """A member of the contrastive family."""

    member: Literal["info-nce", "soft-triplet"] = "info-nce"
    """`info-nce` is the paper's; `soft-triplet` is a hinge loss with a margin, averaged over the negatives."""
    temperature: float = Field(0.1, gt=0)
    """τ: the smaller, the more the nearest negatives dominate the loss."""
    epsilon: float = Field(1.0, ge=0)
    """ε of info-nce: the weight of the positive pair itself; 0 is the decoupled form."""
    margin: float = Field(0.5, ge=0, le=2)
    """The margin of soft-triplet: by how much the positive should be closer than each negative."""

    def __call__(self, anchors: Tensor, views: Tensor, negative: Tensor, first: int = 0) -> Tensor:
        """The loss (B,) of each anchor (B, d), whose positive is row `first + i` of `views` (N, d).

        `negative` (B, N) is true if view j belongs to a different structure than anchor i.
        """
        similarities = anchors @ views.T
        margins = similarities - similarities.diagonal(first).unsqueeze(1)
        if self.member == "soft-triplet":
            return soft_triplet(margins, negative, self.temperature, self.margin)
        return info_nce(margins, negative, self.temperature, self.epsilon)


def info_nce(margins: Tensor, negative: Tensor, temperature: float, epsilon: float) -> Tensor:
    """φ(u) = τ log(ε + u), ϕ(t) = exp(t/τ); with ε = 1, τ times the cross-entropy of picking z⁺ among all.

    `margins` (B, N) = ⟨z, z⁻⟩ − ⟨z, z⁺⟩; only entries for which `negative` is true count → (B,).
    """
    logits = (margins / temperature).masked_fill(~negative, -math.inf)
    if epsilon > 0:
        constant = logits.new_full((len(logits), 1), math.log(epsilon))
        return temperature * torch.logsumexp(torch.cat([constant, logits], dim=1), dim=1)
    contrasted = negative.any(dim=1)  # a structure without negatives would give log 0; its loss is 0
    logits = logits.masked_fill(~contrasted.unsqueeze(1), 0)
    return temperature * torch.logsumexp(logits, dim=1) * contrasted


def soft_triplet(margins: Tensor, negative: Tensor, temperature: float, margin: float) -> Tensor:
    """φ(u) = u / K, ϕ(t) = τ softplus((t + margin)/τ): a smooth hinge, averaged over the K negatives."""
    terms = temperature * functional.softplus((margins + margin) / temperature)
    return (terms * negative).sum(dim=1) / negative.sum(dim=1).clamp(min=1)
