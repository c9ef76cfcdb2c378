"""Ways to damage a run folder: systematically, by somebody who may also write the manifests anew."""

import json
import os
import pickle
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

Damage = Callable[[Path], None]
"""Changes a run folder."""
HOSTILE = (None, -1, 10**400, 1e308, True, "", "\x1b[2J\n", "../../etc/passwd", "A" * 100_000, [], {}, [[[[]]]])
"""Values that stand in the place of each value of a JSON file, one after the other."""


class Marker:
    """Unpickled, it makes a folder, by which code that ran is seen."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __reduce__(self) -> tuple:
        return os.mkdir, (self.folder,)


def damages(run: Path, marker: Path) -> Iterator[tuple[str, str, str, Damage]]:
    """Yield (kind, file, detail, damage) for every file of a run."""
    files = sorted(path.relative_to(run) for path in run.rglob("*") if path.is_file())
    for file in files:
        yield from bytes_of(run, file, marker)
        yield from in_place_of(file, files)
        if file.suffix == ".json":
            yield from values_of(run, file)
        if file.suffix in (".jsonl", ".csv", ".toml"):
            yield from lines_of(run, file)
        if file.suffix == ".safetensors":
            yield from tensors_of(run, file)
    for name in ("model/extra.bin", "model/__init__.py", "model/tokenizer.json.bak", "sitecustomize.py"):
        yield "added", name, "", lambda folder, name=name: write(folder / name, f"import os; os.mkdir({str(marker)!r})")
    for name in files:
        if name.parts[0] == "model" and name.name != "manifest.json":
            yield "unlisted", str(name), "", lambda folder, name=name: unlist(folder, name)


def bytes_of(run: Path, file: Path, marker: Path) -> Iterator[tuple[str, str, str, Damage]]:
    """Cut, flipped, appended, emptied and replaced bytes; links and folders under the name."""
    size = (run / file).stat().st_size
    for share in (0.0, 0.01, 0.5, 0.99):
        yield "cut", str(file), f"{share}", lambda folder, at=int(share * size): cut(folder / file, at)
    chance = random.Random(str(file))
    for number in range(8):
        place, bit = chance.randrange(max(1, size)), chance.randrange(8)
        yield "flipped", str(file), f"{number}", lambda folder, p=place, b=bit: flip(folder / file, p, b)
    yield "appended", str(file), "", lambda folder: write(folder / file, (folder / file).read_bytes() + b"\x00more")
    yield "doubled", str(file), "", lambda folder: write(folder / file, 2 * (folder / file).read_bytes())
    yield "removed", str(file), "", lambda folder: (folder / file).unlink()
    yield "pickle", str(file), "", lambda folder: write(folder / file, pickle.dumps(Marker(marker)))
    yield "zeros", str(file), "", lambda folder: write(folder / file, bytes(size))
    yield "no text", str(file), "", lambda folder: write(folder / file, random.Random(1).randbytes(max(size, 64)))
    yield "link", str(file), "", lambda folder: link(folder / file)
    yield "folder", str(file), "", lambda folder: into_folder(folder / file)


def in_place_of(file: Path, files: list[Path]) -> Iterator[tuple[str, str, str, Damage]]:
    """The contents of every other file."""
    for other in files:
        if other != file:
            yield (
                "swapped",
                str(file),
                str(other),
                lambda folder, o=other: write(folder / file, (folder / o).read_bytes()),
            )


def values_of(run: Path, file: Path) -> Iterator[tuple[str, str, str, Damage]]:
    """A hostile value in the place of each value."""
    for number, place in enumerate(places(json.loads((run / file).read_text()))):
        value = HOSTILE[number % len(HOSTILE)]
        yield (
            "value",
            str(file),
            "/".join(map(str, place)),
            lambda folder, p=place, v=value: replace(folder / file, p, v),
        )


def lines_of(run: Path, file: Path) -> Iterator[tuple[str, str, str, Damage]]:
    """Lines removed, repeated, exchanged; digits changed."""
    lines = (run / file).read_text().splitlines(keepends=True)
    for number in range(0, len(lines), max(1, len(lines) // 4)):
        without = [*lines[:number], *lines[number + 1 :]]
        yield "line removed", str(file), f"{number}", lambda folder, w=without: write(folder / file, "".join(w))
        changed = lines[number].translate(str.maketrans("0123456789", "9876543210"))
        other = [*lines[:number], changed, *lines[number + 1 :]]
        yield "digits", str(file), f"{number}", lambda folder, o=other: write(folder / file, "".join(o))


def tensors_of(run: Path, file: Path) -> Iterator[tuple[str, str, str, Damage]]:
    """Tensors that are not finite, zero, of another type, permuted, larger, missing."""
    changes = {
        "NaN": lambda t: t * torch.nan if t.is_floating_point() else t,
        "infinite": lambda t: t / 0 if t.is_floating_point() else t,
        "zero": torch.zeros_like,
        "half": lambda t: t.half(),
        "double": lambda t: t.double(),
        "whole": lambda t: t.long(),
        "turned round": lambda t: t.flip(0) if t.dim() else t,
        "negative": lambda t: -t,
        "larger": lambda t: torch.cat([t, t]) if t.dim() else t,
    }
    for name in load_file(run / file):
        for how, change in changes.items():
            yield "tensor", str(file), f"{name} {how}", lambda folder, n=name, c=change: retensor(folder / file, n, c)
        yield "tensor", str(file), f"{name} removed", lambda folder, n=name: retensor(folder / file, n, None)


# -- helpers ------------------------------------------------------------------------------------------------------


def places(value: object, path: tuple = ()) -> Iterator[tuple]:
    """The way to every value, through at most three items of each list."""
    inner = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*path, key)
        yield from places(each, (*path, key))


def replace(file: Path, place: tuple, value: object) -> None:
    """Write a value into a JSON file."""
    content = json.loads(file.read_text())
    inside = content
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    write(file, json.dumps(content))


def retensor(file: Path, name: str, change: Callable | None) -> None:
    """Change or remove a tensor."""
    tensors = {key: value.clone() for key, value in load_file(file).items()}
    if change is None:
        del tensors[name]
    else:
        tensors[name] = change(tensors[name]).clone().contiguous()
    file.unlink()
    save_file(tensors, file)


def write(file: Path, content: str | bytes) -> None:
    """Write a file, whatever is there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)


def cut(file: Path, size: int) -> None:
    """Shorten a file."""
    os.truncate(file, size)


def flip(file: Path, place: int, bit: int) -> None:
    """Change a bit."""
    content = bytearray(file.read_bytes())
    if content:
        content[place] ^= 1 << bit
    file.write_bytes(bytes(content))


def link(file: Path) -> None:
    """Replace a file by a link to a copy elsewhere."""
    elsewhere = file.parent.parent / f"elsewhere-{file.name}"
    file.rename(elsewhere)
    file.symlink_to(elsewhere.resolve())


def into_folder(file: Path) -> None:
    """Replace a file by a folder."""
    file.unlink()
    file.mkdir()


def unlist(folder: Path, name: Path) -> None:
    """Leave a file out of the manifest of the model."""
    file = folder / "model" / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["files"].pop(name.name, None)
    file.write_text(json.dumps(manifest))
