"""Folders made by somebody who means harm: loading one says in a sentence what is wrong, and does nothing else.

Every attack is made on a copy of a good folder, and the manifest is written anew after it, as an attacker would:
what is tested is the check behind the manifest. No attack may run code, hang, allocate absurdly or end in an error that
is not ours.
"""

from __future__ import annotations

import copy
import json
import os
import pickle
import random
import re
import resource
import shutil
import signal
import struct
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from ele_core import StructuredPredictor
from ele_core.components.inputs.vector import VectorInput
from ele_core.errors import EleError
from ele_core.files.archive import MANIFEST, seal
from ele_core.runs.measurements import changed, load_all
from ele_core.runs.run import Run
from ele_core.runtime.checkpoint import STATE, TENSORS, Checkpoints, read
from ele_core.runtime.context import Context
from ele_core.runtime.monitor import Monitor
from ele_core.runtime.work import Snapshot

ROOM = 1 << 30
"""Bytes that a load may allocate beyond what the process has: the models here have some kilobytes."""
PATIENCE = 60
"""Seconds after which a load counts as hanging."""

Attack = Callable[[Path], None]
"""Changes a folder, or a file."""


# -- what every test does -----------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def bounded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A test that hangs or allocates absurdly fails; it does not take the machine with it."""

    def hangs(*_: object) -> None:
        raise TimeoutError(f"still loading after {PATIENCE} seconds")

    monkeypatch.setattr(os, "fsync", lambda _: None)  # thousands of manifests are written, none to last
    before = signal.signal(signal.SIGALRM, hangs)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    if (statistics := Path("/proc/self/statm")).exists():  # elsewhere than on Linux the limit counts nothing
        used = int(statistics.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, limits[1]))
    signal.alarm(PATIENCE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.fixture
def run(trained_run: Path, tmp_path: Path) -> Path:
    """A finished run to attack."""
    return Path(shutil.copytree(trained_run, tmp_path / "run"))


@pytest.fixture
def model(trained_run: Path, tmp_path: Path) -> Path:
    """A saved model to attack."""
    return Path(shutil.copytree(trained_run / "model", tmp_path / "run" / "model"))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint to attack."""
    work = Checkpoints(tmp_path / "checkpoints", advice="")
    work.finish("embedding", lambda: Snapshot({"weights": torch.zeros(2, 2)}, {"step": 3}))
    work.save()
    return tmp_path / "checkpoints" / "000001"


def reseal(folder: Path) -> None:
    """The manifest of what is there now."""
    seal(folder, unsealed=["README.md"])


def refused(load: Callable[[], object], mention: str) -> None:
    """One of our errors, in a sentence or two that name the file or the option."""
    with pytest.raises(EleError) as caught:
        load()
    message = str(caught.value)
    assert mention in message
    assert len(message) < 1000
    assert "\n" not in message
    assert message.isprintable()


def load(folder: Path) -> StructuredPredictor:
    return StructuredPredictor.load(folder, device="cpu")


def table(attacks: dict[str, Any]) -> pytest.MarkDecorator:
    """Parametrise by the names of a table."""
    return pytest.mark.parametrize("attack", [pytest.param(attack, id=name) for name, attack in attacks.items()])


# -- pickles ------------------------------------------------------------------------------------------------------

SEALED = ["config.json", "model.safetensors", "candidates.safetensors", "tokenizer.json"]


class Payload:
    """Unpickled, it makes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


def raw_pickle(file: Path, marker: Path) -> None:
    file.write_bytes(pickle.dumps(Payload(marker)))


def torch_pickle(file: Path, marker: Path) -> None:
    torch.save({"surrogate": Payload(marker)}, file)


def old_torch_pickle(file: Path, marker: Path) -> None:
    torch.save({"surrogate": Payload(marker)}, file, _use_new_zipfile_serialization=False)


def zipped_pickle(file: Path, marker: Path) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.pkl", pickle.dumps(Payload(marker)))
        archive.writestr("zeros", bytes(1_000_000))


PICKLES = [raw_pickle, torch_pickle, old_torch_pickle, zipped_pickle]


@pytest.mark.parametrize("write", PICKLES)
def test_the_payload_is_live(write: Any, tmp_path: Path) -> None:
    """What the tests below find harmless does harm where it is unpickled."""
    write(tmp_path / "file", tmp_path / "marker")
    if write is zipped_pickle:
        pickle.loads(zipfile.ZipFile(tmp_path / "file").read("data.pkl"))
    elif write is raw_pickle:
        pickle.loads((tmp_path / "file").read_bytes())
    else:
        torch.load(tmp_path / "file", weights_only=False)
    assert (tmp_path / "marker").exists()


@pytest.mark.parametrize("name", [*SEALED, MANIFEST])
@pytest.mark.parametrize("write", PICKLES)
def test_a_pickle_under_a_name_of_ours_is_not_unpickled(model: Path, tmp_path: Path, name: str, write: Any) -> None:
    write(model / name, tmp_path / "marker")
    if name != MANIFEST:
        reseal(model)
    refused(lambda: load(model), name)
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("name", [STATE, TENSORS, MANIFEST])
@pytest.mark.parametrize("write", PICKLES)
def test_a_pickle_in_a_checkpoint_is_not_unpickled(checkpoint: Path, tmp_path: Path, name: str, write: Any) -> None:
    write(checkpoint / name, tmp_path / "marker")
    if name != MANIFEST:
        reseal(checkpoint)
    refused(lambda: read(checkpoint), name)
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("name", ["README.md", "data.pkl", "pytorch_model.bin", "__init__.py", "conftest.py"])
def test_a_file_that_is_none_of_ours_is_not_looked_at(model: Path, tmp_path: Path, name: str) -> None:
    raw_pickle(model / name, tmp_path / "marker")
    reseal(model)
    load(model)
    assert not (tmp_path / "marker").exists()


# -- tensors that are not there -----------------------------------------------------------------------------------


def tensor_file(header: Any, body: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file by hand: the length of the header, the header as JSON, the numbers."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + body


def tensor(shape: list[int], first: int, end: int, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [first, end]}


HEADERS = {
    "empty file": b"",
    "seven bytes": b"\x01" * 7,
    "no header": struct.pack("<Q", 0),
    "header of 90 MB in a tiny file": tensor_file({}, length=90 << 20),
    "header of 2^63 bytes": tensor_file({}, length=2**63),
    "header of 2^64 - 1 bytes": tensor_file({}, length=2**64 - 1),
    "header cut": tensor_file(b'{"x": {"dtype": "F32"'),
    "header is a list": tensor_file([1, 2, 3]),
    "header is no text": tensor_file(b"\xff\xfe{}"),
    "header nested 100,000 deep": tensor_file(b'{"x":' + b"[" * 100_000),
    "a terabyte": tensor_file({"x": tensor([250 * 10**9], 0, 10**12)}, bytes(4)),
    "numbers beyond the file": tensor_file({"x": tensor([100], 0, 400)}, bytes(4)),
    "numbers before the file": tensor_file({"x": tensor([1], -4, 0)}, bytes(4)),
    "end before start": tensor_file({"x": tensor([1], 4, 0)}, bytes(4)),
    "shape below zero": tensor_file({"x": tensor([-1, 4], 0, 4)}, bytes(4)),
    "shape that overflows": tensor_file({"x": tensor([2**62, 8], 0, 4)}, bytes(4)),
    "shape that overflows to nothing": tensor_file({"x": tensor([2**32, 2**32], 0, 0)}),
    "shape beyond 64 bits": tensor_file({"x": tensor([10**30], 0, 4)}, bytes(4)),
    "shape larger than its numbers": tensor_file({"x": tensor([1000, 1000], 0, 4)}, bytes(4)),
    "shape is a text": tensor_file({"x": tensor("1", 0, 4)}, bytes(4)),  # type: ignore[arg-type]
    "two tensors at one place": tensor_file({"x": tensor([1], 0, 4), "y": tensor([1], 0, 4)}, bytes(4)),
    "two tensors overlap": tensor_file({"x": tensor([2], 0, 8), "y": tensor([2], 4, 12)}, bytes(12)),
    "a hole": tensor_file({"x": tensor([1], 4, 8)}, bytes(8)),
    "more bytes than tensors": tensor_file({"x": tensor([1], 0, 4)}, bytes(400)),
    "unknown type": tensor_file({"x": tensor([1], 0, 4, "PICKLE")}, bytes(4)),
}


@table(HEADERS)
def test_a_header_that_lies_is_refused(model: Path, checkpoint: Path, attack: bytes) -> None:
    for name in ("candidates.safetensors", "model.safetensors"):
        (model / name).write_bytes(attack)
        reseal(model)
        refused(lambda: load(model), name)
    (checkpoint / TENSORS).write_bytes(attack)
    reseal(checkpoint)
    refused(lambda: read(checkpoint), TENSORS)


# -- weights and candidates of another model ----------------------------------------------------------------------


def tensors(name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Attack:
    """Changes the tensors of a file."""

    def attack(folder: Path) -> None:
        changed = change(load_file(folder / name))
        (folder / name).unlink()  # what was loaded is the file itself, mapped
        save_file(changed, folder / name)

    return attack


def candidates(**changes: Callable[[Any], Any]) -> Attack:
    """Changes the stored labels, or their embeddings."""
    names = {"tokens": "batch.tokens", "embeddings": "embeddings"}
    return tensors(
        "candidates.safetensors",
        lambda stored: stored | {names[key]: change(stored[names[key]]).clone() for key, change in changes.items()},
    )


CANDIDATES = {
    "no rows": candidates(tokens=lambda t: t[:0], embeddings=lambda e: e[:0]),
    "fewer embeddings": candidates(embeddings=lambda e: e[:-1]),
    "embeddings of another dimension": candidates(embeddings=lambda e: e[:, :3]),
    "embeddings without dimensions": candidates(embeddings=lambda _: torch.tensor(1.0)),
    "embeddings of three dimensions": candidates(embeddings=lambda e: e[:, :, None]),
    "embeddings NaN": candidates(embeddings=lambda e: e * torch.nan),
    "embeddings infinite": candidates(embeddings=lambda e: e / 0),
    "embeddings at infinite distances": candidates(embeddings=lambda e: torch.full_like(e, 3e38)),
    "one embedding at infinite distances": candidates(embeddings=lambda e: e.index_fill(0, torch.tensor([1]), 3e38)),
    **{
        f"embeddings {dtype}": candidates(embeddings=methodcaller("to", dtype))
        for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.bool, torch.float8_e4m3fn)
    },
    "label 127": candidates(tokens=lambda t: torch.full_like(t, 127)),
    "label -128": candidates(tokens=lambda t: torch.full_like(t, -128)),
    "one label beyond": candidates(
        tokens=lambda t: t.index_put((torch.tensor([0]), torch.tensor([0])), t.new_tensor(11))
    ),
    "label 2^62": candidates(tokens=lambda t: torch.full_like(t, 2**62, dtype=torch.int64)),
    "labels too short": candidates(tokens=lambda t: t[:, :-1]),
    "labels of no length": candidates(tokens=lambda t: t[:, :0]),
    "labels without dimensions": candidates(tokens=lambda _: torch.tensor(1)),
    "labels relaxed": candidates(tokens=lambda t: t[:, :, None].expand(-1, -1, 11)),
    **{
        f"labels {dtype}": candidates(tokens=methodcaller("to", dtype))
        for dtype in (torch.float32, torch.bool, torch.uint64, torch.complex64)
    },
    "another field": tensors(
        "candidates.safetensors", lambda t: {"batch.nodes": t["batch.tokens"], "embeddings": t["embeddings"]}
    ),
    "a name with terminal codes": tensors(
        "candidates.safetensors", lambda t: t | {"batch.\x1b[2J\n" + 5000 * "x": t["embeddings"].clone()}
    ),
    "nothing": tensors("candidates.safetensors", lambda _: {}),
}


@table(CANDIDATES)
def test_candidates_that_are_none_are_refused(model: Path, attack: Attack) -> None:
    attack(model)
    reseal(model)
    refused(lambda: load(model), "candidates.safetensors")


WEIGHTS = {
    "none": tensors("model.safetensors", lambda _: {}),
    "one missing": tensors("model.safetensors", lambda w: dict(list(w.items())[1:])),
    "another shape": tensors("model.safetensors", lambda w: w | {next(iter(w)): torch.zeros(3)}),
    "no numbers": tensors("model.safetensors", lambda w: {name: value[..., :0].clone() for name, value in w.items()}),
    "a name with terminal codes": tensors(
        "model.safetensors", lambda w: w | {"surrogate.\x1b[2J\n" + 5000 * "x": torch.zeros(1)}
    ),
}


@table(WEIGHTS)
def test_weights_of_another_model_are_refused(model: Path, attack: Attack) -> None:
    attack(model)
    reseal(model)
    refused(lambda: load(model), "model.safetensors")


# -- config.json --------------------------------------------------------------------------------------------------


def header(**changes: Any) -> Attack:
    """Changes the top of config.json."""

    def attack(folder: Path) -> None:
        found = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**found, **changes}))

    return attack


