"""What training the embedding brings: random weights, two ways to train it, and the paper's sphere, on the same pairs.

    python benchmarks/embeddings.py [--sets NAME …] [--sizes N …] [--seeds N …] [--output FILE]

Only the embedding differs: the regression is kernel ridge, whose errors the energies weigh, and no network proposes
structures. The sets, the pairs and what is measured are those of `learning_curves.py`, the record too. What FILE holds
already is not measured again.
"""

import argparse
import tempfile
from pathlib import Path

from learning_curves import SETS, TEST, drawn, measured, pool, recorded, save, written

ALONE = ["regressor.writer=none", "regressor.blocks=none"]
CONTRASTIVE = [
    "surrogate.decisions=none",
    "surrogate.training.epochs=60",
    "surrogate.training.batch_size=200",
    "surrogate.training.evaluations=20",
    "surrogate.training.patience=5",
]
SPHERE = ["surrogate.spherical=true", "surrogate.dim=128", 'selection.decoders=["pgd","search","candidates"]']
EMBEDDINGS = {
    "additive, random weights": ["surrogate.decisions=none"],
    "additive, trained on outputs": CONTRASTIVE,
    "additive, trained with the pairs": [],
    "on the sphere, trained on outputs": [*CONTRASTIVE, *SPHERE],
}
"""Embedding → options beside the defaults."""
ENCODERS = {"sequence": "sequence", "molecule": "rgcn"}
"""Output space → the encoder of the embedding on the sphere."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["number-words", "fingerprints", "smiles"], help="the data sets")
    parser.add_argument("--sizes", nargs="+", type=int, default=[1000], help="numbers of pairs (default 1,000)")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="seeds of the pairs and the training")
    parser.add_argument("--output", type=Path, help="the record to add to")
    asked = parser.parse_args()
    for name in asked.sets:
        space, pairs = SETS[name][0], pool(name)
        for size in asked.sizes:
            for seed in asked.seeds:
                for embedding, options in EMBEDDINGS.items():
                    chosen = [*ALONE, *([] if name == "fingerprints" else ["regressor.aligned=none"]), *options]
                    chosen += [f"surrogate.encoder={ENCODERS[space]}"] if SPHERE[0] in options else []
                    key = {"set": name, "pairs": size, "seed": seed, "options": chosen}
                    if recorded(asked.output, key):
                        continue
                    with tempfile.TemporaryDirectory() as folder:
                        config = written(space, drawn(pairs, seed)[: size + TEST], seed, chosen, Path(folder))
                        save(asked.output, {**key, "embedding": embedding, **measured(config, Path(folder) / "run")})


if __name__ == "__main__":
    main()
