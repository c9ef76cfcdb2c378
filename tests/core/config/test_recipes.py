"""Recipes: what suits texts, vectors, inputs without a network; what the user gave; what changes a component."""

from __future__ import annotations

import copy
import dataclasses
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from mistakes.bases import Labels
from torch import Tensor

from ele_core import ConfigError, StructuredPredictor, load_config
from ele_core import config as configuration
from ele_core.components.inputs.text import TextInput
from ele_core.components.inputs.vector import VectorInput
from ele_core.config import Facts, RunConfig, plan, recipe_line
from ele_core.config.recipes import (
    DECISION_PAIRS,
    DECISION_STEPS,
    LARGEST_SKETCH,
    LEAST_DECISIONS,
    LEAST_STEPS,
    LEAST_WRITING,
    MOST_STEPS,
    OWN_DATA,
    blocks,
    encoder_for,
)
from ele_core.interfaces import InputSpace
from ele_core.numerics.tensors import Tensors
from ele_core.plugins import Record, Registry, hookimpl
from ele_core.plugins import registry as installed
from ele_core.plugins.loader import load_installed
from ele_graphs.coloring.space import CellGraphSpace
from ele_sequences.space import SequenceSpace

LEARNED = ("contrastive", "joint", "search")
PAPER = ("contrastive", "neural", "pgd")


@dataclass(frozen=True, eq=False)
class Weekdays(Tensors):
    """Days as numbers."""

    days: Tensor


class WeekdayInput(InputSpace[int]):
    """An input space of a third party, for which there is no backbone."""

    Batch: ClassVar[type[Tensors]] = Weekdays

    def parse(self, text: str) -> int:
        return int(text)

    def format(self, value: int) -> str:
        return str(value)

    def fit(self, values: Any) -> None:
        pass

    def pack(self, values: Any) -> Weekdays:
        return Weekdays(torch.nn.functional.one_hot(torch.tensor(values), 7))

    def examples(self) -> list[int]:
        return [0, 1, 6]

    def save(self, folder: Path) -> None:
        pass

    def load(self, folder: Path) -> None:
        pass


class Plugin:
    """The plugin of the third party."""

    @hookimpl
    def ele_input_spaces(self) -> Any:
        return [Record("weekday", WeekdayInput)]


@pytest.fixture(scope="module")
def registry() -> Registry:
    found = Registry(load_installed())
    found.register(Plugin(), "weekdays")
    return found


def planned(inputs: Any, pairs: int = 1000, **given: Any) -> RunConfig:
    """The configuration for so many pairs of inputs and words; `given` by the user."""
    registry = given.pop("registry", None) or installed()
    given = {"output": "sequence", **given}
    space = SequenceSpace(SequenceSpace.Config(alphabet=tuple("abc"), length=3))
    config = configuration.load(given, registry=registry)
    return plan(given, Facts(config.input, inputs, space, pairs, 0), registry)


def test_texts_get_a_learned_loss_a_kernel_a_network_that_writes_and_decoders_to_choose_from():
    config = planned(TextInput())
    assert config.recipe == OWN_DATA == "learned"
    assert (config.surrogate.name, config.regressor.name, config.decoder.name) == LEARNED
    assert config.selection.decoders == ("search", "candidates")
    options = config.regressor.options["loss"]
    assert options["name"] == "stacked"
    assert options["network"] is None  # the kernel keeps all pairs
    assert (options["kernel"]["name"], options["kernel"]["kernel"]) == ("sketched-ridge", "cosine")
    assert options["kernel"]["sketch"]["size"] == 1000
    assert options["copying"]["name"] == "nearest-input"
    writer = config.regressor.options["writer"]
    assert (writer["name"], writer["backbone"]["name"]) == ("writer", "gru")


def test_with_more_pairs_than_the_kernel_keeps_there_is_a_network_onto_the_loss():
    networks = [planned(TextInput(), pairs).regressor.options["loss"]["network"] for pairs in (4000, 4001)]
    assert networks[0] is None
    assert networks[1]["backbone"]["name"] == "gru"


def test_vectors_get_a_perceptron_and_the_kernel_that_is_natural_for_them():
    options = planned(VectorInput(), 10_000, input="vector").regressor.options
    assert options["loss"]["network"]["backbone"]["name"] == options["writer"]["backbone"]["name"] == "mlp"
    assert options["loss"]["kernel"]["kernel"] == "natural"


def test_blocks_get_a_likelihood_with_the_budget_of_the_network_unless_structures_have_several_packings(registry):
    config = planned(TextInput(), pairs=10_000)
    given = config.regressor.options
    assert given["blocks"]["name"] == "blocks"
    assert given["blocks"]["backbone"] == given["loss"]["network"]["backbone"]
    assert given["blocks"]["training"] == given["loss"]["network"]["training"]
    assert planned(VectorInput(), input="vector").regressor.options["blocks"]["backbone"]["layer_norm"] is False
    space = CellGraphSpace(CellGraphSpace.Config())
    facts = Facts(config.input, TextInput(), space, 1000, 0)
    assert blocks(facts, registry) is None
    assert blocks(dataclasses.replace(facts, inputs=WeekdayInput()), registry) is None