def option(path: str, value: Any) -> Attack:
    """Changes an option in config.json: `a.b.c`."""

    def attack(folder: Path) -> None:
        found = json.loads((folder / "config.json").read_text())
        put(found["config"], path.split("."), value)
        (folder / "config.json").write_text(json.dumps(found))

    return attack


def put(section: Any, keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        section = section[key]
    section[keys[-1]] = value


def content(name: str, data: bytes | str) -> Attack:
    """Other contents of a file."""

    def attack(folder: Path) -> None:
        (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)

    return attack


def sparse(name: str, size: int) -> Attack:
    """A file that says to be large and takes no room."""
    return lambda folder: os.truncate(folder / name, size)


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


IMPORTS = ["os:system", "os.system", "ele_core.cli:main", "ele_core.cli", "payload:Space", "payload", "antigravity"]
NOT_NAMES = [*IMPORTS, "../../x", "/bin/sh", "", "\x1b[2J\n", "x" * 100_000, "__class__", "sequence\x00"]
CHOICES = [
    "output",
    "input",
    "surrogate",
    "surrogate.encoder",
    "regressor",
    "regressor.backbone",
    "decoder",
    "task",
]
ABSURD: dict[str, list[Any]] = {
    "surrogate.dim": [10**9, 10**12, 2**63, 10**30, -1, 1.5, "many"],
    "surrogate.encoder.width": [10**9, 10**12, 10**30],
    "surrogate.encoder.layers": [10**9, 10**30, 1025],
    "surrogate.encoder.kernel": [10**9, 10**30, 2**31],
    "regressor.backbone.width": [10**9, 10**30],
    "regressor.backbone.embedding": [10**9, 10**30],
    "regressor.backbone.layers": [10**9, 10**30],
    "output.length": [10**9, 10**12, 10**30, 0, -1],
    "output.alphabet": [[], ["a", "a"], ["ab"], "x" * 100_000, [chr(i) for i in range(300, 50_000)]],
    "input.max_length": [10**12, -1],
    "output.edit_rate": [float("nan"), float("inf"), -float("inf"), 1e308],
    "surrogate.training.learning_rate": [float("nan"), -1],
    "seed": [-1, float("nan"), float("inf"), 1e400],
    "device": ["../cpu", "cuda:", "meta", "\x1b"],
    "candidates.share": [float("nan"), 0, 10**400],
}
CONFIGS = {
    **{
        f"{path} is {str(name)[:20]!r}": option(path if path == "task" else f"{path}.name", name)
        for path in CHOICES
        for name in (NOT_NAMES if path == "output" else IMPORTS[:5:2])
    },
    **{f"{path} = {str(value)[:20]}": option(path, value) for path, values in ABSURD.items() for value in values},
    "newer format": header(format=3),
    "older format": header(format=1),
    "format is a text": header(format="2"),
    "format is a yes": header(format=True),
    "format is a bomb": header(format=["x" * 100_000] * 10),
    "config is a list": header(config=[]),
    "config is nothing": header(config=None),
    "config is empty": header(config={}),
    "components are a list": header(config={}, components=[1]),
    "components are a bomb": header(
        config={}, components={str(i): {"distribution": "x" * 1000, "version": [i]} for i in range(1000)}
    ),
    "100,000 brackets": content("config.json", "[" * 100_000),
    "100,000 closed brackets": content("config.json", "[" * 100_000 + "]" * 100_000),
    "100,000 tables": content("config.json", '{"a":' * 100_000),
    "an option nested 900 deep": option("output.alphabet", nested(900)),
    "an option nested 300 deep": option("output.length", nested(300)),
    "an unknown option nested 60 deep": option("output.knot", nested(50)),
    "a number of a million digits": content("config.json", '{"format": ' + "9" * 10**6 + "}"),
    "a text of a megabyte": option("decoder.name", "x" * 10**6),
    "many unknown options": option("decoder", {"name": "pgd", **{f"x{i}": i for i in range(2000)}}),
    "no text": content("config.json", b"\xff\xfe\x00{}"),
    "half a character": content("config.json", b'{"format": "\xc3"}'),
    "empty": content("config.json", ""),
    "null": content("config.json", "null"),
    "NaN": content("config.json", "NaN"),
    "larger than any": sparse("config.json", 65 << 20),
    "a petabyte": sparse("config.json", 1 << 40),
}


@table(CONFIGS)
def test_a_hostile_configuration_is_refused(model: Path, attack: Attack) -> None:
    attack(model)
    if (model / "config.json").stat().st_size < 1 << 30:
        reseal(model)
    refused(lambda: load(model), "config")


def test_any_value_in_any_place_of_a_configuration_is_refused_or_harmless(model: Path) -> None:
    good = json.loads((model / "config.json").read_text())
    values: list[Any] = [None, [[]], 10**30, {"name": {}}]
    for path in paths(good["config"]):
        for value in values:
            bad = copy.deepcopy(good)
            put(bad["config"], path, value)
            (model / "config.json").write_text(json.dumps(bad))
            reseal(model)
            refused_or_harmless(lambda: load(model), f"{path} = {value}")


def paths(section: Any) -> list[list[str]]:
    """The way to every option of a configuration, and to every section."""
    if not isinstance(section, dict):
        return []
    return [[key, *rest] for key, inner in section.items() for rest in [[], *paths(inner)]]


def refused_or_harmless(load: Callable[[], object], what: str) -> None:
    """An error of ours, or none at all."""
    try:
        load()
    except EleError:
        pass
    except Exception as error:
        raise AssertionError(what) from error


@pytest.mark.parametrize("name", SEALED)
def test_any_damage_of_a_byte_is_refused_or_harmless(model: Path, name: str) -> None:
    """Where the manifest says that the damage is meant."""
    chance, good = random.Random(0), (model / name).read_bytes()
    for _ in range(30):
        bad, place = bytearray(good), chance.randrange(min(len(good), 1000))
        bad[place : place + chance.choice([0, 1, 1, 4])] = chance.randbytes(chance.choice([0, 1, 1, 4]))
        (model / name).unlink()
        (model / name).write_bytes(bad)
        reseal(model)
        refused_or_harmless(lambda: load(model), f"byte {place}: {bytes(bad[max(0, place - 20) : place + 20])!r}")


# -- what an input space stores -----------------------------------------------------------------------------------


def vocabulary(path: str, value: Any) -> Attack:
    """Changes tokenizer.json."""

    def attack(folder: Path) -> None:
        found = json.loads((folder / "tokenizer.json").read_text())
        put(found, path.split("."), value)
        (folder / "tokenizer.json").write_text(json.dumps(found))

    return attack


LENGTHS: list[Any] = [10**12, 10**30, 65537, 0, -1, None, "9", []]
VOCABULARIES = {
    **{f"max_length {n}": vocabulary("truncation.max_length", n) for n in LENGTHS},
    "no truncation": vocabulary("truncation", None),
    **{
        f"a {kind} tokenizer": vocabulary("model.type", kind)
        for kind in ("BPE", "Unigram", "WordPiece", "os.system", 1)
    },
    "no vocabulary": vocabulary("model.vocab", {}),
    "vocabulary is a list": vocabulary("model.vocab", ["<pad>", "<unk>"]),
    "vocabulary without special tokens": vocabulary("model.vocab", {"a": 0, "b": 1}),
    "a number far away": vocabulary("model.vocab.n", 10**9),
    "a number below zero": vocabulary("model.vocab.n", -1),
    "a number twice": vocabulary("model.vocab.n", 3),
    "numbers of mixed types": vocabulary("model.vocab.n", "2"),
    "half a surrogate pair": vocabulary("model.vocab", {"<pad>": 0, "<unk>": 1, "\ud800": 2}),
    "not JSON": content("tokenizer.json", "<pad>"),
    "a list": content("tokenizer.json", "[]"),
    "100,000 brackets": content("tokenizer.json", "[" * 100_000),
    "no text": content("tokenizer.json", b"\xff\xfe"),
    "larger than any": sparse("tokenizer.json", 65 << 20),
}


@table(VOCABULARIES)
def test_a_hostile_vocabulary_is_refused(model: Path, attack: Attack) -> None:
    attack(model)
    reseal(model)
    refused(lambda: load(model), "tokenizer.json")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("padding", {"strategy": {"Fixed": 10**12}, "direction": "Right", "pad_id": 0, "pad_token": "<pad>"}),
        ("normalizer", {"type": "Replace", "pattern": {"Regex": "(e*)*$"}, "content": "e" * 10**6}),
        ("pre_tokenizer", {"type": "Split", "pattern": {"Regex": "((a*)*)*b"}, "behavior": "Isolated"}),
        ("post_processor", {"type": "NoSuch"}),
        ("added_tokens", [{"id": 10**9, "content": "n", "special": True}]),
        ("decoder", "os.system"),
    ],
)
def test_machinery_in_a_vocabulary_is_not_built(model: Path, path: str, value: Any) -> None:
    """The library's format can hold more than a vocabulary; nothing of that is used."""
    text = ["seven hundred and twenty"]
    before = load(model).model_.inputs.pack(text)
    vocabulary(path, value)(model)
    reseal(model)
    after = load(model).model_.inputs.pack(text)
    assert all(
        torch.equal(old, new) for (_, old), (_, new) in zip(before.named_tensors(), after.named_tensors(), strict=True)
    )


