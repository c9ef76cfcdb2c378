"""Laws of output spaces on their examples: packing, texts, relaxation, views, moves, options and rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import torch
from pydantic import BaseModel, ValidationError
from torch import Tensor

from ele_core.errors import EleError, InvalidInput, InvalidOutput
from ele_core.files.archive import brief
from ele_core.interfaces import OutputSpace
from ele_core.numerics.keys import ranks
from ele_core.numerics.sets import ConvexSet
from ele_core.optional import Rules
from ele_core.testing.results import Broken, NotApplicable, after, laws_in, require
from ele_core.testing.samples import (
    LONGEST,
    AnySpace,
    Space,
    described,
    example_batch,
    examples_of,
    points,
    points_around,
    ready,
    repeated,
    require_inside,
    require_labels,
    require_own_randomness,
    require_same_structures,
    same_rows,
    same_tensors,
    seeded,
    structures,
    unchanged,
    varied,
)
from ele_core.types import Problem

RAN: list[str] = []
"""Not empty if `CODE` was run."""
CODE = "__import__('ele_core.testing.output_spaces', fromlist=['RAN']).RAN.append('code')"
STRANGE = (
    *("", " ", "?", "{", '{"nodes": 1}', "[]", "\x00", "1e999", "nan", "<b>&</b>", "é" * 50),
    *("\n", "a\tb", "9" * 5000, "[" * 100_000, "(" * 10_000),
)
"""Texts that belong to no space."""


class Foreign:
    """An object that belongs to no space."""


def check_examples_are_different(space: AnySpace) -> None:
    """`examples` gives at least two objects, and `format` gives each a different text."""
    texts = [space.format(obj) for obj in examples_of(space)]
    require(len(texts) >= 2, f"`examples` gives {len(texts)}; at least two are needed")
    twice = next((text for text in texts if texts.count(text) > 1), None)
    require(twice is None, f"the example {twice!r} occurs twice")


@after(check_examples_are_different)
def check_pack_gives_a_batch(space: AnySpace) -> None:
    """`pack` gives a `Batch` with one row per object: of outputs, labels of the geometry; of inputs, different rows."""
    space = ready(space)
    objects = space.examples()
    batch = space.pack(objects)
    require(isinstance(batch, space.Batch), f"pack gives a {type(batch).__name__}, not a {space.Batch.__name__}")
    lengths = {name: len(tensor) for name, tensor in batch.named_tensors()}
    require(set(lengths.values()) == {len(objects)}, f"{len(objects)} objects became rows {lengths}")
    if isinstance(space, OutputSpace):
        require_labels(space, batch, "pack")
        return
    for row in range(1, len(objects)):
        require(not same_tensors(batch[:1], batch[row : row + 1]), f"examples 0 and {row} are packed into equal rows")


@after(check_pack_gives_a_batch)
def check_keys_tell_structures_apart(space: Space) -> None:
    """`keys` is (B, 2) int64, the same at every call, and no two examples share a key."""
    batch = example_batch(space)
    keys = space.keys(batch)
    require(keys.shape == (len(batch), 2), f"keys have shape {tuple(keys.shape)}, not ({len(batch)}, 2)")
    require(keys.dtype == torch.int64, f"keys are {keys.dtype}, not int64")
    require(torch.equal(keys, space.keys(batch)), "two calls give different keys")
    require(len(torch.unique(keys, dim=0)) == len(batch), "two different examples have the same key")


@after(check_keys_tell_structures_apart)
def check_unpack_inverts_pack(space: Space) -> None:
    """`pack(unpack(batch))` holds the same structures as `batch`, one object per row."""
    batch = example_batch(space)
    objects = space.unpack(batch)
    require(len(objects) == len(batch), f"{len(batch)} rows became {len(objects)} objects")
    differ = (~same_rows(space.keys(space.pack(objects)), space.keys(batch))).nonzero().flatten().tolist()
    changed = [f"the example {space.examples()[row]!r} comes back as {objects[row]!r}" for row in differ[:1]]
    require(not differ, f"pack(unpack(batch)) holds different structures: {'; '.join(changed)}")


@after(check_unpack_inverts_pack)
def check_keys_ignore_the_packing(space: Space) -> None:
    """`equivalents` gives valid batches, and all these packings of a structure have the same key."""
    batch = example_batch(space)
    for seed in range(8):
        others = space.equivalents(batch, seeded(seed))
        same = same_rows(space.keys(others), space.keys(batch))
        require(same.all(), f"row {int((~same).int().argmax())} has a different key in another packing")
        require_inside(space, others, "an equivalent packing")


@after(check_keys_tell_structures_apart)
def check_parse_inverts_format(space: Space) -> None:
    """`format` gives a text that `parse` turns into the same structure; neither needs a configuration."""
    objects = space.examples()
    texts = [type(space).format(obj) for obj in objects]
    strange = next((text for text in texts if not isinstance(text, str)), None)
    require(strange is None, f"format gives a {type(strange).__name__}, not a str")
    read = space.pack([type(space).parse(text) for text in texts])
    require_same_structures(space, read, space.pack(objects), "parse(format(object))")


def check_parse_refuses_politely(space: AnySpace) -> None:
    """`parse` of any text gives an object or raises `InvalidOutput`, of inputs `InvalidInput`, nothing else."""
    RAN.clear()
    refusal = refusal_of(space)
    for text in (*STRANGE, CODE):
        try:
            space.parse(text)
        except refusal:
            continue
        except Exception as error:
            what = f"parse({brief(text, 60)!r}) raises {type(error).__name__} ({brief(error, 200)})"
            raise Broken(f"{what}, not {refusal.__name__}") from error
        finally:
            require(not RAN, "parse runs code that is in its text: never use `eval`, read it with ast.literal_eval")


@after(check_pack_gives_a_batch)
def check_foreign_objects_are_refused(space: AnySpace) -> None:
    """`pack` of an object of no such kind raises `InvalidOutput` (`InvalidInput`) with its index, no other error."""
    for bad in (Foreign(), None):
        require_refused(ready(space), bad, f"a {type(bad).__name__}")


@after(check_unpack_inverts_pack, check_parse_inverts_format)
def check_infer_holds_the_objects(space: Space) -> None:
    """A space with the configuration that `infer` finds in objects packs these objects as the same structures."""
    cls, objects = type(space), space.examples()
    inferred = cls(cls.infer(objects, {}))
    texts = [cls.format(obj) for obj in inferred.unpack(inferred.pack(objects))]
    read = space.pack([cls.parse(text) for text in texts])
    require_same_structures(space, read, space.pack(objects), "packed by the inferred space")


@after(check_infer_holds_the_objects)
def check_infer_takes_no_foreign_objects(space: Space) -> None:
    """`infer` refuses an object of another kind, by any error, or leaves it out: it finds nothing in it.

    An `InvalidOutput` has the index of the object.
    """
    cls, objects = type(space), space.examples()
    usual = cls.infer(objects, {})
    for bad in (Foreign(), None):
        try:
            found = cls.infer([*objects, bad], {})
        except InvalidOutput as error:
            right = error.where is None or error.index == len(objects)
            require(right, f"`infer` refuses {objects[-1]!r}, not the {type(bad).__name__} after it: {error}")
        except Exception:  # training names the object: see `first_not_taken`
            continue
        else:
            require(found == usual, f"`infer` takes a {type(bad).__name__} for an output: it finds {brief(found, 200)}")


@after(check_infer_holds_the_objects)
def check_infer_obeys_options(space: Space) -> None:
    """Options that the user gives win over what `infer` finds in data."""
    options = dict(space.config)
    found = space.infer(space.examples()[:1], options)
    changed = [name for name, value in options.items() if getattr(found, name) != value]
    require(not changed, f"infer replaces options that the user gave: {', '.join(changed)}")


@after(check_pack_gives_a_batch)
def check_configuration_is_the_whole_state(space: Space) -> None:
    """A space built from its configuration as JSON packs the same: nothing else has to be saved."""
    cls = type(space)
    again = cls(cls.Config.model_validate_json(space.config.model_dump_json()))
    objects = space.examples()
    require(
        same_tensors(again.pack(objects), space.pack(objects)),
        "a space rebuilt from its configuration packs differently: keep all state in the Config",
    )


POINTS = 8
OTHERS = 64
SCALES = (1e-6, 1e6)
DTYPES = (torch.float32, torch.float64)
_EXACT = "donot_use_mm_for_euclid_dist"  # a matrix product would lose digits by cancellation


@after(check_pack_gives_a_batch)
def check_relax_gives_vertices(space: Space) -> None:
    """`relax` maps a structure to a vertex of the relaxed set, in floats."""
    point = space.relax(example_batch(space))
    for name, convex in space.geometry.items():
        value = getattr(point, name)
        require_contains(convex, value, f"relax, field '{name}'")
        vertex = convex.vertices(convex.nearest_vertex(value)).to(value)
        off = float((vertex - value).abs().max())
        require(off <= convex.tolerance(value.dtype), f"field '{name}' is {off:.3g} away from the nearest vertex")


@after(check_relax_gives_vertices, check_keys_tell_structures_apart)
def check_unrelax_inverts_relax(space: Space) -> None:
    """`unrelax(relax(batch))` holds the same structures as `batch`."""
    batch = example_batch(space)
    require_same_structures(space, space.unrelax(space.relax(batch)), batch, "unrelax(relax(batch))")


@after(check_unrelax_inverts_relax, check_unpack_inverts_pack)
def check_unrelax_gives_structures(space: Space) -> None:
    """`unrelax` of any point of the relaxed set is a valid batch, and relaxes into the set again."""
    batch = space.unrelax(points(space, 4 * POINTS, seeded()))
    require_inside(space, batch, "unrelax of a random point")
    point = space.relax(batch)
    for name, convex in space.geometry.items():
        require_contains(convex, getattr(point, name), f"relax(unrelax(point)), field '{name}'")


def check_project_is_feasible(space: Space) -> None:
    """`project` gives a point of the relaxed set, within the tolerance of each convex set."""
    for dtype in DTYPES:
        projected = space.project(points_around(space, POINTS, 1.0, dtype))
        for name, convex in space.geometry.items():
            require_contains(convex, getattr(projected, name), f"project, field '{name}', {dtype}")


@after(check_project_is_feasible)
def check_project_keeps_dtype_and_device(space: Space) -> None:
    """`project` keeps the dtype, the device and the shape of each field."""
    for dtype in DTYPES:
        point = points_around(space, POINTS, 1.0, dtype)
        projected = space.project(point)
        for name, tensor in point.named_tensors():
            found = getattr(projected, name)
            require(found.dtype == tensor.dtype, f"field '{name}' changed from {tensor.dtype} to {found.dtype}")
            require(found.device == tensor.device, f"field '{name}' moved from {tensor.device} to {found.device}")
            require(
                found.shape == tensor.shape,
                f"field '{name}' changed shape from {tuple(tensor.shape)} to {tuple(found.shape)}",
            )


def check_project_leaves_its_input_alone(space: Space) -> None:
    """`project` does not change the point that it is given."""
    point = points_around(space, POINTS, 1.0, torch.float32)
    before = point.map(torch.clone)
    space.project(point)
    require(same_tensors(before, point), "project changed its argument in place: clone it first")


@after(check_project_keeps_dtype_and_device, check_project_leaves_its_input_alone)
def check_project_is_idempotent(space: Space) -> None:
    """`project` does not move a point that is already in the relaxed set."""
    for dtype in DTYPES:
        inside = points(space, 4 * POINTS, seeded(), dtype)
        again = space.project(inside)
        for name, convex in space.geometry.items():
            off = float((getattr(again, name) - getattr(inside, name)).abs().max())
            allowed = 4 * convex.tolerance(dtype)
            row = int((getattr(again, name) - getattr(inside, name)).abs().flatten(1).amax(dim=1).argmax())
            moved = shown(getattr(inside, name)[row])
            require(off <= allowed, f"field '{name}' of the point {moved} of the set moves by {off:.3g} ({dtype})")


@after(check_project_is_idempotent)
def check_project_is_nearest(space: Space) -> None:
    """No point p of the set is nearer to x than Px is, and ⟨x − Px, p − Px⟩ ≤ 0 for each p, within the tolerance."""
    for dtype in DTYPES:
        point = points_around(space, POINTS, 1.0, dtype)
        require_nearest(space, point, space.project(point))


@after(check_project_is_nearest)
def check_project_works_at_all_scales(space: Space) -> None:
    """`project` is feasible and nearest for points that are a million times nearer or farther than usual."""
    for dtype in DTYPES:
        for scale in SCALES:
            point = points_around(space, POINTS, scale, dtype)
            projected = space.project(point)
            for name, convex in space.geometry.items():
                require_contains(convex, getattr(projected, name), f"project at scale {scale:g}, field '{name}'")
            require_nearest(space, point, projected, scale)


def require_contains(convex: ConvexSet, value: Tensor, what: str) -> None:
    """Raise `Broken`, with the set's reason and the first point that is not in it, unless every point is in it."""
    inside, reason = convex.contains(value, explain=True)
    if not inside:
        row = next((row for row in range(len(value)) if not convex.contains(value[row : row + 1])), 0)
        raise Broken(f"{what}: {reason}. The point is {shown(value[row])}")


