"""Pictures for a page: which predictions are drawn, each structure once; and maps of the embedding in the plane."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ele_core.extras import installed
from ele_core.interfaces import OutputSpace
from ele_core.report.measured import Measured, worst_first
from ele_core.runtime.context import Context
from ele_core.types import Drawing, Metric

LONGEST = 300_000
"""Characters of the largest picture that is put into a page."""


class Drawings:
    """All drawings of a page, by number; a text is drawn once for each text that it is compared with."""

    def __init__(self, space: OutputSpace[Any, Any]) -> None:
        self.space = space
        self.numbers: dict[tuple[str, str | None], int] = {}
        self.stored: list[dict[str, Any]] = []
        self.failures = 0

    def number(self, text: str, against: str | None = None) -> int:
        """The number of the drawing of the structure `text`, with differences from `against` marked."""
        key = (text, against)
        if key not in self.numbers:
            self.numbers[key] = len(self.stored)
            self.stored.append(as_plain(self._draw(text, against)))
        return self.numbers[key]

    def pair(self, prediction: str, truth: str) -> tuple[int, int]:
        """The numbers of a prediction and its truth, side by side.

        A space may rotate a picture to match the one that it is compared with: only the prediction is rotated. Texts
        have differences marked on both sides.
        """
        own = self.number(prediction, truth)
        return own, self.number(truth) if "svg" in self.stored[own] else self.number(truth, prediction)

    def _draw(self, text: str, against: str | None) -> Drawing:
        try:
            parsed = None if against is None else self.space.texts.parse(against)
            return self.space.show.render(self.space.texts.parse(text), parsed)
        except Exception:  # a failure of a plugin must not prevent the page: the text is shown instead
            self.failures += 1
            return Drawing(text)


def as_plain(drawing: Drawing) -> dict[str, Any]:
    """A drawing as JSON: always `text`, and `svg` or `pieces` if there are any."""
    plain: dict[str, Any] = {"text": drawing.text}
    if drawing.svg is not None and len(drawing.svg) <= LONGEST:
        plain["svg"] = drawing.svg
    elif drawing.pieces:
        plain["pieces"] = [[text, int(differs)] for text, differs in drawing.pieces]
    return plain


GROUPS = ("worst", "typical", "best")


def examples(
    measured: Measured, metrics: Mapping[str, Metric[Any]], count: int, drawings: Drawings, context: Context
) -> tuple[dict[str, list[int]], dict[int, tuple[int, int]]]:
    """Choose `count` rows, a third for each group; return them by group, and the drawings of prediction and truth."""
    groups = choose(worst_first(measured, metrics), count)
    rows = context.monitor.progress([row for group in groups.values() for row in group], description="drawing")
    return groups, {row: drawings.pair(measured.texts["prediction"][row], measured.texts["truth"][row]) for row in rows}


def choose(ordered: list[int], count: int) -> dict[str, list[int]]:
    """A third of `count` rows from each end of the order and from around its middle, no row twice.

    Each group starts with its most typical row: the very worst, the very best, the very middle.
    """
    count = min(count, len(ordered))
    ends = count // 3
    worst, best = ordered[:ends], ordered[len(ordered) - ends :][::-1]
    between = ordered[ends : len(ordered) - ends]
    first = (len(between) - (count - 2 * ends)) // 2
    middle = between[first : first + count - 2 * ends]
    centre = len(middle) / 2
    typical = [row for _, row in sorted(enumerate(middle), key=lambda place: abs(place[0] + 0.5 - centre))]
    return dict(zip(GROUPS, (worst, typical, best), strict=True))


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
