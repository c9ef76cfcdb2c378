"""The recorded results are complete, and the tables on the pages say what they say."""

import json
import subprocess
import sys

from pages import ROOT

KEYS = {"command", "date", "seed", "sizes", "config", "metrics"}


def test_the_tables_are_in_step_with_the_records():
    command = [sys.executable, ROOT / "benchmarks" / "tables.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_record_says_how_to_get_it_again():
    results = ROOT / "docs" / "results"
    files = sorted(file for file in results.rglob("*/*.json") if "runs" not in file.parts)
    assert files, "docs/results has no record: write one with `ele evaluate RUN --record FILE`"
    for file in files:
        found = json.loads(file.read_text("utf-8"))
        for record in found if isinstance(found, list) else [found]:
            needed = KEYS if isinstance(found, dict) else KEYS - {"config"} | {"overrides"}  # a sweep: what differs
            if "paths" in record or "sweep" in record:  # a figure
                needed = KEYS - {"metrics"}
            assert not needed - record.keys(), file
