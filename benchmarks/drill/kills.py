"""Commands that are killed at random moments and started again: they must end with the same bytes and leave nothing."""

import json
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from common import SAME, Command, Journal, Launched, descendants, fresh, leftovers, trained

SMALL = [
    word
    for option in (
        "task.size=300",
        "task.validation=50",
        "task.test=50",
        "surrogate.dim=8",
        "surrogate.encoder.width=8",
        "surrogate.training.epochs=2",
        "regressor.backbone.embedding=4",
        "regressor.training.epochs=2",
        "decoder=candidates",
    )
    for word in ("--set", option)
]
TRAIN = ("train", "config.toml", "-o", "run", "--no-report", "-q")
RESUME = ("resume", "run", "--no-report", "-q")
EVERY = ("--checkpoint-every", 0)
SWEEP = ("--share", 0.5, "--share", 1, "--decoder", "candidates", "--decoder", "pgd", "--limit", 100)


class Case:
    """A command, whether it needs a trained run, the share of the kills that it gets, and what it must write."""

    def __init__(self, name: str, words: tuple, results: Callable[[Path], dict], share: int, *, processes: int = 1):
        self.name, self.words, self.results, self.share, self.processes = name, words, results, share, processes

    @property
    def trains(self) -> bool:
        """Whether the command itself makes the run."""
        return self.words[0] == "train"

    def place(self, work: Path, name: str) -> Path:
        """A folder in which the command can be given."""
        run = None if self.trains or self.words[0] == "tune" else trained(work)
        return fresh(work / "places" / name, run)

    def start(self, place: Path) -> Command:
        """Give the command, also after a kill."""
        if self.trains and (place / "run" / "config.toml").exists():
            return Command(place, *RESUME, *EVERY, "--processes", self.processes)
        return Command(place, *self.words)


class Restarted(Case):
    """A training in two processes of torchrun, which starts both again when one was killed."""

    def start(self, place: Path) -> Launched:
        """Start the launcher."""
        return Launched(place, *self.words)


def files(*names: str) -> Callable[[Path], dict]:
    """The bytes of files."""
    return lambda place: {name: (place / name).read_bytes().hex() for name in names}


def report_results(place: Path) -> dict:
    """A report without the number of inputs for which it had the time to rank candidates."""
    text = (place / "run/report.html").read_text()
    return {"report.html": re.sub(r"The first [\d,]+ of the inputs", "", text)}


def sweep_results(place: Path) -> dict:
    """The measurements of a sweep without their times."""
    text = (place / "run/sweep/sweep.json").read_text()
    return {"sweep.json": re.sub(r'"seconds": [\d.e-]+', "", text), **files("run/sweep/sweep.svg")(place)}


def tune_results(place: Path) -> dict:
    """The best options, and those and the score of every trial that counts."""
    text = (place / "best.toml").read_text()
    scores: dict[int, list] = {}
    for line in (place / "number-words-trials.journal").read_text().splitlines():
        entry = json.loads(line)
        if entry.get("values"):
            scores[entry["trial_id"]] = entry["values"]
    return {"best.toml": text, "scores": sorted(map(str, scores.values()))}


def cases() -> list[Case]:
    """All commands of the drill."""
    weights = files(*(f"run/{name}" for name in SAME))
    table = files("run/predictions/test-pgd.csv", "run/predictions/test-pgd.json")
    tune = ("tune", "number-words", "--space", "space.toml", "--trials", 3, *SMALL, "-q")
    return [
        Case("train, 1 process", (*TRAIN, *EVERY), weights, 60),
        Case("train, 2 processes", (*TRAIN, *EVERY, "--processes", 2), weights, 30, processes=2),
        Restarted("train, torchrun", (*TRAIN, *EVERY), weights, 20, processes=2),
        Case("evaluate", ("evaluate", "run", "--decoder", "pgd", "-q"), table, 25),
        Case(
            "predict", ("predict", "run", "inputs.txt", "--decoder", "pgd", "-o", "out.csv", "-q"), files("out.csv"), 25
        ),
        Case("sweep", ("sweep", "run", *SWEEP, "-q"), sweep_results, 20),
        Case("report", ("report", "run", "--limit", 40, "-q"), report_results, 20),
        Case("tune", tune, tune_results, 20),
    ]


