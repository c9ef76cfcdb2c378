"""`check_input_space`: every law of an input space."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ele_core import config as configuration
from ele_core.errors import InvalidInput, counted
from ele_core.interfaces import InputSpace
from ele_core.plugins import registry_of
from ele_core.testing.common import EVERY, require_same_elsewhere
from ele_core.testing.output_spaces import SHARED_WITH_INPUTS, check_pack_gives_a_batch
from ele_core.testing.output_structures import counts_of, require_drawing, same_counts
from ele_core.testing.results import Broken, Check, CheckResult, NotApplicable, after, laws_in, require, run_checks
from ele_core.testing.samples import (
    examples_of,
    ready,
    repeated,
    require_line,
    require_own_randomness,
    same_tensors,
    seeded,
    unchanged,
)

Inputs = InputSpace[Any]
NEAR = 1e-3
"""The largest rounding error of a distance."""


@after(check_pack_gives_a_batch)
def check_input_parse_inverts_format(inputs: Inputs) -> None:
    """`format` gives a text in one line, and `parse(format(value))` is packed like `value`.

    If inputs are texts, so are examples with spaces around them, unless `pack` refuses these.
    """
    space = ready(inputs)
    for value in space.examples():
        for each in (value, *([f"{value} ", f" {value}"] if isinstance(value, str) else [])):
            try:
                expected = space.pack([each])
            except InvalidInput:
                continue
            text = space.format(each)
            require_line(text, "`format`")
            same = same_tensors(space.pack([space.parse(text)]), expected)
            require(same, f"parse(format(value)) of {each!r}, with the text {text!r}, is packed differently")


@after(check_pack_gives_a_batch)
def check_input_fit_is_repeatable(inputs: Inputs) -> None:
    """Two input spaces fitted on the same values pack alike, and neither draws from a global generator."""
    values = inputs.examples()
    require_own_randomness("`fit`", lambda: ready(inputs))
    require_own_randomness("`pack`", lambda: ready(inputs).pack(values))
    first, second = (ready(inputs).pack(values) for _ in range(2))
    require(same_tensors(first, second), "two fits on the same values pack differently")


@after(check_input_fit_is_repeatable)
def check_input_load_inverts_save(inputs: Inputs) -> None:
    """A fresh input space that loads what `save` wrote into a folder packs the same."""
    space = ready(inputs)
    values = space.examples()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        space.save(folder)
        require_plain_files(folder)
        fresh = type(inputs)(inputs.config)
        fresh.load(folder)
    require(same_tensors(fresh.pack(values), space.pack(values)), "a loaded input space packs differently")
    marked = fresh.unlike_training(values)
    require(marked == space.unlike_training(values), "a loaded input space marks other inputs in `unlike_training`")
    require(len(marked) == len(values), f"`unlike_training` gives {len(marked)} texts for {len(values)} inputs")


@after(check_pack_gives_a_batch)
def check_input_rows_are_independent(inputs: Inputs) -> None:
    """An input is packed the same alone and among others, and `Batch.cat` joins batches that were packed separately."""
    space = ready(inputs)
    values = space.examples()
    alone, together = [space.pack([value]) for value in values], space.pack(values)
    require(
        same_tensors(space.Batch.cat(alone), together), "inputs packed one by one differ from those packed together"
    )


@after(check_pack_gives_a_batch)
def check_input_takes_empty_batches(inputs: Inputs) -> None:
    """`pack`, `sizes` and `augment` work on no inputs, and the empty batch has the shape of the others."""
    space = ready(inputs)
    empty, full = space.pack([]), space.pack(space.examples())
    require(len(empty) == 0, f"pack([]) gives {counted(len(empty), 'row')}")
    for name, tensor in full.named_tensors():
        shape = (0, *tensor.shape[1:])
        found = tuple(getattr(empty, name).shape)
        require(found == shape, f"field '{name}' of an empty batch has shape {found}, not {shape}")
    sizes = space.sizes(empty)
    require(sizes is None or sizes.shape == (0,), "sizes of an empty batch are not (0,)")
    require(len(space.augment(empty, seeded())) == 0, "augment of an empty batch gives rows")


@after(check_pack_gives_a_batch)
def check_input_sizes_are_lengths(inputs: Inputs) -> None:
    """`sizes` is None, or (B,) numbers that are not negative."""
    space = ready(inputs)
    batch = space.pack(space.examples())
    sizes = space.sizes(batch)
    if sizes is None:
        raise NotApplicable("all inputs are of equal length: sizes is None")
    require(sizes.shape == (len(batch),), f"sizes have shape {tuple(sizes.shape)}, not ({len(batch)},)")
    require(bool((sizes >= 0).all()), "a size is negative")


@after(check_pack_gives_a_batch)
def check_input_augment_is_seeded(inputs: Inputs) -> None:
    """`augment` keeps the number of rows, depends only on its batch and generator, and does not change its batch."""
    space = ready(inputs)
    batch = repeated(space.pack(space.examples()), 32)
    views = space.augment(batch, seeded())
    require(isinstance(views, space.Batch), f"augment gives a {type(views).__name__}, not a {space.Batch.__name__}")
    require(len(views) == len(batch), f"{len(batch)} inputs became {len(views)} views")
    require_own_randomness("`augment`", lambda: space.augment(batch, seeded()))
    require(same_tensors(views, space.augment(batch, seeded())), "augment gives different views with equal generators")
    require(unchanged(batch, lambda each: space.augment(each, seeded())), "augment changed its argument in place")


@after(check_pack_gives_a_batch)
def check_input_nearest_gives_rows(inputs: Inputs) -> None:
    """`nearest` gives (B,) rows of the other batch and (B,) distances; an input that is there is nearest to itself."""
    space = ready(inputs)
    batch = space.pack(space.examples())
    others = batch[torch.arange(len(batch)).flip(0)]
    rows, distances = space.nearest(batch, others)
    for name, found in (("rows", rows), ("distances", distances)):
        require(found.shape == (len(batch),), f"the {name} have shape {tuple(found.shape)}, not ({len(batch)},)")
    require(not rows.is_floating_point(), f"the rows are {rows.dtype}, not whole numbers")
    require(bool(((rows >= 0) & (rows < len(others))).all()), "a row is not one of the other batch")
    require(bool((distances.isfinite() & (distances >= 0)).all()), "a distance is negative or not finite")
    _, apart = space.nearest(batch[:1], batch[1:])
    least = min(float(apart), *map(float, distances))
    require(float(distances.max()) <= least + NEAR * (1 + least), "an input is not nearest to itself")
    require(all(len(found) == 0 for found in space.nearest(batch[:0], others)), "no inputs have nearest ones")


@after(check_pack_gives_a_batch)
def check_input_features_are_independent(inputs: Inputs) -> None:
    """`features` are finite, one row per input, and those of an input do not depend on the others."""
    space = ready(inputs)
    batch = space.pack(space.examples())
    found = space.features(batch)
    require(len(found) == len(batch), f"{counted(len(batch), 'input')} have {counted(len(found), 'row')} of features")
    require(found.values.isfinite().all(), "a feature is not finite")
    for row in range(len(batch)):
        alone = counts_of(space.features(batch[row : row + 1]), 0)
        require(same_counts(alone, counts_of(found, row)), f"the features of input {row} depend on the other inputs")


def check_input_defaults_are_options(inputs: Inputs) -> None:
    """`defaults`, for few and for many pairs, name a backbone that accepts these inputs, and options of a kernel."""
    registry = registry_of(inputs)
    for pairs in (10, 100_000):
        found = inputs.defaults(pairs)
        unknown = ", ".join(found.keys() - {"backbone", "kernel"})
        require(not unknown, f"defaults has {unknown}: only `backbone` and `kernel` are used")
        configuration.resolve("regressor", {"name": "sketched-ridge", **found.get("kernel", {})}, "kernel", registry)
        if "backbone" in found:
            backbone, _ = configuration.resolve("backbone", found["backbone"], "backbone", registry)
            backbone.accepts(inputs)  # type: ignore[attr-defined]


PICKLES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
"""How pickles begin."""


def require_plain_files(folder: Path) -> None:
    """Raise `Broken` if a file holds a pickle: reading it would run what somebody else wrote."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = file.read_bytes()
        pickled = content.startswith(PICKLES) or (content.startswith(b"PK") and b"data.pkl" in content)
        require(
            not pickled, f"`save` writes a pickle, {file.name}, which runs code when it is read: write JSON instead"
        )


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
            same_tensors(*batches),
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
    require(same_tensors(before, after_all), "`pack` of other values changes how the training values are packed")


