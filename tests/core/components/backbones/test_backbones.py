"""Backbones: what they read, and that a text's vector depends on that text alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from ele_core.components.backbones.gru import GRUBackbone, reversed_positions
from ele_core.components.backbones.mlp import MLPBackbone
from ele_core.components.backbones.pooling import Head, Pooling, pool, token_embedding
from ele_core.components.backbones.transformer import TransformerBackbone, sinusoids
from ele_core.components.inputs.text import UNKNOWN, TextInput, Texts
from ele_core.components.inputs.vector import VectorInput
from ele_core.errors import ConfigError
from ele_core.interfaces import InputSpace
from ele_core.networks import Backbone

DIM = 6
SHORT, MIDDLE, LONG = "CO", "CC(=O)N", "c1cc(C#N)c[nH]1"
GRU: dict[str, Any] = {"embedding": 8, "width": 8}
TRANSFORMER: dict[str, Any] = {"layers": 2, "width": 8, "heads": 2}

TEXT_BACKBONES: list[tuple[type[Backbone], dict[str, Any]]] = [
    (GRUBackbone, GRU),
    (GRUBackbone, {**GRU, "layers": 1, "pooling": "mean"}),
    (GRUBackbone, {**GRU, "layers": 3, "dropout": 0.5}),
    (GRUBackbone, {**GRU, "layers": 1, "pooling": "additive", "dropout": 0.5}),
    (TransformerBackbone, TRANSFORMER),
    (TransformerBackbone, {**TRANSFORMER, "positions": "sinusoidal", "pooling": "max"}),
    (TransformerBackbone, {**TRANSFORMER, "pooling": "cls", "dropout": 0.5}),
    (TransformerBackbone, {**TRANSFORMER, "pooling": "additive"}),
]


def texts() -> TextInput:
    """A text input that knows the three texts."""
    inputs = TextInput()
    inputs.fit([SHORT, MIDDLE, LONG])
    return inputs


def vectors() -> VectorInput:
    """A vector input of three features."""
    inputs = VectorInput()
    inputs.fit([[0.0, 1.0, 2.0], [1.0, 3.0, 0.0]])
    return inputs


@pytest.fixture(params=TEXT_BACKBONES, ids=lambda case: f"{case[0].__name__}-{len(case[1])}")
def backbone(request: pytest.FixtureRequest) -> Backbone:
    """Each text backbone in turn, with small sizes."""
    torch.manual_seed(0)
    cls, options = request.param
    return cls(cls.Config.model_validate(options), texts(), DIM)  # type: ignore[no-any-return]


def widened(batch: Texts, columns: int) -> Texts:
    """The same texts with more padding."""
    return batch.replace(tokens=nn.functional.pad(batch.tokens, (0, columns)))


def assert_near(left: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(left, right, atol=1e-5, rtol=1e-5)


def test_texts_become_vectors_that_differ(backbone: Backbone) -> None:
    outputs = backbone.eval()(texts().pack([SHORT, MIDDLE, LONG]))
    assert outputs.shape == (3, DIM)
    assert outputs.dtype == torch.float32
    assert (torch.pdist(nn.functional.normalize(outputs)) > 1e-3).all()
    assert (outputs.std(dim=0) > 1e-4).all()


@pytest.mark.parametrize("gradient", [True, False])
def test_a_text_does_not_see_its_companions(backbone: Backbone, gradient: bool) -> None:
    backbone.eval()
    with torch.set_grad_enabled(gradient):
        together = backbone(texts().pack([SHORT, MIDDLE, LONG]))
        alone = torch.cat([backbone(texts().pack([text])) for text in (SHORT, MIDDLE, LONG)])
    assert_near(together, alone)


@pytest.mark.parametrize("text", [SHORT, LONG])
def test_the_width_of_the_padding_does_not_matter(backbone: Backbone, text: str) -> None:
    backbone.eval()
    batch = texts().pack([text, MIDDLE])
    assert_near(backbone(widened(batch, 9)), backbone(batch))


def test_padding_is_never_read(backbone: Backbone) -> None:
    backbone.eval()
    batch = texts().pack([SHORT, LONG])
    rubbish = batch.replace(tokens=torch.where(batch.mask, batch.tokens, 3).to(torch.int16))
    assert_near(backbone(rubbish), backbone(batch))


def test_the_order_of_tokens_matters(backbone: Backbone) -> None:
    there, back = backbone.eval()(texts().pack([MIDDLE, MIDDLE[::-1]]))
    assert (there - back).abs().max() > 1e-4


def test_every_parameter_gets_a_gradient(backbone: Backbone) -> None:
    backbone(texts().pack([SHORT, MIDDLE, LONG])).square().sum().backward()
    for name, parameter in backbone.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


def test_an_empty_batch_gives_no_rows(backbone: Backbone) -> None:
    assert backbone(texts().pack([])).shape == (0, DIM)


def test_unknown_tokens_are_read(backbone: Backbone) -> None:
    assert backbone.eval()(texts().pack(["ZZ"])).isfinite().all()


def test_weights_come_back_from_their_state(backbone: Backbone) -> None:
    batch = texts().pack([SHORT, LONG])
    again = type(backbone)(backbone.config, texts(), DIM).eval()
    again.load_state_dict(backbone.state_dict())
    assert torch.equal(again(batch), backbone.eval()(batch))


@pytest.mark.parametrize(
    ("cls", "inputs", "sentence"),
    [
        (GRUBackbone, VectorInput(), r"backbone 'gru' reads texts \(input 'text'\), not VectorInput"),
        (TransformerBackbone, VectorInput(), "backbone 'transformer' reads texts"),
        (MLPBackbone, TextInput(), r"backbone 'mlp' reads vectors \(input 'vector'\), not TextInput"),
    ],
)
def test_a_backbone_refuses_what_it_cannot_read(
    cls: type[Backbone], inputs: TextInput | VectorInput, sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        cls.accepts(inputs)
    with pytest.raises(ConfigError, match=sentence):
        cls(None, inputs, DIM)


class Digits(InputSpace[str]):
    """A third party's input, no relative of `TextInput`, that packs `Texts`."""

    Batch = Texts
    vocabulary_size = 12
    max_length = 2

    def parse(self, text: str) -> str:
        return text

    def format(self, value: str) -> str:
        return value

    def fit(self, values: Sequence[str]) -> None: ...

    def pack(self, values: Sequence[str]) -> Texts:
        return Texts(torch.tensor([[2 + int(digit) for digit in value] for value in values]), torch.tensor([2, 2]))

    def save(self, folder: Path) -> None: ...

    def load(self, folder: Path) -> None: ...


