"""Mistakes that break one law each, as other authors planted them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch

from ele_core.components.inputs.text import TextInput
from ele_core.components.inputs.vector import VectorInput, Vectors
from ele_core.optional import Moves
from ele_core.testing.samples import points
from ele_core.types import Decoding
from ele_sequences.space import SequenceMoves
from mistakes.bases import Chosen, Labels, Ridge, Words
from mistakes.listing import ONE_LAW, mistake
from mistakes.of_decoders import Plain

caught_by = mistake(ONE_LAW)


# -- output spaces -------------------------------------------------------------------------------------------------


class TwoAtMost(Labels):
    """Sets of at most two labels; a vertex may have more, and everything but `pack` keeps the first two."""

    class Moves(Moves):
        def list(self, batch):
            moved, row = super().list(batch)
            return first_two(moved), row

    def unrelax(self, point):
        return first_two(super().unrelax(point))

    def augment(self, batch, generator):
        return first_two(super().augment(batch, generator))


def first_two(batch):
    return Chosen(batch.chosen * (batch.chosen.cumsum(dim=1) <= 2).to(batch.chosen.dtype))


class RefusesMore(TwoAtMost):
    """Nothing is wrong with this one: `pack` refuses what has more labels."""

    def pack(self, objects):
        packed = super().pack(objects)
        for index in (packed.chosen.sum(dim=1) > 2).nonzero().flatten().tolist()[:1]:
            raise self.invalid("more than two labels.", index)
        return packed


@caught_by("check_vertices_are_kept_or_refused")
class DropsWhatIsTooMuch(TwoAtMost):
    """`pack` takes the first two labels of an object and says nothing of the others."""

    def pack(self, objects):
        return first_two(super().pack(objects))


@caught_by("check_texts_survive_in_other_alphabets")
class WritesAscii(Labels):
    """`format` replaces all letters that are not ASCII."""

    @classmethod
    def format(cls, obj):
        return super().format(obj).encode("ascii", "replace").decode()


@caught_by("check_infer_takes_no_foreign_objects")
class InfersFromAnything(Labels):
    """`infer` takes the text of whatever it is given."""

    @classmethod
    def infer(cls, objects, options):
        listed = [obj if isinstance(obj, list) else [type(obj).__name__] for obj in objects]
        return super().infer(listed, options)


@caught_by("check_augment_depends_on_the_structure")
class ViewsAtRandom(Words):
    """A view is any structure, whatever it is a view of."""

    def augment(self, batch, generator):
        return self.unrelax(points(self, len(batch), generator))


@caught_by("check_every_structure_has_neighbours")
class LeavesNothingAlone(Words):
    """An empty text has no neighbours."""

    class Moves(SequenceMoves):
        def list(self, batch):
            moved, row = super().list(batch)
            kept = (batch.tokens > 0).any(dim=1)[row]
            return moved[kept], row[kept]


@caught_by("check_spaces_share_nothing")
class NumbersOnTheClass(Labels):
    """The numbers of the labels are found once for all spaces of the class."""

    names: ClassVar[list] = []

    def pack(self, objects):
        packed = super().pack(objects)
        if not self.names:
            self.names.extend(self.config.labels)
        known = {name: place for place, name in enumerate(self.names)}
        order = [known.get(name, place) for place, name in enumerate(self.config.labels)]
        return Chosen(packed.chosen[:, torch.tensor(order)])


# -- input spaces --------------------------------------------------------------------------------------------------


@caught_by("check_input_refuses_what_is_not_a_number")
class PacksAnything(VectorInput):
    """Numbers are packed as they are, NaN among them."""

    def pack(self, values):
        rows = [np.nan_to_num(np.asarray(value, dtype=float)) if is_row(value) else value for value in values]
        packed = super().pack(rows)
        wrong = [bool(is_row(value) and np.isnan(np.asarray(value, dtype=float)).any()) for value in values]
        return Vectors(packed.values.masked_fill(torch.tensor(wrong, dtype=torch.bool)[:, None], float("nan")))


def is_row(value):
    return isinstance(value, list | np.ndarray) and np.ndim(value) == 1


@caught_by("check_input_spaces_share_nothing")
class LearnsOnTheClass(TextInput):
    """What `fit` learns is that of the class, not of the object."""

    learned: ClassVar[dict] = {}

    def fit(self, values):
        super().fit(values)
        type(self).learned["latest"] = self

    def pack(self, values):
        latest = self.learned.get("latest", self)
        return TextInput.pack(latest, values)


# -- regressors and decoders ---------------------------------------------------------------------------------------


@caught_by("check_regressor_beats_the_mean")
class ReversesItsTargets(Ridge):
    """The targets are in the reverse order, the inputs are not."""

    def solve(self, x, y):
        super().solve(x, y.flip(0))


@caught_by("check_decoder_solves_the_problem_it_is_given")
class RemembersOnItsClass(Plain):
    """The candidates of the first problem are kept on the class, so that a fresh decoder has them too."""

    first: ClassVar[list] = []

    def decode(self, energy, problem, *, top_k=1, context):
        plain = problem.candidates.owner is None and problem.constraints is None
        if plain and 12 < len(problem.candidates) < 50:
            self.first.append(problem)
            problem = self.first[0]
        return super().decode(energy, problem, top_k=top_k, context=context)


@caught_by("check_decoding_finds_several")
class FindsOne(Plain):
    """There is one structure, whatever `top_k`; the others are missing."""

    def spoil(self, found, energy, problem):
        alone = problem.candidates.owner is not None or problem.constraints is not None
        rest = torch.zeros_like(found.energies, dtype=torch.bool) if alone else torch.arange(found.top_k) > 0
        return Decoding(found.structures, found.energies.masked_fill(rest, float("inf")))
