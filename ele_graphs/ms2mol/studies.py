"""Mass spectrum → molecule as a study: ours, what limits it, and the rivals on the same split."""

from __future__ import annotations

from ele_core import Row, Scale, Table
from ele_graphs.ms2mol.rivals import FingerprintNetwork, ModifiedCosine

FILES = ("spectra",)
"""The file of spectra is given as a path: `ele reproduce ms2mol --file spectra=FILE.msp`."""
SISOKR = (
    "surrogate=wl-kernel",
    "regressor=sketched-ridge",
    "regressor.kernel=gaussian",
    "regressor.width=1",
    "regressor.sketch.size=4000",
    "regressor.penalties=[1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6]",
    "decoder=candidates",
)

NETWORK = (
    "task.merge=held-out",
    "regressor=neural",
    "regressor.backbone=peaks",
    "regressor.backbone.dropout=0.3",
    "regressor.training.epochs=40",
    "regressor.training.batch_size=256",
    "regressor.training.learning_rate=2e-3",
    "regressor.training.weight_decay=0.01",
)

TABLE = Table(
    name="ms2mol",
    title="Molecules from tandem mass spectra",
    scales={
        "full": Scale("all molecules of the file, 100 test spectra; half an hour on two cores.", limit=100),
        "scaffold": Scale("the same with a split by Murcko scaffolds.", ("task.split=scaffold",), limit=100),
    },
    files={"spectra": "task.path"},
    metrics=("exact", "ged_with_edges"),
    rows=(
        Row("modified cosine", rival=ModifiedCosine(), files=FILES, minutes={"full": 1, "scaffold": 1}),
        Row("network to fingerprints", rival=FingerprintNetwork(), files=FILES, minutes={"full": 6, "scaffold": 6}),
        Row("SISOKR", SISOKR, files=FILES, minutes={"full": 2, "scaffold": 2}),
        Row("ours, network", NETWORK, files=FILES, minutes={"full": 10, "scaffold": 10}),
        Row("ours", files=FILES, minutes={"full": 4, "scaffold": 4}),
        Row("ours, true embedding", oracle=True, files=FILES, minutes={"full": 2, "scaffold": 2}),
    ),
)
STUDIES = (TABLE,)
