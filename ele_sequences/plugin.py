"""The components of this plugin, as import strings: nothing is imported until it is used."""

from __future__ import annotations

from collections.abc import Iterator

from ele_core import Record, hookimpl


@hookimpl
def ele_output_spaces() -> Iterator[Record]:
    """The space of padded sequences, and of phonemes at their letters."""
    yield Record("sequence", "ele_sequences.space:SequenceSpace", "Sequences of tokens, up to a length.")
    yield Record("phonemes", "ele_sequences.g2p.space:PhonemeSpace", "Phonemes of words, written at their letters.")


@hookimpl
def ele_input_spaces() -> Iterator[Record]:
    """The spelling of words."""
    yield Record("spelling", "ele_sequences.g2p.spelling:SpellingInput", "Letters with the runs of letters around.")


@hookimpl
def ele_surrogates() -> Iterator[Record]:
    """A fixed embedding of phonemes."""
    yield Record("aligned-odds", "ele_sequences.g2p.surrogate:AlignedOdds", "Fixed: tokens place by place.")


@hookimpl
def ele_backbones() -> Iterator[Record]:
    """A network on the spelling of words."""
    yield Record("runs", "ele_sequences.g2p.network:RunsBackbone", "Runs of letters, answered letter by letter.")


@hookimpl
def ele_regressors() -> Iterator[Record]:
    """Regressions for surrogates whose energy is not a squared distance, and one by counting."""
    yield Record("energy", "ele_sequences.g2p.regressor:EnergyRegressor", "Minimises the energy of the truth.")
    yield Record(
        "stacked-by-energy",
        "ele_sequences.g2p.regressor:StackedByEnergy",
        "A network and a kernel, weighted by the energy of the truth.",
    )
    yield Record("run-counts", "ele_sequences.g2p.counts:RunCounts", "Counts tokens at the same runs of letters.")


@hookimpl
def ele_decoders() -> Iterator[Record]:
    """A decoder that writes from left to right."""
    yield Record("left-to-right", "ele_sequences.g2p.decoder:LeftToRight", "Beam search over tokens, place by place.")


@hookimpl
def ele_encoders() -> Iterator[Record]:
    """The encoder of relaxed sequences."""
    yield Record("sequence", "ele_sequences.encoder:SequenceEncoder", "Convolutions over relaxed positions.")
    yield Record(
        "contexts",
        "ele_sequences.contexts:ContextEncoder",
        "Smooth random features of tokens, neighbours and places, added up.",
    )


@hookimpl
def ele_tasks() -> Iterator[Record]:
    """A generated task whose test outputs never occur in training, and the pronunciation of English words."""
    yield Record("number-words", "ele_sequences.number_words:NumberWords", "English number words → digits.")
    yield Record("g2p", "ele_sequences.g2p.task:GraphemesToPhonemes", "Spelling of English words → phonemes.")
