"""The components of this plugin, as import strings: nothing is imported until it is used."""

from __future__ import annotations

from collections.abc import Iterator

from ele_core import Record, hookimpl


@hookimpl
def ele_output_spaces() -> Iterator[Record]:
    """The space of padded sequences, and of phonemes."""
    yield Record("sequence", "ele_sequences.space:SequenceSpace", "Sequences of tokens, up to a length.")
    yield Record("phonemes", "ele_sequences.g2p.spaces:PhonemeSpace", "Phonemes of words, with their error rates.")


@hookimpl
def ele_input_spaces() -> Iterator[Record]:
    """The spelling of words."""
    yield Record("spelling", "ele_sequences.g2p.spaces:SpellingInput", "Words, read in capital letters.")


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
