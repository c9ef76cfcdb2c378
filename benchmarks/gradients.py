"""How far the gradient of an additive embedding tells which move lowers the energy, and what pgd makes of it.

    python benchmarks/gradients.py [--structures N] [--output FILE]

For number words and for molecules of QM9, each with the additive encoder of its space at several scales: queries are
true embeddings, so that nothing but decoding is measured. At the training output nearest to each query, all moves are
compared: the rank correlation of the change of the energy with the change that the gradient predicts, and the share of
structures at which the move that the gradient ranks first lowers the energy. Then `pgd` and `search` decode.
"""

import argparse
import datetime
import json
from pathlib import Path
from typing import Any

import torch
from learning_curves import molecules
from torch import Tensor

from ele_core.components.decoders.candidates import nearest
from ele_core.components.decoders.gradient import GradientDecoder
from ele_core.components.decoders.search import SearchDecoder
from ele_core.components.surrogates.contrastive import ContrastiveSurrogate
from ele_core.energies import Energy, gradient_at
from ele_core.files.atomic import write_text
from ele_core.interfaces import OutputSpace
from ele_core.numerics.keys import same_keys
from ele_core.runtime.context import Context
from ele_core.types import Candidates, Choice, Pairs, Problem, TrainingData
from ele_graphs.molecules.molecule import Molecule
from ele_graphs.molecules.space import MoleculeSpace
from ele_sequences.number_words import draw
from ele_sequences.space import SequenceSpace

SEED, TRAIN, DIM = 0, 3000, 512
SCALES = (0.25, 0.5, 1.0, 2.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--structures", type=int, default=60, help="queries (default 60)")
    parser.add_argument("--output", type=Path, help="the record to write")
    options = parser.parse_args()
    rows = []
    for name, space, outputs in (numbers(), qm9()):
        for scale in SCALES:
            row = {"set": name, "scale": scale, **measured(space, outputs, scale, options.structures)}
            print(json.dumps(row), flush=True)
            rows.append(row)
    if options.output:
        record = {
            "command": "python benchmarks/gradients.py",
            "structures": options.structures,
            "training outputs": TRAIN,
            "dim": DIM,
            "seed": SEED,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "results": rows,
        }
        write_text(options.output, json.dumps(record, indent=2) + "\n")


def numbers() -> tuple[str, OutputSpace[Any, Any], Any]:
    texts = [str(number) for number in draw(TRAIN + 1000, SEED)]
    space = SequenceSpace(SequenceSpace.infer(texts, {}))
    return "number-words", space, space.pack(texts)


def qm9() -> tuple[str, OutputSpace[Any, Any], Any]:
    objects = [Molecule.from_smiles(text) for text in molecules()[: TRAIN + 1000]]
    space = MoleculeSpace(MoleculeSpace.infer(objects, {}))
    return "molecules", space, space.pack(objects)


def measured(space: OutputSpace[Any, Any], outputs: Any, scale: float, count: int) -> dict[str, float]:
    context = Context(seed=SEED)
    encoder = {"SequenceSpace": "contexts", "MoleculeSpace": "neighbourhoods"}[type(space).__name__]
    torch.manual_seed(SEED)
    config = ContrastiveSurrogate.Config(
        dim=DIM, spherical=False, training=None, encoder=Choice.model_validate({"name": encoder, "scale": scale})
    )
    surrogate = ContrastiveSurrogate(config, space)
    train, truths = outputs[:TRAIN], outputs[TRAIN : TRAIN + count]
    surrogate.fit(TrainingData(None, Pairs(train, train), Pairs(train[:100], train[:100])), context)  # type: ignore[arg-type]
    problem = Problem(space, Candidates(train, surrogate.embed(train), None, surrogate))
    energy = surrogate.energy(surrogate.embed(truths))
    starts = train[nearest(energy, problem, 1, context)[1][:, 0]]
    agreed, better = agreement(space, energy, starts)
    found = {
        "rank correlation": agreed,
        "first move is better": better,
        **{
            name: exact(space, decoder.decode(energy, problem, context=context).best, truths)
            for name, decoder in (("pgd", GradientDecoder()), ("search", SearchDecoder()))
        },
    }
    return {name: round(value, 4) for name, value in found.items()}


def agreement(space: OutputSpace[Any, Any], energy: Energy, starts: Any) -> tuple[float, float]:
    """The mean rank correlation of real and predicted changes over moves, and how often the first move is better."""
    gradient, here = gradient_at(energy, starts, space), energy.of(starts)
    relaxed, correlations, better = space.relax(starts), [], []
    for row in range(len(starts)):
        moved, _ = space.moves.neighbours(starts[row : row + 1])
        owner = torch.full((len(moved),), row)
        change = energy.of(moved, owner) - here[row]
        there = space.relax(moved)
        steps = [
            ((getattr(there, name) - getattr(relaxed, name)[row]) * getattr(gradient, name)[row]).flatten(1).sum(dim=1)
            for name in space.geometry
        ]
        predicted = torch.stack(steps).sum(dim=0)
        correlations.append(torch.corrcoef(torch.stack([ranked(change), ranked(predicted)]))[0, 1].item())
        better.append(bool(change[predicted.argmin()] < 0))
    return sum(correlations) / len(correlations), sum(better) / len(better)


def ranked(values: Tensor) -> Tensor:
    return values.argsort().argsort().float()


def exact(space: OutputSpace[Any, Any], found: Any, truths: Any) -> float:
    return same_keys(space.keys, found, truths).float().mean().item()


if __name__ == "__main__":
    main()
