"""`coloring`: from a picture of coloured cells to the graph of the cells that share a border."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import Field

from ele_core import (
    ComponentConfig,
    ConfigError,
    Context,
    DataSet,
    OutputSpace,
    Reference,
    Row,
    Scale,
    Study,
    Table,
    Task,
    fingerprint,
)
from ele_core.data.store import cache_folder
from ele_core.files.atomic import replace_folder
from ele_graphs.coloring.pictures import BLOCK, LEAST_CELLS, NAMES, Pictures, draw
from ele_graphs.graphs.batch import Graphs
from ele_graphs.graphs.networkx_space import PaddedGraphSpace

TEN, TWENTY = "Any2Graph V2, up to 10 cells", "Any2Graph V2, up to 20 cells"
"""The published results."""
EPOCHS = "regressor.training.epochs={}"
FEW = ("task.size=5000", "task.validation=200", "task.test=200")
COPYING = ("regressor=nearest-input", "decoder=candidates")
"""The graph of the nearest training picture."""
CONTRASTIVE = (
    "surrogate=contrastive",
    "surrogate.dim=128",
    "surrogate.encoder=rgcn",
    "surrogate.encoder.width=64",
    "surrogate.encoder.layers=3",
    "decoder=pgd",
)
"""The paper's way: a learned embedding, and projected gradient descent."""
CONTRASTIVE_SCALES = {
    "small": ("surrogate.training.epochs=20", EPOCHS.format(6)),
    "full": ("surrogate.training.epochs=1", EPOCHS.format(1)),
}


def scales(cells: int, overrides: Sequence[str]) -> dict[str, Scale]:
    """The sizes of the experiment."""
    small = f"5,000 training pictures of up to {cells} cells and 200 for the test; about ten minutes on two cores."
    full = f"100,000 training pictures of up to {cells} cells and 1,000 for the test; about an hour on two cores."
    return {"small": Scale(small, (*FEW, *overrides)), "full": Scale(full, overrides)}


def rows(reference: str, epochs: Mapping[str, Sequence[str]]) -> tuple[Row, ...]:
    """The methods; `epochs`: of the network, by scale."""
    return (
        Row("copying", COPYING, minutes={"small": 1, "full": 5}),
        Row("candidates", ("decoder=candidates",), epochs, minutes={"small": 3, "full": 20}),
        Row("search", (), epochs, reference=reference, minutes={"small": 3, "full": 22}),
        Row("contrastive, pgd", CONTRASTIVE, CONTRASTIVE_SCALES, minutes={"small": 5, "full": 25}),
    )


STUDIES = (
    Table(
        name="coloring",
        title="Graphs of up to 10 coloured cells from pictures",
        scales=scales(10, ()),
        metrics=("exact", "ged_with_edges"),
        rows=rows(TEN, {"small": (EPOCHS.format(6),)}),
    ),
    Table(
        name="coloring-20",
        title="Graphs of up to 20 coloured cells from pictures",
        scales=scales(20, ("output.max_nodes=20",)),
        metrics=("exact", "ged_with_edges"),
        rows=rows(TWENTY, {"small": (EPOCHS.format(6),)}),
    ),
)


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


MOST_CELLS = 20
SOURCE = "Any2Graph (Krzakala et al., arXiv:2402.12269), Coloring"
PARTS = ("train", "validation", "test")


