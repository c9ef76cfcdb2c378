"""The regressor that counts tokens at the same runs of letters."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from linear import given_pairs

from ele_core import ConfigError, Context, TextInput
from ele_sequences.g2p import counts
from ele_sequences.g2p.counts import LEAST, RunCounts
from ele_sequences.g2p.space import PhonemeSpace
from ele_sequences.g2p.spelling import SpellingInput
from ele_sequences.g2p.surrogate import AlignedOdds

SPACE = PhonemeSpace(PhonemeSpace.Config(alphabet=("_", "F", "OW", "N", "K", "S", "T", "IH", "AH", "K+S"), length=6))
PAIRS = [
    ("PHONE", "F _ OW N _"),
    ("TONE", "T OW N _"),
    ("TON", "T AH N"),
    ("FIX", "F IH K+S"),
    ("FIST", "F IH S T"),
    ("NO", "N OW"),
    ("XX", "K S IH N"),
]
"""The last has more tokens than letters, so that it cannot be counted."""


def fitted(**options):
    inputs = SpellingInput(SpellingInput.Config(max_length=6))
    inputs.fit([word for word, _ in PAIRS])
    surrogate = AlignedOdds(AlignedOdds.Config(pairs=3), SPACE)
    made = RunCounts(RunCounts.Config(**options), inputs, surrogate)
    pairs = inputs.pack([word for word, _ in PAIRS]), SPACE.pack([spoken for _, spoken in PAIRS])
    made.fit(given_pairs(pairs, pairs), Context())
    return made


def expected(word, place, made):
    """The probabilities of labels by the formula, with counts in dictionaries."""
    options, symbols = made.config, made.odds.symbols
    seen = []
    for each, spoken in PAIRS[:-1]:
        labels = SPACE.pack([spoken]).tokens[0].tolist()
        seen += [(each, at, labels[at]) for at in range(len(each))]

    def run(text, at, a, b):
        padded = "." * 9 + text + "." * 9
        return padded[at + 9 - a : at + 9 + b + 1]

    def share(a, b):
        if (a, b) == (0, -1):
            every = Counter(label for *_, label in seen)
            return [every[label] / len(seen) for label in range(symbols)]
        smaller = [near for near in ((a - 1, b), (a, b - 1)) if near == (0, -1) or min(near) >= 0]
        priors = [share(*near) for near in smaller]
        count = Counter(label for text, at, label in seen if run(text, at, a, b) == run(word, place, a, b))
        rest = options.discount * len(count) + options.strength
        total = sum(count.values()) + options.strength
        return [
            (max(count[t] - options.discount, 0) + rest * sum(own[t] for own in priors) / len(priors)) / total
            for t in range(symbols)
        ]

    size = min(options.longest, 2 * options.reach)
    ends = [share(a, size - a) for a in range(size + 1) if max(a, size - a) <= options.reach]
    return torch.tensor([sum(column) / len(ends) for column in zip(*ends, strict=True)])


@pytest.mark.parametrize(("reach", "longest"), [(0, 5), (1, 2), (2, 3)])
def test_log_odds_are_smoothed_counts(reach, longest):
    made = fitted(reach=reach, longest=longest)
    words = ["TONE", "FOX", "PHO"]
    blocks = made.odds.blocks(made.predict(made.inputs.pack(words)))
    symbols = made.odds.symbols
    for row, word in enumerate(words):
        for place in range(len(word)):
            found = blocks[row, place, 1:symbols]
            torch.testing.assert_close(found, expected(word, place, made)[1:].clamp(min=LEAST).log())
        assert not blocks[row, len(word) :].any(), "after the end a query is zero"
        assert not blocks[row, :, symbols:].any()


def test_a_word_is_predicted_alike_alone_and_among_others(monkeypatch):
    made = fitted()
    packed = made.inputs.pack(["TONE", "FOX", "PHO", "NO"])
    together = made.predict(packed)
    torch.testing.assert_close(torch.cat([made.predict(packed[row : row + 1]) for row in range(4)]), together)
    monkeypatch.setattr(counts, "CHUNK", 3)
    torch.testing.assert_close(made.predict(packed), together)


def test_letters_never_seen_have_the_odds_of_all_letters_and_no_words_no_queries():
    made = fitted()
    blocks = made.odds.blocks(made.predict(made.inputs.pack(["Z"])))
    assert blocks.isfinite().all()
    assert made.predict(made.inputs.pack([])).shape == (0, made.odds.dim)


def test_a_restored_one_predicts_the_same():
    made = fitted()
    again = RunCounts(made.config, made.inputs, made.odds)
    again.restore(made.state())
    packed = made.inputs.pack(["TONE", "FOX"])
    assert torch.equal(again.predict(packed), made.predict(packed))


def test_other_inputs_are_refused():
    with pytest.raises(ConfigError, match="reads the input 'spelling', not TextInput"):
        RunCounts(None, TextInput(), AlignedOdds(None, SPACE))
