"""What the defaults give for a user's own file, by the number of pairs, beside what somebody would take instead.

    python benchmarks/learning_curves.py [--sets NAME …] [--sizes N …] [--seeds N …] [--file NAME=PATH …]
        [--only ours | rivals] [--set OPTION=VALUE …] [--output FILE]

For each set and size, a CSV of that many pairs and 200 test pairs is written and trained on with
`ele train --data FILE --output-space NAME`, without any other option but the number of test pairs and the seed, which
also draws the pairs. With `--set`, the same with other options, recorded beside the defaults. Wrong answers are counted
as lost by the energy, if the answer has less energy than the truth, or else by the search.

Beside the defaults stand echoing and copying, and the rivals of `ele evaluate --rivals` that fit the pairs, on the same
split: a network with attention, in the processor time that the defaults took; Phonetisaurus; kernel ridge.

Each result is added to FILE as soon as it is measured; it replaces the result of the same set, size, seed and options,
so that calls for some of them make one record, also at the same time. `--only ours` keeps the recorded rivals, and
`--only rivals` measures these alone, in the recorded time of the defaults, else in `--minutes`. Sets:

- number-words: written numbers → digits, generated;
- smiles: SMILES → molecule, from QM9 (package qm9pack);
- fingerprints: Morgan fingerprints of radius 2 and 2,048 bits → molecule, from QM9;
- cmudict: words → phonemes, from `--file cmudict=FOLDER` with train.tsv or train.tsv.gz, words and phonemes;
- chemical-names: IUPAC names → molecule of 2 to 10 atoms, from `--file chemical-names=FILE`, the PubChem identifiers in
  the package chemicals (`chemicals/Identifiers/chemical identifiers pubchem large.tsv`).
"""

import argparse
import csv
import datetime
import gzip
import json
import os
import platform
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock

from ele_core import Context, load_config
from ele_core.config import RunConfig
from ele_core.data.prepare import prepare
from ele_core.experiments.rivals import fitting, measure_rival
from ele_core.files.atomic import write_text
from ele_core.model.evaluate import COPYING, Evaluation, baselines
from ele_core.model.metrics import deciding
from ele_core.model.model import Model
from ele_core.runs.run import Run
from ele_core.runtime.monitor import ConsoleMonitor

TEST = 200
SEED = 0
"""The seed of the pool of pairs."""
Row = tuple[str, str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=["number-words"], help="the data sets")
    parser.add_argument("--sizes", nargs="+", type=int, default=[300], help="numbers of pairs (default 300)")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], help="seeds of the pairs and the training")
    parser.add_argument("--set", nargs="+", default=[], metavar="OPTION=VALUE", help="other options than the defaults")
    parser.add_argument("--file", nargs="+", default=[], metavar="NAME=PATH", help="the data of a set")
    parser.add_argument("--only", choices=["ours", "rivals"], help="measure only ELE, or only its rivals")
    parser.add_argument("--minutes", type=float, default=3, help="of a rival, if the defaults have no record")
    parser.add_argument("--output", type=Path, help="the record to add to")
    parser.add_argument("--figure", type=Path, help="only draw the record of --output, as SVG")
    options = parser.parse_args()
    if options.figure:
        draw(json.loads(options.output.read_text("utf-8"))["results"], options.figure)
        return
    files = {name: Path(path) for name, _, path in (each.partition("=") for each in options.file)}
    if lacking := [name for name in options.sets if name in FROM_FILES and name not in files]:
        parser.error(f"give the data with --file {lacking[0]}=PATH")
    for name in options.sets:
        space, pairs = SETS[name][0], pool(name, files.get(name, Path()))
        for size in options.sizes:
            for seed in options.seeds:
                key = {"set": name, "pairs": size, "seed": seed, "options": options.set}
                with tempfile.TemporaryDirectory() as folder:
                    config = written(space, drawn(pairs, seed)[: size + TEST], seed, options.set, Path(folder))
                    if options.only == "rivals":
                        ours = recorded(options.output, key)
                    else:
                        save(options.output, ours := {**key, **measured(config, Path(folder) / "run")})
                    if options.only != "ours":
                        seconds = ours["seconds"]["training_cpu"] if ours else 60 * options.minutes
                        save(options.output, {**key, **measured_rivals(config, seconds)})


def pool(name: str, file: Path = Path()) -> list[Row]:
    """All pairs of a set, each once, in a random order."""
    pairs = list(dict.fromkeys(SETS[name][1](file)))
    random.Random(SEED).shuffle(pairs)
    return pairs


def drawn(pairs: list[Row], seed: int) -> list[Row]:
    """The pairs in the order of a seed."""
    return pairs if seed == SEED else random.Random(seed).sample(pairs, len(pairs))


