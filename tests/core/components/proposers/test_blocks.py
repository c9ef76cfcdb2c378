"""The likelihood of blocks: cross-entropy on every geometry, exact maximisers, what it declines, what is stored."""

from __future__ import annotations

import importlib.util
import itertools
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from fakes import stub
from linear import given_pairs
from mistakes.bases import AtMost, Exactly
from random_graphs import random_graphs
from recording import Memory, Recorder, Stopped
from torch import Tensor
from torch.nn import functional

from ele_core import Birkhoff, Box, ConvexSet, OutputSpace, Simplex, Tensors
from ele_core.components.inputs.text import TextInput
from ele_core.components.inputs.vector import VectorInput
from ele_core.components.proposers import blocks
from ele_core.components.proposers.blocks import BlockEnergy, Blocks, BlocksProposer
from ele_core.numerics.sets import SymmetricSimplex
from ele_core.runtime.context import Context
from ele_core.types import Candidates
from ele_graphs.graphs.networkx_space import PaddedGraphSpace
from ele_sequences.space import SequenceSpace

BENCHMARK = Path(__file__).parents[4] / "benchmarks" / "geometries.py"


def benchmark() -> Any:
    """The module of the benchmark, which holds the plugin of a third party."""
    name = "benchmarks_geometries"
    if name not in sys.modules:
        specification = importlib.util.spec_from_file_location(name, BENCHMARK)
        assert specification is not None
        assert specification.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@dataclass(frozen=True, eq=False)
class Labelled(Tensors):
    labels: Tensor


class Of(OutputSpace[Any, Labelled]):
    """The structures are the vertices of a set."""

    Batch = Labelled
    convex: ConvexSet

    @property
    def geometry(self) -> Mapping[str, ConvexSet]:
        return {"labels": self.convex}


@dataclass(frozen=True)
class Orders(Birkhoff):
    """The permutahedron: the vertices are all orders of 0 … size − 1, so that coordinates have more than two values."""

    @property
    def point_shape(self) -> tuple[int, ...]:
        return (self.size,)

    def vertices(self, labels: Tensor) -> Tensor:
        return labels.float()

    def nearest_vertex(self, x: Tensor) -> Tensor:
        return x.argsort(dim=1).argsort(dim=1).to(self.label_dtype)


SETS: dict[str, ConvexSet] = {
    "rows": Simplex(3, (2, 2)),
    "one row": Simplex(4),
    "box": Box(4, low=-1.0, high=3.0),
    "permutations": Birkhoff(4),
    "pairs": SymmetricSimplex(3, 3),
    "at most two": AtMost(4, 2),
    "exactly two": Exactly(4, 2),
    "orders": Orders(4),
    "matchings": benchmark().Matchings(3),
}


def space_of(name: str) -> Any:
    return stub(Of, convex=SETS[name])()


def every(convex: ConvexSet) -> Labelled:
    """All vertices: the labels that rounding gives back."""
    size = math.prod(convex.label_shape)
    rows = torch.tensor(list(itertools.product(range(convex.label_count), repeat=size)))
    labels = rows.reshape(-1, *convex.label_shape).to(convex.label_dtype)
    if isinstance(convex, Orders):
        labels = labels[labels.sort(dim=1).values.eq(torch.arange(convex.size)).all(dim=1)]
    kept = (convex.nearest_vertex(convex.vertices(labels)) == labels).reshape(len(labels), size).all(dim=1)
    return Labelled(labels[kept])


def proposer(space: Any, inputs: Any = None, **options: Any) -> BlocksProposer:
    if inputs is None:
        inputs = VectorInput()
        inputs.fit([[0.0, 1.0, 2.0], [1.0, 0.0, 3.0]])
    options = {"backbone": {"name": "mlp", "hidden": [8]}, "width": 8, "dropout": 0.0, **options}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return BlocksProposer(BlocksProposer.Config(**options), inputs, space)


def odds_of(name: str, queries: int = 3, scale: float = 2.0) -> tuple[BlockEnergy, Tensor]:
    """An energy with random log-odds, and these: (B, count, size)."""
    made = proposer(space_of(name))
    (field,) = made.fields
    shape = (queries, len(field.shares), field.size)
    odds = scale * torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    constant, numbers = field.linear(odds)
    return BlockEnergy(made, torch.cat([constant[:, None], numbers], dim=1)), odds


