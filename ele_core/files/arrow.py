"""Tables of Parquet and Arrow (Feather), with the package pyarrow."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from ele_core.errors import DataError
from ele_core.files.columns import Keep, Table
from ele_core.files.sources import bytes_of

SUFFIXES = (".parquet", ".pq", ".arrow", ".feather")


def pyarrow(where: str) -> Any:
    """The package pyarrow; one sentence if it is not installed."""
    try:
        import pyarrow as pa
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError:
        fix = "Install it: pip install 'explicit-loss-embedding[tables]'"
        raise DataError("Parquet and Arrow files need the package pyarrow.", where=where, fix=fix) from None
    return pa


def read_arrow(stream: BinaryIO, file: str, suffix: str, keep: Keep) -> Table:
    """The columns of a Parquet or Arrow file."""
    pa = pyarrow(file)
    try:
        if suffix in (".parquet", ".pq"):
            opened = pa.parquet.ParquetFile(stream)
            names = opened.schema_arrow.names
            chosen = sorted(keep(names))
            table = opened.read(columns=[names[place] for place in chosen])
        else:
            table = arrow_table(pa, stream)
            names = table.column_names
            chosen = sorted(keep(names))
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"not a {suffix} file: {str(error).partition('.')[0]}.", where=file) from None
    return Table(file, names, {place: values(pa, table.column(names[place])) for place in chosen})


def stream_parquet(file: str, places: Callable[[Sequence[str]], list[int]], size: int) -> Iterator[tuple[Any, None]]:
    """The cells of chosen columns of a Parquet file, at most `size` at a time."""
    pa = pyarrow(file)
    with bytes_of(file) as stream:
        try:
            opened = pa.parquet.ParquetFile(stream)
            names = opened.schema_arrow.names
            chosen = places(names)
            for batch in opened.iter_batches(batch_size=size, columns=[names[place] for place in chosen]):
                table = pa.Table.from_batches([batch])
                columns = {place: values(pa, table.column(names[place])) for place in chosen}
                yield Table(file, names, columns).cells(chosen), None
        except pa.ArrowInvalid as error:
            raise DataError(f"not a Parquet file: {str(error).partition('.')[0]}.", where=file) from None


def count_rows(file: str) -> int:
    """The number of rows of a Parquet file, from its footer."""
    pa = pyarrow(file)
    with bytes_of(file) as stream:
        try:
            return int(pa.parquet.ParquetFile(stream).metadata.num_rows)
        except pa.ArrowInvalid as error:
            raise DataError(f"not a Parquet file: {str(error).partition('.')[0]}.", where=file) from None


def arrow_table(pa: Any, stream: BinaryIO) -> Any:
    """An Arrow table, from a file or a stream of record batches."""
    try:
        return pa.ipc.open_file(stream).read_all()
    except pa.ArrowInvalid:
        stream.seek(0)
        return pa.ipc.open_stream(stream).read_all()


def values(pa: Any, column: Any) -> Sequence[Any]:
    """A column as an array of numbers (N,) or of vectors (N, D) if it has no gaps, else as a list."""
    array: Sequence[Any]
    if numeric(pa, column):
        array = column.to_numpy()
    elif (flat := vectors(pa, column)) is not None:
        array = flat.to_numpy().reshape(len(column), -1)
    else:
        array = column.to_pylist()
    return array


def vectors(pa: Any, column: Any) -> Any:
    """All numbers of a column of lists of one length; None if it is another column."""
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if not any(is_kind(column.type) for is_kind in kinds):
        return None
    lengths = pa.compute.unique(pa.compute.list_value_length(column)).to_pylist()
    flat = pa.compute.list_flatten(column)
    return flat if len(lengths) == 1 and lengths[0] and numeric(pa, flat) else None


def numeric(pa: Any, column: Any) -> bool:
    """Whether a column holds a number in every row."""
    number: bool = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    return number and not column.null_count


def as_parquet(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], where: str) -> bytes:
    """Mappings with the same keys as the contents of a Parquet file; values of mixed types become texts."""
    pa = pyarrow(where)
    arrays = []
    for name in columns:
        cells = [row.get(name) for row in rows]
        try:
            arrays.append(pa.array(cells))
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            arrays.append(pa.array([None if cell is None else str(cell) for cell in cells]))
    content = io.BytesIO()
    pa.parquet.write_table(pa.table(arrays, names=list(columns)), content)
    return content.getvalue()
