"""What the defaults give for a user's own file, by the number of pairs, beside predictions without a model.

    python benchmarks/learning_curves.py [--sets NAME …] [--sizes N …] [--words FILE] [--names FILE] [--output FILE]

For each set and size, a CSV of that many pairs and 200 test pairs is written and trained on with
`ele train --data FILE --output-space NAME`, without any other option but the number of test pairs. Results are added
to FILE, so that several calls make one record. Sets:

- number-words: written numbers → digits, generated;
- smiles: SMILES → molecule, from QM9 (package qm9pack);
- fingerprints: Morgan fingerprints of radius 2 and 2,048 bits → molecule, from QM9;
- pronunciation: words → phonemes, from --words, a file of tab-separated words and phonemes such as CMUdict's;
- chemical-names: IUPAC names → molecule of 2 to 10 atoms, from --names, the file of PubChem identifiers in the
  package chemicals (`chemicals/Identifiers/chemical identifiers pubchem large.tsv`).
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
from collections.abc import Callable, Iterator
from pathlib import Path

from ele_core import load_config
from ele_core.files.atomic import write_text
from ele_core.model.metrics import deciding
from ele_core.runs.run import Run
from ele_core.runtime.monitor import ConsoleMonitor

TEST = 200
SEED = 0
Row = tuple[str, str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=["number-words"], help="the data sets")
    parser.add_argument("--sizes", nargs="+", type=int, default=[300], help="numbers of pairs (default 300)")
    parser.add_argument("--words", type=Path, help="words and phonemes, for pronunciation")
    parser.add_argument("--names", type=Path, help="PubChem identifiers, for chemical-names")
    parser.add_argument("--output", type=Path, help="the record to add to")
    parser.add_argument("--figure", type=Path, help="only draw the record of --output, as SVG")
    options = parser.parse_args()
    if options.figure:
        draw(json.loads(options.output.read_text("utf-8"))["results"], options.figure)
        return
    for name in options.sets:
        space, rows = SETS[name]
        pairs = list(dict.fromkeys(rows(options)))
        random.Random(SEED).shuffle(pairs)
        for size in options.sizes:
            result = {"set": name, "pairs": size, **measured(space, pairs[: size + TEST])}
            print(json.dumps(result))
            if options.output:
                add(options.output, result)


def measured(space: str, pairs: list[Row]) -> dict[str, object]:
    """Train on a file of `pairs` with the defaults, and measure on its test pairs."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pairs.csv"
        with file.open("w", newline="") as stream:
            csv.writer(stream).writerows([("input", "output"), *pairs])
        told: list[str] = []
        started = time.monotonic()
        config = load_config(space, [f"data.file={json.dumps(str(file))}", f"data.test={TEST}", f"seed={SEED}"])
        run = Run.start(config, Path(folder) / "run", Listening(told))
        trained = time.monotonic() - started
        evaluation = run.evaluate()
        metric = deciding(run.model().space)
        return {
            "metric": metric.name,
            "model": {name: round(value, 4) for name, value in evaluation.metrics.items()},
            "baselines": {
                name: {metric: round(value, 4) for metric, value in means.items()}
                for name, means in evaluation.baselines.items()
            },
            "chosen": told[-1] if told else "",
            "seconds": {"training": round(trained), "all": round(time.monotonic() - started)},
            "seed": SEED,
            "test": TEST,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
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


def add(file: Path, result: dict[str, object]) -> None:
    """Add a result to a record; it replaces one of the same set and size."""
    found = json.loads(file.read_text("utf-8")) if file.exists() else {"results": []}
    others = [old for old in found["results"] if (old["set"], old["pairs"]) != (result["set"], result["pairs"])]
    order = list(SETS)
    results = sorted([*others, result], key=lambda each: (order.index(each["set"]), each["pairs"]))
    record = {
        "command": "python benchmarks/learning_curves.py --sets SET --sizes PAIRS",
        "machine": {"processor": platform.machine(), "cores": os.cpu_count()},
        "results": results,
    }
    write_text(file, json.dumps(record, indent=2) + "\n")


def draw(results: list[dict[str, object]], file: Path) -> None:
    """Draw one panel for each set: the mean distance from the truth over the number of pairs."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(result["set"] for result in results))
    with mpl.rc_context({"svg.hashsalt": "ele", "font.size": 9}):
        figure = Figure(figsize=(2.4 * len(names), 2.6), layout="constrained")
        for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
            own = [result for result in results if result["set"] == name]
            sizes, metric = [result["pairs"] for result in own], own[0]["metric"]
            axes.plot(sizes, [result["model"][metric] for result in own], "o-", color="#0072b2", label="defaults")
            styles = ("s--", "^:")
            for style, baseline in zip(styles, own[0]["baselines"], strict=True):
                values = [result["baselines"][baseline][metric] for result in own]
                axes.plot(sizes, values, style, color="#999999", label=baseline)
            axes.set(xscale="log", xlabel="pairs", title=name, ylim=(0, None), xticks=sizes)
            axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
            axes.set_xticks([], minor=True)
        figure.axes[0].set_ylabel("mean distance from the truth")
        figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        figure.savefig(file, metadata={"Date": None})


def number_words(_: argparse.Namespace) -> Iterator[Row]:
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


def smiles(_: argparse.Namespace) -> Iterator[Row]:
    """SMILES, twice."""
    return ((text, text) for text in molecules())


def fingerprints(_: argparse.Namespace) -> Iterator[Row]:
    """Bits and SMILES."""
    from rdkit import Chem
    from rdkit.Chem import rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    for text in molecules():
        yield " ".join(generator.GetFingerprint(Chem.MolFromSmiles(text)).ToBitString()), text


def pronunciation(options: argparse.Namespace) -> Iterator[Row]:
    """Words and their first pronunciation."""
    seen = set()
    with (gzip.open if options.words.suffix == ".gz" else open)(options.words, "rt", encoding="utf-8") as stream:
        for row in csv.reader(stream, delimiter="\t"):
            if row[0] not in seen and row[0] != "word":
                seen.add(row[0])
                yield row[0], row[1]


def chemical_names(options: argparse.Namespace) -> Iterator[Row]:
    """IUPAC names and SMILES of small neutral molecules, each once."""
    from rdkit import Chem, rdBase

    seen = set()
    with rdBase.BlockLogs(), options.names.open(encoding="utf-8") as stream:
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


SETS: dict[str, tuple[str, Callable[[argparse.Namespace], Iterator[Row]]]] = {
    "number-words": ("sequence", number_words),
    "smiles": ("molecule", smiles),
    "fingerprints": ("molecule", fingerprints),
    "pronunciation": ("sequence", pronunciation),
    "chemical-names": ("molecule", chemical_names),
}


if __name__ == "__main__":
    main()
