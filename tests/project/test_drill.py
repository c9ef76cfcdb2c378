"""The drill runs, continues and sums up; what it found once stays found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def drill(*arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "benchmarks/drill", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_a_small_drill_finds_nothing_and_does_nothing_twice(tmp_path: Path) -> None:
    asked = ("--only", "inputs", "--inputs", 400, "--work", tmp_path, "--output", tmp_path / "drill.json")
    done = drill(*asked)
    assert done.returncode == 0, done.stdout + done.stderr
    journal = (tmp_path / "journal.jsonl").read_text()
    found = json.loads((tmp_path / "drill.json").read_text())
    assert found["failures"] == 0
    assert {row["format"]: row["inputs"] for row in found["inputs"]} == {
        "SMILES": 100,
        "CSV": 100,
        "JSONL": 100,
        "TOML": 20,
        "--set": 80,
    }
    assert drill(*asked).returncode == 0
    assert (tmp_path / "journal.jsonl").read_text() == journal


def test_a_failure_is_counted_and_sets_the_exit_code(tmp_path: Path) -> None:
    bad = {"part": "kills", "name": "predict 1", "command": "predict", "kills": 3, "equal": False, "leftovers": []}
    (tmp_path / "journal.jsonl").write_text(json.dumps(bad) + "\n")
    done = drill("--summary", "--work", tmp_path)
    assert done.returncode == 1
    assert '"failures": 1' in done.stdout


def test_the_record_says_of_every_part_what_was_run() -> None:
    found = json.loads((ROOT / "docs/results/drill.json").read_text())
    assert all(found[part] for part in ("kills", "stops", "disk", "folders", "inputs"))
    assert all(row["code_ran"] == 0 for row in found["folders"])
