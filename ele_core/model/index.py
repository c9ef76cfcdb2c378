"""An index: the structures of files, packed and embedded in shards, and what finds the nearest of them fast.

Its folder has `index.json`, which says of which files and by which model it is; shards of structures with their
embeddings in half precision; and what the component of kind `index` made of them. `manifest.json` is written last.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ele_core.config.resolve import resolve
from ele_core.data.objects import CHUNK, Objects, left_out, listed_left_out, read_outputs, refuse
from ele_core.data.store import PREFIX, labels_problem
from ele_core.errors import ConfigError, DataError, ModelError, counted
from ele_core.extras import installed
from ele_core.files.archive import MANIFEST, brief, digest, read_json, read_tensors, seal, verify
from ele_core.files.atomic import locked, make_folder, write_text
from ele_core.files.shards import Shards, write_shard
from ele_core.files.sources import digest_of
from ele_core.files.tables import Cells, Readers, count_chunks, stream_column
from ele_core.interfaces import Index
from ele_core.model.model import Model
from ele_core.runtime.context import Context
from ele_core.types import Candidates, Choice, Placed, StoredVectors

FORMAT = 2
"""The version of the folder's layout."""
DESCRIPTION, SUMMARY, LOSS, ENERGY = "index.json", "summary.json", "loss.safetensors", "energy.safetensors"
SHARD = 4 * CHUNK
"""Rows of a shard: what is in memory, what a process takes at a time, and what is read again after a stop."""
MILLION = 1_000_000
"""From so many structures on, inverted lists are the default."""
LOCK = ".lock"
AGAIN = "Build another with `ele index`."


