"""The checks under pytest: one class per kind to subclass, one test per check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest

from ele_core.interfaces import Decoder, Encoder, Index, InputSpace, OutputSpace, Proposer, Regressor, Surrogate
from ele_core.networks import Backbone
from ele_core.sources import FileReader, Task
from ele_core.testing.decoders import DECODER_CHECKS
from ele_core.testing.indexes import INDEX_CHECKS, built, sample_vectors
from ele_core.testing.input_spaces import INPUT_CHECKS
from ele_core.testing.learners import REGRESSOR_CHECKS, SURROGATE_CHECKS, fitted_learner
from ele_core.testing.networks import BACKBONE_CHECKS, ENCODER_CHECKS
from ele_core.testing.output_structures import OUTPUT_CHECKS
from ele_core.testing.proposers import PROPOSER_CHECKS
from ele_core.testing.results import Check, CheckResult, judged, outcome_of, refuse_unknown
from ele_core.testing.samples import LinearSurrogate, ready, sample_problem
from ele_core.testing.tasks import READER_CHECKS, TASK_CHECKS
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


class OutputSpaceContract(Contract):
    """Tests of every law of an output space; write `space`."""

    checks = OUTPUT_CHECKS

    def space(self) -> OutputSpace[Any, Any]:
        """The space to check."""
        raise NotImplementedError("write `def space(self)`, which returns the space to check")

    def subject(self) -> Sequence[Any]:
        return (self.space(),)


class EncoderContract(Contract):
    """Tests of every law of an encoder; write `space` and `encoder`."""

    checks = ENCODER_CHECKS

    def space(self) -> OutputSpace[Any, Any]:
        """A space whose points the encoder reads."""
        raise NotImplementedError("write `def space(self)`, which returns a space that the encoder accepts")

    def encoder(self, space: OutputSpace[Any, Any]) -> Encoder:
        """The encoder to check, built for `space`."""
        raise NotImplementedError("write `def encoder(self, space)`, which returns the encoder to check")

    def subject(self) -> Sequence[Any]:
        space = self.space()
        return self.encoder(space), space


class InputSpaceContract(Contract):
    """Tests of every law of an input space; write `inputs`."""

    checks = INPUT_CHECKS

    def inputs(self) -> InputSpace[Any]:
        """The input space to check; it need not be fitted."""
        raise NotImplementedError("write `def inputs(self)`, which returns the input space to check")

    def subject(self) -> Sequence[Any]:
        return (self.inputs(),)


class BackboneContract(Contract):
    """Tests of every law of a backbone; write `inputs` and `backbone`."""

    checks = BACKBONE_CHECKS

    def inputs(self) -> InputSpace[Any]:
        """An input space whose batches the backbone reads; it is fitted on its examples."""
        raise NotImplementedError("write `def inputs(self)`, which returns an input space that the backbone accepts")

    def backbone(self, inputs: InputSpace[Any]) -> Backbone:
        """The backbone to check, built for the fitted `inputs`."""
        raise NotImplementedError("write `def backbone(self, inputs)`, which returns the backbone to check")

    def subject(self) -> Sequence[Any]:
        inputs = ready(self.inputs())
        return self.backbone(inputs), inputs


class SurrogateContract(Contract):
    """Tests of every law of a surrogate; write `space` and `surrogate`. A copy is fitted on a few structures."""

    checks = SURROGATE_CHECKS

    def space(self) -> OutputSpace[Any, Any]:
        """The space of the structures."""
        raise NotImplementedError("write `def space(self)`, which returns a space for the surrogate")

    def surrogate(self, space: OutputSpace[Any, Any]) -> Surrogate:
        """The surrogate to check, with few steps of training."""
        raise NotImplementedError("write `def surrogate(self, space)`, which returns the surrogate to check")

    def subject(self) -> Sequence[Any]:
        return (fitted_learner(self.surrogate(self.space())),)


class RegressorContract(Contract):
    """Tests of every law of a regressor; write `inputs`, `space` and `regressor`. A copy is fitted on a few pairs."""

    checks = REGRESSOR_CHECKS

    def inputs(self) -> InputSpace[Any]:
        """An input space whose batches the regressor reads; it is fitted on its examples."""
        raise NotImplementedError("write `def inputs(self)`, which returns an input space that the regressor accepts")

    def space(self) -> OutputSpace[Any, Any]:
        """The space of the structures."""
        raise NotImplementedError("write `def space(self)`, which returns a space of outputs")

    def surrogate(self, space: OutputSpace[Any, Any]) -> Surrogate:
        """The surrogate to regress on; by default a fixed linear one."""
        return LinearSurrogate(None, space)

    def regressor(self, inputs: InputSpace[Any], surrogate: Surrogate) -> Regressor:
        """The regressor to check, with few steps of training."""
        raise NotImplementedError("write `def regressor(self, inputs, surrogate)`, which returns the regressor")

    def subject(self) -> Sequence[Any]:
        return (fitted_learner(self.regressor(ready(self.inputs()), self.surrogate(self.space()))),)


class ProposerContract(Contract):
    """Tests of every law of a proposer; write `inputs`, `space` and `proposer`. A copy is fitted on a few pairs."""

    checks = PROPOSER_CHECKS

    def inputs(self) -> InputSpace[Any]:
        """An input space whose batches the proposer reads; it is fitted on its examples."""
        raise NotImplementedError("write `def inputs(self)`, which returns an input space that the proposer accepts")

    def space(self) -> OutputSpace[Any, Any]:
        """The space of the structures."""
        raise NotImplementedError("write `def space(self)`, which returns a space of outputs")

    def proposer(self, inputs: InputSpace[Any], space: OutputSpace[Any, Any]) -> Proposer:
        """The proposer to check, with few steps of training."""
        raise NotImplementedError("write `def proposer(self, inputs, space)`, which returns the proposer to check")

    def subject(self) -> Sequence[Any]:
        return (fitted_learner(self.proposer(ready(self.inputs()), self.space())),)


class DecoderContract(Contract):
    """Tests of every law of a decoder; write `space` and `decoder`."""

    checks = DECODER_CHECKS

    def space(self) -> OutputSpace[Any, Any]:
        """The space to decode in."""
        raise NotImplementedError("write `def space(self)`, which returns a space to decode in")

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

    checks = INDEX_CHECKS

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

    checks = READER_CHECKS

    def reader(self) -> FileReader:
        """The file reader to check."""
        raise NotImplementedError("write `def reader(self)`, which returns the file reader to check")

    def subject(self) -> Sequence[Any]:
        return (self.reader(),)


class TaskContract(Contract):
    """Tests of every law of a task; write `task`."""

    checks = TASK_CHECKS

    def task(self) -> Task:
        """The task to check, as small as it can be."""
        raise NotImplementedError("write `def task(self)`, which returns the task to check")

    def subject(self) -> Sequence[Any]:
        return (self.task(),)
