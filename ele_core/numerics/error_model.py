"""How predicted queries differ from the embeddings that they should be, as a Gaussian: weights for energies."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

RIDGE = 0.3
"""Added to the variances of embeddings, in mean variances: the fewer pairs, the more it matters."""
SHRINKAGE = 0.3
"""Added to the variances of errors, in mean variances."""


class ErrorModel(nn.Module):
    """q = G ψ(y) + o + noise of covariance S, fitted to queries q and embeddings ψ(y) of pairs that were held out.

    A regression that is unsure predicts less than the truth: along some directions of the embedding G is near 1, along
    others near 0. The energy of y is ‖R (q − G ψ(y) − o)‖² with RᵀR = S⁻¹, up to a factor, so directions count as
    much as predictions there can be trusted. Until `fit`, it is ‖q − ψ(y)‖².
    """

    gain: Tensor
    offset: Tensor
    root: Tensor
    curvature: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("gain", torch.eye(dim))
        self.register_buffer("offset", torch.zeros(dim))
        self.register_buffer("root", torch.eye(dim))
        self.register_buffer("curvature", torch.ones(1))

    @torch.no_grad()
    def fit(self, queries: Tensor, embeddings: Tensor) -> Self:
        """Fit to queries (N, dim) of held-out inputs and the embeddings (N, dim) of their outputs, in float64."""
        q, e = queries.double(), embeddings.double()
        q_mean, e_mean = q.mean(dim=0), e.mean(dim=0)
        spread = covariance(e - e_mean, e - e_mean)
        gain = torch.linalg.solve(widened(spread, RIDGE), covariance(e - e_mean, q - q_mean)).T
        offset = q_mean - gain @ e_mean
        errors = q - e @ gain.T - offset
        noise = widened(covariance(errors, errors), SHRINKAGE)
        root = torch.linalg.inv(torch.linalg.cholesky(noise)) * noise.diagonal().mean().sqrt()
        steepness = covariance((e - e_mean) @ (root @ gain).T, (e - e_mean) @ (root @ gain).T).trace()
        found = gain, offset, root, (steepness / spread.trace().clamp(min=torch.finfo(spread.dtype).tiny)).reshape(1)
        if all(bool(tensor.isfinite().all()) for tensor in found) and bool(found[3] > 0):
            for own, tensor in zip((self.gain, self.offset, self.root, self.curvature), found, strict=True):
                own.copy_(tensor)
        return self

    def expected(self, embeddings: Tensor) -> Tensor:
        """The mean query of outputs with these embeddings: (B, dim) → (B, dim)."""
        return embeddings @ self.gain.T.to(embeddings) + self.offset.to(embeddings)

    def weighted(self, queries: Tensor) -> Tensor:
        """R q: energies are squared distances between weighted queries and weighted expected queries."""
        return queries @ self.root.T.to(queries)

    def towards(self, queries: Tensor, embeddings: Tensor) -> Tensor:
        """A query whose plain energies are about the weighted ones near `embeddings`, up to a factor: (B, dim).

        The gradient is exact there, and the curvature the mean one.
        """
        missing = self.weighted(queries - self.expected(embeddings))
        return embeddings + missing @ (self.root @ self.gain / self.curvature).to(missing)


def covariance(left: Tensor, right: Tensor) -> Tensor:
    """The mean of products of centred rows: (N, m), (N, n) → (m, n)."""
    return left.T @ right / max(1, len(left))


def widened(matrix: Tensor, share: float) -> Tensor:
    """Add `share` times the mean of the diagonal to the diagonal; the unit matrix in place of zeros."""
    mean = matrix.diagonal().mean()
    unit = torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    return matrix + share * mean * unit if mean > 0 else unit
