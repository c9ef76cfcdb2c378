"""Constraints on sequences: their length, how they begin, and what they contain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from ele_core import ComponentConfig, Rules
from ele_sequences.tokens import split_tokens


class SequenceConstraint(ComponentConfig):
    """What a predicted sequence must satisfy; options that are not given do not matter."""

    length: int | None = Field(default=None, ge=0)
    """The number of tokens."""
    min_length: int | None = Field(default=None, ge=0)
    """The least number of tokens."""
    max_length: int | None = Field(default=None, ge=0)
    """The largest number of tokens."""
    prefix: str | None = None
    """The text that it must begin with."""
    contains: str | None = None
    """A text of consecutive tokens that it must contain."""


class SequenceRules(Rules[Any]):
    """Sequences judged by their length, their beginning and their content."""

    Constraint = SequenceConstraint

    def tokens(self, batch: Any) -> Tensor:
        """The labels (N, L) that are judged."""
        tokens: Tensor = batch.tokens
        return tokens

    def violation(self, batch: Any, constraint: SequenceConstraint) -> Tensor:
        """(N,) floats: the number of tokens that are wrong."""
        config, tokens = self.space.config, self.tokens(batch)
        labels = {token: number for number, token in enumerate(config.alphabet, start=1)}
        found = length_violation(tokens, constraint)
        for text, judge in ((constraint.prefix, prefix_violation), (constraint.contains, infix_violation)):
            if text:
                found = found + judge(tokens, [labels.get(token, -1) for token in split_tokens(text, config.separator)])
        return found

    def of(self, batch: Any, names: Sequence[str]) -> list[SequenceConstraint]:
        """The length of each sequence."""
        lengths = ({"length": length} for length in (self.tokens(batch) != 0).sum(dim=1).tolist())
        return [SequenceConstraint.model_validate({name: own[name] for name in names}) for own in lengths]


def length_violation(tokens: Tensor, constraint: SequenceConstraint) -> Tensor:
    """(N,) floats: the number of tokens (N, L) too many or too few."""
    lengths = (tokens != 0).sum(dim=1).float()
    least = max(constraint.length or 0, constraint.min_length or 0)
    most = min(value for value in (constraint.length, constraint.max_length, tokens.shape[1]) if value is not None)
    return (least - lengths).clamp(min=0) + (lengths - most).clamp(min=0)


def prefix_violation(tokens: Tensor, labels: Sequence[int]) -> Tensor:
    """(N,) floats: the number of the first tokens that differ from `labels`."""
    return mismatches(tokens, labels)[:, 0]


def infix_violation(tokens: Tensor, labels: Sequence[int]) -> Tensor:
    """(N,) floats: the number of tokens that differ from `labels` where the fewest do."""
    return mismatches(tokens, labels).amin(dim=1)


def mismatches(tokens: Tensor, labels: Sequence[int]) -> Tensor:
    """(N, places) floats: the number of tokens that differ from `labels`, from each place on."""
    wanted = torch.tensor(labels, dtype=torch.long, device=tokens.device)
    missing = max(0, len(labels) - tokens.shape[1])
    windows = torch.nn.functional.pad(tokens, (0, missing)).unfold(1, len(labels), 1)
    return (windows != wanted).sum(dim=2).float()
