"""Reading a user's own file, and what is said when it cannot be read."""

import builtins
import gzip
import json

import numpy as np
import pytest
from columns import read_columns
from scipy.sparse import csr_matrix, save_npz

from ele_core.errors import DataError
from ele_core.files.binary_tables import as_parquet
from ele_core.files.columns import describe_columns
from ele_core.files.tables import FIRST, LAST, Unreadable, input_places, read_table


def write(folder, name, text):
    file = folder / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(file)


def test_csv_columns_are_found_by_name_and_by_place(tmp_path):
    file = write(tmp_path, "pairs.csv", 'x,note,y\n"a,b",n,1\nc,m,2\n')
    assert read_columns(file, ["x", "y"])[0] == [["a,b", "c"], ["1", "2"]]
    assert read_columns(file, [FIRST, LAST])[0] == [["a,b", "c"], ["1", "2"]]


def test_both_halves_of_a_character_are_one(tmp_path):
    assert read_columns(write(tmp_path, "pairs.jsonl", '{"x": "\\ud83d\\ude00"}\n'), ["x"])[0] == [["😀"]]


def test_tsv_jsonl_and_gzip_are_read_as_what_they_hold(tmp_path):
    tsv = write(tmp_path, "pairs.tsv", "x\ty\na\t1\n")
    jsonl = write(tmp_path, "pairs.jsonl", '{"x": "a", "y": 1}\n\n{"x": "b", "y": [2, 3]}\n')
    packed = write(tmp_path, "pairs.csv.gz", gzip.compress(b"x,y\na,1\n"))
    assert read_columns(tsv, ["x", "y"])[0] == [["a"], ["1"]]
    assert read_columns(jsonl, ["x", "y"])[0] == [["a", "b"], ["1", "[2, 3]"]]
    assert read_columns(packed, ["y"])[0] == [["1"]]


def test_smi_takes_the_first_word_and_plain_lines_are_taken_whole(tmp_path):
    smiles = write(tmp_path, "all.smi", "CCO ethanol\n\nCC\n")
    lines = write(tmp_path, "all.txt", "forty two\n\none\n")
    assert read_columns(smiles, [FIRST, LAST])[0] == [["CCO", "", "CC"]] * 2
    assert read_columns(lines, [FIRST])[0] == [["forty two", "", "one"]]


def test_a_byte_order_mark_is_not_part_of_the_header(tmp_path):
    file = write(tmp_path, "pairs.csv", b"\xef\xbb\xbfx,y\na,1\n")
    assert read_columns(file, ["x"])[0] == [["a"]]


def test_the_fingerprint_follows_the_contents(tmp_path):
    one, two = write(tmp_path, "a.csv", "x\n1\n"), write(tmp_path, "b.csv", "x\n2\n")
    assert read_columns(one, [FIRST])[1] != read_columns(two, [FIRST])[1]


