"""Requests that `ele serve` answers in a second of CPU, by how many come at once.

    python benchmarks/serve.py [--requests N] [--output FILE]

A small model of number words is trained first, as for benchmarks/predict_many.py. For each line a server of its own
with one thread is asked by so many clients at once, each sending its next request when it has its answer. The time is
the CPU time of the server's process, without that of a server which answers one request.
"""

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from common import parser_of
from predict_many import MODEL, ONES, TENS, record

from ele_core.files.atomic import write_text
from ele_core.runs.run import Run

LINES = ((1, 1), (16, 1), (60, 1), (1, 100))
"""Clients at once, and inputs of a request."""


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--requests", type=int, default=1000, help="requests for each line (default 1,000)")
    options = parser.parse_args()
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        run = Run.start(MODEL, Path(folder) / "run").folder
        start = served(run, 1, 1, 1)
        for clients, inputs in LINES:
            spent = max(0.01, served(run, options.requests, clients, inputs) - start)
            rate = {"requests_per_second": round(options.requests / spent, 1)}
            line = {"clients": clients, "inputs": inputs, "requests": options.requests}
            results.append({**line, **rate, "cpu_seconds": round(spent, 2)})
            print(json.dumps(results[-1]), flush=True)
    if options.output:
        write_text(options.output, json.dumps(record("serve.py", results), indent=2) + "\n")


def served(run: Path, requests: int, clients: int, inputs: int) -> float:
    """The CPU seconds of a server that answers so many requests."""
    command = [sys.executable, "-m", "ele_core", "serve", run, "--port", "0", "--decoder", "candidates"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    host = process.stdout.readline().rpartition("http://")[2].strip()
    words = [f"{one} hundred {ten}-{other}" for one in ONES for ten in TENS for other in ONES]

    def ask(number: int) -> None:
        asked = [words[(number * inputs + place) % len(words)] for place in range(inputs)]
        connection = http.client.HTTPConnection(host, timeout=600)
        connection.request("POST", "/predict", json.dumps({"inputs": asked}), {"Content-Type": "application/json"})
        response = connection.getresponse()
        found = json.loads(response.read())
        assert response.status == 200, found
        assert len(found["predictions"]) == inputs
        connection.close()

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(ask, range(requests)))
    process.send_signal(signal.SIGTERM)
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
