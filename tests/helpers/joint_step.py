"""Run by torchrun: compare the gradient of one contrastive step on several processes with that of the joint batch.

Every process prints the largest difference, relative to the largest entry.
"""

from __future__ import annotations

import sys

import torch

from ele_core.components.surrogates.contrastive import ContrastiveSurrogate, different
from ele_core.components.training.optimise import Objective
from ele_core.plugins import registry
from ele_core.runtime.context import Context
from ele_core.runtime.distributed import Processes, process_group
from ele_core.types import Choice

OUTPUT = Choice(name="sequence", alphabet=list("0123456789"), length=6)


def losses(surrogate, batch, views, processes: Processes) -> torch.Tensor:
    """The loss of each row, as the contrastive stage computes it from given views."""
    anchors, own = (surrogate.embed_at(surrogate.space.relax(part)) for part in (batch, views))
    keys = surrogate.space.keys(batch)
    negative = different(keys, processes.gather(keys))
    first = processes.first(len(batch))
    return surrogate.config.loss(anchors, processes.gather_with_gradient(own), negative, first)


def gradient(surrogate, batch, views, processes: Processes) -> torch.Tensor:
    """The gradient of the mean loss over the joint batch, each process with its share of the rows."""

    def loss(rows, _):
        return losses(surrogate, batch[rows], views[rows], processes)

    surrogate.encoder.zero_grad()
    own = processes.share(torch.arange(len(batch)))
    objective = processes.parallel(Objective(surrogate.encoder, loss))
    (objective(own, torch.Generator()).sum() * processes.count / len(batch)).backward()
    return torch.cat([parameter.grad.flatten() for parameter in surrogate.encoder.parameters()]).clone()


def main() -> None:
    torch.manual_seed(0)
    space = registry().create("output", OUTPUT)
    surrogate = ContrastiveSurrogate(ContrastiveSurrogate.Config(dim=8), space)
    batch = space.pack([str(number) for number in range(100, 111)] + ["100", "105"])  # 13 rows: shares differ in size
    views = space.augment(batch, Context().generator("views"))
    joint = gradient(surrogate, batch, views, Processes())
    with process_group() as processes:
        assert processes.count > 1
        shared = gradient(surrogate, batch, views, processes)
        print(f"difference {(shared - joint).abs().max() / joint.abs().max():.3e}", flush=True)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
