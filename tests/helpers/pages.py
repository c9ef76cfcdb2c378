"""The code on Markdown pages: find its blocks, run the Python as one script, look up the `ele` commands."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

ROOT = Path(__file__).parents[2]
FENCE = re.compile(
    r"^(?P<ticks>```+)(?P<language>[\w-]*)[^\n`]*\n(?P<code>.*?)^(?P=ticks)[ \t]*$", re.MULTILINE | re.DOTALL
)
SKIP = re.compile(r"<!--\s*test:\s*skip:\s*(?P<reason>(?:(?!-->).)*?)\s*-->\s*\Z", re.DOTALL)
SEPARATORS = {"|", "||", "&&", ";", "&", "(", ")", ">", ">>", "<"}


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its code, the line of the page on which the code starts, the reason to skip it."""

    language: str
    code: str
    line: int
    skip: str = ""


def blocks(page: Path, language: str) -> list[Block]:
    """The blocks of a language, in order. `<!-- test: skip: REASON -->` right before a block skips it."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        skip = SKIP.search(text[: match.start()])
        line = text.count("\n", 0, match.start("code")) + 1
        found.append(Block(match["language"], match["code"], line, skip["reason"] if skip else ""))
    return [block for block in found if block.language == language]


def run_python(page: Path, folder: Path, *, then: str = "", timeout: float = 3600) -> subprocess.CompletedProcess[str]:
    """Run the Python blocks of a page as one script in `folder`; its line numbers are those of the page.

    In a separate process, because a page may register components. `then` is more code to run at the end.
    """
    lines: list[str] = []
    for block in blocks(page, "python"):
        if not block.skip:
            lines += [""] * (block.line - 1 - len(lines))
            lines += block.code.splitlines()
    script = folder / f"{page.stem.replace('-', '_').lower()}_page.py"
    script.write_text("\n".join([*lines, then]) + "\n", encoding="utf-8")
    return subprocess.run(
        [sys.executable, script],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def ele_commands(page: Path) -> Iterator[tuple[int, list[str]]]:
    """The line and the words after `ele` of every command in the console blocks of a page."""
    for block in blocks(page, "console"):
        for number, command in _commands(block):
            for words in _simple_commands(command):
                if words[:1] == ["ele"]:
                    yield number, words[1:]


def wrong_with(cli: click.Command, words: list[str]) -> str:
    """The error if a command line names a command or option that does not exist, else ""; values are not checked."""
    command, path = cli, "ele"
    names = [*words]
    while isinstance(command, click.Group) and names and not names[0].startswith("-"):
        name = names.pop(0)
        if name not in command.commands:
            return f"`{path}` has no command '{name}'"
        command, path = command.commands[name], f"{path} {name}"
    known = {opt for parameter in command.params for opt in (*parameter.opts, *parameter.secondary_opts)}
    known |= {"-h", "--help"}
    given = [word.partition("=")[0] for word in names if word.startswith("-") and word != "-"]
    unknown = [option for option in given if option not in known]
    return f"`{path}` has no option {unknown[0]}" if unknown else ""


def _commands(block: Block) -> Iterator[tuple[int, str]]:
    """The lines that a reader types: those after `$`, or all if no line has one; `\\` joins a line to the next."""
    lines = block.code.split("\n")
    prompted = any(line.startswith("$ ") for line in lines)
    number = 0
    while number < len(lines):
        start, text = number, lines[number]
        while text.endswith("\\") and number + 1 < len(lines):
            number += 1
            text = text[:-1] + lines[number]
        number += 1
        if not prompted or text.startswith("$ "):
            yield block.line + start, text.removeprefix("$ ")


def _simple_commands(text: str) -> Iterator[list[str]]:
    """The words of each command of a line, split at pipes, redirections and the like."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    try:
        tokens = list(lexer)
    except ValueError:  # a line of output, with a quote of its own
        tokens = text.split()
    for token in [*tokens, ";"]:
        if token in SEPARATORS:
            if words:
                yield words
            words = []
        else:
            words.append(token)
