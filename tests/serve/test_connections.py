"""More connections than a server can hold: those that are idle make room, and others are answered."""

from __future__ import annotations

import threading
import time

import pytest

from spml.common import web as limits
from spml.common.errors import InputError
from spml.common.web import PatientServer, listen
from tests.helpers.connections import connections, is_open
from tests.serve.process import begun, process, serving, talk

httpx = pytest.importorskip("httpx")
resource = pytest.importorskip("resource")
ROW = {"features": [[0.0] * 8]}
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@pytest.mark.long
@pytest.mark.parametrize("options", [(), ("--workers", "2")])
def test_more_idle_connections_than_files(feature_run, options):
    with process(feature_run, *options, quick=True, files=80) as server:
        for _ in range(3):
            with connections(server.port, 200), connections(server.port, 100, b"POST /predict HTTP/1.1\r\n"):
                for _ in range(10):
                    answer = httpx.post(f"{server.address}predict", json=ROW, timeout=20, verify=False)
                    assert answer.status_code == 200, answer.text
        code, _, err = server.end()
    assert code == 0
    # Each process says it once.
    lines = err.splitlines()
    assert 1 <= len(lines) <= 1 + len(options) // 2
    for line in lines:
        assert "connections are open, as many as `ulimit -n` leaves room for. From now on, a further" in line


@pytest.mark.long
def test_too_few_files_are_said_at_the_start(feature_run):
    with pytest.raises(RuntimeError, match=r"spml serve: 32 open files \(`ulimit -n`\) leave too few"):
        process(feature_run, files=32)


@pytest.fixture
def few(feature_run, monkeypatch):
    """Port of a server for three connections."""
    monkeypatch.setattr(limits, "MAX_CONNECTIONS", 3)
    with serving(feature_run) as (_, port):
        yield port


def test_the_connection_that_is_idle_for_longest_makes_room(few, capfd):
    with connections(few, 3) as (first, second, third):
        # The second one asks last: that it was accepted earlier does not count.
        for each in (first, third, second):
            each.sendall(HEALTH.replace(b"Connection: close\r\n", b""))
            answer = b""
            while b"ready" not in answer:
                answer += each.recv(1000)
        assert [talk(few, HEALTH)[:12] for _ in range(2)] == [b"HTTP/1.1 200"] * 2
        assert [is_open(each) for each in (first, second, third)] == [False, True, True]
        with connections(few, 1):
            assert talk(few, HEALTH)[:12] == b"HTTP/1.1 200"
            assert [is_open(each) for each in (second, third)] == [True, False]
    assert capfd.readouterr().err == (
        "3 connections are open. From now on, a further one ends the one that has been idle for longest.\n"
    )


def test_requests_in_flight_are_not_ended(few):
    """Their bodies have a deadline of their own, so that others are told to come back."""
    body = b'{"features": [[0,0,0,0,0,0,0,0]]}'
    with connections(few, 3, begun(len(body))) as opened:
        for each in opened:
            assert each.recv(1000).startswith(b"HTTP/1.1 100 ")
        answer = talk(few, HEALTH)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert answer.endswith(b'{"error":"Too many connections."}')
        for each in opened:
            each.sendall(body)
            assert each.recv(12) == b"HTTP/1.1 200"
    assert talk(few, HEALTH)[:12] == b"HTTP/1.1 200"


@pytest.mark.parametrize(
    ("soft", "hard", "raised", "most"),
    [
        (256, resource.RLIM_INFINITY, 1_010, 500),
        (256, 4_096, 1_010, 500),
        (256, 256, 256, 123),
        (2_000, 4_096, None, 500),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, None, 500),
        (64, 100, 100, 45),
        (30, 49, 49, None),
    ],
)
def test_the_limit_of_open_files_is_raised_as_far_as_needed(monkeypatch, soft, hard, raised, most):
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (soft, hard))
    set_to = []
    monkeypatch.setattr(resource, "setrlimit", lambda kind, pair: set_to.append(pair))
    monkeypatch.setattr(limits.socket.socket, "fileno", lambda self: 10)
    if most is None:
        with pytest.raises(
            InputError, match=r"49 open files .* Raise the limit to 1010, or to 50 at least\."
        ):
            PatientServer(None, 1)
    else:
        assert PatientServer(None, 1).limit.most == most
    assert set_to == ([(raised, hard)] if raised else [])


def test_a_burst_of_connections_waits_in_the_system(few):
    """asyncio would let no more of them wait than it accepts at once."""
    with listen(0) as listener:
        server = PatientServer(_hello, 1)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        while not server.started:
            time.sleep(0.01)
        port = listener.getsockname()[1]
        held = threading.Event()
        server.servers[0].get_loop().call_soon_threadsafe(held.wait, 20)
        with connections(port, 100, HEALTH) as opened:  # each connects within its 20 seconds
            held.set()
            assert opened[-1].recv(12) == b"HTTP/1.1 200"
        server.should_exit = True
        thread.join()


async def _hello(scope, receive, send):
    if scope["type"] == "lifespan":
        for kind in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{kind}.complete"})
    else:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"hello"})


def test_only_http_1_is_answered(few):
    for version, status in ((b"1.0", b"200"), (b"1.1", b"200"), (b"9.9", b"505"), (b"2.0", b"505")):
        answer = talk(few, HEALTH.replace(b"HTTP/1.1", b"HTTP/" + version))
        assert answer.startswith(b"HTTP/1.1 " + status), answer
        assert (b"This server speaks HTTP/1.1." in answer) == (status == b"505")
