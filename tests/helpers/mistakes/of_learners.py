"""Encoders, inputs, backbones, surrogates and regressors that break one law each."""

from __future__ import annotations

import itertools
from typing import ClassVar

import torch
from linear import FitsPairs, Spoilable
from torch import nn

from ele_core.components.backbones.mlp import MLPBackbone
from ele_core.components.encoders.flat import FlatEncoder
from ele_core.components.inputs.text import TextInput, Texts
from ele_core.components.inputs.vector import VectorInput, Vectors
from ele_core.interfaces import Encoder, Regressor
from ele_core.numerics.sparse import SparseRows
from ele_core.testing import LinearSurrogate
from mistakes.listing import ONE_LAW, mistake

caught_by = mistake(ONE_LAW)


# -- encoders ------------------------------------------------------------------------------------------------------


class PlainEncoder(Encoder):
    """One linear layer and a tanh; nothing is wrong with it."""

    def __init__(self, config, space, dim):
        super().__init__(config, space, dim)
        (self.field,) = space.geometry
        length, symbols = space.geometry[self.field].point_shape
        self.linear = nn.Linear(length * symbols, dim)

    def flat(self, point):
        return getattr(point, self.field).flatten(start_dim=1)

    def forward(self, point):
        return torch.tanh(self.linear(self.flat(point)))


@caught_by("check_gives_embeddings")
class EncodesToAnotherSize(PlainEncoder):
    def forward(self, point):
        return super().forward(point)[:, 1:]


@caught_by("check_gives_embeddings")
class EncodesToNoNumber(PlainEncoder):
    def forward(self, point):
        return super().forward(point) * float("nan")


@caught_by("check_encoder_has_a_gradient")
class EncodesWithoutGradient(PlainEncoder):
    def flat(self, point):
        return super().flat(point).detach()


@caught_by("check_encoder_has_a_gradient")
class EncodesByRounding(PlainEncoder):
    def flat(self, point):
        return super().flat(point).round()


@caught_by("check_encoder_gradient_is_the_slope")
class EncodesStraightThrough(PlainEncoder):
    def flat(self, point):
        flat = super().flat(point)
        return flat + (flat.square() - flat).detach()


@caught_by("check_rows_are_independent")
class EncodesByTheBatch(PlainEncoder):
    def forward(self, point):
        found = super().forward(point)
        return found - found.mean(dim=0, keepdim=True) if len(found) else found


@caught_by("check_takes_small_batches")
class EncodesAtLeastTwo(PlainEncoder):
    def __init__(self, config, space, dim):
        super().__init__(config, space, dim)
        self.norm = nn.BatchNorm1d(dim)

    def forward(self, point):
        return self.norm(super().forward(point))


@caught_by("check_calls_change_nothing")
class EncodesAtRandom(PlainEncoder):
    def forward(self, point):
        return nn.functional.dropout(super().forward(point), 0.5, training=True)


@caught_by("check_encoder_keeps_the_dtype")
class EncodesInSinglePrecision(PlainEncoder):
    def forward(self, point):
        return super().forward(point).float()


@caught_by("check_calls_change_nothing")
class EncodesInPlace(PlainEncoder):
    def forward(self, point):
        found = super().forward(point)
        value = getattr(point, self.field)
        if not value.requires_grad:
            value.zero_()
        return found


@caught_by("check_state_is_complete")
class EncodesByAHiddenState(PlainEncoder):
    def __init__(self, config, space, dim):
        super().__init__(config, space, dim)
        self.hidden = torch.randn(dim)

    def forward(self, point):
        return super().forward(point) + self.hidden.to(self.linear.weight)


@caught_by("check_is_trainable")
class EncodesWithFrozenWeights(PlainEncoder):
    def forward(self, point):
        return torch.tanh(self.flat(point) @ self.linear.weight.detach().T)


