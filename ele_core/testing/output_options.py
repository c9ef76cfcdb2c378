"""Checks of output spaces: options that the user gives, and objects that must be refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from pydantic import ValidationError

from ele_core.errors import EleError, InvalidOutput
from ele_core.testing.output_packing import check_foreign_objects_are_refused, check_infer_obeys_options
from ele_core.testing.results import Broken, NotApplicable, after, require
from ele_core.testing.samples import Space


@after(check_infer_obeys_options)
def check_infer_obeys_each_option(space: Space) -> None:
    """`infer` keeps each option that is given alone, also if it is not the default, and writes into no options."""
    cls, objects = type(space), space.examples()
    for name, value, wanted in other_values(space):
        options = {name: value}
        try:
            found = cls.infer(objects, options)
        except (EleError, ValidationError):  # the value does not suit the objects, and that is said
            continue
        same = options == {name: value}
        require(same, f"`infer` changes the options that it is given: {name}={value!r} became {options}")
        kept = getattr(found, name)
        require(kept == wanted, f"`infer` with {name}={value!r} gives {name}={kept!r}: what the user gives comes first")
    options = {}
    cls.infer(objects, options)
    require(not options, f"`infer` writes into the options that it is given: {options}. Make a dict of your own")


def other_values(space: Space) -> Iterator[tuple[str, Any, Any]]:
    """Each option of a space with other values that its configuration accepts, as given and as it holds them."""
    cls, current = type(space), dict(space.config)
    for name, field in cls.Config.model_fields.items():
        for value in candidates(current[name], field.annotation):
            try:
                config = cls.Config(**{**current, name: value})
            except ValidationError:
                continue
            yield name, value, getattr(config, name)


def candidates(value: Any, annotation: Any) -> list[Any]:
    """Other values of an option, by its present value and its type."""
    choices = [choice for choice in literals(annotation) if choice != value]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [*choices, value + 1, value - 1, 1]
    if isinstance(value, float):
        return [*choices, value / 2, value + 0.125]
    if isinstance(value, list | tuple) and len(value) > 1:
        return [value[::-1]]
    return choices


def literals(annotation: Any) -> list[Any]:
    """The values of the `Literal`s in an annotation."""
    if get_origin(annotation) is Literal:
        return [*get_args(annotation)]
    return [value for part in get_args(annotation) for value in literals(part)]


@after(check_foreign_objects_are_refused)
def check_counterexamples_are_refused(space: Space) -> None:
    """`pack` raises `InvalidOutput`, with the index, for every object that `counterexamples` lists."""
    wrong = space.counterexamples()
    if not wrong:
        raise NotApplicable("the space lists no `counterexamples`: objects that must be refused")
    good = space.examples()[0]
    for obj in wrong:
        try:
            space.pack([good, obj, good])
        except InvalidOutput as error:
            require(error.index == 1, f"{obj!r} is at index 1, but the error has index {error.index}: {error}")
        except Exception as error:
            raise Broken(f"pack of {obj!r} raises {type(error).__name__} ({error}), not InvalidOutput") from error
        else:
            raise Broken(f"pack accepts {obj!r}, a counterexample: raise `self.invalid(reason, index)`")
