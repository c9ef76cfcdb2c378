"""Rows of a study that are not made of ELE's components, and rows that decode from the true embeddings."""

from __future__ import annotations

import dataclasses
import json

import pytest
from click.testing import CliRunner

from ele_core import Rival, Row, Scale, Table
from ele_core.cli import cli
from ele_core.data.prepare import prepare
from ele_core.runtime.context import Context
from ele_sequences.number_words import NumberWords

PARTS = ("surrogate=parts", "surrogate.dim=32", "regressor=nearest-input")
TINY = ("task.size=60", "task.validation=10", "task.test=10", *PARTS)


@dataclasses.dataclass(frozen=True)
class Constant(Rival):
    """Always answers the training output at one place."""

    place: int = 0
    answers: int | None = None

    def predict(self, prepared, rows, context):
        del context
        chosen = prepared.data.train[self.place].repeat(len(rows) if self.answers is None else self.answers)
        return prepared.data.outputs[chosen]


def study(*rows):
    return Table("own", "Own", rows, {"small": Scale("a few numbers.", TINY)}, metrics=("exact", "edit_distance"))


@pytest.fixture
def reproduced(tmp_path, monkeypatch):
    def run(*rows):
        monkeypatch.setattr(NumberWords, "studies", (study(*rows),))
        monkeypatch.setattr(NumberWords, "references", ())
        return CliRunner().invoke(cli, ["reproduce", "own", "-o", str(tmp_path)])

    return run


def test_a_rival_is_measured_on_the_test_pairs_and_recorded_with_its_settings(reproduced, tmp_path):
    result = reproduced(Row("constant", rival=Constant(3)), Row("nearest", ("decoder=candidates",)))
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "own-small" / "constant-seed0.json").read_text("utf-8"))
    assert record["rival"] == {"name": "Constant", "place": 3, "answers": None}
    from ele_core import load_config

    prepared = prepare(load_config("number-words", [*TINY, "seed=0"]), Context())
    data, space = prepared.data, prepared.space
    answer = space.unpack(data.outputs[data.train[3:4]])[0]
    distances = space.metrics[1].values(data.outputs[data.train[3].repeat(len(data.test))], data.outputs[data.test])
    assert record["metrics"]["edit_distance"] == pytest.approx(distances.float().mean().item())
    assert record["metrics"]["examples"] == len(data.test) == 10
    assert answer
    table = (tmp_path / "own-small" / "own.md").read_text("utf-8")
    assert "| constant |" in table
    assert "--row constant" in record["command"]


def test_other_settings_of_a_rival_are_measured_anew(reproduced, tmp_path):
    reproduced(Row("constant", rival=Constant(3)))
    again = reproduced(Row("constant", rival=Constant(3)))
    assert "1 of 1 result already" in again.stderr
    other = reproduced(Row("constant", rival=Constant(4)))
    assert "already" not in other.stderr
    record = json.loads((tmp_path / "own-small" / "constant-seed0.json").read_text("utf-8"))
    assert record["rival"]["place"] == 4


def test_a_rival_with_too_few_answers_is_refused_in_a_sentence(reproduced, tmp_path):
    result = reproduced(Row("constant", rival=Constant(0, answers=7)))
    assert result.exit_code != 0
    assert "the rival Constant gave 7 answers for 10 inputs." in str(result.exception)
    assert not (tmp_path / "own-small" / "constant-seed0.json").exists()


def test_a_row_from_the_true_embeddings_is_marked_and_finds_every_candidate(reproduced, tmp_path):
    result = reproduced(Row("oracle", ("decoder=search",), oracle=True), Row("search", ("decoder=search",)))
    assert result.exit_code == 0, result.output
    oracle, search = (
        json.loads((tmp_path / "own-small" / f"{name}-seed0.json").read_text("utf-8")) for name in ("oracle", "search")
    )
    assert oracle["oracle"]
    assert not search["oracle"]
    assert "regression_error" not in oracle["metrics"]
    assert oracle["metrics"]["edit_distance"] <= search["metrics"]["edit_distance"]
