"""`ele try`: a page on this machine on which a person types inputs and sees what a model predicts."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from ele_core.cli import options


@click.command("try")
@options.run
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="The port to use [default: any free one]."
)
@click.option(
    "--top-k", type=click.IntRange(1, 20), default=3, show_default=True, help="Structures to show per input at first."
)
@click.option("--browser/--no-browser", default=True, help="Open the page in a browser [default: yes].")
@options.SETTINGS["decoder"]
def try_(run: str, port: int, top_k: int, browser: bool, decoder: str | None) -> None:
    """Try a model in the browser: type an input, see what it predicts.

    Opens a page on this machine that shows the best structures for an input as drawings, with their energies, and the
    steps by which the decoder found them. RUN is a run folder or a folder that StructuredPredictor.save wrote. Only
    this machine can open the page, only at the printed address, and nothing is loaded from a network. Ctrl-C ends it.

    \b
    ele try run
    ele try run --decoder pgd --top-k 5
    ele try model --no-browser --port 8000
    """
    from ele_core.errors import ConfigError
    from ele_core.report.server import LocalServer
    from ele_core.report.trial import Trial

    trial = Trial.open(Path(run), options.decoder_section(decoder) if decoder else None, options.registry())
    try:
        opened = LocalServer(trial.page(top_k), trial.respond, port)
    except OSError as error:
        what, fix = f"cannot be used: {error.strerror}.", "Give another --port, or none to use any free one."
        raise ConfigError(what, where=f"port {port}", fix=fix) from None
    with opened as server:
        click.echo(f"Try it: {server.url}\nCtrl-C ends it.")
        if browser:
            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            with trial.busy:  # the answer under way
                click.echo("Ended.")
