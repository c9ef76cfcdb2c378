"""A picture of spectra, each with the true molecule and the predicted one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ele_graphs.molecules.molecule import Molecule
from ele_graphs.ms2mol.spectrum import Spectrum

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