@pytest.mark.parametrize(
    ("name", "text", "columns", "message"),
    [
        ("none.csv", None, [FIRST], "cannot be read: No such file"),
        ("empty.csv", "", [FIRST], "the file is empty"),
        ("typo.csv", "smiles,y\nC,1\n", ["smile"], "did you mean 'smiles'"),
        ("twice.csv", "x,y,x\na,1,b\n", ["x"], "2 columns are called 'x'. Rename all but one."),
        ("unnamed.csv", "x,y\na,1\n", [""], "no column is called ''"),
        ("bytes.csv", b"x\n\xff\xfe\n", [FIRST], "not UTF-8"),
        ("lines.txt", "a\n", ["x"], "no named columns"),
        ("cut.csv.gz", gzip.compress(b"x\n1\n" * 99, mtime=0)[:-9], [FIRST], "not a whole gzip file"),
        ("fake.csv.gz", b"not gzip", [FIRST], "not a whole gzip file"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_sentence(tmp_path, name, text, columns, message):
    file = str(tmp_path / name) if text is None else write(tmp_path, name, text)
    with pytest.raises(DataError, match=message) as caught:
        read_columns(file, columns)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "bad", "reason"),
    [
        ("short.csv", "x,y\na,1\nb\nc,3\n", "b", "1 cell, but the header has 2;"),
        ("bad.jsonl", '{"x": "a"}\n{"x":\n{"x": "c"}\n', '{"x":', "not JSON"),
        ("half.jsonl", '{"x": "a"}\n{"x": "b\\ud800"}\n{"x": "c"}\n', '{"x": "b\\ud800"}', "holds half a character"),
        ("list.jsonl", '{"x": "a"}\n[1]\n{"x": "c"}\n', "[1]", "not a JSON object"),
        ("field.jsonl", '{"x": "a"}\n{"y": "b"}\n{"x": "c"}\n', '{"y": "b"}', "no field is called 'x'"),
    ],
)
def test_a_row_that_is_not_as_it_should_be_keeps_its_place_and_has_a_reason(tmp_path, name, text, bad, reason):
    (column,), _ = read_columns(write(tmp_path, name, text), ["x"])
    assert column == ["a", bad, "c"]
    assert isinstance(column[1], Unreadable)
    assert reason in column[1].reason


def test_json_fields_are_taken_by_name_whatever_their_order(tmp_path):
    file = write(tmp_path, "pairs.jsonl", '{"x": "a", "y": "1"}\n{"y": "2", "x": "b"}\n')
    assert read_columns(file, [FIRST, LAST])[0] == [["a", "b"], ["1", "2"]]


def test_only_a_line_feed_ends_a_line(tmp_path):
    file = write(tmp_path, "all.txt", "one\u2028two\r\nthree\x0cfour\n")
    assert read_columns(file, [FIRST])[0] == [["one\u2028two", "three\x0cfour"]]


def test_inputs_are_taken_from_the_column_of_the_training_where_there_is_one(tmp_path):
    file = tmp_path / "inputs.csv"
    file.write_text("number,day\n1,monday\n2,friday\n")
    table = read_table(str(file))
    assert [input_places(table, *columns) for columns in ((None, "day"), (None, "month"), ("number", "day"))] == [
        [1],
        [0],
        [0],
    ]
    with pytest.raises(DataError, match="month"):
        input_places(table, "month", "day")


# -- several columns ----------------------------------------------------------------------------------------------

WIDE = "id,b0,b1,b2,y\n1,0,1,0,a\n2,1,1,,b\n"


@pytest.mark.parametrize("columns", ["b0:b2", "b0,b1,b2", "b0, b1:b2"])
def test_several_columns_are_joined_and_an_empty_cell_makes_the_row_unreadable(tmp_path, columns):
    (cells,), _ = read_columns(write(tmp_path, "wide.csv", WIDE), [columns])
    assert cells[0] == "0 1 0"
    assert isinstance(cells[1], Unreadable)
    assert cells[1].reason == "the column 'b2' is empty."


def test_a_column_whose_name_has_a_comma_or_a_colon_is_found_by_it(tmp_path):
    file = write(tmp_path, "odd.csv", '"a,b",c:d\n1,2\n')
    assert read_columns(file, ["a,b", "c:d"])[0] == [["1"], ["2"]]


@pytest.mark.parametrize(
    ("columns", "message"), [("b2:b0", "'b0' comes before 'b2'"), ("b0:b9", "'b9'"), ("b0,c", "'c'")]
)
def test_a_range_that_is_none_is_named(tmp_path, columns, message):
    with pytest.raises(DataError, match=message):
        read_columns(write(tmp_path, "wide.csv", WIDE), [columns])


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (["id", "y"], "input: column 'id'; output: column 'y'; 3 others are not used"),
        (["b0:b2", LAST], "input: 3 columns, 'b0' to 'b2'; output: column 'y' (the last); 1 other is not used"),
        (["y", LAST], "input: column 'y'; output: column 'b2' (the last of the others); 3 others are not used"),
        (
            [FIRST, LAST],
            "input: column 'id' (the first); output: column 'y' (the last); 3 others are not used "
            "(choose with --input and --output)",
        ),
    ],
)
def test_which_columns_are_used_is_said(tmp_path, wanted, said):
    table = read_table(write(tmp_path, "wide.csv", WIDE), wanted)
    assert describe_columns(table, wanted) == said


