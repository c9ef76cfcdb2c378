"""`ele reproduce`: what is run, shared, skipped, resumed and forecast, and what the tables and figures say."""

from __future__ import annotations

import json
import shutil
import statistics
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from ele_core.cli import cli
from ele_core.data.prepare import prepare
from ele_core.display.text import in_words
from ele_core.errors import ConfigError, DataError, Interrupted
from ele_core.experiments import reproduce as module
from ele_core.experiments.reproduce import evenly
from ele_core.experiments.reproduce.tables import escape
from ele_core.experiments.study import Paths, Row, Scale, ShareSweep, Study, Table
from ele_core.runs.folder import unfinished
from ele_core.runs.run import Run
from ele_core.runs.training import begin
from ele_core.runtime.context import Context
from ele_core.runtime.monitor import Monitor
from ele_core.types import Reference
from ele_sequences.number_words import NumberWords

TINY = (
    "task.size=120",
    "task.validation=20",
    "task.test=20",
    "surrogate.dim=8",
    "surrogate.encoder.width=8",
    "surrogate.encoder.layers=1",
    "surrogate.training.epochs=2",
    "surrogate.training.evaluations=1",
    "regressor.backbone.width=8",
    "regressor.backbone.embedding=8",
    "regressor.training.epochs=1",
    "regressor.training.evaluations=1",
)
SCALES = {"small": Scale("a few numbers.", TINY, limit=10), "full": Scale("more numbers.", TINY)}
PGD = ("decoder=pgd", "decoder.steps=2", "decoder.starts=1")
ROWS = (
    Row("plain & simple", ("decoder=candidates",), reference="Plain_100%", minutes={"small": 60}),
    Row("plain + pgd", PGD, reference="Plain + pgd", limits={"small": 5}, minutes={"small": 60}),
    Row("wider", ("decoder=candidates", "regressor.backbone.width=12"), minutes={"small": 60}),
    Row("extra", ("decoder=candidates",), files=("gdb11",)),
    Row("package", ("decoder=candidates",), packages={"no_such_module": "baselines"}),
)
TABLE = Table("table1", "Numbers", ROWS, SCALES, {"gdb11": "task.seed"}, metrics=("edit_distance", "exact"))
FIGURE3 = ShareSweep("figure3", "Shares", ROWS[:1], SCALES, lines={"candidates": (), "pgd-best": PGD[1:]})
FIGURE4 = Paths("figure4", "Ways", (Row("plain", (*PGD, "decoder.trace=1")),), SCALES, examples=3, pictures=2)
REFERENCES = (
    Reference("Plain_100%", {"edit_distance": 1.5}, "a paper", {"edit_distance": 0.25}),
    Reference("Plain + pgd", {"edit_distance": 1.25}, "a paper"),
)


@pytest.fixture(autouse=True)
def studies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Number words with studies of its own; of all tasks, the only one that has any."""
    declare(monkeypatch, TABLE, FIGURE3, FIGURE4)
    monkeypatch.setattr(NumberWords, "references", REFERENCES)


def declare(monkeypatch: pytest.MonkeyPatch, *found: Study) -> None:
    from ele_core.plugins import registry

    for task in registry().names("task"):
        monkeypatch.setattr(registry().get("task", task), "studies", ())
    monkeypatch.setattr(NumberWords, "studies", found)


def ele(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["reproduce", *map(str, arguments)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the table was made, with two seeds. Shared: copy it before you change it."""
    target = tmp_path_factory.mktemp("reproduced")
    with pytest.MonkeyPatch.context() as monkeypatch:
        declare(monkeypatch, TABLE)
        monkeypatch.setattr(NumberWords, "references", REFERENCES)
        result = ele("table1", "--seeds", "0,1", "-o", target)
    assert result.exit_code == 0, result.output
    (target / "said.txt").write_text(result.stderr)
    return target


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copied"))


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("trained or measured, though all is there")

    for name in ("start", "resume", "evaluate"):
        monkeypatch.setattr(Run, name, refuse)


