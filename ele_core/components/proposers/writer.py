"""A network with attention that writes the text of a structure token by token, and may copy tokens of its input."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import Field, PositiveInt
from torch import Generator, Tensor, nn
from torch.nn import functional

from ele_core.component import ComponentConfig
from ele_core.components.proposers.rows import Rows
from ele_core.components.proposers.texts import END, UNKNOWN, Alphabet, TextProposer
from ele_core.components.training.optimise import Training, optimise
from ele_core.data.batches import PerRow, ShuffledBatches
from ele_core.interfaces import InputSpace, OutputSpace
from ele_core.networks import Backbone
from ele_core.plugins import create_part
from ele_core.runtime.context import Context
from ele_core.runtime.device import seeded
from ele_core.runtime.work import Snapshot, prefixed
from ele_core.types import Choice, PlannedStage, Proposals, Stage, Takes, TrainingData

WRITING = Stage("writing", decides="validation_loss")
LONGEST = 400
"""Maximum number of tokens: longer texts are slow to write and hard to learn."""
CHUNK, SCORED_AT_ONCE = 64, 512
"""Inputs written for, and structures scored, at once: bounds the memory."""


class WriterProposer(TextProposer):
    """p(y | x) = Π_t p(token t of the text of y | the tokens before it, x), with attention over the parts of x.

    Works with any space: its `format` writes structures, its `parse` reads what the network wrote, and texts that it
    cannot read are dropped.
    """

    stages = (WRITING,)

    class Config(ComponentConfig):
        """The network, and how many structures it considers."""

        backbone: Annotated[Choice, Takes("backbone")] = Choice(name="gru")
        """The network on inputs."""
        level: Literal["auto", "words", "characters"] = "auto"
        """The tokens of texts: words between blanks, or characters. `auto`: words if texts have blanks and the words
        come up again and again."""
        width: PositiveInt = 256
        """The width of the states of the network that writes."""
        embedding: PositiveInt = 64
        """The width of a token's embedding."""
        dropout: float = Field(0.3, ge=0, lt=1)
        """The share of features dropped during training."""
        smoothing: float = Field(0.1, ge=0, lt=1)
        """The probability that training gives to tokens that are not the right one."""
        copying: bool = True
        """Whether tokens may be copied from the input, if inputs have tokens of the same names."""
        beam: PositiveInt = 10
        """The number of beginnings that are continued at each token."""
        training: Training = Training(batch_size=64, epochs=40, learning_rate=2e-3)
        """How the network is trained."""

    config: Config

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], space: OutputSpace[Any, Any]) -> None:
        super().__init__(config, inputs, space)
        options = self.config
        self.backbone: Backbone = create_part(
            self, "backbone", options.backbone, inputs, options.width, path="proposer.backbone"
        )
        self.longest = 0
        self.network: Writer | None = None

    @property
    def able(self) -> bool:
        """Whether there is a network."""
        return self.network is not None

    def planned(self, examples: int, extra: int) -> list[PlannedStage]:
        """The steps of the training."""
        return [self.config.training.planned(WRITING, examples)]

    def fit(self, data: TrainingData, context: Context) -> None:
        """Train on the texts of the outputs; keep the weights of the least validation loss."""
        self.network = None
        train, held_out = (self.texts(pairs.outputs[:]) for pairs in (data.in_memory, data.validation))
        self.alphabet = Alphabet.learned(train, self.config.level)
        longest = max(map(len, map(self.alphabet.cut, train)))
        if longest > LONGEST:
            text = f"structures are written with up to {longest:,} tokens, and {LONGEST} is the limit"
            context.monitor.message(f"no proposals by the network that writes: {text}")
            return
        self.longest = min(LONGEST, 2 * longest)
        self.rows = Rows.like(data.train.inputs[:1])
        inputs, outputs, count = data.train.inputs, data.train.outputs, len(data.train)
        validation = self.alphabet.encode(held_out).to(context.device)
        tokens: Tensor | PerRow = (
            self.alphabet.encode(train).to(context.device)
            if data.sample is None
            else PerRow(lambda rows: self.alphabet.encode(self.texts(outputs[rows])).to(context.device))
        )
        network = self.network = self._built(context.derived_seed(WRITING.name, "weights")).to(context.device)
        asked, training = data.validation.inputs[:], self.config.training

        def loss(rows: Tensor, generator: Generator) -> Tensor:
            views = self.inputs.augment(inputs[rows], generator)
            return network.loss(views.to(context.device), tokens[rows.to(context.device)], self.config.smoothing)

        def evaluate() -> dict[str, float]:
            with torch.no_grad():
                parts = zip(asked.chunks(CHUNK), validation.split(CHUNK), strict=True)
                found = [network.loss(part.to(context.device), own) for part, own in parts]
            return {WRITING.decides: torch.cat(found).mean().item()}

        def sizes(rows: Tensor) -> Tensor:
            return (tokens[rows.to(context.device)] != END).sum(dim=1).cpu()

        optimise(
            network,
            training,
            count=count,
            source=ShuffledBatches(count, training.batch_size, context, WRITING.name, PerRow(sizes), inputs.blocks),
            loss=loss,
            evaluate=evaluate,
            context=context,
            stage=WRITING,
        )

    def write(self, queries: Tensor, count: int) -> Proposals:
        """The `count` most probable texts for each input that are structures of the space."""
        assert self.network is not None
        beam, texts, owners = max(count, self.config.beam), list[str](), [torch.zeros(0, dtype=torch.long)]
        for first in range(0, len(queries), CHUNK):
            asked = self.rows.restored(queries[first : first + CHUNK]).to(queries.device)
            tokens, owner = beam_search(self.network, asked, beam, self.longest)
            texts += self.alphabet.decode(tokens)
            owners.append(owner.cpu() + first)
        return self.proposed(texts, torch.cat(owners))

    def scored(self, queries: Tensor, batch: Any, owner: Tensor) -> Tensor:
        """−log p of structure n for query `owner[n]`: (N,)."""
        assert self.network is not None
        tokens = self.alphabet.encode(self.texts(batch.to("cpu"))).to(queries.device)
        found = torch.zeros(len(owner), device=queries.device)
        for rows in owner.argsort(stable=True).split(SCORED_AT_ONCE):
            asked, place = owner[rows].unique(return_inverse=True)
            with torch.no_grad():
                memory = self.network.read(self.rows.restored(queries[asked]).to(queries.device))
                found[rows] = self.network.cross_entropy(memory.at(place), tokens[rows])
        return found

    def _built(self, seed: int = 0) -> Writer:
        """A network with a copy of the backbone, its other weights drawn from `seed`."""
        options, names = self.config, getattr(self.inputs, "names", None)
        copied = self.alphabet.numbers_of(names) if options.copying and names is not None else None
        sizes = (options.embedding, options.width, options.dropout)
        with seeded(seed):
            return Writer(copy.deepcopy(self.backbone), len(self.alphabet.names), *sizes, copied).eval()

    def state(self) -> dict[str, Tensor]:
        """The vocabulary, the layout of inputs and the weights; nothing if there is no network."""
        if self.network is None:
            return {}
        sizes = torch.tensor([self.longest])
        named = {"alphabet": self.alphabet.as_tensor(), "longest": sizes}
        return {**named, **prefixed("rows", self.rows.state()), **prefixed("network", self.network.state_dict())}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Load what `state` returned."""
        self.network = None
        if not state:
            return
        stored = Snapshot(state)
        self.alphabet = Alphabet.from_tensor(state["alphabet"])
        self.longest = min(LONGEST, int(state["longest"].item()))
        self.rows = Rows(self.inputs.Batch, stored.part("rows"))
        self.network = self._built()
        self.network.load_state_dict(stored.part("network"))

    def to(self, device: torch.device) -> Self:
        """Move the network."""
        if self.network is not None:
            self.network.to(device)
        return self


@dataclasses.dataclass(frozen=True)
class Memory:
    """What the network read of B inputs."""

    states: Tensor
    """(B, T, width) what it attends to."""
    mask: Tensor
    """(B, T) True where there is a state."""
    begin: Tensor
    """(B, width) the first state of writing."""
    tokens: Tensor | None
    """(B, T) the token to copy at each state; None: nothing can be copied."""

    def at(self, rows: Tensor) -> Memory:
        """The memory of other rows."""
        tokens = None if self.tokens is None else self.tokens[rows]
        return Memory(self.states[rows], self.mask[rows], self.begin[rows], tokens)


class Writer(nn.Module):
    """Two recurrent layers with attention between them, so that all tokens of a text are trained at once."""

    copied: Tensor | None

    def __init__(
        self, backbone: Backbone, symbols: int, embedding: int, width: int, dropout: float, copied: Tensor | None
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.embedding = nn.Embedding(symbols, embedding)
        self.project = nn.Linear(backbone.state_width, width)
        self.first = nn.GRU(embedding, width, batch_first=True)
        self.ask = nn.Linear(width, width, bias=False)
        self.second = nn.GRU(2 * width, width, batch_first=True)
        self.gate = nn.Linear(2 * width, 1)
        self.output = nn.Sequential(
            nn.Linear(2 * width, width), nn.Tanh(), nn.Dropout(dropout), nn.Linear(width, symbols)
        )
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("copied", copied)

    def read(self, batch: Any) -> Memory:
        """Read inputs."""
        pooled, states, mask = self.backbone.attended(batch)
        tokens = None
        if self.copied is not None:
            found = self.backbone.tokens(batch).long()
            found = functional.pad(found, (0, mask.shape[1] - found.shape[1]))
            tokens = self.copied[found].masked_fill(~mask, UNKNOWN)
        return Memory(self.project(self.dropout(states)), mask, pooled.tanh(), tokens)

    def step(
        self, memory: Memory, tokens: Tensor, state: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The log-probabilities (B, L, symbols) of what follows each of `tokens` (B, L), and the new state."""
        onward, first = self.first(self.dropout(self.embedding(tokens)), state[0])
        scores = self.ask(onward) @ memory.states.transpose(1, 2) / onward.shape[2] ** 0.5
        attention = scores.masked_fill(~memory.mask[:, None], -torch.inf).softmax(dim=2)
        context = attention @ memory.states
        seen, second = self.second(self.dropout(torch.cat([onward, context], dim=2)), state[1])
        known = torch.cat([seen, context], dim=2)
        logits = self.output(known)
        logits[:, :, UNKNOWN] = -torch.inf
        written = logits.log_softmax(dim=2)
        if memory.tokens is None:
            return written, (first, second)
        share = torch.zeros_like(written)
        share = share.scatter_add(2, memory.tokens[:, None].expand_as(attention), attention)
        share[:, :, UNKNOWN] = 0
        gate = self.gate(known)
        copied = share.clamp(min=1e-9).log() + functional.logsigmoid(gate)
        return torch.logaddexp(written + functional.logsigmoid(-gate), copied), (first, second)

    def begin(self, memory: Memory) -> tuple[Tensor, Tensor]:
        """The states before the first token."""
        return memory.begin[None].contiguous(), memory.begin[None].contiguous()

    def cross_entropy(self, memory: Memory, tokens: Tensor, smoothing: float = 0.0) -> Tensor:
        """−log p of texts (B, L), each up to its `END`: (B,)."""
        tokens = tokens[:, : int((tokens != END).sum(dim=1).max()) + 1]
        before = functional.pad(tokens[:, :-1], (1, 0), value=END)
        found, _ = self.step(memory, before, self.begin(memory))
        own = -found.gather(2, tokens[:, :, None])[:, :, 0].clamp(min=LEAST)
        if smoothing:
            others = -found.clamp(min=LEAST).mean(dim=2)
            own = (1 - smoothing) * own + smoothing * others
        kept = functional.pad((tokens != END)[:, :-1], (1, 0), value=True)
        return (own * kept).sum(dim=1)

    def loss(self, batch: Any, tokens: Tensor, smoothing: float = 0.0) -> Tensor:
        """−log p of texts (B, L) for inputs: (B,)."""
        return self.cross_entropy(self.read(batch), tokens, smoothing)


