"""`search` ranks the neighbours of a graph by an estimate from their parts, and scores only the first."""

from __future__ import annotations

import pytest
import torch
from linear import outputs_only

from ele_core import Context, Energy, Problem, Surrogate, Tensors
from ele_core.components.decoders.search import SearchDecoder
from ele_core.components.surrogates.contrastive import ContrastiveSurrogate, Outline
from ele_core.components.surrogates.parts import PartsSurrogate
from ele_core.energies import SquaredDistance, WeightedDistance
from ele_core.errors import ModelError
from ele_core.numerics.error_model import ErrorModel
from ele_core.numerics.sparse import PartEnergies
from ele_core.plugins import registry
from ele_core.runtime.monitor import ConsoleMonitor
from ele_core.types import Candidates, Choice
from ele_graphs.molecules.space import MoleculeSpace
from ele_graphs.rgcn import RelationalEncoder

SMILES = ["CCO", "CC(=O)N", "C1CC1O", "CCOC(C)=O", "c1ccccc1O", "CC#N", "NCC(=O)O", "CCCCN"]
SPACE = MoleculeSpace(MoleculeSpace.Config(max_atoms=9))


def contrastive(seed: int = 0) -> ContrastiveSurrogate:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made = registry().create("surrogate", Choice(name="contrastive", encoder={"name": "rgcn", "width": 16}), SPACE)
    assert isinstance(made, ContrastiveSurrogate)
    return made


def additive() -> ContrastiveSurrogate:
    options = {"dim": 256, "spherical": False, "training": None, "encoder": {"name": "neighbourhoods"}}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = ContrastiveSurrogate(ContrastiveSurrogate.Config.model_validate(options), SPACE)
    made.fit(outputs_only(SPACE.pack(SMILES), SPACE.pack(SMILES)), Context())
    return made


def parts() -> PartsSurrogate:
    return PartsSurrogate(PartsSurrogate.Config(dim=256), SPACE)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"self_connection": False, "residual": False, "normalise": "none"},
        {"closed_walks": 0},
        {"activation": "gelu"},
    ],
    ids=str,
)
def test_an_encoder_that_follows_edges_agrees_with_the_dense_one(options: dict[str, object]) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = RelationalEncoder(RelationalEncoder.Config(width=24, **options), SPACE, 16).eval()
    graphs, _ = SPACE.moves.list(SPACE.pack(SMILES))
    dense, along_edges = encoder(SPACE.relax(graphs)), encoder.encode(graphs)
    scale = float(dense.detach().abs().max())
    torch.testing.assert_close(along_edges, dense, rtol=0, atol=1e-5 * max(1.0, scale))
    assert encoder.encode(graphs[:0]).shape == (0, 16)


def estimated(surrogate: Surrogate, queries: torch.Tensor) -> PartEnergies | None:
    """The estimate for structures near any."""
    return surrogate.energy(queries).near(SPACE.pack(SMILES[:1] * len(queries)))


@pytest.mark.parametrize("make", [contrastive, additive, parts])
def test_ranked_search_finds_a_molecule_by_its_embedding(make: object) -> None:
    assert callable(make)
    surrogate: Surrogate = make()
    candidates = SPACE.pack(SMILES)
    if isinstance(surrogate, ContrastiveSurrogate):
        surrogate.outline_on(SPACE.moves.list(candidates)[0])
    truth = SPACE.pack(["CCCO", "CC(=O)NC"])
    problem = Problem(SPACE, Candidates(candidates, surrogate.embed(candidates)))
    context = Context(0, torch.device("cpu"), ConsoleMonitor())
    found = SearchDecoder(SearchDecoder.Config(moves=40)).decode(
        surrogate.energy(surrogate.embed(truth)), problem, context=context
    )
    assert torch.equal(SPACE.keys(found.best), SPACE.keys(truth))


