"""The workflow of GitHub runs what the Makefile runs, on every Python that the project supports."""

import re
import shlex
import shutil
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import yaml
from pages import ROOT

WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text("utf-8"))
JOB = WORKFLOW["jobs"]["test"]
COMMANDS = [shlex.split(step["run"]) for step in JOB["steps"] if "run" in step]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")


def test_three_systems_and_every_supported_python_are_tested():
    matrix = JOB["strategy"]["matrix"]
    assert {name.partition("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}
    assert matrix["python"] == ["3.11", "3.12", "3.13"], "quoted: YAML reads 3.10 as 3.1"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["requires-python"] == f">={matrix['python'][0]}"


def test_the_programs_and_files_of_its_commands_exist():
    beside = Path(sys.executable).parent
    for program, *words in COMMANDS:
        assert program == "python" or shutil.which(program, path=str(beside)), f"{program} is not installed"
        if words[:1] == ["-m"]:
            assert find_spec(words[1]), f"there is no module {words[1]}"
        for word in words:
            if word.endswith(".txt") or word.startswith("./"):
                assert (ROOT / word).exists(), word


def test_it_checks_and_tests_as_make_does():
    (checks,) = re.findall(r"^check:.*\n((?:\t.+\n)+)", MAKEFILE, re.MULTILINE)
    expected = [line.strip().removeprefix("$(BIN)/").split() for line in checks.splitlines()]
    assert [command for command in COMMANDS if command[0] != "python"] == expected
    (quick,) = re.findall(r"^test-quick:.*\n\t\$\(PYTEST\) (.+)$", MAKEFILE, re.MULTILINE)
    assert COMMANDS[-1][-2:] == shlex.split(quick)
    assert "--constraint constraints.txt --editable '.[all]'" in MAKEFILE
    assert COMMANDS[0][3:] == shlex.split("install --constraint constraints.txt --editable '.[all]'")
