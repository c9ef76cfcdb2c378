"""Make the small model of this package, with its card, from a finished run.

    ele train smi2mol --set task.size=60000 --set task.test=500 --set surrogate=parts --set surrogate.dim=384 \
        --set regressor.backbone.layers=1 --set regressor.backbone.embedding=64 --set regressor.training.epochs=11 \
        --set regressor.training.weight_decay=0.001 -o run
    python models/smi2mol/make.py run

Of the training molecules, which are the candidates that search starts from, 2,000 are kept. The test molecules of the
run are predicted with these; the card says the result.
"""

import argparse
import dataclasses
import datetime
from pathlib import Path

import torch

from ele_core import Context, Run
from ele_core.model.evaluate import COPYING, baselines, evaluate
from ele_core.model.files import save_model
from ele_core.runtime.monitor import ConsoleMonitor
from ele_core.types import Candidates

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "ele_model_smi2mol" / "model"
CANDIDATES = 2000
CARD = """# smi2mol-small

A small trained model of [ELE](../../README.md): from a SMILES string to its molecule, as a graph of atoms and bonds.

```console
$ pip install ./models/smi2mol
$ echo 'CC(=O)OC' | ele predict smi2mol-small -
$ ele try smi2mol-small
```

- **Data.** {training:,} molecules of QM9 (up to nine atoms of C, N, O and F, no charges), from the package `qm9pack`;
  QM9 is published by its authors (Ramakrishnan et al., 2014) for free use. No test molecule is in the training.
- **Training.** Seed {seed}; `ele train smi2mol` with the options in `make.py`, one thread; made on {date}. Candidates:
  {candidates:,} of the training molecules.
- **Result.** On {examples:,} test molecules, decoded by `search`: {exact:.1f} % exact, mean graph edit distance
  {distance:.3f}. For comparison, copying the molecule of the nearest training SMILES: {copied:.3f}.
- **Limits.** A demonstration: RDKit parses SMILES exactly. It knows canonical SMILES of molecules like those of QM9;
  others get an answer too, which is often wrong. Stereo is not predicted. The best
  model of this project, too large to ship, has 98.6 % exact (docs/results).
- **Licence.** MIT, as ELE. {size:.1f} MB, no pickle.
"""


def main() -> None:
    """Keep a part of the candidates, measure, and write the model and its card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="a finished run of smi2mol")
    run = Run(parser.parse_args().run)
    context = Context(seed=run.config.seed, monitor=ConsoleMonitor())
    model, prepared = run.model(), run.data(context)
    assert model.candidates is not None
    order = torch.randperm(len(model.candidates), generator=context.generator("small model"))
    rows = order[:CANDIDATES].sort().values
    kept = Candidates(model.candidates.batch[rows], model.candidates.embeddings[rows])
    small = dataclasses.replace(model, candidates=kept)
    test = prepared.data.test
    found = evaluate(small, prepared.data.inputs_at(test), prepared.data.outputs[test], context=context)
    copied = baselines(prepared, test, context)[COPYING]
    save_model(small, FOLDER)
    card = CARD.format(
        training=len(prepared.data.train),
        seed=run.config.seed,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        candidates=len(kept),
        examples=len(test),
        exact=100 * found.metrics["exact"],
        distance=found.metrics["ged_with_edges"],
        copied=copied["ged_with_edges"],
        size=sum(file.stat().st_size for file in FOLDER.iterdir()) / 1e6,
    )
    (HERE / "README.md").write_text(card, "utf-8")
    print(card)


if __name__ == "__main__":
    main()
