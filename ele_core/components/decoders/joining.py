"""Join the decodings of consecutive chunks of queries, and convert decodings to named tensors and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from ele_core.numerics.tensors import Tensors
from ele_core.runtime.work import Snapshot, prefixed
from ele_core.types import Decoding, Trace


def concatenated(parts: list[Decoding]) -> Decoding:
    """Join the decodings of consecutive queries."""
    batch = type(parts[0].structures)
    nearest = [part.nearest for part in parts if part.nearest is not None]
    decoding = Decoding(
        batch.cat([part.structures for part in parts]),
        torch.cat([part.energies for part in parts]),
        nearest=torch.cat(nearest) if len(nearest) == len(parts) else None,
    )
    traces = [part.trace for part in parts if part.trace is not None]
    if not traces:
        return decoding
    steps = max((trace.steps for trace in traces), key=len)
    traces = [prolonged(trace, steps) for trace in traces]
    structures = [batch.cat(at_step) for at_step in zip(*(trace.structures for trace in traces), strict=True)]
    energies = [torch.cat(at_step) for at_step in zip(*(trace.energies for trace in traces), strict=True)]
    return dataclasses.replace(decoding, trace=Trace(steps, structures, energies))


def prolonged(trace: Trace, steps: Sequence[int]) -> Trace:
    """Extend a trace to `steps` by repeating its last structures and energies."""
    missing = len(steps) - len(trace.steps)
    structures = [*trace.structures, *[trace.structures[-1]] * missing]
    return Trace(steps, structures, [*trace.energies, *[trace.energies[-1]] * missing])


def as_tensors(decoding: Decoding) -> dict[str, Tensor]:
    """A decoding as named tensors, for a checkpoint or for other processes."""
    tensors = {"energies": decoding.energies, **prefixed("structures", decoding.structures.as_dict())}
    if decoding.nearest is not None:
        tensors["nearest"] = decoding.nearest
    if decoding.trace is None:
        return tensors
    tensors["steps"] = torch.tensor(list(decoding.trace.steps))
    for number, (structures, energies) in enumerate(
        zip(decoding.trace.structures, decoding.trace.energies, strict=True)
    ):
        tensors |= {f"energies.{number}": energies, **prefixed(f"trace.{number}", structures.as_dict())}
    return tensors


def from_tensors(tensors: dict[str, Tensor], batch: type[Tensors]) -> Decoding:
    """The inverse of `as_tensors`; `batch` is the class of the structures."""
    stored = Snapshot(tensors)
    structures = batch.from_dict(stored.part("structures"))
    if "steps" not in tensors:
        return Decoding(structures, tensors["energies"], nearest=tensors.get("nearest"))
    steps = tensors["steps"].tolist()
    passed = [batch.from_dict(stored.part(f"trace.{number}")) for number in range(len(steps))]
    trace = Trace(steps, passed, [tensors[f"energies.{number}"] for number in range(len(steps))])
    return Decoding(structures, tensors["energies"], trace, tensors.get("nearest"))
