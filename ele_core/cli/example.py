"""`ele example`: write a table of pairs to try ELE on."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from random import Random

import click

ROWS = 2000
FIRST_DAY, DAYS = date(1970, 1, 1), 29_220
"""The dates are drawn from these 80 years; a year of two digits is one of them."""
MONTHS = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
]  # fmt: skip
WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
UNITS = [
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth",
    "twentieth",
]  # fmt: skip
WORDS = [*UNITS, *(f"twenty-{unit}" for unit in UNITS[:9]), "thirtieth", "thirty-first"]
PHRASES = (
    "{day} {month} {year}",
    "{day} {short} {year}",
    "{th} {month} {year}",
    "{month} {day}, {year}",
    "{short} {th}, {year}",
    "the {th} of {month} {year}",
    "the {word} of {month}, {year}",
    "{weekday}, {day} {month} {year}",
    "{weekday}, {month} {th}, {year}",
    "{day}-{short}-{year}",
    "{day:02}.{number:02}.{year}",
    "{year}/{number:02}/{day:02}",
    "{day} {month} '{two:02}",
    "{short} {day} '{two:02}",
)


@click.command()
@click.argument("name", type=click.Choice(["dates.csv"]), metavar="dates.csv")
def example(name: str) -> None:
    """Write a table of pairs to try ELE on, into the current folder.

    dates.csv has 2,000 dates as people write them, each beside its ISO form.

    \b
    ele example dates.csv
    ele train dates.csv -o run
    """
    from ele_core.errors import ConfigError
    from ele_core.files.atomic import write_text

    if Path(name).exists():
        raise ConfigError("there is a file already.", where=name, fix="Go to another folder, or remove it.")
    lines = [f'"{phrase}",{day}\n' for phrase, day in dates()]
    write_text(Path(name), "".join(["phrase,date\n", *lines]))
    click.echo(f"Wrote {name}: {len(lines):,} dates as people write them. Next: ele train {name} -o run")


def dates(seed: int = 0) -> Iterator[tuple[str, str]]:
    """Yield `ROWS` different phrases with their dates; the same ones for the same seed."""
    drawn, seen = Random(seed), set[str]()
    while len(seen) < ROWS:
        day = FIRST_DAY + timedelta(days=int(DAYS * drawn.random()))
        text = written(PHRASES[int(len(PHRASES) * drawn.random())], day)
        if text not in seen:
            seen.add(text)
            yield text, day.isoformat()


def written(phrase: str, day: date) -> str:
    """A date in the form of a phrase."""
    month = MONTHS[day.month - 1]
    ending = "th" if day.day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    return phrase.format(
        day=day.day,
        th=f"{day.day}{ending}",
        word=WORDS[day.day - 1],
        month=month,
        short=month[:3],
        number=day.month,
        year=day.year,
        two=day.year % 100,
        weekday=WEEKDAYS[day.weekday()],
    )
