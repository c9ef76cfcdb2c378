"""Run by torchrun: compare the gradient of one contrastive step on several processes with that of the joint batch.

An argument is the number of structures that the processes encode at once. Every process prints the largest difference,
relative to the largest entry.
"""

from __future__ import annotations

import sys

import torch

from ele_core.components.surrogates.contrastive import ContrastiveSurrogate
from ele_core.components.training.optimise import Objective
from ele_core.plugins import registry
from ele_core.runtime.context import Context
from ele_core.runtime.distributed import Processes, process_group
from ele_core.types import Choice

OUTPUT = Choice(name="sequence", alphabet=list("0123456789"), length=6)


def gradient(surrogate, batch, views, processes: Processes) -> torch.Tensor:
    """The gradient of the mean loss over the joint batch, each process with its share of the rows."""

    def loss(rows, generator):
        return surrogate.losses(batch[rows], views[rows], generator, Context(processes=processes))

    surrogate.encoder.zero_grad()
    own = processes.share(torch.arange(len(batch)))
    objective = processes.parallel(Objective(surrogate.encoder, loss))
    (objective(own, torch.Generator()).sum() * processes.count / len(batch)).backward()
    return torch.cat([parameter.grad.flatten() for parameter in surrogate.encoder.parameters()]).clone()


def main() -> None:
    torch.manual_seed(0)
    space = registry().create("output", OUTPUT)
    chunk = int(sys.argv[1]) if len(sys.argv) > 1 else None
    surrogate = ContrastiveSurrogate(ContrastiveSurrogate.Config(dim=8), space)
    batch = space.pack([str(number) for number in range(100, 111)] + ["100", "105"])  # 13 rows: shares differ in size
    views = space.augment(batch, Context().generator("views"))
    joint = gradient(surrogate, batch, views, Processes())
    with process_group() as processes:
        assert processes.count > 1
        surrogate.config = surrogate.config.model_copy(update={"chunk": chunk})
        shared = gradient(surrogate, batch, views, processes)
        print(f"difference {(shared - joint).abs().max() / joint.abs().max():.3e}", flush=True)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
