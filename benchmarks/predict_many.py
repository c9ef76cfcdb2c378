"""The time and the memory of `ele predict` by the number of rows of the file.

    python benchmarks/predict_many.py [--rows N …] [--searched N …] [--output FILE]

A small model of number words is trained first, with fixed options and seed. It predicts for numbers in words, with the
decoder `candidates` for --rows and with `search` for --searched, from CSV into CSV, and from Parquet into Parquet
parts. Each command is a process of its own with one thread, whose CPU time and peak memory are recorded, with Python
and torch. The rows per second are per second of CPU, without the time that a file of one row takes.
"""

import argparse
import csv
import json
import random
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import machine, parser_of, timed, today

from ele_core.files.atomic import write_text
from ele_core.runs.run import Run

SEED = 0
MODEL = {
    "seed": SEED,
    "task": {"name": "number-words", "size": 4000, "validation": 200, "test": 200},
    "surrogate": {
        "name": "contrastive",
        "dim": 32,
        "encoder": {"name": "sequence", "width": 32, "layers": 1},
        "training": {"epochs": 4, "batch_size": 256},
    },
    "regressor": {
        "name": "neural",
        "backbone": {"name": "gru", "embedding": 16, "layers": 1, "width": 64},
        "training": {"epochs": 4, "batch_size": 200},
    },
}
ONES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument(
        "--rows", nargs="+", type=int, default=[100_000], help="rows for `candidates` (default 100,000)"
    )
    parser.add_argument("--searched", nargs="+", type=int, default=[2_000], help="rows for `search` (default 2,000)")
    options = parser.parse_args()
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for each in measured(Path(folder), options):
            print(json.dumps(each), flush=True)
            results.append(each)
            if options.output:  # what was measured so far is kept if a later measurement is stopped
                write_text(options.output, json.dumps(record("predict_many.py", results), indent=2) + "\n")


def record(script: str, results: list[dict[str, Any]]) -> dict[str, Any]:
    """The results of a benchmark with what is needed to reproduce them."""
    return {
        "command": shlex.join(["python", f"benchmarks/{script}", *sys.argv[1:]]),
        "date": today(),
        "seed": SEED,
        "model": MODEL,
        "results": results,
        "machine": machine(1),
    }


def measured(folder: Path, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Predict for as many rows as each number says."""
    run = Run.start(MODEL, folder / "run").folder
    for decoder, counts in (("candidates", options.rows), ("search", options.searched)):
        start = predicted(run, folder, 1, decoder, ".csv")["cpu_seconds"]
        for rows in counts:
            for suffix in (".csv", ".parquet") if decoder == "candidates" else (".csv",):
                cost = predicted(run, folder, rows, decoder, suffix)
                rate = round(rows / max(0.1, cost["cpu_seconds"] - start))
                yield {"decoder": decoder, "from": suffix, "rows": rows, "rows_per_second": rate, **cost}


def predicted(run: Path, folder: Path, rows: int, decoder: str, suffix: str) -> dict[str, float]:
    """The time and the peak memory of one command."""
    file = written(folder / f"inputs-{rows}.csv", rows)
    target = str(folder / "predictions.csv")
    if suffix == ".parquet":
        file, target = as_parquet(file), f"{folder / f'parts-{rows}'}/"
    command = [sys.executable, "-m", "ele_core", "predict", run, file, "--input", "words", "--quiet"]
    return timed([*command, "--decoder", decoder, "-o", target])


def written(file: Path, rows: int) -> Path:
    """Write a CSV of numbers in words, row by row."""
    chance = random.Random(SEED)
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "words"])
        for number in range(rows):
            words = f"{chance.choice(ONES)} hundred {chance.choice(TENS)}-{chance.choice(ONES)}"
            writer.writerow([number, words])
    return file


def as_parquet(file: Path) -> Path:
    """Write a CSV as Parquet, batch by batch."""
    import pyarrow.csv
    import pyarrow.parquet

    target = file.with_suffix(".parquet")
    with pyarrow.csv.open_csv(file) as reader, pyarrow.parquet.ParquetWriter(target, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
    return target


if __name__ == "__main__":
    main()
