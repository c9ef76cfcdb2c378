"""What a newcomer types first: a file of pairs, the example, wrong columns, and what is printed of them."""

from __future__ import annotations

import csv
import hashlib
import re
from datetime import date, datetime
from pathlib import Path

import pytest
from ele_command import Ele, fails, table

from ele_core.cli.train import competing
from ele_core.config import load
from ele_core.data import objects
from ele_core.data.dataset import split
from ele_core.data.prepare import prepare
from ele_core.files.columns import IDENTIFIERS
from ele_core.report.headline import verdict
from ele_core.runtime.context import Context

PAIRS = "phrase,digits\none,1\ntwo,2\nthree,3\nfour,4\nfive,5\nsix,6\nseven,7\neight,8\nnine,9\nten,10\n"
DATES = "61f9ced453189b66e8de1db7520883d0172c494096e78d1af13f19af396e8ff0"
"""The SHA-256 of the example: figures in the documentation are of these rows."""


# -- a file is enough ---------------------------------------------------------------------------------------------


def test_a_file_of_pairs_is_enough(ele: Ele, tmp_path: Path):
    (tmp_path / "pairs.csv").write_text(PAIRS)
    given = ele("debug", "data", "pairs.csv")
    assert given.code == 0
    assert "outputs are read as 'sequence'; if they are something else: --output-space cell-graph, " in given.err
    assert given.out == ele("debug", "data", "--data", "pairs.csv", "--output-space", "sequence").out
    named = ele("debug", "data", "pairs.csv", "--output-space", "phonemes", "--input", "phrase")
    assert (named.code, named.err) == (0, "")
    assert ele("debug", "data", "pairs.csv", "--quiet").err == ""


def test_a_configuration_and_a_task_are_no_files_of_pairs(ele: Ele, tmp_path: Path):
    (tmp_path / "number-words").mkdir()
    assert "source       number-words" in ele("debug", "data", "number-words").out
    (tmp_path / "mine.toml").write_text("output = ")
    assert fails(ele("debug", "data", "mine.toml"), 2, "is not valid TOML")
    assert fails(ele("debug", "data", "missing.csv"), 2, "there is no file 'missing.csv'")


def test_the_example_is_a_table_of_dates(ele: Ele, tmp_path: Path):
    assert "Next: ele train dates.csv -o run" in ele("example", "dates.csv").out
    content = (tmp_path / "dates.csv").read_bytes()
    assert hashlib.sha256(content).hexdigest() == DATES
    rows = list(csv.DictReader(content.decode().splitlines()))
    assert len({row["phrase"] for row in rows}) == len(rows) == 2000
    read = [(row, form) for row in rows for form in ("%d %B %Y", "%d.%m.%Y", "%A, %d %B %Y") if matches(row, form)]
    assert len(read) > 300
    for row, form in read:
        assert datetime.strptime(row["phrase"], form).date() == date.fromisoformat(row["date"])
    assert fails(ele("example", "dates.csv"), 2, "dates.csv: there is a file already.")
    assert fails(ele("example", "times.csv"), 2, "dates.csv")


def matches(row: dict[str, str], form: str) -> bool:
    try:
        return bool(datetime.strptime(row["phrase"], form))
    except ValueError:
        return False


# -- traps --------------------------------------------------------------------------------------------------------


def test_a_column_that_names_the_rows_is_not_taken_silently(ele: Ele, tmp_path: Path):
    rows = [f"{100 + row},{word},{row}" for row, word in enumerate("abcdefghij")]
    (tmp_path / "pairs.csv").write_text("\n".join(["CAS,word,digit", *rows]))
    found = ele("debug", "data", "pairs.csv", "--output-space", "sequence").out
    assert "warning: the column 'CAS', which is taken as the input, seems to name its rows" in found
    assert "--input 'word'" in found
    assert "warning" not in ele("debug", "data", "pairs.csv", "--output-space", "sequence", "--input", "word").out


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        *[(name, True) for name in ("id", "mol_id", "InChIKey", "Unnamed: 0", "", "CAS number")],
        *[(name, False) for name in ("name", "phrase", "video", "smiles", "keyword")],
    ],
)
def test_names_of_columns_that_name_rows(name, identifier):
    assert bool(IDENTIFIERS.fullmatch(name.lower())) is identifier


def test_equal_rows_stay_in_one_part_of_the_split(ele: Ele, tmp_path: Path):
    words = [f"{first}{second}" for first in "abcdefghij" for second in "klmno"]
    (tmp_path / "pairs.csv").write_text("\n".join(["x,y", *[f"{word},{word}" for word in words * 3]]))
    assert "note: 100 rows equal to an earlier one; equal rows stay" in ele("debug", "data", "pairs.csv").out
    config = load(
        {"output": {"name": "sequence"}, "data": {"file": str(tmp_path / "pairs.csv")}}, ["calibration.pairs=20"]
    )
    data = prepare(config, Context(0)).data
    parts = [
        {data.inputs[row] for row in part.tolist()}
        for part in (data.train, data.validation, data.test, data.calibration)
    ]
    assert all(parts)
    assert sum(map(len, parts)) == len(words)
    (tmp_path / "few.csv").write_text("x,y\n" + "a,b\nc,d\n" * 10)
    few = ele("debug", "data", "few.csv")
    assert few.code == 0
    assert "18 rows equal to an earlier one, and only 2 different: equal rows are trained and tested on" in few.out