def test_only_texts_get_n_grams_of_aligned_tokens():
    assert planned(TextInput()).regressor.options["aligned"]["name"] == "joint-ngram"
    assert planned(VectorInput(), input="vector").regressor.options.get("aligned") in (None, "none")


@pytest.mark.parametrize("pairs", [10, 300, 3000, 30_000, 3_000_000])
def test_a_network_has_neither_few_nor_too_many_steps(pairs):
    options = planned(TextInput(), pairs).regressor.options
    networks = [(options["writer"], LEAST_WRITING), (options["blocks"], LEAST_STEPS)]
    if pairs > LARGEST_SKETCH:
        networks.append((options["loss"]["network"], LEAST_STEPS))
    for section, least in networks:
        training = section["training"]
        steps = training["epochs"] * pairs / min(training["batch_size"], pairs)
        assert 0.9 * least <= steps <= 1.1 * MOST_STEPS


def test_the_kernel_keeps_at_most_four_thousand_inputs():
    assert planned(TextInput(), 50_000).regressor.options["loss"]["kernel"]["sketch"]["size"] == 4000


def test_inputs_that_no_backbone_reads_get_the_kernel_alone(registry):
    options = planned(WeekdayInput(), input="weekday", registry=registry).regressor.options
    assert (options["loss"]["network"], options["writer"]) == (None, None)
    assert options["loss"]["kernel"]["name"] == "sketched-ridge"


def test_inputs_that_no_backbone_reads_are_learned_from(registry):
    days, names = [day % 7 for day in range(70)], ["mo", "tu", "we", "th", "fr", "sa", "su"]
    predictor = StructuredPredictor("sequence", input="weekday", registry=registry)
    predictor.fit(days, [names[day] for day in days])
    assert predictor.predict([0, 3, 6]) == ["mo", "th", "su"]


def test_what_the_user_gave_is_kept():
    config = planned(
        TextInput(), surrogate={"name": "contrastive", "dim": 8}, regressor="sketched-ridge", decoder="pgd"
    )
    assert (config.surrogate.name, config.surrogate.options["dim"]) == ("contrastive", 8)
    assert (config.regressor.name, config.decoder.name) == ("sketched-ridge", "pgd")
    assert config.selection.decoders == (), "the user chose the decoder"


@pytest.mark.parametrize(("recipe", "names"), [("learned", LEARNED), ("paper", PAPER)])
def test_an_option_without_a_name_belongs_to_the_component_of_the_recipe(recipe, names):
    config = planned(TextInput(), recipe=recipe, surrogate={"dim": 8}, decoder={"trace": 1})
    assert (config.surrogate.name, config.regressor.name, config.decoder.name) == names
    assert config.surrogate.options["dim"] == 8


def test_the_option_of_a_component_inside_another_is_refused_with_its_path():
    with pytest.raises(ConfigError) as refused:
        configuration.load({"output": "sequence", "regressor": {"training": {"epochs": 3}, "grams": 2}})
    assert str(refused.value).splitlines() == [
        "regressor.training: unknown option; did you mean 'regressor.writer.training.epochs'?",
        "regressor.grams: unknown option; the options are loss, writer, aligned, blocks",
    ]
    given = {"loss": {"network": {"training": {"epochs": 3}}}}
    options = planned(TextInput(), 10_000, regressor=given).regressor.options["loss"]
    assert (options["network"]["training"]["epochs"], options["network"]["training"]["batch_size"]) == (3, 128)


def test_the_learned_recipe_trains_an_encoder_that_adds_up_parts_with_the_pairs():
    config = planned(TextInput(), recipe="learned")
    options = config.surrogate.options
    assert (options["encoder"]["name"], options["spherical"], options["training"]) == ("contexts", False, None)
    decisions = options["decisions"]
    assert decisions["pairs"] == 1000
    assert decisions["epochs"] * 1000 / decisions["batch_size"] == pytest.approx(DECISION_STEPS, rel=0.01)


@pytest.mark.parametrize(("pairs", "used"), [(10, None), (199, None), (200, 200), (5000, 3000), (10**6, 3000)])
def test_the_loss_is_trained_with_pairs_if_there_are_enough_and_with_a_bounded_number(pairs, used):
    assert (LEAST_DECISIONS, DECISION_PAIRS) == (200, 3000)
    decisions = planned(TextInput(), pairs).surrogate.options["decisions"]
    assert (decisions and decisions["pairs"]) == used


@pytest.mark.parametrize(
    ("space", "name"),
    [
        (SequenceSpace(SequenceSpace.Config(alphabet=tuple("abc"), length=3)), "contexts"),
        (CellGraphSpace(CellGraphSpace.Config(max_nodes=4)), "neighbourhoods"),
        (Labels(Labels.Config(labels=("x", "y"))), "blocks"),
    ],
)
def test_the_learned_recipe_has_an_encoder_that_adds_up_the_parts_of_the_structures(space, name):
    assert encoder_for(space, installed(), additive=True) == {"name": name}
    assert installed().get("encoder", name).additive


