"""Inputs of several columns: a model uses all of them, from Python and from files, and names what is missing."""

from __future__ import annotations

import json
import random

import pandas as pd
import pytest
import torch

from ele_core import StructuredPredictor
from ele_core.components.backbones.columns import ColumnsBackbone
from ele_core.components.inputs.columns import Columns, ColumnsInput
from ele_core.components.inputs.text import Texts
from ele_core.components.proposers.writer import Writer
from ele_core.config import Facts, load, plan
from ele_core.data.prepare import input_for
from ele_core.errors import InvalidInput, ModelError
from ele_core.numerics.sparse import Products
from ele_core.plugins import registry
from ele_core.testing import check_backbone, check_input_space

KERNEL = {
    "surrogate": {"name": "parts", "dim": 128},
    "regressor": {"name": "sketched-ridge", "sketch": {"size": 150}},
    "decoder": "candidates",
}
"""Components that learn in closed form, in a moment."""
ROWS = [{"word": "run", "size": [1.0, 2.0]}, {"word": "sit", "size": [0.0, -1.0]}, {"word": "go", "size": [3.0, 0.5]}]
MIXED = ColumnsInput.Config.model_validate({"columns": {"word": {"name": "text"}, "size": {"name": "vector"}}})


def tagged(count: int, seed: int) -> tuple[list[dict[str, str]], list[str]]:
    """Words of four letters with a tag; the tag says which of the letters, doubled, is the output."""
    rng = random.Random(seed)
    rows = [{"word": "".join(rng.choices("abcd", k=2)), "tag": rng.choice(["first", "last"])} for _ in range(count)]
    return rows, [row["word"][0 if row["tag"] == "first" else -1] * 2 for row in rows]


@pytest.fixture(scope="module")
def both() -> StructuredPredictor:
    """A predictor fitted on two columns."""
    return StructuredPredictor("sequence", **KERNEL).fit(*tagged(150, 0))


@pytest.fixture
def fitted() -> ColumnsInput:
    """A text and two numbers."""
    inputs = ColumnsInput(MIXED)
    inputs.fit(ROWS)
    return inputs


def test_both_columns_solve_what_neither_solves_alone(both):
    train, test = tagged(150, 0), tagged(60, 1)
    assert both.score(*test) == 1.0
    for column in ("word", "tag"):
        alone = StructuredPredictor("sequence", **KERNEL).fit([row[column] for row in train[0]], train[1])
        assert alone.score([row[column] for row in test[0]], test[1]) < 0.8


def test_tables_and_mappings_of_columns_are_rows(both):
    rows, _ = tagged(5, 2)
    expected = both.predict(rows)
    table = pd.DataFrame(rows)
    assert both.predict(table) == both.predict(table.to_dict("list")) == expected


def test_a_saved_model_predicts_the_same(both, tmp_path):
    rows, _ = tagged(5, 2)
    both.save(tmp_path / "model")
    assert StructuredPredictor.load(tmp_path / "model").predict(rows) == both.predict(rows)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"word": "ab"}, "input 1: column 'tag': it is missing"),
        ({"word": "ab", "tag": None}, "input 1: column 'tag': a missing value"),
        ({"word": "ab", "tag": ""}, "input 1: column 'tag': the text is empty"),
        ("ab", "input 1: got str, not the values of columns"),
    ],
)
def test_a_missing_cell_is_named_with_its_row_and_column(both, row, message):
    with pytest.raises(InvalidInput, match=message):
        both.predict([{"word": "ab", "tag": "last"}, row])


def test_each_column_gets_the_space_that_its_values_suggest():
    rows = [{"text": "ab", "number": 0.5, "vector": [1.0, 2.0, row], "bits": [0, 1, row % 2]} for row in range(9)]
    chosen = input_for(load({"output": "sequence"}), rows)
    assert {name: own["name"] for name, own in chosen.options["columns"].items()} == {
        "text": "text",
        "number": "vector",
        "vector": "vector",
        "bits": "bits",
    }


def test_a_given_space_of_one_column_is_kept():
    given = {"output": "sequence", "input": {"name": "columns", "columns": {"number": "text"}}}
    chosen = input_for(load(given), [{"word": "ab", "number": "1"}, {"word": "cd", "number": "2"}])
    assert [own["name"] for own in chosen.options["columns"].values()] == ["text", "text"]
    with pytest.raises(Exception, match=r"input\.columns: no column is called 'number'\. Columns: word"):
        input_for(load(given), [{"word": "ab"}])


def test_a_column_called_name_is_no_name_of_a_component():
    given = {"output": "sequence", "input": {"name": "columns", "columns": {"name": "text", "tag": "text"}}}
    config = load(given, {"input": {"columns": {"name": {"level": "character"}}}})
    assert {key: own["level"] for key, own in config.input.options["columns"].items()} == {
        "name": "character",
        "tag": "auto",
    }