def shown(value: Tensor) -> str:
    """A point as text; a long one is cut."""
    text = str([float(f"{each:.4g}") for each in value.flatten().tolist()])
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… of shape {tuple(value.shape)}"


def require_nearest(space: Space, point: Any, projected: Any, scale: float = 1.0) -> None:
    """Raise `Broken` if a random point of the set is nearer, or if the variational inequality does not hold."""
    others = points(space, OTHERS, seeded(1), torch.float64)
    for name, convex in space.geometry.items():
        dtype = getattr(point, name).dtype
        x, found, rivals = (getattr(each, name).double().flatten(1) for each in (point, projected, others))
        residual = x - found
        allowed = 10 * convex.tolerance(dtype) * (1 + residual.norm(dim=1, keepdim=True))
        excess = residual.norm(dim=1, keepdim=True) - torch.cdist(x, rivals, compute_mode=_EXACT) - allowed
        angles = residual @ rivals.T - (residual * found).sum(dim=1, keepdim=True) - allowed
        for what, off in (
            ("another point of the set is nearer", excess),
            ("the variational inequality is broken", angles),
        ):
            row = int(off.amax(dim=1).argmax())
            require(
                (off <= 0).all(),
                f"field '{name}', {dtype}, noise of scale {scale:g}: {what}, by {float(off.max()):.3g}. "
                f"The point {shown(getattr(point, name)[row])} is projected to {shown(getattr(projected, name)[row])}",
            )


