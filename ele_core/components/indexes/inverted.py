"""The index for millions of vectors: inverted lists of compressed codes, ranked by the vectors themselves.

faiss learns the centres of the lists and the words of the codes, and scans lists. All that it finds is kept as plain
tensors, whose sizes are checked: faiss reads no file, and lists are scanned where they are, in the mapped file.
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
from ele_core.numerics.nearest import Nearest
from ele_core.runtime.context import Context

CHUNK = 1 << 14
"""Vectors that are read and coded at once."""
QUERIES = 64
"""Queries whose rows are ranked at once."""
PER_LIST = 64
"""Vectors per list in the sample from which the lists are learned: more make the build longer, not better."""
SAMPLE = 1 << 15
"""The largest number of vectors from which the projection and the codes are learned."""
PER_BYTE = 4
"""Dimensions that are coded by a byte: faiss is ten times as fast with 2 or 4 of them as with 3."""
WORDS = 256
"""The values of a byte of a code."""
FEWEST = 4 * WORDS
"""Below this many vectors there are too few to learn codes from, and all are ranked."""


class InvertedIndex(Index):
    """Vectors in lists around centres, as codes of a few bytes; the likeliest are ranked by their exact distances.

    Lists and codes are of a projection to the dimensions in which vectors differ most. A search compares a query with
    the codes of the nearest `probes` lists, then with the vectors of the best `ranked` codes. Nothing need be in
    memory: what a search needs of the codes, 8 bytes beside each, and of the vectors is read.
    """

    class Config(ComponentConfig):
        """How to compress, and how far to search."""

        lists: int | None = Field(None, ge=1)
        """The number of lists; None: the square root of the number of vectors."""
        code: int = Field(32, ge=1, le=256)
        """Bytes of a compressed vector."""
        probes: int = Field(128, ge=1)
        """Lists that a query is compared with."""
        ranked: int = Field(200, ge=1)
        """Vectors that are read and ranked for each query; at least twice as many as are asked for."""

    config: Config
    index: Any = None
    """What faiss learned, without vectors; None: there are too few for lists."""
    made: Mapping[str, Tensor] = {}
    """What `state` returns."""

    def build(self, context: Context) -> None:
        """Learn the projection, the lists and the codes from samples, then code all vectors in chunks."""
        self.index, self.made = None, {}
        count = len(self.vectors)
        if count < FEWEST:
            return
        use_threads()
        lists = min(self.config.lists or round(math.sqrt(count)), count // PER_LIST)
        self.projection = main_directions(self._sample(SAMPLE), self.config.code)
        index = empty(self.projection.shape[1], lists, self.config.code)
        index.cp.min_points_per_centroid = index.pq.cp.min_points_per_centroid = 1  # faiss would warn
        index.pq.cp.max_points_per_centroid = SAMPLE // WORDS
        index.train(np.concatenate([self._projected(part) for part in self._sample(PER_LIST * lists)]))
        self._use(index, self._coded(index, context))

    def _sample(self, most: int) -> list[Tensor]:
        """At most so many vectors, evenly spaced, in chunks."""
        rows = torch.arange(0, len(self.vectors), max(1, len(self.vectors) // most))[:most]
        return [self.vectors[part] for part in rows.split(CHUNK)]

    def _coded(self, index: Any, context: Context) -> dict[str, Tensor]:
        """What `state` returns: the sizes of the lists, the rows of each, one list after the other, and their codes."""
        count = len(self.vectors)
        number, codes = torch.empty(count, dtype=torch.int32), torch.empty(count, self.config.code, dtype=torch.uint8)
        chunks, end = self.vectors.chunks(CHUNK), 0
        for vectors in context.monitor.progress(chunks, description="coding vectors", total=-(-count // CHUNK)):
            near, own = self._projected(vectors), slice(end, end := end + len(vectors))
            number[own] = torch.from_numpy(index.quantizer.search(near, 1)[1][:, 0])
            codes[own] = torch.from_numpy(index.pq.compute_codes(near))
        rows = number.argsort(stable=True)
        return {
            "projection": self.projection,
            "centres": torch.from_numpy(index.quantizer.reconstruct_n(0, index.nlist)),
            "words": torch.from_numpy(faiss.vector_to_array(index.pq.centroids)),
            "sizes": number.bincount(minlength=index.nlist),
            "rows": rows,
            "codes": codes[rows],
        }

    def search(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The k nearest of the vectors whose codes are the nearest to each query."""
        if not len(queries):
            return queries.new_zeros(0, k), torch.zeros(0, k, dtype=torch.long)
        parts = [self._search(part.float(), k) for part in queries.split(QUERIES)]
        distances, rows = zip(*parts, strict=True)
        return torch.cat(distances).to(queries), torch.cat(rows).to(queries.device)

    def _search(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        likely = self._likely(queries, min(max(self.config.ranked, 2 * k), len(self.vectors)))
        read = torch.cat(likely).unique()  # rows in order are read faster
        vectors, parts = self.vectors[read], []
        for query, own in zip(queries, likely, strict=True):
            found = Nearest(query[None], k)
            found.add(own, vectors[torch.searchsorted(read, own)])
            parts.append(found.filled())
        distances, rows = zip(*parts, strict=True)
        return torch.cat(distances), torch.cat(rows)

    def _likely(self, queries: Tensor, count: int) -> list[Tensor]:
        """At most so many rows of likely neighbours of each query, ascending."""
        if self.index is None:
            return [torch.arange(len(self.vectors))] * len(queries)
        use_threads()
        near = self._projected(queries)
        lists = self.index.quantizer.search(near, min(self.config.probes, self.index.nlist))[1].tolist()
        return [self._scanned(query, own, count) for query, own in zip(near, lists, strict=True)]

    def _scanned(self, query: npt.NDArray[np.float32], lists: list[int], count: int) -> Tensor:
        """The rows of the nearest codes in some lists, ascending."""
        scanner = self.index.get_InvertedListScanner(False, None, faiss.SearchParametersIVF())
        scanner.set_query(faiss.swig_ptr(query))
        distances, found = np.full(count, np.inf, np.float32), np.full(count, -1, np.int64)  # a heap that faiss fills
        heap = faiss.swig_ptr(distances), faiss.swig_ptr(found), count
        rows, codes = self.made["rows"].numpy(), self.made["codes"].numpy()
        for number in lists:
            first, end = self._starts[number], self._starts[number + 1]
            if end > first:
                scanner.set_list(number, 0.0)
                scanner.scan_codes(
                    end - first, faiss.swig_ptr(codes[first:end]), faiss.swig_ptr(rows[first:end]), *heap
                )
        return torch.from_numpy(np.sort(found[found >= 0]))

    def _projected(self, vectors: Tensor) -> npt.NDArray[np.float32]:
        """Vectors in the main directions, as faiss takes them."""
        return (vectors.cpu().float() @ self.projection).contiguous().numpy()

    def state(self) -> dict[str, Tensor]:
        """The projection, centres and code words, and the rows and codes of each list."""
        return dict(self.made)

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Give faiss the centres and words; lists stay where they are."""
        self.index, self.made = None, {}
        if not state and len(self.vectors) < FEWEST:
            return
        self._check(state)
        made = {name: tensor.contiguous() for name, tensor in state.items()}
        self.projection = made["projection"]
        index = empty(self.projection.shape[1], len(made["centres"]), self.config.code)
        index.quantizer.add(made["centres"].numpy())
        faiss.copy_array_to_vector(made["words"].numpy(), index.pq.centroids)
        index.is_trained = True
        self._use(index, made)

    def _use(self, index: Any, made: dict[str, Tensor]) -> None:
        """Search what was made."""
        self.index, self.made = index, made
        self._starts = functional.pad(made["sizes"].cumsum(0), (1, 0)).tolist()

    def _check(self, state: Mapping[str, Tensor]) -> None:
        """Raise `ValueError` unless the tensors can be those of `state` for these vectors."""
        count, code, dim = len(self.vectors), self.config.code, self.vectors.dim
        width = width_of(dim, code)
        try:
            lists = len(state["centres"])
            shapes = {
                "projection": ((dim, width), torch.float32),
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


def width_of(dim: int, code: int) -> int:
    """The dimensions that are coded: a multiple of the bytes of a code, if there are that many, else padded to one."""
    return code * min(PER_BYTE, -(-dim // code))


def main_directions(chunks: list[Tensor], code: int) -> Tensor:
    """(dim, width) the directions in which vectors vary most, orthogonal, in an order by which all bytes tell alike.

    Directions by falling variance are dealt out to the bytes of a code to and fro. Columns that are too many are 0.
    """
    vectors = torch.cat(chunks)
    _, directions = torch.linalg.eigh(vectors.T.cov().double())
    width = width_of(vectors.shape[1], code)
    directions = functional.pad(directions.float().flip(1), (0, max(0, width - vectors.shape[1])))[:, :width]
    rounds = torch.arange(width).view(-1, code)
    rounds[1::2] = rounds[1::2].flip(1)
    return directions[:, rounds.T.flatten()].contiguous()


def empty(dim: int, lists: int, code: int) -> Any:
    """An index of faiss without centres and vectors, whose codes are of the vectors themselves: one table per query."""
    index = faiss.IndexIVFPQ(faiss.IndexFlatL2(dim), dim, lists, code, 8)
    index.by_residual = False
    return index


def use_threads() -> None:
    """Let faiss use as many threads as torch: each has its own."""
    faiss.omp_set_num_threads(torch.get_num_threads())
