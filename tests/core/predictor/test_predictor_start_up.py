"""What predicting imports beyond torch: packages that are slow to import and not needed are not among it."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest
from quick import QUICK, quick

ROOT = Path(__file__).parents[3]
SLOW = {
    *("sklearn", "scipy", "pandas", "matplotlib", "numba", "networkx", "jinja2", "sympy", "joblib", "requests"),
    *("torch._dynamo", "torch._inductor", "torch._functorch", "torch.fx.experimental.symbolic_shapes", "torch.onnx"),
}
"""Modules that predicting does not need. Some take as long to import as torch itself."""
CHEMISTRY = {"rdkit"}
"""Needed to write a molecule as SMILES, and not to predict it, unless the decoder needs valences."""

PREDICT = """
import sys, torch
before = set(sys.modules)
from ele_core import StructuredPredictor
predictor = StructuredPredictor.load({folder!r})
assert predictor.predict({inputs!r}, decoder={decoder!r})
print(sorted(set(sys.modules) - before))
"""
COMMAND = """
import sys, torch
before = set(sys.modules)
from ele_core.cli import cli
cli(["predict", {folder!r}, "-"], standalone_mode=False)
print(sorted(set(sys.modules) - before))
"""


def transformer() -> dict[str, object]:
    backbone = {"name": "transformer", "width": 8, "heads": 2, "layers": 1}
    return {"regressor": {**QUICK["regressor"], "backbone": backbone}}


def vectors() -> dict[str, object]:
    return {"input": "vector", "regressor": {**QUICK["regressor"], "backbone": "mlp"}}


CASES = {
    "gru": ({}, ["a"], SLOW | CHEMISTRY),
    "transformer": (transformer(), ["a"], SLOW | CHEMISTRY),
    "vectors": (vectors(), [[1.0, 2.0]], SLOW | CHEMISTRY | {"tokenizers"}),
    "kernel": ({"surrogate": "sketched-kernel", "regressor": "sketched-ridge"}, ["a"], SLOW | CHEMISTRY),
    "molecule": (
        {"output": "molecule", "surrogate": {**QUICK["surrogate"], "encoder": {"name": "rgcn", "width": 4}}},
        ["a"],
        SLOW,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_predicting_imports_nothing_slow_that_it_does_not_need(run_python, tmp_path, case):
    changes, asked, slow = CASES[case]
    inputs = [[float(row), 1.0] for row in range(10)] if case == "vectors" else list("abcdefghij")
    outputs = ["C" * row for row in range(1, 11)] if case == "molecule" else list("0123456789")
    quick(**changes).fit(inputs, outputs).save(tmp_path / "model")
    for decoder in ("candidates", "search", *(() if case == "kernel" else ("pgd",))):
        program = PREDICT.format(folder=str(tmp_path / "model"), inputs=asked, decoder=decoder)
        imported = ast.literal_eval(run_python("-W", "error", "-c", program).stdout)
        assert "ele_core.model.files" in imported
        assert slow.isdisjoint(imported), (case, decoder, sorted(slow.intersection(imported)))


def test_neither_does_the_command(run_python, trained_run, tmp_path):
    shutil.copytree(trained_run, tmp_path / "run")
    printed = run_python("-W", "error", "-c", COMMAND.format(folder=str(tmp_path / "run")), stdin="forty-two\n").stdout
    *table, imported = printed.splitlines()
    assert table[0] == "input,prediction,energy,status"
    assert table[1].endswith("ok")
    assert (SLOW | CHEMISTRY).isdisjoint(ast.literal_eval(imported))


def test_the_shapes_of_a_network_are_known_without_filling_it():
    import torch
    from torch import nn

    from ele_core.numerics.meta_build import unfilled

    with unfilled():
        layers = nn.Linear(3, 10**9), nn.GRU(4, 5), nn.Embedding(7, 8), nn.Conv1d(2, 3, 1), nn.LayerNorm(4)
        filled = nn.init.normal_(tensor=torch.empty(2, 3)), torch.empty(4).uniform_(), torch.randn(5)
        filled += torch.rand_like(filled[0]), torch.rand(6, generator=torch.Generator("cpu"))
    assert all(weight.is_meta for layer in layers for weight in layer.parameters())
    assert layers[0].weight.shape == (10**9, 3)
    assert [tuple(tensor.shape) for tensor in filled] == [(2, 3), (4,), (5,), (2, 3), (6,)]
    assert not nn.Linear(2, 2).weight.is_meta
    assert nn.Linear(2, 2).weight.abs().sum() > 0