def written(space: str, pairs: list[Row], seed: int, overrides: list[str], folder: Path) -> RunConfig:
    """Write a file of `pairs`, and return the configuration of a training on it."""
    file = folder / "pairs.csv"
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows([("input", "output"), *pairs])
    given = [f"data.file={json.dumps(str(file))}", f"data.test={TEST}", f"seed={seed}", *overrides]
    return load_config(space, given)


def measured(config: RunConfig, folder: Path) -> dict[str, object]:
    """Train, and measure on the test pairs; also `search` from the true embeddings."""
    told: list[str] = []
    started, used = time.monotonic(), time.process_time()
    run = Run.start(config, folder, Listening(told))
    trained, cpu = time.monotonic() - started, time.process_time() - used
    evaluation = run.evaluate()
    oracle = run.evaluate(oracle=True, overrides=["decoder=search"])
    model = run.model()
    return {
        "metric": deciding(model.space).name,
        "model": rounded(evaluation.metrics),
        "baselines": {name: rounded(means) for name, means in evaluation.baselines.items()},
        "oracle": rounded(oracle.metrics),
        "lost": lost(model, evaluation),
        "chosen": told[-1] if told else "",
        "seconds": {
            "training": round(trained),
            "training_cpu": round(cpu),
            "all": round(time.monotonic() - started),
        },
        "test": TEST,
        "date": today(),
    }


def measured_rivals(config: RunConfig, seconds: float) -> dict[str, object]:
    """Measure the rivals that fit the pairs, each in so much processor time, and the baselines."""
    context = Context(config.seed, monitor=ConsoleMonitor())
    prepared = prepare(config, context)
    rows, truths = prepared.examples("test")
    found = baselines(prepared, rows, truths, context)
    rivals = fitting(prepared, seconds, context.monitor)
    return {
        "baselines": {name: rounded(means) for name, means in found.items()},
        "rivals": {name: rounded(measure_rival(rival, prepared, context)) for name, rival in rivals.items()},
        "rivals_settings": {name: rival.settings for name, rival in rivals.items()},
        "rivals_date": today(),
    }


def today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def rounded(means: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in means.items()}


def lost(model: Model, evaluation: Evaluation) -> dict[str, float]:
    """The shares of test pairs lost by the energy, whose answers have less of it than the truth, and by the search."""
    truths = model.regressor.energy(evaluation.queries).of(evaluation.truths).cpu()
    wrong = ~evaluation.values["exact"].bool()
    missed = wrong & (evaluation.decoding.energies[:, 0] > truths)
    return {
        "energy": round((wrong & ~missed).float().mean().item(), 4),
        "search": round(missed.float().mean().item(), 4),
    }


class Listening(ConsoleMonitor):
    """A monitor that keeps what was chosen."""

    def __init__(self, told: list[str]) -> None:
        super().__init__()
        self.told = told

    def message(self, text: str) -> None:
        super().message(text)
        if "Chosen: " in text:
            self.told.append(text.partition("Chosen: ")[2])


def save(file: Path | None, result: dict[str, object]) -> None:
    """Print a result and add it to a record: what it holds replaces that of the same set, size, seed and options."""
    print(json.dumps(result), flush=True)
    if file is None:
        return
    with FileLock(f"{file}.lock"):
        found = json.loads(file.read_text("utf-8"))["results"] if file.exists() else []
        merged = {tuple(map(str, key_of(each).values())): each for each in found}
        own = tuple(map(str, key_of(result).values()))
        merged[own] = {**merged.get(own, {}), **result}
        order = list(SETS)
        record = {
            "command": "python benchmarks/learning_curves.py --sets SET --sizes PAIRS --seeds SEED",
            "machine": {"processor": platform.machine(), "cores": os.cpu_count()},
            "results": sorted(
                merged.values(), key=lambda each: (order.index(each["set"]), *list(key_of(each).values())[1:])
            ),
        }
        write_text(file, json.dumps(record, indent=2) + "\n")


def recorded(file: Path | None, key: dict[str, object]) -> dict[str, Any]:
    """What a record holds of one set, size, seed and options, if the defaults were measured."""
    found = json.loads(file.read_text("utf-8"))["results"] if file and file.exists() else []
    return next((each for each in found if key_of(each) == key and "model" in each), {})


def key_of(result: Mapping[str, object]) -> dict[str, object]:
    return {name: result[name] for name in ("set", "pairs", "seed", "options")}


