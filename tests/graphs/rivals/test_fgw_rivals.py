"""ILE-FGW and NNBary-FGW as components: what they predict and decode, saving, and the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from random_graphs import random_graphs, repad

from ele_core import StructuredPredictor
from ele_core.cli import cli
from ele_core.errors import ConfigError, ModelError
from ele_core.runtime.context import Context
from ele_core.types import Candidates, Problem
from ele_graphs.graphs.batch import Graphs, compact
from ele_graphs.graphs.networkx_space import PaddedGraphSpace
from ele_graphs.rivals.fgw.decoder import BarycenterDecoder
from ele_graphs.rivals.fgw.distance import harden
from ele_graphs.rivals.fgw.surrogate import FusedSurrogate

SMILES = [f"{start}{'C' * n}{end}" for start in ("N", "O", "") for n in range(1, 6) for end in ("O", "N", "F", "C(C)C")]
RIDGE: dict[str, Any] = {"name": "fgw-ridge", "sketch": {"size": 20}, "neighbours": 3, "penalties": [1e-3, 1e-6]}
TEMPLATES: dict[str, Any] = {
    "name": "fgw-templates",
    "backbone": {"name": "gru", "embedding": 8, "layers": 1, "width": 16},
    "templates": 3,
    "rounds": 2,
    "validated": 10,
    "training": {"epochs": 6, "batch_size": 16, "evaluations": 3, "learning_rate": 0.01},
}
SPACE = PaddedGraphSpace(PaddedGraphSpace.Config(node_labels=("a", "b", "c"), edge_labels=("x", "y"), max_nodes=6))


def sections(regressor: dict[str, Any]) -> dict[str, Any]:
    return {"surrogate": {"name": "fgw"}, "regressor": regressor, "decoder": {"name": "fgw-barycenter", "rounds": 4}}


def fitted(regressor: dict[str, Any]) -> StructuredPredictor:
    predictor = StructuredPredictor("molecule", **sections(regressor))
    return predictor.fit(SMILES[:50], SMILES[:50], validation=10)


@pytest.fixture(scope="module", params=[RIDGE, TEMPLATES], ids=lambda options: options["name"])
def predictor(request: pytest.FixtureRequest) -> StructuredPredictor:
    return fitted(request.param)


def bare(graphs: Graphs) -> Graphs:
    """Without edge labels, as the distance sees them."""
    return compact(graphs).replace(edges=(compact(graphs).edges != 0).char())


def problem(graphs: Graphs) -> tuple[FusedSurrogate, Problem]:
    surrogate = FusedSurrogate(FusedSurrogate.Config(starts=4), SPACE)
    return surrogate, Problem(SPACE, Candidates(graphs, surrogate.embed(graphs)))


def test_a_query_is_read_back_as_it_was_written() -> None:
    surrogate, _ = problem(random_graphs(6))
    graphs, weights = surrogate.soften(random_graphs(6)), torch.rand(2, 3)
    back, read = surrogate.layout.unpack(surrogate.layout.pack(weights, graphs))
    assert torch.equal(back, weights)
    assert all(torch.equal(a, b) for (_, a), (_, b) in zip(graphs.named_tensors(), read.named_tensors(), strict=True))


def test_a_query_that_is_not_made_of_graphs_is_refused() -> None:
    surrogate, _ = problem(random_graphs(1))
    with pytest.raises(ModelError, match="fgw-ridge"):
        surrogate.energy(torch.zeros(1, surrogate.dim + 1)).of(random_graphs(1))


def test_energies_of_all_with_all_are_the_energies_one_by_one() -> None:
    graphs = random_graphs(5)
    surrogate, found = problem(graphs)
    weights = torch.tensor([[0.6, 0.4], [1.0, 0.0]])
    queries = surrogate.layout.pack(weights, surrogate.soften(random_graphs(4, seed=1)))
    table = surrogate.energy(queries).among(found.candidates)
    pairs = [surrogate.energy(queries[i : i + 1].expand(5, -1)).of(graphs) for i in range(2)]
    assert torch.allclose(table, torch.stack(pairs), atol=1e-6)


def test_with_all_weight_on_one_graph_every_decoder_answers_it() -> None:
    graphs = bare(random_graphs(8))
    surrogate, found = problem(graphs)
    weights = torch.tensor([0.96, 0.02, 0.02]).repeat(8, 1)
    rows = torch.stack([torch.arange(8), (torch.arange(8) + 1) % 8, (torch.arange(8) + 2) % 8], dim=1)
    queries = surrogate.layout.pack(weights, surrogate.soften(graphs[rows.flatten()]))
    decoded = BarycenterDecoder().decode(surrogate.energy(queries), found, context=Context())
    table = surrogate.energy(queries).among(found.candidates)
    assert torch.equal(SPACE.keys(decoded.best), SPACE.keys(graphs))
    assert torch.equal(SPACE.keys(graphs[table.argmin(dim=1)]), SPACE.keys(graphs))


def test_answers_are_distinct_and_best_first() -> None:
    graphs = bare(random_graphs(9))
    surrogate, found = problem(graphs)
    queries = surrogate.layout.pack(torch.full((3, 3), 1 / 3), surrogate.soften(graphs))
    decoded = BarycenterDecoder().decode(surrogate.energy(queries), found, top_k=3, context=Context())
    assert decoded.energies.shape == (3, 3)
    assert (decoded.energies.diff(dim=1) >= 0).all()
    assert torch.allclose(
        surrogate.energy(queries.repeat_interleave(3, dim=0)).of(decoded.structures),
        decoded.energies.flatten(),
        atol=1e-6,
    )
    keys = SPACE.keys(decoded.structures).reshape(3, 3, 2)
    assert all(len(row.unique(dim=0)) == 3 for row in keys)


def test_missing_answers_have_infinite_energy() -> None:
    graphs = bare(random_graphs(2))
    surrogate, found = problem(graphs)
    decoded = BarycenterDecoder().decode(surrogate.energy(surrogate.embed(graphs)), found, top_k=4, context=Context())
    assert decoded.energies.isfinite().sum(dim=1).tolist() == [1, 1]
    assert torch.equal(SPACE.keys(decoded.structures[:4]), SPACE.keys(graphs[:1]).expand(4, 2))


def test_ridge_weights_find_the_training_graph_of_a_training_input() -> None:
    model = fitted({**RIDGE, "sketch": {"size": 50}, "penalties": [1e-8]}).model_
    queries = model.regressor.predict(model.inputs.pack(SMILES[10:20]))
    weights, graphs = model.surrogate.layout.unpack(queries)
    heaviest = weights.argmax(dim=1) + torch.arange(10) * weights.shape[1]
    assert torch.allclose(weights.sum(dim=1), torch.ones(10))
    seen = model.space.keys(harden(graphs[heaviest]))
    truth = model.space.keys(bare(model.space.pack(SMILES[10:20])))
    assert (seen == truth).all(dim=1).float().mean() > 0.5  # the validation molecules are not among the training graphs


def test_training_brings_barycenters_nearer_to_the_truth() -> None:
    def distance(epochs: float) -> float:
        training = {**TEMPLATES["training"], "epochs": epochs}
        model = fitted({**TEMPLATES, "training": training}).model_
        queries = model.regressor.predict(model.inputs.pack(SMILES[:40]))
        return float(model.surrogate.energy(queries).of(model.space.pack(SMILES[:40])).mean())

    assert distance(20) < 0.9 * distance(0.1)


def test_templates_receive_gradients_through_the_barycenter() -> None:
    network = fitted({**TEMPLATES, "training": {"epochs": 0.1}}).model_.regressor.network
    center = network.mix(torch.rand(4, 3).softmax(dim=1), torch.full((4,), 5))
    (center.features.square().sum() + center.structure.square().sum()).backward()
    assert network.dictionary.features.grad.abs().sum() > 0
    assert network.dictionary.structure.grad.abs().sum() > 0


def test_a_loaded_model_predicts_the_same(predictor: StructuredPredictor, tmp_path: Path) -> None:
    predictor.save(tmp_path / "model")
    loaded = StructuredPredictor.load(tmp_path / "model")
    assert torch.equal(*(p.model_.queries(SMILES[:5]) for p in (predictor, loaded)))
    assert [m.atoms for m in loaded.predict(SMILES[:5])] == [m.atoms for m in predictor.predict(SMILES[:5])]


def test_the_oracle_gives_the_truth_back_but_for_edge_labels(predictor: StructuredPredictor) -> None:
    result = predictor.evaluate(SMILES[:6], SMILES[:6], oracle=True)
    assert result.metrics["ged_without_edges"] == 0


def test_no_input_gives_no_answer(predictor: StructuredPredictor) -> None:
    assert predictor.predict([]) == []


@pytest.mark.parametrize("regressor", [RIDGE, TEMPLATES], ids=lambda options: options["name"])
def test_without_the_distance_the_rivals_are_refused(regressor: dict[str, Any]) -> None:
    predictor = StructuredPredictor("molecule", surrogate={"name": "contrastive"}, regressor=regressor)
    with pytest.raises(ConfigError, match="weighted graphs"):
        predictor.fit(SMILES[:20], SMILES[:20], validation=5)


def test_the_distance_is_for_graphs_only() -> None:
    with pytest.raises(ConfigError, match="compares graphs"):
        StructuredPredictor("sequence", surrogate={"name": "fgw"}).fit(["ab"] * 8, ["12"] * 8, validation=2)


def test_graphs_of_other_padding_are_the_same_to_the_distance() -> None:
    graphs = random_graphs(4)
    surrogate = FusedSurrogate(None, SPACE)
    assert torch.equal(surrogate.embed(repad(graphs, 6)), surrogate.embed(graphs))


@pytest.mark.parametrize("regressor", [RIDGE, TEMPLATES], ids=lambda options: options["name"])
def test_the_command_line_trains_resumes_and_evaluates(regressor: dict[str, Any], tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("\n".join(["name,molecule", *(f"{text},{text}" for text in SMILES)]))
    file = tmp_path / "rival.toml"
    file.write_text(toml({**sections(regressor), "output": {"name": "molecule"}}))
    run = str(tmp_path / "run")
    for command in (["train", str(file), "--data", str(pairs), "-o", run], ["resume", run]):
        result = CliRunner().invoke(cli, command, catch_exceptions=False)
        assert result.exit_code == 0, result.output
    result = CliRunner().invoke(cli, ["evaluate", run, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    metrics = json.loads(result.stdout)
    assert metrics["ged_without_edges"] < 9
    assert metrics["regression_error"] < 0.5


def toml(tables: dict[str, Any]) -> str:
    import tomli_w

    return tomli_w.dumps(tables)
