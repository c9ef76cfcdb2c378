"""Output spaces that break one law each."""

from __future__ import annotations

import itertools
from typing import ClassVar

import torch
from pydantic import ConfigDict

from ele_core.interfaces import OutputSpace
from ele_core.numerics.sparse import SparseRows
from ele_core.types import Bounded, Drawing, Metric
from ele_sequences.space import SequenceSpace, Tokens, close_gaps
from mistakes.listing import ONE_LAW, mistake

caught_by = mistake(ONE_LAW)


class Plain(SequenceSpace):
    """Nothing is wrong with this one."""


@caught_by("check_examples_are_different")
class RepeatsAnExample(Plain):
    def examples(self):
        return ["a", "b", "a"]


@caught_by("check_examples_are_different")
class HasOneExample(Plain):
    def examples(self):
        return ["a"]


@caught_by("check_pack_gives_a_batch")
class PacksFloats(Plain):
    def pack(self, objects):
        return super().pack(objects).map(torch.Tensor.float)


@caught_by("check_pack_gives_a_batch")
class PacksLabelsThatAreNone(Plain):
    def pack(self, objects):
        return super().pack(objects).map(lambda tokens: tokens + 1)


@caught_by("check_keys_tell_structures_apart")
class KeysAreConstant(Plain):
    def keys(self, batch):
        return torch.zeros(len(batch), 2, dtype=torch.int64)


@caught_by("check_keys_tell_structures_apart")
class KeysAreHalves(Plain):
    def keys(self, batch):
        return super().keys(batch)[:, 0]


@caught_by("check_keys_ignore_the_packing")
class KeysKnowThePacking(Plain):
    features = OutputSpace.features

    def equivalents(self, batch, generator):
        return Tokens(batch.tokens.flip(1))


@caught_by("check_unpack_inverts_pack")
class UnpackLosesTheEnd(Plain):
    def unpack(self, batch):
        return [text[:2] for text in super().unpack(batch)]


@caught_by("check_parse_inverts_format")
class ParseLosesTheEnd(Plain):
    @classmethod
    def parse(cls, text):
        return text.rstrip("c")


@caught_by("check_parse_refuses_politely")
class ParseRaisesAnything(Plain):
    @classmethod
    def parse(cls, text):
        if "{" in text:
            raise KeyError(text)
        return text


@caught_by("check_foreign_objects_are_refused")
class TakesWhatIsForeign(Plain):
    def pack(self, objects):
        return super().pack([obj if isinstance(obj, str) else "" for obj in objects])


@caught_by("check_foreign_objects_are_refused")
class RaisesATypeError(Plain):
    def pack(self, objects):
        [len(obj) for obj in objects]
        return super().pack(objects)


@caught_by("check_foreign_objects_are_refused")
class NamesTheWrongObject(Plain):
    def pack(self, objects):
        if not all(isinstance(obj, str) for obj in objects):
            raise self.invalid("something is no text.", 0)
        return super().pack(objects)


@caught_by("check_infer_holds_the_objects")
class InfersTooLittle(Plain):
    @classmethod
    def infer(cls, objects, options):
        return cls.Config(**{"alphabet": ("a", "b", "c"), "length": min(map(len, objects)) + 1, **options})


@caught_by("check_infer_obeys_options")
class InfersAgainstTheUser(Plain):
    @classmethod
    def infer(cls, objects, options):
        found = super().infer(objects, {})
        return cls.Config(**{**options, "length": max(found.length, 2), "alphabet": ("a", "b", "c")})


@caught_by("check_configuration_is_the_whole_state")
class HidesAState(Plain):
    built: ClassVar = itertools.count()

    def __init__(self, config=None):
        super().__init__(config)
        self.turn = next(self.built) % len(self.config.alphabet)

    def pack(self, objects):
        tokens, size = super().pack(objects).tokens, len(self.config.alphabet)
        return Tokens(torch.where(tokens > 0, (tokens - 1 + self.turn) % size + 1, tokens))

    def unpack(self, batch):
        tokens, size = batch.tokens, len(self.config.alphabet)
        return super().unpack(Tokens(torch.where(tokens > 0, (tokens - 1 - self.turn) % size + 1, tokens)))


@caught_by("check_relax_gives_vertices")
class RelaxesHalfWay(Plain):
    def relax(self, batch):
        return super().relax(batch).map(lambda tokens: 0.8 * tokens + 0.2 / tokens.shape[-1])


@caught_by("check_unrelax_inverts_relax")
class UnrelaxesBackwards(Plain):
    def unrelax(self, point):
        return close_gaps(Tokens(super().unrelax(point).tokens.flip(1)))


@caught_by("check_unrelax_gives_structures")
class UnrelaxLeavesGaps(Plain):
    def unrelax(self, point):
        return OutputSpace.unrelax(self, point)


@caught_by("check_project_is_feasible")
class ProjectsNothing(Plain):
    def project(self, point):
        return point


