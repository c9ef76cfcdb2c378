"""What this plugin brings, by name. It imports nothing heavy: ELE reads it to list what is installed."""

from collections.abc import Iterator

from ele_core import Record, hookimpl


@hookimpl
def ele_output_spaces() -> Iterator[Record]:
    yield Record("colours", "ele_colours.space:ColoursSpace", "rows of coloured slots")


@hookimpl
def ele_tasks() -> Iterator[Record]:
    yield Record("colours", "ele_colours.task:ColoursTask", "a row in words → the row of colours")
