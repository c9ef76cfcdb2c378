"""Saved models: they predict the same anywhere, and a file that is not as it was is named in one sentence."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from ele_core import Record, StructuredPredictor, hookimpl
from ele_core.errors import ModelError
from ele_core.files.archive import seal
from ele_core.model.files import without_repeats
from ele_core.plugins import Registry, registry
from ele_sequences.space import SequenceSpace


@pytest.fixture(scope="module")
def saved(predictor: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "model"
    predictor.save(folder)
    return folder


@pytest.fixture
def copy(saved: Path, tmp_path: Path) -> Path:
    """A saved model to damage."""
    return Path(shutil.copytree(saved, tmp_path / "model"))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def same(left: Any, right: Any) -> bool:
    return torch.equal(left.decoding.energies, right.decoding.energies) and [p.objects for p in left] == [
        p.objects for p in right
    ]


# -- there and back -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decoder", ["candidates", {"name": "pgd", "steps": 3, "starts": 2}])
def test_a_loaded_model_predicts_the_same_to_the_last_bit(predictor, pairs, saved, decoder):
    loaded = StructuredPredictor.load(saved)
    left, right = (each.decode(pairs[0][:15], decoder=decoder, top_k=2) for each in (predictor, loaded))
    assert same(left, right)


def test_a_loaded_model_keeps_its_settings(predictor, saved):
    loaded = StructuredPredictor.load(saved)
    assert loaded.model_.config == predictor.model_.config
    assert loaded.get_params()["surrogate"]["dim"] == 8
    assert loaded.seed == predictor.seed


def test_a_compact_model_is_smaller_and_predicts_the_same_but_for_rounding(predictor, pairs, tmp_path):
    predictor.save(tmp_path / "compact", compact=True)
    loaded = StructuredPredictor.load(tmp_path / "compact")
    weights = load_file(tmp_path / "compact" / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values() if tensor.is_floating_point()} == {torch.float16}
    assert "embeddings" not in load_file(tmp_path / "compact" / "candidates.safetensors")
    left, right = (each.decode(pairs[0][:15]).decoding.energies for each in (predictor, loaded))
    assert not torch.equal(left, right)
    torch.testing.assert_close(left, right, rtol=0.01, atol=0.01)


def test_the_candidates_come_along_each_once(predictor, pairs, saved):
    stored = load_file(saved / "candidates.safetensors")
    space = predictor.model_.space
    texts = space.unpack(space.Batch(stored["batch.tokens"]))
    assert len(texts) == len(set(texts)) == 100
    assert set(texts) < set(pairs[1])


def test_a_fresh_process_predicts_the_same(predictor, pairs, saved, run_python):
    program = (
        "import sys, json; from ele_core import StructuredPredictor as P;"
        "print(json.dumps(P.load(sys.argv[1]).predict(json.loads(sys.argv[2]), top_k=2)))"
    )
    result = run_python("-W", "error", "-c", program, str(saved), json.dumps(pairs[0][:10]))
    assert json.loads(result.stdout) == predictor.predict(pairs[0][:10], top_k=2)


def test_a_folder_holds_plain_files_and_says_what_it_is(saved):
    sealed = ["candidates.safetensors", "config.json", "model.safetensors", "seen-texts.json", "tokenizer.json"]
    assert names(saved) == sorted(["README.md", "manifest.json", *sealed])
    assert sorted(json.loads((saved / "manifest.json").read_text())["files"]) == sealed
    header = json.loads((saved / "config.json").read_text())
    assert header["components"]["output:sequence"]["distribution"] == "explicit-loss-embedding"
    assert header["components"]["backbone:gru"]["version"]
    assert "100 candidates" in (saved / "README.md").read_text()


def test_a_model_that_was_loaded_saves_the_same_files(saved, tmp_path):
    StructuredPredictor.load(saved).save(tmp_path / "again")
    for name in names(saved):
        assert (tmp_path / "again" / name).read_bytes() == (saved / name).read_bytes(), name


# -- writing ------------------------------------------------------------------------------------------------------


def test_saving_again_replaces_the_model_and_leaves_nothing_behind(predictor, copy):
    (copy / "model.safetensors").write_bytes(b"old")
    predictor.save(copy)
    StructuredPredictor.load(copy)
    assert names(copy.parent) == ["model"]


def test_a_save_that_fails_leaves_the_old_model_and_nothing_else(predictor, copy, monkeypatch):
    before = {name: (copy / name).read_bytes() for name in names(copy)}
    monkeypatch.setattr(type(predictor.model_.inputs), "save", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        predictor.save(copy)
    assert {name: (copy / name).read_bytes() for name in names(copy)} == before
    assert names(copy.parent) == ["model"]


def test_a_folder_of_something_else_is_never_replaced(predictor, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ModelError, match="folder is not empty, and it is not a model"):
        predictor.save(tmp_path)
    with pytest.raises(ModelError, match="not a model"):
        predictor.save(tmp_path / "thesis.tex")
    assert names(tmp_path) == ["thesis.tex"]


def test_an_empty_folder_is_filled(predictor, tmp_path):
    predictor.save(tmp_path)
    assert "config.json" in names(tmp_path)


class Private:
    @hookimpl
    def ele_output_spaces(self) -> Any:
        return [Record("private", SequenceSpace)]


def test_a_component_registered_by_hand_cannot_be_saved(tiny, pairs, tmp_path):
    fresh = Registry(registry().plugins())
    fresh.register(Private(), "notebook")
    few = [part[:30] for part in pairs]
    made = StructuredPredictor("private", **tiny, registry=fresh).fit(*few)
    assert made.predict(few[0][:2])
    with pytest.raises(ModelError, match=r"output 'private' was registered by hand.*entry point"):
        made.save(tmp_path / "model")
    assert names(tmp_path) == []


# -- reading what is not as it was --------------------------------------------------------------------------------


def edit_header(folder: Path, **changes: Any) -> None:
    header = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**header, **changes}))


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def drop_structures(folder: Path) -> None:
    stored = load_file(folder / "candidates.safetensors")
    save_file({"embeddings": stored["embeddings"]}, folder / "candidates.safetensors")


def drop_rows(folder: Path) -> None:
    stored = load_file(folder / "candidates.safetensors")
    save_file({**stored, "embeddings": stored["embeddings"][:-1].clone()}, folder / "candidates.safetensors")


def foreign_candidates(folder: Path) -> None:
    stored = load_file(folder / "candidates.safetensors")
    save_file(
        {"batch.nodes": stored["batch.tokens"], "embeddings": stored["embeddings"]}, folder / "candidates.safetensors"
    )


def other_weights(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    name = sorted(weights)[0]
    save_file({**weights, name: torch.zeros(3)}, folder / "model.safetensors")


DAMAGES = {
    "no folder": (lambda f: shutil.rmtree(f), "no model here"),
    "header cut": (lambda f: truncate(f / "config.json"), "config.json: damaged"),
    "header of something else": (lambda f: (f / "config.json").write_text('{"architectures": []}'), "not an ELE model"),
    "header is a list": (lambda f: (f / "config.json").write_text("[]"), "not an ELE model"),
    "header is not text": (lambda f: (f / "config.json").write_bytes(b"\xff\xfe\x00"), "config.json: damaged"),
    "newer format": (lambda f: edit_header(f, format=3), "format 3, this version reads format 2.*Install"),
    "older format": (lambda f: edit_header(f, format=1), "format 1, this version reads format 2.*Install"),
    "unknown plugin": (
        lambda f: edit_header(
            f, config={"output": "knot"}, components={"output:knot": {"distribution": "ele-knots", "version": "3.1"}}
        ),
        "no output space is called 'knot'.*ele-knots 3.1",
    ),
    "weights cut": (lambda f: truncate(f / "model.safetensors"), "model.safetensors: damaged"),
    "weights empty": (lambda f: (f / "model.safetensors").write_bytes(b""), "model.safetensors: damaged"),
    "weights missing": (lambda f: (f / "model.safetensors").unlink(), "model.safetensors: missing"),
    "weights of another model": (other_weights, "model.safetensors: the weights do not fit"),
    "candidates cut": (lambda f: truncate(f / "candidates.safetensors"), "candidates.safetensors: damaged"),
    "candidates without structures": (drop_structures, "not the candidates of this model"),
    "candidates of another number": (drop_rows, "structures and embeddings differ"),
    "candidates of another space": (foreign_candidates, "not the candidates of this model"),
    "vocabulary missing": (lambda f: (f / "tokenizer.json").unlink(), "tokenizer.json"),
    "vocabulary cut": (lambda f: truncate(f / "tokenizer.json"), "tokenizer.json"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_model_is_refused_with_the_file_and_the_reason_though_its_manifest_agrees(copy, name):
    damage, message = DAMAGES[name]
    damage(copy)
    if copy.exists():
        seal(copy, unsealed=["README.md"])
    with pytest.raises(ModelError, match=f"(?s){message}") as caught:
        StructuredPredictor.load(copy)
    assert str(copy) in str(caught.value)
    assert "\n" not in str(caught.value)


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("name", ["candidates.safetensors", "model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (truncate, r"damaged: it has [\d,]+ bytes, and \d+ were written"),
        (lambda file: file.write_bytes(b""), r"damaged: it has 0 bytes, and \d+ were written"),
        (flip, "damaged: its contents are not what was written"),
        (Path.unlink, "missing"),
    ],
    ids=["cut", "emptied", "flipped", "missing"],
)
def test_a_file_that_is_not_as_it_was_written_is_refused_before_it_is_parsed(copy, name, change, message):
    change(copy / name)
    with pytest.raises(ModelError, match=rf"^{re.escape(str(copy / name))}: {message}"):
        StructuredPredictor.load(copy)


def test_a_configuration_that_was_edited_is_refused(copy):
    header = json.loads((copy / "config.json").read_text())
    edit_header(copy, config={**header["config"], "seed": 7})
    with pytest.raises(ModelError, match=r"config\.json: damaged"):
        StructuredPredictor.load(copy)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "missing"),
        ("{", "damaged"),
        ("[]", "not a manifest"),
        ('{"files": ["config.json"]}', "not a manifest"),
        ('{"files": {"../config.json": {"bytes": 1, "sha256": ""}}}', "names a file outside the folder"),
    ],
)
def test_a_model_without_a_good_manifest_is_refused(copy, content, message):
    (copy / "manifest.json").unlink() if content is None else (copy / "manifest.json").write_text(content)
    with pytest.raises(ModelError, match=rf"manifest\.json: .*{message}"):
        StructuredPredictor.load(copy)


def test_the_card_of_a_model_may_be_edited(copy):
    (copy / "README.md").write_text("# My best model\n")
    assert StructuredPredictor.load(copy).model_.candidates is not None


def test_a_model_without_candidates_says_so_when_it_decodes(copy, pairs):
    (copy / "candidates.safetensors").unlink()
    seal(copy, unsealed=["README.md"])
    loaded = StructuredPredictor.load(copy)
    with pytest.raises(ModelError, match="no candidates"):
        loaded.predict(pairs[0][:1])
    assert loaded.predict(pairs[0][:1], candidates=["7", "8"])[0] in ("7", "8")


def test_an_extra_that_several_components_need_is_named_once():
    hint = "which is not installed. Install it with: pip install '.[molecules]'"
    problems = (
        f"recipe: the task 'smi2mol' needs rdkit, {hint}\n  output.name: 'molecule' needs rdkit, {hint}\nseed: bad"
    )
    assert without_repeats(problems) == f"recipe: the task 'smi2mol' needs rdkit, {hint} seed: bad"
