"""Checks of every component: its options, its plugin, other processes, and a model that is saved and loaded."""

from __future__ import annotations

import atexit
import functools
import hashlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

import ele_core
from ele_core.component import Component
from ele_core.components.regressors.joint import JOINT, JointRegressor
from ele_core.config.describe import describe_options
from ele_core.errors import ConfigError, PluginError
from ele_core.interfaces import InputSpace, OutputSpace, Proposer, Regressor, Surrogate
from ele_core.numerics.sparse import SparseRows
from ele_core.numerics.tensors import Tensors
from ele_core.plugins import HOOKS, PluginInfo, Record, Registry, registry_of
from ele_core.predictor import StructuredPredictor
from ele_core.testing.results import Broken, NotApplicable, require
from ele_core.testing.samples import SampleProblem, examples_of, structures
from ele_core.types import KINDS, Kind

HEAVY = ("torch", "numpy", "scipy", "sklearn")
"""Packages that must not be imported to list plugins."""
NO_OPTION = "no_option_has_this_name"


def check_options_are_documented(component: Component, *_others: Any) -> None:
    """Every option of the `Config` has a description: a string below the field."""
    bare = [option.path for option in describe_options(type(component)) if not option.description.strip()]
    require(not bare, f"options without a description: {', '.join(bare)}. Write a string below each field")


def check_unknown_options_are_refused(component: Component, *_others: Any) -> None:
    """The `Config` refuses an unknown key, so that a misspelt option is not ignored."""
    try:
        type(component).Config(**{**dict(component.config), NO_OPTION: 1})
    except ValidationError as error:
        extra = [each for each in error.errors() if each["type"] == "extra_forbidden"]
        require(extra, f"an unknown option is refused, but for another reason: {error}")
    else:
        raise Broken(f"the unknown option {NO_OPTION}=1 is accepted: keep extra='forbid' of ComponentConfig")


def check_plugin_module_is_light(component: Component, *_others: Any) -> None:
    """Importing the module with the hooks imports no heavy package, such as torch: every `ele` command imports it."""
    plugin, _ = provider_of(component)
    module = module_of(plugin)
    if module == type(component).__module__:
        raise NotApplicable(f"hooks and component are in the same module, {module}: fine for a plugin of one file")
    program = f"import sys, {module}; print(*sorted(set({HEAVY}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    require(done.returncode == 0, f"importing {module} fails: {done.stderr.strip().splitlines()[-1:]}")
    heavy = done.stdout.strip().replace(" ", ", ")
    require(not heavy, f"importing {module} imports {heavy}: keep the hooks in a module without these imports")


def check_record_leads_to_the_component(component: Component, *_others: Any) -> None:
    """The plugin's record has a summary of one line, and its target is an import string of this class."""
    _, record = provider_of(component)
    require(record.summary.strip(), f"the record '{record.name}' has no summary: write one line")
    require(isinstance(record.target, str), f"the target of '{record.name}' is a class: write it as an import string")


def kind_of(component: Component) -> Kind:
    """The kind of a component, by its base class."""
    return next(kind for kind in KINDS if isinstance(component, getattr(ele_core, HOOKS[kind].base)))


def provider_of(component: Component) -> tuple[PluginInfo, Record]:
    """The installed plugin and the record that bring a component's class; raise `NotApplicable` if there is none."""
    kind, cls = kind_of(component), type(component)
    known = registry_of(component)
    for plugin in known.plugins():
        for record in plugin.records.get(kind, ()):
            if plugin.installed and _leads_to(known, record, cls, kind):
                return plugin, record
    raise NotApplicable(f"no installed plugin brings {cls.__qualname__}")


def module_of(plugin: PluginInfo) -> str:
    """The module that an installed plugin's entry point names."""
    from importlib.metadata import entry_points

    for entry in entry_points(group="ele"):
        if entry.name == plugin.name and entry.dist is not None and entry.dist.name == plugin.distribution:
            return entry.module
    raise NotApplicable(f"the entry point of {plugin} is not found")


def _leads_to(registry: Registry, record: Record, cls: type, kind: Kind) -> bool:
    """Whether a record's target is `cls`; the target is imported only if it is in the same package."""
    if record.location == f"{cls.__module__}:{cls.__qualname__}":
        return True
    same_package = record.location.partition(":")[0].partition(".")[0] == cls.__module__.partition(".")[0]
    return same_package and registry.get(kind, record.name) is cls


COMMON = (
    check_options_are_documented,
    check_unknown_options_are_refused,
    check_record_leads_to_the_component,
    check_plugin_module_is_light,
)


SEEDS = ("1", "2", "3")
"""Values of PYTHONHASHSEED: two that differ from this process's are used."""
PROGRAM = "from ele_core.testing.common import serve; serve()"


def require_same_elsewhere(component: OutputSpace[Any, Any] | InputSpace[Any], texts: Sequence[str]) -> None:
    """Raise `Broken` if a component answers differently in another process. `texts`: its objects or inputs."""
    cls = type(component)
    question = {
        "path": sys.path,
        "module": cls.__module__,
        "name": cls.__qualname__,
        "config": component.config.model_dump_json(),
        "texts": list(texts),
    }
    here = dict(answers(cls, question["config"], texts))
    for worker in workers():
        there = asked(worker, question)
        different = next((name for name, answer in here.items() if there.get(name) != answer), None)
        if different is not None:
            raise Broken(
                f"{different} is different in another process, as Python's `hash` of texts and the order of a set are: "
                "sort what comes from a set, and hash numbers with `ele_core.numerics.keys.mix`, texts with hashlib"
            )


