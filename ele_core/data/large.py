"""Files with more pairs than are kept in memory: a sample of the rows, and all training pairs packed on disk."""

from __future__ import annotations

import dataclasses
import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ele_core.config import RunConfig
from ele_core.data.dataset import DataSet
from ele_core.data.objects import CHUNK, Lines, Objects
from ele_core.data.pairs import parse_pairs
from ele_core.data.store import OUTPUT, Packing, Read, Store, Stored, described_by, folder_for
from ele_core.errors import DataError, counted
from ele_core.files.archive import digest
from ele_core.files.columns import FIRST, LAST, Cell, Column, Table, Unreadable, Wanted, cell_text, keep
from ele_core.files.sources import digest_of
from ele_core.files.tables import Readers, about_rows, read_table, require_names, stream_tables, suffix_of
from ele_core.interfaces import InputSpace, OutputSpace
from ele_core.numerics.keys import mix
from ele_core.numerics.tensors import Tensors
from ele_core.runtime.context import Context
from ele_core.runtime.monitor import Monitor
from ele_core.types import Choice, Pairs

INPUT = "input"
"""Before the names of the fields of inputs in a block."""
BITS = 53
"""Bits of a hash that a float holds."""


# -- a sample of the rows -----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class PairCells:
    """The cells of inputs and outputs of a file: of all rows, or of a sample."""

    table: Table
    """The names of the columns and the digest of the file; of a sample without its cells."""
    left: Sequence[Cell]
    right: Sequence[Cell]
    lines: Lines | None
    numbers: Sequence[int] | None = None
    """The number of each row in the file; None: all rows are here."""


def read_cells(file: str, wanted: Wanted, in_memory: int, readers: Readers, monitor: Monitor) -> PairCells:
    """Read the cells of both columns; if the file has more than `in_memory` rows, of a sample of about so many."""
    rows = about_rows(file, readers)
    if rows > in_memory:
        return sampled(file, wanted, in_memory / rows, readers, monitor)
    table = read_table(file, wanted, readers)
    left, right = table.read(wanted)
    return PairCells(table, left, right, table.lines)


def sampled(file: str, wanted: Wanted, share: float, readers: Readers, monitor: Monitor) -> PairCells:
    """Read a share of the rows; also the rows with a new character, or longer than all before, in either column.

    So labels and sizes that are inferred from characters and lengths hold for all rows.
    """
    first, numbers, lines = 0, list[int](), dict[int, int]()
    columns, new = (list[Cell](), list[Cell]()), (New(), New())
    tables = stream_tables(file, CHUNK, readers, keep(wanted, file))
    table = Table(file, (), {})
    for table in monitor.progress(tables, description=f"reading {file}"):
        require_names(table, wanted)
        cells, chosen = table.read(wanted), in_sample(first, len(table), share)
        for place, (one, other) in enumerate(zip(*cells, strict=True)):
            novel = [new[0].sees(one), new[1].sees(other)]
            if chosen[place] or any(novel):
                columns[0].append(alone(one))
                columns[1].append(alone(other))
                numbers.append(first + place)
                if table.lines is not None:
                    lines[first + place] = table.lines[place]
        first += len(table)
    known = dataclasses.replace(table, columns={}, lines=None, digest=digest_of(file))
    return PairCells(known, *columns, lines or None, numbers)


def alone(cell: Cell) -> Cell:
    """The cell without the rest of the array that it may be a row of."""
    if isinstance(cell, Mapping):
        return {name: alone(own) for name, own in cell.items()}
    return cell if isinstance(cell, str) else cell.copy()


def in_sample(first: int, count: int, share: float) -> list[bool]:
    """Whether each of `count` rows from number `first` on is in the sample: a hash of its number decides."""
    hashes = mix(torch.arange(first, first + count)) & ((1 << BITS) - 1)
    found: list[bool] = (hashes.double() < share * (1 << BITS)).tolist()
    return found


class New:
    """Knows the characters and the greatest lengths of the texts that it saw."""

    def __init__(self) -> None:
        self.characters: set[str] = set()
        self.longest = self.words = -1

    def sees(self, cell: Cell) -> bool:
        """Whether a text has a new character, more characters or more words than all before."""
        if not isinstance(cell, str) or isinstance(cell, Unreadable):
            return False
        words = cell.count(" ")
        if len(cell) <= self.longest and words <= self.words and self.characters.issuperset(cell):
            return False
        self.longest, self.words = max(self.longest, len(cell)), max(self.words, words)
        self.characters.update(cell)
        return True


# -- equal pairs --------------------------------------------------------------------------------------------------


