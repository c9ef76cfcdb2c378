"""Distances and neighbours by the learned loss."""

import numpy as np
import pytest

from ele_core import ConfigError, DataError, InvalidOutput


def test_distances_of_pairs_are_those_of_embeddings(predictor):
    left, right = ["17", "4203", "9"], ["17", "4204", "77"]
    expected = np.square(predictor.embed(left) - predictor.embed(right)).sum(axis=1)
    np.testing.assert_allclose(predictor.distance(left, right), expected, rtol=1e-6)
    assert predictor.distance(left, left).tolist() == [0, 0, 0]


def test_a_matrix_compares_each_with_each(predictor):
    left, right = ["17", "4203"], ["17", "4204", "77"]
    found = predictor.distance(left, right, matrix=True)
    for row, one in enumerate(left):
        np.testing.assert_allclose(found[row], predictor.distance([one] * 3, right), rtol=1e-6, atol=1e-12)


def test_lists_that_form_no_pairs_are_refused(predictor):
    with pytest.raises(DataError, match="2 objects and 1 object do not form pairs"):
        predictor.distance(["1", "2"], ["1"])


def test_neighbours_among_objects_are_the_nearest(predictor):
    among = ["4203", "17", "9", "4204", "17"]
    found = predictor.neighbours(["17", "4203"], k=3, among=among)
    distances = predictor.distance(["17", "4203"], among, matrix=True)
    assert found.rows.tolist() == np.argsort(distances, axis=1, kind="stable")[:, :3].tolist()
    np.testing.assert_allclose(found.distances, np.take_along_axis(distances, found.rows, 1))
    assert found.objects == [[among[row] for row in rows] for rows in found.rows]
    assert found.objects[0][:2] == ["17", "17"]
    assert found.distances[0, 0] == pytest.approx(0, abs=1e-12)


def test_by_default_the_training_outputs_are_searched(predictor, pairs):
    model = predictor.model_
    known = model.space.unpack(model.candidates.batch)
    found = predictor.neighbours(known[:3], k=2)
    assert [own[0] for own in found.objects] == known[:3]
    assert set(map(tuple, found.objects)) <= {(a, b) for a in pairs[1] for b in pairs[1]}


def test_there_are_fewer_neighbours_if_fewer_are_searched(predictor):
    assert predictor.neighbours(["17"], k=10, among=["1", "2"]).rows.shape == (1, 2)
    assert predictor.neighbours([], k=3, among=["1", "2"]).objects == []


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"k": 0}, ConfigError, "k: should be at least 1, not 0"),
        ({"among": []}, DataError, "among: there are no objects to search"),
        ({"among": ["1", "x"]}, InvalidOutput, "output 1"),
        ({"among": "17"}, DataError, "one text where a list is expected"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(predictor, arguments, error, message):
    with pytest.raises(error) as raised:
        predictor.neighbours(["17"], **arguments)
    assert message in str(raised.value)
