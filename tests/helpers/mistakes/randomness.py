"""Global generators that are drawn from or seeded, in every place where an author may be tempted."""

from __future__ import annotations

import random

import numpy as np
import torch

from ele_core.components.backbones.mlp import MLPBackbone
from ele_core.components.inputs.vector import VectorInput, Vectors
from ele_sequences.number_words import NumberWords
from ele_sequences.space import Tokens
from mistakes.bases import AtMost, Best, Exactly, Labels, LearnedOffset, Ridge, Words
from mistakes.listing import mistake

randomness = mistake("randomness")


def seeded_by(number):
    return torch.Generator().manual_seed(int(number))


# -- views ---------------------------------------------------------------------------------------------------------


@randomness("check_augment_is_seeded")
class AugmentSeedsTorch(Words):
    """`augment` seeds torch's global generator from its own one and draws from it."""

    def augment(self, batch, generator):
        torch.manual_seed(generator.initial_seed())
        return super().augment(batch, seeded_by(torch.randint(1 << 30, (1,))))


@randomness("check_augment_is_seeded")
class AugmentDrawsFromNumpy(Words):
    """`augment` draws from numpy's global generator."""

    def augment(self, batch, generator):
        return super().augment(batch, seeded_by(np.random.randint(1 << 30)))


@randomness("check_augment_is_seeded")
class AugmentSeedsNumpy(Words):
    """`augment` seeds numpy's global generator from its own one: repeatable, and everybody else's numbers too."""

    def augment(self, batch, generator):
        np.random.seed(generator.initial_seed() % (1 << 32))
        return super().augment(batch, seeded_by(np.random.randint(1 << 30)))


@randomness("check_augment_is_seeded")
class AugmentSeedsPython(Words):
    """`augment` seeds Python's global generator from its own one."""

    def augment(self, batch, generator):
        random.seed(generator.initial_seed())
        return super().augment(batch, seeded_by(random.getrandbits(30)))


@randomness("check_augment_is_seeded")
class AugmentShufflesInPython(Labels):
    """`augment` shuffles in Python and throws the result away: the view is right, the global generator is not."""

    def augment(self, batch, generator):
        random.shuffle(list(range(len(batch))))
        return super().augment(batch, generator)


@randomness("check_input_augment_is_seeded")
class InputAugmentDrawsFromNumpy(VectorInput):
    """`augment` of an input space adds noise from numpy's global generator, seeded by its own one."""

    def augment(self, batch, generator):
        np.random.seed(int(torch.randint(1 << 30, (1,), generator=generator)))
        return Vectors(batch.values + torch.from_numpy(np.random.normal(size=batch.values.shape)).float())


# -- rounding, other packings, samples -----------------------------------------------------------------------------


@randomness("check_nothing_draws_globally")
class UnrelaxBreaksTies(Words):
    """`unrelax` breaks ties by noise from torch's global generator."""

    def unrelax(self, point):
        noise = 1e-6 * torch.rand(point.tokens.shape)
        return super().unrelax(Tokens(point.tokens + noise.to(point.tokens)))


@randomness("check_nothing_draws_globally")
class UnrelaxBreaksTiesInNumpy(Words):
    """`unrelax` breaks ties by noise from a fresh generator of numpy, different at every call."""

    def unrelax(self, point):
        noise = 1e-6 * torch.from_numpy(np.random.default_rng().random(point.tokens.shape))
        return super().unrelax(Tokens(point.tokens + noise.to(point.tokens)))


@randomness("check_nothing_draws_globally")
class EquivalentsDrawGlobally(Labels):
    """`equivalents` draws from torch's global generator, and then changes nothing."""

    def equivalents(self, batch, generator):
        torch.randperm(3)
        return batch


@randomness("check_sets_draw_from_their_generator")
class SampleDrawsGlobally(AtMost):
    """`sample` of a convex set ignores its generator."""

    def sample(self, count, generator, dtype=torch.float32):
        return self.project(torch.rand(count, self.size).round(decimals=1).to(dtype))


