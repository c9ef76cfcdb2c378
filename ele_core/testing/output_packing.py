"""Checks of output spaces: objects, texts, batches and keys."""

from __future__ import annotations

import torch

from ele_core.errors import InvalidOutput
from ele_core.files.archive import brief
from ele_core.testing.results import Broken, after, require
from ele_core.testing.samples import (
    Space,
    example_batch,
    require_inside,
    require_same_structures,
    same_rows,
    same_tensors,
    seeded,
)

RAN: list[str] = []
"""Not empty if `CODE` was run."""
CODE = "__import__('ele_core.testing.output_packing', fromlist=['RAN']).RAN.append('code')"
STRANGE = (
    *("", " ", "?", "{", '{"nodes": 1}', "[]", "\x00", "1e999", "nan", "<b>&</b>", "é" * 50),
    *("\n", "a\tb", "9" * 5000, "[" * 100_000, "(" * 10_000),
)
"""Texts that belong to no space."""


class Foreign:
    """An object that belongs to no space."""


def check_examples_are_different(space: Space) -> None:
    """`examples` gives at least two objects, and `format` gives each a different text."""
    texts = [space.format(obj) for obj in space.examples()]
    require(len(texts) >= 2, f"`examples` gives {len(texts)}; at least two are needed")
    twice = next((text for text in texts if texts.count(text) > 1), None)
    require(twice is None, f"the example {twice!r} occurs twice")


@after(check_examples_are_different)
def check_pack_gives_labels(space: Space) -> None:
    """`pack` gives a `Batch` with one row per object, whose fields of the geometry hold labels of their convex sets."""
    objects = space.examples()
    batch = space.pack(objects)
    require(isinstance(batch, space.Batch), f"pack gives a {type(batch).__name__}, not a {space.Batch.__name__}")
    lengths = {name: len(tensor) for name, tensor in batch.named_tensors()}
    require(set(lengths.values()) == {len(objects)}, f"{len(objects)} objects became rows {lengths}")
    for name, convex in space.geometry.items():
        labels = getattr(batch, name)
        require(not labels.is_floating_point(), f"field '{name}' holds {labels.dtype}, not integers")
        shape = (len(objects), *convex.label_shape)
        require(labels.shape == shape, f"field '{name}' has shape {tuple(labels.shape)}, not {shape}")
        outside = bool(((labels < 0) | (labels >= convex.label_count)).any())
        require(not outside, f"field '{name}' has labels outside 0 … {convex.label_count - 1}")


@after(check_pack_gives_labels)
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


def check_parse_refuses_politely(space: Space) -> None:
    """`parse` of any text gives an object or raises `InvalidOutput`, nothing else."""
    RAN.clear()
    for text in (*STRANGE, CODE):
        try:
            space.parse(text)
        except InvalidOutput:
            continue
        except Exception as error:
            what = f"parse({brief(text, 60)!r}) raises {type(error).__name__} ({brief(error, 200)}), not InvalidOutput"
            raise Broken(what) from error
        finally:
            require(not RAN, "parse runs code that is in its text: never use `eval`, read it with ast.literal_eval")


@after(check_pack_gives_labels)
def check_foreign_objects_are_refused(space: Space) -> None:
    """`pack` of an object that is not in the space raises `InvalidOutput` with its index, and no other error."""
    good = space.examples()[0]
    for bad in (Foreign(), None):
        try:
            space.pack([good, bad, good])
        except InvalidOutput as error:
            require(error.index == 1, f"the bad object is at index 1, but the error has index {error.index}: {error}")
        except Exception as error:
            what = f"pack of a {type(bad).__name__} raises {type(error).__name__} ({error}), not InvalidOutput"
            raise Broken(what) from error
        else:
            raise Broken(f"pack accepts a {type(bad).__name__}: raise `self.invalid(reason, index)`")


@after(check_unpack_inverts_pack, check_parse_inverts_format)
def check_infer_holds_the_objects(space: Space) -> None:
    """A space with the configuration that `infer` finds in objects packs these objects as the same structures."""
    cls, objects = type(space), space.examples()
    inferred = cls(cls.infer(objects, {}))
    texts = [cls.format(obj) for obj in inferred.unpack(inferred.pack(objects))]
    read = space.pack([cls.parse(text) for text in texts])
    require_same_structures(space, read, space.pack(objects), "packed by the inferred space")


@after(check_infer_holds_the_objects)
def check_infer_obeys_options(space: Space) -> None:
    """Options that the user gives win over what `infer` finds in data."""
    options = dict(space.config)
    found = space.infer(space.examples()[:1], options)
    changed = [name for name, value in options.items() if getattr(found, name) != value]
    require(not changed, f"infer replaces options that the user gave: {', '.join(changed)}")


@after(check_pack_gives_labels)
def check_configuration_is_the_whole_state(space: Space) -> None:
    """A space built from its configuration as JSON packs the same: nothing else has to be saved."""
    cls = type(space)
    again = cls(cls.Config.model_validate_json(space.config.model_dump_json()))
    objects = space.examples()
    require(
        same_tensors(again.pack(objects), space.pack(objects)),
        "a space rebuilt from its configuration packs differently: keep all state in the Config",
    )
