# %% [markdown]
# # Molecules in a notebook
#
# [From SMILES to molecules](smiles-to-molecule.md) trains on all of QM9, on the command line, for an hour. This
# notebook does the same in Python, on the small molecules of QM9, in about two minutes on one core: it trains, shows
# predictions, compares the decoders, and follows one of them step by step. The model and its data are small: the
# numbers below do not show how good ELE is. For that see [the results](../results/index.md).
#
# ## Load the data
#
# QM9 begins with its smallest molecules. We use those of its first 4,000 that have two atoms or more. A `Molecule`
# is a graph of atoms and bonds. The input is its canonical SMILES, the output is the graph itself.

# %%
import random
from itertools import islice

from ele_graphs.molecules.molecule import Molecule
from ele_graphs.molecules.sources import qm9

read = dict.fromkeys(Molecule.from_smiles(text) for text in islice(qm9().texts(), 4000))
molecules = [molecule for molecule in read if len(molecule.atoms) > 1 and molecule.valid]
random.Random(0).shuffle(molecules)
smiles = [molecule.smiles for molecule in molecules]
print(len(molecules), "molecules of at most", max(len(molecule.atoms) for molecule in molecules), "atoms")
molecules[0]

# %% [markdown]
# ## Train
#
# `for_task` uses the settings of a task with your own data. We replace two sections by smaller ones. The last
# 300 molecules are kept for the test.

# %%
from ele_core import StructuredPredictor

predictor = StructuredPredictor.for_task(
    "smi2mol",
    surrogate={
        "name": "contrastive",
        "dim": 64,
        "encoder": {"name": "rgcn", "width": 48},
        "training": {"epochs": 12, "batch_size": 256, "evaluations": 6},
    },
    regressor={
        "name": "neural",
        "backbone": {"name": "gru", "embedding": 48, "layers": 1, "width": 96},
        "training": {"epochs": 25, "batch_size": 128, "learning_rate": 4e-3, "evaluations": 5},
    },
    verbose=False,
)
predictor.fit(smiles[:-300], molecules[:-300], validation=300)
print(f"{len(predictor.model_.candidates):,} training molecules, which are the candidates as well")

# %% [markdown]
# ## Predict
#
# `predict` returns objects. `decode` also returns their energies, and is shown with pictures. None of the test
# molecules is in the training set: search builds them.

# %%
test_smiles, test_molecules = smiles[-300:], molecules[-300:]
[str(molecule) for molecule in predictor.predict(test_smiles[:4])]

# %%
predictor.decode(test_smiles[:4], top_k=2)

# %% [markdown]
# A wrong prediction, with its differences from the truth highlighted:

# %%
space = predictor.model_.space
guesses = predictor.predict(test_smiles)
wrong = [i for i, guess in enumerate(guesses) if guess.smiles != test_smiles[i]]
first = wrong[0]
print(f"{len(wrong)} of {len(guesses)} are wrong; the first of them was predicted for {test_smiles[first]}")
space.show.render(guesses[first], against=test_molecules[first])

# %% [markdown]
# ## Compare decoders
#
# The same model with three decoders. `candidates` chooses the best of the training molecules, which is never right
# here. `pgd` follows the gradient on relaxed molecules. `search` tries small edits.

# %%
predictor.evaluate(test_smiles, test_molecules, decoder="candidates")

# %%
predictor.evaluate(test_smiles, test_molecules, decoder="pgd")

# %%
predictor.evaluate(test_smiles, test_molecules, decoder="search")

# %% [markdown]
# With `oracle=True` the decoder starts from the embedding of the truth instead of the query. The remaining errors come
# from the embedding or the decoder, not from the regressor:

# %%
predictor.evaluate(test_smiles, test_molecules, decoder="search", oracle=True)

# %% [markdown]
# ## Follow a search step by step
#
# With `trace`, search records its path: it starts from a training molecule, and each step is one edit. The changes of
# each edit are highlighted, and the energy falls.

# %%
found = predictor.decode(test_smiles[:60], decoder={"name": "search", "trace": True})
paths = [found.trace(i) for i in range(60) if i not in wrong]
longest = max(paths, key=lambda path: len(path.changes()))
print(longest)

# %%
longest

# %% [markdown]
# ## Next steps
#
# - Train on more molecules: `ele train smi2mol`, as in [the tutorial](smiles-to-molecule.md).
# - Predict other structures: [your first output space](first-output-space.md).
# - Choose between decoders: [choose a decoder](../how-to/choose-a-decoder.md).