def test_only_the_columns_asked_for_are_kept(tmp_path):
    assert list(read_table(write(tmp_path, "wide.csv", WIDE), ["y"]).columns) == [4]


# -- other formats ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("separator", [";", "\t"])
def test_a_csv_with_another_separator_is_read(tmp_path, separator):
    file = write(tmp_path, "pairs.csv", f"x{separator}y\na, b{separator}1\n")
    assert read_columns(file, ["x", "y"])[0] == [["a, b"], ["1"]]


def test_arrays_are_columns_and_vectors_are_their_cells(tmp_path):
    vectors = np.array([[1, 0], [0, 1]], dtype=np.uint8)
    np.savez(tmp_path / "pairs.npz", x=vectors, y=np.array(["a", "b"]), z=np.array([b"c", b"d"]), n=np.array([1, 2]))
    (x, y, z, n), _ = read_columns(str(tmp_path / "pairs.npz"), ["x", "y", "z", "n"])
    assert np.array_equal(x, vectors)
    assert (y, z, n) == (["a", "b"], ["c", "d"], ["1", "2"])
    np.save(tmp_path / "x.npy", vectors)
    save_npz(tmp_path / "sparse.npz", csr_matrix(vectors))
    for name in ("x.npy", "sparse.npz"):
        (cells,), _ = read_columns(str(tmp_path / name), [FIRST])
        assert len(cells) == 2
        assert np.array_equal(cells[1], [0, 1])


def test_arrays_of_objects_and_of_different_lengths_are_refused(tmp_path):
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "lengths.npz", x=np.zeros(2), y=np.zeros(3))
    np.save(tmp_path / "deep.npy", np.zeros((2, 2, 2, 2, 2)))
    (tmp_path / "text.npz").write_text("no zip")
    for name, message in {
        "objects.npy": "unpickling them can run any code",
        "lengths.npz": "'y' has 3 rows, but 'x' has 2",
        "deep.npy": "5 dimensions",
        "text.npz": r"not a whole \.npz file",
    }.items():
        with pytest.raises(DataError, match=message):
            read_columns(str(tmp_path / name), [FIRST, LAST])


@pytest.mark.parametrize("name", ["pairs.parquet", "pairs.feather", "pairs.arrow"])
def test_parquet_and_arrow_are_read_with_numbers_vectors_and_gaps(tmp_path, name):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    table = pa.table({"n": [1, 2], "x": [[0, 1], [1, 0]], "y": ["a", None], "b0": [1, 2], "b1": [3, 4]})
    write = parquet.write_table if name.endswith("parquet") else feather.write_feather
    write(table, str(tmp_path / name))
    (n, x, y, b), _ = read_columns(str(tmp_path / name), ["n", "x", "y", "b0:b1"])
    assert n == ["1", "2"]
    assert np.array_equal(x, [[0, 1], [1, 0]])
    assert np.array_equal(b, [[1, 3], [2, 4]])
    assert (y[0], y[1].reason) == ("a", "the cell has no value.")


def test_a_missing_package_is_named_with_the_extra_that_brings_it(tmp_path, monkeypatch):
    real = builtins.__import__

    def missing(name, *args, **options):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(DataError, match=r"pip install .*\[tables\]"):
        read_columns(write(tmp_path, "pairs.parquet", ""), [FIRST])
    with pytest.raises(DataError, match="pyarrow"):
        as_parquet([], ["x"], "out.parquet")


