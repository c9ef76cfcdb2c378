"""The demo, at a size that takes seconds."""

from importlib.util import find_spec

import pytest
from click.testing import CliRunner

from ele_graphs.smi2mol.demo import demo

TINY = (
    "task.size=120",
    "surrogate.encoder.width=8",
    "surrogate.training.epochs=1",
    "surrogate.training.evaluations=1",
    "regressor.backbone.width=8",
    "regressor.training.epochs=1",
    "regressor.training.evaluations=1",
)


@pytest.mark.skipif(
    find_spec("qm9pack") is None, reason="the demo trains on QM9: pip install explicit-loss-embedding[qm9]"
)
def test_the_demo_trains_predicts_and_draws(tmp_path):
    overrides = [word for option in TINY for word in ("--set", option)]
    result = CliRunner().invoke(demo, ["--folder", str(tmp_path), *overrides], catch_exceptions=False)
    assert result.exit_code == 0
    assert all(f"{decoder}: ged_with_edges" in result.output for decoder in ("candidates", "pgd", "search"))
    folder = tmp_path / "run-1"
    assert len(list((folder / "pictures").glob("*-truth.svg"))) == 10
    assert (folder / "pictures" / "all.svg").read_text().count("<svg") == 21
    assert (folder / "model" / "model.safetensors").exists()
