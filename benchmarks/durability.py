"""What a second process brings, and the share of the training time that checkpoints take.

    python benchmarks/durability.py [--rounds N] [--output FILE]

Trains `smi2mol` on 6,000 molecules with the networks of its defaults, for a fixed number of steps, and evaluates it by
`search`: with one process of one thread, one process of two threads, and two processes of one thread each, in alternate
rounds of one run. The time of a step is that between the first and the last evaluation of a stage; that of a molecule,
decoded and measured, is the difference between evaluations of many and of few. Then one training writes checkpoints at
the default interval, and the time spent in `Checkpoints.save` is compared with that of the training.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from common import machine, parser_of, show, today

from ele_core import config as configuration
from ele_core.runs.run import Run
from ele_core.runs.training import EVERY
from ele_core.runtime.checkpoint import Checkpoints
from ele_core.runtime.monitor import ConsoleMonitor

SIZE = 6000
STAGES = {"a step of embedding": "embedding", "a step of regression": "regression"}
EVALUATED = "a molecule, decoded by search and measured"
FEW, MANY = 50, 650
"""Test molecules of the two evaluations that are compared."""
ARRANGEMENTS = {"one": (1, 1), "two_threads": (1, 2), "two_processes": (2, 1)}
"""The number of processes, and of threads of each."""


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=2, help="trainings in each arrangement (default 2)")
    options = parser.parse_args()
    rounds = [{name: measured(*own) for name, own in ARRANGEMENTS.items()} for _ in range(options.rounds)]
    seconds = {
        what: {name: round(statistics.median(each[name][what] for each in rounds), 4) for name in ARRANGEMENTS}
        for what in (*STAGES, EVALUATED)
    }
    result = {
        "command": f"python benchmarks/durability.py --rounds {options.rounds}",
        "date": today(),
        "molecules": SIZE,
        "seconds": {
            what: {**own, "ratio": round(own["one"] / own["two_processes"], 3)} for what, own in seconds.items()
        },
        "rounds": rounds,
        "checkpoints": overhead(),
        "machine": machine(torch.get_num_threads()),
    }
    show(result, options.output)


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


def measured(processes: int, threads: int) -> dict[str, float]:
    """Train and evaluate in separate processes: the seconds of a step of each stage, and of a molecule."""

    def ele(*words: str) -> float:
        command = [sys.executable, "-m", "ele_core", *words, "--processes", str(processes), "--quiet"]
        started = time.monotonic()
        subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": str(threads)})
        return time.monotonic() - started

    with tempfile.TemporaryDirectory() as folder:
        run = str(Path(folder) / "run")
        changes = [part for change in settings(3, 1.5) for part in ("--set", change)]
        ele("train", "smi2mol", "-o", run, "--no-report", *changes)
        times = [json.loads(line) for line in (Path(run) / "times.jsonl").read_text("utf-8").splitlines()]
        few, many = (ele("evaluate", run, "--decoder", "search", "--limit", str(count)) for count in (FEW, MANY))
    found = {EVALUATED: (many - few) / (MANY - FEW)}
    for what, stage in STAGES.items():
        first, *_, last = [line for line in times if line["stage"] == stage]
        found[what] = (last["seconds"] - first["seconds"]) / (last["step"] - first["step"])
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
