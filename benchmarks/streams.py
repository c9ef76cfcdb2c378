"""The memory and the time of training from disk, by the number of extra outputs and of pairs.

    python benchmarks/streams.py [--outputs N …] [--pairs N …] [--output FILE]

For each number of outputs, a file of as many random numbers of up to 12 digits is written. A process of its own, with
one thread, packs them, draws every batch of one epoch, and pre-trains a small encoder for a few steps. For each number
of pairs, the file has numbers of up to 8 digits, each beside its digits in words, and a sample is kept in memory; a
small encoder and a small network are trained for a few steps. CPU time and peak memory of the process are recorded,
with Python and torch, and the bytes that what was packed takes on disk. With one of the options, only that is measured,
and --output keeps the rest of the record. --train FOLDER and --train-pairs FOLDER are these processes.
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


COUNTS = [100_000, 1_000_000]
IN_MEMORY = 20_000
NETWORK = {"name": "gru", "embedding": 16, "width": 32, "layers": 1}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--outputs", nargs="+", type=int, default=[], help="how many extra outputs")
    parser.add_argument("--pairs", nargs="+", type=int, default=[], help="how many pairs")
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--train-pairs", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train or options.train_pairs:
        train(options.train) if options.train else train_pairs(options.train_pairs)
        return
    if not (options.outputs or options.pairs):
        options.outputs = options.pairs = COUNTS
    known = json.loads(options.output.read_text()) if options.output and options.output.is_file() else {}
    for kind, counts, measure in (("outputs", options.outputs, measured), ("pairs", options.pairs, measured_pairs)):
        results: list[dict[str, Any]] = []
        for count in counts:
            with tempfile.TemporaryDirectory() as folder:
                results.append(measure(Path(folder), count))
            print(json.dumps(results[-1]), flush=True)
            known |= record(results) if kind == "outputs" else {"pairs": with_others(results, known.get("pairs", []))}
            if options.output:  # what was measured so far is kept if a later measurement is stopped
                write_text(options.output, json.dumps(known, indent=2) + "\n")


def record(results: list[dict[str, Any]]) -> dict[str, Any]:
    """The results of outputs with what is needed to reproduce them."""
    return {
        "command": f"python benchmarks/streams.py --outputs {' '.join(str(each['outputs']) for each in results)}",
        "date": today(),
        "seed": SEED,
        "surrogate": SURROGATE,
        "results": results,
        "machine": machine(1),
    }


def with_others(results: list[dict[str, Any]], known: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The results of pairs, each with what is needed to reproduce it, and those that are known of other numbers."""
    about = {"date": today(), "in_memory": IN_MEMORY}
    found = {
        each["pairs"]: {"command": f"python benchmarks/streams.py --pairs {each['pairs']}", **about, **each}
        for each in results
    }
    return [row for _, row in sorted({**{each["pairs"]: each for each in known}, **found}.items())]


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


def sections(count: int) -> dict[str, Any]:
    """A small model that is trained for a few steps on so many pairs."""
    training = {"epochs": STEPS * BATCH / count, "batch_size": BATCH, "evaluations": 1}
    surrogate = {"name": "contrastive", "dim": 16, "encoder": "flat", "training": training, "decisions": "none"}
    regressor = {"name": "neural", "backbone": NETWORK, "training": training}
    return {"surrogate": surrogate, "regressor": regressor, "decoder": "candidates", "calibration": {"pairs": 0}}


def measured_pairs(folder: Path, count: int) -> dict[str, Any]:
    """Write the file, and train on it in a process of its own."""
    chance = random.Random(SEED)
    digits = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    with (folder / "pairs.csv").open("w", encoding="utf-8") as stream:
        stream.write("words,number\n")
        for _ in range(count):
            number = str(chance.randrange(10**8))
            stream.write(f"{' '.join(digits[int(digit)] for digit in number)},{number}\n")
    cost = timed([sys.executable, __file__, "--train-pairs", folder], {"ELE_CACHE": str(folder / "cache")})
    stored = sum(file.stat().st_size for file in (folder / "cache").rglob("*.safetensors"))
    return {"pairs": count, **cost, "stored_megabytes": round(stored / 1e6, 1)}


def train_pairs(folder: Path) -> None:
    """Pack the pairs, draw them all once, and train on some."""
    from ele_core import config as configuration
    from ele_core.data.batches import ShuffledBatches
    from ele_core.data.prepare import prepare
    from ele_core.model.train import assemble, fit
    from ele_core.runtime.context import Context

    file = folder / "pairs.csv"
    with file.open("rb") as stream:
        count = sum(1 for _ in stream) - 1
    data = {"file": str(file), "in_memory": IN_MEMORY}
    given = {"seed": SEED, "output": "sequence", "data": data, **sections(count)}
    context = Context(SEED)
    prepared = prepare(configuration.load(given), context)
    stored = prepared.data.stored
    assert stored is not None
    batches = ShuffledBatches(len(stored), BATCH, context, "epoch", blocks=stored.inputs.blocks)
    drawn = 0
    while drawn < len(stored):
        rows = batches.draw()
        drawn += len(stored[rows].inputs[:])
    fit(assemble(prepared, context), prepared, context)


if __name__ == "__main__":
    main()
