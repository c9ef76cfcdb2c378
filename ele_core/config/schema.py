"""The sections of a run's configuration, and how a resolved configuration is written.

`RunConfig` is the outline. Each section names a component, and the `Config` of that component checks the options beside
its name, so plugins define the options of their own sections. Components have no defaults here: a recipe supplies them
(`ele_core.config.recipes`). A resolved configuration has every option filled in: `dump` writes it into the run folder,
and `load` reads an equal one back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, PrivateAttr

from ele_core.component import ComponentConfig
from ele_core.config.resolve import NONE, ByRecipe, Inferred, Shape, as_table, resolve
from ele_core.plugins import Registry
from ele_core.plugins import registry as installed
from ele_core.types import Choice, Kind, Takes


def _device(name: str) -> str:
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", name):
        raise ValueError("should be auto, cpu, cuda or cuda:N")
    return name


def _share_or_number(value: float | None) -> float | None:
    if value is not None and value >= 1 and value % 1:
        raise ValueError("should be a share below 1, or a whole number of pairs")
    return value


class DataConfig(ComponentConfig):
    """A table of your own: its file and the columns to read."""

    file: str
    """The file of input and output pairs."""
    input: str | tuple[str, ...] | None = None
    """The column of inputs, or several that are joined into a vector: `a,b,c`, or `b0:b9` for all from `b0` to `b9`; by
    default the first that is not the output. A list of columns is read by the input space `columns`, each by itself.
    """
    output: str | None = None
    """The column of outputs; by default the last."""
    extra: str | None = None
    """A file of outputs without inputs, for pre-training the surrogate; it may be larger than memory."""
    validation: Annotated[float | None, AfterValidator(_share_or_number)] = Field(default=None, ge=0)
    """How many pairs to validate on: a share if below 1, else a number. None: 5 %, raised to 100 pairs while that is at
    most 20 %."""
    test: Annotated[float, AfterValidator(_share_or_number)] = Field(default=0.1, ge=0)
    """How many pairs to hold out for the test: a share if below 1, else a number."""
    any_truth: bool | None = None
    """Whether an input that occurs in several rows has several right outputs: it is in one part of the split, predicted
    once, and right if the answer is any of them. None: every row is a pair by itself."""
    on_error: Literal["raise", "skip"] = "raise"
    """What to do with rows that cannot be used: `raise` lists them and stops, `skip` omits them."""
    in_memory: int = Field(default=1_000_000, ge=100)
    """About how many rows of the file are kept in memory. If it has more, a sample of so many is split, gives labels,
    sizes and vocabulary, and is searched for candidates; networks train on all pairs, which are packed on disk."""


class StartConfig(ComponentConfig):
    """A trained model to start from."""

    name: str
    """The folder of a run or a model, or the name of an installed model."""
    sha256: str | None = None
    """The digest of its weights, which the run records: a model with others is refused. None: any."""


class CandidatesConfig(ComponentConfig):
    """Which candidates a decoder sees."""

    share: float = Field(default=1.0, gt=0, le=1)
    """The share of the candidates to keep; smaller shares are contained in larger ones."""


class SelectionConfig(ComponentConfig):
    """What is tried on validation pairs after training, to keep what predicts best."""

    decoders: tuple[str, ...] = ()
    """Decoders to try; the best becomes the decoder of the model. Empty: only the configured one."""
    pairs: int = Field(default=100, ge=1)
    """Maximum number of validation pairs to decode for it."""


class CalibrationConfig(ComponentConfig):
    """Pairs that no stage of a training sees, to learn the confidence of predictions from."""

    pairs: float = Field(default=0, ge=0)
    """How many training pairs to set aside for it: a share if below 1, else a number; 0: none. Default for your own
    data: none below 1,000 pairs, then 5 %, between 100 and 2,000."""
    structures: int = Field(default=20, ge=2)
    """The structures to find for each input; no prediction set is larger."""
    largest_loss: float = Field(default=10, gt=0)
    """Upper bound on one example's loss in risk control (`--risk`)."""


