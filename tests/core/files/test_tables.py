"""Reading a user's own file, and what is said when it cannot be read."""

import gzip

import pytest

from ele_core.errors import DataError
from ele_core.files.tables import FIRST, LAST, Unreadable, read_columns, read_inputs


def write(folder, name, text):
    file = folder / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(file)


def test_csv_columns_are_found_by_name_and_by_place(tmp_path):
    file = write(tmp_path, "pairs.csv", 'x,note,y\n"a,b",n,1\nc,m,2\n')
    assert read_columns(file, ["x", "y"])[0] == [["a,b", "c"], ["1", "2"]]
    assert read_columns(file, [FIRST, LAST])[0] == [["a,b", "c"], ["1", "2"]]


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
    assert read_inputs(str(file), None, "day")[0] == [["monday", "friday"]]
    assert read_inputs(str(file), None, "month")[0] == [["1", "2"]]
    assert read_inputs(str(file), "number", "day")[0] == [["1", "2"]]
    with pytest.raises(DataError, match="month"):
        read_inputs(str(file), "month", "day")