LEAST = -30.0
"""The least log-probability of a token: bounds the energy of texts with tokens that cannot be written."""


@torch.no_grad()
def beam_search(network: Writer, inputs: Any, beam: int, longest: int) -> tuple[Tensor, Tensor]:
    """The `beam` most probable texts of each of B inputs: token numbers (N, L), and the input of each (N,).

    At each step the best `beam` beginnings are continued. An input stops when as many texts have ended that are more
    probable than all its beginnings.
    """
    memory = network.read(inputs)
    count, device = len(memory.begin), memory.begin.device
    owner = torch.arange(count, device=device).repeat_interleave(beam)
    memory, state = memory.at(owner), network.begin(memory.at(owner))
    tokens = torch.full((count * beam, 1), END, device=device)
    scores = torch.full((count, beam), -torch.inf, device=device)
    scores[:, 0] = 0
    ended = torch.full((count, beam), -torch.inf, device=device)
    texts = torch.full((count, beam, longest + 1), END, device=device)
    for place in range(longest + 1):
        found, state = network.step(memory, tokens[:, -1:], state)
        found[:, :, UNKNOWN] = -torch.inf
        total = scores[:, :, None] + found[:, 0].view(count, beam, -1)
        own = functional.pad(tokens[:, 1:], (0, longest + 1 - place)).view(count, beam, -1)
        merged = torch.cat([ended, total[:, :, END]], dim=1).topk(beam, dim=1)
        known = torch.cat([texts, own], dim=1)
        ended, texts = merged.values, known.gather(1, merged.indices[:, :, None].expand(-1, -1, known.shape[2]))
        total[:, :, END] = -torch.inf
        best = total.flatten(1).topk(beam, dim=1)
        scores, symbol = best.values, best.indices % total.shape[2]
        rows = (best.indices // total.shape[2] + beam * torch.arange(count, device=device)[:, None]).flatten()
        state = state[0][:, rows].contiguous(), state[1][:, rows].contiguous()
        tokens = torch.cat([tokens[rows], symbol.view(-1, 1)], dim=1)
        if bool((ended[:, -1] >= scores[:, 0]).all()):
            break
    kept = ended.flatten().isfinite()
    return texts.flatten(0, 1)[kept], owner[kept]
