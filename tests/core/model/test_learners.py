"""Learners anywhere: a decoder that learns, a surrogate that sees pairs, and data that are not in memory."""

from __future__ import annotations

import dataclasses
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
import torch
from linear import outputs_only, random_sequences, sequence_space
from recording import Memory, Stopped
from torch import Tensor

from ele_core import (
    CandidatesDecoder,
    ConfigError,
    Decoder,
    Learner,
    Record,
    StructuredPredictor,
    TrainingData,
    hookimpl,
    register,
)
from ele_core.components.regressors.neural import NeuralRegressor
from ele_core.components.surrogates.contrastive import ContrastiveSurrogate
from ele_core.data.batches import ShuffledBatches
from ele_core.plugins import PluginInfo, registry
from ele_core.runtime.context import Context
from ele_core.runtime.work import Snapshot
from ele_core.testing import LinearSurrogate
from ele_core.types import Pairs

# -- a decoder that learns -----------------------------------------------------------------------------------------


class Shortlist(Learner, Decoder):
    """Decodes from the candidates that were chosen most often for training inputs, and a few random ones."""

    kept = 40

    def __init__(self, config=None):
        super().__init__(config)
        self.rows = torch.zeros(0, dtype=torch.int64)

    def fit(self, data: TrainingData, context: Context) -> None:
        assert data.energy is not None
        assert data.problem is not None
        candidates = data.problem.candidates
        saved = context.work.saved("shortlist")
        chosen = Counter() if saved is None else Counter({int(k): v for k, v in saved.values["chosen"].items()})
        done = 0 if saved is None else saved.values["done"]
        for first in range(done, len(data.train), 16):
            best = data.energy(data.train.inputs[first : first + 16]).among(candidates).argmin(dim=1)
            chosen.update(best.tolist())
            counts = {str(row): count for row, count in chosen.items()}
            context.work.step("shortlist", lambda c=counts, d=first + 16: Snapshot({}, {"chosen": c, "done": d}))
        often = [row for row, _ in chosen.most_common(self.kept // 2)]
        order = torch.randperm(len(candidates), generator=context.generator("shortlist")).tolist()
        self.rows = torch.tensor([*often, *(row for row in order if row not in often)][: self.kept])

    def state(self) -> dict[str, Tensor]:
        return {"rows": self.rows}

    def restore(self, state) -> None:
        self.rows = state["rows"]

    def decode(self, energy, problem, *, top_k=1, trace=False, context):
        own = dataclasses.replace(problem, candidates=problem.candidates[self.rows])
        return CandidatesDecoder().decode(energy, own, top_k=top_k, context=context)


@pytest.fixture
def shortlist():
    class Plugin:
        @hookimpl
        def ele_decoders(self):
            yield Record("shortlist", Shortlist, "The candidates that were chosen most often.")

    known = registry()
    before = list(known._plugins)
    register(Plugin())
    yield
    known._plugins = before


def made(tiny: dict[str, Any], **options: Any) -> StructuredPredictor:
    return StructuredPredictor("sequence", **tiny, decoder="shortlist", **options)


@pytest.mark.usefixtures("shortlist")
def test_a_decoder_that_learns_is_fitted_saved_and_loaded(pairs, tiny, tmp_path, monkeypatch):
    predictor = made(tiny).fit(*pairs, validation=20)
    engine = predictor.model_.decoder(predictor.model_.config.decoder)
    assert len(engine.rows) == Shortlist.kept
    assert engine is predictor.model_.decoder(predictor.model_.config.decoder), "it is created once"
    found = predictor.decode(pairs[0][:20])
    monkeypatch.setattr(PluginInfo, "installed", True)  # else a model is not saved
    predictor.save(tmp_path / "model")
    loaded = StructuredPredictor.load(tmp_path / "model")
    again = loaded.decode(pairs[0][:20])
    assert torch.equal(again.decoding.energies, found.decoding.energies)
    assert loaded.predict(pairs[0][:20]) == predictor.predict(pairs[0][:20])
    shown = {loaded.model_.space.format(obj) for obj in loaded.predict(pairs[0])}
    assert len(shown) <= Shortlist.kept


@pytest.mark.usefixtures("shortlist")
def test_a_decoder_that_learns_is_refused_where_it_was_not_trained(predictor, pairs):
    with pytest.raises(ConfigError, match=r"'shortlist' learns, and this model was trained without it"):
        predictor.predict(pairs[0][:1], decoder="shortlist")


@pytest.mark.usefixtures("shortlist")
def test_a_training_stopped_anywhere_ends_with_the_same_decoder(pairs, tiny, monkeypatch):
    from ele_core.model import train

    works: list[Memory] = []
    fit = train.fit

    def with_work(model, prepared, context):
        return fit(model, prepared, dataclasses.replace(context, work=works[-1]))

    monkeypatch.setattr(train, "fit", with_work)
    works.append(Memory())
    whole = made(tiny).fit(*pairs, validation=20)
    steps = works[-1].steps
    expected = whole.model_.decoder(whole.model_.config.decoder).rows
    for stop in (2, steps - 1, steps):
        works.append(Memory(stop_after=stop))
        with pytest.raises(Stopped):
            made(tiny).fit(*pairs, validation=20)
        works.append(Memory(works[-1].kept))
        resumed = made(tiny).fit(*pairs, validation=20)
        assert torch.equal(resumed.model_.decoder(resumed.model_.config.decoder).rows, expected)
        assert resumed.predict(pairs[0][:9]) == whole.predict(pairs[0][:9])


# -- a surrogate that sees pairs -----------------------------------------------------------------------------------


class SeesInputs(LinearSurrogate):
    """Remembers how long the training inputs are."""

    lengths = None

    def fit(self, data, context):
        self.lengths = data.inputs.sizes(data.train.inputs[:])
        assert len(self.lengths) == len(data.train.outputs)


def test_a_surrogate_that_asks_for_the_pairs_sees_them(pairs):
    class Plugin:
        @hookimpl
        def ele_surrogates(self):
            yield Record("sees-inputs", SeesInputs, "Sees the inputs.")

    known = registry()
    before = list(known._plugins)
    register(Plugin())
    try:
        made = StructuredPredictor("sequence", surrogate="sees-inputs", regressor="nearest-input", decoder="candidates")
        assert made.fit(*pairs, validation=20).model_.surrogate.lengths.max() > 1
    finally:
        known._plugins = before


# -- data that are not in memory -----------------------------------------------------------------------------------


class Elsewhere:
    """A source of packed rows that notes what is asked for."""

    def __init__(self, batch: Any, blocks: tuple[int, ...]) -> None:
        self.batch, self.blocks = batch, blocks
        self.asked: list[Tensor] = []

    def __len__(self) -> int:
        return len(self.batch)

    def __getitem__(self, rows: slice | Tensor) -> Any:
        self.asked.append(torch.arange(len(self))[rows])
        return self.batch[rows]

    def chunks(self, size: int) -> Any:
        return (self[start : start + size] for start in range(0, len(self), size))


class NotOnTheSphere(LinearSurrogate):
    spherical = False


BLOCKS = (0, 40, 90, 120, 200)
SPACE = sequence_space(length=4)


@pytest.mark.parametrize("spherical", [True, False])
def test_the_papers_two_stages_fit_from_sources_that_are_not_in_memory(spherical, monkeypatch):
    for module in ("neural", "measured"):
        monkeypatch.setattr(f"ele_core.components.regressors.{module}.CHUNK", 32)
    batch = random_sequences(SPACE, 200)
    batch = batch[torch.arange(200) % len(batch)]
    create = registry().create
    inputs = create("input", "text")
    texts = [f"x{text}" for text in SPACE.unpack(batch)]
    inputs.fit(texts)
    outputs, packed = Elsewhere(batch, BLOCKS), Elsewhere(inputs.pack(texts), BLOCKS)
    held_out = Pairs(packed.batch[:20], batch[:20])
    options = {"name": "contrastive", "dim": 8, "training": {"epochs": 2, "batch_size": 16}}
    surrogate = create("surrogate", options, SPACE) if spherical else NotOnTheSphere(None, SPACE)
    data = TrainingData(inputs, Pairs(packed, outputs), held_out)
    surrogate.fit(data, Context())
    network = {"name": "neural", "backbone": {"name": "gru", "layers": 1, "width": 8}}
    regressor = create("regressor", {**network, "training": {"epochs": 2, "batch_size": 16}}, inputs, surrogate)
    assert isinstance(regressor, NeuralRegressor)
    assert isinstance(surrogate, ContrastiveSurrogate) == spherical
    regressor.fit(data, Context())
    assert regressor.predict(packed.batch).isfinite().all()
    for source in (outputs, packed):
        assert source.asked
        assert max(map(len, source.asked)) <= 32, "never more than a batch or a chunk"
    batches = [rows for rows in packed.asked if len(rows) <= 16]
    ends = torch.tensor(BLOCKS[1:])
    assert all(len(torch.bucketize(rows, ends, right=True).unique()) == 1 for rows in batches), (
        "a batch is of one block"
    )


def epoch(number: int, count: int, blocks: tuple[int, ...], sizes: Tensor | None = None) -> list[Tensor]:
    """The batches of one of the first epochs, of `count` each."""
    batches = ShuffledBatches(blocks[-1], 16, Context(3), "stage", sizes, blocks)
    return [batches.draw() for _ in range((number + 1) * count)][number * count :]


def test_the_order_of_one_block_is_a_permutation_by_seed_stage_and_epoch():
    expected = torch.randperm(50, generator=Context(3).generator("stage", "epoch", 1))
    assert torch.equal(torch.cat(epoch(1, 4, (0, 50))), expected)


@pytest.mark.parametrize("sizes", [None, torch.arange(200) % 7])
def test_an_epoch_gives_each_row_once_and_blocks_stay_together(sizes):
    count = sum(-(-(b - a) // 16) for a, b in pairwise(BLOCKS))
    batches = epoch(1, count, BLOCKS, sizes)
    order = torch.cat(batches)
    assert torch.equal(order.sort().values, torch.arange(200))
    block = torch.bucketize(order, torch.tensor(BLOCKS[1:]), right=True)
    assert (block.diff() != 0).sum() == len(BLOCKS) - 2
    assert all(map(torch.equal, batches, epoch(1, count, BLOCKS, sizes)))
    assert not torch.equal(order, torch.cat(epoch(0, count, BLOCKS, sizes)))


def test_a_position_among_blocks_can_be_saved():
    def drawn(count: int, batches: ShuffledBatches) -> list[Tensor]:
        return [batches.draw() for _ in range(count)]

    whole = ShuffledBatches(200, 16, Context(), "stage", blocks=BLOCKS)
    drawn(20, whole)
    resumed = ShuffledBatches(200, 16, Context(), "stage", blocks=BLOCKS)
    resumed.restore(whole.state())
    assert all(map(torch.equal, drawn(20, whole), drawn(20, resumed)))


def test_a_batch_in_memory_is_a_source_of_one_block():
    batch = random_sequences(SPACE, 7)
    assert batch.blocks == (0, 7)
    data = outputs_only(batch, batch[:2])
    assert len(data.train[:3]) == 3
