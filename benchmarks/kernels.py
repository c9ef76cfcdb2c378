"""Graph kernels: our features against GraKeL's Gram matrices on molecules of QM9, and how long all of QM9 takes.

    python benchmarks/kernels.py [--grakel PYTHON] [--output FILE]

GraKeL is not a dependency of ELE: `--grakel` names a Python that has it. Without one, nothing is compared.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ele_core.numerics.sparse import Products, SparseRows
from ele_core.runtime.context import Context
from ele_graphs.graphs.batch import Graphs, to_lists
from ele_graphs.graphs.wl import core_wl_features, wl_features
from ele_graphs.molecules.space import MoleculeSpace
from ele_graphs.smi2mol.task import SmilesToMolecule

KERNELS = {"wl": wl_features, "core-wl": core_wl_features}
CHUNK = 2048
HERE = sys.executable if find_spec("grakel") else None

GRAKEL = """
import json, sys, time
import grakel, numpy
from grakel.kernels import CoreFramework, VertexHistogram, WeisfeilerLehman

graphs = []
for labels, bonds in json.load(sys.stdin):
    adjacency = numpy.zeros((len(labels), len(labels)))
    for i, j, _ in bonds:
        adjacency[i, j] = adjacency[j, i] = 1
    graphs.append(grakel.Graph(adjacency, node_labels=dict(enumerate(labels))))
answer = {"version": grakel.__version__}
for normalise in (False, True):
    wl = WeisfeilerLehman(normalize=normalise, base_graph_kernel=VertexHistogram)
    core = CoreFramework(normalize=normalise, base_graph_kernel=WeisfeilerLehman)
    for name, kernel in (("wl", wl), ("core-wl", core)):
        start = time.process_time()
        gram = kernel.fit_transform(graphs)
        seconds = time.process_time() - start
        answer[f"{name} {normalise}"] = {"gram": gram.tolist(), "seconds": seconds}
json.dump(answer, sys.stdout)
"""


def main() -> None:
    """Compare, measure, print the result, and write it to `--output`."""
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    data = SmilesToMolecule().load(MoleculeSpace(), Context())
    outputs = data.outputs[data.train]
    sample = outputs[torch.randperm(len(outputs), generator=torch.Generator().manual_seed(0))[: arguments.sample]]
    theirs = ask_grakel(arguments.grakel, sample) if arguments.grakel else {"version": None}
    result = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": "python benchmarks/kernels.py --grakel PYTHON",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "grakel": theirs.pop("version"),
        "machine": platform.machine(),
        "threads": arguments.threads,
        "iterations": 5,
        "agreement": compare(sample, theirs),
        "all": [measure(name, outputs) for name in KERNELS],
    }
    print(json.dumps(result, indent=2))
    if arguments.output:
        arguments.output.write_text(json.dumps(result, indent=2) + "\n")


def ask_grakel(python: str, sample: Graphs) -> dict[str, Any]:
    """Compute GraKeL's Gram matrices of the sample with the given Python."""
    asked = subprocess.run([python, "-c", GRAKEL], input=json.dumps(to_lists(sample)), capture_output=True, text=True)
    if asked.returncode:
        sys.exit(f"GraKeL failed: {asked.stderr.strip().splitlines()[-1]}")
    return json.loads(asked.stdout)


def compare(sample: Graphs, theirs: dict[str, Any]) -> list[dict[str, Any]]:
    """The greatest difference between our matrices and GraKeL's, and the CPU seconds both took."""
    rows = []
    for key, answer in theirs.items():
        name, normalise = key.split()
        start = time.process_time()
        features = KERNELS[name](sample).double()
        features = features.normalised() if normalise == "True" else features
        ours = Products(features)(features).numpy()
        seconds = time.process_time() - start
        difference = float(np.abs(ours - np.array(answer["gram"])).max())
        rows.append(
            {
                "kernel": name,
                "normalised": normalise == "True",
                "molecules": len(sample),
                "greatest_difference": difference,
                "greatest_value": float(ours.max()),
                "ours_cpu_seconds": round(seconds, 3),
                "grakel_cpu_seconds": round(answer["seconds"], 3),
            }
        )
    return rows


def measure(name: str, outputs: Graphs) -> dict[str, Any]:
    """The features of all molecules, and the CPU seconds they took."""
    start = time.process_time()
    features = SparseRows.cat(KERNELS[name](part) for part in outputs.chunks(CHUNK))
    seconds = time.process_time() - start
    return {
        "kernel": name,
        "molecules": len(outputs),
        "cpu_seconds": round(seconds, 2),
        "colours": len(features.keys.unique()),
        "colours_of_a_molecule": round(len(features.keys) / len(features), 1),
    }


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grakel", default=HERE, help="a Python that can import grakel (default: this one if it can)")
    parser.add_argument("--sample", type=int, default=500, help="molecules to compare on (default 500)")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (default 1)")
    parser.add_argument("--output", type=Path, help="write the result as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    main()
