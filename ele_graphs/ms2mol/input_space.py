"""`spectrum`: tandem mass spectra as sets of peaks, with the m/z of the precursor and the adduct."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Generator, Tensor

from ele_core import ComponentConfig, InputSpace, SparseRows, Tensors
from ele_core.errors import InvalidInput, ModelError
from ele_core.numerics.keys import mix
from ele_graphs.ms2mol.spectrum import PLACES, Spectrum, as_spectrum

FILE = "spectrum.json"
PEAK, LOSS, PRECURSOR = 1, 2, 3
"""Added to the keys of features: an m/z and an equal neutral loss are different features."""
POWER = 0.3
"""The power of intensities in features: low peaks tell fragments too. Better on validation than the square root."""
PRECURSOR_BINS, PRECURSOR_SHARE = (10.0, 30.0, 90.0), 0.1
"""The widths in Da of the bins of the precursor, each also shifted by half, and the weight of each in products."""
HALVES = torch.tensor([0.0, 0.5])
OUTSIDE = 0.2
"""A precursor is unlike training if it is further outside of its range than this share of the range's end."""


@dataclass(frozen=True, eq=False)
class Spectra(Tensors):
    """Spectra; row i holds `counts[i]` peaks, at least one, and then padding, whose m/z and intensity are 0."""

    mz: Tensor
    """(B, P) float32."""
    intensity: Tensor
    """(B, P) float32, relative to the highest peak."""
    counts: Tensor
    """(B,) int32."""
    precursor: Tensor
    """(B,) float32: the m/z of the precursor."""
    adduct: Tensor
    """(B,) int16: the place among the known adducts."""

    def trimmed(self) -> Spectra:
        """The same spectra without the columns that are padding in every row."""
        most = int(self.counts.max()) if len(self) else 1
        return self.replace(mz=self.mz[:, :most], intensity=self.intensity[:, :most])

    @property
    def mask(self) -> Tensor:
        """(B, P) True at peaks, False at padding."""
        return torch.arange(self.mz.shape[1], device=self.device) < self.counts[:, None]

    @property
    def losses(self) -> Tensor:
        """(B, P): precursor − m/z of each peak."""
        return self.precursor[:, None] - self.mz


