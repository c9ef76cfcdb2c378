"""Run configurations: where values come from, what is refused and how it is said, and that they survive a file."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from fakes import CorePlugin, FakeOutput, FakeSurrogate, fake_registry, stub

from ele_core.config import RunConfig, components, describe_options, dump, load, resolve, with_output
from ele_core.errors import ConfigError, UnknownComponent
from ele_core.interfaces import Decoder
from ele_core.plugins import Record, Registry, hookimpl
from ele_core.sources import Task
from ele_core.types import Choice

MINIMAL: dict[str, Any] = {"output": "labels"}


@pytest.fixture
def registry() -> Registry:
    return fake_registry()


def problems(source: Any, registry: Registry, *overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        load(source, overrides, registry)
    return str(error.value).split("\n")


# -- where values come from ---------------------------------------------------------------------------------------


def test_defaults_are_filled_in_down_to_nested_choices(registry: Registry) -> None:
    config = load(MINIMAL, registry=registry)
    assert (config.seed, config.device, config.task, config.data) == (0, "auto", None, None)
    assert config.decoder == Choice(name="search")
    assert config.surrogate.options == {
        "dim": 32,
        "encoder": {"name": "wide", "width": 128},
        "second": None,
        "training": {"epochs": 20, "rates": [0.1], "patience": 3},
    }


def test_a_bare_name_is_a_table_with_that_name_at_every_level(registry: Registry) -> None:
    bare = {**MINIMAL, "decoder": "fake", "surrogate": {"name": "fake", "encoder": "deep"}}
    full = {**MINIMAL, "decoder": {"name": "fake"}, "surrogate": {"name": "fake", "encoder": {"name": "deep"}}}
    assert load(bare, registry=registry) == load(full, registry=registry)


def test_choices_may_be_given_as_objects(registry: Registry) -> None:
    config = load({"output": Choice(name="labels"), "decoder": Choice(name="fake", steps=3)}, registry=registry)
    assert config.decoder.options["steps"] == 3


def test_a_section_without_a_name_keeps_the_component_of_the_recipe(registry: Registry) -> None:
    config = load({**MINIMAL, "surrogate": {"encoder": {"width": 5}, "training": {"rates": [1]}}}, registry=registry)
    assert config.surrogate.name == "contrastive"
    assert config.surrogate.options["encoder"] == {"name": "wide", "width": 5}
    assert config.surrogate.options["training"] == {"epochs": 20, "rates": [1.0], "patience": 3}


def test_the_options_of_a_default_choice_do_not_pass_to_another_component(registry: Registry) -> None:
    config = load({**MINIMAL, "surrogate": {"encoder": {"name": "deep"}}}, registry=registry)
    assert config.surrogate.options["encoder"] == {"name": "deep", "depth": 2}


def test_a_task_gives_the_sections_that_are_not_given(registry: Registry) -> None:
    config = load({"task": "number-words", "surrogate": {"dim": 9}, "decoder": {"name": "fake"}}, registry=registry)
    assert config.task == Choice(name="number-words", rows=1000)
    assert config.output == Choice(name="labels", labels=["a", "b"])
    assert config.surrogate.options["dim"] == 9
    assert config.surrogate.options["encoder"] == {"name": "deep", "depth": 5}
    assert config.decoder.options["steps"] == 7


def test_a_tasks_options_do_not_pass_to_another_component(registry: Registry) -> None:
    config = load("number-words", ["decoder=candidates", "surrogate.encoder.name=wide"], registry)
    assert config.decoder == Choice(name="candidates")
    assert config.surrogate.options["encoder"] == {"name": "wide", "width": 128}
    assert config.surrogate.options["dim"] == 8
    other = load("number-words", ["surrogate.name=contrastive"], registry)
    assert other.surrogate.options["dim"] == 32


def test_source_may_be_a_file_a_task_or_a_mapping(registry: Registry, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('task = "number-words"')
    expected = load({"task": {"name": "number-words"}}, registry=registry)
    assert load(file, registry=registry) == load(str(file), registry=registry) == expected
    assert load("number-words", registry=registry) == expected


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("decoder.start=3", 3),
        ("decoder.start=three", "three"),
        ("decoder.start='3'", "3"),
        ("decoder.start = a b", "a b"),
        ("decoder.start=a=b", "a=b"),
        ("decoder.start=", ""),
    ],
)
def test_override_values_are_toml_or_else_plain_text(registry: Registry, override: str, value: object) -> None:
    config = load({**MINIMAL, "decoder": "fake"}, [override], registry)
    assert config.decoder.options["start"] == value


@pytest.mark.parametrize(
    "overrides",
    [
        ["decoder=fake", "decoder.steps=5"],
        ["decoder.steps=5", "decoder=fake"],
        ["decoder.steps=5", "decoder.name=fake"],
        ["decoder={name='fake', steps=5}"],
        ["decoder.steps=4", "decoder=fake", "decoder.steps=5"],
    ],
)
def test_overrides_of_one_section_come_in_any_order(registry: Registry, overrides: list[str]) -> None:
    assert load(MINIMAL, overrides, registry).decoder.options["steps"] == 5


def test_none_is_a_word(registry: Registry) -> None:
    config = load("number-words", ["surrogate.training.patience=none", "surrogate.second=deep"], registry)
    assert resolve("surrogate", config.surrogate, "", registry)[1].training.patience is None
    again = load(tomllib.loads(dump(config)), ["surrogate.second=none", "task=none"], registry)
    assert again.task is None
    assert again.surrogate.options["second"] is None


# -- what is refused ----------------------------------------------------------------------------------------------


def test_every_problem_is_told_at_once_with_its_path(registry: Registry) -> None:
    source = {
        "sed": 1,
        "device": "gpu",
        "output": {"name": "labels", "labels": "abc", "sise": 3},
        "data": {"fil": "x.csv", "on_error": "ignore", "test": 1.5, "validation": 0.2},
        "decoder": {"name": "fkae", "steps": 3},
        "surrogate": {"encoder": {"widht": 3}, "second": "wied", "training": {"epochs": "many", "rate": 1}, "dim": []},
        "regressor": {"width": 3},
        "input": 3,
    }
    found = problems(source, registry)
    assert sorted(line.split(". Run")[0] for line in found) == sorted(
        [
            "sed: unknown option; did you mean 'seed'?",
            "device: should be auto, cpu, cuda or cuda:N (got 'gpu')",
            'output.labels: should be a list, such as ["a", "b"] (got \'abc\')',
            "output.sise: unknown option; did you mean 'size'?",
            "data.fil: unknown option; did you mean 'file'?",
            "data.file: is required",
            "data.test: should be a share below 1, or a whole number of pairs (got 1.5)",
            "data.on_error: should be 'raise' or 'skip' (got 'ignore')",
            "decoder.name: no decoder is called 'fkae'; did you mean 'fake'? "
            "Installed decoders: candidates, fake, search",
            "surrogate.encoder.widht: unknown option; did you mean 'width'?",
            "surrogate.second.name: no encoder is called 'wied'; did you mean 'wide'? Installed encoders: deep, wide",
            "surrogate.training.epochs: should be a valid integer (got 'many')",
            "surrogate.training.rate: unknown option; did you mean 'rates'?",
            "surrogate.dim: should be a valid integer (got [])",
            "regressor.width: unknown option; there are none here",
            "input.name: should be a name (got 3); installed input spaces: text",
        ]
    )


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("decodr=fake", "decodr: unknown option; did you mean 'decoder'?"),
        ("decodr.steps=3", "decodr: unknown option; did you mean 'decoder'?"),
        ("decoder.stepps=3", "decoder.stepps: unknown option; did you mean 'steps'?"),
        ("decoder.zzz=3", "decoder.zzz: unknown option; the options are steps, start, limit"),
        ("decoder.steps=0", "decoder.steps: should be greater than 0 (got 0)"),
        ("decoder.start=[1]", "decoder.start: should be a valid string or should be a valid integer (got [1])"),
        ("decoder.steps.more=1", "decoder.steps: should be a valid integer (got {'more': 1})"),
        ("seed=99999999999999999999", "seed: should be less than 9223372036854775808 (got 99999999999999999999)"),
        ("seed.more=1", "seed: should be a valid integer (got {'more': 1})"),
        ("surrogate.training=3", "surrogate.training: should be a table (got 3)"),
        ("surrogate.training.rates=[1, 'x']", "surrogate.training.rates.1: should be a valid number (got 'x')"),
        ("decoder.name=3", "decoder.name: should be a name (got 3); installed decoders: candidates, fake, search"),
        ("seed", "'seed' is not an override; write it as section.option=value."),
        (".seed=3", "'.seed=3' is not an override; write it as section.option=value."),
    ],
)
def test_a_wrong_override_is_told_with_its_path(registry: Registry, override: str, line: str) -> None:
    assert problems("number-words", registry, override) == [line]


def test_a_missing_output_says_what_there_is(registry: Registry) -> None:
    assert problems({}, registry) == ["output.name: is required; installed output spaces: labels"]


def test_of_an_unknown_task_only_that_is_told_and_what_else_is_wrong(registry: Registry) -> None:
    first, second = problems({"task": "numbr-words", "seed": "x"}, registry)
    assert first.startswith("task.name: no task is called 'numbr-words'; did you mean 'number-words'?")
    assert second.startswith("seed: should be a valid integer")


def test_neither_a_file_nor_a_task(registry: Registry) -> None:
    assert problems("numbr-words", registry) == [
        "there is no file 'numbr-words', and no task is called 'numbr-words'; did you mean 'number-words'? "
        "Installed tasks: number-words. Run `ele plugins` to see what is installed."
    ]


def test_files_that_cannot_be_read(registry: Registry, tmp_path: Path) -> None:
    missing, broken, binary = tmp_path / "no.toml", tmp_path / "broken.toml", tmp_path / "binary.toml"
    broken.write_text("seed = 1\ndevice =\n")
    binary.write_bytes(b"\xff\xfe")
    assert problems(missing, registry) == [f"{missing}: cannot be read: No such file or directory."]
    assert problems(broken, registry) == [f"{broken}: is not valid TOML: Invalid value (at line 2, column 9)."]
    assert "is not valid TOML" in problems(binary, registry)[0]


def test_an_output_may_be_incomplete_until_data_complete_it(registry: Registry) -> None:
    config = load({"output": {"name": "labels", "size": 4}}, registry=registry)
    assert config.output == Choice(name="labels", size=4)
    complete = with_output(config, FakeOutput.Config(labels=["x"], size=4, limit=None))
    assert complete.output == Choice(name="labels", labels=["x"], size=4, limit=None)
    assert load(tomllib.loads(dump(complete)), registry=registry) == complete
    with pytest.raises(ConfigError, match=r"^output\.labels: is required$"):
        resolve("output", config.output, "output", registry)


# -- what becomes of it -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "overrides"),
    [
        (MINIMAL, []),
        ("number-words", []),
        ("number-words", ["decoder=candidates", "surrogate.encoder=wide", "surrogate.second=deep", "seed=3"]),
        ("number-words", ["surrogate.training.patience=none", "surrogate.training.rates=[1, 1e-3]"]),
        ("number-words", ["decoder.limit=none", "surrogate.second.depth=3", "surrogate.second.name=deep"]),
        ("number-words", ["decoder.limit=3", "decoder.start='none'", "candidates.share=0.5"]),
        ({**MINIMAL, "data": {"file": "é.csv", "validation": 10}}, ["data.extra=more.csv"]),
    ],
)
def test_a_resolved_configuration_survives_its_file(
    registry: Registry, source: Any, overrides: list[str], tmp_path: Path
) -> None:
    config = load(source, overrides, registry)
    file = tmp_path / "config.toml"
    file.write_text(dump(config), encoding="utf-8")
    assert load(file, registry=registry) == config
    assert load(json.loads(json.dumps(config.model_dump(mode="json"))), registry=registry) == config


def test_infinity_survives_too(registry: Registry) -> None:
    config = load(MINIMAL, ["surrogate.training.rates=[inf]"], registry)
    assert load(tomllib.loads(dump(config)), registry=registry) == config


def test_a_saved_configuration_does_not_follow_later_defaults(registry: Registry) -> None:
    saved = dump(load("number-words", registry=registry))
    changed = Registry()
    changed.register(CorePluginWithOtherTask(), "core")
    options = load(tomllib.loads(saved), registry=changed).decoder.options
    assert (options["steps"], options["limit"]) == (7, None)


class CorePluginWithOtherTask(CorePlugin):
    """The same components, and a task whose defaults have changed."""

    @hookimpl
    def ele_tasks(self) -> list[Record]:
        task = stub(
            Task, Config=fake_task_config(), defaults=classmethod(lambda _: {"decoder": {"name": "fake", "limit": 70}})
        )
        return [Record("number-words", task)]


def fake_task_config() -> type:
    return fake_registry().get("task", "number-words").Config


def test_components_lists_nested_ones_too(registry: Registry) -> None:
    config = load("number-words", ["surrogate.second=wide"], registry)
    assert components(config) == [
        ("task", "number-words"),
        ("output", "labels"),
        ("input", "text"),
        ("surrogate", "fake"),
        ("encoder", "deep"),
        ("encoder", "wide"),
        ("regressor", "neural"),
        ("decoder", "fake"),
    ]


def test_resolve_gives_the_class_and_a_complete_configuration(registry: Registry) -> None:
    cls, config = resolve("surrogate", {"name": "fake", "encoder": "deep"}, "", registry)
    assert cls is FakeSurrogate
    assert config.encoder == Choice(name="deep", depth=2)
    with pytest.raises(UnknownComponent):
        resolve("surrogate", "fkae", "", registry)


def test_options_are_described_with_type_default_and_text() -> None:
    decoder = fake_registry().get("decoder", "fake")
    assert [tuple(option) for option in describe_options(decoder)] == [
        ("steps", "int", "100", "How many steps."),
        ("start", "str | int", '"best"', ""),
        ("limit", "int | none", "none", ""),
    ]
    surrogate = {option.path: option for option in describe_options(FakeSurrogate)}
    assert surrogate["encoder"][1:3] == ("encoder", '{"name": "wide", "width": 128}')
    assert surrogate["second"][1:3] == ("encoder | none", "none")
    assert surrogate["training.epochs"][1:3] == ("int", "20")
    outline = {option.path: option for option in describe_options(RunConfig)}
    assert outline["output"][1:3] == ("output space", "required")
    assert outline["data"][1:3] == ("table | none", "none")
    assert outline["data.on_error"][1:3] == ('"raise" | "skip"', '"raise"')
    assert describe_options(stub(Decoder)) == []
    assert all(option.description for option in describe_options(RunConfig))


def test_an_output_space_alone_is_a_configuration_for_data_of_ones_own():
    config = load("sequence", ["data.file=pairs.csv"])
    assert (config.output.name, config.task, config.data.file) == ("sequence", None, "pairs.csv")
