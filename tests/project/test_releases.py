"""The fragments of the changelog, the release that gathers them, and the list of `make` commands."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from pages import ROOT

TOWNCRIER = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
TYPES = {kind["directory"] for kind in TOWNCRIER["type"]}
FILES = ("pyproject.toml", "CITATION.cff", "CHANGELOG.md", ".ci", "changelog.d", "ele_core/__init__.py")
AUTHOR = {f"GIT_{who}_{what}": "test@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def problem(fragment: Path) -> str:
    """What is wrong with a file of `changelog.d`; empty if nothing is."""
    name, _, rest = fragment.name.partition(".")
    if not name or rest not in {f"{kind}.md" for kind in TYPES}:
        return f"the name is not NAME.TYPE.md with TYPE one of {', '.join(sorted(TYPES))}"
    text = fragment.read_text(encoding="utf-8").strip()
    return "it is empty" if not text else "it begins with a bullet" if text[0] in "-*" else ""


def test_every_fragment_has_a_type_and_says_something():
    fragments = [file for file in (ROOT / "changelog.d").iterdir() if file.name != "README.md"]
    assert {file.name: problem(file) for file in fragments if problem(file)} == {}


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("locks.changed.md", "Locks wait.\n", ""),
        ("locks.improved.md", "Locks wait.\n", "TYPE one of added, changed, fixed, removed"),
        ("locks.changed.rst", "Locks wait.\n", "the name is not"),
        ("changed.md", "Locks wait.\n", "the name is not"),
        ("locks.changed.md", " \n", "it is empty"),
        ("locks.changed.md", "- Locks wait.\n", "it begins with a bullet"),
    ],
)
def test_a_fragment_that_cannot_be_released_is_found(tmp_path, name, text, reason):
    (tmp_path / name).write_text(text)
    assert reason in problem(tmp_path / name)
    assert bool(reason) == bool(problem(tmp_path / name))


@pytest.fixture
def project(tmp_path):
    """A repository with what a release changes."""
    if not shutil.which("git"):
        pytest.skip("needs git")
    for name in FILES:
        target = tmp_path / name
        target.parent.mkdir(exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, target)
    for file in (tmp_path / "changelog.d").glob("*.*.md"):
        file.unlink()
    (tmp_path / "changelog.d" / "speed.changed.md").write_text("Everything is faster,\nand nothing slower.\n")
    (tmp_path / "changelog.d" / "crash.fixed.md").write_text("No crash.\n")
    for command in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", "Everything")):
        git(tmp_path, *command)
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, **AUTHOR}
    done = subprocess.run(["git", *arguments], cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return done.stdout


def release(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, folder / ".ci" / "release.py", *arguments]
    return subprocess.run(command, env={**os.environ, **AUTHOR}, capture_output=True, text=True, check=False)


def test_a_release_sets_the_version_gathers_the_fragments_and_is_tagged(project):
    before = (project / "CHANGELOG.md").read_text()
    done = release(project, "7.8.9")
    assert done.returncode == 0, done.stderr
    assert tomllib.loads((project / "pyproject.toml").read_text())["project"]["version"] == "7.8.9"
    assert '\n__version__ = "7.8.9"\n' in (project / "ele_core" / "__init__.py").read_text()
    assert "\nversion: 7.8.9\n" in (project / "CITATION.cff").read_text()
    assert [file.name for file in (project / "changelog.d").iterdir()] == ["README.md"]
    added = "".join(re.split(r"\d{4}-\d\d-\d\d", release_notes(project), maxsplit=1))
    assert added == (
        "## [7.8.9] - \n\n### Changed\n\n- Everything is faster,\n  and nothing slower.\n\n### Fixed\n\n- No crash.\n\n"
    )
    assert (project / "CHANGELOG.md").read_text().replace(release_notes(project), "") == before
    assert git(project, "status", "--porcelain") == ""
    assert git(project, "log", "--format=%s") == "Release 7.8.9\nEverything\n"
    assert git(project, "tag", "--points-at", "HEAD") == "v7.8.9\n"


def release_notes(project: Path) -> str:
    """The newest part of the changelog."""
    text = (project / "CHANGELOG.md").read_text()
    first, second = (match.start() for match in list(re.finditer(r"(?m)^## ", text))[:2])
    return text[first:second]


def test_a_release_that_cannot_be_made_changes_nothing(project):
    assert "Which version?" in release(project).stderr
    assert "Which version?" in release(project, "0.2").stderr
    git(project, "tag", "v7.8.9")
    assert "There is a tag v7.8.9 already." in release(project, "7.8.9").stderr
    (project / "new.txt").write_text("new")
    assert "not committed" in release(project, "7.9.0").stderr
    git(project, "rm", "--quiet", "changelog.d/speed.changed.md", "changelog.d/crash.fixed.md")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "Nothing left")
    assert "There is no change to release" in release(project, "7.9.0").stderr
    assert git(project, "status", "--porcelain") == ""
    assert git(project, "tag") == "v7.8.9\n"


def test_make_help_lists_every_command():
    makefile = (ROOT / "Makefile").read_text()
    commands = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split()
    done = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert [line.split()[1] for line in done.stdout.splitlines()] == commands


def test_make_bench_runs_every_benchmark():
    command = [
        "make",
        "--dry-run",
        "bench",
        "RUN=.",
        "STAMP=README.md",
        "--assume-old=README.md",
        "--assume-old=./model/manifest.json",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    measuring = {file.name for file in (ROOT / "benchmarks").glob("*.py")} - {"common.py", "tables.py"}
    assert set(re.findall(r"benchmarks/(\w+\.py)", done.stdout)) == measuring, done.stderr
