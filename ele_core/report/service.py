"""One model for many programs: JSON over HTTP, with a bounded queue in which requests that wait are joined."""

from __future__ import annotations

import dataclasses
import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from ele_core.errors import ConfigError, DataError
from ele_core.files.columns import Cell, as_text, cell_text
from ele_core.model.model import Model
from ele_core.model.predict import Request, predict_texts
from ele_core.model.results import UNLIKE, rounded
from ele_core.model.trust.sets import promised
from ele_core.report.page import as_json
from ele_core.report.server import LOOPBACK, JsonHandler, Refused, Server
from ele_core.runtime.context import Context
from ele_core.runtime.work import Snapshot, Work

FIELDS = ("inputs", "top_k", "coverage", "min_confidence")
"""What a request may hold."""
MOST_ANSWERS = 100
"""Maximum number of structures for one input."""
ADDRESSES = "There is no such address: ask POST /predict, GET /model or GET /health."
TOKEN = "ELE_TOKEN"
"""The environment variable with the token that requests must send."""
LEAST_TOKEN = 16
"""Characters of the shortest token."""
GRACE = 30.0
"""Seconds in which the answers under way are finished after a stop."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """What is too much."""

    inputs: int = 1000
    """Inputs of one request, and of requests that are joined."""
    waiting: int = 128
    """Requests that wait while others are answered."""
    seconds: float = 60.0
    """How long a request may take, with its wait."""
    body: int = 8 << 20
    """Bytes of one request."""


@dataclasses.dataclass(eq=False)
class Asked:
    """A request that waits, and its answer once it is `done`."""

    inputs: Sequence[Cell]
    request: Request
    last: float
    """When nobody waits any longer."""
    done: threading.Event = dataclasses.field(default_factory=threading.Event)
    found: list[list[dict[str, Any]]] = dataclasses.field(default_factory=list)
    """For each input the rows of `ele predict`."""
    error: Exception | None = None

    @property
    def late(self) -> bool:
        """Whether nobody waits any longer."""
        return time.monotonic() > self.last


class Late(Exception):
    """Nobody waits for this work."""


class Deadline(Work):
    """Work that ends between two blocks once nobody waits for it."""

    def __init__(self, together: Sequence[Asked]) -> None:
        self.together = together

    def step(self, name: str, snapshot: Callable[[], Snapshot]) -> None:
        """Stop if all who asked have gone."""
        if all(each.late for each in self.together):
            raise Late


class Service:
    """A model that answers many threads: one after the other, or joined if they ask for the same kind of answer."""

    def __init__(self, model: Model, name: str, limits: Limits | None = None) -> None:
        self.model = model
        self.name = name
        self.limits = limits or Limits()
        self.waiting: deque[Asked] = deque()
        self.changed = threading.Condition()
        self.closed = False
        self.worker = threading.Thread(target=self._work, name="model", daemon=True)
        self.worker.start()

    def close(self) -> None:
        """Take no more requests; those that wait are still answered."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()

    def about(self) -> dict[str, Any]:
        """What the model is, and the limits of requests."""
        config = self.model.config
        return {
            "name": self.name,
            "task": config.task.name if config.task is not None else None,
            "input": config.input.name,
            "output": config.output.name,
            "decoder": config.decoder.name,
            "calibrated": self.model.calibration is not None,
            "limits": {**dataclasses.asdict(self.limits), "top_k": MOST_ANSWERS},
        }

    def respond(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a request, `FIELDS` as JSON: `predictions`, for each input a list of rows as `ele predict` writes."""
        inputs, request = self._read(asked)
        own = Asked(inputs, request, time.monotonic() + self.limits.seconds)
        with self.changed:
            if self.closed:
                raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "The server is about to stop.")
            if len(self.waiting) >= self.limits.waiting:
                raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "Too many requests wait: try again in a moment.")
            self.waiting.append(own)
            self.changed.notify()
        if not own.done.wait(self.limits.seconds):
            what = f"The answer takes longer than {self.limits.seconds:g} seconds: send fewer inputs at once."
            raise Refused(HTTPStatus.GATEWAY_TIMEOUT, what)
        if own.error is not None:
            raise own.error
        return {"predictions": own.found}

    def _read(self, asked: Mapping[str, Any]) -> tuple[list[Cell], Request]:
        """The inputs of a request, and what it asks for, each checked."""
        if unknown := [name for name in asked if name not in FIELDS]:
            raise ConfigError(f"A request has no field {unknown[0]!r}: only {', '.join(FIELDS)}.")
        inputs, top_k = asked.get("inputs"), asked.get("top_k", 1)
        if not isinstance(inputs, list) or not inputs:
            raise DataError('Give the inputs as a list: {"inputs": ["…"]}.')
        if len(inputs) > self.limits.inputs:
            what = f"{len(inputs):,} inputs are too many: send at most {self.limits.inputs:,} at once."
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, what)
        if type(top_k) is not int or not 1 <= top_k <= MOST_ANSWERS:
            raise ConfigError(f"should be a whole number from 1 to {MOST_ANSWERS}.", where="top_k")
        promise = promised(asked.get("coverage"), None, None)
        request = Request(top_k, promise=promise, least_confidence=asked.get("min_confidence", 0.0))
        request.require(self.model)
        return [as_text(each) for each in inputs], request

    def _work(self) -> None:
        """Answer until the service is closed and nobody waits."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.waiting or self.closed)
                if not self.waiting:
                    return
                together = self._joined()
            self._answer(together)
            for each in together:
                each.done.set()

    def _joined(self) -> list[Asked]:
        """Take the first request that waits, and all others that can be answered with it."""
        together, others, room = list[Asked](), deque[Asked](), self.limits.inputs
        for each in self.waiting:
            if each.late:
                continue
            if together and (each.request != together[0].request or len(each.inputs) > room):
                others.append(each)
            else:
                together.append(each)
                room -= len(each.inputs)
        self.waiting = others
        return together

    def _answer(self, together: Sequence[Asked]) -> None:
        """Predict for all inputs at once; if that fails, for each request alone, which shows whose failure it is."""
        try:
            self._predict(together)
        except Late:
            return
        except Exception as error:
            if len(together) > 1:
                for each in together:
                    self._answer([each])
            else:
                together[0].error = error

    def _predict(self, together: Sequence[Asked]) -> None:
        """Predict for the inputs of all requests, and give each its own rows."""
        if not together:
            return
        cells = [cell for each in together for cell in each.inputs]
        context = Context(self.model.config.seed, self.model.device, work=Deadline(together))
        found = predict_texts(self.model, cells, together[0].request, context=context)
        rows: list[list[dict[str, Any]]] = [[] for _ in cells]
        for place, row in found.numbered_rows(cell_text):
            rows[place].append({UNLIKE: "", **{name: rounded(name, value) for name, value in row.items()}})
        first = 0
        for each in together:
            own = range(first, first + len(each.inputs))
            first = own.stop
            each.found = rows[own.start : own.stop]
            if all(place in found.refused for place in own):
                each.error = DataError(f"no input can be used, the first because: {found.refused[own.start]}")


class ServiceServer(Server):
    """Serve a model; for other machines only to those who know the token."""

    def __init__(self, service: Service, host: str = LOOPBACK, port: int = 0, token: str | None = None) -> None:
        self.local = is_loopback(host)
        if not self.local and token is None:
            what = "without a token, only this machine may ask."
            raise ConfigError(what, where=f"--host {host}", fix=f"Give --token-file FILE, or set {TOKEN}.")
        self.service = service
        self.token = token
        self.longest_body = service.limits.body
        super().__init__(ServiceHandler, port, host)

    @property
    def url(self) -> str:
        """The address, without a path."""
        return f"http://{self.hosts[0]}"

    def stop(self) -> None:
        """Take no more connections and requests, and answer those that were taken; another thread serves."""
        self.shutdown()
        self.socket.close()
        self.service.close()
        self.finish(GRACE)


class ServiceHandler(JsonHandler):
    """A request to `ServiceServer`; all but that for the health need the token, if there is one."""

    server: ServiceServer

    def check(self) -> None:
        """Refuse requests without the token; on a loopback address also those for another host."""
        super().check()
        if self.server.token is None or self.path == "/health":
            return
        scheme, _, given = self.headers.get("Authorization", "").partition(" ")
        known = secrets.compare_digest(given.strip().encode(), self.server.token.encode())
        if scheme.lower() != "bearer" or not known:
            raise Refused(HTTPStatus.UNAUTHORIZED, "Send the token of this server: Authorization: Bearer TOKEN.")

    def asked_for(self) -> tuple[str, str]:
        service, asked = self.server.service, (self.command, self.path)
        if asked == ("GET", "/health"):
            return "application/json", as_json({"status": "ok", "waiting": len(service.waiting)})
        if asked == ("GET", "/model"):
            return "application/json", as_json(service.about())
        if asked == ("POST", "/predict"):
            return self.answered(service.respond)
        raise Refused(HTTPStatus.NOT_FOUND, ADDRESSES)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_token(file: str | None) -> str | None:
    """The token from a file, or else from the environment; None: there is none. Refuse one that can be guessed."""
    token, where = os.environ.get(TOKEN), TOKEN
    if file is not None:
        token, where = Path(file).read_text(encoding="utf-8", errors="replace"), file
    if token is None:
        return None
    token = token.strip()
    if len(token) < LEAST_TOKEN or not (token.isascii() and token.isprintable()) or " " in token:
        what = f"this is no token: it needs at least {LEAST_TOKEN} letters, digits or signs, without spaces."
        fix = "Make one: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        raise ConfigError(what, where=where, fix=fix)
    return token