@caught_by("check_project_is_idempotent")
class ProjectsTowardsTheCentre(Plain):
    def project(self, point):
        return super().project(point).map(lambda tokens: 0.9 * tokens + 0.1 / tokens.shape[-1])


@caught_by("check_project_is_nearest")
class ProjectsByNormalising(Plain):
    def project(self, point):
        def normalised(tokens):
            positive = tokens.clamp(min=0)
            total = positive.sum(dim=-1, keepdim=True)
            return torch.where(total > 0, positive / total.clamp(min=1e-30), 1 / tokens.shape[-1])

        return point.map(normalised)


@caught_by("check_project_works_at_all_scales")
class ProjectsOnlyWhatIsNear(Plain):
    def project(self, point):
        return super().project(point.map(lambda tokens: tokens.clamp(-50, 50)))


@caught_by("check_project_keeps_dtype_and_device")
class ProjectsInSinglePrecision(Plain):
    def project(self, point):
        return super().project(point) if point.tokens.dtype == torch.float32 else self.exactly(point)

    def exactly(self, point):
        return Tokens(super().project(point).tokens.float())


@caught_by("check_project_leaves_its_input_alone")
class ProjectsInPlace(Plain):
    def project(self, point):
        projected = super().project(point)
        point.tokens.zero_()
        return projected


@caught_by("check_augment_stays_inside")
class AugmentsIntoGaps(Plain):
    def augment(self, batch, generator):
        kept = torch.rand(batch.tokens.shape, generator=generator) > 0.3
        return Tokens(batch.tokens * kept)


@caught_by("check_augment_is_seeded")
class AugmentsFromTheGlobalGenerator(Plain):
    def augment(self, batch, generator):
        return super().augment(batch, torch.Generator().manual_seed(int(torch.randint(1 << 30, (1,)))))


@caught_by("check_augment_is_seeded")
class AugmentsDifferentlyEachTime(Plain):
    calls: ClassVar = itertools.count()

    def augment(self, batch, generator):
        return super().augment(batch, torch.Generator().manual_seed(next(self.calls)))


@caught_by("check_augment_changes_something")
class AugmentsNothing(Plain):
    def augment(self, batch, generator):
        return batch


@caught_by("check_augment_leaves_its_input_alone")
class AugmentsInPlace(Plain):
    def augment(self, batch, generator):
        batch.tokens.copy_(super().augment(batch, generator).tokens)
        return batch


@caught_by("check_neighbours_are_inside")
class MovesIntoGaps(Plain):
    class Moves(Plain.Moves):
        def list(self, batch):
            return OutputSpace.Moves.list(self, batch)


@caught_by("check_neighbours_are_inside")
class MovesOutOfOrder(Plain):
    class Moves(Plain.Moves):
        def neighbours(self, batch, gradient=None, limit=None):
            moved, owner = super().neighbours(batch, gradient, limit)
            return moved[torch.arange(len(moved)).flip(0)], owner.flip(0)


@caught_by("check_neighbours_belong_to_their_rows")
class MovesOfOtherRows(Plain):
    class Moves(Plain.Moves):
        def neighbours(self, batch, gradient=None, limit=None):
            moved, owner = super().neighbours(batch, gradient, limit)
            return moved[torch.arange(len(moved)).flip(0)], owner


@caught_by("check_neighbours_are_different")
class MovesThatChangeNothing(Plain):
    class Moves(Plain.Moves):
        def neighbours(self, batch, gradient=None, limit=None):
            moved, owner = super().neighbours(batch, gradient)
            order = torch.cat([owner, torch.arange(len(batch))]).argsort(stable=True)
            together, rows = Tokens.cat([moved, batch])[order], torch.cat([owner, torch.arange(len(batch))])[order]
            return first_of_each_row(together, rows, limit)


@caught_by("check_neighbours_are_different")
class MovesTwice(Plain):
    class Moves(Plain.Moves):
        def neighbours(self, batch, gradient=None, limit=None):
            moved, owner = super().neighbours(batch, gradient)
            twice = torch.arange(len(moved)).repeat_interleave(2)
            return first_of_each_row(moved[twice], owner[twice], limit)


def first_of_each_row(moved, owner, limit):
    from ele_core.numerics.keys import ranks

    kept = (ranks(owner) < (limit or len(owner) + 1)).nonzero().flatten()
    return moved[kept], owner[kept]


@caught_by("check_neighbours_respect_the_limit")
class MovesWithoutLimit(Plain):
    class Moves(Plain.Moves):
        def neighbours(self, batch, gradient=None, limit=None):
            return super().neighbours(batch, gradient)


@caught_by("check_neighbours_follow_the_gradient")
class MovesUphill(Plain):
    class Moves(Plain.Moves):
        def neighbours(self, batch, gradient=None, limit=None):
            return super().neighbours(batch, None if gradient is None else gradient.map(torch.neg), limit)


