"""Disks that are full or read-only: a sentence, and once there is room the same command ends with the same bytes."""

import resource
import subprocess
from pathlib import Path

from common import Journal, ele, leftovers
from kills import cases, undisturbed

LIMITS = (100, 2_000, 20_000)
"""Bytes of the largest file that may be written."""


def disk_all(work: Path, journal: Journal) -> None:
    """Every command with files that may not grow, and, if we may mount, on a full and on a read-only file system."""
    alone = [case for case in cases() if case.processes == 1]
    for limit in LIMITS:
        for case in alone:
            name = f"{case.name}, files of at most {limit:,} bytes"
            if not journal.has("disk", name):
                expected, _ = undisturbed(case, work)
                place = case.place(work, "full")
                journal.add("disk", name, command=case.name, **limited(case, place, limit, expected))
    for kind in ("full", "read-only"):
        for case in alone:
            name = f"{case.name}, {kind} file system"
            if not journal.has("disk", name):
                found = mounted(case, work, kind, undisturbed(case, work)[0])
                if found is not None:
                    journal.add("disk", name, command=case.name, **found)


def limited(case, place: Path, limit: int, expected: dict) -> dict:
    """Give the command with files of limited size, then without."""

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return judged(case, place, ele(place, *case.words, preexec_fn=small), expected)


def mounted(case, work: Path, kind: str, expected: dict) -> dict | None:
    """Give the command on a file system in memory without room, then with room; None if nothing can be mounted."""
    source, place = case.place(work, "source"), work / "mounted"
    place.mkdir(exist_ok=True)
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], capture_output=True, check=False).returncode:
        return None
    try:
        subprocess.run(["cp", "-r", f"{source}/.", place], check=True)
        used = int(subprocess.run(["du", "-sk", place], capture_output=True, text=True, check=True).stdout.split()[0])
        options = f"remount,size={used + 8}k" if kind == "full" else "remount,ro"
        subprocess.run(["mount", "-o", options, place], check=True)
        failed = ele(place, *case.words)
        subprocess.run(["mount", "-o", "remount,rw,size=1g", place], check=True)
        return judged(case, place, failed, expected)
    finally:
        subprocess.run(["umount", place], check=True)


def judged(case, place: Path, failed: subprocess.CompletedProcess, expected: dict) -> dict:
    """Whether a failure was one sentence, and what the same command writes once there is room."""
    last = (failed.stderr.strip().splitlines() or [""])[-1]
    bare = "Errno" in failed.stderr or "Traceback" in failed.stderr
    sentence = not bare and (failed.returncode == 0 or last.startswith("Error: "))
    again = ele(place, *case.again(place)) if failed.returncode else failed
    same = again.returncode == 0 and case.results(place) == expected
    problem = {} if same else {"error": again.stderr[-500:]}
    return {
        "failed": failed.returncode != 0,
        "sentence": sentence,
        "said": last[:300] if not sentence else "",
        "equal": same,
        "leftovers": leftovers(place),
        **problem,
    }
