"""The index for millions of vectors: faiss's inverted lists of compressed codes, ranked by the vectors themselves.

Its state is kept as plain tensors, whose sizes are checked: faiss reads no file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from ele_core.component import ComponentConfig
from ele_core.interfaces import Index
from ele_core.runtime.context import Context

CHUNK = 1 << 16
"""Vectors that are coded at once."""
QUERIES = 64
"""Queries whose rows are ranked at once."""
PER_LIST = 64
"""Vectors per list in the sample from which the lists and codes are learned: more make the build longer, not better."""
CODED = 1 << 16
"""The largest number of vectors from which codes are learned."""
WORDS = 256
"""The values of a byte of a code."""
FEWEST = 4 * WORDS
"""Below this many vectors there are too few to learn codes from, and all are ranked."""


class InvertedIndex(Index):
    """Vectors in lists around centres, as codes of a few bytes; the likeliest are ranked by their exact distances.

    A search compares a query with the codes of the nearest `probes` lists, then with the vectors of the best `ranked`
    codes. In memory are the codes and 8 bytes per vector; vectors are read as they are ranked.
    """

    class Config(ComponentConfig):
        """How to compress, and how far to search."""

        lists: int | None = Field(None, ge=1)
        """The number of lists; None: the square root of the number of vectors."""
        code: int = Field(32, ge=1, le=256)
        """Bytes of a compressed vector."""
        probes: int = Field(32, ge=1)
        """Lists that a query is compared with."""
        ranked: int = Field(200, ge=1)
        """Vectors that are read and ranked for each query; at least twice as many as are asked for."""

    config: Config
    index: Any = None
    """The lists; None: there are too few vectors for lists."""

    def build(self, context: Context) -> None:
        """Learn lists and codes from a sample, evenly spaced, then code all vectors in chunks."""
        self.index = None
        count = len(self.vectors)
        if count < FEWEST:
            return
        lists = min(self.config.lists or round(math.sqrt(count)), count // PER_LIST)
        sample = self._padded(self.vectors[torch.arange(0, count, max(1, count // (PER_LIST * lists)))])
        use_threads()
        index = empty(sample.shape[1], lists, self.config.code)
        index.cp.min_points_per_centroid = index.pq.cp.min_points_per_centroid = 1  # faiss would warn
        index.pq.cp.max_points_per_centroid = CODED // WORDS
        index.train(sample)
        chunks = self.vectors.chunks(CHUNK)
        for vectors in context.monitor.progress(chunks, description="coding vectors", total=-(-count // CHUNK)):
            index.add(self._padded(vectors))
        self.index = index

    def search(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The k nearest of the vectors whose codes are the nearest to each query."""
        if not len(queries):
            return queries.new_zeros(0, k), torch.zeros(0, k, dtype=torch.long)
        parts = [self._search(part.float(), k) for part in queries.split(QUERIES)]
        distances, rows = zip(*parts, strict=True)
        return torch.cat(distances).to(queries), torch.cat(rows).to(queries.device)

    def _search(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        rows = self._likely(queries, min(max(self.config.ranked, 2 * k), len(self.vectors)))
        found, place = rows.clamp(min=0).unique(return_inverse=True)
        vectors = self.vectors[found].to(queries)
        distances = torch.stack(
            [(query - vectors[own]).square().sum(dim=1) for query, own in zip(queries, place, strict=True)]
        )
        distances, order = distances.masked_fill(rows.to(distances.device) < 0, torch.inf).sort(dim=1, stable=True)
        rows = rows.clamp(min=0).gather(1, order.cpu())
        missing = (0, max(0, k - rows.shape[1]))
        return functional.pad(distances[:, :k], missing, value=torch.inf), functional.pad(rows[:, :k], missing)

    def _likely(self, queries: Tensor, count: int) -> Tensor:
        """Rows (B, count) of likely neighbours; −1: there are no more."""
        if self.index is None:
            return torch.arange(len(self.vectors)).expand(len(queries), -1)
        use_threads()
        probed = faiss.SearchParametersIVF(nprobe=min(self.config.probes, self.index.nlist))
        found = self.index.search(self._padded(queries), count, params=probed)[1]
        return torch.from_numpy(found).sort(dim=1).values  # rows in order are read faster

    def _padded(self, vectors: Tensor) -> npt.NDArray[np.float32]:
        """Vectors with zeros up to a multiple of the bytes of a code, as faiss takes them."""
        wide = functional.pad(vectors, (0, -vectors.shape[1] % self.config.code))
        return wide.cpu().float().contiguous().numpy()

    def state(self) -> dict[str, Tensor]:
        """Centres, code words, and the rows and codes of each list."""
        if self.index is None:
            return {}
        lists, index = self.index.invlists, self.index
        sizes = [lists.list_size(number) for number in range(index.nlist)]
        rows, codes = np.empty(sum(sizes), np.int64), np.empty((sum(sizes), index.code_size), np.uint8)
        end = 0
        for number, size in enumerate(sizes):
            if size:
                own = slice(end, end := end + size)
                rows[own] = faiss.rev_swig_ptr(lists.get_ids(number), size)
                codes[own] = faiss.rev_swig_ptr(lists.get_codes(number), size * index.code_size).reshape(size, -1)
        centres = index.quantizer.reconstruct_n(0, index.nlist)
        words = faiss.vector_to_array(index.pq.centroids)
        found = {"centres": centres, "words": words, "sizes": np.array(sizes, np.int64), "rows": rows, "codes": codes}
        return {name: torch.from_numpy(array) for name, array in found.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Fill the lists of a new index."""
        self.index = None
        if not state and len(self.vectors) < FEWEST:
            return
        self._check(state)
        centres, words, sizes, rows, codes = (
            state[name].contiguous().numpy() for name in ("centres", "words", "sizes", "rows", "codes")
        )
        index = empty(centres.shape[1], len(centres), self.config.code)
        index.quantizer.add(centres)
        faiss.copy_array_to_vector(words, index.pq.centroids)
        end = 0
        for number, size in enumerate(sizes.tolist()):
            own = slice(end, end := end + size)
            if size:
                index.invlists.add_entries(number, size, faiss.swig_ptr(rows[own]), faiss.swig_ptr(codes[own]))
        index.ntotal, index.is_trained = end, True
        self.index = index

    def _check(self, state: Mapping[str, Tensor]) -> None:
        """Raise `ValueError` unless the tensors can be those of `state` for these vectors."""
        count, code = len(self.vectors), self.config.code
        width = self.vectors.dim + -self.vectors.dim % code
        try:
            lists = len(state["centres"])
            shapes = {
                "centres": ((lists, width), torch.float32),
                "words": ((WORDS * width,), torch.float32),
                "sizes": ((lists,), torch.int64),
                "rows": ((count,), torch.int64),
                "codes": ((count, code), torch.uint8),
            }
            fitting = all(
                (tuple(state[name].shape), state[name].dtype) == expected for name, expected in shapes.items()
            )
        except KeyError as error:
            raise ValueError(f"there is no {error}") from None
        if not fitting or not lists:
            raise ValueError("its tensors do not have the shapes of this index")
        if bool((state["sizes"] < 0).any()) or int(state["sizes"].sum()) != count:
            raise ValueError("its lists do not hold all vectors")
        if int(state["rows"].min()) < 0 or int(state["rows"].max()) >= count:
            raise ValueError("its lists hold rows that do not exist")


def empty(dim: int, lists: int, code: int) -> Any:
    """An index of faiss without centres and vectors, whose codes are of the vectors themselves: one table per query."""
    index = faiss.IndexIVFPQ(faiss.IndexFlatL2(dim), dim, lists, code, 8)
    index.by_residual = False
    return index


def use_threads() -> None:
    """Let faiss use as many threads as torch: each has its own."""
    faiss.omp_set_num_threads(torch.get_num_threads())
