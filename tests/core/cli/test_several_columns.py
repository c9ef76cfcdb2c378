"""Several columns of a file as one input: `--input` given more than once."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

import pytest
from ele_command import Ele

from ele_core.report.trial import Trial

OPTIONS = [
    *("--set=surrogate=parts", "--set=surrogate.dim=128", "--set=decoder=candidates"),
    *("--set=regressor=sketched-ridge", "--set=regressor.sketch.size=150"),
]
"""Components that learn in closed form, in a moment."""
TWO = ("--input", "word", "--input", "tag", "--output", "letters")


def written(file: Path, rows: list[list[str]]) -> Path:
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows([["word", "tag", "letters"], *rows])
    return file


def rows_of(count: int) -> list[list[str]]:
    """Words of two letters and a tag, which says which letter, doubled, is the output."""
    rng, rows = random.Random(0), []
    for _ in range(count):
        word, tag = "".join(rng.choices("abc", k=2)), rng.choice(["first", "last"])
        rows.append([word, tag, word[0 if tag == "first" else -1] * 2])
    return rows


@pytest.fixture
def run(ele: Ele, tmp_path: Path) -> Path:
    file = written(tmp_path / "pairs.csv", rows_of(150))
    done = ele("train", file, *TWO, *OPTIONS, "--no-report", "-o", "run")
    assert done.code == 0, done.err
    assert "input: columns 'word', 'tag'; output: column 'letters'" in done.err
    assert "input: 'word' as text, 'tag' as text; otherwise, as in --set input.columns.word=text" in done.err
    return tmp_path / "run"


def test_a_run_is_evaluated_resumed_and_predicts_for_files_with_its_columns(ele, run, tmp_path):
    assert '"exact": 1.0' in ele("evaluate", run, "--json").out
    assert ele("resume", run, "--no-report").code == 0
    (tmp_path / "new.csv").write_text("tag,id,word\nlast,1,ca\nfirst,2,ca\n")
    done = ele("predict", run, "new.csv")
    assert [line.split(",")[:4] for line in done.out.splitlines()[1:]] == [
        ["last", "1", "ca", "aa"],
        ["first", "2", "ca", "cc"],
    ]
    done = ele("predict", run, "-", "--only-new", stdin='{"word": "ca", "tag": "last"}\n')
    assert ",aa," in done.out


def test_rivals_that_read_one_text_are_left_out(ele, run):
    done = ele("evaluate", run, "--rivals", "--limit", "5")
    assert "rivals that read one text are left out: the inputs are several columns" in done.err
    assert "kernel ridge" in done.out


def test_the_page_of_try_takes_a_json_object(run):
    trial = Trial.open(run)
    assert trial.respond({"input": '{"word": "ca", "tag": "last"}', "decoder": "candidates", "top_k": 1})["answers"]
    with pytest.raises(Exception, match="is not a JSON object with a value for each column"):
        trial.respond({"input": "ca", "decoder": "candidates", "top_k": 1})


def test_a_missing_column_or_cell_is_one_message(ele, run, tmp_path):
    (tmp_path / "new.csv").write_text("word,id\nfa,1\n")
    done = ele("predict", run, "new.csv")
    assert done.code == 1
    assert "new.csv: no column is called 'tag'. Columns: word, id." in done.err
    (tmp_path / "new.csv").write_text("word,tag\nfa,last\nfa,\n")
    assert "column 'tag': the cell is empty." in ele("predict", run, "new.csv").out
    file = written(tmp_path / "bad.csv", [*rows_of(30), ["ab", " ", "aa"]])
    done = ele("train", file, *TWO, *OPTIONS, "-o", "other")
    assert done.code == 1
    assert "row 31 (line 32): " in done.err
    assert "column 'tag': the cell is empty." in done.err
    assert not (tmp_path / "other").exists()


def test_a_field_that_lines_lack_is_named(ele, run, tmp_path):
    lines = [{"word": "ca", "tag": "last"}, {"word": "ca"}, {"word": "ca", "tag": None}]
    (tmp_path / "new.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    found = [json.loads(line)["status"] for line in ele("predict", run, "new.jsonl", "--json").out.splitlines()]
    assert found == ["ok", "column 'tag': this line has no such field.", "column 'tag': the cell has no value."]


def test_a_column_given_twice_and_a_space_for_one_column_are_refused(ele, tmp_path):
    file = written(tmp_path / "pairs.csv", rows_of(30))
    done = ele("train", file, "--input", "word", "--input", "word", *OPTIONS, "-o", "run")
    assert "the column 'word' is given twice. Name each column once." in done.err
    done = ele("train", file, *TWO, "--set", "input=text", *OPTIONS, "-o", "run")
    assert done.code == 2
    assert "the input space 'text' reads one column, and 2 are given. Join them, as in --input word,tag" in done.err
    done = ele("train", file, *TWO, "--input", "letters", *OPTIONS, "-o", "run")
    assert "the column 'letters' is the output, and also among the inputs. Leave it out of --input" in done.err
    done = ele("train", file, "--input", "word:letters", "--output", "letters", *OPTIONS, "-o", "run")
    assert "the column 'letters' is the output, and also among the inputs." in done.err
