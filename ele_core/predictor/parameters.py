"""The parameters of an estimator by scikit-learn's conventions, without importing scikit-learn."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, ClassVar, Self

from ele_core.config import RunConfig
from ele_core.config.describe import BETWEEN, UNSET, changed, nested_options
from ele_core.config.recipes import default_components
from ele_core.config.resolve import Shape, over_default
from ele_core.errors import InvalidParameter, ModelError
from ele_core.plugins import Registry
from ele_core.plugins import registry as installed
from ele_core.types import Kind


class Parameters:
    """Arguments of `__init__` that can be read, changed and copied: `get_params`, `set_params`, `sklearn.base.clone`.

    The options of components are parameters too, by names such as `regressor__backbone__width`.
    """

    sections: ClassVar[tuple[Kind, ...]]
    """The arguments that name components."""

    @classmethod
    def parameter_names(cls) -> list[str]:
        """Return the names of the arguments of `__init__`."""
        return list(inspect.signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments by name; with `deep` also every option of each component, with its value."""
        values = {name: getattr(self, name) for name in self.parameter_names()}
        return {name: value for name, value in self._all(values).items() if value is not UNSET} if deep else values

    def set_params(self, **params: Any) -> Self:
        """Change arguments and options, such as `regressor__backbone__width=64`; a wrong name changes nothing."""
        values = self.get_params(deep=False)
        for name in sorted(params, key=_outer_first):
            first, *path = name.split(BETWEEN)
            if name not in (values if not path else self._all(values)):
                raise self._unknown(name, self._all(values))
            values[first] = changed(values[first], path, params[name]) if path else params[name]
        for name, value in values.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = {name: each.default for name, each in inspect.signature(type(self)).parameters.items()}
        values = {name: value for name, value in self.get_params(deep=False).items() if value is not defaults[name]}
        given = [f"{name}={reprlib.repr(value)}" for name, value in values.items() if value != defaults[name]]
        return f"{type(self).__name__}({', '.join(given)})"

    def __sklearn_tags__(self) -> Any:
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

    def _all(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments, and beside each section the options of its component."""
        registry: Registry = values.get("registry") or installed()
        found = dict(values)
        components = default_components(values.get("recipe"), registry)
        for name in self.sections:
            chosen = values[name] is not None  # else by the data: its options can be set, but have no values yet
            section = over_default(components.get(name, UNSET), values[name] if chosen else {})
            inferred = Shape.of(RunConfig.model_fields[name]).inferred
            nested = nested_options(name, section, registry, inferred=inferred)
            found |= {f"{name}{BETWEEN}{path}": value if chosen else UNSET for path, value in nested}
        return found

    def _unknown(self, name: str, known: Mapping[str, Any]) -> InvalidParameter:
        last = name.split(BETWEEN)[-1]
        same = [each for each in known if each.split(BETWEEN)[-1] == last]
        close = get_close_matches(name, same, n=1, cutoff=0) or get_close_matches(name, known, n=1)
        advice = f"did you mean '{close[0]}'?" if close else "get_params() returns all names."
        return InvalidParameter(f"Invalid parameter '{name}' of {type(self).__name__};", fix=advice)


def not_fitted(what: str) -> ModelError:
    """Return the error for an estimator that is not fitted; if scikit-learn is installed, also its own."""
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        return ModelError(what)
    kind: type[ModelError] = type("NotFittedError", (ModelError, NotFittedError), {})
    return kind(what)


def _outer_first(name: str) -> tuple[int, bool]:
    """Sort a component before its options, and the name of a component before its other options."""
    *_, last = path = name.split(BETWEEN)
    return len(path), last != "name"