@after(check_input_fit_is_repeatable)
def check_input_fits_constant_values(inputs: Inputs) -> None:
    """`fit` on copies of one value gives finite batches."""
    value = examples_of(inputs)[0]
    for name, tensor in fitted_on(inputs, [value] * 4).pack([value]).named_tensors():
        require(
            tensor.isfinite().all(),
            f"field '{name}' is not finite after `fit` on copies of one value: guard divisions by zero",
        )


@after(check_pack_gives_a_batch)
def check_input_refuses_what_is_not_a_number(inputs: Inputs) -> None:
    """If inputs are numbers, `pack` and `fit` refuse NaN and infinity by `InvalidInput`, or give finite batches."""
    space, applies = ready(inputs), False
    good = space.examples()[0]
    for bad in (math.nan, math.inf):
        value = with_number(good, bad)
        if value is None:
            continue
        applies = True
        require_finite_or_refused(lambda each: space.pack([each]), value, f"`pack` accepts an input with {bad}")
        require_finite_or_refused(partial(packed_after_fit, inputs), value, f"`fit` accepts an input with {bad}")
    if not applies:
        raise NotApplicable("inputs are no vectors of numbers")


def require_finite_or_refused(pack: Callable[[Any], Any], value: Any, what: str) -> None:
    """Raise `Broken` if `pack` takes a value, and its batch is not finite."""
    try:
        batch = pack(value)
    except InvalidInput:
        return
    for name, tensor in batch.named_tensors():
        require(tensor.isfinite().all(), f"{what}: field '{name}' is not finite. Refuse it")


