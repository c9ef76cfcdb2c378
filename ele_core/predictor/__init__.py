"""`StructuredPredictor`: training, decoding and evaluation behind `fit`, `predict` and `score`."""

from ele_core.predictor.estimator import StructuredPredictor

__all__ = ["StructuredPredictor"]
