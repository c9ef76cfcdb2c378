"""The estimator: fit, predict, score, save and load, by scikit-learn's conventions."""

from __future__ import annotations

import dataclasses
import inspect
import reprlib
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from ele_core import config as configuration
from ele_core.config import RunConfig
from ele_core.config.describe import BETWEEN, UNSET, changed, nested_options
from ele_core.config.recipes import default_components
from ele_core.config.resolve import Shape, over_default
from ele_core.data.truths import packed_truths
from ele_core.errors import ConfigError, DataError, InvalidParameter, ModelError, counted
from ele_core.model.evaluate import Evaluation, evaluate
from ele_core.model.files import save_model
from ele_core.model.loss import LearnedLoss, Reduction
from ele_core.model.model import Model
from ele_core.model.neighbours import Neighbours, neighbours
from ele_core.model.predict import Request, predict
from ele_core.model.results import Predictions
from ele_core.model.trust.judged import calibrate
from ele_core.model.trust.sets import promised
from ele_core.numerics.nearest import squared_distances
from ele_core.plugins import Registry, noted
from ele_core.plugins import registry as installed
from ele_core.predictor.values import Held, as_list, as_pairs, divided
from ele_core.runs.run import Opened, open_model
from ele_core.runs.training import fit
from ele_core.runtime.context import Context
from ele_core.runtime.device import pick_device
from ele_core.runtime.distributed import process_group
from ele_core.runtime.monitor import Callback, Callbacks, ConsoleMonitor, Monitor, with_callbacks
from ele_core.types import Choice, Kind

if TYPE_CHECKING:
    import pandas as pd

Section = str | Mapping[str, Any]
"""A component: its name, or a mapping with `name` and options."""
Examples = Any
"""Inputs or outputs: any iterable, a Series, a table, an array, a tensor or a sparse matrix (see `values.as_list`)."""
Constraints = Any
"""A mapping such as `{"formula": "C9H8O4"}` for all inputs, or a sequence with a mapping or None for each."""


