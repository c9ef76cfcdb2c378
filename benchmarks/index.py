"""The time, the size and the recall of indexes by the number of structures, beside plain faiss and usearch.

    python benchmarks/index.py [RUN] [--sizes N …] [--vectors N …] [--queries N] [--output FILE]

RUN: a finished run or a saved model of molecules; by default the model that ships with ELE. The molecules are those of
QM9 and, beyond these, molecules that one random edit makes of them, each once. `--sizes` go the whole way: `ele index`
reads SMILES. `--vectors` begin with packed molecules: only their embeddings are indexed. The queries are embeddings of
molecules that are not indexed: every second one is an edit of one that is.

Each measurement is a process of its own with one thread. `recall@k`: the share of the k nearest by exact search that
are found; one of equal distance counts. Memory is the peak without the pages of mapped files, which the system
may take back. usearch is left out if it is not installed, and above --largest-graph vectors: its build is long.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import machine, parser_of, show, today

from ele_core import Context
from ele_core.components.indexes.exact import ExactIndex
from ele_core.components.indexes.inverted import InvertedIndex, use_threads
from ele_core.extras import installed
from ele_core.files.archive import save_tensors
from ele_core.numerics.keys import distinct
from ele_core.runs.run import open_model
from ele_core.types import StoredVectors

SHIPPED = Path(__file__).parents[1] / "models" / "smi2mol" / "ele_model_smi2mol" / "model"
CHUNK = 20_000
TOP = 10


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("run", type=Path, nargs="?", default=SHIPPED)
    parser.add_argument("--sizes", type=int, nargs="*", default=[1_000_000], help="read, embedded and indexed")
    parser.add_argument("--vectors", type=int, nargs="*", default=[], help="embedded and indexed")
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--largest-graph", type=int, default=200_000, help="vectors up to which usearch is measured")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(METHODS[options.measure[0]](*map(Path, options.measure[1:]))))
        return
    result = measured(options)
    show(result, options.output)


def measured(options: argparse.Namespace) -> dict[str, Any]:
    model, results = open_model(options.run).model(), []
    few = options.queries // 2
    every = molecules(model, max([*options.sizes, *options.vectors]) + few)
    with tempfile.TemporaryDirectory() as name:
        for size, whole in [*((n, True) for n in options.sizes), *((n, False) for n in options.vectors)]:
            folder = Path(name) / f"{size}-{whole}"
            folder.mkdir()
            batch = every[:size]
            near = edits(model, batch[torch.arange(0, size, size // few)[:few]])
            held = torch.cat([model.surrogate.embed(part) for part in (every[-few:], near)])
            np.save(folder / "queries.npy", held.numpy())
            vectors = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float16, (size, held.shape[1]))
            for first in range(0, size, CHUNK):
                vectors[first : first + CHUNK] = model.surrogate.embed(batch[first : first + CHUNK]).numpy()
            vectors.flush()
            shown = {"structures": size, "dim": held.shape[1]}
            if whole:
                results.append({**shown, "what": "`ele index`", **commanded(options.run, model, batch, folder)})
            for method in METHODS:
                if method != "usearch" or (size <= options.largest_graph and installed("usearch")):
                    results.append({**shown, "what": LABELS[method], **apart(method, folder)})
                    print(results[-1], file=sys.stderr)
    return {
        "command": shlex.join(["python", "benchmarks/index.py", *map(brief, sys.argv[1:])]),
        "date": today(),
        "seed": 0,
        "queries": options.queries,
        "surrogate": model.config.surrogate.model_dump(mode="json"),
        "machine": machine(1),
        "results": results,
    }


def brief(word: str) -> str:
    """A word of the command line; of a path only the name."""
    return Path(word).name if "/" in word else word


# -- molecules ----------------------------------------------------------------------------------------------------


def molecules(model: Any, count: int) -> Any:
    """So many different packed molecules in a random order: QM9, then edits of it, edits of these, and so on."""
    from ele_core.data.objects import read_outputs
    from ele_graphs.molecules.sources import qm9

    texts = list(qm9().texts())
    order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(0)).tolist()
    found = read_outputs(model.space, [texts[row] for row in order[: count + count // 10]]).batch
    found = found[distinct(model.space.keys(found))]
    seed = 1
    while len(found) < count:
        made = edits(model, found, seed)
        found = type(found).cat([found, made])
        found = found[distinct(model.space.keys(found)).sort().values]
        seed += 1
    some = torch.randperm(len(found), generator=torch.Generator().manual_seed(seed))[:count]
    return found[some]


def edits(model: Any, batch: Any, seed: int = 0) -> Any:
    """One random move of each molecule."""
    generator, parts = torch.Generator().manual_seed(seed), []
    for part in batch.chunks(2000):
        moved, row = model.space.moves.neighbours(part)
        sizes = row.bincount(minlength=len(part))
        first, some = sizes.cumsum(0) - sizes, sizes > 0
        place = first + (torch.rand(len(part), generator=generator) * sizes).long()
        parts.append(moved[place[some]])
    return type(batch).cat(parts)


# -- measurements -------------------------------------------------------------------------------------------------


def commanded(run: Path, model: Any, batch: Any, folder: Path) -> dict[str, Any]:
    """`ele index` of a file of SMILES, then the size of what it wrote."""
    with (folder / "molecules.smi").open("w") as stream:
        for part in batch.chunks(CHUNK):
            stream.writelines(f"{model.space.texts.format(each)}\n" for each in model.space.unpack(part))
    index = folder / "index"
    command = [sys.executable, "-m", "ele_core", "index", str(run), str(folder / "molecules.smi"), "-o", str(index)]
    process = subprocess.Popen([*command, "--index", "faiss"], env={**os.environ, "OMP_NUM_THREADS": "1"})
    started = time.monotonic()
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit("ele index failed")
    seconds = used.ru_utime + used.ru_stime
    return {
        "build": {"seconds": round(time.monotonic() - started), "cpu_seconds": round(seconds, 1)},
        "structures_per_cpu_second": round(len(batch) / seconds),
        "megabytes": round(sum(file.stat().st_size for file in index.iterdir()) / 2**20),
        "memory_megabytes": round(used.ru_maxrss / 1024),
    }


def apart(method: str, folder: Path) -> dict[str, Any]:
    """Measure a method in a process of its own."""
    command = [sys.executable, __file__, "--measure", method, str(folder / "vectors.npy"), str(folder / "queries.npy")]
    done = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def opened(file: Path, queries: Path) -> tuple[StoredVectors, torch.Tensor]:
    torch.set_num_threads(1)
    return StoredVectors(torch.from_numpy(np.load(file, mmap_mode="c"))), torch.from_numpy(np.load(queries))


def memory() -> int:
    """Megabytes of memory that is not of mapped files."""
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["RssAnon"].split()[0]) // 1024


def timed(build: Any, search: Any, queries: torch.Tensor, size: Any, vectors: StoredVectors) -> dict[str, Any]:
    """Build, search one query after the other, and compare with exact search."""
    started = time.process_time()
    build()
    took, used = time.process_time() - started, memory()
    search(queries[:1])
    started, rows = time.process_time(), []
    for query in queries:
        rows.append(search(query[None])[:, :TOP])
    asked = (time.process_time() - started) / len(queries)
    found = torch.cat(rows)
    true = ExactIndex(None, vectors).search(queries, TOP)[0]
    own = (queries[:, None] - vectors[found.flatten()].view(*found.shape, -1)).square().sum(dim=2)
    return {
        "build": {"cpu_seconds": round(took, 1)},
        "megabytes": round(size() / 2**20),
        "memory_megabytes": used,
        "milliseconds_per_query": round(1000 * asked, 2),
        **{f"recall_{k}": round((own[:, :k] <= true[:, k - 1 : k] + 1e-6).float().mean().item(), 4) for k in (1, TOP)},
    }


def exact(file: Path, queries: Path) -> dict[str, Any]:
    vectors, asked = opened(file, queries)
    index = ExactIndex(None, vectors)
    return timed(lambda: None, lambda some: index.search(some, TOP)[1], asked, file.stat().st_size.__int__, vectors)


def inverted(file: Path, queries: Path) -> dict[str, Any]:
    vectors, asked = opened(file, queries)
    index = InvertedIndex(None, vectors)

    def size() -> int:
        save_tensors(file.with_name("state.safetensors"), index.state())
        return file.stat().st_size + file.with_name("state.safetensors").stat().st_size

    return timed(lambda: index.build(Context()), lambda some: index.search(some, TOP)[1], asked, size, vectors)


def plain_faiss(file: Path, queries: Path) -> dict[str, Any]:
    """The same lists and codes, as faiss's own recipe makes them, without the ranking."""
    import faiss

    vectors, asked = opened(file, queries)
    use_threads()
    lists = round(len(vectors) ** 0.5)
    index = faiss.index_factory(vectors.dim, f"IVF{lists},PQ32")

    def build() -> None:
        index.train(vectors[:: max(1, len(vectors) // (64 * lists))].numpy())
        for chunk in vectors.chunks(1 << 16):
            index.add(chunk.numpy())
        index.nprobe = 32

    def search(some: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(index.search(some.numpy(), TOP)[1]).clamp(min=0)

    return timed(build, search, asked, lambda: len(faiss.serialize_index(index)), vectors)


def usearch(file: Path, queries: Path) -> dict[str, Any]:
    """A graph of vectors in half precision, with the default options."""
    from usearch.index import Index

    vectors, asked = opened(file, queries)
    index = Index(ndim=vectors.dim, metric="l2sq", dtype="f16")

    def build() -> None:
        for first, chunk in enumerate(vectors.chunks(1 << 14)):
            index.add(np.arange(len(chunk)) + (first << 14), chunk.numpy(), threads=1)

    def search(some: torch.Tensor) -> torch.Tensor:
        found = np.asarray(index.search(some.numpy(), TOP, threads=1).keys).astype(np.int64)
        return torch.from_numpy(found).view(len(some), -1)

    def size() -> int:
        index.save(str(file.with_name("graph")))
        return file.with_name("graph").stat().st_size

    return timed(build, search, asked, size, vectors)


METHODS = {"exact": exact, "inverted": inverted, "faiss": plain_faiss, "usearch": usearch}
LABELS = {
    "exact": "index `exact`",
    "inverted": "index `faiss`",
    "faiss": "faiss alone, IVF and PQ32",
    "usearch": "usearch, HNSW, f16",
}


if __name__ == "__main__":
    main()
