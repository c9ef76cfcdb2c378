"""Rivals on the pronunciation of words: joint n-grams of Phonetisaurus, and a recurrent network with attention."""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ele_core import ConfigError, Context, EleError, Rival
from ele_core.data.prepare import Prepared
from ele_core.extras import how_to_install
from ele_sequences.g2p.align import numbered
from ele_sequences.g2p.space import PhonemeSpace


@dataclasses.dataclass(frozen=True)
class Words:
    """Words, and the phonemes of each."""

    words: Sequence[str]
    phonemes: Sequence[Sequence[str]]

    @classmethod
    def at(cls, prepared: Prepared, rows: Tensor) -> Words:
        """The pairs at `rows`."""
        space = phoneme_space(prepared)
        texts = space.unpack(prepared.data.outputs[rows])
        return cls(prepared.data.inputs_at(rows), [text.split() for text in texts])


def phoneme_space(prepared: Prepared) -> PhonemeSpace:
    """The output space, which must be `phonemes`."""
    if not isinstance(prepared.space, PhonemeSpace):
        what = f"this rival answers phonemes, not {type(prepared.space).__name__}."
        raise ConfigError(what, where="output", fix="Set output to 'phonemes'.")
    return prepared.space


def packed(prepared: Prepared, answers: Sequence[Sequence[str]]) -> Any:
    """Answers as a batch; what a rival writes beyond the greatest length is cut off."""
    space = phoneme_space(prepared)
    return space.pack([" ".join(answer[: space.config.length]) for answer in answers])


EXTRA = "phonetisaurus"


@dataclasses.dataclass(frozen=True)
class Phonetisaurus(Rival):
    """Its own aligner, then an n-gram model of letters with their phonemes, searched by a transducer."""

    order: int = 8
    """The length of the longest n-grams."""
    beam: int = 500
    """The width of its search."""

    def predict(self, prepared: Prepared, rows: Tensor, context: Context) -> Any:
        """Train on the training pairs, and apply the model to the words at `rows`."""
        train, asked = Words.at(prepared, prepared.data.train), prepared.data.inputs_at(rows)
        with tempfile.TemporaryDirectory() as folder:
            return packed(prepared, self.answers(train, asked, Path(folder)))

    def answers(self, train: Words, asked: Sequence[str], folder: Path) -> list[list[str]]:
        """The phonemes of each word; none if it finds none."""
        lines = [f"{word}\t{' '.join(spoken)}\n" for word, spoken in zip(train.words, train.phonemes, strict=True)]
        (folder / "lexicon").write_text("".join(lines), encoding="utf-8")
        (folder / "words").write_text("".join(f"{word}\n" for word in dict.fromkeys(asked)), encoding="utf-8")
        run(["phonetisaurus-train", "--lexicon", "lexicon", "--seq2_del", "--ngram_order", str(self.order)], folder)
        apply = ["phonetisaurus-apply", "--model", "train/model.fst", "--word_list", "words", "--beam", str(self.beam)]
        found: dict[str, list[str]] = {}
        for line in run(apply, folder).splitlines():
            word, *spoken = line.split()
            found.setdefault(word, spoken)
        return [found.get(word, []) for word in asked]


