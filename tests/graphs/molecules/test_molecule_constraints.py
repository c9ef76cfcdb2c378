"""Constraints on molecules: formula, mass and substructure, judged as RDKit does."""

from __future__ import annotations

import pytest
import torch
from linear import outputs_only
from pydantic import ValidationError
from rdkit import Chem
from rdkit.Chem.Descriptors import ExactMolWt
from rdkit.Chem.rdMolDescriptors import CalcMolFormula

from ele_core import Context, Problem
from ele_core.components.decoders.constraints import JUDGED
from ele_core.components.decoders.search import SearchDecoder
from ele_core.components.surrogates.parts import PartsSurrogate
from ele_core.types import Candidates
from ele_graphs.molecules import constraints as module
from ele_graphs.molecules.constraints import Composition, MoleculeConstraint
from ele_graphs.molecules.rdkit_adapter import build, morgan
from ele_graphs.molecules.space import MoleculeSpace

SMILES = (
    "C", "CCO", "C=O", "C#N", "c1ccccc1", "c1cc[nH]c1", "CC(=O)Oc1ccccc1C(=O)O", "CS(=O)(=O)N", "OP(=O)(O)O", "FC(F)F",
    "ClCBr", "C[N+](=O)[O-]", "C[NH3+]", "CC(=O)[O-]", "C[N+](C)(C)CC(=O)[O-]", "C[N+]#[C-]", "CN=[N+]=[N-]", "[Fe+2]",
    "C[O+](C)C", "O=S(=O)(O)O", "C[Si](C)(C)C",
)  # fmt: skip
CHARGED = MoleculeSpace(MoleculeSpace.infer(SMILES, {}))
NEUTRAL = MoleculeSpace(MoleculeSpace.Config(elements=("C", "N", "O", "F"), max_atoms=13))
NEUTRAL_RULES = NEUTRAL.rules
DROPPED = ("CCO", "C[N+](=O)[O-]", "C[N+]#[C-]", "CN=[N+]=[N-]", "C[N+](C)(C)CC(=O)[O-]", "C[N+](C)(C)C")
"""Molecules of which some lose their charges in a space without charges, and get them again when they are built."""


@pytest.mark.parametrize(("space", "smiles"), [(CHARGED, SMILES), (NEUTRAL, DROPPED)], ids=["charges", "none"])
def test_formula_and_mass_are_those_of_rdkit(space: MoleculeSpace, smiles: tuple[str, ...]) -> None:
    batch = space.pack(smiles)
    built = [build(molecule.atoms, molecule.bonds) for molecule in space.unpack(batch)]
    found = space.rules.of(batch, ["formula", "mass"])
    assert [each.formula for each in found] == [CalcMolFormula(molecule) for molecule in built]
    masses = torch.tensor([each.mass for each in found])
    torch.testing.assert_close(masses, torch.tensor([ExactMolWt(molecule) for molecule in built]), rtol=0, atol=1e-4)


def test_every_molecule_satisfies_its_own_constraint_and_no_other_formula() -> None:
    batch = CHARGED.pack(SMILES)
    for row, constraint in enumerate(CHARGED.rules.of(batch, ["formula"])):
        kept = CHARGED.rules.satisfies(batch, constraint)
        assert kept[row]
        same = [CalcMolFormula(Chem.MolFromSmiles(other)) == constraint.formula for other in SMILES]
        assert kept.tolist() == same


def test_violation_of_a_formula_counts_atoms_and_hydrogens_less() -> None:
    batch = NEUTRAL.pack(["CCO", "CCC", "C=CO", "CCCO", "CC"])
    found = NEUTRAL.rules.violation(batch, MoleculeConstraint(formula="C2H6O"))
    torch.testing.assert_close(found, torch.tensor([0.0, 2.5, 0.5, 1.5, 1.0]))


def test_the_charge_of_a_molecule_is_part_of_its_formula() -> None:
    batch = CHARGED.pack(["CC(=O)[O-]", "CC(=O)O"])
    assert CHARGED.rules.satisfies(batch, MoleculeConstraint(formula="C2H3O2-")).tolist() == [True, False]
    assert CHARGED.rules.satisfies(batch, MoleculeConstraint(formula="C2H4O2")).tolist() == [False, True]


def test_an_element_outside_of_the_space_is_satisfied_by_no_molecule() -> None:
    found = NEUTRAL.rules.violation(NEUTRAL.pack(["CCO", "C"]), MoleculeConstraint(formula="C2H6OBr2"))
    assert (found >= 2).all()


def test_mass_is_a_window_in_ppm() -> None:
    batch = NEUTRAL.pack(["CCO", "COC", "C=O"])
    for ppm, expected in ((10.0, False), (50.0, True)):
        kept = NEUTRAL_RULES.satisfies(
            batch, MoleculeConstraint(mass=46.0430, ppm=ppm)
        )  # ethanol: 46.04186, 25 ppm less
        assert kept.tolist() == [expected, expected, False]
    off = NEUTRAL.rules.violation(NEUTRAL.pack(["CCO", "CCN", "CCCCCC"]), MoleculeConstraint(mass=46.041864))
    assert off[0] == 0
    assert 0 < off[1] < off[2]


