"""`--quiet`, `--verbose`, `--json`, `--seed`, `--device`: alike in every command that has them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from ele_command import commands, fails, table

from ele_core.cli import cli
from ele_core.cli.options import escaped
from ele_core.display.text import harmless
from ele_core.runs.run import Run

QUICK = ["--set", "surrogate.training.epochs=1", "--set", "regressor.training.epochs=1"]
WITH_JSON = ["train", "resume", "evaluate", "compare", "plugins", "check", "sweep", "tune", "reproduce"]
LONG = ["train", "resume", "evaluate", "predict", "report", "compare", "check", "sweep", "tune", "reproduce"]


def options_of(*path: str) -> dict[str, click.Option]:
    command: click.Command = cli
    for name in path:
        assert isinstance(command, click.Group)
        command = command.commands[name]
    return {flag: option for option in command.params if isinstance(option, click.Option) for flag in option.opts}


@pytest.mark.parametrize("path", [*([name] for name in WITH_JSON), ["debug", "config"], ["debug", "data"]])
def test_every_command_with_a_result_prints_it_as_json(path):
    assert options_of(*path)["--json"].help == options_of("evaluate")["--json"].help


@pytest.mark.parametrize("name", LONG)
def test_every_long_command_can_be_quiet_or_verbose(name):
    assert {"-q", "--quiet", "-v", "--verbose"} <= options_of(name).keys()


@pytest.mark.parametrize("path", list(commands(cli)), ids=" ".join)
def test_options_with_the_same_name_have_the_same_help(path):
    for flag in ("--quiet", "--verbose", "--json", "--seed", "--device", "--processes", "--log"):
        own, first = options_of(*path).get(flag), options_of("train").get(flag)
        if own is not None and first is not None and path != ("tune",):
            assert own.help == first.help


@pytest.mark.parametrize("path", [("evaluate",), ("predict",), ("report",)], ids=" ".join)
def test_set_shows_an_option_that_can_change_after_training(path, copy):
    example = str(options_of(*path)["--set"].help).partition("--set ")[2].partition(". ")[0]
    assert Run(copy).decoding_config([example])


def test_train_prints_one_json_document(ele, settings):
    outcome = ele("train", "number-words", "-o", "run", *settings, *QUICK, "--json")
    assert outcome.code == 0, outcome.err
    result = json.loads(outcome.out)
    assert result.keys() == {"run", "metrics", "report", "seconds"}
    assert (result["run"], result["report"]) == ("run", "run/report.html")
    evaluated = json.loads(ele("evaluate", "run", "--json").out)
    assert evaluated.pop("baselines").keys() == {"copying the nearest input's output", "the most frequent output"}
    assert "is behind copying" in evaluated.pop("behind")
    assert evaluated == result["metrics"]
    finished = ele("resume", "run", "--json")
    assert json.loads(finished.out)["run"] == "run"
    compared = json.loads(ele("compare", "run", "run", "--json").out)
    assert compared["runs"] == ["run", "run"]
    exact = next(line for block in compared["blocks"] for line in block["lines"] if line["name"] == "exact")
    assert exact["values"] == [result["metrics"]["exact"]] * 2


def test_quiet_prints_results_and_nothing_else(ele, settings):
    outcome = ele("train", "number-words", "-o", "run", "--no-report", "--quiet", *settings, *QUICK)
    assert (outcome.code, outcome.out, outcome.err) == (0, "Trained: run\n", "")
    measured = ele("evaluate", "run", "-q", "--decoder", "candidates")
    assert "exact" in measured.out
    assert measured.err == ""


def test_verbose_prints_versions_options_and_for_an_error_its_traceback(ele, copy):
    outcome = ele("evaluate", copy, "--decoder", "candidates", "--limit", "3", "-v")
    assert "torch " in outcome.err
    assert "device: cpu" in outcome.err
    assert 'name = "candidates"' in outcome.err
    failed = ele("evaluate", copy, "--set", "surrogate.dim=3", "-v")
    assert failed.code == 2
    assert "Traceback" in failed.err
    assert failed.err.rstrip().splitlines()[-1].startswith("Error: --set: surrogate cannot change")
    assert fails(ele("evaluate", copy, "-v", "-q"), 2, "--quiet and --verbose exclude each other")


def test_seed_and_device_are_options_of_the_configuration(ele, copy):
    config = json.loads(ele("debug", "config", "number-words", "--seed", "7", "--device", "cpu", "--json").out)
    assert (config["seed"], config["device"]) == (7, "cpu")
    assert fails(ele("train", "number-words", "--device", "gpu"), 2, "got 'gpu'")
    assert fails(ele("evaluate", copy, "--device", "gpu"), 2, "got 'gpu'")
    assert fails(ele("train", "number-words", "--seed", "-1"), 2, "--seed")


def test_the_data_are_described_as_json(ele, tmp_path):
    (tmp_path / "pairs.csv").write_text("x,y\n" + "one,1\n,2\n" * 12)
    facts = json.loads(ele("debug", "data", "number-words", "--data", "pairs.csv", "--json").out)
    assert facts["pairs"] == facts["train"] + facts["validation"] + facts["test"] == 12
    assert facts["left_out"][0] == {"row": 2, "line": 3, "text": "", "reason": "the text is empty."}
    assert len(facts["left_out"]) == 12


def test_a_component_is_described_as_json(ele):
    (component,) = json.loads(ele("plugins", "pgd", "--json").out)["components"]
    assert (component["kind"], component["name"]) == ("decoder", "pgd")
    assert {"path", "type", "default", "description"} == component["options"][0].keys()


# -- nothing is measured twice ------------------------------------------------------------------------------------


def test_an_equal_evaluation_is_shown_instead_of_measured_again(ele, copy, monkeypatch):
    first = ele("evaluate", copy, "--decoder", "candidates", "--json")
    calls: list[str] = []
    measure = Run.evaluate
    monkeypatch.setattr(Run, "evaluate", lambda *args, **kwargs: calls.append("measured") or measure(*args, **kwargs))
    again = ele("evaluate", copy, "--decoder", "candidates", "--json")
    assert again.out == first.out
    assert "measured on " in again.err
    assert "test-candidates.csv; --again measures again" in again.err
    assert calls == []
    assert ele("evaluate", copy, "--decoder", "candidates", "--again", "--json").out == first.out
    assert ele("evaluate", copy, "--decoder", "candidates", "--limit", "3").code == 0
    assert ele("evaluate", copy, "--decoder", "candidates", "--record", "record.json").code == 0
    assert calls == ["measured"] * 3


def test_a_table_that_was_changed_is_measured_again(ele, copy):
    first = ele("evaluate", copy, "--decoder", "candidates")
    file = copy / "predictions" / "test-candidates.csv"
    file.write_text(file.read_text().replace("1", "2"))
    again = ele("evaluate", copy, "--decoder", "candidates")
    assert "stored" not in again.err
    assert again.out == first.out


def test_a_variant_of_a_decoder_is_measured_into_its_own_file(ele, copy):
    random = ele("evaluate", copy, "--decoder", "pgd-random", "--limit", "4", "--json")
    assert random.code == 0, random.err
    by_option = ele("evaluate", copy, "--decoder", "pgd", "--set", "decoder.start=random", "--limit", "4", "--json")
    assert by_option.out == random.out
    assert "test-pgd-random.csv" in by_option.err, "the same decoding: it was measured"
    assert ele("evaluate", copy, "--decoder", "pgd-best", "--limit", "4").code == 0
    assert sorted(path.stem for path in (copy / "predictions").glob("*.csv")) == ["test-pgd", "test-pgd-random"]
    assert fails(ele("evaluate", copy, "--decoder", "pgd-rando"), 2, "did you mean 'pgd-random'?")
    assert table(ele("predict", copy, "-", "--decoder", "pgd-random", stdin="one\n").out)[0]["status"] == "ok"


# -- sentences ----------------------------------------------------------------------------------------------------


def test_resuming_a_finished_run_says_that_it_is_finished(ele, copy):
    weights = (copy / "model" / "model.safetensors").stat().st_mtime_ns
    outcome = ele("resume", copy, "--no-report")
    assert outcome.out.startswith(f"Finished already: {copy}\n")
    assert "Trained" not in outcome.out
    assert (copy / "model" / "model.safetensors").stat().st_mtime_ns == weights


def test_an_unknown_option_of_a_command_with_set_points_to_it(ele):
    outcome = ele("train", "number-words", "--epoch", "3")
    assert fails(outcome, 2, "No such option", "as in --set surrogate.dim=64")
    assert "--set" not in ele("plugins", "--nam").err


@pytest.mark.parametrize("command", ["evaluate", "predict", "report", "resume", "sweep"])
def test_a_missing_run_folder_is_one_sentence(ele, command, tmp_path):
    outcome = ele(command, "nowhere", *(["-"] if command == "predict" else []))
    assert outcome.code == 2
    expected = "Error: nowhere: there is no such run folder. Give a folder that `ele train -o FOLDER` wrote.\n"
    assert outcome.err == expected
    Path(tmp_path / "file").touch()
    assert fails(ele(command, "file", *(["-"] if command == "predict" else [])), 2, "a file, not a run folder")


@pytest.mark.usefixtures("copy")
def test_a_run_with_a_similar_name_is_proposed(ele):
    assert fails(ele("evaluate", "rum"), 2, "Did you mean run?")


# -- texts that would command the terminal ------------------------------------------------------------------------

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"


def test_escapes_in_column_names_do_not_reach_the_terminal(tmp_path):
    file = tmp_path / "pairs.csv"
    file.write_text(f"in{ESCAPES},out\n" + "".join(f"word {n},{n}\n" for n in range(30)))
    for arguments in (
        ["debug", "data", "--data", file, "--output-space", "sequence"],
        ["train", "--data", file, "--output-space", "sequence", "--input", f"x{ESCAPES}", "-o", tmp_path / "run"],
        ["debug", "data", "--data", file, "--output-space", "sequence", "--json"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "ele_core", *map(str, arguments)], capture_output=True, text=True, check=False
        )
        assert "out" in done.stdout + done.stderr
        assert not set(ESCAPES) & {"\x1b", "\x07", "\x9b", "\u202e"} & set(done.stdout + done.stderr)


def test_lines_and_tabs_stay_what_they_are():
    assert harmless("a\tb\nc") == "a\tb\nc"
    assert harmless("\x1b[31m") == "\ufffd[31m"
    assert json.loads(escaped(json.dumps({"x\x9b": ESCAPES}, ensure_ascii=False))) == {"x\x9b": ESCAPES}
