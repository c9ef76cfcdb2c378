"""Fingerprint → molecule as a study: kernels, networks and decoders on one split."""

from __future__ import annotations

from ele_core import Row, Scale, Table

METRICS = ("exact", "ged_with_edges", "ged_without_edges")
SMALL = Scale(
    "5,000 training molecules of QM9 and 500 for the test; about ten minutes on two cores.",
    ("task.size=6000", "task.test=500", "task.validation=500"),
)
FULL = Scale("QM9 with the split of smi2mol, 1,000 of its test molecules; about an hour on two cores.", limit=1000)
MOSES = Scale(
    "300,000 training molecules of MOSES, 500 test molecules with other scaffolds; about two hours on two cores.",
    ("task.source=moses",),
    limit=500,
)
OURS = {"small": ("regressor.training.epochs=60", "regressor.backbone.dropout=0.1")}
RIDGE = ("regressor=sketched-ridge", "regressor.kernel=tanimoto")

QM9_TABLE = Table(
    name="fp2mol",
    title="Molecules of QM9 from their fingerprints",
    scales={"small": SMALL, "full": FULL},
    metrics=METRICS,
    rows=(
        Row("copying", ("regressor=nearest-input", "decoder=candidates"), minutes={"small": 0.2, "full": 2}),
        Row("SISOKR", ("surrogate=wl-kernel", *RIDGE, "decoder=candidates"), minutes={"small": 0.3, "full": 7}),
        Row("ridge, search", RIDGE, minutes={"small": 1, "full": 8}),
        Row("ours, candidates", ("decoder=candidates",), OURS, minutes={"small": 3, "full": 20}),
        Row("ours, search", (), OURS, reference="Any2Graph", minutes={"small": 1, "full": 3}),
        Row("ours, search for the fingerprint", (), OURS, given=("fingerprint",), minutes={"small": 2, "full": 8}),
        Row("ours, search from the true embedding", (), OURS, oracle=True, minutes={"small": 1, "full": 3}),
    ),
)
MOSES_TABLE = Table(
    name="fp2mol-moses",
    title="Molecules of MOSES from their fingerprints",
    scales={"full": MOSES},
    files={"moses": "task.path"},
    metrics=METRICS,
    rows=(
        Row("copying", ("regressor=nearest-input", "decoder=candidates"), files=("moses",), minutes={"full": 8}),
        Row("ours, search", (), files=("moses",), minutes={"full": 60}),
        Row("ours, search for the fingerprint", (), files=("moses",), given=("fingerprint",), minutes={"full": 12}),
        Row("ours, search from the true embedding", (), files=("moses",), oracle=True, minutes={"full": 8}),
    ),
)
STUDIES = (QM9_TABLE, MOSES_TABLE)
