"""Indexes: the laws of both, what a state must be, and faiss and torch in one process."""

import pytest
import torch

from ele_core import Context, Index
from ele_core.components.indexes.exact import ExactIndex
from ele_core.components.indexes.inverted import InvertedIndex
from ele_core.testing import check_index
from ele_core.testing.indexes import sample_queries, sample_vectors
from ele_core.types import StoredVectors


def inverted(vectors, **options) -> Index:
    options = {"code": 8, **options}
    index = InvertedIndex(InvertedIndex.Config(**options), vectors)
    index.build(Context())
    return index


@pytest.mark.parametrize(
    "index", [ExactIndex(None, sample_vectors()), InvertedIndex(InvertedIndex.Config(code=8), sample_vectors())]
)
def test_the_laws_hold(index):
    results = check_index(index)
    assert [(each.name, each.explanation) for each in results if not each.ok] == []


class OffByOne(ExactIndex):
    def search(self, queries, k):
        distances, rows = super().search(queries, k)
        return distances, (rows + 1) % len(self.vectors)


def test_the_laws_find_a_search_that_is_off_by_one():
    failed = [each.name for each in check_index(OffByOne(None, sample_vectors())) if each.status == "failed"]
    assert failed == ["check_index_distances_are_true"]


def test_a_linear_map_of_the_vectors_is_searched():
    stored = sample_vectors().stored
    matrix = torch.randn(stored.shape[1], 7, generator=torch.Generator().manual_seed(2))
    vectors = StoredVectors(stored, matrix)
    queries = vectors[::300] + 0.01
    expected = ExactIndex(None, StoredVectors(stored.float() @ matrix)).search(queries, 3)
    for index in (ExactIndex(None, vectors), inverted(vectors)):
        distances, rows = index.search(queries, 3)
        assert torch.equal(rows, expected[1])
        torch.testing.assert_close(distances, expected[0])


def test_codes_find_what_lists_and_ranks_are_asked_for():
    vectors = sample_vectors()
    exact = ExactIndex(None, vectors).search(sample_queries(inverted(vectors)), 10)[1]
    wide, narrow = inverted(vectors, ranked=400), inverted(vectors, code=2, probes=1, ranked=10)
    shares = [(each.search(sample_queries(each), 10)[1] == exact).float().mean() for each in (wide, narrow)]
    assert shares[0] > 0.99 > 0.9 > shares[1]


def test_more_lists_and_ranks_than_there_are_mean_all():
    vectors = sample_vectors()
    all_ranked = inverted(vectors, probes=10**20, ranked=10**20)
    queries = sample_queries(all_ranked)
    assert torch.equal(all_ranked.search(queries, 10)[1], ExactIndex(None, vectors).search(queries, 10)[1])


def test_the_main_directions_of_many_dimensions_are_coded():
    generator = torch.Generator().manual_seed(4)
    spread = torch.cat([torch.linspace(2, 1, 16), torch.full((184,), 0.02)])
    rotation = torch.linalg.qr(torch.randn(200, 200, generator=generator)).Q
    vectors = StoredVectors((torch.randn(3000, 200, generator=generator) * spread @ rotation).half())
    index = inverted(vectors)
    projection = index.state()["projection"]
    torch.testing.assert_close(projection.T @ projection, torch.eye(32), atol=1e-5, rtol=0)
    shares = (vectors[:] @ projection).var(dim=0).view(8, 4).sum(dim=1)  # of the bytes of a code
    assert shares.max() < 1.5 * shares.min()
    assert shares.sum() > 0.98 * vectors[:].var(dim=0).sum()
    queries = vectors[::100] + 0.01
    assert torch.equal(index.search(queries, 1)[1], ExactIndex(None, vectors).search(queries, 1)[1])


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("rows", lambda rows: rows + 1, "rows that do not exist"),
        ("sizes", lambda sizes: sizes + 1, "do not hold all vectors"),
        ("codes", lambda codes: codes[1:], "do not have the shapes"),
        ("words", lambda words: words.double(), "do not have the shapes"),
        ("projection", lambda projection: projection[1:], "do not have the shapes"),
        ("centres", None, "there is no 'centres'"),
    ],
)
def test_a_state_that_is_none_is_refused(name, change, words):
    state = inverted(sample_vectors()).state()
    state = {**state, name: change(state[name])} if change else {key: state[key] for key in state if key != name}
    with pytest.raises(ValueError, match=words):
        InvertedIndex(InvertedIndex.Config(code=8), sample_vectors()).restore(state)


def test_faiss_and_torch_work_in_turns_with_several_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        index = inverted(sample_vectors())
        for _ in range(3):
            queries = sample_queries(index) @ torch.eye(index.vectors.dim)
            assert torch.equal(index.search(queries, 1)[1], ExactIndex(None, index.vectors).search(queries, 1)[1])
            assert torch.randn(300, 300).mm(torch.randn(300, 300)).isfinite().all()
    finally:
        torch.set_num_threads(before)