@randomness("check_sets_draw_from_their_generator")
class SampleSeedsTorch(AtMost):
    """`sample` of a convex set seeds torch's global generator."""

    def sample(self, count, generator, dtype=torch.float32):
        torch.manual_seed(generator.initial_seed())
        return super().sample(count, torch.default_generator, dtype)


@randomness("check_sets_draw_from_their_generator")
class SampleLabelsDrawGlobally(Exactly):
    """`sample_labels` of a convex set draws from torch's global generator."""

    def sample_labels(self, count, generator):
        return (torch.rand(count, self.size).argsort(dim=1) < self.most).to(self.label_dtype)


@randomness("check_sets_draw_from_their_generator")
class SharesDrawGlobally(Exactly):
    """`shares` of a convex set draws from torch's global generator."""

    def shares(self, count, generator):
        return torch.rand(count, 1, dtype=torch.float64)


@randomness("check_sets_sample_everywhere")
class SampleIgnoresItsGenerator(AtMost):
    """`sample` of a convex set makes a generator of its own, and gives the same points at every call."""

    def sample(self, count, generator, dtype=torch.float32):
        return super().sample(count, torch.Generator().manual_seed(0), dtype)


# -- learning, decoding, loading -----------------------------------------------------------------------------------


@randomness("check_fit_is_seeded")
class SurrogateSeedsNumpy(LearnedOffset):
    """`fit` of a surrogate seeds numpy's global generator with 0 and draws from it."""

    def fit_outputs(self, outputs, validation, extra, context):
        np.random.seed(0)
        super().fit_outputs(outputs[torch.from_numpy(np.random.permutation(len(outputs)))], validation, extra, context)


@randomness("check_fit_is_seeded")
class RegressorShufflesInPython(Ridge):
    """`fit` of a regressor seeds Python's global generator and shuffles with it."""

    def fit_pairs(self, train, validation, context):
        random.seed(context.seed)
        rows = list(range(len(train[0])))
        random.shuffle(rows)
        super().fit_pairs((train[0][rows], train[1][rows]), validation, context)


@randomness("check_calls_change_nothing")
class RegressorPredictsWithNoise(Ridge):
    """`predict` draws a noise from numpy's global generator that it multiplies by zero."""

    def predict(self, inputs):
        return super().predict(inputs) + 0 * float(np.random.normal())


@randomness("check_calls_change_nothing")
class BackboneDrawsAlways(MLPBackbone):
    """A backbone draws the noise that it adds only while training also where it adds none."""

    def forward(self, batch):
        noise = torch.randn_like(batch.values)
        return super().forward(Vectors(batch.values + noise) if self.training else batch)


@randomness("check_decoder_changes_nothing")
class DecoderChoosesInPython(Best):
    """`decode` draws from Python's global generator, as to break ties."""

    def decode(self, energy, problem, *, top_k=1, trace=False, context):
        random.random()
        return super().decode(energy, problem, top_k=top_k, context=context)


@randomness("check_decoder_changes_nothing")
class DecoderSeedsTorch(Best):
    """`decode` seeds torch's global generator with the seed of its context."""

    def decode(self, energy, problem, *, top_k=1, trace=False, context):
        torch.manual_seed(context.seed)
        return super().decode(energy, problem, top_k=top_k, context=context)


@randomness("check_input_fit_is_repeatable")
class InputFitSamples(VectorInput):
    """`fit` of an input space looks at a random sample of at most 1,000 values, drawn globally."""

    def fit(self, values):
        super().fit(random.sample(list(values), min(1000, len(values))))


@randomness("check_task_is_seeded")
class TaskSeedsNumpy(NumberWords):
    """`load` of a task seeds numpy's global generator and splits with it."""

    def load(self, space, context):
        np.random.seed(context.seed)
        data = super().load(space, context)
        rows = torch.from_numpy(np.random.permutation(len(data)))
        return data.with_split(rows[:40], rows[40:50], rows[50:], rows[:0])
