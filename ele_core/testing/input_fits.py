"""Checks of what an input space learns, and `check_input_space`, which runs all checks of an input space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ele_core.errors import InvalidInput
from ele_core.testing import input_spaces as laws
from ele_core.testing.common import COMMON
from ele_core.testing.input_spaces import (
    Inputs,
    check_input_fit_is_repeatable,
    check_input_foreign_values_are_refused,
    check_input_nearest_gives_rows,
    check_input_parse_inverts_format,
    fitted,
)
from ele_core.testing.other_process import require_same_elsewhere
from ele_core.testing.output_measures import require_drawing
from ele_core.testing.results import Broken, CheckResult, NotApplicable, after, require, run_checks
from ele_core.testing.samples import examples_of, same_tensors
from ele_core.testing.saving import check_model_saves_and_loads


def fitted_on(inputs: Inputs, values: list[Any]) -> Inputs:
    """A fresh input space of the same configuration, fitted on `values`."""
    fresh = type(inputs)(inputs.config)
    fresh.fit(values)
    return fresh


@after(check_input_fit_is_repeatable)
def check_input_values_are_left_alone(inputs: Inputs) -> None:
    """`fit`, `pack` and `format` change neither the list of values nor the values."""
    values = [*examples_of(inputs)]
    order, texts = [*values], [inputs.format(value) for value in values]
    fitted_on(inputs, values).pack(values)
    same = len(order) == len(values) and all(one is two for one, two in zip(order, values, strict=True))
    require(same, "`fit` or `pack` changes the list of values that it is given: copy it first")
    require(
        texts == [inputs.format(value) for value in values], "`fit` or `pack` changes a value in place: copy it first"
    )


@after(check_input_fit_is_repeatable)
def check_input_fits_anew(inputs: Inputs) -> None:
    """`fit` after another `fit` gives the same as on a fresh input space."""
    values = examples_of(inputs)
    middle = len(values) // 2
    for half in (values[:middle], values[middle:]):
        used = fitted_on(inputs, values)
        used.fit(half)
        batches = used.pack(half), fitted_on(inputs, half).pack(half)
        shapes = [{name: tuple(tensor.shape) for name, tensor in batch.named_tensors()} for batch in batches]
        require(
            shapes[0] == shapes[1] and same_tensors(*batches),
            f"a second `fit` keeps what the first has learned: batches are {shapes[0]} after it, {shapes[1]} anew",
        )


@after(check_input_fit_is_repeatable)
def check_input_packs_what_it_has_not_seen(inputs: Inputs) -> None:
    """`pack` of values that `fit` has not seen gives a batch or raises `InvalidInput`, and learns nothing from them."""
    values = examples_of(inputs)
    seen, unseen = values[: len(values) // 2], values[len(values) // 2 :]
    space = fitted_on(inputs, seen)
    before = space.pack(seen)
    for value in unseen:
        try:
            space.pack([value])
        except InvalidInput:
            continue
        except Exception as error:
            what = f"`pack` of {inputs.format(value)!r}, which `fit` has not seen, raises {type(error).__name__}"
            raise Broken(f"{what} ({error}), not InvalidInput") from error
    after_all = space.pack(seen)
    same = all(tensor.shape == getattr(before, name).shape for name, tensor in after_all.named_tensors())
    require(
        same and same_tensors(before, after_all), "`pack` of other values changes how the training values are packed"
    )


@after(check_input_fit_is_repeatable)
def check_input_fits_constant_values(inputs: Inputs) -> None:
    """`fit` on copies of one value gives finite batches."""
    value = examples_of(inputs)[0]
    for name, tensor in fitted_on(inputs, [value] * 4).pack([value]).named_tensors():
        finite = not tensor.is_floating_point() or bool(tensor.isfinite().all())
        require(finite, f"field '{name}' is not finite after `fit` on copies of one value: guard divisions by zero")


@after(check_input_nearest_gives_rows)
def check_input_nearest_forgets_earlier_batches(inputs: Inputs) -> None:
    """`nearest` compares with the batch that it is given, not with an earlier one."""
    space = fitted(inputs)
    batch = space.pack(space.examples())
    space.nearest(batch, batch)
    other = batch[torch.arange(len(batch)).flip(0)]
    found, expected = space.nearest(batch, other), fitted(inputs).nearest(batch, other)
    same = all(torch.equal(one, two) for one, two in zip(found, expected, strict=True))
    require(same, "`nearest` depends on the batches of earlier calls: keep nothing between calls")


@after(check_input_foreign_values_are_refused)
def check_input_counterexamples_are_refused(inputs: Inputs) -> None:
    """`pack` raises `InvalidInput`, with the index, for every input that `counterexamples` lists."""
    wrong = inputs.counterexamples()
    if not wrong:
        raise NotApplicable("the input space lists no `counterexamples`: inputs that must be refused")
    space = fitted(inputs)
    good = space.examples()[0]
    for value in wrong:
        try:
            space.pack([good, value, good])
        except InvalidInput as error:
            require(error.index == 1, f"{value!r} is at index 1, but the error has index {error.index}: {error}")
        except Exception as error:
            raise Broken(f"pack of {value!r} raises {type(error).__name__} ({error}), not InvalidInput") from error
        else:
            raise Broken(f"pack accepts {value!r}, a counterexample: raise `self.invalid(reason, index)`")


@after(check_input_parse_inverts_format)
def check_input_is_drawn(inputs: Inputs) -> None:
    """`render` gives a `Drawing` of every example, with a text and, if it has a picture, well-formed SVG."""
    space = fitted(inputs)
    for value in space.examples():
        require_drawing(space.render(value), f"render({space.format(value)!r})")


@after(check_input_parse_inverts_format, check_input_fit_is_repeatable)
def check_input_other_processes_agree(inputs: Inputs) -> None:
    """`fit`, `pack` and `features` give the same in other processes, where texts have other hashes."""
    require_same_elsewhere(inputs, [inputs.format(value) for value in examples_of(inputs)])


INPUT_CHECKS = (
    laws.check_input_examples_are_different,
    laws.check_input_pack_gives_a_batch,
    laws.check_input_parse_inverts_format,
    laws.check_input_parse_refuses_politely,
    laws.check_input_foreign_values_are_refused,
    laws.check_input_fit_is_repeatable,
    laws.check_input_load_inverts_save,
    laws.check_input_rows_are_independent,
    laws.check_input_takes_empty_batches,
    laws.check_input_sizes_are_lengths,
    laws.check_input_augment_is_seeded,
    laws.check_input_features_are_independent,
    laws.check_input_nearest_gives_rows,
    laws.check_input_defaults_are_options,
    check_input_values_are_left_alone,
    check_input_fits_anew,
    check_input_packs_what_it_has_not_seen,
    check_input_fits_constant_values,
    check_input_nearest_forgets_earlier_batches,
    check_input_counterexamples_are_refused,
    check_input_is_drawn,
    check_input_other_processes_agree,
    *COMMON,
    check_model_saves_and_loads,
)


def check_input_space(inputs: Inputs, expected_failures: Mapping[str, str] | None = None) -> list[CheckResult]:
    """Run every check of an input space. `expected_failures`: check → reason."""
    return run_checks(INPUT_CHECKS, (inputs,), expected_failures)
