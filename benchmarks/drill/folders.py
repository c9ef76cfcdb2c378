"""Damaged and hostile run folders: everything that reads runs reads each, which must be refused, harmless or named."""

import contextlib
import itertools
import os
import resource
import shutil
import signal
from pathlib import Path

import torch
from common import Journal, ele, fresh
from damage import damages

from ele_core.errors import EleError
from ele_core.files.archive import seal
from ele_core.files.signatures import KEY
from ele_core.model.files import UNSEALED
from ele_core.model.predict import predict_texts
from ele_core.report.comparison import compare
from ele_core.runs.folder import seal_journal, sign_run
from ele_core.runs.run import Run
from ele_core.runtime.context import Context

SMALL = [
    word
    for option in ("task.size=300", "task.validation=40", "task.test=40", "decoder=candidates")
    for word in ("--set", option)
]
INPUTS = ["twenty one", "four hundred and six", "ninety"]
PATIENCE = 60
"""Seconds after which reading a folder counts as hanging."""
ROOM = 2 << 30
"""Bytes that reading a folder may allocate."""
WAYS = {"as it is": 1, "manifest anew": 1, "manifest anew, with a key": 5}
"""Whether the manifests are written anew after the damage, and whether the reader gives the key of the signature; and
which of the damages are done: every one, or every fifth."""


def folders_all(work: Path, journal: Journal) -> None:
    """Damage a run in every way, with the old manifests, with new ones, and with new ones if a key is given."""
    torch.set_num_threads(1)
    good, other, key = prepared(work)
    marker, expected = work / "code-ran", answers(good, other)
    for way, stride in WAYS.items():
        with keyed(key if way.endswith("a key") else None):
            for kind, file, detail, damage in itertools.islice(damages(good, marker), 0, None, stride):
                name = f"{way}: {kind} {file} {detail}"
                if not journal.has("folders", name):
                    shutil.rmtree(work / "damaged", ignore_errors=True)
                    folder = Path(shutil.copytree(good, work / "damaged" / "run"))
                    damage(folder)
                    if way != "as it is":
                        reseal(folder)
                    result = judged(folder, other, expected)
                    result = "code ran" if marker.exists() else result
                    journal.add("folders", name, way=way, kind=kind, file=file, **outcome(result))


def prepared(work: Path) -> tuple[Path, Path, Path]:
    """A small run that was evaluated and signed, a copy of it, and the key."""
    good, other, key = work / "good" / "run", work / "other", work / "key"
    if not other.is_dir():
        fresh(good.parent)
        ele(good.parent, "train", "config.toml", "-o", "run", "--no-report", "-q", *SMALL)
        ele(good.parent, "evaluate", "run", "-q")
        key.write_bytes(bytes(range(32)))
        sign_run(good, key.read_bytes())
        shutil.copytree(good, other)
    return good, other, key


def outcome(result: str) -> dict:
    """A result with the message apart."""
    what, _, message = result.partition(": ")
    return {"result": what, "message": message[:300]}


@contextlib.contextmanager
def keyed(key: Path | None):
    """In the block, a key is given."""
    if key is not None:
        os.environ[KEY] = str(key)
    try:
        yield
    finally:
        os.environ.pop(KEY, None)


def reseal(folder: Path) -> None:
    """Write the manifests anew, as somebody who means harm would; not if a folder makes it impossible."""
    with contextlib.suppress(Exception):
        seal(folder / "model", unsealed=UNSEALED)
    with contextlib.suppress(Exception):
        seal_journal(folder)


def judged(folder: Path, other: Path, expected: dict) -> str:
    """What came of reading a folder: refused, named, no effect, changed, or an error that is not ours."""
    with bounded():
        try:
            found = answers(folder, other)
        except EleError as error:
            message = str(error)
            return f"refused: {message}" if len(message) < 2000 else "error: a message of many lines"
        except MemoryError:
            return "error: memory"
        except Exception as error:  # what the drill looks for
            return f"error: {type(error).__name__}: {error}"
    if found.pop("warnings") != expected["warnings"]:
        return "named"
    same = all(found[name] == expected[name] for name in found)
    return "no effect" if same else "changed: " + ", ".join(name for name in found if found[name] != expected[name])


def answers(folder: Path, other: Path) -> dict:
    """All that is read from a run: predictions, the data with their split, a comparison with another run."""
    run = Run(folder)
    model = run.model(["decoder=candidates"])
    predicted = predict_texts(model, INPUTS, context=Context(0))
    data = run.data(Context(run.config.seed)).data
    compared = compare([folder, other])
    return {
        "predictions": str([list(each.items()) for _, each in predicted.numbered_rows(str)]),
        "split": str([rows.tolist() for rows in (data.train, data.validation, data.test)]),
        "comparison": str(compared.blocks),
        "warnings": list(compared.warnings),
    }


@contextlib.contextmanager
def bounded():
    """In the block, memory is bounded, and what takes too long raises."""

    def hangs(*_: object) -> None:
        raise TimeoutError(f"still reading after {PATIENCE} seconds")

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGALRM, hangs)
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, limits[1]))
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, limits)
