"""`ele serve`: a model that programs ask over HTTP."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import click

from ele_core.cli import options


@click.command()
@options.run
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="The address to listen on; one that other machines can reach needs a token. 0.0.0.0: all of this machine.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="The port; 0: a free one.")
@click.option(
    "--token-file",
    metavar="FILE",
    help="Answer only requests that send the token in this file, as in Authorization: Bearer TOKEN "
    "[default: the variable ELE_TOKEN, if it is set].",
)
@click.option(
    "--max-inputs",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    metavar="N",
    help="Inputs in one request, and in requests that are answered together.",
)
@click.option(
    "--max-waiting",
    type=click.IntRange(min=1),
    default=128,
    show_default=True,
    metavar="N",
    help="Requests that may wait; to one more the answer is 503.",
)
@click.option(
    "--timeout",
    type=options.Number(min=0, max=86_400, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a request may take, with its wait; after that the answer is 504.",
)
@options.decoding
@options.output
def serve(
    run: str,
    host: str,
    port: int,
    token_file: str | None,
    max_inputs: int,
    max_waiting: int,
    timeout: float,
    overrides: dict[str, Any],
    console: options.Console,
) -> None:
    """Answer programs over HTTP: JSON with inputs in, predictions out.

    POST /predict takes {"inputs": [...]}, and if you like "top_k", "coverage" and "min_confidence", as the options of
    ele predict. It answers {"predictions": [...]}: for each input a list of rows, with the fields that
    ele predict --json writes. GET /model says what the model is, GET /health that it runs.

    RUN is a run folder, a folder that StructuredPredictor.save wrote, or an installed model. The model is loaded once;
    requests that wait are answered together. Only this machine can ask, unless you give --host and a token. Nothing is
    encrypted: between machines, put a proxy with TLS before it. Ctrl-C or SIGTERM ends it after the answers under way.

    \b
    ele serve run
    curl -d '{"inputs": ["forty-two"]}' -H 'Content-Type: application/json' http://127.0.0.1:8000/predict
    ele serve run --host 0.0.0.0 --token-file token.txt
    """
    from ele_core.errors import ConfigError
    from ele_core.model.pretrained import shown_name
    from ele_core.report.service import Limits, Service, ServiceServer, read_token
    from ele_core.runs.run import open_model

    token = read_token(token_file)
    opened = open_model(Path(run), options.registry())
    model = opened.model(overrides)
    console.configuration(model.config)
    service = Service(model, shown_name(opened.folder), Limits(max_inputs, max_waiting, timeout))
    try:
        server = ServiceServer(service, host, port, token)
    except OSError as error:
        what, fix = f"cannot be used: {error.strerror}.", "Give another --port, or another --host."
        raise ConfigError(what, where=f"{host}, port {port}", fix=fix) from None
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    console.hint(f"Serving {service.name} at {server.url}\nCtrl-C ends it.")
    stopped.wait()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # a second one ends it at once
    server.stop()
    console.hint("Ended.")
