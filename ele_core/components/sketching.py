"""Sketched kernels: a few coordinates that replace a kernel's features, from a random sketch of the training set."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, Self

import torch
from pydantic import Field
from torch import Generator, Tensor
from torch.nn import functional

from ele_core.component import ComponentConfig
from ele_core.errors import ModelError, damaged
from ele_core.numerics.sparse import Products, SparseRows
from ele_core.runtime.context import Context

CHUNK = 2048
"""Objects whose features are in memory at once."""
NEGLIGIBLE = 1e-10
"""Eigenvalues below this share of the greatest are rounding errors: their directions are dropped."""
LARGEST_SKETCH = 1 << 16
TANIMOTO = -1.0
"""The stored width of a kernel that was `natural` and turned out to be Tanimoto's."""

KernelName = Literal["cosine", "gaussian", "tanimoto", "natural"]


class Sketch(ComponentConfig):
    """A random matrix R (m, n) that mixes n training objects into m."""

    kind: Literal["subsample", "gaussian", "sparse"] = "subsample"
    """`subsample`: m of the objects, each row of R has a single 1. `gaussian`: every entry is normal; uses all n
    objects, which needs memory for n² values of the kernel. `sparse`: p-sparsified, each row has `nonzeros` normal
    entries at random positions."""
    size: int = Field(1000, ge=1, le=LARGEST_SKETCH)
    """The number of rows of the sketch, m; all training objects if there are fewer."""
    nonzeros: int = Field(20, ge=1)
    """The number of entries of a row that are not zero, for kind `sparse`."""

    def draw(self, count: int, generator: Generator) -> tuple[Tensor, Tensor | None]:
        """Draw R: the objects (a,) that it uses, ascending, and its columns for these (m, a), or None for the identity.

        R is not scaled, because a factor would not change the features of a sketched kernel.
        """
        size = min(self.size, count)
        if self.kind == "subsample":
            return torch.randperm(count, generator=generator)[:size].sort().values, None
        if self.kind == "gaussian":
            return torch.arange(count), torch.randn(size, count, generator=generator)
        entries = min(self.nonzeros, count)
        places = torch.randint(count, (size, entries), generator=generator)
        objects, columns = places.unique(return_inverse=True)
        weights = torch.randn(size, entries, generator=generator)
        return objects, torch.zeros(size, len(objects)).scatter_add_(1, columns, weights)


class KernelOptions(ComponentConfig):
    """A kernel on features, and its sketch."""

    kernel: KernelName = "cosine"
    """`cosine`: ⟨φ(x), φ(x′)⟩ / ‖φ(x)‖‖φ(x′)‖. `gaussian`: exp(−‖φ(x) − φ(x′)‖² / 2 width²). `tanimoto`: ⟨φ(x), φ(x′)⟩
    / (‖φ(x)‖² + ‖φ(x′)‖² − ⟨φ(x), φ(x′)⟩). All are 1 for x = x′. `natural`: tanimoto if all features are 0 or 1, else
    gaussian."""
    width: float | None = Field(None, gt=0)
    """The width of the Gaussian kernel; None: the median distance between the objects of the sketch."""
    sketch: Sketch = Sketch()
    """How the training objects are sketched."""


