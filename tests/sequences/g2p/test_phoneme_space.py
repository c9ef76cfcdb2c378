"""The space of phonemes, its metrics, the energy of its surrogate, and the decoder that writes from left to right."""

from __future__ import annotations

import pytest
import torch

from ele_core import ConfigError, Context, InvalidOutput, Problem
from ele_core.data.truths import Truths
from ele_core.model.metrics import means, measure
from ele_core.plugins import registry
from ele_core.types import Candidates
from ele_sequences.g2p.decoder import LeftToRight
from ele_sequences.g2p.space import PhonemeSpace
from ele_sequences.g2p.spelling import WINDOWS, SpellingInput
from ele_sequences.g2p.surrogate import NOTHING, AlignedOdds
from ele_sequences.space import SequenceSpace

SPACE = PhonemeSpace(PhonemeSpace.Config(alphabet=("_", "F", "OW", "N", "K", "S", "IH", "K+S"), length=6))


def test_letters_do_not_matter_for_texts_keys_and_features():
    plain, spelt = SPACE.pack(["F OW N"]), SPACE.pack(["F _ OW N _"])
    assert SPACE.unpack(spelt) == SPACE.unpack(plain) == ["F OW N"]
    assert torch.equal(SPACE.keys(plain), SPACE.keys(spelt))
    assert torch.equal(SPACE.features(plain).keys, SPACE.features(spelt).keys)
    assert not torch.equal(SPACE.keys(plain), SPACE.keys(SPACE.pack(["F OW"])))


def test_a_pair_is_two_phonemes():
    assert SPACE.unpack(SPACE.pack(["F IH K+S"])) == ["F IH K S"]
    assert torch.equal(SPACE.keys(SPACE.pack(["F IH K+S"])), SPACE.keys(SPACE.pack(["F IH K S"])))
    assert SPACE.show.properties(SPACE.pack(["F IH K+S"]))["length"].tolist() == [4]


def test_phonemes_that_are_too_many_are_joined_to_pairs_or_refused():
    assert SPACE.unpack(SPACE.pack(["K S K S K S K S"])) == ["K S K S K S K S"]
    with pytest.raises(InvalidOutput, match="7 tokens, more than length = 6"):
        SPACE.pack(["F F F F F F F"])


def test_a_pair_of_unknown_phonemes_is_refused():
    with pytest.raises(ValueError, match="'Z' occurs in a pair"):
        PhonemeSpace.Config(alphabet=("K", "K+Z"), length=3)


def test_wer_and_per_count_all_words_together():
    predicted = SPACE.pack(["F OW N", "F IH", "K S K S"])
    true = Truths(SPACE.pack(["F OW N", "F IH K+S", "S K S K S", "K S K S S S"]), torch.tensor([0, 1, 2, 2]))
    found = means(measure(SPACE, predicted, true, Context()))
    assert found["exact"] == pytest.approx(1 / 3)
    assert found["wer"] == pytest.approx(2 / 3)
    assert found["edit_distance"] == pytest.approx((0 + 2 + 1) / 3)
    assert found["per"] == pytest.approx((0 + 2 + 1) / (3 + 4 + 5))  # the nearest truth of the third has five phonemes


def test_constraints_are_on_phonemes():
    batch = SPACE.pack(["F _ OW N _", "F IH K+S"])
    four = SPACE.rules.Constraint(length=4)
    assert SPACE.rules.satisfies(batch, four).tolist() == [False, True]


def expected_energy(surrogate, query, tokens, spoken_before):
    """The energy by its formula; `spoken_before` lists for each place the phonemes before it, the last one first."""
    symbols, pairs, total = surrogate.symbols, surrogate.config.pairs, 0.0
    for token, before, block in zip(tokens, spoken_before, surrogate.blocks(query[None])[0], strict=True):
        odds = block[:symbols].clone()
        odds[0] += NOTHING
        for j in range(surrogate.config.history):
            phoneme = before[j] if j < len(before) else 0
            first = symbols + j * pairs
            odds += surrogate.vectors[j, phoneme] @ block[first : first + pairs]
        total -= odds.log_softmax(dim=0)[token].item()
    return total


@pytest.mark.parametrize("history", [1, 2, 4])
def test_the_energy_is_the_cross_entropy_of_each_token_after_the_phonemes_before_it(history):
    surrogate = AlignedOdds(AlignedOdds.Config(pairs=5, history=history), SPACE)
    batch = SPACE.pack(["F _ OW N", "IH K+S"])
    query = torch.randn(2, surrogate.dim, generator=torch.Generator().manual_seed(0))
    surrogate.blocks(query)[1, 1] = 0
    f, silent, ow, n, k, s, ih, ks = 2, 1, 3, 4, 5, 6, 7, 8
    first = [[], [f], [f], [ow, f], [n, ow, f], [n, ow, f]]
    second = [[], [ih], *[[s, k, ih]] * 4]
    expected = [
        expected_energy(surrogate, query[0], [f, silent, ow, n, 0, 0], first),
        expected_energy(surrogate, query[1], [ih, ks, 0, 0, 0, 0], second),
    ]
    assert surrogate.energy(query).of(batch).tolist() == pytest.approx(expected, rel=1e-5)
    crossed = surrogate.energy(query.flip(0)).of(batch).tolist()
    for kept in (surrogate.embed(batch), surrogate.stored(batch)):
        every = surrogate.energy(query).among(Candidates(batch, kept))
        assert every.diagonal().tolist() == pytest.approx(expected, rel=1e-5)
        assert every.flip(0).diagonal().tolist() == pytest.approx(crossed, rel=1e-5)


