"""`LearnedLoss`: the learned loss as a torch module, for training loops of your own."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self, get_args

import torch
from torch import Tensor, nn

from ele_core.errors import ConfigError, DataError, counted
from ele_core.interfaces import Surrogate
from ele_core.networks import NetworkLearner
from ele_core.numerics.tensors import Tensors

Reduction = Literal["mean", "sum", "none"]
"""What becomes of the losses of a batch, as in the losses of torch."""
REDUCTIONS: tuple[Reduction, ...] = get_args(Reduction)
RELAX = "Relax them first: loss.space.relax(batch)."


class LearnedLoss(nn.Module):
    """The loss ‖ψ(point) − ψ(target)‖² of relaxed structures, differentiable in the points.

    `StructuredPredictor.loss` makes one from a fitted predictor. Its weights are a frozen copy: it has no parameters to
    train, adds nothing to your checkpoints, and moves with `.to(device)`. Points are batches of `loss.space` in which
    the relaxed fields hold floats::

        point = loss.space.project(loss.space.Batch(tokens=network(x)))
        loss(point, ["17", "42"]).backward()

    With another energy than the squared distance, such as one that a plugin defines, the loss is that energy.
    """

    place: Tensor

    def __init__(self, surrogate: Surrogate, reduction: Reduction = "mean") -> None:
        """Take over `surrogate`, which must not be used elsewhere; `reduction` is `mean`, `sum` or `none`."""
        super().__init__()
        if reduction not in REDUCTIONS:
            what = f"should be one of {', '.join(REDUCTIONS)}, not {reprlib.repr(reduction)}."
            raise ConfigError(what, where="reduction")
        if isinstance(surrogate, NetworkLearner):
            surrogate.network.requires_grad_(False).eval()
        self.reduction = reduction
        self.surrogate = surrogate
        self.space = surrogate.space
        """The output space: it packs, relaxes, projects and rounds (`unrelax`)."""
        self.register_buffer("place", torch.zeros(0), persistent=False)

    def forward(self, points: Any, targets: Any) -> Tensor:
        """Return the loss of each point for its target (B,), or the mean or the sum of them.

        `points` is a batch of points of `space`. `targets` are objects, a packed batch, points, or embeddings (B, dim)
        that `embed` returned before.
        """
        self._check(points, "points")
        if not is_relaxed(points, self.space.geometry):
            raise DataError("these are labels, which have no gradient.", where="points", fix=RELAX)
        queries = self.embed(targets)
        if len(queries) != len(points):
            what = f"{counted(len(points), 'point')} but {counted(len(queries), 'target')}."
            raise DataError(what, where="loss", fix="Give one target for each point.")
        losses = self.surrogate.energy(queries).at(self._placed(points))
        return losses if self.reduction == "none" else losses.mean() if self.reduction == "mean" else losses.sum()

    def embed(self, targets: Any) -> Tensor:
        """Return the embeddings ψ(target) (B, dim); those of points have a gradient.

        Embed targets that come again once, and give `forward` the rows that it needs.
        """
        if isinstance(targets, Tensor):
            return self._embeddings(targets)
        if not isinstance(targets, Tensors):
            return self.surrogate.embed(self.space.pack(as_objects(targets)))
        self._check(targets, "targets")
        if not is_relaxed(targets, self.space.geometry):
            return self.surrogate.embed(targets)
        try:
            return self.surrogate.embed_at(self._placed(targets))
        except NotImplementedError:
            what = f"{type(self.surrogate).__name__} embeds structures, but no points."
            raise DataError(what, where="targets", fix="Give objects or a packed batch.") from None

    def extra_repr(self) -> str:
        """Return what torch shows of this module."""
        return f"{type(self.surrogate).__name__}, dim={self.surrogate.dim}, reduction={self.reduction!r}"

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move the surrogate to wherever this module is moved."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.surrogate.to(self.place.device)
        return self

    def _placed(self, points: Any) -> Any:
        """The points on the device of this module, in single precision."""
        fields = {name: getattr(points, name).float() for name in self.space.geometry}
        return points.replace(**fields).to(self.place.device)

    def _embeddings(self, given: Tensor) -> Tensor:
        if given.dim() != 2 or given.shape[1] != self.surrogate.dim:
            what = f"expected embeddings (B, {self.surrogate.dim}), not a tensor {tuple(given.shape)}."
            raise DataError(what, where="targets", fix="Give objects, a packed batch, or what `loss.embed` returned.")
        return given.to(self.place.device)

    def _check(self, batch: Any, where: str) -> None:
        """Refuse what is not a batch of the space, with all fields in the right shape."""
        expected = self.space.Batch.__name__
        if not isinstance(batch, self.space.Batch):
            fix = f"Give a batch of the output space: loss.space.Batch({', '.join(self.space.geometry)})."
            raise DataError(f"expected {expected}, not {type(batch).__name__}.", where=where, fix=fix)
        for name, convex in self.space.geometry.items():
            shape = tuple(getattr(batch, name).shape[1:])
            relaxed = getattr(batch, name).is_floating_point()
            wanted = convex.point_shape if relaxed else convex.label_shape
            if shape != tuple(wanted):
                what = f"'{name}' should have the shape (B, {', '.join(map(str, wanted))}), not (B, "
                raise DataError(f"{what}{', '.join(map(str, shape))}).", where=where)


def is_relaxed(batch: Any, geometry: Any) -> bool:
    """Whether the relaxed fields of a batch hold floats; refuse a batch in which only some do."""
    found = {name: getattr(batch, name).is_floating_point() for name in geometry}
    if len(set(found.values())) > 1:
        labels = next(name for name, relaxed in found.items() if not relaxed)
        raise DataError(f"'{labels}' holds labels, the other fields floats.", where="points", fix=RELAX)
    return all(found.values())


def as_objects(targets: Any) -> Sequence[Any]:
    """The targets as a sequence of objects; one text is refused."""
    if isinstance(targets, str | bytes):
        raise DataError("one text where a list is expected.", where="targets", fix="Put the text into a list.")
    return targets if isinstance(targets, Sequence) else list(targets)
