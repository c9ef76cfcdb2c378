"""`ele index`: what is found by it, how a build continues, and what is refused."""

import dataclasses
import errno
import json
import os
import shutil

import pytest
import torch
from ele_command import fails, table

from ele_core import Context, Problem
from ele_core.components.decoders.candidates import nearest
from ele_core.data import objects
from ele_core.errors import ModelError
from ele_core.files import shards
from ele_core.model import index
from ele_core.numerics.error_model import ErrorModel
from ele_core.runs.run import open_model
from ele_core.types import Choice

NUMBERS = [str(number) for number in range(1, 4000, 2)]
WORDS = "three\nforty-two\nseven hundred and eleven\ntwo thousand and one\n"


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "SHARD", 700)
    monkeypatch.setattr(objects, "CHUNK", 500)
    (tmp_path / "inputs.txt").write_text(WORDS)
    (tmp_path / "objects.txt").write_text("17\n4203\n")
    rows = [*NUMBERS[:1000], "x", *NUMBERS[1000:1500], "17", "-1"]
    (tmp_path / "first.csv").write_text("name,digits\n" + "".join(f"n,{text}\n" for text in rows))
    (tmp_path / "second.csv").write_text("digits\n" + "".join(f"{text}\n" for text in NUMBERS[1500:]))
    (tmp_path / "all.txt").write_text("\n".join([*rows, *NUMBERS[1500:]]) + "\n")


BUILD = ["first.csv", "second.csv", "--column", "digits", "-o", "numbers"]


def answers(done):
    assert done.code == 0, done.err
    rows = table(done.out)
    assert {"prediction", "energy"} <= set(rows[0]), rows[0]
    return [{name: nearly(value) if "energy" in name else value for name, value in row.items()} for row in rows]


def nearly(value):
    return pytest.approx(float(value), abs=5e-3)


@pytest.mark.parametrize("kind", ["exact", "faiss"])
@pytest.mark.parametrize(
    "options",
    [["--decoder", "candidates"], ["--decoder", "search"], ["--decoder", "candidates", "--constraint", "length=3"]],
    ids=["candidates", "search", "constraint"],
)
def test_predictions_are_those_among_all_candidates(ele, trained_run, kind, options):
    assert ele("index", trained_run, *BUILD, "--index", kind).code == 0
    command = ["predict", trained_run, "inputs.txt", "--top-k", "3", *options, "--candidates"]
    assert answers(ele(*command, "numbers")) == answers(ele(*command, "all.txt"))


@pytest.mark.parametrize("kind", ["exact", "faiss"])
def test_neighbours_are_those_in_the_files(ele, trained_run, kind):
    assert ele("index", trained_run, *BUILD, "--index", kind).code == 0
    found, expected = (
        table(ele("neighbours", trained_run, "objects.txt", "-k", "5", "--among", among).out)
        for among in ("numbers", "all.txt")
    )
    for row in (*found, *expected):
        row["distance"] = pytest.approx(float(row["distance"]), abs=2e-3)
    assert found == expected


def test_an_energy_that_weighs_errors_has_an_index_of_its_own(trained_run, tmp_path):
    def model():
        found = open_model(trained_run).model()
        generator = torch.Generator().manual_seed(0)
        embeddings = found.candidates.embeddings
        noise = torch.randn(embeddings.shape, generator=generator) * torch.linspace(0.01, 1, embeddings.shape[1])
        found.regressor.errors = ErrorModel(found.surrogate.dim).fit(embeddings + noise, embeddings)
        return found

    weighing = model()
    folder = index.IndexBuilder(weighing, [str(tmp_path / "all.txt")], tmp_path / "own", lambda _: None, Context())
    for kind in ("exact", "faiss"):
        made = dataclasses.replace(folder, folder=tmp_path / kind)
        known = index.open_index(made.build(Choice(name=kind)), weighing).candidates()
        queries = weighing.surrogate.embed(weighing.candidates.batch[:9]) + 0.1
        problem = Problem(weighing.space, known)
        energies, rows = nearest(weighing.regressor.energy(queries), problem, 2, Context())
        read = objects.read_outputs(weighing.space, (tmp_path / "all.txt").read_text().split())
        every = weighing.embed_candidates(read.batch)
        expected, places = nearest(weighing.regressor.energy(queries), Problem(weighing.space, every), 2, Context())
        torch.testing.assert_close(energies, expected, rtol=2e-2, atol=2e-2)
        assert torch.equal(weighing.space.keys(known.batch[rows[:, 0]]), weighing.space.keys(every.batch[places[:, 0]]))
    plain = open_model(trained_run).model()
    with pytest.raises(ModelError, match="built for another energy"):
        index.open_index(tmp_path / "faiss", plain).candidates()
    kept = (tmp_path / "faiss" / "shard-00000.safetensors").stat().st_mtime_ns
    dataclasses.replace(folder, folder=tmp_path / "faiss", model=plain).build()
    assert (tmp_path / "faiss" / "shard-00000.safetensors").stat().st_mtime_ns == kept
    assert len(index.open_index(tmp_path / "faiss", plain).candidates()) == 2001