def test_an_unknown_option_of_a_column_is_refused_with_its_path():
    given = {"output": "sequence", "input": {"name": "columns", "columns": {"tag": {"name": "text", "levle": 1}}}}
    with pytest.raises(Exception, match=r"input\.columns\.tag\.levle: unknown option; did you mean 'level'"):
        load(given)


# -- kernels and networks -------------------------------------------------------------------------------------------


def test_inputs_differ_equally_in_every_column(fitted):
    rows = [{"word": word, "size": [size, 0.0]} for word in ("run", "sit") for size in (0.0, 1000.0)]
    fitted.fit(rows)
    found = fitted.features(fitted.pack(rows))
    inner = Products(found)(found)
    squared = found.squares[:, None] + found.squares - 2 * inner
    assert squared[0, 1].item() == pytest.approx(squared[0, 2].item(), rel=1e-4)
    assert squared[0, 3].item() == pytest.approx((squared[0, 1] + squared[0, 2]).item(), rel=1e-4)


def test_the_recipe_gives_every_column_its_network(fitted):
    space = registry().create("output", {"name": "sequence", "alphabet": ["a"], "length": 2})
    options = {"name": "columns", "columns": {"word": "text", "size": "vector"}}
    given = {"output": "sequence", "input": options}
    config = plan(given, Facts(load(given).input, fitted, space, 300, 0), registry())
    networks = config.regressor.options["writer"]["backbone"]["columns"]
    assert {name: own["name"] for name, own in networks.items()} == {"word": "gru", "size": "mlp"}


def test_a_network_copies_tokens_of_texts_and_of_nothing_else(fitted):
    torch.manual_seed(0)
    backbone = ColumnsBackbone(ColumnsBackbone.Config(width=8), fitted, 8)
    batch = fitted.pack(ROWS)
    _, states, mask = backbone.attended(batch)
    assert states.shape == (3, 3 + 1, 8)  # the longest word, and the numbers
    assert mask.sum(dim=1).tolist() == [4, 4, 3]
    written = Writer(backbone, 9, 4, 8, 0.0, torch.arange(len(fitted.names))).read(batch)
    copied = [[fitted.names[token] for token in row] for row in written.tokens.tolist()]
    assert [row[:3] for row in copied[:2]] == [list("run"), list("sit")]
    assert written.tokens[:, 3].tolist() == [0, 0, 0]


def test_two_texts_have_tokens_of_their_own():
    inputs = ColumnsInput()
    rows = [{"word": "ab", "tag": "b"}, {"word": "a", "tag": "c"}]
    inputs.fit(rows)
    tokens = ColumnsBackbone(None, inputs, 4).tokens(inputs.pack(rows))
    assert ["".join(inputs.names[token] for token in row if token) for row in tokens.tolist()] == ["abb", "ac"]


def test_batches_of_columns_are_joined_column_by_column(fitted):
    batch = fitted.pack(ROWS)
    assert isinstance(batch, Columns)
    assert isinstance(batch.parts[0], Texts)
    joined = type(batch).cat([batch[:1], batch[1:]])
    assert torch.equal(joined.parts[1].values, batch.parts[1].values)
    assert torch.equal(type(batch).from_dict(batch.as_dict()).parts[0].tokens, batch.parts[0].tokens)


def test_an_input_is_written_as_a_json_object(fitted):
    text = fitted.format(ROWS[0])
    assert json.loads(text) == {"word": "run", "size": "1.0 2.0"}
    assert fitted.pack([fitted.parse(text)]).parts[1].values.tolist() == fitted.pack(ROWS[:1]).parts[1].values.tolist()
    with pytest.raises(InvalidInput, match="'run' is not a JSON object with a value for each column"):
        fitted.parse("run")


def test_other_columns_than_those_of_the_model_are_refused(fitted, tmp_path):
    fitted.save(tmp_path)
    other = ColumnsInput.Config.model_validate({"columns": {"word": {"name": "text"}}})
    with pytest.raises(ModelError, match="not the columns of the configuration"):
        ColumnsInput(other).load(tmp_path)


def test_an_unusual_cell_is_told_with_its_column(fitted):
    usual, odd = fitted.unlike_training([ROWS[0], {"word": "run", "size": [99.0, 0.0]}])
    assert usual == ""
    assert odd.startswith("column 'size': number 1 is 99")


def test_the_space_and_its_network_keep_every_law():
    inputs = ColumnsInput(MIXED)
    assert [each for each in check_input_space(inputs) if each.status == "failed"] == []
    inputs.fit(inputs.examples())
    backbone = ColumnsBackbone(ColumnsBackbone.Config(width=8), inputs, 4)
    assert [each for each in check_backbone(backbone, inputs) if each.status == "failed"] == []
