"""The checks under pytest: one class per kind to subclass, one test per check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest

from ele_core.interfaces import Decoder, Encoder, Index, InputSpace, OutputSpace, Proposer, Regressor, Surrogate
from ele_core.networks import Backbone
from ele_core.sources import FileReader, Task
from ele_core.testing.choosing import SUITES
from ele_core.testing.indexes import built, sample_vectors
from ele_core.testing.learners import fitted_learner
from ele_core.testing.results import Check, CheckResult, judged, outcome_of, refuse_unknown
from ele_core.testing.samples import LinearSurrogate, ready, sample_problem
from ele_core.types import Problem, StoredVectors


class Contract:
    """Base of the contracts. pytest collects a subclass if its name starts with `Test`."""

    checks: ClassVar[Sequence[Check]] = ()
    """The checks of this kind."""
    expected_failures: ClassVar[Mapping[str, str]] = {}
    """The name of a check → why it is known to fail; if it passes, its test fails."""

    _subject: ClassVar[Sequence[Any] | None]
    _outcomes: ClassVar[dict[Check, CheckResult]]

    def __init_subclass__(cls) -> None:
        """Give each class its own cache: it builds its subject once and runs each check once."""
        cls._subject, cls._outcomes = None, {}

    def subject(self) -> Sequence[Any]:
        """The arguments of the checks."""
        raise NotImplementedError

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make one test per check, named after it."""
        if "check" in metafunc.fixturenames:
            metafunc.parametrize("check", self.checks, ids=[check.__name__ for check in self.checks])

    def test_law(self, check: Check) -> None:
        """Run one check: pass, fail with its error, skip with its reason, or fail as expected."""
        refuse_unknown(self.checks, self.expected_failures)
        cls = type(self)
        if cls._subject is None:
            cls._subject = self.subject()
        result = judged(outcome_of(check, cls._subject, cls._outcomes), self.expected_failures)
        if result.status == "skipped":
            pytest.skip(result.explanation)
        if result.status == "expected failure":
            pytest.xfail(result.explanation)
        if result.status == "unexpectedly passed":
            pytest.fail(result.explanation, pytrace=False)
        if result.error is not None:
            raise result.error


class OnSpace(Contract):
    """What the contracts of components with an output space share."""

    def space(self) -> OutputSpace[Any, Any]:
        """The output space: to check, or that the component works with."""
        raise NotImplementedError("write `def space(self)`, which returns the output space")


class OnInputs(Contract):
    """What the contracts of components with an input space share."""

    def inputs(self) -> InputSpace[Any]:
        """The input space: to check, or that the component reads; it need not be fitted."""
        raise NotImplementedError("write `def inputs(self)`, which returns the input space")


class OutputSpaceContract(OnSpace):
    """Tests of every law of an output space; write `space`."""

    checks = SUITES["output"]

    def subject(self) -> Sequence[Any]:
        return (self.space(),)


class EncoderContract(OnSpace):
    """Tests of every law of an encoder; write `space` and `encoder`."""

    checks = SUITES["encoder"]

    def encoder(self, space: OutputSpace[Any, Any]) -> Encoder:
        """The encoder to check, built for `space`."""
        raise NotImplementedError("write `def encoder(self, space)`, which returns the encoder to check")

    def subject(self) -> Sequence[Any]:
        space = self.space()
        return self.encoder(space), space


class InputSpaceContract(OnInputs):
    """Tests of every law of an input space; write `inputs`."""

    checks = SUITES["input"]

    def subject(self) -> Sequence[Any]:
        return (self.inputs(),)


class BackboneContract(OnInputs):
    """Tests of every law of a backbone; write `inputs` and `backbone`."""

    checks = SUITES["backbone"]

    def backbone(self, inputs: InputSpace[Any]) -> Backbone:
        """The backbone to check, built for the fitted `inputs`."""
        raise NotImplementedError("write `def backbone(self, inputs)`, which returns the backbone to check")

    def subject(self) -> Sequence[Any]:
        inputs = ready(self.inputs())
        return self.backbone(inputs), inputs


class SurrogateContract(OnSpace):
    """Tests of every law of a surrogate; write `space` and `surrogate`. A copy is fitted on a few structures."""

    checks = SUITES["surrogate"]

    def surrogate(self, space: OutputSpace[Any, Any]) -> Surrogate:
        """The surrogate to check, with few steps of training."""
        raise NotImplementedError("write `def surrogate(self, space)`, which returns the surrogate to check")

    def subject(self) -> Sequence[Any]:
        return (fitted_learner(self.surrogate(self.space())),)


class RegressorContract(OnInputs, OnSpace):
    """Tests of every law of a regressor; write `inputs`, `space` and `regressor`. A copy is fitted on a few pairs."""

    checks = SUITES["regressor"]

    def surrogate(self, space: OutputSpace[Any, Any]) -> Surrogate:
        """The surrogate to regress on; by default a fixed linear one."""
        return LinearSurrogate(None, space)

    def regressor(self, inputs: InputSpace[Any], surrogate: Surrogate) -> Regressor:
        """The regressor to check, with few steps of training."""
        raise NotImplementedError("write `def regressor(self, inputs, surrogate)`, which returns the regressor")

    def subject(self) -> Sequence[Any]:
        return (fitted_learner(self.regressor(ready(self.inputs()), self.surrogate(self.space()))),)


class ProposerContract(OnInputs, OnSpace):
    """Tests of every law of a proposer; write `inputs`, `space` and `proposer`. A copy is fitted on a few pairs."""

    checks = SUITES["proposer"]

    def proposer(self, inputs: InputSpace[Any], space: OutputSpace[Any, Any]) -> Proposer:
        """The proposer to check, with few steps of training."""
        raise NotImplementedError("write `def proposer(self, inputs, space)`, which returns the proposer to check")

    def subject(self) -> Sequence[Any]:
        return (fitted_learner(self.proposer(ready(self.inputs()), self.space())),)


class DecoderContract(OnSpace):
    """Tests of every law of a decoder; write `space` and `decoder`."""

    checks = SUITES["decoder"]

    def problem(self) -> Problem:
        """The problem to decode; by default a few candidates under a fixed linear surrogate."""
        return sample_problem(self.space())

    def decoder(self) -> Decoder:
        """The decoder to check."""
        raise NotImplementedError("write `def decoder(self)`, which returns the decoder to check")

    def subject(self) -> Sequence[Any]:
        return self.decoder(), self.problem()


class IndexContract(Contract):
    """Tests of every law of an index; write `index`."""

    checks = SUITES["index"]

    def vectors(self) -> StoredVectors:
        """The vectors to search; by default a few thousand in groups."""
        return sample_vectors()

    def index(self, vectors: StoredVectors) -> Index:
        """The index to check."""
        raise NotImplementedError("write `def index(self, vectors)`, which returns the index to check")

    def subject(self) -> Sequence[Any]:
        return (built(self.index(self.vectors())),)


class FileReaderContract(Contract):
    """Tests of every law of a file reader; write `reader`."""

    checks = SUITES["reader"]

    def reader(self) -> FileReader:
        """The file reader to check."""
        raise NotImplementedError("write `def reader(self)`, which returns the file reader to check")

    def subject(self) -> Sequence[Any]:
        return (self.reader(),)


class TaskContract(Contract):
    """Tests of every law of a task; write `task`."""

    checks = SUITES["task"]

    def task(self) -> Task:
        """The task to check, as small as it can be."""
        raise NotImplementedError("write `def task(self)`, which returns the task to check")

    def subject(self) -> Sequence[Any]:
        return (self.task(),)
