"""The `ele` command, through `main`: what it prints, what it writes, and how it fails."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from ele_command import commands, fails, table

from ele_core.cli import cli
from ele_core.plugins import registry

DECODERS = [name for name in registry().names("decoder") if registry().provider("decoder", name).name == "core"]
OWN = [
    *("--recipe", "paper", "--set", "surrogate.dim=4", "--set", "surrogate.encoder={name='flat', width=4, layers=1}"),
    *("--set", "surrogate.training.epochs=1", "--set", "regressor.training.epochs=1"),
    *("--set", "regressor.backbone={name='gru', embedding=4, layers=1, width=4}"),
]
"""Settings that train on a user's own file in no time."""


# -- help and plugins ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [(), *commands(cli)], ids=" ".join)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_every_command_has_help(path, flag):
    result = CliRunner().invoke(cli, [*path, flag])
    assert result.exit_code == 0
    assert "Usage: " in result.output
    assert len(result.output.splitlines()) > 4


@pytest.mark.parametrize("group", [(), ("debug",)], ids=" ".join)
def test_the_summary_of_every_command_is_a_whole_sentence_at_80_columns(group):
    output = CliRunner().invoke(cli, [*group, "--help"], terminal_width=80).output
    summaries = [line for line in output.partition("Commands:\n")[2].partition("\n\n")[0].splitlines() if line.strip()]
    assert len(summaries) == len([path for path in commands(cli) if path[:-1] == group])
    for line in summaries:
        assert line.endswith("."), line
        assert not line.endswith("..."), line


@pytest.mark.parametrize(("command", "rule"), [(("train",), "raise"), (("debug", "data"), "skip")], ids=str)
def test_the_help_names_what_happens_by_default_to_rows_that_cannot_be_used(command, rule):
    text = " ".join(CliRunner().invoke(cli, [*command, "--help"]).output.split())
    assert f"or omit them (skip) [default: {rule}]." in text


def test_the_commands_are_those_of_the_documentation():
    assert {" ".join(path) for path in commands(cli)} >= {
        *("plugins", "init", "train", "resume", "predict", "evaluate", "debug", "debug config", "debug data"),
    }


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(run_python, arguments):
    program = (
        "import sys; sys.argv = ['ele', *sys.argv[1:]]\n"
        "from ele_core.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'sklearn', 'rdkit', 'pydantic', 'rich', 'networkx', 'numba'} & set(sys.modules)\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    run_python("-c", program, *arguments)


def test_plugins_are_listed_with_their_distribution_and_components(ele):
    listed = json.loads(ele("plugins", "--json").out)
    plugins = {plugin["name"]: plugin for plugin in listed["plugins"]}
    assert plugins["sequences"]["distribution"] == "explicit-loss-embedding"
    assert plugins["sequences"]["status"] == "ok"
    names = {(record["kind"], record["name"]) for record in plugins["core"]["records"]}
    assert {("decoder", "pgd"), ("surrogate", "contrastive"), ("backbone", "gru")} <= names
    text = ele("plugins").out
    assert "sequences (explicit-loss-embedding " in text
    assert "number-words" in text


def test_a_component_shows_its_options(ele):
    text = ele("plugins", "pgd").out
    assert "decoder pgd: " in text
    assert "step_size (float, default " in text
    assert fails(ele("plugins", "pdg"), 2, "no component is called 'pdg'; did you mean 'pgd'?")


# -- configuration ------------------------------------------------------------------------------------------------


def test_init_writes_a_configuration_that_trains_the_same(ele, tmp_path):
    outcome = ele("init", "number-words", "--set", "seed=3")
    assert "Next: ele train number-words.toml" in outcome.out
    written = (tmp_path / "number-words.toml").read_text()
    assert tomllib.loads(written)["seed"] == 3
    assert ele("debug", "config", "number-words.toml").out == written == ele("init", "number-words.toml", "-o", "-").out
    assert fails(ele("init", "number-words"), 2, "number-words.toml: there is a file already.")
    assert (tmp_path / "number-words.toml").read_text() == written


def test_a_resolved_configuration_has_every_option(ele):
    config = tomllib.loads(ele("debug", "config", "number-words", "--set", "decoder=candidates").out)
    assert config["decoder"] == {"name": "candidates"}
    assert config["surrogate"]["training"]["batch_size"] > 0
    assert config["regressor"]["backbone"]["name"] == "gru"


def test_every_problem_of_a_configuration_is_told_at_once(ele, tmp_path):
    (tmp_path / "bad.toml").write_text(
        '[output]\nname = "sequences"\n[regressor]\nepoch = 3\n[decoder]\nname = "pgd"\nsteps = 0\n'
    )
    outcome = ele("debug", "config", "bad.toml")
    assert fails(
        outcome, 2, "output.name: ", "did you mean 'sequence'?", "regressor.epoch: unknown option", "decoder.steps: "
    )


@pytest.mark.parametrize("command", [["train"], ["init"], ["debug", "config"], ["debug", "data"]])
def test_an_unknown_task_is_answered_with_the_nearest(ele, command, tmp_path):
    outcome = ele(*command, "number-word")
    assert fails(outcome, 2, "there is no file 'number-word'", "did you mean 'number-words'?", "ele plugins")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["[output", "seed = 1\nseed = 2\n"])
