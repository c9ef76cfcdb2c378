"""`ele check`: run the checks of a component's kind."""

from __future__ import annotations

import collections
import json
from typing import TYPE_CHECKING

import click

from ele_core.cli import options

if TYPE_CHECKING:
    from ele_core.interfaces import Kind
    from ele_core.testing.choosing import Subject
    from ele_core.testing.results import CheckResult


@click.command()
@click.argument("name")
@click.option(
    "--kind", metavar="KIND", help="Check only the component of this kind, such as output, encoder or decoder."
)
@click.option(
    "--set", "overrides", multiple=True, metavar="PATH=VALUE", help="An option of the component. May be repeated."
)
@click.option(
    "--space",
    metavar="NAME",
    help="The output space to check it on, or a table of its name and options [default: the smallest that it accepts].",
)
@click.option(
    "--input", "inputs", metavar="NAME", help="The input space to check it on [default: the first that it accepts]."
)
@click.option(
    "--surrogate",
    metavar="NAME",
    help="The surrogate to check it with [default: a fixed one, or the first that it accepts].",
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON object.")
def check(
    name: str,
    kind: str | None,
    overrides: tuple[str, ...],
    space: str | None,
    inputs: str | None,
    surrogate: str | None,
    as_json: bool,
) -> None:
    """Check that a component keeps the laws of its kind.

    NAME is the component; if several kinds have one of that name, all of them are checked. Every check that did not
    run gives its reason. The exit code is 1 if a check fails.

    \b
    ele check sequence --kind output --set length=3
    ele check rgcn --space molecule
    """
    from ele_core.config import parse_overrides
    from ele_core.testing.choosing import Choosing
    from ele_core.testing.results import counts

    kinds = kinds_of(name, kind)
    if overrides and len(kinds) > 1:
        raise click.UsageError(f"'{name}' is the name of {' and of '.join(kinds)}: say with --kind which --set is for.")
    given = parse_overrides(overrides)
    reports = []
    for each in kinds:
        subject = Choosing(each, name, given, space, inputs, surrogate, options.registry()).subject()
        reports.append((subject, results_of(subject)))
        if not as_json:
            show(*reports[-1])
    if as_json:
        components = [
            {
                "kind": s.kind,
                "name": s.name,
                "on": s.partner,
                **{"counts": counts(r), "results": [x.as_dict() for x in r]},
            }
            for s, r in reports
        ]
        click.echo(json.dumps({"components": components}, indent=2, ensure_ascii=False))
    if not all(result.ok for _, results in reports for result in results):
        click.get_current_context().exit(1)


def kinds_of(name: str, kind: str | None) -> list[Kind]:
    """Return the kinds to check: `kind` if it is given, else all that have a component called `name`."""
    from ele_core.interfaces import KINDS

    registry = options.registry()
    if kind is not None:
        if kind not in KINDS:
            raise click.UsageError(f"--kind is one of {', '.join(KINDS)}, not '{kind}'.")
        registry.provider(kind, name)
        return [kind]
    found = [each for each in KINDS if name in registry.names(each)]
    if not found:
        registry.unknown(name)
    return found


def results_of(subject: Subject) -> list[CheckResult]:
    """Run the checks, with a progress bar on a terminal."""
    from ele_core.runtime.monitor import ConsoleMonitor
    from ele_core.testing.results import run_checks

    return run_checks(subject.checks, subject.arguments, monitor=ConsoleMonitor())


def show(subject: Subject, results: list[CheckResult]) -> None:
    """Print a table of the checks and the number of each status."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    from ele_core.plugins import HOOKS
    from ele_core.testing.results import counts

    colours = {"passed": "green", "failed": "bold red", "unexpectedly passed": "bold red"}
    on = f", on {subject.partner}" if subject.partner else ""
    click.echo(f"{HOOKS[subject.kind].singular} {subject.name}{on}")
    table = Table(Column("check", no_wrap=True), Column("status", no_wrap=True), "why", box=None, pad_edge=False)
    waiting = collections.Counter(result.explanation for result in results if result.waits)
    for result in sorted(results, key=lambda result: result.ok):
        if result.waits:
            continue
        colour = colours.get(result.status, "yellow")
        table.add_row(result.name, f"[{colour}]{result.status}[/]", escape(result.explanation))
    Console().print(table)
    for reason, count in waiting.items():
        click.echo(f"{count} more {'is' if count == 1 else 'are'} {reason.removeprefix('is ')}.")
    numbers = counts(results)
    total, ran = numbers.pop("checks"), numbers.pop("ran")
    click.echo(f"{ran} of {total} checks ran: {', '.join(f'{count} {status}' for status, count in numbers.items())}.")