@pytest.mark.parametrize(("cls", "options"), [(GRUBackbone, GRU), (TransformerBackbone, TRANSFORMER)])
def test_an_input_of_another_plugin_that_packs_texts_is_read(cls: type[Backbone], options: dict[str, Any]) -> None:
    inputs = Digits()
    outputs = cls(cls.Config.model_validate(options), inputs, DIM)(inputs.pack(["01", "23"]))
    assert outputs.shape == (2, DIM)


def test_reversal_keeps_padding_last_and_undoes_itself() -> None:
    batch = texts().pack([SHORT, MIDDLE]).trimmed()
    order = reversed_positions(batch)
    assert order.tolist() == [[1, 0, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1, 0]]
    assert torch.equal(order.gather(1, order), torch.arange(7).expand(2, 7))


def test_the_gru_equals_torch_on_packed_sequences() -> None:
    torch.manual_seed(0)
    backbone = GRUBackbone(GRUBackbone.Config(**GRU, layers=1), texts(), DIM)
    layer: Any = backbone.layers[0]
    reference = nn.GRU(8, 8, batch_first=True, bidirectional=True)
    state = {**layer.forwards.state_dict(), **{f"{k}_reverse": v for k, v in layer.backwards.state_dict().items()}}
    reference.load_state_dict(state)
    batch = texts().pack([SHORT, LONG, MIDDLE]).trimmed()
    embedded = backbone.embedding(batch.tokens.int())
    packed = nn.utils.rnn.pack_padded_sequence(embedded, batch.lengths.long(), batch_first=True, enforce_sorted=False)
    expected, _ = nn.utils.rnn.pad_packed_sequence(reference(packed)[0], batch_first=True)
    mask = batch.mask[:, :, None]
    assert_near(layer(embedded, reversed_positions(batch)) * mask, expected * mask)


