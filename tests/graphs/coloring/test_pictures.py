"""The pictures of the task `coloring`: graphs follow from pixels as defined, and everything from the seed."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from ele_graphs.coloring.pictures import (
    BLOCK,
    BLUR,
    BORDER,
    COLOURS,
    LEAST_CELLS,
    SMALLEST,
    Pictures,
    blurred,
    cell_sizes,
    draw,
    draw_cells,
    draw_colours,
    measure_borders,
    paint,
)


@pytest.fixture(scope="module", params=[10, 20])
def drawn(request: pytest.FixtureRequest) -> tuple[int, Pictures]:
    (block,) = draw(200, request.param, 3)
    return request.param, block


def nearest_colours(pixels: np.ndarray) -> np.ndarray:
    """The colour of each pixel, from 1; blur and noise do not hide it inside a cell."""
    return ((pixels[..., None, :] / 255 - COLOURS) ** 2).sum(axis=-1).argmin(axis=-1) + 1


def test_neighbours_never_have_the_same_colour(drawn: tuple[int, Pictures]) -> None:
    _, pictures = drawn
    first, second = pictures.nodes[:, :, None], pictures.nodes[:, None, :]
    assert not ((first == second) & (pictures.edges == 1)).any()
    assert (pictures.edges == pictures.edges.transpose(0, 2, 1)).all()
    assert not pictures.edges.diagonal(axis1=1, axis2=2).any()


def test_every_number_of_cells_is_as_frequent_as_any_other() -> None:
    counts = np.bincount(np.concatenate([(block.nodes > 0).sum(axis=1) for block in draw(3 * BLOCK, 10, 0)]))
    expected = 3 * BLOCK / 7
    assert not counts[:LEAST_CELLS].any()
    assert (abs(counts[LEAST_CELLS:] - expected) < 5 * expected**0.5).all()


def test_cells_are_those_of_the_nearest_centroid_in_the_sum_of_both_distances() -> None:
    cells = draw_cells(np.array([5, 7]), 8, np.random.default_rng(0))
    generator = np.random.default_rng(0)
    centroids = generator.random((2, 8, 2), np.float32)
    grid = np.linspace(0, 1, 32)
    for picture, count in enumerate((5, 7)):
        for row, column in ((0, 0), (3, 17), (31, 31), (12, 30)):
            there = np.abs(centroids[picture, :count] - [grid[row], grid[column]]).sum(axis=1)
            assert cells[picture, row, column] == there.argmin()


def test_a_border_counts_the_pairs_of_pixels_side_by_side_or_above_each_other() -> None:
    cells = np.zeros((1, 32, 32), np.int8)
    cells[0, 10:14, 20:25] = 1  # four by five pixels within cell 0
    cells[0, 10:12, 25] = 2  # two pixels beside it
    borders = measure_borders(cells, 4)[0]
    assert borders[1, 2] == borders[2, 1] == 2
    assert borders[0, 1] == 2 * 5 + 4 + 2
    assert borders[0, 2] == 1 + 1 + 2
    assert not borders.diagonal().any()
    assert cell_sizes(cells, 4)[0].tolist() == [32 * 32 - 22, 20, 2, 0]


def test_edges_and_nodes_of_a_drawn_picture_are_those_of_its_cells() -> None:
    generator = np.random.default_rng(5)
    cells = draw_cells(np.full(50, 9), 10, generator)
    borders = measure_borders(cells, 10)
    colours = draw_colours(borders, generator)
    assert not ((borders > 0) & (colours[:, :, None] == colours[:, None, :])).any()  # also for the shortest border
    pixels = paint(cells, colours, generator)
    seen = nearest_colours(pixels) - 1
    assert (seen == np.take_along_axis(colours, cells.reshape(50, -1).astype(int), axis=1).reshape(cells.shape)).all()


def test_the_graph_of_a_picture_can_be_read_off_its_pixels(drawn: tuple[int, Pictures]) -> None:
    """Where cells are connected: its regions of one colour, joined where they touch in three pairs of pixels."""
    _, pictures = drawn
    same = 0
    for row in range(len(pictures)):
        graph = graph_of_regions(nearest_colours(pictures.pixels[row]))
        true = nx.Graph()
        true.add_nodes_from((i, {"label": label}) for i, label in enumerate(pictures.nodes[row]) if label)
        true.add_edges_from(np.argwhere(pictures.edges[row]))
        same += nx.is_isomorphic(graph, true, lambda a, b: a["label"] == b["label"])
    assert same >= 0.9 * len(pictures)  # in the others a cell is in two pieces


def graph_of_regions(seen: np.ndarray) -> nx.Graph:
    pixels = nx.grid_2d_graph(32, 32)
    inside = nx.Graph()
    inside.add_nodes_from(pixels)
    inside.add_edges_from((a, b) for a, b in pixels.edges if seen[a] == seen[b])
    region = {pixel: number for number, part in enumerate(nx.connected_components(inside)) for pixel in part}
    borders: dict[tuple[int, int], int] = {}
    for a, b in pixels.edges:
        pair = (min(region[a], region[b]), max(region[a], region[b]))
        borders[pair] = borders.get(pair, 0) + 1
    graph = nx.Graph()
    graph.add_nodes_from((number, {"label": seen[pixel]}) for pixel, number in region.items())
    graph.add_edges_from(pair for pair, length in borders.items() if length >= BORDER and pair[0] != pair[1])
    return graph


def test_no_cell_is_smaller_than_three_pixels(drawn: tuple[int, Pictures]) -> None:
    max_cells, pictures = drawn
    assert SMALLEST == 3
    assert ((pictures.nodes > 0).sum(axis=1) >= LEAST_CELLS).all()
    assert ((pictures.nodes > 0).sum(axis=1) <= max_cells).all()


def test_blur_is_that_of_a_gaussian() -> None:
    point = np.zeros((1, 32, 32, 3), np.float32)
    point[0, 16, 16] = 1
    weights = np.exp(-0.5 * np.arange(-3, 4) ** 2 / BLUR**2)
    expected = np.outer(weights, weights) / weights.sum() ** 2
    assert np.allclose(blurred(point)[0, 13:20, 13:20, 0], expected, atol=1e-4)
    assert np.allclose(blurred(np.ones((1, 32, 32, 3), np.float32)), 1)  # also at the border


def test_pictures_follow_from_the_seed_and_fewer_are_the_first_of_more() -> None:
    def everything(count: int, *seed: int) -> np.ndarray:
        return np.concatenate([block.pixels for block in draw(count, 10, *seed)])

    assert (everything(BLOCK + 10, 1) == everything(BLOCK + 30, 1)[: BLOCK + 10]).all()
    assert (everything(10, 1) != everything(10, 2)).any()
    assert (everything(10, 1, 0) != everything(10, 1, 1)).any()
