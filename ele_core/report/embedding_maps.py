"""The embedding in two dimensions: principal components, and t-SNE if it is quick and scikit-learn is installed."""

from __future__ import annotations

import dataclasses
import warnings

import torch
from torch import Tensor

from ele_core.extras import installed

MOST = 2000
"""Maximum number of points in a map: more cannot be told apart."""
FEWEST = 30
"""The fewest points for t-SNE."""


@dataclasses.dataclass(frozen=True)
class Map:
    """Points in the plane: one per structure, and one per query if queries can be shown in the same map."""

    name: str
    note: str
    x: list[float]
    y: list[float]
    query_x: list[float] | None = None
    query_y: list[float] | None = None


def maps(embeddings: Tensor, queries: Tensor | None, seed: int) -> list[Map]:
    """Every map of embeddings (N, d), with queries if they too are (N, d)."""
    if len(embeddings) < 3:
        return []
    found = [principal(embeddings, queries)]
    apart = bool((embeddings != embeddings[0]).any())
    if FEWEST <= len(embeddings) <= MOST and embeddings.shape[1] > 2 and apart and installed("sklearn"):
        found.append(neighbourhoods(embeddings, seed))
    return found


def principal(embeddings: Tensor, queries: Tensor | None) -> Map:
    """The two directions of largest variance, by a singular value decomposition of the centred embeddings."""
    centre = embeddings.mean(dim=0)
    _, sizes, directions = torch.linalg.svd((embeddings - centre).double(), full_matrices=False)
    axes = directions[:2]
    axes = (
        axes * axes.gather(1, axes.abs().argmax(dim=1, keepdim=True)).sign()
    )  # the sign of an axis is arbitrary: fix it
    share = sizes.square() / sizes.square().sum().clamp(min=1e-12)
    note = f"The two axes show {share[:1].sum():.0%} and {share[1:2].sum():.0%} of the variance."
    x, y = coordinates((embeddings - centre).double() @ axes.T)
    if queries is None or queries.shape != embeddings.shape:
        return Map("principal components", note, x, y)
    return Map("principal components", note, x, y, *coordinates((queries - centre).double() @ axes.T))


def neighbourhoods(embeddings: Tensor, seed: int) -> Map:
    """t-SNE: neighbours stay near; distances between groups mean nothing."""
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(embeddings) - 1) / 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about versions, and about structures with equal embeddings
        found = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(embeddings.float().numpy())
    x, y = coordinates(torch.from_numpy(found))
    return Map("t-SNE", "Neighbours are near; distances between groups mean nothing.", x, y)


def coordinates(points: Tensor) -> tuple[list[float], list[float]]:
    """(N, 1 or 2) → N numbers for each of two axes, rounded to four digits."""
    columns = torch.nn.functional.pad(points, (0, 2 - points.shape[1]))
    x, y = ([float(f"{value:.4g}") for value in column] for column in columns.T.tolist())
    return x, y