def records(target: Path, study: str = "table1-small") -> dict[str, dict[str, Any]]:
    return {file.stem: json.loads(file.read_text("utf-8")) for file in sorted((target / study).glob("*.json"))}


def cells(target: Path) -> dict[str, list[str]]:
    """The Markdown table by its first column."""
    text = (target / "table1-small" / "table1.md").read_text("utf-8")
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return {line[0]: line[1:] for line in lines}


# -- what is run --------------------------------------------------------------------------------------------------


def test_every_row_with_every_seed_gets_a_record_that_says_how_to_get_it_again(folder):
    found = records(folder)
    assert set(found) == {f"{row}-seed{seed}" for row in ("plain-simple", "plain-pgd", "wider") for seed in (0, 1)}
    for name, record in found.items():
        keys = {"command", "date", "seed", "sizes", "machine", "versions", "metrics", "config", "training_seconds"}
        assert keys <= set(record)
        assert record["seed"] == record["config"]["seed"] == int(name[-1])
        assert record["metrics"]["examples"] == (5 if "pgd" in name else 10)
        assert record["wall_seconds"] > 0
        assert {"ele", "python", "torch", "numpy", "pydantic"} <= set(record["versions"])
    assert found["plain-pgd-seed1"]["command"] == ("ele reproduce table1 --scale small --seeds 1 --row 'plain + pgd'")
    assert found["plain-pgd-seed0"]["decoder"]["name"] == "pgd"
    assert found["plain-pgd-seed0"]["config"]["decoder"]["steps"] == 2


def test_rows_share_a_run_where_training_is_the_same_and_the_loss_where_only_the_regressor_differs(folder):
    runs = [path for path in (folder / "runs").iterdir() if path.is_dir()]
    assert len(runs) == 4  # plain and wider, two seeds each; pgd decodes with the model of plain
    found = records(folder)
    assert set(found["plain-simple-seed0"]["stages"]) == {"embedding", "regression"}
    assert set(found["wider-seed0"]["stages"]) == {"regression"}
    one, other = (Run(run).model().surrogate.state() for run in runs if Run(run).config.seed == 0)
    assert all((one[name] == other[name]).all() for name in one)


def test_the_numbers_are_those_of_an_evaluation_with_the_options_of_the_row(folder):
    record = records(folder)["plain-pgd-seed0"]
    runs = [Run(path) for path in (folder / "runs").iterdir()]
    (run,) = [r for r in runs if (r.config.seed, r.config.regressor.options["backbone"]["width"]) == (0, 8)]
    result = run.evaluate(limit=5, overrides=PGD, monitor=Monitor())
    assert record["metrics"] == pytest.approx(result.metrics, abs=1e-6)


@pytest.mark.usefixtures("nothing_runs")
def test_a_second_call_runs_nothing_and_writes_the_same(copied):
    before = {file: file.read_bytes() for file in (copied / "table1-small").iterdir()}
    result = ele("table1", "--seeds", "0,1", "-o", copied)
    assert result.exit_code == 0, result.output
    assert "6 of 6 results already in" in result.stderr
    assert {file: file.read_bytes() for file in (copied / "table1-small").iterdir()} == before


def test_what_is_missing_alone_is_run(copied, monkeypatch):
    (copied / "table1-small" / "plain-pgd-seed1.json").unlink()
    monkeypatch.setattr(Run, "start", None)
    result = ele("table1", "--seeds", "0,1", "-o", copied)
    assert result.exit_code == 0, result.output
    assert "1 of 1: plain + pgd, seed 1" in result.stderr
    assert len(records(copied)) == 6


def test_changed_settings_are_measured_anew_and_old_records_leave_the_table(copied, monkeypatch):
    changed = Row("plain + pgd", ("decoder=pgd", "decoder.steps=3", "decoder.starts=1"), limits={"small": 5})
    declare(monkeypatch, Table("table1", "Numbers", (ROWS[0], changed), SCALES, metrics=("exact",)))
    result = ele("table1", "-o", copied)
    assert result.exit_code == 0, result.output
    found = records(copied)
    assert found["plain-pgd-seed0"]["decoder"]["steps"] == 3
    assert found["plain-pgd-seed1"]["decoder"]["steps"] == 2
    assert "not in the table: 1 record with other settings" in result.stderr
    assert cells(copied)["plain + pgd"][1] == "0"
    assert cells(copied)["plain & simple"][1] == "0, 1"


