"""Input spaces that work on the author's examples."""

from __future__ import annotations

import json
import pickle

import numpy as np
import torch

from ele_core.components.inputs.text import TextInput
from ele_core.components.inputs.vector import VectorInput
from ele_core.numerics.sparse import SparseRows
from mistakes.listing import ONE_LAW, mistake

inputs = mistake("input spaces")


class Bag(VectorInput):
    """A base for text inputs that are counted: words → (B, D) counts."""

    words: tuple[str, ...] = ()

    def parse(self, text):
        if not text.strip():
            raise self.invalid("no words.")
        return text

    def format(self, value):
        return value

    def fit(self, values):
        self.words = self.learned(values)
        super().fit(np.eye(len(self.words)))

    def learned(self, values):
        return tuple(sorted({word for text in values for word in text.split()}))

    def pack(self, values):
        for index, text in enumerate(values):
            if not isinstance(text, str):
                raise self.invalid("not a text.", index)
        rows = [[text.split().count(word) for word in self.words] for text in values]
        return super().pack(np.array(rows, dtype=float).reshape(len(rows), len(self.words)))

    def examples(self):
        return ["the cat", "a dog and a cat", "the dog runs"]

    def unlike_training(self, values):
        return [""] * len(values)

    def save(self, folder):
        super().save(folder)
        (folder / "words.json").write_text(json.dumps(self.words))

    def load(self, folder):
        super().load(folder)
        self.words = tuple(json.loads((folder / "words.json").read_text()))


@inputs("check_input_other_processes_agree")
class VocabularyFromASet(Bag):
    """The vocabulary is in the order of a set, another one in each process."""

    def learned(self, values):
        return tuple({word for text in values for word in text.split()})


@inputs("check_input_fits_anew")
class VocabularyGrows(Bag):
    """A second `fit` adds to the vocabulary of the first."""

    def learned(self, values):
        return tuple(sorted({*self.words, *super().learned(values)}))


@inputs("check_input_values_are_left_alone")
class FitSortsValues(Bag):
    """`fit` sorts the list of its caller."""

    def fit(self, values):
        if isinstance(values, list):
            values.sort(key=len, reverse=True)
        super().fit(values)


@mistake(ONE_LAW)("check_input_properties_are_values")
class PropertiesOfSome(Bag):
    """`properties` leaves out what an input does not have."""

    def properties(self, value):
        return {"articles": 1} if "the" in value else {}


@inputs("check_input_packs_what_it_has_not_seen")
class UnknownWordsFail(Bag):
    """`pack` fails with a KeyError at a word that the training texts do not have."""

    def pack(self, values):
        numbers = {word: number for number, word in enumerate(self.words)}
        [numbers[word] for text in values if isinstance(text, str) for word in text.split()]
        return super().pack(values)


@inputs("check_input_fits_anew")
class StandardisesConstants(VectorInput):
    """Features are divided by their deviation, which may be 0."""

    def fit(self, values):
        super().fit(values)
        matrix = np.array(values, dtype=float)
        self._scaling = matrix.mean(axis=0), matrix.std(axis=0)


@inputs("check_input_other_processes_agree")
class InputFeaturesByHash(Bag):
    """The keys of features are Python's hashes of words."""

    def features(self, batch, *, grams=4):
        keys = torch.tensor([hash(word) for word in self.words], dtype=torch.int64)
        return SparseRows.counted(keys.expand(len(batch), -1), batch.values > 0)


@inputs("check_input_load_inverts_save")
class SavesAPickle(Bag):
    """`save` writes a pickle: whoever loads the model runs what is in it."""

    def save(self, folder):
        super().save(folder)
        (folder / "words.pkl").write_bytes(pickle.dumps(self.words))


@inputs("check_input_parse_inverts_format")
class FormatsInputsInLines(Bag):
    """`format` writes one word a line."""

    def format(self, value):
        return "\n".join(value.split())


@inputs("check_input_parse_inverts_format")
class FormatCutsTexts(TextInput):
    """`format` strips texts, so that a text with a space at its end is another one when it is read again."""

    def format(self, value):
        return value.strip()


@inputs("check_input_load_inverts_save")
class KeepsThePathOfItsFile(Bag):
    """`load` remembers its folder and reads the vocabulary from there at every `pack`."""

    folder = None

    def load(self, folder):
        super().load(folder)
        self.folder = folder

    def pack(self, values):
        if self.folder is not None:
            self.words = tuple(json.loads((self.folder / "words.json").read_text()))
        return super().pack(values)


@inputs("check_input_packs_what_it_has_not_seen")
class WordsOfTheBatch(Bag):
    """`pack` learns new words as it meets them, so that later batches are wider."""

    def pack(self, values):
        if all(isinstance(text, str) for text in values):
            known = {*self.words, *self.learned(values)}
            if len(known) > len(self.words):
                self.words = (*self.words, *sorted(known - set(self.words)))
                VectorInput.fit(self, np.eye(len(self.words)))
        return super().pack(values)


@inputs("check_input_nearest_forgets_earlier_batches")
class RemembersTheLastValues(VectorInput):
    """`nearest` compares with the batch that was packed last."""

    last = None

    def nearest(self, batch, others):
        self.last = self.last if self.last is not None and len(others) else others
        return super().nearest(batch, self.last)
