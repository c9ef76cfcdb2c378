"""The package that `ele new-plugin --kind KIND` writes for each kind of component passes `ele check` and its tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ele_core.scaffold import PARTS, write_plugin

pytestmark = pytest.mark.pages

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder on the path of a process, with a package of each kind but `output`, installed as pip would."""
    site = tmp_path_factory.mktemp("site")
    for kind in [*PARTS][1:]:
        folder = site.parent / f"{site.name}-ele-my-{kind}"
        write_plugin(f"my-{kind}", folder, kind)
        module = f"ele_my_{kind}"
        (site / module).symlink_to(folder / "src" / module)
        info = site / f"{module}-0.1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: ele-my-{kind}\nVersion: 0.1.0\n")
        (info / "entry_points.txt").write_text(f"[ele]\nmy-{kind} = {module}.plugin\n")
        (site / f"test_my_{kind}.py").write_text((folder / "tests" / f"test_my_{kind}.py").read_text())
    return site


def run(site, *arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])}
    return subprocess.run(
        [sys.executable, *arguments], cwd=site, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("kind", [*PARTS][1:])
def test_the_command_checks_it_and_no_law_is_broken(site, kind):
    options = ("--set", "size=200") if kind == "task" else ()
    done = run(site, "-W", "error", "-m", "ele_core", "check", f"my-{kind}", "--kind", kind, "--json", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    (component,) = json.loads(done.stdout)["components"]
    counts = component["counts"]
    assert counts["passed"] >= counts["checks"] - 5


def test_the_tests_that_come_with_them_pass(site):
    done = run(site, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", str(site))
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
