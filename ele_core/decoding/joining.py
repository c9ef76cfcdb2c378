"""Decodings of consecutive chunks of queries as one."""

from __future__ import annotations

import dataclasses

import torch

from ele_core.interfaces import Decoding, Trace


def joined(parts: list[Decoding]) -> Decoding:
    """The decodings of consecutive queries as one."""
    batch = type(parts[0].structures)
    decoding = Decoding(batch.cat([part.structures for part in parts]), torch.cat([part.energies for part in parts]))
    traces = [part.trace for part in parts if part.trace is not None]
    if not traces:
        return decoding
    structures = [batch.cat(at_step) for at_step in zip(*(trace.structures for trace in traces), strict=True)]
    energies = [torch.cat(at_step) for at_step in zip(*(trace.energies for trace in traces), strict=True)]
    return dataclasses.replace(decoding, trace=Trace(traces[0].steps, structures, energies))
