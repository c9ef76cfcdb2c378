"""Keys of graphs, 128 bits each: equal for isomorphic graphs, whatever the order and the padding of their nodes."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import torch
from torch import Tensor

from ele_core import Context
from ele_core.numerics.keys import member, mix
from ele_graphs.graphs.batch import CompactGraphs, Graphs
from ele_graphs.threads import Flag, in_threads

ROWS = 2048  # graphs at a time: their matrices stay in the processor's cache
COMPILED_FROM = 1 << 19
"""Work, as graphs times size cubed, from which compiled keys pay."""
REFINEMENTS = 2


def graph_keys(graphs: Graphs | CompactGraphs) -> Tensor:
    """(B, 2) int64 keys of a discrete batch, in integer arithmetic modulo 2⁶⁴.

    1. Colours c of nodes, refined twice: c_i ← mix(c_i + Σ_j w(E_ij) c_j), with a random odd weight w for each label.
    2. Walks: M_ij = w(E_ij) · mix(c_i + c_j), P = Σ_k r_k Mᵏ for k up to n/2 + 1, with random r_k: a hash of the
       numbers of walks between two nodes, by length and labels; the diagonal of P² adds closed walks up to length n.
    3. The key is a sum over nodes of mix(c_i + mix(P_ii) + mix((P²)_ii) + Σ_j mix(P_ij + c_j)), for each of two salts.

    Isomorphic graphs always have equal keys. Different graphs have different keys unless labelled walks of all lengths
    cannot distinguish them: all graphs of up to 7 nodes and all molecules of QM9 are distinguished, strongly regular
    graphs with the same parameters (16 nodes or more) are not.
    """
    if graphs.device.type == "cpu" and pays(len(graphs), graphs.max_nodes):
        return _compiled_keys(graphs)
    parts = [_keys(graphs[start : start + ROWS]) for start in range(0, len(graphs), ROWS)]
    return torch.cat(parts) if parts else torch.zeros(0, 2, dtype=torch.int64, device=graphs.device)


def pays(graphs: int, size: int) -> bool:
    """Whether compiled keys of so many graphs of up to `size` nodes are worth the time to import the compiler."""
    return graphs * size**3 > COMPILED_FROM and find_spec("numba") is not None


def _compiled_keys(graphs: Graphs | CompactGraphs) -> Tensor:
    from ele_graphs.graphs.key_kernels import fill_keys

    keys = torch.zeros(len(graphs), 2, dtype=torch.int64)

    def fill(some: slice, _stop: Flag) -> None:
        part = graphs[some]
        fill_keys(part.nodes.numpy(), part.edges.numpy(), keys[some].numpy())

    in_threads(fill, len(graphs), ROWS)
    return keys


def refined(colours: Tensor, weights: Tensor) -> Tensor:
    """One step of Weisfeiler and Lehman: c_i ← mix(c_i + Σ_j w_ij c_j); colours (B, m), weights (B, m, m), int64."""
    return mix(colours + (weights * colours[:, None, :]).sum(dim=2))


def edge_weights(edges: Tensor) -> Tensor:
    """A fixed random odd number for each edge label."""
    table = mix(torch.arange(1000, 1128, device=edges.device)) | 1
    return table[edges.long()]


def _keys(graphs: Graphs) -> Tensor:
    real = graphs.real
    pairs = real[:, :, None] & real[:, None, :]
    # Virtual nodes have colour and weight zero and so drop out of every sum below: padding changes nothing.
    colours = mix(graphs.nodes.long()) * real
    weights = edge_weights(graphs.edges) * (pairs & (graphs.edges != 0))
    for _ in range(REFINEMENTS):
        colours = refined(colours, weights) * real
    walks = _walks(weights * (mix(colours[:, :, None] + colours[:, None, :]) | 1), graphs.sizes)
    closed = mix(walks.diagonal(dim1=1, dim2=2)) + mix((walks * walks.transpose(1, 2)).sum(dim=2) + 1)
    between = (mix(walks + colours[:, None, :]) * pairs).sum(dim=2)
    colours = mix(colours + closed + between)
    return torch.stack([mix((mix(colours + salt) * real).sum(dim=1) + salt) for salt in (1, 2)], dim=1)


def _walks(matrix: Tensor, sizes: Tensor) -> Tensor:
    """Σ_k r_k Mᵏ, k = 1…n/2 + 1, by Horner's rule; n is each graph's own size, so that padding changes nothing."""
    lengths = sizes // 2 + 1
    longest = int(lengths.max())
    steps = torch.arange(longest + 1, device=matrix.device)
    factors = mix(steps + 2000) * (steps <= lengths[:, None])
    result = matrix * factors[:, longest, None, None]
    for length in range(longest - 1, 0, -1):
        result.diagonal(dim1=1, dim2=2).add_(factors[:, length, None])
        result = _product(matrix, result)
    return result


def _product(left: Tensor, right: Tensor) -> Tensor:
    """The batched matrix product modulo 2⁶⁴: for small integer matrices four times as fast as torch.bmm."""
    result = left[:, :, 0, None] * right[:, 0, None, :]
    for inner in range(1, left.shape[2]):
        result += left[:, :, inner, None] * right[:, inner, None, :]
    return result


AT_ONCE = 1 << 16


def occurring(
    graphs: CompactGraphs,
    keys: Tensor,
    context: Context,
    description: str,
    key: Callable[[Graphs], Tensor] = graph_keys,
) -> Tensor:
    """(B,) bool: the graphs whose `key` is among `keys` (N, 2), with a progress bar named `description`."""
    starts = range(0, len(graphs), AT_ONCE)
    shown = context.monitor.progress(starts, description=description, total=len(starts))
    hits = [member(key(graphs[start : start + AT_ONCE]), of=keys) for start in shown]
    return torch.cat(hits) if hits else torch.zeros(0, dtype=torch.bool)