class ClaimsInvariance(FlatEncoder):
    """For a space of graphs, where positions have no meaning."""

    invariant = True


# -- input spaces --------------------------------------------------------------------------------------------------


@caught_by("check_examples_are_different")
class HasNoExamples(VectorInput):
    def examples(self):
        return []


@caught_by("check_examples_are_different")
class HasOneInput(TextInput):
    def examples(self):
        return ["one"]


@caught_by("check_pack_gives_a_batch")
class PacksAllAlike(TextInput):
    def pack(self, values):
        return super().pack(["1"] * len([*super().pack(values).tokens]))


@caught_by("check_input_parse_inverts_format")
class FormatsRoughly(VectorInput):
    def format(self, value):
        return " ".join(f"{number:.0f}" for number in value)

    def examples(self):
        return [[1.25, 2.0], [3.0, 0.5], [9.0, 4.75]]


@caught_by("check_parse_refuses_politely")
class ParsesWithoutCare(TextInput):
    def parse(self, text):
        return text[0] + text[1:]


@caught_by("check_foreign_objects_are_refused")
class NamesTheFirstInput(TextInput):
    def pack(self, values):
        if not all(isinstance(value, str) for value in values):
            raise self.invalid("no text.", 0)
        return super().pack(values)


@caught_by("check_input_fit_is_repeatable")
class FitsDifferently(VectorInput):
    fits: ClassVar = itertools.count(1)

    def fit(self, values):
        super().fit(values)
        self._scaling = self._scaling[0], self._scaling[1] * next(self.fits)


@caught_by("check_input_load_inverts_save")
class ForgetsItsScale(VectorInput):
    def load(self, folder):
        super().load(folder)
        self._scaling = self._scaling[0], self._scaling[1] * 2


@caught_by("check_input_rows_are_independent")
class ScalesByTheBatch(VectorInput):
    def pack(self, values):
        batch = super().pack(values)
        return Vectors(batch.values - batch.values[:1] + 0.5 * batch.values)


@caught_by("check_input_takes_empty_batches")
class PacksNothingAsOne(VectorInput):
    def pack(self, values):
        return super().pack(values) if len(values) else Vectors(torch.zeros(0))


@caught_by("check_input_sizes_are_lengths")
class SizesInColumns(TextInput):
    def sizes(self, batch):
        return batch.lengths[:, None] if len(batch) else batch.lengths


@caught_by("check_input_augment_is_seeded")
class AugmentsInputsAtRandom(TextInput):
    def augment(self, batch, generator):
        return Texts(batch.tokens, batch.lengths)[torch.randperm(len(batch))]


@caught_by("check_input_features_are_independent")
class CountsInputsByTheBatch(VectorInput):
    def features(self, batch, *, grams=4):
        return SparseRows.dense(batch.values * len(batch))


@caught_by("check_input_nearest_gives_rows")
class CopiesTheFirst(VectorInput):
    def nearest(self, batch, others):
        distances = (batch.values - others.values[:1]).norm(dim=1)
        return torch.zeros(len(batch), dtype=torch.int64), distances


@caught_by("check_input_nearest_gives_rows")
class FindsRowsThatAreNotThere(VectorInput):
    def nearest(self, batch, others):
        rows, distances = super().nearest(batch, others)
        return rows + 1, distances


@caught_by("check_input_defaults_are_options")
class NamesAnotherInputsBackbone(VectorInput):
    @classmethod
    def defaults(cls, pairs):
        return {"backbone": {"name": "gru"}}


@caught_by("check_input_defaults_are_options")
class MisspellsAKernelOption(VectorInput):
    @classmethod
    def defaults(cls, pairs):
        return {"kernel": {"kernle": "cosine"}}


# -- backbones -----------------------------------------------------------------------------------------------------


@caught_by("check_gives_embeddings")
class MapsToInfinity(MLPBackbone):
    def forward(self, batch):
        return super().forward(batch) / 0


