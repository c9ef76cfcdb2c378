"""A model as a folder: enough to predict on another machine, no pickle, never half written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from ele_core import __version__
from ele_core import config as configuration
from ele_core.config import RunConfig
from ele_core.errors import EleError, ModelError
from ele_core.files import replace_folder, write_text
from ele_core.interfaces import Candidates, InputSpace, OutputSpace
from ele_core.model import Model
from ele_core.plugins import registry

FORMAT = 1
"""The layout of a model folder; a reader refuses any other."""


def save_model(model: Model, folder: Path) -> None:
    """Write `config.json`, `model.safetensors`, `candidates.safetensors`, the input's own files and a model card."""
    header = json.dumps(describe(model.config), indent=2, ensure_ascii=False) + "\n"
    check_replaceable(folder)
    with replace_folder(folder) as target:
        write_text(target / "config.json", header)
        weights = {f"surrogate.{name}": value for name, value in model.surrogate.state().items()}
        weights |= {f"regressor.{name}": value for name, value in model.regressor.state().items()}
        save_file({name: value.contiguous().cpu() for name, value in weights.items()}, target / "model.safetensors")
        if model.candidates is not None:
            stored = {f"batch.{name}": value for name, value in model.candidates.batch.as_dict().items()}
            stored["embeddings"] = model.candidates.embeddings.contiguous().cpu()
            save_file(stored, target / "candidates.safetensors")
        model.inputs.save(target)
        write_text(target / "README.md", model_card(model))


def load_model(folder: Path, device: torch.device) -> Model:
    """Read what `save_model` wrote. Only installed plugins are imported: no file in the folder can name other code."""
    config = read_config(folder)
    space: OutputSpace[Any, Any] = registry().create("output", config.output, path="output")
    inputs: InputSpace[Any] = registry().create("input", config.input, path="input")
    inputs.load(folder)
    model = Model.build(config, space, inputs, seed=0)
    weights = read_tensors(folder / "model.safetensors")
    try:
        for prefix, part in (("surrogate.", model.surrogate), ("regressor.", model.regressor)):
            part.restore({name.removeprefix(prefix): w for name, w in weights.items() if name.startswith(prefix)})
    except (RuntimeError, KeyError) as error:
        reason = str(error).splitlines()[-1].strip().rstrip(".")  # torch lists them, one a line
        what = f"the weights do not fit the configuration: {reason}."
        raise ModelError(what, where=str(folder / "model.safetensors")) from None
    model.to(device)
    if (folder / "candidates.safetensors").exists():
        model.candidates = read_candidates(folder / "candidates.safetensors", space, device)
    return model


def check_replaceable(folder: Path) -> None:
    """Refuse to put a model in the place of anything but a model: a mistaken path would lose the user's files."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    try:
        read_header(folder)
    except ModelError:
        what = "there is something there already, and it is not a model."
        raise ModelError(what, where=str(folder), fix="Choose another folder, or remove it.") from None


def describe(config: RunConfig) -> dict[str, Any]:
    """What config.json holds: the resolved configuration, and which installed plugin brings each component."""
    providers = {}
    for kind, name in configuration.components(config):
        provider = registry().provider(kind, name)
        if not provider.installed:
            what = f"the {kind} '{name}' was registered by hand, so no other process could load the model."
            raise ModelError(what, fix="Put it into an installed package with an entry point in the group 'ele'.")
        providers[f"{kind}:{name}"] = {"distribution": provider.distribution, "version": provider.version}
    return {"format": FORMAT, "ele": __version__, "components": providers, "config": config.model_dump(mode="json")}


def read_config(folder: Path) -> RunConfig:
    """The configuration of a saved model; where it cannot be used here, the error says which plugins it came from."""
    header = read_header(folder)
    try:
        return configuration.load(header["config"])
    except EleError as error:
        brought = {f"{p['distribution']} {p['version']}" for p in header.get("components", {}).values()}
        what = f"the configuration cannot be used here: {error.what}"
        fix = f"The model was saved with {', '.join(sorted(brought))}." if brought else None
        raise ModelError(what, where=str(folder / "config.json"), fix=fix) from None


def read_candidates(file: Path, space: OutputSpace[Any, Any], device: torch.device) -> Candidates:
    """The candidates that `save_model` wrote."""
    stored = read_tensors(file)
    batch = {name.removeprefix("batch."): t for name, t in stored.items() if name.startswith("batch.")}
    try:
        candidates = Candidates(space.Batch.from_dict(batch), stored["embeddings"].to(device))
        sizes = {len(tensor) for tensor in stored.values()}
    except (KeyError, TypeError) as error:
        raise ModelError(f"not the candidates of this model: {error}.", where=str(file)) from None
    if len(sizes) > 1:
        raise ModelError("damaged: structures and embeddings differ in number.", where=str(file))
    return candidates


def read_header(folder: Path) -> dict[str, Any]:
    """The checked contents of a model's config.json."""
    file = folder / "config.json"
    try:
        header = json.loads(file.read_text("utf-8"))
    except OSError:
        raise ModelError(
            "no model here.", where=str(folder), fix="Give a folder that `save` or `ele train` wrote."
        ) from None
    except ValueError as error:
        raise ModelError(f"damaged: {error}.", where=str(file)) from None
    if not isinstance(header, dict) or not isinstance(header.get("config"), dict):
        raise ModelError("not an ELE model.", where=str(file))
    if header.get("format") != FORMAT:
        what = f"written in format {header.get('format')}, this version reads format {FORMAT}."
        raise ModelError(what, where=str(file), fix="Install the version of ELE that wrote it.")
    return header


def read_tensors(file: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file; a damaged one is named."""
    try:
        return load_file(file)
    except FileNotFoundError:
        raise ModelError("missing from the model.", where=str(file)) from None
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelError(f"damaged: {error}.", where=str(file)) from None


def model_card(model: Model) -> str:
    """A short README for the model folder."""
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
