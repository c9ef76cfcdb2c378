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
import re
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from ele_core.runs.run import Run, context_for
from ele_core.runtime.distributed import Processes
from ele_core.runtime.monitor import ConsoleMonitor
from ele_core.types import Candidates as Known
from ele_graphs.graphs.batch import Graphs
from ele_graphs.molecules.molecule import Molecule
from ele_graphs.molecules.space import MoleculeSpace
from ele_graphs.ms2mol.retrieval import TOP, Candidates, fingerprints, measured, tanimoto
from ele_graphs.ms2mol.rivals import FingerprintNetwork, ModifiedCosine
from ele_graphs.ms2mol.spectrum import Spectrum

RIVALS = {"modified-cosine": ModifiedCosine(), "fingerprints": FingerprintNetwork(), "random": None}
WIDTH, HEIGHT, MARGIN = 420, 180, 34
MOLECULE = (220, 180)
STYLE = 'font-family="sans-serif" font-size="11" fill="currentColor"'


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


def spectrum_svg(spectrum: Spectrum) -> str:
    """The peaks of a spectrum as vertical lines over m/z, the precursor dashed: the inside of an SVG, 420 × 180."""
    end = 1.05 * max(spectrum.precursor, float(spectrum.peaks[-1, 0]))
    bottom, top = HEIGHT - MARGIN, 16

    def across(mz: float) -> float:
        return round(10 + (WIDTH - 20) * mz / end, 1)

    lines = [f'<path d="M10 {bottom}H{WIDTH - 10}" stroke="currentColor"/>']
    place = across(spectrum.precursor)
    lines.append(f'<path d="M{place} {bottom}V{top}" stroke="#c33" stroke-dasharray="3 3"/>')
    for mz, height in spectrum.peaks.tolist():
        lines.append(f'<path d="M{across(mz)} {bottom}V{round(bottom - (bottom - top) * height, 1)}" stroke="#36c"/>')
    step = next(size for size in (10, 20, 50, 100, 200, 500, 1000) if end / size <= 9)
    for mz in range(0, int(end) + 1, step):
        lines.append(f'<text x="{across(mz)}" y="{bottom + 14}" text-anchor="middle" {STYLE}>{mz}</text>')
    label = f"m/z; precursor {spectrum.precursor:.4f}, {spectrum.adduct.name}"
    lines.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 4}" text-anchor="middle" {STYLE}>{label}</text>')
    return "".join(lines)


def drawn(spectra: Sequence[Spectrum], truths: Sequence[Molecule], predictions: Sequence[Molecule]) -> str:
    """An SVG with a row for each spectrum: it, the true molecule, and the predicted one, with what differs marked."""
    parts = []
    for number, (spectrum, truth, found) in enumerate(zip(spectra, truths, predictions, strict=True)):
        pictures = (spectrum_svg(spectrum), truth.to_svg(), found.to_svg(truth))
        for place, picture in zip((0, WIDTH, WIDTH + MOLECULE[0]), pictures, strict=True):
            parts.append(f'<g transform="translate({place} {30 + number * (HEIGHT + 10)})">{_inside(picture)}</g>')
    titles = zip(
        ("spectrum", "truth", "prediction, formula given"), (10, WIDTH + 70, WIDTH + MOLECULE[0] + 40), strict=True
    )
    head = "".join(f'<text x="{x}" y="18" {STYLE}>{title}</text>' for title, x in titles)
    size = f'width="{WIDTH + 2 * MOLECULE[0]}" height="{30 + len(spectra) * (HEIGHT + 10)}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{head}{"".join(parts)}</svg>\n'


def _inside(svg: str) -> str:
    """The elements of an SVG without its outermost tag."""
    return re.sub(r"^\s*(<\?xml[^>]*>)?\s*<svg[^>]*>|</svg>\s*$", "", svg)


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


def at_random(truth: Tensor, sets: Mapping[str, Tensor]) -> dict[str, dict[str, float]]:
    """What candidates in random order would give, in expectation."""
    found = {}
    for name, allowed in sets.items():
        there, count = allowed.gather(1, truth[:, None])[:, 0].float(), allowed.sum(dim=1).clamp(min=1)
        shares = {f"top_{top}": (there * (top / count).clamp(max=1)).mean().item() for top in TOP}
        several = count > 1
        own = (there / count)[several].mean().item() if several.any() else 0.0
        found[name] = {**shares, "top_1_of_several": own, "several": int(several.sum())}
    return found


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


def de_novo(space: MoleculeSpace, predicted: Graphs, true: Graphs) -> dict[str, float]:
    """The share of exact predictions, the mean Tanimoto similarity to the truth, and the mean edit distance."""
    similar = tanimoto(fingerprints(predicted, space), fingerprints(true, space)).diagonal()
    values = {metric.name: metric.values(predicted, true).mean().item() for metric in space.metrics}
    return {**values, "tanimoto": similar.mean().item(), "examples": float(len(true))}


if __name__ == "__main__":
    main()