SCALINGS = {
    "not JSON": "mean",
    "a list": "[]",
    "no deviation": '{"mean": [1]}',
    "empty": '{"mean": [], "deviation": []}',
    "other lengths": '{"mean": [1, 2], "deviation": [1]}',
    "a matrix": '{"mean": [[1]], "deviation": [[1]]}',
    "ragged": '{"mean": [[1], 2], "deviation": [1, 1]}',
    "a number": '{"mean": 1, "deviation": 1}',
    "texts": '{"mean": ["x"], "deviation": [1]}',
    "NaN": '{"mean": [NaN], "deviation": [1]}',
    "infinity": '{"mean": [0], "deviation": [Infinity]}',
    "null": '{"mean": [null], "deviation": [1]}',
    "zero deviation": '{"mean": [0], "deviation": [0]}',
    "deviation below zero": '{"mean": [0], "deviation": [-1]}',
    "a large number": '{"mean": [1' + "0" * 400 + '], "deviation": [1]}',
    "a table": '{"mean": {"a": 1}, "deviation": [1]}',
    "deep": '{"mean": ' + "[" * 1000 + "]" * 1000 + ', "deviation": [1]}',
    "100,000 brackets": "[" * 100_000,
}


@table(SCALINGS)
def test_a_hostile_scaling_is_refused(tmp_path: Path, attack: str) -> None:
    (tmp_path / "vector.json").write_text(attack)
    refused(lambda: VectorInput().load(tmp_path), "vector.json")


