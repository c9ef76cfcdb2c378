"""`ele evaluate`: measure a trained run on its held-out pairs."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ele_core.cli import options

if TYPE_CHECKING:
    from ele_core.model.metrics import Groups
    from ele_core.runs.measurements import StoredEvaluation
    from ele_core.runs.run import Run


@click.command()
@options.run
@click.option(
    "--oracle",
    is_flag=True,
    help="Decode from the embeddings of the truths, as if the regression were perfect: its errors are excluded.",
)
@click.option(
    "--given",
    "given",
    multiple=True,
    metavar="CONSTRAINT",
    help="Give the decoder a part of the truth, such as the `formula` of molecules. May be repeated.",
)
@options.split
@options.limit
@click.option(
    "--record",
    "target",
    metavar="FILE",
    help="Measure again, and write the metrics as JSON, with what is needed to reproduce them.",
)
@click.option(
    "--by",
    metavar="PROPERTY",
    help="Print the metrics also for each value of a property of the truths, such as the `atoms` of molecules.",
)
@click.option(
    "--rivals",
    is_flag=True,
    help="Also train and measure other methods that fit the pairs, such as a network with attention for texts.",
)
@click.option(
    "--minutes",
    type=options.Number(min=0, min_open=True),
    metavar="N",
    help="With --rivals: minutes of processor time for each that chooses how long to train. "
    "Without: as long as the training of RUN took.",
)
@click.option("--again", is_flag=True, help="Measure again, also if an equal evaluation is stored in RUN.")
@options.decoding
@options.as_json
@options.output
@options.processes
def evaluate(
    run: str,
    oracle: bool,
    given: tuple[str, ...],
    split: str,
    limit: int | None,
    target: str | None,
    by: str | None,
    rivals: bool,
    minutes: float | None,
    again: bool,
    overrides: dict[str, Any],
    console: options.Console,
) -> None:
    """Measure a trained run on its held-out pairs.

    Decodes the held-out inputs of RUN, prints every metric, and writes RUN/predictions/SPLIT-DECODER.csv. If the same
    was measured before, as `ele train` does for its report, the stored metrics are printed. After Ctrl-C or SIGTERM,
    give the same command again to continue.

    \b
    ele evaluate run --decoder pgd
    ele evaluate run --decoder pgd --oracle
    ele evaluate run --decoder pgd-random --again
    ele evaluate run --by atoms
    ele evaluate run --given formula
    ele evaluate run --rivals --minutes 2
    ele evaluate run --processes 2
    ele evaluate run --set decoder.steps=200 --set candidates.share=0.1
    """
    from ele_core.model.constraints import require_given
    from ele_core.model.metrics import grouped, property_of
    from ele_core.runs.folder import brought
    from ele_core.runs.run import Run
    from ele_core.runtime.distributed import process_group

    with process_group() as processes:
        opened = Run(brought(Path(run), processes), options.registry())
        console.configuration(opened.decoding_config(overrides))
        if by is not None:  # refused before anything is measured, as are constraints
            property_of(opened.space, opened.space.pack(opened.space.examples()), by)
        if given:
            require_given(opened.space, given)
        found = None if again or target else opened.stored(split, limit, oracle, overrides, given)
        if processes.largest(int(processes.main and found is None)):
            started, monitor = time.monotonic(), console.monitor()
            result = opened.evaluate(
                oracle=oracle, split=split, limit=limit, given=given, overrides=overrides, monitor=monitor
            )
            seconds = round(time.monotonic() - started, 1)
        if not processes.main:
            return
    stored = found or opened.stored(split, limit, oracle, overrides, given)
    assert stored is not None
    if found is not None:
        console.note(f"measured on {found.date}, stored in {found.file}; --again measures again")
    groups = {}
    if by is not None:
        truths, values = stored.measured(opened.space)
        groups = {by: grouped(property_of(opened.space, truths, by), values)}
    if rivals:
        stored = with_rivals(stored, opened, minutes, console)
    if target:
        from ele_core.runs.measurements import record

        record(
            Path(target),
            opened,
            result,
            command=sys.argv[1:],
            split=split,
            oracle=oracle,
            seconds=seconds,
            rivals=stored.rivals,
        )
    show(stored, groups, opened, console)
    if not oracle:
        show_verdict(stored, opened, console)


def with_rivals(
    stored: StoredEvaluation, run: Run, minutes: float | None, console: options.Console
) -> StoredEvaluation:
    """Measure the rivals that are not yet stored with an evaluation, and store each as soon as it is measured."""
    from ele_core.experiments.rivals import measured_rivals
    from ele_core.runs.measurements import with_rival

    split, limit = stored.settings["split"], stored.settings["limit"]
    for name, means in measured_rivals(run, split, limit, minutes, list(stored.rivals), console.monitor()):
        stored = with_rival(stored, run.space, name, means)
    return stored


def show(stored: StoredEvaluation, groups: Mapping[str, Groups], run: Run, console: options.Console) -> None:
    """Print the metrics, those for each value of a property, trust, baselines and rivals, and published results."""
    from ele_core.model.evaluate import behind
    from ele_core.model.metrics import as_lines, texts
    from ele_core.model.trust.assess import lines as trust_lines

    parts = {
        "rivals": stored.rivals,
        "behind": behind(run.space, stored.metrics, stored.others),
        "by_property": groups,
        "trust": stored.trust,
    }
    known = {name: part for name, part in parts.items() if part}
    console.json({**stored.metrics, "baselines": stored.baselines, **known})
    for name, text in texts(stored.metrics, "{:10.4f}".format).items():
        console.show(f"{name:<20}{text}")
    for line in [line for name, rows in groups.items() for line in as_lines(name, rows)]:
        console.show(line)
    for line in trust_lines(stored.trust) if stored.trust else ():
        console.show(line)
    show_baselines(stored, run, console)
    references = run.references()
    for source in dict.fromkeys(reference.source for reference in references):
        console.show(f"Published ({source}):")
        for reference in references:
            if reference.source == source:
                values = ", ".join(f"{name} {value:g}" for name, value in reference.values.items())
                console.show(f"  {reference.name}: {values}")


def show_verdict(stored: StoredEvaluation, run: Run, console: options.Console) -> None:
    """Print what the metrics mean, in plain words."""
    from ele_core.report.headline import verdict
    from ele_core.runs.folder import training_pairs

    for sentence in verdict(stored.metrics, stored.trust, training_pairs(run.provenance)):
        console.hint(sentence)


def show_baselines(stored: StoredEvaluation, run: Run, console: options.Console) -> None:
    """Print what predicting without a model gives, what rivals give, and a warning if the model is behind."""
    from ele_core.model.evaluate import behind
    from ele_core.model.metrics import texts

    for title, found in (("Without a model:", stored.baselines), ("Rivals, on the same pairs:", stored.rivals)):
        if found:
            console.show(title)
        for name, means in found.items():
            shown = texts(means, "{:.4g}".format).items()
            console.show(f"  {name}: {', '.join(f'{metric} {text}' for metric, text in shown)}")
    if warning := behind(run.space, stored.metrics, stored.others):
        console.note(f"Note: {warning}")