VIEWS = 512
LIMIT = 3
NEAR = 1e-4
"""The largest rounding error of a first-order change."""


@after(check_unpack_inverts_pack)
def check_augment_stays_inside(space: Space) -> None:
    """`augment` gives a valid batch with the same number of structures."""
    batch = repeated(example_batch(space), 64)
    views = space.augment(batch, seeded())
    require(len(views) == len(batch), f"{len(batch)} structures became {len(views)} views")
    require_inside(space, views, "a view")


@after(check_augment_stays_inside)
def check_augment_leaves_its_input_alone(space: Space) -> None:
    """`augment` does not change the batch that it is given."""
    batch = repeated(example_batch(space), 64)
    same = unchanged(batch, lambda each: space.augment(each, seeded()))
    require(same, "augment changed its argument in place: clone it first")


@after(check_augment_leaves_its_input_alone)
def check_augment_is_seeded(space: Space) -> None:
    """`augment` is a function of its batch and its generator, and draws nothing from a global generator."""
    batch = repeated(example_batch(space), 64)
    require_own_randomness("`augment`", lambda: space.augment(batch, seeded()))
    first, second = (space.augment(batch, seeded()) for _ in range(2))
    require(same_tensors(first, second), "augment gives different views with equal generators")


@after(check_augment_is_seeded)
def check_augment_changes_something(space: Space) -> None:
    """Some views differ from their structures: otherwise there is nothing to learn from them."""
    batch = repeated(example_batch(space), VIEWS)
    views = space.augment(batch, seeded())
    require(not same_rows(space.keys(views), space.keys(batch)).all(), f"all {VIEWS} views equal their structures")