# -- files that are no files --------------------------------------------------------------------------------------


def outside(file: Path) -> Path:
    """The same contents at a place outside the folder."""
    place = file.parent.parent / f"outside-{file.name}"
    return Path(shutil.copy(file, place))


def linked(file: Path) -> None:
    target = outside(file)
    file.unlink()
    file.symlink_to(target)


def linked_upwards(file: Path) -> None:
    target = outside(file)
    file.unlink()
    file.symlink_to(Path("..") / target.name)


def linked_to(target: str) -> Attack:
    def attack(file: Path) -> None:
        file.unlink()
        file.symlink_to(target)

    return attack


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def folder_instead(file: Path) -> None:
    file.unlink()
    file.mkdir()


NO_FILES: dict[str, Attack] = {
    "a link outside": linked,
    "a link upwards": linked_upwards,
    "a link to a device": linked_to("/dev/zero"),
    "a link to itself": linked_to("config.json"),
    "a link to nowhere": linked_to("/nonexistent"),
    "a pipe": pipe,
    "a folder": folder_instead,
    "missing": Path.unlink,
}


@pytest.mark.parametrize("name", [*SEALED, MANIFEST])
@table(NO_FILES)
def test_what_is_no_plain_file_is_not_opened(model: Path, name: str, attack: Attack) -> None:
    attack(model / name)
    refused(lambda: load(model), name if name != "config.json" else str(model))


