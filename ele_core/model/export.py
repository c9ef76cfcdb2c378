"""A model for programs without ELE: its network or kernel as ONNX, its candidates, and a script that predicts."""

from __future__ import annotations

import dataclasses
import json
import runpy
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ele_core.components.inputs.text import BEGIN, END, TextInput, Texts
from ele_core.components.inputs.vector import VectorInput, Vectors
from ele_core.components.regressors.ensemble import EnsembleRegressor
from ele_core.components.regressors.joint import JointRegressor
from ele_core.components.regressors.neural import NeuralRegressor
from ele_core.components.regressors.ridge import SketchedRidgeRegressor
from ele_core.components.regressors.stacked import StackedRegressor
from ele_core.components.sketching import SketchedKernel
from ele_core.energies import SquaredDistance, WeightedDistance
from ele_core.errors import ConfigError, ModelError, counted
from ele_core.extras import installed, missing
from ele_core.files.atomic import new_folder
from ele_core.interfaces import InputSpace, Regressor
from ele_core.model.model import Model, share_of
from ele_core.numerics.error_model import ErrorModel
from ele_core.numerics.keys import mix
from ele_core.numerics.sparse import SparseRows
from ele_core.runtime.context import Context
from ele_core.types import Candidates

OPSET = 17
TOLERANCE = 1e-4
"""The greatest difference between a distance of the exported model and of ELE, as a share of the greatest distance."""
CHECKED = (1, 7)
"""The numbers of inputs for which both are compared."""
LARGEST = 2_000_000_000
"""Bytes of weights that an ONNX file can hold."""
LONGEST = 1024
"""Tokens of the longest text whose kernel is exported: all pairs of its tokens are compared."""
AT_ONCE = 1 << 22
"""Numbers that are computed at once."""
NEEDED = "Only neural, sketched-ridge, stacked, ensemble and joint can be exported."


@dataclasses.dataclass(frozen=True)
class Export:
    """What was exported."""

    folder: Path
    candidates: int
    dim: int
    left_out: Sequence[str]
    """What ELE does and the exported model does not."""


def export(model: Model, name: str, folder: Path) -> Export:
    """Write the model to a new folder, after a comparison with ELE; it should be on the CPU."""
    for package in ("onnx", "onnxruntime"):
        if not installed(package):
            raise missing("an export", package, "export")
    if model.candidates is None:
        raise ModelError("the model has no candidates.", fix="Export one that was trained.")
    regressor = onto_the_loss(model.regressor)
    network = Exported(model.inputs, regressor).eval()
    candidates = share_of(model.candidates, model.config.candidates.share, Context(model.config.seed))
    found = Export(folder, len(candidates), model.surrogate.dim, left_out(model))
    with new_folder(folder) as temporary:
        write_network(network, temporary / "model.onnx")
        kept = candidates.kept_by(model.surrogate)
        placed = kept if regressor.errors is None else regressor.errors.placed(kept)
        np.save(temporary / "candidates.npy", placed.float().numpy())
        texts = [model.space.texts.format(obj) for obj in model.space.unpack(candidates.batch)]
        lines = (json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts)
        (temporary / "candidates.jsonl").write_text("".join(lines), encoding="utf-8")
        (temporary / "inputs.json").write_text(json.dumps(network.options, ensure_ascii=False), encoding="utf-8")
        (temporary / "predict.py").write_text(script(model.inputs), encoding="utf-8")
        (temporary / "README.md").write_text(readme(found, name, network), encoding="utf-8")
        compare(temporary / "predict.py", model, regressor, candidates)
    return found


def onto_the_loss(regressor: Regressor) -> Regressor:
    """The regressor onto the learned loss, without proposers."""
    return regressor.loss if isinstance(regressor, JointRegressor) else regressor


def left_out(model: Model) -> list[str]:
    """What ELE does with this model and an exported one does not, the most important first."""
    found, regressor, decoder = [], model.regressor, model.config.decoder.name
    if isinstance(regressor, JointRegressor) and regressor.joint:
        used = ", ".join(name for name, weight in zip(regressor.proposers, regressor.weights, strict=True) if weight)
        found.append(f"the proposers ({used}), whose probabilities ELE adds to the loss")
    if decoder != "candidates":
        found.append(f"the decoder '{decoder}', which also builds structures that are no candidates")
    if model.calibration is not None:
        found.append("the confidence of predictions, and prediction sets")
    return [*found, "constraints, and warnings about inputs unlike those of the training"]


