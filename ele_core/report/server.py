"""A web server for one person on this machine: a page at a secret address, and one address that answers JSON."""

from __future__ import annotations

import json
import secrets
import sys
import traceback
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ele_core.errors import EleError
from ele_core.files.archive import brief
from ele_core.files.text_tables import writable
from ele_core.report.page import as_json

LOOPBACK = "127.0.0.1"
LONGEST_BODY = 1 << 16
"""Bytes of the longest request."""
PATIENCE = 30.0
"""Seconds that a connection may be silent."""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Sent with every response: nobody else may embed it, read it, or learn its address."""

Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""What the server is for: one JSON object in, one out; an `EleError` is the person's mistake."""


class LocalServer(ThreadingHTTPServer):
    """Serve `page` at `url`, and `answer` at `answer` below it; nothing without the token in the address."""

    daemon_threads = True
    request_queue_size = 128
    """Connections that may wait: a browser opens several, and one that is not taken tries again only after a second."""

    def __init__(self, page: str, answer: Answer, port: int = 0) -> None:
        super().__init__((LOOPBACK, port), Handler)
        self.page = page
        self.answer = answer
        self.token = secrets.token_urlsafe(24)

    @property
    def hosts(self) -> tuple[str, str]:
        """The names by which a browser may call this server; a name that was rebound to this machine is refused."""
        return f"{LOOPBACK}:{self.server_port}", f"localhost:{self.server_port}"

    @property
    def url(self) -> str:
        """The address to open."""
        return f"http://{self.hosts[0]}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Be silent if the browser has closed the connection; print other errors."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Refused(Exception):
    """A request that is not served: a status and an error message."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Handler(BaseHTTPRequestHandler):
    """One request, checked before it is read: host, origin, token, length, JSON."""

    server: LocalServer
    timeout = PATIENCE
    server_version = "ELE"
    sys_version = ""

    def do_GET(self) -> None:  # the name that http.server calls
        """Send the page."""
        self._respond(self._page)

    def do_POST(self) -> None:
        """Send an answer."""
        self._respond(self._answer)

    def _respond(self, make: Callable[[], tuple[str, str]]) -> None:
        try:
            self._check()
            status, (kind, text) = HTTPStatus.OK, make()
        except Refused as refused:
            status, kind, text = refused.status, "application/json", as_json({"error": str(refused)})
        body = text.encode()
        self.send_response(status)
        for name, value in {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": len(body), **HEADERS}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def _check(self) -> None:
        """Refuse requests for another host, from another page, or without the token."""
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if host not in self.server.hosts:
            raise Refused(HTTPStatus.FORBIDDEN, "This server answers only under the address that it printed.")
        elsewhere = self.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none")
        if (origin is not None and origin != f"http://{host}") or (elsewhere and self.command != "GET"):
            raise Refused(HTTPStatus.FORBIDDEN, "This server answers only its own page.")
        given = self.path.removeprefix("/").partition("/")[0]
        if not secrets.compare_digest(given.encode(), self.server.token.encode()):
            raise Refused(HTTPStatus.FORBIDDEN, "The address is not complete: open the one that `ele try` printed.")

    def _page(self) -> tuple[str, str]:
        if self.path != f"/{self.server.token}/":
            raise Refused(HTTPStatus.NOT_FOUND, "There is no such page.")
        return "text/html", self.server.page

    def _answer(self) -> tuple[str, str]:
        if self.path != f"/{self.server.token}/answer":
            raise Refused(HTTPStatus.NOT_FOUND, "There is no such page.")
        asked = self._asked()
        try:
            return "application/json", as_json(self.server.answer(asked))
        except EleError as error:
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from None
        except Exception as error:  # a failure of a plugin: the page says so, and the terminal shows where
            traceback.print_exc()
            what = f"The model failed: {brief(error, 200) or type(error).__name__}. The terminal shows more."
            raise Refused(HTTPStatus.INTERNAL_SERVER_ERROR, what) from None

    def _asked(self) -> Mapping[str, Any]:
        """Read the JSON object of the request."""
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit():
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "The request does not say how long it is.")
        if len(length) > 9 or int(length) > LONGEST_BODY:
            what = f"The input is too long: at most {LONGEST_BODY:,} bytes are read."
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, what)
        if self.headers.get_content_type() != "application/json":
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The request is not JSON.")
        try:
            asked = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            raise Refused(HTTPStatus.BAD_REQUEST, "The request is not valid JSON.") from None
        if not isinstance(asked, dict):
            raise Refused(HTTPStatus.BAD_REQUEST, "The request is not a JSON object.")
        if not writable(asked):
            raise Refused(HTTPStatus.BAD_REQUEST, "The input holds half a character.")
        return asked

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its name in http.server
        """Print nothing for each request."""
