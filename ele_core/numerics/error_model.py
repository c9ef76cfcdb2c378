"""How predicted queries differ from the embeddings that they should be, as a Gaussian: weights for energies."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

RIDGES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
"""Added to the variances of embeddings, in mean variances; the one that predicts left-out queries best is kept."""
SHRINKAGE = 0.3
"""Added to the variances of errors, in mean variances."""
JUDGED = 2048
"""Maximum number of pairs by which ridges are compared."""
LEAST = 0.1
"""The share of truths whose energies are so low that nothing better need be searched for."""
LARGEST_LEVERAGE = 0.95
"""Bounds the errors of pairs that the model fits for their own sake."""


class ErrorModel(nn.Module):
    """q = G ψ(y) + o + noise of covariance S, fitted to queries q and embeddings ψ(y) of pairs that were held out.

    A regression that is unsure predicts less than the truth: along some directions of the embedding G is near 1, along
    others near 0. The energy of y is ‖R (q − G ψ(y) − o)‖² with RᵀR = S⁻¹, up to a factor, so directions count as
    much as predictions there can be trusted. Until `fit`, it is ‖q − ψ(y)‖². One product with `mixed` = R G gives the
    energy of a structure.
    """

    root: Tensor
    mixed: Tensor
    offset: Tensor
    curvature: Tensor
    usual: Tensor
    """(1,) the energy that a tenth of the outputs of the pairs have at most to which it was fitted."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("root", torch.eye(dim))
        self.register_buffer("mixed", torch.eye(dim))
        self.register_buffer("offset", torch.zeros(dim))
        self.register_buffer("curvature", torch.ones(1))
        self.register_buffer("usual", torch.zeros(1))

    @torch.no_grad()
    def fit(self, queries: Tensor, embeddings: Tensor) -> Self:
        """Fit to queries (N, dim) of held-out inputs and the embeddings (N, dim) of their outputs, in float64.

        G is a ridge regression. Its ridge is the one of least error for pairs that are left out, and the covariance S
        is that of such errors; both have a closed form.
        """
        q, e = queries.double(), embeddings.double()
        q_mean, e_mean = q.mean(dim=0), e.mean(dim=0)
        spread = covariance(e - e_mean, e - e_mean)
        values, vectors = torch.linalg.eigh(spread)
        values, centred = values.clamp(min=0), (e - e_mean) @ vectors
        cross = covariance(centred, q - q_mean)
        mean = values.mean().clamp(min=torch.finfo(values.dtype).tiny)
        some = torch.arange(0, len(q), -(-len(q) // JUDGED))
        ridges = [values + ridge * mean for ridge in RIDGES]
        missed = [errors_left_out(centred, q - q_mean, cross, each, some).square().mean().item() for each in ridges]
        ridge = ridges[missed.index(min(missed))]
        errors = errors_left_out(centred, q - q_mean, cross, ridge)
        gain = (vectors @ (cross / ridge[:, None])).T
        noise = widened(covariance(errors, errors), SHRINKAGE)
        root = torch.linalg.inv(torch.linalg.cholesky(noise)) * noise.diagonal().mean().sqrt()
        mixed = root @ gain
        steepness = torch.einsum("ij,jk,ik->", mixed, spread, mixed)
        curvature = (steepness / (mean * len(values))).reshape(1)
        usual = (errors @ root.T).square().sum(dim=1).quantile(LEAST).reshape(1)
        found = {"root": root, "mixed": mixed, "offset": q_mean - gain @ e_mean, "curvature": curvature, "usual": usual}
        if all(bool(tensor.isfinite().all()) for tensor in found.values()) and bool(curvature > 0):
            for name, tensor in found.items():
                getattr(self, name).copy_(tensor)
        return self

    def expected(self, embeddings: Tensor) -> Tensor:
        """The mean query G ψ + o of outputs with these embeddings: (B, dim) → (B, dim)."""
        gain: Tensor = torch.linalg.solve(self.root.double(), self.mixed.double()).to(embeddings)
        return embeddings @ gain.T + self.offset.to(embeddings)

    def weighted(self, queries: Tensor) -> Tensor:
        """R (q − o): energies are squared distances between weighted queries and weighted embeddings."""
        return (queries - self.offset.to(queries)) @ self.root.T.to(queries)

    def placed(self, embeddings: Tensor) -> Tensor:
        """R G ψ, the weighted embeddings: (B, dim) → (B, dim)."""
        return embeddings @ self.mixed.T.to(embeddings)

    def towards(self, missing: Tensor) -> Tensor:
        """The change of ψ whose plain energies are about the weighted ones near ψ, up to a factor: (B, dim).

        `missing` is R (q − o) − R G ψ. The gradient is exact there, and the curvature the mean one.
        """
        return missing @ (self.mixed / self.curvature).to(missing)


def errors_left_out(
    centred: Tensor, targets: Tensor, cross: Tensor, penalised: Tensor, rows: Tensor | None = None
) -> Tensor:
    """The errors of a ridge regression for pairs that it was fitted without, in closed form: (N, dim).

    `centred` (N, dim) are inputs along the eigenvectors of their covariance, `cross` its product with the targets, and
    `penalised` the eigenvalues plus the ridge. Only for `rows` if they are given.
    """
    count = len(centred)
    if rows is not None:
        centred, targets = centred[rows], targets[rows]
    leverage = (centred.square() / penalised).sum(dim=1) / count + 1 / count
    kept = (1 - leverage).clamp(min=1 - LARGEST_LEVERAGE)
    return (targets - centred @ (cross / penalised[:, None])) / kept[:, None]


def covariance(left: Tensor, right: Tensor) -> Tensor:
    """The mean of products of centred rows: (N, m), (N, n) → (m, n)."""
    return left.T @ right / max(1, len(left))


def widened(matrix: Tensor, share: float) -> Tensor:
    """Add `share` times the mean of the diagonal to the diagonal; the unit matrix in place of zeros."""
    mean = matrix.diagonal().mean()
    unit = torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    return matrix + share * mean * unit if mean > 0 else unit
