"""The configuration of a run: TOML and dotted overrides, checked in two passes, with all errors reported together.

`RunConfig` is the outline. Each section names a component, and the `Config` of that component checks the options beside
its name, so that plugins define the options of their own sections. A resolved configuration has every default filled
in: `dump` writes it into the run folder, and `load` reads an equal one back.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import tomli_w
from pydantic import AfterValidator, BaseModel, Field, PrivateAttr

from ele_core.config.resolve import NONE, Inferred, Shape, as_table, merge, resolve, validate
from ele_core.errors import ConfigError, PluginError, UnknownComponent
from ele_core.interfaces import ComponentConfig, Task
from ele_core.plugins import Registry
from ele_core.plugins import registry as installed
from ele_core.types import Choice, Kind, Takes

LARGEST = 4 << 20
"""Bytes of the largest configuration file that is read."""


def _device(name: str) -> str:
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", name):
        raise ValueError("should be auto, cpu, cuda or cuda:N")
    return name


class DataConfig(ComponentConfig):
    """A table of your own: its file and the columns to read."""

    file: str
    """The file of input and output pairs."""
    input: str | None = None
    """The column of inputs, or several: `a,b,c`, or `b0:b9` for all from `b0` to `b9`; by default the first that is not
    the output."""
    output: str | None = None
    """The column of outputs; by default the last."""
    extra: str | None = None
    """A file of outputs without inputs, for pre-training the surrogate."""
    validation: float | None = Field(default=None, ge=0)
    """How many pairs to validate on: a share if below 1, else a number. None: a twentieth, but at least a hundred pairs
    if they are no more than a fifth."""
    test: float = Field(default=0.1, ge=0)
    """How many pairs to hold out for the test: a share if below 1, else a number."""
    any_truth: bool | None = None
    """Whether an input that occurs in several rows has several right outputs: it is in one part of the split, predicted
    once, and right if the answer is any of them. None: every row is a pair by itself."""
    on_error: Literal["raise", "skip"] = "raise"
    """What to do with rows that cannot be used: `raise` lists them and stops, `skip` leaves them out."""


class CandidatesConfig(ComponentConfig):
    """Which candidates a decoder sees."""

    share: float = Field(default=1.0, gt=0, le=1)
    """The share of the candidates to keep; smaller shares are contained in larger ones."""


class SelectionConfig(ComponentConfig):
    """What is tried on validation pairs after training, to keep what predicts best."""

    decoders: tuple[str, ...] = ()
    """Decoders to try; the best becomes the decoder of the model. Empty: only the configured one."""
    pairs: int = Field(default=100, ge=1)
    """The most validation pairs to decode for it."""


class CalibrationConfig(ComponentConfig):
    """Pairs that no stage of a training sees, to learn from them how far predictions can be trusted."""

    pairs: float = Field(default=0, ge=0)
    """How many training pairs to set aside for it: a share if below 1, else a number; 0: none. From 1,000 training
    pairs of your own on, by default a twentieth, at least 100 and at most 2,000."""
    structures: int = Field(default=20, ge=2)
    """The structures to find for each input; no prediction set is larger."""
    largest_loss: float = Field(default=10, gt=0)
    """The most that one example counts if the expected value of a metric is limited."""


class RunConfig(ComponentConfig):
    """The outline of a run. A section may be a bare name: `decoder = "pgd"` is `decoder = {name = "pgd"}`."""

    seed: int = Field(default=0, ge=0)
    """The seed of everything random in a run."""
    device: Annotated[str, AfterValidator(_device)] = "auto"
    """Where to compute: auto, cpu, cuda or cuda:N."""
    epochs: float | None = Field(default=None, gt=0)
    """Passes over the training set in every stage that trains a network, instead of its own `training.epochs`."""
    minutes: float | None = Field(default=None, gt=0)
    """About how long networks train: every stage gets an equal share as its `training.minutes`."""
    task: Annotated[Choice | None, Takes("task")] = None
    """A named data set with a configuration; sections that are not given are taken from it."""
    data: DataConfig | None = None
    """Your own data, instead of the task's."""
    output: Annotated[Choice, Takes("output"), Inferred()]
    """The structures to predict; labels and sizes that are not given are inferred from the data."""
    input: Annotated[Choice, Takes("input")] = Choice(name="text")
    """How inputs are read."""
    surrogate: Annotated[Choice, Takes("surrogate")] = Choice(name="contrastive")
    """The loss on outputs, as an embedding."""
    regressor: Annotated[Choice, Takes("regressor")] = Choice(name="neural")
    """What predicts queries in the embedding from inputs."""
    decoder: Annotated[Choice, Takes("decoder")] = Choice(name="candidates")
    """What finds the structures of least energy for a query."""
    candidates: CandidatesConfig = CandidatesConfig()
    """The candidates that a decoder chooses from or starts at."""
    selection: SelectionConfig = SelectionConfig()
    """What is chosen on validation pairs after training."""
    calibration: CalibrationConfig = CalibrationConfig()
    """Pairs set aside to learn how far predictions can be trusted."""

    _registry: Registry | None = PrivateAttr(default=None)
    _given: dict[str, Any] | None = PrivateAttr(default=None)

    def __eq__(self, other: object) -> bool:
        """Whether all options are equal, whichever of them were given."""
        return isinstance(other, RunConfig) and self.__dict__ == other.__dict__

    __hash__ = ComponentConfig.__hash__

    @property
    def registry(self) -> Registry:
        """The registry in which the names of this configuration are looked up, as given to `load`."""
        return self._registry or installed()

    @property
    def given(self) -> dict[str, Any]:
        """The options that were given to `load`, without defaults; all options if it was made otherwise."""
        return self.model_dump() if self._given is None else self._given