def everywhere(energy: BlockEnergy, batch: Any) -> Tensor:
    """The energy of every structure for every query."""
    owner = torch.arange(len(energy)).repeat_interleave(len(batch))
    return energy.of(batch[torch.arange(len(batch)).repeat(len(energy))], owner).view(len(energy), -1)


def cross_entropy(name: str, odds: Tensor, label: Tensor) -> Tensor:
    """−log p of one vertex (*label_shape) under the log-odds (count, size) of one query, block by block."""
    convex = SETS[name]
    if name in ("rows", "one row", "permutations"):
        return functional.cross_entropy(odds, label.flatten().long(), reduction="sum")
    if name == "matchings":
        return functional.cross_entropy(functional.pad(odds, (0, 1)), label.long(), reduction="sum")
    if name == "pairs":
        each = functional.cross_entropy(odds, label.flatten().long(), reduction="none").view(3, 3)
        return each.diagonal().sum() + (each - each.diagonal().diag()).sum() / 2
    value = convex.vertices(label[None])[0].double()
    low, high = {"box": (-1, 3), "orders": (0, 3)}.get(name, (0, 1))
    target = (value - low) / (high - low)
    return functional.binary_cross_entropy_with_logits(odds[:, 0], target, reduction="sum")


@pytest.mark.parametrize("name", SETS)
def test_the_energy_is_the_cross_entropy_of_all_blocks(name):
    energy, odds = odds_of(name)
    batch = every(SETS[name])
    expected = [[cross_entropy(name, own, label) for label in batch.labels] for own in odds]
    torch.testing.assert_close(everywhere(energy, batch), torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("name", ["rows", "one row", "box"])
def test_probabilities_sum_to_one_where_blocks_are_free(name):
    energy, _ = odds_of(name)
    total = (-everywhere(energy, every(SETS[name]))).exp().sum(dim=1)
    torch.testing.assert_close(total, torch.ones(3, dtype=torch.float64))


@pytest.mark.parametrize("name", SETS)
def test_all_ways_to_an_energy_agree_and_the_gradient_is_right(name):
    energy, _ = odds_of(name)
    space, batch = energy.proposer.space, every(SETS[name])
    table = everywhere(energy, batch)
    single = BlockEnergy(energy.proposer, energy.queries.float())
    candidates = Candidates(batch, torch.zeros(len(batch), 1))
    torch.testing.assert_close(single.among(candidates), table.float(), atol=1e-4, rtol=1e-4)
    owner = torch.arange(3).repeat_interleave(len(batch))
    points = space.relax(batch[torch.arange(len(batch)).repeat(3)])
    torch.testing.assert_close(energy.at(points, owner).view(3, -1), table)
    assert energy.smooth
    assert not energy.costly
    point = points[:3].labels.double().requires_grad_(True)
    assert torch.autograd.gradcheck(lambda leaf: energy.at(Labelled(leaf)), (point,))


@pytest.mark.parametrize("name", SETS)
def test_the_first_proposal_is_the_likeliest_structure_of_all(name):
    energy, _ = odds_of(name, queries=40)
    space, batch = energy.proposer.space, every(SETS[name])
    table = everywhere(energy, batch)
    found = energy.proposals(1)
    assert found.owner.tolist() == list(range(40))
    torch.testing.assert_close(energy.of(found.batch, found.owner), table.amin(dim=1))
    assert len(space.keys(batch).unique(dim=0)) == len(batch)


@pytest.mark.parametrize("name", [name for name in SETS if name != "orders"])
def test_proposals_hold_the_next_best_structure_and_no_structure_twice(name, monkeypatch):
    monkeypatch.setattr(blocks, "CELLS", 2000)  # several chunks of queries
    energy, _ = odds_of(name, queries=40)
    count = min(len(every(SETS[name])), 10)
    found = energy.proposals(count)
    second = everywhere(energy, every(SETS[name])).sort(dim=1).values[:, 1]
    energies = energy.of(found.batch, found.owner)
    reached = torch.stack([energies[found.owner == query].sort().values[1] for query in range(40)])
    torch.testing.assert_close(reached, second)
    keys = torch.cat([found.owner[:, None], energy.proposer.space.keys(found.batch)], dim=1)
    assert len(keys.unique(dim=0)) == len(keys)


def test_mirrored_blocks_share_a_weight_and_constant_ones_do_not():
    weights = Blocks.of(SymmetricSimplex(3, 3)).shares.view(3, 3)
    assert weights.diagonal().tolist() == [1, 1, 1]
    assert weights[0, 1] == weights[1, 0] == weights[2, 1] == 0.5
    assert Blocks.of(Simplex(3, (2, 2))).shares.tolist() == [1, 1, 1, 1]


# -- training ------------------------------------------------------------------------------------------------------


def tags(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Texts of four letters, and for each letter whether it is the same as the one before."""
    rows = torch.randint(0, 3, (count, 4), generator=torch.Generator().manual_seed(seed)).tolist()
    same = [["y" if place and row[place] == row[place - 1] else "n" for place in range(4)] for row in rows]
    return ["".join("abc"[i] for i in row) for row in rows], ["".join(row) for row in same]


def tagger(**options: Any) -> tuple[BlocksProposer, Any, Any]:
    texts, outputs = tags(160)
    inputs, space = TextInput(), SequenceSpace(SequenceSpace.Config(alphabet=("n", "y"), length=4))
    inputs.fit(texts)
    backbone = {"name": "gru", "embedding": 8, "layers": 1, "width": 16}
    training = {"epochs": 12, "batch_size": 16, "learning_rate": 0.02, "evaluations": 4}
    made = proposer(space, inputs, backbone=backbone, width=16, **{"training": training, **options})
    return made, inputs.pack(texts), space.pack(outputs)


def fitted(made: BlocksProposer, inputs: Any, outputs: Any, context: Context) -> BlocksProposer:
    made.fit(given_pairs((inputs[:120], outputs[:120]), (inputs[120:], outputs[120:])), context)
    return made


def test_labels_beside_tokens_are_learned_from_few_pairs_and_survive_saving():
    made, inputs, outputs = tagger()
    before = made.network.beside["0"][1].weight.clone()
    fitted(made, inputs, outputs, Context())
    assert not torch.equal(made.network.beside["0"][1].weight, before)
    energy = made.energy(made.predict(inputs[120:]))
    best = energy.proposals(1)
    right = (best.batch.tokens == outputs[120:].tokens).all(dim=1).float().mean()
    assert right > 0.9
    again, _, _ = tagger()
    again.restore(made.state())
    assert torch.equal(again.predict(inputs), made.predict(inputs))
    assert str(energy) == "proposer 'BlocksProposer'"


def test_a_stopped_training_goes_on_with_the_same_bits():
    whole = fitted(*tagger(), Context())
    memory = Memory(stop_after=20)
    with pytest.raises(Stopped):
        fitted(*tagger(), Context(work=memory))
    resumed = fitted(*tagger(), Context(work=Memory(memory.kept)))
    assert all(torch.equal(own, resumed.state()[name]) for name, own in whole.state().items())


def test_structures_with_several_packings_are_declined_in_one_line():
    graphs, recorder = random_graphs(30), Recorder()
    space = PaddedGraphSpace(PaddedGraphSpace.Config(node_labels=("a", "b", "c"), edge_labels=("s", "d"), max_nodes=6))
    made = proposer(space)
    inputs = made.inputs.pack([[float(i), 0.0, 1.0] for i in range(30)])
    made.fit(given_pairs((inputs[:20], graphs[:20]), (inputs[20:], graphs[20:])), Context(monitor=recorder))
    assert recorder.messages == [
        "no likelihood of blocks: a structure has several packings, so its blocks have no fixed places"
    ]
    assert made.predict(inputs).shape == (30, 0)
    assert made.state() == {}
    made.restore({})
    assert made.predict(inputs).shape == (30, 0)


def test_structures_with_too_many_coordinates_are_declined(monkeypatch):
    monkeypatch.setattr(blocks, "LARGEST", 10)
    recorder, (made, inputs, outputs) = Recorder(), tagger()
    fitted(made, inputs, outputs, Context(monitor=recorder))
    assert recorder.messages == ["no likelihood of blocks: structures have 12 coordinates, and 10 is the limit"]
    assert made.predict(inputs).shape == (160, 0)
