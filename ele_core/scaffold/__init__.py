"""Write the package of `ele new-plugin`: an output space and a task that can be installed, tested and trained."""

from __future__ import annotations

import re
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from ele_core import __version__
from ele_core.errors import ConfigError, PluginError
from ele_core.files.atomic import new_folder

FILES = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "LICENSE": "LICENSE",
    ".gitignore": "gitignore",
    "src/{module}/__init__.py": "init.py",
    "src/{module}/plugin.py": "plugin.py",
    "src/{module}/space.py": "space.py",
    "src/{module}/task.py": "task.py",
    "tests/test_{word}.py": "test.py",
}
"""Each file of the package, and its template."""
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
LONGEST = 40
"""The largest number of characters in a name."""


def write_plugin(name: str, folder: Path) -> list[str]:
    """Write the package of the plugin `name` to `folder`, completely or not at all; return the paths of its files."""
    check_name(name)
    if folder.exists() or folder.is_symlink():
        raise ConfigError("there is something there already.", where=str(folder), fix="Choose another with -o.")
    written = plugin_files(name)
    with new_folder(folder.absolute()) as unfinished:
        for path, text in written.items():
            (unfinished / path).parent.mkdir(parents=True, exist_ok=True)
            (unfinished / path).write_text(text, encoding="utf-8")
    return list(written)


def plugin_files(name: str) -> dict[str, str]:
    """Return the files of the package: path → text."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    templates = files("ele_core.scaffold") / "templates"
    environment = Environment(
        loader=FunctionLoader(lambda template: (templates / f"{template}.jinja").read_text(encoding="utf-8")),
        undefined=StrictUndefined,
        autoescape=False,  # the files are code, not HTML, and the name is checked
        keep_trailing_newline=True,
    )
    words = name_forms(name)
    return {path.format(**words): environment.get_template(source).render(words) for path, source in FILES.items()}


def name_forms(name: str) -> dict[str, str]:
    """Return how the files spell `name`: traffic-lights, traffic lights, ele_traffic_lights, TrafficLights, …."""
    word = name.replace("-", "_")
    camel = "".join(part.capitalize() for part in name.split("-"))
    forms = {"name": name, "word": word, "words": name.replace("-", " "), "module": f"ele_{word}", "prefix": camel}
    return {**forms, "ele_version": __version__}


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
    """Return what already has the name: a plugin, its output space or task, or an installed package; else None."""
    from ele_core.plugins import registry

    for plugin in registry().plugins():
        brought = {record.name for kind in ("output", "task") for record in plugin.records.get(kind, ())}
        if name == plugin.name or name in brought:
            return f"the plugin {plugin}"
    module = name_forms(name)["module"]
    return f"the package {module}" if find_spec(module) is not None else None
