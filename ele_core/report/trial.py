"""One model behind a page: what it answers to an input that a person types, with drawings and the decoder's path."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ele_core.errors import ConfigError, DataError
from ele_core.model.model import Model
from ele_core.model.predict import Request, predict_texts
from ele_core.model.pretrained import shown_name
from ele_core.model.results import Predictions
from ele_core.plugins import Registry
from ele_core.report.decoding import usable, without_rest
from ele_core.report.drawings import Drawings
from ele_core.report.page import render
from ele_core.runs.measurements import load_all
from ele_core.runs.run import Run, open_model
from ele_core.runtime.context import Context

EXAMPLES = 6
"""How many held-out inputs the page offers."""
LONGEST_EXAMPLE = 80
"""Characters of the longest input that is offered as an example."""
MOST_ANSWERS = 20
"""Maximum number of answers for one input."""


@dataclasses.dataclass(frozen=True)
class Example:
    """A held-out input and its truth, as texts."""

    input: str
    truth: str


class Trial:
    """A model that answers one input at a time; several threads may ask."""

    def __init__(self, model: Model, name: str, examples: Sequence[Example] = ()) -> None:
        self.model = model
        self.name = name
        self.examples = list(examples)
        self.decoders = {choice.name: choice for choice in usable(model)}
        self.busy = threading.Lock()

    @classmethod
    def open(
        cls, folder: Path, decoder: str | Mapping[str, Any] | None = None, registry: Registry | None = None
    ) -> Trial:
        """Load a run folder, or a folder that `StructuredPredictor.save` wrote; begin with `decoder`."""
        opened = open_model(folder, registry)
        model = opened.model({"decoder": decoder} if decoder else {})
        examples = held_out(opened) if isinstance(opened, Run) else []
        return cls(model, shown_name(opened.folder), examples)

    def page(self, top_k: int) -> str:
        """The page, which asks for answers at the address `answer` beside its own."""
        config = self.model.config
        shown = {"name": self.name, "output": config.output.name, "input": config.input.name, "most": MOST_ANSWERS}
        data = {
            "decoders": list(self.decoders),
            "decoder": config.decoder.name,
            "examples": [dataclasses.asdict(example) for example in self.examples],
        }
        return render("try.html", {**shown, "top_k": top_k}, data)

    def respond(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a request of the page: `input`, `decoder` and `top_k`, each checked."""
        text, decoder, top_k = (asked.get(name) for name in ("input", "decoder", "top_k"))
        if not isinstance(text, str) or not text.strip():
            raise DataError("Type an input first.")
        if not isinstance(decoder, str) or decoder not in self.decoders:
            raise ConfigError(f"This model does not work with that decoder. Choose one of {', '.join(self.decoders)}.")
        if type(top_k) is not int or not 1 <= top_k <= MOST_ANSWERS:
            raise ConfigError(f"The number of answers should be a whole number from 1 to {MOST_ANSWERS}.")
        return self.answer(text, decoder, top_k)

    def answer(self, text: str, decoder: str, top_k: int) -> dict[str, Any]:
        """The best `top_k` structures for an input, drawn, and the path to the first; `EleError` for a bad input."""
        with self.busy:
            started = time.monotonic()
            choice = self.decoders[decoder]
            request, context = Request(top_k, choice, trace=True), Context(self.model.config.seed, self.model.device)
            found = predict_texts(self.model, [text], request, context=context)
            if not found[0].objects:
                raise DataError(found[0].status)
            seconds = time.monotonic() - started
            return {
                **self._drawn(found, next((each.truth for each in self.examples if each.input == text), None)),
                "note": self.model.decoder(choice).trace_note,
                "seconds": round(seconds, 3),
            }

    def _drawn(self, found: Predictions, truth: str | None) -> dict[str, Any]:
        """Answers and steps; what differs from the truth is marked, or from the best answer if no truth is known."""
        space, drawings = self.model.space, Drawings(self.model.space)
        (prediction,) = found
        texts = [space.texts.format(obj) for obj in prediction.objects]
        goal = texts[0] if truth is None else truth
        columns = [{"energy": energy} for energy in prediction.energies]
        if prediction.confidence is not None:
            columns[0]["confidence"] = prediction.confidence
        right = [None] * len(texts) if truth is None else self._right(prediction.objects, truth)
        path = found.trace() if found.decoding.trace is not None else ()
        energies = [step.energy for step in path]
        passed = [space.texts.format(step.object) for step in path]
        end = without_rest(passed, energies)
        return {
            "answers": [
                {
                    "drawing": drawings.number(text, None if text == goal else goal),
                    "values": columns[rank],
                    "right": right[rank],
                }
                for rank, text in enumerate(texts)
            ],
            "known": truth is not None,
            "goal": drawings.number(goal),
            "steps": [step.step for step in path][:end],
            "energies": energies[:end],
            "drawings": [drawings.number(text, None if text == goal else goal) for text in passed[:end]],
            "stored": drawings.stored,
        }

    def _right(self, objects: Sequence[Any], truth: str) -> list[bool]:
        """Whether each object is the truth."""
        space = self.model.space
        true = space.pack([space.texts.parse(truth)])
        return (space.keys(space.pack(objects)) == space.keys(true)).all(dim=1).tolist()


def held_out(run: Run) -> list[Example]:
    """A few short inputs with their truths, spread over the pairs that the run was evaluated on; maybe none."""
    rows = next((stored.rows for stored in load_all(run.folder)), [])
    short = {row["input"]: row["truth"] for row in rows if 0 < len(row["input"]) <= LONGEST_EXAMPLE}
    return [Example(*pair) for pair in list(short.items())[:: max(1, len(short) // EXAMPLES)][:EXAMPLES]]
