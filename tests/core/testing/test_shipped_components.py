"""Every component that ships keeps the laws of its kind."""

from __future__ import annotations

import pytest

from ele_core.plugins import registry
from ele_core.testing import counts, run_checks
from ele_core.testing.choosing import Choosing

TINY = {"epochs": 1, "batch_size": 16, "evaluations": 1}
GRAPHS = {"node_labels": ["a", "b"], "edge_labels": ["x", "y"], "max_nodes": 4}
SMALL_SURROGATE = {"dim": 8, "encoder": {"name": "flat", "width": 8}, "training": TINY}
STACK = {
    "network": {"name": "neural", "backbone": {"name": "gru", "width": 8}, "training": TINY},
    "kernel": {"name": "sketched-ridge", "sketch": {"size": 8}},
}

WRITER = {
    "width": 32,
    "embedding": 16,
    "backbone": {"name": "gru", "width": 16, "layers": 1},
    "training": {"epochs": 12, "batch_size": 16, "learning_rate": 8e-3, "evaluations": 1},
}

COMPONENTS = [
    ("output", "sequence", {}),
    ("output", "phonemes", {}),
    ("output", "padded-graph", GRAPHS),
    ("output", "molecule", {"max_atoms": 4}),
    ("output", "cell-graph", {"max_nodes": 4}),
    ("encoder", "flat", {}),
    ("encoder", "blocks", {}),
    ("encoder", "neighbourhoods", {}),
    ("encoder", "contexts", {}),
    ("encoder", "sequence", {}),
    ("encoder", "rgcn", {"width": 16}),
    ("surrogate", "contrastive", SMALL_SURROGATE),
    ("surrogate", "sketched-kernel", {"sketch": {"size": 16}}),
    ("surrogate", "wl-kernel", {"sketch": {"size": 16}}),
    ("surrogate", "fgw", {}),
    ("surrogate", "parts", {"dim": 32}),
    ("surrogate", "centred-parts", {"dim": 32}),
    ("input", "text", {}),
    ("input", "spelling", {}),
    ("input", "text", {"level": "pieces", "pieces": 20}),
    ("input", "vector", {}),
    ("input", "bits", {}),
    ("input", "signal", {}),
    ("input", "columns", {}),
    ("input", "image", {}),
    ("input", "fingerprint", {}),
    ("input", "spectrum", {}),
    ("input", "smiles", {"rewrite": 1.0}),
    ("input", "smiles", {"rewrite": 1.0, "level": "pieces"}),
    ("backbone", "gru", {"width": 16}),
    ("backbone", "gru", {"width": 16, "pooling": "additive"}),
    ("backbone", "transformer", {}),
    ("backbone", "mlp", {}),
    ("backbone", "bag", {"width": 16}),
    ("backbone", "convolution", {"widths": [8, 8]}),
    ("backbone", "convolution-1d", {}),
    ("backbone", "columns", {}),
    ("backbone", "peaks", {"width": 16}),
    ("regressor", "neural", {"backbone": {"name": "gru", "width": 8}, "training": TINY}),
    ("regressor", "averaged-views", {"backbone": {"name": "convolution", "widths": [8, 8]}, "training": TINY}),
    (
        "regressor",
        "ensemble",
        {"members": 2, "member": {"name": "neural", "backbone": {"name": "gru", "width": 8}, "training": TINY}},
    ),
    ("regressor", "sketched-ridge", {"sketch": {"size": 8}}),
    ("regressor", "nearest-input", {}),
    ("regressor", "stacked", STACK),
    (
        "regressor",
        "joint",
        {"loss": {"name": "stacked", **STACK}, "writer": {"name": "writer", **WRITER, "training": TINY}},
    ),
    ("proposer", "writer", WRITER),
    ("proposer", "blocks", {name: WRITER[name] for name in ("backbone", "training")}),
    ("proposer", "joint-ngram", {}),
    ("regressor", "fgw-ridge", {}),
    ("regressor", "fgw-templates", {"backbone": {"name": "gru", "width": 8}, "templates": 2, "training": TINY}),
    ("decoder", "candidates", {}),
    ("decoder", "pgd", {"steps": 5}),
    ("decoder", "search", {"rounds": 3}),
    ("decoder", "search", {"moves": 4, "rounds": 3}),
    ("decoder", "fgw-barycenter", {"rounds": 3}),
    ("index", "exact", {}),
    ("index", "faiss", {}),
    ("reader", ".sdf", {}),
    ("reader", ".msp", {}),
    ("reader", ".mgf", {}),
    ("task", "coloring", {"size": 60, "validation": 10, "test": 10}),
    ("task", "number-words", {"size": 60, "validation": 10, "test": 10}),
]


@pytest.mark.parametrize(
    ("kind", "name", "options"), COMPONENTS, ids=[f"{kind}-{name}" for kind, name, *_ in COMPONENTS]
)
def test_a_shipped_component_passes(kind, name, options):
    subject = Choosing(kind, name, options).subject()
    results = run_checks(subject.checks, subject.arguments)
    assert not [f"{result.name}: {result.explanation}" for result in results if not result.ok]
    least = 0.6 if name == "joint-ngram" else 0.75  # the examples of some laws do not align
    assert counts(results)["passed"] >= least * len(results)  # few laws do not apply


def test_random_starts_depend_on_the_query_alone_and_promise_less():
    subject = Choosing("decoder", "pgd", {"start": "random", "starts": 1, "steps": 1}).subject()
    expected = {"check_decoder_is_no_worse_than_candidates": "it starts from random candidates"}
    results = run_checks(subject.checks, subject.arguments, expected)
    assert not [f"{result.name}: {result.explanation}" for result in results if result.status == "failed"]
    (rows,) = (result for result in results if result.name == "check_decoder_rows_are_independent")
    assert rows.status == "passed"


def test_no_shipped_component_is_left_out():
    ours = {
        (kind, record.name)
        for plugin in registry().plugins()
        if plugin.distribution == "explicit-loss-embedding"
        for kind, records in plugin.records.items()
        for record in records
    }
    # they read all of QM9, a file of the user, a whole dictionary; tests of their own check the last ones
    not_here = {("task", name) for name in ("smi2mol", "moses", "g2p", "fp2mol", "ms2mol")}
    assert ours - not_here <= {(kind, name) for kind, name, *_ in COMPONENTS}