def draw(results: list[dict[str, object]], file: Path) -> None:
    """Draw one panel for each set: the share of exact predictions over the number of pairs, a point for each seed."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    results = [result for result in results if not result["options"] and "model" in result]
    names = list(dict.fromkeys(result["set"] for result in results))
    with mpl.rc_context({"svg.hashsalt": "ele", "font.size": 9}):
        figure = Figure(figsize=(2.4 * len(names), 2.6), layout="constrained")
        for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
            own = [result for result in results if result["set"] == name]
            sizes = sorted({result["pairs"] for result in own})
            copied = [100 * result["baselines"][COPYING]["exact"] for result in own]
            for label, style, color, values in (
                ("defaults", "o", "#0072b2", [100 * result["model"]["exact"] for result in own]),
                ("copying the nearest input's output", "s", "#999999", copied),
            ):
                axes.plot([result["pairs"] for result in own], values, style, color=color, label=label, markersize=4)
                by_size = [[v for v, r in zip(values, own, strict=True) if r["pairs"] == size] for size in sizes]
                axes.plot(sizes, [sum(each) / len(each) for each in by_size], "-", color=color)
            axes.set(xscale="log", xlabel="pairs", title=name, ylim=(-3, 103), xticks=sizes)
            axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
            axes.set_xticks([], minor=True)
        figure.axes[0].set_ylabel("exact, %")
        figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
        figure.savefig(file, metadata={"Date": None})


def number_words(_: Path) -> Iterator[Row]:
    """Numbers in words and in digits."""
    from ele_sequences.number_words import draw, spell

    return ((spell(number), str(number)) for number in draw(21_500, SEED))


def molecules() -> list[str]:
    """Canonical SMILES of 12,000 molecules of QM9 without charges."""
    from rdkit import Chem

    from ele_graphs.molecules.sources import qm9

    texts = list(qm9().texts())
    random.Random(SEED).shuffle(texts)
    read = (Chem.MolFromSmiles(text) for text in texts[:15_000])
    kept = [m for m in read if m.GetNumAtoms() > 1 and not any(a.GetFormalCharge() for a in m.GetAtoms())]
    return [Chem.MolToSmiles(molecule, isomericSmiles=False) for molecule in kept[:12_000]]


def smiles(_: Path) -> Iterator[Row]:
    """SMILES, twice."""
    return ((text, text) for text in molecules())


def fingerprints(_: Path) -> Iterator[Row]:
    """Bits and SMILES."""
    from rdkit import Chem
    from rdkit.Chem import rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    for text in molecules():
        yield " ".join(generator.GetFingerprint(Chem.MolFromSmiles(text)).ToBitString()), text


def cmudict(folder: Path) -> Iterator[Row]:
    """Words and their first pronunciation."""
    seen = set()
    file = next((file for file in folder.glob("train.tsv.gz")), folder / "train.tsv")
    with (gzip.open if file.suffix == ".gz" else open)(file, "rt", encoding="utf-8") as stream:
        for row in csv.reader(stream, delimiter="\t"):
            if row[0] not in seen and row[0] != "word":
                seen.add(row[0])
                yield row[0], row[1]


def chemical_names(file: Path) -> Iterator[Row]:
    """IUPAC names and SMILES of small neutral molecules, each once."""
    from rdkit import Chem, rdBase

    seen = set()
    with rdBase.BlockLogs(), file.open(encoding="utf-8") as stream:
        for line in stream:
            cells = line.rstrip("\n").split("\t")
            molecule = Chem.MolFromSmiles(cells[4])
            if molecule is None or "." in cells[4] or not 2 <= molecule.GetNumAtoms() <= 10 or not cells[7]:
                continue
            if not all(ordinary(atom) for atom in molecule.GetAtoms()):
                continue
            text = Chem.MolToSmiles(molecule, isomericSmiles=False)
            if text not in seen:
                seen.add(text)
                yield cells[7], text


def ordinary(atom: object) -> bool:
    """Whether an atom is of a frequent element, without charge, isotope or unpaired electrons."""
    frequent = atom.GetSymbol() in ("C", "N", "O", "F", "S", "Cl", "Br")
    return frequent and not (atom.GetFormalCharge() or atom.GetIsotope() or atom.GetNumRadicalElectrons())


SETS: dict[str, tuple[str, Callable[[Path], Iterator[Row]]]] = {
    "number-words": ("sequence", number_words),
    "smiles": ("molecule", smiles),
    "fingerprints": ("molecule", fingerprints),
    "cmudict": ("sequence", cmudict),
    "chemical-names": ("molecule", chemical_names),
}
FROM_FILES = ("cmudict", "chemical-names")
"""The sets that are read from a file or folder of the user."""


if __name__ == "__main__":
    main()