def test_a_training_that_was_interrupted_goes_on(tmp_path, monkeypatch):
    stopped: list[Path] = []

    def interrupted(_: Any, config: Any, folder: Path, *__: Any) -> Any:
        stopped.append(folder)
        begin(folder, prepare(config, Context(config.seed)), Context(config.seed))
        raise Interrupted("stopped during embedding, its state is kept.", signal=2, fix="Continue with: ele resume")

    monkeypatch.setattr(Run, "start", classmethod(interrupted))
    arguments = ("table1", "--row", "plain & simple", "-o", tmp_path)
    error = ele(*arguments).exception
    assert isinstance(error, Interrupted)
    assert (error.exit_code, error.fix) == (130, "Run the same command again to continue.")
    assert unfinished(stopped[0])
    monkeypatch.undo()
    with monkeypatch.context() as again:
        declare(again, TABLE)
        again.setattr(NumberWords, "references", REFERENCES)
        again.setattr(Run, "start", None)
        result = ele(*arguments)
    assert result.exit_code == 0, result.output
    assert set(records(tmp_path)) == {"plain-simple-seed0"}
    assert not unfinished(stopped[0])


# -- what is not run ----------------------------------------------------------------------------------------------


def test_rows_that_need_what_is_not_there_are_skipped_with_a_sentence(folder):
    said = (folder / "said.txt").read_text()
    assert "skipped: extra needs --file gdb11=PATH." in said
    reason = "package needs the package no_such_module: pip install 'explicit-loss-embedding[baselines]'"
    assert f"skipped: {reason}" in said
    text = (folder / "table1-small" / "table1.md").read_text()
    assert f"Not measured: extra needs --file gdb11=PATH. {reason}" in text


def test_a_study_of_which_nothing_can_be_run_is_an_error(tmp_path, monkeypatch):
    declare(monkeypatch, Table("table1", "Numbers", ROWS[3:], SCALES, {"gdb11": "task.seed"}, metrics=("exact",)))
    error = ele("table1", "-o", tmp_path / "new").exception
    assert isinstance(error, ConfigError)
    assert str(error) == "table1: the row 'extra' needs --file gdb11=PATH."


def test_a_row_that_was_not_asked_for_is_in_the_table_as_not_run(tmp_path):
    assert ele("table1", "--row", "wider", "-o", tmp_path).exit_code == 0
    text = (tmp_path / "table1-small" / "table1.md").read_text()
    missing = "plain & simple has not been run. plain + pgd has not been run. extra needs --file gdb11=PATH."
    assert f"Not measured: {missing}" in text


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            Row("rival", ("surrogate=no-such",)),
            "row 'rival' of table1: surrogate.name: no surrogate is called 'no-such'",
        ),
        (Row("rival", ("surrogate.dimm=3",)), "row 'rival' of table1: surrogate.dimm: unknown option"),
        (
            Row("rival", reference="Nobody"),
            "row 'rival' of table1: there is no reference 'Nobody'. References of number-w",
        ),
    ],
)
def test_a_mistake_in_a_study_is_told_before_anything_is_run(tmp_path, monkeypatch, row, message):
    declare(monkeypatch, Table("table1", "Numbers", (ROWS[0], row), SCALES, metrics=("exact",)))
    error = ele("table1", "-o", tmp_path / "new").exception
    assert isinstance(error, ConfigError)
    assert message in str(error)
    assert not (tmp_path / "new").exists()


