"""One way to open a trained model: a run, a saved folder, a fitted predictor."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ele_core import config as configuration
from ele_core.errors import ConfigError, ModelError
from ele_core.runs.run import Opened, Run, open_model


@pytest.fixture
def run(trained_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained_run, tmp_path / "run"))


def test_a_run_a_saved_folder_and_a_predictor_are_opened_alike(run, predictor, tmp_path):
    predictor.save(tmp_path / "saved")
    assert isinstance(open_model(run), Run)
    for source in (run, tmp_path / "saved", predictor, predictor.model_):
        opened = open_model(source)
        assert isinstance(opened, Opened)
        assert open_model(opened) is opened
        assert opened.model().space.config == opened.space.config
        assert opened.model().config == opened.config
    with pytest.raises(ConfigError, match="model: got int; give"):
        open_model(3)


def test_the_configuration_is_read_once(run, predictor, tmp_path, monkeypatch):
    predictor.save(tmp_path / "saved")
    sources, load = [], configuration.load
    monkeypatch.setattr(configuration, "load", lambda *given: sources.append(given[0]) or load(*given))
    for folder in (run, tmp_path / "saved"):
        sources.clear()
        opened = open_model(folder)
        assert opened.model() is not opened.model(), "each caller may change what it gets"
        assert len(sources) == 1
        opened.model(["decoder=candidates"])
        assert len(sources) == 2


def test_a_model_of_another_configuration_is_refused(run):
    file = run / "config.toml"
    file.write_text(file.read_text().replace("seed = 0", "seed = 1", 1))
    with pytest.raises(ModelError, match=r"trained with another configuration: seed: 0 → 1.*Restore"):
        Run(run).model()


def test_an_unfinished_run_whose_configuration_was_edited_is_refused(run):
    shutil.rmtree(run / "model")
    file = run / "config.toml"
    file.write_text(file.read_text() + "\n")
    with pytest.raises(ModelError, match=r"config\.toml: has changed since the training began.*--set"):
        Run.resume(run)
