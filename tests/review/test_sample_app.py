"""Addresses of the page on which a sample is labelled in full, without a browser."""

from __future__ import annotations

import subprocess
import threading

import pytest

from spml.review.app import HEADERS, create_app
from spml.review.contents import Pictures
from spml.review.labelling import Labelling
from tests.helpers.reviews import make_sample

TestClient = pytest.importorskip("fastapi.testclient").TestClient
TOKEN = "t0ken-of_the-page"


@pytest.fixture
def page(tmp_path):
    page = Labelling(make_sample(tmp_path, runs=["runs/a b"]), "ann")
    yield page
    page.store.close()


@pytest.fixture
def client(page, tmp_path):
    app = create_app(page, Pictures(page.records, tmp_path / "thumbnails", 10**6), TOKEN)
    return TestClient(app, base_url="http://127.0.0.1:8000", raise_server_exceptions=False)


def post(client, path, body=None):
    return client.post(f"/{TOKEN}/api/{path}", json=body)


def test_what_the_page_asks_for(client, page):
    assert "All labels of a sample" in client.get(f"/{TOKEN}/").text
    about = client.get(f"/{TOKEN}/api/about").json()
    assert about == {
        "name": "photos", "reviewer": "ann", "classes": ["bird", "cat", "dog"], "images": True,
        "ordered": False,
        "next": [f"spml audit use {page.sheet} 'runs/a b'"],
    }  # fmt: skip
    queue = client.get(f"/{TOKEN}/api/queue").json()
    assert (len(queue["samples"]), queue["start"], queue["progress"]["samples"]) == (24, 0, 24)
    sample = queue["samples"][0]
    (card,) = client.get(f"/{TOKEN}/api/cards?samples={sample}").json()
    assert card["mine"] == {"reviewer": "ann", "complete": False, "labels": card["given"]}
    assert client.get(f"/{TOKEN}/photo/{sample}").headers["content-type"] == "image/jpeg"
    saved = post(client, "decide", {"sample": sample, "column": 0, "answer": "yes"}).json()
    assert 0 in saved["card"]["mine"]["labels"]
    saved = post(client, "complete", {"sample": sample, "complete": True}).json()
    assert (saved["card"]["status"], saved["progress"]["complete"]) == ("complete", 1)
    undone = post(client, "undo").json()["undone"]
    assert (undone["sample"], undone["label"], undone["answers"]) == (sample, "", 1)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("decide", {"sample": 0, "column": 3, "answer": "yes"}, 404),
        ("decide", {"sample": 999, "column": 0, "answer": "yes"}, 404),
        ("decide", {"sample": 0, "column": 0, "answer": "unsure"}, 422),
        ("decide", {"sample": "0", "column": 0, "answer": "yes"}, 422),
        ("complete", {"sample": 0, "complete": 1}, 422),
        ("complete", {"sample": -1, "complete": True}, 404),
        ("use?x=1", None, 422),
    ],
)
def test_impossible_answers_are_refused(path, body, status, client, page):
    assert post(client, path, body).status_code == status
    assert page.store.since(0) == []


def test_nothing_is_answered_without_the_token_or_from_another_page(client, page):
    for path in ("decide", "complete", "undo", "use"):
        assert client.post(f"/wrong/api/{path}").status_code == 403
        refused = client.post(f"/{TOKEN}/api/{path}", headers={"Origin": "http://evil.example"})
        assert refused.status_code == 403
    for path in ("", "static/sample.js", "api/about", "api/queue"):
        answer = client.get(f"/{TOKEN}/{path}")
        assert all(name in answer.headers for name in HEADERS)
    extra = {"sample": 0, "complete": True, "column": 1}
    assert client.post(f"/{TOKEN}/api/complete", json=extra).status_code == 422
    assert page.store.since(0) == []


def test_the_labels_are_used_by_one_command_at_a_time(client, page, monkeypatch):
    started, go_on, commands = threading.Event(), threading.Event(), []

    def run(words, **options):
        commands.append(words[1:])
        started.set()
        assert go_on.wait(20)
        return subprocess.CompletedProcess(words, 2, "K is 2\n", "no run\n")

    monkeypatch.setattr(subprocess, "run", run)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(post(client, "use")))
    thread.start()
    assert started.wait(20)
    refused = post(client, "use")
    assert (refused.status_code, refused.json()["error"][:33]) == (409, "The labels are being used already")
    go_on.set()
    thread.join()
    assert answers[0].json() == {"code": 2, "text": "K is 2\nno run"}
    assert commands == [["-m", "spml", "audit", "use", str(page.sheet), "runs/a b"]]
