"""Simplex projection: ours against the textbook one by `torch.sort`, in alternate repeats of one run.

    python benchmarks/projection.py [--output FILE]

Each repeat calls both; the medians and their ratio are printed, and written as JSON with `--output`.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ele_core.numerics.projections import simplex

ROWS = 2000 * 81  # the edges of 2000 graphs of 9 nodes
SIZES = (4, 5, 8, 12)


def main() -> None:
    """Measure every size, print a table, and write the result to `--output`."""
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    results = []
    print(f"{'rows':>8} {'size':>5} {'sort (ms)':>10} {'ours (ms)':>10} {'ratio':>7}")
    for size in SIZES:
        result = measure(ROWS, size, arguments.repeats)
        results.append(result)
        print(f"{ROWS:>8} {size:>5} {result['textbook_ms']:>10.2f} {result['ours_ms']:>10.2f} {result['ratio']:>7.1f}")
    if arguments.output:
        arguments.output.write_text(json.dumps({**conditions(arguments.repeats), "results": results}, indent=2) + "\n")


def textbook(x: Tensor) -> Tensor:
    """Duchi et al. (2008), figure 1, as it is usually written with torch."""
    ordered = x.sort(dim=-1, descending=True).values
    excess = ordered.cumsum(dim=-1) - 1
    counts = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype, device=x.device)
    support = (ordered - excess / counts > 0).sum(dim=-1, keepdim=True)
    return (x - excess.gather(-1, support - 1) / support).clamp(min=0)


def measure(rows: int, size: int, repeats: int) -> dict[str, Any]:
    """The medians for standard normal rows (rows, size), after checking that both give the same result."""
    x = torch.randn(rows, size, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(simplex(x), textbook(x), rtol=0, atol=1e-5)
    times: dict[str, list[float]] = {"textbook": [], "ours": []}
    for _ in range(repeats):
        times["textbook"].append(seconds(textbook, x))
        times["ours"].append(seconds(simplex, x))
    medians = {f"{name}_ms": 1000 * statistics.median(values) for name, values in times.items()}
    return {"rows": rows, "size": size, **medians, "ratio": medians["textbook_ms"] / medians["ours_ms"]}


def seconds(function: Callable[[Tensor], Tensor], x: Tensor) -> float:
    """The wall time of one call."""
    start = time.perf_counter()
    function(x)
    return time.perf_counter() - start


def conditions(repeats: int) -> dict[str, Any]:
    """What the numbers depend on besides the code."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "repeats": repeats,
        "dtype": "float32",
    }


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="write the result as JSON")
    parser.add_argument("--repeats", type=int, default=31, help="alternate repeats of each size (default: 31)")
    parser.add_argument("--threads", type=int, default=2, help="threads of torch (default: 2)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