def test_pooling_sees_valid_tokens_only() -> None:
    tokens = torch.tensor([[[-1.0, 2.0], [-3.0, 4.0], [9.0, 9.0]]])
    mask = torch.tensor([[True, True, False]])
    assert pool(tokens, mask, "sum-max").tolist() == [[-4, 6, -1, 4]]
    assert pool(tokens, mask, "mean").tolist() == [[-2, 3]]


def test_an_additive_head_adds_up_what_each_token_contributes() -> None:
    torch.manual_seed(0)
    head = Head(4, 3, DIM, "additive")
    tokens, bias = torch.randn(2, 5, 4), head(torch.zeros(1, 1, 4), torch.zeros(1, 1, dtype=torch.bool))
    mask = torch.tensor([[True] * 5, [True, True, False, False, False]])
    alone = [head(tokens[:, [place]], mask[:, [place]]) - bias for place in range(5)]
    assert_near(head(tokens, mask), bias + torch.stack(alone).sum(dim=0))
    assert [tuple(weight.shape) for weight in head.parameters()] == [(6, 4), (6,), (DIM, 6), (DIM,)]


@pytest.mark.parametrize(("pooling", "width"), [("sum-max", 8), ("sum", 4), ("mean", 4), ("max", 4)])
def test_every_other_head_is_two_layers_after_pooling(pooling: Pooling, width: int) -> None:
    torch.manual_seed(0)
    head, plain = Head(4, 3, DIM, pooling), nn.Sequential(nn.Linear(width, 3), nn.GELU(), nn.Linear(3, DIM))
    plain.load_state_dict(head.state_dict())
    tokens, mask = torch.randn(2, 5, 4), torch.tensor([[True] * 5, [True, True, False, False, False]])
    assert torch.equal(head(tokens, mask), plain(pool(tokens, mask, pooling)))


def test_an_unknown_token_starts_without_a_meaning() -> None:
    assert not token_embedding(5, 3).weight[: UNKNOWN + 1].any()


def test_sinusoids_tell_all_places_apart() -> None:
    table = sinusoids(50, 8)
    assert table.shape == (50, 8)
    assert table[0].tolist() == [0, 1] * 4
    assert (torch.pdist(table) > 0.1).all()


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ValidationError, match="multiple of `heads`"):
        TransformerBackbone.Config(width=10, heads=4)


@pytest.mark.parametrize(
    "options", [{}, {"hidden": (4,), "activation": "relu", "layer_norm": False, "dropout": 0.1}, {"hidden": ()}]
)
def test_the_perceptron_reads_vectors(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    inputs = vectors()
    backbone = MLPBackbone(MLPBackbone.Config(**options), inputs, DIM)
    outputs = backbone(inputs.pack([[1.0, 2.0, 3.0], [4.0, 0.0, 1.0], [-1.0, 0.5, 0.0]]))
    assert outputs.shape == (3, DIM)
    assert (outputs.std(dim=0) > 0).all()
    outputs.square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in backbone.parameters())
    assert backbone(inputs.pack([])).shape == (0, DIM)


@pytest.mark.parametrize("columns", [0, 7])
def test_states_of_tokens_depend_on_their_own_text_alone(backbone: Backbone, columns: int) -> None:
    backbone.eval()
    output, states, mask = backbone.attended(widened(texts().pack([SHORT, MIDDLE, LONG]), columns))
    assert states.shape == (*mask.shape, backbone.state_width)
    for row, text in enumerate((SHORT, MIDDLE, LONG)):
        own, alone, there = backbone.attended(texts().pack([text]))
        assert_near(output[row], own[0])
        assert_near(states[row][mask[row]], alone[0][there[0]])
    empty = backbone.attended(texts().pack([SHORT])[:0])
    assert [len(part) for part in empty] == [0, 0, 0]
    assert empty[1].shape[2] == backbone.state_width
