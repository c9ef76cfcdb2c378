"""What monitors show and write."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace

from recording import Recorder

from ele_core.runtime.monitor import Callbacks, ConsoleMonitor, FileMonitor, Monitor


def console(terminal: bool) -> tuple[ConsoleMonitor, io.StringIO]:
    stream = io.StringIO()
    return ConsoleMonitor(SimpleNamespace(file=stream, is_terminal=terminal)), stream


def test_a_silent_monitor_passes_items_through():
    assert list(Monitor().progress([1, 2], description="x")) == [1, 2]


def test_an_evaluation_is_one_row_under_a_heading_that_comes_once_for_the_same_columns():
    monitor, stream = console(terminal=False)
    for step in (1, 2):
        monitor.evaluation("embedding", step, {"loss": 0.5, "validation_loss": 0.25}, best=step == 1)
    monitor.evaluation("regression", 3, {"loss": 0.5})
    lines = stream.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["stage", "embedding", "embedding", "stage", "regression"]
    assert lines[1].split()[1:4] == ["1", "0.5000", "0.2500"]
    assert [line.endswith("*") for line in lines] == [False, True, False, False, False]
    assert len(lines[0]) == len(lines[2]), "columns line up"


def test_a_bar_is_shown_on_a_terminal_only():
    for terminal in (False, True):
        monitor, stream = console(terminal)
        assert list(monitor.progress(range(3), description="packing")) == [0, 1, 2]
        assert ("packing" in stream.getvalue()) == terminal


def test_messages_are_printed_as_they_are():
    monitor, stream = console(terminal=False)
    monitor.message("[data] file = 'x' [/red]")
    assert stream.getvalue() == "[data] file = 'x' [/red]\n"


def test_metrics_and_times_go_to_files_of_their_own(tmp_path):
    monitor = FileMonitor(tmp_path)
    monitor.evaluation("embedding", 5, {"loss": 0.125}, best=True)
    monitor.evaluation("embedding", 6, {"loss": 0.5})
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines[0] == {"stage": "embedding", "step": 5, "best": True, "loss": 0.125}
    assert len(lines) == 2
    times = [json.loads(line) for line in (tmp_path / "times.jsonl").read_text().splitlines()]
    assert [set(line) for line in times] == [{"stage", "step", "seconds"}] * 2
    monitor.message("a line, \x1b[31mharmless")
    assert (tmp_path / "log.txt").read_text() == "a line, �[31mharmless\n"


def test_restored_files_lose_the_lines_that_came_later_and_go_on_from_there(tmp_path):
    first = FileMonitor(tmp_path)
    first.message("begins")
    first.evaluation("embedding", 5, {"loss": 0.125}, best=True)
    state = json.loads(json.dumps(first.state()))
    kept = {name: (tmp_path / name).read_text() for name in FileMonitor.FILES}
    first.evaluation("embedding", 6, {"loss": 0.5})
    first.message("goes on")
    second = FileMonitor(tmp_path)
    second.restore(state)
    assert {name: (tmp_path / name).read_text() for name in FileMonitor.FILES} == kept
    second.evaluation("embedding", 6, {"loss": 0.25})
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["loss"] for line in lines] == [0.125, 0.25]
    assert second.state()["lines"]["metrics.jsonl"] == (tmp_path / "metrics.jsonl").read_text().splitlines(True)


def test_the_clock_of_a_restored_monitor_goes_on_from_the_time_that_was_kept(tmp_path):
    monitor = FileMonitor(tmp_path)
    monitor.restore({"seconds": 1000.0})
    monitor.evaluation("embedding", 5, {"loss": 0.125})
    assert json.loads((tmp_path / "times.jsonl").read_text())["seconds"] >= 1000


def test_restoring_nothing_leaves_empty_files(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("of a training that kept no state\n")
    FileMonitor(tmp_path).restore({})
    assert {name: (tmp_path / name).read_text() for name in FileMonitor.FILES} == dict.fromkeys(FileMonitor.FILES, "")


def test_several_monitors_all_hear_and_the_first_shows_progress():
    first, second = Recorder(), Recorder()
    monitors = Callbacks(first, second)
    monitors.evaluation("a", 1, {"loss": 1.0}, best=True)
    monitors.message("hello")
    assert first.rows == second.rows == [("a", 1, {"loss": 1.0}, True)]
    assert first.messages == second.messages == ["hello"]
    assert list(monitors.progress([1], description="x")) == [1]
