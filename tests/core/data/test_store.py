"""Extra outputs are packed once into blocks on disk: any format, bad rows, stops, and training from them."""

from __future__ import annotations

import csv
import errno
import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from recording import Memory, Recorder, Stopped

from ele_core import config as configuration
from ele_core.data import store
from ele_core.data.prepare import Prepared, prepare
from ele_core.data.store import StoredOutputs, cache_folder
from ele_core.errors import DataError, ModelError
from ele_core.files import shards
from ele_core.plugins import registry
from ele_core.runs.training import identity, provenance
from ele_core.runtime.context import Context
from ele_core.types import Pairs, TrainingData

OUTPUTS = sorted({str(number**2) for number in range(50)}, key=int)
"""Sorted, as files often are: the first are short, the last are long."""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ELE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of eight rows, read four at a time."""
    monkeypatch.setattr(store, "CHUNK", 4)
    monkeypatch.setattr(store, "BLOCK", 8)


def lines(folder: Path, outputs: list[str], name: str = "extra.txt") -> Path:
    file = folder / name
    file.write_text("".join(f"{output}\n" for output in outputs))
    return file


def loaded(folder: Path, extra: Path, on_error: str = "skip", monitor: Recorder | None = None) -> Prepared:
    file = folder / "pairs.csv"
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows([("x", "y"), *((f"number {n}", str(n**2)) for n in range(10, 50))])
    given = {"output": "sequence", "data": {"file": str(file), "extra": str(extra), "on_error": on_error}}
    return prepare(configuration.load(given), Context(monitor=monitor or Recorder()))


def opened(folder: Path, extra: Path, **options: Any) -> StoredOutputs:
    found = loaded(folder, extra, **options).data.extra
    assert isinstance(found, StoredOutputs)
    return found


def texts(outputs: StoredOutputs) -> list[str]:
    return outputs.space.unpack(outputs[:])


def stored() -> list[str]:
    return sorted(path.name for path in cache_folder().glob("outputs/*/*"))


@pytest.mark.parametrize(
    "name", ["x.txt", "x.txt.gz", "x.csv", "x.tsv", "x.jsonl", "x.jsonl.gz", "x.parquet", "x.arrow"]
)
def test_outputs_of_every_format_are_read(tmp_path, name):
    file = tmp_path / name
    if name.endswith(("parquet", "arrow")):
        pa = pytest.importorskip("pyarrow")
        import pyarrow.feather
        import pyarrow.parquet

        table = pa.table({"y": OUTPUTS, "other": [""] * len(OUTPUTS)})
        write = pyarrow.parquet.write_table if name.endswith("parquet") else pyarrow.feather.write_feather
        write(table, file)
    else:
        rows = [json.dumps({"y": each, "other": ""}) for each in OUTPUTS] if "jsonl" in name else OUTPUTS
        header = ["y"] if name.endswith("sv") else []
        text = "".join(f"{row}\n" for row in [*header, *rows])
        file.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    assert texts(opened(tmp_path, file)) == OUTPUTS


@pytest.mark.usefixtures("small_blocks")
def test_every_block_is_like_the_whole_and_any_rows_can_be_asked_for(tmp_path):
    found = opened(tmp_path, lines(tmp_path, OUTPUTS))
    assert len(found.blocks) == 8
    assert found.blocks[-1] == len(found) == 50
    whole = texts(found)
    assert sorted(whole, key=int) == OUTPUTS
    for first, end in zip(found.blocks, found.blocks[1:], strict=False):
        sizes = [int(text) for text in whole[first:end]]
        assert min(sizes) < 300
        assert max(sizes) > 1300
    rows = torch.tensor([40, 3, 3, 17, 0, 49])
    assert found.space.unpack(found[rows]) == [whole[row] for row in rows]
    assert [found.space.unpack(part) for part in found.chunks(9)] == [whole[at : at + 9] for at in range(0, 50, 9)]
    assert len(found[torch.arange(0)]) == 0


def test_a_file_is_parsed_once_and_again_if_it_or_the_space_changes(tmp_path, monkeypatch):
    read: list[int] = []
    original = store.read_outputs
    monkeypatch.setattr(
        store, "read_outputs", lambda space, cells, **rest: read.append(len(cells)) or original(space, cells, **rest)
    )
    file = lines(tmp_path, OUTPUTS)
    first = opened(tmp_path, file)
    assert texts(opened(tmp_path, file)) == texts(first)
    assert read == [50]
    assert len(opened(tmp_path, lines(tmp_path, OUTPUTS[:20]))) == 20
    config = configuration.load({"output": {"name": "sequence", "length": 9, "alphabet": list("0123456789")}})
    longer = registry().create("output", config.output)
    store.load_outputs(str(file), longer, "sequence", Context(), registry(), fatal=False)
    assert read == [50, 20, 20]


@pytest.mark.usefixtures("small_blocks")
def test_rows_that_cannot_be_used_are_counted_and_the_first_are_listed(tmp_path):
    file = lines(tmp_path, [*OUTPUTS[:10], "x", *OUTPUTS[10:20], "123456789", "y", "z"], "extra.csv")
    file.write_text("y\n" + file.read_text())
    for _ in range(2):  # packed, and opened again
        recorder = Recorder()
        assert len(opened(tmp_path, file, monitor=recorder)) == 20
        (told,) = (message for message in recorder.messages if "extra outputs" in message)
        assert told.startswith(f"{file}: 20 extra outputs, 4 left out\n  row 11 (line 12): 'x': ")
        assert told.endswith("\n  …")
        with pytest.raises(DataError, match=r"4 rows cannot be used:\n  row 11 \(line 12\): 'x'"):
            opened(tmp_path, file, on_error="raise")


@pytest.mark.usefixtures("small_blocks")
def test_fatal_rows_end_the_packing_early_and_what_was_packed_is_kept(tmp_path):
    file = lines(tmp_path, [*OUTPUTS[:10], "x", *OUTPUTS[10:], "y"])
    with pytest.raises(DataError, match=r"extra.txt: 1 row cannot be used:\n  row 11: 'x'"):
        opened(tmp_path, file, on_error="raise")
    assert stored() == ["block-00000.safetensors"]
    assert len(opened(tmp_path, file)) == 50


@pytest.mark.parametrize(("rows", "words"), [([], "there are no outputs"), (["x"], "no row is left")])
def test_a_file_without_a_usable_output_is_refused(tmp_path, rows, words):
    with pytest.raises(DataError, match=rf"extra.txt: .*{words}"):
        opened(tmp_path, lines(tmp_path, rows))


@pytest.mark.usefixtures("small_blocks")
def test_packing_that_was_stopped_is_never_taken_for_whole_and_is_continued(tmp_path, monkeypatch):
    file = lines(tmp_path, OUTPUTS)
    written: list[str] = []

    def stop(path, tensors):
        if len(written) == 2:
            path.with_name(f".{path.name}.unfinished").write_bytes(b"half")
            raise KeyboardInterrupt
        written.append(path.name)
        shards.write_shard(path, tensors)

    monkeypatch.setattr(store, "write_shard", stop)
    with pytest.raises(KeyboardInterrupt):
        opened(tmp_path, file)
    assert "summary.json" not in stored()
    monkeypatch.setattr(
        store, "write_shard", lambda path, tensors: written.append(path.name) or shards.write_shard(path, tensors)
    )
    assert sorted(texts(opened(tmp_path, file)), key=int) == OUTPUTS
    assert written == [f"block-{number:05}.safetensors" for number in range(7)], "none is written twice"


@pytest.mark.usefixtures("small_blocks")
def test_a_full_disk_is_one_message_and_what_was_packed_is_kept(tmp_path, monkeypatch):
    file = lines(tmp_path, OUTPUTS)

    def fill(path, tensors):
        if "block-00001" in path.name:
            path.write_bytes(b"half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        save(path, tensors)

    save = shards.save_tensors
    with monkeypatch.context() as patched:
        patched.setattr(shards, "save_tensors", fill)
        with pytest.raises(DataError, match=r"block-00001.safetensors: cannot be written: no space left.*ELE_CACHE"):
            opened(tmp_path, file)
    assert stored() == ["block-00000.safetensors"]
    assert len(opened(tmp_path, file)) == 50


@pytest.mark.usefixtures("small_blocks")
def test_a_block_that_is_damaged_or_missing_is_packed_again(tmp_path):
    file = lines(tmp_path, OUTPUTS)
    opened(tmp_path, file)
    first, second, *_ = sorted(cache_folder().glob("outputs/*/block-*"))
    first.unlink()
    second.write_bytes(second.read_bytes()[:-9])
    assert sorted(texts(opened(tmp_path, file)), key=int) == OUTPUTS
    whole = second.read_bytes()
    second.write_bytes(whole[:-20] + b"\x7f" * 20)
    with pytest.raises(ModelError, match=r"damaged: 'tokens' holds labels from 0 to 127.*Remove this folder"):
        texts(opened(tmp_path, file))


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch):
    file = lines(tmp_path, OUTPUTS)
    original = store.read_outputs
    monkeypatch.setattr(
        store, "read_outputs", lambda *args, **rest: lines(tmp_path, OUTPUTS[:9]) and original(*args, **rest)
    )
    with pytest.raises(DataError, match="the file changed while it was read"):
        opened(tmp_path, file)
    assert stored() == []


def test_a_run_records_the_digest_of_the_file_and_what_was_left_out(tmp_path):
    prepared = loaded(tmp_path, lines(tmp_path, [*OUTPUTS, "x"]))
    (known,) = {store.digest_of(str(tmp_path / "extra.txt"))}
    recorded = {"source": str(tmp_path / "extra.txt"), "fingerprint": known, "outputs": 50, "left_out": 1}
    assert provenance(prepared.data)["extra"] == recorded
    before = identity(prepared, Context())["extra"]
    other = loaded(tmp_path, lines(tmp_path, [*OUTPUTS[:-1], "2402", "x"]))
    assert before == [50, known] != identity(other, Context())["extra"]


def pretrained(prepared: Prepared, extra: Any, work: Memory | None = None, **options: Any) -> dict[str, torch.Tensor]:
    """The weights of a surrogate that is pre-trained on `extra`."""
    options |= {"pretraining_steps": 20, "training": {"epochs": 1, "batch_size": 4}, "dim": 4}
    torch.manual_seed(0)
    surrogate = registry().create("surrogate", {"name": "contrastive", **options}, prepared.space)
    data = prepared.data
    train, validation = (Pairs(prepared.packed[rows], data.outputs[rows]) for rows in (data.train, data.validation))
    context = Context(3) if work is None else Context(3, work=work)
    surrogate.fit(TrainingData(prepared.inputs, train, validation, extra), context)
    return surrogate.state()


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


def test_one_block_trains_as_the_same_outputs_in_memory(tmp_path):
    prepared = loaded(tmp_path, lines(tmp_path, OUTPUTS))
    assert same(pretrained(prepared, prepared.data.extra), pretrained(prepared, prepared.space.pack(OUTPUTS)))


@pytest.mark.parametrize("options", [{}, {"mining": {"group": 2, "refresh": 2}}])
@pytest.mark.usefixtures("small_blocks")
def test_a_stopped_pre_training_on_blocks_resumes_to_the_byte_and_reads_no_more_than_a_block(
    tmp_path, monkeypatch, options
):
    prepared = loaded(tmp_path, lines(tmp_path, OUTPUTS))
    undisturbed = pretrained(prepared, prepared.data.extra, **options)
    first = Memory(stop_after=9)
    with pytest.raises(Stopped):
        pretrained(prepared, prepared.data.extra, first, **options)
    read: list[int] = []
    monkeypatch.setattr(
        store,
        "read_rows",
        lambda file, names, start, end: read.append(end - start) or shards.read_rows(file, names, start, end),
    )
    again = opened(tmp_path, tmp_path / "extra.txt")
    assert same(undisturbed, pretrained(prepared, again, Memory(first.kept), **options))
    assert read
    assert all(sum(read[at : at + 7]) in (7, 8) for at in range(0, len(read), 7)), "a piece of each of 7 files"
