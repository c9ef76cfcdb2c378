"""The modified cosine of spectra: peaks match at the same m/z, or shifted by the difference of the precursors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ele_graphs.ged.kernels import compiled
from ele_graphs.ms2mol.input_space import Spectra

TOLERANCE = 0.01
"""Peaks at most this many Da apart match."""

Floats = NDArray[np.float32]


def modified_cosines(queries: Spectra, library: Spectra, power: float = 0.5) -> Floats:
    """The modified cosine of every query with every spectrum of the library: (B, N).

    Matching peaks are paired greedily, the largest product of intensities to `power` first, each peak once.
    """
    found = np.zeros((len(queries), len(library)), np.float32)
    one, other = (_plain(batch, power) for batch in (queries, library))
    _cosines(*one, *other, TOLERANCE, found)
    return found


def _plain(batch: Spectra, power: float) -> tuple[Floats, Floats, NDArray[np.int32], Floats]:
    heights = (batch.intensity * batch.mask).pow(power)
    heights = heights / heights.square().sum(dim=1, keepdim=True).sqrt()
    return batch.mz.numpy(), heights.numpy(), batch.counts.numpy(), batch.precursor.numpy()


@compiled
def _cosines(
    mz: Floats,
    heights: Floats,
    counts: NDArray[np.int32],
    precursor: Floats,
    other_mz: Floats,
    other_heights: Floats,
    other_counts: NDArray[np.int32],
    other_precursor: Floats,
    tolerance: float,
    found: Floats,
) -> None:
    """Fill `found`. Peaks are ascending in m/z, so two pointers find the matches."""
    most = mz.shape[1] * 8
    products, left, right = np.zeros(most), np.zeros(most, np.int64), np.zeros(most, np.int64)
    used, other_used = np.zeros(mz.shape[1], np.int64), np.zeros(other_mz.shape[1], np.int64)
    stamp = 0
    for a in range(len(counts)):
        for b in range(len(other_counts)):
            shift = precursor[a] - other_precursor[b]
            matches = 0
            for turn in range(2):
                moved = shift if turn else 0.0
                if turn and abs(shift) <= tolerance:
                    break
                start = 0
                for i in range(counts[a]):
                    low = mz[a, i] - moved - tolerance
                    while start < other_counts[b] and other_mz[b, start] < low:
                        start += 1
                    j = start
                    while j < other_counts[b] and other_mz[b, j] <= low + 2 * tolerance and matches < most:
                        products[matches] = heights[a, i] * other_heights[b, j]
                        left[matches], right[matches] = i, j
                        matches += 1
                        j += 1
            if matches == 0:
                continue
            stamp += 1
            total = 0.0
            for place in np.argsort(-products[:matches]):
                i, j = left[place], right[place]
                if used[i] != stamp and other_used[j] != stamp:
                    used[i] = other_used[j] = stamp
                    total += products[place]
            found[a, b] = total