@after(check_augment_is_seeded)
def check_augment_depends_on_the_structure(space: Space) -> None:
    """Different structures have different views, drawn with equal generators."""
    batch = example_batch(space)
    views = [space.keys(space.augment(repeated(batch[row : row + 1], 64), seeded())) for row in range(len(batch))]
    same = all(torch.equal(views[0], other) for other in views[1:])
    require(
        not same, "all examples have the same views: a view is a change of its structure, not a structure at random"
    )


@after(check_unrelax_gives_structures)
def check_neighbours_are_inside(space: Space) -> None:
    """`neighbours` gives valid structures and the row of each: int64, in range, in ascending order."""
    batch = structures(space, 6)
    moved, owner = some_neighbours(space, batch)
    require_inside(space, moved, "a neighbour")
    require(owner.shape == (len(moved),), f"{len(moved)} neighbours, but rows of shape {tuple(owner.shape)}")
    require(owner.dtype == torch.int64, f"rows are {owner.dtype}, not int64")
    require(bool(((owner >= 0) & (owner < len(batch))).all()), f"rows are not between 0 and {len(batch) - 1}")
    require(
        bool((owner.diff() >= 0).all()),
        "rows do not ascend: return the neighbours of the first row first, then those of the second",
    )


@after(check_neighbours_are_inside)
def check_neighbours_belong_to_their_rows(space: Space) -> None:
    """A row has the same neighbours in a batch as alone."""
    batch = structures(space, 6)
    moved, owner = some_neighbours(space, batch)
    for row in range(len(batch)):
        alone, _ = space.moves.neighbours(batch[row : row + 1])
        own = moved[owner == row]
        same = len(own) == len(alone) and bool(same_rows(space.keys(own), space.keys(alone)).all())
        require(same, f"row {row} has different neighbours in a batch ({len(own)}) and alone ({len(alone)})")


