"""Run folders and models that ELE 0.1.0 wrote: they load, predict, evaluate, report and resume.

`tests/data/v0.1.0` was written by that version: `ele train number-words` with a tiny configuration, once to the end
(`finished`, evaluated with its decoder `pgd`) and once stopped by SIGTERM in the regression (`unfinished`).
"""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from ele_core import StructuredPredictor
from ele_core.cli import cli
from ele_core.runs.evaluations import load_all
from ele_core.runs.run import Run

OLD = Path(__file__).parents[1] / "data" / "v0.1.0"


@pytest.fixture
def old(tmp_path) -> Path:
    return Path(shutil.copytree(OLD, tmp_path / "old"))


def ele(*arguments: object, stdin: str = "") -> str:
    result = CliRunner().invoke(cli, [str(word) for word in arguments], input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def stored(folder: Path) -> list[dict[str, str]]:
    with (folder / "predictions" / "test-pgd.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_finished_run_gives_the_predictions_that_were_stored_with_it(old):
    before = stored(old / "finished")
    run = Run(old / "finished")
    result = run.evaluate()
    after = stored(old / "finished")
    assert [row["prediction"] for row in after] == [row["prediction"] for row in before]
    assert [float(row["energy"]) for row in after] == pytest.approx([float(row["energy"]) for row in before], rel=1e-4)
    assert result.metrics["examples"] == len(before) == 10


def test_its_evaluation_is_read_and_its_report_written(old):
    (evaluation,) = load_all(old / "finished")
    assert (evaluation.decoder["name"], evaluation.settings["split"]) == ("pgd", "test")
    ele("report", old / "finished")
    assert "number-words" in (old / "finished" / "report.html").read_text(encoding="utf-8")
    assert "pgd" in ele("compare", old / "finished", old / "finished")


def test_its_model_is_loaded_from_python(old):
    rows = stored(old / "finished")
    for folder in (old / "finished", old / "finished" / "model"):
        predicted = StructuredPredictor.load(folder).predict([row["input"] for row in rows])
        assert predicted == [row["prediction"] for row in rows]


def test_an_unfinished_run_is_resumed_and_ends_as_the_one_that_was_never_stopped(old):
    ele("resume", old / "unfinished", "--no-report")
    lines = [
        [json.loads(line) for line in (old / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("unfinished", "finished")
    ]
    assert [(line["stage"], line["step"]) for line in lines[0]] == [(line["stage"], line["step"]) for line in lines[1]]
    for resumed, straight in zip(*lines, strict=True):
        assert resumed.keys() == straight.keys()
        numbers = {name: value for name, value in straight.items() if name not in ("stage", "best")}
        assert {name: resumed[name] for name in numbers} == pytest.approx(numbers, rel=1e-4)
    texts = [row["input"] for row in stored(old / "finished")]
    found = [StructuredPredictor.load(old / name).predict(texts) for name in ("unfinished", "finished")]
    assert found[0] == found[1]
