"""Predictions without a model, by hand: copying and the most frequent output; and the sentence about a model behind."""

from __future__ import annotations

import json

import pytest
import torch
from click.testing import CliRunner

from ele_core import config as configuration
from ele_core.cli import cli
from ele_core.data.prepare import Pairs, prepare
from ele_core.data.truths import Truths, examples
from ele_core.model.evaluate import COPYING, ECHOING, FREQUENT, baselines, behind, echoed, most_frequent, worse
from ele_core.runtime.context import Context
from ele_core.types import Metric
from ele_sequences.space import SequenceSpace

INPUTS = ["kitten", "dog", "house", "mitten", "dot", "zzzz"]
OUTPUTS = ["aa", "b", "aa", "ab", "b", "abc"]
SPACE = SequenceSpace(SequenceSpace.Config(alphabet=tuple("abc"), length=3))


def test_copying_and_the_most_frequent_output_have_the_values_found_by_hand():
    pairs = Pairs(INPUTS, OUTPUTS, torch.tensor([0, 1, 2]), torch.tensor([3, 4, 5]))
    prepared = prepare(configuration.load({"output": "sequence", "input": "text"}), Context(), pairs)
    found = baselines(prepared, *examples(prepared.data, torch.tensor([3, 4]), str), Context())
    assert found[COPYING] == {"exact": 0.5, "edit_distance": 0.5}, "mitten → aa instead of ab, dot → b"
    assert found[FREQUENT] == {"exact": 0.0, "edit_distance": 1.5}, "aa instead of ab and b"


def echoes(inputs, outputs, output="sequence", **options):
    """The baselines of the last two pairs."""
    count = len(inputs)
    pairs = Pairs(inputs, outputs, torch.arange(count - 3), torch.tensor([count - 3]))
    prepared = prepare(configuration.load({"output": output, "input": "text", **options}), Context(), pairs)
    return baselines(prepared, *examples(prepared.data, torch.tensor([count - 2, count - 1]), str), Context())


def test_echoing_writes_the_tokens_of_the_input_that_outputs_have():
    inputs = ["abc", "ab?", "cab", "!a", "bb-c", "caab", "??"]
    outputs = ["abc", "ab", "cab", "a", "bbc", "cab", "a"]
    found = echoes(inputs[:6], outputs[:6])
    assert found[ECHOING] == {"exact": 0.5, "edit_distance": 0.5}, "bb-c → bbc; caab → caa, as only three tokens fit"
    assert list(found) == [ECHOING, COPYING, FREQUENT]


def test_an_input_that_cannot_be_echoed_is_copied_and_most_must_be_echoed():
    inputs = ["abc", "ab?", "cab", "!a", "bb-c", "caab", "??"]
    outputs = ["abc", "ab", "cab", "a", "bbc", "cab", "a"]
    assert ECHOING not in echoes(inputs, outputs), "one of two test inputs has no token of outputs"


def test_smiles_are_echoed_as_molecules_and_names_are_not():
    smiles, names = ["OCC", "NCC", "CCC", "O=CC"], ["ethanol", "ethanamine", "propane", "ethanal"]
    config = configuration.load({"output": "molecule", "input": "text"})
    graphs = list(map(config.registry.get("output", "molecule").parse, smiles))
    rows = torch.tensor([2, 3])
    written, named = (
        prepare(config, Context(), Pairs(inputs, graphs, torch.tensor([0, 1]), rows)) for inputs in (smiles, names)
    )
    outputs, keys = written.data.outputs, written.space.keys
    assert torch.equal(keys(echoed(written, rows, outputs[:2])), keys(outputs[rows]))
    assert echoed(named, rows, outputs[:2]) is None


def test_vectors_are_not_echoed_even_if_their_texts_could_be(monkeypatch):
    pairs = Pairs([[1.0], [2.0], [3.0], [4.0]], ["1", "2", "3", "4"], torch.tensor([0, 1]), torch.tensor([2]))
    prepared = prepare(configuration.load({"output": "sequence", "input": "vector"}), Context(), pairs)
    monkeypatch.setattr(type(prepared.inputs), "format", lambda *_: pytest.fail("costs nothing"))
    assert ECHOING not in baselines(prepared, torch.tensor([3]), Truths.single(prepared.data.outputs[3:]), Context())


def test_the_first_of_the_most_frequent_keys_is_found():
    assert most_frequent(torch.tensor([[5, 0], [3, 1], [3, 2], [3, 1]])) == 1
    assert most_frequent(torch.tensor([[5, 0]])) == 0


def test_a_model_is_told_of_the_best_that_it_is_behind():
    found = {COPYING: {"exact": 0.5, "edit_distance": 1.25}, ECHOING: {"exact": 0.4, "edit_distance": 1.0}}
    told = behind(SPACE, {"exact": 0.9, "edit_distance": 2.0}, found)
    assert told.startswith(f"This model is behind {ECHOING} (edit_distance 2 against 1). Try")
    assert "\n" not in told
    assert ECHOING in behind(SPACE, {"exact": 0.9, "edit_distance": 1.1}, found), "ahead of copying alone"


def test_pairs_whose_inputs_are_their_outputs_need_no_model():
    told = behind(SPACE, {"exact": 0.9, "edit_distance": 0.2}, {ECHOING: {"exact": 1.0, "edit_distance": 0.0}})
    assert told.endswith(
        "(edit_distance 0.2 against 0). Every input, read as an output, is right: these pairs need no model."
    )


def test_a_model_behind_copying_is_told_what_to_try():
    found = {COPYING: {"exact": 0.5, "edit_distance": 1.25}}
    told = behind(SPACE, {"exact": 0.9, "edit_distance": 2.0}, found)
    assert told.startswith(f"This model is behind {COPYING} (edit_distance 2 against 1.25). Try more pairs")
    assert behind(SPACE, {"exact": 0.0, "edit_distance": 1.25}, found) == "", "not worse"
    assert behind(SPACE, {"exact": 0.0}, found) == ""
    assert behind(SPACE, {"edit_distance": 2.0}, {}) == ""


@pytest.mark.parametrize(("direction", "expected"), [("min", True), ("max", False)])
def test_worse_depends_on_the_direction(direction, expected):
    metric = Metric("m", direction, lambda predicted, _: predicted)
    assert worse(metric, 2.0, 1.0) is expected
    assert worse(metric, 1.0, 2.0) is not expected
    assert not worse(metric, 1.0, 1.0)


def test_evaluate_prints_and_stores_them(trained_run, tmp_path):
    import shutil

    run = shutil.copytree(trained_run, tmp_path / "run")
    first = CliRunner().invoke(cli, ["evaluate", str(run), "--limit", "9"], catch_exceptions=False)
    assert f"Without a model:\n  {COPYING}: exact " in first.output
    again = CliRunner().invoke(cli, ["evaluate", str(run), "--limit", "9", "--json"], catch_exceptions=False)
    found = json.loads(again.stdout)["baselines"]
    assert set(found) == {COPYING, FREQUENT}
    assert f"{COPYING}: exact {found[COPYING]['exact']:.4g}" in first.output
