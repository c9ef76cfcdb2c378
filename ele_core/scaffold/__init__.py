"""Write the package of `ele new-plugin`: a component, or an output space with a task, that works as it is."""

from __future__ import annotations

import re
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ele_core import __version__
from ele_core.errors import ConfigError, PluginError
from ele_core.files.atomic import new_folder, occupied
from ele_core.plugins import HOOKS

if TYPE_CHECKING:
    from ele_core.types import Kind

SHARED = {
    "pyproject.toml": "pyproject.toml",
    "LICENSE": "LICENSE",
    ".gitignore": "gitignore",
    "src/{module}/py.typed": "py.typed",
}
"""Files of every package, and their templates."""
SPACE_AND_TASK = {
    **SHARED,
    "README.md": "README.md",
    "src/{module}/__init__.py": "init.py",
    "src/{module}/plugin.py": "plugin.py",
    "src/{module}/space.py": "space.py",
    "src/{module}/task.py": "task.py",
    "tests/test_{word}.py": "test.py",
}
"""Each file of a package with an output space and a task, and its template."""
COMPONENT = {
    **SHARED,
    "README.md": "component.README.md",
    "src/{module}/__init__.py": "component.init.py",
    "src/{module}/plugin.py": "component.plugin.py",
    "src/{module}/{file}.py": "{template}",
    "tests/test_{word}.py": "component.test.py",
}
"""Each file of a package with one component, and its template."""
TRAIN = "ele train number-words --set {} -o run"
PARTS: dict[Kind, tuple[str, str]] = {
    "output": ("Rows of labels.", "ele train {name} -o {name}-run"),
    "input": ("Texts as counts of words.", "ele train my.toml --data pairs.csv --set input.name={name} -o run"),
    "backbone": ("Convolutions over tokens.", TRAIN.format("regressor.backbone.name={name}")),
    "encoder": ("A network on the sum of linear maps.", TRAIN.format("surrogate.encoder.name={name}")),
    "decoder": ("Descent over neighbours of candidates.", TRAIN.format("decoder.name={name}")),
    "regressor": (
        "Ridge regression on vectors.",
        "ele train my.toml --data vectors.csv --set regressor.name={name} -o run",
    ),
    "proposer": (
        "Outputs of similar inputs.",
        "ele train my.toml --data vectors.csv --set regressor.writer={name} -o run",
    ),
    "surrogate": ("Labels divided by deviations.", TRAIN.format("surrogate.name={name}")),
    "task": ("From letters spelt backwards to words.", "ele train {name} -o run"),
}
"""What `--kind` may be: a summary of the component, and the command that uses it. An output space has a task too."""
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
LONGEST = 40
"""The largest number of characters in a name."""


def write_plugin(name: str, folder: Path, kind: Kind = "output") -> list[str]:
    """Write the package of the plugin `name` to `folder`, completely or not at all; return the paths of its files."""
    check_name(name)
    if folder.exists() or folder.is_symlink():
        raise ConfigError(occupied(folder), where=str(folder), fix="Choose another with -o.")
    written = plugin_files(name, kind)
    with new_folder(folder.absolute()) as unfinished:
        for path, text in written.items():
            (unfinished / path).parent.mkdir(parents=True, exist_ok=True)
            (unfinished / path).write_text(text, encoding="utf-8")
    return list(written)


def plugin_files(name: str, kind: Kind = "output") -> dict[str, str]:
    """Return the files of the package with a component of this kind: path → text."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    templates = files("ele_core.scaffold") / "templates"
    environment = Environment(
        loader=FunctionLoader(lambda template: (templates / f"{template}.jinja").read_text(encoding="utf-8")),
        undefined=StrictUndefined,
        autoescape=False,  # the files are code, not HTML, and the name is checked
        keep_trailing_newline=True,
    )
    words = {**name_forms(name), **part_forms(kind, name)}
    sources = SPACE_AND_TASK if kind == "output" else COMPONENT
    return {
        path.format(**words): environment.get_template(source.format(**words)).render(words)
        for path, source in sources.items()
    }


def name_forms(name: str) -> dict[str, str]:
    """Return how the files spell `name`: traffic-lights, traffic lights, ele_traffic_lights, TrafficLights, …."""
    word = name.replace("-", "_")
    camel = "".join(part.capitalize() for part in name.split("-"))
    forms = {"name": name, "word": word, "words": name.replace("-", " "), "module": f"ele_{word}", "prefix": camel}
    return {**forms, "ele_version": __version__}


def part_forms(kind: Kind, name: str) -> dict[str, str]:
    """Return how the files spell the kind of a component, and what is particular to it."""
    summary, use = PARTS[kind]
    what = HOOKS[kind].singular
    return {
        "kind": kind,
        "what": what,
        "article": "an" if what[0] in "aeiou" else "a",
        "hook": HOOKS[kind].name,
        "suffix": "Space" if kind == "output" else kind.capitalize(),
        "file": {"output": "space", "input": "inputs"}.get(kind, kind),
        "template": "only_task.py" if kind == "task" else f"{kind}.py",
        "summary": summary,
        "use": use.format(name=name),
    }


def check_name(name: str) -> None:
    """Refuse a name that a package cannot have, or that is already in use."""
    if not NAME.fullmatch(name) or len(name) > LONGEST:
        rule = f"is lower-case letters, digits and single hyphens, begins with a letter, and has at most {LONGEST}"
        raise ConfigError(f"a plugin's name {rule} characters.", where=repr(name), fix=f"Try '{nearest_name(name)}'.")
    if owner := name_owner(name):
        raise PluginError(f"the name '{name}' is taken by {owner}.", fix="Choose another name.")


def nearest_name(name: str) -> str:
    """Return a valid name that is similar to `name`."""
    cleaned = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-0123456789")[:LONGEST].strip("-")
    return cleaned or "rankings"


def name_owner(name: str) -> str | None:
    """Return what already has the name: a plugin, one of its components, or an installed package; else None."""
    from ele_core.plugins import registry

    for plugin in registry().plugins():
        brought = {record.name for records in plugin.records.values() for record in records}
        if name == plugin.name or name in brought:
            return f"the plugin {plugin}"
    module = name_forms(name)["module"]
    return f"the package {module}" if find_spec(module) is not None else None
