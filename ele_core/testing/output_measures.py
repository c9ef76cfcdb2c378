"""Checks of output spaces: metrics, pictures, properties, and batches of any size."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from xml.etree import ElementTree

import torch
from torch import Tensor

from ele_core import config as configuration
from ele_core.config.resolve import as_table, merge
from ele_core.errors import counted
from ele_core.interfaces import Bounded, Drawing, Kind, Metric, OutputSpace
from ele_core.numerics.sparse import SparseRows
from ele_core.plugins import registry_of
from ele_core.testing.output_packing import check_keys_tell_structures_apart, check_unpack_inverts_pack
from ele_core.testing.output_relaxation import check_project_is_feasible, check_unrelax_inverts_relax
from ele_core.testing.output_views import check_augment_is_seeded, check_neighbours_are_inside
from ele_core.testing.results import NotApplicable, after, require
from ele_core.testing.samples import Space, example_batch, repeated, seeded, unchanged

USUAL: dict[Kind, str] = {"surrogate": "parts", "regressor": "stacked", "decoder": "search"}
"""The components to which `defaults` may add options without naming them."""


@after(check_unpack_inverts_pack)
def check_metrics_give_a_number_a_row(space: Space) -> None:
    """There is at least one metric, names differ, and each metric gives (B,) finite floats, or `Bounded` with two."""
    batch = example_batch(space)
    names = [metric.name for metric in space.metrics]
    require(names, "the space has no metric: `metrics` needs at least one, the primary one first")
    require(len(set(names)) == len(names), f"two metrics have the same name: {', '.join(names)}")
    for metric in space.metrics:
        require(
            metric.direction in ("min", "max"),
            f"metric '{metric.name}': the direction is {metric.direction!r}, not 'min' or 'max'",
        )
        found = metric.function(batch, batch.map(lambda tensor: tensor.flip(0)))
        lower, upper = (found.lower, found.upper) if isinstance(found, Bounded) else (found, found)
        for values in (lower, upper):
            shape = tuple(values.shape)
            require(shape == (len(batch),), f"metric '{metric.name}' gives shape {shape}, not (B,)")
            require(values.is_floating_point(), f"metric '{metric.name}' gives {values.dtype}, not floats")
            require(values.isfinite().all(), f"metric '{metric.name}' gives values that are not finite")
        require((lower <= upper).all(), f"metric '{metric.name}' gives a lower bound above the upper one")


@after(check_metrics_give_a_number_a_row)
def check_metrics_are_best_on_equals(space: Space) -> None:
    """No prediction is better, in a metric's own direction, than the truth itself."""
    batch = example_batch(space)
    for metric in space.metrics:
        sign = 1 if metric.direction == "min" else -1
        ideal = sign * metric.values(batch, batch)
        for shift in range(1, len(batch)):
            other = batch[torch.arange(len(batch)).roll(shift)]
            better = sign * metric.values(other, batch) < ideal
            what = f"metric '{metric.name}' rates another structure better than the truth itself"
            require(not better.any(), f"{what}: is its direction '{metric.direction}' right?")


@after(check_unpack_inverts_pack)
def check_properties_give_a_number_a_row(space: Space) -> None:
    """Each property is one finite number per row."""
    batch = example_batch(space)
    properties = space.properties(batch)
    if not properties:
        raise NotApplicable("the space has no properties")
    for name, values in properties.items():
        require(values.shape == (len(batch),), f"property '{name}' has shape {tuple(values.shape)}, not (B,)")
        require(values.isfinite().all(), f"property '{name}' has values that are not finite")


def check_render_gives_a_drawing(space: Space) -> None:
    """`render` gives a `Drawing` with a text and, if it has a picture, well-formed SVG; also with `against`."""
    objects = space.examples()
    for obj, against in ((objects[0], None), (objects[0], objects[0]), (objects[0], objects[-1])):
        require_drawing(space.render(obj, against), f"render({obj!r})")


@after(check_unpack_inverts_pack)
def check_features_are_those_of_the_structure(space: Space) -> None:
    """`features` are finite, tell structures apart, and do not depend on other rows.

    Features of the space's own do not depend on how a structure is packed either; the default may.
    """
    batch = example_batch(space)
    found = space.features(batch)
    require(len(found) == len(batch), f"{len(batch)} structures have {counted(len(found), 'row')} of features")
    require(found.values.isfinite().all(), "a feature is not finite")
    rows = [counts_of(found, row) for row in range(len(batch))]
    require(any(row != rows[0] for row in rows), "all structures have the same features")
    own_features = type(space).features is not OutputSpace.features
    other = space.features(space.equivalents(batch, seeded()) if own_features else batch)
    for row, own in enumerate(rows):
        alone = counts_of(space.features(batch[row : row + 1]), 0)
        require(same_counts(alone, own), f"the features of row {row} depend on the other rows")
        require(same_counts(counts_of(other, row), own), f"the features of row {row} depend on its packing")
    require(len(space.features(batch[:0])) == 0, "features of an empty batch have rows")


def counts_of(features: SparseRows, row: int) -> dict[int, float]:
    """The value of each key of a row."""
    own = features.between(row, row + 1)
    return dict(zip(own.keys.tolist(), own.values.tolist(), strict=True))


def same_counts(left: Mapping[int, float], right: Mapping[int, float]) -> bool:
    """Whether two rows agree up to rounding."""
    keys = left.keys() | right.keys()
    return all(math.isclose(left.get(key, 0.0), right.get(key, 0.0), rel_tol=1e-4, abs_tol=1e-6) for key in keys)


