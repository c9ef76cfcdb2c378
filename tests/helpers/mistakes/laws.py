"""Laws that hold for the author's examples, and not for all structures."""

from __future__ import annotations

import json
import re

import torch

from ele_core import Drawing, Metric, SparseRows
from ele_core.numerics.keys import hash_rows, mix
from ele_sequences.space import Tokens, close_gaps
from mistakes.bases import Chosen, Labels, Words
from mistakes.listing import mistake

laws = mistake("laws on structures")


# -- keys ----------------------------------------------------------------------------------------------------------


@laws("check_keys_differ_with_structures")
class KeysOfTheBeginning(Words):
    """The key does not see the last token."""

    def keys(self, batch):
        return hash_rows([batch.tokens[:, :-1]])


@laws("check_keys_differ_with_structures")
class KeysOfABag(Words):
    """The key does not see the order of the tokens."""

    def keys(self, batch):
        return hash_rows([batch.tokens.sort(dim=1).values])


@laws("check_keys_differ_with_structures")
class KeysInASmallBase(Words):
    """The key is a number whose base is less than the number of labels."""

    def keys(self, batch):
        places = (len(self.config.alphabet) - 1) ** torch.arange(self.config.length)
        number = (batch.tokens.long() * places).sum(dim=1)
        return torch.stack([number, number], dim=1)


@laws("check_keys_differ_with_structures")
class KeysInFloats(Words):
    """The key is the sum of a random number for each token and place, rounded to two digits."""

    def keys(self, batch):
        generator = torch.Generator().manual_seed(0)
        weights = torch.rand(len(self.config.alphabet) + 1, self.config.length, generator=generator)
        score = weights[batch.tokens.long(), torch.arange(self.config.length)].sum(dim=1)
        number = (score * 100).round().long()
        return torch.stack([number, number], dim=1)


@laws("check_other_processes_agree")
class KeysByHash(Words):
    """The key is Python's hash of the text, which is another one in each process."""

    def keys(self, batch):
        numbers = torch.tensor([hash(text) for text in self.unpack(batch)], dtype=torch.int64)
        return torch.stack([numbers, mix(numbers)], dim=1).reshape(len(batch), 2)


@laws("check_keys_differ_with_structures")
class KeysOfBytes(Words):
    """The key is read from the bytes of the tensors, so that int8 and int64 have different ones."""

    def keys(self, batch):
        rows = [row.numpy().tobytes() for row in batch.tokens.cpu()]
        numbers = [int.from_bytes(row[:8].ljust(8, b"\0"), "little", signed=True) for row in rows]
        lengths = [len(row) for row in rows]
        return torch.tensor([numbers, lengths], dtype=torch.int64).reshape(2, len(rows)).T.contiguous()


# -- labels and processes ------------------------------------------------------------------------------------------


@laws("check_other_processes_agree")
class InfersFromASet(Labels):
    """`infer` lists the labels in the order of a set, which is another one in each process."""

    @classmethod
    def infer(cls, objects, options):
        return cls.Config(**{"labels": tuple({label for labels in objects for label in labels}), **options})


@laws("check_other_processes_agree")
class NumbersFromASet(Labels):
    """`pack` numbers the labels in the order of a set."""

    @property
    def names(self):
        return tuple(set(self.config.labels))

    def pack(self, objects):
        super().pack(objects)
        rows = [[name in labels for name in self.names] for labels in objects]
        return Chosen(torch.tensor(rows, dtype=torch.int8).reshape(len(rows), len(self.names)))

    def unpack(self, batch):
        return [[name for name, bit in zip(self.names, row, strict=True) if bit] for row in batch.chosen.tolist()]


@laws("check_other_processes_agree")
class FeaturesByHash(Words):
    """The keys of features are Python's hashes of pieces of text."""

    def features(self, batch):
        texts = self.unpack(batch)
        keys = torch.zeros(len(texts), self.config.length, dtype=torch.int64)
        present = torch.zeros(keys.shape, dtype=torch.bool)
        for row, text in enumerate(texts):
            for place, letter in enumerate(text):
                keys[row, place], present[row, place] = hash(f"{place}{letter}"), True
        return SparseRows.counted(keys, present)


# -- metrics and properties ----------------------------------------------------------------------------------------


class OneMetric(Words):
    """Has the metric `measure` beside the exact match."""

    @property
    def metrics(self):
        return self.exact_match, Metric("mine", "min", self.measure)


@laws("check_metrics_hold_for_every_pair")
class DividesByTheTruth(OneMetric):
    """An error rate is divided by the length of the truth, which may be empty."""

    def measure(self, predicted, true):
        wrong = (predicted.tokens != true.tokens).sum(dim=1)
        return wrong / (true.tokens > 0).sum(dim=1)


