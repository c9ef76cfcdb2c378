"""The memory and the time of a step of the contrastive stage, with whole batches and in chunks (`surrogate.chunk`).

    python benchmarks/chunks.py [--batches N …] [--whole N] [--chunk N] [--steps N] [--output FILE]

Molecules of QM9, with the views and the encoder of `smi2mol`. Each way is measured in a process of its own on one
thread. Memory is the peak of the process beyond what it had after a step on eight molecules, which loads what is loaded
once. The time is the least CPU time of a step, because the machine may be busy. The gradients of both are compared.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from common import machine, parser_of, show, today
from safetensors.torch import load_file, save_file
from torch import Tensor

from ele_core import config as configuration
from ele_core.components.surrogates.contrastive import ContrastiveSurrogate
from ele_core.plugins import registry
from ele_core.runtime.context import Context
from ele_graphs.graphs.batch import Graphs
from ele_graphs.molecules.sources import load, qm9

SEED = 0


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--batches", nargs="+", type=int, default=[512, 4096, 16384], help="structures in a batch")
    parser.add_argument("--chunk", type=int, default=512, help="structures encoded at once (default 512)")
    parser.add_argument("--steps", type=int, default=2, help="steps of each process (default 2)")
    parser.add_argument("--whole", type=int, default=4096, help="the largest batch that is also taken whole")
    parser.add_argument("--one", nargs=2, help="FOLDER BATCH: make only the steps of one process")
    options = parser.parse_args()
    if options.one:
        one(Path(options.one[0]), int(options.one[1]), options)
        return
    with tempfile.TemporaryDirectory() as folder:
        (source,) = qm9().draw(SEED, 2 * max(options.batches))
        graphs = load(source, surrogate_of(None).space.limits(min_atoms=2), Context()).graphs[: max(options.batches)]
        save_file(graphs.as_dict(), Path(folder) / "molecules.safetensors")
        rows = [row(Path(folder), batch, options) for batch in options.batches]
    settings = f"--whole {options.whole} --chunk {options.chunk} --steps {options.steps}"
    result = {
        "command": f"python benchmarks/chunks.py --batches {' '.join(map(str, options.batches))} {settings}",
        "date": today(),
        "chunk": options.chunk,
        "results": rows,
        "machine": machine(1),
    }
    show(result, options.output)


def surrogate_of(chunk: int | None) -> ContrastiveSurrogate:
    """The surrogate of `smi2mol`, with random weights."""
    config = configuration.load("smi2mol", [f"surrogate.chunk={chunk or 'none'}"])
    torch.manual_seed(SEED)
    space = registry().create("output", config.output)
    found: ContrastiveSurrogate = registry().create("surrogate", config.surrogate, space)
    return found


def row(folder: Path, batch: int, options: argparse.Namespace) -> dict[str, Any]:
    """What both ways take, and how far their gradients differ, relative to the largest entry."""
    found: dict[str, Any] = {"batch": batch, "in_chunks": measured(folder, batch, options.chunk, options)}
    if batch <= options.whole:
        found["whole"] = measured(folder, batch, 0, options)
        own = [load_file(folder / f"{batch}-{chunk}.safetensors")["gradient"] for chunk in (0, options.chunk)]
        found["difference"] = float((own[1] - own[0]).abs().max() / own[0].abs().max())
    print(json.dumps(found), flush=True)
    return found


def measured(folder: Path, batch: int, chunk: int, options: argparse.Namespace) -> dict[str, float]:
    """The memory and the time of a step."""
    command = [sys.executable, __file__, "--one", folder, batch, "--chunk", chunk, "--steps", options.steps]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(list(map(str, command)), env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def one(folder: Path, batch: int, options: argparse.Namespace) -> None:
    """Make the steps, print what they take, and keep the gradient of the last."""
    outputs = Graphs.from_dict(load_file(folder / "molecules.safetensors"))[:batch]
    step(surrogate_of(4), outputs[:8])
    surrogate = surrogate_of(options.chunk or None)
    before = resident("VmRSS")
    seconds = []
    for _ in range(options.steps):
        started = time.process_time()
        gradient = step(surrogate, outputs)
        seconds.append(time.process_time() - started)
    save_file({"gradient": gradient}, folder / f"{batch}-{options.chunk}.safetensors")
    print(json.dumps({"megabytes": round(resident("VmHWM") - before), "cpu_seconds": round(min(seconds), 2)}))


def step(surrogate: ContrastiveSurrogate, outputs: Graphs) -> Tensor:
    """The gradient of the mean loss of a batch."""
    surrogate.encoder.train().zero_grad()
    generator = torch.Generator().manual_seed(SEED)
    views = surrogate.space.augment(outputs, generator)
    surrogate.losses(outputs, views, generator, Context()).mean().backward()
    return torch.cat([own.grad.flatten() for own in surrogate.encoder.parameters() if own.grad is not None])


def resident(which: str) -> float:
    """The megabytes of memory that this process has (`VmRSS`), or had at most (`VmHWM`)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(which)) / 1024


if __name__ == "__main__":
    main()