class RunConfig(ComponentConfig):
    """The outline of a run. A section may be a bare name: `decoder = "pgd"` is `decoder = {name = "pgd"}`."""

    recipe: str | None = None
    """Where sections that are not given come from: `learned`, `paper`, or a task's name for its configuration."""
    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """The seed of everything random in a run, below 2⁶³."""
    device: Annotated[str, AfterValidator(_device)] = "auto"
    """Where to compute: auto, cpu, cuda or cuda:N."""
    epochs: float | None = Field(default=None, gt=0)
    """Passes over the training set in every stage that trains a network, instead of its own `training.epochs`."""
    minutes: float | None = Field(default=None, gt=0)
    """How long the training may take: closed-form parts always run, and networks share what is left, each for at most
    its own number of steps; one that a model can do without is left out if it would make too few. None: no limit."""
    task: Annotated[Choice | None, Takes("task")] = None
    """A named data set with a configuration; sections that are not given are taken from it."""
    data: DataConfig | None = None
    """Your own data, instead of the task's."""
    start: Annotated[StartConfig | None, BeforeValidator(as_table)] = None
    """A trained model to start from: its output space, its surrogate, and its regressor if it reads the same inputs."""
    output: Annotated[Choice, Takes("output"), Inferred()]
    """The structures to predict; labels and sizes that are not given are inferred from the data."""
    input: Annotated[Choice, Takes("input"), ByRecipe()]
    """How inputs are read."""
    surrogate: Annotated[Choice, Takes("surrogate"), ByRecipe()]
    """The loss on outputs, as an embedding."""
    regressor: Annotated[Choice, Takes("regressor"), ByRecipe()]
    """What predicts queries in the embedding from inputs."""
    decoder: Annotated[Choice, Takes("decoder"), ByRecipe()]
    """What finds the structures of least energy for a query."""
    constraints: dict[str, str | int | float] = Field(default_factory=dict)
    """What predictions must satisfy, in every stage: under the name of a constraint on outputs its value for all
    inputs, or `@` and the name of a property of the input, as in `length = "@words"`; `none`: not this constraint."""
    candidates: CandidatesConfig = CandidatesConfig()
    """The candidates that a decoder chooses from or starts at."""
    selection: SelectionConfig = SelectionConfig()
    """What is chosen on validation pairs after training."""
    calibration: CalibrationConfig = CalibrationConfig()
    """Pairs set aside to learn the confidence of predictions."""

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


def dump(config: RunConfig) -> str:
    """Return the configuration as TOML text, from which `load` makes an equal one.

    A None among the options of a component is written as `none`: if it were omitted, `load` would replace it by the
    default of a recipe or of another component.
    """
    sections = config.model_dump(exclude_none=True)
    choices = {name: _spell_none(as_table(value)) for name, value in config if isinstance(value, Choice)}
    return tomli_w.dumps(sections | choices)


def with_output(config: RunConfig, output: ComponentConfig) -> RunConfig:
    """Return the configuration with the complete options of its output space, as inferred from data."""
    choice = Choice.model_validate({"name": config.output.name, **output.model_dump(mode="json")})
    return config.model_copy(update={"output": choice})


def components(config: RunConfig) -> list[tuple[Kind, str]]:
    """Return the kind and name of every component of a resolved configuration, including nested ones."""
    return list(_components(config, "", config.registry))


def _components(config: BaseModel, path: str, registry: Registry) -> Iterator[tuple[Kind, str]]:
    for name, field in type(config).model_fields.items():
        value, shape = getattr(config, name), Shape.of(field)
        here = f"{path}.{name}" if path else name
        kind, chosen = shape.kind or shape.each, value.values() if shape.each is not None else [value]
        if kind is not None and value is not None:
            for choice in chosen:
                yield kind, choice.name
                yield from _components(resolve(kind, choice, here, registry)[1], here, registry)
        elif isinstance(value, BaseModel):
            yield from _components(value, here, registry)


def _spell_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _spell_none(each) for key, each in value.items()}
    return NONE if value is None else value
