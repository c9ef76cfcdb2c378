"""Make the model of a package in this folder, with its card, from a finished run.

    ele train smi2mol --set calibration.pairs=2000 --set decoder.effort=0 -o run
    python models/make.py run models/smi2mol

Of the training structures, which are the candidates that search starts from, some are kept. The model is saved in its
compact form, loaded again and measured on the test pairs of the run: `card.md` of the package becomes its README with
the result.
"""

import argparse
import dataclasses
import datetime
from pathlib import Path

import torch

from ele_core import Context, Run
from ele_core.model.evaluate import COPYING, baselines, evaluate
from ele_core.model.files import save_model
from ele_core.model.train import calibrated
from ele_core.runs.run import open_model
from ele_core.runtime.monitor import ConsoleMonitor
from ele_core.types import Candidates

CANDIDATES = 10_000
DECODING = ("decoder.effort=0", "calibration.structures=5")
"""Less effort than the tasks' own: an answer comes in a fraction of the time."""
SURE = 0.95


def main() -> None:
    """Make the model, measure it, and write its card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="a finished run")
    parser.add_argument("package", type=Path, help="the folder of the package")
    parser.add_argument("--candidates", type=int, default=CANDIDATES, help="training structures to keep")
    parser.add_argument("--limit", type=int, help="measure on so many test pairs only")
    asked = parser.parse_args()
    run, (folder,) = Run(asked.run), asked.package.glob("ele_model_*/model")
    context = Context(seed=run.config.seed, monitor=ConsoleMonitor())
    make(run, folder, asked.candidates, context)
    card = measured(run, folder, (asked.package / "card.md").read_text("utf-8"), asked.limit, context)
    (asked.package / "README.md").write_text(card, "utf-8")
    print(card)


def make(run: Run, folder: Path, candidates: int, context: Context) -> None:
    """Keep so many candidates, calibrate, and save."""
    model, prepared = run.model(DECODING), run.data(context)
    assert model.candidates is not None
    order = torch.randperm(len(model.candidates), generator=context.generator("shipped model"))
    rows = order[:candidates].sort().values
    kept = Candidates(model.candidates.batch[rows], model.candidates.embeddings[rows])
    small = calibrated(dataclasses.replace(model, candidates=kept), prepared, "calibration", context)
    save_model(small, folder, compact=True)


def measured(run: Run, folder: Path, card: str, limit: int | None, context: Context) -> str:
    """Load what was saved, measure it on the test pairs, and write the result into the text of its card."""
    shipped, prepared = open_model(folder).model(), run.data(context)
    rows, truths = prepared.examples("test", limit)
    found = evaluate(shipped, prepared.data.inputs_at(rows), truths, context=context)
    copied = baselines(prepared, rows, truths, context)[COPYING]
    assert found.trust is not None
    assert shipped.candidates is not None
    sure = found.trust.confidence >= SURE
    return card.format(
        training=len(prepared.data.train),
        seed=run.config.seed,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        candidates=len(shipped.candidates),
        examples=len(truths),
        metrics=found.metrics,
        exact=100 * found.metrics["exact"],
        copied=copied,
        sure=int(sure.sum()),
        wrong=int((found.values["exact"][sure] < 1).sum()),
        size=sum(file.stat().st_size for file in folder.iterdir()) / 1e6,
    )


if __name__ == "__main__":
    main()
