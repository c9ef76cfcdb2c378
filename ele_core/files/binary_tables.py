"""Tables in binary files: Parquet and Arrow (Feather) with pyarrow, arrays of numpy. Nothing is unpickled."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ele_core.errors import DataError, EleError
from ele_core.extras import how_to_install
from ele_core.files.archive import brief
from ele_core.files.columns import Keep, Table
from ele_core.files.sources import bytes_of
from ele_core.numerics.sparse_vectors import SparseColumn

PARQUET = (".parquet", ".pq")
ARROW = (*PARQUET, ".arrow", ".feather")


def pyarrow(where: str) -> Any:
    """Import pyarrow, or raise `DataError` with the install command."""
    try:
        import pyarrow as pa
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError:
        what = "Parquet and Arrow files need the package pyarrow."
        raise DataError(what, where=where, fix=how_to_install("tables")) from None
    return pa


@contextmanager
def reading(file: str, suffix: str) -> Iterator[None]:
    """Say in a sentence that a file cannot be read, whatever a library raises in the block: it may hold anything."""
    try:
        yield
    except EleError as error:
        raise DataError(error.what, where=error.where or file, fix=error.fix) from None
    except Exception as error:  # also those of memory, of shapes that are no numbers of bytes, and of wrong members
        raise DataError(refusal(error, suffix), where=file) from None


def column_names(names: Sequence[str], file: str) -> Sequence[str]:
    """The names of columns; refuse none, and two that are equal."""
    if not names:
        raise DataError("there are no columns.", where=file)
    if twice := next((name for place, name in enumerate(names) if name in names[:place]), None):
        raise DataError(f"two columns are called '{brief(twice, 60)}'.", where=file, fix="Rename one of them.")
    return names


def read_arrow(stream: BinaryIO, file: str, suffix: str, keep: Keep) -> Table:
    """The columns of a Parquet or Arrow file."""
    pa = pyarrow(file)
    with reading(file, suffix):
        if suffix in PARQUET:
            opened = pa.parquet.ParquetFile(stream)
            names = column_names(opened.schema_arrow.names, file)
            chosen = sorted(keep(names))
            table = opened.read(columns=[names[place] for place in chosen])
        else:
            table = arrow_table(pa, stream)
            names = column_names(table.column_names, file)
            chosen = sorted(keep(names))
        table.validate(full=True)  # otherwise damaged offsets would be followed out of the file
        return Table(file, names, {place: values(pa, table.column(names[place])) for place in chosen})


def stream_arrow(file: str, suffix: str, keep: Keep, size: int) -> Iterator[Table]:
    """The columns of a Parquet or Arrow file, in tables of at most `size` rows, at least one."""
    pa = pyarrow(file)
    with bytes_of(file) as stream, reading(file, suffix):
        found, batches = arrow_batches(pa, stream, suffix, keep, size)
        names = column_names(found, file)
        chosen = sorted(keep(names))
        empty = True
        for batch in batches:
            for first in range(0, len(batch), size):
                part = pa.Table.from_batches([batch.slice(first, size)])
                part.validate(full=True)
                yield Table(file, names, {place: values(pa, part.column(names[place])) for place in chosen})
                empty = False
        if empty:
            yield Table(file, names, {place: [] for place in chosen})


def arrow_batches(pa: Any, stream: BinaryIO, suffix: str, keep: Keep, size: int) -> tuple[Sequence[str], Iterator[Any]]:
    """The names of all columns, and the rows of those that `keep` says, in batches that are read one by one."""
    if suffix in PARQUET:
        opened = pa.parquet.ParquetFile(stream)
        names = opened.schema_arrow.names
        return names, opened.iter_batches(batch_size=size, columns=[names[place] for place in sorted(keep(names))])
    try:
        reader = pa.ipc.open_file(stream)
        return reader.schema.names, (reader.get_batch(number) for number in range(reader.num_record_batches))
    except pa.ArrowInvalid:
        stream.seek(0)
        reader = pa.ipc.open_stream(stream)
        return reader.schema.names, iter(reader)


def count_rows(file: str) -> int:
    """The number of rows of a Parquet file, from its footer."""
    pa = pyarrow(file)
    with bytes_of(file) as stream, reading(file, PARQUET[0]):
        return int(pa.parquet.ParquetFile(stream).metadata.num_rows)


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
    if no_gaps(pa, column):
        array = column.to_numpy()
    elif (flat := vectors(pa, column)) is not None:
        array = flat.to_numpy().reshape(len(column), -1)
    else:
        array = column.to_pylist()
    return array


def vectors(pa: Any, column: Any) -> Any:
    """All numbers of a column of lists of one length; None for any other kind of column."""
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if not any(is_kind(column.type) for is_kind in kinds):
        return None
    lengths = pa.compute.unique(pa.compute.list_value_length(column)).to_pylist()
    flat = pa.compute.list_flatten(column)
    return flat if len(lengths) == 1 and lengths[0] and no_gaps(pa, flat) else None


def no_gaps(pa: Any, column: Any) -> bool:
    """Whether a column holds a number in every row."""
    number: bool = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    return number and not column.null_count


def as_parquet(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    where: str,
    types: Mapping[str, str] | None = None,
    about: Mapping[str, str] | None = None,
) -> bytes:
    """Mappings with the same keys as the contents of a Parquet file; values of mixed types become texts.

    `types` names the types of columns, such as `double`, that may be empty here; `about` is kept as metadata.
    """
    pa = pyarrow(where)
    arrays = []
    for name in columns:
        cells, kind = [row.get(name) for row in rows], (types or {}).get(name)
        try:
            arrays.append(pa.array(cells, kind))
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            arrays.append(pa.array([None if cell is None else str(cell) for cell in cells]))
    content = io.BytesIO()
    table = pa.table(arrays, names=list(columns)).replace_schema_metadata(about)
    pa.parquet.write_table(table, content)
    return content.getvalue()


def parquet_about(file: Path) -> dict[str, str]:
    """The metadata of a Parquet file."""
    pa = pyarrow(str(file))
    try:
        found = pa.parquet.read_schema(file).metadata or {}
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"not a Parquet file: {str(error).partition('.')[0]}.", where=str(file)) from None
    return {name.decode(): value.decode(errors="replace") for name, value in found.items()}


def join_parquet(parts: Sequence[Path], columns: Sequence[str], stream: BinaryIO, where: str) -> None:
    """Write the rows of Parquet files with these columns as one; a column of different types is written as text."""
    pa = pyarrow(where)
    schemas = [pa.parquet.read_schema(part) for part in parts]
    fields = [pa.field(name, common_type(pa, [each.field(name).type for each in schemas])) for name in columns]
    schema = pa.schema(fields)
    with pa.parquet.ParquetWriter(stream, schema) as writer:
        for part in parts:
            table = pa.parquet.read_table(part, columns=list(columns)).replace_schema_metadata(None)
            writer.write_table(pa.table([as_type(pa, table.column(f.name), f.type) for f in fields], schema=schema))


def common_type(pa: Any, types: Sequence[Any]) -> Any:
    """The type that holds values of all types; text if there is no other."""
    try:
        found = pa.unify_schemas([pa.schema([("", kind)]) for kind in types], promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.string()
    return found.field(0).type


def as_type(pa: Any, column: Any, kind: Any) -> Any:
    """A column with its values as another type."""
    if column.type == kind:
        return column
    if kind == pa.string() and not pa.types.is_null(column.type):
        return pa.chunked_array([[None if cell is None else str(cell) for cell in column.to_pylist()]], kind)
    return column.cast(kind)


SPARSE = {"format", "shape", "data"}
"""The arrays that `scipy.sparse.save_npz` writes, among others."""
DIMENSIONS = range(1, 5)
"""The dimensions that an array can have: its rows are values, vectors or pictures."""


def read_arrays(stream: BinaryIO, file: str, suffix: str, keep: Keep) -> Table:
    """The columns of a .npy or .npz file: named arrays, the fields of a structured array, or one without a name."""
    with reading(file, suffix):
        arrays: dict[str, Any]
        loaded = np.load(stream, allow_pickle=False)
        if suffix == ".npy":
            names = loaded.dtype.names or ()
            arrays = {name: texts(loaded[name]) for name in names} or {"": texts(loaded)}
        elif set(loaded.files) >= SPARSE:
            names, arrays = (), {"": sparse(stream, loaded)}
        else:
            names = column_names(loaded.files, file)
            arrays = {name: texts(loaded[name]) for place, name in enumerate(names) if place in keep(names)}
    return checked(file, names, arrays)


def sparse(stream: BinaryIO, arrays: Mapping[str, npt.NDArray[Any]]) -> SparseColumn:
    """The matrix that `scipy.sparse.save_npz` wrote, of whose `arrays` the usual formats are read without scipy."""
    kind = str(arrays["format"].astype(str))
    rows, width = map(int, arrays["shape"])
    if kind == "csr":
        column = SparseColumn(arrays["indptr"], arrays["indices"], arrays["data"], width)
    elif kind in ("csc", "coo"):
        places, own_rows = (
            (arrays["col"], arrays["row"])
            if kind == "coo"
            else (np.repeat(np.arange(width), np.diff(arrays["indptr"])), arrays["indices"])
        )
        column = SparseColumn.from_entries(own_rows, places, arrays["data"], (rows, width))
    else:
        column = by_scipy(stream, kind)
    if not whole(column, rows):
        raise ValueError("its arrays do not go together")
    return column


def by_scipy(stream: BinaryIO, kind: str) -> SparseColumn:
    """A matrix in one of the rare formats of scipy."""
    try:
        from scipy.sparse import load_npz
    except ModuleNotFoundError:
        fix = "Save it with scipy.sparse.save_npz(file, matrix.tocsr())."
        raise DataError(
            f"a sparse matrix in the format '{kind}' is read by scipy, which is not installed.", fix=fix
        ) from None
    stream.seek(0)
    matrix: Any = load_npz(stream).tocsr()  # type: ignore[misc]  # every format has it
    return SparseColumn(matrix.indptr, matrix.indices, matrix.data, matrix.shape[1])


def whole(column: SparseColumn, rows: int) -> bool:
    """Whether the arrays describe a sparse matrix of `rows` rows, with every entry inside it."""
    starts, places, values = column.starts, column.places, column.values
    if len(starts) != rows + 1 or starts.dtype.kind not in "iu" or places.dtype.kind not in "iu":
        return False
    if not numeric(values) or values.shape != places.shape or places.ndim != 1:
        return False
    ordered = starts[0] == 0 and starts[-1] == len(places) and bool((starts[1:] >= starts[:-1]).all())
    return ordered and (not len(places) or (places.min() >= 0 and int(places.max()) < column.width))


def checked(file: str, names: Sequence[str], arrays: dict[str, Any]) -> Table:
    """A table of arrays with as many rows as each other."""
    for name, array in arrays.items():
        called = f"the array '{name}'" if name else "the array"
        numbers = isinstance(array, SparseColumn) or numeric(array)
        if array.ndim not in DIMENSIONS or (array.ndim > 1 and not numbers):
            what = f"{called} has {array.ndim} dimensions of type {array.dtype}."
            fix = "Columns have one dimension; vectors of numbers have two, pictures three or four."
            raise DataError(what, where=file, fix=fix)
        if len(array) and not isinstance(array, SparseColumn) and not array.size:
            raise DataError(f"{called} has rows without numbers.", where=file)
        first = next(iter(arrays.values()))
        if len(array) != len(first):
            what = f"'{name}' has {len(array):,} rows, but '{next(iter(arrays))}' has {len(first):,}."
            raise DataError(what, where=file, fix="Give each array one row per pair.")
    places = {name: names.index(name) if name else 0 for name in arrays}
    return Table(file, names, {places[name]: array for name, array in arrays.items()})


def numeric(array: npt.NDArray[Any]) -> bool:
    """Whether an array holds numbers."""
    return array.dtype.kind in "fiub"


def texts(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An array with bytes decoded."""
    return np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array


def refusal(error: Exception, suffix: str) -> str:
    """Say why a file cannot be read."""
    if "Object arrays" in str(error):
        return "holds Python objects, which are not read: unpickling them can run any code. Save numbers or texts."
    if suffix in ARROW:
        return f"not a whole {suffix} file: {brief(str(error).partition('.')[0], 200)}."
    return f"not a whole {suffix} file of numpy."
