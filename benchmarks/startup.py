"""CPU time of predicting one line with a tiny model, beside that of `import torch`.

    python benchmarks/startup.py [--rounds N] [--output FILE]

Every program runs in a process of its own on one thread, in alternate rounds of one run. The time is user and system
time; the ratio to `import torch` is the median over the rounds. Predicting should cost at most 1.3 times as much.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from common import machine, parser_of, show, today

from ele_core import StructuredPredictor
from ele_sequences.number_words import draw, spell

TRAINING = {"epochs": 2, "evaluations": 1}
PREDICT = "from ele_core import StructuredPredictor; StructuredPredictor.load({run!r}).predict(['forty-two'])"
REFERENCE = "import torch"


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="how often each program is run (default 10)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = tiny_run(Path(folder) / "run")
        programs = {
            REFERENCE: ["-c", REFERENCE],
            "ele predict RUN -": ["-m", "ele_core", "predict", run, "-"],
            "StructuredPredictor.load(RUN).predict": ["-c", PREDICT.format(run=run)],
            "ele --help": ["-m", "ele_core", "--help"],
        }
        measured = {name: [] for name in programs}
        for _ in range(options.rounds):
            for name, arguments in programs.items():
                measured[name].append(cpu_seconds(arguments))
    result = {
        "command": f"python benchmarks/startup.py --rounds {options.rounds}",
        "date": today(),
        "programs": {
            name: {
                "cpu_seconds": round(statistics.median(seconds), 3),
                "ratio": round(statistics.median(map(float.__truediv__, seconds, measured[REFERENCE])), 3),
                "rounds": [round(each, 3) for each in seconds],
            }
            for name, seconds in measured.items()
        },
        "machine": machine(1),
    }
    show(result, options.output)


def tiny_run(folder: Path) -> str:
    """Train a small model of number words in seconds, and return its folder."""
    numbers = draw(200, seed=0)
    predictor = StructuredPredictor(
        "sequence",
        surrogate={
            "name": "contrastive",
            "dim": 16,
            "encoder": {"name": "sequence", "width": 16},
            "training": TRAINING,
        },
        regressor={"name": "neural", "backbone": {"name": "gru", "layers": 1, "width": 16}, "training": TRAINING},
    )
    predictor.fit([spell(number) for number in numbers], [str(number) for number in numbers], run=folder)
    return str(folder)


def cpu_seconds(arguments: list[str]) -> float:
    """Run Python with `arguments` on one thread; return its user and system time."""
    process = subprocess.Popen(
        [sys.executable, *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write("forty-two\n")
    process.stdin.close()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed")
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
