"""Clients that mean no good cost nobody else anything: each is refused, and others are answered meanwhile."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager

import numpy as np
import pytest

import spml
from spml.common import web as connections
from tests.helpers.serving import bomb, files, png
from tests.serve.process import PART, head, serving, talk

httpx = pytest.importorskip("httpx")
pytestmark = pytest.mark.long


@pytest.fixture
def server(photo_run, monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE", 0.5)
    limits = {"max_image_bytes": 300_000, "max_request_bytes": 500_000, "max_samples": 8, "body_timeout": 0.5}
    with serving(photo_run, **limits) as (address, port):
        yield address, port


@contextmanager
def good_client(address, run):
    """A client that asks all the time; every answer must be right."""
    image = png(7)
    with httpx.Client(base_url=address, timeout=20, verify=False) as client:

        def ask():
            return client.post("/predict", files=files(image)).json()["predictions"][0]["scores"]

        expected, answers, stop = ask(), [], threading.Event()

        def loop():
            while not stop.is_set() or len(answers) < 3:
                answers.append(ask())

        thread = threading.Thread(target=loop)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
    for scores in answers:
        assert scores == pytest.approx(expected, abs=1e-5)


def test_slow_clients_are_cut_off(server, photo_run):
    address, port = server
    body = PART + bytes(200)
    slow = {
        "head": ([b"POST /predict HTTP/1.1\r\n"], b""),
        "head, byte by byte": ([bytes([byte]) for byte in head(100)], b""),
        "body": ([head(1_000), body], b"HTTP/1.1 408 "),
        "body, byte by byte": ([head(1_000), *(bytes([byte]) for byte in body)], b"HTTP/1.1 408 "),
        "nothing": ([], b""),
    }
    answers = {}
    with good_client(address, photo_run):

        def ask(name, pieces):
            answers[name] = talk(port, *pieces, pause=0.02)

        threads = [threading.Thread(target=ask, args=(name, pieces)) for name, (pieces, _) in slow.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for name, (_, start) in slow.items():
        assert answers[name].startswith(start), name
        assert bool(answers[name]) == bool(start), name
    assert b"The body did not arrive within 0.5 seconds." in answers["body, byte by byte"]


def test_malformed_and_huge_requests_are_refused(server, photo_run):
    address, port = server
    chunk = b"%x\r\n" % 60_000 + bytes(60_000) + b"\r\n"
    requests = {
        "no HTTP": ([b"\x16\x03\x01 nonsense\r\n\r\n"], 400),
        "a huge head": ([b"GET / HTTP/1.1\r\nX: " + b"y" * 500_000], 400),
        "a huge length": ([head(10**12), PART, bytes(100_000)], 413),
        "huge chunks": ([head(None), b"%x\r\n" % len(PART) + PART + b"\r\n", *[chunk] * 20], 413),
        "a wrong chunk": ([head(None), b"zzz\r\n"], 0),
        "thousands of parts": ([head(7 * 50_000), b"--b\r\n\r\n" * 50_000], 422),
        "too many images": ([head(20 * len(PART + b"\r\n")), (PART + b"\r\n") * 20], 413),
        "a header without end": ([head(400_000), b"--b\r\nContent-Disposition: " + b"x" * 399_976], 0),
        "truncated": ([head(len(PART) + 3), PART + b"abc"], 422),
        "the wrong type": ([head(2, kind="text/html"), b"ab"], 415),
        "a lie about the length": ([head(-5), b"ab"], 400),
    }
    with good_client(address, photo_run):
        for name, (pieces, status) in requests.items():
            answer = talk(port, *pieces)
            assert answer.startswith(b"HTTP/1.1 "), (name, answer)
            assert int(answer[9:12]) == status if status else 400 <= int(answer[9:12]) < 500, (name, answer)
        for content in (bomb(), b"", png(3)[:500], b"GIF89a" + bytes(50)):
            answer = httpx.post(f"{address}/predict", files=files(content))
            assert answer.status_code == 422
            assert answer.json()["predictions"][0]["error"]


def test_nothing_that_a_client_sends_is_logged(server, caplog):
    _, port = server
    for pieces in (
        [b"\x16\x03\x01 nonsense\r\n\r\n"],
        [head(None), b"zzz\r\n"],
        [head(None, kind="text/html"), b"zzz\r\n"],  # which is answered before the wrong chunk comes
        [b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n\x16\x03\r\n\r\n"],
        [b"GET /health HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"],
    ):
        assert talk(port, *pieces, pause=0.2).startswith(b"HTTP/1.1 ")
    assert caplog.messages == []


def test_clients_that_go_away_leave_nothing_behind(server, photo_run):
    address, port = server
    image = PART + png() + b"\r\n--b--\r\n"
    with good_client(address, photo_run):
        for sent in (10, 200, len(image)):
            for _ in range(10):
                with socket.create_connection(("127.0.0.1", port)) as connection:
                    connection.sendall((head(len(image)) + image)[: len(head(len(image))) + sent])
    text = httpx.get(f"{address}/metrics").text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert values["spml_queue_samples"] == "0.0"
    assert float(values['spml_requests_total{path="/predict",status="499"}']) >= 20


def test_a_client_that_reads_nothing_is_cut_off(photo_run, monkeypatch):
    """Answers larger than all buffers on the way, which nobody reads."""
    monkeypatch.setattr(connections, "PATIENCE", 0.5)
    with serving(photo_run) as (address, port), socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", port))
        ask = b"GET /static/page.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
        connection.settimeout(20)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            connection.sendall(ask * 100_000)
        assert httpx.get(f"{address}/health").status_code == 200


def test_a_long_answer_is_waited_for(photo_run, monkeypatch):
    """Also that of a request that came while the one before it was answered."""
    monkeypatch.setattr(connections, "PATIENCE", 0.3)
    body = PART + png() + b"\r\n--b--\r\n"
    with serving(photo_run, delay=0.7) as (_, port):
        answer = talk(port, (head(len(body)) + body) * 2)
    assert answer.count(b"HTTP/1.1 200 OK") == 2


def test_several_clients_share_batches_and_get_their_own_answers(photo_run, photos):
    paths = sorted(photos.glob("*/*.png"))
    run = spml.load(photo_run)
    expected = run.predict(paths)
    found: dict[int, list[float]] = {}
    with serving(photo_run) as (address, _):

        def ask(position):
            with httpx.Client(base_url=address, timeout=60, verify=False) as client:
                for _ in range(5):
                    (answer,) = client.post("/predict", files=files(paths[position])).json()["predictions"]
                    found[position] = list(answer["scores"].values())
                    np.testing.assert_allclose(found[position], expected.scores[position], atol=1e-5)

        threads = [threading.Thread(target=ask, args=(position,)) for position in range(len(paths))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        text = httpx.get(f"{address}/metrics").text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert len(found) == len(paths)
    assert values["spml_batch_size_sum"] == f"{5.0 * len(paths)}"
    assert float(values["spml_batch_size_count"]) < 5 * len(paths)


@pytest.mark.parametrize("host", ["127.0.0.2", "::1", "localhost"])
def test_other_addresses_of_this_machine(feature_run, host):
    try:
        with serving(feature_run, host=host) as (address, _):
            assert httpx.get(f"{address}/health").status_code == 200
            assert httpx.get(f"{address}/health", headers={"Host": "evil.example"}).status_code == 400
    except spml.InputError as error:
        pytest.skip(f"this machine has no {host}: {error}")
