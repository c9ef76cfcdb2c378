"""Save a model as a folder and load it on another machine; without pickle, and written completely or not at all."""

from __future__ import annotations

import json
import math
import reprlib
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ele_core import __version__
from ele_core import config as configuration
from ele_core.config import RunConfig
from ele_core.config.diff import DECODING, PLACE, changes, flatten, training_options
from ele_core.data.store import labels_problem
from ele_core.errors import EleError, ModelError
from ele_core.files.archive import (
    MANIFEST,
    brief,
    check_shapes,
    read_json,
    read_tensors,
    save_tensors,
    seal,
    sealed,
    verify,
)
from ele_core.files.atomic import replace_folder, write_text
from ele_core.files.signatures import SIGNATURE, changed, read_key, sign
from ele_core.interfaces import InputSpace, Learner, OutputSpace, Surrogate
from ele_core.model.model import Model
from ele_core.model.pretrained import refuse_installed
from ele_core.model.trust.calibration import TENSORS as CALIBRATION
from ele_core.model.trust.calibration import read_calibration, save_calibration
from ele_core.networks import NetworkLearner
from ele_core.numerics.meta_build import unfilled
from ele_core.plugins import Registry
from ele_core.plugins.contained import origin_of
from ele_core.runtime.work import Snapshot, prefixed
from ele_core.types import Candidates

CARD = "README.md"
"""The only file of a model folder that users may edit."""
UNSEALED = (CARD, SIGNATURE, "checkpoints")
"""What may be in a model folder without being listed in its manifest; checkpoints are of predictions with it."""
FORMAT = 2
"""The version of the folder's layout; models of other versions are refused."""
LARGEST_CONFIG = 4 << 20
"""Bytes of the largest config.json: room for an output space of a hundred thousand words."""
LONGEST = 1e15
"""The numbers of an embedding are below this: sums of squares of many such are finite."""
SAMPLED = 32
"""The candidates that are embedded again when a model is loaded."""
TOLERANCE = 0.01
"""The distance of a stored embedding from that of the encoder, relative to the longest of these: rounding is far
below."""


def save_model(model: Model, folder: Path, *, compact: bool = False) -> None:
    """Write `config.json`, `model.safetensors`, `candidates.safetensors`, files of the input, a manifest and a card.

    If `compact`, to publish the model: weights with half the precision, and candidates without their embeddings, which
    are computed when the model is loaded.
    """
    header = json.dumps(describe(model.config), indent=2, ensure_ascii=False) + "\n"
    check_replaceable(folder)
    with replace_folder(folder) as target:
        write_text(target / "config.json", header)
        weights = weights_of(model)
        save_tensors(target / "model.safetensors", {k: halved(v) for k, v in weights.items()} if compact else weights)
        if model.candidates is not None:
            stored = prefixed("batch", model.candidates.batch.as_dict())
            embedded = {} if compact else {"embeddings": model.candidates.embeddings}
            save_tensors(target / "candidates.safetensors", {**stored, **embedded})
        model.inputs.save(target)
        if model.calibration is not None:
            save_calibration(model.calibration, target)
        write_text(target / CARD, model_card(model))
        seal(target, unsealed=UNSEALED)
        if (key := read_key()) is not None:
            sign(target, [MANIFEST], key)


def load_model(
    folder: Path, device: torch.device, registry: Registry | None = None, config: RunConfig | None = None
) -> Model:
    """Load a model that `save_model` wrote. Only code of installed plugins runs: the folder cannot name any other.

    `config` is the configuration if it is known: that of the run, which must be the one the model was trained with but
    for how it decodes. If the environment variable ELE_KEY names a key, the model must be signed with it.
    """
    try:
        if config is None:
            config = read_config(folder, registry)
        else:
            require_same_training(read_header(folder)["config"], config, folder)
        verify(folder, UNSEALED)
        verify_signature(folder)
        return build(config, folder, device)
    except EleError:
        raise
    except Exception as error:  # plugins need not handle every file that is damaged or made up
        origin = origin_of(error)
        what = f"cannot be loaded: {f'{origin}: ' if origin else ''}{type(error).__name__}: {brief(error)}."
        raise ModelError(what, where=str(folder)) from error


