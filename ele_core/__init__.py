"""ELE: structured prediction with a learned, differentiable loss, for any output space."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ele_core.errors import EleError
    from ele_core.interfaces import (
        Backbone,
        Choice,
        Component,
        ComponentConfig,
        Decoder,
        Decoding,
        Drawing,
        Encoder,
        InputSpace,
        Metric,
        NetworkLearner,
        OutputSpace,
        Regressor,
        Stage,
        Surrogate,
        Takes,
        Task,
        Variant,
    )
    from ele_core.model.results import Prediction, Predictions
    from ele_core.numerics.sets import Birkhoff, Box, ConvexSet, Simplex, SymmetricSimplex
    from ele_core.numerics.tensors import Tensors
    from ele_core.plugins import Record, hookimpl, register
    from ele_core.predictor import StructuredPredictor

_HOME = {
    "ele_core.errors": ["EleError"],
    "ele_core.interfaces": [
        "Backbone",
        "Choice",
        "Component",
        "ComponentConfig",
        "Decoder",
        "Decoding",
        "Drawing",
        "Encoder",
        "InputSpace",
        "Metric",
        "NetworkLearner",
        "OutputSpace",
        "Regressor",
        "Stage",
        "Surrogate",
        "Takes",
        "Task",
        "Variant",
    ],
    "ele_core.plugins": ["Record", "hookimpl", "register"],
    "ele_core.model.results": ["Prediction", "Predictions"],
    "ele_core.predictor": ["StructuredPredictor"],
    "ele_core.numerics.sets": ["Birkhoff", "Box", "ConvexSet", "Simplex", "SymmetricSimplex"],
    "ele_core.numerics.tensors": ["Tensors"],
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Backbone",
    "Birkhoff",
    "Box",
    "Choice",
    "Component",
    "ComponentConfig",
    "ConvexSet",
    "Decoder",
    "Decoding",
    "Drawing",
    "EleError",
    "Encoder",
    "InputSpace",
    "Metric",
    "NetworkLearner",
    "OutputSpace",
    "Prediction",
    "Predictions",
    "Record",
    "Regressor",
    "Simplex",
    "Stage",
    "StructuredPredictor",
    "Surrogate",
    "SymmetricSimplex",
    "Takes",
    "Task",
    "Tensors",
    "Variant",
    "__version__",
    "hookimpl",
    "register",
]


def __getattr__(name: str) -> Any:
    """Names are imported when first used: `import ele_core` does not import torch."""
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    raise AttributeError(f"module 'ele_core' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
