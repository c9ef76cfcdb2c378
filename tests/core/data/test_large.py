"""Files with more pairs than are kept in memory: a sample, all training pairs on disk, and training from them."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from recording import Memory, Stopped

from ele_core import config as configuration
from ele_core.data import large, store
from ele_core.data.large import StoredPairs
from ele_core.data.prepare import Prepared, prepare
from ele_core.data.summary import describe_data, summary
from ele_core.errors import DataError
from ele_core.model.train import assemble, training_data
from ele_core.runs.folder import training_pairs
from ele_core.runs.run import Run
from ele_core.runs.training import provenance
from ele_core.runtime.context import Context
from ele_core.runtime.work import learn
from ele_sequences.number_words import spell

PAIRS = [(spell(number), str(number)) for number in range(1, 401)]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ELE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 64 rows, read 16 at a time."""
    monkeypatch.setattr(large, "CHUNK", 16)
    monkeypatch.setattr(store, "CHUNK", 16)
    monkeypatch.setattr(store, "BLOCK", 64)


def written(folder: Path, pairs: list[tuple[str, str]] = PAIRS, name: str = "pairs.csv") -> Path:
    file = folder / name
    if name.endswith(("parquet", "arrow")):
        pa = pytest.importorskip("pyarrow")
        import pyarrow.feather
        import pyarrow.parquet

        table = pa.table({"x": [x for x, _ in pairs], "y": [y for _, y in pairs]})
        write = pyarrow.parquet.write_table if name.endswith("parquet") else pyarrow.feather.write_feather
        write(table, file)
        return file
    plain = file.with_suffix("") if name.endswith("gz") else file
    with plain.open("w", newline="") as stream:
        if "jsonl" in name:
            stream.writelines(f"{json.dumps({'x': x, 'y': y})}\n" for x, y in pairs)
        else:
            csv.writer(stream).writerows([("x", "y"), *pairs])
    if name.endswith("gz"):
        file.write_bytes(gzip.compress(plain.read_bytes()))
    return file


def loaded(file: Path, sections: dict[str, Any] | None = None, **data: Any) -> Prepared:
    options = {"file": str(file), "in_memory": 100, **data}
    given = {"output": "sequence", "data": options, **(sections or {})}
    return prepare(configuration.load(given), Context())


def stored_pairs(prepared: Prepared) -> list[tuple[str, str]]:
    found = prepared.data.stored
    assert isinstance(found, StoredPairs)
    return list(zip(prepared.inputs.unpack(found.inputs[:]), prepared.space.unpack(found.outputs[:]), strict=True))


def pairs_at(prepared: Prepared, *splits: str) -> list[tuple[str, str]]:
    rows = torch.cat([getattr(prepared.data, split) for split in splits])
    return list(zip(prepared.data.inputs_at(rows), prepared.space.unpack(prepared.data.outputs[rows]), strict=True))


HELD_OUT = "validation", "test", "calibration"


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "x.jsonl", "x.jsonl.gz", "x.parquet", "x.arrow"])
def test_every_pair_of_any_format_is_held_out_in_memory_or_on_disk_to_train_on(tmp_path, name):
    prepared = loaded(written(tmp_path, name=name))
    assert 60 < len(prepared.data) < 150
    on_disk, held_out = stored_pairs(prepared), pairs_at(prepared, *HELD_OUT)
    assert sorted([*on_disk, *held_out]) == sorted(PAIRS)
    assert set(pairs_at(prepared, "train")) <= set(on_disk)
    assert min(len(prepared.data.test), len(prepared.data.validation)) >= 5


def test_a_file_that_fits_is_read_as_a_whole(tmp_path):
    prepared = loaded(written(tmp_path), in_memory=400)
    assert prepared.data.stored is None
    assert len(prepared.data) == 400
    assert "stored" not in provenance(prepared.data)


def test_the_sample_is_spread_and_is_the_same_for_every_seed_while_the_split_is_not(tmp_path):
    file = written(tmp_path)
    one, other = (loaded(file, {"seed": seed}).data for seed in (0, 1))
    assert one.rows == other.rows
    assert set(one.test.tolist()) != set(other.test.tolist())
    assert one.rows is not None
    assert sum(row >= 200 for row in one.rows) > 25


