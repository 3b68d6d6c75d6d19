"""The server: the page, its events, the metrics; who may ask, how many, and when it ends."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from watersmeet.live import Figures, Server, serve
from watersmeet.live import server as server_module
from watersmeet.live.page import page
from watersmeet.spec.errors import SpecificationError, WatersmeetError

Shown = list[dict[str, Any]]
TOKEN = "a-token-of-a-test-0123456789"  # noqa: S105 -- of tests alone


@pytest.fixture
def figures(classic: Shown) -> Figures:
    found = Figures()
    for progress in classic[:10]:
        found.add(progress)
    return found


@pytest.fixture
def server(figures: Figures) -> Iterator[Server]:
    with serve(figures, 0) as served:
        yield served


def ask(server: Server, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    answer = response.status, dict(response.getheaders()), response.read().decode()
    connection.close()
    return answer


def listen(server: Server) -> tuple[http.client.HTTPConnection, Iterator[dict[str, Any]]]:
    """Open a page's stream of events; return the connection and the messages."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("GET", "/events")
    response = connection.getresponse()
    assert response.getheader("Content-Type") == "text/event-stream"

    def messages() -> Iterator[dict[str, Any]]:
        for line in response:
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))

    return connection, messages()


def soon(holds: Any, seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
    return bool(holds())


def test_the_page_loads_nothing_from_elsewhere(server: Server) -> None:
    status, headers, text = ask(server, "/")
    assert (status, text) == (200, page().document.decode())
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert set(re.findall(r"https?://[^\s\"']+", text)) == {"http://www.w3.org/2000/svg"}, (
        "a name of XML, not an address"
    )
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|eval\(", text)


def test_events_bring_the_history_once_and_then_what_is_new(server: Server, figures: Figures, classic: Shown) -> None:
    connection, messages = listen(server)
    first = next(messages)
    assert [point["number"] for point in first["points"]] == list(range(10))
    assert first["joins"]["near"]["groups"][0]["is_hot"]
    figures.add(classic[10])
    second = next(messages)
    assert [point["number"] for point in second["points"]] == [10]
    assert second["joins"]["near"]["sums"]["pairs"] > first["joins"]["near"]["sums"]["pairs"]
    figures.end()
    assert [message["ended"] for message in messages] == [True], "and then the stream ends"
    connection.close()


def test_a_page_may_come_before_the_first_micro_batch() -> None:
    with serve(Figures(), 0) as empty:
        connection, messages = listen(empty)
        assert next(messages)["points"] == []
        connection.close()
        text = ask(empty, "/metrics")[2]
        assert "watersmeet_micro_batches_total 0.0" in text
        assert "watersmeet_query_active 0.0" in text  # nobody has started it


def test_metrics_are_the_sums_of_the_figures(server: Server, figures: Figures) -> None:
    status, headers, text = ask(server, "/metrics")
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    sums = figures.view().sums["near"]
    assert found["watersmeet_pairs_total", "near"] == sums.pairs
    assert found["watersmeet_late_rows_total", "near"] == sums.late_rows > 0
    assert found["watersmeet_query_active",] == 1
    assert found["watersmeet_watermark_lag_seconds",] == pytest.approx(1.7, abs=0.002)
    assert sum(rows for (name, *_), rows in found.items() if name == "watersmeet_core_rows_in_total") == sums.rows_in


def test_the_page_and_prometheus_have_a_jobs_latency(job: Shown) -> None:
    figures = Figures()
    for progress in job:
        figures.add(progress)
    with serve(figures, 0) as served:
        connection, messages = listen(served)
        points = next(messages)["points"]
        connection.close()
        text = ask(served, "/metrics")[2]
    assert [point["unread"] for point in points] == [20_000, 16_000, 12_000, 8_000, 4_000, 0, 0]
    assert all(point["results"] == pytest.approx(point["joins"]["near"]["pairs"]) for point in points)
    assert points[-1]["event_latency"] is None, "no results; Prometheus has the last that is known"
    found = {
        (sample.name, sample.labels.get("quantile")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    for since in ("event", "arrival"):
        for part, name in (("0.5", "p50"), ("0.95", "p95")):
            assert found[f"watersmeet_{since}_latency_seconds", part] == points[-2][f"{since}_latency"][name] > 0
    assert found["watersmeet_results_total", None] == figures.view().results
    assert found["watersmeet_unread_rows", None] == 0


def test_metrics_without_their_package_say_how_to_install_it(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "prometheus_client", None)
    status, _, text = ask(server, "/metrics")
    assert status == 501
    assert "pip install 'watersmeet[metrics]'" in text


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost.evil"])
def test_a_name_that_is_not_this_machines_is_refused(server: Server, host: str) -> None:
    assert ask(server, "/events", Host=host)[0] == 421


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1", "[::1]:80", "LOCALHOST"])
def test_this_machines_own_names_are_served(server: Server, host: str) -> None:
    assert ask(server, "/", Host=host)[0] == 200


def test_a_token_is_asked_for_and_kept_by_the_browser(figures: Figures) -> None:
    with serve(figures, 0, host="0.0.0.0", token=TOKEN) as guarded:  # noqa: S104 -- a test of just this
        for path in ("/", "/events", "/metrics", "/else"):
            assert ask(guarded, path)[0] == 401
            assert ask(guarded, f"{path}?token={TOKEN}x")[0] == 401
        assert ask(guarded, "/metrics", Authorization=f"Bearer {TOKEN}")[0] == 200
        assert ask(guarded, "/metrics", Authorization="Bearer é".encode().decode("latin-1"))[0] == 401
        status, headers, _ = ask(guarded, f"/?token={TOKEN}")
        assert (status, headers["Location"]) == (303, "/")
        cookie, *about = headers["Set-Cookie"].split("; ")
        assert set(about) == {"Path=/", "HttpOnly", "SameSite=Strict"}
        assert ask(guarded, "/", Cookie=cookie)[0] == 200
        assert ask(guarded, "/", Cookie=cookie[:-1])[0] == 401
        _, headers, _ = ask(guarded, "/?token=of-the-clients-choice", Cookie=cookie)
        assert headers["Set-Cookie"].split("; ")[0] == cookie, "the server's own token alone is kept"


def test_no_cookie_is_set_where_there_is_no_token(server: Server) -> None:
    status, headers, text = ask(server, "/?token=x")
    assert (status, text) == (200, page().document.decode())
    assert "Set-Cookie" not in headers


@pytest.mark.parametrize("path", ["/", "/metrics", "/events", "/else"])
def test_head_is_answered_without_a_body(server: Server, path: str) -> None:
    status, headers, text = ask(server, path, "HEAD")
    assert (status, text) == (404 if path == "/else" else 200, "")
    assert headers["Content-Type"]
    assert ("Content-Length" in headers) == (path != "/events")


@pytest.mark.parametrize("token", [None, TOKEN])
def test_brackets_in_addresses_get_an_answer(
    figures: Figures, token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    of_host = 401 if token else 400  # with a token any name is served, so Host is not looked at
    with serve(figures, 0, token=token) as served:
        for asked, status in (
            (b"GET / HTTP/1.1\r\nHost: [::1", of_host),
            (b"GET / HTTP/1.1\r\nHost: [localhost]", of_host),
            (b"GET / HTTP/1.1\r\nHost: ]", of_host),
            (b"GET http://[ HTTP/1.1\r\nHost: localhost", 400),
            (b"HEAD http://[v1.x HTTP/1.1\r\nHost: localhost", 400),
        ):
            with socket.create_connection(("127.0.0.1", served.port), timeout=10) as client:
                client.sendall(asked + b"\r\n\r\n")
                assert int(client.recv(200).split()[1]) == status
    assert not failed


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"port": 0, "host": "0.0.0.0"}, "without a token"),  # noqa: S104 -- refused
        ({"port": 0, "host": "example.org"}, "without a token"),
        ({"port": 0, "token": "short"}, "5 characters"),
        ({"port": 70_000}, "port=70000"),
        ({"port": "80"}, "port='80'"),
        ({"port": True}, "port=True"),
    ],
)
def test_what_cannot_be_served_is_refused(figures: Figures, options: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecificationError) as refused:
        serve(figures, **options)
    assert says in refused.value.given
    assert refused.value.next_step


def test_what_is_no_query_is_refused() -> None:
    with pytest.raises(SpecificationError, match="a live page of a str"):
        serve("a query", 0)


def test_a_port_that_is_taken_is_refused(figures: Figures) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(WatersmeetError, match="cannot be served"):
        serve(figures, other.getsockname()[1])


def test_clients_and_threads_are_bounded(figures: Figures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MOST_CLIENTS", 3)
    before = threading.active_count()
    with serve(figures, 0) as served:
        own = threading.active_count()
        open_ones = [listen(served) for _ in range(3)]
        for _, messages in open_ones:
            next(messages)
        assert ask(served, "/")[0] == 503
        assert threading.active_count() <= own + 3
        open_ones[0][0].close()
        figures.end()  # so the stream is written to, and found to be closed
        assert soon(lambda: threading.active_count() <= own)
    assert soon(lambda: threading.active_count() <= before)


def test_a_client_that_says_nothing_or_too_slowly_is_let_go(figures: Figures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "PATIENCE", 0.5)
    with serve(figures, 0) as served, socket.create_connection(("127.0.0.1", served.port)) as slow:
        began = time.monotonic()

        def trickle() -> None:
            while time.monotonic() < began + 10:
                slow.sendall(b"G")
                time.sleep(0.1)

        with pytest.raises(ConnectionError):
            trickle()
        assert time.monotonic() < began + 8


def test_the_page_ends_with_the_query(figures: Figures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "LINGER", 0.1)
    before = threading.active_count()
    served = serve(figures, 0)
    assert not served.wait(0.1)
    figures.end("it failed")
    assert served.wait(10)
    assert soon(lambda: threading.active_count() <= before)
    with pytest.raises(ConnectionRefusedError):
        ask(served, "/")


@pytest.mark.parametrize(
    "request_line", [b"POST / HTTP/1.1", b"GET", b"\xff\xfe", b"GET http://evil/ HTTP/1.1", b"A" * 70_000]
)
def test_odd_requests_do_no_harm(server: Server, request_line: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
        client.sendall(request_line + b"\r\n\r\n")
        client.shutdown(socket.SHUT_WR)
        assert b"200 OK" not in client.recv(200)
    assert ask(server, "/")[0] == 200
