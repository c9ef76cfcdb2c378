"""Convex sets of an author's own that are not what they say."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ele_core import Box
from mistakes.bases import AtMost, Exactly
from mistakes.listing import mistake

sets = mistake("convex sets")


@sets("check_sets_are_the_hull_of_their_vertices")
class JudgesItself(AtMost):
    """Nothing in the set but its vertices knows of the sum: projection, samples and violations are those of a box."""

    def project(self, x):
        return x.clamp(0, 1)

    def sample(self, count, generator, dtype=torch.float32):
        return Box(self.size).sample(count, generator, dtype)

    def violations(self, x):
        return {"entries are at least 0": -x, "entries are at most 1": x - 1}


@sets("check_sets_are_the_hull_of_their_vertices")
class JudgesInequality(Exactly):
    """The set is that of sums of at most k, although every vertex has the sum k."""

    def project(self, x):
        return AtMost(self.size, self.most).project(x)

    def violations(self, x):
        return AtMost.violations(self, x)


@sets("check_project_is_nearest")
class ProjectsByScaling(AtMost):
    """`project` clips and scales down to the sum, and samples come from vertices and their means only."""

    def project(self, x):
        clipped = x.clamp(0, 1)
        total = clipped.sum(dim=1, keepdim=True)
        return torch.where(total > self.most, clipped * self.most / total.clamp(min=1e-12), clipped)

    def sample(self, count, generator, dtype=torch.float32):
        return self.vertices(self.sample_labels(count, generator)).to(dtype)


@sets("check_sets_sample_everywhere")
class SamplesTheCentre(AtMost):
    """`sample` gives points near the centre only: no vertex and no face."""

    def sample(self, count, generator, dtype=torch.float32):
        centre = self.most / self.size / 2
        noise = torch.rand(count, self.size, generator=generator, dtype=torch.float64) - 0.5
        return (centre + 0.1 * centre * noise).to(dtype)


@sets("check_sets_have_these_vertices")
class SamplesFullTeams(AtMost):
    """`sample_labels` never draws the vertices with fewer than k entries."""

    def sample_labels(self, count, generator):
        return Exactly.sample_labels(self, count, generator)


@sets("check_sets_have_these_vertices")
class SamplesUnevenly(Exactly):
    """`sample_labels` draws one vertex nine times of ten."""

    def sample_labels(self, count, generator):
        labels = super().sample_labels(count, generator)
        usual = torch.rand(count, 1, generator=generator) < 0.9
        first = (torch.arange(self.size) < self.most).to(labels.dtype).expand_as(labels)
        return torch.where(usual, first, labels)


@sets("check_sets_round_to_the_nearest_vertex")
class RoundsEarly(AtMost):
    """`nearest_vertex` rounds up from 0.3."""

    def nearest_vertex(self, x):
        return super().nearest_vertex(x + 0.2 * (x > 0.3))


@sets("check_sets_round_to_the_nearest_vertex")
class RoundsGreedily(Exactly):
    """`nearest_vertex` compares numbers with one digit only."""

    def nearest_vertex(self, x):
        return super().nearest_vertex((x * 4).round() / 4)


@sets("check_sets_move_between_vertices")
class OnlyRemoves(AtMost):
    """`switch` only removes: there is no way to a larger set."""

    def switch(self, labels, which):
        return labels.scatter(1, which[:, None], 0)


@sets("check_sets_move_between_vertices")
class SwapsTooFew(Exactly):
    """`switch` makes its first three moves only; the others repeat the first."""

    def switch(self, labels, which):
        return super().switch(labels, torch.where(which < 3, which, 0 * which))


@sets("check_neighbours_follow_the_gradient")
class GainsUphill(AtMost):
    """`gains` has the wrong sign."""

    def gains(self, labels, gradient):
        return gradient * (2 * labels - 1)


@sets("check_neighbours_follow_the_gradient")
class GainsOfOneEntry(Exactly):
    """`gains` of a swap counts only the entry that is added."""

    def gains(self, labels, gradient):
        i, j = torch.triu_indices(self.size, self.size, offset=1)
        added = torch.where(labels[:, i] > labels[:, j], gradient[:, j], gradient[:, i])
        return torch.where(labels[:, i] == labels[:, j], 0.0, added)


@sets("check_sets_move_between_vertices")
class IdleTooOften(AtMost):
    """`idle` says that adding changes nothing."""

    def idle(self, labels):
        return labels == 0


@sets("check_augment_leaves_its_input_alone")
class SwitchesInPlace(Exactly):
    """`switch` writes into the labels of its caller."""

    def switch(self, labels, which):
        pair = torch.triu_indices(self.size, self.size, offset=1).T[which]
        return labels.scatter_(1, pair, labels.gather(1, pair.flip(1)))


@sets("check_sets_have_these_vertices")
class CountsALabelTooMuch(AtMost):
    """`label_count` is one too large, and the last label has the vertex of another."""

    @property
    def label_count(self):
        return 3

    def vertices(self, labels):
        return labels.clamp(max=1).float()


@sets("check_sets_refuse_points_outside")
class JudgesTheMean(AtMost):
    """`violations` compares the mean over the batch with the rule, so that good rows hide a bad one."""

    def violations(self, x):
        return {**super().violations(x), f"the sum is at most {self.most}": x.sum(dim=1).mean() - self.most}


@sets("check_sets_refuse_points_outside")
@dataclass(frozen=True)
class ToleratesAll(AtMost):
    """`tolerance` is 0.4, as to silence a check."""

    def tolerance(self, dtype):
        return 0.4


@sets("check_sets_sample_everywhere")
class SharesByEntry(Exactly):
    """`shares` lets each entry move alone, which breaks the sum."""

    def shares(self, count, generator):
        return torch.rand(count, self.size, generator=generator, dtype=torch.float64)


@sets("check_project_is_idempotent")
class SamplesInSinglePrecision(Exactly):
    """`sample` ignores the dtype that it is asked for."""

    def sample(self, count, generator, dtype=torch.float32):
        return super().sample(count, generator).float()


@sets("check_relax_gives_vertices")
class VerticesAsIntegers(AtMost):
    """`vertices` gives the labels themselves, not floats."""

    def vertices(self, labels):
        return labels
