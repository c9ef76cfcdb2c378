"""Several regressors at once, added up with the weights that suit the validation pairs best."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

import torch
from pydantic import model_validator
from torch import Tensor
from torch.nn import functional

from ele_core.component import ComponentConfig
from ele_core.errors import ModelError, damaged
from ele_core.interfaces import InputSpace, Regressor, Surrogate
from ele_core.numerics.tensors import Tensors
from ele_core.plugins import create_part
from ele_core.runtime.context import Context
from ele_core.runtime.monitor import StageNames
from ele_core.runtime.work import Snapshot, by_cost, learn, prefixed
from ele_core.types import Choice, PlannedStage, Stage, Takes, TrainingData

STACKED, COPIED = "stacked", "copied"
ALONE = {"kernel": "kernel, errors weighed", "network": "network, errors weighed"}
"""A regressor → the mode in which it predicts alone, with energies that weigh its errors."""
MODES = (STACKED, COPIED, *ALONE.values())
"""A mode is stored as its place here."""
UNDECIDED = -1.0
"""Stored instead of a mode if none was chosen yet."""


class StackedRegressor(Regressor):
    """h(x) = Σ_r w_r h_r(x) with w ≥ 0, where w minimises the squared error on the validation pairs.

    A network learns more from many pairs, a kernel more from few, and their sum has less error than either. Validation
    pairs decide between the sum, the kernel or the network alone with energies that weigh its errors, and `copying`.
    """

    stages = (Stage("network", decides="validation_error"), Stage("kernel", decides="validation_error"))

    class Config(ComponentConfig):
        """The regressors to add up, and the one to fall back on."""

        network: Annotated[Choice | None, Takes("regressor")] = Choice(name="neural")
        """A regressor that learns a representation of inputs; None: without."""
        kernel: Annotated[Choice | None, Takes("regressor")] = Choice(name="sketched-ridge")
        """A regressor that compares inputs with those of the training; None: without."""
        copying: Annotated[Choice | None, Takes("regressor")] = Choice(name="nearest-input")
        """The regressor that is used instead of all others where it predicts better structures; None: never."""

        @model_validator(mode="after")
        def _something(self) -> Self:
            if self.network is None and self.kernel is None and self.copying is None:
                raise ValueError("`network`, `kernel` and `copying` are all none: keep at least one")
            return self

    config: Config

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], surrogate: Surrogate) -> None:
        super().__init__(config, inputs, surrogate)
        given = {"network": self.config.network, "kernel": self.config.kernel, "copying": self.config.copying}
        self.parts: dict[str, Regressor] = {
            name: create_part(self, "regressor", choice, inputs, surrogate, path=f"regressor.{name}")
            for name, choice in given.items()
            if choice is not None
        }
        self.weights = [0.0] * len(self._stacked)
        self.mode: str | None = None

    @property
    def modes(self) -> Sequence[str]:
        """The regressors alone that measured their errors, the sum of all, or copying alone."""
        weighing = [ALONE[name] for name in ALONE if (part := self.parts.get(name)) is not None and part.modes]
        found = [*weighing, STACKED, *([COPIED] if "copying" in self.parts else [])]
        return found if len(found) > 1 else ()

    def use_mode(self, mode: str) -> None:
        """Use one regressor alone with its errors, the sum, or copying alone."""
        self.mode = mode
        alone = self._alone()
        self.errors = None if alone is None else self.parts[alone].errors

    def _alone(self) -> str | None:
        """The regressor that predicts alone in the present mode; None: the sum does."""
        if self.mode == COPIED:
            return "copying"
        return next((name for name, mode in ALONE.items() if mode == self.mode), None)

    @property
    def _stacked(self) -> list[str]:
        return [name for name in self.parts if name != "copying"] or list(self.parts)

    def planned(self, examples: int, extra: int) -> list[PlannedStage]:
        """The stages of all regressors, under the names of their sections."""
        plans = {name: part.planned(examples, extra) for name, part in by_cost(self.parts, examples, extra)}
        return [
            dataclasses.replace(stage, name=name if len(plan) == 1 else stage.name)
            for name, plan in plans.items()
            for stage in plan
        ]

    def fit(self, data: TrainingData, context: Context) -> None:
        """Fit each regressor, the cheapest first, then the weights; a resumed training skips finished ones."""
        for name, part in by_cost(self.parts, len(data.train)):
            told = context.with_monitor(StageNames(context.monitor, {"regression": name}))
            learn(part, f"regressor {name}", data, told)
        predicted = [
            context.processes.spread(self.parts[name].predict, data.validation.inputs[:]) for name in self._stacked
        ]
        targets = context.processes.spread(self.surrogate.embed, data.validation.outputs[:])

        def error(queries: Tensor) -> Tensor:
            return (queries - targets).square().sum(dim=1).mean()

        errors = {name: float(error(own)) for name, own in zip(self._stacked, predicted, strict=True)}
        best = min(errors, key=lambda name: errors[name])
        alone = [float(name == best) for name in errors]
        self.weights = found if any(found := best_weights(predicted, targets).tolist()) else alone
        joint = torch.stack([weight * own for weight, own in zip(self.weights, predicted, strict=True)]).sum(dim=0)
        shares = " + ".join(f"{w:.2f} {name}" for w, name in zip(self.weights, self._stacked, strict=True))
        listed = ", ".join(f"{name} {value:.3f}" for name, value in errors.items())
        together = f"; together {float(error(joint)):.3f} ({shares})" if len(errors) > 1 else ""
        context.monitor.message(f"regression error on validation pairs: {listed}{together}")

    def predict(self, inputs: Tensors) -> Tensor:
        """Packed inputs → (B, dim), normalised if embeddings are."""
        if (alone := self._alone()) is not None:
            return self.parts[alone].predict(inputs)
        if not self._used():
            raise ModelError("the regressor was used before it was fitted.", fix="Call `fit` first.")
        query: Tensor = torch.stack([weight * self.parts[name].predict(inputs) for name, weight in self._used()]).sum(0)
        return functional.normalize(query, dim=1) if self.surrogate.spherical else query

    def state(self) -> dict[str, Tensor]:
        """The weights and the state of every regressor.

        Once `use_mode` was called, what is not used is omitted: `copying` holds all training inputs.
        """
        states = [prefixed(name, self.parts[name].state()) for name in self._kept(self.mode)]
        mode = UNDECIDED if self.mode is None else float(MODES.index(self.mode))
        mixed = {"weights": torch.tensor(self.weights), "mode": torch.tensor([mode])}
        return {**mixed, **{key: value for state in states for key, value in state.items()}}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Load the weights and the regressors that are used."""
        if state["weights"].shape != (len(self.weights),) or state["mode"].shape != (1,):
            raise damaged("the weights of the regressors have another shape.")
        place = state["mode"].item()
        if place not in (UNDECIDED, *range(len(MODES))):
            raise damaged("the mode of the regressor is not known.")
        self.weights, mode = state["weights"].tolist(), None if place == UNDECIDED else MODES[int(place)]
        for name in self._kept(mode):
            self.parts[name].restore(Snapshot(state).part(name))
        self.mode = None
        if mode is not None:
            self.use_mode(mode)

    def to(self, device: torch.device) -> Self:
        """Move every regressor."""
        for part in self.parts.values():
            part.to(device)
        return self

    def _kept(self, mode: str | None) -> list[str]:
        """The regressors that a model in this mode is saved with; all if none was chosen yet.

        A network is among them even if another regressor predicts alone: the weights of a saved model are compared
        with those that its configuration has.
        """
        used = {COPIED: ["copying"], **{mode: [name] for name, mode in ALONE.items()}}.get(mode or "", self._stacked)
        return [name for name in self.parts if mode is None or name in (*used, "network")]

    def _used(self) -> list[tuple[str, float]]:
        return [(name, weight) for name, weight in zip(self._stacked, self.weights, strict=True) if weight > 0]


def best_weights(predicted: Sequence[Tensor], targets: Tensor) -> Tensor:
    """The weights w ≥ 0 of least ‖Σ_r w_r predicted_r − targets‖²: of all subsets, the best whose weights are positive.

    The solution of least squares on its own support is the non-negative one; there are few regressors, so all subsets
    are tried.
    """
    columns = torch.stack([own.flatten() for own in predicted], dim=1).double()
    square, cross = columns.T @ columns, columns.T @ targets.flatten().double()
    best, least = torch.zeros(len(predicted), dtype=torch.double, device=cross.device), 0.0
    for size in range(1, len(predicted) + 1):
        for chosen in itertools.combinations(range(len(predicted)), size):
            rows = torch.tensor(chosen, device=cross.device)
            own = torch.linalg.lstsq(square[rows][:, rows], cross[rows, None]).solution[:, 0]
            value = (own @ square[rows][:, rows] @ own - 2 * own @ cross[rows]).item()
            if (own > 0).all() and value < least:
                best, least = torch.zeros_like(best).index_put((rows,), own), value
    return best.float()
