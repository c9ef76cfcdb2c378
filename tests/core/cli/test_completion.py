"""What a shell proposes: tasks, components, runs and files, without importing torch."""

from __future__ import annotations

import pytest
from click.shell_completion import BashComplete, ShellComplete, get_completion_class

from ele_core.cli import cli
from ele_core.plugins import registry


def proposed(*words: str) -> list[str]:
    *before, incomplete = words
    return [item.value for item in ShellComplete(cli, {}, "ele", "_ELE_COMPLETE").get_completions(before, incomplete)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("run", "runs/number-words-1", "runs/number-words-2"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "config.toml").touch()
    (tmp_path / "nothing").mkdir()
    (tmp_path / "number.toml").touch()
    (tmp_path / "number.csv").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_commands_are_proposed():
    assert proposed("ev") == ["evaluate"]
    assert set(proposed("debug", "")) == {"config", "data"}


@pytest.mark.parametrize("command", [["train"], ["tune"], ["init"], ["debug", "config"], ["debug", "data"]])
@pytest.mark.usefixtures("folder")
def test_tasks_and_files_are_proposed(command):
    assert proposed(*command, "number") == ["number-words", "number.toml"]


def test_init_proposes_output_spaces_too():
    assert "sequence" in proposed("init", "s")
    assert "sequence" not in proposed("train", "s")


@pytest.mark.parametrize("command", [["train"], ["debug", "data"]])
def test_output_spaces_are_proposed_for_own_data(command):
    assert proposed(*command, "--output-space", "s") == ["sequence"]


@pytest.mark.parametrize("command", ["evaluate", "predict", "neighbours", "report", "resume", "sweep", "compare"])
@pytest.mark.usefixtures("folder")
def test_runs_are_proposed_also_one_folder_deeper(command):
    assert proposed(command, "r") == ["run", "runs/number-words-1", "runs/number-words-2"]
    assert proposed(command, "runs/number-words-2") == ["runs/number-words-2"]


@pytest.mark.usefixtures("folder")
def test_where_there_is_no_run_the_shell_proposes_folders():
    (item,) = ShellComplete(cli, {}, "ele", "_ELE_COMPLETE").get_completions(["evaluate"], "noth")
    assert (item.type, item.value) == ("dir", "noth")


@pytest.mark.usefixtures("folder")
def test_several_runs_can_be_completed_one_after_the_other():
    assert proposed("compare", "run", "runs/number-words-1") == ["runs/number-words-1"]


def test_decoders_are_proposed_with_their_summaries():
    items = ShellComplete(cli, {}, "ele", "_ELE_COMPLETE").get_completions(["evaluate", "run", "--decoder"], "")
    assert [item.value for item in items] == registry().names("decoder")
    assert all(item.help for item in items)


def test_components_and_their_kinds_are_proposed():
    assert {"pgd", "sequence", "gru"} <= set(proposed("plugins", ""))
    assert proposed("check", "pgd", "--kind", "dec") == ["decoder"]
    assert proposed("check", "rgcn", "--space", "seq") == ["sequence"]


def test_a_folder_that_cannot_be_read_is_no_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert proposed("evaluate", "missing/r") == ["missing/r"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell, run_python):
    script = run_python("-m", "ele_core", environment={"_ELE_COMPLETE": f"{shell}_source"}).stdout
    assert "_ELE_COMPLETE" in script
    assert get_completion_class(shell) is not None


def test_a_shell_completes_without_importing_torch(run_python):
    program = (
        "import sys\n"
        "from ele_core.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'pydantic', 'rdkit', 'networkx'} & set(sys.modules)\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    environment = {"_ELE_COMPLETE": "bash_complete", "COMP_WORDS": "ele train num", "COMP_CWORD": "2"}
    assert run_python("-c", program, environment=environment).stdout == "plain,number-words\n"
    assert BashComplete.name == "bash"