def test_a_metric_that_there_is_not_is_an_error_and_what_was_trained_stays(tmp_path, monkeypatch):
    declare(monkeypatch, Table("table1", "Numbers", ROWS[:1], SCALES, metrics=("exakt",)))
    error = ele("table1", "-o", tmp_path).exception
    assert "table1: there is no metric 'exakt'; did you mean 'exact'? Metrics: exact, edit_distance," in str(error)
    declare(monkeypatch, Table("table1", "Numbers", ROWS[:1], SCALES, metrics=("exact",)))
    monkeypatch.setattr(Run, "start", None)
    assert ele("table1", "-o", tmp_path).exit_code == 0


def test_again_trains_and_measures_anew(copied, monkeypatch):
    started = []
    start = Run.start
    monkeypatch.setattr(
        Run, "start", classmethod(lambda _, *args, **kw: (started.append(args[1]), start(*args, **kw))[1])
    )
    before = records(copied)
    result = ele("table1", "--row", "plain & simple", "--row", "plain + pgd", "--again", "-o", copied)
    assert result.exit_code == 0, result.output
    assert len(started) == 1, "both rows share one run"
    after = records(copied)
    assert after.keys() == before.keys()
    assert after["wider-seed0"] == before["wider-seed0"]
    assert after["plain-simple-seed0"]["metrics"] == before["plain-simple-seed0"]["metrics"]


def test_a_file_is_shown_by_its_name_and_compared_by_what_is_in_it(tmp_path):
    row = Row("extra", ("decoder=candidates",), files=("gdb11",))
    study = Table("table1", "Numbers", (row,), SCALES, {"gdb11": "input.pattern"}, metrics=("exact",))
    plans = []
    for place, content in (("a", "1"), ("b", "1"), ("c", "2")):
        file = tmp_path / place / "7"
        file.parent.mkdir()
        file.write_text(content)
        plans.append(module.make_plan("number-words", study, files={"gdb11": str(file)}))
    one, same, other = (plan.jobs[0] for plan in plans)
    assert one.config.input.options["pattern"] == str(tmp_path / "a" / "7")
    assert one.shown.input.options["pattern"] == "7"
    assert (one.settings, one.training) == (same.settings, same.training)
    assert one.settings != other.settings
    assert one.training != other.training


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tabel1"], "no task has a study 'tabel1'; did you mean 'table1'?"),
        (["table1", "--scale", "huge"], "--scale: there is no scale 'huge'. Scales of table1: small, full."),
        (["table1", "--row", "widre"], "--row: there is no row 'widre'; did you mean 'wider'?"),
        (["table1", "--seeds", "0,x"], "--seeds: '0,x' is no list of seeds. Write it as 0,1,2."),
        (["figure3", "--file", "gdb11=x"], "--file: figure3 takes no file 'gdb11'. Files of figure3: none."),
        (["table1", "--file", "gdb1=x"], "no file 'gdb1'; did you mean 'gdb11'? Files of table1: gdb11."),
        (["table1", "--row", "extra"], "--row: the row 'extra' needs --file gdb11=PATH."),
        (["table1", "--runs", __file__], "is a file, not a folder. Choose another."),
    ],
)
def test_what_there_is_not_is_refused_before_anything_is_written(tmp_path, arguments, message):
    error = ele(*arguments, "-o", tmp_path / "new").exception
    assert isinstance(error, ConfigError)
    assert message in str(error)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["figure3", "--gdb11", "x"], "No such option: --gdb11. Files of figure3: none."),
        (["table1", "--sedes", "3"], "No such option: --sedes. Files of table1: --file gdb11=PATH."),
        (["--sedes=3", "table1"], "No such option: --sedes. Files of table1: --file gdb11=PATH."),
        (["table1", "--gdb11"], "Option '--gdb11' requires an argument."),
        (["table1", "--file", "gdb11"], "'gdb11' is not of the form NAME=PATH."),
        (["table1", "table2"], "Got unexpected extra argument (table2)"),
        (["--gdb11", "table1"], "Missing argument 'STUDY' before --gdb11."),
        ([], "Missing argument 'STUDY'"),
    ],
)
def test_what_is_misspelt_is_a_usage_error(tmp_path, arguments, message):
    result = ele(*arguments, "-o", tmp_path / "new")
    assert result.exit_code == 2
    assert message in result.output
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("spelling", [["--file", "gdb11={}"], ["--gdb11", "{}"], ["--gdb11={}"]])
@pytest.mark.parametrize("first", [True, False])
def test_a_file_is_given_by_name_or_by_an_option_of_its_own(tmp_path, monkeypatch, spelling, first):
    study = Table("table1", "Numbers", ROWS[3:4], SCALES, {"gdb11": "input.pattern"}, metrics=("exact",))
    declare(monkeypatch, study)
    file = tmp_path / "7"
    file.write_text("7")
    words = [word.format(file) for word in spelling]
    result = ele(*(["table1", *words] if first else [*words, "table1"]), "--dry-run", "-o", tmp_path / "new")
    assert result.exit_code == 0, result.output
    assert "extra, seed 0: to do" in result.output


