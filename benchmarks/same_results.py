"""Whether a change keeps results and speed: small runs with another revision and with this tree, compared byte by byte.

    python benchmarks/same_results.py --base 855db56 --output docs/results/same-results.json

Every run is trained, evaluated and used to predict by both, in processes of one thread. Weights, candidates, metrics of
training and predictions must be equal byte for byte; the times are ratios of the same two commands in one session.
"""

import argparse
import datetime
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHORT = {
    "surrogate.training": {"epochs": 4, "evaluations": 2},
    "regressor.training": {"epochs": 2, "evaluations": 2},
}
RUNS: dict[str, tuple[str, dict[str, object]]] = {
    "number-words": (
        "number-words",
        {"task.size": 2000, "task.validation": 200, "task.test": 200, "surrogate.encoder.width": 32},
    ),
    "smi2mol": (
        "smi2mol",
        {"task.size": 1000, "surrogate.encoder.width": 16, "surrogate.mining.group": 8, "regressor.backbone.width": 32},
    ),
    "wl-kernel with sketched-ridge": (
        "smi2mol",
        {
            "task.size": 1000,
            "surrogate": "wl-kernel",
            "surrogate.sketch.size": 100,
            "regressor": "sketched-ridge",
            "regressor.sketch.size": 100,
        },
    ),
    "fgw with fgw-ridge": (
        "smi2mol",
        {"task.size": 60, "surrogate": "fgw", "regressor": "fgw-ridge", "decoder": "fgw-barycenter"},
    ),
}
"""Name → task and options; the neural ones are trained for a few epochs."""
INPUTS = {"number-words": "forty-two\nseven\n", "smi2mol": "CCO\nC1CC1\nnonsense\n"}
SAME = (
    "metrics.jsonl",
    "model/model.safetensors",
    "model/candidates.safetensors",
    "predictions/*.csv",
    "predicted.csv",
)
"""What must be equal, byte for byte."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="HEAD~1", help="the revision to compare with [default: HEAD~1]")
    parser.add_argument("--output", type=Path, help="write the record there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base = checkout(arguments.base, folder / "base")
        rows = [compare(run, base, folder) for run in RUNS]
    record = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": f"python benchmarks/same_results.py --base {arguments.base}",
        "base": git("rev-parse", arguments.base),
        "runs": rows,
    }
    if arguments.output:
        arguments.output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    if different := [f"{row['run']}: {file}" for row in rows for file in row["different"]]:
        sys.exit(f"Different: {', '.join(different)}")


def compare(run: str, base: Path, folder: Path) -> dict[str, object]:
    """One run with both trees: the files that differ, and how long each took."""
    digests, seconds = [], []
    for number, tree in enumerate((base, ROOT)):
        started = time.perf_counter()
        target = folder / f"{run.replace(' ', '-')}-{number}"
        carry_out(run, tree, target)
        seconds.append(round(time.perf_counter() - started, 1))
        digests.append(digests_of(target))
    names = sorted({*digests[0], *digests[1]})
    different = [name for name in names if digests[0].get(name) != digests[1].get(name)]
    ratio = round(seconds[1] / seconds[0], 2)
    verdict = f"different: {', '.join(different)}" if different else f"{len(names)} files equal"
    print(f"{run}: {verdict}; {seconds[0]} s before, {seconds[1]} s now, ratio {ratio}", flush=True)
    return {
        "run": run,
        "equal": len(names) - len(different),
        "different": different,
        "seconds": seconds,
        "ratio": ratio,
    }


def carry_out(run: str, tree: Path, target: Path) -> None:
    """Train, evaluate and predict with the source in `tree`."""
    task, options = RUNS[run]
    neural = {} if "surrogate" in options else {f"{part}.{k}": v for part, own in SHORT.items() for k, v in own.items()}
    settings = [word for path, value in {**options, **neural}.items() for word in ("--set", f"{path}={value}")]
    ele(tree, "train", task, "-o", str(target), "--no-report", *settings)
    ele(tree, "evaluate", str(target), "--limit", "50")
    predicted = ele(tree, "predict", str(target), "-", stdin=INPUTS[task])
    (target / "predicted.csv").write_text(predicted, encoding="utf-8")


def ele(tree: Path, *words: str, stdin: str = "") -> str:
    """What the `ele` of a tree prints."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "ele_core", *words]
    done = subprocess.run(command, cwd=tree, env=environment, input=stdin, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed in {tree}:\n{done.stderr}")
    return done.stdout


def digests_of(run: Path) -> dict[str, str]:
    """File → the SHA-256 of its contents."""
    files = [file for pattern in SAME for file in run.glob(pattern)]
    return {str(file.relative_to(run)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def checkout(revision: str, folder: Path) -> Path:
    """The source of a revision in a new folder."""
    folder.mkdir()
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "--extract", "--directory", folder], input=archive, check=True)
    return folder


def git(*words: str) -> str:
    """What git answers."""
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
