"""The experiments on Coloring as data: which decoders and embeddings, on pictures of up to 10 and up to 20 cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ele_core import Row, Scale, Table

TEN, TWENTY = "Any2Graph V2, up to 10 cells", "Any2Graph V2, up to 20 cells"
"""The published results."""
EPOCHS = "regressor.training.epochs={}"
FEW = ("task.size=5000", "task.validation=200", "task.test=200")
COPYING = ("regressor=nearest-input", "decoder=candidates")
"""The graph of the nearest training picture."""
CONTRASTIVE = (
    "surrogate=contrastive",
    "surrogate.dim=128",
    "surrogate.encoder=rgcn",
    "surrogate.encoder.width=64",
    "surrogate.encoder.layers=3",
    "decoder=pgd",
)
"""The paper's way: a learned embedding, and projected gradient descent."""
CONTRASTIVE_SCALES = {
    "small": ("surrogate.training.epochs=20", EPOCHS.format(6)),
    "full": ("surrogate.training.epochs=1", EPOCHS.format(1)),
}


def scales(cells: int, overrides: Sequence[str]) -> dict[str, Scale]:
    """The sizes of the experiment."""
    small = f"5,000 training pictures of up to {cells} cells and 200 for the test; about ten minutes on two cores."
    full = f"100,000 training pictures of up to {cells} cells and 1,000 for the test; about an hour on two cores."
    return {"small": Scale(small, (*FEW, *overrides)), "full": Scale(full, overrides)}


def rows(reference: str, epochs: Mapping[str, Sequence[str]]) -> tuple[Row, ...]:
    """The methods; `epochs` are those of the network, by scale."""
    return (
        Row("copying", COPYING, minutes={"small": 1, "full": 5}),
        Row("candidates", ("decoder=candidates",), epochs, minutes={"small": 3, "full": 20}),
        Row("search", (), epochs, reference=reference, minutes={"small": 3, "full": 22}),
        Row("contrastive, pgd", CONTRASTIVE, CONTRASTIVE_SCALES, minutes={"small": 5, "full": 25}),
    )


STUDIES = (
    Table(
        name="coloring",
        title="Graphs of up to 10 coloured cells from pictures",
        scales=scales(10, ()),
        metrics=("exact", "ged_with_edges"),
        rows=rows(TEN, {"small": (EPOCHS.format(6),)}),
    ),
    Table(
        name="coloring-20",
        title="Graphs of up to 20 coloured cells from pictures",
        scales=scales(20, ("output.max_nodes=20",)),
        metrics=("exact", "ged_with_edges"),
        rows=rows(TWENTY, {"small": (EPOCHS.format(6),)}),
    ),
)
