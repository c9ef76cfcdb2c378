"""Choose what predicts best on validation pairs: the mode of the regressor, and the decoder."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from ele_core.config import RunConfig
from ele_core.data.truths import Truths
from ele_core.display.text import in_words
from ele_core.interfaces import OutputSpace, Regressor
from ele_core.model.metrics import deciding, measure, only_answers
from ele_core.model.model import Model
from ele_core.numerics.keys import distinct
from ele_core.numerics.tensors import Tensors
from ele_core.runtime.context import Context
from ele_core.runtime.work import Work
from ele_core.types import Choice, Member, Problem

WEIGHED = 400
"""Maximum number of validation pairs by which a regressor refines its modes."""


@dataclasses.dataclass(frozen=True)
class Tried:
    """One way to predict, and the mean of the deciding metric on validation pairs."""

    mode: str
    decoder: Choice
    value: float
    exact: float
    """The share of exact predictions."""

    def __str__(self) -> str:
        with_mode = f"{self.mode}, " if self.mode else ""
        return f"{with_mode}{self.decoder.name} {self.value:.3g}"


def select(
    model: Model,
    inputs: Tensors,
    truths: Truths,
    context: Context,
    constraints: Sequence[Any | None] | None = None,
    seconds: float = 0.0,
) -> Model:
    """Return the model with the decoder and the mode of its regressor that predict best; report what was tried.

    All modes are tried with the first decoder, then those into which the regressor can refine the best one, then the
    other decoders with the best mode. Of equal ones the later decoder is kept: recipes list the fastest last.
    `constraints` are those that follow from the inputs, None: there are none; `seconds` the processor time that the
    surrogate took.
    """
    config = model.config
    decoders = [decoder_of(config, name) for name in config.selection.decoders] or [config.decoder]
    modes = list(model.regressor.modes) or [""]
    refines = type(model.regressor).refine is not Regressor.refine
    if len(decoders) * len(modes) == 1 and not refines:
        if modes[0]:
            model.regressor.use_mode(modes[0])
        return model
    metric = deciding(model.space)
    quiet = dataclasses.replace(context, work=Work())

    def attempt(mode: str, decoder: Choice) -> Tried:
        if mode:
            model.regressor.use_mode(mode)
        queries, bound = model.regressor.predict(inputs), rows_of(constraints, len(inputs))
        found = model.decode(queries, decoder, constraints=bound, context=quiet)
        values = only_answers(measure(model.space, found.best, truths, quiet), found)
        return Tried(mode, decoder, *(values[name].float().mean().item() for name in (metric.name, "exact")))

    def best_of(tried: Sequence[Tried]) -> Tried:
        return min(tried, key=lambda each: each.value if metric.direction == "min" else -each.value)

    assert model.candidates is not None
    whole, judged = inputs[:WEIGHED], truths.first[:WEIGHED]
    inputs = inputs[: config.selection.pairs]
    truths = truths.part(0, len(inputs))
    tried = [attempt(mode, decoders[0]) for mode in modes]
    if best_of(tried).mode:
        model.regressor.use_mode(best_of(tried).mode)
    problem = Problem(model.space, model.candidates, rows_of(constraints, len(whole)))
    alone = best_of(tried)
    further = [attempt(mode, decoders[0]) for mode in model.regressor.refine(whole, judged, problem)]
    tried += further
    best = best_of(tried)
    if members := model.regressor.weighed(inputs):
        loss, *others = members
        loss = loss if loss.seconds is None else dataclasses.replace(loss, seconds=loss.seconds + seconds)
        context.monitor.message(account([loss, *others], truths, model.space, alone, further, kept=best))
    for decoder in decoders[1:]:
        tried.append(attempt(best.mode, decoder))
        best = best_of([tried[-1], best])
    if best.mode:
        model.regressor.use_mode(best.mode)
    listed = "; ".join(map(str, tried))
    context.monitor.message(f"{metric.name} on {len(truths)} validation pairs: {listed}. Chosen: {best}")
    return dataclasses.replace(model, config=config.model_copy(update={"decoder": best.decoder}))


def account(
    members: Sequence[Member],
    truths: Truths,
    space: OutputSpace[Any, Any],
    alone: Tried,
    together: Sequence[Tried],
    *,
    kept: Tried,
) -> str:
    """A line for the user: which share of validation pairs each member gets right alone, and what it took."""
    shares = [alone.exact, *(right_alone(member, truths, space) for member in members[1:])]
    modes = [alone.mode, *("" for _ in members[1:])]
    told = [
        f"{member.name} left out: {member.lacking}"
        if member.lacking
        else f"{member.name} {100 * share:.1f} % ({', '.join(filter(None, (mode, *price(member))))})"
        for member, share, mode in zip(members, shares, modes, strict=True)
    ]
    told += [f"all together {100 * each.exact:.1f} %" for each in together]
    chosen = "all together" if kept in together else f"{members[0].name}{kept.mode and f', {kept.mode}'}"
    return f"exact on {len(truths)} validation pairs: {', '.join(told)}. Kept: {chosen}"


def price(member: Member) -> list[str]:
    """The processor time of a member, as far as it is known, and its weight beside the first."""
    time = [] if member.seconds is None else [in_words(member.seconds)]
    return [*time, f"weight {member.weight:.2g}" if member.weight else "no weight: not used"]


def right_alone(member: Member, truths: Truths, space: OutputSpace[Any, Any]) -> float:
    """The share of examples for which the likeliest proposal of a member is right."""
    proposed = None if member.energy is None else member.energy.proposals(1)
    if member.energy is None or proposed is None or not len(proposed.owner):
        return 0.0
    owner, device = proposed.owner.cpu(), member.energy.device
    order = member.energy.of(proposed.batch.to(device), owner.to(device)).cpu().argsort(stable=True)
    first = order[distinct(owner[order, None])]
    row, found = torch.zeros(len(truths), dtype=torch.long), torch.zeros(len(truths))
    row[owner[first]], found[owner[first]] = first, 1.0
    answers = truths.of_examples(proposed.batch.to("cpu")[row])
    right = truths.best(space.exact_match.values(answers, truths.outputs).float(), "max")
    return float((right.cpu() * found).mean())


def rows_of(constraints: Sequence[Any | None] | None, count: int) -> Sequence[Any | None] | None:
    """The first `count` constraints, if there are any."""
    return None if constraints is None else constraints[:count]


def decoder_of(config: RunConfig, name: str) -> Choice:
    """Return the configured decoder if it has this name, else the decoder of this name with its default options."""
    if config.decoder.name == name:
        return config.decoder
    from ele_core.config import resolve

    options = resolve("decoder", name, "selection.decoders", config.registry)[1]
    return Choice.model_validate({"name": name, **options.model_dump(mode="json")})
