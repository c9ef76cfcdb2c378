"""`peaks`: a network on sets of peaks, for the input space `spectrum`."""

from __future__ import annotations

import math
from typing import Any, Literal, Self

import torch
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from ele_core import Backbone, ComponentConfig, InputSpace
from ele_core.components.backbones.transformer import attention_layers
from ele_core.networks import require_batches
from ele_core.numerics.keys import mix
from ele_core.types import MOST_LAYERS
from ele_graphs.ms2mol.input_space import Spectra
from ele_graphs.ms2mol.spectrum import KNOWN

FINEST, COARSEST = 0.02, 2000.0
"""The shortest and the longest wavelength, in Da, of the sines of m/z."""


class PeaksBackbone(Backbone):
    """Vectors of peaks, self-attention layers, a sum over the peaks, and a head of two linear layers.

    The vector of a peak adds up sines of its m/z and of its neutral loss (precursor − m/z) at wavelengths from 0.02 Da
    to 2,000 Da, a learned vector for the bin of each, and its intensity. Fragments have few different formulas, so a
    bin stands for one of them or a few. The precursor is a peak of its own, with a learned vector for the adduct.
    """

    class Config(ComponentConfig):
        """The size of the network."""

        width: PositiveInt = 64
        """The width of a peak's vector, a multiple of `heads`."""
        layers: int = Field(default=0, ge=0, le=MOST_LAYERS)
        """The number of self-attention layers over the peaks; 0: peaks do not see one another before the sum."""
        heads: PositiveInt = 4
        """The number of attention heads."""
        hidden: PositiveInt = 256
        """The width of the head's hidden layer."""
        waves: PositiveInt = 24
        """The number of wavelengths."""
        bin: float = Field(default=0.01, gt=0)
        """The width of a bin in Da. Each peak is in two bins, shifted by half a width."""
        rows: PositiveInt = 16384
        """The number of learned vectors that the bins of m/z share by hashing, and as many for neutral losses."""
        dropout: float = Field(default=0.0, ge=0, lt=1)
        """The share of features dropped during training."""
        pooling: Literal["additive", "weighted"] = "weighted"
        """`additive` sums the peaks' contributions; `weighted` weights them by learned attention that adds up to 1."""

        @model_validator(mode="after")
        def _check_heads(self) -> Self:
            if self.width % self.heads:
                raise ValueError(f"`width` {self.width} must be a multiple of `heads` {self.heads}")
            return self

    config: Config

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], dim: int) -> None:
        super().__init__(config, inputs, dim)
        options = self.config
        self.mz_waves, self.loss_waves = (nn.Linear(2 * options.waves, options.width) for _ in range(2))
        self.mz_bins, self.loss_bins = (bins(options.rows, options.width) for _ in range(2))
        self.intensity = nn.Linear(2, options.width)
        self.adducts = nn.Embedding(len(KNOWN), options.width)
        sizes = options.layers, options.width, options.heads, 2 * options.width
        self.layers = attention_layers(*sizes, options.dropout)
        self.norm = nn.LayerNorm(options.width)
        self.contribution = nn.Linear(options.width, options.hidden)
        self.weight = nn.Linear(options.width, 1) if options.pooling == "weighted" else None
        self.dropout = nn.Dropout(options.dropout)
        self.head = nn.Sequential(
            nn.LayerNorm(options.hidden),
            nn.Linear(options.hidden, 2 * options.hidden),
            nn.GELU(),
            nn.Dropout(options.dropout),
            nn.Linear(2 * options.hidden, dim),
        )

    @classmethod
    def accepts(cls, inputs: InputSpace[Any]) -> None:
        """Accept any input space whose batches are `Spectra`."""
        require_batches("peaks", inputs, Spectra, "spectra (input 'spectrum')")

    def forward(self, batch: Spectra) -> Tensor:
        """Spectra → (B, dim)."""
        if len(batch) == 0:
            return self.contribution.weight.new_zeros(0, self.dim)
        batch = with_precursor(batch.trimmed())
        mask, vectors = batch.mask, self.dropout(self._vectors(batch))
        for layer in self.layers:
            vectors = layer(vectors, src_key_padding_mask=~mask)
        vectors = self.norm(vectors)
        contributions = nn.functional.gelu(self.contribution(vectors)) * mask[:, :, None]
        if self.weight is not None:
            weights = self.weight(vectors).masked_fill(~mask[:, :, None], -torch.inf).softmax(dim=1)
            contributions = contributions * weights
        outputs: Tensor = self.head(self.dropout(contributions.sum(dim=1)))
        return outputs

    def _vectors(self, batch: Spectra) -> Tensor:
        """The vector of each peak: (B, P, width); that of the precursor, in column 0, has the adduct added."""
        options = self.config
        heights = torch.stack([batch.intensity.sqrt(), batch.intensity.clamp(min=1e-4).log() / 4], dim=2)
        vectors = self.intensity(heights) + self.mz_waves(waves(batch.mz, options.waves))
        vectors = vectors + self.loss_waves(waves(batch.losses, options.waves))
        for values, table in ((batch.mz, self.mz_bins), (batch.losses, self.loss_bins)):
            for shift in (0.0, 0.5):
                vectors = vectors + table(hashed(values / options.bin + shift, options.rows, shift))
        adduct = self.adducts(batch.adduct.long())[:, None]
        return torch.cat([vectors[:, :1] + adduct, vectors[:, 1:]], dim=1)


def with_precursor(batch: Spectra) -> Spectra:
    """The same spectra with the precursor as first peak, of intensity 1."""
    mz = torch.cat([batch.precursor[:, None], batch.mz], dim=1)
    intensity = torch.cat([torch.ones_like(batch.precursor)[:, None], batch.intensity], dim=1)
    return batch.replace(mz=mz, intensity=intensity, counts=batch.counts + 1)


def waves(values: Tensor, count: int) -> Tensor:
    """Sines and cosines of values (B, P) at wavelengths from `FINEST` to `COARSEST`: (B, P, 2 count)."""
    exponents = torch.linspace(0, 1, count, device=values.device)
    frequencies = 2 * math.pi / (FINEST * (COARSEST / FINEST) ** exponents)
    angles = values[:, :, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=2)


def hashed(places: Tensor, rows: int, shift: float) -> Tensor:
    """The row (B, P) int64 of the bin that each place is in; bins of different shifts are different."""
    return mix(2 * places.floor().long() + int(shift > 0)) % rows


def bins(rows: int, width: int) -> nn.Embedding:
    """Learned vectors of bins, small at first: unseen bins add little."""
    table = nn.Embedding(rows, width)
    nn.init.normal_(table.weight, std=0.1)
    return table