def key_of(cell: Cell, text: str, written: str | None) -> int:
    """A number that is equal for equal rows, by the cell of the input and the text of the output.

    With the input as `written`, it is equal for equal inputs.
    """
    content = repr((as_bytes(cell), text) if written is None else written)
    return int.from_bytes(hashlib.blake2b(content.encode(), digest_size=8).digest(), signed=True)


def as_bytes(cell: Cell) -> Any:
    """What tells a cell from others."""
    if isinstance(cell, Mapping):
        return [(name, as_bytes(own)) for name, own in cell.items()]
    return cell.tobytes() if hasattr(cell, "tobytes") else str(cell)


def held_out_keys(data: DataSet) -> set[int]:
    """The keys of the pairs in memory that are not trained on."""
    assert data.keys is not None
    held = torch.cat([data.validation, data.test, data.calibration])
    return set(data.keys[held].tolist()) - set(data.keys[data.train].tolist())


# -- all training pairs -------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class StoredPairs(Pairs):
    """Training pairs on disk, of which one block is in memory."""

    store: Store

    @property
    def left_out(self) -> int:
        """The number of rows that cannot be used."""
        return self.store.left_out

    @property
    def provenance(self) -> dict[str, Any]:
        """How many pairs are trained on, and how many rows were left out."""
        return {"train": len(self), "left_out": self.left_out}


def with_stored(
    config: RunConfig,
    choice: Choice,
    inputs: InputSpace[Any],
    space: OutputSpace[Any, Any],
    data: DataSet,
    packed: Tensors,
    context: Context,
) -> DataSet:
    """Pack all training pairs of the file: those that do not equal a pair in memory that is held out.

    `data` and their packed inputs are the sample in memory; the spaces are fitted to it.
    """
    options = config.data
    assert options is not None
    wanted: list[Column] = [options.input or FIRST, options.output or LAST]
    held = held_out_keys(data)
    quiet = dataclasses.replace(context, monitor=Monitor())

    def read(table: Table) -> Read:
        left, right = table.read(wanted)
        values, parsed = parse_pairs(inputs, space.texts.parse, left, right, quiet)
        y = parsed.pack(space.pack, lambda row: cell_text(right[row]))
        x = Objects(y.rows, [values[row] for row in y.rows], y.rejected)
        x = x.pack(inputs.pack, lambda row: cell_text(left[row])).located(table.lines)
        written = {row: inputs.format(values[row]) for row in x.rows} if options.any_truth else {}
        kept = [row for row in x.rows if key_of(left[row], cell_text(right[row]), written.get(row)) not in held]
        if not kept:
            return {}, x.rejected
        return {INPUT: [at(x, kept)], OUTPUT: [at(y, kept)]}, x.rejected

    about = [
        data.fingerprint,
        suffix_of(options.file),
        wanted,
        options.any_truth,
        sorted(held),
        fitted(inputs),
        *described_by(inputs, "input", choice.name, config.registry),
        *described_by(space, "output", config.output.name, config.registry),
    ]
    fix = (
        f"Correct them, or leave them out with --on-error skip. Labels and sizes that you do not give are those of "
        f"{counted(len(data), 'row')} in memory; for more: --set data.in_memory=N."
    )
    packing = Packing(
        options.file,
        digest_of(options.file),
        wanted,
        read,
        space,
        {INPUT: packed[:0], OUTPUT: data.outputs[:0]},
        folder_for("pairs", about),
        context,
        config.registry,
        fix,
    )
    store = packing.opened(fatal=options.on_error == "raise")
    if not len(store):
        raise DataError("there are no pairs to train on besides those held out.", where=options.file)
    stored = StoredPairs(Stored(store, INPUT), Stored(store, OUTPUT), store)
    said = (
        f"{options.file}: {counted(len(store), 'training pair')} on disk, a sample of {len(data):,} pairs in memory: "
        "the split, labels, vocabulary and candidates are of the sample (data.in_memory)"
    )
    return dataclasses.replace(data, stored=stored, rejected=store.rejected, notes=[*data.notes, said])


def at(found: Objects, rows: Sequence[int]) -> Any:
    """The packed objects of some of the rows."""
    place = {row: number for number, row in enumerate(found.rows)}
    return found.batch[torch.tensor([place[row] for row in rows])]


def fitted(inputs: InputSpace[Any]) -> list[tuple[str, str]]:
    """What an input space learned: the digests of the files it saves."""
    with tempfile.TemporaryDirectory() as folder:
        inputs.save(Path(folder))
        files = sorted(file for file in Path(folder).rglob("*") if file.is_file())
        return [(file.relative_to(folder).as_posix(), digest(file)) for file in files]
