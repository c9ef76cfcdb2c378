"""Each hot path beside other programs that do the same, in one run, as ratios of CPU time.

    python benchmarks/peers.py [--only NAME …] [--peers FOLDER] [--output FILE]

The peers are not dependencies of ELE; one that is not installed is left out, with a message. They can be in a
folder of their own, which is searched after the installed packages:

    pip install --target FOLDER --no-deps entmax POT igraph texttable pytorch-metric-learning rapidfuzz
    pip install --target FOLDER --no-deps torch_geometric xxhash
    pip install --target FOLDER/spacy spacy

Each subject is measured in a process of its own with one thread. Ours and its peers get the same data and take turns;
the times are medians of CPU time, because other programs may use the machine. What a program needs to have prepared,
such as the graphs of igraph, the edge lists of PyG or the index of faiss, is prepared before. Before they are timed,
their results are compared: a greater difference than the case allows ends the benchmark. A ratio below 1 means that
the peer is faster. With --only, the rows of other subjects that FILE has are kept.
"""

import argparse
import datetime
import json
import math
import os
import platform
import resource
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ele_core.files.atomic import write_text

SAMPLE = 0.02
"""The least CPU seconds of a sample: short calls are repeated within it."""
FEWEST, REPEATS = 3, 7
BUDGET = 3.0
"""CPU seconds of a case after which it is not repeated again."""
LEFT_OUT: list[str] = []
"""The peers of this process that are not installed."""


@dataclass(frozen=True)
class Peer:
    """Another program for the same thing."""

    name: str
    run: Callable[[], Any]
    difference: Callable[[Any, Any], float]
    """How far our result and that of the peer differ."""
    allowed: float = 0.0
    note: str | None = None


