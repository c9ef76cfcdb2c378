"""The decoder and the mode of the regressor are chosen by their predictions on validation pairs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from recording import Recorder

from ele_core import StructuredPredictor
from ele_core.config import SelectionConfig
from ele_core.data.truths import Truths
from ele_core.errors import ConfigError, UnknownComponent
from ele_core.interfaces import Energy, Regressor, Surrogate
from ele_core.model.model import Model
from ele_core.model.select import Tried, account, select
from ele_core.runtime.context import Context
from ele_core.types import Member, Proposals

INPUTS = ["one", "two", "three", "four", "five", "six"]
OUTPUTS = ["a", "bb", "ccc", "abc", "cab", "bca"]


class TwoModes:
    """A regressor that is right in one of its modes."""

    def __init__(self, right: str, modes: Sequence[str], queries: torch.Tensor, surrogate: Surrogate) -> None:
        self.right, self.queries, self.mode = right, queries, ""
        self.energy = surrogate.energy
        self.modes, self.errors = modes, None

    def use_mode(self, mode: str) -> None:
        self.mode = mode

    refine, weighed = Regressor.refine, Regressor.weighed

    def predict(self, _: Any) -> torch.Tensor:
        return self.queries if self.mode == self.right else self.queries.flip(0)


@pytest.fixture(scope="module")
def fitted() -> Model:
    predictor = StructuredPredictor("sequence", surrogate="parts", regressor="nearest-input", decoder="candidates")
    return predictor.fit(INPUTS * 2, OUTPUTS * 2, validation=1).model_


def selected(
    fitted: Model, right: str, decoders: tuple[str, ...], modes: Sequence[str] = ("stacked", "copied")
) -> tuple[Model, TwoModes, Recorder]:
    outputs, recorder = fitted.space.pack(OUTPUTS), Recorder()
    regressor = TwoModes(right, modes, fitted.surrogate.embed(outputs), fitted.surrogate)
    config = fitted.config.model_copy(update={"selection": SelectionConfig(decoders=decoders)})
    model = dataclasses.replace(fitted, config=config, regressor=regressor)
    packed = fitted.inputs.pack(INPUTS)
    return select(model, packed, Truths.single(outputs), Context(monitor=recorder)), regressor, recorder


@pytest.mark.parametrize("right", ["stacked", "copied"])
def test_the_better_mode_is_chosen_and_told(fitted, right):
    _, regressor, recorder = selected(fitted, right, ("search", "candidates"))
    assert regressor.mode == right
    (told,) = recorder.messages
    assert told.startswith("edit_distance on 6 validation pairs: stacked, search ")
    assert f"Chosen: {right}, candidates 0" in told, "of equals the last, which recipes list as the fastest"


def test_the_better_decoder_becomes_that_of_the_model(fitted):
    known = dataclasses.replace(fitted, candidates=fitted.embed_candidates(fitted.space.pack(["c"])))
    model, *_ = selected(known, "stacked", ("candidates", "search"))
    assert model.config.decoder.name == "search", "it finds what is not among the candidates"
    assert fitted.config.decoder.name == "candidates"


@pytest.mark.parametrize("right", ["stacked", "copied"])
def test_modes_are_tried_with_the_decoder_of_the_model_if_no_others_are_to_be_tried(fitted, right):
    model, regressor, recorder = selected(fitted, right, ())
    assert model.config.decoder == fitted.config.decoder
    assert regressor.mode == right
    (told,) = recorder.messages
    assert told.startswith("edit_distance on 6 validation pairs: stacked, candidates ")
    assert f"Chosen: {right}, candidates 0" in told


def test_other_decoders_than_the_first_are_tried_with_the_best_mode_alone(fitted):
    *_, recorder = selected(fitted, "copied", ("search", "candidates"))
    (told,) = recorder.messages
    tried = told.partition(": ")[2].partition(". Chosen")[0].split("; ")
    names = [each.rpartition(" ")[0] for each in tried]
    assert names == ["stacked, search", "copied, search", "copied, candidates"]


@pytest.mark.parametrize(("modes", "used"), [([], ""), (["stacked"], "stacked")])
def test_nothing_is_tried_with_one_decoder_and_one_mode(fitted, modes, used):
    model, regressor, recorder = selected(fitted, "copied", (), modes)
    assert model.config.decoder == fitted.config.decoder
    assert regressor.mode == used
    assert recorder.messages == []


class Telling(Energy):
    """An energy of three queries that proposes a wrong and a right answer, the wrong one, and nothing."""

    def __init__(self, space: Any) -> None:
        self.space = space

    def __len__(self) -> int:
        return 3

    def __getitem__(self, rows: Any) -> Any:
        raise NotImplementedError

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def identities(self) -> torch.Tensor:
        raise NotImplementedError

    def of(self, batch: Any, owner: Any = None) -> torch.Tensor:
        return torch.tensor([2.0, 1.0, 0.0])

    def proposals(self, count: int) -> Proposals:
        return Proposals(self.space.pack(["ccc", "a", "a"]), torch.tensor([0, 0, 1]))


def test_the_likeliest_proposal_of_each_member_is_compared_with_the_truth(fitted):
    space, choice = fitted.space, fitted.config.decoder
    members = [
        Member("learned loss", None, 1.0, 100.0),
        Member("counts", Telling(space), 0.25, 2.0),
        Member("unused", Telling(space), 0.0, None),
        Member("network", None, 0.0, 3.0, "time for only 1 of 5 steps in 1 s"),
    ]
    alone, joint = Tried("plain", choice, 0.5, 0.625), Tried("joint", choice, 0.25, 0.75)
    truths = Truths.single(space.pack(["a", "bb", "abc"]))
    told = account(members, truths, space, alone, [joint], kept=joint)
    assert told == (
        "exact on 3 validation pairs: learned loss 62.5 % (plain, 2 min, weight 1), counts 33.3 % (2 s, weight 0.25), "
        "unused 33.3 % (no weight: not used), network left out: time for only 1 of 5 steps in 1 s, "
        "all together 75.0 %. Kept: all together"
    )
    assert account(members, truths, space, alone, [joint], kept=alone).endswith("Kept: learned loss, plain")


@pytest.mark.parametrize(
    ("decoders", "error", "message"),
    [(["pgd"], ConfigError, "needs the gradient"), (["serach"], UnknownComponent, "did you mean 'search'")],
)
def test_a_decoder_that_cannot_be_tried_is_refused_before_the_training(decoders, error, message, tmp_path):
    from ele_core import config as configuration
    from ele_core.runs.run import Run

    file = tmp_path / "pairs.csv"
    file.write_text("x,y\n" + "".join(f"{x} {n},{y}\n" for n in range(5) for x, y in zip(INPUTS, OUTPUTS, strict=True)))
    config = configuration.load(
        {
            "output": "sequence",
            "data": {"file": str(file)},
            "surrogate": "parts",
            "selection": {"decoders": decoders},
        }
    )
    recorder = Recorder()
    with pytest.raises(error, match=message):
        Run.start(config, tmp_path / "run", recorder)
    assert recorder.rows == []
    assert not (tmp_path / "run").exists()


def test_a_predictor_learns_that_copying_is_best_and_keeps_it(tmp_path):
    """Each word has a code of its own: nothing can be learned but by heart."""
    generator = torch.Generator().manual_seed(0)
    words = ["".join(chr(97 + int(c)) for c in torch.randint(0, 26, (9,), generator=generator)) for _ in range(60)]
    codes = ["".join("xyz"[int(c)] for c in torch.randint(0, 3, (8,), generator=generator)) for _ in range(60)]
    regressor = {
        "name": "stacked",
        "network": "none",
        "kernel": {"name": "sketched-ridge", "penalties": [1e6]},
    }
    predictor = StructuredPredictor("sequence", regressor=regressor)
    predictor.fit(words, codes, validation=([f"{word}q" for word in words], codes))
    assert predictor.model_.regressor.mode == "copied"
    predictor.save(tmp_path / "model")
    again = StructuredPredictor.load(tmp_path / "model")
    assert again.predict([f"{word}q" for word in words[:9]]) == codes[:9]
