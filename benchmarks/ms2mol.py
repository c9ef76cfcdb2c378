"""Retrieval and de novo prediction of molecules from spectra, by a run of `ms2mol` or by a rival on the same split.

    python benchmarks/ms2mol.py RUN [--name NAME] [--rival NAME | --oracle] [--split SPLIT] [--output FILE]
    python benchmarks/ms2mol.py RUN --de-novo N [--formula] [--oracle] [--output FILE]
    python benchmarks/ms2mol.py RUN --picture FILE.svg

Retrieval ranks the different molecules of the file, the held-out ones among them: all of them, those within 10 ppm of
the mass that follows from the precursor, and those of the same formula. De novo prediction searches all molecules of
the space from the training molecules, for the first N held-out spectra: those within 10 ppm of that mass, or with
--formula those of the right formula.
"""

import argparse
import datetime
import json
import os
import platform
import shlex
import sys
import time
from pathlib import Path

import torch

from ele_core.runs.run import Run, context_for
from ele_core.runtime.distributed import Processes
from ele_core.runtime.monitor import ConsoleMonitor
from ele_core.types import Candidates as Known
from ele_graphs.ms2mol.retrieval import Candidates, at_random, de_novo, drawn, measured
from ele_graphs.ms2mol.rivals import FingerprintNetwork, ModifiedCosine

RIVALS = {"modified-cosine": ModifiedCosine(), "fingerprints": FingerprintNetwork(), "random": None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="a finished run of ms2mol, which also says the data of a rival")
    parser.add_argument("--name", default="", help="what to call the row in tables")
    parser.add_argument("--rival", choices=RIVALS, help="measure a rival instead of the run")
    parser.add_argument("--oracle", action="store_true", help="decode from the embeddings of the truths")
    parser.add_argument("--part", help="use only this part of a stacked regressor: network or kernel")
    parser.add_argument("--split", default="test", choices=("validation", "test"))
    parser.add_argument("--de-novo", type=int, metavar="N", help="search for N spectra instead of ranking candidates")
    parser.add_argument("--formula", action="store_true", help="de novo with the formula of the molecule given")
    parser.add_argument("--picture", type=Path, help="draw a spectrum with the true and the predicted molecule")
    parser.add_argument("--output", type=Path, help="write the result as JSON")
    options = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)))
    run = Run(options.run)
    context = context_for(run.config, ConsoleMonitor(), Processes())
    prepared = run.data(context)
    rows = getattr(prepared.data, options.split)
    started = time.monotonic()
    if options.picture:
        options.picture.write_text(picture(run, prepared, rows[:4], context), "utf-8")
        return
    found = (
        de_novo_of(run, prepared, rows, options, context)
        if options.de_novo
        else ranked(run, prepared, rows, options, context)
    )
    result = {
        "name": options.name or options.rival or "ELE",
        "command": shlex.join(["python", "benchmarks/ms2mol.py", *sys.argv[1:]]),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seed": run.config.seed,
        "split": options.split,
        "oracle": options.oracle,
        "rival": None if not options.rival or RIVALS[options.rival] is None else RIVALS[options.rival].settings,
        "source": prepared.data.source,
        "fingerprint": prepared.data.fingerprint,
        "sizes": {name: len(getattr(prepared.data, name)) for name in ("train", "validation", "test")},
        **found,
        "seconds": round(time.monotonic() - started, 1),
        "machine": {"processor": platform.machine(), "cores": os.cpu_count(), "threads": torch.get_num_threads()},
        "config": run.config.model_dump(mode="json"),
    }
    print(json.dumps({name: result[name] for name in (*found, "seconds")}, indent=2))
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")


def picture(run, prepared, rows, context) -> str:
    """A drawing of spectra with their true and predicted molecules; the formula is given to the search."""
    space, model = prepared.space, run.model()
    true = prepared.data.outputs[rows]
    queries = model.regressor.predict(prepared.packed[rows])
    best = model.decode(queries, constraints=space.rules.of(true, ["formula"]), context=context).best
    return drawn(prepared.data.inputs_at(rows), space.unpack(true), space.unpack(best))


def ranked(run, prepared, rows, options, context) -> dict:
    """Retrieval: the share of truths among the first candidates, for each set of candidates."""
    space, data = prepared.space, prepared.data
    candidates = Candidates.of(data, space)
    truth, sets = candidates.place[rows], candidates.sets(data, rows, space)
    sizes = {
        name: {"mean": s.sum(1).float().mean().item(), "median": s.sum(1).median().item()} for name, s in sets.items()
    }
    common = {"kind": "retrieval", "spectra": len(rows), "molecules": len(truth.unique()), "candidates": sizes}
    if options.rival == "random":
        return {**common, "metrics": rounded(at_random(truth, sets))}
    if options.rival:
        scores = RIVALS[options.rival].scores(prepared, rows, candidates, context)
    else:
        model = model_of(run, options.part)
        queries = (
            model.surrogate.embed(candidates.batch[truth])
            if options.oracle
            else model.regressor.predict(prepared.packed[rows])
        )
        known = Known(candidates.batch, model.surrogate.embed(candidates.batch))
        scores = -model.surrogate.energy(queries).among(known)
        error = model.surrogate.energy(queries).of(candidates.batch[truth]).mean().item()
        common["regression_error"] = round(error, 6)
    return {**common, "metrics": rounded(measured(scores, truth, sets))}


def rounded(found):
    """The same numbers with six digits."""
    return {name: {key: round(value, 6) for key, value in own.items()} for name, own in found.items()}


def model_of(run, part):
    """The model of a run, with only one part of its stacked regressor if it is named."""
    model = run.model()
    if part:
        model.regressor = model.regressor.parts[part]
    return model


def masses_of(prepared, rows):
    """The mass that follows from the precursor and the adduct of each spectrum, as a constraint."""
    return [prepared.space.rules.Constraint(mass=each.neutral_mass) for each in prepared.data.inputs_at(rows)]


def de_novo_of(run, prepared, rows, options, context) -> dict:
    """De novo prediction: exact, Tanimoto similarity and edit distance, for the first spectra."""
    rows, space, model = rows[: options.de_novo], prepared.space, run.model()
    true = prepared.data.outputs[rows]
    queries = model.surrogate.embed(true) if options.oracle else model.regressor.predict(prepared.packed[rows])
    constraints = space.rules.of(true, ["formula"]) if options.formula else masses_of(prepared, rows)
    found = model.decode(queries, constraints=constraints, context=context)
    best = found.best
    start = time.monotonic()
    metrics = de_novo(space, best, true)
    return {
        "kind": "de novo",
        "formula": options.formula,
        "spectra": len(rows),
        "decoder": run.config.decoder.model_dump(mode="json"),
        "metrics": {name: round(value, 6) for name, value in metrics.items()},
        "found": int(found.energies[:, 0].isfinite().sum()),
        "seconds_measuring": round(time.monotonic() - start, 1),
    }


if __name__ == "__main__":
    main()
