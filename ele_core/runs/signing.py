"""Sign a run with a key of the user's, and say which of its files were changed since."""

from __future__ import annotations

from pathlib import Path

from ele_core.errors import ModelError
from ele_core.files.archive import MANIFEST
from ele_core.files.signatures import SIGNATURE, sign, signed_files
from ele_core.files.signatures import changed as changed_since
from ele_core.model.files import read_header
from ele_core.model.pretrained import model_folder
from ele_core.runs.evaluations import FOLDER
from ele_core.runs.folder import CONFIG, DATA, IDENTITY, unfinished
from ele_core.runs.journal import METRICS, TIMES


def sign_run(folder: Path, key: bytes) -> list[Path]:
    """Sign the model of a run, its records and its evaluations so far, or a saved model; return the signatures."""
    if unfinished(folder):
        raise ModelError("this run has not finished.", where=str(folder), fix=f"Finish it with: ele resume {folder}")
    model = model_folder(folder)
    read_header(model)  # refuses a folder without a model
    sign(model, [MANIFEST], key)
    if model == folder:
        return [model / SIGNATURE]
    sign(folder, records_of(folder), key)
    return [model / SIGNATURE, folder / SIGNATURE]


def changed_since_signed(folder: Path, key: bytes) -> list[str]:
    """Return the records and evaluations of a run that were changed, added or removed since it was signed."""
    present = records_of(folder)
    gone = [name for name in signed_files(folder, key) if name not in present]
    return sorted([*changed_since(folder, present, key), *gone])


def records_of(folder: Path) -> list[str]:
    """The files of a run folder that are signed beside its model, relative to the folder."""
    measured = sorted(f"{FOLDER}/{file.name}" for file in (folder / FOLDER).glob("*.json"))
    names = (CONFIG, DATA, IDENTITY, METRICS, TIMES)
    return [*(name for name in names if (folder / name).is_file()), *measured]
