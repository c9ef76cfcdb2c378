"""How often the truth is among the first k answers of a run, and whether equal inputs have different truths.

    python benchmarks/top_k.py RUN [--limit N] [--split NAME] [--k K] [--output FILE]

Decodes held-out inputs of RUN with its own decoder. An input is *shared* if another pair of the data set has the same
input and a different output: no method can always be right there. Their share is that of the whole split.
"""

import shlex
import sys
from typing import Any

import torch
from common import parser_of, show, today
from torch import Tensor

from ele_core import Context
from ele_core.numerics.keys import hash_rows
from ele_core.runs.run import Run
from ele_core.runtime.device import pick_device
from ele_core.runtime.monitor import ConsoleMonitor


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("run", help="a finished run")
    parser.add_argument("--limit", type=int, help="only the first N inputs")
    parser.add_argument("--split", choices=["test", "validation"], default="test", help="which inputs (default test)")
    parser.add_argument("--k", type=int, default=10, help="the number of answers (default 10)")
    options = parser.parse_args()
    result = measured(Run(options.run), options.split, options.limit, options.k)
    show(result, options.output)


def measured(run: Run, split: str, limit: int | None, k: int) -> dict[str, Any]:
    """Decode the first k answers, and return the shares of truths among them."""
    model = run.model()
    context = Context(run.config.seed, pick_device(model.config.device), ConsoleMonitor())
    prepared = run.data(context)
    data, space = prepared.data, model.space
    rows = getattr(data, split)[:limit]
    queries = model.regressor.predict(prepared.packed[rows])
    found = model.decode(queries, top_k=k, context=context)
    keys = space.keys(data.outputs[rows])
    right = (space.keys(found.structures).view(len(rows), k, -1) == keys[:, None]).all(dim=2)
    ambiguous = shared(prepared.packed, space.keys(data.outputs[:]))[getattr(data, split)]
    return {
        "command": shlex.join(["python", "benchmarks/top_k.py", *sys.argv[1:]]),
        "date": today(),
        "task": run.config.task.name if run.config.task else None,
        "source": data.source,
        "seed": run.config.seed,
        "split": split,
        "inputs": len(rows),
        "decoder": model.config.decoder.model_dump(mode="json"),
        "exact": {str(rank): right[:, :rank].any(dim=1).float().mean().item() for rank in range(1, k + 1)},
        "shared_inputs": ambiguous.float().mean().item(),
    }


def shared(packed: Any, keys: Tensor) -> Tensor:
    """(N,) bool: whether another pair has the same packed input, but another output."""
    inputs = hash_rows([tensor for _, tensor in packed.named_tensors()])
    _, group = inputs.unique(dim=0, return_inverse=True)
    outputs = torch.cat([group[:, None], keys], dim=1).unique(dim=0)
    return torch.bincount(outputs[:, 0], minlength=int(group.max()) + 1)[group] > 1


if __name__ == "__main__":
    main()