@after(check_neighbours_belong_to_their_rows)
def check_every_structure_has_neighbours(space: Space) -> None:
    """If a structure has a neighbour, each has one: `search` could not leave a structure without."""
    batch = varied(space, STRUCTURES, views=False)
    _, owner = some_neighbours(space, batch)
    for row in (torch.bincount(owner, minlength=len(batch)) == 0).nonzero().flatten().tolist()[:1]:
        raise Broken(f"{described(space, batch, row)} has no neighbour, and others have: `search` could not leave it")


@after(check_neighbours_belong_to_their_rows)
def check_neighbours_are_different(space: Space) -> None:
    """No neighbour is the structure itself, and none occurs twice for the same structure."""
    batch = structures(space, 6)
    moved, owner = some_neighbours(space, batch)
    keys = space.keys(moved)
    itself = same_rows(keys, space.keys(batch)[owner])
    require(not itself.any(), f"{int(itself.sum())} of {len(moved)} neighbours are the structure itself")
    different = len(torch.unique(torch.cat([owner[:, None], keys], dim=1), dim=0))
    require(
        different == len(moved),
        f"{len(moved) - different} of {len(moved)} neighbours occur twice for the same structure",
    )


@after(check_neighbours_belong_to_their_rows)
def check_neighbours_respect_the_limit(space: Space) -> None:
    """With `limit`, each row has at most `limit` neighbours, and all of them if it has fewer."""
    batch = structures(space, 6)
    _, owner = some_neighbours(space, batch)
    _, few = space.moves.neighbours(batch, None, LIMIT)
    found, there = (torch.bincount(rows, minlength=len(batch)) for rows in (few, owner))
    expected = there.clamp(max=LIMIT)
    require(
        torch.equal(found, expected),
        f"limit={LIMIT} gives {found.tolist()} neighbours per row, not {expected.tolist()}",
    )


