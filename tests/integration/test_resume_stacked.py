"""A stacked regressor that is killed and resumed, in any part, ends with the same bytes; so do two processes."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path

import pytest
from commands import assert_same, checkpoint, ele, ended, here, start, wait_for_checkpoint

CONFIG = """
seed = 3
task = {name = "number-words", size = 1200, validation = 100, test = 100}
[surrogate]
name = "parts"
dim = 16
[regressor]
name = "stacked"
kernel = {name = "sketched-ridge", kernel = "cosine", sketch = {size = 100}}
[regressor.network]
name = "neural"
backbone = {name = "gru", embedding = 8, layers = 1, width = 16, dropout = 0.1}
training = {epochs = 3, batch_size = 200, evaluations = 3}
[decoder]
name = "search"
[selection]
decoders = ["candidates", "search"]
pairs = 8
"""


@pytest.fixture(scope="module")
def stacked(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("stacked") / "run.toml"
    file.write_text(CONFIG)
    return file


@pytest.fixture(scope="module")
def undisturbed_stack(stacked) -> Path:
    done = here("train", stacked, "-o", stacked.parent / "undisturbed")
    assert done.returncode == 0, done.stderr
    assert "Chosen: " in done.stderr
    return stacked.parent / "undisturbed"


def works(run: Path) -> list[str]:
    """What the last checkpoint holds."""
    files = sorted((run / "checkpoints").glob("[0-9]*/state.json"))
    return [work["name"] for work in json.loads(files[-1].read_text())["works"]] if files else []


def test_a_stacked_training_that_is_killed_again_and_again_ends_with_the_same_bytes(
    stacked, undisturbed_stack, tmp_path
):
    run, chance, held = tmp_path / "run", random.Random(1), set()
    command = ["train", stacked, "-o", run]
    for _ in range(30):
        process = start(*command, "--checkpoint-every", 0)
        wait_for_checkpoint(run, checkpoint(run) + chance.randint(2, 5), process)
        process.kill()
        ended(process)
        held.update(works(run))
        command = ["resume", run]
        if (run / "model").is_dir():
            break
    assert held >= {"surrogate", "regressor network", "regressor kernel"}, "it was killed in each of its parts"
    assert here("resume", run).returncode == 0
    assert_same(undisturbed_stack, run)
    assert (run / "config.toml").read_bytes() == (undisturbed_stack / "config.toml").read_bytes()


def test_two_processes_stop_and_resume_a_stacked_training_to_the_same_bytes(stacked, tmp_path):
    undisturbed, run = tmp_path / "undisturbed", tmp_path / "run"
    done = ele("train", stacked, "-o", undisturbed, "--processes", 2)
    assert done.returncode == 0, done.stderr
    process = start("train", stacked, "-o", run, "--checkpoint-every", 0, "--processes", 2)
    wait_for_checkpoint(run, 6, process)
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 143
    done = ele("resume", run, "--processes", 2)
    assert done.returncode == 0, done.stderr
    assert_same(undisturbed, run)
    assert here("evaluate", run).returncode == 0
