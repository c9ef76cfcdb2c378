"""The energy of a regressor and of proposers, added up with weights that suit the validation pairs."""

from __future__ import annotations

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
from ele_core.runtime.context import Context
from ele_core.runtime.work import Snapshot, learn, prefixed
from ele_core.types import Choice, PlannedStage, Problem, Stage, Takes, TrainingData

JOINT, ALONE = "with proposals", "without proposals"
LEAST = 1e-4
"""The least weight of the loss, as a share of the largest weight: it always tells structures apart."""
USUAL = 0.1
"""The share of truths with an energy up to the `usual` one."""
UNDECIDED = -1.0
"""Stored until `use_mode` decides whether proposals are used."""


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

    def planned(self, examples: int, extra: int) -> list[PlannedStage]:
        """The stages of the regressor, then of the proposers."""
        return [stage for _, part in self._parts() for stage in part.planned(examples, extra)]

    def fit(self, data: TrainingData, context: Context) -> None:
        """Fit the regressor, then each proposer; a resumed training skips those that were finished."""
        for name, part in self._parts():
            learn(part, f"joint {name}", data, context)
        self.errors = self.loss.errors
        asked = data.validation.inputs[:1]
        predicted = [self.loss.predict(asked), *(part.predict(asked) for part in self.proposers.values())]
        self.widths = [queries.shape[1] for queries in predicted]

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
