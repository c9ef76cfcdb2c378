"""The `ele` command in tests: its outcome, its commands, and what a failure looks like."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from typing import NamedTuple

import click


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Ele = Callable[..., Outcome]


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


def fails(outcome: Outcome, code: int, *words: str) -> bool:
    assert outcome.code == code, outcome
    assert "Traceback" not in outcome.err
    for word in words:
        assert word in outcome.err, outcome.err
    return True