def with_number(value: Any, number: float) -> Any | None:
    """A copy of a vector of numbers in which the first is another; None if it is anything else."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
        changed = value.astype(float)
        changed.flat[0] = number
        return changed
    if isinstance(value, list | tuple) and value and all(isinstance(each, int | float) for each in value):
        return type(value)([number, *value[1:]])
    return None


def packed_after_fit(inputs: Inputs, value: Any) -> Any:
    """The examples, packed by an input space that was fitted on them and on another value."""
    values = [*examples_of(inputs)]
    return fitted_on(inputs, [*values, value]).pack(values)


@after(check_input_fit_is_repeatable)
def check_input_spaces_share_nothing(inputs: Inputs) -> None:
    """An input space that is fitted on other values in between changes nothing: state belongs to the object."""
    values = examples_of(inputs)
    half = values[: max(1, len(values) // 2)]
    first = fitted_on(inputs, half)
    before = first.pack(half)
    fitted_on(inputs, values[len(half) :] or values).pack(values[len(half) :] or values)
    after_all = first.pack(half)
    require(
        same_tensors(before, after_all),
        "another input space, fitted on other values, changes how this one packs: keep no state on the class",
    )


@after(check_input_nearest_gives_rows)
def check_input_nearest_forgets_earlier_batches(inputs: Inputs) -> None:
    """`nearest` compares with the batch that it is given, not with an earlier one."""
    space = ready(inputs)
    batch = space.pack(space.examples())
    space.nearest(batch, batch)
    other = batch[torch.arange(len(batch)).flip(0)]
    found, expected = space.nearest(batch, other), ready(inputs).nearest(batch, other)
    same = all(torch.equal(one, two) for one, two in zip(found, expected, strict=True))
    require(same, "`nearest` depends on the batches of earlier calls: keep nothing between calls")


@after(check_input_parse_inverts_format)
def check_input_properties_are_values(inputs: Inputs) -> None:
    """`properties` gives texts, numbers or None under the same names for every example, and for its text."""
    space = ready(inputs)
    known = [space.properties(value) for value in space.examples()]
    if not any(known):
        raise NotApplicable("inputs tell nothing of their outputs: properties is empty")
    for value, own in zip(space.examples(), known, strict=True):
        text = space.format(value)
        require(list(own) == list(known[0]), f"the properties of {text!r} have other names than those of others")
        for name, found in own.items():
            plain = found is None or type(found) in (str, int, float)
            require(plain, f"the property '{name}' is a {type(found).__name__}, not a text, a number or None")
        require(space.properties(space.parse(text)) == own, f"the text {text!r} is parsed to other properties")


@after(check_input_parse_inverts_format)
def check_input_is_drawn(inputs: Inputs) -> None:
    """`render` gives a `Drawing` of every example, with a text and, if it has a picture, well-formed SVG."""
    space = ready(inputs)
    for value in space.examples():
        require_drawing(space.render(value), f"render({space.format(value)!r})")


@after(check_input_parse_inverts_format, check_input_fit_is_repeatable)
def check_input_other_processes_agree(inputs: Inputs) -> None:
    """`fit`, `pack` and `features` give the same in other processes, where texts have other hashes."""
    require_same_elsewhere(inputs, [inputs.format(value) for value in examples_of(inputs)])


INPUT_CHECKS: tuple[Check, ...] = (*SHARED_WITH_INPUTS, *laws_in(globals()), *EVERY)


def check_input_space(inputs: Inputs, expected_failures: Mapping[str, str] | None = None) -> list[CheckResult]:
    """Run every check of an input space. `expected_failures`: check → reason."""
    return run_checks(INPUT_CHECKS, (inputs,), expected_failures)