def test_a_file_that_is_not_toml_is_named(ele, tmp_path, text):
    (tmp_path / "bad.toml").write_text(text)
    assert fails(ele("train", "bad.toml"), 2, "bad.toml: is not valid TOML")


def test_an_override_that_is_none_is_explained(ele):
    assert fails(ele("train", "number-words", "--set", "epochs"), 2, "'epochs' is not an override", "option=value")


# -- training -----------------------------------------------------------------------------------------------------


def test_training_reports_on_standard_error_and_says_what_comes_next(ele, settings, tmp_path):
    quick = ["--set", "surrogate.training.epochs=1", "--set", "regressor.training.epochs=1"]
    outcome = ele("train", "number-words", *settings, *quick)
    assert outcome.code == 0, outcome.err
    assert "Next: ele evaluate runs/number-words-1" in outcome.out
    assert "160 training, 20 validation, 20 test pairs" in outcome.err
    assert "validation_error" in outcome.err
    assert "\x1b" not in outcome.err, "no colours and no bar where there is no terminal"
    assert (tmp_path / "runs" / "number-words-1" / "model").is_dir()
    again = ele("train", "number-words", *settings, *quick, "--no-report")
    assert "runs/number-words-2" in again.out


def test_a_folder_that_is_taken_is_refused_and_left_as_it_was(ele, copy, settings):
    before = (copy / "config.toml").stat().st_mtime_ns
    assert fails(ele("train", "number-words", "-o", copy, *settings), 1, "the folder is not empty", "-o")
    assert (copy / "config.toml").stat().st_mtime_ns == before


def test_a_run_that_is_resumed_ends_as_it_would_have_and_says_what_comes_next(ele, copy):
    weights = (copy / "model" / "model.safetensors").read_bytes()
    shutil.rmtree(copy / "model")
    outcome = ele("resume", copy, "--checkpoint-every", "0")
    assert outcome.code == 0, outcome.err
    assert f"Next: ele evaluate {copy}" in outcome.out
    assert (copy / "model" / "model.safetensors").read_bytes() == weights
    again = ele("resume", copy)
    assert again.code == 0
    assert "nothing to do" in again.err


def test_a_surrogate_can_be_taken_over_from_a_run(ele, copy, settings, tmp_path):
    outcome = ele("train", "number-words", "-o", "second", "--surrogate-from", copy, "--no-report", *settings)
    assert outcome.code == 0, outcome.err
    lines = (tmp_path / "second" / "metrics.jsonl").read_text().splitlines()
    assert {json.loads(line)["stage"] for line in lines} == {"regression"}
    assert fails(
        ele("train", "number-words", "-o", "third", "--surrogate-from", copy, *settings, "--set", "surrogate.dim=9"),
        2,
        "surrogate cannot be used",
        "surrogate.dim: 8 → 9",
    )


def test_a_folder_that_cannot_be_made_is_no_traceback(ele, settings, tmp_path):
    (tmp_path / "file").write_text("")
    assert fails(ele("train", "number-words", "-o", "file/run", *settings), 1, "Error: ", "file/run")


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_task_trains_from_a_file_of_the_users_own(ele, tmp_path, suffix):
    rows = [
        {"id": number, "name": f"the {'xyz'[number % 3]} {number}", "code": "xyz"[number % 3] * 7}
        for number in range(40)
    ]
    lines = [json.dumps(row) for row in rows]
    if suffix == "csv":
        lines = ["id,name,code", *(",".join(map(str, row.values())) for row in rows)]
    (tmp_path / f"pairs.{suffix}").write_text("\n".join(lines) + "\n")
    columns = ["--data", f"pairs.{suffix}", "--input", "name", "--output", "code"]
    outcome = ele("train", "number-words", *columns, *OWN, "-o", "run", "--no-report")
    assert outcome.code == 0, outcome.err
    output = tomllib.loads((tmp_path / "run" / "config.toml").read_text())["output"]
    assert output["alphabet"] == ["x", "y", "z"]
    assert output["length"] == 7
    assert ele("evaluate", "run", "--json", "--decoder", "candidates").code == 0
    assert table(ele("predict", "run", "-", stdin="the x 3\n").out)[0]["status"] == "ok"
    described = ele("debug", "data", "number-words", *columns)
    assert "3 different" in described.out