# -- the network --------------------------------------------------------------------------------------------------


class WholeTexts(Texts):
    """Texts whose padding is kept: the graph of a network has one width."""

    def trimmed(self) -> WholeTexts:
        """The texts as they are."""
        return self


class Exported(nn.Module):
    """The tensors of packed inputs → what candidates are compared with: R (q − o) if errors are weighed, else q."""

    def __init__(self, inputs: InputSpace[Any], regressor: Regressor) -> None:
        super().__init__()
        energy = regressor.energy(torch.zeros(0, regressor.surrogate.dim))
        if not isinstance(energy, SquaredDistance | WeightedDistance):
            what = f"the energies of {energy} are no squared distances between vectors."
            raise ConfigError(what, where="surrogate", fix="Export a model with another surrogate.")
        self.errors = ErrorModel(regressor.surrogate.dim) if regressor.errors is None else regressor.errors
        if type(inputs) is TextInput:
            vocabulary = inputs._fitted()
            self.kind: type[WholeTexts | Vectors] = WholeTexts
            self.names = ["tokens", "lengths"]
            self.options: dict[str, Any] = {
                "pattern": vocabulary.pattern,
                "max_length": inputs.max_length,
                "unknown": inputs.config.unknown,
                "on_long": inputs.config.on_long,
                "vocabulary": vocabulary.names,
            }
        elif type(inputs) is VectorInput:
            mean, deviation = inputs._fitted()
            self.kind, self.names = Vectors, ["values"]
            self.options = {"mean": mean.tolist(), "deviation": deviation.tolist()}
        else:
            what = f"input '{inputs.registered_as or type(inputs).__name__}' cannot be read without ELE."
            raise ConfigError(what, where="input", fix="Only models on 'text' and 'vector' can be exported.")
        self.inputs = inputs
        self.inner = module_of(regressor, inputs)
        self.example = tuple(
            tensor.long() if self.kind is WholeTexts else tensor
            for _, tensor in inputs.pack(samples(inputs, 2)).named_tensors()
        )

    def forward(self, *fields: Tensor) -> Tensor:
        """The fields of a batch → (B, dim)."""
        return self.errors.weighted(self.inner(self.kind(*fields)))


def module_of(regressor: Regressor, inputs: InputSpace[Any]) -> nn.Module:
    """A regressor as a module from batches to queries."""
    spherical = regressor.surrogate.spherical
    if isinstance(regressor, NeuralRegressor):
        return Sum([(1.0, regressor.network)], spherical=spherical)
    if isinstance(regressor, EnsembleRegressor):
        share = 1 / len(regressor.members)
        return Sum([(share, module_of(each, inputs)) for each in regressor.members], spherical=spherical)
    if isinstance(regressor, StackedRegressor):
        if (alone := regressor._alone()) is not None:
            return module_of(regressor.parts[alone], inputs)
        parts = [(weight, module_of(regressor.parts[name], inputs)) for name, weight in regressor._used()]
        return Sum(parts, spherical=spherical)
    if isinstance(regressor, SketchedRidgeRegressor) and regressor.map.learned is not None:
        if isinstance(inputs, VectorInput):
            return VectorKernel(regressor.map, regressor.weights, inputs.dimension)
        if isinstance(inputs, TextInput):
            return TextKernel(regressor, inputs)
    name = regressor.registered_as or type(regressor).__name__
    raise ConfigError(f"this model predicts with '{name}'.", where="regressor", fix=NEEDED)


class Sum(nn.Module):
    """Σ w_r h_r(x), normalised if embeddings are."""

    def __init__(self, parts: Sequence[tuple[float, nn.Module]], *, spherical: bool) -> None:
        super().__init__()
        self.weights = [weight for weight, _ in parts]
        self.parts = nn.ModuleList(part for _, part in parts)
        self.spherical = spherical

    def forward(self, batch: Any) -> Tensor:
        """Inputs → (B, dim)."""
        query: Tensor = torch.stack([w * part(batch) for w, part in zip(self.weights, self.parts, strict=True)]).sum(0)
        return functional.normalize(query, dim=1) if self.spherical else query


