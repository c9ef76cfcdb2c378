"""Whether keys of graphs tell molecules apart exactly as RDKit's canonical SMILES do.

    python benchmarks/keys.py [--moses PATH] [--limit N] [--output FILE]

Reads all molecules of QM9 (package qm9pack) and, with --moses, N training molecules of MOSES. Each molecule
is keyed twice, as read and with its atoms in a random order; the two keys must be equal. Two molecules with the same
key and different SMILES are a collision. With and without `resonance`, by which forms that differ only in how double
bonds alternate are one molecule.
"""

import time

import torch
from common import parser_of, show, today

from ele_core import Context
from ele_core.runtime.monitor import ConsoleMonitor
from ele_graphs.graphs.batch import permute
from ele_graphs.molecules import sources
from ele_graphs.molecules.space import MoleculeSpace
from ele_graphs.moses import moses

ELEMENTS = ("C", "N", "O", "F", "S", "Cl", "Br")
CHUNK = 1 << 14


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--moses", help="the wheel of molsets, or a folder with its CSV files")
    parser.add_argument("--limit", type=int, default=300_000, help="molecules of MOSES (default 300000)")
    options = parser.parse_args()
    rows = [*checked("QM9", sources.qm9(), 9)]
    if options.moses:
        _, train = moses("train", options.moses).draw(0, 500, options.limit)  # as the task `moses` draws them
        rows += checked("MOSES", train, 26)
    result = {
        "command": "python benchmarks/keys.py" + (f" --moses PATH --limit {options.limit}" if options.moses else ""),
        "date": today(),
        "rows": rows,
    }
    show(result, options.output)


def checked(name: str, source: sources.Source, size: int) -> list[dict[str, object]]:
    """Collisions and unstable keys of the molecules of a source, without and with resonance."""
    context = Context(0, torch.device("cpu"), ConsoleMonitor())
    plain = MoleculeSpace(MoleculeSpace.Config(elements=ELEMENTS, max_atoms=size))
    molecules = sources.load(source, plain.limits(min_atoms=2), context)
    texts = molecules.smiles
    generator = torch.Generator().manual_seed(0)
    rows = []
    for resonance in (None, True):
        space = MoleculeSpace(plain.config.model_copy(update={"resonance": resonance}))
        by_key: dict[tuple[int, ...], set[str]] = {}
        unstable, seconds = 0, 0.0
        for first in range(0, len(molecules.graphs), CHUNK):
            graphs = molecules.graphs[first : first + CHUNK]
            before = time.process_time()
            keys = space.keys(graphs)
            seconds += time.process_time() - before
            order = torch.rand(graphs.nodes.shape, generator=generator).argsort(dim=1)
            unstable += int((space.keys(permute(graphs, order)) != keys).any(dim=1).sum())
            for key, text in zip(keys.tolist(), texts[first : first + CHUNK], strict=True):
                by_key.setdefault(tuple(key), set()).add(text)
        collisions = [sorted(same) for same in by_key.values() if len(same) > 1]
        rows.append(
            {
                "molecules": name,
                "resonance": bool(resonance),
                "different": len(set(texts)),
                "collisions": len(collisions),
                "examples": collisions[:5],
                "keys_that_depend_on_the_order": unstable,
                "microseconds_per_key": round(seconds / len(molecules.graphs) * 1e6, 2),
            }
        )
        print(rows[-1], flush=True)
    return rows


if __name__ == "__main__":
    main()