@after(check_neighbours_respect_the_limit, check_neighbours_are_different)
def check_neighbours_follow_the_gradient(space: Space) -> None:
    """With a gradient, a row has the same neighbours, sorted by first-order change, and `limit` keeps the first ones.

    The change is ⟨gradient, relaxed neighbour − relaxed structure⟩.
    """
    batch = structures(space, 6)
    _, without = some_neighbours(space, batch)
    relaxed, generator = space.relax(batch), seeded()
    slope = {name: torch.randn(getattr(relaxed, name).shape, generator=generator) for name in space.geometry}
    moved, owner = space.moves.neighbours(batch, relaxed.replace(**slope))
    require(torch.equal(owner, without), "a gradient changes the number of neighbours of a row")
    few, rows = space.moves.neighbours(batch, relaxed.replace(**slope), LIMIT)
    first = ranks(owner) < LIMIT
    same = torch.equal(rows, owner[first]) and bool(same_rows(space.keys(few), space.keys(moved[first])).all())
    require(same, f"with a gradient, limit={LIMIT} does not keep the first {LIMIT} neighbours of each row")
    loss = linear_loss(space, moved, slope, owner)
    for row in range(len(batch)):
        own = loss[owner == row]
        falls = own.diff() < -NEAR * (1 + own.abs().max()) if len(own) else own
        for place in falls.nonzero().flatten().tolist()[:1]:
            raise Broken(
                f"the neighbours of row {row}, {described(space, batch, row)}, are not sorted by first-order change: "
                f"neighbours {place} and {place + 1} change the loss to {own[place]:.4g} and {own[place + 1]:.4g}"
            )


def some_neighbours(space: Space, batch: Any) -> tuple[Any, Tensor]:
    """The neighbours of a batch; raise `NotApplicable` if there are none."""
    moved, owner = space.moves.neighbours(batch)
    if not len(moved):
        raise NotApplicable("no structure has a neighbour")
    return moved, owner


def linear_loss(space: Space, batch: Any, slope: dict[str, Tensor], rows: Tensor) -> Tensor:
    """⟨slope of the row, relaxed structure⟩: (M,)."""
    point = space.relax(batch)
    terms = [(getattr(point, name) * values[rows]).flatten(1).sum(dim=1) for name, values in slope.items()]
    return torch.stack(terms).sum(dim=0)


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
def check_counterexamples_are_refused(space: AnySpace) -> None:
    """`pack` raises `InvalidOutput` (`InvalidInput`), with the index, for every object that `counterexamples` lists."""
    wrong = space.counterexamples()
    if not wrong:
        raise NotApplicable("the space lists no `counterexamples`: objects that must be refused")
    for obj in wrong:
        require_refused(ready(space), obj, f"{obj!r}, a counterexample")


def require_refused(space: AnySpace, bad: Any, what: str) -> None:
    """Raise `Broken` unless `pack` refuses an object by the error of its kind, with its index."""
    good = space.examples()[0]
    refusal = refusal_of(space)
    try:
        space.pack([good, bad, good])
    except refusal as error:
        index = getattr(error, "index", None)
        require(index == 1, f"{what}, is at index 1, but the error has index {index}: {error}")
    except Exception as error:
        raise Broken(f"pack of {what}, raises {type(error).__name__} ({error}), not {refusal.__name__}") from error
    else:
        raise Broken(f"pack accepts {what}: raise `self.invalid(reason, index)`")


def refusal_of(space: AnySpace) -> type[Exception]:
    """The error by which a space refuses an object."""
    return InvalidOutput if isinstance(space, OutputSpace) else InvalidInput