class SpectrumInput(InputSpace[Spectrum]):
    """Tandem mass spectra: a `Spectrum`, or its text `mz:intensity mz:intensity … | precursor=… adduct=…`."""

    class Config(ComponentConfig):
        """How many peaks are kept, and how spectra are varied in training."""

        max_peaks: int = Field(default=100, ge=1, le=4096)
        """Maximum number of peaks of a spectrum; the highest are kept."""
        drop: float = Field(default=0.0, ge=0, lt=1)
        """Share of peaks dropped at random in training; the highest is kept."""
        jitter: float = Field(default=0.0, ge=0, le=3)
        """The standard deviation of the logarithm of the factors by which intensities are varied in training."""
        width: float = Field(default=0.01, gt=0)
        """The width in Da of the bins of m/z and neutral loss that kernels and nearest spectra compare."""

    config: Config
    Batch: ClassVar[type[Tensors]] = Spectra

    def __init__(self, config: ComponentConfig | None = None) -> None:
        super().__init__(config)
        self._seen: tuple[float, float, list[str]] | None = None

    def parse(self, text: str) -> Spectrum:
        """Read a spectrum from its text."""
        return Spectrum.parse(text)

    def format(self, value: Spectrum | str) -> str:
        """Write a spectrum as text, with all digits."""
        return str(as_spectrum(value))

    def fit(self, values: Sequence[Spectrum | str]) -> None:
        """Remember the range of precursors and the adducts, to tell spectra that are unlike these."""
        spectra = [self._at(value, index) for index, value in enumerate(values)]
        if not spectra:
            raise InvalidInput("there are no spectra to learn from.", fix="Give at least one training spectrum.")
        masses = [spectrum.precursor for spectrum in spectra]
        self._seen = min(masses), max(masses), sorted({spectrum.adduct.name for spectrum in spectra})

    def pack(self, values: Sequence[Spectrum | str]) -> Spectra:
        """Spectra → mz and intensity (B, max_peaks), with precursors and adducts (B,)."""
        spectra = [self._at(value, index).highest(self.config.max_peaks) for index, value in enumerate(values)]
        padded = np.zeros((len(spectra), self.config.max_peaks, 2), dtype=np.float32)
        for row, spectrum in enumerate(spectra):
            padded[row, : len(spectrum.peaks)] = spectrum.peaks
        peaks = torch.from_numpy(padded)
        return Spectra(
            mz=peaks[:, :, 0].contiguous(),
            intensity=peaks[:, :, 1].contiguous(),
            counts=torch.tensor([len(spectrum.peaks) for spectrum in spectra], dtype=torch.int32),
            precursor=torch.tensor([spectrum.precursor for spectrum in spectra], dtype=torch.float32),
            adduct=torch.tensor([PLACES[spectrum.adduct.name] for spectrum in spectra], dtype=torch.int16),
        )

    def examples(self) -> list[Spectrum | str]:  # type: ignore[override]  # a text is taken as well
        """Small spectra of both polarities."""
        texts = (
            "29.0386:400 47.0491:999 | precursor=47.0491 adduct=[M+H]+",
            "133.0648:227 151.0754:96 161.0597:999 179.0703:751 | precursor=179.0697 adduct=[M+H]+",
            "59.0139:999 | precursor=59.0139 adduct=[M-H]-",
            "59.0139:999 | precursor=119.035 adduct=[M-H]-",
            "77.0386:120 105.0335:999 123.0441:300 | precursor=123.0441 adduct=[M+H]+",
        )
        return [Spectrum.parse(text) for text in texts]

    def properties(self, value: Spectrum | str) -> dict[str, Any]:
        """The `mass` of the molecule in dalton, by the precursor and the adduct."""
        return {"mass": as_spectrum(value).neutral_mass}

    def features(self, batch: Tensors, *, grams: int = 4) -> SparseRows:
        """Intensities to the power 0.3 in bins of m/z and of neutral loss, and wide bins of the precursor; norm 1.

        The peaks, the losses and the precursor have fixed shares, so products are weighted sums of cosines.
        """
        assert isinstance(batch, Spectra)
        heights = (batch.intensity * batch.mask).pow(POWER)
        heights = heights / heights.square().sum(dim=1, keepdim=True).sqrt()
        keys = [_keys(batch.mz / self.config.width, PEAK), _keys(batch.losses / self.config.width, LOSS)]
        for number, width in enumerate(PRECURSOR_BINS):
            keys.append(_keys(batch.precursor[:, None] / width + HALVES.to(batch.device), PRECURSOR + number))
        beside = torch.full((len(batch), len(HALVES) * len(PRECURSOR_BINS)), PRECURSOR_SHARE**0.5, device=batch.device)
        return SparseRows.summed(torch.cat(keys, dim=1), torch.cat([heights, heights, beside], dim=1)).normalised()

    @classmethod
    def defaults(cls, pairs: int) -> dict[str, Any]:
        """The network on peaks, and a Gaussian kernel on the features."""
        return {"backbone": {"name": "peaks", "dropout": 0.2}, "kernel": {"kernel": "gaussian", "width": 1.0}}

    def sizes(self, batch: Tensors) -> Tensor | None:
        """The number of peaks."""
        assert isinstance(batch, Spectra)
        return batch.counts

    def augment(self, batch: Tensors, generator: Generator) -> Spectra:
        """Drop peaks and vary intensities at random, as the options say."""
        assert isinstance(batch, Spectra)
        if not (self.config.drop or self.config.jitter) or not len(batch):
            return batch
        batch = batch.trimmed()
        chance = torch.rand(batch.mz.shape, generator=generator)
        noise = torch.randn(batch.mz.shape, generator=generator)
        kept = batch.mask & ((chance >= self.config.drop) | (batch.intensity == 1))
        heights = batch.intensity * (self.config.jitter * noise).exp() * kept
        heights = heights / heights.amax(dim=1, keepdim=True)
        order = (~kept).int().argsort(dim=1, stable=True)  # peaks before padding
        mz = (batch.mz * kept).gather(1, order)
        return batch.replace(mz=mz, intensity=heights.gather(1, order), counts=kept.sum(dim=1, dtype=torch.int32))

    def unlike_training(self, values: Sequence[Spectrum | str]) -> list[str]:
        """Spectra of an adduct that did not occur in training, or with a precursor far outside of its range."""
        return [self._unlike(as_spectrum(value)) for value in values]

    def save(self, folder: Path) -> None:
        """Write `spectrum.json`: the range of precursors and the adducts of the training spectra."""
        least, greatest, adducts = self._seen or (0.0, 0.0, [])
        state = {"least": least, "greatest": greatest, "adducts": adducts}
        (folder / FILE).write_text(json.dumps(state), encoding="utf-8")

    def load(self, folder: Path) -> None:
        file = folder / FILE
        try:
            state = json.loads(file.read_text(encoding="utf-8"))
            self._seen = float(state["least"]), float(state["greatest"]), [str(name) for name in state["adducts"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            what = f"what is known of the training spectra cannot be read: {error}."
            raise ModelError(what, where=str(file), fix="Get an intact copy, or train again.") from error

    def _at(self, value: Spectrum | str, index: int) -> Spectrum:
        try:
            return as_spectrum(value)
        except InvalidInput as error:
            raise InvalidInput(error.what, index=index, fix=error.fix) from None

    def _unlike(self, spectrum: Spectrum) -> str:
        if self._seen is None or not self._seen[2]:
            return ""
        least, greatest, adducts = self._seen
        if spectrum.adduct.name not in adducts:
            return f"the adduct {spectrum.adduct.name} did not occur in training"
        if not (1 - OUTSIDE) * least <= spectrum.precursor <= (1 + OUTSIDE) * greatest:
            return f"the precursor is {spectrum.precursor:g}, in training {least:g} to {greatest:g}"
        return ""


def _keys(places: Tensor, kind: int) -> Tensor:
    return mix(mix(places.double().round().long()) + kind)
