"""`check_input_space`: every law of an input space."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ele_core import config as configuration
from ele_core.errors import InvalidInput, counted
from ele_core.interfaces import InputSpace
from ele_core.plugins import registry_of
from ele_core.testing.common import COMMON
from ele_core.testing.output_measures import counts_of, same_counts
from ele_core.testing.output_packing import Foreign
from ele_core.testing.results import Broken, CheckResult, NotApplicable, after, require, run_checks
from ele_core.testing.samples import draws_globally, examples_of, repeated, same_tensors, seeded, unchanged
from ele_core.testing.saving import check_model_saves_and_loads

Inputs = InputSpace[Any]
NEAR = 1e-3
"""The largest rounding error of a distance."""


def fitted(inputs: Inputs) -> Inputs:
    """A fresh input space of the same configuration, fitted on its examples."""
    fresh = type(inputs)(inputs.config)
    fresh.fit(examples_of(fresh))
    return fresh


def check_input_examples_are_different(inputs: Inputs) -> None:
    """`examples` gives at least two inputs, and `format` gives each a different text."""
    texts = [inputs.format(value) for value in examples_of(inputs)]
    require(len(texts) >= 2, f"`examples` gives {len(texts)}; at least two are needed")
    require(len(set(texts)) == len(texts), f"two examples have the same text: {texts}")


@after(check_input_examples_are_different)
def check_input_pack_gives_a_batch(inputs: Inputs) -> None:
    """`pack`, after `fit`, gives a `Batch` with one row per input, and different rows for different inputs."""
    space = fitted(inputs)
    values = space.examples()
    batch = space.pack(values)
    require(isinstance(batch, space.Batch), f"pack gives a {type(batch).__name__}, not a {space.Batch.__name__}")
    lengths = {name: len(tensor) for name, tensor in batch.named_tensors()}
    require(set(lengths.values()) == {len(values)}, f"{len(values)} inputs became rows {lengths}")
    for row in range(1, len(values)):
        require(not same_tensors(batch[:1], batch[row : row + 1]), f"examples 0 and {row} are packed into equal rows")


@after(check_input_pack_gives_a_batch)
def check_input_parse_inverts_format(inputs: Inputs) -> None:
    """`parse(format(value))` is packed like `value`."""
    space = fitted(inputs)
    values = space.examples()
    texts = [space.format(value) for value in values]
    require(all(isinstance(text, str) for text in texts), "`format` gives something that is not a str")
    read = space.pack([space.parse(text) for text in texts])
    require(same_tensors(read, space.pack(values)), "parse(format(value)) is packed differently")


def check_input_parse_refuses_politely(inputs: Inputs) -> None:
    """`parse` of any text gives an input or raises `InvalidInput`, nothing else."""
    for text in ("", " ", "?", "{", "[]", "\x00", "1e999", "nan", "<b>&</b>", "é" * 50):
        try:
            inputs.parse(text)
        except InvalidInput:
            continue
        except Exception as error:
            raise Broken(f"parse({text!r}) raises {type(error).__name__} ({error}), not InvalidInput") from error


@after(check_input_pack_gives_a_batch)
def check_input_foreign_values_are_refused(inputs: Inputs) -> None:
    """`pack` of a value that is not an input raises `InvalidInput` with its index, and no other error."""
    space = fitted(inputs)
    good = space.examples()[0]
    try:
        space.pack([good, Foreign(), good])
    except InvalidInput as error:
        require(error.index == 1, f"the bad input is at index 1, but the error has index {error.index}: {error}")
    except Exception as error:
        raise Broken(f"pack of a foreign object raises {type(error).__name__} ({error}), not InvalidInput") from error
    else:
        raise Broken("pack accepts an object that is not an input: raise `self.invalid(reason, index)`")


@after(check_input_pack_gives_a_batch)
def check_input_fit_is_repeatable(inputs: Inputs) -> None:
    """Two input spaces fitted on the same values pack alike, and neither draws from torch's global generator."""
    values = inputs.examples()
    require(not draws_globally(lambda: fitted(inputs)), "fit draws from torch's global generator")
    first, second = (fitted(inputs).pack(values) for _ in range(2))
    require(same_tensors(first, second), "two fits on the same values pack differently")


@after(check_input_fit_is_repeatable)
def check_input_load_inverts_save(inputs: Inputs) -> None:
    """A fresh input space that loads what `save` wrote into a folder packs the same."""
    space = fitted(inputs)
    values = space.examples()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        space.save(folder)
        fresh = type(inputs)(inputs.config)
        fresh.load(folder)
    require(same_tensors(fresh.pack(values), space.pack(values)), "a loaded input space packs differently")
    marked = fresh.unlike_training(values)
    require(marked == space.unlike_training(values), "a loaded input space marks other inputs in `unlike_training`")
    require(len(marked) == len(values), f"`unlike_training` gives {len(marked)} texts for {len(values)} inputs")


