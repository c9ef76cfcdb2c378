"""The components of this plugin, as import strings: nothing is imported until it is used."""

from __future__ import annotations

from collections.abc import Iterator

from ele_core import Record, hookimpl


@hookimpl
def ele_output_spaces() -> Iterator[Record]:
    """The space of padded sequences."""
    yield Record("sequence", "ele_sequences.space:SequenceSpace", "Sequences of tokens, up to a length.")


@hookimpl
def ele_encoders() -> Iterator[Record]:
    """The encoder of relaxed sequences."""
    yield Record("sequence", "ele_sequences.encoder:SequenceEncoder", "Convolutions over relaxed positions.")


@hookimpl
def ele_tasks() -> Iterator[Record]:
    """A generated task whose test outputs never occur in training."""
    yield Record("number-words", "ele_sequences.number_words:NumberWords", "English number words → digits.")
