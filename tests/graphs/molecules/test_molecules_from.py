"""A training on molecules that starts from a trained model: the output space is the model's."""

from __future__ import annotations

import pytest
import torch
from recording import Recorder

from ele_core import DataError, Run, StructuredPredictor

SMILES = [
    f"{'C' * left}{middle}{'C' * right}" for left in (1, 2, 3) for right in (1, 2, 3) for middle in ("O", "N", "C=C")
]
QUICK = {
    "surrogate": {"name": "contrastive", "dim": 8, "encoder": "neighbourhoods", "spherical": False, "training": None},
    "regressor": {
        "name": "neural",
        "backbone": {"name": "gru", "embedding": 4, "layers": 1, "width": 4},
        "training": {"epochs": 1, "evaluations": 1},
    },
    "decoder": "candidates",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "model"
    StructuredPredictor("molecule", **QUICK).fit(SMILES, SMILES, validation=4).save(folder)
    return folder


def start(model, rows, folder, **options):
    file = folder / "pairs.csv"
    file.write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in rows))
    config = {"output": "molecule", "data": {"file": str(file), **options}, "start": str(model)}
    recorder = Recorder()
    return Run.start(config, folder / "run", recorder), recorder


def test_smiles_go_on_from_the_regressor_and_keep_its_scale(model, tmp_path):
    run, recorder = start(model, [(text, text) for text in SMILES], tmp_path)
    assert any("its regressor, which is trained further" in told for told in recorder.messages)
    then, now = StructuredPredictor.load(model).model_, run.model()
    assert now.space.config == then.space.config
    assert torch.equal(now.regressor.network.mean, then.regressor.network.mean)
    assert torch.equal(now.surrogate.embed(then.candidates.batch), then.surrogate.embed(then.candidates.batch))


def test_a_molecule_outside_the_space_of_the_model_is_named_or_skipped(model, tmp_path):
    rows = [(text, text) for text in [*SMILES, "CCS", "C" * 30]]
    with pytest.raises(DataError, match=r"2 rows cannot be used(?s:.*)The output space is that of the model"):
        start(model, rows, tmp_path)
    assert not (tmp_path / "run").exists()
    run, _ = start(model, rows, tmp_path, on_error="skip")
    assert len(run.provenance["rejected"]) == 2
