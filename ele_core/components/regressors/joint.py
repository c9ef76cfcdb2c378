"""The energy of a regressor and of proposers, added up with weights that suit the validation pairs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Self

import torch
from torch import Tensor

from ele_core.component import ComponentConfig
from ele_core.energies import JointEnergy, fit_weights
from ele_core.errors import damaged
from ele_core.interfaces import Energy, InputSpace, Learner, Proposer, Regressor, Surrogate
from ele_core.numerics.tensors import Tensors
from ele_core.plugins import create_part
from ele_core.runtime.budget import TooLittleTime
from ele_core.runtime.context import Context
from ele_core.runtime.work import Snapshot, by_cost, learn, prefixed
from ele_core.types import Choice, Member, PlannedStage, Problem, Stage, Takes, TrainingData

JOINT, ALONE = "with proposals", "without proposals"
LEAST = 1e-4
"""The least weight of the loss, as a share of the largest weight: it always tells structures apart."""
USUAL = 0.1
"""The share of truths with an energy up to the `usual` one."""
UNDECIDED = -1.0
"""Stored until `use_mode` decides whether proposals are used."""
UNABLE = "it has nothing to propose"
LACKING = "lacking"
"""The name under which the work of a proposer keeps why it was left out."""


class JointRegressor(Regressor):
    """E(y) = E_loss(y) − Σ_p w_p log p(y | x): the learned loss and conditional distributions of structures.

    The proposers' structures are where decoders begin. Validation pairs fit the weights, and decide by decoding whether
    the sum is better than the loss alone.
    """

    stages = (
        *(Stage(name, decides="validation_error") for name in ("network", "kernel")),
        *(Stage(name, decides="validation_loss") for name in ("writing", "blocks")),
    )

    class Config(ComponentConfig):
        """The regressor, and the proposers to add to it."""

        loss: Annotated[Choice, Takes("regressor")] = Choice(name="stacked")
        """The regressor onto the learned loss."""
        writer: Annotated[Choice | None, Takes("proposer")] = Choice(name="writer")
        """A proposer that writes structures token by token; None: without."""
        aligned: Annotated[Choice | None, Takes("proposer")] = None
        """A proposer for outputs that stand beside their inputs, part by part; None: without."""
        blocks: Annotated[Choice | None, Takes("proposer")] = None
        """A proposer that gives each block of a structure a likelihood of its own; None: without."""

    config: Config

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], surrogate: Surrogate) -> None:
        super().__init__(config, inputs, surrogate)
        self.loss: Regressor = create_part(
            self, "regressor", self.config.loss, inputs, surrogate, path="regressor.loss"
        )
        chosen = {"writer": self.config.writer, "aligned": self.config.aligned, "blocks": self.config.blocks}
        self.proposers: dict[str, Proposer] = {
            name: create_part(self, "proposer", choice, inputs, surrogate.space, path=f"regressor.{name}")
            for name, choice in chosen.items()
            if choice is not None
        }
        self.weights = torch.zeros(len(self.proposers))
        """The weight of each proposer beside the loss, which has 1."""
        self.widths: list[int] = []
        """The width of the queries of the regressor, then of each proposer; 0 for one that cannot propose, or without
        weight: it is neither asked nor stored."""
        self.usual: float | None = None
        """What a tenth of the validation pairs have at most by the energy that decoders follow."""
        self.joint: bool | None = None
        self.seconds: dict[str, float] = {}
        """The processor time of each part in `fit`, in its order; after a stop only since then."""
        self.lacking: dict[str, str] = {}
        """Why a proposer has nothing to propose."""

    @property
    def modes(self) -> Sequence[str]:
        """Those of the regressor onto the loss, without proposals."""
        return self.loss.modes or (ALONE,)

    def use_mode(self, mode: str) -> None:
        """Use the regressor in one of its modes, without proposals; or with proposals in its present mode."""
        self.joint = mode == JOINT
        if mode in self.loss.modes:
            self.loss.use_mode(mode)
        self.errors = self.loss.errors

    def refine(self, inputs: Tensors, truths: Any, problem: Problem) -> Sequence[str]:
        """Fit the weights: truths should win against proposals, the best candidates, and their own moves."""
        if not any(self.widths[1:]):
            return ()
        self.joint = True
        self.widths[0] = self.loss.predict(inputs[:1]).shape[1]
        loss, terms = self._terms(self.predict(inputs))
        own, *others = fit_weights([loss, *terms.values()], truths, problem)
        found = dict(zip(terms, others, strict=True))
        least = max(own, LEAST * max(others))
        self.weights = torch.tensor([found.get(name, 0.0) / least for name in self.proposers])
        used = self.weights > 0
        self.widths[1:] = [width if kept else 0 for width, kept in zip(self.widths[1:], used, strict=True)]
        walk = self.energy(self.predict(inputs)).walk
        self.usual = walk.of(truths.to(walk.device)).quantile(USUAL).item()
        return [JOINT]

    def weighed(self, inputs: Tensors) -> list[Member]:
        """The regressor, and the proposers by the time that they took, last those that were left out."""
        weights = dict(zip(self.proposers, self.weights.tolist(), strict=True))
        loss, found = Member("learned loss", None, 1.0, self.seconds.get("loss")), []
        for name, part in self.proposers.items():
            lacking = self.lacking.get(name, "")
            energy = None if lacking else part.energy(part.predict(inputs))
            own = part.registered_as or name
            found.append(Member(own, energy, weights[name], self.seconds.get(name), lacking))
        return [loss, *sorted(found, key=lambda member: (bool(member.lacking), member.seconds or 0.0))]

    def planned(self, examples: int, extra: int) -> list[PlannedStage]:
        """The stages of the regressor, then of the proposers."""
        parts = [self.loss, *(part for _, part in by_cost(self.proposers, examples, extra))]
        return [stage for part in parts for stage in part.planned(examples, extra)]

    def fit(self, data: TrainingData, context: Context) -> None:
        """Fit the regressor, then the proposers, the cheapest first; a resumed training skips finished ones.

        If there is a budget, a proposer is left out if too little time is left for it.
        """
        self.seconds, self.lacking = {}, {}
        spare = context.budget and context.budget.for_dispensable()
        asked, widths = data.validation.inputs[:1], dict.fromkeys(("loss", *self.proposers), 0)
        parts: list[tuple[str, Regressor | Proposer]] = [("loss", self.loss), *by_cost(self.proposers, len(data.train))]
        for name, part in parts:
            own = context if name == "loss" else dataclasses.replace(context, budget=spare)
            self._try(name, part, data, own)
            if name not in self.lacking:
                widths[name] = part.predict(asked).shape[1]
            if not widths[name]:
                self.lacking.setdefault(name, UNABLE)
        self.widths, self.errors = list(widths.values()), self.loss.errors

    def _try(self, name: str, part: Learner, data: TrainingData, context: Context) -> None:
        """Fit a part, or leave it out for lack of time; a resumed training keeps to what was decided."""
        work = f"joint {name}"
        done = context.work.saved(work)
        if done is not None and LACKING in done.values:
            self.lacking[name] = str(done.values[LACKING])
            return
        try:
            self.seconds[name] = learn(part, work, data, context)
        except TooLittleTime as error:
            self.lacking[name] = why = str(error)
            context.work.finish(work, lambda: Snapshot(values={LACKING: why}), closes=True)
            context.monitor.message(f"{part.registered_as or name} is left out: {why}")

    def predict(self, inputs: Tensors) -> Tensor:
        """The queries of the regressor, and beside them those of the proposers if they are used: (B, q)."""
        own = self.loss.predict(inputs)
        if not self.joint:
            return own
        return torch.cat([own, *(part.predict(inputs).to(own) for part in self._used.values())], dim=1)

    def regressed(self, queries: Tensor) -> Tensor:
        """The queries without those of the proposers."""
        return self.loss.regressed(queries[:, : self.widths[0]] if self.joint else queries)

    def energy(self, queries: Tensor) -> Energy:
        """The energy of the regressor; with that of the proposers if the queries hold theirs."""
        if not self.joint or queries.shape[1] != sum(self.widths):
            return self.loss.energy(queries)
        loss, terms = self._terms(queries)
        weights = dict(zip(self.proposers, self.weights.tolist(), strict=True))
        return JointEnergy(loss, list(terms.values()), [weights[name] for name in terms], self.usual) if terms else loss

    def ideal_queries(self, batch: Any) -> Tensor:
        """The ideal queries of the regressor: proposers have none."""
        return self.loss.ideal_queries(batch)

    def _terms(self, queries: Tensor) -> tuple[Energy, dict[str, Energy]]:
        """The energy of the regressor, and those of the proposers that can propose."""
        loss, *parts = queries.split(self.widths, dim=1)
        able = zip(self.proposers.items(), parts, strict=True)
        return self.loss.energy(loss), {name: part.energy(own) for (name, part), own in able if own.shape[1]}

    @property
    def _used(self) -> dict[str, Proposer]:
        """The proposers that are asked; before `fit` all."""
        widths = self.widths[1:] or [1] * len(self.proposers)
        return {name: self.proposers[name] for name, width in zip(self.proposers, widths, strict=True) if width}

    def _parts(self) -> Iterator[tuple[str, Learner]]:
        yield "loss", self.loss
        yield from self.proposers.items()

    def state(self) -> dict[str, Tensor]:
        """The weights, the regressor, and the proposers unless they are not used."""
        parts = {"loss": self.loss, **({} if self.joint is False else self._used)}
        mode = UNDECIDED if self.joint is None else float(self.joint)
        numbers = {
            "weights": self.weights,
            "widths": torch.tensor(self.widths, dtype=torch.long),
            "joint": torch.tensor([mode]),
            "usual": torch.tensor([] if self.usual is None else [self.usual]),
        }
        return numbers | {
            key: value for name, part in parts.items() for key, value in prefixed(name, part.state()).items()
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Load the weights, the regressor, and the proposers if they are used."""
        stored, count = Snapshot(state), len(self.proposers)
        mode, widths, usual = state["joint"], state["widths"], state["usual"]
        known = mode.shape == (1,) and mode.item() in (UNDECIDED, 0.0, 1.0) and usual.shape in ((0,), (1,))
        possible = widths.shape in ((0,), (1 + count,)) and not bool((widths < 0).any())
        if not known or not possible or state["weights"].shape != (count,):
            raise damaged("the weights of the proposers do not fit them.")
        self.weights, self.widths = state["weights"], [int(width) for width in widths.tolist()]
        self.joint = None if mode.item() == UNDECIDED else bool(mode.item())
        self.usual = usual.item() if len(usual) else None
        self.lacking = {name: UNABLE for name in self.proposers if name not in self._used}
        self.loss.restore(stored.part("loss"))
        self.errors = self.loss.errors
        if self.joint is not False:
            for name, part in self._used.items():
                part.restore(stored.part(name))

    def to(self, device: torch.device) -> Self:
        """Move the regressor and the proposers."""
        for _, part in self._parts():
            part.to(device)
        return self