def test_the_papers_recipe_learns_the_loss_with_an_encoder_made_for_the_structures():
    config = planned(TextInput(), recipe="paper")
    assert (config.surrogate.name, config.regressor.name, config.decoder.name) == PAPER
    assert config.surrogate.options["encoder"]["name"] == "sequence"
    assert (config.surrogate.options["spherical"], config.surrogate.options["decisions"]) == (True, None)
    assert config.selection.decoders == ("pgd", "candidates")
    assert config.regressor.options["backbone"]["name"] == "gru"
    assert config.recipe == "paper"


def test_a_task_is_a_recipe_for_data_of_ones_own():
    config = planned(TextInput(), recipe="number-words")
    options = load_config("number-words")
    assert config.decoder == options.decoder
    assert config.surrogate.options["encoder"] == options.surrogate.options["encoder"]
    assert config.output.options["alphabet"] == ["a", "b", "c"]


def test_another_recipe_keeps_the_spaces_of_a_task():
    config = configuration.load("number-words", {"recipe": "learned"})
    assert (config.surrogate.name, config.regressor.name, config.decoder.name) == LEARNED
    assert (config.output, config.input) == (load_config("number-words").output, load_config("number-words").input)


@pytest.mark.parametrize(("name", "guess"), [("lerned", "did you mean 'learned'? "), (3, ""), ("qqqqqqqq", "")])
def test_an_unknown_recipe_lists_the_known_ones_beside_other_problems(name, guess):
    with pytest.raises(ConfigError) as refused:
        configuration.load({"output": "sequence", "recipe": name, "sed": 1})
    first, second = str(refused.value).splitlines()
    assert first.startswith(f"recipe: no recipe is called {name!r}; {guess}Recipes: learned, paper; tasks: ")
    assert "number-words" in first
    assert second == "sed: unknown option; did you mean 'seed'?"


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({}, "learned (your own data: the loss is learned from your structures and pairs)"),
        ({"recipe": "paper"}, "paper (as given: the loss is learned from your structures alone, as in the paper)"),
        ({"surrogate": "parts", "decoder": "pgd"}, "learned (your own data), with surrogate=parts, decoder=pgd"),
        (
            {"surrogate": "contrastive", "decoder": "pgd"},
            "learned (your own data: the loss is learned from your structures and pairs), with decoder=pgd",
        ),
        ({"recipe": "number-words"}, "number-words (as given)"),
    ],
)
def test_the_line_for_the_user_says_which_recipe_and_why(given, line):
    assert configuration.recipe_line(planned(TextInput(), **given)) == f"recipe: {line}"
    assert recipe_line(load_config("number-words")) == "recipe: number-words (the task's own configuration)"


def test_options_of_a_regressor_inside_another_are_added_to_those_that_suit_the_data():
    given = {"name": "joint", "loss": {"name": "stacked", "kernel": {"grams": 2}}}
    options = planned(TextInput(), 10_000, regressor=given).regressor.options["loss"]
    assert options["kernel"]["grams"] == 2
    assert options["kernel"]["kernel"] == "cosine"
    assert options["network"]["training"]["batch_size"] == 128


def test_a_resolved_configuration_is_not_changed_by_the_data():
    for recipe in ("learned", "paper", "number-words"):
        config = planned(TextInput(), recipe=recipe)
        again = tomllib.loads(configuration.dump(config))
        assert planned(TextInput(), 50, **again) == configuration.load(again) == config


def test_a_task_on_a_part_of_its_data_trains_for_enough_steps():
    config = configuration.load("number-words")
    raised = of_task(200)
    for section in ("surrogate", "regressor"):
        before, after = (getattr(each, section).options["training"] for each in (config, raised))
        assert after["epochs"] > before["epochs"]
        assert after["epochs"] * 200 / min(after["batch_size"], 200) >= LEAST_STEPS
    enough = of_task(10**6)
    assert (enough.surrogate, enough.regressor) == (config.surrogate, config.regressor)
    given = configuration.load("number-words", ["surrogate.training.epochs=1", "regressor.training.epochs=1"])
    few = of_task(200, **given.given)
    assert (few.surrogate, few.regressor) == (given.surrogate, given.regressor)


def of_task(pairs: int, **given: Any) -> RunConfig:
    """The configuration of number-words for so many pairs."""
    config = configuration.load({"task": "number-words", **given})
    space = config.registry.create("output", config.output)
    return plan(config.given, Facts(config.input, TextInput(), space, pairs, 0), config.registry)


def test_a_plan_does_not_change_what_it_is_made_from():
    given = {"output": "sequence", "regressor": {"loss": {"kernel": {"grams": 2}}}, "minutes": 3}
    before = copy.deepcopy(given)
    planned(TextInput(), **given)
    assert given == before


def test_vectors_in_memory_are_recognised():
    made = StructuredPredictor("sequence", decoder="candidates", regressor="nearest-input", surrogate="parts")
    made.fit(np.eye(8) / 2, list("abcdefgh") * 1, validation=2)
    assert made.model_.config.input.name == "vector"