def test_the_command_of_a_record_names_the_file(tmp_path):
    row = Row("extra", ("decoder=candidates",), files=("gdb11",))
    study = Table("table1", "Numbers", (row,), SCALES, {"gdb11": "input.pattern"}, metrics=("exact",))
    file = tmp_path / "7"
    file.write_text("7")
    plan = module.make_plan("number-words", study, files={"gdb11": str(file)})
    work = module.Reproduction(plan, tmp_path, tmp_path / "runs", Monitor())
    assert work._command(plan.jobs[0])[-2:] == ["--file", "gdb11=7"]


def test_a_file_that_is_no_record_is_named_and_left_alone(copied):
    file = copied / "table1-small" / "wider-seed0.json"
    file.write_text("{}")
    error = ele("table1", "-o", copied).exception
    assert isinstance(error, DataError)
    assert error.where == str(file)
    assert file.read_text() == "{}"


# -- the forecast -------------------------------------------------------------------------------------------------


def test_the_forecast_is_the_declared_time_until_there_are_measured_ones(folder, copied):
    said = (folder / "said.txt").read_text()
    assert "1 of 6: plain & simple, seed 0; about 6.0 h left in all" in said
    assert "6 of 6: wider, seed 1; about " in said
    assert " h left" not in said.rpartition("6 of 6")[2]
    for file in (copied / "table1-small").glob("*-seed1.json"):
        file.unlink()
    plan = module.make_plan("number-words", TABLE, seeds=[0, 1])
    work = module.Reproduction(plan, copied, copied / "runs", None)
    spent = {name: record["wall_seconds"] for name, record in records(copied).items()}
    assert work.forecast().seconds(work.missing()) == pytest.approx(sum(spent.values()))


def test_a_dry_run_says_what_is_done_and_what_is_left_and_writes_nothing(tmp_path, folder):
    result = ele("table1", "--dry-run", "--seeds", "0,2", "-o", folder)
    assert "plain & simple, seed 0: done" in result.output
    assert "plain & simple, seed 2: to do, about " in result.output
    assert "3 of 6 to do" in result.output
    result = ele("table1", "--dry-run", "-o", tmp_path / "new")
    assert "about 3.0 h in all" in result.output
    assert not (tmp_path / "new").exists()


def test_durations_in_words():
    assert [in_words(s) for s in (None, 5, 89, 100, 3600, 9000)] == [
        *("an unknown time", "5 s", "89 s", "2 min", "60 min", "2.5 h")
    ]


# -- tables -------------------------------------------------------------------------------------------------------


def test_the_table_has_means_and_deviations_beside_the_published_figures(folder):
    found, table = records(folder), cells(folder)
    assert table["method"] == [
        *("edit distance, published", "edit distance, measured", "exact, measured", "seeds", "test pairs")
    ]
    for row, slug in (("plain & simple", "plain-simple"), ("plain + pgd", "plain-pgd")):
        values = [found[f"{slug}-seed{seed}"]["metrics"]["edit_distance"] for seed in (0, 1)]
        assert table[row][1] == f"{statistics.fmean(values):.3f} ± {statistics.stdev(values):.3f}"
    assert table["plain & simple"][0] == "1.500 ± 0.250"
    assert table["plain + pgd"][0] == "1.250"
    assert [table[row][3:] for row in ("plain & simple", "plain + pgd", "extra")] == [
        ["0, 1", "10"],
        ["0, 1", "5"],
        ["–", "–"],
    ]
    assert table["extra"][:3] == ["–", "–", "–"]


