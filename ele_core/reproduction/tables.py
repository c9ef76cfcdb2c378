"""A study as a table beside the published figures: Markdown to read, LaTeX to publish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ele_core.interfaces import Reference
from ele_core.reproduction.results import Record, Summary, summaries
from ele_core.study import Row, Table

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
"""Characters that mean something else in LaTeX."""


def markdown(
    study: Table,
    scale: str,
    records: Sequence[Record],
    references: Mapping[str, Reference],
    skipped: Mapping[str, str] | None = None,
) -> str:
    """A page: the title, the table, what it was measured on, and what was not measured and why."""
    header, rows = cells(study, records, references)
    lines = [header, ["---"] * len(header), *rows]
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return "\n\n".join([f"# {study.title}", body, *notes(study, scale, records, references, skipped or {})]) + "\n"


def latex(
    study: Table,
    scale: str,
    records: Sequence[Record],
    references: Mapping[str, Reference],
    skipped: Mapping[str, str] | None = None,
) -> str:
    """A table environment; it needs the package booktabs."""
    header, rows = cells(study, records, references)
    lines = [" & ".join(map(escape, row)) + r" \\" for row in [header, *rows]]
    caption = " ".join([study.title + ".", *notes(study, scale, records, references, skipped or {})])
    return "\n".join(
        [
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
            r"\end{table}",
            "",
        ]
    )


def cells(
    study: Table, records: Sequence[Record], references: Mapping[str, Reference]
) -> tuple[list[str], list[list[str]]]:
    """The heading, and a line for each row of the study: each metric as published and as measured here."""
    published = {name for reference in references.values() for name in reference.values}
    header = ["method"]
    for name in study.metrics:
        header += [f"{name}, published", f"{name}, ours"] if name in published else [f"{name}, ours"]
    rows = [
        [row.name, *line(row, own_records(row, records), study.metrics, references, published)] for row in study.rows
    ]
    return [*header, "seeds", "test pairs"], rows


def line(
    row: Row,
    records: Sequence[Record],
    metrics: Sequence[str],
    references: Mapping[str, Reference],
    published: set[str],
) -> list[str]:
    """The cells of a row after its name."""
    ours, reference = summaries(records, metrics), references.get(row.reference or "")
    found: list[str] = []
    for name in metrics:
        if name in published:
            found.append(as_published(reference, name))
        found.append(as_text(ours.get(name)))
    pairs = sorted({int(record["metrics"]["examples"]) for record in records})
    return [*found, str(len(records)) if records else NOTHING, ", ".join(f"{n:,}" for n in pairs) or NOTHING]


def own_records(row: Row, records: Sequence[Record]) -> list[Record]:
    """The records of a row."""
    return [record for record in records if record["row"] == row.name]


def as_published(reference: Reference | None, metric: str) -> str:
    """A published figure, with its standard deviation where there is one."""
    if reference is None or metric not in reference.values:
        return NOTHING
    return as_text(Summary(reference.values[metric], reference.deviations.get(metric)))


def as_text(summary: Summary | None) -> str:
    """Mean ± standard deviation."""
    if summary is None:
        return NOTHING
    return f"{summary.mean:.3f}" + ("" if summary.deviation is None else f" ± {summary.deviation:.3f}")


def notes(
    study: Table,
    scale: str,
    records: Sequence[Record],
    references: Mapping[str, Reference],
    skipped: Mapping[str, str],
) -> list[str]:
    """What a reader must know to compare."""
    shown = {row.reference for row in study.rows}
    sources = dict.fromkeys(reference.source for name, reference in references.items() if name in shown)
    found = [f"Scale {scale}: {study.scales[scale].summary}"]
    if records:
        train = sorted({record["sizes"]["train"] for record in records})
        dates = sorted({record["date"] for record in records})
        spread = "Mean ± standard deviation of a sample over the seeds; where there is one seed, its value."
        when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        found.append(f"{spread} Training pairs: {', '.join(f'{n:,}' for n in train)}. Measured {when}.")
    found += [f"Published: {source}." for source in sources]
    measured = {record["row"] for record in records}
    absent = [f"{row}: {reason}" for row, reason in skipped.items() if row not in measured]
    return [*found, *([f"Not measured: {' '.join(absent)}"] if absent else [])]


def escape(text: str) -> str:
    """Text as LaTeX shows it."""
    return "".join(SPECIAL.get(character, character) for character in text)