def require_same_training(stored: Mapping[str, Any], config: RunConfig, folder: Path) -> None:
    """Refuse a configuration that differs from the `stored` one of a model in an option that it was trained with."""
    ignored = (*DECODING, "calibration", "recipe")
    then = flatten({name: section for name, section in stored.items() if name not in ignored})
    now = training_options(config)
    then.pop(PLACE, None)
    differ = changes(then, {path: now.get(path) for path in then})  # options newer than the model have defaults
    if differ:
        what = f"the model was trained with another configuration: {brief('; '.join(differ.values()))}."
        raise ModelError(what, where=str(folder), fix="Restore the configuration of the run.")


def verify_signature(folder: Path) -> None:
    """Refuse a model that was changed since it was signed, if a key is given."""
    key = read_key()
    if key is not None and changed(folder, [MANIFEST], key):
        fix = "Use a copy from somebody you trust, or sign it again: ele sign RUN --key FILE"
        raise ModelError("this model was changed after training.", where=str(folder), fix=fix)


def build(config: RunConfig, folder: Path, device: torch.device) -> Model:
    """Build the components with their saved weights; shapes are compared before memory is allocated."""
    space: OutputSpace[Any, Any] = config.registry.create("output", config.output, path="output")
    inputs: InputSpace[Any] = config.registry.create("input", config.input, path="input")
    inputs.load(folder)
    file = folder / "model.safetensors"
    expected = expected_weights(config, space, inputs)
    check_shapes(file, {name: value.shape for name, value in expected.items()})
    model = Model.build(config, space, inputs, seed=0)
    weights = Snapshot({name: full(tensor) for name, tensor in read_tensors(file).items()})
    if problem := weights_problem(weights.tensors, expected):
        raise ModelError(f"damaged: {problem}.", where=str(file))
    try:
        for part, learner in model.learners().items():
            learner.restore(weights.part(part))
    except (RuntimeError, KeyError) as error:
        reason = brief(str(error).splitlines()[-1].strip().rstrip("."))  # torch lists the problems, one per line
        raise ModelError(f"the weights do not fit the configuration: {reason}.", where=str(file)) from None
    for part, learner in model.learners().items():
        if all_zero(learner):
            raise ModelError(f"damaged: all weights of the {part} are zero.", where=str(file))
    model.to(device)
    if isinstance(engine := model.decoder(config.decoder), Learner):
        model.fitted[config.decoder.name] = engine
    if sealed(folder, "candidates.safetensors"):
        model.candidates = read_candidates(folder / "candidates.safetensors", model, device)
    if sealed(folder, CALIBRATION):
        model.calibration = read_calibration(folder, model.space)
    return model


def weights_of(model: Model) -> dict[str, Tensor]:
    """Return all learned tensors, by name."""
    parts = [prefixed(name, learner.state()) for name, learner in model.learners().items()]
    return {name: tensor for part in parts for name, tensor in part.items()}


def expected_weights(config: RunConfig, space: OutputSpace[Any, Any], inputs: InputSpace[Any]) -> dict[str, Tensor]:
    """Return every weight without allocating it; none if a component must compute to be built."""
    try:
        with unfilled():
            return weights_of(Model.build(config, space, inputs, 0))
    except EleError:
        raise
    except NotImplementedError:  # a meta tensor has no values to compute with
        return {}
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:  # sizes whose product is no number of bytes
        raise ModelError(f"no such network can be built: {brief(error)}.", where="config.json") from None


