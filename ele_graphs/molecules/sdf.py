"""SDF files as tables: the data fields of each molecule, and its structure as SMILES in the last column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from ele_core import DataError, FileReader, InvalidOutput

NAME, SMILES = "name", "smiles"
"""The columns of the title line and of the structure; a data field of the same name is ignored."""
EXAMPLE = """ethanol
     RDKit          2D

  3  2  0  0  0  0  0  0  0  0999 V2000
    0.0000    0.0000    0.0000 C   0  0  0  0  0  0  0  0  0  0  0  0
    1.2990    0.7500    0.0000 C   0  0  0  0  0  0  0  0  0  0  0  0
    2.5981   -0.0000    0.0000 O   0  0  0  0  0  0  0  0  0  0  0  0
  1  2  1  0
  2  3  1  0
M  END
>  <melting_point>
-114.1

$$$$
"""


class SdfReader(FileReader):
    """Molecules with data fields: columns `name` if there are titles, one per field, and `smiles`."""

    def read(self, stream: BinaryIO) -> Mapping[str, Sequence[Any]]:
        """The columns of an SDF file; a structure that RDKit cannot read has the reason instead of a SMILES."""
        from ele_graphs.molecules.rdkit_adapter import sdf_records

        records = list(sdf_records(stream))
        if not records:
            raise DataError("not an SDF file: there is no molecule.")
        names = dict.fromkeys(name for record in records for name in record.fields if name not in (NAME, SMILES))
        columns: dict[str, list[Any]] = {}
        if any(record.title for record in records):
            columns[NAME] = [record.title for record in records]
        columns |= {name: [record.fields.get(name) for record in records] for name in names}
        unreadable = InvalidOutput("RDKit cannot read this structure.")
        return columns | {SMILES: [record.smiles or unreadable for record in records]}

    def examples(self) -> list[bytes]:
        """A file of one molecule, and one of two."""
        return [EXAMPLE.encode(), (EXAMPLE + EXAMPLE.replace("ethanol", "again")).encode()]