@dataclass(frozen=True)
class Case:
    """One size of one subject: ours, and the peers that are installed."""

    what: str
    ours: Callable[[], Any]
    peers: Sequence[Peer]
    note: Callable[[dict[str, float]], str] | None = None
    """What else to say, from the seconds of ours and of each peer."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SUBJECTS, default=list(SUBJECTS), metavar="NAME")
    parser.add_argument("--peers", type=Path, help="a folder with packages to compare with")
    parser.add_argument("--output", type=Path, help="write the result as JSON")
    parser.add_argument("--measure", choices=SUBJECTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        torch.set_num_threads(1)
        if options.peers:
            sys.path.append(str(options.peers))
        rows = [row for case in SUBJECTS[options.measure](options.peers) for row in measured(case)]
        print(json.dumps({"rows": rows, "left_out": sorted(set(LEFT_OUT))}))
        return
    kept = (
        json.loads(options.output.read_text("utf-8")) if options.output and options.output.is_file() else {"rows": []}
    )
    rows = {name: [row for row in kept["rows"] if row["subject"] == name] for name in SUBJECTS}
    left_out: set[str] = set()
    for name in options.only:
        found = apart(name, options.peers)
        rows[name] = [{"subject": name, **row} for row in found["rows"]]
        left_out |= set(found["left_out"])
        result = {
            "command": shlex.join(["python", "benchmarks/peers.py", *(["--peers", "FOLDER"] if options.peers else [])]),
            "seed": 0,
            "machine": {"processor": platform.machine(), "cores": os.cpu_count(), "threads": 1},
            "versions": {"python": platform.python_version(), "torch": torch.__version__},
            "rows": [row for name in SUBJECTS for row in rows[name]],
        }
        if options.output:
            write_text(options.output, json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    for name in sorted(left_out):
        print(f"{name} is not installed and was left out", file=sys.stderr)


def apart(subject: str, peers: Path | None) -> dict[str, Any]:
    """Measure a subject in a process of its own."""
    command = [sys.executable, __file__, "--measure", subject, *(["--peers", str(peers)] if peers else [])]
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(command, env={**os.environ, **one}, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{subject} failed")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measured(case: Case) -> Iterator[dict[str, Any]]:
    """Compare the results, then time ours and its peers in turn: one row for each peer."""
    result = case.ours()
    programs: dict[str, Callable[[], Any]] = {"ours": case.ours, **{peer.name: peer.run for peer in case.peers}}
    differences = {peer.name: peer.difference(result, peer.run()) for peer in case.peers}
    for peer in case.peers:
        if not differences[peer.name] <= peer.allowed:
            raise SystemExit(f"{case.what}: {peer.name} differs by {differences[peer.name]}, more than {peer.allowed}")
    calls = {name: max(1, math.ceil(SAMPLE / max(seconds(run, 1), 1e-6))) for name, run in programs.items()}
    samples: list[dict[str, float]] = []
    start = cpu()
    while len(samples) < FEWEST or (len(samples) < REPEATS and cpu() - start < BUDGET):
        samples.append({name: seconds(run, calls[name]) for name, run in programs.items()})
    medians = {name: statistics.median(sample[name] for sample in samples) for name in programs}
    notes = [case.note(medians)] if case.note else []
    for peer in case.peers:
        row = {
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "what": case.what,
            "peer": peer.name,
            "peer_ms": rounded(1000 * medians[peer.name]),
            "ours_ms": rounded(1000 * medians["ours"]),
            "ratio": rounded(medians[peer.name] / medians["ours"]),
            "difference": rounded(differences[peer.name]),
            "repeats": len(samples),
            "note": "; ".join([*notes, *([peer.note] if peer.note else [])]) or None,
        }
        print(row, file=sys.stderr)
        yield row


def seconds(run: Callable[[], Any], calls: int) -> float:
    """The CPU seconds of one call, programs that it started included: the mean of some calls."""
    start = cpu()
    for _ in range(calls):
        run()
    return (cpu() - start) / calls


def cpu() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def rounded(value: float) -> float:
    """Four significant digits."""
    return float(f"{value:.4g}")


def found(module: str, distribution: str | None = None) -> str | None:
    """The name and the version of a peer; None, and noted, if it is not installed."""
    if find_spec(module) is None:
        LEFT_OUT.append(distribution or module)
        return None
    return f"{distribution or module} {version(distribution or module)}"


def apart_by(ours: Tensor, theirs: Tensor) -> float:
    """The greatest difference of two tensors."""
    return float((ours - theirs).abs().max())


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# -- projections --------------------------------------------------------------------------------------------------


def simplex(_: Path | None) -> Iterator[Case]:
    """162,000 rows are the edges of 2,000 graphs of 9 nodes."""
    from ele_core.numerics.projections import simplex

    for rows, size in ((162_000, 4), (162_000, 12), (20_000, 64)):
        x = normal(rows, size)
        peers = [Peer("`torch.sort`, as in Duchi et al.", partial(textbook, x), apart_by, 1e-5)]
        if name := found("entmax"):
            from entmax import sparsemax

            peers.append(Peer(f"{name}, `sparsemax`", partial(sparsemax, x, -1), apart_by, 1e-5))
        yield Case(f"simplex projection of {rows:,} rows of {size}", partial(simplex, x), peers)


def textbook(x: Tensor) -> Tensor:
    """Duchi et al. (2008), figure 1, as it is usually written with torch."""
    ordered = x.sort(dim=-1, descending=True).values
    excess = ordered.cumsum(dim=-1) - 1
    counts = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype, device=x.device)
    support = (ordered - excess / counts > 0).sum(dim=-1, keepdim=True)
    return (x - excess.gather(-1, support - 1) / support).clamp(min=0)


def birkhoff(_: Path | None) -> Iterator[Case]:
    """Optimal transport with a squared norm is the same projection; Sinkhorn's point is another of the same set."""
    from ele_core.numerics.projections import birkhoff

    for count, size in ((200, 9), (50, 20)):
        x, peers = normal(count, size, size).double(), []
        if name := found("ot", "POT"):
            import ot

            ones = torch.ones(count, size, dtype=x.dtype)
            costs, one = (-x).numpy(), ones[0].numpy()

            def dual(costs: Any = costs, one: Any = one) -> Tensor:
                options = {"reg": 1.0, "reg_type": "l2", "stopThr": 1e-12, "numItermax": 10_000}
                return torch.stack([torch.from_numpy(ot.smooth.smooth_ot_dual(one, one, c, **options)) for c in costs])

            def sinkhorn(x: Tensor = x, ones: Tensor = ones) -> Tensor:
                return ot.batch.bregman_log_projection_batch(x, ones, ones, tol=1e-9, max_iter=10_000)["T"]

            peers = [
                Peer(f"{name}, `smooth_ot_dual`", dual, apart_by, 1e-4),
                Peer(
                    f"{name}, Sinkhorn",
                    sinkhorn,
                    lambda ours, theirs: float(max(sums_off(ours), sums_off(theirs))),
                    1e-6,
                    "another point: nearest in relative entropy; both have sums of 1 within 1e-6",
                ),
            ]
        yield Case(f"Birkhoff projection of {count} matrices of {size} × {size}", partial(birkhoff, x), peers)