def test_rows_that_cannot_be_used_are_listed_with_file_and_line(ele, trained_run):
    done = ele("index", trained_run, *BUILD)
    assert "numbers: 2,001 structures, 2 rows left out\n  first.csv, row 1001 (line 1002): 'x': " in done.err
    assert "  first.csv, row 1503 (line 1504): '-1': " in done.err
    refused = ele("index", trained_run, *BUILD[:-1], "other", "--on-error", "raise")
    assert fails(refused, 1, "first.csv: 1 row cannot be used:\n  row 1001 (line 1002): 'x'")


def test_a_build_that_was_stopped_is_continued(ele, trained_run, tmp_path, monkeypatch):
    assert ele("index", trained_run, *BUILD, "--index", "faiss").code == 0
    written, write = [], index.write_shard

    def stop(file, tensors):
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(file.name)
        write(file, tensors)

    command = ["index", trained_run, *BUILD[:-1], "again", "--index", "faiss"]
    monkeypatch.setattr(index, "write_shard", stop)
    assert ele(*command).code == 130
    assert fails(
        ele("predict", trained_run, "inputs.txt", "--candidates", "again"), 1, "again: the index is not complete."
    )
    monkeypatch.setattr(index, "write_shard", lambda file, tensors: (written.append(file.name), write(file, tensors)))
    assert ele(*command).code == 0
    assert written == sorted(set(written), key=written.index)  # none is written twice
    names = [path.name for path in (tmp_path / "numbers").iterdir() if not path.name.startswith(".")]
    assert all((tmp_path / "again" / name).read_bytes() == (tmp_path / "numbers" / name).read_bytes() for name in names)
    assert "complete already" in ele(*command).err
    assert ele(*command[:-1], "exact").code == 0  # another component over the same shards
    assert json.loads((tmp_path / "again" / "summary.json").read_text())["index"] == {"name": "exact"}


