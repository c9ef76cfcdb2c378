"""Splits, batches, and sets of keys."""

import pytest
import torch

from ele_core.data.batches import ShuffledBatches
from ele_core.data.dataset import split
from ele_core.errors import DataError
from ele_core.numerics.keys import distinct, member
from ele_core.runtime.context import Context


def epoch_batches(count, size, context, stage, epoch, sizes=None):
    """The batches of one epoch."""
    batches, per_epoch = ShuffledBatches(count, size, context, stage, sizes), -(-count // size)
    return [batches.draw() for _ in range((epoch + 1) * per_epoch)][-per_epoch:]


def test_a_split_covers_every_row_once_and_follows_its_seed():
    parts = split(100, 0.1, 20, seed=3)
    assert [len(part) for part in parts] == [70, 10, 20]
    assert torch.cat(parts).sort().values.tolist() == list(range(100))
    assert torch.equal(parts[0], split(100, 10, 20, seed=3)[0])
    assert not torch.equal(parts[0], split(100, 10, 20, seed=4)[0])


def test_a_share_that_is_asked_for_has_at_least_one_row():
    assert [len(part) for part in split(5, 0.05, 0.01, seed=0)] == [3, 1, 1]
    assert [len(part) for part in split(5, 0, 0, seed=0)] == [5, 0, 0]


def test_a_split_that_leaves_nothing_to_train_on_is_refused():
    with pytest.raises(DataError, match="leave some to train on"):
        split(10, 5, 5, seed=0)


def test_an_epoch_visits_every_row_once_and_depends_on_seed_stage_and_epoch():
    context = Context(seed=1)
    rows = epoch_batches(103, 10, context, "regression", 0)
    assert torch.cat(rows).sort().values.tolist() == list(range(103))
    again = epoch_batches(103, 10, Context(seed=1), "regression", 0)
    assert all(map(torch.equal, rows, again))
    for other in (
        epoch_batches(103, 10, Context(seed=2), "regression", 0),
        epoch_batches(103, 10, context, "embedding", 0),
        epoch_batches(103, 10, context, "regression", 1),
    ):
        assert not torch.equal(torch.cat(rows), torch.cat(other))


def test_bucketed_batches_hold_like_lengths_in_random_order():
    sizes = torch.randint(1, 60, (2000,), generator=torch.Generator().manual_seed(0))
    rows = epoch_batches(2000, 20, Context(), "regression", 0, sizes)
    spread = torch.stack([(sizes[batch].max() - sizes[batch].min()).float() for batch in rows]).mean()
    plain = epoch_batches(2000, 20, Context(), "regression", 0)
    random_spread = torch.stack([(sizes[batch].max() - sizes[batch].min()).float() for batch in plain]).mean()
    assert spread < random_spread / 10
    lengths = torch.stack([sizes[batch].float().mean() for batch in rows])
    assert not torch.equal(lengths, lengths.sort().values)
    assert torch.cat(rows).sort().values.tolist() == list(range(2000))


def test_batches_are_those_of_one_epoch_after_the_other():
    context = Context(seed=1)
    source = ShuffledBatches(23, 5, context, "regression")
    drawn = [source.draw() for _ in range(10)]
    expected = [torch.randperm(23, generator=context.generator("regression", "epoch", epoch)) for epoch in (0, 1)]
    assert torch.equal(torch.cat(drawn), torch.cat(expected))


@pytest.mark.parametrize("drawn", [0, 1, 4, 5, 12])
@pytest.mark.parametrize("sizes", [None, torch.arange(23)])
def test_batches_go_on_from_a_kept_state_as_if_they_had_not_stopped(drawn, sizes):
    undisturbed, other = (ShuffledBatches(23, 5, Context(seed=1), "regression", sizes) for _ in range(2))
    for _ in range(drawn):
        undisturbed.draw()
    other.draw()  # where it stood before does not matter
    other.restore(undisturbed.state())
    assert all(torch.equal(undisturbed.draw(), other.draw()) for _ in range(12))


def test_distinct_keeps_the_first_of_equal_keys_in_order():
    keys = torch.tensor([[1, 1], [2, 0], [1, 1], [0, 2], [2, 0]])
    assert distinct(keys).tolist() == [0, 1, 3]
    assert distinct(keys[:0]).tolist() == []


def test_member_compares_both_halves_of_a_key():
    keys = torch.tensor([[1, 1], [1, 2], [3, 3]])
    assert member(keys, of=torch.tensor([[1, 2], [3, 1]])).tolist() == [False, True, False]
    assert member(keys, of=keys[:0]).tolist() == [False, False, False]