def check_defaults_are_a_configuration(space: Space) -> None:
    """`defaults`, for few and for many pairs, are sections of a configuration: components exist and accept options."""
    for pairs in (10, 100_000):
        sections = space.defaults(pairs)
        unknown = ", ".join(sorted(sections.keys() - configuration.RunConfig.model_fields.keys()))
        require(not unknown, f"defaults has {unknown}: a configuration has no such section")
        for kind, usual in USUAL.items():
            section = merge({"name": usual}, as_table(sections.get(kind, {})))
            configuration.resolve(kind, section, kind, registry_of(space))


@after(check_metrics_give_a_number_a_row, check_properties_give_a_number_a_row)
def check_empty_batches_work(space: Space) -> None:
    """Every operation accepts an empty batch, and gives an empty result."""
    batch = space.pack([])
    require(len(batch) == 0, f"pack([]) gives {counted(len(batch), 'row')}")
    require(space.unpack(batch) == [], "unpack of an empty batch gives objects")
    for name, function in operations(space).items():
        result = function(batch)
        require(len(result) == 0, f"{name} of an empty batch gives {counted(len(result), 'row')}")
        if isinstance(result, Tensor):
            expected = function(example_batch(space)).shape[1:]
            require(
                result.shape[1:] == expected,
                f"{name} of an empty batch has shape {tuple(result.shape)}, not {(0, *expected)}",
            )


@after(
    check_keys_tell_structures_apart,
    check_project_is_feasible,
    check_unrelax_inverts_relax,
    check_metrics_give_a_number_a_row,
    check_unpack_inverts_pack,
)
def check_rows_are_independent(space: Space) -> None:
    """Relaxing, projecting, unrelaxing, keys, metrics and properties of a row do not depend on the other rows."""
    batch = example_batch(space)
    for name, function in operations(space, seedless=True).items():
        together = function(batch)
        for row in range(len(batch)):
            alone = function(batch[row : row + 1])
            require(close(alone, together[row : row + 1]), f"{name} of row {row} depends on the other rows")


@after(check_unrelax_inverts_relax, check_augment_is_seeded, check_neighbours_are_inside)
def check_batches_are_left_alone(space: Space) -> None:
    """Relaxing, unrelaxing, keys, neighbours, metrics and properties do not change what they are given."""
    for name, function in operations(space).items():
        require(unchanged(example_batch(space), function), f"{name} changed its batch in place")
    point = space.relax(example_batch(space))
    require(unchanged(point, space.unrelax), "unrelax changed its point in place")


def operations(space: Space, *, seedless: bool = False) -> dict[str, Callable[[Any], Any]]:
    """Operations of a space on a batch, by name; `seedless`: only those that treat each row separately."""

    def project_noise(batch: Any) -> Any:
        """Project with noise that depends only on the structure, so that a row has the same noise in every batch."""
        relaxed = space.relax(batch)
        wave = {
            name: 3 * torch.sin(7 * getattr(relaxed, name) + ramp(getattr(relaxed, name))) for name in space.geometry
        }
        return space.project(relaxed.replace(**wave))

    found: dict[str, Callable[[Any], Any]] = {
        "keys": space.keys,
        "relax": space.relax,
        "project": project_noise,
        "unrelax": lambda batch: space.unrelax(space.relax(batch)),
    }
    found |= {f"metric '{metric.name}'": partial(against_example, space, metric) for metric in space.metrics}
    found |= {
        f"property '{name}'": partial(one_property, space, name) for name in space.properties(example_batch(space))
    }
    if not seedless:
        found["augment"] = lambda batch: space.augment(batch, seeded())
        found["neighbours"] = lambda batch: space.neighbours(batch)[0]
        found["equivalents"] = lambda batch: space.equivalents(batch, seeded())
    return found


def against_example(space: Space, metric: Metric[Any], batch: Any) -> Tensor:
    """The metric of a batch, with the first example as the truth of every row."""
    return metric.values(batch, repeated(example_batch(space)[:1], len(batch)))


def one_property(space: Space, name: str, batch: Any) -> Tensor:
    """One of the properties of a batch."""
    return space.properties(batch)[name]


def ramp(like: Tensor) -> Tensor:
    """0, 1, 2, … in the shape of one row."""
    return (
        torch.arange(like[:1].numel() or 0, dtype=like.dtype).reshape(like.shape[1:])
        if len(like)
        else like.new_zeros(())
    )


def close(left: Any, right: Any) -> bool:
    """Whether two results, tensors or batches, agree up to rounding."""
    if isinstance(left, Tensor):
        return left.shape == right.shape and torch.allclose(left, right, rtol=1e-4, atol=1e-6, equal_nan=True)
    return all(close(tensor, getattr(right, name)) for name, tensor in left.named_tensors())


def require_drawing(drawing: Drawing, what: str) -> None:
    """Raise `Broken` unless `what` gave a drawing with a text and, if it has a picture, well-formed SVG."""
    require(isinstance(drawing, Drawing), f"{what} gives a {type(drawing).__name__}, not a Drawing")
    require(isinstance(drawing.text, str) and drawing.text, f"{what} gives an empty text: say '(empty)'")
    if drawing.svg is None:
        return
    try:
        root = ElementTree.fromstring(drawing.svg)
    except ElementTree.ParseError as error:
        require(False, f"{what}: the SVG is not well-formed ({error}): escape texts with html.escape")
    require(root.tag.rpartition("}")[2] == "svg", f"{what}: the root of the SVG is <{root.tag}>, not <svg>")