def test_only_the_ranked_neighbours_are_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    surrogate, candidates = parts(), SPACE.pack(SMILES)
    scored: list[int] = []
    energy = SquaredDistance.of

    def counted(self: SquaredDistance, batch: Tensors, owner: torch.Tensor | None = None) -> torch.Tensor:
        scored.append(len(batch))
        return energy(self, batch, owner)

    monkeypatch.setattr(SquaredDistance, "of", counted)
    problem = Problem(SPACE, Candidates(candidates, surrogate.embed(candidates)))
    decoder = SearchDecoder(SearchDecoder.Config(width=1, rounds=1, moves=7))
    query = surrogate.embed(SPACE.pack(["CCCC(C)=O"]))
    decoder.decode(surrogate.energy(query), problem, context=Context(0, torch.device("cpu"), ConsoleMonitor()))
    assert scored == [7]


def test_a_surrogate_without_an_estimate_scores_all_moves() -> None:
    surrogate = contrastive()
    assert estimated(surrogate, torch.zeros(1, surrogate.dim)) is None
    surrogate.outline_on(SPACE.moves.list(SPACE.pack(SMILES))[0])
    assert estimated(surrogate, torch.zeros(1, surrogate.dim)) is not None


def test_the_estimate_is_saved_with_the_weights_and_models_without_one_load() -> None:
    fitted, other = contrastive(), contrastive(seed=1)
    fitted.outline_on(SPACE.moves.list(SPACE.pack(SMILES))[0])
    queries = torch.randn(3, fitted.dim, generator=torch.Generator().manual_seed(0))
    other.restore(fitted.state())
    expected, restored = estimated(fitted, queries), estimated(other, queries)
    assert expected is not None
    assert restored is not None
    assert torch.equal(expected.queries, restored.queries)
    other.restore({name: value for name, value in fitted.state().items() if name != "outline"})  # as 0.1.0 wrote it
    assert estimated(other, queries) is None


@pytest.mark.parametrize("weight", [torch.zeros(3, 128), torch.full((1024, 128), torch.nan)], ids=["shape", "nan"])
def test_a_damaged_estimate_is_refused(weight: torch.Tensor) -> None:
    with pytest.raises(ModelError, match="estimate of energies"):
        Outline.restored(weight, 128)


def test_the_estimate_orders_moves_better_than_chance() -> None:
    surrogate, candidates = contrastive(), SPACE.pack(SMILES)
    moved, row = SPACE.moves.list(candidates)
    surrogate.outline_on(moved)
    queries = surrogate.embed(candidates)
    estimate = estimated(surrogate, queries)
    assert estimate is not None
    exact, guessed = surrogate.energy(queries).of(moved, row), estimate[row].of(SPACE.features(moved))
    own = row == 3
    together = torch.corrcoef(torch.stack([exact[own], guessed[own]]))[0, 1]
    assert together > 0.3


@pytest.mark.parametrize("weighted", [False, True])
def test_the_estimate_near_structures_orders_moves_off_the_sphere(weighted: bool) -> None:
    surrogate, candidates = additive(), SPACE.pack(SMILES)
    queries = surrogate.embed(candidates).roll(1, dims=0)
    energy: Energy = surrogate.energy(queries)
    if weighted:
        errors, noise = ErrorModel(surrogate.dim), torch.randn(300, 256, generator=torch.Generator().manual_seed(0))
        known = surrogate.embed(SPACE.moves.list(candidates)[0][:300])
        energy = WeightedDistance(surrogate, queries, errors.fit(0.7 * known + 0.02 * noise, known))
    moved, row = SPACE.moves.list(candidates)
    estimate = energy.near(candidates)
    assert estimate is not None
    exact, guessed = energy.of(moved, row), estimate[row].of(SPACE.features(moved))
    for own in (row == number for number in range(len(SMILES))):
        assert torch.corrcoef(torch.stack([exact[own], guessed[own]]))[0, 1] > 0.6


def test_the_estimate_off_the_sphere_is_saved_and_refused_if_damaged() -> None:
    fitted, other = additive(), additive()
    other.restore(fitted.state())
    batch = SPACE.pack(SMILES)
    expected, restored = (each.energy(fitted.embed(batch)).near(batch) for each in (fitted, other))
    assert expected is not None
    assert restored is not None
    assert torch.equal(expected.queries, restored.queries)
    assert expected.squares == restored.squares
    with pytest.raises(ModelError, match="curvature"):
        other.restore({name: value for name, value in fitted.state().items() if name != "outline_curvature"})