@pytest.mark.parametrize(
    ("name", "way_out"),
    [
        ("a.xlsx", "File > Save As > CSV UTF-8"),
        ("a.ods", "CSV"),
        ("a.pkl", "can run any code"),
        ("a.mat", "writetable"),
        ("a.h5", "numpy.savez"),
        ("a.parquet", "not a whole .parquet file"),
        ("a.feather", "not a whole .feather file"),
    ],
)
def test_formats_that_are_not_read_are_refused_with_the_way_out(tmp_path, name, way_out):
    pytest.importorskip("pyarrow")
    with pytest.raises(DataError) as caught:
        read_columns(write(tmp_path, name, "anything at all"), [FIRST])
    assert way_out in str(caught.value)


def test_a_plugin_can_read_further_suffixes(tmp_path):
    def reader(stream):
        return {"x": stream.read().decode().split(), "n": [1, None]}

    file = write(tmp_path, "pairs.abc", "one two")
    (x, n), _ = read_columns(file, ["x", "n"], lambda suffix: reader if suffix == ".abc" else None)
    assert (x, n[0], n[1].reason) == (["one", "two"], "1", "the cell has no value.")


# -- lines --------------------------------------------------------------------------------------------------------


def test_rows_know_their_lines_also_after_blank_lines_and_cells_of_several(tmp_path):
    assert list(read_table(write(tmp_path, "a.csv", 'x,y\na,1\n\n"b\nb",2\nc,3\n')).lines) == [2, 4, 6]
    assert list(read_table(write(tmp_path, "a.jsonl", '{"x": 1}\n\n{"x": 2}\n')).lines) == [1, 3]


@pytest.mark.parametrize(
    ("text", "line"), [('x,y\na,1\n"b,2\nc,3\n', 3), ('x,y\n"a\na","b', 3), ('x,"y\na,1', 1), ('x\n"a\na"\n"', 4)]
)
def test_a_quote_that_is_never_closed_is_found(tmp_path, text, line):
    with pytest.raises(DataError, match=f"a quote opened on line {line} is never closed"):
        read_table(write(tmp_path, "pairs.csv", text))


def test_a_row_that_swallowed_others_says_so(tmp_path):
    (column,), _ = read_columns(write(tmp_path, "a.csv", 'x,y\n"a,1\nb,2\n",3,4\nc,5\n'), ["x"])
    assert "from line 2 to line 4: look for a quote" in column[0].reason
    assert column[1] == "c"


def test_cells_may_be_longer_than_the_csv_module_likes(tmp_path):
    (column,), _ = read_columns(write(tmp_path, "a.csv", "x,y\n" + "a" * 200_000 + ",1\n"), ["x"])
    assert len(column[0]) == 200_000


def test_text_that_is_not_utf8_is_named_by_its_line(tmp_path):
    with pytest.raises(DataError, match=r"not UTF-8 text \(line 3\)"):
        read_columns(write(tmp_path, "a.csv", b"x\na\n\xff\n"), [FIRST])


def test_a_field_that_is_null_has_no_value_and_all_fields_are_kept_if_all_are_asked_for(tmp_path):
    file = write(tmp_path, "a.jsonl", '{"x": null, "y": 1}\n{"x": "a", "z": [1]}\n')
    (x,), _ = read_columns(file, ["x"])
    assert (x[0].reason, x[1]) == ("the cell has no value.", "a")
    assert list(read_table(file).names) == ["x", "y", "z"]


def test_a_file_of_unreadable_lines_alone_is_read_as_such(tmp_path):
    (x,), _ = read_columns(write(tmp_path, "a.jsonl", "{\n[]\n"), ["x"])
    assert all(isinstance(cell, Unreadable) for cell in x)


def test_parquet_is_written_with_types_and_mixed_columns_as_texts(tmp_path):
    pytest.importorskip("pyarrow")
    rows = [{"a": 1, "b": "x", "c": 1}, {"a": None, "b": "y", "c": "z"}]
    (tmp_path / "a.parquet").write_bytes(as_parquet(rows, ["a", "b", "c"], ""))
    table = read_table(str(tmp_path / "a.parquet"))
    assert json.dumps([list(table.columns[place]) for place in range(3)]) == '[[1, null], ["x", "y"], ["1", "z"]]'