def test_equal_pairs_of_the_file_are_not_on_both_sides(tmp_path):
    prepared = loaded(written(tmp_path, PAIRS * 3), in_memory=300)
    held_out = set(pairs_at(prepared, *HELD_OUT))
    assert held_out
    assert not held_out & set(stored_pairs(prepared))
    assert len(stored_pairs(prepared)) == 3 * (400 - len(held_out))


def test_with_any_truth_all_rows_of_a_held_out_input_are_left_out_of_the_training(tmp_path):
    several = [(x, y + last) for x, y in PAIRS for last in ("", "0", "1")]
    prepared = loaded(written(tmp_path, several), in_memory=300, any_truth=True)
    held_out = {x for x, _ in pairs_at(prepared, *HELD_OUT)}
    assert held_out
    assert {x for x, _ in stored_pairs(prepared)} == {x for x, _ in PAIRS} - held_out


def test_a_rare_label_and_the_longest_text_are_known_though_their_rows_are_far_from_all(tmp_path):
    rare = [(f"number {n}", str(n)) for n in range(3000)]
    rare[2501], rare[2702] = ("ångström", "7$"), ("a much longer input than any of the others", "1234567890123")
    prepared = loaded(written(tmp_path, rare))
    assert prepared.space.config.length == 13
    assert "$" in prepared.space.config.alphabet
    assert prepared.data.left_out == 0
    assert len(prepared.data) < 200


def test_bad_rows_are_fatal_with_file_row_and_line_or_counted_and_listed(tmp_path):
    bad = [*PAIRS[:300], ("", "5"), *PAIRS[300:], ("", "6")]
    file = written(tmp_path, bad)
    expected = r"row 301 \(line 302\): .*the text is empty"
    with pytest.raises(DataError, match=f"(?s)pairs.csv: .*{expected}.*--on-error skip.*data.in_memory"):
        loaded(file)
    for _ in range(2):  # packed, and opened again
        prepared = loaded(file, on_error="skip")
        assert prepared.data.left_out == 2
        assert [each.line for each in prepared.data.rejected] == [302, 403]
        assert sorted([*stored_pairs(prepared), *pairs_at(prepared, *HELD_OUT)]) == sorted(PAIRS)
        assert provenance(prepared.data)["stored"] == {"train": len(stored_pairs(prepared)), "left_out": 2}
        assert "2 rows left out" in summary(prepared)
        assert "left out     2 rows" in describe_data(prepared)
    with pytest.raises(DataError, match=f"(?s)2 rows cannot be used.*{expected}"):
        loaded(file)


def test_an_output_that_the_inferred_space_cannot_hold_is_a_bad_row(tmp_path):
    file = written(tmp_path, [*PAIRS, ("too long", "123456789")])
    with pytest.raises(DataError, match=r"(?s)row 401 \(line 402\): '123456789'"):
        loaded(file, {"output": {"name": "sequence", "length": 3}})


@pytest.mark.parametrize("name", ["x.csv", "x.parquet", "x.jsonl"])
def test_a_missing_column_is_named_with_those_that_there_are(tmp_path, name):
    with pytest.raises(DataError, match=rf"{name}: no column is called 'z'.* Columns: x, y"):
        loaded(written(tmp_path, name=name), input="z")