# -- build --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class IndexBuilder:
    """Builds an index of the outputs in files; a build that was stopped is continued."""

    model: Model
    files: Sequence[str]
    folder: Path
    readers: Readers
    context: Context
    column: str | None = None
    """The column of the outputs; None: that of the training, or the first."""
    fatal: bool = False
    """Whether a row that cannot be used ends the build; it is skipped otherwise."""

    def build(self, choice: Choice | None = None) -> Path:
        """Write what is not there yet; `choice` is the component, None: `exact`, or `faiss` for millions."""
        processes = self.context.processes
        if choice is not None:
            resolve("index", choice, "index", self.model.config.registry)  # before hours of work
        with processes.main_first():
            self._begin()
        if self._complete(choice):
            self.context.monitor.message(f"{self.folder}: complete already")
            return self.folder
        try:
            with locked(self.folder / LOCK, "building an index") if processes.main else nullcontext():
                found = self._embed()
                processes.wait()
                if processes.main:
                    self._finish(found, choice)
        except DataError:
            if processes.main:
                self._withdraw()
            raise
        return self.folder

    def _complete(self, choice: Choice | None) -> bool:
        """Whether the index is there, with the component that is asked for and for the energy of this model."""
        if not (self.folder / MANIFEST).is_file():
            return False
        known = read_json(self.folder / SUMMARY)
        same = choice is None or known.get("index") == choice.model_dump()
        return same and bool(known.get("energy") == matrix_digest(energy_matrix(self.model)))

    def _begin(self) -> None:
        """Create the folder, unless it is already that of an index of the same model and files."""
        described = self.folder / DESCRIPTION
        if not described.is_file():
            if self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
                what = "there is something else, which is no index."
                raise ModelError(what, where=str(self.folder), fix="Choose another folder.")
            identity = json.dumps(self.identity, indent=2) + "\n"  # reads the files: one may be missing
            make_folder(self.folder)
            write_text(described, identity)
        elif read_json(described) != self.identity:
            what = "holds an index of other files, of another column or of another model."
            raise ModelError(what, where=str(self.folder), fix="Choose another folder, or remove it.")

    def _withdraw(self) -> None:
        """Remove an index of files that cannot be used, so that the folder is free for others.

        Shards stay if a bad row ended the build: `--on-error skip` continues with them.
        """
        shards = list(self.folder.glob("shard-*.safetensors"))
        if not (self.fatal and shards):
            for file in (*shards, self.folder / DESCRIPTION):
                file.unlink(missing_ok=True)
            with suppress(OSError):  # somebody's own files are there too
                self.folder.rmdir()

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What the shards depend on: the model's loss, and the column and contents of each file."""
        files = [{"sha256": digest_of(file), "column": self.column} for file in self.files]
        return {"format": FORMAT, "model": model_digest(self.model), "files": files}

    def _embed(self) -> list[Path]:
        """Write the shards that are missing, each of several processes its share; return the names of all."""
        found: list[Path] = []
        before, processes = 0, self.context.processes
        for file in self.files:
            rows = 0
            for cells, lines in self._cells(file):
                shard = self.folder / f"shard-{len(found):05}.safetensors"
                if len(found) % processes.count == processes.rank and not shard.is_file():
                    read = read_outputs(self.model.space, cells, lines=lines)
                    bad = [dataclasses.replace(each, row=rows + each.row) for each in read.rejected]
                    if self.fatal:
                        refuse(bad, file)
                    write_shard(shard, {**self._embedded(read, before + rows), **left_out(bad, file)})
                found.append(shard)
                rows += len(cells)
            before += rows
        return found

    def _cells(self, file: str) -> Iterator[Cells]:
        """Yield the cells of a file, shard by shard, with progress."""
        total = count_chunks(file, SHARD, self.readers)
        usual = self.model.config.data.output if self.model.config.data else None
        cells = stream_column(file, self.column, usual, SHARD, self.readers)
        yield from self.context.monitor.progress(cells, description=f"embedding {file}", total=total)

    def _embedded(self, read: Objects, first: int) -> dict[str, Tensor]:
        """Structures, their embeddings and row numbers, counted from `first`."""
        batch = read.batch if len(read) else self.model.space.pack([])
        embed, parts = self.model.surrogate.embed, list(batch.chunks(CHUNK)) or [batch]
        embeddings = torch.cat([embed(part).half().cpu() for part in parts])
        if not embeddings.isfinite().all():
            raise ModelError("an embedding is too large for half precision: 65,504 is the limit.", where="index")
        return {
            **{f"{PREFIX}{name}": tensor for name, tensor in batch.as_dict().items()},
            "embeddings": embeddings,
            "rows": first + torch.tensor(read.rows, dtype=torch.long),
        }

    def _finish(self, files: Sequence[Path], choice: Choice | None) -> None:
        """Build the component over all shards, and seal the folder."""
        embeddings = Embeddings(Shards(files, ["embeddings"]))
        skipped = self._tell(files, len(embeddings))
        if not len(embeddings):
            what = (
                f"none of {counted(skipped, 'row')} is a structure of this model." if skipped else "there are no rows."
            )
            fix = "Check the column." if skipped else "Give one structure per row."
            raise DataError(what, where=", ".join(self.files), fix=fix)
        chosen = choice or usual_index(len(embeddings))
        matrix = energy_matrix(self.model)
        parts = {LOSS: None} if matrix is None else {LOSS: None, ENERGY: matrix}
        for name, own in parts.items():
            index = create(self.model, chosen, StoredVectors(embeddings, own))
            index.build(self.context)
            write_shard(self.folder / f".{name}", {**index.state(), "built": torch.ones(1)})
        self._exchange(parts)
        summary = {"structures": len(embeddings), "left_out": skipped, "shards": len(files)}
        about = {"index": chosen.model_dump(), "energy": matrix_digest(matrix)}
        write_text(self.folder / SUMMARY, json.dumps({**summary, **about}, indent=2) + "\n")
        seal(self.folder, unsealed=[LOCK])

    def _exchange(self, parts: Collection[str]) -> None:
        """Put the new parts in the places of those that are there, which can be used until now."""
        (self.folder / MANIFEST).unlink(missing_ok=True)
        for name in (LOSS, ENERGY):
            (self.folder / name).unlink(missing_ok=True)
            if name in parts:
                (self.folder / f".{name}").replace(self.folder / name)
            else:
                (self.folder / f".{name}").unlink(missing_ok=True)

    def _tell(self, files: Sequence[Path], count: int) -> int:
        """Say how many rows were left out, and list the first of them; return their number."""
        skipped, rejected = listed_left_out(files)
        listed = [f"{file}, {each}" for file, each in rejected]
        told = f"{self.folder}: {counted(count, 'structure')}, {counted(skipped, 'row')} left out"
        more = [f"… and {skipped - len(listed):,} more"] if skipped > len(listed) else []
        self.context.monitor.message("\n  ".join([told, *listed, *more]))
        return skipped


