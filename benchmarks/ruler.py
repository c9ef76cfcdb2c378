"""A lower bound for candidate decoding: the mean edit distance from a test molecule to its nearest training molecule.

    python benchmarks/ruler.py [--sample N] [--seed S] [--output FILE]

No choice among the training outputs can do better. The search is exact: molecules are tried in the order of a lower
bound from their counts of atoms and bonds, until the bound reaches the best distance found.
"""

import time

import torch
from common import machine, parser_of, show, today

from ele_core.data.dataset import DataSet
from ele_core.runtime.context import Context
from ele_core.runtime.monitor import ConsoleMonitor
from ele_graphs.ged import edit_distances
from ele_graphs.graphs.batch import Graphs
from ele_graphs.molecules.space import MoleculeSpace
from ele_graphs.smi2mol.task import SmilesToMolecule


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--sample", type=int, default=100, help="test molecules (default 100)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the split (default 0)")
    options = parser.parse_args()
    context = Context(options.seed, monitor=ConsoleMonitor())
    data = SmilesToMolecule().load(MoleculeSpace(), context)
    started = time.monotonic()
    result = {
        "command": f"python benchmarks/ruler.py --sample {options.sample} --seed {options.seed}",
        "date": today(),
        "sample": options.sample,
        "seed": options.seed,
        "sizes": {"train": len(data.train), "validation": len(data.validation), "test": len(data.test)},
        "ged_with_edges": mean_nearest(data, options.sample, context, edge_labels=True),
        "ged_without_edges": mean_nearest(data, options.sample, context, edge_labels=False),
        "seconds": round(time.monotonic() - started, 1),
        "machine": machine(torch.get_num_threads()),
    }
    show(result, options.output)


def mean_nearest(data: DataSet, sample: int, context: Context, *, edge_labels: bool) -> float:
    """The mean distance of the first `sample` test molecules to their nearest training molecule."""
    train = data.outputs[data.train]
    counts = histograms(train, edge_labels)
    rows = data.test[:sample].tolist()
    found = [
        nearest(data.outputs[[row]], train, counts, edge_labels)
        for row in context.monitor.progress(rows, description="nearest training molecule")
    ]
    return sum(found) / len(found)


def nearest(graph: Graphs, train: Graphs, counts: tuple[torch.Tensor, torch.Tensor], edge_labels: bool) -> int:
    """The least distance from one graph to any of `train`."""
    bound = sum(map(multiset_distance, histograms(graph, edge_labels), counts))
    best = int(bound.max()) + 1
    for level in bound.unique().tolist():
        if level >= best:
            break
        others = train[(bound == level).nonzero().flatten()]
        same = graph[torch.zeros(len(others), dtype=torch.long)]
        best = min(best, int(edit_distances(same, others, edge_labels=edge_labels).min()))
    return best


def histograms(graphs: Graphs, edge_labels: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """How often each node label and each edge label occurs: (B, T), (B, S)."""
    edges = graphs.edges if edge_labels else (graphs.edges > 0).to(graphs.edges.dtype)
    nodes = torch.stack([(graphs.nodes == label).sum(dim=1) for label in range(1, 5)], dim=1)
    return nodes, torch.stack([(edges == label).sum(dim=(1, 2)) // 2 for label in range(1, 4)], dim=1)


def multiset_distance(one: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """Insertions, deletions and relabellings between multisets of labels: a lower bound of the edit distance."""
    shared = torch.minimum(one, others).sum(dim=1)
    return torch.maximum(one.sum(dim=1), others.sum(dim=1)) - shared


if __name__ == "__main__":
    main()