def check_replaceable(folder: Path) -> None:
    """Refuse to overwrite a folder that is not a model or empty: a mistaken path would delete the user's files."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    refuse_installed(folder)
    try:
        read_header(folder)
    except ModelError:
        what = "the folder is not empty, and it is not a model."
        raise ModelError(what, where=str(folder), fix="Choose another folder, or remove it.") from None


def describe(config: RunConfig) -> dict[str, Any]:
    """Return the content of config.json: the resolved configuration, and the plugin that provides each component."""
    providers = {}
    for kind, name in configuration.components(config):
        provider = config.registry.provider(kind, name)
        if not provider.installed:
            what = f"the {kind} '{name}' was registered by hand, so no other process could load the model."
            raise ModelError(what, fix="Put it into an installed package with an entry point in the group 'ele'.")
        providers[f"{kind}:{name}"] = {"distribution": provider.distribution, "version": provider.version}
    return {"format": FORMAT, "ele": __version__, "components": providers, "config": config.model_dump(mode="json")}


def read_config(folder: Path, registry: Registry | None = None, overrides: configuration.Overrides = ()) -> RunConfig:
    """Load the configuration of a saved model; if it cannot be used here, the error names the plugins it needs."""
    header = read_header(folder)
    try:
        return configuration.load(header["config"], overrides, registry)
    except EleError as error:
        if overrides:  # a mistake in an override, not in the model
            raise
        components = header.get("components")
        brought = {
            brief(f"{p.get('distribution')} {p.get('version')}", 60)
            for p in (components.values() if isinstance(components, dict) else ())
            if isinstance(p, dict)
        }
        what = f"the configuration cannot be used here: {brief(without_repeats(error.what))}"
        fix = f"The model was saved with {brief(', '.join(sorted(brought)))}." if brought else None
        raise ModelError(what, where=str(folder / "config.json"), fix=fix) from None


def without_repeats(problems: str) -> str:
    """Problems, one per line, without those that the same installation mends."""
    found: dict[str, str] = {}
    for line in problems.splitlines():
        found.setdefault(line.partition("Install it with: ")[2] or line, line.strip())
    return " ".join(found.values())


def read_candidates(file: Path, model: Model, device: torch.device) -> Candidates:
    """Load the candidates that `save_model` wrote."""
    stored = read_tensors(file)
    batch = Snapshot(stored).part("batch")
    try:
        structures = model.space.Batch.from_dict(batch)
        sizes = {len(tensor) for tensor in stored.values()}
    except (KeyError, TypeError) as error:
        raise ModelError(f"not the candidates of this model: {brief(error)}.", where=str(file)) from None
    if len(sizes) > 1:
        raise ModelError("damaged: structures and embeddings differ in number.", where=str(file))
    problem = labels_problem(structures, model.space)
    if problem is None:
        embeddings = stored["embeddings"] if "embeddings" in stored else model.surrogate.embed(structures)
        candidates = Candidates(structures, embeddings.to(device), surrogate=model.surrogate)
        problem = embeddings_problem(candidates, model.surrogate)
    if problem is not None:
        raise ModelError(f"damaged: {problem}.", where=str(file))
    return candidates


def embeddings_problem(candidates: Candidates, surrogate: Surrogate) -> str | None:
    """Return why the embeddings of `candidates` cannot be used, or None; some structures are embedded to compare."""
    if not len(candidates):
        return "there are no candidates"
    embeddings, first = candidates.embeddings, candidates.batch[:1]
    like = surrogate.embed(first)
    if (embeddings.shape[1:], embeddings.dtype) != (like.shape[1:], like.dtype):
        return "the embeddings do not have the model's dimension and type"
    if not finite(embeddings):
        return "the embeddings hold NaN or infinity"
    if not finite(embeddings, LONGEST):
        return f"the embeddings hold numbers beyond {LONGEST:g}"
    return embedding_mismatch(candidates, surrogate)


def read_header(folder: Path) -> dict[str, Any]:
    """Load config.json of a model, and refuse other formats."""
    file = folder / "config.json"
    if not file.exists():
        what = "there is no model here."
        raise ModelError(what, where=str(folder), fix="Give a folder that `save` or `ele train` wrote.")
    header = read_json(file, LARGEST_CONFIG)
    if not isinstance(header, dict) or not isinstance(header.get("config"), dict):
        raise ModelError("not an ELE model.", where=str(file))
    if header.get("format") != FORMAT:
        found = brief(reprlib.repr(header.get("format")))
        what = f"written in format {found}, this version reads format {FORMAT}."
        raise ModelError(what, where=str(file), fix="Install the version of ELE that wrote it.")
    return header


def model_card(model: Model) -> str:
    """Return a short README for the model folder."""
    candidates = len(model.candidates) if model.candidates is not None else 0
    task = model.config.task.name if model.config.task else "the user's own data"
    return f"""# An ELE model