@after(check_input_pack_gives_a_batch)
def check_input_rows_are_independent(inputs: Inputs) -> None:
    """An input is packed the same alone and among others, and `Batch.cat` joins batches that were packed separately.

    The same holds for `views`.
    """
    space = fitted(inputs)
    values = space.examples()
    alone, together = [space.pack([value]) for value in values], space.pack(values)
    require(
        same_tensors(space.Batch.cat(alone), together), "inputs packed one by one differ from those packed together"
    )
    for number, view in enumerate(space.views(together)):
        apart = space.Batch.cat([space.views(each)[number] for each in alone])
        require(same_tensors(apart, view), f"view {number} of an input depends on the other inputs")


@after(check_input_pack_gives_a_batch)
def check_input_takes_empty_batches(inputs: Inputs) -> None:
    """`pack`, `sizes` and `augment` work on no inputs, and the empty batch has the shape of the others."""
    space = fitted(inputs)
    empty, full = space.pack([]), space.pack(space.examples())
    require(len(empty) == 0, f"pack([]) gives {counted(len(empty), 'row')}")
    for name, tensor in full.named_tensors():
        shape = (0, *tensor.shape[1:])
        found = tuple(getattr(empty, name).shape)
        require(found == shape, f"field '{name}' of an empty batch has shape {found}, not {shape}")
    sizes = space.sizes(empty)
    require(sizes is None or sizes.shape == (0,), "sizes of an empty batch are not (0,)")
    require(len(space.augment(empty, seeded())) == 0, "augment of an empty batch gives rows")


@after(check_input_pack_gives_a_batch)
def check_input_sizes_are_lengths(inputs: Inputs) -> None:
    """`sizes` is None, or (B,) numbers that are not negative."""
    space = fitted(inputs)
    batch = space.pack(space.examples())
    sizes = space.sizes(batch)
    if sizes is None:
        raise NotApplicable("all inputs are of equal length: sizes is None")
    require(sizes.shape == (len(batch),), f"sizes have shape {tuple(sizes.shape)}, not ({len(batch)},)")
    require(bool((sizes >= 0).all()), "a size is negative")


@after(check_input_pack_gives_a_batch)
def check_input_augment_is_seeded(inputs: Inputs) -> None:
    """`augment` keeps the number of rows, depends only on its batch and generator, and does not change its batch."""
    space = fitted(inputs)
    batch = repeated(space.pack(space.examples()), 32)
    views = space.augment(batch, seeded())
    require(isinstance(views, space.Batch), f"augment gives a {type(views).__name__}, not a {space.Batch.__name__}")
    require(len(views) == len(batch), f"{len(batch)} inputs became {len(views)} views")
    require(
        not draws_globally(lambda: space.augment(batch, seeded())),
        "augment draws from torch's global generator, not from its `generator`",
    )
    require(same_tensors(views, space.augment(batch, seeded())), "augment gives different views with equal generators")
    require(unchanged(batch, lambda each: space.augment(each, seeded())), "augment changed its argument in place")


@after(check_input_pack_gives_a_batch)
def check_input_nearest_gives_rows(inputs: Inputs) -> None:
    """`nearest` gives (B,) rows of the other batch and (B,) distances; an input that is there is nearest to itself."""
    space = fitted(inputs)
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


@after(check_input_pack_gives_a_batch)
def check_input_features_are_independent(inputs: Inputs) -> None:
    """`features` are finite, one row per input, and those of an input do not depend on the others."""
    space = fitted(inputs)
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


INPUT_CHECKS = (
    check_input_examples_are_different,
    check_input_pack_gives_a_batch,
    check_input_parse_inverts_format,
    check_input_parse_refuses_politely,
    check_input_foreign_values_are_refused,
    check_input_fit_is_repeatable,
    check_input_load_inverts_save,
    check_input_rows_are_independent,
    check_input_takes_empty_batches,
    check_input_sizes_are_lengths,
    check_input_augment_is_seeded,
    check_input_features_are_independent,
    check_input_nearest_gives_rows,
    check_input_defaults_are_options,
    *COMMON,
    check_model_saves_and_loads,
)


def check_input_space(inputs: Inputs, expected_failures: Mapping[str, str] | None = None) -> list[CheckResult]:
    """Run every check of an input space. `expected_failures`: check → reason."""
    return run_checks(INPUT_CHECKS, (inputs,), expected_failures)
