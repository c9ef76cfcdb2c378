"""The memory and the time of pre-training by the number of extra outputs.

    python benchmarks/streams.py [--outputs N …] [--output FILE]

For each number, a file of as many random numbers of up to 12 digits is written. A process of its own, with one thread,
packs them, draws every batch of one epoch, and pre-trains a small encoder for a few steps. Its CPU time and peak memory
are recorded, with Python and torch, and the bytes that the packed outputs take on disk. --train FOLDER is that process.
"""

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import machine, parser_of, timed, today

from ele_core.files.atomic import write_text

SEED = 0
PAIRS, BATCH, STEPS = 400, 512, 10
SURROGATE = {
    "name": "contrastive",
    "dim": 16,
    "encoder": "flat",
    "pretraining_steps": STEPS,
    "training": {"epochs": 1, "batch_size": BATCH, "evaluations": 1},
}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--outputs", nargs="+", type=int, default=[100_000, 1_000_000], help="how many extra outputs")
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        train(options.train)
        return
    results: list[dict[str, Any]] = []
    for count in options.outputs:
        with tempfile.TemporaryDirectory() as folder:
            results.append(measured(Path(folder), count))
        print(json.dumps(results[-1]), flush=True)
        if options.output:  # what was measured so far is kept if a later measurement is stopped
            write_text(options.output, json.dumps(record(results), indent=2) + "\n")


def record(results: list[dict[str, Any]]) -> dict[str, Any]:
    """The results with what is needed to reproduce them."""
    return {
        "command": f"python benchmarks/streams.py --outputs {' '.join(str(each['outputs']) for each in results)}",
        "date": today(),
        "seed": SEED,
        "surrogate": SURROGATE,
        "results": results,
        "machine": machine(1),
    }


def measured(folder: Path, count: int) -> dict[str, Any]:
    """Write the files, and train on them in a process of its own."""
    chance = random.Random(SEED)
    with (folder / "extra.txt").open("w", encoding="utf-8") as stream:
        stream.writelines(f"{chance.randrange(10**12)}\n" for _ in range(count))
    rows = [f"pair {number},{chance.randrange(10**12)}\n" for number in range(PAIRS)]
    (folder / "pairs.csv").write_text("".join(["name,number\n", *rows]), encoding="utf-8")
    cost = timed([sys.executable, __file__, "--train", folder], {"ELE_CACHE": str(folder / "cache")})
    stored = sum(file.stat().st_size for file in (folder / "cache").rglob("*.safetensors"))
    return {"outputs": count, **cost, "stored_megabytes": round(stored / 1e6, 1)}


def train(folder: Path) -> None:
    """Pack the extra outputs, draw them all once, and pre-train."""
    from ele_core import config as configuration
    from ele_core.data.batches import ShuffledBatches
    from ele_core.data.prepare import prepare
    from ele_core.runtime.context import Context
    from ele_core.types import Pairs, TrainingData

    data = {"file": str(folder / "pairs.csv"), "extra": str(folder / "extra.txt")}
    output = {"name": "sequence", "length": 12, "alphabet": list("0123456789")}
    config = configuration.load({"seed": SEED, "output": output, "data": data, "surrogate": SURROGATE})
    context = Context(SEED)
    prepared = prepare(config, context)
    known = prepared.data
    assert known.extra is not None
    batches = ShuffledBatches(len(known.extra), BATCH, context, "epoch", blocks=known.extra.blocks)
    drawn = 0
    while drawn < len(known.extra):
        drawn += len(known.extra[batches.draw()])
    own, held_out = (Pairs(prepared.packed[rows], known.outputs[rows]) for rows in (known.train, known.validation))
    surrogate = config.registry.create("surrogate", prepared.config.surrogate, prepared.space)
    surrogate.fit(TrainingData(prepared.inputs, own, held_out, known.extra), context)


if __name__ == "__main__":
    main()
