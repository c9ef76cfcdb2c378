"""How the learned distance of molecules goes with their exact edit distance, beside fingerprints and graph kernels.

    python benchmarks/learned_distance.py RUN [--pairs N] [--split NAME] [--seed S] [--output FILE] [--plot FILE]

Takes held-out molecules of RUN, a finished run of smi2mol, and N pairs of each kind:

- random: two held-out molecules;
- moves: a held-out molecule, and what 1 to 6 random moves of the output space make of it;
- nearest: a held-out molecule, and one of its ten nearest of 20,000 training molecules; a third of the pairs by each of
  the first three distances below, so that none of them chooses all pairs.

For each kind, Spearman's rank correlation of the exact graph edit distance (labelled atoms and bonds) with

- learned: ‖ψ(a) − ψ(b)‖² of the run's surrogate;
- Tanimoto: 1 − Tanimoto similarity of Morgan fingerprints, radius 2, 2,048 bits;
- WL kernel: ‖φ(a) − φ(b)‖² of normalised Weisfeiler-Lehman features with bond labels, with each number of refinements
  that --iterations gives: choose one with --split validation;
- atoms and bonds: the difference in numbers of atoms and of bonds by label, a lower bound of the edit distance.

The standard error is that of 200 resamplings of the pairs. --plot draws the distances by edit distance.
"""

import argparse
import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import parser_of, today
from scipy.stats import spearmanr
from torch import Tensor

from ele_core import Context, SparseRows
from ele_core.files.atomic import write_text
from ele_core.model.model import Model
from ele_core.numerics.nearest import Nearest
from ele_core.runs.run import Run
from ele_core.runtime.monitor import ConsoleMonitor
from ele_graphs.ged import edit_distances
from ele_graphs.graphs.batch import Graphs
from ele_graphs.graphs.wl import wl_features
from ele_graphs.molecules.rdkit_adapter import morgan_bits

AMONG, NEAREST, MOST_MOVES = 20_000, 10, 6
RADIUS, BITS = 2, 2048
RESAMPLED = 200
CHUNK = 256
Features = Callable[[Graphs], Tensor]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("run", type=Path, help="a finished run of smi2mol")
    parser.add_argument("--pairs", type=int, default=3000, help="pairs of each kind (default 3,000)")
    parser.add_argument("--split", choices=["test", "validation"], default="test", help="molecules (default test)")
    parser.add_argument(
        "--iterations", type=int, nargs="+", default=[2], help="refinements of the WL kernel (default 2)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the pairs (default 0)")
    parser.add_argument("--plot", type=Path, help="draw the result as SVG (needs matplotlib)")
    options = parser.parse_args()
    result = measured(options)
    print(json.dumps({**result, "kinds": {k: v["spearman"] for k, v in result["kinds"].items()}}, indent=2))
    if options.output:
        write_text(options.output, json.dumps(result, indent=1) + "\n")
    if options.plot:
        plot(result, options.plot)


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """The correlations of each kind of pairs, and the distances by edit distance."""
    started = time.monotonic()
    run = Run(options.run)
    model, context = run.model(), Context(options.seed, monitor=ConsoleMonitor())
    data = run.data(context).data
    held_out, generator = data.outputs[getattr(data, options.split)], context.generator("pairs")
    order = torch.randperm(len(data.train), generator=generator)[:AMONG]
    features = measures(model, options.iterations)
    made = {
        "random": random_pairs(held_out, options.pairs, generator),
        "moves": moved_pairs(model, held_out, options.pairs, generator),
        "nearest": nearest_pairs(features, held_out, data.outputs[data.train[order]], options.pairs, generator),
    }
    kinds = {name: compared(*pairs, features, options.seed) for name, pairs in made.items()}
    return {
        "command": shlex.join(["python", "benchmarks/learned_distance.py", *map(shown, sys.argv[1:])]),
        "date": today(),
        "seed": options.seed,
        "split": options.split,
        "molecules": len(held_out),
        "source": data.source,
        "iterations": options.iterations,
        "surrogate": model.config.surrogate.model_dump(mode="json"),
        "kinds": kinds,
        "seconds": round(time.monotonic() - started, 1),
        "machine": {"processor": platform.machine(), "cores": os.cpu_count()},
    }


