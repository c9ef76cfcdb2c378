"""What starting from a trained model brings for few pairs of one's own: `ele train pairs.csv --from MODEL`.

    python benchmarks/start.py [--sets NAME …] [--sizes N …] [--seeds N …] [--ways NAME …] [--output FILE]

The pairs are drawn from the test molecules of the task smi2mol with seed 0, which the shipped models have not seen: N
pairs and 200 test pairs. Each set is trained on with `ele train --data FILE --output-space molecule`, and with
`--from MODEL` in addition; the model is also measured as it is. Each result is added to FILE as soon as it is measured,
and replaces that of the same set, size, seed and way. Sets:

- smiles: SMILES → molecule, from smi2mol;
- fingerprints: Morgan fingerprints of radius 2 and 2,048 bits → molecule, from fp2mol, with `--set input=fingerprint`.
"""

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from learning_curves import Listening, rounded, today, written

from ele_core import Context, Run, StructuredPredictor, load_config
from ele_core.config import RunConfig
from ele_core.data.prepare import prepare
from ele_core.files.atomic import write_text

SETS = {"smiles": "smi2mol", "fingerprints": "fp2mol"}
"""Set → the installed model to start from."""
OPTIONS = {"smiles": [], "fingerprints": ["input=fingerprint"]}
KEY = ("set", "pairs", "seed", "way")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), help="the inputs (default all)")
    parser.add_argument("--sizes", nargs="+", type=int, default=[300, 1000], help="numbers of pairs (default 300 1000)")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], help="seeds of the pairs and the training")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="what to measure (default all)")
    parser.add_argument("--output", type=Path, help="the record to add to")
    options = parser.parse_args()
    molecules = unseen()
    for name in options.sets:
        for size in options.sizes:
            for seed in options.seeds:
                pairs = list(inputs(name, random.Random(seed).sample(molecules, size + 200)))
                for way in options.ways:
                    key = dict(zip(KEY, (name, size, seed, way), strict=True))
                    with tempfile.TemporaryDirectory() as folder:
                        start = [f"start.name={SETS[name]}", *OPTIONS[name]] if way == "from the model" else []
                        config = written("molecule", pairs, seed, start, Path(folder))
                        save(options.output, {**key, **WAYS[way](config, Path(folder) / "run", SETS[name])})


def unseen() -> list[str]:
    """The SMILES of the test molecules of smi2mol."""
    data = prepare(load_config("smi2mol"), Context(0)).data
    return list(data.inputs_at(data.test))


def inputs(name: str, molecules: list[str]) -> Iterator[tuple[str, str]]:
    """Pairs of an input and a SMILES."""
    from rdkit import Chem
    from rdkit.Chem import rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    for text in molecules:
        bits = generator.GetFingerprint(Chem.MolFromSmiles(text)).ToBitString() if name == "fingerprints" else ""
        yield " ".join(bits) or text, text


def trained(config: RunConfig, folder: Path, _: str) -> dict[str, object]:
    """Train, and measure on the test pairs."""
    used, told = time.process_time(), []
    run = Run.start(config, folder, Listening(told))
    seconds = time.process_time() - used
    found = run.evaluate().metrics
    return {"metrics": rounded(found), "chosen": told[-1] if told else "", "cpu": round(seconds), "date": today()}


def as_it_is(config: RunConfig, _: Path, model: str) -> dict[str, object]:
    """Measure the model on the same test pairs, without any training."""
    prepared = prepare(config, Context(config.seed))
    data = prepared.data
    truths = prepared.space.unpack(data.outputs[data.test])
    found = StructuredPredictor.load(model).evaluate(data.inputs_at(data.test), truths).metrics
    return {"metrics": rounded(found), "cpu": 0, "date": today()}


WAYS = {"defaults": trained, "from the model": trained, "as it is": as_it_is}


def save(file: Path | None, result: dict[str, object]) -> None:
    """Print a result and add it to a record."""
    print(json.dumps(result), flush=True)
    if file is not None:
        found = json.loads(file.read_text("utf-8"))["results"] if file.exists() else []
        kept = [each for each in found if any(each[name] != result[name] for name in KEY)]
        order = [list(SETS).index, int, int, list(WAYS).index]
        results = sorted(
            [*kept, result], key=lambda each: [by(each[name]) for by, name in zip(order, KEY, strict=True)]
        )
        record = {"command": "python benchmarks/start.py --output docs/results/start.json", "results": results}
        write_text(file, json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
