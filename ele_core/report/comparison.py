"""Several runs side by side: training, evaluations with each decoder, and options that differ."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ele_core.config.diff import flatten
from ele_core.display.text import columns, listed
from ele_core.errors import EleError, command
from ele_core.files.signatures import read_key
from ele_core.interfaces import OutputSpace
from ele_core.plugins import Registry
from ele_core.report.headline import SHARES, label
from ele_core.report.learning_curves import Curve, curves, deciding, duration
from ele_core.runs.folder import changed_files, changed_since_signed, training_seconds
from ele_core.runs.measurements import StoredEvaluation, changed, load_all
from ele_core.runs.run import Run

DIRECTIONS = {"exact": "max", "exact_unseen": "max", "regression_error": "min"}
"""Which way is better for the metrics that every evaluation has."""
NOTHING = "–"
WIDEST = 40
"""Characters of a value on a terminal; a page shows all."""


@dataclasses.dataclass(frozen=True)
class ComparedLine:
    """One value that is compared: as text for each run, and the indices of the best runs."""

    name: str
    texts: list[str]
    best: frozenset[int] = frozenset()
    values: Sequence[float | None] = ()
    """The numbers that the texts show; empty if they are not numbers."""

    def as_dict(self) -> dict[str, Any]:
        """The line as plain values: numbers where there are any, else texts."""
        return {"name": self.name, "values": list(self.values) or self.texts, "best": sorted(self.best)}


@dataclasses.dataclass(frozen=True)
class Block:
    """Lines under a heading."""

    title: str
    lines: list[ComparedLine]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Runs side by side: their names, blocks of values, warnings, and curves to draw."""

    names: list[str]
    blocks: list[Block]
    warnings: list[str]
    curves: list[dict[str, Any]]

    def as_dict(self) -> dict[str, Any]:
        """Names, warnings and blocks as plain values."""
        blocks = [{"title": block.title, "lines": [line.as_dict() for line in block.lines]} for block in self.blocks]
        return {"runs": self.names, "warnings": self.warnings, "blocks": blocks}

    def __str__(self) -> str:
        return "\n\n".join([*self.warnings, *map(self._table, self.blocks)])

    def _table(self, block: Block) -> str:
        """A block as aligned text; a star marks the best values."""
        rows = [[block.title, *self.names]]
        for line in block.lines:
            texts = [text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…" for text in line.texts]
            rows.append([line.name, *(f"{t}{' *' if i in line.best else ''}" for i, t in enumerate(texts))])
        head, *lines = columns(rows).splitlines()
        return "\n".join([head, "-" * len(head), *lines])


def compare(folders: Sequence[str | Path], registry: Registry | None = None) -> Comparison:
    """Compare the runs in `folders`, in this order."""
    runs = [Run(folder, registry) for folder in folders]
    data = [run.provenance for run in runs]
    learned = [curves(run.folder, deciding(run.config)) for run in runs]
    names = short_names([run.folder for run in runs])
    differing = [
        text
        for part, text in (("fingerprint", "data"), ("test", "test pairs"), ("validation", "validation pairs"))
        if len({str(d.get(part)) for d in data}) > 1
    ]
    warnings = [f"The runs have different {differing[0]}: their numbers cannot be compared."] if differing else []
    warnings += [
        sentence for name, run in zip(names, runs, strict=True) for sentence in changes_since(name, run.folder)
    ]
    missing = [name for name, run in zip(names, runs, strict=True) if not load_all(run.folder)]
    warnings += [f"{name} was not evaluated: {command('evaluate', name)}" for name in missing]
    common = set.intersection(*({title(outcome) for outcome in load_all(run.folder)} for run in runs))
    if not common and not missing:
        warnings.append("No decoder was evaluated on all of these runs. Evaluate one: ele evaluate RUN --decoder NAME")
    blocks = [training(runs, data, learned), *evaluations(runs, ranked=not differing), differences(runs)]
    return Comparison(names, [block for block in blocks if block.lines], warnings, joint(names, learned))


def changes_since(name: str, folder: Path) -> list[str]:
    """Sentences on files of a run that were changed after they were written."""
    key = read_key()
    if key is not None:
        differ = changed_since_signed(folder, key)
        return [f"{name}: {listed(differ)} changed after the run was signed."] if differ else []
    journal, measured = changed_files(folder), changed(folder)
    sentences = [f"{name}: {listed(journal)} changed after the training: what they say may not be true."]
    advice = f"ignored. Evaluate again: {command('evaluate', name, '--again')}"
    sentences += [f"{name}: {file} was changed after it was measured, and is {advice}" for file in measured]
    return sentences if journal else sentences[1:]


def short_names(folders: Sequence[Path]) -> list[str]:
    """The last parts of the paths, as few as distinguish them."""
    paths = [folder.resolve().parts for folder in folders]
    longest = max(map(len, paths))
    count = next((k for k in range(1, longest) if len({path[-k:] for path in paths}) == len(paths)), 1)
    return ["/".join(path[-count:]) for path in paths]


def training(runs: Sequence[Run], data: Sequence[Mapping[str, Any]], learned: Sequence[Sequence[Curve]]) -> Block:
    """How long each run was trained, on how much, and the validation value of the weights that were kept."""
    seconds = [training_seconds(run.folder) for run in runs]
    lines = [
        ComparedLine("training time", [duration(value) for value in seconds]),
        ComparedLine("training pairs", [f"{len(d.get('train', ())):,}" for d in data]),
        ComparedLine("seed", [str(run.config.seed) for run in runs]),
    ]
    for stage, decides in decided(learned):
        values = [kept_value(own, stage, decides) for own in learned]
        # no best: losses can be compared only if views, negatives and temperature are the same
        lines.append(valued(f"{stage}: {label(decides)}", values, None))
    if any("surrogate_from" in d for d in data):
        lines.append(ComparedLine("learned loss reused from", [str(d.get("surrogate_from", NOTHING)) for d in data]))
    starts = [run.config.start for run in runs]
    if any(starts):
        lines.append(ComparedLine("started from", [start.name if start else NOTHING for start in starts]))
    return Block("training", lines)


def decided(learned: Sequence[Sequence[Curve]]) -> list[tuple[str, str]]:
    """Every stage of the runs with the metric that decided in it; stages without one are skipped."""
    return list(dict.fromkeys((c.stage, c.decides) for own in learned for c in own if c.decides is not None))


def kept_value(own: Sequence[Curve], stage: str, decides: str) -> float | None:
    """The deciding metric of a stage at the step whose weights were kept; None if it was not recorded."""
    for curve in own:
        if (curve.stage, curve.decides) == (stage, decides) and curve.kept is not None:
            return curve.series[decides][curve.steps.index(curve.kept)]
    return None


def evaluations(runs: Sequence[Run], *, ranked: bool) -> list[Block]:
    """One block per split and decoder that were evaluated, one line per metric; the best are marked if `ranked`."""
    found = [{title(outcome): outcome for outcome in load_all(run.folder)} for run in runs]
    directions = [directions_of(run) for run in runs] if ranked else []
    blocks = []
    for name in sorted({name for own in found for name in own}):
        outcomes = [own.get(name) for own in found]
        metrics = dict.fromkeys(metric for outcome in outcomes if outcome for metric in outcome.metrics)
        known = {metric: way for own in directions for metric, way in own.items()}
        values = {m: [o.metrics.get(m) if o else None for o in outcomes] for m in metrics}
        blocks.append(Block(name, [valued(label(m), values[m], known.get(m), share=m in SHARES) for m in metrics]))
    return blocks


def title(outcome: StoredEvaluation) -> str:
    """What was evaluated, as a heading."""
    settings = outcome.settings
    limit = f", first {settings['limit']}" if settings.get("limit") else ""
    oracle = " from the true embedding" if settings.get("oracle") else ""
    return f"{settings.get('split')}{limit}: {outcome.name}{oracle}"


def directions_of(run: Run) -> dict[str, str]:
    """Metric → `min` or `max`, by the run's space."""
    try:
        space: OutputSpace[Any, Any] = run.config.registry.create("output", run.config.output, path="output")
    except EleError:  # labels that were inferred from data are only in the model
        space = run.model().space
    return {**DIRECTIONS, **{metric.name: metric.direction for metric in space.metrics}}


def valued(name: str, values: Sequence[float | None], direction: str | None, *, share: bool = False) -> ComparedLine:
    """A line of numbers; the best are marked if at least two numbers differ."""
    texts = [NOTHING if v is None else f"{100 * v:.1f} %" if share else f"{v:.4g}" for v in values]
    known = [value for value in values if value is not None]
    if direction is None or len(known) < 2 or len(set(known)) == 1:
        return ComparedLine(name, texts, values=values)
    top = min(known) if direction == "min" else max(known)
    return ComparedLine(name, texts, frozenset(i for i, value in enumerate(values) if value == top), values)


def differences(runs: Sequence[Run]) -> Block:
    """The options that differ between runs, except the seed, which is listed under training."""
    flat = [flatten(run.config.model_dump(mode="json", exclude={"seed"})) for run in runs]
    paths = dict.fromkeys(path for own in flat for path in own)
    lines = []
    for path in paths:
        texts = [written(own[path]) if path in own else NOTHING for own in flat]
        if len(set(texts)) > 1:
            lines.append(ComparedLine(path, texts))
    return Block("configuration", lines)


def written(value: Any) -> str:
    """An option's value as text; floats in their shortest form."""
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def joint(names: Sequence[str], learned: Sequence[Sequence[Curve]]) -> list[dict[str, Any]]:
    """The curves of the deciding metric of every run, by stage."""
    return [
        {
            "stage": stage,
            "runs": [
                {"name": name, "steps": curve.steps, "values": curve.series[decides], "kept": curve.kept}
                for name, own in zip(names, learned, strict=True)
                for curve in own
                if (curve.stage, curve.decides) == (stage, decides)
            ],
            "label": label(decides),
        }
        for stage, decides in decided(learned)
    ]
