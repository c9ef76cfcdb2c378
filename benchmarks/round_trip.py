"""How many molecules come back unchanged: SMILES → `Molecule` → `pack` → `unpack` → canonical SMILES without stereo.

    python benchmarks/round_trip.py [--files FILE …] [--limit N] [--output FILE]

Takes the distinct molecules of at most 50 heavy atoms that RDKit can read. A molecule that the space refuses counts as
not come back. Each kind of molecule that does not come back is listed with its number and an example. Results are added
to FILE, so that several calls make one record. Files, QM9 (package qm9pack) if none is given:

- CSV, also compressed by gzip, with the SMILES in the column SMILES or smiles, such as train.csv.gz, test.csv.gz and
  test_scaffolds.csv.gz of MOSES;
- MSP, also compressed by gzip, with lines `SMILES: …`, such as a library of MassBank.
"""

import argparse
import csv
import datetime
import gzip
import json
import os
import platform
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from rdkit import Chem, rdBase

from ele_core import InvalidOutput
from ele_core.files.atomic import write_text
from ele_graphs.molecules.molecule import Molecule
from ele_graphs.molecules.sources import qm9
from ele_graphs.molecules.space import MoleculeSpace

MOST_ATOMS = 50
BLOCK = 1000
Pair = tuple[str, str]
"""A SMILES and its canonical form without stereo."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", nargs="+", type=Path, help="files of molecules (default: QM9)")
    parser.add_argument("--limit", type=int, help="only the first N molecules of each file")
    parser.add_argument("--output", type=Path, help="the record to add to")
    options = parser.parse_args()
    sources = {file.name: texts_of(file) for file in options.files} if options.files else {"QM9": qm9().texts()}
    for name, texts in sources.items():
        result = {"source": name, "limit": options.limit, **measured(islice(distinct(texts), options.limit))}
        print(json.dumps(result, indent=2))
        if options.output:
            add(options.output, result)


def measured(pairs: Iterator[Pair]) -> dict[str, object]:
    """How many molecules come back, and the kinds of those that do not."""
    started = time.monotonic()
    outcomes: Counter[str] = Counter()
    examples: dict[str, str] = {}
    while block := list(islice(pairs, BLOCK)):
        for (text, _), kind in zip(block, sent_and_returned(block), strict=True):
            outcomes[kind] += 1
            examples.setdefault(kind, text)
    back = outcomes.pop("", 0)
    count = back + outcomes.total()
    return {
        "molecules": count,
        "came back": back,
        "share": round(back / count, 6) if count else None,
        "did not": [{"kind": kind, "count": n, "example": examples[kind]} for kind, n in outcomes.most_common()],
        "seconds": round(time.monotonic() - started),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def sent_and_returned(block: list[Pair]) -> list[str]:
    """For each molecule, why it did not come back; empty if it did. The space is inferred from the block."""
    read = [as_molecule(text) for text, _ in block]
    accepted = [k for k, molecule in enumerate(read) if isinstance(molecule, Molecule)]
    space = MoleculeSpace(MoleculeSpace.infer([read[k] for k in accepted], {"max_atoms": MOST_ATOMS}))
    returned = dict(zip(accepted, space.unpack(space.pack([read[k] for k in accepted])), strict=True))
    return [
        molecule if isinstance(molecule, str) else "" if returned[k].smiles == wanted else "another molecule"
        for k, (molecule, (_, wanted)) in enumerate(zip(read, block, strict=True))
    ]


def as_molecule(text: str) -> Molecule | str:
    """The molecule of a SMILES, or the kind of reason for which it is refused."""
    try:
        molecule = Molecule.from_smiles(text)
    except InvalidOutput as error:
        return kind_of(error.what.removeprefix(f"{text!r}: "))
    return kind_of(molecule.unusual[0]) if molecule.unusual else molecule


def kind_of(reason: str) -> str:
    """A reason without what is special to one molecule."""
    return re.sub(r" at atom .*|: .*|\d+ ?", "", reason)


def distinct(texts: Iterable[str]) -> Iterator[Pair]:
    """Molecules of at most 50 heavy atoms, each once; what RDKit cannot read is left out."""
    seen = set()
    with rdBase.BlockLogs():
        for text in texts:
            molecule = Chem.MolFromSmiles(text)
            if molecule is None or not 0 < molecule.GetNumHeavyAtoms() <= MOST_ATOMS:
                continue
            canonical = Chem.MolToSmiles(molecule, isomericSmiles=False)
            if canonical not in seen:
                seen.add(canonical)
                yield text, canonical


def texts_of(file: Path) -> Iterator[str]:
    """The SMILES of a CSV or an MSP file."""
    with (gzip.open if file.suffix == ".gz" else open)(file, "rt", encoding="utf-8", errors="replace") as stream:
        if ".msp" in file.suffixes:
            yield from (line.partition(":")[2].strip() for line in stream if line.startswith("SMILES:"))
        else:
            yield from (row.get("SMILES") or row["smiles"] for row in csv.DictReader(stream))


def add(file: Path, result: dict[str, object]) -> None:
    """Add a result to a record; it replaces one of the same source."""
    found = json.loads(file.read_text("utf-8")) if file.exists() else {"results": []}
    others = [old for old in found["results"] if old["source"] != result["source"]]
    record = {
        "command": "python benchmarks/round_trip.py --files FILE --limit LIMIT",
        "machine": {"processor": platform.machine(), "cores": os.cpu_count()},
        "results": sorted([*others, result], key=lambda each: str(each["source"])),
    }
    write_text(file, json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
