"""Predict for a file of any length, block by block: each block becomes a part on disk, which a kill leaves whole."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ele_core.data.objects import CHUNK, LISTED, Rejected, read_inputs, refuse
from ele_core.errors import ConfigError, ModelError
from ele_core.files.atomic import replacing, write_bytes
from ele_core.files.binary_tables import as_parquet, join_parquet, parquet_about
from ele_core.files.columns import Table
from ele_core.files.sources import bytes_of
from ele_core.files.tables import (
    Readers,
    count_chunks,
    in_parts,
    input_places,
    read_table,
    stream_tables,
    suffix_of,
)
from ele_core.model.constraints import from_options
from ele_core.model.model import Model
from ele_core.model.predict import Request, predict_texts
from ele_core.model.results import UNLIKE, Predictions, rounded, written
from ele_core.model.tables import PARQUET, PredictionTable, as_numbers, contents, type_of
from ele_core.runtime.context import Context
from ele_core.runtime.distributed import Processes
from ele_core.runtime.monitor import Monitor
from ele_core.runtime.work import PartOfWork, Snapshot

ABOUT = "ele"
"""The key of the metadata of a part: what it is a part of, its columns, and what was counted in it."""


@dataclasses.dataclass(frozen=True)
class Shard:
    """One of several equal shares of the blocks of a file: number `place`, counted from 1, of `count`."""

    place: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read `i/N`."""
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text, re.ASCII)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            fix = "Write i/N with i from 1 to N, as in 2/8."
            raise ConfigError(f"{text!r} is not a shard.", where="--shard", fix=fix)
        return cls(int(found[1]), int(found[2]))

    def has(self, block: int) -> bool:
        """Whether the block, counted from 0, belongs to this share."""
        return block % self.count == self.place - 1


@dataclasses.dataclass(frozen=True)
class Tally:
    """What was counted in a part of the predictions."""

    inputs: int = 0
    answered: int = 0
    unlike: int = 0
    refused: int = 0

    @classmethod
    def of(cls, predictions: Predictions) -> Tally:
        """Count the inputs, those with an answer, and those unlike the training."""
        found = sum(each.best is not None for each in predictions)
        return cls(len(predictions), found, len(predictions.unlike_training), len(predictions.refused))

    @classmethod
    def sum(cls, parts: Iterable[Tally]) -> Tally:
        """What was counted in all parts."""
        counts = [dataclasses.astuple(each) for each in parts]
        return cls(*map(sum, zip(*counts, strict=True)))