class VectorKernel(nn.Module):
    """k(x, anchors) P H for vectors."""

    anchors: Tensor
    squares: Tensor
    mixed: Tensor

    def __init__(self, kernel: SketchedKernel, weights: Tensor, dimension: int) -> None:
        super().__init__()
        assert kernel.learned is not None
        self.kernel, self.width = kernel, kernel.learned.width
        self.cosine = kernel.options.kernel == "cosine"
        self.register_buffer("anchors", kernel.learned.anchors.transposed(dimension))
        self.register_buffer("squares", kernel.learned.anchors.squares)
        self.register_buffer("mixed", kernel.learned.projection @ weights)

    def forward(self, batch: Vectors) -> Tensor:
        """Vectors → (B, dim)."""
        values = functional.normalize(batch.values, dim=1) if self.cosine else batch.values
        squares = values.square().sum(dim=1)
        found: Tensor = self.kernel._kernel(values @ self.anchors, squares, self.squares, self.width) @ self.mixed
        return found


class TextKernel(nn.Module):
    """⟨φ(x), anchors⟩ P H / ‖φ(x)‖ for counts φ of runs of tokens: a row of numbers for each run that an anchor has.

    Runs are found in a tree, which has an edge for each run: from the run without its last token, by that token. Edges
    are numbered so that their keys ascend, and found by bisection.
    """

    edges: Tensor
    """(D,) the key of each run: the number of the run without its last token, times the number of tokens, plus it."""
    table: Tensor
    """(D + 2, dim) what a run adds to the query: none for run 0, which is empty, and for the last, which is unknown."""

    def __init__(self, regressor: SketchedRidgeRegressor, inputs: TextInput) -> None:
        super().__init__()
        options, learned = regressor.config, regressor.map.learned
        assert learned is not None
        if options.kernel != "cosine" or inputs.config.level == "pieces" or inputs.max_length > LONGEST:
            what = f"of the kernels on texts, only the cosine of tokens is exported, for up to {LONGEST:,} tokens."
            fix = "Train with the option kernel=cosine of that regressor." if options.kernel != "cosine" else None
            raise ConfigError(what, where="regressor", fix=fix)
        self.grams, self.ends, self.tokens = options.grams, inputs.config.ends, inputs.vocabulary_size + 2
        known = learned.anchors.keys.unique()
        edges, order = tree_of(known, inputs.vocabulary_size, self.grams)
        added = rows_of(learned.anchors, known, learned.projection @ regressor.weights)
        self.register_buffer("edges", edges)
        self.register_buffer("table", functional.pad(added[order], (0, 0, 1, 1)))

    def forward(self, batch: Texts) -> Tensor:
        """Texts → (B, dim)."""
        tokens, lengths = batch.tokens, batch.lengths[:, None]
        if self.ends:
            tokens, lengths = functional.pad(tokens, (1, 1)), lengths + 2
            places = torch.arange(tokens.shape[1])
            tokens = tokens.masked_fill(places == 0, self.tokens - 2)
            tokens = tokens.masked_fill(places == lengths - 1, self.tokens - 1)
        starts, runs = torch.arange(tokens.shape[1]), torch.zeros_like(tokens)
        same = torch.ones_like(tokens[:, :, None] == tokens[:, None])
        total, squares = torch.zeros(1), torch.zeros(1)
        for length in range(1, min(self.grams, tokens.shape[1]) + 1):
            width = tokens.shape[1] - length + 1
            last, there = tokens[:, length - 1 :], starts[:width] + length <= lengths
            runs = self.found(runs[:, :width] * self.tokens + last)
            same = same[:, :width, :width] & (last[:, :, None] == last[:, None])
            both = same & there[:, :, None] & there[:, None]
            squares = squares + both.float().sum(dim=(1, 2))
            total = total + (self.table[runs] * there[:, :, None]).sum(dim=1)
        return total * squares.clamp(min=1.0).rsqrt()[:, None]

    def found(self, keys: Tensor) -> Tensor:
        """The numbers of the runs with these keys; the last number for those that no anchor has."""
        count, place = len(self.edges), torch.zeros_like(keys)
        for power in reversed(range(count.bit_length())):
            after = place + (1 << power)
            further = (after < count) & (self.edges[after.clamp(max=count - 1)] <= keys)
            place = torch.where(further, after, place)
        return torch.where(self.edges[place] == keys, place + 1, count + 1)


