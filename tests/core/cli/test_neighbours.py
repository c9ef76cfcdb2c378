"""`ele neighbours`: what it finds, and what it refuses."""

import json

import numpy as np
import pytest
from ele_command import fails, table

from ele_core import StructuredPredictor
from ele_core.data import objects
from ele_core.model import neighbours

AMONG = ["12", "4203", "x", "17", "999", "4204", "70", "17"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setattr(objects, "CHUNK", 3)
    monkeypatch.setattr(neighbours, "CHUNK", 3)
    (tmp_path / "objects.txt").write_text("17\nnot a number\n4203\n")
    (tmp_path / "among.csv").write_text("name,digits\n" + "".join(f"n{i},{text}\n" for i, text in enumerate(AMONG)))
    return ["objects.txt", "--among", "among.csv", "--among-column", "digits"]


@pytest.fixture
def expected(trained_run):
    loaded = StructuredPredictor.load(trained_run / "model")
    kept = [text for text in AMONG if text != "x"]
    found = loaded.neighbours(["17", "4203"], k=3, among=kept)
    return [
        (text, str(rank), neighbour, float(f"{distance:.6g}"))
        for text, own, distances in zip(["17", "4203"], found.objects, found.distances, strict=True)
        for rank, (neighbour, distance) in enumerate(zip(own, distances, strict=True), start=1)
    ]


def rows_of(text):
    return [
        (row["object"], row["rank"], row["neighbour"], float(row["distance"]))
        for row in table(text)
        if row["status"] == "ok"
    ]


def same(found, expected):
    assert [row[:3] for row in found] == [row[:3] for row in expected]
    np.testing.assert_allclose([row[3] for row in found], [row[3] for row in expected], rtol=1e-4, atol=1e-6)
    return True


def test_a_file_is_searched_in_chunks(ele, trained_run, files, expected):
    done = ele("neighbours", trained_run, *files, "-k", "3")
    assert done.code == 0
    assert same(rows_of(done.out), expected)
    rows = table(done.out)
    assert list(rows[0]) == ["object_row", "object", "rank", "neighbour", "neighbour_row", "distance", "status"]
    assert {row["neighbour_row"] for row in rows[:2]} == {"4", "8"}  # equal structures, up to rounding
    assert "among.csv: 8 rows, 1 left out\n  row 3 (line 4): 'x': " in done.err


def test_an_object_that_cannot_be_used_keeps_its_row(ele, trained_run, files):
    (row,) = [row for row in table(ele("neighbours", trained_run, *files).out) if row["status"] != "ok"]
    assert (row["object_row"], row["object"], row["neighbour"], row["distance"]) == ("2", "not a number", "", "")
    assert row["status"]


def test_the_training_outputs_are_searched_by_default(ele, trained_run):
    known = StructuredPredictor.load(trained_run / "model").model_
    text = known.space.unpack(known.candidates.batch[4:5])[0]
    done = ele("neighbours", trained_run, "-", "-k", "2", stdin=f"{text}\n")
    found = rows_of(done.out)
    assert found[0][:3] == (text, "1", text)
    assert found[0][3] < 1e-9
    assert len(found) == 2


def test_tables_are_written_in_the_format_of_the_suffix(ele, trained_run, files, expected, tmp_path):
    for name in ("found.csv", "found.tsv", "found.jsonl", "found.parquet"):
        assert ele("neighbours", trained_run, *files, "-k", "3", "-o", name).code == 0
    assert same(rows_of((tmp_path / "found.csv").read_text()), expected)
    lines = [json.loads(line) for line in (tmp_path / "found.jsonl").read_text().splitlines()]
    assert same([(x["object"], str(x["rank"]), x["neighbour"], x["distance"]) for x in lines if x["rank"]], expected)
    assert (tmp_path / "found.tsv").read_text().startswith("object_row\tobject\t")
    assert fails(ele("neighbours", trained_run, *files, "-o", "found.npz"), 1, "not written as .npz")


@pytest.mark.parametrize(
    ("changed", "code", "words"),
    [
        (
            ["objects.txt", "--among", "-"],
            1,
            "--among: standard input cannot be used: the file is read twice.",
        ),
        (["objects.txt", "--among", "no.csv"], 1, "no.csv: cannot be read: No such file"),
        (["no.txt"], 1, "no.txt: cannot be read: No such file"),
        (["objects.txt", "--among", "among.csv"], 1, "among.csv: none of its 8 rows is a structure of this model."),
        (["objects.txt", "--among", "among.csv", "--among-column", "digit"], 1, "did you mean 'digits'?"),
        (["among.csv"], 1, "8 rows cannot be used, and no row is left"),
        (["objects.txt", "--among-column", "digits"], 2, "--among-column describes the file of --among: give one."),
        (["objects.txt", "-k", "0"], 2, "0 is not in the range"),
    ],
)
@pytest.mark.usefixtures("files")
def test_what_cannot_be_searched_is_refused_in_a_sentence(ele, trained_run, changed, code, words):
    assert fails(ele("neighbours", trained_run, *changed), code, words)


def test_processes_find_together_what_one_finds(trained_run, files, run_python, tmp_path, expected):
    for name, text in (("objects.txt", "17\n4203\n"), ("among.csv", (tmp_path / "among.csv").read_text())):
        (tmp_path / name).write_text(text)
    done = run_python("-m", "ele_core", "neighbours", str(trained_run), *files, "-k", "3", "--processes", "2")
    assert same(rows_of(done.stdout), expected)
