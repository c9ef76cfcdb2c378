"""`check_index`: the laws of searches for the nearest of many vectors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ele_core.interfaces import Index
from ele_core.runtime.context import Context
from ele_core.testing.results import Check, CheckResult, after, laws_in, require, run_checks
from ele_core.types import StoredVectors

COUNT, DIM, GROUPS = 3000, 12, 40
"""Vectors of the sample, their dimension, and the centres around which they lie."""
QUERIES, NEAREST = 24, 5
RECALL = 0.8
"""The least share of the nearest vectors that a search finds."""


def sample_vectors() -> StoredVectors:
    """Vectors in groups, as embeddings are, kept in half precision."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(GROUPS, DIM, generator=generator)
    near = centres[torch.randint(GROUPS, (COUNT,), generator=generator)]
    return StoredVectors((near + 0.3 * torch.randn(COUNT, DIM, generator=generator)).half())


def sample_queries(index: Index) -> Tensor:
    """Points near some of the vectors."""
    rows = torch.arange(0, len(index.vectors), max(1, len(index.vectors) // QUERIES))
    noise = torch.randn(len(rows), index.vectors.dim, generator=torch.Generator().manual_seed(1))
    return index.vectors[rows] + 0.05 * noise


def built(index: Index) -> Index:
    """The index, built."""
    index.build(Context())
    return index


def check_index_distances_are_true(index: Index) -> None:
    """Rows are different ones of the vectors, nearest first, and distances are theirs."""
    queries = sample_queries(index)
    distances, rows = index.search(queries, NEAREST)
    shape = (len(queries), NEAREST)
    require(distances.shape == shape and rows.shape == shape, f"{NEAREST} neighbours of {len(queries)} have {shape}")
    require(rows.dtype == torch.int64, f"rows are {rows.dtype}, not int64")
    require(bool(((rows >= 0) & (rows < len(index.vectors))).all()), "a row is that of no vector")
    require(bool((distances.diff(dim=1) >= 0).all()), "distances do not ascend")
    require(all(len(set(own)) == NEAREST for own in rows.tolist()), "a row is found twice for one query")
    true = (queries[:, None] - index.vectors[rows.flatten()].view(*shape, -1)).square().sum(dim=2)
    require(torch.allclose(distances, true, atol=1e-4), "distances are not those of the vectors")


@after(check_index_distances_are_true)
def check_index_finds_the_nearest(index: Index) -> None:
    """Most of the nearest vectors are found."""
    queries, every = sample_queries(index), index.vectors[:]
    nearest = (queries[:, None] - every).square().sum(dim=2).topk(NEAREST, dim=1, largest=False).indices
    found = index.search(queries, NEAREST)[1]
    share = (found[:, :, None] == nearest[:, None]).any(dim=2).float().mean().item()
    require(share >= RECALL, f"{share:.0%} of the {NEAREST} nearest vectors are found")


@after(check_index_distances_are_true)
def check_index_searches_are_independent(index: Index) -> None:
    """What is found for a query depends neither on other queries nor on earlier searches."""
    queries = sample_queries(index)
    together = index.search(queries, NEAREST)[1]
    alone = torch.cat([index.search(query[None], NEAREST)[1] for query in queries])
    require(torch.equal(together, alone), "a query finds other rows if it is searched alone")
    require(torch.equal(together, index.search(queries, NEAREST)[1]), "a second search finds other rows")


@after(check_index_distances_are_true)
def check_index_takes_any_number(index: Index) -> None:
    """No queries find nothing; of more neighbours than there are vectors, the missing ones have infinite distances."""
    distances, rows = index.search(sample_queries(index)[:0], NEAREST)
    require(distances.shape == (0, NEAREST) and rows.shape == (0, NEAREST), "no queries do not give (0, k)")
    few = type(index)(index.config, StoredVectors(index.vectors[: NEAREST - 1]))
    distances, rows = built(few).search(sample_queries(few), NEAREST)
    require(distances.shape[1] == NEAREST, "there are not k columns if there are fewer than k vectors")
    require(bool(distances[:, -1].isinf().all()), "the distance of a missing neighbour is not infinite")
    require(bool(distances[:, :-1].isfinite().all()), "few vectors are not all found")


@after(check_index_distances_are_true)
def check_index_state_is_all_it_knows(index: Index) -> None:
    """An index with the `state` of another finds the same; one of other vectors is refused with a `ValueError`."""
    state = {name: tensor.clone() for name, tensor in index.state().items()}
    other = type(index)(index.config, index.vectors)
    other.restore(state)
    queries = sample_queries(index)
    same = torch.equal(index.search(queries, NEAREST)[1], other.search(queries, NEAREST)[1])
    require(same, "an index with the state of another finds other rows")
    if state:
        fewer = type(index)(index.config, StoredVectors(index.vectors[: COUNT // 2]))
        try:
            fewer.restore(state)
        except ValueError:
            return
        require(False, "the state of an index of other vectors is not refused")


INDEX_CHECKS: tuple[Check, ...] = laws_in(globals(), "check_index_")


def check_index(index: Index, expected_failures: Mapping[str, str] | None = None) -> list[CheckResult]:
    """Run every check of an index, which is built first. `expected_failures`: check → reason."""
    return run_checks(INDEX_CHECKS, (built(index),), expected_failures)