STRUCTURES = 40


@after(check_unpack_inverts_pack)
def check_constraints_judge_structures(space: Space) -> None:
    """Of one constraint, `satisfies` gives (N,) bools and `violation` (N,) floats that are 0 exactly where it is true.

    Every structure satisfies the constraints that `of` computes from it, in any packing, and it is judged
    by itself: the other rows do not matter.
    """
    rules = space.rules
    if rules is None:
        raise NotApplicable("the space has no constraints: `Rules` is None")
    require(issubclass(rules.Constraint, BaseModel), "`Constraint` is not a pydantic model")
    batch = structures(space, STRUCTURES)
    for name, row, constraint in computed(space, rules):
        kept, off = rules.satisfies(batch, constraint), rules.violation(batch, constraint)
        for what, values in (("satisfies", kept), ("violation", off)):
            shape = tuple(values.shape)
            require(shape == (len(batch),), f"`{what}` for '{name}' gives shape {shape}, not ({len(batch)},)")
        require(kept.dtype == torch.bool, f"`satisfies` for '{name}' gives {kept.dtype}, not bool")
        require(off.is_floating_point(), f"`violation` for '{name}' gives {off.dtype}, not floats")
        require(bool((off >= 0).all()), f"`violation` for '{name}' is negative")
        require(torch.equal(off == 0, kept), f"`violation` for '{name}' is not 0 exactly where `satisfies` is true")
        own = example_batch(space)[row : row + 1]
        for packing in (own, space.equivalents(own, seeded())):
            require(
                rules.satisfies(packing, constraint).all(),
                f"a structure does not satisfy the '{name}' that `of` computes from it: {constraint}",
            )
        alone = torch.cat([rules.violation(batch[i : i + 1], constraint) for i in range(len(batch))])
        require(torch.allclose(alone, off), f"`violation` for '{name}' depends on the other rows")
        require(len(rules.satisfies(batch[:0], constraint)) == 0, f"`satisfies` for '{name}' refuses an empty batch")


def computed(space: Space, rules: Rules[Any]) -> Iterator[tuple[str, int, Any]]:
    """The constraints that the space computes from its examples: the name, the row of the example, the constraint."""
    found = False
    for name in rules.Constraint.model_fields:
        try:
            constraints = rules.of(example_batch(space), [name])
        except KeyError:
            continue
        found = True
        yield from ((name, row, constraint) for row, constraint in enumerate(constraints))
    if not found:
        raise NotApplicable("`of` computes no constraint from a structure")


class Remainder(BaseModel):
    """A constraint that about half of the structures of any space satisfy: the remainder of their key by 2."""

    remainder: int


class HalfRules(Rules[Any]):
    """The rules of `HalfAllowed`."""

    Constraint = Remainder

    def violation(self, batch: Any, constraint: Remainder) -> Tensor:
        return (self.space.keys(batch)[:, 0] % 2 != constraint.remainder).float()


class HalfAllowed(OutputSpace[Any, Any]):
    """Mixed into a space, replaces its constraints by `Remainder`."""

    Rules = HalfRules


def constrained(problem: Problem, queries: int) -> Problem:
    """The problem with a `Remainder` for two of three queries."""
    kind = type(type(problem.space).__name__, (HalfAllowed, type(problem.space)), {})
    space: Any = object.__new__(kind)
    space.__dict__.update(problem.space.__dict__)
    given = [Remainder(remainder=number % 3) if number % 3 < 2 else None for number in range(queries)]
    fresh = dataclasses.replace(problem.candidates, satisfying={})
    return dataclasses.replace(problem, space=space, candidates=fresh, constraints=given)


SHARED_WITH_INPUTS = (
    check_examples_are_different,
    check_pack_gives_a_batch,
    check_parse_refuses_politely,
    check_foreign_objects_are_refused,
    check_counterexamples_are_refused,
)
"""The laws of output and input spaces."""
EXAMPLE_CHECKS = laws_in(globals())
"""The laws of this module."""
