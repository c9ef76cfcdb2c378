"""A study as a table beside the published figures: Markdown to read, LaTeX to publish."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ele_core.errors import DataError
from ele_core.experiments.reproduce.plan import without_seed
from ele_core.experiments.study import Row, Table
from ele_core.runs.measurements import Measurement, read_measurements
from ele_core.types import Reference

NOTHING = "–"
SPECIAL = {
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    "–": "--",
    "×": r"$\times$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
"""Characters with a special meaning in LaTeX → how to write them."""


@dataclasses.dataclass(frozen=True)
class ComparisonTable:
    """A table of results measured at one scale beside the published ones."""

    study: Table
    scale: str
    records: Sequence[Measurement]
    references: Mapping[str, Reference]
    skipped: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Rows that were not measured, and why."""

    def markdown(self) -> str:
        """A page: the title, the table, what it was measured on, and what was not measured and why."""
        return "\n\n".join([f"# {self.study.title}", self.markdown_table(), *self.notes()]) + "\n"

    def markdown_table(self) -> str:
        """The table alone."""
        header, *rows = self.cells()
        return "\n".join(f"| {' | '.join(line)} |" for line in [header, ["---"] * len(header), *rows])

    def latex(self) -> str:
        """A table environment."""
        header, *rows = self.cells()
        lines = [" & ".join(map(escape, row)) + r" \\" for row in [header, *rows]]
        caption = " ".join([self.study.title + ".", *self.notes()])
        return "\n".join(
            [
                r"% needs \usepackage{booktabs}",
                r"\begin{table}",
                r"\centering",
                rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
                r"\toprule",
                lines[0],
                r"\midrule",
                *lines[1:],
                r"\bottomrule",
                r"\end{tabular}",
                rf"\caption{{{escape(' '.join(caption.split()))}}}",
                rf"\label{{tab:{self.study.name}}}",
                r"\end{table}",
                "",
            ]
        )

    def cells(self) -> list[list[str]]:
        """The heading, then one line per row of the study: each metric as published and as measured here."""
        published = {name for reference in self.references.values() for name in reference.values}
        header = ["method"]
        for name in self.study.metrics:
            words = name.replace("_", " ")
            header += [f"{words}, published", f"{words}, measured"] if name in published else [f"{words}, measured"]
        return [[*header, "seeds", "test pairs"], *(self._line(row, published) for row in self.study.rows)]

    def _line(self, row: Row, published: set[str]) -> list[str]:
        records = [record for record in self.records if record["row"] == row.name]
        ours, reference = summaries(records, self.study.metrics), self.references.get(row.reference or "")
        found = [row.name]
        for name in self.study.metrics:
            if name in published:
                found.append(as_published(reference, name))
            found.append(as_text(ours.get(name)))
        seeds = sorted({int(record["seed"]) for record in records})
        pairs = sorted({int(record["metrics"]["examples"]) for record in records})
        return [*found, *(", ".join(f"{n:,}" for n in numbers) or NOTHING for numbers in (seeds, pairs))]

    def notes(self) -> list[str]:
        """Notes for the reader: scale, seeds, pairs, dates, sources, and rows that were not measured."""
        shown = {row.reference for row in self.study.rows}
        sources = dict.fromkeys(reference.source for name, reference in self.references.items() if name in shown)
        found = [f"Scale {self.scale}: {self.study.scales[self.scale].summary}"]
        if self.records:
            train = sorted({record["sizes"]["train"] for record in self.records})
            dates = sorted({record["date"] for record in self.records})
            spread = "Mean ± standard deviation of a sample over the seeds; where there is one seed, its value."
            when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
            found.append(f"{spread} Training pairs: {', '.join(f'{n:,}' for n in train)}. Measured {when}.")
        found += self._fewer()
        found += [f"Published: {source}." for source in sources]
        measured = {record["row"] for record in self.records}
        absent = [row.name for row in self.study.rows if row.name not in measured]
        told = " ".join(f"{name} {self.skipped.get(name, 'has not been run.')}" for name in absent)
        return [*found, *([f"Not measured: {told}"] if told else [])]

    def _fewer(self) -> list[str]:
        """Notes on rows that were measured on only a part of the test pairs."""
        limited = [record for record in self.records if record.get("settings", {}).get("limit", 0) is not None]
        counts = {(r["row"], int(r["metrics"]["examples"]), r["sizes"]["test"]) for r in limited}
        return [f"{row}: the first {n:,} of {all_:,} test pairs only." for row, n, all_ in sorted(counts) if n < all_]


def as_published(reference: Reference | None, metric: str) -> str:
    """A published figure, with its standard deviation if known."""
    if reference is None or metric not in reference.values:
        return NOTHING
    return as_text(Summary(reference.values[metric], reference.deviations.get(metric)))


def as_text(summary: Summary | None) -> str:
    """Mean ± standard deviation."""
    if summary is None:
        return NOTHING
    return f"{summary.mean:.3f}" + ("" if summary.deviation is None else f" ± {summary.deviation:.3f}")


def escape(text: str) -> str:
    """Escape text for LaTeX; two hyphens do not become a dash."""
    parts = ("".join(SPECIAL.get(character, character) for character in part) for part in text.split("--"))
    return "-{}-".join(parts)


@dataclasses.dataclass(frozen=True)
class Summary:
    """A metric over several seeds."""

    mean: float
    deviation: float | None
    """The standard deviation of a sample; None if there is only one value."""

    @classmethod
    def of(cls, values: Sequence[float]) -> Summary:
        """The mean and the standard deviation of some values."""
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)


def read_records(folder: Path) -> list[Measurement]:
    """Read every record in a folder, ordered by file name."""
    return [read_record(file) for file in sorted(folder.glob("*.json"))]


def read_record(file: Path) -> Measurement:
    """Read a record; refuse a file that is not one, and do not change it."""
    found = read_measurements(file, "a record of a study", "settings")
    if len(found) != 1:
        raise DataError("not a record of a study.", where=str(file), fix="Choose another folder with -o.")
    return found[0]


def up_to_date(records: Sequence[Measurement], current: Mapping[str, Mapping[str, Any]]) -> list[Measurement]:
    """The records with the current settings of their row.

    If a row cannot be run now, its current settings are unknown: keep its records with the most frequent settings.
    """
    kept = []
    for row in dict.fromkeys(record["row"] for record in records):
        own = [record for record in records if record["row"] == row]
        texts = [json.dumps(without_seed(record["settings"]), sort_keys=True) for record in own]
        wanted = json.dumps(current[row], sort_keys=True) if row in current else max(texts, key=texts.count)
        kept += [record for record, text in zip(own, texts, strict=True) if text == wanted]
    return kept


def summaries(records: Sequence[Measurement], metrics: Sequence[str]) -> dict[str, Summary]:
    """Each metric over the records of one row."""
    values = {name: [r["metrics"][name] for r in records if name in r["metrics"]] for name in metrics}
    return {name: Summary.of(found) for name, found in values.items() if found}
