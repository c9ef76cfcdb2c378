"""Signals: series of numbers over time, their network, and when inputs are read as signals."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from ele_core import ConfigError, StructuredPredictor
from ele_core.components.backbones.convolution_1d import Convolution1dBackbone
from ele_core.components.backbones.pooling import spans
from ele_core.components.inputs.signal import SignalInput
from ele_core.components.inputs.vector import VectorInput
from ele_core.components.proposers.blocks import BlockNetwork, Blocks
from ele_core.config import load
from ele_core.data.pairs import looks_like_signals
from ele_core.data.prepare import input_for
from ele_core.errors import InvalidInput, ModelError
from ele_core.numerics.sets import Simplex
from ele_core.testing import check_backbone

GENERATOR = np.random.default_rng(0)
STEREO = [GENERATOR.normal(size=(length, 2)) for length in (9, 5, 12)]
SMALL = {"width": 8, "halvings": 1, "blocks": 2, "spans": 2, "hidden": 8}


def fitted(values=STEREO, **options) -> SignalInput:
    inputs = SignalInput(SignalInput.Config(**options))
    inputs.fit(values)
    return inputs


def made(inputs: SignalInput, dim: int = 3, **options) -> Convolution1dBackbone:
    torch.manual_seed(0)
    backbone = Convolution1dBackbone(Convolution1dBackbone.Config(**{**SMALL, **options}), inputs, dim).eval()
    for block in backbone.blocks:  # which begin as the identity
        torch.nn.init.normal_(block.after.layer.weight)
    return backbone


def waves(count: int, length: int = 40) -> np.ndarray:
    """Waves of random phases, with noise."""
    phases = GENERATOR.uniform(0, 6.28, (count, 1))
    return np.sin(np.arange(length) / 2 + phases) + 0.1 * GENERATOR.normal(size=(count, length))


def test_a_network_that_has_learned_keeps_every_law():
    inputs = SignalInput()
    inputs.fit(inputs.examples())
    assert [each for each in check_backbone(made(inputs), inputs) if each.status == "failed"] == []


def test_signals_are_scaled_by_channel_and_padded():
    batch = fitted().pack(STEREO)
    assert batch.values.shape == (3, 24, 2)
    assert batch.lengths.tolist() == [9, 5, 12]
    assert not batch.values[1, 5:].any()
    present = torch.cat([row[:length] for row, length in zip(batch.values, batch.lengths.tolist(), strict=True)])
    assert torch.allclose(present.mean(dim=0), torch.zeros(2), atol=1e-6)
    assert torch.allclose(present.square().mean(dim=0), torch.ones(2), atol=1e-5)


def test_signals_of_one_length_are_not_padded():
    assert fitted(waves(3)).max_length == 40
    assert fitted(waves(3), max_length=50).max_length == 50


@pytest.mark.parametrize("value", [[0.1, -2.0, 3.5], [[0.1, 2.0], [3.0, 4.0]]])
def test_text_is_read_back(value):
    space = SignalInput()
    assert np.array_equal(space.parse(space.format(value)), value)
    assert np.array_equal(space.parse(json.dumps(value)), value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros((30, 2)), "input 1: the signal has 30 times, and the limit is 24. Train with a larger `max_length`"),
        (np.zeros((3, 1)), "input 1: the signal has 1 channel instead of 2"),
        ([[1.0, np.nan]], "input 1: the signal holds NaN"),
        ([], "input 1: an array of shape .0,. is not a signal"),
        ("abc", "input 1: not a signal"),
    ],
)
def test_what_is_no_signal_is_refused(value, message):
    with pytest.raises(InvalidInput, match=message):
        fitted().pack([STEREO[0], value])


def test_a_damaged_file_is_refused(tmp_path):
    fitted().save(tmp_path)
    stored = json.loads((tmp_path / "signal.json").read_text())
    (tmp_path / "signal.json").write_text(json.dumps({**stored, "deviation": [0.0, 1.0]}))
    with pytest.raises(ModelError, match=r"signal\.json: the scaling is damaged"):
        SignalInput().load(tmp_path)


def test_an_unusual_number_is_told_with_its_place():
    odd = STEREO[0].copy()
    odd[3, 1] = 100
    usual, told = fitted().unlike_training([STEREO[0], odd])
    assert usual == ""
    assert told.startswith("number 4 of channel 2 is 100, in training ")


def test_states_do_not_depend_on_padding():
    inputs = fitted()
    backbone, batch = made(inputs), inputs.pack(STEREO)
    output, states, mask = backbone.attended(batch)
    assert mask.sum(dim=1).tolist() == [5, 3, 6]
    for row, length in enumerate((5, 3, 6)):
        alone = backbone.attended(batch[row : row + 1])
        assert torch.allclose(alone[0], output[row : row + 1], atol=1e-5)
        assert torch.allclose(alone[1], states[row : row + 1, :length], atol=1e-5)


def test_the_network_knows_the_order_of_time():
    inputs = fitted(waves(4))
    backbone, batch = made(inputs), inputs.pack(waves(4))
    backwards = batch.replace(values=batch.values.flip(1))
    assert (backbone(batch) - backbone(backwards)).abs().max() > 1e-3


def test_the_network_refuses_other_inputs():
    vectors = VectorInput()
    vectors.fit([[1.0, 2.0]])
    with pytest.raises(ConfigError, match=r"reads signals \(input 'signal'\), not VectorInput"):
        Convolution1dBackbone(None, vectors, 3)


def test_spans_are_means_of_equal_parts():
    vectors, mask = torch.arange(6.0).view(1, 6, 1), torch.tensor([[True] * 4 + [False] * 2])
    assert spans(vectors, mask, 2).flatten().tolist() == [0.5, 2.5]
    assert spans(vectors, mask, 4).flatten().tolist() == [0, 1, 2, 3]
    assert spans(vectors, mask, 8).flatten().tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_blocks_of_an_output_stand_beside_their_span_of_the_signal():
    inputs = fitted(waves(4))
    torch.manual_seed(0)
    network = BlockNetwork(
        made(inputs, dim=15, halvings=0, blocks=0), [Blocks.of(Simplex(3, rows=(5,)))], 8, 0.0
    ).eval()
    batch = inputs.pack(waves(4)[:1])
    changed = batch.replace(values=batch.values.clone())
    changed.values[0, 36:] += 3.0  # in the last of five spans
    torch.nn.init.zeros_(network.backbone.head[2].weight)  # leaves only what states add
    before, after = network(batch)[0], network(changed)[0]
    differs = (before - after).abs().amax(dim=2)[0] > 1e-4
    assert differs.tolist() == [False, False, False, False, True]


# -- when inputs are signals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (list(waves(30)), "signal"),
        ([" ".join(map(str, row)) for row in waves(30)], "signal"),
        (list(GENERATOR.normal(size=(30, 40))), "vector"),
        (list(GENERATOR.normal(size=(30, 1)) + 0.1 * GENERATOR.normal(size=(30, 40))), "vector"),  # all alike
        (list(waves(30, 20)), "vector"),  # too short to tell
        (["0.5 1.5 2", "1 2"], "signal"),
        ([[0.5, 1.5, 2.0], [1.0, 2.0]], "signal"),
        (["12 4 5", "1 2"], "text"),
        (["[[0.5, 1], [2, 3]]", "[[1, 2]  , [3, 4]]"], "signal"),
        (STEREO, "signal"),
        (list(GENERATOR.uniform(size=(3, 8, 8))), "image"),
        (list(GENERATOR.integers(0, 255, (3, 8, 8), dtype=np.uint8)), "image"),
        (["forty", "two"], "text"),
    ],
)
def test_inputs_are_read_as_their_numbers_suggest(cells, expected):
    assert input_for(load({"output": "sequence"}), cells).name == expected


def test_the_reason_says_how_alike_neighbours_are():
    assert looks_like_signals(list(waves(200))).startswith("neighbours are alike (correlation 0.8")


def test_a_predictor_learns_the_order_of_time_from_signals_of_any_length():
    speeds = {"slow": 0.5, "fast": 1.5}
    lengths = GENERATOR.integers(20, 30, 80)
    notes = [[("slow", "fast"), ("fast", "slow")][row % 2] for row in range(80)]
    signals = [
        np.concatenate([np.sin(speeds[note] * np.arange(length)) for note in pair])
        for pair, length in zip(notes, lengths, strict=True)
    ]
    network = {"name": "convolution-1d", "width": 16, "blocks": 1, "hidden": 16}
    regressor = {"name": "neural", "backbone": network, "training": {"epochs": 20, "learning_rate": 0.01}}
    parts = {"surrogate": {"name": "parts", "dim": 32}, "regressor": regressor, "decoder": "candidates"}
    outputs = ["-".join(pair) for pair in notes]
    predictor = StructuredPredictor("sequence", **parts).fit(signals[:60], outputs[:60])
    assert predictor.model_.config.input.name == "signal"
    assert predictor.score(signals[60:], outputs[60:]) == 1.0