@caught_by("check_neighbours_follow_the_gradient")
class LimitsTheWrongOnes(Plain):
    class Moves(Plain.Moves):
        def neighbours(self, batch, gradient=None, limit=None):
            return super().neighbours(batch, gradient if limit is None else None, limit)


class OneMetric(Plain):
    """Its one metric is `measure`."""

    direction = "min"

    @property
    def metrics(self):
        return (Metric("mine", self.direction, self.measure),)

    def measure(self, predicted, true):
        return (predicted.tokens != true.tokens).sum(dim=1).float()


@caught_by("check_metrics_give_a_number_a_row")
class MeasuresTheWholeBatch(OneMetric):
    def measure(self, predicted, true):
        return super().measure(predicted, true).mean()


@caught_by("check_metrics_give_a_number_a_row")
class MeasuresNothing(OneMetric):
    def measure(self, predicted, true):
        return super().measure(predicted, true) / 0


@caught_by("check_metrics_give_a_number_a_row")
class MixesUpItsBounds(OneMetric):
    def measure(self, predicted, true):
        value = super().measure(predicted, true)
        return Bounded(lower=value + 1, upper=value)


@caught_by("check_metrics_are_best_on_equals")
class MeasuresTheWrongWay(OneMetric):
    direction = "max"


@caught_by("check_rows_are_independent")
class MeasuresByTheBatch(OneMetric):
    def measure(self, predicted, true):
        return super().measure(predicted, true) * len(predicted)


@caught_by("check_properties_give_a_number_a_row")
class DescribesTheWholeBatch(Plain):
    class Show(Plain.Show):
        def properties(self, batch):
            return {"length": (batch.tokens > 0).sum(dim=1, keepdim=True)}


@caught_by("check_features_are_those_of_the_structure")
class CountsByTheBatch(Plain):
    def features(self, batch):
        return SparseRows.dense(super().relax(batch).tokens.flatten(start_dim=1) * len(batch))


@caught_by("check_features_are_those_of_the_structure")
class CountsNothing(Plain):
    def features(self, batch):
        return SparseRows.dense(torch.ones(len(batch), 1))


@caught_by("check_render_gives_a_drawing")
class DrawsWithoutEscaping(Plain):
    class Show(Plain.Show):
        def render(self, obj, against=None):
            return Drawing(obj, f"<svg xmlns='http://www.w3.org/2000/svg'><text>{obj} & more</text></svg>")


@caught_by("check_render_gives_a_drawing")
class DrawsAText(Plain):
    class Show(Plain.Show):
        def render(self, obj, against=None):
            return obj


@caught_by("check_empty_batches_work")
class NeedsARow(Plain):
    class Show(Plain.Show):
        def properties(self, batch):
            return {"longest": (batch.tokens > 0).sum(dim=1) - (batch.tokens > 0).sum(dim=1).max() * 0}


@caught_by("check_batches_are_left_alone")
class CountsInPlace(Plain):
    class Show(Plain.Show):
        def properties(self, batch):
            return {"length": batch.tokens.clamp_(max=1).sum(dim=1)}


@caught_by("check_constraints_judge_structures")
class ViolatesNothing(Plain):
    class Rules(Plain.Rules):
        def violation(self, batch, constraint):
            return torch.zeros(len(batch))

        def satisfies(self, batch, constraint):
            return super().violation(batch, constraint) == 0


@caught_by("check_constraints_judge_structures")
class DoesNotSatisfyItself(Plain):
    class Rules(Plain.Rules):
        def of(self, batch, names):
            return super().of(batch.map(lambda tokens: tokens.flip(0)), names)


@caught_by("check_constraints_judge_structures")
class ViolatesByOtherRows(Plain):
    class Rules(Plain.Rules):
        def satisfies(self, batch, constraint):
            return super().violation(batch, constraint) == 0

        def violation(self, batch, constraint):
            found = super().violation(batch, constraint)
            return found * (1 + found.sum())


@caught_by("check_constraints_judge_structures")
class SatisfiesInNumbers(Plain):
    class Rules(Plain.Rules):
        def satisfies(self, batch, constraint):
            return super().satisfies(batch, constraint).float()


@caught_by("check_constraints_judge_structures")
class JudgesNothing(Plain):
    class Rules(Plain.Rules):
        def satisfies(self, batch, constraint):
            raise NotImplementedError


@caught_by("check_options_are_documented")
class SaysNothingOfAnOption(Plain):
    class Config(SequenceSpace.Config):
        """One option more."""

        depth: int = 3


@caught_by("check_unknown_options_are_refused")
class TakesAnyOption(Plain):
    class Config(SequenceSpace.Config):
        """Typing errors pass."""

        model_config = ConfigDict(extra="ignore")


def small(cls: type[SequenceSpace]) -> SequenceSpace:
    """A space of short words."""
    return cls(cls.Config(alphabet=("a", "b", "c"), length=4))
