"""Web servers on the standard library: one for a page of this machine, and what it shares with that of `ele serve`."""

from __future__ import annotations

import json
import math
import secrets
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from ele_core.errors import EleError
from ele_core.files.archive import brief
from ele_core.files.text_tables import writable
from ele_core.report.page import as_json

LOOPBACK = "127.0.0.1"
LONGEST_BODY = 1 << 16
"""Bytes of the longest request to `ele try`."""
PATIENCE = 30.0
"""Seconds in which a request must arrive, and an answer be taken."""
MOST_CONNECTIONS = 256
"""Connections at once: each has a thread."""
DISCARDED = 1 << 26
"""Bytes of a refused request that are taken, so whoever sends them sees the answer."""
MOST_DIGITS = 18
"""Digits of the length of a body that are read."""
FULL = b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"
"""What a connection above that number is told."""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Sent with every response: nobody else may embed it, read it, or learn its address."""
ALSO = {
    HTTPStatus.SERVICE_UNAVAILABLE: {"Retry-After": "1"},
    HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": "Bearer"},
}
"""Sent with a refusal of this status."""

Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""What a server is for: one JSON object in, one out; an `EleError` is the mistake of whoever asks."""


class Server(ThreadingHTTPServer):
    """A thread for each connection, at most `MOST_CONNECTIONS`; a request that does not arrive in time is cut off."""

    daemon_threads = True
    request_queue_size = 128
    """Connections that may wait: a browser opens several, and one that is not taken tries again only after a second."""
    longest_body = LONGEST_BODY
    patience = PATIENCE
    local = True
    """Whether requests must name this machine: a name that was rebound to it, or another page, is refused."""

    def __init__(self, handler: type[JsonHandler], port: int = 0, host: str = LOOPBACK) -> None:
        self.connections: dict[socket.socket, float] = {}
        """Each open connection, and when its request must have arrived."""
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), handler)

    def server_bind(self) -> None:
        """Bind without asking for the name of the address, which could need a network."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names by which this machine may call this server."""
        shown = f"[{self.server_name}]" if ":" in self.server_name else self.server_name
        return f"{shown}:{self.server_port}", f"localhost:{self.server_port}"

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Take a connection, or tell it that there are too many."""
        if len(self.connections) >= MOST_CONNECTIONS:
            with suppress(OSError):
                request.sendall(FULL)
            return False
        self.connections[request] = time.monotonic() + self.patience
        return True

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self.connections.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Cut off requests that did not arrive in time."""
        self.cut_off(time.monotonic())

    def cut_off(self, now: float) -> None:
        """Read no more of the requests that must have arrived by now."""
        for connection, last in list(self.connections.items()):
            if last < now:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RD)

    def finish(self, seconds: float) -> None:
        """Wait until all requests that have arrived are answered, so many seconds at most."""
        self.cut_off(math.inf)
        end = time.monotonic() + seconds
        while self.connections and time.monotonic() < end:
            time.sleep(0.01)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Be silent if the other side has closed the connection or takes no answer; print other errors."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class LocalServer(Server):
    """Serve `page` at `url`, and `answer` at `answer` below it; nothing without the token in the address."""

    def __init__(self, page: str, answer: Answer, port: int = 0) -> None:
        super().__init__(PageHandler, port)
        self.page = page
        self.answer = answer
        self.token = secrets.token_urlsafe(24)

    @property
    def url(self) -> str:
        """The address to open."""
        return f"http://{self.hosts[0]}/{self.token}/"


