"""``serve``: the live page and the metrics of a running query, over HTTP.

Design: the standard library's server, a thread for each connection, one request each. ``/`` is the page, ``/events``
its figures as server-sent events, ``/metrics`` the same for Prometheus. Nothing can be changed through it.

Invariant: at most ``MOST_CLIENTS`` connections, so as many threads; one more is told so and let go. A client that does
not say what it wants within ``PATIENCE``, or does not take what it is sent, is let go too. All ends with the query, or
with :meth:`Server.close`. Only this machine is served, under its own names, so that no web page can read along by a
name of its own; any other host takes a token, which is compared in constant time.

Cost: while a page is open, a message of a few kilobytes for each micro-batch and each ``PULSE``.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

from watersmeet.live.history import Figures
from watersmeet.live.message import message
from watersmeet.live.page import page
from watersmeet.live.prometheus import CONTENT_TYPE, exposition
from watersmeet.live.watch import Query, watch
from watersmeet.spec.errors import SpecificationError, WatersmeetError

__all__ = ["Server", "serve"]

LOOPBACK: Final = "127.0.0.1"
MOST_CLIENTS: Final = 32
PATIENCE: Final = 10.0
"""Seconds."""
PULSE: Final = 5.0
"""Seconds after which the page hears something though nothing has happened."""
LOOK: Final = 0.5
"""Seconds after which a waiting thread looks whether the server has been closed."""
LINGER: Final = 2.0
"""Seconds between the query's end and the server's, in which pages hear of it."""
SHORTEST_TOKEN: Final = 16
LARGEST_PORT: Final = 65_535
OWN_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def serve(source: Query | Figures, port: int, *, host: str = LOOPBACK, token: str | None = None) -> Server:
    """Show a running streaming query as a page, and as metrics for Prometheus, until it ends.

    Parameters
    ----------
    source
        What ``start()`` returned, on Spark Classic or Spark Connect. Or ``Figures``, which a listener of yours fills;
        then the page ends with ``Figures.end`` or ``Server.close``.
    port
        A port of this machine; 0 takes a free one, which ``Server.url`` names.
    host
        An address of this machine to be reached at. Any but loopback needs a token.
    token
        What clients have to know: ``?token=…`` the first time in a browser, ``Authorization: Bearer …`` for Prometheus.
        At least 16 characters. It is sent as it is, so put a proxy with TLS before it on a network that others use.
    """
    _check(source, port, host, token)
    figures = source if isinstance(source, Figures) else Figures()
    try:
        server = Server(figures, (host, port), token)
    except OSError as error:
        raise WatersmeetError(
            f"port {port} of {host} cannot be served: {error.strerror or error}",
            "an address of this machine, and a port that no other program has",
            "give another port, or 0 for a free one",
        ) from error
    server.start(None if isinstance(source, Figures) else source)
    return server


def _check(source: object, port: int, host: str, token: str | None) -> None:
    if not isinstance(source, Figures) and not hasattr(source, "recentProgress"):
        raise SpecificationError(
            f"a live page of a {type(source).__name__}",
            "a streaming query, or Figures",
            "give what start() returned",
        )
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= LARGEST_PORT:
        raise SpecificationError(
            f"port={port!r}", f"a whole number from 0 to {LARGEST_PORT}", "give one such as 8080, or 0 for a free one"
        )
    if token is not None and (len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
        raise SpecificationError(
            f"a token of {len(token)} characters",
            f"at least {SHORTEST_TOKEN} printable ASCII characters",
            "make one with secrets.token_urlsafe()",
        )
    if token is None and not _is_loopback(host):
        raise SpecificationError(
            f"host={host!r} without a token",
            f"{LOOPBACK} without a token, any address of this machine with one",
            "give token=secrets.token_urlsafe(), or leave host out",
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Server:
    """A live page that is being served; in a ``with`` statement it ends with the block."""

    def __init__(self, figures: Figures, address: tuple[str, int], token: str | None) -> None:
        self.figures = figures
        self._stopped = threading.Event()
        self._http = _Http(address, figures, token, self._stopped)
        self._threads: list[threading.Thread] = []

    @property
    def port(self) -> int:
        """The port that is served."""
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """Where a browser finds the page; the token has to be added, if there is one."""
        host = str(self._http.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def start(self, query: Query | None) -> None:
        """Serve in threads that do not keep the program from ending; watch the query, if there is one."""
        self._begin("serves", self._http.serve_forever, LOOK)
        self._begin("ends", self._end_with_query)
        if query is not None:
            self._begin("watches", watch, query, self.figures, self._stopped)

    def _begin(self, does: str, run: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, name=f"watersmeet live {does}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the page has ended, at most so long; return whether it has."""
        self._threads[0].join(seconds)
        return not self._threads[0].is_alive()

    def close(self) -> None:
        """End the page, with all its connections and threads."""
        self._stopped.set()
        self._http.shutdown()
        self._http.server_close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end_with_query(self) -> None:
        while not self._stopped.is_set():
            view = self.figures.view()
            if view.ended:
                self._stopped.wait(LINGER)
                self.close()
            else:
                self.figures.wait(view.version, LOOK)