@pytest.fixture
def pairs(tmp_path):
    """A file of pairs of a text and a sequence."""
    rows = [f"the {'xyz'[number % 3]} {number},{'xyz'[number % 3] * 3}\n" for number in range(40)]
    (tmp_path / "pairs.csv").write_text("name,code\n" + "".join(rows))
    return ["--data", "pairs.csv"]


def test_own_data_need_only_the_name_of_an_output_space(ele, tmp_path, pairs):
    outcome = ele("train", *pairs, "--output-space", "sequence", *OWN, "--no-report")
    assert outcome.code == 0, outcome.err
    config = tomllib.loads((tmp_path / "runs" / "sequence-1" / "config.toml").read_text())
    assert config["output"]["name"] == "sequence"
    assert "task" not in config
    assert "3 different" in ele("debug", "data", *pairs, "--output-space", "sequence").out
    assert "3 different" in ele("debug", "data", "sequence", *pairs).out


def test_a_training_prints_its_recipe_and_a_wrong_one_is_refused_before_data_are_read(ele, tmp_path, pairs):
    quick = ["--output-space", "sequence", "--no-report", "--set", "regressor=nearest-input", "-o", "run"]
    outcome = ele("train", *pairs, *quick)
    line = "recipe: learned (your own data: the loss is learned from your structures and pairs)"
    assert f"{line}, with regressor=nearest-input\n" in outcome.err
    assert tomllib.loads((tmp_path / "run" / "config.toml").read_text())["recipe"] == "learned"
    wrong = ["train", "--data", "missing.csv", "--output-space", "sequence"]
    assert fails(ele(*wrong, "--recipe", "lerned"), 2, "no recipe is called 'lerned'", "learned, paper")
    inside = ele(*wrong, "--set", "regressor.training.epochs=3")
    assert fails(inside, 2, "regressor.training: unknown option", "'regressor.writer.training.epochs'")
    assert "--recipe" in ele("train", "--help").out


def test_the_file_for_data_of_ones_own_names_the_recipe(ele, tmp_path):
    assert ele("init", "sequence", "--set", "data.file=pairs.csv").code == 0
    written = tomllib.loads((tmp_path / "sequence.toml").read_text())
    assert written == {"recipe": "learned", "output": {"name": "sequence"}, "data": {"file": "pairs.csv"}}


@pytest.mark.parametrize("command", [["train"], ["debug", "data"]])
def test_an_output_space_that_does_not_go_with_the_rest_is_refused(ele, tmp_path, pairs, command):
    assert fails(ele(*command), 2, "Give your own pairs, FILE --output-space NAME, or CONFIG|TASK.")
    assert fails(ele(*command, "--output-space", "sequence"), 2, "give --data FILE too")
    both = ele(*command, "number-words", *pairs, "--output-space", "sequence")
    assert fails(both, 2, "Give either number-words or --output-space sequence")
    assert fails(ele(*command, *pairs, "--output-space", "sequenc"), 2, "did you mean 'sequence'?")
    assert not (tmp_path / "runs").exists()


def test_inputs_unlike_those_of_the_training_are_marked(ele, copy, tmp_path):
    (tmp_path / "words.csv").write_text('word\ntwenty\n""\nzwanzig\n')
    outcome = ele("predict", copy, "words.csv")
    assert outcome.code == 0, outcome.err
    rows = table(outcome.out)
    assert [row["unlike_training"] for row in rows] == ["", "", "unknown token 'zwanzig'"]
    assert [row["status"] == "ok" for row in rows] == [True, False, True]
    assert outcome.err.count("unlike the training inputs: 1 of 3 inputs; see the column unlike_training\n") == 1
    skipped = table(ele("predict", copy, "words.csv", "--on-error", "skip").out)
    assert [row["unlike_training"] for row in skipped] == ["", "unknown token 'zwanzig'"]


