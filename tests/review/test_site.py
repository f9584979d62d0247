"""The server as a process: its address, its end, and what survives a kill."""

from __future__ import annotations

import signal
import sqlite3
import threading

import numpy as np
import pytest

from spml.common import web as limits
from spml.common.errors import InputError
from spml.common.web import listen
from spml.config import DataConfig
from spml.review import app
from spml.review.app import open_site, serve
from spml.review.merged import reviewed
from spml.review.session import Review
from tests.helpers.connections import connections
from tests.helpers.reviews import audit_of, make_audit
from tests.review.browser import process
from tests.review.browser import serving as serving_in_thread

httpx = pytest.importorskip("httpx")


def test_a_free_port_of_this_machine_only():
    with listen(0) as listener:
        host, port = listener.getsockname()
        assert host == "127.0.0.1"
        assert port > 0
        with pytest.raises(InputError, match=f"port {port} can't be used"):
            listen(port)


def test_ctrl_c_ends_with_where_the_answers_are(audit, monkeypatch, capsys):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    for browser in (False, True):
        site = open_site(Review(audit, "ann"))
        monkeypatch.setattr(site.server, "run", lambda sockets: None)
        serve(site, browser=browser)
    assert opened == [site.address]
    assert capsys.readouterr().out.splitlines()[-5:] == [
        site.address,
        "8 entries to review as ann. Ctrl-C stops: every answer is on disk.",
        "",
        f"The answers are in {audit / 'review.sqlite'}.",
        f"Write them as labels: spml review export {audit} {audit.parent}/photos/reviewed.csv --format csv",
    ]


def test_rows_that_only_have_a_name_are_mentioned(tmp_path, monkeypatch, capsys):
    arrays = {"X": np.eye(3, dtype=np.float32), "Y": np.eye(3), "classes": ["a", "b", "c"]}
    (tmp_path / "texts.csv").write_text("row,text\n0,a text\n")
    cases = {
        "plain": ({}, None),
        "named": ({"feature_names": ["x", "y", "z"]}, None),
        "table": ({}, tmp_path / "texts.csv"),
    }
    for name, (further, rows) in cases.items():
        np.savez(tmp_path / f"{name}.npz", **arrays, **further)
        config = DataConfig(path=str(tmp_path / f"{name}.npz"))
        audit = audit_of(config, tmp_path / name, {"0": ("a", {"b": 0.9})})
        site = open_site(Review(audit, "ann", rows=rows))
        monkeypatch.setattr(site.server, "run", lambda sockets: None)
        serve(site, browser=False)
        mentioned = "The samples are shown by name only. rows=FILE" in capsys.readouterr().out
        assert mentioned == (name == "plain")


def many(folder, count):
    photos = {f"{row:03}.png": ("cat", {"dog": 0.9, "bird": 0.4}) for row in range(count)}
    return make_audit(folder, {**photos, "y.png": ("bird", {}), "z.png": ("dog", {})}, size=(12, 12))


@pytest.mark.long
def test_the_address_has_a_secret_and_the_end_says_where_the_answers_are(tmp_path):
    audit = make_audit(tmp_path)
    with process(audit) as server, process(audit) as other:
        tokens = [each.address.split("/")[3] for each in (server, other)]
        assert tokens[0] != tokens[1]
        assert min(map(len, tokens)) >= 32
        assert httpx.get(server.address).status_code == 200
        assert httpx.get(server.address.replace(tokens[0], tokens[1])).status_code == 403
        code, out, err = server.end(signal.SIGINT)
    assert (code, err) == (0, "")
    assert f"The answers are in {audit / 'review.sqlite'}." in out
    assert f"spml review export {audit} {tmp_path}/photos/reviewed.csv --format csv" in out


@pytest.mark.long
def test_idle_connections_without_the_token_do_not_keep_the_page_from_its_reader(tmp_path):
    with process(make_audit(tmp_path), files=80) as server:
        port = httpx.URL(server.address).port
        with connections(port, 150), connections(port, 150, b"GET / HTTP/1.1\r\n"):
            for _ in range(10):
                assert httpx.get(f"{server.address}photo/0", timeout=20).status_code == 200
        code, _, err = server.end(signal.SIGINT)
    assert code == 0
    (line,) = err.splitlines()
    assert "connections are open, as many as `ulimit -n` leaves room for." in line


@pytest.mark.long
def test_a_client_that_sends_half_of_something_is_cut_off(audit, monkeypatch, caplog):
    monkeypatch.setattr(limits, "PATIENCE", 0.3)
    monkeypatch.setattr(app, "PATIENCE", 0.3)
    with serving_in_thread(audit) as site:
        port, token = httpx.URL(site.address).port, site.address.split("/")[3]
        half = b"POST /%s/api/decide HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        half += b"Content-Length: 100\r\n\r\n{"
        begins = {
            b"": b"",
            b"GET / HTTP": b"",
            half % b"wrong": b"HTTP/1.1 403",
            half % token.encode(): b"HTTP/1.1 408",
        }
        for begin, answer in begins.items():
            with connections(port, 1, begin) as (connection,):
                received = b""
                while piece := connection.recv(1000):
                    received += piece
                assert received[:12] == answer, begin
        with connections(port, 1, half % token.encode()):
            pass  # gone before the end of its request
        assert httpx.get(site.address).status_code == 200
    assert caplog.messages == []


@pytest.mark.long
def test_kill_9_during_200_decisions_loses_none(tmp_path):
    """The server is killed three times while answers come in; each that it confirmed is there."""
    audit = many(tmp_path, 200)
    confirmed: dict[tuple[int, int], str] = {}
    questions = [(sample, column) for sample in range(200) for column in (2, 0)][:200]
    answers = ("yes", "no", "unsure")
    waiting = list(enumerate(questions))
    kills = 0
    while waiting:
        server = process(audit)
        killer = threading.Timer(0.1 + 0.1 * kills, server.send, [signal.SIGKILL])
        with httpx.Client(base_url=server.address) as client:
            client.get("api/about")
            if kills < 3:
                killer.start()
            while waiting:
                number, (sample, column) = waiting[0]
                given = {"samples": [sample], "column": column, "answer": answers[number % 3]}
                try:
                    response = client.post("api/decide", json=given)
                except httpx.TransportError:
                    break
                assert response.status_code == 200
                confirmed[sample, column] = answers[number % 3]
                waiting.pop(0)
        killer.cancel()
        server.kill()
        kills += 1
    assert kills > 1
    assert len(confirmed) == 200
    with sqlite3.connect(audit / "review.sqlite") as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        rows = database.execute("SELECT file, label, answer FROM decisions ORDER BY id").fetchall()
    kept = {(int(file[:3]), {"bird": 0, "dog": 2}[label]): answer for file, label, answer in rows}
    assert kept == confirmed
    # An answer may have been committed right before the kill, and given again.
    assert 200 <= len(rows) <= 200 + kills
    assert reviewed(audit)[1][0] == "67 known positives and 67 known negatives from the review."


@pytest.mark.long
def test_a_signal_right_after_the_address_ends_cleanly(audit):
    with process(audit) as server:
        code, out, err = server.end(signal.SIGTERM)
        assert (code, err) == (0, "")
    assert f"The answers are in {audit / 'review.sqlite'}." in out
