"""Words are read in any case."""

from __future__ import annotations

import torch

from ele_sequences.g2p.spelling import SpellingInput

WORDS = ["PHONE", "FIX", "TOE", "HOPE"]


def fitted(upper):
    inputs = SpellingInput(SpellingInput.Config(upper=upper))
    inputs.fit(WORDS)
    return inputs


def test_words_are_packed_alike_in_any_case_and_are_not_unlike_training():
    inputs = fitted(upper=True)
    small, large = inputs.pack(["phone", "Fix"]), inputs.pack(["PHONE", "FIX"])
    assert torch.equal(small.tokens, large.tokens)
    assert torch.equal(small.windows, large.windows)
    assert inputs.unlike_training(["phone"]) == [""]


def test_without_the_option_the_case_matters():
    inputs = fitted(upper=False)
    assert not torch.equal(inputs.pack(["phone"]).tokens, inputs.pack(["PHONE"]).tokens)
    assert inputs.unlike_training(["phone"]) != [""]