def test_no_column_is_added_if_all_inputs_are_like_those_of_the_training(ele, copy):
    outcome = ele("predict", copy, "-", stdin="twenty\n")
    assert "unlike" not in outcome.out + outcome.err


def lengths(run: Path, option: str) -> list[float | str]:
    """The option of every table `training` of a run."""

    def walk(table: dict) -> list:
        inner = [walk(value) for value in table.values() if isinstance(value, dict)]
        own = [table["training"][option]] if isinstance(table.get("training"), dict) else []
        return own + [value for values in inner for value in values]

    return walk(tomllib.loads((run / "config.toml").read_text()))


QUICK = ["--no-report", "--set", "regressor=stacked", "--set", "regressor.network.backbone.width=8"]


def test_epochs_are_those_of_every_network(ele, tmp_path, pairs):
    outcome = ele("train", *pairs, "--output-space", "sequence", "--epochs", "2", "-o", "run", *QUICK)
    assert outcome.code == 0, outcome.err
    assert lengths(tmp_path / "run", "epochs") == [2]
    config = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert config["regressor"]["network"]["training"]["epochs"] == 2
    assert "epochs" not in config


def test_minutes_are_a_budget_for_all_networks(ele, tmp_path, settings):
    outcome = ele("train", "number-words", "--minutes", "0.02", "-o", "run", *without_epochs(settings), "--no-report")
    assert outcome.code == 0, outcome.err
    config = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert config["minutes"] == 0.02
    assert lengths(tmp_path / "run", "minutes") == ["none", "none"]
    assert "embedding: about " in outcome.err
    told = (tmp_path / "run" / "log.txt").read_text().splitlines()
    assert any(line.startswith("embedding: about ") and " steps in 1 s" in line for line in told)


def without_epochs(settings: list[str]) -> list[str]:
    """The settings without those of the length of a training."""
    pairs = zip(settings[::2], settings[1::2], strict=True)
    return [word for option, value in pairs if ".epochs=" not in value for word in (option, value)]


@pytest.mark.parametrize(
    "command",
    [("train", "x.csv", "--minutes"), ("train", "x.csv", "--epochs"), ("serve", ".", "--timeout")],
    ids=lambda command: command[-1],
)
@pytest.mark.parametrize("number", ["nan", "inf", "1e999"])
def test_numbers_that_are_not_finite_are_refused(ele, command, number):
    assert fails(ele(*command, number), 2, f"Invalid value for '{command[-1]}'")


def test_lengths_of_a_training_that_exclude_each_other_are_refused(ele, tmp_path, pairs):
    assert fails(ele("train", "number-words", "--epochs", "1", "--minutes", "1"), 2, "exclude each other")
    single = ele("train", "number-words", "--minutes", "1", "--set", "regressor.training.epochs=3")
    assert fails(single, 2, "--minutes is for all networks", "regressor.training.epochs=3")
    assert fails(ele("train", "number-words", "--minutes", "0"), 2, "--minutes")
    kernels = ["--set", "surrogate=parts", "--set", "regressor=sketched-ridge"]
    refused = ele("train", *pairs, "--output-space", "sequence", *kernels, "--minutes", "1", "-o", "run")
    assert fails(refused, 2, "minutes: this model trains no network")
    assert not (tmp_path / "run").exists()


def test_bad_rows_stop_the_training_with_all_of_them_and_nothing_written(ele, tmp_path):
    rows = [("one", "1"), ("", "2"), ("three", "3"), ("", "4")] * 6
    (tmp_path / "pairs.csv").write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in rows))
    outcome = ele("train", "number-words", "--data", "pairs.csv", *OWN, "-o", "run")
    assert fails(
        outcome, 1, "pairs.csv: 12 rows cannot be used", "row 2 (line 3): ''", "row 24 (line 25): ''", "--on-error skip"
    )
    assert not (tmp_path / "run").exists()
    assert ele("train", "number-words", "--data", "pairs.csv", "--on-error", "skip", *OWN, "-o", "run").code == 0
    assert len(json.loads((tmp_path / "run" / "data.json").read_text())["rejected"]) == 12


def test_debug_data_shows_bad_rows_instead_of_stopping_at_them(ele, tmp_path):
    (tmp_path / "pairs.csv").write_text("x,y\n" + "one,1\n,2\n" * 12)
    outcome = ele("debug", "data", "number-words", "--data", "pairs.csv")
    assert outcome.code == 0
    assert "left out     12 rows\n  row 2 (line 3): '': the text is empty." in outcome.out
    assert fails(ele("debug", "data", "number-words", "--data", "pairs.csv", "--on-error", "raise"), 1, "12 rows")


