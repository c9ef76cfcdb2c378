"""How often edit distances of molecules are exact within the default budget, by size, beside networkx and pygmtools.

    python benchmarks/ged_by_size.py [--file SMILES.csv.gz] [--sizes 12 14 …] [--pairs N] [--peer-pairs N] [--limit S]

Molecules come from the column SMILES of a CSV file, such as that of MOSES, or from QM9. A near pair is a molecule and a
copy with some random edits, as a prediction with errors is; a random pair are two molecules of the same size. All times
are CPU seconds of one thread. The peers solve the first few pairs of each kind, each in a process of its own that ends
after `--limit` seconds. pygmtools is left out if it is not installed.
"""

import argparse
import csv
import gzip
import json
import multiprocessing
import random
import re
import resource
import shlex
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import networkx as nx
import torch
from ged import Graphs, environment, read_smiles, to_networkx
from rdkit import Chem

from ele_graphs.ged import edit_distance_bounds

BONDS = {1.0: 1, 2.0: 2, 3.0: 3}
ATOM = re.compile("Cl|Br|[BCNOFPSIbcnops]")
Molecule = tuple[list[int], dict[tuple[int, int], int]]
"""Atomic numbers, and the bonds of a kekulized structure."""
Peer = Callable[[Graphs, Graphs, int], int]
"""The distance of the pair at an index of two batches."""


def main() -> None:
    """Measure all sizes and kinds of pairs, print them, and write them to `--output`."""
    options = arguments()
    molecules = by_size(options.file, options.sizes, options.seed)
    tiny = pack([[([6, 8], {(0, 1): 1})]] * 2)
    for solver in (edit_distance_bounds, *(partial(peer, index=0) for peer in peers().values())):
        solver(*tiny)  # imports, compiles
    rows = []
    for size in options.sizes:
        for kind in ("near", "random"):
            rows.append(measured(kind, size, *pairs(kind, molecules[size], options), options))
            print(json.dumps(rows[-1]), flush=True)
    about = {"command": shlex.join(["python", "benchmarks/ged_by_size.py", *sys.argv[1:]]), "seed": options.seed}
    about |= {"edits": options.edits, "limit_seconds": options.limit} | environment()
    if find_spec("pygmtools"):
        about["versions"]["pygmtools"] = version("pygmtools")
    if options.output:
        options.output.write_text(json.dumps(about | {"results": rows}, indent=2) + "\n")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--file", type=Path, help="CSV file with a column SMILES (default: QM9)")
    parser.add_argument("--sizes", type=int, nargs="+", default=[7, 8, 9], help="numbers of atoms (default 7 8 9)")
    parser.add_argument("--pairs", type=int, default=50, help="pairs of each kind for ours (default 50)")
    parser.add_argument("--peer-pairs", type=int, default=2, help="how many of them the peers solve (default 2)")
    parser.add_argument("--edits", type=int, default=4, help="edits of a near pair (default 4)")
    parser.add_argument("--limit", type=int, default=10, help="CPU seconds of a peer per pair (default 10)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="write the result as JSON")
    return parser.parse_args()


def by_size(file: Path | None, sizes: list[int], seed: int) -> dict[int, list[Molecule]]:
    """At most 200 molecules of each size, in a random order."""
    smiles = read_smiles() if file is None else column(file)
    random.Random(seed).shuffle(smiles)
    found: dict[int, list[Molecule]] = {size: [] for size in sizes}
    for text in smiles:
        size = len(ATOM.findall(text))
        if size not in found or len(found[size]) == 200:
            continue
        molecule = Chem.MolFromSmiles(text)
        if molecule is not None and molecule.GetNumAtoms() == size:
            Chem.Kekulize(molecule, clearAromaticFlags=True)
            found[size].append(as_graph(molecule))
    return found


def column(file: Path) -> list[str]:
    """The SMILES of a file."""
    with gzip.open(file, "rt") if file.suffix == ".gz" else file.open() as stream:
        return [row["SMILES"] for row in csv.DictReader(stream)]


def as_graph(molecule: Chem.Mol) -> Molecule:
    """Heavy atoms and bonds."""
    bonds = {
        (b.GetBeginAtomIdx(), b.GetEndAtomIdx()): BONDS.get(b.GetBondTypeAsDouble(), 4) for b in molecule.GetBonds()
    }
    return [atom.GetAtomicNum() for atom in molecule.GetAtoms()], bonds


def pairs(kind: str, molecules: list[Molecule], options: argparse.Namespace) -> tuple[Graphs, Graphs]:
    """Pairs of molecules of one size; the second of a near pair has its atoms in another order."""
    draw = random.Random(f"{options.seed} {kind} {len(molecules[0][0])}")
    first = draw.choices(molecules, k=options.pairs)
    if kind == "random":
        return pack([first, draw.choices(molecules, k=options.pairs)])
    return pack([first, [edited(molecule, options.edits, draw) for molecule in first]])


def edited(molecule: Molecule, edits: int, draw: random.Random) -> Molecule:
    """A copy with another element or bond, a new atom, or one bond less or more, `edits` times; atoms shuffled."""
    atoms, bonds = list(molecule[0]), dict(molecule[1])
    for _ in range(edits):
        match draw.randrange(5):
            case 0:
                atoms[draw.randrange(len(atoms))] = draw.choice((6, 7, 8))
            case 1:
                bonds[draw.choice(list(bonds))] = draw.choice((1, 2))
            case 2:
                bonds[draw.randrange(len(atoms)), len(atoms)] = 1
                atoms.append(draw.choice((6, 7, 8)))
            case 3:
                bonds.pop(draw.choice(list(bonds)))
            case _:
                i, j = sorted(draw.sample(range(len(atoms)), 2))
                if (i, j) not in bonds and (j, i) not in bonds:
                    bonds[i, j] = 1
    order = draw.sample(range(len(atoms)), len(atoms))
    moved = {(order[i], order[j]): label for (i, j), label in bonds.items()}
    return [atoms[order.index(place)] for place in range(len(atoms))], moved


def pack(sides: list[list[Molecule]]) -> tuple[Graphs, Graphs]:
    """Both sides of the pairs as batches."""
    room = max(len(atoms) for side in sides for atoms, _ in side)
    batches = []
    for side in sides:
        graphs = Graphs(
            torch.zeros(len(side), room, dtype=torch.int8), torch.zeros(len(side), room, room, dtype=torch.int8)
        )
        for row, (atoms, bonds) in enumerate(side):
            graphs.nodes[row, : len(atoms)] = torch.tensor(atoms)
            for (i, j), label in bonds.items():
                graphs.edges[row, i, j] = graphs.edges[row, j, i] = label
        batches.append(graphs)
    return batches[0], batches[1]


def measured(kind: str, size: int, a: Graphs, b: Graphs, options: argparse.Namespace) -> dict[str, Any]:
    """Ours on all pairs, and on the few that the peers solve."""
    bounds, seconds = timed(lambda: edit_distance_bounds(a, b, threads=1))
    few = options.peer_pairs
    _, seconds_few = timed(lambda: edit_distance_bounds(a.first(few), b.first(few), threads=1))
    row = {
        "atoms": size,
        "kind": kind,
        "pairs": len(bounds.lower),
        "exact": bounds.exact.double().mean().item(),
        "mean_lower": bounds.lower.double().mean().item(),
        "mean_upper": bounds.upper.double().mean().item(),
        "milliseconds_a_pair": 1e3 * seconds / len(bounds.lower),
        "on_the_same_pairs": {"pairs": few, "seconds": seconds_few},
    }
    for name, peer in peers().items():
        found = [limited(peer, a, b, index, options.limit) for index in range(few)]
        row[name] = {
            "finished": sum(distance is not None for distance, _ in found),
            "seconds": sum(spent for _, spent in found),
            "differ": sum(
                distance is not None and bool(bounds.exact[index]) and distance != int(bounds.upper[index])
                for index, (distance, _) in enumerate(found)
            ),
            "ratio": sum(spent for _, spent in found) / seconds_few,
        }
    return row


def peers() -> dict[str, Peer]:
    """The other implementations that are installed."""
    return {"networkx": networkx_distance} | ({"pygmtools": pygmtools_distance} if find_spec("pygmtools") else {})


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """The result of a function, and the CPU seconds it took."""
    start = time.process_time()
    result = function()
    return result, time.process_time() - start


def limited(peer: Peer, a: Graphs, b: Graphs, index: int, limit: int) -> tuple[int | None, float]:
    """The distance that a peer finds and its CPU seconds; None and the limit if it does not finish."""
    receive, send = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=solve, args=(peer, a, b, index, limit, send))
    process.start()
    send.close()
    try:
        distance, seconds = receive.recv()
    except EOFError:
        distance, seconds = None, float(limit)
    process.join()
    return distance, seconds


