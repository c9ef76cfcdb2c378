"""The task `coloring`: its split, its cache and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ele_core import ConfigError, Context
from ele_core.experiments.reproduce import find_study, make_plan
from ele_graphs.coloring import task as coloring_task
from ele_graphs.coloring.space import CellGraphSpace
from ele_graphs.coloring.task import Coloring
from ele_graphs.graphs.networkx_space import PaddedGraphSpace


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ELE_CACHE", str(tmp_path))
    return tmp_path / "coloring"


def task(**options: int) -> Coloring:
    return Coloring(Coloring.Config(**{"size": 40, "validation": 10, "test": 20, **options}))


def space(max_nodes: int) -> CellGraphSpace:
    return CellGraphSpace(CellGraphSpace.Config(max_nodes=max_nodes))


def test_the_output_space_says_how_many_cells_there_are() -> None:
    few, many = (task(size=200).load(space(size), Context(0)) for size in (6, 20))
    assert few.outputs.sizes.max() == 6
    assert many.outputs.sizes.max() > 15
    assert task(max_cells=5).load(space(20), Context(0)).outputs.sizes.max() == 5


def test_no_picture_is_in_two_parts_and_the_seed_chooses_them() -> None:
    data = task().load(space(10), Context(0))
    assert [len(part) for part in (data.train, data.validation, data.test)] == [40, 10, 20]
    assert len({picture.tobytes() for picture in data.inputs}) == 70
    assert task().load(space(10), Context(1)).fingerprint != data.fingerprint
    assert task(seed=0).load(space(10), Context(1)).fingerprint == data.fingerprint


def test_pictures_are_drawn_once(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = task().load(space(10), Context(0))
    assert len(list(own_cache.iterdir())) == 3
    monkeypatch.setattr(coloring_task, "draw", lambda *_: pytest.fail("drawn again"))
    assert task().load(space(10), Context(0)).fingerprint == first.fingerprint


def test_a_damaged_cache_is_drawn_again(own_cache: Path) -> None:
    first = task().load(space(10), Context(0))
    for file in own_cache.rglob("pixels.npy"):
        file.write_bytes(file.read_bytes()[:100])
    assert task().load(space(10), Context(0)).fingerprint == first.fingerprint


def test_another_graph_space_with_the_colours_works() -> None:
    labels = ("yellow", "red", "green", "blue")
    other = PaddedGraphSpace(PaddedGraphSpace.Config(node_labels=labels, max_nodes=10))
    own = task().load(space(10), Context(0)).outputs
    assert torch.equal(task().load(other, Context(0)).outputs.nodes, torch.where(own.nodes > 0, 5 - own.nodes, 0))


def test_spaces_that_cannot_hold_the_graphs_are_refused() -> None:
    with pytest.raises(ConfigError, match="node labels"):
        task().load(PaddedGraphSpace(), Context(0))
    with pytest.raises(ConfigError, match=r"Set output.max_nodes = 10"):
        task(max_cells=10).load(space(8), Context(0))
    with pytest.raises(ConfigError, match=r"Set output.max_nodes = 4"):
        task().load(space(3), Context(0))


@pytest.mark.parametrize("study", ["coloring", "coloring-20"])
@pytest.mark.parametrize("scale", ["small", "full"])
def test_every_row_of_the_studies_is_a_configuration(study: str, scale: str) -> None:
    plan = make_plan(*find_study(study), scale, files={})
    assert [job.row.name for job in plan.jobs] == ["copying", "candidates", "search", "contrastive, pgd"]
    assert not plan.skipped
    cells = {job.config.output.options["max_nodes"] for job in plan.jobs}
    assert cells == {20 if study == "coloring-20" else 10}
