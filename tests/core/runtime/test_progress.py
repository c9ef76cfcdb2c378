"""The time left over all stages of a training, with a clock that the tests move."""

from __future__ import annotations

import io

import pytest

from ele_core.runtime.monitor import Callback, Callbacks, ConsoleMonitor
from ele_core.runtime.progress import Timetable
from ele_core.types import PlannedStage


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def walk(table: Timetable, clock: Clock, steps: int, seconds: float, first: float | None = None) -> None:
    for number in range(steps):
        clock.now += seconds if number or first is None else first
        table.advance()


def test_a_stage_alone_is_extrapolated_without_its_first_step(clock):
    table = Timetable(clock)
    table.begin("regression", 100)
    assert table.left() == ""
    walk(table, clock, 1, 50.0)
    assert table.left() == "", "the first step may include compilation"
    walk(table, clock, 10, 2.0)
    assert table.left() == "about 3 min left"  # 89 steps of two seconds
    assert table.line() == "regression: step 11 of 100, 70 s elapsed, about 3 min left"


def test_the_stages_to_come_are_named_unless_they_are_like_the_present_one(clock):
    table = Timetable(clock)
    table.plan([PlannedStage("search", 10), PlannedStage("search", 20), PlannedStage("regression", 80)])
    table.begin("search", 10)
    walk(table, clock, 5, 4.0)
    assert table.left() == "about 2 min left, then regression"  # 5 + 20 steps of four seconds
    table.begin("regression", 80)
    walk(table, clock, 41, 1.0)
    assert table.left() == "about 39 s left"


def test_stages_of_unknown_length_are_named(clock):
    table = Timetable(clock)
    table.plan([PlannedStage("embedding", 10), PlannedStage("ridge"), PlannedStage("decoding")])
    table.begin("embedding", 10)
    walk(table, clock, 5, 1.0)
    assert table.left() == "about 5 s left, then ridge and decoding"


def test_a_resumed_stage_counts_the_steps_before_but_not_their_time(clock):
    table = Timetable(clock)
    table.plan([PlannedStage("embedding", 100), PlannedStage("regression", 10)])
    table.begin("regression", 4)  # the embedding was finished before
    walk(table, clock, 2, 3.0)
    assert table.line() == "regression: step 8 of 10, 6 s elapsed, about 6 s left"


def test_work_that_was_not_planned_leaves_the_plan_as_it_is(clock):
    table = Timetable(clock)
    table.plan([PlannedStage("embedding", 10)])
    table.begin("packing", None)
    walk(table, clock, 3, 1.0)
    assert table.line() == "packing: step 3, 3 s elapsed"
    assert [stage.name for stage in table.coming] == ["embedding"]


def test_without_a_terminal_there_is_a_line_every_half_minute(clock):
    stream = io.StringIO()
    monitor = ConsoleMonitor(stream, afterwards=["decoding"], clock=clock)
    monitor.plan([PlannedStage("embedding", 100)])
    for _ in monitor.progress(range(100), description="embedding"):
        clock.now += 1.0
    monitor.end()
    monitor.plan([PlannedStage("pgd", 4)])
    assert [stage.name for stage in monitor.timetable.coming] == ["pgd"], "after the training nothing is added"
    lines = stream.getvalue().splitlines()
    assert lines == [
        "embedding: step 30 of 100, 30 s elapsed, about 70 s left, then decoding",
        "embedding: step 60 of 100, 60 s elapsed, about 40 s left, then decoding",
        "embedding: step 90 of 100, 2 min elapsed, about 10 s left, then decoding",
    ]


def test_on_a_terminal_the_bar_makes_room_for_rows_and_disappears(clock):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    monitor = ConsoleMonitor(stream, clock=clock)
    for step in monitor.progress(range(3), description="embedding"):
        clock.now += 1.0
        if step == 1:
            monitor.message("hello")
    text = stream.getvalue()
    assert "━" in text
    assert "\r\x1b[2Khello\n" in text
    assert text.endswith("\r\x1b[2K"), "nothing of the bar is left"


def test_the_bar_fits_into_a_narrow_terminal(clock, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    table = Timetable(clock)
    table.begin("regression", 100)
    assert len(table.bar()) == 19


def test_a_console_of_rich_is_still_accepted(clock):
    console = pytest.importorskip("rich.console").Console(file=io.StringIO(), force_terminal=False)
    monitor = ConsoleMonitor(console, clock=clock)
    monitor.message("hello")
    assert console.file.getvalue() == "hello\n"
    assert not monitor.terminal


def test_a_training_announces_its_stages_to_every_callback(tiny, pairs):
    from ele_core import StructuredPredictor

    class Plans(Callback):
        def __init__(self):
            self.plans = []

        def plan(self, stages):
            self.plans.append(list(stages))

    told = Plans()
    StructuredPredictor("sequence", **tiny, callbacks=[told]).fit(*pairs, validation=20)
    (planned,) = told.plans
    assert planned == [PlannedStage("embedding", 40), PlannedStage("regression", 8)]


def test_callbacks_forward_the_plan(clock):
    first, second = ConsoleMonitor(io.StringIO(), clock=clock), ConsoleMonitor(io.StringIO(), clock=clock)
    Callbacks(first, second).plan([PlannedStage("embedding")])
    assert first.timetable.coming == second.timetable.coming == [PlannedStage("embedding")]
