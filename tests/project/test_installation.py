"""The wheel and the image: built from the repository, used outside of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT

VERSIONS = ("3.11", "3.12", "3.13")
PACKAGES = ("ele_core", "ele_graphs", "ele_sequences")
TINY = [
    *("--set", "task.size=300", "--set", "task.test=30", "--set", "task.validation=30"),
    *("--set", "surrogate.training.epochs=1", "--set", "regressor.training.epochs=1"),
]


def run(*command: str | Path, folder: Path, stdin: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, without the paths that make this source tree importable."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=environment, input=stdin, capture_output=True, text=True, check=False
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def interpreter(version: str) -> Path | None:
    """An installed Python of this version, also one of pyenv that is not on the path."""
    on_path = shutil.which(f"python{version}")
    others = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    for found in [*([Path(on_path)] if on_path else []), *others]:
        if run(found, "-c", "import venv", folder=ROOT, check=False).returncode == 0:
            return found
    return None


def torch_version() -> str:
    (version,) = re.findall(r"^torch==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    return str(version)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the source, so that nothing is written into the repository."""
    source = tmp_path_factory.mktemp("source")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist", folder=source)
    (built,) = (source / "dist").glob("*.whl")
    return built


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_the_wheel_works_outside_of_the_source_tree(wheel, version, tmp_path):
    found = interpreter(version)
    if found is None:
        pytest.skip(f"Python {version} is not installed")
    run(found, "-m", "venv", "environment", folder=tmp_path)
    program = tmp_path / "environment" / "bin"
    options = ["--quiet", "--constraint", ROOT / "constraints.txt"]
    options += ["--extra-index-url", "https://download.pytorch.org/whl/cpu"]
    pinned = f"torch=={torch_version()}+cpu"
    torch = run(program / "pip", "install", *options, pinned, folder=tmp_path, check=False)
    if torch.returncode:
        pytest.skip(f"torch for the CPU cannot be installed for Python {version}")
    run(program / "pip", "install", *options, wheel, folder=tmp_path)
    place = run(program / "python", "-c", "import ele_core; print(ele_core.__file__)", folder=tmp_path).stdout
    assert str(tmp_path) in place
    plugins = json.loads(run(program / "ele", "plugins", "--json", folder=tmp_path).stdout)["plugins"]
    assert {plugin["name"]: plugin["status"] for plugin in plugins} == dict.fromkeys(
        ["core", "graphs", "sequences"], "ok"
    )
    trained = run(program / "ele", "train", "number-words", "-o", "run", "--json", *TINY, folder=tmp_path)
    assert json.loads(trained.stdout)["report"] == "run/report.html"
    assert "<script>" in (tmp_path / "run" / "report.html").read_text()
    assert json.loads(run(program / "ele", "evaluate", "run", "--json", folder=tmp_path).stdout)["examples"] == 30
    predicted = run(program / "ele", "predict", "run", "-", folder=tmp_path, stdin="forty-two\n")
    assert predicted.stdout.startswith("input,prediction,energy,status\nforty-two,")
    run(program / "ele", "new-plugin", "recipes", folder=tmp_path)
    refused = run(program / "ele", "train", "smi2mol", folder=tmp_path, check=False)
    assert re.search(r"pip install '.*\[molecules\].*'", refused.stderr)


def test_the_image_copies_what_is_there_and_installs_what_is_offered():
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    copied = [word for line in lines if line.startswith("COPY") for word in line.split()[1:-1]]
    assert set(copied) >= {"constraints.txt", "pyproject.toml", *PACKAGES}
    assert all((ROOT / name).exists() for name in copied)
    allowed = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"}
    assert set(copied) == allowed
    (extras,) = (line.partition("=")[2].split(",") for line in lines if line.startswith("ARG EXTRAS"))
    project = (ROOT / "pyproject.toml").read_text()
    assert all(re.search(rf"^{extra} = \[", project, re.MULTILINE) for extra in extras)
    base = next(line for line in lines if line.startswith("FROM"))
    assert any(f"python:{version}-slim" in base for version in VERSIONS)


def docker_runs() -> bool:
    docker = shutil.which("docker")
    return docker is not None and run(docker, "info", folder=ROOT, check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not docker_runs(), reason="docker does not run here")
def test_the_image_is_built_and_lists_its_plugins(tmp_path):
    run("docker", "build", "--quiet", "--tag", "ele-test", ROOT, folder=tmp_path)
    listed = run("docker", "run", "--rm", "ele-test", "plugins", "--json", folder=tmp_path)
    records = [record for plugin in json.loads(listed.stdout)["plugins"] for record in plugin["records"]]
    assert not [record["unavailable"] for record in records if record["unavailable"]]
