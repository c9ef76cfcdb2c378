"""The check that a model with a component predicts the same after it is saved and loaded."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from ele_core.errors import ConfigError, PluginError
from ele_core.interfaces import Component, InputSpace, OutputSpace, Problem, Surrogate
from ele_core.plugins import Registry, registry_of
from ele_core.predictor import StructuredPredictor
from ele_core.testing.common import kind_of, provider_of
from ele_core.testing.results import NotApplicable, require
from ele_core.testing.samples import examples_of, structures

QUICK = {"epochs": 1, "batch_size": 16, "evaluations": 1}
"""Options of the shortest training."""
PAIRS = 12
SECTIONS = ("output", "input", "surrogate", "regressor", "decoder")

Table = dict[str, Any]


def check_model_saves_and_loads(component: Component, *others: Any) -> None:
    """A tiny model trained with the component, saved to a folder and loaded, predicts the same."""
    registry = registry_of(component)
    parts: dict[str, Any] = {kind_of(part): part for part in parts_of(component, *others)}
    sections: dict[str, Any] = dict(tiny_sections(registry, parts))
    inputs: InputSpace[Any] = parts.get("input") or registry.create("input", sections["input"])
    space: OutputSpace[Any, Any] = parts.get("output") or default_space(registry)
    sections.setdefault("output", section_of(space))
    outputs = space.unpack(structures(space, PAIRS))
    values = repeated_values(inputs, len(outputs))
    predictor = StructuredPredictor(**sections, device="cpu", registry=registry).fit(values, outputs, validation=2)
    before = predictor.decode(values)
    with tempfile.TemporaryDirectory() as folder:
        predictor.save(Path(folder) / "model")
        after = StructuredPredictor.load(Path(folder) / "model", device="cpu", registry=registry).decode(values)
    keys = [space.keys(found.decoding.structures) for found in (before, after)]
    require(torch.equal(*keys), "the loaded model predicts different structures: something learned is not saved")
    energies = [found.decoding.energies for found in (before, after)]
    require(
        torch.equal(*energies),
        "the loaded model gives different energies: something learned is not saved, or is not contiguous in memory",
    )


def parts_of(component: Component, *others: Any) -> Iterator[Component]:
    """The component and the installed components that it was built with: each has a section in a configuration."""
    yield component
    for other in (*others, *(getattr(component, name, None) for name in ("inputs", "surrogate", "space"))):
        known = [other.space, other.surrogate] if isinstance(other, Problem) else [other]
        for part in known:
            if isinstance(part, OutputSpace | InputSpace | Surrogate) and _is_installed(part):
                yield part
                if isinstance(part, Surrogate):
                    yield part.space


def tiny_sections(registry: Registry, parts: Mapping[str, Component]) -> Iterator[tuple[str, Table]]:
    """The sections of a model that trains in a second and holds `parts`."""
    own = {kind: section_of(part) for kind, part in parts.items()}
    encoder = own.get("encoder", {"name": "flat", "width": 8, "layers": 1})
    surrogate = own.get("surrogate", {"name": "contrastive", "dim": 8, "encoder": encoder})
    regressor = own.get("regressor", {"name": "neural"})
    if "backbone" in own:
        regressor |= {"backbone": own["backbone"]}
    elif "regressor" not in own:
        regressor |= {"backbone": fitting_backbone(registry, parts.get("input"))}
    yield "surrogate", shortened(registry, "surrogate", surrogate)
    yield "regressor", shortened(registry, "regressor", regressor)
    for kind, default in (("input", {"name": "text"}), ("decoder", {"name": "candidates"})):
        yield kind, own.get(kind, default)
    if "output" in own:
        yield "output", own["output"]


def section_of(component: Component) -> Table:
    """A component as a section of a configuration: its name and its options."""
    _, record = provider_of(component)
    return {"name": record.name, **component.config.model_dump(mode="json")}


def shortened(registry: Registry, kind: Any, section: Table) -> Table:
    """The section with the shortest training, if its component has such options."""
    fields = registry.get(kind, section["name"]).Config.model_fields
    return {**section, "training": {**section.get("training", {}), **QUICK}} if "training" in fields else section


def fitting_backbone(registry: Registry, inputs: Component | None) -> Table:
    """The first installed backbone that accepts `inputs`, with small options if ELE ships it."""
    small: dict[str, Table] = {"gru": {"embedding": 4, "layers": 1, "width": 4}, "mlp": {"hidden": [4]}}
    if inputs is None:
        return {"name": "gru", **small["gru"]}
    for name in registry.names("backbone"):
        try:
            registry.get("backbone", name).accepts(inputs)
        except (ConfigError, PluginError):
            continue
        return {"name": name, **small.get(name, {})}
    raise NotApplicable(f"no installed backbone accepts {type(inputs).__name__}")


def default_space(registry: Registry) -> OutputSpace[Any, Any]:
    """The first installed output space that needs no options."""
    from ele_core.testing.choosing import spaces

    return next(spaces(registry))


def repeated_values(inputs: InputSpace[Any], count: int) -> list[Any]:
    """`count` inputs: the examples, repeated in turn."""
    examples = examples_of(inputs)
    return [examples[row % len(examples)] for row in range(count)]


def _is_installed(component: Component) -> bool:
    try:
        provider_of(component)
    except NotApplicable:
        return False
    return True
