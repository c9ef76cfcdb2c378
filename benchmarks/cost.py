"""The processor time and the memory of each stage by the number of outputs.

    python benchmarks/cost.py [--sizes N …] [--output FILE] [--plot FILE]

The outputs are molecules of QM9 in a random order; beyond their number they are repeated, and all but the first copies
are edited at random, as views are. The stages:

- reading: a CSV of SMILES and molecules, as `ele train` reads it
- embedding: every output, with the surrogate of the model `smi2mol` that ships with ELE
- contrastive: an epoch of the training of such a surrogate, by 8 steps and the mining of their batches
- regression: an epoch of the training of such a regressor, by 8 steps
- candidates, search: 200 and 50 inputs, decoded with all outputs as candidates

Each measurement is a process of its own with one thread, forked from one that has loaded the model (Linux). Memory is
the peak beyond what that takes; that of regression includes the embedding of its targets. The exponent k of
cost ~ outputs^k is the slope of a line through the logarithms. With --output, what the file has of other sizes is kept.
"""

import csv
import json
import math
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import cycle, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from common import machine, parser_of, show, slope, today

from ele_core import Context
from ele_core import config as configuration
from ele_core.data.batches import steps_per_epoch
from ele_core.data.prepare import prepare
from ele_core.files.archive import read_tensors, save_tensors
from ele_core.model.model import Model
from ele_core.runs.run import open_model
from ele_core.runtime.monitor import Monitor
from ele_core.types import Candidates, Choice, Pairs, TrainingData
from ele_graphs.molecules.sources import qm9

MODEL = Path(__file__).parents[1] / "models" / "smi2mol" / "ele_model_smi2mol" / "model"
SIZES = (10_000, 30_000, 130_000, 1_000_000)
QUERIES = {"candidates": 200, "search": 50}
STEPS = {"contrastive": 8, "regression": 8}
VALIDATION = 500
TABLE, HELD_OUT, OUTPUTS = "pairs.csv", "held-out.txt", "outputs.safetensors"
INPUTS, EMBEDDINGS = "inputs.safetensors", "embeddings.safetensors"


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of outputs")
    parser.add_argument("--plot", type=Path, help="draw the result as SVG (needs matplotlib)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    kept = options.output is not None and options.output.exists()
    results = json.loads(options.output.read_text("utf-8"))["results"] if kept else []
    results = [each for each in results if each["outputs"] not in options.sizes]
    model = open_model(MODEL).model()
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as name:
            write(Path(name), size)
            for stage in STAGES:
                with ProcessPoolExecutor(1, get_context("fork")) as process:
                    cost = process.submit(measured, stage, model, Path(name)).result()
                results.append({"stage": stage, "outputs": size, **cost})
                show(record(results), options.output)  # what was measured is kept if a later measurement is stopped
    if options.plot:
        plot(record(results)["results"], options.plot)


def record(results: list[dict[str, Any]]) -> dict[str, Any]:
    """The results with the exponents, and what is needed to get them again."""
    sizes = sorted({each["outputs"] for each in results})
    return {
        "command": f"python benchmarks/cost.py --sizes {' '.join(map(str, sizes))}",
        "date": today(),
        "seed": 0,
        "queries": QUERIES,
        "steps": STEPS,
        "exponents": [
            {"stage": stage, **{name: exponent(results, stage, name) for name in ("cpu_seconds", "megabytes")}}
            for stage in STAGES
        ],
        "results": sorted(results, key=lambda each: (list(STAGES).index(each["stage"]), each["outputs"])),
        "machine": machine(1),
    }


def exponent(results: list[dict[str, Any]], stage: str, name: str) -> float | None:
    """The exponent of a cost of a stage; None if it was measured at one size only."""
    points = [(each["outputs"], max(each[name], 0.01)) for each in results if each["stage"] == stage]
    return round(slope(points), 2) if len(points) > 1 else None


def write(folder: Path, size: int) -> None:
    """Write a CSV of so many pairs of a SMILES and a molecule, and a file of SMILES that are not in it."""
    texts = list(qm9().texts())
    order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(0)).tolist()
    few = max(QUERIES.values())
    (folder / HELD_OUT).write_text("".join(f"{texts[row]}\n" for row in order[:few]), encoding="utf-8")
    with (folder / TABLE).open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["smiles", "molecule"])
        writer.writerows((texts[row], texts[row]) for row in islice(cycle(order[few:]), size))


# -- stages, each in a process of its own -------------------------------------------------------------------------


