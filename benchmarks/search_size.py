"""How the time of a round of `search` grows with the size of molecules, beside scoring every move as 0.1.0 did.

    python benchmarks/search_size.py SMILES [--largest-peer N] [--output FILE] [--plot FILE]

SMILES: a file with one SMILES per line; of each size, the first molecules of C N O F S Cl Br are taken. A round expands
a beam of four structures a few edits away from a molecule: it lists their moves, removes repeated ones, scores the rest
and keeps the best. `ranked` is the search as it is; `every move` scores all moves on tensors, up to N atoms. The
surrogates are `parts` (dimension 512) and `contrastive` with an untrained encoder `rgcn` of width 96, whose time is
that of a trained one. One thread; the least CPU time of three repetitions, the median over the molecules.
"""

import math
import platform
import statistics
import time
from pathlib import Path

import torch
from common import parser_of, show, slope, today

from ele_core import Moves
from ele_core.components.decoders.search import BeamSearch, SearchDecoder
from ele_core.components.surrogates.contrastive import ContrastiveSurrogate
from ele_core.components.surrogates.parts import PartsSurrogate
from ele_core.plugins import registry
from ele_core.testing import SampleProblem
from ele_core.types import Candidates, Choice, Decoding
from ele_graphs.graphs import keys as graph_keys
from ele_graphs.graphs.space import GraphMoves
from ele_graphs.molecules.molecule import Molecule
from ele_graphs.molecules.space import MoleculeSpace

ELEMENTS = ("C", "N", "O", "F", "S", "Cl", "Br")
SIZES = (9, 12, 16, 20, 24, 28, 32, 36, 40, 45, 50)
MOLECULES, BEAM, EDITS, REPETITIONS = 3, 4, 3, 3


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("smiles", type=Path, help="a file of SMILES")
    parser.add_argument("--largest-peer", type=int, default=36, help="score every move up to this size (default 36)")
    parser.add_argument("--plot", type=Path, help="draw the result as SVG (needs matplotlib)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    result = measured(by_size(options.smiles), options.largest_peer)
    show(result, options.output)
    if options.plot:
        plot(result, options.plot)


def by_size(file: Path) -> dict[int, list[Molecule]]:
    """The first molecules of each size."""
    found: dict[int, list[Molecule]] = {size: [] for size in SIZES}
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            molecule = Molecule.from_smiles(line.split()[0])
        except (ValueError, IndexError):
            continue
        own = found.get(len(molecule.atoms))
        if own is not None and len(own) < MOLECULES and set(molecule.atoms) <= set(ELEMENTS):
            own.append(molecule)
    return found


def measured(molecules: dict[int, list[Molecule]], largest_peer: int) -> dict[str, object]:
    rows = [row for size, own in molecules.items() if own for row in of_size(size, own, size <= largest_peer)]
    growth = {
        name: round(slope([(row["atoms"], row["ranked_ms"]) for row in rows if row["surrogate"] == name]), 2)
        for name in ("parts", "contrastive")
    }
    return {
        "command": f"python benchmarks/search_size.py SMILES --largest-peer {largest_peer}",
        "date": today(),
        "machine": {"processor": platform.machine(), "threads": torch.get_num_threads()},
        "beam": BEAM,
        "exponent": growth,
        "rows": rows,
    }


def of_size(size: int, molecules: list[Molecule], peer: bool) -> list[dict[str, object]]:
    """The times of a round for molecules of one size, one row per surrogate."""
    space = MoleculeSpace(MoleculeSpace.Config(elements=ELEMENTS, max_atoms=size + 2, resonance=True))
    batch = space.pack(molecules)
    parts = PartsSurrogate(PartsSurrogate.Config(dim=512), space)
    parts.scale = torch.full((1,), 0.1)
    contrastive = registry().create(
        "surrogate", Choice(name="contrastive", encoder={"name": "rgcn", "width": 96}), space
    )
    assert isinstance(contrastive, ContrastiveSurrogate)
    contrastive.outline_on(space.moves.list(batch)[0][:2000])
    rows = []
    for name, surrogate in (("parts", parts), ("contrastive", contrastive)):
        ranked, every, same = [], [], []
        for row in range(len(batch)):
            truth, beam = batch[row : row + 1], away(space, batch[row : row + 1])
            problem = SampleProblem(space, Candidates(beam, surrogate.embed(beam)), surrogate=surrogate)
            seconds, best = round_of(problem, surrogate.embed(truth))
            ranked.append(seconds)
            if peer:
                seconds, expected = round_of(problem, surrogate.embed(truth), every_move=True)
                every.append(seconds)
                same.append(best >= expected - 1e-5 and best <= expected + 1e-5)
        rows.append(
            {
                "surrogate": name,
                "atoms": size,
                "molecules": len(batch),
                "moves": round(len(space.moves.list(batch)[0]) / len(batch)),
                "ranked_ms": round(statistics.median(ranked) * 1e3, 1),
                "every_move_ms": round(statistics.median(every) * 1e3, 1) if every else None,
                "same_best": f"{sum(same)} of {len(same)}" if same else None,
            }
        )
        print(rows[-1], flush=True)
    return rows


def away(space: MoleculeSpace, molecule):
    """A beam of structures a few random edits away from a molecule."""
    generator = torch.Generator().manual_seed(0)
    beam = molecule[torch.zeros(BEAM, dtype=torch.long)]
    for _ in range(EDITS):
        moved, row = space.moves.list(beam)
        chosen = [
            own[torch.randint(len(own), (), generator=generator)]
            for own in ((row == i).nonzero().flatten() for i in range(BEAM))
        ]
        beam = moved[torch.stack(chosen)]
    return beam


class EveryMove(Moves):
    """The moves of graphs, without a way to rank them by parts."""

    def list(self, batch):
        return GraphMoves.list(self, batch)


def round_of(problem: SampleProblem, query, *, every_move: bool = False) -> tuple[float, float]:
    """The least CPU time of one round, and the energy of the best structure after it."""
    energies = problem.energy(query).among(problem.candidates)
    start = Decoding(problem.candidates.batch, energies)
    compiled, moves = graph_keys.COMPILED_FROM, type(problem.space).Moves
    if every_move:
        graph_keys.COMPILED_FROM, type(problem.space).Moves = math.inf, EveryMove
    times = []
    try:
        for _ in range(1 if every_move else REPETITIONS + 1):  # the first compiles
            search = BeamSearch(
                problem.energy(query), [start], BEAM, problem, SearchDecoder.Config(rounds=1), trace=False
            )
            before = time.process_time()
            found = search.run(1)
            times.append(time.process_time() - before)
    finally:
        graph_keys.COMPILED_FROM, type(problem.space).Moves = compiled, moves
    return min(times), found.energies[0, 0].item()


def plot(result: dict[str, object], file: Path) -> None:
    """Time of a round over the number of atoms, on logarithmic axes."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4))
    for name in ("parts", "contrastive"):
        rows = [row for row in result["rows"] if row["surrogate"] == name]
        axes.loglog([r["atoms"] for r in rows], [r["ranked_ms"] / 1e3 for r in rows], "o-", label=f"{name}, ranked")
        rows = [row for row in rows if row["every_move_ms"]]
        axes.loglog(
            [r["atoms"] for r in rows], [r["every_move_ms"] / 1e3 for r in rows], "x--", label=f"{name}, every move"
        )
    axes.axhline(0.1, color="grey", linewidth=0.8)
    axes.set_xlabel("heavy atoms")
    axes.set_ylabel("seconds for a round of a beam of 4, one core")
    ticks = list(SIZES)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.legend()
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})


if __name__ == "__main__":
    main()
