"""Packing many objects: what is accepted and refused, and that bad objects cost a constant number of times each."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ele_core.components.inputs.text import TextInput
from ele_core.components.inputs.tokens import Tokens
from ele_core.data.objects import PACKED_AT_ONCE, accept
from ele_core.errors import InvalidInput
from ele_core.numerics.tensors import Tensors


@dataclass(frozen=True, eq=False)
class Numbers(Tensors):
    values: Tensor


class Counting:
    """Packs numbers; refuses the first that is negative. Counts its calls and the objects it was given."""

    def __init__(self) -> None:
        self.calls = self.objects = 0

    def __call__(self, values):
        self.calls += 1
        self.objects += len(values)
        for index, value in enumerate(values):
            if value < 0:
                raise InvalidInput("negative", index=index)
        return Numbers(torch.tensor(values))


@given(st.lists(st.integers(-1, 3), max_size=50))
def test_what_is_valid_is_packed_in_order_and_the_rest_has_reasons(values):
    packed, accepted, refused = accept(values, Counting())
    assert accepted == [place for place, value in enumerate(values) if value >= 0]
    assert refused == [(place, "negative") for place, value in enumerate(values) if value < 0]
    found = torch.cat([batch.values for batch in packed]).tolist() if packed else []
    assert found == [value for value in values if value >= 0]


@pytest.mark.parametrize("every", [1, 2, 3, 7, 100, 1000, 5000])
def test_bad_objects_cost_linear_work_however_many_there_are(every):
    values = [-1 if place % every == 0 else 1 for place in range(5 * PACKED_AT_ONCE)]
    pack = Counting()
    _, accepted, refused = accept(values, pack)
    assert len(accepted) + len(refused) == len(values)
    assert pack.objects <= 4 * len(values)
    assert pack.calls <= len(values) + PACKED_AT_ONCE


def test_long_texts_are_refused_before_they_are_cut_into_tokens(monkeypatch):
    inputs = TextInput()
    inputs.fit(["short", "texts"])
    encoded = []
    monkeypatch.setattr(Tokens, "encode", lambda _, texts: encoded.extend(texts) or iter(()))
    with pytest.raises(InvalidInput, match="input 1: the text has 5000 tokens, and the limit is 10"):
        inputs.pack(["short", "x" * 5000])
    assert encoded == []