def solve(peer: Peer, a: Graphs, b: Graphs, index: int, limit: int, send: Connection) -> None:
    """In a process of its own: solve a pair, and end after `limit` CPU seconds."""
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    torch.set_num_threads(1)
    send.send(timed(lambda: peer(a, b, index)))


def networkx_distance(a: Graphs, b: Graphs, index: int) -> int:
    """Networkx's exact distance."""

    def match(x: dict[str, int], y: dict[str, int]) -> bool:
        return x["label"] == y["label"]

    first, second = to_networkx(a, index), to_networkx(b, index)
    return int(nx.graph_edit_distance(first, second, node_match=match, edge_match=match))


def pygmtools_distance(a: Graphs, b: Graphs, index: int) -> int:
    """The cost of the optimal matching of pygmtools' A* on CPU, both graphs padded to the same size."""
    import pygmtools

    pygmtools.set_backend("pytorch")
    first, second = (labels(graphs, index) for graphs in (a, b))
    n = max((graphs.nodes[index] != 0).sum().item() for graphs in (a, b))
    first, second = first[:n, :n], second[:n, :n]
    equal = (first[:, None, :, None] == second[None, :, None, :]).float() / 2  # i, p(i), j, p(j): each edge twice
    nodes = torch.arange(n)
    equal[nodes[:, None], nodes[None], nodes[:, None], nodes[None]] *= 2
    affinity = equal.permute(1, 0, 3, 2).reshape(n * n, n * n)  # its matchings are flattened by columns
    matching = pygmtools.astar(affinity, torch.tensor(n), torch.tensor(n))
    order = matching.argmax(1)
    return int((first != second[order][:, order]).triu().sum())


def labels(graphs: Graphs, index: int) -> torch.Tensor:
    """The edge labels, with the node labels on the diagonal; real nodes first."""
    matrix = graphs.edges[index].int() + torch.diag(graphs.nodes[index].int())
    order = (graphs.nodes[index] == 0).int().argsort(stable=True)
    return matrix[order][:, order]


if __name__ == "__main__":
    main()
