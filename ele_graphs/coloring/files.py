"""Drawn pictures, kept in the cache folder: drawing 100,000 takes half a minute."""

from __future__ import annotations

import hashlib
import json
from math import ceil
from pathlib import Path

import numpy as np

from ele_core import Context, replace_folder
from ele_graphs.coloring.pictures import BLOCK, Pictures, draw
from ele_graphs.molecules.cache import cache_folder

FORMAT = 1
"""Part of the hash: raise it when other pictures are drawn, which invalidates old caches."""
FIELDS = ("pixels", "nodes", "edges")


def load(count: int, max_cells: int, seed: int, part: int, context: Context) -> Pictures:
    """Load pictures from the cache, or draw and cache them; pictures of another `part` are other ones."""
    key = hashlib.sha256(json.dumps([FORMAT, count, max_cells, seed, part]).encode()).hexdigest()[:32]
    folder = cache_folder() / "coloring" / key
    found = opened(folder, count)
    if found is None:
        blocks = context.monitor.progress(
            draw(count, max_cells, seed, part), description="drawing pictures", total=ceil(count / BLOCK)
        )
        parts = list(blocks)
        found = Pictures(*(np.concatenate([getattr(block, field) for block in parts]) for field in FIELDS))
        with replace_folder(folder) as fresh:
            for field in FIELDS:
                np.save(fresh / f"{field}.npy", getattr(found, field))
    return found


def opened(folder: Path, count: int) -> Pictures | None:
    """Open cached pictures without reading them into memory; None if they are missing or damaged."""
    try:
        # Copy-on-write: torch needs writable memory, and the file must not change.
        found = Pictures(*(np.load(folder / f"{field}.npy", mmap_mode="c") for field in FIELDS))
    except (OSError, ValueError):
        return None
    return found if all(len(getattr(found, field)) == count for field in FIELDS) else None
