"""Random SMILES, CSV, JSONL, TOML and `--set` texts: every one is read or refused with an error of ours, and in time.

The texts are made of good ones by random edits: pieces of others, characters of the format, characters of all kinds,
cuts and repetitions. A million of them take minutes; a generator that can shrink its examples would take hours, and the
laws that need one are tests.
"""

import io
import random
import time
import tomllib
from collections.abc import Callable

from common import Journal

from ele_core import config as configuration
from ele_core.errors import EleError
from ele_core.files.columns import Unreadable, keep
from ele_core.files.tables import as_csv
from ele_core.files.text_tables import read_jsonl, read_separated
from ele_graphs.molecules.rdkit_adapter import UnreadableMolecule, read

BLOCK = 10_000
"""Inputs whose result is one line of the journal."""
SLOW = 5.0
"""Seconds after which an input counts as slow."""

SMILES = [
    "CC(=O)OC",
    "c1ccccc1O",
    "C[N+](C)(C)CC([O-])=O",
    "N#Cc1ccc2[nH]cnc2c1",
    "FC(F)(F)C1CC1",
    "[13CH4]",
    "O=C=O.[Na+]",
]
CSV = ["a,b\n1,2\n", 'x;y\n"p;q";r\n', "input,output\none,1\ntwo,2\n", 'a\tb\n"quo""te"\t=1+1\n', "ä,b\r\n1,\r\n,2\r\n"]
JSONL = [
    '{"input": "one", "output": 1}\n{"input": "two", "output": [1, 2]}\n',
    '{"a": {"b": null}}\n',
    '{"a": "\\u00e4"}\n',
]
TOML = [
    'task = "number-words"\n[surrogate]\ndim = 8\n',
    '[output]\nname = "sequence"\nalphabet = ["a", "b"]\nlength = 3\n',
    'seed = 1\n[regressor]\nname = "neural"\ntraining = {epochs = 2}\n',
]
SETS = [
    "surrogate.dim=8",
    "regressor.training.learning_rate=1e-3",
    "decoder=pgd",
    'output.alphabet=["a"]',
    "data.input='x'",
]
SPECIAL = "\x00\x1b\t\r\n\\\"'`{}[]()<>=+-*/%&|^~#@!?,.;:_ 0123456789eEnN\u00e4\u202e\ufeff\U0001f642\ud800"
SIGNS = {
    "SMILES": "CNOFSPIBcnos()[]=#$:.%@+-/\\123456789HBrCl*",
    "CSV": ",;\t\"\n\r=+-@'",
    "JSONL": '{}[]",:\\\n.eE-+0truefalsnlNaI',
    "TOML": "[]{}=\"'\n.,#_-+:TZ0xinfa",
    "--set": "=.,[]{}\"'_-+eEtrufalsno ",
}


def smiles(text: str) -> bool:
    """Read a SMILES; the canonical one is read as itself."""
    found = read(text)
    assert read(found.smiles).smiles == found.smiles, "the canonical SMILES is another after it is read"
    return True


def csv(text: str) -> bool:
    """Read a CSV; written and read again it is the same."""
    for suffix in (".csv", ".tsv"):
        table = next(read_separated(io.StringIO(text, newline=""), f"file{suffix}", suffix, keep(None, "file")))
        rows = [dict(enumerate(row)) for row in zip(*table.columns.values(), strict=True)]
        plain = [row for row in rows if not any(isinstance(cell, Unreadable) for cell in row.values())]
        names = [str(place) for place in range(len(table.names))]
        written = as_csv([{str(k): v for k, v in row.items()} for row in plain], names)
        again = next(read_separated(io.StringIO(written, newline=""), "file.csv", ".csv", keep(None, "file")))
        same = [tuple(row.values()) for row in plain if len(names) > 1 or any(row.values())]
        found = list(zip(*again.columns.values(), strict=True))
        if len(names) > 1:
            assert found == same, "the table is another after it is written and read"
    return True


def jsonl(text: str) -> bool:
    """Read JSON lines."""
    table = next(read_jsonl(io.StringIO(text), "file.jsonl", None))
    return any(not isinstance(cell, Unreadable) for column in table.columns.values() for cell in column)


def toml(text: str) -> bool:
    """Read a configuration; written and read again it is the same."""
    config = configuration.load(tomllib.loads(text))
    again = configuration.load(tomllib.loads(configuration.dump(config)))
    assert again.model_dump() == config.model_dump(), "the configuration is another after it is written and read"
    return True


def override(text: str) -> bool:
    """Read an override."""
    configuration.as_changes([text])
    return True


PARSERS: dict[str, tuple[list[str], Callable[[str], bool], int]] = {
    "SMILES": (SMILES, smiles, 25),
    "CSV": (CSV, csv, 25),
    "JSONL": (JSONL, jsonl, 25),
    "TOML": (TOML, toml, 5),
    "--set": (SETS, override, 20),
}
"""Name → good texts, the parser, and the share of the inputs in per cent."""
REFUSALS = (EleError, UnreadableMolecule, tomllib.TOMLDecodeError)


def inputs_all(journal: Journal, count: int) -> None:
    """Give all parsers their share of `count` inputs, in blocks."""
    for name, (good, parser, share) in PARSERS.items():
        wanted = count * share // 100
        for first in range(0, wanted, BLOCK):
            block = f"{name} {first}"
            if not journal.has("inputs", block):
                chance = random.Random(block)
                texts = (changed(chance, good, SIGNS[name]) for _ in range(min(BLOCK, wanted - first)))
                journal.add("inputs", block, format=name, **judged(parser, texts))


def judged(parser: Callable[[str], bool], texts) -> dict:
    """How many inputs were read and refused, and those that failed or were slow."""
    counts = {"inputs": 0, "read": 0, "refused": 0}
    failures: list[str] = []
    slowest = 0.0
    for text in texts:
        began = time.process_time()
        counts["inputs"] += 1
        try:
            counts["read" if parser(text) else "refused"] += 1
        except REFUSALS:
            counts["refused"] += 1
        except Exception as error:  # what the drill looks for
            failures.append(f"{type(error).__name__}: {error} for {text!r}"[:400])
        took = time.process_time() - began
        slowest = max(slowest, took)
        if took > SLOW:
            failures.append(f"{took:.1f} s for {text!r}"[:400])
    return {**counts, "failed": len(failures), "failures": failures[:5], "slowest_seconds": round(slowest, 3)}


def changed(chance: random.Random, good: list[str], signs: str) -> str:
    """A good text after one to six random edits."""
    text = chance.choice(good)
    for _ in range(chance.randint(1, 6)):
        first = chance.randint(0, len(text))
        end = min(len(text), first + chance.choice((0, 0, 1, 2, 5)))
        kind = chance.random()
        if kind < 0.5:
            piece = "".join(chance.choices(signs, k=chance.randint(0, 4)))
        elif kind < 0.7:
            piece = chance.choice(SPECIAL)
        elif kind < 0.9:
            other = chance.choice(good)
            start = chance.randint(0, len(other))
            piece = other[start : start + chance.randint(1, 12)]
        else:
            piece = text[first:end] * chance.randint(2, 30)
        text = text[:first] + piece + text[end:]
    return text
