"""The time, the size, the memory and the recall of indexes by the number of structures, beside faiss and usearch.

    python benchmarks/index.py [RUN] [--sizes N …] [--vectors N …] [--dim N] [--queries N] [--folder FOLDER]
        [--output FILE]

RUN: a finished run or a saved model of molecules; by default the model that ships with ELE. `--sizes` go the whole way:
`ele index` reads as many SMILES of QM9. `--vectors` begin with packed molecules, which are made, not read: molecules of
QM9 in which up to three atoms, drawn at random, get another element, each result once. Their embeddings are those of
the fixed embedding `parts` of dimension --dim, in half precision. The queries are embeddings of molecules that are not
indexed: every second one is one atom away from one that is.

Each measurement is a process of its own with one thread. `recall@k`: the share of the k nearest by exact search that
are found; one of equal distance counts. Memory is the peak without the pages of mapped files, which the system
may take back; queries are answered by a process that opens what another built. usearch is left out if it is not
installed, and, as faiss alone, above --largest vectors: their builds are long.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from common import machine, parser_of, show, today

from ele_core import Context
from ele_core.components.indexes.exact import ExactIndex
from ele_core.components.indexes.inverted import InvertedIndex, use_threads
from ele_core.components.surrogates.parts import PartsSurrogate
from ele_core.extras import installed
from ele_core.files.archive import read_tensors, save_tensors
from ele_core.numerics.keys import distinct
from ele_core.runs.run import open_model
from ele_core.types import StoredVectors

SHIPPED = Path(__file__).parents[1] / "models" / "smi2mol" / "ele_model_smi2mol" / "model"
CHUNK = 20_000
TOP = 10
PROBES = InvertedIndex.Config().probes
SCANNED = 1
"""Queries by which the time of exact search is measured: each reads all vectors."""
SEEDS, COPIES = 20_000, 64
"""Molecules of QM9 from which others are made, and how many at once of each."""


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("run", type=Path, nargs="?", default=SHIPPED)
    parser.add_argument("--sizes", type=int, nargs="*", default=[20_000], help="read, embedded and indexed")
    parser.add_argument("--vectors", type=int, nargs="*", default=[1_000_000], help="made, embedded and indexed")
    parser.add_argument("--dim", type=int, default=512, help="dimension of the vectors")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--largest", type=int, default=100_000, help="vectors up to which all peers are measured")
    parser.add_argument("--folder", type=Path, help="keep the vectors there, and take those that are there")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        torch.set_num_threads(1)
        print(json.dumps(MEASURED[options.measure[0]](Path(options.measure[1]))))
        return
    show(measured(options), options.output)


def measured(options: argparse.Namespace) -> dict[str, Any]:
    model, results = open_model(options.run).model(), list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as name:
        for size in options.sizes:
            results.append({"structures": size, "dim": model.surrogate.dim, "what": "`ele index`"})
            results[-1] |= commanded(options.run, model, size, Path(name))
            print(results[-1], file=sys.stderr)
        for size in options.vectors:
            folder = (options.folder or Path(name)) / f"{size}-{options.dim}"
            if not (folder / "nearest.npy").is_file():
                folder.mkdir(parents=True, exist_ok=True)
                write_vectors(model.space, size, options, folder)
            for method in METHODS if size <= options.largest else ["exact", "inverted"]:
                if method != "usearch" or installed("usearch"):
                    shown = {"structures": size, "dim": options.dim, "what": METHODS[method]}
                    results.append({**shown, **apart(method, folder)})
                    print(results[-1], file=sys.stderr)
    return {
        "command": shlex.join(["python", "benchmarks/index.py", *map(brief, sys.argv[1:])]),
        "date": today(),
        "seed": 0,
        "queries": options.queries,
        "machine": machine(1),
        "results": results,
    }


def brief(word: str) -> str:
    """A word of the command line; of a path only the name."""
    return Path(word).name if "/" in word else word


# -- molecules ----------------------------------------------------------------------------------------------------


def write_vectors(space: Any, size: int, options: argparse.Namespace, folder: Path) -> None:
    """Write the embeddings of molecules and of queries, and the distances of the nearest by exact search."""
    surrogate = PartsSurrogate(PartsSurrogate.Config(dim=options.dim), space)
    few = options.queries // 2
    every = molecules(space, size + few)
    near = changed(every[torch.arange(0, size, size // few)[:few]], 1, torch.Generator().manual_seed(2))
    queries = torch.cat([surrogate.embed(part) for part in (every[size:], near)])
    vectors = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float16, (size, options.dim))
    for first in range(0, size, CHUNK):
        end = min(size, first + CHUNK)
        vectors[first:end] = surrogate.embed(every[first:end]).numpy()
    vectors.flush()
    np.save(folder / "queries.npy", queries.numpy())
    np.save(folder / "nearest.npy", ExactIndex(None, opened(folder)[0]).search(queries, TOP)[0].numpy())


def molecules(space: Any, count: int) -> Any:
    """So many different packed molecules in a random order."""
    from ele_core.data.objects import read_outputs
    from ele_graphs.molecules.sources import qm9

    generator = torch.Generator().manual_seed(0)
    texts = list(qm9().texts())
    seeds = read_outputs(space, [texts[row] for row in torch.randperm(len(texts), generator=generator)[:SEEDS]]).batch
    found = seeds
    while len(found) < count:
        rows = torch.arange(len(seeds)).repeat(min(COPIES, 1 + 2 * (count - len(found)) // len(seeds)))
        made = [changed(seeds[part], 3, generator) for part in rows.split(CHUNK)]
        found = type(found).cat([found, *made])
        found = found[distinct(torch.cat([space.keys(part) for part in found.chunks(CHUNK)]))]
    return found[torch.randperm(len(found), generator=generator)[:count]]


def changed(batch: Any, atoms: int, generator: torch.Generator) -> Any:
    """Molecules in which up to so many atoms, drawn at random, get another element of QM9: C, N, O or F."""
    nodes = batch.nodes.clone()
    rows, sizes = torch.arange(len(nodes)), (nodes > 0).sum(dim=1)
    for _ in range(atoms):
        place = (torch.rand(len(nodes), generator=generator) * sizes).long()
        element = torch.randint(1, 5, (len(nodes),), generator=generator)
        nodes[rows, place] = element.to(nodes)
    return batch.replace(nodes=nodes)


# -- measurements -------------------------------------------------------------------------------------------------


def commanded(run: Path, model: Any, size: int, folder: Path) -> dict[str, Any]:
    """`ele index` of a file of SMILES; the rates of its parts; and the size of what it wrote."""
    from ele_core.data.objects import read_outputs
    from ele_graphs.molecules.sources import qm9

    texts = list(islice(qm9().texts(), 50_000, 50_000 + size))
    (folder / "molecules.smi").write_text("\n".join(texts) + "\n")
    command = [sys.executable, "-m", "ele_core", "index", str(run), str(folder / "molecules.smi")]
    command += ["-o", str(folder / "index"), "--index", "faiss"]
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit("ele index failed")
    torch.set_num_threads(1)
    started = time.process_time()
    batch = read_outputs(model.space, texts[:CHUNK]).batch
    read = time.process_time()
    model.surrogate.embed(batch)
    ended = time.process_time()
    return {
        "build": {"cpu_seconds": round(used.ru_utime + used.ru_stime, 1)},
        "per_cpu_second": {
            "read": round(len(batch) / (read - started)),
            "embedded": round(len(batch) / (ended - read)),
        },
        "megabytes": round(sum(file.stat().st_size for file in (folder / "index").iterdir()) / 2**20),
        "memory_megabytes": {"build": round(used.ru_maxrss / 1024)},
    }


def apart(method: str, folder: Path) -> dict[str, Any]:
    """Measure a method in a process of its own."""
    command = [sys.executable, __file__, "--measure", method, str(folder)]
    done = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def opened(folder: Path) -> tuple[StoredVectors, torch.Tensor]:
    """The vectors and the queries."""
    vectors = torch.from_numpy(np.load(folder / "vectors.npy", mmap_mode="c"))
    return StoredVectors(vectors), torch.from_numpy(np.load(folder / "queries.npy"))


class Memory:
    """The peak of megabytes that are not of mapped files, looked up 20 times a second."""

    def __enter__(self) -> Self:
        self.peak, self.ended = 0, threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join()

    def _look(self) -> None:
        while True:
            lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
            self.peak = max(self.peak, int(lines["RssAnon"].split()[0]) // 1024)
            if self.ended.wait(0.05):
                return


def built(build: Callable[[], int]) -> dict[str, Any]:
    """Build; `build` returns the bytes on disk beside the vectors."""
    started = time.process_time()
    with Memory() as memory:
        size = build()
    seconds = round(time.process_time() - started, 1)
    return {
        "build": {"cpu_seconds": seconds},
        "megabytes": round(size / 2**20),
        "memory_megabytes": {"build": memory.peak},
    }


def searched(search: Callable[[torch.Tensor], torch.Tensor], folder: Path, few: int | None = None) -> dict[str, Any]:
    """Search one query after the other, of all or of a few, and compare with exact search."""
    vectors, queries = opened(folder)
    queries, rows = queries[:few], list[torch.Tensor]()
    search(queries[:1])
    with Memory() as memory:
        started = time.process_time()
        for query in queries:
            rows.append(search(query[None])[:, :TOP])
        asked = (time.process_time() - started) / len(queries)
    found, true = torch.cat(rows), torch.from_numpy(np.load(folder / "nearest.npy"))[:few]
    own = (queries[:, None] - vectors[found.flatten()].view(*found.shape, -1)).square().sum(dim=2)
    near = own <= true[:, -1:] + 1e-6
    return {
        "memory_megabytes": {"query": memory.peak},
        "milliseconds_per_query": round(1000 * asked, 2),
        "recall_1": round((own[:, 0] <= true[:, 0] + 1e-6).float().mean().item(), 4),
        f"recall_{TOP}": round(near.float().mean().item(), 4),
    }


def both(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """What was measured of a build and of a search."""
    return {**first, **second, "memory_megabytes": {**first["memory_megabytes"], **second["memory_megabytes"]}}


def exact(folder: Path) -> dict[str, Any]:
    index = ExactIndex(None, opened(folder)[0])
    found = searched(lambda some: index.search(some, TOP)[1], folder, SCANNED)
    return both(built((folder / "vectors.npy").stat().st_size.__int__), found)


def inverted(folder: Path) -> dict[str, Any]:
    index = InvertedIndex(None, opened(folder)[0])

    def build() -> int:
        index.build(Context())
        save_tensors(folder / "state.safetensors", index.state())
        return sum((folder / name).stat().st_size for name in ("vectors.npy", "state.safetensors"))

    return both(built(build), apart("inverted-search", folder))


def inverted_search(folder: Path) -> dict[str, Any]:
    index = InvertedIndex(None, opened(folder)[0])
    index.restore(read_tensors(folder / "state.safetensors"))
    return searched(lambda some: index.search(some, TOP)[1], folder)


def plain_faiss(folder: Path) -> dict[str, Any]:
    """As many lists and probes, and codes of as many bytes, as faiss's own recipe makes them, without the ranking."""
    import faiss

    use_threads()
    vectors, _ = opened(folder)
    lists = round(len(vectors) ** 0.5)
    index = faiss.index_factory(vectors.dim, f"IVF{lists},PQ32")
    index.do_polysemous_training = False  # takes minutes, for a search that is not used here

    def build() -> int:
        index.train(vectors[:: max(1, len(vectors) // (64 * lists))].numpy())
        for chunk in vectors.chunks(1 << 14):
            index.add(chunk.numpy())
        index.nprobe = PROBES
        return len(faiss.serialize_index(index))

    def search(some: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(index.search(some.numpy(), TOP)[1]).clamp(min=0)

    return both(built(build), searched(search, folder))


def usearch(folder: Path) -> dict[str, Any]:
    """A graph of vectors in half precision, with the default options."""
    from usearch.index import Index

    vectors, _ = opened(folder)
    index = Index(ndim=vectors.dim, metric="l2sq", dtype="f16")

    def build() -> int:
        for first, chunk in enumerate(vectors.chunks(1 << 14)):
            index.add(np.arange(len(chunk)) + (first << 14), chunk.numpy(), threads=1)
        index.save(str(folder / "graph"))
        return (folder / "graph").stat().st_size

    def search(some: torch.Tensor) -> torch.Tensor:
        found = np.asarray(index.search(some.numpy(), TOP, threads=1).keys).astype(np.int64)
        return torch.from_numpy(found).view(len(some), -1)

    return both(built(build), searched(search, folder))


METHODS = {
    "exact": "index `exact`",
    "inverted": "index `faiss`",
    "faiss": "faiss alone, IVF and PQ32",
    "usearch": "usearch, HNSW, f16",
}
MEASURED = {
    "exact": exact,
    "inverted": inverted,
    "inverted-search": inverted_search,
    "faiss": plain_faiss,
    "usearch": usearch,
}


if __name__ == "__main__":
    main()