@laws("check_metrics_hold_for_every_pair")
class DividesByTheDifference(OneMetric):
    """A metric is divided by the number of differences: NaN for a perfect prediction of a long text."""

    def measure(self, predicted, true):
        differs = predicted.tokens != true.tokens
        far = (differs * torch.arange(1, self.config.length + 1)).sum(dim=1).float()
        several = (true.tokens > 0).sum(dim=1) > 4
        return torch.where(several, far / differs.sum(dim=1), far)


@laws("check_metrics_hold_for_every_pair")
class CorrelatesConstants(Labels):
    """The metric is a correlation, NaN where all labels or none are chosen."""

    @property
    def metrics(self):
        return (Metric("correlation", "max", self.correlation),)

    def correlation(self, predicted, true):
        x, y = (each.chosen.float() - each.chosen.float().mean(dim=1, keepdim=True) for each in (predicted, true))
        return (x * y).sum(dim=1) / (x.norm(dim=1) * y.norm(dim=1))


@laws("check_metrics_hold_for_every_pair")
class OverlapOfNothing(Labels):
    """The overlap of two empty sets is 0 / 0."""

    def overlap(self, predicted, true):
        both, either = predicted.chosen & true.chosen, predicted.chosen | true.chosen
        return both.sum(dim=1) / either.sum(dim=1)


@laws("check_properties_are_finite")
class MeanOfNothing(Words):
    """A property is a mean over the tokens, of which there may be none."""

    class Show(Words.Show):
        def properties(self, batch):
            present = batch.tokens > 0
            return {"mean": (batch.tokens * present).sum(dim=1) / present.sum(dim=1)}


@laws("check_features_are_finite")
class FeaturesOfNothing(Words):
    """Features are divided by the number of tokens, of which there may be none."""

    def features(self, batch):
        flat = self.relax(batch).tokens.flatten(start_dim=1)
        return SparseRows.dense(flat / (batch.tokens > 0).sum(dim=1, keepdim=True))


@laws("check_metrics_hold_for_every_pair")
class RewardsTheLongest(OneMetric):
    """A metric to minimise subtracts a bonus for full length, so that some prediction beats the truth."""

    def measure(self, predicted, true):
        wrong = (predicted.tokens != true.tokens).sum(dim=1).float()
        return wrong - 2.0 * (predicted.tokens > 0).all(dim=1)


# -- texts ---------------------------------------------------------------------------------------------------------


@laws("check_texts_survive")
class FormatsInLines(Labels):
    """`format` writes one label a line."""

    @classmethod
    def format(cls, obj):
        return "\n".join(obj)

    @classmethod
    def parse(cls, text):
        return text.split("\n") if text else []


@laws("check_texts_survive")
class FormatsWithAReturn(Labels):
    """`format` ends with a carriage return, which tables read as a line break."""

    @classmethod
    def format(cls, obj):
        return ", ".join(obj) + "\r"


@laws("check_texts_survive")
class FormatStrips(Words):
    """`format` strips spaces, which may be tokens."""

    @classmethod
    def format(cls, obj):
        return obj.strip()


@laws("check_texts_survive")
class FormatShortens(Words):
    """`format` shortens long texts for display."""

    @classmethod
    def format(cls, obj):
        return obj if len(obj) < 5 else obj[:3] + "…"


@laws("check_texts_survive")
class ParseJoinsSpaces(Words):
    """`parse` makes one space of several."""

    @classmethod
    def parse(cls, text):
        return re.sub(" +", " ", text)


@laws("check_infer_holds_the_objects")
class UnpacksLists(Words):
    """`unpack` gives lists, which `format` does not write as `parse` reads them."""

    def unpack(self, batch):
        return [list(text) for text in super().unpack(batch)]


@laws("check_parse_refuses_politely")
class ParseEvaluates(Labels):
    """`parse` calls `eval`, so that a file can run code."""

    @classmethod
    def format(cls, obj):
        return repr(obj)

    @classmethod
    def parse(cls, text):
        from ele_core.errors import InvalidOutput

        try:
            found = eval(text)
        except Exception as error:
            raise InvalidOutput("not a list.") from error
        if not isinstance(found, list):
            raise InvalidOutput("not a list.")
        return found


@laws("check_parse_refuses_politely")
class ParseNests(Labels):
    """`parse` reads JSON and expects its usual errors only, not those of deep nesting."""

    @classmethod
    def format(cls, obj):
        return json.dumps(obj)

    @classmethod
    def parse(cls, text):
        from ele_core.errors import InvalidOutput

        try:
            found = json.loads(text)
        except ValueError as error:
            raise InvalidOutput("not JSON.") from error
        if not isinstance(found, list):
            raise InvalidOutput("not a list.")
        return found


# -- drawings ------------------------------------------------------------------------------------------------------


@laws("check_every_pair_can_be_drawn")
class DrawsUpToTheOther(Words):
    """`render` compares letter by letter and fails if the other text is shorter."""

    class Show(Words.Show):
        def render(self, obj, against=None):
            if against is None:
                return Drawing(obj or "(empty)")
            return Drawing("".join(f"[{c}]" if c != against[i] else c for i, c in enumerate(obj)) or "(empty)")


