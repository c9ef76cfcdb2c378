"""Folders of JSON and safetensors files, sealed by a SHA-256 manifest; safe to read from untrusted sources.

Nothing in such a folder can make code run. Names, kinds and sizes of files are checked before they are opened, sizes
of tensors before anything is allocated.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ele_core.errors import ModelError, counted
from ele_core.files.atomic import write_text

MANIFEST = "manifest.json"
LARGEST_TEXT = 64 << 20
"""Maximum size of a JSON or TOML file, in bytes."""
DEEPEST = 64
"""Maximum depth of nested JSON: ours has a handful of levels, and the code that walks through it is recursive."""


def save_tensors(file: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write named tensors of any device, also if they share memory."""
    stored: dict[str, Tensor] = {}
    storages: set[int] = set()
    for name, tensor in tensors.items():
        value = tensor.detach().cpu().contiguous()
        if value.untyped_storage().data_ptr() in storages or value.untyped_storage().nbytes() > value.nbytes:
            value = value.clone()
        storages.add(value.untyped_storage().data_ptr())
        stored[name] = value
    try:
        save_file(stored, file)
        file.chmod(0o644)
    except SafetensorError as error:  # a full disk comes as the library's own error
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise OSError(f"{file}: {error}") from error
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(file)) from error


def seal(folder: Path, unsealed: Collection[str] = ()) -> None:
    """Write the manifest of all files in `folder` except those named `unsealed`."""
    write_manifest(folder, sorted(file for file in folder.iterdir() if file.name not in {*unsealed, MANIFEST}))


def write_manifest(folder: Path, files: Iterable[Path]) -> None:
    """Write the sizes and the SHA-256 of `files` to the manifest of `folder`."""
    entries = {file.name: {"bytes": file.stat().st_size, "sha256": digest(file)} for file in files}
    write_text(folder / MANIFEST, json.dumps({"files": entries}, indent=2) + "\n")


def verify(folder: Path, unsealed: Collection[str] = ()) -> None:
    """Refuse a folder whose files differ from its manifest; call it before parsing any of them.

    Files that are not listed are refused too, except hidden ones, which ELE does not read, and those named `unsealed`.
    """
    manifest = read_json(folder / MANIFEST)
    entries = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
        raise ModelError("not a manifest.", where=str(folder / MANIFEST))
    for name, entry in entries.items():
        if Path(name).name != name or name in ("", ".", "..") or brief(name, 255) != name:
            raise ModelError(f"names a file outside the folder, {brief(name)!r}.", where=str(folder / MANIFEST))
        file = folder / name
        size = regular(file).st_size
        if size != entry.get("bytes"):
            what = f"damaged: it has {counted(size, 'byte')}, and {brief(entry.get('bytes'))} were written."
            raise ModelError(what, where=str(file))
        if digest(file) != entry.get("sha256"):
            raise ModelError("damaged: its contents are not what was written.", where=str(file))
    for file in sorted(folder.iterdir()):
        if file.name not in {*entries, *unsealed, MANIFEST} and not file.name.startswith("."):
            fix = "Remove it if it is not part of the model."
            raise ModelError(f"not listed in {MANIFEST}.", where=brief(file), fix=fix)


def sealed(folder: Path, name: str) -> bool:
    """Whether the manifest of `folder` lists the file `name`."""
    manifest = read_json(folder / MANIFEST)
    return isinstance(manifest, dict) and name in manifest.get("files", {})


def digest(file: Path) -> str:
    """The SHA-256 of a plain file."""
    regular(file)
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"cannot be read: {error.strerror or error}.", where=str(file)) from None


def regular(file: Path) -> Any:
    """The status of a plain file; refuse links, pipes and devices, which may lead out of the folder or block."""
    try:
        status = file.lstat()
    except FileNotFoundError:
        raise ModelError("missing.", where=str(file)) from None
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot be read: {error}.", where=str(file)) from None
    if not stat.S_ISREG(status.st_mode):
        raise ModelError("not a plain file.", where=str(file), fix="Copy the folder with its files, not links to them.")
    return status


def brief(text: object, longest: int = 600) -> str:
    """Sanitise untrusted text for a message: one printable line, truncated."""
    line = " ".join(str(text)[: 2 * longest].split())
    shown = "".join(character if character.isprintable() else "\ufffd" for character in line)
    return shown if len(shown) <= longest else f"{shown[:longest]}…"


def read_text(file: Path, largest: int = LARGEST_TEXT) -> str:
    """Read a text file of at most `largest` bytes."""
    size = regular(file).st_size
    if size > largest:
        raise ModelError(f"damaged: {size:,} bytes are too many for this file.", where=str(file))
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"damaged: {error}.", where=str(file)) from None


def read_json(file: Path, largest: int = LARGEST_TEXT) -> Any:
    """Read a JSON file of at most `largest` bytes and `DEEPEST` levels."""
    text = read_text(file, largest)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"damaged: {brief(error)}.", where=str(file)) from None
    if deeper(value, DEEPEST):
        raise ModelError(f"damaged: more than {DEEPEST} tables or lists inside each other.", where=str(file))
    return value


def deeper(value: Any, levels: int) -> bool:
    """Whether dicts and lists are nested in more than `levels` levels; computed without recursion."""
    inside = [value]
    for _ in range(levels + 1):
        nested = [each for each in inside if isinstance(each, dict | list)]
        inside = [inner for each in nested for inner in (each.values() if isinstance(each, dict) else each)]
    return bool(inside)


def shapes_of(file: Path) -> dict[str, tuple[int, ...]]:
    """The names and shapes of the tensors in a safetensors file, from its header alone."""
    regular(file)
    try:
        with safe_open(file, framework="pt") as opened:
            return {name: tuple(opened.get_slice(name).get_shape()) for name in opened.keys()}  # noqa: SIM118  # no mapping
    except Exception as error:  # of the library, of the system, or of torch for a type of number that it has not
        raise ModelError(f"damaged: {brief(error)}.", where=str(file)) from None


def read_tensors(file: Path) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file; the library checks their sizes against that of the file."""
    regular(file)
    try:
        with safe_open(file, framework="pt") as opened:
            return {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118  # no mapping
    except Exception as error:  # of the library, of the system, or of torch for a type of number that it has not
        raise ModelError(f"damaged: {brief(error)}.", where=str(file)) from None


def check_shapes(file: Path, expected: Mapping[str, torch.Size]) -> None:
    """Refuse a file without tensors of the `expected` shapes; an empty shape is known only after `fit`."""
    found = shapes_of(file)
    for name, shape in expected.items():
        if shape.numel() and tuple(shape) != found.get(name):
            problem = f"has another shape for '{name}'" if name in found else f"has no '{name}'"
            raise ModelError(f"the weights do not fit the configuration: the file {problem}.", where=str(file))
