"""Retrieval: ranks among candidates, modified cosines, and the rivals on a small file."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from test_task import SMILES, SPACE, record

from ele_core.config import load_config
from ele_core.data.prepare import Prepared, prepare
from ele_core.numerics.keys import member
from ele_core.runtime.context import Context
from ele_graphs.ms2mol.cosine import modified_cosines
from ele_graphs.ms2mol.input_space import SpectrumInput
from ele_graphs.ms2mol.retrieval import (
    Candidates,
    fingerprints,
    measured,
    ranks,
    tanimoto,
)
from ele_graphs.ms2mol.rivals import FingerprintNetwork, ModifiedCosine
from ele_graphs.ms2mol.spectrum import Spectrum

BENCHMARK = runpy.run_path(str(Path(__file__).parents[3] / "benchmarks" / "ms2mol.py"))
at_random, de_novo, spectrum_svg = (BENCHMARK[name] for name in ("at_random", "de_novo", "spectrum_svg"))


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prepared:
    monkeypatch.setenv("ELE_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "spectra.msp"
    file.write_text("".join(record(smiles, number) for number, smiles in enumerate(SMILES)))
    options = (f"task.path={file}", "task.processes=0", "task.test=0.2", "task.validation=0.2", "output.max_atoms=12")
    return prepare(load_config("ms2mol", options), Context())


def packed(*peaks: list[tuple[float, float]], precursor: float = 100.0):
    space = SpectrumInput(SpectrumInput.Config(max_peaks=8))
    return space.pack([Spectrum.of(own, precursor, "[M+H]+") for own in peaks])


def test_ranks_count_allowed_candidates_and_half_the_ties() -> None:
    scores = torch.tensor([[3.0, 2.0, 2.0, 1.0]] * 3)
    allowed = torch.tensor([[True] * 4, [False, True, True, True], [True, False, True, True]])
    assert ranks(scores, torch.tensor([1, 1, 1]), allowed).tolist() == [1.5, 0.5, torch.inf]


def test_a_perfect_score_is_first_in_every_set_and_a_random_one_is_not(prepared: Prepared) -> None:
    candidates = Candidates.of(prepared.data, SPACE)
    rows = prepared.data.test
    truth, sets = candidates.place[rows], candidates.sets(prepared.data, rows, SPACE)
    assert set(sets) == {"all", "10 ppm", "same formula"}
    assert sets["same formula"].gather(1, truth[:, None]).all()
    perfect = torch.nn.functional.one_hot(truth, len(candidates.batch)).float()
    found = measured(perfect, truth, {name: own for name, own in sets.items() if name != "10 ppm"})
    assert all(own["top_1"] == 1 for own in found.values())
    assert at_random(truth, sets)["all"]["top_1"] == pytest.approx(1 / len(candidates.batch))


def test_candidates_of_the_same_formula_or_mass_satisfy_the_constraint_of_the_space(prepared: Prepared) -> None:
    candidates = Candidates.of(prepared.data, SPACE)
    rows = prepared.data.test[:5]
    sets = candidates.sets(prepared.data, rows, SPACE)
    for number, row in enumerate(rows.tolist()):
        (constraint,) = SPACE.rules.of(candidates.batch[candidates.place[[row]]], ["formula"])
        assert torch.equal(sets["same formula"][number], SPACE.rules.satisfies(candidates.batch, constraint))
        within = SPACE.rules.Constraint(mass=prepared.data.inputs[row].neutral_mass, ppm=10)
        assert torch.equal(sets["10 ppm"][number], SPACE.rules.satisfies(candidates.batch, within))


def test_the_modified_cosine_of_a_spectrum_with_itself_is_one() -> None:
    batch = packed([(50.0, 10), (80.0, 5)], [(30.0, 1)])
    np.testing.assert_allclose(modified_cosines(batch, batch), np.eye(2), atol=1e-6)


def test_peaks_shifted_by_the_precursors_match() -> None:
    one, other = packed([(50.0, 10), (80.0, 10)]), packed([(50.0, 10), (94.0157, 10)], precursor=114.0157)
    assert modified_cosines(one, other)[0, 0] == pytest.approx(1.0)


def test_a_peak_matches_once() -> None:
    one, other = packed([(50.0, 10)]), packed([(50.0, 10), (50.005, 10)])
    assert modified_cosines(one, other)[0, 0] == pytest.approx(2**-0.5)


def test_tanimoto_is_the_share_of_common_bits() -> None:
    bits = torch.tensor([[1.0, 1, 0], [1, 1, 1], [0, 0, 0]])
    torch.testing.assert_close(tanimoto(bits, bits)[0], torch.tensor([1.0, 2 / 3, 0.0]))


def test_de_novo_predictions_are_measured_by_similarity_too() -> None:
    same, other = SPACE.pack(["CCO", "CCN"]), SPACE.pack(["CCO", "CCCCCCS"])
    assert de_novo(SPACE, same, same)["tanimoto"] == 1
    assert 0 < de_novo(SPACE, other, same)["tanimoto"] < 1
    assert fingerprints(same, SPACE).sum() > 0


@pytest.mark.parametrize(
    "rival", [ModifiedCosine(), ModifiedCosine(hits=2, power=1.0), FingerprintNetwork(epochs=0.1)], ids=repr
)
def test_a_rival_scores_every_candidate_and_predicts_training_molecules(rival, prepared: Prepared) -> None:
    candidates = Candidates.of(prepared.data, SPACE)
    rows = prepared.data.test[:3]
    scores = rival.scores(prepared, rows, candidates, Context())
    assert scores.shape == (3, len(candidates.batch))
    assert scores.isfinite().all()
    predicted = rival.predict(prepared, rows, Context())
    known = SPACE.keys(prepared.data.outputs[prepared.data.train])
    assert member(SPACE.keys(predicted), of=known).all()


def test_the_nearest_training_spectrum_is_found_by_the_modified_cosine(prepared: Prepared) -> None:
    rows = prepared.data.train[:4]
    predicted = ModifiedCosine(hits=1, power=1.0).predict(prepared, rows, Context())
    assert torch.equal(SPACE.keys(predicted), SPACE.keys(prepared.data.outputs[rows]))


def test_a_spectrum_is_drawn_with_a_line_for_each_peak() -> None:
    spectrum = Spectrum.of([(50.0, 1), (80.0, 2)], 100.0, "[M+H]+")
    assert spectrum_svg(spectrum).count('stroke="#36c"') == 2