def test_debug_data_says_which_columns_it_took_and_how_outputs_are_cut(ele, tmp_path):
    (tmp_path / "pairs.csv").write_text("id,word,phonemes\n" + "1,cab,K AE B\n2,back,B AE K\n" * 6)
    lines = ele("debug", "data", "number-words", "--data", "pairs.csv").out.splitlines()
    assert lines[0].startswith("input: column 'id' (the first); output: column 'phonemes' (the last); 1 other is not")
    assert lines[1].startswith("warning: the column 'id', which is taken as the input, seems to name its rows")
    assert lines[2].startswith("warning: the inputs are numbers, but are read as text")
    assert lines[3].startswith("note: 10 rows equal to an earlier one, and only 2 different")
    assert lines[4] == "output: tokens separated by spaces, 3 different; at most 3 in a text"


def test_a_column_without_a_file_is_a_usage_error(ele):
    assert fails(ele("train", "number-words", "--input", "x"), 2, "give it too")


def test_a_column_whose_name_is_a_number_stays_a_name(ele, tmp_path):
    (tmp_path / "pairs.csv").write_text("1,2\n" + "".join(f"word {n},{n}\n" for n in range(20)))
    outcome = ele("debug", "data", "number-words", "--data", "pairs.csv", "--input", "1", "--output", "2")
    assert outcome.code == 0, outcome.err
    assert fails(
        ele("debug", "data", "number-words", "--data", "pairs.csv", "--input", "3"), 1, "no column is called '3'"
    )


# -- evaluating ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("oracle", [[], ["--oracle"]])
@pytest.mark.parametrize("decoder", [[], *(["--decoder", name] for name in DECODERS)], ids=" ".join)
def test_each_decoder_evaluates_with_and_without_the_oracle(ele, copy, decoder, oracle):
    outcome = ele("evaluate", copy, *decoder, *oracle, "--limit", "6", "--json")
    assert outcome.code == 0, outcome.err
    metrics = json.loads(outcome.out)
    assert {"exact", "edit_distance", "unseen", "examples"} <= set(metrics)
    assert ("regression_error" in metrics) == (not oracle)
    assert metrics["examples"] == 6
    (file,) = (copy / "predictions").glob("*.csv")
    assert file.stem.endswith("oracle") == bool(oracle)
    assert len(table(file.read_text())) == 6


def test_metrics_are_printed_one_a_line_and_equal_those_of_json(ele, copy):
    arguments = ["evaluate", copy, "--decoder", "candidates", "--split", "validation"]
    printed, _, rest = ele(*arguments).out.partition("Without a model:\n")
    baselines = rest.partition("Right in about ")[0]
    lines = dict(line.split() for line in printed.splitlines())
    metrics = json.loads(ele(*arguments, "--json").out)
    named = metrics.pop("baselines")
    assert "is behind" in metrics.pop("behind")
    assert [line.split(":")[0].strip() for line in baselines.splitlines()] == list(named)
    assert list(lines) == list(metrics)
    assert {name: f"{value:.4f}" for name, value in metrics.items()} == lines


def test_decoding_options_are_changed_by_set_and_nothing_else_is(ele, copy):
    share = ["--decoder", "candidates", "--oracle", "--split", "validation", "--json"]
    few = json.loads(ele("evaluate", copy, *share, "--set", "candidates.share=0.01").out)
    many = json.loads(ele("evaluate", copy, *share).out)
    assert few["edit_distance"] > many["edit_distance"]
    outcome = ele("evaluate", copy, "--set", "surrogate.dim=3")
    assert fails(outcome, 2, "surrogate cannot change after training")
    assert fails(ele("evaluate", copy, "--set", "decoder.stepz=3"), 2, "decoder.stepz: unknown option")
    assert fails(ele("evaluate", copy, "--decoder", "candidate"), 2, "did you mean 'candidates'?")


