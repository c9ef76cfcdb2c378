"""The variables of torchrun, Slurm and Kubernetes describe the same group; a nonsense value is named."""

from __future__ import annotations

import threading

import pytest
import torch.distributed as dist

from ele_core.errors import ConfigError
from ele_core.runtime.distributed import attempt
from ele_core.runtime.launchers import first_node, group_size, is_main, starts_again

TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "host", "MASTER_PORT": "29500"}
SRUN = {
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_NTASKS": "4",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_NODELIST": "gpu[07-08]",
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "0",
}


def test_a_process_without_a_launcher_is_alone():
    variables: dict[str, str] = {}
    assert group_size(variables) == 1
    assert is_main(variables)
    assert variables == {}


def test_torchrun_and_a_pytorchjob_are_understood():
    assert group_size(dict(TORCHRUN)) == 2
    assert not is_main(dict(TORCHRUN))
    assert is_main({**TORCHRUN, "RANK": "0"})


def test_the_tasks_of_a_step_of_slurm_are_a_group():
    variables = dict(SRUN)
    assert group_size(variables) == 4
    own = {name: variables[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR")}
    assert own == {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "gpu07"}
    other = {**SRUN, "SLURM_PROCID": "0"}
    assert group_size(other) == 4
    assert other["MASTER_PORT"] == variables["MASTER_PORT"]


def test_a_batch_script_of_slurm_is_alone():
    script = {name: value for name, value in SRUN.items() if "STEP" not in name}
    assert group_size(script) == 1


def test_torchrun_inside_of_a_step_of_slurm_decides():
    variables = {**SRUN, **TORCHRUN}
    assert group_size(variables) == 2
    assert variables["MASTER_ADDR"] == "host"


@pytest.mark.parametrize(
    ("nodes", "first"), [("a", "a"), ("a,b", "a"), ("gpu[07-09,12],cpu1", "gpu07"), ("r[1-2]n[3,5]", "r1n3")]
)
def test_the_first_node_of_a_list(nodes, first):
    assert first_node(nodes) == first


def test_the_pods_of_an_indexed_job_are_a_group():
    pod = {"JOB_COMPLETION_INDEX": "1", **{name: TORCHRUN[name] for name in TORCHRUN if name != "RANK"}}
    assert group_size(pod) == 2
    assert pod["RANK"] == "1"
    assert group_size({"JOB_COMPLETION_INDEX": "1"}) == 1


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"RANK": "0", "WORLD_SIZE": "2"}, "not MASTER_ADDR and MASTER_PORT"),
        ({**TORCHRUN, "RANK": "2"}, "RANK is 2, but WORLD_SIZE is 2"),
        ({**TORCHRUN, "RANK": "one"}, "RANK is 'one', not a whole number"),
        ({**TORCHRUN, "WORLD_SIZE": "-1"}, "WORLD_SIZE is '-1', not a whole number"),
    ],
)
def test_a_group_that_is_described_wrongly_is_refused(variables, message):
    with pytest.raises(ConfigError, match=message):
        group_size(variables)


def test_only_a_launcher_that_starts_commands_again_makes_them_continue():
    assert starts_again({"TORCHELASTIC_MAX_RESTARTS": "2"})
    assert starts_again({"SLURM_RESTART_COUNT": "1"})
    assert not starts_again({})
    assert not starts_again({"TORCHELASTIC_MAX_RESTARTS": "0"})


def test_processes_agree_on_an_attempt_whatever_earlier_ones_left_in_the_store():
    store = dist.HashStore()
    names = []
    for count in (3, 3, 2):  # the last time with another number
        store.set("ele/name/0", "of a process that was killed while it joined")
        found = [""] * count
        joining = [
            threading.Thread(
                target=lambda rank=rank, found=found: found.__setitem__(rank, attempt(store, rank, len(found)))
            )
            for rank in range(count)
        ]
        for thread in joining:
            thread.start()
        for thread in joining:
            thread.join(60)
        assert len(set(found)) == 1
        names.append(found[0])
    assert len(set(names)) == 3
    assert "" not in names