def run(command: Sequence[str], folder: Path) -> str:
    """The output of one of its programs."""
    specification = importlib.util.find_spec("phonetisaurus")
    homes = (specification.submodule_search_locations if specification else None) or []
    if not homes:
        what = "this row needs the package phonetisaurus, which is not installed."
        raise ConfigError(what, fix=how_to_install(EXTRA))
    programs, libraries = (Path(homes[0]) / kind / platform.machine() for kind in ("bin", "lib"))
    paths = {"PATH": f"{programs}:{os.environ.get('PATH', '')}", "LD_LIBRARY_PATH": str(libraries)}
    done = subprocess.run(command, cwd=folder, env={**os.environ, **paths}, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise EleError(f"{command[0]} failed: {last}", fix="Run it by hand to see more.")
    return done.stdout


WARMUP = 0.05
"""The share of the training in which the learning rate rises."""
ASKED = 256
"""Words answered at once."""
BUCKETS = 50
"""Batches whose words are sorted by length together."""


@dataclasses.dataclass(frozen=True)
class Attention(Rival):
    """Bidirectional GRU encoder, GRU decoder with attention, cross-entropy of the next phoneme, beam search."""

    minutes: float = 9.5
    """The processor time of the training, in minutes of one core."""
    width: int = 192
    """The width of the states."""
    layers: int = 1
    """The layers of the encoder."""
    dropout: float = 0.2
    """The share of features dropped during training."""
    learning_rate: float = 2.5e-3
    """Peak learning rate of AdamW; it falls along a cosine."""
    batch_size: int = 256
    """Words per step."""
    beam: int = 5
    """The width of the search."""

    def predict(self, prepared: Prepared, rows: Tensor, context: Context) -> Any:
        """Train on the training pairs, and write the phonemes of the words at `rows`."""
        train, asked = Words.at(prepared, prepared.data.train), prepared.data.inputs_at(rows)
        letters = sorted({letter for word in train.words for letter in word})
        sounds = sorted({phoneme for spoken in train.phonemes for phoneme in spoken})
        torch.manual_seed(context.own_seed("attention"))
        network = Network(len(letters) + 1, len(sounds) + 2, self)
        self.fit(network, numbered(train.words, letters), numbered(train.phonemes, sounds), context)
        known = set(letters)
        words = numbered([[letter for letter in word if letter in known] or letters[:1] for word in asked], letters)
        with torch.no_grad():
            written = torch.cat([beam_search(network, part, self.beam) for part in words.split(ASKED)])
        names = ["", *sounds, ""]
        return packed(prepared, [[names[p] for p in row if 0 < p <= len(sounds)] for row in written.tolist()])

    def fit(self, network: Network, words: Tensor, phonemes: Tensor, context: Context) -> None:
        """Train for `minutes` of processor time."""
        optimiser = torch.optim.AdamW(network.parameters(), lr=self.learning_rate)
        started, budget, step, epoch = time.process_time(), 60 * self.minutes, 0, 0
        while True:
            for rows in batches((words > 0).sum(dim=1), self.batch_size, context.generator("attention", epoch)):
                spent = (time.process_time() - started) / budget
                if spent >= 1:
                    context.monitor.message(f"attention: {step:,} steps, {epoch} whole epochs")
                    network.eval()
                    return
                for group in optimiser.param_groups:
                    group["lr"] = self.learning_rate * rate(spent)
                loss = network.loss(trimmed(words[rows]), trimmed(phonemes[rows]))
                optimiser.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(network.parameters(), 1.0)
                optimiser.step()
                step += 1
            epoch += 1
            context.monitor.message(f"attention: epoch {epoch}, loss {loss.item():.3f}, {spent:.0%} of the time")


class Network(nn.Module):
    """The encoder, the decoder, and the attention between them. Phoneme 0 starts, and the last number ends."""

    def __init__(self, letters: int, sounds: int, options: Attention) -> None:
        super().__init__()
        width = options.width
        self.end = sounds - 1
        self.letters = nn.Embedding(letters, width // 2, padding_idx=0)
        self.sounds = nn.Embedding(sounds, width // 2)
        self.reader = nn.GRU(width // 2, width, options.layers, batch_first=True, bidirectional=True)
        self.writer = nn.GRU(width // 2, width, batch_first=True)
        self.first = nn.Linear(2 * width, width)
        self.keys = nn.Linear(2 * width, width)
        self.joined = nn.Linear(3 * width, width)
        self.output = nn.Linear(width, sounds)
        self.dropout = nn.Dropout(options.dropout)

    def read(self, words: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The states at the letters (B, L, 2 W), their keys (B, L, W), and the first state of the writer (1, B, W)."""
        lengths = (words > 0).sum(dim=1)
        vectors = self.dropout(self.letters(words))
        sequence = nn.utils.rnn.pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
        states, _ = nn.utils.rnn.pad_packed_sequence(self.reader(sequence)[0], batch_first=True)
        mean = states.sum(dim=1) / lengths[:, None]
        return states, self.keys(states), torch.tanh(self.first(mean))[None]

    def write(self, before: Tensor, words: Tensor, read: tuple[Tensor, Tensor], state: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of the next phoneme after each of `before` (B, M): (B, M, sounds), and the state of the writer."""
        states, keys = read
        own, state = self.writer(self.dropout(self.sounds(before)), state)
        weights = (own @ keys.transpose(1, 2)).masked_fill(words[:, None] == 0, -torch.inf).softmax(dim=2)
        joined = torch.tanh(self.joined(torch.cat([own, weights @ states], dim=2)))
        return self.output(self.dropout(joined)), state

    def loss(self, words: Tensor, phonemes: Tensor) -> Tensor:
        """The mean cross-entropy of the phonemes of a word, its end among them."""
        states, keys, first = self.read(words)
        target = functional.pad(phonemes, (0, 1)).scatter(1, (phonemes > 0).sum(dim=1, keepdim=True), self.end)
        scores, _ = self.write(functional.pad(phonemes, (1, 0)), words, (states, keys), first)
        return functional.cross_entropy(scores.flatten(0, 1), target.flatten(), ignore_index=0, reduction="sum") / len(
            words
        )


def beam_search(network: Network, words: Tensor, beam: int, longest: int = 30) -> Tensor:
    """The phonemes of least cross-entropy that a beam search finds: (B, longest), the end and what follows as is."""
    states, keys, state = network.read(words)
    count, width = len(words), states.shape[1]
    words, states, keys = (part[:, :width].repeat_interleave(beam, dim=0) for part in (words, states, keys))
    state = state.repeat_interleave(beam, dim=1)
    written = torch.zeros(count * beam, 1, dtype=torch.long)
    cost = torch.zeros(count, beam).index_fill_(1, torch.arange(1, beam), torch.inf)
    ended = torch.zeros(count * beam, dtype=torch.bool)
    for _ in range(longest):
        scores, state = network.write(written[:, -1:], words, (states, keys), state)
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
    return functional.pad(written[::beam, 1:], (0, longest + 1 - written.shape[1]))


def batches(lengths: Tensor, size: int, generator: torch.Generator) -> list[Tensor]:
    """Batches of one epoch, with words of similar length together, in a random order."""
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
