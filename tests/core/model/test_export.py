"""`ele export`: the folder predicts without ELE as its learned loss does; what cannot be exported is refused."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quick import QUICK, quick

from ele_core.errors import ConfigError, EleError, ModelError
from ele_core.extras import installed
from ele_core.model import export as module
from ele_core.model.export import export, onto_the_loss, samples

needs_onnx = pytest.mark.skipif(
    not (installed("onnx") and installed("onnxruntime")), reason="pip install 'explicit-loss-embedding[export]'"
)
GRU = {"name": "gru", "embedding": 4, "layers": 2, "width": 4}
ALONE = """
import sys
for name in ("torch", "ele_core"):
    sys.modules[name] = None
import runpy
sys.argv[:] = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def stacked(**parts: Any) -> dict[str, Any]:
    none = dict.fromkeys(("network", "kernel", "copying"), "none")
    return {"regressor": {"name": "stacked", **none, **parts}}


KERNEL = {"name": "sketched-ridge", "kernel": "cosine", "grams": 3, "sketch": {"size": 60}}
FLAT = {**QUICK["surrogate"], "spherical": False}


def neural(**backbone: Any) -> dict[str, Any]:
    return {"regressor": {**QUICK["regressor"], "backbone": backbone}}


def fitted(pairs: Any, **changes: Any) -> Any:
    inputs, outputs = pairs
    return quick(**changes).fit(inputs, outputs, validation=20).model_


def vectors(outputs: list[str]) -> list[list[float]]:
    return [[float(digit) for digit in f"{text:0>4}"[:4]] for text in outputs]


@needs_onnx
@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        (neural(**GRU), "text"),
        (neural(**GRU, pooling="additive"), "text"),
        (neural(name="transformer", layers=1, width=4, heads=2), "text"),
        ({"regressor": KERNEL, "surrogate": FLAT}, "text"),
        ({"regressor": KERNEL, "surrogate": FLAT, "input": {"name": "text", "ends": False}}, "text"),
        (
            {"regressor": KERNEL, "surrogate": FLAT, "input": {"name": "text", "level": "regex", "pattern": "[a-z]+"}},
            "text",
        ),
        (stacked(network=QUICK["regressor"], kernel=KERNEL), "text"),
        ({**neural(**GRU), "input": {"name": "text", "level": "pieces", "pieces": 60}}, "text"),
        (neural(name="mlp", hidden=[4]), "vector"),
        ({"regressor": {**KERNEL, "kernel": "gaussian"}, "surrogate": FLAT}, "vector"),
        ({"regressor": {**KERNEL, "kernel": "tanimoto"}, "surrogate": FLAT}, "vector"),
    ],
)
def test_the_folder_predicts_the_candidates_of_ele(pairs, tmp_path, changes, kind):
    inputs, outputs = pairs
    if kind == "vector":
        changes = {"input": "vector", **changes}
        inputs = vectors(outputs)
    model = fitted((inputs, outputs), **changes)
    found = export(model, "words", tmp_path / "exported")
    assert found.candidates == len(model.candidates)
    asked = [inputs[0], inputs[5]]
    predicted = alone(tmp_path / "exported", *(text if isinstance(text, str) else json.dumps(text) for text in asked))
    energy = model.regressor.energy(model.queries(asked))
    best = energy.among(model.candidates).argmin(dim=1)
    assert predicted == [model.space.texts.format(obj) for obj in model.space.unpack(model.candidates.batch[best])]


def alone(folder: Path, *words: str) -> list[str]:
    """What the script prints in a process that can import neither torch nor ELE."""
    command = [sys.executable, "-c", ALONE, str(folder / "predict.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@needs_onnx
def test_the_default_recipe_exports_its_loss_with_errors_weighed_and_names_the_proposers(tmp_path):
    from ele_core import StructuredPredictor
    from ele_sequences.number_words import draw, spell

    numbers = draw(400, seed=0)
    writer = {"training": {"epochs": 1, "evaluations": 1}}
    predictor = StructuredPredictor("sequence", regressor={"writer": writer, "blocks": "none"}, surrogate={"dim": 16})
    predictor.fit([spell(number) for number in numbers], [str(number) for number in numbers], validation=60)
    model = predictor.model_
    model.regressor.loss.use_mode("kernel, errors weighed")
    model.regressor.joint, model.regressor.weights[:] = True, 1.0
    assert onto_the_loss(model.regressor).errors is not None
    found = export(model, "words", tmp_path / "exported")
    assert found.left_out[0].startswith("the proposers (writer, aligned)")
    assert "proposers (writer, aligned)" in (tmp_path / "exported" / "README.md").read_text()


@needs_onnx
def test_a_mismatch_is_an_error_and_leaves_nothing(pairs, tmp_path, monkeypatch):
    model = fitted(pairs)
    monkeypatch.setattr(module.Sum, "forward", lambda self, batch: 2 * self.parts[0](batch))
    with pytest.raises(ModelError, match="the exported model differs from ELE, for 1 input by"):
        export(model, "words", tmp_path / "exported")
    assert list(tmp_path.iterdir()) == []


@needs_onnx
def test_a_folder_that_exists_is_kept(pairs, tmp_path):
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(ModelError, match="the folder is not empty"):
        export(fitted(pairs), "words", tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]


@needs_onnx
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (stacked(copying={"name": "nearest-input"}), "this model predicts with 'nearest-input'. Only neural"),
        ({"surrogate": "sketched-kernel", "regressor": KERNEL}, "are no squared distances"),
        (
            {"regressor": {**KERNEL, "kernel": "gaussian"}, "surrogate": FLAT},
            "only the cosine of tokens.*=cosine",
        ),
    ],
)
def test_what_cannot_be_exported_is_one_sentence(pairs, tmp_path, changes, sentence):
    model = fitted(pairs, **changes)
    with pytest.raises(ConfigError, match=sentence):
        export(model, "words", tmp_path / "exported")
    assert list(tmp_path.iterdir()) == []


@needs_onnx
def test_the_script_refuses_what_the_input_space_refuses(pairs, tmp_path):
    import runpy

    model = fitted(pairs, input={"name": "text", "unknown": "error", "max_length": 100})
    export(model, "words", tmp_path / "exported")
    script = runpy.run_path(str(tmp_path / "exported" / "predict.py"))
    for text in ("", "o" * 101, "one ☃"):
        with pytest.raises(EleError):
            model.inputs.pack([text])
        with pytest.raises(ValueError, match="this text has"):
            script["predict"]([text])
    for values in (samples(model.inputs, 50), ["one"]):
        packed, fed = model.inputs.pack(values), script["feeds"](values)
        assert np.array_equal(packed.tokens.numpy(), fed["tokens"])
        assert np.array_equal(packed.lengths.numpy(), fed["lengths"])


@needs_onnx
def test_the_command_says_what_is_left_out(trained_run, tmp_path):
    from commands import here

    run = shutil.copytree(trained_run, tmp_path / "run")
    done = here("export", run, "-o", tmp_path / "exported")
    assert done.returncode == 0, done.stderr
    assert "the decoder 'pgd', which also builds structures that are no candidates" in done.stdout
    assert len(alone(tmp_path / "exported", "forty-two", "six")) == 2


def test_without_the_packages_the_extra_is_named(predictor, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "installed", lambda _: False)
    with pytest.raises(
        ConfigError, match=r"needs the package onnx, which is not installed\. Install it with: .*export"
    ):
        export(predictor.model_, "words", tmp_path / "exported")
