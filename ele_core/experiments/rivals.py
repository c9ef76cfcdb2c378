"""Rivals for any pairs: what somebody would take instead of ELE, trained and measured on the same pairs."""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ele_core.config import Facts, plan
from ele_core.config.recipes import OWN_DATA, ridge
from ele_core.data.objects import first_read
from ele_core.data.prepare import Prepared
from ele_core.errors import ConfigError, EleError, PluginError, counted
from ele_core.experiments.study import Rival
from ele_core.extras import installed, missing
from ele_core.model.evaluate import copied
from ele_core.model.metrics import means, measure
from ele_core.runtime.context import Context
from ele_core.runtime.device import seeded
from ele_core.runtime.monitor import Monitor
from ele_core.runtime.work import Work

if TYPE_CHECKING:
    from ele_core.runs.run import Run

CPU = "cpu_seconds"
"""Beside the metrics of a rival: the processor time of its training and its answers."""
EXTRA = "phonetisaurus"
LONGEST = 300
"""Characters of an input and of an output, as a median, that the network still reads and writes."""
MOST_WORDS = 150
"""Different words of outputs that may be phonemes: languages have fewer."""


# -- which rivals fit, and what they reach ------------------------------------------------------------------------


def fitting(prepared: Prepared, seconds: float, monitor: Monitor) -> dict[str, Rival]:
    """The rivals that fit the pairs, by name; those that choose how long to train get so much processor time."""
    found: dict[str, Rival] = {}
    if prepared.inputs.reads == "texts":
        pairs = Written.at(prepared, known(prepared))
        if max(statistics.median(map(len, texts)) for texts in (pairs.inputs, pairs.outputs)) <= LONGEST:
            found["an attention network"] = Attention(minutes=seconds / 60)
        if pairs.pronounced and installed(EXTRA):
            found[f"Phonetisaurus (beam {Phonetisaurus.beam:,})"] = Phonetisaurus()
        elif pairs.pronounced:
            monitor.message(f"Phonetisaurus would fit these pairs: {missing('it', EXTRA, EXTRA)}")
    elif prepared.inputs.reads == "columns":
        monitor.message("rivals that read one text are left out: the inputs are several columns")
    return {**found, "kernel ridge with the nearest candidate": KernelRidge()}


def measure_rival(
    rival: Rival, prepared: Prepared, context: Context, split: str = "test", limit: int | None = None
) -> dict[str, float]:
    """Let a rival learn and predict; return the means of the metrics on a split, and the processor time as `CPU`."""
    rows, truths = prepared.examples(split, limit)
    started = processor_seconds()
    predicted = rival.predict(prepared, rows, context)
    seconds = processor_seconds() - started
    if len(predicted) != len(rows):
        what = f"{counted(len(predicted), 'answer')} for {counted(len(rows), 'input')}."
        fix = "Return one packed output for each row."
        raise PluginError(f"the rival {type(rival).__name__} gave {what}", where=type(rival).__module__, fix=fix)
    quiet = dataclasses.replace(context, work=Work())
    return {**means(measure(prepared.space, predicted, truths, quiet)), CPU: round(seconds, 1)}


def measured_rivals(
    run: Run, split: str, limit: int | None, minutes: float | None, without: Sequence[str], monitor: Monitor
) -> Iterator[tuple[str, dict[str, float]]]:
    """Each rival that fits the pairs of a run, but those named in `without`, and the means of its metrics.

    Each has `minutes` of processor time, by default as long as the training of the run took.
    """
    from ele_core.runs.folder import training_seconds
    from ele_core.runs.run import context_for
    from ele_core.runtime.distributed import Processes

    if split == "validation":
        fix = "Measure on the test pairs, with --split test."
        raise ConfigError("rivals choose their settings on the validation pairs.", where="--rivals", fix=fix)
    context = context_for(run.config, monitor, Processes())
    prepared = run.data(context)
    seconds = (training_seconds(run.folder) or 60.0) if minutes is None else 60 * minutes
    for name, rival in fitting(prepared, seconds, monitor).items():
        if name not in without:
            monitor.message(f"training a rival: {name}")
            yield name, measure_rival(rival, prepared, context, split, limit)


