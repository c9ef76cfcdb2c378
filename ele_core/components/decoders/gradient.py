"""Projected gradient descent over the relaxed set, from the best candidates; by default never worse than these."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from ele_core.component import ComponentConfig
from ele_core.components.decoders.candidates import nearest
from ele_core.components.decoders.constraints import Constraints
from ele_core.errors import ConfigError
from ele_core.interfaces import Decoder, Energy
from ele_core.numerics.keys import mix
from ele_core.runtime.context import Context
from ele_core.types import Candidates, Decoding, Problem, Trace, Variant

CHUNK = 4096
"""Descents computed at once: bounds the memory."""


class GradientDecoder(Decoder):
    """ỹ ← P(ỹ − η ∇L), then R⁻¹; the answer is the structure of least energy among those passed.

    Every descent has its own step size η. The first step moves the entry of the largest gradient by `step_size`, so
    that this option means the same on every space. Afterwards, η is halved if the loss rose, and the next step is made
    without momentum; η grows by a tenth if the loss fell.

    The paper's plain form is `starts = 1, momentum = 0, rule = "constant", answer = "last", tolerance = 0`.
    """

    traces = True
    trace_note = (
        "The descent that starts at the best candidate. Each step moves a relaxed point; the page shows the structure "
        "nearest to it. pgd returns the best structure of all its descents."
    )
    variants = (
        Variant("pgd-random", {"start": "random"}, "pgd from random candidates"),
        Variant("pgd-best", {"start": "best"}, "pgd from the best candidates"),
    )

    class Config(ComponentConfig):
        """Where to start and how to descend."""

        start: Literal["best", "random"] = "best"
        """Start from the best candidates, or from random ones, which depend on the seed and the query alone."""
        starts: int = Field(16, ge=1)
        """The number of candidates to start from, for each input."""
        steps: int = Field(30, ge=1)
        """The number of steps."""
        step_size: float = Field(1.0, gt=0)
        """How far the first step moves the entry of the largest gradient; with the rule `constant`, η itself."""
        rule: Literal["adaptive", "constant"] = "adaptive"
        """`adaptive`: η shrinks if the loss rises, and grows if it falls. `constant`: η is the same in every step."""
        answer: Literal["best", "last"] = "best"
        """Answer with the best structure of a descent, or with its last one even if that is worse."""
        momentum: float = Field(0.9, ge=0, lt=1)
        """The share of the last move that is added to the next."""
        tolerance: float = Field(1e-6, ge=0)
        """A descent ends if the energy of its structure is at most this."""
        trace: int | None = Field(None, ge=1)
        """Record the structure and the energy of the first start every `trace` steps; None: every step, but only if
        `decode` is called with `trace=True`."""

    config: Config

    def accepts(self, energy: Energy) -> None:
        """Refuse an energy without a gradient."""
        if not energy.smooth:
            what = f"needs the gradient of the loss, which {energy} does not have."
            fix = "Decode with 'candidates' or 'search', or train a surrogate with a gradient, such as 'contrastive'."
            raise ConfigError(what, where="decoder", fix=fix)

    def decode(
        self, energy: Energy, problem: Problem, *, top_k: int = 1, trace: bool = False, context: Context
    ) -> Decoding:
        """Descend from several candidates of each query and return the best structures found."""
        every = self.config.trace or (1 if trace else None)
        starts = min(self.config.starts, len(problem.candidates))
        rows, energies = self._starts(energy, problem, starts, top_k, context)
        least = energies[:, 0].cpu() if self.config.start == "best" else None
        constraints = Constraints.of(problem, len(energy), energy.device)
        if constraints is not None:
            rows, energies = self._satisfying(energy, problem, constraints, rows, energies, starts, top_k, context)
        sizes = range(0, len(energy), max(1, CHUNK // starts))
        parts = []
        for begin in context.monitor.progress(sizes, description="pgd"):
            end = begin + sizes.step
            own = None if constraints is None else constraints.rows(begin, end)
            begun = energy[begin:end], rows[begin:end], energies[begin:end]
            parts.append(self._descend(*begun, starts, problem, top_k, every, own))
        if not parts:
            return Decoding(problem.candidates.batch[:0], torch.zeros(0, top_k))
        return dataclasses.replace(Decoding.cat(parts), nearest=least)

    def _starts(
        self, energy: Energy, problem: Problem, starts: int, top_k: int, context: Context
    ) -> tuple[Tensor, Tensor]:
        """Rows (B, at least `starts`) of the candidates to start from, and their energies.

        Further ones fill up the answers if there are too few: no descent starts there, so the first answers do not
        depend on `top_k`. Random starts have none.
        """
        if self.config.start == "best":
            free = dataclasses.replace(problem, constraints=None)
            energies, rows = nearest(energy, free, max(starts, top_k), context)
            return rows, energies
        rows = random_rows(problem.candidates, energy.identities(), starts, context.derived_seed("pgd", "starts"))
        chosen = problem.candidates.batch[rows.flatten()].to(energy.device)
        owner = torch.arange(len(energy), device=energy.device).repeat_interleave(starts)
        return rows, energy.of(chosen, owner).view(len(energy), starts)

    def _satisfying(
        self,
        energy: Energy,
        problem: Problem,
        constraints: Constraints,
        rows: Tensor,
        energies: Tensor,
        starts: int,
        top_k: int,
        context: Context,
    ) -> tuple[Tensor, Tensor]:
        """Replace the last half of the starts by the best candidates that satisfy the constraint; more fill up."""
        count = max(1, starts // 2)
        found, own = nearest(energy, problem, min(max(count, top_k), len(problem.candidates)), context)
        own, found = own.to(rows.device), found.to(energies)
        replaced = constraints.bound[:, None] & found[:, :count].isfinite()
        kept = starts - count
        chosen = torch.where(replaced.to(rows.device), own[:, :count], rows[:, kept:starts])
        energy_of = torch.where(replaced, found[:, :count], energies[:, kept:starts])
        return (
            torch.cat([rows[:, :kept], chosen, own[:, count:]], dim=1),
            torch.cat([energies[:, :kept], energy_of, found[:, count:]], dim=1),
        )

    def _descend(
        self,
        energy: Energy,
        rows: Tensor,
        energies: Tensor,
        starts: int,
        problem: Problem,
        top_k: int,
        every: int | None,
        constraints: Constraints | None,
    ) -> Decoding:
        """Descend from the first `starts` of `rows` (B, …); record the trace of the first start every `every` steps."""
        count, more = len(rows), rows.shape[1] - starts
        structures = problem.candidates.batch[rows[:, :starts].flatten().cpu()].to(energy.device)
        descent = Descent(problem, energy, structures, energies[:, :starts].flatten(), self.config, constraints)
        further = energies[:, starts:].to(descent.energy)
        energies = descent.energy.clone()
        trace = descent.run(every)
        last = self.config.answer == "last"
        ends, reached = (descent.current, descent.current_energy) if last else (descent.best, descent.energy)
        reached = descent.obeying(reached, ends) if last else reached
        others = problem.candidates.batch[rows[:, starts:].flatten().cpu()].to(energy.device)
        found = type(structures).cat([ends, structures, others])
        pooled = torch.cat([reached.view(count, starts), energies.view(count, starts), further], dim=1)
        place = torch.arange(count * starts, device=energy.device).view(count, starts)
        last_places = 2 * count * starts + torch.arange(count * more, device=energy.device).view(count, more)
        place = torch.cat([place, place + count * starts, last_places], dim=1)
        keys = problem.space.keys(found)[place]
        pooled = pooled.masked_fill(repeated(keys), math.inf)
        order = pooled.clone()
        if (
            last and pooled.isfinite().any()
        ):  # any end comes before any start; starts only fill up if there are too few ends
            order[:, starts:] += pooled[pooled.isfinite()].amax() + 1
        missing = max(0, top_k - order.shape[1])
        rows = functional.pad(order.topk(top_k - missing, dim=1, largest=False).indices, (0, missing))
        reached = pooled.gather(1, rows)
        reached[:, top_k - missing :] = math.inf
        return Decoding(found[place.gather(1, rows).flatten()].to("cpu"), reached.cpu(), first_start(trace, starts))


class Descent:
    """Many descents in one batch, which a descent leaves when its energy is within the tolerance."""

    def __init__(
        self,
        problem: Problem,
        function: Energy,
        start: Any,
        energy: Tensor,
        config: GradientDecoder.Config,
        constraints: Constraints | None = None,
    ) -> None:
        self.problem = problem
        self.config = config
        self.function = function
        self.constraints = constraints
        starts = len(start) // max(1, len(function))
        self.owner = torch.arange(len(function), device=function.device).repeat_interleave(starts)
        self.best = start.map(torch.clone)
        self.energy = self.obeying(energy, start).clone()
        self.current = start.map(torch.clone)
        self.current_energy = energy.clone()
        self.fields = tuple(problem.space.geometry)

    def run(self, every: int | None = None) -> Trace | None:
        """Descend for the configured number of steps; `best` and `energy` hold the result.

        With `every`, record the structures and energies at the start and after every `every` steps.
        """
        space = self.problem.space
        active = torch.arange(len(self.owner), device=self.owner.device)
        walk = Walk.start(space.relax(self.current), self.fields)
        steps, structures, energies = [0], [self.current.map(torch.clone)], [self.current_energy.clone()]
        for step in range(self.config.steps):
            running = (self.energy[active] > self.config.tolerance).nonzero().flatten()
            if len(running) < len(active):
                active, walk = active[running], walk.at(running)
            if len(active):
                walk = self._step(self.owner[active], walk)
                self._look(active, space.unrelax(walk.point))
            if every and (step + 1) % every == 0:
                steps.append(step + 1)
                structures.append(self.current.map(torch.clone))
                energies.append(self.current_energy.clone())
        return Trace(steps, structures, energies) if every else None

    def obeying(self, energy: Tensor, structures: Any) -> Tensor:
        """The energy of a structure of each descent (B,), infinite if it violates the constraint of its input."""
        if self.constraints is None:
            return energy
        return energy.masked_fill(~self.constraints.satisfied(structures, self.owner), math.inf)

    def _step(self, owner: Tensor, walk: Walk) -> Walk:
        """Make one step of every walk; by the adaptive rule, without momentum if the loss rose in the last one."""
        energy, gradient = self._gradient(owner, walk.point)
        worse = energy > walk.energy if self.config.rule == "adaptive" else torch.zeros_like(energy, dtype=torch.bool)
        size, limit = self._sizes(walk, worse, gradient)
        momentum = torch.where(worse, 0.0, self.config.momentum)
        old = {name: getattr(walk.point, name) for name in self.fields}
        moved = {
            name: old[name]
            + across(momentum, old[name]) * walk.velocity[name]
            - across(size, old[name]) * gradient[name]
            for name in self.fields
        }
        point = self.problem.space.project(walk.point.replace(**moved))
        velocity = {name: getattr(point, name) - old[name] for name in self.fields}
        return Walk(point, velocity, size, limit, energy)

    def _sizes(self, walk: Walk, worse: Tensor, gradient: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """The size of each step, and its upper limit."""
        if self.config.rule == "constant":
            return torch.full_like(walk.size, self.config.step_size), walk.limit
        first = self.config.step_size / largest(gradient)
        size = torch.where(walk.size == 0, first, torch.where(worse, walk.size / 2, walk.size * 1.1))
        limit = torch.where(walk.size == 0, 20 * first, walk.limit)
        return torch.minimum(size, limit), limit

    def _gradient(self, owner: Tensor, point: Any) -> tuple[Tensor, dict[str, Tensor]]:
        """The energy at each point (B,), and its gradient."""
        leaves = {name: getattr(point, name).detach().requires_grad_(True) for name in self.fields}
        energy = self.function.at(point.replace(**leaves), owner)
        gradients = torch.autograd.grad(energy.sum(), list(leaves.values()))
        return energy.detach(), dict(zip(leaves, gradients, strict=True))

    def _look(self, active: Tensor, structures: Any) -> None:
        """Score the structures that the points round to, and keep those that are better than any before."""
        changed = differ(structures, self.current[active]).nonzero().flatten()
        active, structures = active[changed], structures[changed]
        energy = self.function.of(structures, self.owner[active])
        overwrite(self.current, active, structures)
        self.current_energy[active] = energy
        better = (energy < self.energy[active]).nonzero().flatten()
        if self.constraints is not None:
            better = better[self.constraints.satisfied(structures[better], self.owner[active[better]])]
        overwrite(self.best, active[better], structures[better])
        self.energy[active[better]] = energy[better]


@dataclasses.dataclass(frozen=True)
class Walk:
    """The points of all descents, the last move of each (`velocity`), step sizes, and the energies before that move."""

    point: Any
    velocity: dict[str, Tensor]
    size: Tensor
    limit: Tensor
    energy: Tensor

    @classmethod
    def start(cls, point: Any, fields: tuple[str, ...]) -> Walk:
        """Begin without velocity; the first gradient sets the step size."""
        zero = torch.zeros(len(point), device=point.device)
        velocity = {name: torch.zeros_like(getattr(point, name)) for name in fields}
        return cls(point, velocity, zero, zero, torch.full_like(zero, math.inf))

    def at(self, rows: Tensor) -> Walk:
        """Only the descents at `rows`."""
        velocity = {name: value[rows] for name, value in self.velocity.items()}
        return Walk(self.point[rows], velocity, self.size[rows], self.limit[rows], self.energy[rows])


def largest(gradient: dict[str, Tensor]) -> Tensor:
    """The largest entry of each row over all fields (B,), never zero."""
    entries = torch.stack([g.abs().flatten(start_dim=1).amax(dim=1) for g in gradient.values()]).amax(dim=0)
    return entries.clamp(min=torch.finfo(entries.dtype).tiny)


def across(values: Tensor, like: Tensor) -> Tensor:
    """(B,) with as many dimensions as `like` (B, …)."""
    return values.view(-1, *[1] * (like.dim() - 1))


def random_rows(candidates: Candidates, identities: Tensor, starts: int, seed: int) -> Tensor:
    """(B, starts) random candidates, from the input's own if candidates belong to inputs.

    They depend on the seed and the query alone: not on the position of a query, nor on other queries.
    """
    drawn = mix(identities[:, None] ^ mix(torch.arange(starts) + seed))
    chance = (drawn & ((1 << 53) - 1)).double() / (1 << 53)
    if candidates.owner is None:
        return (chance * len(candidates)).long()
    owner = candidates.owner.cpu()
    own = torch.bincount(owner, minlength=len(identities))
    within = torch.minimum((chance * own[:, None]).long(), own[:, None] - 1)
    return owner.argsort(stable=True)[(own.cumsum(0) - own)[:, None] + within]


def overwrite(batch: Any, rows: Tensor, values: Any) -> None:
    """Write `values` into `rows` of a batch in place; no other batch may share its tensors."""
    for name, tensor in batch.named_tensors():
        tensor[rows] = getattr(values, name).to(tensor.dtype)


def differ(left: Any, right: Any) -> Tensor:
    """(B,) true for rows in which two batches have different labels."""
    fields = ((tensor, getattr(right, name)) for name, tensor in left.named_tensors())
    return torch.stack([(one != other).flatten(start_dim=1).any(dim=1) for one, other in fields]).any(dim=0)


def repeated(keys: Tensor) -> Tensor:
    """(B, P) true if the same key (B, P, 2) occurs earlier in its row."""
    same = (keys.unsqueeze(1) == keys.unsqueeze(2)).all(dim=3)
    return torch.tril(same, diagonal=-1).any(dim=2)


def first_start(trace: Trace | None, starts: int) -> Trace | None:
    """The trace of the first of `starts` descents of each input."""
    if trace is None:
        return None
    rows = torch.arange(0, len(trace.energies[0]), starts)
    structures = [batch.to("cpu")[rows] for batch in trace.structures]
    return Trace(trace.steps, structures, [energy.cpu()[rows] for energy in trace.energies])
