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

COMPONENTS = [
    ("output", "sequence", {}, 65),
    ("output", "phonemes", {}, 65),
    ("output", "padded-graph", GRAPHS, 64),
    ("output", "molecule", {"max_atoms": 4}, 65),
    ("output", "cell-graph", {"max_nodes": 4}, 64),
    ("encoder", "flat", {}, 16),
    ("encoder", "sequence", {}, 16),
    ("encoder", "rgcn", {"width": 16}, 17),
    ("surrogate", "contrastive", SMALL_SURROGATE, 19),
    ("surrogate", "sketched-kernel", {"sketch": {"size": 16}}, 17),
    ("surrogate", "wl-kernel", {"sketch": {"size": 16}}, 17),
    ("surrogate", "fgw", {}, 17),
    ("surrogate", "parts", {"dim": 32}, 17),
    ("surrogate", "centred-parts", {"dim": 32}, 17),
    ("surrogate", "aligned-odds", {}, 17),
    ("input", "text", {}, 26),
    ("input", "spelling", {}, 26),
    ("input", "text", {"level": "pieces", "pieces": 20}, 26),
    ("input", "vector", {}, 25),
    ("input", "bits", {}, 25),
    ("input", "image", {}, 25),
    ("input", "fingerprint", {}, 25),
    ("input", "spectrum", {}, 26),
    ("input", "smiles", {"rewrite": 1.0}, 26),
    ("input", "smiles", {"rewrite": 1.0, "level": "pieces"}, 26),
    ("backbone", "gru", {"width": 16}, 13),
    ("backbone", "gru", {"width": 16, "pooling": "additive"}, 13),
    ("backbone", "transformer", {}, 13),
    ("backbone", "runs", {}, 13),
    ("backbone", "mlp", {}, 13),
    ("backbone", "bag", {"width": 16}, 13),
    ("backbone", "convolution", {"widths": [8, 8]}, 13),
    ("backbone", "peaks", {"width": 16}, 13),
    ("regressor", "neural", {"backbone": {"name": "gru", "width": 8}, "training": TINY}, 16),
    ("regressor", "energy", {"training": TINY}, 16),
    ("regressor", "run-counts", {}, 16),
    (
        "regressor",
        "ensemble",
        {"members": 2, "member": {"name": "neural", "backbone": {"name": "gru", "width": 8}, "training": TINY}},
        16,
    ),
    ("regressor", "sketched-ridge", {"sketch": {"size": 8}}, 16),
    ("regressor", "nearest-input", {}, 16),
    ("regressor", "stacked", STACK, 16),
    ("regressor", "fgw-ridge", {}, 16),
    ("regressor", "fgw-templates", {"backbone": {"name": "gru", "width": 8}, "templates": 2, "training": TINY}, 16),
    ("decoder", "candidates", {}, 20),
    ("decoder", "pgd", {"steps": 5}, 22),
    ("decoder", "search", {"rounds": 3}, 22),
    ("decoder", "search", {"moves": 4, "rounds": 3}, 22),
    ("decoder", "left-to-right", {}, 19),
    ("decoder", "fgw-barycenter", {"rounds": 3}, 19),
    ("reader", ".sdf", {}, 8),
    ("reader", ".msp", {}, 8),
    ("reader", ".mgf", {}, 8),
    ("task", "coloring", {"size": 60, "validation": 10, "test": 10}, 11),
    ("task", "number-words", {"size": 60, "validation": 10, "test": 10}, 10),
]


@pytest.mark.parametrize(
    ("kind", "name", "options", "least"), COMPONENTS, ids=[f"{kind}-{name}" for kind, name, *_ in COMPONENTS]
)
def test_a_shipped_component_passes(kind, name, options, least):
    subject = Choosing(kind, name, options).subject()
    results = run_checks(subject.checks, subject.arguments)
    assert not [f"{result.name}: {result.explanation}" for result in results if not result.ok]
    assert counts(results)["passed"] >= least


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