def shown(word: str) -> str:
    """A word of the command line; of a path only the name."""
    return Path(word).name if "/" in word else word


# -- distances ----------------------------------------------------------------------------------------------------


def measures(model: Model, iterations: list[int]) -> dict[str, Features]:
    """Vectors of molecules whose squared distance, or Tanimoto distance, is measured."""
    space: Any = model.space

    def fingerprints(graphs: Graphs) -> Tensor:
        found = torch.zeros(len(graphs), BITS)
        for row, molecule in enumerate(space.unpack(graphs)):
            found[row, list(morgan_bits(molecule.atoms, molecule.bonds, RADIUS, BITS))] = 1
        return found

    def colours(depth: int, graphs: Graphs) -> Tensor:
        return hashed(wl_features(graphs, depth, edge_labels=True))

    def composition(graphs: Graphs) -> Tensor:
        atoms = [(graphs.nodes == label).sum(dim=1) for label in range(1, len(space.node_labels) + 1)]
        bonds = [(graphs.edges == label).sum(dim=(1, 2)) // 2 for label in range(1, len(space.edge_labels) + 1)]
        return torch.stack([*atoms, *bonds], dim=1).float()

    return {
        "learned": model.surrogate.embed,
        "Tanimoto": fingerprints,
        **{f"WL kernel, {depth} refinements": partial(colours, depth) for depth in iterations},
        "atoms and bonds": composition,
    }


def hashed(features: SparseRows, width: int = 1 << 14) -> Tensor:
    """Normalised features as dense rows: keys share a column only with probability 1 / `width`."""
    rows = features.normalised()
    dense = torch.zeros(len(rows), width)
    dense.index_put_((rows.rows, rows.keys % width), rows.values, accumulate=True)
    return dense


def distance(name: str, left: Tensor, right: Tensor) -> Tensor:
    """The distance of row i of one and row i of the other."""
    if name == "Tanimoto":
        shared = (left * right).sum(dim=1)
        return 1 - shared / (left.sum(dim=1) + right.sum(dim=1) - shared).clamp(min=1)
    if name == "atoms and bonds":
        return (left - right).abs().sum(dim=1)
    return (left - right).square().sum(dim=1)


# -- pairs --------------------------------------------------------------------------------------------------------


def random_pairs(held_out: Graphs, count: int, generator: torch.Generator) -> tuple[Graphs, Graphs]:
    """Pairs of two different rows."""
    left = torch.randint(len(held_out), (count,), generator=generator)
    shift = torch.randint(1, len(held_out), (count,), generator=generator)
    return held_out[left], held_out[(left + shift) % len(held_out)]


def moved_pairs(model: Model, held_out: Graphs, count: int, generator: torch.Generator) -> tuple[Graphs, Graphs]:
    """Molecules, and what a random number of random moves makes of them."""
    left = held_out[torch.randint(len(held_out), (count,), generator=generator)]
    moves = torch.randint(1, MOST_MOVES + 1, (count,), generator=generator)
    parts = []
    for first in range(0, count, CHUNK):
        now, left_to_go = left[first : first + CHUNK], moves[first : first + CHUNK]
        for step in range(MOST_MOVES):
            moved, owner = model.space.moves.neighbours(now)
            chance = torch.rand(len(owner), generator=generator)
            best = torch.full((len(now),), -1.0).index_reduce_(0, owner, chance, "amax")
            chosen = torch.arange(len(now)) * 0 - 1
            chosen[owner[chance == best[owner]]] = (chance == best[owner]).nonzero().flatten()
            go = (left_to_go > step) & (chosen >= 0)
            both = Graphs.cat([now, moved[chosen.clamp(min=0)]])
            now = both[torch.arange(len(now)) + go * len(now)]
        parts.append(now)
    return left, Graphs.cat(parts)


def nearest_pairs(
    features: dict[str, Features], held_out: Graphs, train: Graphs, count: int, generator: torch.Generator
) -> tuple[Graphs, Graphs]:
    """Molecules, and one of their nearest training molecules; a third by each of the first three distances."""
    left, right = [], []
    for name in list(features)[:3]:
        own = held_out[torch.randint(len(held_out), (count // 3,), generator=generator)]
        rows = nearest_rows(name, features[name], own, train)
        chosen = rows[torch.arange(len(own)), torch.randint(rows.shape[1], (len(own),), generator=generator)]
        left.append(own)
        right.append(train[chosen])
    return Graphs.cat(left), Graphs.cat(right)


def nearest_rows(name: str, embed: Features, own: Graphs, train: Graphs) -> Tensor:
    """The nearest training molecules of each molecule (B, 10)."""
    queries = embed(own)
    if name != "Tanimoto":
        found = Nearest(queries, NEAREST)
        for first in range(0, len(train), 8 * CHUNK):
            some = embed(train[first : first + 8 * CHUNK])
            found.add(torch.arange(first, first + len(some)), some)
        return found.rows
    parts = []
    for first in range(0, len(train), 8 * CHUNK):
        some = embed(train[first : first + 8 * CHUNK])
        shared = queries @ some.T
        parts.append(shared / (queries.sum(1, keepdim=True) + some.sum(1) - shared).clamp(min=1))
    return torch.cat(parts, dim=1).topk(NEAREST, dim=1).indices


# -- comparison ---------------------------------------------------------------------------------------------------


def compared(left: Graphs, right: Graphs, features: dict[str, Features], seed: int) -> dict[str, Any]:
    """Correlations with the edit distance, and quartiles of each distance by it; equal molecules are left out."""
    edits = edit_distances(left, right)
    different = (edits > 0).nonzero().flatten()
    left, right, edits = left[different], right[different], edits[different]
    found = {name: distance(name, embed(left), embed(right)) for name, embed in features.items()}
    return {
        "pairs": len(edits),
        "mean_ged": edits.double().mean().item(),
        "spearman": {name: correlation(values.numpy(), edits.numpy(), seed) for name, values in found.items()},
        "by_ged": [
            {
                "ged": int(ged),
                "pairs": int((edits == ged).sum()),
                **{
                    name: np.quantile(values[edits == ged].numpy(), [0.25, 0.5, 0.75]).round(4).tolist()
                    for name, values in found.items()
                },
            }
            for ged in edits.unique()
        ],
    }


def correlation(values: Any, edits: Any, seed: int) -> dict[str, float]:
    """Spearman's rank correlation, and its standard error over resampled pairs."""
    drawn = np.random.default_rng(seed).integers(len(edits), size=(RESAMPLED, len(edits)))
    again = [spearmanr(values[rows], edits[rows]).statistic for rows in drawn]
    return {"rho": float(spearmanr(values, edits).statistic), "error": float(np.std(again))}


def plot(result: dict[str, Any], file: Path) -> None:
    """Draw one panel for each distance: its median and quartiles by edit distance, for each kind of pairs."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    colours = {"random": "#0072b2", "moves": "#d55e00", "nearest": "#009e73"}
    names = [name for name in result["kinds"]["random"]["spearman"] if name != "atoms and bonds"]
    with mpl.rc_context({"svg.hashsalt": "ele", "font.size": 9}):
        figure = Figure(figsize=(2.9 * len(names), 3.6), layout="constrained")
        for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
            for kind, found in result["kinds"].items():
                rows = [row for row in found["by_ged"] if row["pairs"] >= 10]
                edits = [row["ged"] for row in rows]
                low, middle, high = zip(*(row[name] for row in rows), strict=True)
                rho = found["spearman"][name]["rho"]
                axes.fill_between(edits, low, high, color=colours[kind], alpha=0.15, linewidth=0)
                axes.plot(edits, middle, "o-", markersize=3, color=colours[kind], label=f"{kind}, ρ = {rho:.2f}")
            axes.set(title=name, xlabel="graph edit distance", ylim=(0, None), xlim=(0, None))
            axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.2))
        figure.axes[0].set_ylabel("distance: median, quartiles")
        figure.savefig(file, metadata={"Date": None})


if __name__ == "__main__":
    main()
