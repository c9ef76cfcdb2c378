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
    from ele_core.model.evaluate import Baselines
    from ele_core.model.metrics import Groups
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
    ele evaluate run --processes 2
    ele evaluate run --set decoder.steps=200 --set candidates.share=0.1
    """
    from ele_core.model.constraints import require_given
    from ele_core.model.metrics import grouped, property_of
    from ele_core.runs.run import Run
    from ele_core.runtime.distributed import process_group

    with process_group() as processes:
        opened = Run(run, options.registry())
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
    groups = {}
    if by is not None and stored is not None:
        truths, values = stored.measured(opened.space)
        groups = {by: grouped(property_of(opened.space, truths, by), values)}
    if found is not None:
        console.note(f"measured on {found.date}, stored in {found.file}; --again measures again")
        show(found.metrics, found.baselines, groups, found.trust, opened, console)
        if not oracle:
            show_verdict(found.metrics, found.trust, opened, console)
        return
    if target:
        from ele_core.runs.measurements import record

        record(Path(target), opened, result, command=sys.argv[1:], split=split, oracle=oracle, seconds=seconds)
    show(result.metrics, result.baselines, groups, result.assessment, opened, console)
    if not oracle:
        show_verdict(result.metrics, result.assessment, opened, console)


def show(
    metrics: Mapping[str, float],
    found: Baselines,
    groups: Mapping[str, Groups],
    trust: Mapping[str, Any],
    run: Run,
    console: options.Console,
) -> None:
    """Print the metrics, those for each value of a property, trust, the baselines, and published results."""
    from ele_core.model.metrics import as_lines, texts
    from ele_core.model.trust.assess import lines as trust_lines

    by = {"by_property": groups} if groups else {}
    by |= {"trust": trust} if trust else {}
    console.json({**metrics, "baselines": {name: dict(means) for name, means in found.items()}, **by})
    for name, text in texts(metrics, "{:10.4f}".format).items():
        console.show(f"{name:<20}{text}")
    for line in [line for name, rows in groups.items() for line in as_lines(name, rows)]:
        console.show(line)
    for line in trust_lines(trust) if trust else ():
        console.show(line)
    show_baselines(metrics, found, run, console)
    references = run.references()
    for source in dict.fromkeys(reference.source for reference in references):
        console.show(f"Published ({source}):")
        for reference in references:
            if reference.source == source:
                values = ", ".join(f"{name} {value:g}" for name, value in reference.values.items())
                console.show(f"  {reference.name}: {values}")


def show_verdict(metrics: Mapping[str, float], trust: Mapping[str, Any], run: Run, console: options.Console) -> None:
    """Print what the metrics mean, in plain words."""
    from ele_core.report.headline import verdict

    for sentence in verdict(metrics, trust, len(run.provenance["train"])):
        console.hint(sentence)


def show_baselines(metrics: Mapping[str, float], found: Baselines, run: Run, console: options.Console) -> None:
    """Print what predicting without a model gives, and a warning if the model is behind it."""
    from ele_core.model.evaluate import behind
    from ele_core.model.metrics import texts

    if not found:
        return
    console.show("Without a model:")
    for name, means in found.items():
        shown = texts(means, "{:.4g}".format).items()
        console.show(f"  {name}: {', '.join(f'{metric} {text}' for metric, text in shown)}")
    if warning := behind(run.space, metrics, found):
        console.note(f"Note: {warning}")
