"""`ele tune`: what is tried and how it is judged, that it goes on, and how it fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from commands import PATIENCE

from ele_core import config as configuration
from ele_core.cli import cli
from ele_core.errors import ConfigError, DataError, Interrupted, TrainingError
from ele_core.experiments.ranges import Range, read_ranges
from ele_core.experiments.tune import TuningSearch, kept, next_trial
from ele_core.extras import how_to_install
from ele_core.runs.run import Run
from ele_core.runtime.monitor import Monitor
from ele_core.types import Metric
from ele_sequences.number_words import NumberWords

TINY = (
    "task.size=120",
    "task.validation=20",
    "task.test=20",
    "surrogate.dim=8",
    "surrogate.encoder.width=8",
    "surrogate.encoder.layers=1",
    "surrogate.training.epochs=1",
    "surrogate.training.evaluations=1",
    "regressor.backbone.width=8",
    "regressor.backbone.embedding=8",
    "regressor.training.epochs=1",
    "regressor.training.evaluations=1",
    "decoder=candidates",
)
SETTINGS = [word for option in TINY for word in ("--set", option)]
WIDTHS = {"regressor.backbone.width": Range(choices=(4, 8))}
SPACE = """
"regressor.training.learning_rate" = {low = 1e-4, high = 1e-2, log = true}
[regressor.backbone]
width = {low = 4, high = 8}
"""


@pytest.fixture(autouse=True)
def ranges(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A task with ranges, one of which its configuration has no option for; an empty folder to work in."""
    monkeypatch.setattr(NumberWords, "ranges", {**WIDTHS, "regressor.backbone.heads": Range(choices=(2,))})
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Nothing is trained: the wider the backbone, the better. What was asked for is listed."""
    asked: list[dict[str, Any]] = []

    def measured(config: Any, metric: str, limit: int | None, *_: Any) -> float:
        width = config.regressor.options["backbone"]["width"]
        asked.append({"width": width, "metric": metric, "limit": limit})
        if width == 5:
            raise RuntimeError("five is  not\na width")
        return width / 10

    monkeypatch.setattr("ele_core.experiments.tune.measured", measured)
    return asked


def ele(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["tune", "number-words", *map(str, arguments), *SETTINGS])


def search(storage: str = "trials", ranges: dict[str, Range] | None = None, **options: Any) -> TuningSearch:
    return TuningSearch("number-words", TINY, ranges or WIDTHS, Path(storage), **options)


def study_of(found: TuningSearch) -> Any:
    return found.open(found.metric(Monitor()))


# -- what is tried and kept ---------------------------------------------------------------------------------------


def test_the_best_configuration_is_a_file_that_trains(tmp_path):
    result = ele("--trials", "2", "-o", "best.toml")
    assert result.exit_code == 0, result.output
    assert list(tmp_path.glob(".*")) == []
    values = [float(line.split()[1]) for line in result.stdout.splitlines()[1:3]]
    best = configuration.load(Path("best.toml"))
    assert best.regressor.options["backbone"]["width"] in (4, 8)
    trained = CliRunner().invoke(cli, ["train", "best.toml", "-o", "run"])
    assert trained.exit_code == 0, trained.output
    again = Run("run").evaluate(split="validation", monitor=Monitor())
    assert again.metrics["exact"] == pytest.approx(max(values), abs=1e-4)


def test_trials_are_judged_by_the_primary_metric_on_validation_pairs_and_never_on_test_pairs(monkeypatch):
    evaluate, splits = Run.evaluate, []

    def watched(self: Run, **options: Any) -> Any:
        splits.append((options["split"], options["limit"]))
        return evaluate(self, **options)

    monkeypatch.setattr(Run, "evaluate", watched)
    search(limit=7).run(1, Monitor())
    assert splits == [("validation", 7)]


def test_the_table_has_every_trial_and_marks_the_best(judged):
    result = ele("--trials", "4")
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["trial", "exact", "time", "state", "options"]
    assert [line.split()[0] for line in lines[1:5]] == ["0", "1", "2", "3"]
    best = max(range(4), key=lambda number: judged[number]["width"])
    assert [line.split()[2] == "*" for line in lines[1:5]] == [number == best for number in range(4)]
    assert f"Best: trial {best}, exact {judged[best]['width'] / 10:.4f} on validation pairs. Wrote best.toml" in lines


def test_an_error_is_made_small_and_a_score_large(judged, monkeypatch):
    found = search(ranges={"regressor.backbone.width": Range(low=6, high=9)})
    found.run(6, Monitor())
    assert study_of(found).best_trial.params == {"regressor.backbone.width": max(entry["width"] for entry in judged)}
    other = search("others", ranges={"regressor.backbone.width": Range(low=6, high=9)})
    distance = Metric("edit_distance", "min", lambda predicted, _: predicted)
    monkeypatch.setattr(TuningSearch, "metric", lambda *_: distance)
    judged.clear()
    other.run(6, Monitor())
    assert study_of(other).best_trial.params == {"regressor.backbone.width": min(entry["width"] for entry in judged)}


@pytest.mark.usefixtures("judged")
def test_the_same_seed_tries_the_same_and_another_seed_does_not():
    space = {"regressor.training.learning_rate": Range(low=1e-4, high=1e-2, log=True)}
    tried = []
    for number, seed in enumerate((1, 1, 2)):
        found = TuningSearch("number-words", [*TINY, f"seed={seed}"], space, Path(f"trials{number}"))
        found.run(3, Monitor())
        tried.append([trial.params for trial in study_of(found).get_trials()])
    assert tried[0] == tried[1] != tried[2]
    values = [params["regressor.training.learning_rate"] for params in tried[0]]
    assert len(set(values)) == 3
    assert all(1e-4 <= value <= 1e-2 for value in values)


def test_runs_are_kept_where_that_is_asked_for():
    search(keep=Path("kept")).run(1, Monitor())
    assert Run("kept/trial-0").config.regressor.options["backbone"]["width"] in (4, 8)


# -- ranges -------------------------------------------------------------------------------------------------------


def test_ranges_of_the_task_without_an_option_are_left_out():
    assert list(TuningSearch.of("number-words", TINY, None, Path("x")).ranges) == list(WIDTHS)


def test_a_file_of_ranges_takes_dotted_and_nested_names():
    Path("space.toml").write_text(SPACE)
    found = TuningSearch.of("number-words", TINY, Path("space.toml"), Path("x")).ranges
    assert found == {
        "regressor.training.learning_rate": Range(low=1e-4, high=1e-2, log=True),
        "regressor.backbone.width": Range(low=4, high=8),
    }
    assert found["regressor.backbone.width"].whole
    assert not found["regressor.training.learning_rate"].whole


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"regressor.backbone.widht" = {choices = [4]}', "widht"),
        ('"regressor.backbone.width" = {choices = [0]}', "regressor.backbone.width"),
        ('"seed" = 3', "seed: is not a range."),
        ('"seed" = {low = 3, high = 2}', "seed: `low` should be below `high`."),
        ('"seed" = {low = 0, high = 2, log = true}', "needs a `low` above 0"),
        ('"seed" = {choices = [[1]]}', "each choice should be"),
        ('"seed" = {choices = 4}', "should be a list"),
        ('"seed" = {choices = [1, 2], low = 0, high = 3}', "`choices` cannot be combined with"),
        ('"seed" = {low = "a", high = 2}', "should be numbers"),
        ("", "holds no range"),
        ("[", "is not valid TOML"),
    ],
)
def test_what_is_no_range_of_an_option_is_refused_with_its_place(text, message):
    Path("space.toml").write_text(text)
    error = ele("--space", "space.toml").exception
    assert isinstance(error, ConfigError)
    assert message in str(error)
    assert not Path("number-words-trials.journal").exists()


def test_a_range_reads_what_it_writes():
    for own in (Range(choices=[1, 2]), Range(low=1, high=8, step=2), Range(low=0.1, high=1.0, log=True)):
        assert read_ranges({"a.b": own.as_table()}) == {"a.b": own}


def test_nothing_to_tune_is_an_error(monkeypatch):
    monkeypatch.setattr(NumberWords, "ranges", {})
    error = ele().exception
    assert isinstance(error, ConfigError)
    assert "Give a file of ranges with --space" in str(error)


# -- going on, and failing ----------------------------------------------------------------------------------------


def test_the_same_command_goes_on_to_as_many_trials_as_asked_for(judged):
    assert ele("--trials", "2").exit_code == 0
    assert ele("--trials", "5").exit_code == 0
    assert len(judged) == 5
    assert ele("--trials", "5").exit_code == 0
    assert len(judged) == 5


def test_a_search_that_was_stopped_tries_what_it_would_have_tried(judged):
    space = {"regressor.backbone.width": Range(low=4, high=400)}
    search("whole", ranges=space).run(14, Monitor())
    whole = [entry["width"] for entry in judged]
    judged.clear()
    for trials_so_far in (5, 12, 14):
        search("parts", ranges=space).run(trials_so_far, Monitor())
    assert [entry["width"] for entry in judged] == whole


def test_a_trial_that_was_stopped_is_tried_again(judged, monkeypatch):
    space = {"regressor.backbone.width": Range(low=4, high=400)}
    search("whole", ranges=space).run(14, Monitor())
    whole = [entry["width"] for entry in judged]
    judged.clear()
    for trials_so_far in (5, 12):
        search("parts", ranges=space).run(trials_so_far, Monitor())
        with monkeypatch.context() as stopping:
            stopping.setattr("ele_core.experiments.tune.measured", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(Interrupted):
                search("parts", ranges=space).run(14, Monitor())
    search("parts", ranges=space).run(14, Monitor())
    assert [entry["width"] for entry in judged] == whole


def test_a_failed_trial_is_written_down_with_its_reason_and_the_search_goes_on(judged):
    found = search(ranges={"regressor.backbone.width": Range(choices=(5, 6))})
    found.run(6, Monitor())
    failed = [trial for trial in study_of(found).get_trials() if trial.state.name == "FAIL"]
    assert len(judged) == 6
    assert {trial.user_attrs["reason"] for trial in failed} == {"RuntimeError: five is not a width"}
    assert found.best(study_of(found), Monitor()).params == {"regressor.backbone.width": 6}


def test_trials_that_all_come_to_the_same_are_said_to_tell_nothing(judged):
    class Noted(Monitor):
        def message(self, text: str) -> None:
            words.append(text)

    words: list[str] = []
    found = search(ranges={"regressor.backbone.width": Range(choices=(6,))})
    found.run(3, Monitor())
    assert found.best(study_of(found), Noted()).params == {"regressor.backbone.width": 6}
    assert len(judged) == 3
    assert [word.partition(" came to ")[0] for word in words] == ["all 3 trials"]


def test_a_search_in_which_everything_fails_says_why(judged):
    Path("space.toml").write_text('"regressor.backbone.width" = {choices = [5]}')
    error = ele("--trials", "2", "--space", "space.toml").exception
    assert isinstance(error, TrainingError)
    assert "no trial has succeeded. The last one: RuntimeError: five is not a width" in str(error)
    assert len(judged) == 2
    assert not Path("best.toml").exists()


@pytest.mark.usefixtures("judged")
def test_the_storage_of_another_search_is_refused():
    assert ele("--trials", "1", "--storage", "s").exit_code == 0
    error = ele("--trials", "2", "--storage", "s", "--limit", "3").exception
    assert isinstance(error, ConfigError)
    assert "s: holds a search with other settings: limit: None → 3. Choose another" in str(error)
    error = ele("--trials", "2", "--storage", "s", "--set", "candidates.share=0.5").exception
    assert "s: holds a search with other settings: candidates.share: 1.0 → 0.5. Choose another" in str(error)
    Path("text").write_text("hello\n")
    assert isinstance(ele("--storage", "text").exception, DataError)


def test_ctrl_c_leaves_a_storage_that_goes_on(judged, monkeypatch):
    with monkeypatch.context() as stopping:
        stopping.setattr("ele_core.experiments.tune.measured", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        error = ele("--trials", "2").exception
    assert isinstance(error, Interrupted)
    assert (error.exit_code, error.fix) == (130, "Run the same command again to continue.")
    result = ele("--trials", "2")
    assert result.exit_code == 0, result.output
    assert len(judged) == 2
    assert result.stdout.splitlines()[1].split()[4] == "stopped"


def test_a_trial_whose_process_died_does_not_count(monkeypatch):
    found = search()
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("ele_core.experiments.tune.os.getpid", lambda: gone.pid)
        next_trial(study_of(found), found.storage, found.ranges, 2, 0)
    monkeypatch.setattr("ele_core.experiments.tune.measured", lambda *_: 0.5)
    found.run(2, Monitor())
    assert [trial.state.name for trial in study_of(found).get_trials()] == ["FAIL", "COMPLETE", "COMPLETE"]


def test_a_journal_whose_last_line_was_cut_by_a_kill_goes_on(judged):
    assert ele("--trials", "1", "--storage", "s").exit_code == 0
    whole = Path("s").read_bytes()
    Path("s").write_bytes(whole + b'{"op_code":6,"worker_id":"cut')
    result = ele("--trials", "2", "--storage", "s")
    assert result.exit_code == 0, result.output
    assert len(judged) == 2
    assert Path("s").read_bytes().startswith(whole)
    assert [path.name for path in Path().iterdir() if path.name not in ("s", "best.toml")] == []


def test_a_file_that_is_no_journal_is_not_touched():
    for text in ("hello", '{"some": "json"}', "hello\nworld"):
        Path("text").write_text(text)
        assert isinstance(ele("--storage", "text").exception, DataError)
        assert Path("text").read_text() == text


def test_a_killed_search_leaves_nothing_behind_for_the_next(tmp_path):
    process = subprocess.Popen(command("--trials", "500"), stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if "best so far" in line:
            break
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".shared.*")) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.kill()
    process.communicate()
    left = list(tmp_path.glob(".shared.*"))
    assert left, "the run of the trial that was killed"
    found = TuningSearch.of("number-words", TINY, Path("space.toml"), tmp_path / "shared")
    study_of(found)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shared", "space.toml"]


def test_a_bad_trial_is_ended_early_where_that_is_asked_for(monkeypatch):
    worse = iter(range(1, 100))

    def measured(*arguments: Any) -> float:
        monitor: Monitor = arguments[-1]
        error = float(next(worse))
        monitor.evaluation("embedding", 1, {"validation_loss": -error})
        monitor.evaluation("regression", 1, {"loss": 0.0, "validation_error": error})
        return 1 / error

    monkeypatch.setattr("ele_core.experiments.tune.measured", measured)
    for prune, states in ((True, ["COMPLETE"] * 5 + ["PRUNED"] * 2), (False, ["COMPLETE"] * 7)):
        found = search(f"trials{prune}", prune=prune)
        found.run(7, Monitor())
        assert [trial.state.name for trial in study_of(found).get_trials()] == states


def test_without_optuna_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    error = ele().exception
    assert isinstance(error, ConfigError)
    assert str(error) == f"tuning needs the package optuna, which is not installed. {how_to_install('tune')}"


def test_the_configuration_itself_is_never_overwritten(tmp_path):
    Path("my.toml").write_text('task = "number-words"')
    error = CliRunner().invoke(cli, ["tune", "my.toml", "-o", str(tmp_path / "my.toml")]).exception
    assert isinstance(error, ConfigError)
    assert Path("my.toml").read_text() == 'task = "number-words"'


def test_a_run_that_is_not_kept_leaves_nothing_behind_when_it_fails(tmp_path):
    with kept(None, tmp_path / "trials") as folder:
        folder.mkdir()
    place = kept(None, tmp_path / "trials")
    place.__enter__().mkdir()
    assert place.__exit__(ZeroDivisionError, ZeroDivisionError(), None) is False
    assert list(tmp_path.iterdir()) == []


# -- several processes --------------------------------------------------------------------------------------------


def command(*arguments: str) -> list[str]:
    Path("space.toml").write_text('"regressor.backbone.width" = {choices = [4, 8]}')
    words = ["tune", "number-words", "--space", "space.toml", "--storage", "shared", *arguments, *SETTINGS]
    return [sys.executable, "-m", "ele_core", *words]


def test_two_processes_share_one_storage(tmp_path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command("--trials", "4", "--processes", "2"), env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[1:5]] == ["0", "1", "2", "3"]
    assert lines[5].startswith("Best: trial")
    found = TuningSearch.of("number-words", TINY, Path("space.toml"), tmp_path / "shared")
    kept = study_of(found).get_trials()
    assert [trial.state.name for trial in kept] == ["COMPLETE"] * 4
    assert len({trial.user_attrs["process"] for trial in kept}) == 2
    assert tomllib.loads(Path("best.toml").read_text())["regressor"]["backbone"]["width"] in (4, 8)


def test_a_signal_stops_a_search_and_keeps_its_trials(tmp_path):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command("--trials", "500"), env={**os.environ, "OMP_NUM_THREADS": "1"}, **pipes)
    deadline = time.monotonic() + 120
    for line in process.stderr:
        if "best so far" in line:
            break
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGTERM)
    _, words = process.communicate(timeout=PATIENCE)
    assert process.returncode == 143, words
    assert "Run the same command again" in words
    found = TuningSearch.of("number-words", TINY, Path("space.toml"), tmp_path / "shared")
    assert "COMPLETE" in [trial.state.name for trial in study_of(found).get_trials()]
