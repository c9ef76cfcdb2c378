"""Choose what predicts best on validation pairs: the way of the regressor, and the decoder."""

from __future__ import annotations

import dataclasses

from ele_core.config import RunConfig
from ele_core.data.truths import Truths
from ele_core.model.metrics import deciding, measure
from ele_core.model.model import Model
from ele_core.numerics.tensors import Tensors
from ele_core.runtime.context import Context
from ele_core.runtime.work import Work
from ele_core.types import Choice


@dataclasses.dataclass(frozen=True)
class Tried:
    """One way to predict, and the mean of the deciding metric on validation pairs."""

    way: str
    decoder: Choice
    value: float

    def __str__(self) -> str:
        with_way = f"{self.way}, " if self.way else ""
        return f"{with_way}{self.decoder.name} {self.value:.3g}"


def select(model: Model, inputs: Tensors, truths: Truths, context: Context) -> Model:
    """Return the model with the decoder and the way of its regressor that predict best; report what was tried.

    If no decoders are to be tried, the regressor keeps its usual way.
    """
    config = model.config
    decoders = [decoder_of(config, name) for name in config.selection.decoders] or [config.decoder]
    ways = list(model.regressor.ways) or [""]
    if len(decoders) * len(ways) == 1 or not config.selection.decoders:
        if ways[0]:
            model.regressor.choose(ways[0])
        return model
    metric = deciding(model.space)
    inputs = inputs[: config.selection.pairs]
    truths = truths.part(0, len(inputs))
    quiet = dataclasses.replace(context, work=Work())
    tried = []
    for way in ways:
        if way:
            model.regressor.choose(way)
        queries = model.regressor.predict(inputs)
        for decoder in decoders:
            predicted = model.decode(queries, decoder, context=quiet).best
            value = measure(model.space, predicted, truths, quiet)[metric.name].float().mean().item()
            tried.append(Tried(way, decoder, value))
    best = min(tried, key=lambda each: each.value if metric.direction == "min" else -each.value)
    if best.way:
        model.regressor.choose(best.way)
    listed = "; ".join(map(str, tried))
    context.monitor.message(f"{metric.name} on {len(truths)} validation pairs: {listed}. Chosen: {best}")
    return dataclasses.replace(model, config=config.model_copy(update={"decoder": best.decoder}))


def decoder_of(config: RunConfig, name: str) -> Choice:
    """Return the configured decoder if it has this name, else the decoder of this name with its default options."""
    if config.decoder.name == name:
        return config.decoder
    from ele_core.config import resolve

    options = resolve("decoder", name, "selection.decoders", config.registry)[1]
    return Choice.model_validate({"name": name, **options.model_dump(mode="json")})
