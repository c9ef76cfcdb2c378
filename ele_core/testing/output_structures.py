"""Laws of output spaces on many structures, their metrics and pictures; and `check_output_space`, which runs all."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any
from xml.etree import ElementTree

import torch
from pydantic import ValidationError
from torch import Tensor

from ele_core.errors import EleError, InvalidOutput, counted
from ele_core.interfaces import OutputSpace
from ele_core.numerics.keys import hash_rows
from ele_core.numerics.sparse import SparseRows
from ele_core.testing.common import EVERY, require_same_elsewhere
from ele_core.testing.convex_sets import SET_CHECKS
from ele_core.testing.output_spaces import (
    EXAMPLE_CHECKS,
    check_augment_is_seeded,
    check_augment_stays_inside,
    check_constraints_judge_structures,
    check_infer_holds_the_objects,
    check_keys_ignore_the_packing,
    check_keys_tell_structures_apart,
    check_neighbours_are_different,
    check_neighbours_are_inside,
    check_parse_inverts_format,
    check_project_is_feasible,
    check_unpack_inverts_pack,
    check_unrelax_gives_structures,
    check_unrelax_inverts_relax,
    other_values,
)
from ele_core.testing.results import Broken, CheckResult, NotApplicable, after, laws_in, require, run_checks
from ele_core.testing.samples import (
    Space,
    close,
    described,
    example_batch,
    labels_of,
    objects_of,
    points,
    repeated,
    require_line,
    require_own_randomness,
    require_same_structures,
    same_tensors,
    seeded,
    structures,
    unchanged,
    varied,
)
from ele_core.types import Bounded, Drawing, Metric


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
    properties = space.show.properties(batch)
    if not properties:
        raise NotApplicable("the space has no properties")
    for name, values in properties.items():
        require(values.shape == (len(batch),), f"property '{name}' has shape {tuple(values.shape)}, not (B,)")
        require(values.isfinite().all(), f"property '{name}' has values that are not finite")


def check_render_gives_a_drawing(space: Space) -> None:
    """`render` gives a `Drawing` with a text and, if it has a picture, well-formed SVG; also with `against`."""
    objects = space.examples()
    for obj, against in ((objects[0], None), (objects[0], objects[0]), (objects[0], objects[-1])):
        require_drawing(space.show.render(obj, against), f"render({obj!r})")


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
        f"property '{name}'": partial(one_property, space, name) for name in space.show.properties(example_batch(space))
    }
    if not seedless:
        found["augment"] = lambda batch: space.augment(batch, seeded())
        found["neighbours"] = lambda batch: space.moves.neighbours(batch)[0]
        found["equivalents"] = lambda batch: space.equivalents(batch, seeded())
    return found


def against_example(space: Space, metric: Metric[Any], batch: Any) -> Tensor:
    """The metric of a batch, with the first example as the truth of every row."""
    return metric.values(batch, repeated(example_batch(space)[:1], len(batch)))


def one_property(space: Space, name: str, batch: Any) -> Tensor:
    """One of the properties of a batch."""
    return space.show.properties(batch)[name]


def ramp(like: Tensor) -> Tensor:
    """0, 1, 2, … in the shape of one row."""
    return (
        torch.arange(like[:1].numel() or 0, dtype=like.dtype).reshape(like.shape[1:])
        if len(like)
        else like.new_zeros(())
    )


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


STRUCTURES = 64
"""Structures of each source."""
SAME = 16
"""Maximum number of pairs with equal keys to compare."""
PAIRS = 32
"""Structures of which pairs are measured."""
DRAWN = 8
"""Objects of which every pair is drawn."""
VIEWS = 256


@after(check_unrelax_gives_structures, check_augment_stays_inside, check_neighbours_are_inside)
def check_structures_survive_packing(space: Space) -> None:
    """`unpack` and `pack` keep every structure, in a batch and alone, and `unpack` gives one object per row."""
    batch = varied(space, STRUCTURES)
    objects = space.unpack(batch)
    require_same_structures(space, space.pack(objects), batch, "pack(unpack(batch))")
    for row in range(0, len(batch), max(1, len(batch) // 16)):
        alone = space.unpack(batch[row : row + 1])
        require(len(alone) == 1, f"`unpack` of one row, {described(space, batch, row)}, gives {len(alone)} objects")
        texts = [space.format(obj) for obj in (alone[0], objects[row])]
        require(texts[0] == texts[1], f"`unpack` of row {row} gives {texts[0]!r} alone and {texts[1]!r} in a batch")


@after(check_structures_survive_packing)
def check_vertices_are_kept_or_refused(space: Space) -> None:
    """An object of any vertex, a structure or not, is refused by `pack`, or packed without a change of its text.

    It is the same for the object that is read from this text.
    """
    drawn = {name: convex.sample_labels(STRUCTURES, seeded()) for name, convex in space.geometry.items()}
    vertices = repeated(example_batch(space), STRUCTURES).replace(**drawn)
    for row in range(STRUCTURES):
        try:
            obj = space.unpack(vertices[row : row + 1])[0]
            text = space.format(obj)
            read = space.parse(text)
        except EleError:  # no structure has these labels, and that is said
            continue
        kept = [kept_text(space, each) for each in (obj, read)]
        what = f"{text!r}, unpacked from {labels_of(vertices, row)}"
        if (kept[0] is None) != (kept[1] is None):
            first, second = ("refuses", "takes") if kept[0] is None else ("takes", "refuses")
            raise Broken(f"`pack` {first} {what}, and {second} what `parse` reads from this text")
        changed = next((each for each in kept if each not in (None, text)), None)
        require(changed is None, f"`pack` takes {what}, but packs {changed!r}: refuse what is not in the space")


def kept_text(space: Space, obj: Any) -> str | None:
    """The text of an object that was packed; None if `pack` refuses it."""
    try:
        return str(space.format(space.unpack(space.pack([obj]))[0]))
    except InvalidOutput:
        return None


@after(check_structures_survive_packing, check_keys_ignore_the_packing)
def check_keys_differ_with_structures(space: Space) -> None:
    """Different structures have different keys, whatever the integer type of their labels.

    Structures differ if their packings do, unless the space has `equivalents`: then if their features or a metric do.
    """
    batch = space.pack(space.unpack(varied(space, 4 * STRUCTURES)))
    keys = space.keys(batch)
    longer = batch.map(lambda tensor: tensor if tensor.is_floating_point() else tensor.long())
    require(torch.equal(keys, space.keys(longer)), "keys change with the integer type of the labels: hash the numbers")
    for one, two in itertools.islice(pairs_with_equal_keys(keys, batch), SAME):
        reason = difference(space, batch, one, two)
        if reason:
            both = f"{described(space, batch, one)} and {described(space, batch, two)}"
            raise Broken(f"two structures have the same key: {both}, but {reason}")


def pairs_with_equal_keys(keys: Tensor, batch: Any) -> Iterator[tuple[int, int]]:
    """Pairs of rows with the same key and other labels."""
    labels = hash_rows([tensor for _, tensor in batch.named_tensors()])
    first: dict[tuple[int, ...], int] = {}
    for row, key in enumerate(map(tuple, keys.tolist())):
        other = first.setdefault(key, row)
        if not torch.equal(labels[row], labels[other]):
            yield other, row


def difference(space: Space, batch: Any, one: int, two: int) -> str:
    """Why two rows cannot be the same structure; empty if nothing says so."""
    if type(space).equivalents is OutputSpace.equivalents:
        return "their labels differ. If they are the same structure, return such packings from `equivalents`"
    left, right = batch[one : one + 1], batch[two : two + 1]
    if type(space).features is not OutputSpace.features:
        counts = [counts_of(space.features(each), 0) for each in (left, right)]
        if not same_counts(*counts):
            return "their features differ"
    for metric in space.metrics:
        if not close(metric.values(left, right), metric.values(left, left)):
            return f"the metric '{metric.name}' tells them apart"
    return ""


@after(check_structures_survive_packing, check_parse_inverts_format)
def check_texts_survive(space: Space) -> None:
    """`format` writes every structure in one line, and `parse` reads the same structure from it; so do `texts`."""
    batch = varied(space, STRUCTURES)
    for written in (type(space), space.texts):
        texts = [written.format(obj) for obj in space.unpack(batch)]
        for row, text in enumerate(texts):
            require_line(text, "`format`")
            try:
                space.pack([written.parse(text)])
            except Exception as error:
                raise Broken(f"parse(format(object)) of {described(space, batch, row)} fails: {error}") from error
        read = space.pack([written.parse(text) for text in texts])
        require_same_structures(space, read, batch, "parse(format(object))")


LETTERS = "éßøλжבيह日語한字ñçžőãıœŵ"
"""Labels that are not ASCII."""


@after(check_texts_survive)
def check_texts_survive_in_other_alphabets(space: Space) -> None:
    """The same holds if the labels of the space are letters such as `é`, `λ` and `日`."""
    others = list(with_other_labels(space))
    if not others:
        raise NotApplicable("no option of the space holds labels that could be other letters")
    for name, other in others:
        batch = structures(other, STRUCTURES)
        for written in (type(other), other.texts):
            for row, obj in enumerate(other.unpack(batch)):
                text = written.format(obj)
                what = f"with the labels {getattr(other.config, name)} of '{name}', parse(format(object))"
                try:
                    read = other.pack([written.parse(text)])
                except Exception as error:
                    raise Broken(f"{what} of {described(other, batch, row)} fails: {error}") from error
                require_same_structures(other, read, batch[row : row + 1], what)


def with_other_labels(space: Space) -> Iterator[tuple[str, Space]]:
    """For each option that lists labels, the space with other letters in their place, if it can have them."""
    cls, current = type(space), dict(space.config)
    for name, value in current.items():
        if isinstance(value, tuple | list) and all(isinstance(label, str) for label in value):
            if not 0 < len(value) <= len(LETTERS):
                continue
            try:
                other = cls(cls.Config(**{**current, name: tuple(LETTERS[: len(value)])}))
                other.pack(other.unpack(other.unrelax(points(other, 2, seeded()))))
            except (EleError, ValidationError, ValueError):  # labels have a meaning, such as elements
                continue
            yield name, other


@after(check_infer_holds_the_objects, check_structures_survive_packing)
def check_spaces_share_nothing(space: Space) -> None:
    """A space of another configuration, used in between, changes nothing: state belongs to the object, not the class.

    The other space keeps its own objects as well.
    """
    objects = space.examples()
    before = answers_of(space, objects)
    for name, value, _ in other_values(space):
        other = type(space)(type(space).Config(**{**dict(space.config), name: value}))
        own = other.examples()
        try:
            packed = other.pack(own)
        except InvalidOutput:  # the examples are the same for every configuration, and too large for this one
            continue
        texts = [other.format(obj) for obj in other.unpack(packed)]
        same = texts == [other.format(obj) for obj in own]
        what = f"a space with {name}={value!r}, made after another of its class,"
        require(same, f"{what} unpacks {texts} from {[other.format(obj) for obj in own]}: keep no state on the class")
        require(answers_of(space, objects) == before, f"{what} changes the first one: keep no state on the class")


def answers_of(space: Space, objects: list[Any]) -> tuple[Any, ...]:
    """What a space makes of objects, as plain values."""
    batch = space.pack(objects)
    point = space.relax(batch)
    tensors = [tensor.tolist() for each in (batch, point) for _, tensor in each.named_tensors()]
    return tensors, space.keys(batch).tolist(), [space.format(obj) for obj in space.unpack(batch)]


@after(check_structures_survive_packing)
def check_relaxing_loses_nothing(space: Space) -> None:
    """`unrelax(relax(batch))` holds the same structures as `batch`: examples, moves of them and unrelaxed points."""
    batch = varied(space, STRUCTURES, views=False)
    require_same_structures(space, space.unrelax(space.relax(batch)), batch, "unrelax(relax(batch))")


@after(check_structures_survive_packing, check_metrics_are_best_on_equals)
def check_metrics_hold_for_every_pair(space: Space) -> None:
    """Metrics are finite for every pair, equal and empty structures among them, and best if both are the same."""
    batch = smallest_and_others(space, varied(space, STRUCTURES, views=False), PAIRS)
    moved, owner = space.moves.list(batch)
    some = torch.arange(0, len(moved), max(1, len(moved) // STRUCTURES))
    pairs = [(batch[torch.arange(len(batch)).roll(shift)], torch.arange(len(batch))) for shift in (1, 2, 3)]
    for metric in space.metrics:
        ideal = finite_values(space, metric, batch, batch)
        for other, row in (*pairs, (moved[some], owner[some])):
            require_no_better(space, metric, other, batch[row], ideal[row])


def require_no_better(space: Space, metric: Metric[Any], predicted: Any, true: Any, ideal: Tensor) -> None:
    """Raise `Broken` if a prediction is rated better than the truth itself, which has the value `ideal`."""
    sign = 1 if metric.direction == "min" else -1
    better = sign * finite_values(space, metric, predicted, true) < sign * ideal - 1e-5 * (1 + ideal.abs())
    for row in better.nonzero().flatten().tolist()[:1]:
        raise Broken(
            f"metric '{metric.name}' rates {described(space, predicted, row)} better than the truth itself, "
            f"{described(space, true, row)}"
        )


def finite_values(space: Space, metric: Metric[Any], predicted: Any, true: Any) -> Tensor:
    """The values of a metric; raise `Broken` if one is not finite."""
    found = metric.function(predicted, true)
    for values in (found.lower, found.upper) if isinstance(found, Bounded) else (found,):
        for row in (~values.isfinite()).nonzero().flatten().tolist()[:1]:
            raise Broken(
                f"metric '{metric.name}' is {float(values[row])} for the prediction {described(space, predicted, row)} "
                f"and the truth {described(space, true, row)}"
            )
    return metric.values(predicted, true)


def smallest_and_others(space: Space, batch: Any, count: int) -> Any:
    """The structures with the shortest texts, such as an empty one, and others up to the longest: at most `count`."""
    order = torch.tensor([len(space.format(obj)) for obj in space.unpack(batch)]).argsort(stable=True)
    first = torch.arange(count // 4)
    rest = torch.linspace(count // 4, len(order) - 1, count - count // 4).long()
    return batch[order[torch.cat([first, rest]).unique()]]


@after(check_structures_survive_packing, check_properties_give_a_number_a_row)
def check_properties_are_finite(space: Space) -> None:
    """Properties are finite for every structure."""
    batch = varied(space, STRUCTURES)
    for name, values in space.show.properties(batch).items():
        for row in (~values.isfinite()).nonzero().flatten().tolist()[:1]:
            raise Broken(f"property '{name}' is {float(values[row])} for {described(space, batch, row)}")


@after(check_structures_survive_packing, check_features_are_those_of_the_structure)
def check_features_are_finite(space: Space) -> None:
    """Features are finite for every structure."""
    batch = varied(space, STRUCTURES)
    if space.features(batch).values.isfinite().all():
        return
    for row in range(len(batch)):
        if not space.features(batch[row : row + 1]).values.isfinite().all():
            raise Broken(f"a feature of {described(space, batch, row)} is not finite")
    raise Broken("a feature is not finite if many structures are in a batch")


@after(check_structures_survive_packing, check_render_gives_a_drawing)
def check_every_pair_can_be_drawn(space: Space) -> None:
    """`render` draws every object, alone and against every other one."""
    batch = smallest_and_others(space, varied(space, STRUCTURES), DRAWN)
    objects = [*space.unpack(batch), *space.examples()]
    for obj in objects:
        for against in (None, *objects):
            other = "" if against is None else f", against={space.format(against)!r}"
            what = f"render({space.format(obj)!r}{other})"
            try:
                drawing = space.show.render(obj, against)
            except Exception as error:
                raise Broken(f"{what} raises {type(error).__name__}: {error}") from error
            require_drawing(drawing, what)


@after(check_unpack_inverts_pack)
def check_objects_are_left_alone(space: Space) -> None:
    """`pack`, `format`, `render` and `infer` do not change the objects that they are given."""
    for example in space.examples():
        for obj in (example, rearranged(example)):
            before = copy.deepcopy(obj)
            text = space.format(obj)
            space.pack([obj])
            space.show.render(obj, obj)
            type(space).infer([obj], dict(space.config))
            same = before == obj if isinstance(obj, list | dict | set) else text == space.format(obj)
            require(same, f"an operation changed its object from {before!r} to {obj!r}: copy it first")


def rearranged(obj: Any) -> Any:
    """A list or dict in another order; other objects as they are."""
    if isinstance(obj, list):
        return obj[::-1]
    return dict(reversed(obj.items())) if isinstance(obj, dict) else obj


@after(check_augment_is_seeded, check_neighbours_are_different, check_constraints_judge_structures)
def check_nothing_draws_globally(space: Space) -> None:
    """No operation draws from or seeds a global generator of torch, numpy or Python, and `unrelax` is repeatable."""
    batch, objects = varied(space, 8), space.examples()
    point = points(space, 8, seeded())
    centre = point.replace(**{name: tied(getattr(point, name)) for name in space.geometry})
    calls: dict[str, Callable[[], Any]] = {
        "`pack`": lambda: space.pack(objects),
        "`unpack`": lambda: space.unpack(batch),
        "`keys`": lambda: space.keys(batch),
        "`relax`": lambda: space.relax(batch),
        "`project`": lambda: space.project(point),
        "`unrelax`": lambda: (space.unrelax(point), space.unrelax(space.project(centre))),
        "`augment`": lambda: space.augment(batch, seeded()),
        "`equivalents`": lambda: space.equivalents(batch, seeded()),
        "`moves`": lambda: space.moves.list(batch),
        "`features`": lambda: space.features(batch),
        "`properties`": lambda: space.show.properties(batch),
        **{f"metric '{metric.name}'": partial(metric.values, batch, batch) for metric in space.metrics},
    }
    for what, call in calls.items():
        require_own_randomness(what, call)
    found = [space.unrelax(space.project(centre)) for _ in range(8)]
    same = all(same_tensors(found[0], each) for each in found)
    require(same, "`unrelax` of the same point gives different structures: break ties by a rule, not at random")


def tied(value: Tensor) -> Tensor:
    """The mean of all entries in every place: as many ties as there can be."""
    return value.mean(dim=tuple(range(1, value.dim())), keepdim=True).expand_as(value).clone()


@after(check_augment_is_seeded)
def check_views_are_drawn_for_each_row(space: Space) -> None:
    """`augment` draws for each row and each call: not once for a batch, not by a seed of its own, not across rows."""
    examples = space.pack(space.examples())
    for row in range(len(examples)):
        alone = repeated(examples[row : row + 1], VIEWS)
        first, second = (space.augment(alone, seeded(seed)) for seed in (0, 1))
        views = {tuple(key) for key in space.keys(first).tolist()}
        if views == {tuple(space.keys(alone)[0].tolist())}:
            continue
        what = f"of {described(space, examples, row)}"
        require(len(views) > 1, f"all {VIEWS} views {what} in a batch are the same: draw for each row")
        require(
            not same_tensors(first, second),
            f"the views {what} are the same for every generator: draw from the `generator` that is given",
        )
    require_views_of_their_rows(space, examples)


def require_views_of_their_rows(space: Space, examples: Any) -> None:
    """Raise `Broken` if the views of a structure change with the other structures of its batch."""
    alone = repeated(examples[:1], VIEWS)
    usual = {tuple(key) for seed in range(4) for key in space.keys(space.augment(alone, seeded(seed))).tolist()}
    mixed = repeated(examples, VIEWS)
    own = (torch.arange(VIEWS) % len(examples) == 0).nonzero().flatten()
    found = space.keys(space.augment(mixed, seeded()))[own].tolist()
    strange = sum(tuple(key) not in usual for key in found)
    limit = max(0.25 * len(found), 3 * rarely_seen(space, alone, usual) * len(found))
    require(
        strange <= limit,
        f"{strange} of {len(found)} views of {described(space, examples, 0)} never occur if it is alone in its batch: "
        "does `augment` mix the rows?",
    )


def rarely_seen(space: Space, alone: Any, usual: set[tuple[int, ...]]) -> float:
    """The share of views of a structure that were not seen before: it has many."""
    found = space.keys(space.augment(alone, seeded(9))).tolist()
    return sum(tuple(key) not in usual for key in found) / len(found)


@after(check_infer_holds_the_objects, check_structures_survive_packing)
def check_other_processes_agree(space: Space) -> None:
    """`pack`, `keys`, `features` and `infer` give the same in other processes, where texts have other hashes."""
    require_same_elsewhere(space, [space.format(obj) for obj in objects_of(space, 24)])


OUTPUT_CHECKS = (*EXAMPLE_CHECKS, *laws_in(globals()), *SET_CHECKS, *EVERY)


def check_output_space(space: Space, expected_failures: Mapping[str, str] | None = None) -> list[CheckResult]:
    """Run every check of an output space. `expected_failures`: check → reason."""
    return run_checks(OUTPUT_CHECKS, (space,), expected_failures)