def kill_all(work: Path, journal: Journal, kills: int) -> None:
    """Divide the kills among the commands, and kill each in turn, in rounds of up to four."""
    total = sum(case.share for case in cases())
    wanted = {case.name: max(1, round(kills * case.share / total)) for case in cases()}
    for number in range(1, 10 * kills):
        open_cases = [case for case in cases() if hits(journal, case) < wanted[case.name]]
        if not open_cases:
            return
        for case in open_cases:
            name, left = f"{case.name} {number}", wanted[case.name] - hits(journal, case)
            if not journal.has("kills", name) and left > 0:
                expected, seconds = undisturbed(case, work)
                journal.add("kills", name, **one_round(case, work, number, min(4, left), expected, seconds))


def hits(journal: Journal, case: Case) -> int:
    """The kills of a command so far."""
    return sum(each["kills"] for each in journal.of("kills") if each["command"] == case.name)


def undisturbed(case: Case, work: Path) -> tuple[dict, float]:
    """What the command writes if nothing happens, and how long it takes."""
    file = work / f"expected-{case.name.replace(' ', '-').replace(',', '')}.json"
    if not file.exists():
        place = case.place(work, "undisturbed")
        began = time.monotonic()
        ended = case.start(place)
        if ended.wait():
            raise SystemExit(f"{case.name}: {ended.said}")
        file.write_text(json.dumps([case.results(place), time.monotonic() - began]))
    expected, seconds = json.loads(file.read_text())
    return expected, seconds


def one_round(case: Case, work: Path, number: int, kills: int, expected: dict, seconds: float) -> dict:
    """Kill the command up to `kills` times, finish it, and compare."""
    chance = random.Random(f"{case.name} {number}")
    place = case.place(work, "killed")
    struck, ended = 0, case.start(place)
    while struck < kills and killed(ended, chance.uniform(0.05, 0.9) * seconds, chance):
        struck += 1
        if ended.returncode is not None:
            ended = case.start(place)
    same = ended.wait() == 0 and case.results(place) == expected
    problem = {} if ended.returncode == 0 else {"error": ended.said[-500:]}
    left = leftovers(place)
    return {"command": case.name, "kills": struck, "equal": same, "leftovers": left, **problem}


def killed(process: Command, delay: float, chance: random.Random) -> bool:
    """Kill a process after a delay; whether the kill came before its end."""
    try:
        process.wait(timeout=delay)
    except subprocess.TimeoutExpired:
        return process.kill(chance)
    return False


# -- SIGSTOP ------------------------------------------------------------------------------------------------------


def stop_all(work: Path, journal: Journal, stops: int) -> None:
    """Stop each command with SIGSTOP, let it go on with SIGCONT, and compare; of two processes one is stopped."""
    for case in cases():
        for number in range(stops):
            name = f"{case.name} {number}"
            if journal.has("stops", name):
                continue
            expected, seconds = undisturbed(case, work)
            place = case.place(work, "stopped")
            chance = random.Random(f"stop {name}")
            process = Command(place, *case.words)
            stopped = False
            for _ in range(3):
                time.sleep(chance.uniform(0.1, 0.4) * seconds)
                stopped |= pause(chance.choice(descendants(process.pid) or [process.pid]), chance.uniform(0.5, 2))
            same = process.wait() == 0 and case.results(place) == expected
            journal.add("stops", name, command=case.name, stopped=stopped, equal=same, leftovers=leftovers(place))


def pause(process: int, seconds: float) -> bool:
    """Stop a process for some seconds; whether it was still there."""
    try:
        os.kill(process, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(process, signal.SIGCONT)
    except ProcessLookupError:
        return False
    return True
