"""Build a component by name for its checks, with the smallest installed components that it accepts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import torch

from ele_core.config import as_changes, as_table
from ele_core.errors import ConfigError, EleError
from ele_core.interfaces import Decoder, InputSpace, OutputSpace, Surrogate
from ele_core.plugins import HOOKS, Registry, registry
from ele_core.testing.decoders import DECODER_CHECKS
from ele_core.testing.indexes import INDEX_CHECKS, built, sample_vectors
from ele_core.testing.input_spaces import INPUT_CHECKS
from ele_core.testing.learners import REGRESSOR_CHECKS, SURROGATE_CHECKS, fitted_learner
from ele_core.testing.networks import BACKBONE_CHECKS, ENCODER_CHECKS
from ele_core.testing.output_structures import OUTPUT_CHECKS
from ele_core.testing.proposers import PROPOSER_CHECKS
from ele_core.testing.results import Check
from ele_core.testing.samples import LinearSurrogate, Space, fixed_weights, ready, sample_problem
from ele_core.testing.tasks import READER_CHECKS, TASK_CHECKS
from ele_core.types import Kind

DIM = 8
"""The dimension of the embeddings that encoders and backbones are checked with."""

SUITES: Mapping[Kind, Sequence[Check]] = {
    "output": OUTPUT_CHECKS,
    "encoder": ENCODER_CHECKS,
    "surrogate": SURROGATE_CHECKS,
    "input": INPUT_CHECKS,
    "backbone": BACKBONE_CHECKS,
    "regressor": REGRESSOR_CHECKS,
    "proposer": PROPOSER_CHECKS,
    "decoder": DECODER_CHECKS,
    "index": INDEX_CHECKS,
    "task": TASK_CHECKS,
    "reader": READER_CHECKS,
}
"""The checks of each kind."""

Partner = TypeVar("Partner")
Built = TypeVar("Built")


@dataclasses.dataclass(frozen=True)
class Subject:
    """A component, the checks of its kind, and their arguments."""

    kind: Kind
    name: str
    checks: Sequence[Check]
    arguments: tuple[Any, ...]
    partner: str = ""
    """What it is checked with, such as `output space sequence`; empty if it needs no other component."""


@dataclasses.dataclass(frozen=True)
class Choosing:
    """Builds the component `name`; `space`, `inputs` and `surrogate` name its partners, None: chosen automatically."""

    kind: Kind
    name: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    space: str | None = None
    inputs: str | None = None
    surrogate: str | None = None
    registry: Registry = dataclasses.field(default_factory=registry)
    """Where names are looked up; by default the installed plugins."""

    def subject(self) -> Subject:
        """The component with everything its checks need."""
        with fixed_weights():
            return getattr(self, f"_{self.kind}")()  # type: ignore[no-any-return]

    def _output(self) -> Subject:
        return self._subject((build_space(self.registry, self.name, self.options),))

    def _encoder(self) -> Subject:
        encoder, space = self._fitting(self._spaces(), lambda space: self._create(space, DIM))
        return self._subject((encoder, space), space)

    def _surrogate(self) -> Subject:
        surrogate, space = self._fitting(self._spaces(), self._create)
        return self._subject((fitted_learner(surrogate),), space)

    def _input(self) -> Subject:
        return self._subject((self._create(),))

    def _backbone(self) -> Subject:
        backbone, inputs = self._fitting(self._inputs(), lambda inputs: self._create(inputs, DIM))
        return self._subject((backbone, inputs), inputs)

    def _regressor(self) -> Subject:
        pairs = ((inputs, surrogate) for surrogate in self._surrogates() for inputs in self._inputs())
        regressor, (inputs, _) = self._fitting(pairs, lambda pair: self._create(*pair))
        return self._subject((fitted_learner(regressor),), inputs)

    def _proposer(self) -> Subject:
        pairs = ((inputs, space) for space in self._spaces() for inputs in self._inputs())
        proposer, (inputs, _) = self._fitting(pairs, lambda pair: self._create(*pair))
        return self._subject((fitted_learner(proposer),), inputs)

    def _decoder(self) -> Subject:
        decoder, surrogate = self._fitting(self._surrogates(), self._decoder_for)
        return self._subject((decoder, sample_problem(surrogate.space, surrogate)), surrogate.space)

    def _decoder_for(self, surrogate: Surrogate) -> Decoder:
        decoder: Decoder = self._create()
        decoder.accepts(surrogate.energy(torch.zeros(0, surrogate.dim)))
        return decoder

    def _index(self) -> Subject:
        return self._subject((built(self._create(sample_vectors())),))

    def _task(self) -> Subject:
        return self._subject((self._create(),))

    def _reader(self) -> Subject:
        return self._subject((self._create(),))

    # -- helpers --------------------------------------------------------------------------------------------------

    def _create(self, *arguments: Any) -> Any:
        return self.registry.create(self.kind, {"name": self.name, **self.options}, *arguments, path=self.name)

    def _spaces(self) -> Iterator[Space]:
        if self.space is None:
            return spaces(self.registry, self._provider)
        named = as_table(as_changes([f"space={self.space}"])["space"])
        return iter([build_space(self.registry, named["name"], named)])

    def _inputs(self) -> Iterator[InputSpace[Any]]:
        """The input space that is named, or every installed one that has examples; fitted."""
        names = [self.inputs] if self.inputs else by_provider(self.registry, "input", self._provider)
        for name in names:
            inputs: InputSpace[Any] = self.registry.create("input", name, path="input")
            if inputs.examples():
                yield ready(inputs)
            elif self.inputs:
                what = f"the input space '{name}' has no examples to check with."
                raise ConfigError(what, fix="Write its method `examples`, which returns a few inputs.")

    def _surrogates(self) -> Iterator[Surrogate]:
        """The surrogate that is named; or a linear one without training, then every installed one, fitted."""
        names = [self.surrogate] if self.surrogate else by_provider(self.registry, "surrogate", self._provider)
        if self.surrogate is None:
            yield LinearSurrogate(LinearSurrogate.Config(dim=DIM), next(self._spaces()))
        for name in names:
            chosen = dataclasses.replace(self, kind="surrogate", name=name, options={})
            (surrogate,) = chosen.subject().arguments
            yield surrogate

    @property
    def _provider(self) -> str:
        return self.registry.provider(self.kind, self.name).name

    def _fitting(self, partners: Iterator[Partner], build: Callable[[Partner], Built]) -> tuple[Built, Partner]:
        """The component, built for the first of `partners` that it accepts, and that partner."""
        refusals = []
        for partner in partners:
            try:
                return build(partner), partner
            except ConfigError as refusal:
                refusals.append(str(refusal))
        what = f"the {HOOKS[self.kind].singular} '{self.name}' accepts nothing to check it with: {' '.join(refusals)}"
        raise ConfigError(what, fix=f"Call ele_core.testing.check_{self.kind} in Python, with one that it accepts.")

    def _subject(self, arguments: tuple[Any, ...], partner: Any = None) -> Subject:
        on = "" if partner is None else called(self.registry, partner)
        return Subject(self.kind, self.name, SUITES[self.kind], arguments, on)


def spaces(registry: Registry, provider: str | None = None) -> Iterator[Space]:
    """Every installed output space that can be built: those of the plugin `provider` first, then by size."""
    found = []
    for name in registry.names("output"):
        try:
            found.append((registry.provider("output", name).name != provider, build_space(registry, name)))
        except EleError:
            continue
    return (space for _, space in sorted(found, key=lambda pair: (pair[0], size(pair[1]))))


def build_space(registry: Registry, name: str, options: Mapping[str, Any] | None = None) -> Space:
    """Build an output space; required options that are not given come from the first task that uses it."""
    given = {"name": name, **(options or {})}
    try:
        return registry.create("output", given, path=name)  # type: ignore[no-any-return]
    except ConfigError as error:
        known = next((table for table in task_outputs(registry) if table["name"] == name), None)
        if known is None:
            fix = f"Give the required options: --set OPTION=VALUE, or --space '{{name=\"{name}\", OPTION=VALUE}}'."
            broken = broken_task(registry, registry.provider("output", name).name)
            fix = f"The task of its plugin, which would give them, cannot be loaded: {broken}" if broken else fix
            raise ConfigError(error.what, where=error.where, fix=fix) from None
        return registry.create("output", {**known, **given}, path=name)  # type: ignore[no-any-return]


def task_outputs(registry: Registry) -> Iterator[dict[str, Any]]:
    """The output sections of the installed tasks."""
    for name in registry.names("task"):
        try:
            yield dict(registry.get("task", name).defaults()["output"])
        except (EleError, KeyError, TypeError, ValueError):
            continue


def broken_task(registry: Registry, provider: str) -> str | None:
    """Why a task of the plugin `provider` cannot be loaded; None if all can."""
    for name in by_provider(registry, "task", provider):
        try:
            if registry.provider("task", name).name == provider:
                registry.get("task", name)
        except EleError as error:
            return str(error)
    return None


def by_provider(registry: Registry, kind: Kind, provider: str) -> list[str]:
    """The names of a kind, those of the plugin `provider` first."""
    return sorted(registry.names(kind), key=lambda name: registry.provider(kind, name).name != provider)


def size(space: Space) -> int:
    """The number of coordinates of a relaxed structure."""
    return sum(math.prod(convex.point_shape) for convex in space.geometry.values())


def called(registry: Registry, partner: OutputSpace[Any, Any] | InputSpace[Any]) -> str:
    """The kind and the name of a partner, such as `output space sequence`."""
    kind: Kind = "output" if isinstance(partner, OutputSpace) else "input"
    location = f"{type(partner).__module__}:{type(partner).__qualname__}"
    names = [name for name in registry.names(kind) if registry.record(kind, name).location == location]
    return f"{HOOKS[kind].singular} {names[0] if names else type(partner).__name__}"
