"""Which spaces, inputs and problems a component is checked on when nobody says: what is installed and fits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ele_core.errors import EleError
from ele_core.interfaces import OutputSpace
from ele_core.plugins import registry


def spaces() -> Iterator[OutputSpace[Any, Any]]:
    """Every installed output space that can be built without being told more."""
    for name in registry().names("output"):
        try:
            yield registry().create("output", name)
        except EleError:
            continue