@caught_by("check_rows_are_independent")
class MapsByTheBatch(MLPBackbone):
    def forward(self, batch):
        return super().forward(batch) + batch.values.sum()


@caught_by("check_rows_are_independent")
class MapsAtLeastOne(MLPBackbone):
    def forward(self, batch):
        return super().forward(batch) + 0 * batch.values.max()


@caught_by("check_calls_change_nothing")
class CountsItsCalls(MLPBackbone):
    def __init__(self, config, inputs, dim):
        super().__init__(config, inputs, dim)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, batch):
        self.calls += 1
        return super().forward(batch)


@caught_by("check_calls_change_nothing")
class MapsInPlace(MLPBackbone):
    def forward(self, batch):
        found = super().forward(batch)
        batch.values.zero_()
        return found


@caught_by("check_state_is_complete")
class MapsByAHiddenState(MLPBackbone):
    def __init__(self, config, inputs, dim):
        super().__init__(config, inputs, dim)
        self.hidden = torch.randn(dim)

    def forward(self, batch):
        return super().forward(batch) + self.hidden


@caught_by("check_backbone_tells_inputs_apart")
class MapsAllAlike(MLPBackbone):
    def forward(self, batch):
        return super().forward(Vectors(0 * batch.values))


# -- surrogates ----------------------------------------------------------------------------------------------------


class LearnedSurrogate(Spoilable):
    """Linear, with an offset drawn by `fit`: something to save and to seed."""

    def __init__(self, config, space):
        super().__init__(config, space)
        self.offset = torch.zeros(self.dim, dtype=torch.float64)

    def fit_outputs(self, outputs, validation, extra, context):
        self.offset = torch.rand(self.dim, generator=context.generator("offset"), dtype=torch.float64)

    def embed_at(self, point):
        return super().embed_at(point) + self.offset

    def state(self):
        return {"weights": self.weights, "offset": self.offset}

    def restore(self, state):
        self.weights, self.offset = state["weights"], state["offset"]


@caught_by("check_gives_embeddings")
class EmbedsWithGradient(LearnedSurrogate):
    def embed(self, batch):
        return super().embed(batch).requires_grad_(True)


@caught_by("check_gives_embeddings")
class LearnsItsDimension(LearnedSurrogate):
    size = 16

    @property
    def dim(self):
        return self.size

    def fit_outputs(self, outputs, validation, extra, context):
        self.size = 17
        super().fit_outputs(outputs, validation, extra, context)

    def __init__(self, config, space):
        super().__init__(config, space)

    def embed(self, batch):
        return nn.functional.pad(super().embed(batch), (0, 0 if self.size == 16 else 1))

    def embed_at(self, point):
        return LinearSurrogate.embed_at(self, point)


@caught_by("check_surrogate_tells_structures_apart")
class EmbedsAllAlike(LearnedSurrogate):
    def embed_at(self, point):
        return 0 * super().embed_at(point)

    def energy_of_point(self, queries, point):
        zero = LinearSurrogate.embed_at(self, point)
        return (zero - zero.detach()).sum(dim=1) + queries.square().sum(dim=1)


@caught_by("check_surrogate_energy_is_a_distance")
class EnergyIsNegative(LearnedSurrogate):
    def energy_of(self, queries, batch):
        return super().energy_of(queries, batch) - 1


@caught_by("check_surrogate_energies_agree")
class EnergiesAreRoots(LearnedSurrogate):
    def energy_among(self, queries, embeddings):
        return super().energy_among(queries, embeddings).sqrt()


@caught_by("check_surrogate_energy_at_vertices")
class EnergyAtIsAnother(LearnedSurrogate):
    def energy_of_point(self, queries, point):
        return 2 * super().energy_of_point(queries, point)


@caught_by("check_surrogate_energy_at_vertices")
class EnergyAtHasNoGradient(LearnedSurrogate):
    def energy_of_point(self, queries, point):
        return super().energy_of_point(queries, point).detach()


