"""`ele check`: run the checks of a component's kind."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

import click

from ele_core.cli import completion, options

if TYPE_CHECKING:
    from ele_core.testing.choosing import Subject
    from ele_core.testing.results import Check, CheckResult
    from ele_core.types import Kind

COLOURS = {"passed": "green", "failed": "red", "unexpectedly passed": "red"}


@click.command()
@click.argument("name", shell_complete=completion.components())
@click.option(
    "--kind",
    metavar="KIND",
    shell_complete=completion.kinds,
    help="Check only the component of this kind, such as output, encoder or decoder.",
)
@click.option(
    "--set", "overrides", multiple=True, metavar="PATH=VALUE", help="An option of the component. May be repeated."
)
@click.option(
    "--space",
    metavar="NAME",
    shell_complete=completion.components("output"),
    help="The output space to check it on, or a table of its name and options [default: the smallest that it accepts].",
)
@click.option(
    "--input",
    "inputs",
    metavar="NAME",
    shell_complete=completion.components("input"),
    help="The input space to check it on [default: the first that it accepts].",
)
@click.option(
    "--surrogate",
    metavar="NAME",
    shell_complete=completion.components("surrogate"),
    help="The surrogate to check it with [default: a fixed one, or the first that it accepts].",
)
@click.option(
    "--only",
    multiple=True,
    metavar="CHECK",
    help="Run only this check, and those that it builds on, as in --only keys_ignore_the_packing. May be repeated.",
)
@options.as_json
@options.output
def check(
    name: str,
    kind: str | None,
    overrides: tuple[str, ...],
    space: str | None,
    inputs: str | None,
    surrogate: str | None,
    only: tuple[str, ...],
    console: options.Console,
) -> None:
    """Check that a component keeps the laws of its kind.

    NAME is the component; if several kinds have one of that name, all of them are checked. Every check that did not
    run gives its reason. The exit code is 1 if a check fails.

    \b
    ele check sequence --kind output --set length=3
    ele check rgcn --space molecule
    ele check sequence --kind output --only keys_ignore_the_packing
    """
    from ele_core.config import as_changes
    from ele_core.testing.choosing import Choosing
    from ele_core.testing.common import workers
    from ele_core.testing.results import counts, run_checks

    kinds = kinds_of(name, kind)
    if overrides and len(kinds) > 1:
        raise click.UsageError(f"'{name}' is the name of {' and of '.join(kinds)}: say with --kind which --set is for.")
    given = as_changes(overrides)
    reports = []
    if {"input", "output"} & set(kinds):
        workers()  # other processes, which start while the first checks run
    for each in kinds:
        subject = Choosing(each, name, given, space, inputs, surrogate, options.registry()).subject()
        checks = chosen(subject.checks, only)
        reports.append((subject, run_checks(checks, subject.arguments, monitor=console.monitor())))
        if not console.as_json:
            show(*reports[-1])
    if console.as_json:
        components = [
            {
                "kind": s.kind,
                "name": s.name,
                "on": s.partner,
                **{"counts": counts(r), "results": [x.as_dict() for x in r]},
            }
            for s, r in reports
        ]
        console.json({"components": components})
    if not all(result.ok for _, results in reports for result in results):
        click.get_current_context().exit(1)


def chosen(checks: Sequence[Check], only: Sequence[str]) -> Sequence[Check]:
    """Return the checks that `only` names, with or without `check_`; all if it names none."""
    if not only:
        return checks
    known = {check.__name__.removeprefix("check_"): check for check in checks}
    wanted = [name.removeprefix("check_") for name in only]
    for name in wanted:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            fix = f"did you mean {close[0]}?" if close else f"the checks are {', '.join(known)}."
            raise click.UsageError(f"no check of this kind is called '{name}'; {fix}")
    return [known[name] for name in known if name in wanted]


def kinds_of(name: str, kind: str | None) -> list[Kind]:
    """Return the kinds to check: `kind` if it is given, else all that have a component called `name`."""
    from ele_core.types import KINDS

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


def show(subject: Subject, results: list[CheckResult]) -> None:
    """Print a table of the checks and the number of each status."""
    from ele_core.display.text import columns
    from ele_core.plugins import HOOKS
    from ele_core.testing.results import counts

    on = f", on {subject.partner}" if subject.partner else ""
    click.echo(f"{HOOKS[subject.kind].singular} {subject.name}{on}")
    waiting = collections.Counter(result.explanation for result in results if result.waits)
    ran = sorted((result for result in results if not result.waits), key=lambda result: result.ok)
    lines = columns([("check", "status", "why"), *((r.name, r.status, " ".join(r.explanation.split())) for r in ran)])
    heading, *body = lines.splitlines()
    click.secho(heading, bold=True)
    for result, line in zip(ran, body, strict=True):
        click.secho(line, fg=COLOURS.get(result.status, "yellow"), bold=not result.ok)
    for reason, count in waiting.items():
        click.echo(f"{count} more {'is' if count == 1 else 'are'} {reason.removeprefix('is ')}.")
    numbers = counts(results)
    total, done = numbers.pop("checks"), numbers.pop("ran")
    click.echo(f"{done} of {total} checks ran: {', '.join(f'{count} {status}' for status, count in numbers.items())}.")