@pytest.mark.parametrize("name", [STATE, TENSORS, MANIFEST])
@table(NO_FILES)
def test_what_is_no_plain_file_in_a_checkpoint_is_not_opened(checkpoint: Path, name: str, attack: Attack) -> None:
    attack(checkpoint / name)
    refused(lambda: read(checkpoint), name)


@table({name: attack for name, attack in NO_FILES.items() if name != "missing"})
def test_what_is_no_plain_file_is_no_vocabulary_even_unsealed(model: Path, attack: Attack) -> None:
    (model / "tokenizer.json").rename(model.parent / "kept.json")
    reseal(model)
    (model.parent / "kept.json").rename(model / "tokenizer.json")
    attack(model / "tokenizer.json")
    refused(lambda: load(model), "tokenizer.json")


ENTRY = {"bytes": 1, "sha256": "0" * 64}
MANIFESTS = {
    **{
        f"names {name[:20]!r}": json.dumps({"files": {name: ENTRY}})
        for name in (
            "../../etc/passwd",
            "../outside",
            "/etc/passwd",
            "..",
            ".",
            "",
            "a/b",
            "./config.json",
            "x\x00y",
            "x\n\x1b[2J",
            "\ud800",
            "x" * 10_000,
        )
    },
    "names nothing that is there": json.dumps({"files": {"ghost": ENTRY}}),
    "a list": "[]",
    "files are a list": '{"files": ["config.json"]}',
    "no files": "{}",
    "an entry is a text": '{"files": {"config.json": "sha"}}',
    "an entry is empty": '{"files": {"config.json": {}}}',
    "sizes are tables": '{"files": {"config.json": {"bytes": {"a": "' + "x" * 5000 + '"}}}}',
    "100,000 brackets": "[" * 100_000,
    "empty": "",
}


