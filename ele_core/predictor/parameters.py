"""The parameters of the estimator by scikit-learn's conventions, without importing scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from ele_core.config import RunConfig
from ele_core.config.describe import BETWEEN, UNSET, nested_options
from ele_core.config.recipes import default_components
from ele_core.config.resolve import Shape, over_default
from ele_core.errors import InvalidParameter, ModelError
from ele_core.plugins import Registry
from ele_core.plugins import registry as installed
from ele_core.types import Kind


def with_options(values: Mapping[str, Any], sections: Sequence[Kind]) -> dict[str, Any]:
    """Return the arguments `values`, and beside each section the options of its component.

    They have names such as `regressor__backbone__width`.
    """
    registry: Registry = values.get("registry") or installed()
    found = dict(values)
    components = default_components(values.get("recipe"), registry)
    for name in sections:
        chosen = values[name] is not None  # else by the data: its options can be set, but have no values yet
        section = over_default(components.get(name, UNSET), values[name] if chosen else {})
        inferred = Shape.of(RunConfig.model_fields[name]).inferred
        nested = nested_options(name, section, registry, inferred=inferred)
        found |= {f"{name}{BETWEEN}{path}": value if chosen else UNSET for path, value in nested}
    return found


def unknown_parameter(name: str, known: Mapping[str, Any], owner: str) -> InvalidParameter:
    """Return the error for a parameter that the estimator `owner` does not have, with the nearest of the `known`."""
    last = name.split(BETWEEN)[-1]
    same = [each for each in known if each.split(BETWEEN)[-1] == last]
    close = get_close_matches(name, same, n=1, cutoff=0) or get_close_matches(name, known, n=1)
    advice = f"did you mean '{close[0]}'?" if close else "get_params() returns all names."
    return InvalidParameter(f"Invalid parameter '{name}' of {owner};", fix=advice)


def outer_first(name: str) -> tuple[int, bool]:
    """Sort a component before its options, and the name of a component before its other options."""
    *_, last = path = name.split(BETWEEN)
    return len(path), last != "name"


def sklearn_tags() -> Any:
    """Return what scikit-learn asks of an estimator: this one needs outputs, and takes more than arrays."""
    from sklearn.utils import InputTags, Tags, TargetTags

    return Tags(
        estimator_type=None,
        target_tags=TargetTags(required=True),
        input_tags=InputTags(string=True, sparse=True),
        transformer_tags=None,
        regressor_tags=None,
        classifier_tags=None,
    )


def not_fitted(what: str) -> ModelError:
    """Return the error for an estimator that is not fitted; if scikit-learn is installed, also its own."""
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        return ModelError(what)
    kind: type[ModelError] = type("NotFittedError", (ModelError, NotFittedError), {})
    return kind(what)
