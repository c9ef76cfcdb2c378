"""The contribution of each part of `pgd`: the default with one part removed at a time, and with all removed.

    python benchmarks/pgd.py RUN [--limit N] [--split NAME] [--variant NAME …] [--output FILE]

Every variant decodes the same queries of RUN, by default those of the validation pairs, so that the test pairs are not
used. Each result is appended to FILE at once; a variant that FILE already has for as many pairs of the same model is
skipped.
"""

import argparse
import dataclasses
import datetime
import hashlib
import json
import math
import os
import platform
import time
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from ele_core.components.decoders import gradient
from ele_core.components.decoders.gradient import Descent, GradientDecoder, Walk
from ele_core.files.atomic import write_text
from ele_core.model.metrics import measure
from ele_core.runs.run import Run
from ele_core.runtime.context import Context
from ele_core.runtime.device import pick_device
from ele_core.runtime.monitor import ConsoleMonitor
from ele_core.types import Problem


class ConstantStep(Descent):
    """Descents that keep the size of their first step and their momentum, however the loss changes."""

    def _step(self, owner: Tensor, walk: Walk) -> Walk:
        """Take a step without the previous loss and with the size as its own limit, so that the size never changes."""
        unmoved = dataclasses.replace(walk, limit=walk.size, energy=torch.full_like(walk.energy, math.inf))
        return super()._step(owner, unmoved)


@dataclasses.dataclass(frozen=True)
class Variant:
    """Options of `pgd` that differ from the defaults, and the class that replaces `Descent`."""

    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    descent: type[Descent] = Descent


LAST = {"answer": "last", "tolerance": 0.0}
"""The last point is the answer. Tolerance 0: a descent that stopped at a good structure would answer with it."""
PLAIN = {"starts": 1, "momentum": 0.0, **LAST}
VARIANTS = {
    "default": Variant(),
    "one start": Variant({"starts": 1}),
    "no momentum": Variant({"momentum": 0.0}),
    "constant step": Variant(descent=ConstantStep),
    "random starts": Variant({"start": "random"}),
    "last point": Variant(LAST),
    "plain from the best candidate": Variant(PLAIN, ConstantStep),
    "plain": Variant({"start": "random", **PLAIN}, ConstantStep),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="a finished run whose surrogate has a gradient")
    parser.add_argument("--limit", type=int, help="only the first N pairs")
    parser.add_argument("--split", choices=["validation", "test"], default="validation", help="default: validation")
    parser.add_argument("--variant", action="append", choices=list(VARIANTS), help="only this one; may be repeated")
    parser.add_argument("--output", type=Path, help="JSON file of the results")
    options = parser.parse_args()
    bench = Bench(Run(options.run), options.split, options.limit)
    for name in dict.fromkeys(options.variant or VARIANTS):
        settings = bench.settings(name)
        if any(settings == {key: result.get(key) for key in settings} for result in known(options.output)):
            continue
        result = bench.measured(name)
        print(json.dumps(result))
        if options.output:
            write_text(options.output, json.dumps([*known(options.output), result], indent=2) + "\n")


class Bench:
    """The queries and truths of a split, loaded once."""

    def __init__(self, run: Run, split: str, limit: int | None) -> None:
        self.run = run
        self.split = split
        self.limit = limit
        self.model = run.model()
        self.context = Context(run.config.seed, pick_device(self.model.config.device), ConsoleMonitor())
        data = run.data(self.context).data
        rows = getattr(data, split)[:limit]
        self.queries = self.model.queries(data.inputs_at(rows))
        self.truths = data.outputs[rows]

    def settings(self, name: str) -> dict[str, Any]:
        """Everything that the result of a variant depends on."""
        weights = (self.run.folder / "model" / "model.safetensors").read_bytes()
        return {
            "variant": name,
            "options": GradientDecoder.Config(**VARIANTS[name].options).model_dump(mode="json"),
            "split": self.split,
            "pairs": len(self.truths),
            "seed": self.run.config.seed,
            "model": hashlib.sha256(weights).hexdigest(),
        }

    def measured(self, name: str) -> dict[str, Any]:
        """Decode by one variant and measure; the seconds are those of decoding alone."""
        self.context.monitor.message(name)
        variant = VARIANTS[name]
        decoder = GradientDecoder(GradientDecoder.Config(**variant.options))
        problem = Problem(self.model.space, self.model.candidates)
        started = time.monotonic()
        with mock.patch.object(gradient, "Descent", variant.descent):
            found = decoder.decode(self.model.regressor.energy(self.queries), problem, context=self.context)
        seconds = time.monotonic() - started
        values = measure(self.model, found.best, self.truths, self.context)
        limit = f" --limit {self.limit}" if self.limit else ""
        return {
            "command": f"python benchmarks/pgd.py {self.run.folder} --split {self.split}{limit} --variant '{name}'",
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "task": self.run.config.task.name if self.run.config.task else None,
            **self.settings(name),
            "surrogate": self.model.surrogate.config.model_dump(mode="json"),
            "metrics": {key: round(value.float().mean().item(), 6) for key, value in values.items()},
            "energy": round(found.energies[:, 0].mean().item(), 6),
            "seconds": round(seconds, 2),
            "machine": {"processor": platform.machine(), "cores": os.cpu_count(), "threads": torch.get_num_threads()},
        }


def known(file: Path | None) -> list[dict[str, Any]]:
    """The results recorded so far."""
    return json.loads(file.read_text("utf-8")) if file and file.exists() else []


if __name__ == "__main__":
    main()
