"""`StructuredPredictor`: fit, predict, score, save and load, by scikit-learn's conventions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from ele_core import config as configuration
from ele_core.config import RunConfig
from ele_core.data.dataset import split
from ele_core.data.packing import pack_all
from ele_core.data.prepare import Pairs, prepare
from ele_core.errors import ConfigError, DataError, counted
from ele_core.interfaces import Choice, Task
from ele_core.model.evaluate import Evaluation, evaluate
from ele_core.model.files import load_model, save_model
from ele_core.model.model import Model
from ele_core.model.results import Predictions
from ele_core.model.train import assemble, fit
from ele_core.plugins import Registry
from ele_core.plugins import registry as installed
from ele_core.runs.training import fit_in
from ele_core.runtime.context import Context
from ele_core.runtime.device import pick_device
from ele_core.runtime.distributed import process_group
from ele_core.runtime.monitor import Callback, Callbacks, ConsoleMonitor, Monitor, with_callbacks

Section = str | Mapping[str, Any]
"""A component: its name, or a mapping with `name` and options."""
Held = float | tuple[Sequence[Any], Sequence[Any]]
"""What to validate on: a share or a number of the pairs, or other pairs `(X, y)`."""
SECTIONS = ("output", "input", "surrogate", "regressor", "decoder")
"""The arguments that name components."""


class StructuredPredictor(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A scikit-learn estimator that predicts structures from inputs, with a loss learned on the structures.

    `output`, `input`, `surrogate`, `regressor` and `decoder` are each the name of a component, or a mapping of its name
    and options, as in a configuration file; decoders see a `share` of the training outputs as candidates::

        StructuredPredictor("sequence", regressor={"name": "neural", "training": {"epochs": 5}})

    `callbacks` are notified of events in `fit`: steps, evaluations, ends of stages, messages. Names are looked up in
    `registry`, by default in the installed plugins. `clone`, `cross_val_score` and `Pipeline` work with it.
    """

    def __init__(
        self,
        output: Section,
        *,
        input: Section = "text",  # noqa: A002  # the name of the section in every configuration
        surrogate: Section = "contrastive",
        regressor: Section = "neural",
        decoder: Section = "candidates",
        share: float = 1.0,
        seed: int = 0,
        device: str = "auto",
        verbose: bool = False,
        callbacks: Sequence[Callback] = (),
        registry: Registry | None = None,
    ) -> None:
        self.output = output
        self.input = input
        self.surrogate = surrogate
        self.regressor = regressor
        self.decoder = decoder
        self.share = share
        self.seed = seed
        self.device = device
        self.verbose = verbose
        self.callbacks = callbacks
        self.registry = registry

    @classmethod
    def for_task(cls, name: str, **changes: Any) -> Self:
        """Return a predictor with the configuration of a task, for your own data; `changes` replace whole arguments."""
        registry = changes.get("registry") or installed()
        task: type[Task] = registry.get("task", name)
        defaults = configuration.task_sections(task, registry, own_data=True)
        known = {key: value for key, value in defaults.items() if key in cls._get_param_names()}
        return cls(**{**known, **changes})

    # -- scikit-learn ---------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Sequence[Any],  # scikit-learn's name
        y: Sequence[Any],
        *,
        extra_outputs: Sequence[Any] | None = None,
        validation: Held = 0.05,
        run: str | Path | None = None,
        checkpoint_every: float = 60.0,
    ) -> Self:
        """Learn from inputs `X` and objects `y`.

        `validation` is a share or a number of the pairs to hold out for early stopping, or other pairs `(X, y)`;
        `extra_outputs` are objects without inputs, for pre-training the loss. With `run`, a folder, the training can be
        resumed: after a stop the same call continues from the last checkpoint, written every `checkpoint_every`
        seconds, and once the run has finished it loads the model. Started by torchrun, all processes share the work.
        """
        pairs = self._pairs(X, y, extra_outputs, validation)
        with process_group() as processes:
            context = dataclasses.replace(self._context(), processes=processes)
            monitor = with_callbacks(context.monitor, self.callbacks) if processes.main else Callbacks(Monitor())
            context = dataclasses.replace(context, monitor=monitor)
            prepared = prepare(self._config(), context, pairs)
            if run is not None:
                self.model_ = fit_in(Path(run), prepared, context, every=checkpoint_every)
            else:
                with monitor.training():
                    self.model_ = fit(assemble(prepared, context), prepared, context)
        return self

    def predict(
        self,
        X: Sequence[Any],
        *,
        decoder: Section | None = None,
        top_k: int | None = None,
        candidates: Sequence[Any] | None = None,
    ) -> list[Any]:
        """Return the predicted object for each input; with `top_k`, a list of the best objects for each input."""
        found = self.decode(X, decoder=decoder, top_k=1 if top_k is None else top_k, candidates=candidates)
        return [prediction.best if top_k is None else prediction.objects for prediction in found]

    def decode(
        self,
        X: Sequence[Any],
        *,
        decoder: Section | None = None,
        top_k: int = 1,
        candidates: Sequence[Any] | None = None,
        trace: bool = False,
    ) -> Predictions:
        """Return the predictions with their energies. `candidates` are objects, or a list of objects for each input.

        With `trace=True`, a decoder that supports it records its path to each prediction: see `Predictions.trace`.
        """
        model, context = self._fitted(), self._context()
        check_list(X, "predict")
        chosen = None if candidates is None else model.candidates_from(candidates, context)
        choice = as_choice(decoder or self.decoder)
        decoding = model.decode(model.queries(X), choice, top_k=top_k, candidates=chosen, trace=trace, context=context)
        return Predictions(model.space, X, decoding)

    def evaluate(
        self, X: Sequence[Any], y: Sequence[Any], *, decoder: Section | None = None, oracle: bool = False
    ) -> Evaluation:
        """Measure every metric on pairs; with `oracle`, decode from the embeddings of the truths `y`."""
        model, context = self._fitted(), self._context()
        check_pairs(X, y, "evaluate")
        outputs = pack_all(model.space, y, context)
        return evaluate(model, X, outputs, decoder=as_choice(decoder or self.decoder), oracle=oracle, context=context)

    def score(self, X: Sequence[Any], y: Sequence[Any]) -> float:
        """Return the primary metric, negated if less is better: a greater score is always better."""
        primary = self._fitted().space.metrics[0]
        value = self.evaluate(X, y).metrics[primary.name]
        return value if primary.direction == "max" else -value

    # -- files ----------------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write the fitted model with its candidates into `folder`, which another machine can load."""
        with process_group() as processes:
            if processes.main:
                save_model(self._fitted(), Path(folder))
            processes.wait()

    @classmethod
    def load(cls, folder: str | Path, *, device: str = "auto", registry: Registry | None = None) -> Self:
        """Load a fitted predictor from a folder that `save` or `ele train` wrote."""
        folder = Path(folder)
        model = load_model(folder / "model" if (folder / "model").is_dir() else folder, pick_device(device), registry)
        sections: dict[str, Any] = {name: as_section(getattr(model.config, name)) for name in SECTIONS}
        share, seed = model.config.candidates.share, model.config.seed
        predictor = cls(**sections, share=share, seed=seed, device=device, registry=registry)
        predictor.model_ = model
        return predictor

    # -- inside ---------------------------------------------------------------------------------------------------

    def _fitted(self) -> Model:
        model: Model | None = getattr(self, "model_", None)
        if model is None:
            raise NotFittedError("this StructuredPredictor is not fitted yet: call fit, or load a saved one.")
        return model

    def _context(self) -> Context:
        monitor = ConsoleMonitor() if self.verbose else Monitor()
        return Context(self.seed, pick_device(self.device), monitor)

    def _config(self) -> RunConfig:
        sections = {name: getattr(self, name) for name in (*SECTIONS, "seed", "device")}
        return configuration.load({**sections, "candidates": {"share": self.share}}, registry=self.registry)

    def _pairs(
        self, inputs: Sequence[Any], outputs: Sequence[Any], extra: Sequence[Any] | None, validation: Held
    ) -> Pairs:
        """Check the pairs, and choose those to train and to validate on."""
        check_pairs(inputs, outputs, "fit")
        if len(inputs) == 0:
            raise DataError("there are no pairs.", where="fit", fix="Give at least a few.")
        if isinstance(validation, float | int):
            train, held_out, _ = split(len(inputs), max(validation, 1 / len(inputs)), 0, self.seed)
            return Pairs([*inputs], [*outputs], train, held_out, extra)
        check_pairs(*validation, "validation")
        count, own = len(inputs), len(validation[0])
        rows = torch.arange(count), torch.arange(count, count + own)
        return Pairs([*inputs, *validation[0]], [*outputs, *validation[1]], *rows, extra)


def check_pairs(inputs: Sequence[Any], outputs: Sequence[Any], where: str) -> None:
    """Refuse inputs and outputs that do not form pairs."""
    check_list(inputs, where)
    check_list(outputs, where)
    if len(inputs) != len(outputs):
        what = f"{counted(len(inputs), 'input')} but {counted(len(outputs), 'output')}."
        raise DataError(what, where=where, fix="Give one output for each input.")


def check_list(values: Sequence[Any], where: str) -> None:
    """Refuse a single text, which would be used as a list of its characters."""
    if isinstance(values, str):
        raise DataError("one text where a list is expected.", where=where, fix="Put the text into a list.")


def as_section(choice: Choice) -> dict[str, Any]:
    """Return a `Choice` as a mapping, as users write it."""
    return {"name": choice.name, **choice.options}


def as_choice(section: Section | None) -> Choice | None:
    """Return a component that the user named as a `Choice`."""
    if section is None:
        return None
    if isinstance(section, str):
        return Choice(name=section)
    if "name" not in section:
        raise ConfigError("a component needs a name.", where="decoder", fix='Write {"name": "pgd", …}.')
    return Choice(**section)