@laws("check_every_pair_can_be_drawn")
class DrawsTheFirstLetter(Words):
    """`render` fails for an empty text."""

    class Show(Words.Show):
        def render(self, obj, against=None):
            return Drawing(obj[0].upper() + obj[1:])


@laws("check_every_pair_can_be_drawn")
class DrawsUnescaped(Labels):
    """`render` writes labels into SVG without escaping them, and a label has an ampersand in it."""

    class Show(Labels.Show):
        def render(self, obj, against=None):
            text = ", ".join(label.replace("new", "new & old") for label in obj)
            return Drawing(text or "(none)", f'<svg xmlns="http://www.w3.org/2000/svg"><text>{text}</text></svg>')


@laws("check_every_pair_can_be_drawn")
class DrawsNothing(Labels):
    """`render` gives an empty text for an empty set."""

    class Show(Labels.Show):
        def render(self, obj, against=None):
            return Drawing(", ".join(obj))


# -- packing and relaxing ------------------------------------------------------------------------------------------


@laws("check_structures_survive_packing")
class UnpackSqueezes(Words):
    """`unpack` squeezes its batch, so that one row becomes many objects."""

    def unpack(self, batch):
        rows = batch.tokens.squeeze().tolist()
        symbols = ("", *self.config.alphabet)
        return ["".join(symbols[label] for label in (row if isinstance(row, list) else [row])) for row in rows]


@laws("check_unrelax_gives_structures")
class UnpackSkipsRepeats(Words):
    """`unpack` drops a token that is the same as the one before it."""

    def unpack(self, batch):
        return [re.sub(r"(.)\1+", r"\1", text) for text in super().unpack(batch)]


@laws("check_structures_survive_packing")
class PackSortsTheList(Labels):
    """`pack` sorts the lists of its caller."""

    def pack(self, objects):
        for labels in objects:
            if isinstance(labels, list):
                labels.sort(key=str)
        return super().pack(objects)


@laws("check_relaxing_loses_nothing")
class UnrelaxSorts(Words):
    """`unrelax` sorts the tokens, as if sequences were sets."""

    def unrelax(self, point):
        tokens = super().unrelax(point).tokens
        return close_gaps(Tokens(tokens.sort(dim=1, descending=True).values))

    def examples(self):
        return ["a", "cb", "ca"]


@laws("check_neighbours_follow_the_gradient")
class RelaxForgetsTheLast(Words):
    """`relax` cuts the last position to nothing when a sequence has full length."""

    def relax(self, batch):
        tokens = batch.tokens.clone()
        tokens[:, -1] = 0
        return super().relax(Tokens(tokens))


# -- infer ---------------------------------------------------------------------------------------------------------


@laws("check_infer_obeys_each_option")
class InferDropsAnOption(Labels):
    """`infer` keeps the labels that are given and forgets the other options."""

    @classmethod
    def infer(cls, objects, options):
        found = sorted({label for labels in objects for label in labels})
        return cls.Config(labels=options.get("labels", found))


@laws("check_infer_obeys_each_option")
class InferKnowsBetter(Words):
    """`infer` raises a length that is given to what the data need."""

    @classmethod
    def infer(cls, objects, options):
        found = super().infer(objects, options)
        longest = max((len(obj) for obj in objects), default=1)
        return found.model_copy(update={"length": max(found.length, longest)})


@laws("check_infer_obeys_each_option")
class InferWritesOptions(Labels):
    """`infer` adds what it found to the options of its caller."""

    @classmethod
    def infer(cls, objects, options):
        options.setdefault("labels", tuple(sorted({label for labels in objects for label in labels})))
        return cls.Config(**options)


# -- views and moves -----------------------------------------------------------------------------------------------


@laws("check_views_are_drawn_for_each_row")
class AugmentsAllAlike(Labels):
    """`augment` draws once for the whole batch."""

    def augment(self, batch, generator):
        flipped = torch.rand(1, batch.chosen.shape[1], generator=generator) < 0.5
        return Chosen(torch.where(flipped, 1 - batch.chosen, batch.chosen))


@laws("check_views_are_drawn_for_each_row")
class AugmentsWithTheSameSeed(Words):
    """`augment` makes a generator of its own, so that a structure has the same view in every epoch."""

    def augment(self, batch, generator):
        return super().augment(batch, torch.Generator().manual_seed(0))


@laws("check_views_are_drawn_for_each_row")
class AugmentsByShuffling(Words):
    """`augment` shuffles the batch, so that a row gets the view of another structure."""

    def augment(self, batch, generator):
        return super().augment(batch, generator)[torch.randperm(len(batch), generator=generator)]


@laws("check_neighbours_follow_the_gradient")
class MovesByTheFirstRow(Words):
    """`along` ranks the moves of every row by the gradient of the first one."""

    class Moves(Words.Moves):
        def along(self, batch, gradient):
            return super().along(batch, gradient[torch.zeros(len(batch), dtype=torch.long)])