def answers(cls: type[Any], config: str, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What a component of `cls` makes of texts, by operation, as digests."""
    component: Component = cls(cls.Config.model_validate_json(config))
    if isinstance(component, OutputSpace):
        yield from output_answers(component, texts)
    else:
        assert isinstance(component, InputSpace)
        values = [component.parse(text) for text in texts]
        component.fit(values)
        batch = component.pack(values)
        yield "`pack` after `fit`", digest(batch)
        yield "`features`", digest(component.features(batch))


def output_answers(space: OutputSpace[Any, Any], texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What an output space makes of texts."""
    objects = [space.parse(text) for text in texts]
    batch = space.pack(objects)
    yield "`pack`", digest(batch)
    yield "`unpack`", digest([space.format(obj) for obj in space.unpack(batch)])
    yield "`keys`", digest(space.keys(batch))
    yield "`features`", digest(space.features(batch))
    yield "`infer`", digest(space.infer(objects, {}).model_dump_json())


def digest(value: Any) -> str:
    """A hash of tensors, sparse rows or texts that is the same in every process."""
    if isinstance(value, SparseRows):
        rows = (value.between(row, row + 1) for row in range(len(value)))
        value = [sorted(zip(row.keys.tolist(), row.values.tolist(), strict=True)) for row in rows]
    if isinstance(value, Tensors):
        value = [(name, tensor.tolist()) for name, tensor in value.named_tensors()]
    if isinstance(value, torch.Tensor):
        value = value.tolist()
    return hashlib.sha256(repr(value).encode()).hexdigest()


@functools.cache
def workers() -> list[subprocess.Popen[str]]:
    """Two processes with other seeds of Python's hash."""
    own = os.environ.get("PYTHONHASHSEED", "")
    found = [started(seed) for seed in [each for each in SEEDS if each != own][:2]]
    for worker in found:
        atexit.register(ended, worker)
    return found


def started(seed: str) -> subprocess.Popen[str]:
    """A process that answers questions, one a line."""
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )


def asked(worker: subprocess.Popen[str], question: Mapping[str, Any]) -> dict[str, str]:
    """The answers of another process; raise `NotApplicable` if it cannot build the component."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        worker.stdin.write(json.dumps(question) + "\n")
        worker.stdin.flush()
        line = worker.stdout.readline()
    except OSError:
        line = ""
    reply: dict[str, Any] = json.loads(line) if line else {"error": "it ended"}
    if "error" in reply:
        raise NotApplicable(f"another process cannot build the component: {reply['error']}")
    found: dict[str, str] = reply["answers"]
    return found


def ended(worker: subprocess.Popen[str]) -> None:
    """End a process by closing its input."""
    for stream in (worker.stdin, worker.stdout):
        assert stream is not None
        stream.close()
    try:
        worker.wait(timeout=10)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()


def serve() -> None:
    """Answer the questions of standard input on standard output; what plugins print goes to standard error."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        question = json.loads(line)
        sys.path[:] = question["path"]
        reply: dict[str, Any]
        try:
            cls: Any = importlib.import_module(question["module"])
            for part in question["name"].split("."):
                cls = getattr(cls, part)
            reply = {"answers": dict(answers(cls, question["config"], question["texts"]))}
        except Exception as error:  # the plugin may raise anything
            reply = {"error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


QUICK = {"epochs": 1, "batch_size": 16, "evaluations": 1}
"""Options of the shortest training."""
PAIRS = 12

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
    if isinstance(component, Proposer):
        use_proposals(predictor.model_.regressor)
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


def use_proposals(regressor: Regressor) -> None:
    """Let a regressor `joint` use its proposers, also if validation pairs decided against them."""
    assert isinstance(regressor, JointRegressor)
    regressor.use_mode(JOINT)
    regressor.weights = torch.ones_like(regressor.weights)


def parts_of(component: Component, *others: Any) -> Iterator[Component]:
    """The component and the installed components that it was built with: each has a section in a configuration."""
    yield component
    for other in (*others, *(getattr(component, name, None) for name in ("inputs", "surrogate", "space"))):
        known = [other.space, other.surrogate] if isinstance(other, SampleProblem) else [other]
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
    regressor = shortened(registry, "regressor", regressor)
    if "proposer" in own:
        proposer = shortened(registry, "proposer", own["proposer"])
        regressor = {"name": "joint", "loss": regressor, "writer": proposer}
    yield "surrogate", shortened(registry, "surrogate", surrogate)
    yield "regressor", regressor
    for kind, default in (("input", {"name": "text"}), ("decoder", {"name": "candidates"})):
        yield kind, own.get(kind, default)
    if "output" in own:
        yield "output", own["output"]


def section_of(component: Component) -> Table:
    """A component as a section of a configuration: its name, with the plugin if others share it, and its options."""
    plugin, record = provider_of(component)
    chosen = registry_of(component).get(kind_of(component), record.name)
    name = record.name if chosen is type(component) else f"{plugin.name}:{record.name}"
    return {"name": name, **component.config.model_dump(mode="json")}


def shortened(registry: Registry, kind: Any, section: Table) -> Table:
    """The section with the shortest training, if its component has such options."""
    fields = registry.get(kind, section["name"]).Config.model_fields
    training = section.get("training", {})
    if "training" not in fields or training is None:
        return section
    return {**section, "training": {**training, **QUICK}}


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


EVERY = (*COMMON, check_model_saves_and_loads)
"""The laws of all components that are parts of a model."""