def test_without_equal_rows_the_split_is_that_of_the_seed(tmp_path: Path):
    (tmp_path / "pairs.csv").write_text(PAIRS)
    data = prepare(
        load({"output": {"name": "sequence"}, "data": {"file": str(tmp_path / "pairs.csv")}}), Context(0)
    ).data
    assert [part.tolist() for part in (data.train, data.validation, data.test)] == [
        part.tolist() for part in split(10, 2, 0.1, 0)
    ]


def test_swapped_columns_are_answered_with_a_question(ele: Ele, tmp_path: Path):
    graph = '{""nodes"": [""a""], ""edges"": []}'
    (tmp_path / "pairs.csv").write_text("\n".join(["graph,word", *[f'"{graph}",{word}' for word in "abcdefghij"]]))
    for on_error in ("raise", "skip"):
        outcome = ele("debug", "data", "pairs.csv", "--output-space", "padded-graph", "--on-error", on_error)
        assert fails(outcome, 1, "are the two swapped? Choose them with --input and --output.")
    named = ["--input", "word", "--output", "graph"]
    assert ele("debug", "data", "pairs.csv", "--output-space", "padded-graph", *named).code == 0
    (tmp_path / "bad.csv").write_text("\n".join(["word,graph", *[f"{word},{word}" for word in "abcdefghij"]]))
    assert "the two swapped" not in ele("debug", "data", "bad.csv", "--output-space", "padded-graph").err


def test_if_no_input_can_be_used_the_command_fails(ele: Ele, copy: Path, tmp_path: Path):
    (tmp_path / "words.csv").write_text('word\n""\n""\n')
    outcome = ele("predict", copy, "words.csv", "-o", "found.csv")
    assert fails(outcome, 1, "words.csv: no input can be used, the first because: ", "--input")
    assert len(table((tmp_path / "found.csv").read_text())) == 2
    (tmp_path / "words.csv").write_text('word\n""\ntwo\n')
    assert ele("predict", copy, "words.csv").code == 0


def test_that_there_is_no_confidence_is_said_before_the_training(ele: Ele, tmp_path: Path):
    (tmp_path / "pairs.csv").write_text(PAIRS)
    said = ele("debug", "data", "pairs.csv").out
    assert "no confidence: below 1,000 training pairs none are set aside" in said
    assert "--set calibration.pairs=0.1" in said
    assert "no confidence" not in ele("debug", "data", "pairs.csv", "--set", "calibration.pairs=0").out
    assert "no confidence" not in ele("debug", "data", "number-words").out


# -- waits, and what is printed -----------------------------------------------------------------------------------


def test_a_large_file_is_announced(ele: Ele, tmp_path: Path, monkeypatch):
    (tmp_path / "pairs.csv").write_text(PAIRS)
    assert "reading " not in ele("debug", "data", "pairs.csv").err
    monkeypatch.setattr(objects, "LARGE", 10)
    assert f"reading {tmp_path / 'pairs.csv'}, 0 MiB" in ele("debug", "data", "pairs.csv").err


def test_threads_that_compete_are_told(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("os.getloadavg", lambda: (5.04, 0.0, 0.0))
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    assert competing().startswith("this machine is busy (load 5.0, 2 cores): the 2 threads of the training compete")
    monkeypatch.setattr("torch.get_num_threads", lambda: 1)
    assert competing() == ""
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    monkeypatch.setattr("os.getloadavg", lambda: (1.5, 0.0, 0.0))
    assert competing() == ""


def test_only_the_new_columns_can_be_written(ele: Ele, copy: Path, tmp_path: Path):
    (tmp_path / "words.csv").write_text("number,input,prediction\n1,two,x\n2,three,y\n")
    kept = table(ele("predict", copy, "words.csv", "--input", "input").out)
    assert list(kept[0])[:4] == ["number", "input", "prediction", "prediction_2"]
    new = ele("predict", copy, "words.csv", "--input", "input", "--only-new")
    assert list(table(new.out)[0])[:4] == ["input", "prediction", "energy", "status"]
    assert [row["input"] for row in table(new.out)] == ["two", "three"]
    assert "same name" not in new.err


ACCEPTED = [{"least_confidence": 0.95, "accepted": 40, "exact": 39}]


@pytest.mark.parametrize(
    ("exact", "trust", "pairs", "words"),
    [
        (0.012, {"auc": 0.217}, 400, ["about 1 of 100", "does not separate", "More pairs would help most", "400"]),
        (
            0.6,
            {"auc": 0.7},
            20_000,
            ["about 60 of 100", "only in part", "40 of 200, 1 of them wrong", "see the report"],
        ),
        (
            0.98,
            {"auc": 0.99},
            2000,
            ["about 98 of 100", "Confidence separates right from wrong answers (", "200 pairs"],
        ),
        (1.0, {"auc": None}, 2000, ["about 100 of 100", "cannot be said: all are right"]),
        (0.5, {}, 300, ["about 50 of 100", "More pairs"]),
    ],
)
def test_the_verdict_is_in_plain_words(exact, trust, pairs, words):
    assessed = {"examples": 200, "exact": exact, "accepted": ACCEPTED, **trust} if trust else {}
    said = " ".join(verdict({"exact": exact, "examples": 200.0}, assessed, pairs))
    for word in words:
        assert word in said
    assert ("more pairs" in said.lower()) == (exact < 0.95 and pairs < 10_000)
    assert ("onfidence" in said) == bool(trust)


def test_evaluate_ends_with_the_verdict(ele: Ele, copy: Path):
    assert re.search(r"Right in about \d+ of 100, by \d+ pairs that were not trained on\.", ele("evaluate", copy).out)
    assert "Right in" not in ele("evaluate", copy, "--quiet").out
    assert "Right in" not in ele("evaluate", copy, "--oracle").out
