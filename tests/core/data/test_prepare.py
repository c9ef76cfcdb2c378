"""From files to pairs: what is inferred, which rows are left out and why, and how they are counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from recording import Recorder

from ele_core import config as configuration
from ele_core.data.pairs import looks_like_vectors
from ele_core.data.prepare import Prepared, held_out, prepare
from ele_core.data.summary import describe_data, summary
from ele_core.errors import ConfigError, DataError
from ele_core.runtime.context import Context


def write(folder: Path, name: str, rows: list[tuple[str, str]], header: str = "x,y") -> str:
    file = folder / name
    if name.endswith(".jsonl"):
        keys = header.split(",")
        file.write_text("".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows))
    else:
        file.write_text("\n".join([header, *(",".join(row) for row in rows)]) + "\n")
    return str(file)


def load(file: str, *overrides: str, source: Any = None, **data: Any) -> Prepared:
    base = source or {"output": "sequence"}
    config = configuration.load({**base, "data": {"file": file, **data}}, overrides)
    return prepare(config, Context(config.seed, monitor=Recorder()))


PAIRS = [(f"word {letter}", letter * (number % 4 + 1)) for number, letter in enumerate("abcdefghijklmnopqrst")]


def test_labels_and_sizes_are_inferred_from_the_file(tmp_path):
    prepared = load(write(tmp_path, "pairs.csv", PAIRS))
    assert prepared.space.config.alphabet == tuple("abcdefghijklmnopqrst")
    assert prepared.space.config.length == 4
    assert prepared.config.output.options["length"] == 4, "the resolved configuration holds them"
    assert [len(part) for part in (prepared.data.train, prepared.data.validation, prepared.data.test)] == [14, 4, 2]


def test_options_given_by_hand_win_over_what_is_inferred(tmp_path):
    file = write(tmp_path, "pairs.csv", PAIRS)
    assert load(file, "output.length=9").space.config.length == 9


def test_a_tasks_labels_and_sizes_do_not_bind_data_of_ones_own(tmp_path):
    prepared = load(write(tmp_path, "pairs.csv", PAIRS), source={"task": "number-words"})
    assert prepared.space.config.alphabet == tuple("abcdefghijklmnopqrst")
    assert (prepared.config.surrogate.name, prepared.config.regressor.name) == ("contrastive", "joint")
    again = configuration.load(configuration_file(tmp_path, prepared))
    assert again == prepared.config


def configuration_file(folder: Path, prepared: Prepared) -> Path:
    file = folder / "config.toml"
    file.write_text(configuration.dump(prepared.config))
    return file


def test_csv_and_jsonl_give_the_same_pairs(tmp_path):
    left = load(write(tmp_path, "pairs.csv", PAIRS))
    right = load(write(tmp_path, "pairs.jsonl", PAIRS))
    assert list(left.data.inputs) == list(right.data.inputs) == [x for x, _ in PAIRS]
    assert torch.equal(left.data.outputs.tokens, right.data.outputs.tokens)
    assert left.data.fingerprint != right.data.fingerprint


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({}, ("1", "c")),
        ({"output": "id"}, ("a b", "1")),
        ({"input": "x"}, ("a b", "c")),
        ({"input": "y"}, ("c", "a b")),
    ],
)
def test_columns_not_named_are_the_first_and_the_last_of_the_others(tmp_path, columns, expected):
    file = write(tmp_path, "pairs.csv", [("1", "a b", "c")] * 12, header="id,x,y")
    data = load(file, **columns).data
    assert (data.inputs[0], load(file, **columns).space.unpack(data.outputs[:1])[0]) == expected


def test_every_bad_row_is_listed_at_once_with_its_number_and_reason(tmp_path):
    rows = [*PAIRS, ("", "a"), ("fine", "toolong"), ("", "b"), ("fine", "Ω")]
    options = ["output.length=4", 'output.alphabet=["a","b","c"]']
    with pytest.raises(DataError) as caught:
        load(write(tmp_path, "pairs.csv", rows), *options)
    text = str(caught.value)
    assert (
        "21 rows cannot be used:\n  row 4 (line 5): 'dddd': 'dddd' holds 'd', which is not in the alphabet.\n" in text
    )
    assert "\n  row 21 (line 22): '': the text is empty.\n" in text
    assert text.endswith("leave them out with --on-error skip.")


def test_rows_are_counted_in_the_file_also_when_rows_before_them_were_left_out(tmp_path):
    rows = [("", "a"), *PAIRS, ("x" * 500, "a"), ("", "b")]
    prepared = load(write(tmp_path, "pairs.csv", rows), "input.max_length=50", on_error="skip")
    assert sorted((r.row, r.text) for r in prepared.data.rejected) == [(0, ""), (21, "x" * 500), (22, "")]
    assert len(prepared.data) == len(prepared.packed) == len(prepared.data.outputs) == 20
    everything = torch.cat([prepared.data.train, prepared.data.validation, prepared.data.test])
    assert everything.sort().values.tolist() == list(range(20))
    with pytest.raises(DataError, match=r"row 1 \(line 2\): '': the text is empty"):
        load(write(tmp_path, "pairs.csv", rows), "input.max_length=50")
    with pytest.raises(DataError, match=r"row 21 \(line 22\): 'xxx.*500 tokens, and the limit is 50"):
        load(write(tmp_path, "pairs.csv", rows[1:-1]), "input.max_length=50")


def test_only_so_many_bad_rows_are_shown_and_the_rest_counted(tmp_path):
    with pytest.raises(DataError, match=r"130 rows cannot be used(?s:.)*row 100 \(line 101\):(?s:.)*… and 30 more"):
        load(write(tmp_path, "pairs.csv", [*[("", "a")] * 130, *PAIRS]))


def test_a_file_without_a_usable_row_is_refused_even_when_rows_may_be_skipped(tmp_path):
    with pytest.raises(DataError, match="2 rows cannot be used"):
        load(write(tmp_path, "pairs.csv", [("", "a"), ("", "b")]), on_error="skip")
    with pytest.raises(DataError, match="no pairs"):
        load(write(tmp_path, "pairs.csv", []), on_error="skip")


def test_outputs_that_are_all_empty_are_a_data_error(tmp_path):
    with pytest.raises(DataError, match=r"output: no output space can be inferred.*alphabet"):
        load(write(tmp_path, "pairs.csv", [("a", "")] * 12))


def test_nothing_to_train_on_is_a_configuration_error():
    with pytest.raises(ConfigError, match="nothing to train on"):
        prepare(configuration.load({"output": "sequence"}), Context())


def test_the_vocabulary_is_learned_from_the_training_inputs_alone(tmp_path):
    rows = [(chr(0x4E00 + number), "a") for number in range(40)]
    prepared = load(write(tmp_path, "pairs.csv", rows), validation=10, test=10)
    assert prepared.inputs.vocabulary_size == 22, "20 characters, padding and unknown"


def test_a_held_out_input_longer_than_all_of_training_is_no_bad_row(tmp_path):
    rows = [("x" * length, "a") for length in range(10, 40)]
    for seed in range(5):
        assert len(load(write(tmp_path, "pairs.csv", rows), f"seed={seed}").data) == 30


def test_the_account_of_the_data_counts_duplicates_and_what_was_left_out(tmp_path):
    rows = [*PAIRS, ("again", "a"), ("", "b")]
    text = describe_data(load(write(tmp_path, "pairs.csv", rows), on_error="skip"))
    assert "pairs        21, of them 15 training, 4 validation, 2 test" in text
    assert "20 different" in text
    assert "left out     1 row\n  row 22 (line 23): '': the text is empty." in text
    assert "example      word" in text


def test_a_missing_file_and_a_missing_column_are_named(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.csv: cannot be read"):
        load(str(tmp_path / "nowhere.csv"))
    with pytest.raises(DataError, match=r"no column is called 'z'.*Columns: x, y"):
        load(write(tmp_path, "pairs.csv", PAIRS), input="z")


def test_a_file_without_a_usable_row_does_not_advise_what_is_done_already(tmp_path):
    with pytest.raises(DataError, match="1 row cannot be used, and no row is left") as caught:
        load(write(tmp_path, "pairs.csv", [("", "a")]), on_error="skip")
    assert "--on-error" not in str(caught.value)
    with pytest.raises(DataError, match="20 rows cannot be used, and no row is left") as caught:
        load(write(tmp_path, "pairs.csv", PAIRS), "input.max_length=1", on_error="skip")
    assert "--on-error" not in str(caught.value)


def test_long_rows_are_shown_by_their_beginning(tmp_path):
    with pytest.raises(DataError) as caught:
        load(write(tmp_path, "pairs.csv", [*PAIRS, ("x" * 100_000, "a")]), "input.max_length=50")
    assert len(str(caught.value)) < 1000


# -- vectors ------------------------------------------------------------------------------------------------------

VECTORS = [(f"{number % 2} {number % 3} 0.5", "ab"[number % 2]) for number in range(40)]


def test_vectors_of_another_size_are_bad_rows_named_by_their_lines(tmp_path):
    rows = [*VECTORS, ("1 2", "a"), ("1 2 3 4", "b")]
    with pytest.raises(DataError) as caught:
        load(write(tmp_path, "pairs.csv", rows), "input=vector")
    assert "2 rows cannot be used:\n  row 41 (line 42): '1.0 2.0': the vector has 2 numbers" in str(caught.value)
    prepared = load(write(tmp_path, "pairs.csv", rows), "input=vector", on_error="skip")
    assert len(prepared.data) == len(prepared.packed) == 40
    assert [each.line for each in prepared.data.rejected] == [42, 43]


def test_several_columns_and_arrays_give_the_same_vectors(tmp_path):
    wide = write(tmp_path, "wide.csv", [(*x.split(), y) for x, y in VECTORS], header="b0,b1,b2,y")
    prepared = load(wide, "input=vector", input="b0:b2")
    np.savez(
        tmp_path / "pairs.npz",
        x=np.array([[float(number) for number in x.split()] for x, _ in VECTORS]),
        y=np.array([y for _, y in VECTORS]),
    )
    again = load(str(tmp_path / "pairs.npz"), "input=vector")
    assert torch.equal(prepared.packed.values, again.packed.values)
    assert prepared.space.config == again.space.config


def test_one_array_is_no_pairs(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((9, 2)))
    with pytest.raises(DataError, match=r"one array, but pairs need inputs and outputs\. Save both"):
        load(str(tmp_path / "x.npy"), "input=vector")


def test_the_columns_the_separator_and_numbers_read_as_text_are_told(tmp_path):
    rows = [("7", "1 0 1", "a b a"), ("8", "0 0 1", "b a b")] * 10
    file = write(tmp_path, "pairs.csv", rows, header="id,x,y")
    told = summary(load(file, "input=text", input="x", output="y")).splitlines()
    assert told[:4] == [
        "input: column 'x'; output: column 'y'; 1 other is not used",
        "warning: the inputs are vectors of numbers, but are read as text. To read them as vectors: --set input=bits",
        "note: 18 rows equal to an earlier one, and only 2 different: equal rows are trained and tested on, so results "
        "are too good",
        "output: tokens separated by spaces, 2 different; at most 3 in a text",
    ]
    assert "warning" not in summary(load(file, "input=vector", input="x"))
    chosen = load(file, input="x")
    assert chosen.config.input.name == "bits"
    assert chosen.inputs.size == 3
    assert chosen.packed.numbers[:2].tolist() == [[1, 3], [3, 0]]
    assert "input: read as 'bits', because all are vectors of 0 and 1; otherwise: --set input=text" in summary(chosen)
    counts = write(tmp_path, "counts.csv", [("1 0 2", "a"), ("0 0 1", "b")] * 10, header="x,y")
    assert load(counts).config.input.name == "vector"
    assert "input: read as 'vector', because all are vectors of numbers; " in summary(load(counts))


def test_one_number_a_cell_read_as_text_is_told(tmp_path):
    file = write(tmp_path, "pairs.csv", [("305", "a b"), ("12.5", "b a")] * 10, header="x,y")
    expected = "warning: the inputs are numbers, but are read as text. To read them as vectors: --set input=vector"
    assert expected in summary(load(file, "input=text"))
    words = write(tmp_path, "words.csv", [("305", "a b"), ("twelve", "b a")] * 10, header="x,y")
    assert "warning" not in summary(load(words, "input=text"))


@pytest.mark.parametrize(
    ("pairs", "options", "expected"),
    [
        (10, {}, 2),
        (100, {}, 20),
        (500, {}, 100),
        (1000, {}, 100),
        (10_000, {}, 500),
        (1, {}, 1),
        (1000, {"validation": 0.3}, 0.3),
        (1000, {"validation": 7}, 7),
        (1000, {"validation": 0}, 0),
    ],
)
def test_a_twentieth_is_held_out_but_a_hundred_if_that_is_no_more_than_a_fifth(pairs, options, expected):
    assert held_out(configuration.DataConfig(file="f", **options), pairs) == expected


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1 0 0", "0 1 0"], "binary"),
        (["1 0", "0 1"], "numbers"),
        (["[1, 0.5]", "[2, 1]"], "numbers"),
        (["1;0;1", "0;1;1"], "binary"),
        (np.eye(3), "binary"),
        (["1", "2"], None),
        (["1 2", "3"], None),
        (["1 2", "a b"], None),
        (["1 2", ""], None),
        ([], None),
    ],
)
def test_vectors_are_told_from_texts(cells, kind):
    assert looks_like_vectors(cells) == kind


# -- separators ---------------------------------------------------------------------------------------------------


def test_the_separator_of_a_file_is_inferred_stored_and_kept_when_the_data_are_read_again(tmp_path):
    file = write(tmp_path, "pairs.csv", [("cab", "K AE B"), ("back", "B AE K")] * 10)
    prepared = load(file)
    assert prepared.space.config.alphabet == ("AE", "B", "K")
    assert prepared.config.output.options["separator"] == " "
    assert prepared.space.unpack(prepared.data.outputs[:1]) == ["K AE B"]
    characters = load(file, "output.separator=''")
    assert characters.space.config.alphabet == (" ", "A", "B", "E", "K")


def test_lists_of_tokens_in_json_lines_are_tokens(tmp_path):
    file = tmp_path / "pairs.jsonl"
    file.write_text('{"x": "cab", "y": ["K", "AE", "B"]}\n' * 12)
    prepared = load(str(file))
    assert prepared.space.config.alphabet == ("AE", "B", "K")
    assert prepared.space.unpack(prepared.data.outputs[:1]) == ["K AE B"]
