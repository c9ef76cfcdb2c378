"""The three files of MOSES: in the wheel of the package `molsets`, in the package itself, or in a folder of CSVs."""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

from ele_core import DataError
from ele_graphs.molecules.cache import Source
from ele_graphs.molecules.sources import UNREADABLE, File, csv_files

FOLDERS = (".", "dataset/data", "moses/dataset/data")
"""Where the files are: in a folder of them, in the package, and in the wheel or the folder it was unpacked to."""
SUFFIXES = (".csv.gz", ".csv")
FIX = "Get it: pip download --no-deps molsets==0.3.1, then add --set task.path=molsets-0.3.1-py3-none-any.whl"


def moses(part: str, path: str | None = None) -> Source:
    """The SMILES of one part of MOSES: `train`, `test` or `test_scaffolds`.

    path: a wheel of molsets, its package, or a folder of CSV files; by default the installed package.
    """
    root = installed() if path is None else opened(at_home(path))
    return csv_files("MOSES", [find(root, part)], "SMILES")


def at_home(path: str) -> Path:
    """The path, with `~` read as the home folder if there is such a user."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def installed() -> Path:
    """The folder of the installed package, which is not imported: its dependencies are old."""
    specification = importlib.util.find_spec("moses")
    folders = (specification.submodule_search_locations if specification else None) or []
    if not folders:
        raise DataError("MOSES comes with the package molsets, which is not installed; its wheel is enough.", fix=FIX)
    return Path(folders[0])


def opened(path: Path) -> File:
    """A folder as it is, or the inside of a wheel."""
    if path.is_dir():
        return path
    if not path.exists():
        raise DataError("no such file or folder.", where=str(path), fix=FIX)
    try:
        return zipfile.Path(path)
    except UNREADABLE as error:
        what = f"not a folder, and cannot be read as a wheel: {error}."
        raise DataError(what, where=str(path), fix=FIX) from error


def find(root: File, part: str) -> File:
    """The file of one part in a folder or a wheel, compressed or not."""
    for folder in FOLDERS:
        for suffix in SUFFIXES:
            file = root / f"{part}{suffix}" if folder == "." else root / folder / f"{part}{suffix}"
            if file.is_file():
                return file
    raise DataError(f"holds no {part}.csv.gz and no {part}.csv.", where=str(root).rstrip("/"), fix=FIX)
