"""The learned loss of a fitted estimator as a tool: embeddings, distances, neighbours, and a torch module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ele_core.errors import DataError, counted
from ele_core.model.loss import LearnedLoss, Reduction
from ele_core.model.neighbours import Neighbours, neighbours
from ele_core.numerics.nearest import squared_distances
from ele_core.predictor.parameters import Parameters, not_fitted
from ele_core.predictor.values import as_list

if TYPE_CHECKING:
    from ele_core.model.model import Model
    from ele_core.runtime.context import Context


class LearnedLossMethods(Parameters):
    """What an estimator with a fitted `model_` offers besides predictions."""

    def _context(self) -> Context:
        raise NotImplementedError

    def _fitted(self) -> Model:
        model: Model | None = getattr(self, "model_", None)
        if model is None:
            raise not_fitted("this StructuredPredictor is not fitted yet: call fit, or load a saved one.")
        return model

    def embed(self, objects: Any) -> npt.NDArray[np.float32]:
        """Return ψ(y), the embedding of each object: (n, dim). Squared distances between them are the learned loss."""
        given = as_list(objects, "output", "embed")
        embeddings: npt.NDArray[np.float32] = self._fitted().embed(given, self._context()).cpu().numpy()
        return embeddings

    def distance(self, a: Any, b: Any, *, matrix: bool = False) -> npt.NDArray[np.float32]:
        """Return the learned loss ‖ψ(a) − ψ(b)‖² of each object in `a` and the one at its place in `b`: (n,).

        With `matrix=True`, of each object in `a` and each in `b`: (n, m).
        """
        left, right = as_list(a, "output", "distance"), as_list(b, "output", "distance")
        if not matrix and len(left) != len(right):
            what = f"{counted(len(left), 'object')} and {counted(len(right), 'object')} do not form pairs."
            raise DataError(what, where="distance", fix="Give equally many, or matrix=True to compare each with each.")
        model, context = self._fitted(), self._context()
        ours, theirs = (model.embed(objects, context) for objects in (left, right))
        found = squared_distances(ours, theirs) if matrix else (ours - theirs).square().sum(dim=1)
        distances: npt.NDArray[np.float32] = found.cpu().numpy()
        return distances

    def neighbours(self, objects: Any, k: int = 10, among: Any | None = None) -> Neighbours:
        """Return the `k` nearest neighbours of each object by the learned loss, nearest first.

        They are searched `among` other objects, by default among the different training outputs. An object that is
        there itself is its own nearest neighbour, at distance 0 but for rounding. For files of millions, use
        `ele neighbours`.
        """
        given = as_list(objects, "output", "neighbours")
        others = None if among is None else as_list(among, "output", "among")
        return neighbours(self._fitted(), given, k, others, self._context())

    def loss(self, *, reduction: Reduction = "mean") -> LearnedLoss:
        """Return the learned loss as a torch module, differentiable in relaxed structures, for a training of your own.

        `reduction` is `mean`, `sum`, or `none` for a loss per example. The module is a frozen copy of the surrogate,
        which must have a gradient.
        """
        return self._fitted().loss(reduction=reduction)
