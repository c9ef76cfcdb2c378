"""What started this process: torchrun, Slurm's `srun`, Kubernetes or `ele` itself, by the variables that it sets."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, MutableMapping

from ele_core.errors import ConfigError

NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""The variables that describe a group of processes, by torchrun's names; Kubeflow's PyTorchJob sets the same."""
PORTS = range(20_000, 40_000)
"""Where the processes of a job of Slurm meet, by the number of the job and of the step."""


def group_size(variables: MutableMapping[str, str] = os.environ) -> int:
    """The number of processes that were started together; 1 if this one was started alone.

    What Slurm and Kubernetes say is added to `variables` by torchrun's names, unless these are set.
    """
    for name, value in {**of_slurm(variables), **of_kubernetes(variables)}.items():
        variables.setdefault(name, value)
    count = number(variables, "WORLD_SIZE", 1)
    if "RANK" not in variables or count == 1:
        return 1
    if missing := [name for name in NEEDED if not variables.get(name)]:
        what = f"RANK and WORLD_SIZE are set, but not {' and '.join(missing)}."
        raise ConfigError(what, where="environment", fix="Set them as torchrun does, or unset RANK to run alone.")
    if not 0 <= (rank := number(variables, "RANK", 0)) < count:
        what = f"RANK is {rank}, but WORLD_SIZE is {count}: ranks go from 0 to {count - 1}."
        raise ConfigError(what, where="environment")
    return count


def is_main(variables: MutableMapping[str, str] = os.environ) -> bool:
    """Whether this is the process that reads and writes the run folder, which others may not have on their disks."""
    return group_size(variables) == 1 or variables["RANK"] == "0"


def starts_again(variables: Mapping[str, str] = os.environ) -> bool:
    """Whether a run that this command finds begun is its own: torchrun or Slurm starts the same command again."""
    return any(number(variables, name, 0) > 0 for name in ("TORCHELASTIC_MAX_RESTARTS", "SLURM_RESTART_COUNT"))


def of_slurm(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of a task that `srun` started with others, by torchrun's names.

    SLURM_NTASKS does not tell: a batch script has it too, and is alone.
    """
    step = {name: variables.get(f"SLURM_{name}", "") for name in ("PROCID", "LOCALID", "STEP_NUM_TASKS")}
    nodes = variables.get("SLURM_STEP_NODELIST", "")
    if "RANK" in variables or not all(step.values()) or step["STEP_NUM_TASKS"] == "1" or not nodes:
        return {}
    place = 31 * number(variables, "SLURM_JOB_ID", 0) + number(variables, "SLURM_STEP_ID", 0)
    return {
        "RANK": step["PROCID"],
        "LOCAL_RANK": step["LOCALID"],
        "WORLD_SIZE": step["STEP_NUM_TASKS"],
        "MASTER_ADDR": first_node(nodes),
        "MASTER_PORT": str(PORTS[place % len(PORTS)]),
    }


def first_node(nodes: str) -> str:
    """The first of Slurm's list of nodes: `gpu07` of `gpu[07-09,12],cpu1`."""
    return re.sub(r"\[(\d+)[^\]]*\]", r"\1", nodes).partition(",")[0]


def of_kubernetes(variables: Mapping[str, str]) -> dict[str, str]:
    """The rank of a pod of an Indexed Job; its manifest sets WORLD_SIZE, MASTER_ADDR and MASTER_PORT itself."""
    index = variables.get("JOB_COMPLETION_INDEX", "")
    return {"RANK": index} if index and variables.get("WORLD_SIZE") else {}


def number(variables: Mapping[str, str], name: str, default: int) -> int:
    """The whole number that a variable holds; `default` if it is not set or empty."""
    value = variables.get(name) or str(default)
    if not value.isdecimal():
        raise ConfigError(f"{name} is {value!r}, not a whole number.", where="environment")
    return int(value)