def processor_seconds() -> float:
    """The processor time of this process and of those that it has waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


# -- pairs as texts -----------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Written:
    """Pairs as texts."""

    inputs: Sequence[str]
    outputs: Sequence[str]

    @classmethod
    def at(cls, prepared: Prepared, rows: Tensor) -> Written:
        """The pairs at `rows`."""
        space = prepared.space
        return cls(asked(prepared, rows), list(map(space.texts.format, space.unpack(prepared.data.outputs[rows]))))

    @property
    def pronounced(self) -> bool:
        """Whether the inputs are words and the outputs may be their phonemes: several words each, of a small set."""
        words = {word for text in self.outputs for word in text.split(" ")}
        return not any(" " in text for text in self.inputs) and spaced(self.outputs) and len(words) <= MOST_WORDS


def asked(prepared: Prepared, rows: Tensor) -> list[str]:
    """The inputs at `rows` as texts."""
    return list(map(prepared.inputs.format, prepared.data.inputs_at(rows)))


def known(prepared: Prepared) -> Tensor:
    """The rows to learn from: a rival sets none aside for a calibration."""
    return torch.cat([prepared.data.train, prepared.data.calibration])


def answered(prepared: Prepared, rows: Tensor, answers: Sequence[Sequence[str]]) -> Any:
    """For each of `rows` the first of its answers that is an output, packed; else that of the nearest input."""
    return first_read(prepared.space, answers, prepared.space.texts.parse, copied(prepared, rows))[0]


def spaced(texts: Sequence[str]) -> bool:
    """Whether most of the texts are several words."""
    return 2 * sum(" " in text for text in texts) > len(texts)


# -- kernel ridge -------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class KernelRidge(Rival):
    """Kernel ridge regression of the parts of outputs, and the training output nearest to its prediction."""

    def predict(self, prepared: Prepared, rows: Tensor, context: Context) -> Any:
        """Solve for the training pairs, and choose among their outputs."""
        from ele_core.model.train import assemble, fit

        data = dataclasses.replace(prepared.data, train=known(prepared), calibration=torch.arange(0), stored=None)
        config = prepared.config
        facts = Facts(config.input, prepared.inputs, prepared.space, len(data.train), 0)
        given = {name: value for name, value in config.given.items() if name in ("task", "data", "input", "output")}
        parts = {"surrogate": "parts", "regressor": {**ridge(facts), "weigh_errors": False}, "decoder": "candidates"}
        own = plan({**given, **parts, "recipe": OWN_DATA}, facts, config.registry)
        quiet = dataclasses.replace(context, monitor=Monitor(), work=Work())
        alone = dataclasses.replace(prepared, config=own, data=data)
        model = fit(assemble(alone, quiet), alone, quiet)
        return model.decode(model.regressor.predict(prepared.packed[rows]), context=quiet).best


# -- Phonetisaurus ------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Phonetisaurus(Rival):
    """Its own aligner, then an n-gram model of letters with their phonemes, searched by a transducer."""

    order: int = 8
    """The length of the longest n-grams."""
    beam: int = 10_000
    """The width of its search, by default its own default."""
    validation: bool = True
    """Whether to learn from the validation pairs too: it chooses nothing on them."""

    def predict(self, prepared: Prepared, rows: Tensor, context: Context) -> Any:
        """Train on the training pairs, and apply the model to the words at `rows`."""
        learned = torch.cat([known(prepared), *([prepared.data.validation] if self.validation else [])])
        with tempfile.TemporaryDirectory() as folder:
            spoken = self.spoken(Written.at(prepared, learned), asked(prepared, rows), Path(folder))
        return answered(prepared, rows, spoken)

    def spoken(self, train: Written, words: Sequence[str], folder: Path) -> list[list[str]]:
        """The phonemes of each word, as a list of one text; an empty list if it finds none."""
        lines = [f"{word}\t{phonemes}\n" for word, phonemes in zip(train.inputs, train.outputs, strict=True)]
        (folder / "lexicon").write_text("".join(lines), encoding="utf-8")
        (folder / "words").write_text("".join(f"{word}\n" for word in dict.fromkeys(words)), encoding="utf-8")
        program(["phonetisaurus-train", "--lexicon", "lexicon", "--seq2_del", "--ngram_order", str(self.order)], folder)
        apply = ["phonetisaurus-apply", "--model", "train/model.fst", "--word_list", "words", "--beam", str(self.beam)]
        found: dict[str, list[str]] = {}
        for line in program(apply, folder).splitlines():
            word, *phonemes = line.split()
            found.setdefault(word, [" ".join(phonemes)])
        return [found.get(word, []) for word in words]


def program(command: Sequence[str], folder: Path) -> str:
    """The output of one of the programs of Phonetisaurus."""
    specification = importlib.util.find_spec(EXTRA)
    homes = (specification.submodule_search_locations if specification else None) or []
    if not homes:
        raise missing("this rival", EXTRA, EXTRA)
    programs, libraries = (Path(homes[0]) / kind / platform.machine() for kind in ("bin", "lib"))
    paths = {"PATH": f"{programs}:{os.environ.get('PATH', '')}", "LD_LIBRARY_PATH": str(libraries)}
    done = subprocess.run(command, cwd=folder, env={**os.environ, **paths}, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise EleError(f"{command[0]} failed: {last}", fix="Run it by hand to see more.")
    return done.stdout


# -- a network with attention -------------------------------------------------------------------------------------

WARMUP = 0.05
"""The share of the training in which the learning rate rises."""
CHECKS, PATIENCE = 30, 12
"""How often validation pairs are written during a training, and after how many times without a gain it stops."""
ASKED = 128
"""Inputs answered at once."""
BUCKETS = 50
"""Batches whose inputs are sorted by length together."""
WELL = 0.99
"""The share of right validation pairs from which on no other tokens are tried."""
WIDER = 4
"""A network that is twice as wide is tried if this many times the time of the best is left."""
COMMON = 0.99
"""The share of the words of validation outputs that training outputs hold, if words alone can write all outputs."""


@dataclasses.dataclass(frozen=True)
class Attention(Rival):
    """Bidirectional GRU encoder, GRU decoder with attention, cross-entropy of the next token, beam search.

    Tokens are words where most texts are several words, else characters. Where words are tokens, characters are tried
    as well, in half of the time, and validation pairs decide; also how wide it is, and which weights are kept.
    """

    minutes: float | None = None
    """The most processor time of the training; None: as long as `epochs` take."""
    epochs: float = 45
    """The most passes over the training pairs, but at least `least_steps` steps."""
    least_steps: int = 1500
    """The fewest steps, if the time suffices."""
    width: int = 128
    """The width of the states; twice as wide ones are tried if the time suffices."""
    dropout: float = 0.3
    """The share of features dropped during training."""
    smoothing: float = 0.1
    """The share of each target that is spread over all tokens."""
    learning_rate: float = 2.5e-3
    """Peak learning rate of AdamW; it falls along a cosine."""
    batch_size: int = 64
    """Pairs per step."""
    beam: int = 5
    """The width of the search."""

    def predict(self, prepared: Prepared, rows: Tensor, context: Context) -> Any:
        """Train on the training pairs, with each kind of tokens, and write the outputs of the inputs at `rows`."""
        train, held_out = (Written.at(prepared, part) for part in (known(prepared), prepared.data.validation))
        levels = levels_of(train, held_out)
        left = math.inf if self.minutes is None else 60 * self.minutes
        tried: list[Trained] = []
        for place, level in enumerate(levels):
            tried.append(self.trained(level, train, held_out, left / (len(levels) - place), context))
            left -= tried[-1].seconds
            if tried[-1].right >= WELL or left <= 0:
                break
        best = max(tried, key=lambda each: each.right)
        if best.right < WELL and WIDER * best.seconds <= left < math.inf:
            wider = dataclasses.replace(self, width=2 * self.width)
            tried.append(wider.trained(best.writer.level, train, held_out, left, context))
            best = max(tried, key=lambda each: each.right)
        return answered(prepared, rows, best.writer.answers(asked(prepared, rows), self.beam))

    def trained(self, level: Level, train: Written, held_out: Written, seconds: float, context: Context) -> Trained:
        """Train a network on these tokens for at most so many seconds."""
        started = time.process_time()
        with seeded(context.own_seed("attention", self.width, *level)):
            writer = Writer.new(train, level, self)
            right = self.fit(writer, train, held_out, seconds, context)
        return Trained(writer, right, time.process_time() - started)

    def fit(self, writer: Writer, train: Written, held_out: Written, seconds: float, context: Context) -> float:
        """Train, keep the weights that write most validation pairs right, and return their share."""
        network, inputs, outputs = writer.network, writer.read(train.inputs), writer.targets(train.outputs)
        steps = max(self.least_steps, round(self.epochs * len(inputs) / self.batch_size))
        optimiser = torch.optim.AdamW(network.parameters(), lr=self.learning_rate)
        started, step, epoch, spent = time.process_time(), 0, 0, 0.0
        best, kept, since, checked = -1.0, network.state_dict(), 0, 0.0
        while spent < 1 and since < PATIENCE:
            for rows in batches((inputs > 0).sum(dim=1), self.batch_size, context.generator("attention", epoch)):
                for group in optimiser.param_groups:
                    group["lr"] = self.learning_rate * rate(spent)
                network.train()
                loss = network.loss(trimmed(inputs[rows]), trimmed(outputs[rows]), self.smoothing)
                optimiser.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(network.parameters(), 1.0)
                optimiser.step()
                step += 1
                spent = max(step / steps, (time.process_time() - started) / seconds)
                if spent >= checked + 1 / CHECKS or spent >= 1:
                    right, checked, since = writer.right(held_out), spent, since + 1
                    if right >= best:
                        best, since = right, 0
                        kept = {name: weight.clone() for name, weight in network.state_dict().items()}
                if spent >= 1 or since >= PATIENCE:
                    break
            epoch += 1
        network.load_state_dict(kept)
        context.monitor.message(f"attention, {writer.called}: {step:,} steps, validation pairs right: {best:.1%}")
        return best


Level = tuple[bool, bool]
"""Whether tokens are words, of inputs and of outputs; else they are characters."""


def levels_of(train: Written, held_out: Written) -> list[Level]:
    """The kinds of tokens to try; outputs are not written by characters if all are made of the same few words."""
    words = {word for text in train.outputs for word in text.split(" ")}
    others = [word for text in held_out.outputs for word in text.split(" ")]
    closed = spaced(train.outputs) and sum(word in words for word in others) >= COMMON * len(others)
    return list(dict.fromkeys([(spaced(train.inputs), spaced(train.outputs)), (False, closed)]))


@dataclasses.dataclass(frozen=True)
class Writer:
    """A network with the tokens that it reads and writes."""

    network: Network
    level: Level
    symbols: Mapping[str, int]
    """The tokens of inputs, numbered from 1."""
    written: Sequence[str]
    """The tokens of outputs, numbered from 1."""
    longest: int
    """The most tokens of an answer."""

    @classmethod
    def new(cls, train: Written, level: Level, options: Attention) -> Writer:
        """Number the tokens of the training pairs; the weights are random."""
        read = sorted({token for text in train.inputs for token in cut(text, level[0])})
        outputs = [cut(text, level[1]) for text in train.outputs]
        written = sorted({token for tokens in outputs for token in tokens})
        network = Network(len(read) + 1, len(written) + 2, options)
        longest = 5 + max(map(len, outputs)) * 5 // 4
        return cls(network, level, {token: number for number, token in enumerate(read, 1)}, written, longest)

    @property
    def called(self) -> str:
        """The kinds of tokens, for a message."""
        return " → ".join("words" if words else "characters" for words in self.level)

    def read(self, texts: Sequence[str]) -> Tensor:
        """Inputs as numbers (N, L); unknown tokens are left out, and an input of none but these is the first token."""
        rows = [[self.symbols[t] for t in cut(text, self.level[0]) if t in self.symbols] or [1] for text in texts]
        return padded(rows)

    def targets(self, texts: Sequence[str]) -> Tensor:
        """Training outputs as numbers (N, M)."""
        number = {token: place for place, token in enumerate(self.written, 1)}
        return padded([[number[token] for token in cut(text, self.level[1])] for text in texts])

    def answers(self, texts: Sequence[str], beam: int) -> list[list[str]]:
        """The answers of a beam search for each input, the best first."""
        between, names = " " if self.level[1] else "", ["", *self.written, ""]
        self.network.eval()
        with torch.no_grad():
            parts = [beam_search(self.network, trimmed(p), beam, self.longest) for p in self.read(texts).split(ASKED)]
        return [
            [between.join(names[t] for t in row if 0 < t <= len(self.written)) for row in rows]
            for part in parts
            for rows in part.tolist()
        ]

    def right(self, pairs: Written) -> float:
        """The share of inputs that a greedy search gives one of their outputs."""
        truths: dict[str, set[str]] = {}
        for text, output in zip(pairs.inputs, pairs.outputs, strict=True):
            truths.setdefault(text, set()).add(output)
        found = self.answers(list(truths), 1)
        return sum(one in own for (one,), own in zip(found, truths.values(), strict=True)) / max(1, len(truths))


@dataclasses.dataclass(frozen=True)
class Trained:
    """A trained network, the share of validation pairs that it writes right, and the processor time it took."""

    writer: Writer
    right: float
    seconds: float


def cut(text: str, words: bool) -> list[str]:
    """The tokens of a text."""
    return text.split(" ") if words else list(text)


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    """Rows of numbers as a tensor (N, L), with zeros after the end."""
    found = torch.zeros(len(rows), max(1, *map(len, rows)), dtype=torch.long)
    for place, row in enumerate(rows):
        found[place, : len(row)] = torch.tensor(row, dtype=torch.long)
    return found


class Network(nn.Module):
    """The encoder, the decoder, and the attention between them. Output token 0 starts, and the last number ends."""

    def __init__(self, read: int, written: int, options: Attention) -> None:
        super().__init__()
        width = options.width
        self.end = written - 1
        self.read_tokens = nn.Embedding(read, width // 2, padding_idx=0)
        self.written_tokens = nn.Embedding(written, width // 2)
        self.reader = nn.GRU(width // 2, width, batch_first=True, bidirectional=True)
        self.writer = nn.GRU(width // 2, width, batch_first=True)
        self.first = nn.Linear(2 * width, width)
        self.keys = nn.Linear(2 * width, width)
        self.joined = nn.Linear(3 * width, width)
        self.output = nn.Linear(width, written)
        self.dropout = nn.Dropout(options.dropout)

    def read(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The states at the tokens (B, L, 2 W), their keys (B, L, W), and the first state of the writer (1, B, W)."""
        lengths = (inputs > 0).sum(dim=1)
        vectors = self.dropout(self.read_tokens(inputs))
        sequence = nn.utils.rnn.pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
        states, _ = nn.utils.rnn.pad_packed_sequence(self.reader(sequence)[0], batch_first=True)
        mean = states.sum(dim=1) / lengths[:, None]
        states = self.dropout(states)
        return states, self.keys(states), torch.tanh(self.first(mean))[None]

    def write(
        self, before: Tensor, inputs: Tensor, read: tuple[Tensor, Tensor], state: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Scores of the token after each of `before` (B, M): (B, M, tokens), and the state of the writer."""
        states, keys = read
        own, state = self.writer(self.dropout(self.written_tokens(before)), state)
        weights = (own @ keys.transpose(1, 2)).masked_fill(inputs[:, None] == 0, -torch.inf).softmax(dim=2)
        joined = torch.tanh(self.joined(torch.cat([own, weights @ states], dim=2)))
        return self.output(self.dropout(joined)), state

    def loss(self, inputs: Tensor, outputs: Tensor, smoothing: float) -> Tensor:
        """The cross-entropy of the tokens of an output, its end among them, as a mean over outputs."""
        states, keys, first = self.read(inputs)
        target = functional.pad(outputs, (0, 1)).scatter(1, (outputs > 0).sum(dim=1, keepdim=True), self.end)
        scores, _ = self.write(functional.pad(outputs, (1, 0)), inputs, (states, keys), first)
        flat = scores.flatten(0, 1), target.flatten()
        total = functional.cross_entropy(*flat, ignore_index=0, reduction="sum", label_smoothing=smoothing)
        return total / len(inputs)


def beam_search(network: Network, inputs: Tensor, beam: int, longest: int) -> Tensor:
    """The outputs of least cross-entropy that a beam search finds, best first: (B, beam, M), their ends as they are."""
    states, keys, state = network.read(inputs)
    count = len(inputs)
    inputs, states, keys = (part.repeat_interleave(beam, dim=0) for part in (inputs, states, keys))
    state = state.repeat_interleave(beam, dim=1)
    written = torch.zeros(count * beam, 1, dtype=torch.long)
    cost = torch.zeros(count, beam).index_fill_(1, torch.arange(1, beam), torch.inf)
    ended = torch.zeros(count * beam, dtype=torch.bool)
    for _ in range(longest):
        scores, state = network.write(written[:, -1:], inputs, (states, keys), state)
        added = -scores[:, 0].log_softmax(dim=1)
        added[:, 0] = torch.inf
        added[ended] = torch.inf
        added[ended, network.end] = 0
        total = (cost[:, :, None] + added.view(count, beam, -1)).flatten(1)
        cost, place = total.topk(beam, dim=1, largest=False)
        rows = (torch.arange(count)[:, None] * beam + place // added.shape[1]).flatten()
        token = (place % added.shape[1]).flatten()
        written, state = torch.cat([written[rows], token[:, None]], dim=1), state[:, rows]
        ended = token == network.end
        if bool(ended.all()):
            break
    return written[:, 1:].view(count, beam, -1)


def batches(lengths: Tensor, size: int, generator: torch.Generator) -> list[Tensor]:
    """Batches of one epoch, with inputs of similar length together, in a random order."""
    order = torch.randperm(len(lengths), generator=generator)
    parts = [part[lengths[part].argsort()].split(size) for part in order.split(size * BUCKETS)]
    found = [batch for part in parts for batch in part]
    return [found[number] for number in torch.randperm(len(found), generator=generator).tolist()]


def trimmed(rows: Tensor) -> Tensor:
    """Rows without the columns that are zero in all of them."""
    return rows[:, : max(1, int((rows > 0).sum(dim=1).max()))]


def rate(spent: float) -> float:
    """The learning rate at this share of the training, relative to its peak."""
    if spent < WARMUP:
        return max(spent, 0.01) / WARMUP
    return 0.5 * (1 + math.cos(math.pi * (spent - WARMUP) / (1 - WARMUP)))
