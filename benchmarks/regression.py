"""The effect of changes of the regression, one at a time, on the embedding that a run has learned.

    python benchmarks/regression.py RUN [--epochs N] [--variant NAME …] [--output FILE]

For each variant the regressor of RUN is trained from scratch on the same frozen embeddings and evaluated on the
validation pairs: its squared error, and the metrics after `search`. The test pairs are not used. Each result is
appended to FILE at once; a variant that FILE already has with the same number of epochs is skipped.
"""

import argparse
import datetime
import json
import os
import platform
import time
from pathlib import Path

import torch

from ele_core import TrainingData
from ele_core import config as configuration
from ele_core.data.prepare import prepare
from ele_core.files.archive import MANIFEST, digest
from ele_core.files.atomic import write_text
from ele_core.model.evaluate import evaluate
from ele_core.model.model import Model
from ele_core.runs.run import Run
from ele_core.runtime.context import Context
from ele_core.runtime.monitor import ConsoleMonitor
from ele_core.types import Pairs

TRAINING = "regressor.training"
VARIANTS = {
    "as it is": [],
    "weights averaged": [f"{TRAINING}.average=0.995"],
    "learning rate doubled": [f"{TRAINING}.learning_rate=0.004"],
    "half the batch": [f"{TRAINING}.batch_size=64"],
    "constant learning rate": [f"{TRAINING}.schedule=constant"],
    "wider": ["regressor.backbone.width=384"],
    "three layers": ["regressor.backbone.layers=3"],
    "weight decay": [f"{TRAINING}.weight_decay=0.01"],
    "half of the SMILES rewritten": ["input.name=smiles", "input.rewrite=0.5"],
}
"""Name → overrides of the run's own configuration."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="a finished run, whose surrogate is used")
    parser.add_argument("--epochs", type=float, default=1.0, help="passes over the training pairs (default 1)")
    parser.add_argument("--variant", action="append", choices=list(VARIANTS), help="only this one; may be repeated")
    parser.add_argument("--output", type=Path, help="JSON file of the results")
    options = parser.parse_args()
    for name in options.variant or VARIANTS:
        done = known(options.output)
        same = {"variant": name, "epochs": options.epochs, "model": digest(Path(options.run) / "model" / MANIFEST)}
        if any(same == {key: result.get(key) for key in same} for result in done):
            continue
        result = measured(Run(options.run), name, options.epochs)
        print(json.dumps(result))
        if options.output:
            write_text(options.output, json.dumps([*known(options.output), result], indent=2) + "\n")


def measured(run: Run, name: str, epochs: float) -> dict[str, object]:
    """Train one variant and evaluate it on the validation pairs."""
    overrides = [f"{TRAINING}.epochs={epochs}", *VARIANTS[name]]
    config = configuration.load(run.folder / "config.toml", overrides)
    context = Context(config.seed, monitor=ConsoleMonitor())
    context.monitor.message(f"{name}: {' '.join(overrides)}")
    prepared = prepare(config, context)
    data = prepared.data
    model = Model.build(prepared.config, prepared.space, prepared.inputs, context.derived_seed("weights"))
    trained = run.model()
    model.surrogate.restore(trained.surrogate.state())
    model.candidates = trained.candidates
    started = time.monotonic()
    train, validation = data.train, data.validation
    pairs = [(prepared.packed[rows], data.outputs[rows]) for rows in (train, validation)]
    model.regressor.fit(TrainingData(model.inputs, Pairs(*pairs[0]), Pairs(*pairs[1])), context)
    seconds = time.monotonic() - started
    found = evaluate(model, data.inputs_at(validation), data.outputs[validation], context=context)
    return {
        "command": f"python benchmarks/regression.py RUN --epochs {epochs:g} --variant '{name}'",
        "variant": name,
        "overrides": overrides,
        "epochs": epochs,
        "model": digest(run.folder / "model" / MANIFEST),
        "seed": config.seed,
        "split": "validation",
        "metrics": {key: round(value, 6) for key, value in found.metrics.items()},
        "training_seconds": round(seconds, 1),
        "machine": {
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
        },
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def known(file: Path | None) -> list[dict[str, object]]:
    """The results recorded so far."""
    return json.loads(file.read_text("utf-8")) if file and file.exists() else []


if __name__ == "__main__":
    main()
