"""`ele predict` of a file in blocks: the same table as at once, in parts and shards, on after a stop."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re

import pytest

from ele_core.files.tables import read_table

BLOCK = 4
WORDS = ["one", "two", "", "four", "five", "six", "seven", "eight", "one " * 2000, "ten", "eleven"]
DECODER = ("--decoder", "candidates")


@pytest.fixture
def in_blocks(monkeypatch):
    """Files are read in blocks of four rows."""
    monkeypatch.setattr("ele_core.model.predict_file.CHUNK", BLOCK)


def inputs(suffix: str) -> bytes:
    """The words as a file, with a column before them."""
    if suffix == ".jsonl":
        extra = [{"late": number} if number > 2 * BLOCK else {} for number in range(len(WORDS))]
        rows = [
            {"n": number, "word": word, **more} for number, (word, more) in enumerate(zip(WORDS, extra, strict=True))
        ]
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerows([("n", "word"), *enumerate(WORDS)])
    plain = text.getvalue().encode()
    return gzip.compress(plain) if suffix == ".csv.gz" else plain


def rough(text: str) -> str:
    """A table with energies of three digits: the last of them depend on how many inputs a batch has."""
    return re.sub(r"\b\d+\.\d+\b", lambda found: f"{float(found[0]):.3g}", text)


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".jsonl"])
@pytest.mark.parametrize("options", [(), ("--on-error", "skip"), ("--top-k", "2"), ("--json",)])
def test_blocks_give_the_table_of_the_whole(ele, copy, tmp_path, monkeypatch, suffix, options):
    (tmp_path / f"words{suffix}").write_bytes(inputs(suffix))
    command = ["predict", copy, f"words{suffix}", "--input", "word", *DECODER, *options]
    whole = ele(*command)
    assert whole.code == 0, whole.err
    monkeypatch.setattr("ele_core.model.predict_file.CHUNK", BLOCK)
    parts = ele(*command)
    assert rough(parts.out) == rough(whole.out)
    assert not (copy / "checkpoints").exists()


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".npz"])
def test_binary_files_are_predicted_in_blocks_and_keep_their_types(ele, copy, tmp_path, monkeypatch, suffix):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    import numpy as np

    numbers = list(range(len(WORDS)))
    if suffix == ".npz":
        np.savez(tmp_path / "words.npz", n=np.array(numbers), word=np.array(WORDS))
    else:
        known = [None if number < BLOCK else number for number in numbers]  # no value in the whole first block
        table = pa.table({"n": numbers, "word": WORDS, "known": pa.array(known, pa.int64())})
        save = parquet.write_table if suffix == ".parquet" else pytest.importorskip("pyarrow.feather").write_feather
        save(table, tmp_path / f"words{suffix}")
    command = ["predict", copy, f"words{suffix}", "--input", "word", *DECODER]
    assert ele(*command, "-o", "whole.parquet").code == 0
    monkeypatch.setattr("ele_core.model.predict_file.CHUNK", BLOCK)
    assert ele(*command, "-o", "parts.parquet").code == 0
    whole, parts = (parquet.read_table(tmp_path / f"{name}.parquet") for name in ("whole", "parts"))
    assert parts.schema.equals(whole.schema)
    assert rough(str(parts.to_pylist())) == rough(str(whole.to_pylist()))
    assert parts.column("n").to_pylist() == numbers


@pytest.mark.usefixtures("in_blocks")
def test_shards_fill_a_folder_with_the_parts_of_the_file(ele, copy, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "words.csv").write_bytes(inputs(".csv"))
    command = ["predict", copy, "words.csv", "--input", "word", *DECODER]
    whole = read_table(str(tmp_path / "whole.csv")) if ele(*command, "-o", "whole.csv").code == 0 else None
    for shard in ("2/2", "1/2"):
        outcome = ele(*command, "-o", "parts/", "--shard", shard)
        assert (outcome.code, outcome.out) == (0, "")
        assert [int(part.stem[-8:]) % 2 for part in sorted((tmp_path / "parts").iterdir())].count(0) in (0, 2)
    parts = sorted((tmp_path / "parts").iterdir())
    assert [part.name for part in parts] == [f"part-{number:08d}.parquet" for number in range(3)]
    assert len({parquet.read_schema(part).remove_metadata() for part in parts}) == 1
    rows = [row for part in parts for row in parquet.read_table(part).to_pylist()]
    assert [row["prediction"] for row in rows] == whole.columns[3]
    one = ele(*command, "--shard", "3/3").out.splitlines()
    assert [line.split(",")[0] for line in one[1:]] == ["8", "9", "10"]
    assert ele(*command, "--shard", "9/9").out == "n,word,input,prediction,energy,status\n"


@pytest.mark.usefixtures("in_blocks")
def test_only_blocks_without_a_part_are_predicted_again(ele, copy, tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "words.csv").write_bytes(inputs(".csv"))
    command = ["predict", copy, "words.csv", "--input", "word", *DECODER, "-o", "parts/"]
    assert ele(*command).code == 0
    parts = sorted((tmp_path / "parts").iterdir())
    before = [(part.read_bytes(), part.stat().st_mtime_ns) for part in parts]
    parts[1].unlink()
    assert ele(*command).code == 0
    after = [(part.read_bytes(), part.stat().st_mtime_ns) for part in parts]
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False, True]
    assert after[1][0] == before[1][0]


@pytest.mark.usefixtures("in_blocks")
def test_a_folder_with_other_predictions_is_refused(ele, copy, tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "words.csv").write_bytes(inputs(".csv"))
    command = ["predict", copy, "words.csv", "--input", "word", *DECODER, "-o", "parts/"]
    assert ele(*command).code == 0
    for other in (["--top-k", "2"], ["--on-error", "skip"]):
        outcome = ele(*command, *other)
        assert outcome.code == 1
        assert "part-00000000.parquet: holds predictions of another model, file or command." in outcome.err
    (tmp_path / "words.csv").write_bytes(inputs(".csv") + b"11,twelve\n")
    assert ele(*command).code == 1


@pytest.mark.usefixtures("in_blocks")
def test_bad_rows_of_all_blocks_are_listed_with_their_lines_before_anything_is_predicted(ele, copy, tmp_path):
    (tmp_path / "words.csv").write_bytes(inputs(".csv"))
    outcome = ele("predict", copy, "words.csv", "--input", "word", "--on-error", "raise", "-o", "out.csv")
    assert outcome.code == 1
    assert "words.csv: 2 rows cannot be used" in outcome.err
    assert "row 3 (line 4): ''" in outcome.err
    assert "row 9 (line 10): 'one one" in outcome.err
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "a/b", "1/0"])
def test_a_shard_that_does_not_exist_is_refused(ele, copy, shard):
    outcome = ele("predict", copy, "-", "--shard", shard, stdin="one\n")
    assert outcome.code == 2
    assert "is not a shard. Write i/N with i from 1 to N, as in 2/8." in outcome.err


@pytest.mark.usefixtures("in_blocks")
def test_a_prediction_that_fails_goes_on_from_its_last_block(ele, copy, tmp_path, monkeypatch):
    import ele_core.model.predict_file as module

    (tmp_path / "words.csv").write_bytes(inputs(".csv"))
    command = ["predict", copy, "words.csv", "--input", "word", *DECODER, "-o", "out.csv"]
    assert ele(*command).code == 0
    whole = (tmp_path / "out.csv").read_text()
    (tmp_path / "out.csv").unlink()
    real, calls = module.predict_texts, []

    def counted(*args, **kwargs):
        calls.append(len(args[1]))
        if len(calls) == 2:
            raise OSError(28, "No space left on device", "disk")
        return real(*args, **kwargs)

    monkeypatch.setattr(module, "predict_texts", counted)
    assert ele(*command).code == 1
    assert not (tmp_path / "out.csv").exists()
    assert ele(*command).code == 0
    assert calls == [4, 4, 4, 3]
    assert (tmp_path / "out.csv").read_text() == whole
    assert not (copy / "checkpoints").exists()