def test_plain_lines_have_no_named_columns(tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("a\n" * 300)
    with pytest.raises(DataError, match="this file has no named columns"):
        loaded(file, input="x")


@pytest.mark.parametrize("chosen", ["vector", "bits"])
def test_vectors_and_sets_of_different_sizes_are_packed(tmp_path, chosen):
    rows = [(" ".join(str((n >> bit) & 1) for bit in range(9)), str(n)) for n in range(1, 401)]
    prepared = loaded(written(tmp_path, rows), {"input": chosen})
    found = prepared.data.stored
    assert found is not None
    assert len(found) + sum(len(getattr(prepared.data, split)) for split in HELD_OUT) == 400
    again = [row for row in range(400) if rows[row][1] in prepared.space.unpack(found.outputs[:5])]
    packed, asked = found.inputs[:5], prepared.inputs.pack([prepared.inputs.parse(rows[row][0]) for row in again])
    assert torch.equal(prepared.inputs.features(packed).squares, prepared.inputs.features(asked).squares)


def sections() -> dict[str, Any]:
    """Everything that the default for a user's own texts trains step by step, small."""
    training = {"epochs": 1, "batch_size": 32, "evaluations": 1}
    backbone = {"name": "gru", "embedding": 4, "width": 8, "layers": 1}
    network = {"name": "neural", "backbone": backbone, "training": training}
    regressor = {
        "name": "joint",
        "loss": {"name": "stacked", "network": network, "kernel": {"name": "sketched-ridge", "sketch": {"size": 20}}},
        "writer": {"name": "writer", "backbone": backbone, "width": 8, "training": training},
        "blocks": {"name": "blocks", "backbone": backbone, "training": training},
    }
    surrogate = {"name": "contrastive", "dim": 8, "encoder": "flat", "spherical": False, "training": training}
    return {"surrogate": surrogate, "regressor": regressor, "decoder": "candidates"}


def learned(prepared: Prepared, work: Memory | None = None) -> dict[str, torch.Tensor]:
    """What the surrogate and the regressor learn from the pairs."""
    context = Context(3) if work is None else Context(3, work=work)
    model, data = assemble(prepared, context), training_data(prepared)
    learn(model.surrogate, "surrogate", data, context)
    learn(model.regressor, "regressor", data, context)
    parts = {"surrogate": model.surrogate.state(), "regressor": model.regressor.state()}
    return {f"{part}.{name}": value for part, state in parts.items() for name, value in state.items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.usefixtures("small_blocks")
def test_a_stopped_training_resumes_to_the_byte_in_every_part_and_never_asks_for_more_than_a_block(
    tmp_path, monkeypatch
):
    file = written(tmp_path)
    prepared = loaded(file, sections())
    assert prepared.data.stored is not None
    assert len(prepared.data.stored.inputs.blocks) > 4
    asked: list[int] = []
    original = store.Stored.__getitem__
    monkeypatch.setattr(
        store.Stored, "__getitem__", lambda source, rows: asked.append(len(found := original(source, rows))) or found
    )
    undisturbed = learned(prepared, work := Memory())
    assert 0 < max(asked) <= 64
    for stop in (5, work.steps // 2, work.steps - 5):
        first = Memory(stop_after=stop)
        with pytest.raises(Stopped):
            learned(prepared, first)
        assert same(undisturbed, learned(loaded(file, sections()), Memory(first.kept)))


def test_one_block_trains_as_the_same_pairs_in_memory(tmp_path):
    prepared = loaded(written(tmp_path), sections())
    found = prepared.data.stored
    assert found is not None
    inside = StoredPairs(found.inputs[:], found.outputs[:], found.store)
    kept = dataclasses.replace(prepared, data=dataclasses.replace(prepared.data, stored=inside))
    one, other = learned(prepared), learned(kept)
    assert one.keys() == other.keys()
    assert all(torch.allclose(one[name].float(), other[name].float(), atol=1e-4) for name in one)


def test_a_run_on_a_large_file_is_evaluated_in_the_same_split_and_has_the_sample_as_candidates(tmp_path, tiny):
    data = {"file": str(written(tmp_path)), "in_memory": 100}
    run = Run.start(
        configuration.load({"output": "sequence", "data": data, **tiny, "decoder": "candidates"}), tmp_path / "run"
    )
    known = run.data(Context()).data
    assert known.stored is not None
    assert run.evaluate().metrics["examples"] == len(known.test) > 0
    assert len(run.model().candidates) == len(known.train)
    assert training_pairs(run.provenance) == len(known.stored) > 300
    again = Run(tmp_path / "run").data(Context()).data
    assert again.test.tolist() == known.test.tolist()
    assert len(again.stored) == len(known.stored)