@dataclasses.dataclass(frozen=True)
class InputFile:
    """The inputs of a file, in blocks of rows with all its columns."""

    file: str
    readers: Readers
    column: str | None
    """The column of the inputs; None: that of the training, or the first."""
    trained: str | tuple[str, ...] | None
    whole: Table | None = None
    """All rows, if the file can be read only once."""
    only_new: bool = False
    """Whether the columns of the file are left out of the predictions."""

    @classmethod
    def open(
        cls,
        file: str,
        readers: Readers,
        column: str | None,
        trained: str | tuple[str, ...] | None,
        *,
        only_new: bool = False,
    ) -> InputFile:
        """Open a file, or standard input, which is read as a whole."""
        return cls(file, readers, column, trained, read_table("-") if file == "-" else None, only_new)

    def digest(self) -> str:
        """The SHA-256 of the file."""
        if self.whole is not None:
            return self.whole.digest
        with bytes_of(self.file) as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]  # a stream of bytes

    def blocks(self) -> Iterator[tuple[int, PredictionTable]]:
        """Yield the blocks with their numbers; there is at least one, and only that may be empty."""
        first, places = 0, list[int]()
        several = self.trained if self.column is None and isinstance(self.trained, tuple) else ()
        tables = stream_tables(self.file, CHUNK, self.readers) if self.whole is None else in_parts(self.whole, CHUNK)
        for number, table in enumerate(tables):
            places = places or input_places(table, self.column, self.trained)
            if number == 0 or len(table):
                yield number, PredictionTable(table, places, first, self.only_new, several)
            first += len(table)

    def count(self) -> int | None:
        """The number of blocks; None if only reading the file would tell."""
        if self.whole is not None:
            return max(1, -(-len(self.whole) // CHUNK))
        return count_chunks(self.file, CHUNK, self.readers)


@dataclasses.dataclass(frozen=True)
class FilePrediction:
    """What is asked for each input of a file."""

    model: Model
    request: Request
    constraints: Sequence[str] = ()
    """NAME=VALUE or NAME=@COLUMN."""
    on_error: str = "null"

    def check(self, source: InputFile) -> None:
        """Refuse what the model cannot do; read the file once if a row of it can be a reason to predict nothing."""
        dataclasses.replace(self.request, constraints=[] if self.constraints else None).require(self.model)
        if self.on_error != "raise" and not any("=@" in each for each in self.constraints):
            return
        rejected, count = list[Rejected](), 0
        for _, block in source.blocks():
            from_options(self.model.space, self.constraints, block.table)
            if self.on_error == "raise":
                read = read_inputs(self.model.inputs, block.cells, lines=block.table.lines, pack=self.model.pack)
                found = read.rejected
                count += len(found)
                room = max(0, LISTED - len(rejected))
                rejected += [dataclasses.replace(each, row=block.first + each.row) for each in found[:room]]
        refuse(rejected, source.file, count=count)

    def __call__(self, block: PredictionTable, context: Context) -> Predictions:
        bound = from_options(self.model.space, self.constraints, block.table)
        request = dataclasses.replace(self.request, constraints=bound)
        return predict_texts(self.model, block.cells, request, context=context)


class Parts:
    """The parts of a prediction in a folder, one file per block, each whole or not there.

    They are Parquet files, or lines of JSON of which the first says what the part is.
    """

    def __init__(self, folder: Path, suffix: str, key: str, processes: Processes) -> None:
        self.folder = folder
        self.suffix = suffix
        self.key = key
        found = list(self._numbers()) if processes.main and folder.is_dir() else []
        self.found = set(json.loads(processes.text_from_main(json.dumps(found))))
        for number in sorted(self.found)[:1] if processes.main else ():
            self.about(number)  # refuses a folder with other predictions

    def file(self, number: int) -> Path:
        """The file of a block."""
        return self.folder / f"part-{number:08d}{self.suffix}"

    def write(self, number: int, block: PredictionTable, predictions: Predictions, *, skip: bool) -> None:
        """Write the part of a block; it always has the column `unlike_training`."""
        columns = (*(name for name in predictions.columns if name != UNLIKE), UNLIKE)
        names, rows = block.names(columns), block.rows(predictions, rounded, skip=skip)
        tally = dataclasses.asdict(Tally.of(predictions))
        reason = next(iter(predictions.refused.values()), "")
        about = json.dumps({"of": self.key, "kept": block.kept, "names": names, "tally": tally, "reason": reason})
        if self.suffix in PARQUET:
            rows = [{names[UNLIKE]: "", **row} for row in rows]
            types = {new: type_of(name) for name, new in names.items()}
            content = as_parquet(rows, [*block.kept, *names.values()], str(self.folder), types, {ABOUT: about})
        else:
            content = f"{about}\n".encode() + contents(rows, (), "", as_json=True)
        write_bytes(self.file(number), content)
        self.found.add(number)

    def about(self, number: int) -> dict[str, Any]:
        """What a part says of itself; refuse one of other predictions."""
        file = self.file(number)
        if self.suffix in PARQUET:
            text = parquet_about(file).get(ABOUT, "")
        else:
            with file.open(encoding="utf-8") as stream:
                text = stream.readline()
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict) or found.get("of") != self.key:
            fix = "Choose another folder, or remove it."
            raise ModelError("holds predictions of another model, file or command.", where=str(file), fix=fix)
        return found

    def rows(self, number: int) -> list[dict[str, Any]]:
        """The rows of a part that is not Parquet."""
        with self.file(number).open(encoding="utf-8") as stream:
            next(stream)
            return [json.loads(line) for line in stream]

    def _numbers(self) -> Iterator[int]:
        for file in self.folder.iterdir():
            if found := re.fullmatch(rf"part-(\d{{8,}}){re.escape(self.suffix)}", file.name, re.ASCII):
                yield int(found[1])


@dataclasses.dataclass
class Predicted:
    """The parts of a shard, and what is known of them together."""

    parts: Parts
    head: PredictionTable
    """The first block of the file."""
    numbers: list[int] = dataclasses.field(default_factory=list)
    """The blocks of the shard."""
    note: str = ""
    """A line on columns that got another name."""

    @cached_property
    def _about(self) -> list[dict[str, Any]]:
        return [self.parts.about(number) for number in self.numbers]

    @cached_property
    def tally(self) -> Tally:
        """The sum of what was counted."""
        return Tally.sum(Tally(**each["tally"]) for each in self._about)

    @property
    def reason(self) -> str:
        """Why the first input that cannot be used cannot; empty if all can."""
        return next((each["reason"] for each in self._about if each["reason"]), "")

    @cached_property
    def names(self) -> dict[str, str]:
        """The columns of the predictions → their names: those of all parts; `unlike_training` only if an input is."""
        every = [each["names"] for each in self._about] or [self.head.names()]
        found = {name: new for names in every for name, new in names.items() if name != UNLIKE}
        return found | ({UNLIKE: every[0][UNLIKE]} if self.tally.unlike else {})

    @property
    def columns(self) -> list[str]:
        """All columns of the parts as one table."""
        return [*self.head.kept, *self.names.values()]

    def texts(self, target: str, *, as_json: bool) -> Iterator[bytes]:
        """Yield the parts as the contents of one file: JSON lines, TSV or CSV, by the suffix of `target`."""
        numbers = as_numbers(target, as_json=as_json)
        empty = {new: "" if type_of(name) == "string" else None for name, new in self.names.items()}
        original = {new: name for name, new in self.names.items()}

        def cell(name: str, value: Any) -> Any:
            return written(original[name], value) if name in original and not numbers else value

        yield contents([], self.columns, target, as_json=as_json)
        for number in self.numbers:
            whole = [{**empty, **row} for row in self.parts.rows(number)]
            rows = [{name: cell(name, row[name]) for name in self.columns} for row in whole]
            yield contents(rows, self.columns, target, as_json=as_json, header=False)

    def write(self, target: str, *, as_json: bool) -> None:
        """Write the parts as one file."""
        with replacing(Path(target)) as stream:
            if suffix_of(target) in PARQUET and self.numbers:
                join_parquet([self.parts.file(number) for number in self.numbers], self.columns, stream, target)
            else:
                stream.writelines(self.texts(target, as_json=as_json))


def predict_file(predict: FilePrediction, source: InputFile, shard: Shard, parts: Parts, context: Context) -> Predicted:
    """Predict for the blocks of a shard that have no part yet. Of several processes the main one writes."""
    total = source.count()
    blocks = source.blocks()
    if total != 1:
        blocks = context.monitor.progress(blocks, description=f"predicting {source.file}", total=total)
        context = context.with_monitor(Monitor())
    found: Predicted | None = None
    for number, block in blocks:
        found = found or Predicted(parts, block)
        if not shard.has(number):
            continue
        found.numbers.append(number)
        if number in parts.found:
            continue
        work = PartOfWork(context.work, f"block {number + 1}") if number else context.work
        predictions = predict(block, dataclasses.replace(context, work=work))
        found.note = found.note or block.renamed(predictions)
        if context.processes.main:
            parts.write(number, block, predictions, skip=predict.on_error == "skip")
        context.work.finish("predicting", Snapshot, closes=True)
    assert found is not None  # there is at least one block
    return found
