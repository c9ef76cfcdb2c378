"""The conformance kit: the laws of every kind of component as functions, as one call, and as pytest classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ele_core.testing.output_spaces import check_output_space
from ele_core.testing.results import CheckResult

if TYPE_CHECKING:
    from ele_core.testing.contracts import OutputSpaceContract

_CONTRACTS = ("OutputSpaceContract",)

__all__ = ["CheckResult", "OutputSpaceContract", "check_output_space"]


def __getattr__(name: str) -> Any:
    """The contracts need pytest, which the checks do without."""
    if name in _CONTRACTS:
        from ele_core.testing import contracts

        return getattr(contracts, name)
    raise AttributeError(f"module 'ele_core.testing' has no attribute '{name}'")
