"""Seconds per training step with 1 and 2 processes, and the share of the training time that checkpoints take.

    python benchmarks/durability.py [--rounds N] [--output FILE]

Trains `smi2mol` on 6,000 molecules with the networks of its defaults, for a fixed number of steps: with one process
that has all cores, and with two that have half of them each, in alternate rounds of one run. The time of a step is that
between the first and the last evaluation of a stage. Then one training writes checkpoints at the default interval, and
the time spent in `Checkpoints.save` is compared with that of the training.
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from ele_core import config as configuration
from ele_core.files.atomic import write_text
from ele_core.runs.run import Run
from ele_core.runs.training import EVERY
from ele_core.runtime.checkpoint import Checkpoints
from ele_core.runtime.monitor import ConsoleMonitor

SIZE = 6000
STAGES = {"embedding": "surrogate.training", "regression": "regressor.training"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2, help="trainings with each number of processes (default 2)")
    parser.add_argument("--output", type=Path, help="write the result as JSON")
    options = parser.parse_args()
    steps = {count: {stage: [] for stage in STAGES} for count in (1, 2)}
    for _ in range(options.rounds):
        for count, stages in steps.items():
            for stage, seconds in seconds_per_step(count).items():
                stages[stage].append(seconds)
    medians = {count: {s: statistics.median(v) for s, v in stages.items()} for count, stages in steps.items()}
    result = {
        "command": f"python benchmarks/durability.py --rounds {options.rounds}",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "molecules": SIZE,
        "seconds_per_step": {
            stage: {
                "one_process": round(medians[1][stage], 4),
                "two_processes": round(medians[2][stage], 4),
                "ratio": round(medians[1][stage] / medians[2][stage], 3),
            }
            for stage in STAGES
        },
        "rounds": {str(count): stages for count, stages in steps.items()},
        "checkpoints": overhead(),
        "machine": {"processor": platform.machine(), "cores": os.cpu_count(), "threads": torch.get_num_threads()},
    }
    print(json.dumps(result, indent=2))
    if options.output:
        write_text(options.output, json.dumps(result, indent=2) + "\n")


def settings(embedding_epochs: float, regression_epochs: float) -> list[str]:
    """A few epochs of the real networks on a part of the data."""
    return [
        f"task.size={SIZE}",
        "surrogate.mining=none",
        f"surrogate.training.epochs={embedding_epochs}",
        "surrogate.training.evaluations=3",
        f"regressor.training.epochs={regression_epochs}",
        "regressor.training.evaluations=3",
    ]


def seconds_per_step(processes: int) -> dict[str, float]:
    """Train in separate processes, and read the times of the evaluations."""
    threads = str(max(1, (os.cpu_count() or 1) // processes))
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        changes = [part for change in settings(3, 1.5) for part in ("--set", change)]
        command = [sys.executable, "-m", "ele_core", "train", "smi2mol", "-o", str(run), *changes]
        environment = {**os.environ, "OMP_NUM_THREADS": threads}
        subprocess.run([*command, "--processes", str(processes)], check=True, env=environment)
        times = [json.loads(line) for line in (run / "times.jsonl").read_text("utf-8").splitlines()]
    found = {}
    for stage in STAGES:
        first, *_, last = [line for line in times if line["stage"] == stage]
        found[stage] = (last["seconds"] - first["seconds"]) / (last["step"] - first["step"])
    return found


def overhead() -> dict[str, float]:
    """The share of the training time that checkpoints at the default interval take."""
    saves = []
    save = Checkpoints.save

    def timed(self: Checkpoints) -> None:
        started = time.monotonic()
        save(self)
        saves.append(time.monotonic() - started)

    Checkpoints.save = timed  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            started = time.monotonic()
            Run.start(configuration.load("smi2mol", settings(6, 8)), run, ConsoleMonitor())
            seconds = time.monotonic() - started
    finally:
        Checkpoints.save = save  # type: ignore[method-assign]
    return {
        "every_seconds": EVERY,
        "training_seconds": round(seconds, 1),
        "saves": len(saves),
        "seconds_each": round(statistics.mean(saves), 4) if saves else None,
        "per_cent": round(100 * sum(saves) / seconds, 3),
    }


if __name__ == "__main__":
    main()