def test_a_result_can_be_recorded_with_all_it_takes_to_get_it_again(ele, copy, tmp_path):
    arguments = ["evaluate", copy, "--decoder", "candidates", "--limit", "5", "--json", "--record", "results/one.json"]
    metrics = json.loads(ele(*arguments).out)
    del metrics["baselines"], metrics["behind"]
    record = json.loads((tmp_path / "results" / "one.json").read_text())
    assert record["command"] == f"ele {' '.join(map(str, arguments))}"
    assert record["metrics"] == pytest.approx(metrics, abs=1e-6)
    assert (record["task"], record["split"], record["oracle"]) == ("number-words", "test", False)
    assert record["decoder"]["name"] == "candidates"
    assert record["sizes"] == {"train": 160, "validation": 20, "test": 20, "calibration": 0}
    assert sum(each["examples"] for each in record["by_property"]["length"]) == 5


def test_metrics_are_grouped_by_a_property_of_the_truths(ele, copy):
    arguments = ["evaluate", copy, "--decoder", "candidates", "--by", "length"]
    measured, stored = (json.loads(ele(*arguments, "--json").out) for _ in range(2))
    assert measured == stored
    groups = measured["by_property"]["length"]
    rows = table((copy / "predictions" / "test-candidates.csv").read_text())
    assert [each["value"] for each in groups] == sorted({len(row["truth"]) for row in rows})
    for each in groups:
        own = [float(row["edit_distance"]) for row in rows if len(row["truth"]) == each["value"]]
        assert each["examples"] == len(own)
        assert each["metrics"]["edit_distance"] == pytest.approx(sum(own) / len(own), abs=1e-5)
    lines = [line.split() for line in ele(*arguments).out.splitlines()]
    head = lines.index(["length", "examples", *groups[0]["metrics"]])
    printed = [line[:2] for line in lines[head + 1 : head + 1 + len(groups)]]
    assert printed == [[str(each["value"]), str(each["examples"])] for each in groups]


def test_an_unknown_property_is_refused_before_anything_is_measured(ele, copy):
    assert fails(ele("evaluate", copy, "--by", "atoms"), 2, "there is no property 'atoms': these outputs have length.")
    assert not list(copy.glob("predictions/*"))


def test_what_is_no_run_is_refused(ele, tmp_path):
    assert fails(ele("evaluate", "nowhere"), 2, "nowhere")
    assert fails(ele("predict", tmp_path, "-"), 1, "there is no model here", "ele train")
    for command in ("evaluate", "resume"):
        assert fails(ele(command, tmp_path), 1, "there is no run here", "ele train")


def test_a_run_that_has_not_finished_is_refused_with_how_to_finish_it(ele, copy, settings):
    shutil.rmtree(copy / "model")
    for arguments in (["evaluate", copy], ["predict", copy, "-"]):
        assert fails(ele(*arguments), 1, "this run has not finished", f"ele resume {copy}")
    assert fails(ele("train", "number-words", "-o", copy, *settings), 1, "unfinished run", f"ele resume {copy}")


def test_a_damaged_model_is_one_paragraph(ele, copy):
    weights = copy / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    assert fails(ele("evaluate", copy), 1, "Error: ", "model.safetensors: damaged")


# -- predicting ---------------------------------------------------------------------------------------------------

LINES = "forty-two\n\nseven\n" + "one " * 2000 + "\nnine\n"


def test_rows_stay_aligned_with_a_status(ele, copy):
    rows = table(ele("predict", copy, "-", stdin=LINES).out)
    assert list(rows[0]) == ["input", "prediction", "energy", "status"]
    assert [row["input"] for row in rows] == LINES.splitlines()
    assert [row["status"] == "ok" for row in rows] == [True, False, True, False, True]
    assert rows[1] == {"input": "", "prediction": "", "energy": "", "status": "the text is empty."}
    assert re.match(r"the text has \d+ tokens, and the limit is \d+", rows[3]["status"])
    assert all(row["prediction"].isdigit() for row in rows if row["status"] == "ok")


def test_a_prediction_that_fails_leaves_nothing_in_the_run(ele, copy, tmp_path):
    (tmp_path / "empty.csv").write_text("")
    before = sorted(copy.iterdir())
    (tmp_path / "blank.txt").write_text("\n\n")
    assert fails(ele("predict", copy, "empty.csv"), 1, "empty.csv: the file is empty")
    assert "no input can be used" in ele("predict", copy, "blank.txt", "-o", "out.csv").err
    assert sorted(copy.iterdir()) == before


def test_bad_rows_can_be_skipped_or_refused(ele, copy):
    rows = table(ele("predict", copy, "-", "--on-error", "skip", stdin=LINES).out)
    assert [row["input"] for row in rows] == ["forty-two", "seven", "nine"]
    outcome = ele("predict", copy, "-", "--on-error", "raise", stdin=LINES)
    assert fails(outcome, 1, "2 rows cannot be used", "row 2: ''", "row 4: 'one one")
    assert outcome.out == ""