def model_digest(model: Model) -> str:
    """A hash of what embeddings depend on: the output space and the surrogate."""
    sections = model.config.model_dump(mode="json", include={"output", "surrogate"})
    found = hashlib.sha256(json.dumps(sections, sort_keys=True).encode())
    for name, tensor in sorted(model.surrogate.state().items()):
        found.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def energy_of(model: Model) -> Placed | None:
    """The energy of a model as a squared distance of its embeddings; None: it is none."""
    placed = model.regressor.energy(torch.zeros(0, model.surrogate.dim)).walk.placed
    return placed if placed is not None and placed.surrogate is model.surrogate else None


def energy_matrix(model: Model) -> Tensor | None:
    """The linear map of embeddings under which a model's energies are squared distances; None: the unit matrix."""
    placed = energy_of(model)
    return None if placed is None or placed.matrix is None else placed.matrix.detach().cpu()


def matrix_digest(matrix: Tensor | None) -> str:
    """A hash of a linear map; empty for the unit matrix."""
    return "" if matrix is None else hashlib.sha256(matrix.contiguous().numpy().tobytes()).hexdigest()


def usual_index(count: int) -> Choice:
    """The component for so many structures: inverted lists for millions, if faiss is installed."""
    return Choice(name="faiss" if count >= MILLION and installed("faiss") else "exact")


def create(model: Model, choice: Choice, vectors: StoredVectors) -> Index:
    """Create a component of kind `index` over vectors."""
    made: Index = model.config.registry.create("index", choice, vectors, path="index")
    return made


