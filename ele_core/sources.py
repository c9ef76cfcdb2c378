"""Where pairs come from: the base classes of tasks and of file readers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

from ele_core.component import Component
from ele_core.interfaces import OutputSpace
from ele_core.types import Reference

if TYPE_CHECKING:
    from ele_core.data.dataset import DataSet
    from ele_core.experiments.ranges import Range
    from ele_core.experiments.study import Study
    from ele_core.runtime.context import Context


class Task(Component, ABC):
    """A data set under a name, with a configuration that suits it and results to compare with."""

    references: ClassVar[Sequence[Reference]] = ()
    """Published results for this data set."""
    studies: ClassVar[Sequence[Study]] = ()
    """The tables and figures that `ele reproduce` makes."""
    ranges: ClassVar[Mapping[str, Range]] = {}
    """The ranges that `ele tune` searches, by option; options that the configuration does not have are skipped."""

    @classmethod
    @abstractmethod
    def defaults(cls) -> dict[str, Any]:
        """The run configuration of this task: the sections `output`, `input`, `surrogate`, `regressor`, `decoder`."""

    @classmethod
    def defaults_for(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """The run configuration of this task with these options, as given by the user; by default `defaults()`."""
        return cls.defaults()

    @abstractmethod
    def load(self, space: OutputSpace[Any, Any], context: Context) -> DataSet:
        """Load the pairs, packed by `space`, with their split."""


class FileReader(Component, ABC):
    """Reads the files of one suffix as a table. Its name is the suffix, with the dot; built as `FileReader(config)`."""

    @abstractmethod
    def read(self, stream: BinaryIO) -> Mapping[str, Sequence[Any]]:
        """The columns of a file by name, with one value per row; raise `DataError` if it is not such a file.

        By default the first column is the input and the last the output. A value is a text, a number or a list of
        numbers; None: there is none; an exception: the reason why it cannot be read.
        """

    def examples(self) -> list[bytes]:
        """The contents of a few small files, on which checks test this reader; by default an empty list."""
        return []
