"""A run that is killed or stopped and then resumed ends as if nothing had happened: same weights, same metrics."""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch
from commands import CONFIG, assert_same, checkpoint, ended, here, last_checkpoint, start, wait_for_checkpoint
from safetensors.torch import load_file

from ele_core.files.archive import seal
from ele_sequences.number_words import draw, spell


def killed_again_and_again(config: Path, run: Path, kills: int) -> int:
    """Train with a kill -9 after a random number of checkpoints, `kills` times, then to the end; how many hit."""
    chance = random.Random(kills)
    hits = 0
    command = ["train", config, "-o", run]
    for _ in range(kills):
        process = start(*command, "--checkpoint-every", 0)
        wait_for_checkpoint(run, checkpoint(run) + chance.randint(1, 10), process)
        time.sleep(chance.random() * 0.05)
        process.kill()
        hits += ended(process)[0] == -signal.SIGKILL
        if (run / "model").is_dir():
            break
        command = ["resume", run]
    done = here("resume", run)
    assert done.returncode == 0, done.stderr
    return hits


def stopped(config: Path, run: Path, number: signal.Signals) -> tuple[int, str]:
    """Train, send a signal after a few checkpoints, and wait for the end."""
    process = start("train", config, "-o", run, "--checkpoint-every", 0)
    wait_for_checkpoint(run, 12, process)
    process.send_signal(number)
    return ended(process)


@pytest.fixture(scope="module")
def stopped_once(config) -> Path:
    run = config.parent / "stopped"
    stopped(config, run, signal.SIGTERM)
    return run


@pytest.fixture
def stopped_run(stopped_once, tmp_path) -> Path:
    """A copy of a run that was stopped in its first stage."""
    return Path(shutil.copytree(stopped_once, tmp_path / "run"))


def test_a_run_that_is_killed_and_resumed_ends_as_if_nothing_had_happened(config, undisturbed, tmp_path):
    assert killed_again_and_again(config, tmp_path / "run", 3) == 3
    assert_same(undisturbed, tmp_path / "run")
    assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.slow
def test_twenty_kills_through_all_stages_change_no_byte(config, undisturbed, tmp_path):
    hits = 0
    for attempt in range(10):
        run = tmp_path / f"run-{attempt}"
        hits += killed_again_and_again(config, run, 20 - hits)
        assert_same(undisturbed, run)
        if hits == 20:
            break
    assert hits == 20


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_keeps_the_state_and_says_how_to_go_on(config, undisturbed, tmp_path, number, code):
    run = tmp_path / "run"
    returned, words = stopped(config, run, number)
    assert returned == code
    assert re.search(rf"Error: stopped during embedding.* Continue with: ele resume {re.escape(str(run))}", words)
    assert here("resume", run).returncode == 0
    assert_same(undisturbed, run)


def test_a_second_interrupt_stops_at_once(config, tmp_path):
    run = tmp_path / "run"
    long_step = ("surrogate.encoder.width=2000", "surrogate.encoder.layers=8", "surrogate.training.batch_size=2000")
    changes = [part for change in long_step for part in ("--set", change)]
    process = start("train", config, "-o", run, *changes)
    while not (run / "metrics.jsonl").exists():
        time.sleep(0.01)
    time.sleep(1)  # well into the first step, which takes many seconds
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    code, words = ended(process)
    assert code == 130
    assert "Error: stopped.\n" in words
    assert "its state is kept" not in words
    assert checkpoint(run) == 0


def test_an_unfinished_run_is_named_by_every_command(config, stopped_run):
    run = stopped_run
    for command in (["evaluate", run], ["predict", run, "-"]):
        done = here(*command, stdin="one\n")
        assert done.returncode == 1
        assert f"{run}: this run has not finished. Finish it with: ele resume {run}" in done.stderr
    again = here("train", config, "-o", run)
    assert again.returncode == 1
    assert "there is an unfinished run. Continue with: ele resume" in again.stderr


def test_a_training_that_may_be_started_again_continues_and_is_not_trained_twice(config, stopped_run, undisturbed):
    done = here("train", config, "-o", stopped_run, "--resume")
    assert done.returncode == 0, done.stderr
    assert_same(undisturbed, stopped_run)
    before = (stopped_run / "model" / "manifest.json").stat().st_mtime_ns
    again = here("train", config, "-o", stopped_run, "--resume")
    assert again.returncode == 0, again.stderr
    assert "this run has finished already, loading its model" in again.stderr
    assert (stopped_run / "model" / "manifest.json").stat().st_mtime_ns == before
    other = here("train", config, "-o", stopped_run, "--resume", "--seed", 4)
    assert other.returncode == 1
    assert "the configuration has changed: seed: 3 → 4." in other.stderr