@table(MANIFESTS)
def test_a_hostile_manifest_is_refused(model: Path, checkpoint: Path, attack: str) -> None:
    (model / MANIFEST).write_text(attack)
    refused(lambda: load(model), str(model))
    (checkpoint / MANIFEST).write_text(attack)
    refused(lambda: read(checkpoint), str(checkpoint))


# -- checkpoints --------------------------------------------------------------------------------------------------

STATES = {
    "newer format": '{"format": 2}',
    "format is a text": '{"format": "1"}',
    "format is a bomb": json.dumps({"format": "x" * 100_000}),
    "a list": "[]",
    "null": "null",
    "empty": "",
    "not JSON": "state",
    "100,000 brackets": "[" * 100_000,
    "nested 900 deep": json.dumps({"format": 1, "works": nested(900)}),
    "a number of a million digits": '{"format": ' + "1" * 10**6 + "}",
}


@table(STATES)
def test_a_hostile_state_is_refused(checkpoint: Path, attack: str) -> None:
    (checkpoint / STATE).write_text(attack)
    reseal(checkpoint)
    refused(lambda: read(checkpoint), str(checkpoint))


def test_a_state_larger_than_any_is_refused(checkpoint: Path) -> None:
    os.truncate(checkpoint / STATE, 65 << 20)
    reseal(checkpoint)
    refused(lambda: read(checkpoint), STATE)


# -- runs ---------------------------------------------------------------------------------------------------------

TABLES = {
    "empty": "",
    "not TOML": "[[[",
    "100,000 brackets": "a = " + "[" * 100_000,
    "100,000 tables": "a = " + "{a=" * 100_000,
    "a number of a million digits": "seed = " + "9" * 10**6,
    "a key of 1,000 parts": ".".join("a" * 1000) + " = 1",
    "a key said twice": "seed = 1\nseed = 2",
    "no such date": "seed = 2020-99-99",
    "no text": b"\xff\xfe",
    "zeros": bytes(10**6),
    "infinite share": 'output = "sequence"\n[candidates]\nshare = inf',
    "a seed of NaN": 'output = "sequence"\nseed = nan',
    "a device with a path": 'output = "sequence"\ndevice = "../cpu"',
    **{f"output {name!r}": f"output = {json.dumps(name)}" for name in IMPORTS},
    **{f"task {name!r}": f"task = {json.dumps(name)}" for name in IMPORTS},
    **{f"decoder {name!r}": f'task = "number-words"\ndecoder = {json.dumps(name)}' for name in IMPORTS},
}


