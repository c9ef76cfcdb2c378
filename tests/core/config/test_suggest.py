"""Options that suit the data: texts, vectors, inputs without a network, and what the user gave."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from ele_core import StructuredPredictor
from ele_core import config as configuration
from ele_core.components.inputs.text import TextInput
from ele_core.components.inputs.vector import VectorInput
from ele_core.config import RunConfig, suited
from ele_core.config.suggest import LEAST_STEPS, MOST_STEPS
from ele_core.interfaces import InputSpace
from ele_core.numerics.tensors import Tensors
from ele_core.plugins import Record, Registry, hookimpl
from ele_core.plugins.loader import load_installed


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


def suggested(inputs: Any, pairs: int = 1000, own_data: bool = True, **given: Any) -> RunConfig:
    """The configuration that suits so many pairs; `given` by the user."""
    registry = given.pop("registry", None)
    config = configuration.load({"output": "sequence", **given}, registry=registry)
    return suited(config, inputs, pairs, own_data=own_data)


def test_texts_get_parts_a_recurrent_network_with_a_kernel_and_decoders_to_choose_from():
    config = suggested(TextInput())
    assert (config.surrogate.name, config.regressor.name, config.decoder.name) == ("parts", "stacked", "search")
    assert config.selection.decoders == ("search", "candidates")
    options = config.regressor.options
    assert options["network"]["backbone"]["name"] == "gru"
    assert (options["kernel"]["name"], options["kernel"]["kernel"]) == ("sketched-ridge", "cosine")
    assert options["kernel"]["sketch"]["size"] == 1000
    assert options["copying"]["name"] == "nearest-input"


def test_vectors_get_a_perceptron_and_the_kernel_that_is_natural_for_them():
    options = suggested(VectorInput(), input="vector").regressor.options
    assert options["network"]["backbone"]["name"] == "mlp"
    assert options["kernel"]["kernel"] == "natural"


@pytest.mark.parametrize("pairs", [10, 300, 3000, 30_000, 3_000_000])
def test_a_network_has_neither_few_nor_too_many_steps(pairs):
    training = suggested(TextInput(), pairs).regressor.options["network"]["training"]
    steps = training["epochs"] * pairs / min(training["batch_size"], pairs)
    assert 0.9 * LEAST_STEPS <= steps <= 1.1 * MOST_STEPS


def test_the_kernel_keeps_at_most_four_thousand_inputs():
    assert suggested(TextInput(), 50_000).regressor.options["kernel"]["sketch"]["size"] == 4000


def test_inputs_that_no_backbone_reads_get_the_kernel_alone(registry):
    options = suggested(WeekdayInput(), input="weekday", registry=registry).regressor.options
    assert options["network"] is None
    assert options["kernel"]["name"] == "sketched-ridge"


def test_inputs_that_no_backbone_reads_are_learned_from(registry):
    days, names = [day % 7 for day in range(70)], ["mo", "tu", "we", "th", "fr", "sa", "su"]
    predictor = StructuredPredictor("sequence", input="weekday", registry=registry)
    predictor.fit(days, [names[day] for day in days])
    assert predictor.predict([0, 3, 6]) == ["mo", "th", "su"]


def test_what_the_user_gave_is_kept():
    config = suggested(
        TextInput(), surrogate={"name": "contrastive", "dim": 8}, regressor="sketched-ridge", decoder="pgd"
    )
    assert (config.surrogate.name, config.surrogate.options["dim"]) == ("contrastive", 8)
    assert (config.regressor.name, config.decoder.name) == ("sketched-ridge", "pgd")
    assert config.selection.decoders == (), "the user chose the decoder"


def test_an_option_without_a_name_belongs_to_the_component_that_had_it_before():
    config = suggested(TextInput(), surrogate={"dim": 8}, regressor={"training": {"epochs": 3}}, decoder="candidates")
    assert (config.surrogate.name, config.surrogate.options["dim"]) == ("contrastive", 8)
    assert (config.regressor.name, config.regressor.options["training"]["epochs"]) == ("neural", 3)
    assert config.regressor.options["backbone"]["name"] == "gru"


def test_options_of_a_stacked_regressor_are_added_to_those_that_suit_the_data():
    options = suggested(TextInput(), regressor={"name": "stacked", "kernel": {"grams": 2}}).regressor.options
    assert options["kernel"]["grams"] == 2
    assert options["kernel"]["kernel"] == "cosine"
    assert options["network"]["training"]["batch_size"] == 64


def test_a_resolved_configuration_is_not_changed_by_the_data():
    config = suggested(TextInput())
    again = configuration.load(configuration.dump(config) and config.model_dump())
    assert suited(again, TextInput(), 50, own_data=True) == again


def test_a_task_on_a_part_of_its_data_trains_for_enough_steps():
    config = configuration.load("number-words")
    raised = suited(config, TextInput(), 200, own_data=False)
    for section in ("surrogate", "regressor"):
        before, after = (getattr(each, section).options["training"] for each in (config, raised))
        assert after["epochs"] > before["epochs"]
        assert after["epochs"] * 200 / min(after["batch_size"], 200) >= LEAST_STEPS
    assert suited(config, TextInput(), 10**6, own_data=False) == config
    given = configuration.load("number-words", ["surrogate.training.epochs=1", "regressor.training.epochs=1"])
    assert suited(given, TextInput(), 200, own_data=False) == given


def test_vectors_in_memory_are_recognised():
    made = StructuredPredictor("sequence", decoder="candidates", regressor="nearest-input", surrogate="parts")
    made.fit(np.eye(8), list("abcdefgh") * 1, validation=2)
    assert made.model_.config.input.name == "vector"
