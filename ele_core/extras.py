"""Packages that a plain install does not bring: whether one is installed, and the error that says how to install it."""

from __future__ import annotations

import json
import os
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ele_core.errors import ConfigError

OURS = "explicit-loss-embedding"
"""The distribution that has the extras."""


def installed(package: str) -> bool:
    """Whether a package can be imported; does not import it."""
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def pip_install(extra: str, name: str = OURS) -> str:
    """The command that installs an extra of a distribution, from where that was installed: a folder, a file or a name.

    A folder is written as `.` if it is the current one.
    """
    url, editable = _origin(name)
    written = unquote(urlsplit(url).path)
    path = Path(written.removeprefix("/") if os.name == "nt" else written)
    if not url.startswith("file:") or not path.exists():
        return f"pip install '{name}[{extra}]'"
    if path.is_file():
        return f"pip install '{name}[{extra}] @ {url}'"
    return f"pip install {'-e ' if editable else ''}'{'.' if path == Path.cwd() else path}[{extra}]'"


def _origin(name: str) -> tuple[str, bool]:
    """The address that a distribution was installed from, and whether it is editable there; empty if pip kept none."""
    try:
        kept = json.loads(distribution(name).read_text("direct_url.json") or "{}")
        return str(kept.get("url", "")), bool(kept.get("dir_info", {}).get("editable"))
    except (PackageNotFoundError, ValueError, AttributeError):
        return "", False


def how_to_install(extra: str, name: str = OURS) -> str:
    """The sentence that says how to install an extra of a distribution."""
    return f"Install it with: {pip_install(extra, name)}"


def missing(what: str, package: str, extra: str) -> ConfigError:
    """The error for something that needs a package which is not installed."""
    return ConfigError(f"{what} needs the package {package}, which is not installed.", fix=how_to_install(extra))