class SketchedKernel:
    """z(x) = Λ^(−½) Vᵀ R k(x), where k(x) = (k(x, x_1), …, k(x, x_n)) and R K Rᵀ = V Λ Vᵀ: (B, dim).

    ⟨z(x), z(x′)⟩ equals k on the span of the sketch, and for all training objects if R has rank n. Columns beyond the
    rank of R K Rᵀ are zero. Only the objects that R uses, the *anchors*, are kept; features that no anchor has count
    only in the norm of x.
    """

    def __init__(self, options: KernelOptions, dim: int | None = None) -> None:
        self.options = options
        self.dim = options.sketch.size if dim is None else min(dim, options.sketch.size)
        self.learned: Learned | None = None

    def fit(self, features: Callable[[Any], SparseRows], objects: Any, context: Context, name: str) -> None:
        """Draw a sketch of the packed `objects`, seeded with `name`, and learn V and Λ."""
        chosen, matrix = self.options.sketch.draw(len(objects), context.generator(name, "sketch"))
        chunks = chosen.split(CHUNK)
        shown = context.monitor.progress(chunks, description=f"{name} sketch", total=len(chunks))
        anchors = SparseRows.cat(self._prepared(features(objects[rows])).to(torch.device("cpu")) for rows in shown)
        exact = anchors.double()  # rounding errors would look like additional directions
        inner = Products(exact)(exact)
        width = self.options.width or 1.0
        if self.options.kernel == "natural" and bool((exact.values == 1).all()):
            width = TANIMOTO
        elif self.options.kernel in ("gaussian", "natural"):
            width = self.options.width or median_distance(inner)
        gram = self._kernel(inner, exact.squares, exact.squares, width)
        if matrix is None:
            projection = whitening(gram, self.dim)
        else:
            mixed = matrix.double()
            projection = mixed.T @ whitening(mixed @ gram @ mixed.T, self.dim)
        projection = functional.pad(projection.float(), (0, self.dim - projection.shape[1]))
        self.learned = Learned(anchors, projection, width)
        self.to(context.device)

    def __call__(self, features: SparseRows) -> Tensor:
        """Features of B objects → (B, dim)."""
        if self.learned is None:
            raise ModelError("a sketched kernel was used before it was fitted.", fix="Call `fit` first.")
        anchors, projection, width = self.learned.anchors, self.learned.projection, self.learned.width
        prepared = self._prepared(features.to(projection.device))
        inner = self.learned.products(prepared)
        return self._kernel(inner, prepared.squares, anchors.squares, width) @ projection

    def state(self) -> dict[str, Tensor]:
        """What `fit` learned; empty tensors before `fit`."""
        if self.learned is None:
            whole, number = torch.zeros(0, dtype=torch.int64), torch.zeros(0)
            return {"keys": whole, "values": number, "offsets": whole, "projection": number, "width": number}
        anchors, width = self.learned.anchors, torch.tensor([self.learned.width], dtype=torch.float64)
        sparse = {"keys": anchors.keys, "values": anchors.values, "offsets": anchors.offsets}
        return {**sparse, "projection": self.learned.projection, "width": width}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Load the tensors of `state`; refuse tensors that do not go together."""
        keys, values, offsets, projection, width = (
            state[name] for name in ("keys", "values", "offsets", "projection", "width")
        )
        whole = keys.dtype == offsets.dtype == torch.int64 and keys.shape == values.shape and width.shape == (1,)
        whole = whole and len(offsets) > 1 and projection.shape == (len(offsets) - 1, self.dim)
        whole = whole and projection.dtype == values.dtype == torch.float32
        if not whole or offsets[0] != 0 or offsets[-1] != len(keys) or (offsets.diff() < 0).any():
            raise damaged("the tensors of a sketched kernel do not go together.")
        self.learned = Learned(SparseRows(keys, values, offsets), projection, width.item())

    def to(self, device: torch.device) -> Self:
        """Move what was learned to `device`."""
        if self.learned is not None and self.learned.projection.device != device:
            anchors, projection = self.learned.anchors.to(device), self.learned.projection.to(device)
            self.learned = Learned(anchors, projection, self.learned.width)
        return self

    def _prepared(self, features: SparseRows) -> SparseRows:
        return features.normalised() if self.options.kernel == "cosine" else features

    def _kernel(self, inner: Tensor, squares: Tensor, others: Tensor, width: float) -> Tensor:
        """The kernel (B, a) from inner products and the squared norms (B,) and (a,)."""
        kernel = self.options.kernel
        if kernel == "cosine":
            return inner
        if kernel == "tanimoto" or (kernel == "natural" and width == TANIMOTO):
            sums = squares.unsqueeze(1) + others
            return inner / (sums - inner).clamp(min=torch.finfo(inner.dtype).tiny)
        distances = torch.add(squares.unsqueeze(1) + others, inner, alpha=-2).clamp_(min=0)
        return distances.mul_(-0.5 / width**2).exp_()


class Learned:
    """What a sketched kernel has learned: the features of its anchors (a, …), and Rᵀ V Λ^(−½) (a, dim)."""

    def __init__(self, anchors: SparseRows, projection: Tensor, width: float) -> None:
        self.anchors = anchors
        self.projection = projection
        self.width = width
        self.products = Products(anchors)


def whitening(gram: Tensor, dim: int) -> Tensor:
    """V Λ^(−½) for the `dim` greatest eigenvalues of a positive semi-definite matrix: (m, m) → (m, at most dim)."""
    values, vectors = torch.linalg.eigh(gram)
    kept = (values > NEGLIGIBLE * values[-1].clamp(min=0)).nonzero().flatten().flip(0)[:dim]
    scaled: Tensor = vectors[:, kept] * values[kept].rsqrt()
    return scaled


def median_distance(inner: Tensor) -> float:
    """The median distance between different objects, from their inner products (a, a); 1 if all are equal."""
    some = inner[:CHUNK, :CHUNK]
    squares = some.diagonal()
    distances = (squares.unsqueeze(1) + squares - 2 * some).clamp(min=0)
    apart = distances[distances > NEGLIGIBLE]
    return math.sqrt(apart.median().item()) if len(apart) else 1.0
