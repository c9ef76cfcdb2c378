"""Retrieval: the rank of the true molecule among all candidates or those of its mass or formula, and pictures of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ele_core import DataSet
from ele_graphs.graphs.batch import Graphs
from ele_graphs.molecules.constraints import MoleculeRules
from ele_graphs.molecules.molecule import Molecule
from ele_graphs.molecules.space import MoleculeSpace
from ele_graphs.ms2mol.spectrum import Spectrum

RADIUS, BITS = 2, 2048
"""The Morgan fingerprints by which molecules are compared."""
WITHIN, PPM = "10 ppm", 10.0
TOP = (1, 5, 20)


@dataclass(frozen=True, eq=False)
class Candidates:
    """The different molecules of a data set, and which of them each query may choose from."""

    batch: Graphs
    fingerprints: Tensor
    """(N, 2048) floats, 0 or 1."""
    place: Tensor
    """(pairs,) int64: the candidate that is the output of each pair of the data set."""

    @classmethod
    def of(cls, data: DataSet, space: MoleculeSpace) -> Candidates:
        """All molecules of a data set, the held-out ones too, each once."""
        outputs = data.outputs[:]
        _, place = space.keys(outputs).unique(dim=0, return_inverse=True)
        first = torch.full((int(place.max()) + 1,), len(outputs)).scatter_reduce_(
            0, place, torch.arange(len(outputs)), "amin"
        )
        batch = outputs[first]
        return cls(batch, fingerprints(batch, space), place)

    def sets(self, data: DataSet, rows: Tensor, space: MoleculeSpace) -> dict[str, Tensor]:
        """(B, N) bool for each set of candidates, by its name: all, those within 10 ppm, those of the same formula."""
        known: list[Any] = MoleculeRules(space).of(self.batch, ["formula", "mass"])
        masses = torch.tensor([each.mass for each in known], dtype=torch.float64)
        wanted = torch.tensor([data.inputs[row].neutral_mass for row in rows.tolist()], dtype=torch.float64)
        formulas = {formula: place for place, formula in enumerate(dict.fromkeys(each.formula for each in known))}
        formula = torch.tensor([formulas[each.formula] for each in known])
        return {
            "all": torch.ones(len(rows), len(self.batch), dtype=torch.bool),
            WITHIN: (masses - wanted[:, None]).abs() <= PPM * 1e-6 * wanted[:, None],
            "same formula": formula == formula[self.place[rows]][:, None],
        }


def fingerprints(batch: Graphs, space: MoleculeSpace) -> Tensor:
    """The Morgan fingerprints (B, 2048) of molecules, as 0 and 1; all 0 for one that is not valid."""
    from ele_graphs.molecules.rdkit_adapter import morgan

    found = torch.zeros(len(batch), BITS)
    for row, molecule in enumerate(space.unpack(batch)):
        if molecule.smiles is not None:
            found[row, list(morgan(molecule.smiles, RADIUS, BITS))] = 1
    return found


def tanimoto(one: Tensor, other: Tensor) -> Tensor:
    """The Tanimoto similarity of every row of two sets of fingerprints: (A, bits), (B, bits) → (A, B)."""
    shared = one @ other.T
    return shared / (one.sum(dim=1, keepdim=True) + other.sum(dim=1) - shared).clamp(min=1)


def ranks(scores: Tensor, truth: Tensor, allowed: Tensor) -> Tensor:
    """(B,) floats: how many allowed candidates come before the truth, ties by half; infinite if it is not allowed."""
    own = scores.gather(1, truth[:, None])
    better = ((scores > own) & allowed).sum(dim=1)
    equal = ((scores == own) & allowed).sum(dim=1) - 1
    return torch.where(allowed.gather(1, truth[:, None])[:, 0], better + equal / 2, torch.inf)


def measured(scores: Tensor, truth: Tensor, sets: Mapping[str, Tensor]) -> dict[str, dict[str, float]]:
    """For each set of candidates: the share of truths among the first 1, 5 and 20, and those with several candidates.

    `top_1_of_several` is the share of truths that come first where there are two candidates or more.
    """
    found = {}
    for name, allowed in sets.items():
        rank, several = ranks(scores, truth, allowed), allowed.sum(dim=1) > 1
        shares = {f"top_{top}": (rank < top).float().mean().item() for top in TOP}
        own = (rank[several] < 1).float().mean().item() if several.any() else 0.0
        found[name] = {**shares, "top_1_of_several": own, "several": int(several.sum())}
    return found


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


def de_novo(space: MoleculeSpace, predicted: Graphs, true: Graphs) -> dict[str, float]:
    """The share of exact predictions, the mean Tanimoto similarity to the truth, and the mean edit distance."""
    similar = tanimoto(fingerprints(predicted, space), fingerprints(true, space)).diagonal()
    values = {metric.name: metric.values(predicted, true).mean().item() for metric in space.metrics}
    return {**values, "tanimoto": similar.mean().item(), "examples": float(len(true))}


WIDTH, HEIGHT, MARGIN = 420, 180, 34
MOLECULE = (220, 180)
STYLE = 'font-family="sans-serif" font-size="11" fill="currentColor"'


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
