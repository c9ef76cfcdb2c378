"""The list of mistakes, and the functions that run the checks of a class's kind on it."""

from __future__ import annotations

import dataclasses

import torch

from ele_core import testing
from ele_core.interfaces import Decoder, Encoder, InputSpace, OutputSpace, Proposer, Regressor, Surrogate
from ele_core.networks import Backbone
from ele_core.numerics.sets import ConvexSet
from ele_core.sources import Task
from ele_core.testing import contracts
from ele_core.testing.learners import fitted_learner
from ele_core.testing.results import outcome_of

MISTAKES: list[Mistake] = []
ONE_LAW = "one law each"
"""The kind of those that were written with the laws."""


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A class that is wrong in one way."""

    kind: str
    """The kind of mistake, such as `gradients`."""
    law: str | None
    """The check that finds it; None if none does."""
    cls: type

    @property
    def name(self) -> str:
        return self.cls.__name__

    @property
    def what(self) -> str:
        """What the author did, in a sentence."""
        return " ".join(str(self.cls.__doc__).split())


def mistake(kind):
    """Make a decorator: given the check that finds it, or None, it puts a class on the list."""

    def by(law):
        def mark(cls):
            assert kind == ONE_LAW or cls.__doc__, f"{cls.__name__} does not say what is wrong"
            MISTAKES.append(Mistake(kind, law, cls))
            return cls

        return mark

    return by


def subject(cls):
    """The checks of the kind of component that `cls` is, and their arguments."""
    from mistakes import bases

    torch.manual_seed(0)
    if issubclass(cls, OutputSpace):
        return contracts.OutputSpaceContract.checks, (bases.space_of(cls),)
    if issubclass(cls, ConvexSet):
        return contracts.OutputSpaceContract.checks, (bases.space_around(cls),)
    if issubclass(cls, Encoder):
        space = bases.words()
        return contracts.EncoderContract.checks, (cls(None, space, 5), space)
    if issubclass(cls, Surrogate):
        return contracts.SurrogateContract.checks, (fitted_learner(cls(None, bases.words())),)
    if issubclass(cls, InputSpace):
        return contracts.InputSpaceContract.checks, (cls(),)
    if issubclass(cls, Backbone):
        return contracts.BackboneContract.checks, (cls(None, bases.vectors(), 5), bases.vectors())
    if issubclass(cls, Regressor):
        regressor = cls(None, bases.vectors(), bases.LearnedOffset(None, bases.words()))
        return contracts.RegressorContract.checks, (fitted_learner(regressor),)
    if issubclass(cls, Proposer):
        return contracts.ProposerContract.checks, (fitted_learner(cls(None, bases.vectors(), bases.words())),)
    if issubclass(cls, Decoder):
        return contracts.DecoderContract.checks, (cls(), testing.sample_problem(bases.words()))
    assert issubclass(cls, Task)
    return contracts.TaskContract.checks, (cls(cls.Config(size=60, validation=10, test=10)),)


def checked(cls):
    """The results of all checks of the kind of component that `cls` is."""
    return testing.run_checks(*subject(cls))


def found_by(law, cls):
    """The result of one check, after those that it builds on."""
    checks, arguments = subject(cls)
    return outcome_of(next(check for check in checks if check.__name__ == law), arguments, {})