def test_the_checkpoint_before_a_damaged_one_stays_after_the_next(stopped_run):
    number = checkpoint(stopped_run)
    (last_checkpoint(stopped_run) / "state.json").write_text("{")
    process = start("resume", stopped_run, "--checkpoint-every", 0)
    wait_for_checkpoint(stopped_run, number + 2, process)
    process.kill()
    ended(process)
    assert here("resume", stopped_run).returncode == 0


def test_two_trainings_that_begin_at_once_do_not_share_a_folder(config, tmp_path):
    processes = [start("train", config, "-o", tmp_path / "run") for _ in range(2)]
    ends = sorted(ended(process) for process in processes)
    assert [code for code, _ in ends] == [0, 1]
    assert re.search(r"(the folder is not empty|there is an unfinished run)", ends[1][1])
    assert here("evaluate", tmp_path / "run", "--decoder", "candidates").returncode == 0


def test_a_run_takes_over_the_loss_of_another_and_survives_a_kill(config, undisturbed, tmp_path):
    run = tmp_path / "run"
    options = ("--surrogate-from", undisturbed, "--set", "regressor.training.learning_rate=0.01")
    process = start("train", config, "-o", run, *options, "--checkpoint-every", 0)
    wait_for_checkpoint(run, 3, process)
    process.kill()
    ended(process)
    assert here("resume", run).returncode == 0
    stages = {json.loads(line)["stage"] for line in (run / "metrics.jsonl").read_text().splitlines()}
    assert stages == {"regression"}
    one, other = (load_file(folder / "model" / "model.safetensors") for folder in (undisturbed, run))
    same = [name for name in one if torch.equal(one[name], other[name])]
    assert {name.partition(".")[0] for name in same} == {"surrogate"}
    assert len(same) == len([name for name in one if name.startswith("surrogate.")])
    assert json.loads((run / "data.json").read_text())["surrogate_from"] == undisturbed.name


def test_a_run_that_starts_from_a_model_survives_a_kill(undisturbed, tmp_path):
    file, whole, run = tmp_path / "mine.csv", tmp_path / "whole", tmp_path / "run"
    file.write_text("x,y\n" + "".join(f"{spell(number)},{number}\n" for number in draw(150, seed=9)))
    command = ("train", file, "--from", undisturbed, "--set", "regressor.training.patience=none")
    assert here(*command, "-o", whole).returncode == 0
    process = start(*command, "-o", run, "--checkpoint-every", 0)
    wait_for_checkpoint(run, 7, process)
    process.kill()
    assert ended(process)[0] == -signal.SIGKILL
    assert here("resume", run).returncode == 0
    assert_same(whole, run)


def test_two_trainings_in_one_folder_the_second_is_refused(config, tmp_path):
    run = tmp_path / "run"
    first = start("train", config, "-o", run, "--checkpoint-every", "0", "--set", "surrogate.training.epochs=1000")
    wait_for_checkpoint(run, 2, first)
    second = here("resume", run)
    first.kill()
    ended(first)
    assert second.returncode == 1
    assert re.search(r"another process \(\d+\) is training here. Wait for it, or stop it first.", second.stderr)


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(stopped_run, undisturbed):
    file = last_checkpoint(stopped_run) / "state.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    done = here("resume", stopped_run)
    assert done.returncode == 0
    assert "state.safetensors: damaged" in done.stderr
    assert "The checkpoint before it is used." in done.stderr
    assert_same(undisturbed, stopped_run)


def test_a_run_whose_checkpoints_are_all_damaged_says_so(stopped_run):
    for file in (stopped_run / "checkpoints").glob("*/state.json"):
        file.write_text("{")
    done = here("resume", stopped_run)
    assert done.returncode == 1
    assert "no checkpoint can be read" in done.stderr
    assert "Train again, in another folder." in done.stderr


def test_a_checkpoint_of_a_newer_version_is_refused(stopped_run):
    for file in (stopped_run / "checkpoints").glob("*/state.json"):
        file.write_text(file.read_text().replace('"format": 1', '"format": 2', 1))
        seal(file.parent)
    done = here("resume", stopped_run)
    assert done.returncode == 1
    assert "written in format 2, this version reads format 1" in done.stderr


def test_a_run_stopped_before_its_first_checkpoint_begins_again(stopped_run, undisturbed):
    assert here("resume", without_checkpoints(stopped_run)).returncode == 0
    assert_same(undisturbed, stopped_run)