@table(TABLES)
def test_a_hostile_configuration_of_a_run_is_refused(run: Path, attack: str | bytes) -> None:
    content("config.toml", attack)(run)
    with pytest.raises(EleError):
        Run(run).model()
    shutil.rmtree(run / "model")
    with pytest.raises(EleError):
        Run.resume(run, Monitor())


@table(NO_FILES)
def test_a_configuration_of_a_run_that_is_no_plain_file_is_not_opened(run: Path, attack: Attack) -> None:
    attack(run / "config.toml")
    refused(lambda: Run(run).model(), str(run))


@table({"a terabyte": 1 << 40, "65 MB": 65 << 20})
def test_a_configuration_of_a_run_larger_than_any_is_refused(run: Path, attack: int) -> None:
    os.truncate(run / "config.toml", attack)
    refused(lambda: Run(run).model(), "config.toml")


ROWS = {
    **{
        f"test = {str(rows)[:20]}": {"test": rows}
        for rows in ([10**6], [200], [-1], [10**30], ["1"], [[1]], [1.5], [None])
    },
    "test is a number": {"test": 3},
    "test is a table": {"test": {"0": 1}},
    "test is nothing": {"test": None},
    "train has strangers": {"train": [0, 10**9]},
    "validation below zero": {"validation": [-201]},
    "another fingerprint": {"fingerprint": [1]},
}


@table(ROWS)
def test_hostile_rows_of_a_run_are_refused(run: Path, attack: dict[str, Any]) -> None:
    good = json.loads((run / "data.json").read_text())
    (run / "data.json").write_text(json.dumps(good | attack))
    context = Context(0, torch.device("cpu"), Monitor())
    refused(lambda: Run(run).data(context), "data.json" if "fingerprint" not in attack else str(run))


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", "[" * 100_000, '{"train": ' + "9" * 10**5 + "}"])
def test_hostile_data_of_a_run_are_refused(run: Path, text: str) -> None:
    (run / "data.json").write_text(text)
    context = Context(0, torch.device("cpu"), Monitor())
    refused(lambda: Run(run).data(context), "data.json")


@table(NO_FILES)
def test_data_of_a_run_that_are_no_plain_file_are_not_opened(run: Path, attack: Attack) -> None:
    attack(run / "data.json")
    refused(lambda: Run(run).data(Context(0, torch.device("cpu"), Monitor())), "data.json")


NOWHERE = ("missing", "a link to nowhere", "a link to itself")
"""The attacks after which nothing has the name."""


@pytest.mark.parametrize("suffix", [".csv", ".json"])
@table({name: attack for name, attack in NO_FILES.items() if name not in NOWHERE})
def test_an_evaluation_that_is_no_plain_file_is_not_opened(run: Path, suffix: str, attack: Attack) -> None:
    Run(run).evaluate(limit=2, overrides=["decoder=candidates"])
    file = (run / "predictions" / "test-candidates").with_suffix(suffix)
    attack(file)
    refused(lambda: load_all(run), file.name)
    refused(lambda: changed(run), file.name)


# -- what a load does besides -------------------------------------------------------------------------------------


def on(name: str, attack: Attack) -> Attack:
    """An attack on one file of a folder."""
    return lambda folder: attack(folder / name)


def then_sealed(attack: Attack) -> Attack:
    """An attack, and the manifest that goes with it."""

    def sealed(folder: Path) -> None:
        attack(folder)
        reseal(folder)

    return sealed


PAYLOAD = """
import pathlib
pathlib.Path("marker").touch()
class Space: ...
"""
WATCHED = """
import json, sys
from pathlib import Path
from ele_core import StructuredPredictor
from ele_core.errors import EleError
from ele_core.plugins import registry

def load(folder):
    try:
        StructuredPredictor.load(folder, device="cpu")
        return "loaded"
    except EleError:
        return "refused"
    except Exception as error:
        return repr(error)

def watch(event, arguments):
    if event not in ("builtins.id", "object.__getattr__", "sys._getframe"):
        events.append([event, *map(str, arguments[:2])])

good, *hostile = sorted(Path("folders").glob("*/model"), key=lambda folder: int(folder.parent.name))
assert load(good) == "loaded"
registry().get("encoder", "flat")  # installed, and named by no file but by default
events = []
sys.addaudithook(watch)
outcomes = [load(folder) for folder in hostile]
print(json.dumps([outcomes, events]))
"""