def fill(monkeypatch, name):
    """Let the disk be full as soon as a file with this name is written."""
    save = shards.save_tensors

    def full(file, tensors):
        if name in file.name:
            file.write_bytes(b"half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
        save(file, tensors)

    monkeypatch.setattr(shards, "save_tensors", full)


@pytest.mark.parametrize(("name", "kept"), [("shard-00001", 1), ("loss", 4)])
def test_a_disk_that_fills_keeps_what_was_built(ele, trained_run, tmp_path, monkeypatch, name, kept):
    with monkeypatch.context() as patched:
        fill(patched, name)
        assert fails(ele("index", trained_run, *BUILD), 1, f"{name}.safetensors: cannot be written: no space")
    built = sorted(path.name for path in (tmp_path / "numbers").iterdir())
    assert built == ["index.json", *(f"shard-{number:05}.safetensors" for number in range(kept))]
    written = [(tmp_path / "numbers" / name).stat().st_mtime_ns for name in built]
    assert ele("index", trained_run, *BUILD).code == 0
    assert [(tmp_path / "numbers" / name).stat().st_mtime_ns for name in built] == written


def test_an_index_can_be_used_until_another_way_to_search_it_is_complete(ele, trained_run, tmp_path, monkeypatch):
    assert ele("index", trained_run, *BUILD).code == 0
    command = ["predict", trained_run, "inputs.txt", "--candidates", "numbers"]
    before = ele(*command).out
    with monkeypatch.context() as patched:
        fill(patched, "loss")
        assert fails(ele("index", trained_run, *BUILD, "--index", "faiss"), 1, "cannot be written: no space")
    assert ele(*command).out == before
    assert ele("index", trained_run, *BUILD, "--index", "faiss").code == 0
    assert json.loads((tmp_path / "numbers" / "summary.json").read_text())["index"]["name"] == "faiss"


def changed_json(file, **values):
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def test_an_index_that_does_not_fit_is_refused_in_a_sentence(ele, trained_run, tmp_path, monkeypatch):
    assert ele("index", trained_run, *BUILD, "--index", "faiss").code == 0
    command = ["predict", trained_run, "inputs.txt", "--candidates", "numbers"]
    kept = tmp_path / "kept"
    shutil.copytree(tmp_path / "numbers", kept)

    def refused(words):
        found = fails(ele(*command), 1, words)
        shutil.rmtree(tmp_path / "numbers")
        shutil.copytree(kept, tmp_path / "numbers")
        return found

    shard = tmp_path / "numbers" / "shard-00001.safetensors"
    shard.unlink()
    assert refused("shard-00001.safetensors: missing.")
    shard.write_bytes(shard.read_bytes()[:-1] + b"\x01")
    assert refused("damaged: its contents are not what was written. Build another with `ele index`.")
    changed_json(tmp_path / "numbers" / "index.json", model="0")
    assert refused("numbers: the index was built with another model")
    monkeypatch.setattr(index, "energy_of", lambda _: None)
    assert fails(ele(*command), 2, "which the energy of this model is not.")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["first.csv", "-o", "numbers", "--column", "digit"], 1, "did you mean 'digits'?"),
        (["first.parquet", "-o", "numbers", "--column", "digits"], 1, "no column is called 'digits'"),
        (["first.csv", "-o", "numbers", "--column", "name"], 1, "first.csv: none of 1,503 rows is a structure"),
        (["first.csv", "-o", "."], 1, ".: there is something else, which is no index."),
        (["no.csv", "-o", "numbers"], 1, "no.csv: cannot be read: No such file"),
        (["-", "-o", "numbers"], 1, "standard input cannot be used"),
        (["first.csv", "-o", "numbers", "--index", "trees"], 2, "no index is called 'trees'"),
        (["first.csv", "-o", "numbers", "--index", '{name = "faiss", codes = 1}'], 2, "did you mean 'code'?"),
    ],
)
def test_what_cannot_be_built_is_refused_in_a_sentence(ele, trained_run, arguments, code, words, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table({"name": ["a"]}), tmp_path / "first.parquet")
    assert fails(ele("index", trained_run, *arguments), code, words)
    assert not (tmp_path / "numbers").exists()


def test_files_without_rows_and_more_processes_than_a_machine_has_are_refused(ele, trained_run, tmp_path):
    (tmp_path / "empty.txt").write_text("")
    assert fails(
        ele("index", trained_run, "empty.txt", "-o", "numbers"), 1, "there are no rows. Give one structure per"
    )
    assert not (tmp_path / "numbers").exists()
    command = ["predict", trained_run, "inputs.txt", "--candidates"]
    assert fails(ele(*command, "empty.txt"), 1, "empty.txt: there are no candidates. Give one per row.")
    assert fails(
        ele(*command, str(trained_run)), 1, "not an index: it has no index.json. Build another with `ele index`"
    )
    assert fails(ele("index", trained_run, *BUILD, "--processes", 10**20), 2, "is not in the range 1<=x<=1024")


def test_bad_rows_that_stop_a_build_keep_its_finished_blocks(ele, trained_run, tmp_path):
    assert fails(ele("index", trained_run, *BUILD, "--on-error", "raise"), 1, "row 1001")
    assert [file.name for file in sorted((tmp_path / "numbers").glob("shard*"))] == ["shard-00000.safetensors"]
    assert ele("index", trained_run, *BUILD).code == 0


def test_the_next_command_can_be_copied_whatever_the_folder_is_called(ele, trained_run):
    done = ele("index", trained_run, "second.csv", "-o", "my numbers")
    assert "FILE --candidates 'my numbers'" in done.out


def test_an_index_of_other_files_is_not_overwritten(ele, trained_run, tmp_path):
    assert ele("index", trained_run, *BUILD).code == 0
    before = (tmp_path / "numbers" / "manifest.json").read_bytes()
    assert fails(ele("index", trained_run, "first.csv", "-o", "numbers"), 1, "holds an index of other files")
    assert (tmp_path / "numbers" / "manifest.json").read_bytes() == before


def test_processes_build_together_what_one_builds(trained_run, run_python, tmp_path):
    (tmp_path / "small.txt").write_text("\n".join(NUMBERS[:60]) + "\n")
    for name, more in (("alone", []), ("together", ["--processes", "2"])):
        run_python("-m", "ele_core", "index", str(trained_run), "small.txt", "-o", name, *more)
    names = [path.name for path in (tmp_path / "alone").iterdir() if not path.name.startswith(".")]
    assert all((tmp_path / "alone" / n).read_bytes() == (tmp_path / "together" / n).read_bytes() for n in names)