class Refused(Exception):
    """A request that is not served: a status and an error message."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class JsonHandler(BaseHTTPRequestHandler):
    """One request, checked before it is read: host, origin, what a subclass asks for, length, JSON."""

    server: Server
    timeout = PATIENCE
    server_version = "ELE"
    sys_version = ""

    def do_GET(self) -> None:  # the name that http.server calls
        """Send what is asked for, or the reason why the request is refused."""
        self.unread = self.announced
        try:
            self.check()
            status, (kind, text) = HTTPStatus.OK, self.asked_for()
        except Refused as refused:
            status, kind, text = refused.status, "application/json", as_json({"error": str(refused)})
        body = text.encode()
        self.send_response(status)
        sent = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": len(body), **HEADERS}
        for name, value in {**sent, **ALSO.get(status, {})}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)
        left = min(self.unread or 0, DISCARDED)
        while left > 0 and (part := self.rfile.read1(left)):  # to close before would take the answer back
            left -= len(part)

    do_POST = do_GET  # noqa: N815  # likewise

    def asked_for(self) -> tuple[str, str]:
        """The media type and the text of what is at the address of the request, by `command` and `path`."""
        raise NotImplementedError

    def check(self) -> None:
        """Refuse requests for another host or from another page, if only this machine may ask."""
        if not self.server.local:
            return
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if host not in self.server.hosts:
            raise Refused(HTTPStatus.FORBIDDEN, "This server answers only under the address that it printed.")
        elsewhere = self.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none")
        if (origin is not None and origin != f"http://{host}") or (elsewhere and self.command != "GET"):
            raise Refused(HTTPStatus.FORBIDDEN, "This server answers only its own page.")

    def answered(self, answer: Answer) -> tuple[str, str]:
        """Read the request, and return the answer; a mistake in it and a failure of the model are one sentence each."""
        asked = self._asked()
        try:
            return "application/json", as_json(answer(asked))
        except Refused:
            raise
        except EleError as error:
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from None
        except Exception as error:  # a failure of a plugin: the answer says so, and the terminal shows where
            traceback.print_exc()
            what = f"The model failed: {brief(error, 200) or type(error).__name__}. The terminal shows more."
            raise Refused(HTTPStatus.INTERNAL_SERVER_ERROR, what) from None

    def _asked(self) -> Mapping[str, Any]:
        """Read the JSON object of the request."""
        if self.headers.get("Content-Length") is None or self.unread is None:
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "The request does not say how long it is.")
        if self.unread > self.server.longest_body:
            what = f"The input is too long: at most {self.server.longest_body:,} bytes are read."
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, what)
        if self.headers.get_content_type() != "application/json":
            what = "The header does not say that the request is JSON: add Content-Type: application/json."
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, what)
        length, self.unread = self.unread, 0
        body = self.rfile.read(length)
        if len(body) < length:
            raise Refused(
                HTTPStatus.REQUEST_TIMEOUT, f"The request did not arrive in {self.server.patience:g} seconds."
            )
        self.server.connections[self.connection] = math.inf
        try:
            asked = json.loads(body)
        except (ValueError, RecursionError):
            raise Refused(HTTPStatus.BAD_REQUEST, "The request is not valid JSON.") from None
        if not isinstance(asked, dict):
            raise Refused(HTTPStatus.BAD_REQUEST, "The request is not a JSON object.")
        if not writable(asked):
            raise Refused(HTTPStatus.BAD_REQUEST, "The input holds half a character.")
        return asked

    @property
    def announced(self) -> int | None:
        """The bytes of the body that the request announces, in so many digits; None: it does not say."""
        length = self.headers.get("Content-Length", "0")
        return int(length[:MOST_DIGITS]) if length.isascii() and length.isdigit() else None

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its name in http.server
        """Print nothing for each request."""


class PageHandler(JsonHandler):
    """A request to `LocalServer`, which must have the token in its address."""

    server: LocalServer

    def check(self) -> None:
        """Refuse requests for another host, from another page, or without the token."""
        super().check()
        given = self.path.removeprefix("/").partition("/")[0]
        if not secrets.compare_digest(given.encode(), self.server.token.encode()):
            raise Refused(HTTPStatus.FORBIDDEN, "The address is not complete: open the one that `ele try` printed.")

    def asked_for(self) -> tuple[str, str]:
        asked = self.command, self.path.removeprefix(f"/{self.server.token}")
        if asked == ("GET", "/"):
            return "text/html", self.server.page
        if asked == ("POST", "/answer"):
            return self.answered(self.server.answer)
        raise Refused(HTTPStatus.NOT_FOUND, "There is no such page.")
