"""The time and the memory of `ele neighbours` by the number of structures that are searched.

    python benchmarks/neighbours.py RUN [FILE] [--objects N] [--rows N …] [-k K] [--output FILE]

RUN: a finished run whose output space holds the structures of FILE, such as one of `moses`. FILE: a CSV with a
header, such as train.csv of MOSES (in the wheel of molsets 0.3.1); by default the SMILES of QM9. Its last N rows are
the objects whose neighbours are wanted; its first rows are searched, as many as each of --rows says, by default all.
Each number is searched twice, in processes of their own: while embeddings are computed and kept with `--cache`, and
again from the cache. Peak memory is that of the process, with Python, torch and RDKit.
"""

import argparse
import datetime
import json
import os
import platform
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

from ele_core.files.atomic import write_text
from ele_core.runs.run import open_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a finished run")
    parser.add_argument("file", type=Path, nargs="?", help="a CSV of structures (default: QM9)")
    parser.add_argument("--objects", type=int, default=1000, help="objects whose neighbours are wanted (default 1,000)")
    parser.add_argument("--rows", nargs="+", type=int, help="numbers of rows to search (default: all)")
    parser.add_argument("-k", type=int, default=10, help="neighbours of each object (default 10)")
    parser.add_argument("--output", type=Path, help="write the result as JSON")
    options = parser.parse_args()
    result = measured(options)
    print(json.dumps(result, indent=2))
    if options.output:
        write_text(options.output, json.dumps(result, indent=2) + "\n")


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Search as many rows as each number says, with and without a cache."""
    model = open_model(options.run).model()
    with tempfile.TemporaryDirectory() as folder:
        options.file = options.file or qm9_file(Path(folder) / "qm9.csv")
        with options.file.open(encoding="utf-8") as stream:
            total = sum(1 for _ in stream) - 1
        objects = part(options.file, Path(folder) / "objects.csv", total - options.objects, total)
        results = [searched(options, Path(folder), objects, rows) for rows in options.rows or [total]]
    return {
        "command": shlex.join(["python", "benchmarks/neighbours.py", *map(shown, sys.argv[1:])]),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seed": model.config.seed,
        "task": model.config.task.name if model.config.task else None,
        "surrogate": model.config.surrogate.model_dump(mode="json"),
        "objects": options.objects,
        "k": options.k,
        "results": results,
        "machine": {"processor": platform.machine(), "cores": os.cpu_count(), "threads": 1},
    }


def qm9_file(file: Path) -> Path:
    """Write the SMILES of QM9."""
    from ele_graphs.molecules.sources import qm9

    file.write_text("\n".join(["smiles", *qm9().texts()]) + "\n", encoding="utf-8")
    return file


def shown(word: str) -> str:
    """A word of the command line; of a path only the name."""
    return Path(word).name if "/" in word else word


def searched(options: argparse.Namespace, folder: Path, objects: Path, rows: int) -> dict[str, Any]:
    """Search the first rows twice: the second time from the cache."""
    among, cache = part(options.file, folder / "among.csv", 0, rows), folder / f"cache-{rows}"
    command = [sys.executable, "-m", "ele_core", "neighbours", options.run, objects, "--among", among]
    command += ["-k", str(options.k), "-o", folder / "found.csv", "--cache", cache]
    first, second = timed(command), timed(command)
    size = sum(file.stat().st_size for file in cache.iterdir())
    known = json.loads((cache / "embeddings.json").read_text("utf-8"))
    return {
        "rows": rows,
        "left_out": known["left_out"],
        "dim": known["dim"],
        "computed": first,
        "from_cache": second,
        "cache_megabytes": round(size / 2**20),
    }


def timed(command: list[Any]) -> dict[str, float]:
    """The time and the peak memory of a process."""
    started = time.monotonic()
    process = subprocess.Popen([str(word) for word in command], env={**os.environ, "OMP_NUM_THREADS": "1"})
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{shlex.join(map(str, command))} failed")
    return {
        "seconds": round(time.monotonic() - started, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_megabytes": round(peak_bytes(used) / 2**20),
    }


def peak_bytes(used: resource.struct_rusage) -> int:
    """The largest resident memory: Linux counts it in KiB, macOS in bytes."""
    return used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def part(file: Path, target: Path, first: int, end: int) -> Path:
    """Copy the header and the rows from `first` up to `end`."""
    with file.open(encoding="utf-8") as stream, target.open("w", encoding="utf-8") as copy:
        copy.write(next(stream))
        copy.writelines(islice(stream, first, end))
    return target


if __name__ == "__main__":
    main()
