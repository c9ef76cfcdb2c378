"""The conformance kit: the laws of components, with one call and one pytest class per kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ele_core.testing.convex_sets import check_convex_set
from ele_core.testing.decoders import check_decoder
from ele_core.testing.indexes import check_index
from ele_core.testing.input_spaces import check_input_space
from ele_core.testing.learners import check_regressor, check_surrogate
from ele_core.testing.networks import check_backbone, check_encoder
from ele_core.testing.output_structures import check_output_space
from ele_core.testing.proposers import check_proposer
from ele_core.testing.results import Broken, CheckResult, NotApplicable, after, counts, require, run_checks
from ele_core.testing.samples import LinearSurrogate, SampleProblem, sample_problem
from ele_core.testing.tasks import check_file_reader, check_task

if TYPE_CHECKING:
    from ele_core.testing.contracts import (
        BackboneContract,
        DecoderContract,
        EncoderContract,
        FileReaderContract,
        IndexContract,
        InputSpaceContract,
        OutputSpaceContract,
        ProposerContract,
        RegressorContract,
        SurrogateContract,
        TaskContract,
    )

__all__ = [
    "BackboneContract",
    "Broken",
    "CheckResult",
    "DecoderContract",
    "EncoderContract",
    "FileReaderContract",
    "IndexContract",
    "InputSpaceContract",
    "LinearSurrogate",
    "NotApplicable",
    "OutputSpaceContract",
    "ProposerContract",
    "RegressorContract",
    "SampleProblem",
    "SurrogateContract",
    "TaskContract",
    "after",
    "check_backbone",
    "check_convex_set",
    "check_decoder",
    "check_encoder",
    "check_file_reader",
    "check_index",
    "check_input_space",
    "check_output_space",
    "check_proposer",
    "check_regressor",
    "check_surrogate",
    "check_task",
    "counts",
    "require",
    "run_checks",
    "sample_problem",
]


def __getattr__(name: str) -> Any:
    """Import the contracts only when they are used: they need pytest, which the checks do not need."""
    if name in __all__:
        from ele_core.testing import contracts

        return getattr(contracts, name)
    raise AttributeError(f"module 'ele_core.testing' has no attribute '{name}'")
