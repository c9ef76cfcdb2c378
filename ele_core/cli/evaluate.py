"""`ele evaluate`: measure a trained run on its held-out pairs."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ele_core.cli import options

if TYPE_CHECKING:
    from ele_core.cli.console import Console
    from ele_core.model.baselines import Baselines
    from ele_core.model.groups import Groups
    from ele_core.runs.evaluations import StoredEvaluation
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
    console: Console,
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
    from ele_core.runs.run import Run
    from ele_core.runtime.distributed import process_group

    with process_group() as processes:
        opened = Run(run, options.registry())
        console.configuration(opened.decoding_config(overrides))
        require_property(opened, by)
        require_constraints(opened, given)
        found = None if again or target else opened.stored(split, limit, oracle, overrides, given)
        if processes.largest(int(processes.main and found is None)):
            started, monitor = time.monotonic(), console.monitor()
            result = opened.evaluate(
                oracle=oracle, split=split, limit=limit, given=given, overrides=overrides, monitor=monitor
            )
            seconds = round(time.monotonic() - started, 1)
        if not processes.main:
            return
    groups = grouped(opened, found or opened.stored(split, limit, oracle, overrides, given), by)
    if found is not None:
        console.note(f"measured on {found.date}, stored in {found.file}; --again measures again")
        show(found.metrics, found.baselines, groups, found.trust, opened, console)
        return
    if target:
        from ele_core.runs.records import record

        record(Path(target), opened, result, command=sys.argv[1:], split=split, oracle=oracle, seconds=seconds)
    show(result.metrics, result.baselines, groups, result.assessment, opened, console)


def show(
    metrics: Mapping[str, float],
    found: Baselines,
    groups: Mapping[str, Groups],
    trust: Mapping[str, Any],
    run: Run,
    console: Console,
) -> None:
    """Print the metrics, those for each value of a property, trust, the baselines, and published results."""
    from ele_core.model.bounds import texts

    by = {"by_property": groups} if groups else {}
    by |= {"trust": trust} if trust else {}
    console.json({**metrics, "baselines": {name: dict(means) for name, means in found.items()}, **by})
    for name, text in texts(metrics, "{:10.4f}".format).items():
        console.show(f"{name:<20}{text}")
    show_groups(groups, console)
    show_trust(trust, console)
    show_baselines(metrics, found, run, console)
    references = run.references()
    for source in dict.fromkeys(reference.source for reference in references):
        console.show(f"Published ({source}):")
        for reference in references:
            if reference.source == source:
                values = ", ".join(f"{name} {value:g}" for name, value in reference.values.items())
                console.show(f"  {reference.name}: {values}")


def show_trust(trust: Mapping[str, Any], console: Console) -> None:
    """Print what confidence and prediction sets are worth, if the model is calibrated."""
    from ele_core.model.trust.assess import lines

    for line in lines(trust) if trust else ():
        console.show(line)


def show_groups(groups: Mapping[str, Groups], console: Console) -> None:
    """Print a table of the metrics for each value of a property."""
    from ele_core.model.groups import as_lines

    for name, rows in groups.items():
        for line in as_lines(name, rows):
            console.show(line)


def show_baselines(metrics: Mapping[str, float], found: Baselines, run: Run, console: Console) -> None:
    """Print what predicting without a model gives, and a warning if the model is behind it."""
    from ele_core.model.baselines import behind
    from ele_core.model.bounds import texts

    if not found:
        return
    console.show("Without a model:")
    for name, means in found.items():
        shown = texts(means, "{:.4g}".format).items()
        console.show(f"  {name}: {', '.join(f'{metric} {text}' for metric, text in shown)}")
    if warning := behind(run.space, metrics, found):
        console.note(f"Note: {warning}")


def require_property(run: Run, name: str | None) -> None:
    """Refuse a property that the output space does not have, before anything is measured."""
    if name is not None:
        from ele_core.model.groups import property_of

        property_of(run.space, run.space.pack(run.space.examples()), name)


def require_constraints(run: Run, given: Sequence[str]) -> None:
    """Refuse constraints that the output space cannot compute from a truth, before anything is measured."""
    if given:
        from ele_core.model.constraints import require_given

        require_given(run.space, given)


def grouped(run: Run, stored: StoredEvaluation | None, name: str | None) -> dict[str, Groups]:
    """The metrics of a stored evaluation for each value of the property `name`; empty if there is no name."""
    if name is None or stored is None:
        return {}
    from ele_core.model.groups import grouped, property_of

    truths, values = stored.measured(run.space)
    return {name: grouped(property_of(run.space, truths, name), values)}