@caught_by("check_rows_are_independent")
class EmbedsByTheBatch(LearnedSurrogate):
    def embed(self, batch):
        found = super().embed(batch)
        return found * len(found)

    def energy_of(self, queries, batch):
        return (queries / len(batch) - LinearSurrogate.embed(self, batch)).square().sum(dim=1)

    has_gradient = False

    def energy_among(self, queries, embeddings):
        return super().energy_among(queries / len(queries), embeddings / len(embeddings))


@caught_by("check_calls_change_nothing")
class CountsWhatItEmbeds(LearnedSurrogate):
    def embed(self, batch):
        self.offset = self.offset.clone()
        found = super().embed(batch)
        self.weights = torch.nextafter(self.weights, torch.zeros_like(self.weights)) if len(batch) > 7 else self.weights
        return found


@caught_by("check_state_is_complete")
class ForgetsItsOffset(LearnedSurrogate):
    def restore(self, state):
        self.weights = state["weights"]


@caught_by("check_fit_is_seeded")
class FitsFromTheGlobalGenerator(LearnedSurrogate):
    def fit_outputs(self, outputs, validation, extra, context):
        self.offset = torch.rand(self.dim, dtype=torch.float64)


# -- regressors ----------------------------------------------------------------------------------------------------


class PlainRegressor(FitsPairs, Regressor):
    """Least squares with a ridge and a seeded jitter; nothing is wrong with it."""

    def __init__(self, config, inputs, surrogate):
        super().__init__(config, inputs, surrogate)
        self.weights = torch.zeros(inputs.dimension, surrogate.dim, dtype=torch.float64)

    def fit_pairs(self, train, validation, context):
        x, y = train[0].values.double(), self.surrogate.embed(train[1])
        ridge = torch.eye(x.shape[1], dtype=torch.float64)
        jitter = torch.rand(self.weights.shape, generator=context.generator("jitter"), dtype=torch.float64)
        self.weights = torch.linalg.solve(x.T @ x + ridge, x.T @ y) + 1e-3 * jitter

    def predict(self, inputs):
        return inputs.values.double() @ self.weights

    def state(self):
        return {"weights": self.weights}

    def restore(self, state):
        self.weights = state["weights"]


@caught_by("check_gives_embeddings")
class PredictsTooFew(PlainRegressor):
    def predict(self, inputs):
        return super().predict(inputs)[:, 1:]


@caught_by("check_rows_are_independent")
class PredictsByTheBatch(PlainRegressor):
    def predict(self, inputs):
        return super().predict(inputs) + inputs.values.sum()


@caught_by("check_calls_change_nothing")
class PredictsInPlace(PlainRegressor):
    def predict(self, inputs):
        found = super().predict(inputs)
        inputs.values[1:].zero_()
        return found


@caught_by("check_fit_leaves_its_data_alone")
class TrainsTheSurrogate(PlainRegressor):
    def fit_pairs(self, train, validation, context):
        super().fit_pairs(train, validation, context)
        self.surrogate.weights.mul_(1 + 1e-9)


@caught_by("check_state_is_complete")
class SavesNothing(PlainRegressor):
    def state(self):
        return {}

    def restore(self, state):
        pass


@caught_by("check_regressor_ways_can_be_chosen")
class ForgetsItsWay(PlainRegressor):
    modes = ("plain", "doubled")
    factor = 1.0

    def use_mode(self, mode):
        self.factor = 2.0 if mode == "doubled" else 1.0

    def predict(self, inputs):
        return self.factor * super().predict(inputs)


@caught_by("check_fit_is_seeded")
class FitsAtRandom(PlainRegressor):
    def fit_pairs(self, train, validation, context):
        super().fit_pairs(train, validation, context)
        self.weights = self.weights + 1e-3 * torch.rand(self.weights.shape)
