"""`ele check` on the command line."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner
from mistakes.of_learners import HasNoExamples
from mistakes.of_spaces import AugmentsNothing

from ele_core.cli import cli
from ele_core.components.backbones.mlp import MLPBackbone
from ele_core.components.decoders.candidates import CandidatesDecoder
from ele_core.errors import ConfigError, UnknownComponent
from ele_core.plugins import PluginInfo, Record, Registry, hookimpl, registry
from ele_core.testing.choosing import Choosing
from ele_core.testing.common import check_model_saves_and_loads, check_options_are_documented, section_of
from ele_core.testing.results import run_checks


def run(*arguments, code=0, registry=None):
    result = CliRunner().invoke(
        cli, ["check", *arguments], obj=registry, catch_exceptions=False, env={"COLUMNS": "120"}
    )
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def with_broken():
    """The installed plugins, and one with a broken space."""

    class Mine:
        @hookimpl
        def ele_output_spaces(self):
            yield Record("words", AugmentsNothing, "Words that are never augmented.")

    added = Registry(registry().plugins())
    added.register(Mine(), "mine")
    return added


def test_an_input_space_without_examples_is_passed_over_unless_it_is_named():
    class Mine:
        @hookimpl
        def ele_input_spaces(self):
            yield Record("bare", HasNoExamples, "Vectors, and none to show.")

        @hookimpl
        def ele_backbones(self):
            yield Record("own", MLPBackbone, "One that the plugin's own inputs are tried on first.")

    added = Registry(registry().plugins())
    added.register(Mine(), "mine")
    assert Choosing("backbone", "own", registry=added).subject().partner == "input space vector"
    with pytest.raises(ConfigError, match="the input space 'bare' has no examples to check with"):
        Choosing("backbone", "own", inputs="bare", registry=added).subject()


def test_the_table_names_every_check_and_the_counts_add_up():
    output = run("candidates")
    assert output.startswith("decoder candidates, on output space sequence\n")
    assert "check_decoding_is_sorted" in output
    ran, every, passed, skipped = map(
        int, re.search(r"(\d+) of (\d+) checks ran: (\d+) passed, (\d+) skipped\.\n", output).groups()
    )
    assert ran == passed == every - skipped == output.count(" passed\n")


def test_json_holds_every_result():
    (component,) = json.loads(run("vector", "--json"))["components"]
    assert (component["kind"], component["name"]) == ("input", "vector")
    assert component["counts"]["checks"] == len(component["results"])
    skipped = [result for result in component["results"] if result["status"] == "skipped"]
    assert [result["explanation"] for result in skipped] == [
        "the space lists no `counterexamples`: objects that must be refused",
        "all inputs are of equal length: sizes is None",
        "inputs tell nothing of their outputs: properties is empty",
    ]


def test_a_broken_component_is_told_and_makes_the_command_fail(with_broken):
    output = run("words", "--set", 'alphabet=["a", "b"]', "--set", "length=3", code=1, registry=with_broken)
    assert "all 512 views equal their structures" in output
    assert "1 failed" in output
    assert "no installed plugin brings AugmentsNothing" in output


def test_options_that_are_required_are_asked_for(with_broken):
    with pytest.raises(ConfigError, match=r"words.alphabet: is required[\s\S]*: --set OPTION=VALUE, or --space"):
        run("words", registry=with_broken)


def test_a_name_of_several_kinds_is_checked_in_all_of_them_unless_one_is_named():
    both = json.loads(run("sequence", "--json"))["components"]
    assert [component["kind"] for component in both] == ["output", "encoder"]
    (one,) = json.loads(run("sequence", "--kind", "encoder", "--json"))["components"]
    assert one["kind"] == "encoder"
    assert "say with --kind" in run("sequence", "--set", "length=3", code=2)


def test_the_space_to_check_on_can_be_chosen():
    (component,) = json.loads(run("flat", "--space", "padded-graph", "--json"))["components"]
    assert component["on"] == "output space padded-graph"


def test_an_unknown_name_gets_the_closest_one():
    with pytest.raises(UnknownComponent, match="did you mean 'search'"):
        run("serch")
    assert "--kind is one of output, encoder" in run("search", "--kind", "decoders", code=2)


def test_a_check_can_be_called_by_itself():
    from ele_core.components.decoders.search import SearchDecoder

    check_options_are_documented(SearchDecoder())


def test_one_check_can_be_run_by_its_name(with_broken):
    (component,) = json.loads(run("candidates", "--only", "decoding_is_sorted", "--json"))["components"]
    assert [result["name"] for result in component["results"]] == ["check_decoding_is_sorted"]
    assert "1 of 1 checks ran: 1 passed." in run("candidates", "--only", "check_decoding_is_sorted")
    words = ["words", "--set", 'alphabet=["a", "b"]', "--set", "length=3", "--only"]
    assert "1 failed" in run(*words, "augment_changes_something", code=1, registry=with_broken)
    assert "1 passed" in run(*words, "keys_ignore_the_packing", registry=with_broken)
    assert "did you mean decoding_is_sorted?" in run("candidates", "--only", "decoding_is_sort", code=2)


class Own(CandidatesDecoder):
    """A decoder of the same name as one of the core's, with an option of its own."""

    class Config(CandidatesDecoder.Config):
        """Options."""

        own: int = 3
        """An option that the core's does not have."""

    config: Config


def test_a_component_that_shares_its_name_with_one_of_the_core_is_checked_itself():
    records = {"decoder": (Record("candidates", Own, "Another one of this name."),)}
    added = Registry([*registry().plugins(), PluginInfo("mine", "ele-mine", "1.0", records=records)])
    subject = Choosing("decoder", "mine:candidates", registry=added).subject()
    assert isinstance(subject.arguments[0], Own)
    assert section_of(subject.arguments[0])["name"] == "mine:candidates"
    (saved,) = run_checks([check_model_saves_and_loads], subject.arguments)
    assert saved.status == "passed", saved
    assert section_of(added.create("decoder", "candidates"))["name"] == "candidates"