class StructuredPredictor:
    """A scikit-learn estimator that predicts structures from inputs, by their distance in an embedding of structures.

    `recipe` chooses what is not given. `"learned"`, the default, learns the loss from structures and pairs, as a
    differentiable embedding that adds up parts, and regresses into it with a kernel and a network. `"paper"` learns the
    loss from structures alone, on a sphere, and trains a network into it. The name of a task chooses its components.

    `output`, `input`, `surrogate`, `regressor` and `decoder` are each the name of a component, or a mapping of its name
    and options, as in a configuration file; decoders see a `share` of the training outputs as candidates::

        StructuredPredictor("sequence", regressor={"name": "neural", "training": {"epochs": 5}})

    `constraints` are what predictions must satisfy in every stage: values, or properties of the inputs, such as
    `{"length": "@words"}`.

    `verbose` shows messages and progress; None: in a Python prompt or a notebook.
    `callbacks` are notified of events in `fit`: steps, evaluations, ends of stages, messages. Names are looked up in
    `registry`, by default in the installed plugins. With `warm_start=True`, `fit` starts from the last `fit`; a folder,
    or the name of an installed model, starts it from that model.

    Inputs and outputs are lists, pandas or polars tables and series, numpy arrays, torch tensors or sparse matrices.
    `clone`, `cross_val_score`, `GridSearchCV` and `Pipeline` of scikit-learn work with it, if that is installed.
    """

    sections: ClassVar[tuple[Kind, ...]] = ("output", "input", "surrogate", "regressor", "decoder")
    """The arguments that name components. Their options are parameters too, such as `regressor__backbone__width`."""

    def __init__(
        self,
        output: Section,
        *,
        input: Section | None = None,  # noqa: A002  # the name of the section in every configuration
        surrogate: Section | None = None,
        regressor: Section | None = None,
        decoder: Section | None = None,
        constraints: Mapping[str, Any] | None = None,
        recipe: str | None = None,
        share: float = 1.0,
        seed: int = 0,
        device: str = "auto",
        verbose: bool | None = None,
        callbacks: Sequence[Callback] = (),
        registry: Registry | None = None,
        warm_start: bool | str | Path = False,
    ) -> None:
        self.output = output
        self.input = input
        self.surrogate = surrogate
        self.regressor = regressor
        self.decoder = decoder
        self.constraints = constraints
        self.recipe = recipe
        self.share = share
        self.seed = seed
        self.device = device
        self.verbose = verbose
        self.callbacks = callbacks
        self.registry = registry
        self.warm_start = warm_start

    @classmethod
    def for_task(cls, name: str, **changes: Any) -> Self:
        """Return a predictor with the spaces of a task, for your own data; `changes` replace whole arguments.

        With `recipe=name` the other components are those of the task too.
        """
        registry = changes.get("registry") or installed()
        defaults = configuration.task_sections({"name": name}, registry, own=True)
        spaces: dict[str, Any] = {key: defaults[key] for key in ("input", "output", "constraints") if key in defaults}
        return cls(**{**spaces, **changes})

    # -- scikit-learn ---------------------------------------------------------------------------------------------

    @noted()
    def fit(
        self,
        X: Examples,  # scikit-learn's name
        y: Examples,
        *,
        extra_outputs: Examples | None = None,
        validation: Held = 0.05,
        calibration: float | None = None,
        run: str | Path | None = None,
        checkpoint_every: float = 60.0,
        warm_start: Any | None = None,
    ) -> Self:
        """Learn from inputs `X` and objects `y`.

        `validation` is a share or a number of the pairs to hold out for early stopping, or other pairs `(X, y)`;
        `extra_outputs` are objects without inputs, for pre-training the loss. With `run`, a folder, the training can be
        resumed: after a stop the same call continues from the last checkpoint, written every `checkpoint_every`
        seconds, and once the run has finished it loads the model. Started by torchrun, all processes share the work.

        `calibration` is a share or a number of the training pairs to set aside, to learn from them how far predictions
        can be trusted; None: a twentieth if there are at least 1,000, 0: none. See also `calibrate`.

        If an input has several right objects, give `AnyOf(object, …)` in place of one: predictions are measured against
        the nearest.

        `warm_start` is a fitted predictor, a `Run`, the folder of one of them, or the name of an installed model, to
        start from: its output space and its surrogate stay as they are, and its regressor is trained further if it
        reads these inputs. All outputs must be in that model's output space.
        """
        source = self._source(warm_start)
        config = self._config(calibration, source)
        pairs = divided(X, y, extra_outputs, validation, config.seed)
        with process_group() as processes:
            context = dataclasses.replace(self._context(), processes=processes)
            monitor = with_callbacks(context.monitor, self.callbacks) if processes.main else Callbacks(Monitor())
            donor = None if source is None else source.model(device=context.device)
            folder, told = None if run is None else Path(run), context.with_monitor(monitor)
            self.model_ = fit(config, pairs, told, folder=folder, every=checkpoint_every, donor=donor)
        return self

    @noted()
    def predict(
        self,
        X: Examples,
        *,
        decoder: Section | None = None,
        top_k: int | None = None,
        candidates: Examples | None = None,
        constraints: Constraints | None = None,
    ) -> list[Any]:
        """Return the predicted object for each input; with `top_k`, a list of the best objects for each input.

        `constraints` is a constraint for all inputs, such as `{"formula": "C9H8O4"}`, or a list with one or None for
        each, besides what follows from the inputs. If no structure satisfies them, the prediction is None.
        """
        many = 1 if top_k is None else top_k
        found = self.decode(X, decoder=decoder, top_k=many, candidates=candidates, constraints=constraints)
        return [prediction.best if top_k is None else prediction.objects for prediction in found]

    def decode(
        self,
        X: Examples,
        *,
        decoder: Section | None = None,
        top_k: int = 1,
        candidates: Examples | None = None,
        constraints: Constraints | None = None,
        trace: bool = False,
        coverage: float | None = None,
        by: str | None = None,
        risk: float | None = None,
        min_confidence: float = 0.0,
    ) -> Predictions:
        """Return the predictions with their energies. `candidates` are objects, or a list of objects for each input.

        `constraints` are as in `predict`.

        If the predictor is calibrated (see `calibrate`), predictions have a `confidence` and a `set`. `coverage` is the
        probability with which sets hold the truth, by default 0.9; with `by`, a property of structures such as `atoms`,
        it holds for each group of its values. `risk` instead bounds the mean distance of the truth to the nearest
        member of its set. Answers below `min_confidence` are omitted.

        With `trace=True`, a decoder that supports it records its path to each prediction: see `Predictions.trace`.
        """
        model, context, inputs = self._fitted(), self._context(), as_list(X, "input", "predict")
        promise, bound = promised(coverage, by, risk), model.constraints_from(constraints, len(inputs))
        given = None if candidates is None else as_list(candidates, "output", "candidates")
        chosen = None if given is None else model.candidates_from(given, context)
        choice = as_choice(decoder or self.decoder)
        return predict(model, inputs, Request(top_k, choice, chosen, bound, promise, min_confidence, trace), context)

    def calibrate(self, X: Examples, y: Examples) -> Self:
        """Learn from pairs that were not used in `fit` how far predictions can be trusted.

        Afterwards predictions have a `confidence` and a prediction `set`, also after `save` and `load`. An `AnyOf` in
        `y` holds several right objects.
        """
        model, context = self._fitted(), self._context()
        inputs, objects = as_pairs(X, y, "calibrate")
        truths = packed_truths(model.space, objects, context)
        self.model_ = calibrate(model, inputs, truths, "given pairs", context)
        return self

    def to_dataframe(
        self,
        X: Examples,
        *,
        decoder: Section | None = None,
        top_k: int = 1,
        candidates: Examples | None = None,
        constraints: Constraints | None = None,
    ) -> pd.DataFrame:
        """Return the predictions as a pandas table: `decode`, then `Predictions.to_dataframe`."""
        found = self.decode(X, decoder=decoder, top_k=top_k, candidates=candidates, constraints=constraints)
        return found.to_dataframe()

    def evaluate(
        self,
        X: Examples,
        y: Examples,
        *,
        decoder: Section | None = None,
        oracle: bool = False,
        given: Sequence[str] = (),
    ) -> Evaluation:
        """Measure every metric on pairs; with `oracle`, decode from the embeddings of the truths `y`.

        `given` names constraints, such as `("formula",)`, that predictions must satisfy as the truths do.

        An `AnyOf` in `y` holds several right objects: the prediction is measured against the nearest.
        """
        model, context, choice = self._fitted(), self._context(), as_choice(decoder or self.decoder)
        inputs, objects = as_pairs(X, y, "evaluate")
        truths = packed_truths(model.space, objects, context)
        return evaluate(model, inputs, truths, decoder=choice, oracle=oracle, given=given, context=context)

    def score(self, X: Examples, y: Examples) -> float:
        """Return the primary metric, negated if less is better: a greater score is always better."""
        primary = self._fitted().space.metrics[0]
        value = self.evaluate(X, y).metrics[primary.name]
        return value if primary.direction == "max" else -value

    # -- the loss as a tool ----------------------------------------------------------------------------------------

    def embed(self, objects: Any) -> npt.NDArray[np.float32]:
        """Return ψ(y), the embedding of each object: (n, dim). Squared distances between them are the learned loss."""
        given = as_list(objects, "output", "embed")
        embeddings: npt.NDArray[np.float32] = self._fitted().embed(given, self._context()).cpu().numpy()
        return embeddings

    def distance(self, a: Any, b: Any, *, matrix: bool = False) -> npt.NDArray[np.float32]:
        """Return the learned loss ‖ψ(a) − ψ(b)‖² of each object in `a` and the one at its place in `b`: (n,).

        With `matrix=True`, of each object in `a` and each in `b`: (n, m).
        """
        left, right = as_list(a, "output", "distance"), as_list(b, "output", "distance")
        if not matrix and len(left) != len(right):
            what = f"{counted(len(left), 'object')} and {counted(len(right), 'object')} do not form pairs."
            raise DataError(what, where="distance", fix="Give equally many, or matrix=True to compare each with each.")
        model, context = self._fitted(), self._context()
        ours, theirs = (model.embed(objects, context) for objects in (left, right))
        found = squared_distances(ours, theirs) if matrix else (ours - theirs).square().sum(dim=1)
        distances: npt.NDArray[np.float32] = found.cpu().numpy()
        return distances

    def neighbours(self, objects: Any, k: int = 10, among: Any | None = None) -> Neighbours:
        """Return the `k` nearest neighbours of each object by the learned loss, nearest first.

        They are searched `among` other objects, by default among the different training outputs. An object that is
        there itself is its own nearest neighbour, at distance 0 but for rounding. For files of millions, use
        `ele neighbours`.
        """
        given = as_list(objects, "output", "neighbours")
        others = None if among is None else as_list(among, "output", "among")
        return neighbours(self._fitted(), given, k, others, self._context())

    def loss(self, *, reduction: Reduction = "mean") -> LearnedLoss:
        """Return the learned loss as a torch module, differentiable in relaxed structures, for a training of your own.

        `reduction` is `mean`, `sum`, or `none` for a loss per example. The module is a frozen copy of the surrogate,
        which must have a gradient.
        """
        return self._fitted().loss(reduction=reduction)

    # -- parameters ------------------------------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments by name; with `deep` also every option of each component, with its value."""
        values = {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}
        if not deep:
            return values
        return {name: value for name, value in with_options(values, self.sections).items() if value is not UNSET}

    def set_params(self, **params: Any) -> Self:
        """Change arguments and options, such as `regressor__backbone__width=64`; a wrong name changes nothing."""
        values = self.get_params(deep=False)
        for name in sorted(params, key=outer_first):
            first, *path = name.split(BETWEEN)
            if name not in (values if not path else with_options(values, self.sections)):
                raise unknown_parameter(name, with_options(values, self.sections), type(self).__name__)
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
        return sklearn_tags()

    # -- files ----------------------------------------------------------------------------------------------------

    def save(self, folder: str | Path, *, compact: bool = False) -> None:
        """Write the fitted model with its candidates into `folder`, which another machine can load.

        A `compact` model is a fraction of the size: weights have half the precision, and candidates are embedded when
        it is loaded.
        """
        with process_group() as processes:
            if processes.main:
                save_model(self._fitted(), Path(folder), compact=compact)
            processes.wait()

    @classmethod
    def load(cls, folder: str | Path, *, device: str = "auto", registry: Registry | None = None) -> Self:
        """Load a fitted predictor from a folder that `save` or `ele train` wrote."""
        model = open_model(folder, registry).model(device=pick_device(device))
        chosen: dict[str, Choice] = {name: getattr(model.config, name) for name in cls.sections}
        sections: dict[str, Any] = {name: {"name": own.name, **own.options} for name, own in chosen.items()}
        share, seed = model.config.candidates.share, model.config.seed
        bound = model.config.constraints or None
        predictor = cls(**sections, constraints=bound, share=share, seed=seed, device=device, registry=registry)
        predictor.model_ = model
        return predictor

    # -- inside ---------------------------------------------------------------------------------------------------

    def _fitted(self) -> Model:
        model: Model | None = getattr(self, "model_", None)
        if model is None:
            raise not_fitted("this StructuredPredictor is not fitted yet: call fit, or load a saved one.")
        return model

    def _context(self) -> Context:
        shown = hasattr(sys, "ps1") if self.verbose is None else self.verbose
        monitor = ConsoleMonitor() if shown else Monitor()
        return Context(self.seed, pick_device(self.device), monitor)

    def _config(self, calibration: float | None = None, start: Opened | None = None) -> configuration.RunConfig:
        sections = {name: getattr(self, name) for name in (*self.sections, "constraints", "recipe", "seed", "device")}
        sections["calibration"] = None if calibration is None else {"pairs": calibration}
        sections["start"] = None if start is None else {"name": start.name}
        sections = {name: section for name, section in sections.items() if section is not None}
        return configuration.load({**sections, "candidates": {"share": self.share}}, registry=self.registry)

    def _source(self, given: Any | None) -> Opened | None:
        """Return the model to start from: of what `fit` was given, else as `warm_start` of this predictor says."""
        source = self.warm_start if given is None else given
        if source is None or source is False:
            return None
        if source is True:
            return open_model(self) if hasattr(self, "model_") else None
        if isinstance(source, StructuredPredictor):
            source._fitted()
        return open_model(source, self.registry, "warm_start")


def as_choice(section: Section | None) -> Choice | None:
    """Return a component that the user named as a `Choice`."""
    if section is None:
        return None
    if isinstance(section, str):
        return Choice(name=section)
    if "name" not in section:
        raise ConfigError("a component needs a name.", where="decoder", fix='Write {"name": "pgd", …}.')
    return Choice(**section)


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