def sums_off(matrices: Tensor) -> Tensor:
    """How far rows and columns are from a sum of 1."""
    return torch.stack([(matrices.sum(dim=side) - 1).abs().max() for side in (1, 2)]).max()


# -- molecules ----------------------------------------------------------------------------------------------------


@cache
def texts(count: int, parts: int) -> list[str]:
    """SMILES of QM9; with several parts, joined by single bonds where that gives a molecule."""
    from ele_graphs.molecules.sources import qm9

    every = list(qm9().texts())
    order = torch.randperm(len(every), generator=torch.Generator().manual_seed(0)).tolist()
    joined = ("".join(every[row] for row in order[first : first + parts]) for first in range(0, len(every), parts))
    from ele_graphs.molecules.reader import read_many

    space, read = space_of(parts), []
    for block in read_many(islice(joined, 4 * count), space.limits(min_atoms=2), processes=0):
        read += block.smiles
    return list(dict.fromkeys(read))[:count]


@cache
def space_of(parts: int) -> Any:
    from ele_graphs.molecules.space import MoleculeSpace

    return MoleculeSpace(MoleculeSpace.Config(elements=("C", "N", "O", "F"), max_atoms=9 * parts))


def packed(count: int, parts: int) -> Any:
    from ele_core.data.objects import read_outputs

    return read_outputs(space_of(parts), texts(count, parts)).batch


def reading(_: Path | None) -> Iterator[Case]:
    from rdkit import Chem, rdBase

    from ele_graphs.molecules.reader import read_many

    rdBase.DisableLog("rdApp.*")
    for count, parts in ((2000, 1), (1000, 3)):
        smiles, limits = texts(count, parts), space_of(parts).limits(min_atoms=2)

        def ours(smiles: Any = smiles, limits: Any = limits) -> list[str]:
            return [text for block in read_many(smiles, limits, processes=0) for text in block.smiles]

        def parsed(smiles: Any = smiles) -> list[Any]:
            return [Chem.MolFromSmiles(text) for text in smiles]

        def canonical(smiles: Any = smiles) -> list[str]:
            return [Chem.MolToSmiles(Chem.MolFromSmiles(text), isomericSmiles=False) for text in smiles]

        def rates(of: dict[str, float], count: int = count) -> str:
            return f"ours {count / of['ours']:,.0f} molecules per second"

        yield Case(
            f"{count:,} SMILES of up to {9 * parts} atoms to packed molecules",
            ours,
            [
                Peer(
                    f"RDKit {version('rdkit')}, `MolFromSmiles`",
                    parsed,
                    lambda ours, theirs: unlike(ours, [Chem.MolToSmiles(m, isomericSmiles=False) for m in theirs]),
                    note="the peer neither writes canonically nor packs",
                ),
                Peer(f"RDKit {version('rdkit')}, `MolToSmiles` of `MolFromSmiles`", canonical, unlike),
            ],
            rates,
        )


def unlike(ours: Sequence[Any], theirs: Sequence[Any]) -> float:
    """In how many places two lists differ."""
    return sum(a != b for a, b in zip(ours, theirs, strict=True))