def test_one_seed_has_no_deviation(copied):
    for file in (copied / "table1-small").glob("*-seed1.json"):
        file.unlink()
    assert ele("table1", "-o", copied).exit_code == 0
    value = records(copied)["wider-seed0"]["metrics"]["exact"]
    assert cells(copied)["wider"] == ["–", *cells(copied)["wider"][1:2], f"{value:.3f}", "0", "10"]


def test_the_page_says_scale_pairs_date_and_source(folder):
    text = (folder / "table1-small" / "table1.md").read_text("utf-8")
    date = records(folder)["wider-seed0"]["date"]
    assert "Scale small: a few numbers." in text
    assert f"Training pairs: 80. Measured {date}." in text
    assert "Published: a paper." in text
    assert "plain + pgd: the first 5 of 20 test pairs only." in text


def test_latex_escapes_what_means_something_else_there(folder):
    text = (folder / "table1-small" / "table1.tex").read_text("utf-8")
    assert r"plain \& simple & 1.500 $\pm$ 0.250 & " in text
    assert r"needs the package no\_such\_module" in text
    assert r"extra needs -{}-file gdb11=PATH." in text, "two hyphens would become a dash"
    assert r"\label{tab:table1}" in text
    assert text.count(r"\\") == 1 + len(ROWS)
    assert text.count("{") == text.count("}")
    assert escape("a_b&50%$#{}~^\\") == (r"a\_b\&50\%\$\#\{\}\textasciitilde{}\textasciicircum{}\textbackslash{}")


# -- figures ------------------------------------------------------------------------------------------------------


def test_a_sweep_is_measured_with_the_options_of_its_lines_and_drawn(copied):
    result = ele("figure3", "-o", copied, "--runs", copied / "runs")
    assert result.exit_code == 0, result.output
    drawn = copied / "figure3-small" / "plain-simple-seed0"
    assert {file.name for file in drawn.iterdir()} == {"sweep.json", "sweep.svg", "sweep.png"}
    (record,) = records(copied, "figure3-small").values()
    lines = {entry["line"]: entry["decoder"] for entry in record["sweep"]}
    assert set(lines) == {"candidates", "pgd-best"}
    assert (lines["pgd-best"]["steps"], lines["pgd-best"]["starts"]) == (2, 1)
    assert all(entry["pairs"] == 10 for entry in record["sweep"])


def test_the_ways_of_a_decoder_are_drawn_step_by_step_beside_the_truth(copied):
    result = ele("figure4", "-o", copied)
    assert result.exit_code == 0, result.output
    root = ElementTree.parse(copied / "figure4-small" / "plain-seed0.svg").getroot()
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    (record,) = records(copied, "figure4-small").values()
    assert [len(path["steps"]) for path in record["paths"]] == [2, 2, 2]
    for path in record["paths"]:
        assert path["truth"] in texts
        assert [step["step"] for step in path["steps"]] == [0, 2]
        assert all(step["structure"] in texts for step in path["steps"])
    png = (copied / "figure4-small" / "plain-seed0.png").read_bytes()
    assert png.startswith(b"\x89PNG")


def test_steps_are_shown_evenly_from_the_first_to_the_last():
    assert evenly(11, 3) == [0, 5, 10]
    assert evenly(2, 6) == [0, 1]
    assert evenly(9, 1) == [8]


def test_a_decoder_without_a_trace_is_refused(copied, monkeypatch):
    declare(monkeypatch, Paths("figure4", "Ways", ROWS[:1], SCALES))
    error = ele("figure4", "-o", copied).exception
    assert isinstance(error, ConfigError)
    assert "recorded no trace to draw" in str(error)