def without_checkpoints(run: Path) -> Path:
    for folder in (run / "checkpoints").glob("[0-9]*"):
        shutil.rmtree(folder)
    return run


def test_a_change_is_refused_also_before_the_first_checkpoint(stopped_run):
    done = here("resume", without_checkpoints(stopped_run), "--set", "surrogate.dim=8")
    assert done.returncode == 1
    assert "the configuration has changed: surrogate.dim: 16 → 8." in done.stderr


def test_a_changed_configuration_is_refused(stopped_run):
    done = here("resume", stopped_run, "--set", "surrogate.dim=8")
    assert done.returncode == 1
    assert "the configuration has changed: surrogate.dim: 16 → 8." in done.stderr


def test_options_of_training_can_change_if_that_is_accepted(stopped_run):
    change = ("--set", "regressor.training.learning_rate=0.01")
    refused = here("resume", stopped_run, *change)
    assert refused.returncode == 1
    assert "regressor.training.learning_rate: 0.003 → 0.01" in refused.stderr
    assert "--accept-changes" in refused.stderr
    done = here("resume", stopped_run, *change, "--accept-changes")
    assert done.returncode == 0
    assert "continuing although something has changed" in done.stderr
    assert "learning_rate = 0.01" in (stopped_run / "config.toml").read_text()


def test_changed_data_are_refused(tmp_path):
    pairs, run = tmp_path / "pairs.csv", tmp_path / "run"
    pairs.write_text("x,y\n" + "".join(f"word {n},{n}\n" for n in range(400)))
    config = tmp_path / "own.toml"
    config.write_text(
        CONFIG.replace('task = {name = "number-words", size = 2400, validation = 200, test = 200}', "")
        + f'[output]\nname = "sequence"\n[data]\nfile = "{pairs}"\n'
    )
    process = start("train", config, "-o", run, "--checkpoint-every", 0, "--set", "surrogate.training.epochs=1000")
    wait_for_checkpoint(run, 2, process)
    process.terminate()
    assert ended(process)[0] == 143
    pairs.write_text(pairs.read_text().replace("word 7,", "word seven,"))
    done = here("resume", run)
    assert done.returncode == 1
    assert "the data, or their split, have changed" in done.stderr


def test_a_finished_run_has_nothing_to_resume(undisturbed):
    before = {name: (undisturbed / name).read_bytes() for name in ("metrics.jsonl", "model/model.safetensors")}
    done = here("resume", undisturbed)
    assert done.returncode == 0
    assert "finished already" in done.stderr
    assert {name: (undisturbed / name).read_bytes() for name in before} == before
    assert "surrogate.dimm" in here("resume", undisturbed, "--set", "surrogate.dimm=8").stderr
    changed = here("resume", undisturbed, "--set", "surrogate.dim=8")
    assert changed.returncode == 1
    assert "this run has finished, its training options cannot change: surrogate.dim: 16 → 8." in changed.stderr


def test_a_killed_prediction_goes_on_without_repeating_a_finished_block(undisturbed, tmp_path):
    pytest.importorskip("pyarrow")
    words, parts = tmp_path / "words.txt", tmp_path / "parts"
    words.write_text("".join(f"{ten} {one}\n" for ten in ("twenty", "forty") for one in ("one", "two")) * 10_000)
    command = ["predict", undisturbed, words, "--decoder", "candidates"]
    process = start(*command, "-o", f"{parts}/")
    while not (parts / "part-00000001.parquet").exists():
        assert process.poll() is None
        time.sleep(0.002)
    process.kill()
    assert ended(process)[0] == -signal.SIGKILL
    before = {part: part.stat().st_mtime_ns for part in sorted(parts.glob("part-*"))}
    assert 2 <= len(before) < 5
    for target in (f"{parts}/", tmp_path / "whole.parquet"):
        assert here(*command, "-o", target).returncode == 0
    assert before == {part: part.stat().st_mtime_ns for part in before}
    found = [row for part in sorted(parts.iterdir()) for row in rows_of(part)]
    whole = rows_of(tmp_path / "whole.parquet")
    assert len(whole) == 40_000
    assert [{**row, "unlike_training": ""} for row in whole] == found


def rows_of(file: Path) -> list[dict[str, object]]:
    import pyarrow.parquet

    return pyarrow.parquet.read_table(file).to_pylist()


def test_a_folder_without_a_run_cannot_be_resumed(tmp_path):
    done = here("resume", tmp_path)
    assert done.returncode == 1
    assert "there is no run here" in done.stderr