def keys(_: Path | None) -> Iterator[Case]:
    """Half of the graphs are the other half with their nodes in another order."""
    from rdkit import Chem

    from ele_graphs.graphs.batch import permute, to_lists
    from ele_graphs.graphs.keys import graph_keys

    for count, parts in ((5000, 1), (1000, 3)):
        once = packed(count // 2, parts)
        order = torch.rand(once.nodes.shape, generator=torch.Generator().manual_seed(0)).argsort(dim=1)
        graphs = type(once).cat([once, permute(once, order)])
        molecules = [each.to_rdkit() for each in space_of(parts).unpack(graphs)]

        def smiles(molecules: Any = molecules) -> list[str]:
            return [Chem.MolToSmiles(molecule, isomericSmiles=False) for molecule in molecules]

        peers = [Peer(f"RDKit {version('rdkit')}, canonical `MolToSmiles`", smiles, grouped_otherwise)]
        if name := found("igraph"):
            coloured = [Coloured(*lists) for lists in to_lists(graphs)]

            def orders(coloured: Any = coloured) -> list[list[int]]:
                return [each.order() for each in coloured]

            def compared(ours: Tensor, orders: Any, coloured: Any = coloured) -> float:
                return grouped_otherwise(ours, [each.form(own) for each, own in zip(coloured, orders, strict=True)])

            peers.append(Peer(f"{name}, `canonical_permutation` (bliss)", orders, compared))
        what = f"keys of {len(graphs):,} graphs of up to {9 * parts} nodes"
        yield Case(what, partial(graph_keys, graphs), peers)


class Coloured:
    """A graph of igraph, which has colours of nodes only: an edge with a label above 1 has a node of its own."""

    def __init__(self, labels: list[int], edges: list[tuple[int, int, int]]) -> None:
        import igraph

        self.colours, self.edges = list(labels), []
        for i, j, label in edges:
            if label == 1:
                self.edges.append((i, j))
            else:
                self.edges += [(i, len(self.colours)), (len(self.colours), j)]
                self.colours.append(100 + label)
        self.graph = igraph.Graph(n=len(self.colours), edges=self.edges)

    def order(self) -> list[int]:
        return list(self.graph.canonical_permutation(color=self.colours))

    def form(self, order: list[int]) -> tuple[Any, ...]:
        """The graph in a canonical order, which lists the old number of each new node."""
        place = {old: new for new, old in enumerate(order)}
        colours = (self.colours[old] for old in order)
        return (*colours, *sorted(tuple(sorted((place[i], place[j]))) for i, j in self.edges))


def grouped_otherwise(ours: Tensor, theirs: Sequence[Any]) -> float:
    """How many groups of equal keys are no groups of equal forms."""
    own = [tuple(key) for key in ours.tolist()]
    return 2 * len(set(zip(own, theirs, strict=True))) - len(set(own)) - len(set(theirs))


# -- networks -----------------------------------------------------------------------------------------------------


def rgcn(_: Path | None) -> Iterator[Case]:
    """The default layers without closed walks and without messages along missing edges, which PyG has not.

    `RGCNConv` takes the relations one after the other; `FastRGCNConv` copies a matrix for every edge, and is far slower
    on a CPU. Our forward pass, as after training, begins with packed molecules; that of training with relaxed ones.
    """
    from ele_graphs.rgcn import RelationalEncoder

    if (name := found("torch_geometric")) is None:
        return
    peak = speed_of_products()
    torch.manual_seed(0)
    encoder = RelationalEncoder(RelationalEncoder.Config(closed_walks=0), space_of(1), 128)
    for linear in encoder.weights:
        linear.weight.data[:, : encoder.config.width] = 0

    def forward(network: Callable[[], Tensor]) -> Tensor:
        with torch.no_grad():
            return network()

    def step(network: Callable[[], Tensor]) -> Tensor:
        encoder.zero_grad()
        network().square().sum().backward()
        return encoder.enter.weight.grad.clone()

    for count in (128, 512):
        batch = packed(count, 1)
        relaxed, theirs = partial(encoder, space_of(1).relax(batch)), Convolutions(encoder, batch)
        for what, run, own in (
            ("forward", forward, partial(encoder.encode, batch)),
            ("forward and backward", step, relaxed),
        ):
            ours, peer = partial(run, own), partial(run, theirs)
            work = [operations(program) for program in (ours, peer)]

            def share(of: dict[str, float], work: Sequence[int] = work) -> str:
                shares = (f"{100 * count / each / peak:.0f} %" for count, each in zip(work, of.values(), strict=True))
                return f"peer / ours at {' / '.join([*shares][::-1])} of sgemm's {peak / 1e9:.0f} GFLOP/s"

            what = f"R-GCN on {count} molecules of QM9, {what}"
            yield Case(what, ours, [Peer(f"{name}, `RGCNConv`", peer, relatively_apart, 1e-4)], share)


def operations(program: Callable[[], Any]) -> int:
    """The floating-point operations of the matrix products of a program."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        program()
    return int(counter.get_total_flops())


def relatively_apart(ours: Tensor, theirs: Tensor) -> float:
    return apart_by(ours, theirs) / float(ours.abs().max())


class Convolutions(nn.Module):
    """The network of an encoder with the convolutions of PyG, on the edge list of a batch."""

    def __init__(self, encoder: Any, batch: Any) -> None:
        from torch_geometric.nn import RGCNConv

        super().__init__()
        self.encoder = encoder
        width = encoder.config.width
        self.convs = nn.ModuleList(RGCNConv(width, width, encoder.labels, aggr="sum") for _ in encoder.weights)
        for own, linear in zip(self.convs, encoder.weights, strict=True):
            weights = linear.weight.detach().unflatten(1, (-1, width)).permute(1, 2, 0)
            own.weight.data, own.root.data, own.bias.data = weights[1:-1].clone(), weights[-1].clone(), linear.bias.data
        real, rows = batch.real, torch.arange(len(batch))
        number = real.flatten().cumsum(0).view(real.shape) - 1
        row, target, source = batch.edges.nonzero(as_tuple=True)
        self.edges = torch.stack([number[row, source], number[row, target]])
        self.labels = batch.edges[row, target, source].long() - 1
        self.graph, self.count = rows.repeat_interleave(batch.sizes), len(batch)
        self.features = functional.one_hot(batch.nodes[real].long(), encoder.node_labels).float()

    def forward(self) -> Tensor:
        from torch_geometric.nn import global_add_pool

        features = self.encoder.enter(self.features)
        for conv, norm in zip(self.convs, self.encoder.norms, strict=True):
            features = features + torch.relu(conv(norm(features), self.edges, self.labels))
        pooled = global_add_pool(features, self.graph, self.count)
        return self.encoder.leave(torch.relu(self.encoder.hidden(pooled)))


def speed_of_products(size: int = 1024) -> float:
    """The floating-point operations per CPU second of a product of large matrices."""
    a = normal(size, size)
    return 2 * size**3 / statistics.median(seconds(lambda: a @ a, 1) for _ in range(REPEATS))


def contrastive(_: Path | None) -> Iterator[Case]:
    """The loss and its gradient from encoded anchors and views."""
    from ele_core.components.surrogates.contrastive import different
    from ele_core.components.surrogates.losses import ContrastiveLoss

    loss = ContrastiveLoss()
    for count in (64, 256, 2048):
        pair = [normal(count, 128, seed=seed).requires_grad_() for seed in (0, 1)]
        numbers = torch.arange(count)
        own = torch.stack([numbers, numbers], dim=1)

        def ours(pair: Any = pair, own: Tensor = own) -> Tensor:
            negative = different(own, own)
            return loss(*(functional.normalize(part, dim=1) for part in pair), negative).mean() / loss.temperature

        def entropy(pair: Any = pair, numbers: Tensor = numbers) -> Tensor:
            anchors, views = (functional.normalize(part, dim=1) for part in pair)
            return functional.cross_entropy(anchors @ views.T / loss.temperature, numbers)

        peers = [Peer("torch, `cross_entropy`", partial(stepped, entropy, pair), apart_by, 1e-5)]
        if count < 2048 and (
            name := found("pytorch_metric_learning", "pytorch-metric-learning")
        ):  # its memory grows with the cube
            from pytorch_metric_learning.losses import NTXentLoss

            theirs = NTXentLoss(loss.temperature)

            def metric(pair: Any = pair, numbers: Tensor = numbers, theirs: Any = theirs) -> Tensor:
                again = numbers.clone()  # of the same tensor, equal labels in equal places would be no pairs
                return theirs(pair[0], numbers, ref_emb=pair[1], ref_labels=again)

            peers.append(Peer(f"{name}, `NTXentLoss`", partial(stepped, metric, pair), apart_by, 1e-5))
        yield Case(f"InfoNCE of {count:,} pairs of 128 numbers, with gradient", partial(stepped, ours, pair), peers)


def stepped(loss: Callable[[], Tensor], pair: Sequence[Tensor]) -> Tensor:
    """The loss and its gradients in one tensor."""
    value = loss()
    return torch.cat([value[None], *(each.flatten() for each in torch.autograd.grad(value, pair))]).detach()


# -- comparisons --------------------------------------------------------------------------------------------------


def edits(_: Path | None) -> Iterator[Case]:
    from ele_core.numerics.edit_distance import edit_distances

    if (name := found("rapidfuzz")) is None:
        return
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cpdist

    for count, longest in ((10_000, 12), (10_000, 40)):
        generator = torch.Generator().manual_seed(0)
        shape = (2, count, longest)
        tokens = torch.randint(1, 27, shape, generator=generator, dtype=torch.int16)
        lengths = torch.randint(longest // 2, longest + 1, (2, count, 1), generator=generator)
        tokens = tokens * (torch.arange(longest) < lengths)
        words = [["".join(chr(96 + code) for code in row if code) for row in side] for side in tokens.tolist()]
        peer = partial(cpdist, *words, scorer=Levenshtein.distance, workers=1)
        yield Case(
            f"edit distances of {count:,} pairs of {longest // 2} to {longest} tokens",
            partial(edit_distances, *tokens),
            [Peer(f"{name}, `cpdist`", peer, lambda ours, theirs: apart_by(ours, torch.from_numpy(theirs)))],
        )


def nearest(_: Path | None) -> Iterator[Case]:
    from ele_core.numerics.nearest import Nearest

    if (name := found("faiss", "faiss-cpu")) is None:
        return
    import faiss

    faiss.omp_set_num_threads(1)
    for count, asked in ((10_000, 1), (10_000, 100), (130_000, 1), (130_000, 100)):
        vectors, queries = normal(count, 128), normal(asked, 128, seed=1)
        index, rows = faiss.IndexFlatL2(128), torch.arange(count)
        index.add(vectors.numpy())

        def ours(vectors: Tensor = vectors, queries: Tensor = queries, rows: Tensor = rows) -> Nearest:
            found = Nearest(queries, 10)
            found.add(rows, vectors)
            return found

        def compared(ours: Nearest, theirs: Any) -> float:
            return apart_by(ours.distances, torch.from_numpy(theirs[0])) + int(
                ours.rows.ne(torch.tensor(theirs[1])).sum()
            )

        what = f"10 nearest of {count:,} vectors of 128 numbers, {asked} quer{'y' if asked == 1 else 'ies'}"
        yield Case(
            what, ours, [Peer(f"{name}, `IndexFlatL2`", partial(index.search, queries.numpy(), 10), compared, 1e-3)]
        )


# -- start-up -----------------------------------------------------------------------------------------------------


def startup(peers: Path | None) -> Iterator[Case]:
    """The peer, spaCy, runs without torch, which it would import, in an interpreter without other packages."""
    from startup import cpu_seconds

    folder = (peers or Path()) / "spacy"
    if not folder.is_dir():
        LEFT_OUT.append("spacy")
        return
    number = next(folder.glob("spacy-*.dist-info")).name.split("-")[1].removesuffix(".dist")
    command = [str(Path(sys.base_prefix) / "bin" / "python3"), "-m", "spacy", "--help"]
    own = {**os.environ, "PYTHONPATH": str(folder)}
    spacy = partial(subprocess.run, command, env=own, stdout=subprocess.DEVNULL, check=True)
    ours = partial(cpu_seconds, ["-m", "ele_core", "--help"])
    yield Case("`ele --help`", ours, [Peer(f"spaCy {number}, `python -m spacy --help`", spacy, lambda *_: 0.0)])


SUBJECTS: dict[str, Callable[[Path | None], Iterator[Case]]] = {
    each.__name__: each for each in (simplex, birkhoff, rgcn, contrastive, keys, reading, edits, nearest, startup)
}


if __name__ == "__main__":
    main()