@pytest.mark.parametrize(("stdin", "code"), [("", 0), ("\n", 1)])
def test_the_header_is_there_also_without_predictions(ele, copy, stdin, code):
    outcome = ele("predict", copy, "-", "--on-error", "skip", stdin=stdin)
    assert (outcome.code, outcome.out) == (code, "input,prediction,energy,status\n")


def test_a_file_is_read_by_column_and_the_answer_written_to_a_file(ele, copy, tmp_path):
    (tmp_path / "inputs.csv").write_text('id,name\n1,"forty, two"\n2,seven\n')
    outcome = ele("predict", copy, "inputs.csv", "--input", "name", "-o", "out/predictions.csv")
    assert (outcome.code, outcome.out) == (0, "")
    rows = table((tmp_path / "out" / "predictions.csv").read_text())
    assert [row["input"] for row in rows] == ["forty, two", "seven"]
    assert fails(ele("predict", copy, "inputs.csv", "--input", "nam"), 1, "did you mean 'name'?")


def test_several_structures_come_best_first(ele, copy):
    rows = table(ele("predict", copy, "-", "--top-k", "3", "--decoder", "candidates", stdin="seven\n\nnine\n").out)
    assert [row["input"] for row in rows] == ["seven"] * 3 + [""] + ["nine"] * 3
    energies = [float(row["energy"]) for row in rows[:3]]
    assert energies == sorted(energies)


def test_candidates_can_be_given_and_bad_ones_are_left_out_with_file_and_line(ele, copy, tmp_path):
    given = ("predict", copy, "-", "--decoder", "candidates", "--candidates", "choices.csv")
    (tmp_path / "choices.csv").write_text("number\n11\n22\n")
    assert table(ele(*given, stdin="one\n").out)[0]["prediction"] in ("11", "22")
    (tmp_path / "choices.csv").write_text("number\n11\nab\n")
    done = ele(*given, stdin="one\n")
    assert table(done.out)[0]["prediction"] == "11"
    assert "choices.csv: 1 candidate, 1 left out" in done.err
    assert "row 2 (line 3): 'ab': 'ab' holds 'a'" in done.err
    reason = "choices.csv: 1 row cannot be used:\n  row 2 (line 3): 'ab': 'ab' holds 'a'"
    assert fails(ele(*given, "--on-error", "raise", stdin="one\n"), 1, reason)
    (tmp_path / "choices.csv").write_text("number\nab\n")
    assert fails(ele(*given, stdin="one\n"), 1, "choices.csv: 1 row cannot be used, and no row is left")


def test_the_command_agrees_with_the_python_interface(ele, copy):
    from ele_core import StructuredPredictor

    rows = table(ele("predict", copy, "-", "--decoder", "candidates", stdin="seven\nforty-two\n").out)
    expected = StructuredPredictor.load(copy).predict(["seven", "forty-two"], decoder="candidates")
    assert [row["prediction"] for row in rows] == expected


def test_the_columns_of_the_file_come_first_and_names_that_are_taken_get_a_number(ele, copy, tmp_path):
    (tmp_path / "inputs.csv").write_text("id,name,prediction\n1,seven,old\n2,,older\n3,nine\n")
    outcome = ele("predict", copy, "inputs.csv", "--input", "name", "--decoder", "candidates")
    assert outcome.out.splitlines()[0] == "id,name,prediction,input,prediction_2,energy,status"
    rows = table(outcome.out)
    assert [(row["id"], row["prediction"]) for row in rows] == [("1", "old"), ("2", "older"), ("3,nine", "")]
    assert rows[0]["prediction_2"].isdigit()
    assert [row["status"] == "ok" for row in rows] == [True, False, False]
    assert "'prediction' is written as 'prediction_2'" in outcome.err
    skipped = table(ele("predict", copy, "inputs.csv", "--input", "name", "--on-error", "skip").out)
    assert [row["id"] for row in skipped] == ["1"]
    refused = ele("predict", copy, "inputs.csv", "--input", "name", "--on-error", "raise")
    assert fails(refused, 1, "inputs.csv: 2 rows", "row 2 (line 3): ''", "row 3 (line 4): '3,nine'")


