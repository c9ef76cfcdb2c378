"""Checkpoints: atomic, sealed, the one before the last kept, no pickle.

What a checkpoint holds is up to the work itself, which gives its state to `Work.step`: the training loop in
`components/training/optimise.py`, long work on many rows in `runtime/blockwise.py`.
"""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ele_core import __version__
from ele_core.errors import EleError, Interrupted, ModelError
from ele_core.files.archive import brief, read_json, read_tensors, save_tensors, seal, verify
from ele_core.files.atomic import new_folder, remove_unfinished, write_text
from ele_core.runtime.distributed import Processes
from ele_core.runtime.monitor import FileMonitor, Monitor
from ele_core.runtime.work import Snapshot, Stop, Work, as_bytes, from_bytes

FORMAT = 1
"""The layout of a checkpoint; a reader refuses any other."""
KEPT = 2
"""The number of checkpoints kept: the last, and the one before it in case the last is damaged."""
EVERY = 60.0
"""Seconds between two checkpoints."""
PAUSE = 50
"""The shortest pause between two saves, in durations of the last save: saving takes at most 2 % of the time."""
STATE, TENSORS = "state.json", "state.safetensors"


class Checkpoints(Work):
    """Work whose state is saved in a numbered folder, every `every` seconds and when it is asked to stop.

    All processes of a group make the same calls; only the main one writes.
    """

    def __init__(
        self,
        folder: Path,
        *,
        advice: str,
        every: float = EVERY,
        journal: FileMonitor | None = None,
        monitor: Monitor | None = None,
        processes: Processes | None = None,
        stop: Stop | None = None,
    ) -> None:
        self.folder = folder
        self.advice = advice
        self.every = every
        self.journal = journal
        self.monitor = monitor or Monitor()
        self.processes = processes or Processes()
        self.stop = stop or Stop()
        self.works: dict[str, Snapshot] = {}
        self.closed: set[str] = set()
        self.number = 0
        self.due = time.monotonic() + every

    # -- what stages call -----------------------------------------------------------------------------------------

    def saved(self, name: str) -> Snapshot | None:
        return self.works.get(name)

    def step(self, name: str, snapshot: Callable[[], Snapshot]) -> None:
        asked = self.processes.largest(self.stop.signal)
        if asked or self._due():
            self.keep(name, snapshot())
        self._rest(asked, name)

    def keep(self, name: str, snapshot: Snapshot) -> None:
        self.works[name] = snapshot
        self.save()

    def finish(self, name: str, snapshot: Callable[[], Snapshot], *, closes: bool = False) -> None:
        if closes:
            self.works = {key: value for key, value in self.works.items() if key in self.closed}
            self.closed.add(name)
        self.works[name] = dataclasses.replace(snapshot(), finished=True)
        asked = self.processes.largest(self.stop.signal)
        if asked or self._due():
            self.save()
        self._rest(asked, name)

    def _rest(self, asked: int, name: str) -> None:
        if asked:
            self.processes.wait()  # until the main process has written the checkpoint
            raise Interrupted(f"stopped during {name}, its state is kept.", signal=asked, fix=self.advice)

    # -- what a run calls -----------------------------------------------------------------------------------------

    def load(self) -> bool:
        """Load the last undamaged checkpoint; return whether there is one."""
        state, tensors, number = self._newest() if self.processes.main else (None, {}, 0)
        shared = self.processes.from_main({"state": as_bytes(state), **tensors})
        state = from_bytes(shared.pop("state"))
        self.number = self.processes.largest(number)
        if self.journal is not None:
            self.journal.restore(state["journal"] if state else {})
            self.spent = self.journal.seconds
        if state is None:
            return False
        for index, entry in enumerate(state["works"]):
            own = Snapshot(shared).part(str(index))
            self.works[entry["name"]] = Snapshot(own, entry["values"], entry["finished"])
        self.closed = set(state["closed"])
        return True

    @property
    def current(self) -> str:
        """The name of the unfinished work, or else of the work that finished last."""
        unfinished = [name for name, snapshot in self.works.items() if not snapshot.finished]
        return (unfinished or list(self.works) or ["the training"])[-1]

    def save(self) -> None:
        """Write a checkpoint now."""
        if not self.processes.main:
            return
        started = time.monotonic()
        try:
            self._write()
        except OSError as error:
            what = f"the checkpoint could not be written: {error.strerror or error}."
            kept = f"The last one, number {self.number}, is intact. " if self.number else ""
            raise ModelError(what, where=str(self.folder), fix=f"{kept}Make room. {self.advice}") from error
        self.due = time.monotonic() + max(self.every, PAUSE * (time.monotonic() - started) if self.every else 0)

    def clear(self) -> None:
        """Remove all checkpoints, because the work is finished and its result is stored elsewhere."""
        if self.processes.main:
            shutil.rmtree(self.folder, ignore_errors=True)

    # -- files ----------------------------------------------------------------------------------------------------

    def _due(self) -> bool:
        return self.processes.main and time.monotonic() >= self.due

    def _write(self) -> None:
        state = {
            "format": FORMAT,
            "ele": __version__,
            "works": [
                {"name": name, "finished": work.finished, "values": dict(work.values)}
                for name, work in self.works.items()
            ],
            "closed": sorted(self.closed),
            "journal": self.journal.state() if self.journal is not None else {},
        }
        tensors = {
            f"{index}.{name}": value
            for index, work in enumerate(self.works.values())
            for name, value in work.tensors.items()
        }
        with new_folder(self.folder / f"{self.number + 1:06d}") as target:
            write_text(target / STATE, json.dumps(state) + "\n")
            save_tensors(target / TENSORS, tensors)
            seal(target)
        self.number += 1
        for old in numbered(self.folder)[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)

    def _newest(self) -> tuple[dict[str, Any] | None, dict[str, Any], int]:
        """Read the last undamaged checkpoint; report and remove later ones, which are damaged."""
        remove_unfinished(self.folder, r"\d+")
        damaged: list[tuple[Path, EleError]] = []
        for folder in reversed(numbered(self.folder)):
            try:
                state, tensors = read(folder)
            except ModelError as error:
                damaged.append((folder, error))
                continue
            for useless, damage in damaged:
                self.monitor.message(f"{damage} The checkpoint before it is used.")
                shutil.rmtree(useless, ignore_errors=True)
            return state, tensors, int(folder.name)
        if damaged:
            what = f"no checkpoint can be read; the error of the last one is: {damaged[0][1]}"
            raise ModelError(what, where=str(self.folder), fix="Train again, in another folder.")
        return None, {}, 0


def numbered(folder: Path) -> list[Path]:
    """The checkpoints in a folder, oldest first."""
    found = (path for path in folder.glob("[0-9]*") if re.fullmatch(r"\d{6,9}", path.name, re.ASCII))
    return sorted(found, key=lambda path: int(path.name))


def read(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Check and read one checkpoint."""
    verify(folder)
    state = read_json(folder / STATE)
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        found = brief(state.get("format") if isinstance(state, dict) else None, 20)
        what = f"written in format {found}, this version reads format {FORMAT}."
        raise ModelError(what, where=str(folder), fix="Install the version of ELE that wrote it.")
    if not well_formed(state):
        raise ModelError("damaged: not the state of a training.", where=str(folder / STATE))
    return state, read_tensors(folder / TENSORS)


def well_formed(state: Mapping[str, Any]) -> bool:
    """Whether a state has the parts that `Checkpoints` writes, each of the right type."""
    kinds = {"works": list, "closed": list, "journal": dict}
    works = {"name": str, "finished": bool, "values": dict}
    return all(isinstance(state.get(key), kind) for key, kind in kinds.items()) and all(
        isinstance(work, dict) and all(isinstance(work.get(key), kind) for key, kind in works.items())
        for work in state["works"]
    )