def tree_of(known: Tensor, vocabulary: int, grams: int) -> tuple[Tensor, Tensor]:
    """The keys (D,) of the edges, ascending, and the place in `known` (D,), ascending hashes of runs, of each run.

    A run with a hash in `known` has all its beginnings there, so runs are found again token by token.
    """
    tokens = mix(torch.cat([torch.arange(vocabulary), torch.tensor([BEGIN, END])]))
    edges, order, first = list[Tensor](), list[Tensor](), 0
    hashes = torch.zeros(1, dtype=torch.int64)
    rows = max(1, AT_ONCE // len(tokens))
    for length in range(1, grams + 1):
        found = [known.new_zeros(0)]
        for start in range(0, len(hashes), rows):
            longer = mix(hashes[start : start + rows, None] * 2 + tokens + length)
            place = torch.searchsorted(known, longer).clamp(max=len(known) - 1)
            parent, token = (known[place] == longer).nonzero(as_tuple=True)
            edges.append((first + start + parent) * len(tokens) + token)
            found.append(place[parent, token])
        order += found
        first, hashes = first + len(hashes), known[torch.cat(found)]
    if sum(map(len, order)) != len(known):
        raise ModelError("the runs of tokens of the kernel cannot be found again.", fix="Train again.")
    return torch.cat(edges), torch.cat(order)


def rows_of(anchors: SparseRows, known: Tensor, mixed: Tensor) -> Tensor:
    """Φᵀ M for anchors Φ with keys in `known` (D,) and M (a, dim): (D, dim)."""
    found, columns = mixed.new_zeros(len(known), mixed.shape[1]), torch.searchsorted(known, anchors.keys)
    for part in torch.arange(len(columns)).split(max(1, AT_ONCE // mixed.shape[1])):
        found.index_add_(0, columns[part], anchors.values[part, None] * mixed[anchors.rows[part]])
    return found


def write_network(network: Exported, file: Path) -> None:
    """Write the network as ONNX, for any number of inputs."""
    size = sum(tensor.numel() * tensor.element_size() for tensor in network.state_dict().values())
    if size > LARGEST:
        what = f"the weights take {size:,} bytes, and an ONNX file holds {LARGEST:,}."
        raise ConfigError(what, where="regressor", fix="Train with a smaller one.")
    for weights in network.parameters():
        weights.requires_grad_(True)  # or attention takes a shorter way, which ONNX has not
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter that keeps loops of a GRU, and of shapes that are constants
        torch.onnx.export(
            network,
            network.example,
            file,
            input_names=network.names,
            output_names=["query"],
            dynamic_axes={name: {0: "batch"} for name in (*network.names, "query")},
            opset_version=OPSET,
            dynamo=False,
        )


# -- the comparison -----------------------------------------------------------------------------------------------


def samples(inputs: InputSpace[Any], count: int) -> list[Any]:
    """Random inputs, always the same, of tokens or numbers as in training."""
    drawn = np.random.default_rng(0)
    if isinstance(inputs, VectorInput):
        mean, deviation = inputs._fitted()
        return list(mean + deviation * drawn.standard_normal((count, len(mean))))
    assert isinstance(inputs, TextInput)
    names, found = inputs.names[2:] or inputs.names, list[str]()
    while len(found) < count:
        text = "".join(drawn.choice(names, size=drawn.integers(1, 1 + min(40, inputs.max_length))))
        if len(inputs._fitted().cut(text)) <= inputs.max_length:
            found.append(text)
    return found


def compare(file: Path, model: Model, regressor: Regressor, candidates: Candidates) -> None:
    """Run the script that was written, and refuse distances that are not those of ELE."""
    distances = runpy.run_path(str(file))["distances"]
    for count in CHECKED:
        values = samples(model.inputs, count)
        with torch.no_grad():
            energy = regressor.energy(regressor.predict(model.inputs.pack(values)))
            expected = energy.among(candidates).double().numpy()
        found = distances(values)
        difference = np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-30)
        if not difference <= TOLERANCE:  # also if it is no number
            what = (
                f"the exported model differs from ELE, for {counted(count, 'input')} by {difference:.2g} of a distance."
            )
            raise ModelError(what, fix="Nothing was written. Please report the configuration of the run.")


# -- the files ----------------------------------------------------------------------------------------------------

TEXT = """
NUMBERS = {token: number for number, token in enumerate(OPTIONS["vocabulary"]) if number > 1}


def feeds(inputs):
    tokens = np.zeros((len(inputs), OPTIONS["max_length"]), dtype=np.int64)
    lengths = np.zeros(len(inputs), dtype=np.int64)
    for row, text in enumerate(inputs):
        ends = [0, *(end for match in re.finditer(OPTIONS["pattern"], text) for end in match.span()), len(text)]
        numbers = [NUMBERS.get(text[a:b], 1) for a, b in zip(ends, ends[1:]) if a < b]
        if not numbers or (len(numbers) > OPTIONS["max_length"] and OPTIONS["on_long"] == "error"):
            raise ValueError(f"this text has {len(numbers)} tokens, not 1 to {OPTIONS['max_length']}: {text!r}")
        if OPTIONS["unknown"] == "error" and 1 in numbers:
            raise ValueError(f"this text has an unknown token: {text!r}")
        lengths[row] = min(len(numbers), OPTIONS["max_length"])
        tokens[row, : lengths[row]] = numbers[: lengths[row]]
    return {"tokens": tokens, "lengths": lengths}
"""
VECTOR = """

def feeds(inputs):
    values = (np.asarray(inputs, dtype=np.float64) - OPTIONS["mean"]) / OPTIONS["deviation"]
    return {"values": values.astype(np.float32)}
"""
SCRIPT = '''"""Predict with numpy and onnxruntime alone: python predict.py INPUT …"""

import json
import re
import sys
from pathlib import Path

import numpy as np
import onnxruntime

HERE = Path(__file__).parent
OPTIONS = json.loads((HERE / "inputs.json").read_text(encoding="utf-8"))
CANDIDATES = [json.loads(line)["text"] for line in (HERE / "candidates.jsonl").read_bytes().splitlines()]
EMBEDDINGS = np.load(HERE / "candidates.npy").astype(np.float64)
SESSION = onnxruntime.InferenceSession(str(HERE / "model.onnx"), providers=["CPUExecutionProvider"])
{feeds}

def distances(inputs):
    queries = SESSION.run(None, feeds(inputs))[0].astype(np.float64)
    return (queries**2).sum(1)[:, None] + (EMBEDDINGS**2).sum(1) - 2 * queries @ EMBEDDINGS.T


def predict(inputs, top_k=1):
    return [[CANDIDATES[row] for row in rows] for rows in distances(inputs).argsort(1)[:, :top_k]]


if __name__ == "__main__":
    for found in predict({argument}, top_k=1):
        print(found[0])
'''
README = """# {name}

A model that ELE trained, without ELE and without torch. `predict.py` needs numpy and onnxruntime:

```console
$ python predict.py INPUT …
```

It maps inputs to queries of {dim} numbers with `model.onnx`, and answers with the nearest of {candidates} by the
squared distance. This is the learned loss of ELE: the distances are those that ELE gives the same candidates, which was
checked when this folder was written.

What ELE does with the model and this folder does not:

{left_out}

| file | what it holds |
|---|---|
| `model.onnx` | {fields} → `query`, for any number of inputs |
| `candidates.npy` | a vector for each candidate; what ELE knows of the errors of queries is part of it |
| `candidates.jsonl` | the text of each candidate, in the same order |
| `inputs.json` | how inputs become numbers |
| `predict.py` | all that is needed to predict: |

```python
{script}```
"""


def script(inputs: InputSpace[Any]) -> str:
    """The script that predicts."""
    texts = isinstance(inputs, TextInput)
    argument = "sys.argv[1:]" if texts else "[json.loads(vector) for vector in sys.argv[1:]]"
    written = SCRIPT.replace("{feeds}", TEXT if texts else VECTOR).replace("{argument}", argument)
    return written if texts else written.replace("import re\n", "")


def readme(found: Export, name: str, network: Exported) -> str:
    """The page beside the files: what they are, and what they are not."""
    return README.format(
        name=name,
        dim=found.dim,
        candidates=counted(found.candidates, "candidate"),
        left_out="\n".join(f"- {each}" for each in found.left_out),
        fields=" and ".join(f"`{field}`" for field in network.names),
        script=script(network.inputs),
    )