# -- use ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Indexed:
    """The structures of an index, and the search for the nearest of them."""

    folder: Path
    model: Model
    summary: Mapping[str, Any]
    structures: Structures
    embeddings: Embeddings
    row_numbers: Shards

    def __len__(self) -> int:
        return len(self.embeddings)

    @property
    def digest(self) -> str:
        """The SHA-256 of the manifest, which lists those of all files."""
        return digest(self.folder / MANIFEST)

    def index(self, name: str, matrix: Tensor | None) -> Index:
        """Restore a component from its file."""
        file = self.folder / name
        found = create(self.model, Choice.model_validate(self.summary["index"]), StoredVectors(self.embeddings, matrix))
        state = {key: tensor for key, tensor in read_tensors(file).items() if key != "built"}
        try:
            found.restore(state)
        except (ValueError, RuntimeError) as error:
            raise ModelError(f"damaged: {brief(error)}.", where=str(file), fix=AGAIN) from None
        return found

    def nearest(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The k structures nearest to embeddings (B, dim) by the learned distance: distances and places (B, k)."""
        return self.index(LOSS, None).search(queries, min(k, len(self)))

    def rows(self, places: Tensor) -> Tensor:
        """The row of each structure in the files, counted from 0 through all files."""
        return self.row_numbers[places.flatten()]["rows"].view(places.shape)

    def candidates(self) -> Candidates:
        """The structures as candidates, which the energy of the model finds by the index."""
        if energy_of(self.model) is None:
            what = "an index finds candidates by a squared distance, which the energy of this model is not."
            raise ConfigError(what, where=str(self.folder), fix="Give the candidates as a file.")
        matrix = energy_matrix(self.model)
        if self.summary.get("energy") != matrix_digest(matrix):
            what = "the index was built for another energy: the regressor of this model weighs errors differently."
            fix = "Give the command `ele index` again, with this model: embeddings are kept."
            raise ModelError(what, where=str(self.folder), fix=fix)
        index = self.index(LOSS if matrix is None else ENERGY, matrix)
        embeddings: Any = self.embeddings
        return Candidates(self.structures, embeddings, surrogate=self.model.surrogate, index=index)


class Structures:
    """Packed structures in shards: those that are asked for are read and checked."""

    def __init__(self, shards: Shards, model: Model) -> None:
        self.shards, self.space = shards, model.space

    def __len__(self) -> int:
        return len(self.shards)

    def __getitem__(self, rows: slice | Tensor | Sequence[int]) -> Any:
        """The structures at `rows`, packed."""
        places = rows if isinstance(rows, slice) else torch.as_tensor(rows, dtype=torch.long)
        stored = self.shards[places]
        batch = self.space.Batch.from_dict({name.removeprefix(PREFIX): tensor for name, tensor in stored.items()})
        if problem := labels_problem(batch, self.space):
            raise ModelError(f"damaged: {problem}.", where=str(self.shards.files[0].parent), fix=AGAIN)
        return batch

    def chunks(self, size: int) -> Iterator[Any]:
        """All structures in order, at most `size` at a time."""
        return (self[start : start + size] for start in range(0, len(self), size))


class Embeddings:
    """Embeddings in shards, as floats."""

    def __init__(self, shards: Shards) -> None:
        self.shards = shards

    def __len__(self) -> int:
        return len(self.shards)

    def __getitem__(self, rows: slice | Tensor) -> Tensor:
        """The embeddings at `rows`: (n, dim)."""
        return self.shards[rows]["embeddings"].float()


def is_index(path: str) -> bool:
    """Whether a path is a folder, which can only be an index: tables are files."""
    return Path(path).is_dir()


def open_index(folder: Path, model: Model) -> Indexed:
    """Open an index that was built with the loss of this model; its files are compared with the manifest."""
    if not (folder / DESCRIPTION).is_file():
        raise ModelError(f"not an index: it has no {DESCRIPTION}.", where=str(folder), fix=AGAIN)
    try:
        return opened_index(folder, model)
    except ModelError as error:
        raise ModelError(error.what, where=error.where, fix=error.fix or AGAIN) from None


def opened_index(folder: Path, model: Model) -> Indexed:
    """As `open_index`, with errors that may not say what to do."""
    described = read_json(folder / DESCRIPTION)
    if not isinstance(described, dict) or described.get("format") != FORMAT:
        raise ModelError(f"not an index of format {FORMAT}.", where=str(folder / DESCRIPTION), fix=AGAIN)
    if described.get("model") != model_digest(model):
        what = "the index was built with another model: its output space or its loss differs."
        raise ModelError(what, where=str(folder), fix=AGAIN)
    if not (folder / MANIFEST).is_file():
        fix = "Give the command `ele index` that began it again: it continues."
        raise ModelError("the index is not complete.", where=str(folder), fix=fix)
    verify(folder, [LOCK])
    summary = read_json(folder / SUMMARY)
    if not isinstance(summary, dict) or not isinstance(summary.get("index"), dict):
        raise ModelError("damaged.", where=str(folder / SUMMARY), fix=AGAIN)
    files = sorted(folder.glob("shard-*.safetensors"))
    fields = [f"{PREFIX}{name}" for name, _ in model.space.pack([]).named_tensors()]
    shards = Shards(files, [*fields, "embeddings", "rows"])
    structures, embeddings = Structures(shards.only(fields), model), Embeddings(shards.only(["embeddings"]))
    known = len(files), len(shards), embeddings[:0].shape[1:]
    if known != (summary.get("shards"), summary.get("structures"), (model.surrogate.dim,)):
        raise ModelError("damaged: it does not have the shards that it names.", where=str(folder), fix=AGAIN)
    return Indexed(folder, model, summary, structures, embeddings, shards.only(["rows"]))
