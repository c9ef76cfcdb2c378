"""Time our exact graph edit distance against networkx on the same random QM9 pairs, and check that they agree.

    python benchmarks/ged.py [--pairs N] [--networkx-pairs N] [--no-edge-labels] [--seed S] [--output FILE]

Ours runs on all pairs, on one thread; networkx takes some seconds per pair and runs on the first few of them. The ratio
compares the times on those few, measured in one run. Ours is timed twice: on those few, and on all pairs.
"""

import argparse
import csv
import json
import os
import platform
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import networkx as nx
import torch
from rdkit import Chem
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # measure the code of this checkout
from ele_graphs.ged import edit_distances  # after the line above

ROOM = 9
ATOMS = {6: 1, 7: 2, 8: 3, 9: 4}
BONDS = {1.0: 1, 2.0: 2, 3.0: 3, 1.5: 4}


@dataclass(frozen=True)
class Graphs:
    """Packed molecules: nodes (B, 9), edges (B, 9, 9), zero is "nothing there"."""

    nodes: Tensor
    edges: Tensor

    def first(self, count: int) -> "Graphs":
        """The first graphs of the batch."""
        return Graphs(self.nodes[:count], self.edges[:count])


def main() -> None:
    """Run the comparison, print it, and write it to `--output`."""
    options = arguments()
    smiles = random.Random(options.seed).sample(read_smiles(), 2 * options.pairs)
    a, b = pack(smiles[: options.pairs]), pack(smiles[options.pairs :])
    report = measure(a, b, min(options.networkx_pairs, options.pairs), edge_labels=options.edge_labels)
    report |= {"seed": options.seed} | environment()
    print(json.dumps(report, indent=2))
    if options.output:
        options.output.write_text(json.dumps(report, indent=2) + "\n")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5000, help="random pairs for ours (default 5000)")
    parser.add_argument("--networkx-pairs", type=int, default=20, help="how many of them networkx solves (default 20)")
    parser.add_argument("--edge-labels", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="write the result as JSON")
    return parser.parse_args()


def measure(a: Graphs, b: Graphs, few: int, *, edge_labels: bool) -> dict[str, Any]:
    """Seconds of both engines on the first few pairs, and of ours on all; exit if a distance differs."""
    edit_distances(a.first(1), b.first(1))  # compiles, or loads from numba's cache
    ours_few, seconds_few = timed(
        lambda: edit_distances(a.first(few), b.first(few), edge_labels=edge_labels, threads=1)
    )
    ours, seconds = timed(
        lambda: edit_distances(a, b, edge_labels=edge_labels, threads=1, progress=Progress(len(a.nodes)))
    )
    theirs, seconds_networkx = timed(lambda: networkx_distances(a, b, few, edge_labels))
    if not ours_few.tolist() == ours[:few].tolist() == theirs:
        sys.exit(f"the values differ: ours {ours_few.tolist()}, networkx {theirs}")
    return {
        "edge_labels": edge_labels,
        "mean_distance": ours.double().mean().item(),
        "ours": {"pairs": len(ours), "seconds": seconds, "milliseconds_a_pair": 1e3 * seconds / len(ours)},
        "ours_on_the_same_pairs": {"pairs": few, "seconds": seconds_few},
        "networkx": {"pairs": few, "seconds": seconds_networkx, "seconds_a_pair": seconds_networkx / max(few, 1)},
        "ratio": seconds_networkx / seconds_few,
        "equal_values": few,
    }


def networkx_distances(a: Graphs, b: Graphs, count: int, edge_labels: bool) -> list[int]:
    """Networkx's exact distances of the first pairs."""
    progress, distances = Progress(count, name="networkx"), []
    for index in range(count):
        distances.append(
            nx.graph_edit_distance(
                to_networkx(a, index),
                to_networkx(b, index),
                node_match=lambda x, y: x["label"] == y["label"],
                edge_match=lambda x, y: x["label"] == y["label"] or not edge_labels,
            )
        )
        progress(1)
    return [int(distance) for distance in distances]


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """The result of a function, and the wall-clock seconds it took."""
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


class Progress:
    """A counter on one line of the terminal, at most ten times a second."""

    def __init__(self, total: int, name: str = "ours") -> None:
        self.total, self.name, self.done, self.shown = total, name, 0, 0.0

    def __call__(self, count: int) -> None:
        """Count further pairs."""
        self.done += count
        if self.done == self.total or time.perf_counter() - self.shown > 0.1:
            self.shown = time.perf_counter()
            print(f"\r{self.name}: {self.done}/{self.total} pairs", end="", file=sys.stderr, flush=True)
        if self.done == self.total:
            print(file=sys.stderr)


def read_smiles() -> list[str]:
    """All QM9 molecules, from the files of qm9pack (its own loader needs pkg_resources, which is gone)."""
    package = find_spec("qm9pack")
    if package is None or package.origin is None:
        sys.exit("qm9pack, which holds the QM9 molecules, is not installed: pip install qm9pack")
    csv.field_size_limit(2**24)
    smiles = []
    for path in sorted((Path(package.origin).parent / "data").glob("qm9_part*.csv")):
        with path.open() as file:
            smiles += [row["SMILES"] for row in csv.DictReader(file)]
    return smiles


def pack(smiles: list[str]) -> Graphs:
    """Heavy atoms and bonds as labels from 1."""
    graphs = Graphs(
        torch.zeros(len(smiles), ROOM, dtype=torch.int8), torch.zeros(len(smiles), ROOM, ROOM, dtype=torch.int8)
    )
    for index, text in enumerate(smiles):
        molecule = Chem.MolFromSmiles(text)
        for atom in molecule.GetAtoms():
            graphs.nodes[index, atom.GetIdx()] = ATOMS[atom.GetAtomicNum()]
        for bond in molecule.GetBonds():
            i, j = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
            graphs.edges[index, i, j] = graphs.edges[index, j, i] = BONDS[bond.GetBondTypeAsDouble()]
    return graphs


def to_networkx(graphs: Graphs, index: int) -> "nx.Graph[int]":
    """One graph of a batch, without its virtual nodes."""
    graph: nx.Graph[int] = nx.Graph()
    for i, label in enumerate(graphs.nodes[index].tolist()):
        if label:
            graph.add_node(i, label=label)
    for i, j in graphs.edges[index].triu().nonzero().tolist():
        graph.add_edge(i, j, label=int(graphs.edges[index, i, j]))
    return graph


def environment() -> dict[str, Any]:
    """What the numbers depend on."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cpus": os.cpu_count(), "processor": platform.machine(), "load": os.getloadavg()[0]},
        "versions": {name: version(name) for name in ("networkx", "numba", "numpy", "torch", "rdkit")}
        | {"python": platform.python_version()},
    }


if __name__ == "__main__":
    main()