class _Http(HTTPServer):
    """A bounded number of connections, each in a thread of its own."""

    allow_reuse_address = True
    request_queue_size = MOST_CLIENTS

    def __init__(self, address: tuple[str, int], figures: Figures, token: str | None, stopped: threading.Event) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.figures = figures
        self.token = token
        self.stopped = stopped
        self._free = threading.BoundedSemaphore(MOST_CLIENTS)
        self._guard = threading.Lock()
        self._open: set[socket.socket] = set()
        self._silent: dict[socket.socket, float] = {}
        super().__init__(address, _Request)

    def server_bind(self) -> None:
        """Bind without asking the network for this machine's name, as the base class does."""
        super(HTTPServer, self).server_bind()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 -- as the base class
        """Answer in a thread, or say that there are too many clients."""
        if not self._free.acquire(blocking=False):
            with suppress(OSError):
                request.sendall(b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 5\r\n\r\ntoo many clients\n")
            self.shutdown_request(request)
            return
        with self._guard:
            self._open.add(request)
            self._silent[request] = time.monotonic()
        threading.Thread(
            target=self._answer, args=(request, client_address), name="watersmeet live answers", daemon=True
        ).start()

    def has_asked(self, request: socket.socket) -> None:
        """Note that a client has said what it wants."""
        with self._guard:
            self._silent.pop(request, None)

    def service_actions(self) -> None:
        """Let go of clients who take too long to say what they want."""
        with self._guard:
            begun = time.monotonic() - PATIENCE
            for request in [request for request, since in self._silent.items() if since < begun]:
                del self._silent[request]
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def server_close(self) -> None:
        """Close the listening socket and all connections."""
        super().server_close()
        with self._guard:
            for request in self._open:
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 -- as the base class
        """Say nothing: a client that has gone is no news."""

    def _answer(self, request: socket.socket, client_address: Any) -> None:  # noqa: ANN401 -- as the base class
        try:
            with suppress(OSError):
                self.finish_request(request, client_address)
        finally:
            with self._guard:
                self._open.discard(request)
                self._silent.pop(request, None)
            self.shutdown_request(request)
            self._free.release()


class _Request(BaseHTTPRequestHandler):
    """One request of one client."""

    server: _Http
    timeout = PATIENCE
    server_version = "watersmeet"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer, if the client may ask."""
        self.server.has_asked(self.connection)
        try:
            asked, own_name = urlsplit(self.path), self._is_own_name()
        except ValueError:  # such as a bracket that is not closed
            self._send_text(HTTPStatus.BAD_REQUEST, "the address or the Host header is none\n")
            return
        given = parse_qs(asked.query).get("token", [None])[0]
        if not own_name:
            self._send_text(
                HTTPStatus.MISDIRECTED_REQUEST, "this page is served under the names of this machine only\n"
            )
        elif not self._knows_token(given):
            self._send_text(HTTPStatus.UNAUTHORIZED, "give the token: ?token=…, or Authorization: Bearer …\n")
        elif given is not None and self.server.token is not None and asked.path == "/":
            self._keep_token(self.server.token)
        elif asked.path == "/":
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", page().document)
        elif asked.path == "/events":
            self._send_events()
        elif asked.path == "/metrics":
            self._send_metrics()
        else:
            self._send_text(HTTPStatus.NOT_FOUND, "there are /, /events and /metrics\n")

    def do_HEAD(self) -> None:
        """Answer as to GET, without a body."""
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class calls it so
        """Log nothing: a path may have the token in it."""

    def _is_own_name(self) -> bool:
        """Tell whether a client without a token asks for this machine; a foreign name may lead here too."""
        if self.server.token is not None:
            return True
        name = urlsplit(f"//{self.headers.get('Host', '')}").hostname
        return name in OWN_NAMES or name == self.server.server_name

    def _knows_token(self, given: str | None) -> bool:
        token = self.server.token
        if token is None:
            return True
        scheme, _, bearer = self.headers.get("Authorization", "").partition(" ")
        known = [given, bearer if scheme.lower() == "bearer" else None, self._cookie()]
        # All are compared, each in constant time.
        return any([hmac.compare_digest(one.encode(), token.encode()) for one in known if one is not None])  # noqa: C419

    @property
    def _cookie_name(self) -> str:
        return f"watersmeet-{self.server.server_port}"

    def _cookie(self) -> str | None:
        try:
            found = SimpleCookie(self.headers.get("Cookie", "")).get(self._cookie_name)
        except CookieError:
            return None
        return None if found is None else found.value

    def _keep_token(self, token: str) -> None:
        """Let the browser keep the token, and take it out of the address."""
        cookie = SimpleCookie({self._cookie_name: token})[self._cookie_name].OutputString()
        self.send_response(HTTPStatus.SEE_OTHER)
        self.send_header("Set-Cookie", f"{cookie}; Path=/; HttpOnly; SameSite=Strict")
        self.send_header("Location", "/")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()

    def _send_metrics(self) -> None:
        try:
            text = exposition(self.server.figures)
        except WatersmeetError as error:
            self._send_text(HTTPStatus.NOT_IMPLEMENTED, f"{error}\n")
        else:
            self._send(HTTPStatus.OK, CONTENT_TYPE, text)

    def _send_events(self) -> None:
        """Send the figures whenever they change, until the query or the server ends."""
        self._send_head(HTTPStatus.OK, "text/event-stream")
        if self.command == "HEAD":
            return
        after: float | None = None
        while not self.server.stopped.is_set():
            view = self.server.figures.view()
            self.wfile.write(f"data: {message(view, after, time.time())}\n\n".encode())
            after = view.latest.began if view.latest else None
            if view.ended:
                return
            due = time.monotonic() + PULSE
            while not (
                self.server.stopped.is_set() or self.server.figures.wait(view.version, LOOK) or time.monotonic() > due
            ):
                pass

    def _send_text(self, status: HTTPStatus, text: str) -> None:
        self._send(status, "text/plain; charset=utf-8", text.encode())

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self._send_head(status, kind, len(body))
        if self.command != "HEAD":
            self.wfile.write(body)

    def _send_head(self, status: HTTPStatus, kind: str, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", page().policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