class Coloring(Task):
    """Coloring, a data set of Any2Graph (Krzakala et al., 2024): a picture in, a graph of coloured nodes out.

    Pictures of 32 × 32 pixels with 4 to 10 cells, or up to 20, are drawn from the seed. Each cell is a node labelled by
    its colour; cells with a border of at least three pixels are neighbours. Training, validation and test pictures are
    drawn separately.
    """

    class Config(ComponentConfig):
        """How many pictures are drawn, of how many cells."""

        size: int = Field(default=100_000, ge=1)
        """Pictures to train on."""
        validation: int = Field(default=2000, ge=1)
        """Pictures to validate on."""
        test: int = Field(default=1000, ge=1)
        """Pictures to test on."""
        max_cells: int | None = Field(default=None, ge=LEAST_CELLS, le=MOST_CELLS)
        """Maximum number of cells of a picture. None: `max_nodes` of the output space."""
        seed: int | None = Field(default=None, ge=0)
        """Chooses the pictures; by default the seed of the run."""

    config: Config

    references: ClassVar[Sequence[Reference]] = (
        Reference(TEN, {"exact": 0.455}, SOURCE),
        Reference(TWENTY, {"exact": 0.465}, SOURCE),
    )
    studies: ClassVar[Sequence[Study]] = STUDIES

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Up to 10 cells: about ten minutes of training on one core.

        The embedding adds up small coloured subgraphs, and the network the contributions of the places of a picture.
        """
        return {
            "output": {"name": "cell-graph", "max_nodes": 10, "motifs": {"colour": 2, "edge": 2}},
            "input": {"name": "image", "flips": True, "rotations": True},
            "surrogate": {"name": "parts", "dim": 512},
            "regressor": {
                "name": "averaged-views",
                "backbone": {
                    "name": "convolution",
                    "widths": [48, 96],
                    "blocks": [2, 2],
                    "norm": "batch",
                    "pooling": "additive",
                    "hidden": 512,
                },
                "training": {
                    "epochs": 1.8,
                    "batch_size": 64,
                    "optimiser": "muon",
                    "learning_rate": 4e-3,
                    "precision": "bfloat16",
                    "evaluations": 20,
                },
                "weigh_errors": True,
            },
            "decoder": {"name": "search", "width": 8, "rounds": 30, "patience": 3},
        }

    def load(self, space: OutputSpace[Any, Any], context: Context) -> DataSet:
        """Draw the pictures, or load them from the cache, and pack their graphs."""
        if not isinstance(space, PaddedGraphSpace) or not set(NAMES) <= set(space.node_labels):
            what = f"this task predicts graphs with the node labels {', '.join(NAMES)}."
            raise ConfigError(what, where="output", fix='Set output = "cell-graph".')
        cells = min(space.max_nodes, MOST_CELLS) if self.config.max_cells is None else self.config.max_cells
        if not LEAST_CELLS <= cells <= space.max_nodes:
            most = max(cells, LEAST_CELLS)
            what = f"pictures have {LEAST_CELLS} to {most} cells, but graphs at most {space.max_nodes} nodes."
            raise ConfigError(what, where="output.max_nodes", fix=f"Set output.max_nodes = {most}.")
        seed = context.seed if self.config.seed is None else self.config.seed
        sizes = [getattr(self.config, "size" if part == "train" else part) for part in PARTS]
        drawn = [load(size, cells, seed, number, context) for number, size in enumerate(sizes)]
        pixels = np.concatenate([part.pixels for part in drawn])
        outputs = Graphs.cat([graphs(part, space) for part in drawn])
        train, validation, test = torch.arange(len(pixels)).split(sizes)
        return DataSet(
            inputs=pixels,  # type: ignore[arg-type]  # an array is a sequence of pictures
            outputs=outputs,
            train=train,
            validation=validation,
            test=test,
            source=f"Coloring ({sizes[0]:,} pictures of up to {cells} cells)",
            fingerprint=fingerprint([hashlib.sha256(pixels.data).hexdigest()], outputs),
        )


def graphs(pictures: Pictures, space: PaddedGraphSpace) -> Graphs:
    """The graphs of pictures, with the labels and the size of `space`."""
    codes = np.array([0, *(space.node_labels.index(name) + 1 for name in NAMES)], np.int8)
    count, cells = pictures.nodes.shape
    nodes = np.zeros((count, space.max_nodes), np.int8)
    edges = np.zeros((count, space.max_nodes, space.max_nodes), np.int8)
    nodes[:, :cells] = codes[pictures.nodes]
    edges[:, :cells, :cells] = pictures.edges
    return Graphs(torch.from_numpy(nodes), torch.from_numpy(edges))
