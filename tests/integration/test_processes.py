"""Several processes: the same gradient as one, the same bytes after a stop, a reason when one dies."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import PATIENCE, assert_same, checkpoint, ele, ended, start, wait_for_checkpoint

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


@pytest.fixture(scope="module")
def trained_by_two(config) -> subprocess.CompletedProcess[str]:
    """A training by two processes that was never stopped, with a report."""
    command = [sys.executable, "-m", "ele_core", "train", config, "-o", config.parent / "of-two", "--processes", "2"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def of_two(trained_by_two) -> Path:
    """Its run."""
    return Path(trained_by_two.args[trained_by_two.args.index("-o") + 1])


def members(launcher: int) -> list[int]:
    """The processes that another one has started."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    return [int(child) for child in children]


def all_gone(processes: list[int], within: float = 60) -> bool:
    """Whether these processes end within so many seconds."""
    deadline = time.monotonic() + within
    while any(Path(f"/proc/{process}/stat").exists() for process in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize("chunk", [(), (2,)], ids=["whole", "chunks"])
def test_one_contrastive_step_equals_that_of_the_joint_batch(chunk):
    count = 3  # shares of different sizes
    script = Path(__file__).parents[1] / "helpers" / "joint_step.py"
    done = ele(script, *chunk, launcher=[*TORCHRUN[:-1], str(count)])
    assert done.returncode == 0, done.stderr
    differences = [float(found) for found in re.findall(r"difference ([\d.]+e[+-]\d+)", done.stdout)]
    assert len(differences) == count
    assert max(differences) < 1e-5


def test_torchrun_gives_the_same_run_as_the_option(config, of_two, tmp_path):
    done = ele("train", config, "-o", tmp_path / "run", launcher=[*TORCHRUN, "-m", "ele_core"])
    assert done.returncode == 0, done.stderr
    assert_same(of_two, tmp_path / "run")


def test_a_signal_stops_all_at_the_same_step_and_the_run_goes_on_to_the_bit(config, of_two, tmp_path):
    run = tmp_path / "run"
    command = ("train", config, "-o", run)
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        process = start(*command, "--checkpoint-every", 0, "--processes", 2)
        wait_for_checkpoint(run, checkpoint(run) + 12, process)
        process.send_signal(number)
        returned, words = ended(process)
        assert returned == code
        assert words.count("Continue with: ele resume") == 1, words
        command = ("resume", run)
    done = ele("resume", run, "--processes", 2)
    assert done.returncode == 0, done.stderr
    assert_same(of_two, run)


def test_a_run_goes_on_with_another_number_of_processes_and_says_what_differs(config, tmp_path):
    run = tmp_path / "run"
    process = start("train", config, "-o", run, "--checkpoint-every", 0, "--processes", 2)
    wait_for_checkpoint(run, 5, process)
    process.terminate()
    assert ended(process)[0] == 143
    done = ele("resume", run)
    assert done.returncode == 0, done.stderr
    assert "processes: 2 → 1; the batches stay the same, but views" in done.stderr


def test_a_process_that_dies_ends_the_run_with_its_reason(config, tmp_path):
    run = tmp_path / "run"
    changes = ("--set", "surrogate.training.epochs=100000")
    process = start("train", config, "-o", run, "--checkpoint-every", 0, "--processes", 2, *changes)
    wait_for_checkpoint(run, 3, process)
    os.kill(members(process.pid)[1], signal.SIGKILL)
    code, words = ended(process)
    assert code == 137
    assert "process 1 of 2 was ended by SIGKILL" in words
    done = ele("resume", run, "--set", "surrogate.training.epochs=4", "--accept-changes", "--processes", 2)
    assert done.returncode == 0, done.stderr


def test_the_end_of_the_main_process_ends_the_others(config, tmp_path):
    run = tmp_path / "run"
    changes = ("--set", "surrogate.training.epochs=100000")
    process = start("train", config, "-o", run, "--checkpoint-every", 0, "--processes", 2, *changes)
    wait_for_checkpoint(run, 3, process)
    children = members(process.pid)
    os.kill(children[0], signal.SIGKILL)
    code, words = ended(process)
    assert code == 137
    assert "process 0 of 2 was ended by SIGKILL" in words
    assert all_gone(children)


def test_an_error_of_one_process_is_the_reason_that_all_give(tmp_path):
    script = tmp_path / "one_fails.py"
    script.write_text(
        "from ele_core.runtime.distributed import process_group\n"
        "from ele_core.errors import ProcessError\n"
        "try:\n"
        "    with process_group() as processes:\n"
        "        if processes.rank == 1:\n"
        "            raise ValueError('no such label')\n"
        "        processes.wait()\n"
        "except ProcessError as error:\n"
        "    print(error, flush=True)\n"
        "except ValueError:\n"
        "    pass\n"
    )
    done = ele(script, launcher=TORCHRUN)
    assert done.stdout == "process 0 of 2: process 1: ValueError: no such label\n", done.stderr


def test_an_error_of_all_processes_is_said_once(config, tmp_path):
    done = ele("train", config, "-o", tmp_path / "run", "--processes", 2, "--set", "surrogate.encoder.name=nothing")
    assert done.returncode != 0
    assert done.stderr.count("nothing") == 1, done.stderr


def test_processes_whose_parent_is_gone_stop_and_keep_their_state(config, of_two, tmp_path):
    run = tmp_path / "run"
    process = start("train", config, "-o", run, "--checkpoint-every", 0, "--processes", 2)
    wait_for_checkpoint(run, 5, process)
    children = members(process.pid)
    process.kill()
    ended(process)
    assert all_gone(children)
    assert not (run / "model").exists()
    assert ele("resume", run, "--processes", 2).returncode == 0
    assert_same(of_two, run)


def test_processes_in_the_middle_of_a_long_step_end_soon_after_their_parent(config, tmp_path):
    run = tmp_path / "run"
    long_step = ("surrogate.encoder.width=2000", "surrogate.encoder.layers=8", "surrogate.training.batch_size=2000")
    changes = [part for change in long_step for part in ("--set", change)]
    process = start("train", config, "-o", run, *changes, "--processes", 2)
    while not (run / "metrics.jsonl").exists():
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(1)  # well into the first step
    children = members(process.pid)
    process.kill()
    ended(process)
    assert len(children) == 2
    assert all_gone(children, within=12)


@pytest.mark.parametrize(
    ("name", "options"),
    [("pgd", ("--decoder", "pgd")), ("search-given-length", ("--decoder", "search", "--given", "length"))],
)
def test_decoding_is_shared_out_and_gives_the_same_predictions(of_two, name, options):
    tables = []
    for count in (1, 2):
        done = ele("evaluate", of_two, *options, "--again", "--processes", count)
        assert done.returncode == 0, done.stderr
        tables.append((of_two / "predictions" / f"test-{name}.csv").read_text())
    assert tables[0] == tables[1]


def test_several_processes_share_the_decoding_of_a_report_and_one_writes_it(trained_by_two, of_two):
    assert trained_by_two.stdout.count("Report: ") == 1
    assert (of_two / "report.html").is_file()
    assert "Warning" not in trained_by_two.stderr