def measured(stage: str, model: Model, folder: Path) -> dict[str, float]:
    """The processor time of a stage, and the peak of its memory."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    before = memory("VmRSS")
    seconds = STAGES[stage](model, folder)
    return {"cpu_seconds": round(seconds, 2), "megabytes": round(memory("VmHWM") - before)}


def memory(name: str) -> float:
    """The memory of this process, or its peak, in megabytes."""
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[name].split()[0]) / 1024


def reading(model: Model, folder: Path) -> float:
    """Read the pairs; afterwards keep them packed for the other stages."""
    given = {name: getattr(model.config, name).model_dump(mode="json") for name in ("output", "input")}
    started = time.process_time()
    prepared = prepare(configuration.load({**given, "seed": 0, "data": {"file": str(folder / TABLE)}}), Context(0))
    seconds = time.process_time() - started
    outputs, known = prepared.data.outputs, qm9().count - max(QUERIES.values())
    if len(outputs) > known:
        edited = model.space.augment(outputs[known:], torch.Generator().manual_seed(0))
        outputs = type(outputs).cat([outputs[:known], edited])
    save_tensors(folder / OUTPUTS, outputs.as_dict())
    save_tensors(folder / INPUTS, model.inputs.pack(prepared.data.inputs).as_dict())
    return seconds


def embedding(model: Model, folder: Path) -> float:
    """Embed the outputs; afterwards keep the embeddings for the decoders."""
    outputs = outputs_of(model, folder)
    started = time.process_time()
    embeddings = model.surrogate.embed(outputs)
    seconds = time.process_time() - started
    save_tensors(folder / EMBEDDINGS, {"embeddings": embeddings})
    return seconds


def contrastive(model: Model, folder: Path) -> float:
    """An epoch of the training of a surrogate, by a few steps and its share of pools of mined batches."""
    data, choice = training_data(model, folder), shortened(model, folder, "contrastive", model.config.surrogate)
    surrogate, clock = model.config.registry.create("surrogate", choice, model.space), Clock()
    surrogate.fit(data, Context(0, monitor=clock))
    steps = steps_of(choice, len(data.train.outputs))
    pools = math.ceil(steps / choice.options["mining"]["refresh"])
    return steps * clock.step_seconds + pools * (clock.first_seconds - clock.step_seconds)


def regression(model: Model, folder: Path) -> float:
    """An epoch of the training of a regressor, by a few steps."""
    data, choice = training_data(model, folder), shortened(model, folder, "regression", model.config.regressor)
    regressor, clock = model.config.registry.create("regressor", choice, model.inputs, model.surrogate), Clock()
    regressor.fit(data, Context(0, monitor=clock))
    return steps_of(choice, len(data.train.outputs)) * clock.step_seconds


def decoding(decoder: str, model: Model, folder: Path) -> float:
    """Decode held-out inputs with all outputs as candidates, after a first one, which compiles."""
    embeddings = read_tensors(folder / EMBEDDINGS)["embeddings"]
    candidates = Candidates(outputs_of(model, folder), embeddings, surrogate=model.surrogate)
    texts = (folder / HELD_OUT).read_text("utf-8").splitlines()[: QUERIES[decoder]]
    queries, choice = model.queries(texts), Choice(name=decoder)
    model.decode(queries[:1], choice, candidates=candidates, context=Context(0))
    started = time.process_time()
    model.decode(queries, choice, candidates=candidates, context=Context(0))
    return time.process_time() - started


STAGES: dict[str, Callable[[Model, Path], float]] = {
    "reading": reading,
    "embedding": embedding,
    "contrastive": contrastive,
    "regression": regression,
    "candidates": lambda model, folder: decoding("candidates", model, folder),
    "search": lambda model, folder: decoding("search", model, folder),
}


class Clock(Monitor):
    """The processor time at the start of a training and after each of its steps."""

    def __init__(self) -> None:
        self.times = [time.process_time()]

    def step(self, stage: str, step: int, loss: torch.Tensor) -> None:
        """Note the time."""
        self.times.append(time.process_time())

    @property
    def first_seconds(self) -> float:
        """The time of the first step, and of what comes before it."""
        return self.times[1] - self.times[0]

    @property
    def step_seconds(self) -> float:
        """The mean time of a step after the first."""
        return (self.times[-1] - self.times[1]) / (len(self.times) - 2)


def shortened(model: Model, folder: Path, stage: str, choice: Choice) -> Choice:
    """A component whose training has a few steps only."""
    options = choice.model_dump(mode="json")
    steps = steps_of(choice, len(outputs_of(model, folder)) - VALIDATION)
    return Choice(**{**options, "training": {**options["training"], "epochs": STEPS[stage] / steps, "evaluations": 1}})


def steps_of(choice: Choice, examples: int) -> int:
    """The steps of an epoch."""
    return steps_per_epoch(examples, choice.options["training"]["batch_size"])


def outputs_of(model: Model, folder: Path) -> Any:
    return model.space.Batch.from_dict(read_tensors(folder / OUTPUTS))


def training_data(model: Model, folder: Path) -> TrainingData:
    """The first outputs to validate on, the others to train on."""
    outputs = outputs_of(model, folder)
    inputs = type(model.inputs.pack(["C"])).from_dict(read_tensors(folder / INPUTS))
    held_out, own = (Pairs(inputs[rows], outputs[rows]) for rows in (slice(VALIDATION), slice(VALIDATION, None)))
    return TrainingData(model.inputs, own, held_out)


def plot(results: list[dict[str, Any]], file: Path) -> None:
    """Processor time and memory over the number of outputs, on logarithmic axes."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9, 4))
    labels = {"cpu_seconds": "seconds of processor time", "megabytes": "megabytes"}
    for axes, (name, label) in zip(panels, labels.items(), strict=True):
        for stage in STAGES:
            rows = [each for each in results if each["stage"] == stage]
            axes.loglog([each["outputs"] for each in rows], [max(each[name], 0.01) for each in rows], "o-", label=stage)
        axes.set_xlabel("outputs")
        axes.set_ylabel(label)
    panels[0].legend()
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})


if __name__ == "__main__":
    main()
