"""The origin of a run: data, seed, versions, plugins, machine and time, and its whole configuration."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ele_core import __version__
from ele_core.config.diff import flatten
from ele_core.errors import ModelError, counted
from ele_core.files.archive import read_json
from ele_core.model.files import LARGEST_CONFIG
from ele_core.report.learning_curves import duration
from ele_core.report.measured import Measured
from ele_core.runs.folder import IDENTITY, read_log, training_pairs, training_seconds
from ele_core.runs.run import Run


def provenance(run: Run, measured: Measured) -> dict[str, Any]:
    """The title, a line below it, facts as pairs of a name and a text, plugins, and the configuration by section."""
    return {
        "title": title(run),
        "about": about(run),
        "facts": facts(run, measured),
        "plugins": plugins(run, str(measured.outcome.decoder["name"])),
        "sections": sections(run.config.model_dump(mode="json")),
    }


def title(run: Run) -> str:
    """The name of the data: of the user's file, else of the task, else of the output space."""
    if run.config.data is not None:
        return Path(run.provenance["source"]).name
    return run.config.task.name if run.config.task else run.config.output.name


def about(run: Run) -> list[str]:
    """The task or its data, the size, the seed and the time of the training."""
    task, own_data = run.config.task, run.config.data is not None
    what = [f"settings of {task.name}"] if task and own_data else [run.provenance["source"]] if task else []
    pairs = counted(training_pairs(run.provenance), "training pair")
    return [*what, pairs, f"seed {run.config.seed}", f"trained in {duration(training_seconds(run.folder))}"]


def facts(run: Run, measured: Measured) -> list[tuple[str, str]]:
    """Facts on data, training and decoding, as pairs of a name and a text."""
    data = run.provenance
    identity, start = identity_of(run), run.config.start
    sizes = ", ".join(f"{len(data[name]):,} {name}" for name in ("train", "validation", "test"))
    versions = ", ".join(f"{name} {version}" for name, version in sorted(identity.get("versions", {}).items()))
    settings = measured.outcome.settings
    limit = f", first {settings['limit']:,}" if settings["limit"] else ""
    options = {name: value for name, value in measured.outcome.decoder.items() if name != "name"}
    decoder = f"{measured.outcome.decoder['name']} ({', '.join(f'{k} {v}' for k, v in options.items())})"
    return [
        ("Run", str(run.folder.resolve().name)),
        ("Data", data["source"]),
        ("Fingerprint of the data", data["fingerprint"]),
        ("Pairs", sizes),
        ("Rows skipped", f"{len(data['rejected']):,}"),
        ("Seed", str(run.config.seed)),
        ("Training time", duration(training_seconds(run.folder))),
        *([("Learned loss reused from", str(data["surrogate_from"]))] if "surrogate_from" in data else []),
        *([("Started from", f"{start.name}, weights {(start.sha256 or '')[:12]}…")] if start else []),
        ("Trained with", versions),
        ("Trained on", f"{identity.get('device', 'unknown')}, {processes(identity)}"),
        ("Shown", f"{settings['split']} split{limit}"),
        ("Decoder", decoder),
        *(("Tried", line) for line in read_log(run.folder) if " validation pairs: " in line),
        ("Share of the candidates", f"{100 * float(measured.outcome.candidates.get('share', 1)):g} %"),
        ("Evaluated", measured.outcome.date),
        ("Page written", f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, ELE {__version__}, {platform.machine()}"),
    ]


def processes(identity: Mapping[str, Any]) -> str:
    """The number of processes and of threads in each."""
    count, threads = identity.get("processes", 1), identity.get("threads", 1)
    return f"{count} process{'es' if count != 1 else ''} of {threads} thread{'s' if threads != 1 else ''}"


def identity_of(run: Run) -> dict[str, Any]:
    """Read versions, device and processes of the training, which the run recorded."""
    identity = read_json(run.folder / IDENTITY)
    if not isinstance(identity, dict) or not isinstance(identity.get("versions"), dict):
        raise ModelError("damaged: not the identity of a run.", where=str(run.folder / IDENTITY))
    return identity


def plugins(run: Run, decoder: str) -> list[dict[str, str]]:
    """Each component with the distribution and version of its plugin; the decoder is the one this page shows."""
    components = read_json(run.folder / "model" / "config.json", LARGEST_CONFIG).get("components")
    if not isinstance(components, dict) or not all(isinstance(provider, dict) for provider in components.values()):
        raise ModelError(
            "damaged: it does not say which plugins provide its components.",
            where=str(run.folder / "model/config.json"),
        )
    found = []
    for component, provider in components.items():
        kind, _, name = component.partition(":")
        if kind == "decoder" and name != decoder:
            other = run.config.registry.provider("decoder", decoder)
            provider, name = {"distribution": other.distribution, "version": other.version}, decoder
        origin = {key: str(provider.get(key)) for key in ("distribution", "version")}
        found.append({"kind": kind, "name": name, **origin})
    return found


def sections(config: Mapping[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """Every option with its value, by section; options outside a section are in `run`."""
    found: dict[str, list[tuple[str, str]]] = {"run": []}
    for name, value in config.items():
        if isinstance(value, Mapping):
            found[name] = [(path, text(option)) for path, option in flatten(value).items()]
        else:
            found["run"].append((name, text(value)))
    return found


def text(value: Any) -> str:
    """An option's value as text."""
    return "none" if value is None else str(value)
