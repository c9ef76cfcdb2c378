"""Gradients that are zero where descent starts, and slopes that are not those of the values."""

from __future__ import annotations

import torch

from mistakes.bases import LearnedOffset, Linear
from mistakes.listing import mistake

gradients = mistake("gradients")


@gradients("check_encoder_has_a_gradient_at_vertices")
class SmoothstepEncoder(Linear):
    """The encoder sharpens its point by 3x² − 2x³, whose slope is zero at 0 and at 1."""

    def seen(self, value):
        return value.square() * (3 - 2 * value)


@gradients("check_encoder_has_a_gradient_at_vertices")
class ClampedEncoder(Linear):
    """The encoder stretches its point and clamps it to [0, 1], so that vertices are clamped."""

    def seen(self, value):
        return (1.2 * value - 0.1).clamp(0, 1)


@gradients("check_encoder_has_a_gradient_at_vertices")
class HardTanhEncoder(Linear):
    """The encoder maps [0, 1] to [−1, 1] by a hard tanh, whose gradient is zero at its ends."""

    def seen(self, value):
        return torch.nn.functional.hardtanh(2 * value - 1)


@gradients("check_encoder_has_a_gradient_at_vertices")
class SharpenedEncoder(Linear):
    """The encoder applies a softmax with a temperature of 1/60, which saturates at vertices."""

    def seen(self, value):
        return (60 * value).softmax(dim=-1)


@gradients("check_encoder_has_a_gradient_at_vertices")
class MaskedEncoder(Linear):
    """The encoder drops entries below one half, so that labels that are not there have no gradient."""

    def seen(self, value):
        return value * (value > 0.5)


@gradients("check_encoder_has_a_gradient_at_vertices")
class SquaredEncoder(Linear):
    """The encoder squares its point: no gradient towards any label that is not there."""

    def seen(self, value):
        return value.square()


@gradients("check_gives_embeddings")
class EntropyEncoder(Linear):
    """The encoder adds x · log(x), which is NaN at 0."""

    def seen(self, value):
        return value + value * value.log()


@gradients("check_encoder_has_a_gradient")
class SquareRootEncoder(Linear):
    """The encoder takes a square root, whose slope is infinite at 0."""

    def seen(self, value):
        return value.sqrt()


@gradients("check_encoder_gradient_is_the_slope")
class HalfDetachedEncoder(Linear):
    """The encoder weighs its input by an attention that it computes without gradient."""

    def seen(self, value):
        with torch.no_grad():
            attention = value.square().sum(dim=(1, 2), keepdim=True)
        return attention * value


@gradients("check_surrogate_energy_at_vertices")
class SmoothstepEnergy(LearnedOffset):
    """`Energy.at` sharpens its point by 3x² − 2x³: right values, zero gradients at vertices."""

    def energy_of_point(self, queries, point):
        return super().energy_of_point(queries, point.map(lambda value: value.square() * (3 - 2 * value)))


@gradients("check_surrogate_energy_at_has_a_slope")
class RoundedEnergy(LearnedOffset):
    """`Energy.at` rounds its point and passes the gradient straight through."""

    def energy_of_point(self, queries, point):
        return super().energy_of_point(queries, point.map(lambda value: value + (value.round() - value).detach()))


@gradients("check_surrogate_energy_at_has_a_slope")
class DetachedNormEnergy(LearnedOffset):
    """`Energy.at` leaves the gradient of a factor out."""

    def energy_of_point(self, queries, point):
        embedding = self.embed_at(point)
        length = embedding.norm(dim=1, keepdim=True)
        return (embedding / length * length.detach() - queries).square().sum(dim=1)


@gradients("check_surrogate_energy_at_has_a_slope")
class ClippedGradientEnergy(LearnedOffset):
    """`Energy.at` clips the gradient of its point by a hook, as against exploding gradients."""

    def energy_of_point(self, queries, point):
        def clipped(value):
            value = value * 1
            if value.requires_grad:
                value.register_hook(lambda gradient: gradient.clamp(-0.01, 0.01))
            return value

        return super().energy_of_point(queries, point.map(clipped))


@gradients("check_surrogate_energy_at_has_a_slope")
class HalfPrecisionEnergy(LearnedOffset):
    """`Energy.at` computes in half precision, in which small steps are lost."""

    def energy_of_point(self, queries, point):
        return super().energy_of_point(queries, point.map(lambda value: value.bfloat16()))


@gradients("check_surrogate_energy_at_has_a_slope")
class MixedRowsEnergy(LearnedOffset):
    """`Energy.at` adds the distance of each row from the mean of the batch: zero in value, not in slope."""

    def energy_of_point(self, queries, point):
        embedding = self.embed_at(point)
        mean = embedding.mean(dim=0)
        return (embedding - queries).square().sum(dim=1) + (mean - mean.detach()).sum()


@gradients("check_surrogate_energy_at_has_a_slope")
class NegativeSlopeEnergy(LearnedOffset):
    """`Energy.at` has the slope of a similarity, the opposite of its own."""

    def energy_of_point(self, queries, point):
        found = super().energy_of_point(queries, point)
        return 2 * found.detach() - found
