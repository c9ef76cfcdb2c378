"""What benchmarks share: the arguments that all take, what a record says of its making, and how it is kept."""

import argparse
import datetime
import json
import math
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ele_core.files.atomic import write_text


def parser_of(text: str | None) -> argparse.ArgumentParser:
    """A parser with the help `text` that knows `--output FILE`."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="write the result as JSON")
    return parser


def today() -> str:
    """The date of a record."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def machine(threads: int) -> dict[str, Any]:
    """What a record says of the machine that it was measured on."""
    return {"processor": platform.machine(), "cores": os.cpu_count(), "threads": threads}


def show(result: Any, file: Path | None) -> None:
    """Print a result, and write it to `file` if there is one."""
    print(json.dumps(result, indent=2))
    if file:
        write_text(file, json.dumps(result, indent=2) + "\n")


def timed(command: Sequence[object], environment: Mapping[str, str] | None = None) -> dict[str, float]:
    """The time, the CPU time and the peak memory of a process on one thread; it ends the benchmark if it fails."""
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
    started = time.monotonic()
    process = subprocess.Popen([str(word) for word in command], env=variables)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if status:
        raise SystemExit(f"{shlex.join(map(str, command))} failed")
    peak = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)  # Linux counts it in KiB, macOS in bytes
    return {
        "seconds": round(time.monotonic() - started, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_megabytes": round(peak / 2**20),
    }


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The exponent k of y ~ x^k, by least squares on logarithms."""
    x, y = ([math.log(value) for value in values] for values in zip(*points, strict=True))
    mean_x, mean_y = statistics.mean(x), statistics.mean(y)
    products = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return products / sum((a - mean_x) ** 2 for a in x)