def problem(surrogate, **options):
    batch = SPACE.pack(["F"])
    return Problem(SPACE, Candidates(batch, surrogate.embed(batch)), **options)


@pytest.mark.parametrize(("pairs", "history"), [(0, 1), (16, 1), (16, 3)])
def test_left_to_right_finds_what_was_embedded(pairs, history):
    surrogate = AlignedOdds(AlignedOdds.Config(pairs=pairs, history=history), SPACE)
    batch = SPACE.pack(["F _ OW N _", "IH K+S", "S S S S S S"])
    decoding = LeftToRight().decode(surrogate.energy(surrogate.embed(batch)), problem(surrogate), context=Context())
    assert SPACE.unpack(decoding.best) == SPACE.unpack(batch)


@pytest.mark.parametrize("history", [1, 2])
def test_left_to_right_finds_the_least_energy_of_all_short_sequences(history):
    surrogate = AlignedOdds(AlignedOdds.Config(pairs=8, history=history), SPACE)
    query = torch.randn(1, surrogate.dim, generator=torch.Generator().manual_seed(1)) * 4
    surrogate.blocks(query)[:, 2:] = 0
    tokens = torch.cartesian_prod(torch.arange(9), torch.arange(9))
    tokens = tokens[(tokens[:, 0] > 0) | (tokens[:, 1] == 0)]
    every = SequenceSpace.Batch(torch.nn.functional.pad(tokens, (0, 4)).to(torch.uint8))
    least = surrogate.energy(query.expand(len(tokens), -1)).of(every).min()
    decoding = LeftToRight(LeftToRight.Config(width=81)).decode(
        surrogate.energy(query), problem(surrogate), context=Context()
    )
    assert decoding.energies.item() == pytest.approx(least.item(), rel=1e-5)


def test_several_answers_are_different_phonemes_and_satisfy_the_constraint():
    surrogate = AlignedOdds(None, SPACE)
    query = 0.2 * surrogate.embed(SPACE.pack(["F _ OW N _"]))
    free = LeftToRight().decode(surrogate.energy(query), problem(surrogate), top_k=3, context=Context())
    assert len({tuple(key) for key in SPACE.keys(free.structures).tolist()}) == 3
    bound = problem(surrogate, constraints=[SPACE.rules.Constraint(length=4)])
    (answer,) = SPACE.unpack(LeftToRight().decode(surrogate.energy(query), bound, context=Context()).best)
    assert len(answer.split()) == 4


def test_other_surrogates_and_spaces_are_refused():
    plain = SequenceSpace(SequenceSpace.Config(alphabet=("a",), length=2))
    with pytest.raises(ConfigError, match="embeds phonemes, not SequenceSpace"):
        AlignedOdds(None, plain)
    from ele_core.types import Choice

    parts = registry().create("surrogate", Choice(name="parts"), plain)
    with pytest.raises(ConfigError, match="needs the surrogate 'aligned-odds'"):
        LeftToRight().accepts(parts.energy(torch.zeros(0, parts.dim)))


def test_runs_of_letters_end_at_the_ends_of_a_word_and_rare_ones_have_no_number(tmp_path):
    spelling = SpellingInput(SpellingInput.Config(runs=40))
    spelling.fit(["CAT"] * 5 + ["CATS"] * 5 + ["DOG"])
    batch = spelling.pack(["CAT", "CATS", "DOG"])
    assert batch.windows.shape == (3, 24, len(WINDOWS))
    assert batch.windows[0, 0, 0] > 0  # C
    assert batch.windows[2].sum() == 0  # rarer than the 40 most frequent runs
    assert batch.windows[0, 3:].sum() == 0
    assert batch.windows[0, 2, 2] != batch.windows[1, 2, 2]  # T at the end of a word, and TS
    spelling.save(tmp_path)
    again = SpellingInput(SpellingInput.Config(runs=40))
    again.load(tmp_path)
    assert torch.equal(again.pack(["CATS"]).windows, batch.windows[1:2])
    (tmp_path / "windows.json").write_text("[3, 1]", "utf-8")
    with pytest.raises(Exception, match="not an ascending list"):
        again.load(tmp_path)


@pytest.mark.parametrize("bound", [False, True])
def test_asking_left_to_right_for_more_does_not_change_the_first_answers(bound):
    surrogate = AlignedOdds(AlignedOdds.Config(pairs=8, history=2), SPACE)
    queries = torch.randn(12, surrogate.dim, generator=torch.Generator().manual_seed(2)) * 1.5
    given = problem(surrogate, constraints=[SPACE.rules.Constraint(length=4)] * 12 if bound else None)
    decoder = LeftToRight(LeftToRight.Config(width=3))
    few, many = (decoder.decode(surrogate.energy(queries), given, top_k=k, context=Context()) for k in (3, 20))
    there = few.energies.isfinite()  # what is missing may be filled up
    torch.testing.assert_close(many.energies[:, :3][there], few.energies[there])
    keys = (SPACE.keys(each.structures)[there.flatten()] for each in (many.ranks(0, 3), few))
    assert torch.equal(*keys)
    assert many.energies[:, 3].isfinite().float().mean() > 0.5
    assert (many.energies.nan_to_num(posinf=1e9).diff(dim=1) >= 0).all()
