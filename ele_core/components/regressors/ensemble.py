"""The same regressor trained several times, from different random numbers, and averaged."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from ele_core.component import ComponentConfig
from ele_core.components.regressors.measured import MeasuredRegressor, sampled_rows
from ele_core.interfaces import InputSpace, Regressor, Surrogate
from ele_core.numerics.tensors import Tensors
from ele_core.plugins import create_part
from ele_core.runtime.context import Context
from ele_core.runtime.monitor import StageNames
from ele_core.runtime.work import Snapshot, prefixed
from ele_core.types import Choice, PlannedStage, Stage, Takes, TrainingData

ENSEMBLE = Stage("ensemble", decides="validation_error")
MOST = 64


class EnsembleRegressor(MeasuredRegressor):
    """h(x) = (1/M) Σ_m h_m(x): M regressors that differ in their first weights, batches and dropout alone.

    Their errors differ too, and the mean has less of them. If queries are log-odds, it is the geometric mean of the
    probabilities. The validation error of the mean is reported after each member.
    """

    stages = (ENSEMBLE,)

    class Config(ComponentConfig):
        """The regressor, and how often it is trained."""

        member: Annotated[Choice, Takes("regressor")] = Choice(name="neural")
        """The regressor to train several times."""
        members: int = Field(4, ge=1, le=MOST)
        """How often it is trained; training and predicting take as many times as long."""
        weigh_errors: bool = True
        """Whether energies may weigh each direction of the embedding by the errors of the mean for training pairs;
        validation pairs decide. With fewer than 200 pairs, or equal outputs, they do not."""

    config: Config

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], surrogate: Surrogate) -> None:
        super().__init__(config, inputs, surrogate)
        self.members: list[Regressor] = [
            create_part(self, "regressor", self.config.member, inputs, surrogate, path="regressor.member")
            for _ in range(self.config.members)
        ]
        for member in self.members:  # the errors of the mean are measured instead
            if isinstance(member, MeasuredRegressor):
                member.weighs = False

    def planned(self, examples: int, extra: int) -> list[PlannedStage]:
        """The stages of every member, with its number behind their names."""
        plans = [member.planned(examples, extra) for member in self.members]
        return [
            dataclasses.replace(stage, name=f"{stage.name} {number}")
            for number, plan in enumerate(plans, start=1)
            for stage in plan
        ]

    def fit(self, data: TrainingData, context: Context) -> None:
        """Fit one member after the other; a resumed training skips those that were finished."""
        for number, member in enumerate(self.members, start=1):
            done = context.work.saved(f"member {number}")
            if done is not None and done.finished:
                member.restore(done.tensors)
                member.to(context.device)
            else:
                self._fit(number, data, context)
        if self.weighs:
            parts = [data.in_memory[rows] for rows in sampled_rows(len(data.in_memory))]
            spread = context.processes.spread
            queries = torch.cat([spread(self.predict, part.inputs) for part in parts])
            self.measure(queries, torch.cat([spread(self.surrogate.embed, part.outputs) for part in parts]), context)

    def predict(self, inputs: Tensors) -> Tensor:
        """Packed inputs → (B, dim), normalised if embeddings are."""
        return self._mean(self.members, inputs)

    def state(self) -> dict[str, Tensor]:
        """The state of every member, and the error model if there is one."""
        states = [prefixed(str(number), member.state()) for number, member in enumerate(self.members, start=1)]
        return {name: value for state in (*states, self.errors_state()) for name, value in state.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore every member."""
        for number, member in enumerate(self.members, start=1):
            member.restore(Snapshot(state).part(str(number)))
        self.restore_errors(state)

    def to(self, device: torch.device) -> Self:
        """Move every member."""
        for member in self.members:
            member.to(device)
        return super().to(device)

    def _fit(self, number: int, data: TrainingData, context: Context) -> None:
        """Fit a member, with random numbers of its own, and report the error of the mean so far."""
        member, so_far = self.members[number - 1], self.members[:number]
        names = {stage.name: f"{stage.name} {number}" for stage in member.stages}
        seed = context.derived_seed("member", number)
        own = dataclasses.replace(context, seed=seed, monitor=StageNames(context.monitor, names))
        member.fit(data, own)
        queries = context.processes.spread(lambda inputs: self._mean(so_far, inputs), data.validation.inputs[:])
        error = self.surrogate.energy(queries).of(data.validation.outputs[:].to(queries.device)).mean().item()
        last = number == len(self.members)
        context.monitor.evaluation(ENSEMBLE.name, number, {ENSEMBLE.decides: error}, best=last)
        context.work.finish(f"member {number}", lambda: Snapshot(member.state()), closes=True)

    def _mean(self, members: Sequence[Regressor], inputs: Tensors) -> Tensor:
        query = members[0].predict(inputs)
        for member in members[1:]:
            query = query + member.predict(inputs)
        query = query / len(members)
        return functional.normalize(query, dim=1) if self.surrogate.spherical else query
