"""The list of mistakes, and the function that runs the checks of a class's kind on it."""

from __future__ import annotations

import dataclasses

import torch

from ele_core import testing
from ele_core.interfaces import Backbone, Decoder, Encoder, InputSpace, OutputSpace, Regressor, Surrogate, Task
from ele_core.numerics.sets import ConvexSet

MISTAKES: list[Mistake] = []


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A class that is wrong in one way."""

    kind: str
    """The kind of mistake, such as `gradients`."""
    cls: type

    @property
    def name(self) -> str:
        return self.cls.__name__

    @property
    def what(self) -> str:
        """What the author did, in a sentence."""
        return " ".join(str(self.cls.__doc__).split())


def mistake(kind):
    """Put a class on the list; its docstring says what is wrong with it."""

    def mark(cls):
        assert cls.__doc__, f"{cls.__name__} does not say what is wrong"
        MISTAKES.append(Mistake(kind, cls))
        return cls

    return mark


def checked(cls):
    """The results of all checks of the kind of component that `cls` is."""
    from mistakes import bases

    torch.manual_seed(0)
    if issubclass(cls, OutputSpace):
        return testing.check_output_space(bases.space_of(cls))
    if issubclass(cls, ConvexSet):
        return testing.check_output_space(bases.space_around(cls))
    if issubclass(cls, Encoder):
        space = bases.words()
        return testing.check_encoder(cls(None, space, 5), space)
    if issubclass(cls, Surrogate):
        return testing.check_surrogate(cls(None, bases.words()))
    if issubclass(cls, InputSpace):
        return testing.check_input_space(cls())
    if issubclass(cls, Backbone):
        return testing.check_backbone(cls(None, bases.vectors(), 5), bases.vectors())
    if issubclass(cls, Regressor):
        return testing.check_regressor(cls(None, bases.vectors(), bases.LearnedOffset(None, bases.words())))
    if issubclass(cls, Decoder):
        return testing.check_decoder(cls(), testing.sample_problem(bases.words()))
    assert issubclass(cls, Task)
    return testing.check_task(cls(cls.Config(size=60, validation=10, test=10)))
