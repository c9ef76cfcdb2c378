"""What all parts of the drill share: the small run they work with, commands in processes, the journal of results."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tests" / "helpers"))
from commands import CONFIG, SAME  # noqa: F401  # the small run of the tests of kills and resumes, and its files

SPACE = '"regressor.backbone.width" = {choices = [4, 8]}\n'
INPUTS = "".join(f"{tens} {unit}\n" for tens in ("twenty", "forty", "ninety") for unit in ("one", "two", "six") * 12)
LONGEST = 1800
"""Seconds after which a command counts as hanging."""


class Journal:
    """The results so far, one line each, so that a drill that was stopped continues."""

    def __init__(self, file: Path) -> None:
        self.file = file
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
        self.results = [json.loads(line) for line in lines if line.endswith("}")]
        self.names = {(each["part"], each["name"]) for each in self.results}

    def has(self, part: str, name: str) -> bool:
        """Whether there is a result of this name."""
        return (part, name) in self.names

    def of(self, part: str) -> list[dict]:
        """The results of one part."""
        return [each for each in self.results if each["part"] == part]

    def add(self, part: str, name: str, **result) -> None:
        """Append a result; print it unless it is one of thousands."""
        self.results.append({"part": part, "name": name, **result})
        self.names.add((part, name))
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(self.results[-1]) + "\n")
        if part != "folders" or result["result"] not in ("refused", "named", "no effect"):
            print(part, name, json.dumps(result), flush=True)


def command(*words: object) -> list[str]:
    """`ele WORDS` in a process of this Python."""
    return [sys.executable, "-m", "ele_core", *map(str, words)]


def environment() -> dict[str, str]:
    """The environment of the commands: one thread, the tree that this drill is part of."""
    tree = str(Path(__file__).parents[2])
    path = os.pathsep.join([tree, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}


def ele(place: Path, *words: object, **options) -> subprocess.CompletedProcess:
    """Run a command in the folder `place` to its end."""
    settings = {"capture_output": True, "text": True, "check": False, "timeout": LONGEST}
    return subprocess.run(command(*words), cwd=place, env=environment(), **settings, **options)


class Command:
    """A command in a process of its own: a fork of this one, which has imported what all commands import.

    Most of the time of a short command is that of its imports; forked, it is struck where it works.
    """

    def __init__(self, place: Path, *words: object) -> None:
        import ele_core.cli
        import ele_core.report.comparison
        import ele_core.runs.run  # noqa: F401  # imported before the fork

        self.returncode: int | None = None
        self.errors = place / "errors.txt"
        self.pid = os.fork()
        if self.pid == 0:
            self._run(place, words)

    def _run(self, place: Path, words: tuple) -> None:
        from ele_core.cli import main

        code = 1
        try:
            os.setsid()
            os.chdir(place)
            os.environ.update(environment())
            os.dup2(os.open(os.devnull, os.O_RDWR), 1)
            os.dup2(os.open("errors.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
            sys.argv = ["ele", *map(str, words)]
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        finally:
            os._exit(code)

    def wait(self, timeout: float = LONGEST) -> int:
        """Wait for the end; `subprocess.TimeoutExpired` if it takes longer."""
        deadline = time.monotonic() + timeout
        while self.returncode is None:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self.returncode = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("ele", timeout)
            else:
                time.sleep(0.005)
        return self.returncode

    def kill(self, chance: random.Random) -> bool:
        """Kill it with SIGKILL, and wait until the processes that it started have ended."""
        children = descendants(self.pid)
        os.kill(self.pid, signal.SIGKILL)
        self.wait()
        wait_for_end(children)
        return True

    @property
    def said(self) -> str:
        """What it wrote to standard error."""
        return self.errors.read_text(errors="replace") if self.errors.exists() else ""


class Launched(Command):
    """A command in two processes of torchrun, which starts both again when one was killed."""

    def __init__(self, place: Path, *words: object) -> None:
        self.returncode = None
        self.errors = place / "errors.txt"
        torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "9")
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, *torchrun, "-m", "ele_core", *map(str, words)],
                cwd=place,
                env=environment(),
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
        self.pid = self.process.pid

    def wait(self, timeout: float = LONGEST) -> int:
        self.returncode = self.process.wait(timeout)
        return self.returncode

    def kill(self, chance: random.Random) -> bool:
        """Kill one of the two with SIGKILL; False if the launcher ends without any."""
        while self.process.poll() is None:
            if workers := descendants(self.pid):
                worker = chance.choice(workers)
                os.kill(worker, signal.SIGKILL)
                wait_for_end([worker])
                return True
        return False


def descendants(process: int) -> list[int]:
    """The processes that a process started, and those that they started."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(file.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == process:
            found += [int(file.parent.name), *descendants(int(file.parent.name))]
    return found


def wait_for_end(processes: list[int], longest: float = 60) -> None:
    """Wait for processes that are not ours to wait for."""
    deadline = time.monotonic() + longest
    while any(Path(f"/proc/{each}").exists() for each in processes) and time.monotonic() < deadline:
        time.sleep(0.05)


def fresh(place: Path, run: Path | None = None) -> Path:
    """An empty folder with the files that the commands read, and a copy of `run`."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for name, text in (("config.toml", CONFIG), ("space.toml", SPACE), ("inputs.txt", INPUTS)):
        (place / name).write_text(text)
    if run is not None:
        shutil.copytree(run, place / "run")
    return place


def trained(work: Path, processes: int = 1) -> Path:
    """A finished run, trained once for all parts of the drill."""
    place = work / f"trained-{processes}"
    if not (place / "run" / "model").is_dir():
        fresh(place)
        done = ele(place, "train", "config.toml", "-o", "run", "--no-report", "-q", "--processes", processes)
        if done.returncode:
            sys.exit(done.stderr)
    return place / "run"


def leftovers(place: Path) -> list[str]:
    """Temporary files and locks that a command should have removed."""
    patterns = (".*", "*.lock", "checkpoints")
    return sorted(str(path.relative_to(place)) for pattern in patterns for path in place.rglob(pattern))