def load(
    source: str | Path | Mapping[str, Any],
    overrides: Sequence[str] = (),
    registry: Registry | None = None,
) -> RunConfig:
    """Resolve the configuration of a TOML file, a task's name or a mapping, changed by overrides such as `a.b=c`."""
    registry = registry or installed()
    given = merge(_read(source, registry), parse_overrides(overrides))
    defaults = _outline_defaults()
    try:
        defaults = merge(defaults, _task_defaults(given, registry))
        task_found = True
    except PluginError:  # `validate` reports why; sections that only the task could give are not reported as well
        task_found = False
    config = validate(RunConfig, merge(defaults, given), "", registry, partial=not task_found)
    config._registry = registry
    config._given = given
    return config


def task_sections(
    task: type[Task], registry: Registry, *, own_data: bool, options: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the sections of a task; with `own_data` without the labels and sizes of the task's outputs.

    These are the required options of the output space, which it infers from data if they are not given. Only the spaces
    of the task are used for own data: how to train follows from the number of pairs.
    """
    sections = _tables(task.defaults_for(options or {}))
    if own_data:
        sections = {name: section for name, section in sections.items() if name in ("input", "output")}
    output = sections.get("output")
    if own_data and isinstance(output, Mapping):
        fields = registry.get("output", output["name"]).Config.model_fields
        sections["output"] = {
            key: value for key, value in output.items() if key not in fields or not fields[key].is_required()
        }
    return sections


def dump(config: RunConfig) -> str:
    """Return the configuration as TOML text, from which `load` makes an equal one.

    A None among the options of a component is written as `none`: if it were left out, `load` would replace it by the
    default of a task or of another component.
    """
    sections = config.model_dump(exclude_none=True)
    choices = {name: _spell_none(as_table(value)) for name, value in config if isinstance(value, Choice)}
    return tomli_w.dumps(sections | choices)


def override(path: str, value: Any) -> str:
    """Return the override that sets an option to a value, as `load` takes it."""
    spelt = NONE if value is None else tomli_w.dumps({"value": value}).partition("=")[2]
    return f"{path}={' '.join(spelt.split())}"


def with_output(config: RunConfig, output: ComponentConfig) -> RunConfig:
    """Return the configuration with the complete options of its output space, as inferred from data."""
    choice = Choice.model_validate({"name": config.output.name, **output.model_dump(mode="json")})
    return config.model_copy(update={"output": choice})


def components(config: RunConfig) -> list[tuple[Kind, str]]:
    """Return the kind and name of every component of a resolved configuration, including nested ones."""
    return list(_components(config, "", config.registry))


# -- where a configuration comes from -----------------------------------------------------------------------------


def _read(source: str | Path | Mapping[str, Any], registry: Registry) -> dict[str, Any]:
    if isinstance(source, Mapping):
        return _tables(source)
    path = Path(source)
    if isinstance(source, str) and not path.is_file():
        try:
            registry.provider("task", source)
        except UnknownComponent as error:
            if source in registry.names("output"):
                return {"output": {"name": source}}
            raise ConfigError(f"there is no file '{source}', and {error.what}", fix=error.fix) from None
        return {"task": {"name": source}}
    return _read_toml(path)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > LARGEST:
            raise ConfigError(f"is larger than {LARGEST:,} bytes: this cannot be a configuration.", where=str(path))
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}.", where=str(path)) from error
    except (
        ValueError,
        RecursionError,
    ) as error:  # not TOML, not UTF-8, a number of 5,000 digits, nested too deeply
        raise ConfigError(f"is not valid TOML: {error}.", where=str(path)) from error


def parse_overrides(overrides: Sequence[str]) -> dict[str, Any]:
    """Parse overrides into one table; a section's name and its options may come in any order."""
    table: dict[str, Any] = {}
    for keys, text in sorted(map(_split_override, overrides), key=lambda pair: len(pair[0])):
        *sections, last = keys
        inner = table
        for key in sections:
            section = as_table(inner.get(key))
            inner[key] = dict(section) if isinstance(section, Mapping) else {}
            inner = inner[key]
        inner[last] = _parse_value(text)
    return table


def _split_override(override: str) -> tuple[list[str], str]:
    path, equals, text = override.partition("=")
    keys = [key.strip() for key in path.split(".")]
    if not equals or not all(keys):
        raise ConfigError(f"'{override}' is not an override;", fix="write it as section.option=value.")
    return keys, text.strip()


def _parse_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _task_defaults(given: Mapping[str, Any], registry: Registry) -> dict[str, Any]:
    task = as_table(given.get("task"))
    if not isinstance(task, Mapping) or not isinstance(task.get("name"), str) or task["name"] == NONE:
        return {}
    cls = cast("type[Task]", registry.get("task", task["name"]))
    options = {name: value for name, value in task.items() if name != "name"}
    return task_sections(cls, registry, own_data=given.get("data") not in (None, NONE), options=options)


def _outline_defaults() -> dict[str, Any]:
    defaults = {name: field.default for name, field in RunConfig.model_fields.items()}
    return _tables({name: value for name, value in defaults.items() if isinstance(value, Choice)})


def _tables(sections: Mapping[str, Any]) -> dict[str, Any]:
    return {name: as_table(value) if isinstance(value, BaseModel) else value for name, value in sections.items()}


def _components(config: BaseModel, path: str, registry: Registry) -> Iterator[tuple[Kind, str]]:
    for name, field in type(config).model_fields.items():
        value, shape = getattr(config, name), Shape.of(field)
        here = f"{path}.{name}" if path else name
        if shape.kind is not None and isinstance(value, Choice):
            yield shape.kind, value.name
            yield from _components(resolve(shape.kind, value, here, registry)[1], here, registry)
        elif isinstance(value, BaseModel):
            yield from _components(value, here, registry)


def _spell_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _spell_none(each) for key, each in value.items()}
    return NONE if value is None else value
