"""`check_file_reader`: every law of a file reader. The checks read its examples, and bytes that are no such file."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from ele_core.errors import DataError
from ele_core.interfaces import FileReader
from ele_core.testing.common import COMMON, provider_of
from ele_core.testing.results import Broken, CheckResult, NotApplicable, after, require, run_checks

FOREIGN = (b"", b"\x00\xff\xfe not a file of this kind \x80", b"plain text\nin two lines\n")
"""Contents that belong to no format."""


def check_reader_is_named_by_a_suffix(reader: FileReader) -> None:
    """The name of the reader is a suffix with its dot, in lower case, such as `.sdf`."""
    _, record = provider_of(reader)
    suffix = record.name.startswith(".") and record.name == record.name.lower() and record.name.count(".") == 1
    require(suffix, f"the name '{record.name}' is not a suffix such as '.sdf'")


def check_reader_gives_columns(reader: FileReader) -> None:
    """`read` gives at least one column, all of the same length, with a text as the name of each."""
    for columns in tables(reader):
        require(columns, "there are no columns")
        require(all(isinstance(name, str) for name in columns), f"not all names are texts: {list(columns)}")
        lengths = {name: len(column) for name, column in columns.items()}
        require(len(set(lengths.values())) == 1, f"the columns differ in length: {lengths}")


@after(check_reader_gives_columns)
def check_reader_is_repeatable(reader: FileReader) -> None:
    """Reading the same bytes twice gives the same columns."""
    pairs = zip(tables(reader), tables(reader), strict=True)
    require(all(repr(dict(one)) == repr(dict(two)) for one, two in pairs), "two readings of a file differ")


def check_reader_refuses_politely(reader: FileReader) -> None:
    """Of bytes that are no such file `read` raises `DataError`, and no other error."""
    for content in FOREIGN:
        try:
            reader.read(io.BytesIO(content))
        except DataError:
            continue
        except Exception as error:
            what = f"{content!r} raises {type(error).__name__} ({error}), not DataError"
            raise Broken(what) from error


def tables(reader: FileReader) -> list[Mapping[str, Sequence[Any]]]:
    """The columns of each example."""
    examples = reader.examples()
    if not examples:
        raise NotApplicable("the reader has no examples")
    return [reader.read(io.BytesIO(content)) for content in examples]


READER_CHECKS = (
    *COMMON,
    check_reader_is_named_by_a_suffix,
    check_reader_gives_columns,
    check_reader_is_repeatable,
    check_reader_refuses_politely,
)


def check_file_reader(reader: FileReader, expected_failures: Mapping[str, str] | None = None) -> list[CheckResult]:
    """Run every check of a file reader. `expected_failures`: check → reason."""
    return run_checks(READER_CHECKS, (reader,), expected_failures)