def test_a_column_called_input_is_not_written_twice(ele, copy, tmp_path):
    (tmp_path / "inputs.csv").write_text("input\nseven\n")
    assert ele("predict", copy, "inputs.csv").out.startswith("input,prediction,energy,status\nseven,")


def test_predictions_are_written_as_json_lines_tsv_and_parquet(ele, copy, tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "inputs.jsonl").write_text('{"n": 1, "x": "seven"}\n{"n": [2], "x": ""}\n')
    command = ["predict", copy, "inputs.jsonl", "--input", "x", "--decoder", "candidates"]
    lines = ele(*command, "--json").out.splitlines()
    first, second = map(json.loads, lines)
    assert list(first) == ["n", "x", "input", "prediction", "energy", "status"]
    assert (first["n"], second["n"], second["energy"], second["status"]) == (1, [2], None, "the text is empty.")
    assert isinstance(first["energy"], float)
    assert ele(*command, "-o", "a.jsonl").code == ele(*command, "-o", "a.parquet").code == 0
    assert (tmp_path / "a.jsonl").read_text().splitlines() == lines
    from ele_core.files.tables import read_table

    parquet = read_table(str(tmp_path / "a.parquet"))
    assert list(parquet.names) == list(first)
    assert parquet.columns[3][0] == first["prediction"]
    assert ele(*command, "-o", "a.tsv").code == 0
    assert (tmp_path / "a.tsv").read_text().startswith("n\tx\tinput\tprediction")
    assert fails(ele(*command, "-o", "a.xlsx"), 1, "not written as .xlsx. Choose .csv")
    file = tmp_path / "inputs.jsonl"
    inputs = file.read_bytes()
    assert fails(ele(*command, "-o", file), 1, "would replace the inputs. Choose another file with -o.")
    assert file.read_bytes() == inputs


def test_a_saved_model_predicts_like_the_run_it_came_from(ele, copy, tmp_path):
    from ele_core import StructuredPredictor

    StructuredPredictor.load(copy).save(tmp_path / "saved")
    expected = ele("predict", copy, "-", "--decoder", "pgd", stdin="seven\nforty-two\n").out
    before = sorted(path.name for path in (tmp_path / "saved").iterdir())
    assert ele("predict", "saved", "-", "--decoder", "pgd", stdin="seven\nforty-two\n").out == expected
    assert sorted(path.name for path in (tmp_path / "saved").iterdir()) == before
    assert fails(ele("predict", "saved", "-", "--set", "seed=7"), 2, "seed cannot change after training")


def test_vectors_are_predicted_for_from_columns_and_from_arrays(ele, tmp_path):
    import numpy as np

    vectors = np.array([[number % 2, number % 3] for number in range(40)])
    text = "id,b0,b1,y\n" + "".join(f"{n},{a},{b},{'ab'[a]}\n" for n, (a, b) in enumerate(vectors))
    (tmp_path / "wide.csv").write_text(text)
    np.save(tmp_path / "x.npy", vectors)
    columns = ["--data", "wide.csv", "--input", "b0:b1", "--output", "y", "--set", "input=vector"]
    outcome = ele("train", "sequence", *columns, *OWN, "--set", "regressor.backbone=mlp", "--no-report", "-o", "run")
    assert outcome.code == 0, outcome.err
    assert "input: 2 columns, 'b0' to 'b1'; output: column 'y'; 1 other is not used" in outcome.err
    wide, array = table(ele("predict", "run", "wide.csv").out), table(ele("predict", "run", "x.npy").out)
    assert list(wide[0]) == ["id", "b0", "b1", "y", "prediction", "energy", "status"]
    assert list(array[0]) == ["row", "prediction", "energy", "status"]
    assert [row["prediction"] for row in wide] == [row["prediction"] for row in array]
    assert array[-1]["row"] == "40"


# -- as a process -------------------------------------------------------------------------------------------------


def test_the_command_runs_as_a_module_and_fails_without_a_traceback(run_python, trained_run):
    result = run_python(
        "-m", "ele_core", "predict", str(trained_run), "-", "--decoder", "candidates", stdin="seven\n\n"
    )
    assert [row["status"] for row in table(result.stdout)] == ["ok", "the text is empty."]
    failed = run_python("-m", "ele_core", "train", "nonsense", check=False)
    assert failed.returncode == 2
    assert failed.stderr.startswith("Error: ")
    assert "Traceback" not in failed.stderr


def test_the_console_script_is_installed():
    script = Path(sys.executable).with_name("ele")
    assert script.exists()
    assert os.access(script, os.X_OK)
