"""`spml serve` as a process: its end, its workers, its memory, and the folder that it leaves alone."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spml
from spml.common.web import PatientProtocol, listen
from spml.serve.server import Settings, make_server
from tests.helpers.connections import connections
from tests.helpers.servers import Server
from tests.helpers.serving import files, png
from tests.serve.process import begun, process

httpx = pytest.importorskip("httpx")
pytestmark = pytest.mark.long


class Load:
    """Clients that ask until the server is gone, and check every answer.

    Attributes:
        answered: Number of right answers.
        pause: Seconds that each client waits before it asks again.
        failures: What went wrong otherwise than by a connection that was refused or closed.
    """

    def __init__(
        self, server: Server, expected: np.ndarray, requests: Sequence[dict[str, Any]], clients: int = 8
    ) -> None:
        self.answered, self.pause, self.failures, self._lock = 0, 0.0, [], threading.Lock()
        self._server, self._expected, self._requests = server, expected, requests
        self._threads = [threading.Thread(target=self._ask, args=(k,)) for k in range(clients)]
        for thread in self._threads:
            thread.start()

    def _ask(self, number: int) -> None:
        with httpx.Client(base_url=self._server.address, timeout=60, verify=False) as client:
            for turn in range(100_000):
                row = (number + turn) % len(self._requests)
                time.sleep(self.pause)
                try:
                    response = client.post("/predict", **self._requests[row])
                except httpx.TransportError:
                    return
                if response.status_code != 200:
                    self.failures.append(response.text)
                    return
                (answer,) = response.json()["predictions"]
                difference = np.abs(np.array(list(answer["scores"].values())) - self._expected[row]).max()
                with self._lock:
                    self.answered += 1
                    if difference > 1e-5:
                        self.failures.append(f"row {row} is off by {difference}")

    def until(self, answered: int) -> None:
        """Wait until so many requests have been answered."""
        end = time.monotonic() + 60
        while self.answered < answered and not self.failures and time.monotonic() < end:
            time.sleep(0.01)

    def join(self) -> None:
        """Wait for the end of all clients."""
        for thread in self._threads:
            thread.join()


def test_a_signal_under_load_loses_nothing_that_was_taken(photo_run, photos):
    before = {path: path.stat().st_mtime_ns for path in photo_run.rglob("*")}
    paths = sorted(photos.glob("*/*.png"))
    expected = spml.load(photo_run).predict(paths).scores
    with process(photo_run) as server:
        load = Load(server, expected, [{"files": files(path)} for path in paths])
        load.until(40)
        code, out, err = server.end()
        load.join()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", server.port))
    assert load.failures == []
    assert (code, err) == (0, "")
    # Each request that the server counts has reached its client, and no other one has an answer.
    assert out.splitlines()[-1] == f"Stopped: {load.answered} requests answered."
    assert load.answered >= 40
    # A folder that is mounted read-only serves as well.
    assert {path: path.stat().st_mtime_ns for path in photo_run.rglob("*")} == before


def test_what_is_not_finished_in_time_is_told_so(feature_run):
    with (
        process(feature_run, "--shutdown_timeout", "0.5") as server,
        connections(server.port, 1, begun(1_000)) as (client,),
    ):
        assert client.recv(1_000).startswith(b"HTTP/1.1 100 ")
        code, _, err = server.end()
        assert client.recv(1_000).startswith(b"HTTP/1.1 503 ")
    assert code == 1
    assert "1 request was not finished within shutdown_timeout=0.5 seconds." in err


def test_a_second_signal_ends_at_once(feature_run):
    with process(feature_run) as server, connections(server.port, 1, begun(1_000)) as (client,):
        assert client.recv(1_000).startswith(b"HTTP/1.1 100 ")
        server.send(signal.SIGTERM)
        time.sleep(0.5)
        assert server.process.is_alive()
        started = time.monotonic()
        code, _, _ = server.end()
        assert code == 128 + signal.SIGTERM
        assert time.monotonic() - started < 10  # of the 20 seconds that the body may take


def test_a_connection_that_uvicorn_forgets_at_the_end_does_not_delay_it(feature_run, monkeypatch):
    """As one does that is accepted at that moment: it is not among those that are asked to end."""
    monkeypatch.setattr(PatientProtocol, "shutdown", lambda self: None)
    settings = Settings(feature_run, "127.0.0.1", 0, device="cpu", shutdown_timeout=20)
    service = settings.open()
    server = make_server(settings, service)
    with listen(0, "127.0.0.1") as listener, httpx.Client(timeout=60) as client:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/predict"
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        ask = partial(client.post, url, json={"features": [[0.0] * 8]})
        ask().raise_for_status()
        server.handle_exit(signal.SIGTERM, None)
        with suppress(httpx.TransportError):
            while ask().is_success:
                pass
        thread.join()
    assert service.cut_off == 0


@pytest.mark.parametrize("options", [(), ("--workers", "2")])
def test_a_terminal_that_is_closed_ends_the_server_as_sigterm_does(
    feature_run, tmp_path, monkeypatch, options
):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    body = b'{"features": [[0,0,0,0,0,0,0,0]]}'
    started = process(feature_run, *options, quick=True, heeded=signal.SIGHUP)  # tests may run under nohup
    with started as server, connections(server.port, 1, begun(len(body))) as (client,):
        assert client.recv(1_000).startswith(b"HTTP/1.1 100 ")
        for _ in range(2):  # a shell sends it, too
            server.send(signal.SIGHUP)
            time.sleep(0.5)
        client.sendall(body)
        assert client.recv(1_000).startswith(b"HTTP/1.1 200 ")
        code, _, err = server.wait()
    assert (code, err) == (0, "")
    assert list(tmp_path.glob("spml-serve-*")) == []


def test_a_server_under_nohup_outlives_its_terminal(feature_run):
    with process(feature_run, ignored=signal.SIGHUP) as server:
        server.send(signal.SIGHUP)
        assert httpx.get(f"{server.address}health").status_code == 200
        assert server.end()[0] == 0


def test_a_second_signal_leaves_no_folder_of_workers(feature_run, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with (
        process(feature_run, "--workers", "2", quick=True) as server,
        connections(server.port, 1, begun(1_000)) as (client,),
    ):
        assert client.recv(1_000).startswith(b"HTTP/1.1 100 ")
        server.send(signal.SIGTERM)
        time.sleep(0.5)
        assert server.end()[0] == 128 + signal.SIGTERM
    assert list(tmp_path.glob("spml-serve-*")) == []


def metrics_of(server: Server) -> dict[str, float]:
    """Numbers of all workers."""
    lines = httpx.get(f"{server.address}metrics", timeout=60, verify=False).text.splitlines()
    return {name: float(value) for name, value in (x.rsplit(" ", 1) for x in lines if x[:1] != "#")}


def workers_of(server: Server) -> list[int]:
    """Process numbers of the workers, from the memory that each reports."""
    names = metrics_of(server)
    return sorted(int(found[1]) for name in names if (found := re.search(r'memory_bytes{pid="(\d+)"', name)))


def workers_within(server: Server, end: float, other_than: Sequence[int] = ()) -> list[int]:
    """Two workers none of which is among others; the list is shorter if they have not come by then."""
    while len(now := workers_of(server)) < 2 or set(now) & set(other_than):
        if time.monotonic() > end:
            return []
        httpx.post(f"{server.address}predict", json={"features": [[0.0] * 8]}, timeout=60, verify=False)
        time.sleep(0.1)
    return now


def test_workers_share_the_port_and_their_numbers_and_are_replaced(feature_run):
    rows = np.random.default_rng(1).normal(size=(20, 8)).astype(np.float32)
    expected = spml.load(feature_run).predict(rows).scores
    requests = [{"json": {"features": [row.tolist()]}} for row in rows]
    # They are started as usual: a fork has counters that were made before it knew of other processes.
    with process(feature_run, "--workers", "2") as server:
        load, end = Load(server, expected, requests, clients=6), time.monotonic() + 120
        load.until(150)
        load.pause = 0.1
        workers = workers_within(server, end)
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)  # takes the requests of this worker with it
        assert len(workers_within(server, end, workers[:1])) == 2
        load.pause = 0.0
        load.until(load.answered + 50)
        counted = metrics_of(server)['spml_requests_total{path="/predict",status="200"}']
        assert counted >= load.answered - 6
        code, out, err = server.end(signal.SIGINT)
        load.join()
    assert load.failures == []
    assert code == 0
    assert out.splitlines()[-1] == "Stopped."
    assert "A worker process has ended (exit code -9). Starting another one." in err


def test_the_folder_of_workers_is_removed(feature_run, tmp_path, monkeypatch):
    """As where something removes old files of /tmp."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with process(feature_run, "--workers", "2", quick=True) as server:
        (folder,) = tmp_path.glob("spml-serve-*")
        shutil.rmtree(folder)
        answer = httpx.get(f"{server.address}metrics", timeout=60)
        assert (answer.status_code, str(folder) in answer.json()["error"]) == (503, True)
        task = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
        os.kill(int(task.read_text().split()[0]), signal.SIGKILL)
        end = time.monotonic() + 120
        while not folder.is_dir() and time.monotonic() < end:  # made again by the next worker
            time.sleep(0.1)
        ask = {"json": {"features": [[0.0] * 8]}, "timeout": 60}
        assert httpx.post(f"{server.address}predict", **ask).status_code == 200
        assert httpx.get(f"{server.address}metrics", timeout=60).status_code == 200


def test_memory_stays_flat(photo_run, photos):
    """Good and bad requests by turns; what counts is the growth after the first 400."""
    contents = [files(path) for path in sorted(photos.glob("*/*.png"))]
    contents += [files(b"no image"), files(png(1)[:300]), files(*[b"x"] * 100)]
    with process(photo_run) as server, httpx.Client(base_url=server.address, timeout=60) as client:
        held = []
        for turn in range(1_000):
            client.post("/predict", files=contents[turn % len(contents)])
            if turn % 200 == 199:
                held.append(metrics_of(server)["spml_memory_bytes"])
    assert held[-1] - held[1] < 2.5e6


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_right_after_the_address_ends_cleanly(feature_run, number):
    with process(feature_run) as server:
        code, out, err = server.end(number)
    assert (code, err) == (0, "")
    assert out.endswith("Stopped: 0 requests answered.\n")