def test_a_hostile_folder_makes_python_do_nothing_but_read_its_files(
    trained_run: Path, run_python: Any, tmp_path: Path
) -> None:
    """In a process of its own that records what Python does, with a module at hand that waits to be imported."""
    (tmp_path / "payload.py").write_text(PAYLOAD)
    attacks = [option(path if path == "task" else f"{path}.name", name) for path in CHOICES for name in IMPORTS[2::2]]
    attacks += [each for some in (VOCABULARIES, WEIGHTS, CANDIDATES) for each in list(some.values())[::6]]
    attacks += [on(name, partial(write, marker=tmp_path / "marker")) for write in PICKLES for name in SEALED]
    attacks = [then_sealed(attack) for attack in attacks]
    attacks += [content(MANIFEST, text) for text in MANIFESTS.values()]
    attacks += [on(name, attack) for attack in NO_FILES.values() for name in SEALED[:2]]
    for number, attack in enumerate([reseal, *attacks]):
        folder = Path(shutil.copytree(trained_run / "model", tmp_path / "folders" / str(number) / "model"))
        attack(folder)
    outcomes, events = json.loads(run_python("-c", WATCHED).stdout)
    assert set(outcomes) == {"refused"}
    assert not (tmp_path / "marker").exists()
    own = re.compile(
        r"folders/\d+/model/(config|manifest|tokenizer|seen-texts)\.json|folders/\d+/model/\w+\.safetensors"
    )
    for event, subject, *mode in events:
        if event == "os.listdir":  # for files that the manifest does not list
            assert re.fullmatch(r"folders/\d+/model", subject), subject
            continue
        assert (event, *mode) in {("open", "r"), ("open", "rb")}, (event, subject)
        assert own.fullmatch(subject), subject


# -- changed by somebody who also wrote the manifest anew -----------------------------------------------------------


def spoilt(value: float) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Sets one number of the last matrix of the regressor."""

    def change(weights: dict[str, Any]) -> dict[str, Any]:
        name = [name for name, weight in weights.items() if name.startswith("regressor.") and weight.dim() == 2][-1]
        weights[name] = weights[name].clone()
        weights[name][-1, -1] = value
        return weights

    return change


CHANGED = {
    "NaN": tensors("model.safetensors", spoilt(float("nan"))),
    "infinity": tensors("model.safetensors", spoilt(float("inf"))),
    **{
        f"all {dtype}": tensors("model.safetensors", lambda w, to=dtype: {n: v.to(to) for n, v in w.items()})
        for dtype in (torch.bfloat16, torch.float64, torch.int32, torch.float8_e4m3fn)
    },
    **{
        f"the {part} zeroed": tensors(
            "model.safetensors",
            lambda w, part=part: {n: torch.zeros_like(v) if n.startswith(part) else v for n, v in w.items()},
        )
        for part in ("surrogate.", "regressor.")
    },
}


@table(CHANGED)
def test_weights_that_no_training_leaves_are_refused(model: Path, attack: Attack) -> None:
    attack(model)
    reseal(model)
    refused(lambda: load(model), "model.safetensors: damaged")


PERMUTED = {
    "shuffled": candidates(embeddings=lambda e: e[torch.randperm(len(e), generator=torch.Generator().manual_seed(1))]),
    "turned round": candidates(embeddings=lambda e: e.flip(0)),
    "rotated by one": candidates(embeddings=lambda e: e.roll(1, 0)),
    "all alike": candidates(embeddings=lambda e: e[:1].expand_as(e)),
    "longer": candidates(embeddings=lambda e: 1.5 * e),
    "mirrored": candidates(embeddings=lambda e: -e),
    "structures exchanged": candidates(tokens=lambda t: t.flip(0)),
}


@table(PERMUTED)
def test_candidates_with_the_embeddings_of_others_are_refused(model: Path, attack: Attack) -> None:
    attack(model)
    reseal(model)
    refused(lambda: load(model), "candidates.safetensors: damaged: the embeddings are not those that the model gives")


def test_another_surrogate_than_that_of_the_candidates_is_refused(model: Path) -> None:
    tensors("model.safetensors", lambda w: {n: v * 3 if n.startswith("surrogate.") else v for n, v in w.items()})(model)
    reseal(model)
    refused(lambda: load(model), "candidates.safetensors: damaged: the embeddings are not those")


@pytest.mark.parametrize("name", ["candidates.safetensors", "config.json", "tokenizer.json", "model.safetensors"])
def test_a_file_that_the_manifest_leaves_out_is_refused(model: Path, name: str) -> None:
    manifest = json.loads((model / MANIFEST).read_text())
    del manifest["files"][name]
    (model / MANIFEST).write_text(json.dumps(manifest))
    refused(lambda: load(model), f"{name}: not listed in manifest.json")


@pytest.mark.parametrize("name", ["README.md", "signature.json", ".DS_Store", "checkpoints/key.lock"])
def test_what_belongs_to_no_model_but_may_lie_beside_it_is_accepted(model: Path, name: str) -> None:
    (model / name).parent.mkdir(exist_ok=True)
    (model / name).write_text("{}")
    load(model)
