"""Descriptions of the data before a training: one line, or a short summary."""

from __future__ import annotations

import dataclasses
from typing import Any

from ele_core.config import RunConfig, recipe_line
from ele_core.data.dataset import DataSet
from ele_core.data.objects import LISTED
from ele_core.data.prepare import Prepared
from ele_core.errors import counted
from ele_core.numerics.keys import distinct, member


def summary(prepared: Prepared) -> str:
    """Return what a user should know before a training: how the data were read, their sizes, and the recipe."""
    data = prepared.data
    extra = f", {counted(len(data.extra), 'extra output')}" if data.extra is not None else ""
    left_out = f", {counted(data.left_out, 'row')} left out" if data.left_out else ""
    sizes = (
        f"{data.training_pairs:,} training, {len(data.validation):,} validation, {set_aside(data)}{len(data.test):,}"
    )
    read = f"{data.source}: {sizes} test pairs{extra}{left_out}"
    return "\n".join([*data.notes, read, *recipe_lines(prepared.config)])


def recipe_lines(config: RunConfig) -> list[str]:
    """Return the line on the recipe; none if a model to start from takes its place, of which another line tells."""
    return [recipe_line(config)] if config.start is None else []


def set_aside(data: DataSet) -> str:
    """The number of calibration pairs, if there are any, as a part of a list."""
    return f"{len(data.calibration):,} calibration, " if len(data.calibration) else ""


def facts(prepared: Prepared) -> dict[str, Any]:
    """Return what `describe_data` says as plain values, with every omitted row."""
    data = prepared.data
    keys = prepared.space.keys(data.outputs)
    return {
        "source": data.source,
        "fingerprint": data.fingerprint,
        "pairs": data.pairs,
        "train": data.training_pairs,
        "validation": len(data.validation),
        "calibration": len(data.calibration),
        "test": len(data.test),
        "extra": 0 if data.extra is None else len(data.extra),
        "different_outputs": len(distinct(keys)),
        "test_outputs_in_training": int(member(keys[data.test], of=keys[data.train]).sum()),
        "left_out": [{**dataclasses.asdict(each), "row": each.row + 1} for each in data.rejected],
    }


def describe_data(prepared: Prepared) -> str:
    """Describe the data in a few lines: sizes, duplicates, omitted rows with reasons, a few pairs."""
    data, space = prepared.data, prepared.space
    keys = space.keys(data.outputs)
    known = member(keys[data.test], of=keys[data.train])
    aside = set_aside(data)
    lines = [
        *data.notes,
        f"source       {data.source} (sha256 {data.fingerprint[:12]}…)",
        f"pairs        {data.pairs:,}, of them {data.training_pairs:,} training, {len(data.validation):,} validation, "
        f"{aside}{len(data.test):,} test",
        f"outputs      {len(distinct(keys)):,} different; {int(known.sum()):,} of the test outputs occur in training",
        f"extra        {counted(len(data.extra) if data.extra is not None else 0, 'output')} without inputs",
        f"left out     {counted(data.left_out, 'row')}",
        *(f"  {each}" for each in data.rejected[:LISTED]),
    ]
    if data.left_out > LISTED:
        lines.append(f"  … and {data.left_out - LISTED:,} more")
    sizes = prepared.inputs.sizes(prepared.packed)
    if sizes is not None:
        lines.append(f"input sizes  {int(sizes.min())} to {int(sizes.max())}, mean {sizes.float().mean():.1f}")
    first = data.train[:3]
    for x, y in zip(data.inputs_at(first), space.unpack(data.outputs[first]), strict=True):
        lines.append(f"example      {prepared.inputs.format(x)} → {space.texts.format(y)}")
    return "\n".join(lines)
