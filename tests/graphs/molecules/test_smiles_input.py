"""The input `smiles`: training texts written anew mean the same molecule, and everything else stays as it was."""

from __future__ import annotations

import pytest
import torch
from rdkit import Chem

from ele_core.runtime.context import Context
from ele_graphs.molecules.inputs import SmilesInput

TEXTS = ["CC(=O)Oc1ccccc1", "C1CC1O", "OCC(N)=O", "C#CCO", "c1ccncc1"]


def fitted(rewrite: float, texts: list[str] = TEXTS, **options) -> SmilesInput:
    inputs = SmilesInput(SmilesInput.Config(rewrite=rewrite, **options))
    inputs.fit([*texts, "()123456789=#CNOcno"])
    return inputs


def views(inputs: SmilesInput, texts: list[str], step: int = 0) -> list[str]:
    return inputs.unpack(inputs.augment(inputs.pack(texts), Context().generator("step", step)))


def canonical(smiles: str) -> str:
    return Chem.MolToSmiles(Chem.MolFromSmiles(smiles))


def test_texts_come_back_from_their_tokens():
    assert fitted(0.0).unpack(fitted(0.0).pack(TEXTS)) == TEXTS


@pytest.mark.parametrize("level", ["character", "pieces"])
def test_a_view_is_another_way_to_write_the_same_molecule(level):
    inputs = fitted(1.0, level=level)
    written = [views(inputs, TEXTS, step) for step in range(5)]
    for texts in written:
        assert [canonical(text) for text in texts] == [canonical(text) for text in TEXTS]
    assert all(len(set(column)) > 1 for column in zip(*written, strict=True))
    assert views(inputs, TEXTS, 3) == written[3]


def test_without_a_rate_nothing_is_rewritten_and_with_one_a_share_is():
    batch = fitted(0.0).pack(TEXTS)
    assert fitted(0.0).augment(batch, torch.Generator()) is batch
    same = [text for step in range(40) for text in views(fitted(0.5), ["OCC(N)=O"], step) if text == "OCC(N)=O"]
    assert 12 < len(same) < 32


@pytest.mark.parametrize("text", ["xyz!", "((((", "C1CC"])
def test_a_text_that_is_no_smiles_stays(text):
    assert views(fitted(1.0, [*TEXTS, text]), [text, "OCC"])[0] == text


def test_a_view_that_does_not_fit_stays_as_it_was():
    short = fitted(1.0, ["C1CCCCC1C", "C1CC1"], max_length=40)
    short._max_length = 9  # as long as the text: most of its other forms are longer
    for step in range(20):
        (view,) = views(short, ["C1CCCCC1C"], step)
        assert len(view) <= 9
        assert canonical(view) == canonical("C1CCCCC1C")


def test_no_texts_give_no_views():
    inputs = fitted(1.0)
    assert len(inputs.augment(inputs.pack([]), torch.Generator())) == 0
