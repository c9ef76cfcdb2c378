"""Pictures of coloured cells with their graphs: the data set "Coloring" of Any2Graph, drawn from a seed.

A picture has M random centroids, M uniform between `LEAST_CELLS` and a maximum. Each pixel belongs to the centroid that
is nearest in the L1 distance. Cells that touch have different colours, at random out of four. The graph has a node for
each cell, labelled by its colour, and an edge between two cells with a border of at least `BORDER` pairs of pixels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

SIDE = 32
"""Pixels along each side of a picture."""
LEAST_CELLS = 4
BORDER = 3
"""Pairs of pixels side by side or one above the other, one of each cell, from which two cells share an edge."""
SMALLEST = 3
"""Pixels of the smallest cell; centroids with a smaller one are drawn again."""
COLOURS = np.array([[0.25, 0.25, 0.75], [0.25, 0.75, 0.25], [0.75, 0.25, 0.25], [1.0, 0.8, 0.4]], np.float32)
"""Red, green and blue of the four colours: blue, green, red and yellow."""
NAMES = ("blue", "green", "red", "yellow")
BLUR, NOISE = 0.4, 0.02
"""The standard deviations of the Gaussian blur, in pixels, and of the noise of each channel between 0 and 1."""
ATTEMPTS = 100
"""Random colourings that are tried before a picture is drawn again."""
BLOCK = 1000
"""Pictures drawn at once; each block has its own seed, so a smaller data set is a prefix of a larger one."""


@dataclass(frozen=True)
class Pictures:
    """N pictures and their graphs; nodes are in no particular order."""

    pixels: npt.NDArray[np.uint8]
    """(N, 32, 32, 3)."""
    nodes: npt.NDArray[np.int8]
    """(N, m): the colour of each cell, from 1; 0 where there is no cell."""
    edges: npt.NDArray[np.int8]
    """(N, m, m): 1 where two cells share a border, symmetric."""

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, rows: slice | npt.NDArray[np.bool_]) -> Pictures:
        return Pictures(self.pixels[rows], self.nodes[rows], self.edges[rows])


def draw(count: int, max_cells: int, *seed: int) -> Iterator[Pictures]:
    """Draw `count` pictures of at most `max_cells` cells, in blocks."""
    for first in range(0, count, BLOCK):
        generator = np.random.default_rng([*seed, max_cells, first // BLOCK])
        yield draw_block(max_cells, generator)[: count - first]


def draw_block(max_cells: int, generator: np.random.Generator) -> Pictures:
    """Draw `BLOCK` pictures: numbers of cells, then centroids until no cell is too small, then colours."""
    counts = generator.integers(LEAST_CELLS, max_cells + 1, BLOCK)
    cells = np.zeros((BLOCK, SIDE, SIDE), np.int8)
    borders = np.zeros((BLOCK, max_cells, max_cells), np.int64)
    colours = np.full((BLOCK, max_cells), -1)
    missing = np.arange(BLOCK)
    while len(missing):
        drawn = draw_cells(counts[missing], max_cells, generator)
        large = (cell_sizes(drawn, max_cells) >= SMALLEST).sum(axis=1) == counts[missing]
        rows, drawn = missing[large], drawn[large]
        cells[rows], borders[rows] = drawn, measure_borders(drawn, max_cells)
        colours[rows] = draw_colours(borders[rows], generator)
        missing = np.flatnonzero((colours < 0).any(axis=1))
    nodes = (colours + 1) * (np.arange(max_cells) < counts[:, None])
    return Pictures(paint(cells, colours, generator), nodes.astype(np.int8), (borders >= BORDER).astype(np.int8))


def draw_cells(counts: npt.NDArray[np.int64], max_cells: int, generator: np.random.Generator) -> npt.NDArray[np.int8]:
    """Draw centroids, `counts` (N,) of them, and assign each pixel to the nearest in the L1 distance: (N, 32, 32)."""
    centroids = generator.random((len(counts), max_cells, 2), np.float32)
    centroids[np.arange(max_cells) >= counts[:, None]] = np.inf
    apart = np.abs(centroids[..., None] - np.linspace(0, 1, SIDE, dtype=np.float32))  # (N, m, 2, 32)
    least = np.full((len(counts), SIDE, SIDE), np.inf, np.float32)
    cells = np.zeros(least.shape, np.int8)
    for cell in range(max_cells):
        distance = apart[:, cell, 0, :, None] + apart[:, cell, 1, None, :]
        cells[distance < least] = cell
        np.minimum(least, distance, out=least)
    return cells


def measure_borders(cells: npt.NDArray[np.int8], max_cells: int) -> npt.NDArray[np.int64]:
    """Count the pairs of neighbouring pixels of each two cells: (N, 32, 32) → (N, m, m), symmetric, 0 inside a cell."""
    count, square = len(cells), max_cells * max_cells
    own = np.arange(count)[:, None, None] * square
    borders = np.zeros(count * square, np.int64)
    for first, second in ((cells[:, 1:], cells[:, :-1]), (cells[:, :, 1:], cells[:, :, :-1])):
        pairs = own + first.astype(np.int64) * max_cells + second
        borders += np.bincount(pairs[first != second], minlength=count * square)
    matrix = borders.reshape(count, max_cells, max_cells)
    return matrix + matrix.transpose(0, 2, 1)


def cell_sizes(cells: npt.NDArray[np.int8], max_cells: int) -> npt.NDArray[np.int64]:
    """Count the pixels of each cell: (N, 32, 32) → (N, m)."""
    own = np.arange(len(cells))[:, None, None] * max_cells
    return np.bincount((own + cells).ravel(), minlength=len(cells) * max_cells).reshape(-1, max_cells)


def draw_colours(borders: npt.NDArray[np.int64], generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """Give each cell in turn a random colour that no touching cell has, and start again where none is left: (N, m).

    Cells whose pixels are not connected may need five colours; −1 after `ATTEMPTS`.
    """
    colours = np.full(borders.shape[:2], -1)
    missing = np.arange(len(borders))
    for _ in range(ATTEMPTS):
        touching = borders[missing] > 0
        found = np.full((len(missing), borders.shape[1]), -1)
        for cell in range(borders.shape[1]):
            near = np.where(touching[:, cell, :cell], found[:, :cell], -1)
            taken = (near[:, :, None] == np.arange(len(COLOURS))).any(axis=1)
            scores = generator.random(taken.shape) - taken
            found[:, cell] = np.where(taken.all(axis=1), -1, scores.argmax(axis=1))
        colours[missing] = found
        missing = missing[(found < 0).any(axis=1)]
    return colours


def paint(
    cells: npt.NDArray[np.int8], colours: npt.NDArray[np.int64], generator: np.random.Generator
) -> npt.NDArray[np.uint8]:
    """Paint each cell in its colour, blur, and add noise: (N, 32, 32) → (N, 32, 32, 3)."""
    labels = np.take_along_axis(colours, cells.reshape(len(cells), -1).astype(np.int64), axis=1)
    exact = COLOURS[labels].reshape(*cells.shape, 3)
    noise = generator.standard_normal(exact.shape, np.float32) * NOISE
    painted: npt.NDArray[np.uint8] = np.rint((blurred(exact) + noise).clip(0, 1) * 255).astype(np.uint8)
    return painted


def blurred(images: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Blur by a Gaussian of deviation `BLUR`, with the border repeated; pixels two steps away weigh nothing."""
    side = np.exp(-0.5 / BLUR**2)
    near, own = np.float32(side / (1 + 2 * side)), np.float32(1 / (1 + 2 * side))
    for axis in (1, 2):
        wide = np.pad(images, [(int(axis == each), int(axis == each)) for each in range(4)], mode="edge")
        ends = wide.take(range(SIDE), axis) + wide.take(range(2, SIDE + 2), axis)
        images = own * images + near * ends
    return images
