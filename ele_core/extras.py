"""Packages that a plain install does not bring: whether one is installed, and the error that says how to install it."""

from __future__ import annotations

from importlib.util import find_spec

from ele_core.errors import ConfigError

OURS = "explicit-loss-embedding"
"""The distribution that has the extras."""


def installed(package: str) -> bool:
    """Whether a package can be imported; does not import it."""
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def how_to_install(extra: str, distribution: str = OURS) -> str:
    """The command that installs an extra."""
    return f"Install it with: pip install '{distribution}[{extra}]'"


def missing(what: str, package: str, extra: str) -> ConfigError:
    """The error for something that needs a package which is not installed."""
    return ConfigError(f"{what} needs the package {package}, which is not installed.", fix=how_to_install(extra))
