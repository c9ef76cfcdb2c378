"""The embeddings of a large file in a folder, so that the next search need not compute them again."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from ele_core.data.output_file import CHUNK, OutputFile
from ele_core.errors import ModelError
from ele_core.files.archive import read_json
from ele_core.files.atomic import new_folder, write_text
from ele_core.files.sources import bytes_of
from ele_core.model.model import Model
from ele_core.model.neighbours import Chunk

Precision = Literal["float32", "float16"]
FORMAT = 1
LARGEST = 1 << 20
"""Bytes of the largest description."""
ROWS, EMBEDDINGS, DESCRIPTION = "rows.i64", "embeddings.bin", "embeddings.json"


@dataclasses.dataclass(frozen=True)
class EmbeddingCache:
    """A folder with row numbers, embeddings, and a description that says of which file and by which model."""

    folder: Path
    known: dict[str, Any]

    @classmethod
    def open(cls, folder: Path, identity: dict[str, Any]) -> EmbeddingCache | None:
        """Return the cache in a folder; None if there is none, an error if it is of another file or model."""
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return None
        fix = "Choose another folder, or remove it."
        if not (folder / DESCRIPTION).is_file():
            raise ModelError("there is something there already, and it is no cache.", where=str(folder), fix=fix)
        known = read_json(folder / DESCRIPTION, LARGEST)
        if not isinstance(known, dict) or {name: known.get(name) for name in identity} != identity:
            raise ModelError("holds embeddings of another file, column or model.", where=str(folder), fix=fix)
        cache = cls(folder, known)
        if not cache.whole():
            raise ModelError("damaged: its files do not have the size that it names.", where=str(folder), fix=fix)
        return cache

    def whole(self) -> bool:
        """Whether the files have the size of what the description names."""
        count, dim, precision = (self.known.get(name) for name in ("count", "dim", "precision"))
        if not isinstance(count, int) or not isinstance(dim, int) or precision not in ("float32", "float16"):
            return False
        sizes = {ROWS: 8 * count, EMBEDDINGS: np.dtype(precision).itemsize * count * dim}
        files = {name: self.folder / name for name in sizes}
        return all(files[name].is_file() and files[name].stat().st_size == size for name, size in sizes.items())

    def count_chunks(self) -> int:
        """How many chunks there are, to show progress."""
        return -(-int(self.known["count"]) // CHUNK)

    def chunks(self) -> Iterator[Chunk]:
        """Read row numbers and embeddings, a chunk at a time."""
        dim, precision = self.known["dim"], np.dtype(self.known["precision"])
        with (self.folder / ROWS).open("rb") as rows, (self.folder / EMBEDDINGS).open("rb") as embeddings:
            while len(numbers := np.fromfile(rows, np.int64, CHUNK)):
                values = np.fromfile(embeddings, precision, len(numbers) * dim).reshape(-1, dim)
                yield torch.from_numpy(numbers), torch.from_numpy(values.astype(np.float32))

    def restore(self, source: OutputFile) -> None:
        """Tell the file what was found when it was read."""
        source.rows, source.left_out = self.known["rows"], self.known["left_out"]


def written(
    folder: Path, identity: dict[str, Any], chunks: Iterable[Chunk], precision: Precision, source: OutputFile
) -> Iterator[Chunk]:
    """Yield the chunks as they are stored, in a new folder, which is there only once all of them are."""
    count = dim = 0
    with new_folder(folder) as fresh:
        with (fresh / ROWS).open("wb") as rows, (fresh / EMBEDDINGS).open("wb") as embeddings:
            for numbers, values in chunks:
                count, dim = count + len(numbers), values.shape[1]
                rows.write(numbers.cpu().numpy().astype(np.int64).tobytes())
                stored = values.cpu().numpy().astype(precision)
                embeddings.write(stored.tobytes())
                yield numbers, torch.from_numpy(stored.astype(np.float32))
        found = {"rows": source.rows, "left_out": source.left_out, "count": count, "dim": dim, "precision": precision}
        write_text(fresh / DESCRIPTION, json.dumps({**identity, **found}, indent=2) + "\n")


def identity_of(model: Model, source: OutputFile) -> dict[str, Any]:
    """What the embeddings depend on: the contents of the file, the column, and the surrogate of the model."""
    with bytes_of(source.file) as stream:
        contents = hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]  # a stream of bytes
    sections = model.config.model_dump(mode="json", include={"output", "surrogate"})
    digest = hashlib.sha256(json.dumps(sections, sort_keys=True).encode())
    for name, tensor in sorted(model.surrogate.state().items()):
        digest.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
    column = {"column": source.column, "usual_column": source.usual}
    return {"format": FORMAT, "file": contents, **column, "model": digest.hexdigest()}
