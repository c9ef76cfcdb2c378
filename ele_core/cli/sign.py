"""`ele sign`: sign a run with a key of one's own, to detect later changes."""

from __future__ import annotations

from pathlib import Path

import click

from ele_core.cli import options


@click.command()
@options.run
@click.option("--key", required=True, metavar="FILE", help="A file that only you can read, of at least 16 bytes.")
@options.as_json
@options.output
def sign(run: str, key: str, console: options.Console) -> None:
    """Sign a run, or a saved model, with a key.

    With the same key, `ele --key FILE COMMAND …` then refuses the model if a file of it was changed, and `ele compare`
    names records and evaluations that were changed. Without a key, nothing is checked but the manifest, which whoever
    changes a file can rewrite.

    \b
    head -c 32 /dev/urandom > key
    ele sign run --key key
    ele --key key predict run inputs.csv
    """
    from ele_core.files.signatures import read_key
    from ele_core.runs.folder import sign_run

    secret = read_key(key)
    assert secret is not None  # a file was given
    written = [str(file) for file in sign_run(Path(run), secret)]
    console.show("\n".join(f"Signed: {file}" for file in written))
    console.json({"signatures": written})
