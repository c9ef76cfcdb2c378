"""What a kernel on inputs compares: short runs of tokens for texts, the numbers themselves for everything else."""

from __future__ import annotations

import torch

from ele_core.components.inputs.text import Texts
from ele_core.numerics.keys import mix
from ele_core.numerics.sparse import SparseRows
from ele_core.numerics.tensors import Tensors


def input_features(batch: Tensors, grams: int) -> SparseRows:
    """φ(x): counts of runs of one to `grams` tokens for texts; any other batch, flattened."""
    if isinstance(batch, Texts):
        return gram_counts(batch, grams)
    flat = [tensor.flatten(start_dim=1) if tensor.dim() > 1 else tensor[:, None] for _, tensor in batch.named_tensors()]
    return SparseRows.dense(torch.cat([part.float() for part in flat], dim=1))


def gram_counts(texts: Texts, longest: int) -> SparseRows:
    """How often each run of one to `longest` tokens occurs in each text: the features of the spectrum kernel.

    The key of a run is a hash of its tokens in their order.
    """
    texts = texts.trimmed()
    tokens = mix(texts.tokens.long())
    runs = torch.zeros_like(tokens)
    keys, present = [], []
    for length in range(1, min(longest, tokens.shape[1]) + 1):
        width = tokens.shape[1] - length + 1
        runs = mix(runs[:, :width] * 2 + tokens[:, length - 1 :] + length)
        keys.append(runs)
        present.append(texts.mask[:, length - 1 :])
    return SparseRows.counted(torch.cat(keys, dim=1), torch.cat(present, dim=1))