def test_substructure_is_a_smarts() -> None:
    batch = NEUTRAL.pack(["CCO", "c1ccccc1", "c1ccncc1", "C1CCCCC1"])
    assert NEUTRAL_RULES.satisfies(batch, MoleculeConstraint(substructure="c1ccccc1")).tolist() == [
        False,
        True,
        False,
        False,
    ]
    assert NEUTRAL_RULES.satisfies(batch, MoleculeConstraint(substructure="[#6]O")).tolist() == [
        True,
        False,
        False,
        False,
    ]


def test_substructures_are_matched_only_where_all_else_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(
        NEUTRAL_RULES, "_contains", lambda batch, _: seen.append(len(batch)) or torch.ones(len(batch), dtype=torch.bool)
    )
    constraint = MoleculeConstraint(formula="C2H6O", substructure="O")
    assert NEUTRAL_RULES.satisfies(NEUTRAL.pack(["CCO", "COC", "C", "CC"]), constraint).tolist() == [
        True,
        True,
        False,
        False,
    ]
    assert seen == [2]


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ({"formula": "9C"}, "'9C' is not a molecular formula such as C9H8O4"),
        ({"formula": ""}, "not a molecular formula"),
        ({"formula": "C9H8O4++x"}, "not a molecular formula"),
        ({"formula": "C9Xx"}, "Xx is not an element"),
        ({"substructure": "C(("}, "not a SMARTS"),
        ({"substructure": ""}, "not a SMARTS"),
        ({"mass": -1}, "greater than 0"),
        ({"weight": 3}, "Extra inputs are not permitted"),
    ],
)
def test_bad_constraints_are_refused_with_the_reason(option: dict[str, object], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        MoleculeConstraint.model_validate(option)


@pytest.mark.parametrize(
    ("text", "formula"),
    [("O4C9H8", "C9H8O4"), ("CH4C", "C2H4"), ("H2O", "H2O"), ("NaCl", "ClNa"), ("C4H14N2+2", "C4H14N2+2")],
)
def test_formulas_are_written_in_one_order(text: str, formula: str) -> None:
    assert str(Composition.parse(text)) == formula
    assert MoleculeConstraint(formula=text) == MoleculeConstraint(formula=formula)


def test_atoms_of_a_large_batch_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 2)
    batch = NEUTRAL.pack(["CCO", "CC", "C", "COC"])
    counted = NEUTRAL.atom_counter(batch)
    assert NEUTRAL.atom_counter(batch) is counted
    assert torch.equal(NEUTRAL.atom_counter(batch[:2]), counted[:2])
    del batch
    assert not len(module._COUNTED)


FINGERPRINTED = ["CCO", "CCN", "CCCO", "OCCO", "c1ccccc1", "CC(=O)O"]


def inferred(smiles):
    return MoleculeSpace(MoleculeSpace.infer(smiles, {}))


def test_the_fingerprint_of_a_molecule_is_that_of_its_smiles_and_tells_others_apart():
    space = inferred(FINGERPRINTED)
    batch = space.pack(FINGERPRINTED)
    constraints = space.rules.of(batch, ("fingerprint",))
    assert constraints[0].fingerprint == " ".join(map(str, sorted(morgan("CCO", 2, 2048))))
    for row, constraint in enumerate(constraints):
        found = space.rules.violation(batch, constraint)
        assert (found == 0).nonzero().flatten().tolist() == [row]
        assert space.rules.costly(constraint)
    near, far = space.rules.violation(batch, constraints[0])[[2, 4]].tolist()
    assert near < far, "propanol shares more with ethanol than benzene does"


def test_a_fingerprint_can_be_given_together_with_a_formula():
    space = inferred(FINGERPRINTED)
    (constraint,) = space.rules.of(space.pack(["CCO"]), ("formula", "fingerprint"))
    assert constraint.formula == "C2H6O"
    assert constraint.fingerprint


@pytest.mark.parametrize("bits", ["", "a b", "-1 2", "1.5"])
def test_bits_that_are_no_numbers_are_refused(bits):
    with pytest.raises(ValueError, match="is not a list of bits"):
        MoleculeConstraint(fingerprint=bits)


def test_a_costly_constraint_is_judged_for_the_best_structures_and_obeyed():
    space = inferred([*FINGERPRINTED, "CCCC", "CCCN", "NCCN", "CC(C)O"])
    judged = []

    class Counted(MoleculeSpace):
        class Rules(MoleculeSpace.Rules):
            def violation(self, batch, constraint):
                judged.append(len(batch))
                return super().violation(batch, constraint)

    counted = Counted(space.config)
    surrogate = PartsSurrogate(PartsSurrogate.Config(dim=256), counted)
    outputs = counted.pack(["CCN", "CCCC", "CCCN", "NCCN", "c1ccccc1"])
    surrogate.fit(outputs_only(outputs, outputs), Context())
    truth = counted.pack(["CCCO"])
    problem = Problem(
        counted,
        Candidates(outputs, surrogate.embed(outputs)),
        counted.rules.of(truth, ("fingerprint",)),
    )
    wrong = surrogate.embed(counted.pack(["CCCN"]))  # a query that prefers another molecule
    decoding = SearchDecoder().decode(surrogate.energy(wrong), problem, context=Context())
    assert counted.unpack(decoding.best)[0].smiles == "CCCO"
    assert max(judged) <= JUDGED


def test_a_bit_that_the_fingerprint_does_not_have_is_refused():
    with pytest.raises(ValueError, match="there is no bit 9999"):
        MoleculeConstraint(fingerprint="3 9999")
    assert MoleculeConstraint(fingerprint="3 9999", fingerprint_bits=16384).fingerprint == "3 9999"