Predicts `{model.config.output.name}` structures from `{model.config.input.name}` inputs; trained on {task}.
Surrogate `{model.config.surrogate.name}` of dimension {model.surrogate.dim}, regressor `{model.config.regressor.name}`,
decoder `{model.config.decoder.name}`, {candidates:,} candidates. Written by ELE {__version__}.

```python
from ele_core import StructuredPredictor

predictor = StructuredPredictor.load("path/to/this/folder")
predictor.predict([…])
```
"""


# -- whether tensors can be what a training left ------------------------------------------------------------------


def weights_problem(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> str | None:
    """Return why tensors cannot be the weights of a model whose untrained ones are `expected`, or None.

    The shape of an empty tensor is known only after `fit`: its numbers may be more precise.
    """
    for name, tensor in found.items():
        like = expected.get(name)
        if like is not None and not same_type(tensor, like):
            return f"the numbers of '{name}' are {as_word(tensor.dtype)}, not {as_word(like.dtype)}"
        if not finite(tensor):
            return f"'{name}' holds NaN or infinity"
    return None


def halved(tensor: Tensor) -> Tensor:
    """Return numbers of single precision with half of it; others, and those that are too large for it, as they are."""
    small = tensor.dtype is torch.float32 and finite(tensor, torch.finfo(torch.float16).max)
    return tensor.half() if small else tensor


def full(tensor: Tensor) -> Tensor:
    """Return numbers of half precision with that which they are used with; others as they are."""
    return tensor.float() if tensor.dtype is torch.float16 else tensor


def same_type(tensor: Tensor, like: Tensor) -> bool:
    """Whether a stored tensor has the type of the one that it is restored to."""
    if like.numel() or not like.is_floating_point():
        return tensor.dtype == like.dtype
    return tensor.dtype in (like.dtype, torch.float64)


def as_word(dtype: torch.dtype) -> str:
    """The name of a type, without the library."""
    return str(dtype).removeprefix("torch.")


def finite(tensor: Tensor, most: float = math.inf) -> bool:
    """Whether a tensor holds no NaN and only numbers below `most`; in one pass, without memory of its own."""
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    if tensor.element_size() < 2:  # eight bits, for which torch has no comparisons
        tensor = tensor.float()
    return all(abs(float(extreme)) < most for extreme in tensor.aminmax())


def all_zero(learner: Learner) -> bool:
    """Whether every matrix of a network is zero, which no training leaves; never for learners without a network."""
    if not isinstance(learner, NetworkLearner):
        return False
    matrices = [weight for weight in learner.network.parameters() if weight.dim() > 1 and weight.numel() > 1]
    return bool(matrices) and not any(bool(weight.any()) for weight in matrices)


def embedding_mismatch(candidates: Candidates, surrogate: Surrogate) -> str | None:
    """Return why the embeddings of some candidates, drawn at each call, are not those of the encoder, or None."""
    generator = torch.Generator().manual_seed(secrets.randbits(63))
    rows = torch.randperm(len(candidates), generator=generator)[:SAMPLED]
    stored = candidates.embeddings[rows.to(candidates.embeddings.device)].double()
    fresh = surrogate.embed(candidates.batch[rows]).to(stored)
    apart = (stored - fresh).norm(dim=1)
    if bool((apart <= TOLERANCE * fresh.norm(dim=1).max()).all()):
        return None
    return "the embeddings are not those that the model gives to these structures"
