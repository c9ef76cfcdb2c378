"""Choose what predicts best on validation pairs: the mode of the regressor, and the decoder."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ele_core.config import RunConfig
from ele_core.data.truths import Truths
from ele_core.interfaces import Regressor
from ele_core.model.metrics import deciding, measure, only_answers
from ele_core.model.model import Model
from ele_core.numerics.tensors import Tensors
from ele_core.runtime.context import Context
from ele_core.runtime.work import Work
from ele_core.types import Choice, Problem

WEIGHED = 400
"""Maximum number of validation pairs by which a regressor refines its modes."""


@dataclasses.dataclass(frozen=True)
class Tried:
    """One way to predict, and the mean of the deciding metric on validation pairs."""

    mode: str
    decoder: Choice
    value: float

    def __str__(self) -> str:
        with_mode = f"{self.mode}, " if self.mode else ""
        return f"{with_mode}{self.decoder.name} {self.value:.3g}"


def select(
    model: Model,
    inputs: Tensors,
    truths: Truths,
    context: Context,
    constraints: Sequence[Any | None] | None = None,
) -> Model:
    """Return the model with the decoder and the mode of its regressor that predict best; report what was tried.

    All modes are tried with the first decoder, then those into which the regressor can refine the best one, then the
    other decoders with the best mode. Of equal ones the later decoder is kept: recipes list the fastest last.
    `constraints` are those that follow from the inputs, None: there are none.
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
        return Tried(mode, decoder, values[metric.name].float().mean().item())

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
    further = model.regressor.refine(whole, judged, problem)
    tried += [attempt(mode, decoders[0]) for mode in further]
    best = best_of(tried)
    for decoder in decoders[1:]:
        tried.append(attempt(best.mode, decoder))
        best = best_of([tried[-1], best])
    if best.mode:
        model.regressor.use_mode(best.mode)
    listed = "; ".join(map(str, tried))
    context.monitor.message(f"{metric.name} on {len(truths)} validation pairs: {listed}. Chosen: {best}")
    return dataclasses.replace(model, config=config.model_copy(update={"decoder": best.decoder}))


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
