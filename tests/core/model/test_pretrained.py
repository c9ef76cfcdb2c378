"""Models that are installed as packages are found by name, without importing the package."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from pages import ROOT

from ele_core import EleError, StructuredPredictor
from ele_core.cli import cli
from ele_core.files import atomic
from ele_core.model.pretrained import installed_models, model_folder, shown_name

MODELS = ROOT / "models"


@pytest.fixture
def installed(trained_run, tmp_path, monkeypatch):
    """A package with a model, and its metadata, on the path; importing it fails."""
    package = tmp_path / "site" / "brought_model"
    shutil.copytree(trained_run / "model", package / "model")
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    metadata = tmp_path / "site" / "brought_model-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: brought-model\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[ele_models]\nbrought = brought_model\nmissing = no_such_package\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.chdir(tmp_path)
    return package / "model"


def test_an_installed_model_is_found_by_name_and_predicts(installed, trained_run):
    models = installed_models()
    assert models["brought"] == installed
    assert "missing" not in models
    predicted = StructuredPredictor.load("brought").predict(["forty-two"])
    assert predicted == StructuredPredictor.load(trained_run).predict(["forty-two"])


@pytest.mark.usefixtures("installed")
def test_a_folder_takes_precedence_over_a_name(tmp_path):
    (tmp_path / "brought").mkdir()
    assert model_folder("brought") == Path("brought")


@pytest.mark.usefixtures("installed")
def test_commands_take_the_name():
    result = CliRunner().invoke(cli, ["predict", "brought", "-"], input="forty-two\n")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1].startswith("forty-two,")


def test_nothing_is_written_beside_an_installed_model(installed, tmp_path, monkeypatch):
    before = sorted(installed.rglob("*"))
    make = atomic.make_folder

    def elsewhere(folder: Path) -> None:
        assert not folder.is_relative_to(installed), f"{folder} was made"
        make(folder)

    monkeypatch.setattr(atomic, "make_folder", elsewhere)
    assert CliRunner().invoke(cli, ["predict", "brought", "-"], input="forty-two\n").exit_code == 0
    (tmp_path / "key").write_bytes(bytes(range(32)))
    (tmp_path / "pairs.csv").write_text("words,digits\none,1\n")
    for arguments in (["calibrate", "brought", "--data", "pairs.csv"], ["sign", "brought", "--key", "key"]):
        result = CliRunner().invoke(cli, arguments)
        assert "this is the installed model 'brought', which is not changed. Copy it" in str(result.exception), result
    with pytest.raises(EleError, match="installed model 'brought'"):
        StructuredPredictor.load("brought").save(installed)
    assert sorted(installed.rglob("*")) == before


def test_an_installed_model_is_called_by_its_name(installed, trained_run):
    assert shown_name(installed) == "brought"
    assert shown_name(trained_run) == shown_name(trained_run / "model") == trained_run.name


@pytest.mark.usefixtures("installed")
def test_a_name_that_is_not_installed_is_refused():
    with pytest.raises(EleError, match="no model here"):
        StructuredPredictor.load("unknown-model")


@pytest.mark.parametrize("name", ["smi2mol", "fp2mol"])
def test_the_shipped_models_answer_rightly(name):
    pytest.importorskip("rdkit")
    predictor = StructuredPredictor.load(MODELS / name / f"ele_model_{name}")
    known = predictor.decode(["CCO", "CC(=O)OC", "CC(C)CO", "C1CCOC1"])
    assert [prediction.objects[0].smiles for prediction in known] == ["CCO", "COC(C)=O", "CC(C)CO", "C1CCOC1"]
    assert (known.confidence[1:] > 0.8).all(), "ethanol is smaller than nearly all molecules of the training"


def test_the_shipped_model_knows_what_is_unlike_its_training():
    pytest.importorskip("rdkit")
    other = StructuredPredictor.load(MODELS / "smi2mol" / "ele_model_smi2mol").decode(["hello world"])
    assert (other.confidence < 0.5).all()
    assert other[0].unlike_training


@pytest.mark.parametrize("name", ["smi2mol", "fp2mol"])
def test_the_shipped_models_are_small_and_have_a_card(name):
    files = list((MODELS / name / f"ele_model_{name}").rglob("*"))
    assert sum(file.stat().st_size for file in files if file.is_file()) < 16e6
    card = (MODELS / name / "README.md").read_text("utf-8")
    assert all(f"**{heading}.**" in card for heading in ("Data", "Training", "Result", "Limits", "Licence"))
