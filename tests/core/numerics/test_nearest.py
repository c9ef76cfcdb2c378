"""The running search for nearest rows finds what comparing everything finds, however the rows are cut into chunks."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ele_core.numerics import nearest
from ele_core.numerics.nearest import Nearest, squared_distances


def searched(queries, rows, k, sizes):
    found, first = Nearest(queries, k), 0
    for size in [*sizes, len(rows)]:
        found.add(torch.arange(first, min(first + size, len(rows))), rows[first : first + size])
        first = min(first + size, len(rows))
    return found


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    count=st.integers(1, 60),
    k=st.integers(1, 12),
    sizes=st.lists(st.integers(0, 20), max_size=5),
)
def test_chunks_do_not_change_what_is_found(seed, count, k, sizes):
    generator = torch.Generator().manual_seed(seed)
    queries, rows = torch.randn(5, 4, generator=generator), torch.randn(count, 4, generator=generator)
    found = searched(queries, rows, k, sizes)
    expected = squared_distances(queries, rows).sort(dim=1)
    assert torch.equal(found.rows, expected.indices[:, :k])
    torch.testing.assert_close(found.distances, expected.values[:, :k])


def test_of_equally_near_rows_the_first_come_first():
    rows = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    for sizes in ([], [1], [2], [3], [1, 1, 1]):
        assert searched(torch.zeros(1, 2), rows, 4, sizes).rows.tolist() == [[0, 1, 2, 3]]


def test_a_row_far_from_the_origin_has_distance_zero_from_itself():
    rows = 1000 + torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
    found = searched(rows[7:8], rows, 2, [10])
    assert found.rows[0, 0] == 7
    assert found.distances[0, 0] == 0 < found.distances[0, 1]


def test_queries_are_compared_in_blocks_that_bound_the_memory(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    queries, rows = torch.randn(30, 4, generator=generator), torch.randn(20, 4, generator=generator)
    whole = searched(queries, rows, 3, [])
    monkeypatch.setattr(nearest, "CELLS", 100)
    assert torch.equal(searched(queries, rows, 3, []).rows, whole.rows)
    torch.testing.assert_close(squared_distances(queries, rows), torch.cdist(queries, rows).square())


def test_no_queries_and_no_rows_are_fine():
    assert searched(torch.zeros(0, 2), torch.zeros(3, 2), 2, []).rows.shape == (0, 0)
    assert searched(torch.zeros(3, 2), torch.zeros(0, 2), 2, []).rows.shape == (3, 0)
    assert squared_distances(torch.zeros(0, 2), torch.zeros(3, 2)).shape == (0, 3)
