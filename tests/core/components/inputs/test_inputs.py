"""Text and vector inputs: what they keep, what they refuse, and that saving loses nothing."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from ele_core.components.inputs.text import PADDING, UNKNOWN, TextInput, Texts
from ele_core.components.inputs.vector import Rows, VectorInput
from ele_core.errors import InvalidInput, ModelError

SMILES = r"\[[^\]]+\]|Br|Cl|%\d\d|[A-Za-z]|\d|[^A-Za-z\d]"


def text_input(*texts: str, **options: object) -> TextInput:
    """A text input with these options, fitted on `texts`."""
    inputs = TextInput(TextInput.Config.model_validate(options))
    inputs.fit(texts)
    return inputs


def vector_input(values: Rows, **options: object) -> VectorInput:
    """A vector input with these options, fitted on `values`."""
    inputs = VectorInput(VectorInput.Config.model_validate(options))
    inputs.fit(values)
    return inputs


def rows(batch: Texts) -> list[list[int]]:
    """The tokens of each text, without padding."""
    return [row[:length].tolist() for row, length in zip(batch.tokens, batch.lengths, strict=True)]


# -- texts ---------------------------------------------------------------------------------------------------------


def test_texts_become_padded_small_integers() -> None:
    batch = text_input("abc", "a").pack(["abc", "a"]).trimmed()
    assert batch.tokens.shape == (2, 3)
    assert batch.tokens.dtype == torch.int16
    assert batch.lengths.dtype == torch.int32
    assert batch.lengths.tolist() == [3, 1]
    assert batch.tokens[1, 1:].tolist() == [PADDING, PADDING]
    assert batch.mask.tolist() == [[True, True, True], [True, False, False]]


def test_a_large_vocabulary_takes_wider_integers() -> None:
    texts = [chr(number) for number in range(0x4E00, 0x4E00 + 20_000)]
    texts += [chr(number) for number in range(0x20000, 0x20000 + 20_000)]
    inputs = text_input(*texts)
    assert inputs.vocabulary_size == 40_002
    batch = inputs.pack(texts)
    assert batch.tokens.dtype == torch.int32
    assert len(set(batch.tokens[:, 0].tolist())) == 40_000


def test_case_and_spaces_are_kept() -> None:
    inputs = text_input("cC nN\n")
    (row,) = rows(inputs.pack(["cC nN\n"]))
    assert len(set(row)) == 6
    assert inputs.parse(" c C ") == " c C "
    assert inputs.format(" c C ") == " c C "


@pytest.mark.parametrize(
    ("text", "characters", "matches"),
    [("CC(=O)[NH3+]Cl", 14, 8), ("BrCCl", 5, 3), ("C%12c1[nH]cC%12", 15, 8)],
)
def test_level_decides_what_a_token_is(text: str, characters: int, matches: int) -> None:
    assert text_input(text).pack([text]).lengths.tolist() == [characters]
    assert text_input(text, level="regex", pattern=SMILES).pack([text]).lengths.tolist() == [matches]


def test_equal_tokens_get_equal_numbers_and_others_differ() -> None:
    text = "CC(=O)[NH3+]Cl"
    inputs = text_input(text, level="regex", pattern=SMILES)
    (row,) = rows(inputs.pack([text]))
    tokens = re.findall(SMILES, text)
    assert [tokens.index(token) for token in tokens] == [row.index(number) for number in row]
    assert min(row) > UNKNOWN


def test_text_between_matches_is_a_token_too() -> None:
    inputs = text_input("ab--cd", level="regex", pattern="[a-z]")
    assert inputs.pack(["ab--cd"]).lengths.tolist() == [5]


def test_unknown_tokens_are_read_as_one_token() -> None:
    inputs = text_input("abc")
    known, unknown, other = rows(inputs.pack(["abc", "aZc", "aéc"]))
    assert unknown == other == [known[0], UNKNOWN, known[2]]


def test_unknown_tokens_can_be_refused() -> None:
    inputs = text_input("abc", unknown="error")
    with pytest.raises(InvalidInput, match="input 1: the text has the token 'Z'") as caught:
        inputs.pack(["abc", "aZc"])
    assert caught.value.index == 1


def test_rare_tokens_are_unknown() -> None:
    inputs = text_input("aab", "ab", "c", min_frequency=2)
    assert inputs.vocabulary_size == 4
    assert rows(inputs.pack(["c"])) == [[UNKNOWN]]


@pytest.mark.parametrize("name", ["<pad>", "<unk>"])
def test_a_text_that_spells_a_special_name_is_a_text(name: str) -> None:
    assert text_input(name).pack([name]).lengths.tolist() == [5]
    inputs = text_input(f"a{name}", level="regex", pattern="<[a-z]+>|.")
    (row,) = rows(inputs.pack([f"a{name}"]))
    assert row[1] == UNKNOWN


def test_a_text_above_the_limit_is_refused_with_what_to_do() -> None:
    inputs = text_input("abc", max_length=3)
    with pytest.raises(InvalidInput, match=r"input 1.* 4 tokens, and the limit is 3.*max_length.*truncate") as caught:
        inputs.pack(["a", "abca"])
    assert caught.value.index == 1


def test_texts_up_to_twice_as_long_as_in_training_fit_by_default() -> None:
    inputs = text_input("abc")
    assert inputs.pack(["abcabc"]).lengths.tolist() == [6]
    with pytest.raises(InvalidInput, match="the limit is 6"):
        inputs.pack(["abcabca"])


def test_a_text_above_the_limit_can_be_cut() -> None:
    inputs = text_input("abcd", max_length=2, on_long="truncate")
    cut, short = rows(inputs.pack(["abcd", "ab"]))
    assert cut == short


def test_batches_packed_apart_can_be_joined() -> None:
    inputs = text_input("abc")
    joined = Texts.cat([inputs.pack(["a"]), inputs.pack(["abc", "b"])])
    assert torch.equal(joined.tokens, inputs.pack(["a", "abc", "b"]).tokens)


def test_trimming_drops_only_common_padding() -> None:
    batch = text_input("abcde").pack(["ab", "abc"]).trimmed()
    assert batch.tokens.shape == (2, 3)
    assert batch.lengths.tolist() == [2, 3]


def test_sizes_are_lengths() -> None:
    inputs = text_input("abc")
    sizes = inputs.sizes(inputs.pack(["ab", "c"]))
    assert sizes is not None
    assert sizes.tolist() == [2, 1]


@pytest.mark.parametrize(("value", "reason"), [("", "empty"), (3, "not a text"), ("a\ud800", "surrogate")])
def test_what_is_no_text_is_refused_by_index(value: str, reason: str) -> None:
    inputs = text_input("abc")
    with pytest.raises(InvalidInput, match=f"input 2: .*{reason}") as caught:
        inputs.pack(["a", "b", value])
    assert caught.value.index == 2
    with pytest.raises(InvalidInput, match=reason):
        inputs.fit(["a", "b", value])


def test_an_empty_cell_is_refused() -> None:
    with pytest.raises(InvalidInput, match="empty"):
        TextInput().parse("")


def test_no_texts_pack_into_an_empty_batch_but_teach_nothing() -> None:
    assert text_input("abc", max_length=3).pack([]).tokens.shape == (0, 3)
    with pytest.raises(InvalidInput, match="no texts"):
        text_input()


def test_numpy_strings_are_texts() -> None:
    inputs = text_input("abc")
    assert rows(inputs.pack(np.array(["ab", "c"]))) == rows(inputs.pack(["ab", "c"]))  # type: ignore[arg-type]


def test_packing_before_fit_says_so() -> None:
    with pytest.raises(ModelError, match="fit"):
        TextInput().pack(["a"])


@pytest.mark.parametrize(
    "options", [{}, {"level": "regex", "pattern": SMILES}, {"max_length": 5, "on_long": "truncate"}]
)
def test_a_text_input_comes_back_exactly(tmp_path: Path, options: dict[str, object]) -> None:
    inputs = text_input("CC(=O)[NH3+]Cl", "c1ccccc1 é\n", **options)
    inputs.save(tmp_path)
    again = TextInput(inputs.config)
    again.load(tmp_path)
    texts = ["CCl", "c1Zé"]
    assert torch.equal(again.pack(texts).tokens, inputs.pack(texts).tokens)
    assert (again.vocabulary_size, again.max_length) == (inputs.vocabulary_size, inputs.max_length)
    saved = (tmp_path / "tokenizer.json").read_bytes()
    again.save(tmp_path)
    assert (tmp_path / "tokenizer.json").read_bytes() == saved


def test_a_loaded_input_still_refuses_long_texts(tmp_path: Path) -> None:
    text_input("abc", max_length=3).save(tmp_path)
    again = TextInput()
    again.load(tmp_path)
    with pytest.raises(InvalidInput, match="limit is 3"):
        again.pack(["abca"])


def test_the_order_of_training_texts_does_not_change_the_vocabulary() -> None:
    left, right = text_input("ab", "cd"), text_input("dc", "ba")
    assert torch.equal(left.pack(["ab", "cd"]).tokens, right.pack(["ab", "cd"]).tokens)


@pytest.mark.parametrize("content", [None, "", "{}"])
def test_a_damaged_vocabulary_names_its_file(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        TextInput().load(tmp_path)


@pytest.mark.parametrize(
    "options",
    [{"level": "regex"}, {"pattern": "a"}, {"level": "regex", "pattern": "("}, {"max_length": 0}, {"lower": True}],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        TextInput.Config.model_validate(options)


# -- vectors -------------------------------------------------------------------------------------------------------


def test_vectors_are_standardised_by_the_training_vectors() -> None:
    training = np.random.default_rng(0).normal(5, 3, size=(50, 2))
    inputs = vector_input(training)
    values = inputs.pack(training).values
    assert values.dtype == torch.float32
    torch.testing.assert_close(values.mean(0), torch.zeros(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(values.std(0, unbiased=False), torch.ones(2))
    assert inputs.dimension == 2


def test_vectors_can_be_left_as_they_are() -> None:
    assert vector_input([[1, 2], [3, 4]], standardise=False).pack([[1, 9]]).values.tolist() == [[1, 9]]


def test_a_constant_feature_is_only_shifted() -> None:
    inputs = vector_input([[0.1, 0], [0.1, 1], [0.1, 2]])
    assert inputs.pack([[1.1, 1]]).values.tolist() == [[1, 0]]


def test_lists_and_arrays_are_the_same_vectors() -> None:
    inputs = vector_input([[1, 2], (3, 5)])
    array = np.array([[0, 1], [7, 8]])
    assert torch.equal(inputs.pack(array).values, inputs.pack([[0.0, 1.0], np.array([7, 8])]).values)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0.1, 2 3", [0.1, 2, 3]), ("[1, -2e3]", [1, -2000]), (" 5 ", [5]), ("1,2;3\t4", [1, 2, 3, 4])],
)
def test_a_cell_becomes_numbers_and_back(text: str, numbers: list[float]) -> None:
    inputs = VectorInput()
    assert list(inputs.parse(text)) == numbers
    assert list(inputs.parse(inputs.format(numbers))) == numbers


@pytest.mark.parametrize("text", ["", "a b", "1,,2", "[1, [2]]", "nan", "1e999", "[1"])
def test_a_cell_that_is_no_vector_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        VectorInput().parse(text)


@pytest.mark.parametrize(
    "value", [[1.0], [1.0, 2.0, 3.0], [1.0, np.nan], [np.inf, 0], [[1.0, 2.0]], ["a", "b"], None, 3.0, [1e300, 0]]
)
def test_what_is_no_vector_is_refused_by_index(value: list[float]) -> None:
    inputs = vector_input([[1, 2], [3, 4]])
    with pytest.raises(InvalidInput, match="input 1: ") as caught:
        inputs.pack([[1, 2], value])
    assert caught.value.index == 1


def test_an_array_of_another_width_is_refused() -> None:
    with pytest.raises(InvalidInput, match="input 0: the vector has 3 numbers instead of 2"):
        vector_input([[1, 2]]).pack(np.zeros((4, 3)))


def test_no_vectors_pack_into_an_empty_batch_but_teach_nothing() -> None:
    inputs = vector_input([[1, 2]])
    assert inputs.pack([]).values.shape == (0, 2)
    assert inputs.pack(np.zeros((0, 2))).values.shape == (0, 2)
    with pytest.raises(InvalidInput, match="no vectors"):
        vector_input([])


def test_a_vector_input_comes_back_exactly(tmp_path: Path) -> None:
    training = np.random.default_rng(1).normal(size=(20, 3))
    inputs = vector_input(training)
    inputs.save(tmp_path)
    again = VectorInput()
    again.load(tmp_path)
    assert torch.equal(again.pack(training).values, inputs.pack(training).values)
    assert again.sizes(again.pack(training)) is None


def test_a_vector_input_that_knows_nothing_says_so(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="fit"):
        VectorInput().pack([[1.0]])
    with pytest.raises(ModelError, match=r"vector\.json"):
        VectorInput().load(tmp_path)
