"""The web application, without a browser."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from spml.config import DataConfig
from spml.review.app import HEADERS, MOST_BYTES, MOST_CARDS, STATIC, create_app
from spml.review.contents import Pictures
from spml.review.session import Review
from tests.helpers.reviews import audit_of

TestClient = pytest.importorskip("fastapi.testclient").TestClient
TOKEN = "t0ken-of_the-page"


def client_of(audit, host="http://127.0.0.1:8000"):
    review = Review(audit, "ann")
    app = create_app(review, Pictures(review.records, audit / "thumbnails", 10**6), TOKEN)
    return TestClient(app, base_url=host, raise_server_exceptions=False), review


@pytest.fixture
def client(audit):
    client, review = client_of(audit)
    yield client
    review.store.close()


def get(client, path, **parameters):
    answer = client.get(f"/{TOKEN}/{path}", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def decide(client, sample, column, answer):
    return client.post(f"/{TOKEN}/api/decide", json={"samples": [sample], "column": column, "answer": answer})


# -- what it does ----------------------------------------------------------------------------------------


def test_about(client, audit):
    about = get(client, "api/about")
    reviewed = audit.parent / "photos" / "reviewed.csv"
    assert about.pop("next") == [
        f"spml review export {audit} {reviewed} --format csv",
        f"spml train {reviewed}",
    ]
    assert about == {
        "name": "photos", "reviewer": "ann", "classes": ["bird", "cat", "dog"],
        "listed": {"missing": [3, 2, 3], "wrong": [0, 0, 0]},
        "images": True, "order": "rank", "least_checks": 10, "warnings": ["Made for a test."],
        "how": "made-up probabilities",
    }  # fmt: skip


def test_queue_and_cards(client):
    queue = get(client, "api/queue")
    assert queue["samples"][:4] == [0, 1, 2, 3]
    assert queue["start"] == 0
    assert queue["progress"]["listed"] == 8
    assert queue["progress"]["precision"] is None
    assert queue["progress"]["expected"]["value"] == pytest.approx(4.4)
    cards = get(client, "api/cards", samples=[2, 0])
    assert [card["name"] for card in cards] == ["c.png", "a.png"]
    assert cards[0]["suggestions"][0] == {
        "column": 1, "probability": 0.7, "status": "undecided", "answers": [], "window": [],
        "by_name": "",
    }  # fmt: skip
    chosen = get(client, "api/queue", column=1, minimum=0.75)
    assert chosen["samples"] == [1]


def test_an_answer_and_its_undo(client, audit):
    answer = decide(client, 1, 1, "yes").json()
    assert answer["cards"][0]["suggestions"][0]["status"] == "yes"
    assert answer["progress"]["yes"] == 1
    with sqlite3.connect(audit / "review.sqlite") as database:
        rows = database.execute("SELECT file, label, answer, reviewer FROM decisions").fetchall()
    assert rows == [("b.png", "cat", "yes", "ann")]
    undone = client.post(f"/{TOKEN}/api/undo").json()
    assert undone["undone"] == {"sample": 1, "name": "b.png", "label": "cat", "answers": 1}
    assert undone["progress"]["yes"] == 0
    assert client.post(f"/{TOKEN}/api/undo").json()["undone"] is None


@pytest.mark.parametrize(
    ("sample", "column", "answer", "status"),
    [
        (1, 2, "yes", 409),
        (1, 3, "yes", 404),
        (1, -1, "yes", 404),
        (99, 0, "yes", 404),
        (6, 0, "no", 404),
        (1, 1, "maybe", 422),
        ("b", 1, "yes", 422),
    ],
)
def test_an_impossible_answer_is_refused(client, sample, column, answer, status):
    assert decide(client, sample, column, answer).status_code == status
    assert get(client, "api/queue")["progress"]["yes"] == 0


def test_an_answer_that_can_not_be_saved_is_an_error(audit):
    client, review = client_of(audit)
    review.store._connection.execute("PRAGMA query_only = ON")
    answer = decide(client, 1, 1, "yes")
    assert answer.status_code == 503
    assert "Nothing was saved" in answer.json()["error"]


def test_pictures_by_number(client):
    for kind in ("thumbnail", "photo"):
        answer = client.get(f"/{TOKEN}/{kind}/0")
        assert answer.headers["content-type"] == "image/jpeg"
        assert answer.headers["cache-control"] == "private, max-age=3600"
    assert client.get(f"/{TOKEN}/photo/7").status_code == 404
    assert client.get(f"/{TOKEN}/photo/-1").status_code == 404
    assert client.get(f"/{TOKEN}/original/0").status_code == 404


def test_a_photo_that_went_missing_is_named_and_the_rest_works(client, audit):
    (audit.parent / "photos" / "a.png").unlink()
    answer = client.get(f"/{TOKEN}/photo/0")
    assert answer.status_code == 404
    assert answer.json() == {"error": "a.png: can't be read: No such file or directory"}
    assert client.get(f"/{TOKEN}/photo/1").status_code == 200
    assert decide(client, 0, 2, "yes").status_code == 200


def test_rows_without_pictures(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.eye(4, dtype=np.float32), Y=np.eye(4), classes=["a", "b", "c", "d"])
    audit = audit_of(DataConfig(path=str(tmp_path / "x.npz")), tmp_path / "audit", {"0": ("a", {"b": 0.5})})
    client, _ = client_of(audit)
    assert not get(client, "api/about")["images"]
    (card,) = get(client, "api/cards", samples=[0])
    assert (card["name"], card["given"]) == ("0", ["a"])
    assert client.get(f"/{TOKEN}/photo/0").status_code == 404


# -- security --------------------------------------------------------------------------------------------

ADDRESSES = ("", "static/page.js", "api/about", "api/queue", "api/cards?samples=0", "thumbnail/0", "photo/0")


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "ö", f"x/{TOKEN}"])
def test_nothing_is_answered_without_the_token(client, address, token):
    answer = client.get(f"/{token}/{address}")
    assert answer.status_code == 403
    assert "secret" in answer.json()["error"]
    assert answer.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["", "/", "/docs", "/openapi.json", "/redoc", "*"])
def test_nothing_is_at_the_usual_addresses(client, path):
    assert client.get(path or "http://127.0.0.1:8000").status_code == 403
    assert client.get(f"/{TOKEN}/docs").status_code == 404
    assert client.get(f"/{TOKEN}/openapi.json").status_code == 404


def test_no_answer_is_taken_without_the_token(client):
    payload = {"samples": [1], "column": 1, "answer": "yes"}
    assert client.post("/api/decide", json=payload).status_code == 403
    assert client.post("/wrong/api/decide", json=payload).status_code == 403
    assert client.post("/wrong/api/undo").status_code == 403
    assert get(client, "api/queue")["progress"]["yes"] == 0


def test_a_form_of_another_page_is_no_answer(client):
    for body in ("samples=1&column=1&answer=yes", json.dumps({"samples": [1], "column": 1, "answer": "yes"})):
        answer = client.post(
            f"/{TOKEN}/api/decide",
            content=body,
            headers={"Content-Type": "application/x-www-form-urlencoded"},
        )
        assert answer.status_code == 422


@pytest.mark.parametrize(
    "given",
    [
        {"samples": [True], "column": 1, "answer": "yes"},
        {"samples": [1], "column": True, "answer": "yes"},
        {"samples": ["1"], "column": 1, "answer": "yes"},
        {"samples": [1.0], "column": 1, "answer": "yes"},
        {"samples": [], "column": 1, "answer": "yes"},
        {"samples": [1] * 201, "column": 1, "answer": "yes"},
        {"samples": 1, "column": 1, "answer": "yes"},
        {"samples": [1], "column": 1, "answer": "yes", "reviewer": "ben"},
        [1, 1, "yes"],
    ],
)
def test_an_answer_has_three_fields_of_their_types(client, given):
    assert client.post(f"/{TOKEN}/api/decide", json=given).status_code == 422
    assert get(client, "api/queue")["progress"]["yes"] == 0


@pytest.mark.parametrize("body", ["[" * 9_000, "9" * 9_000, "{", ""])
def test_what_is_not_json_is_one_error(client, body):
    headers = {"content-type": "application/json"}
    answer = client.post(f"/{TOKEN}/api/decide", content=body, headers=headers)
    assert answer.status_code in (400, 422)
    assert answer.json().keys() == {"error"}


def test_an_answer_with_a_field_twice_is_refused(client):
    for twice in ('"answer": "no", "answer"', '"answer": "no", "\\u0061nswer"'):
        body, headers = (
            f'{{"samples": [0], "column": 1, {twice}: "yes"}}',
            {"Content-Type": "application/json"},
        )
        refused = client.post(f"/{TOKEN}/api/decide", content=body, headers=headers)
        assert refused.status_code == 422
        assert refused.json() == {"error": "body: a field is given more than once. Expected one value."}
    assert get(client, "api/queue")["progress"]["yes"] == 0


def test_a_large_body_is_refused_before_it_is_read(client):
    given = {"samples": [1], "column": 1, "answer": "yes", "more": "x" * MOST_BYTES}
    answer = client.post(f"/{TOKEN}/api/decide", json=given)
    assert answer.status_code == 413
    assert answer.json() == {"error": "A request has at most 10,000 bytes, and says in advance how many."}

    assert client.post(f"/{TOKEN}/api/decide", content=iter([b"{}"])).status_code == 413
    for length in ("10001", "9" * 5000, "-1", "x"):
        refused = client.post(f"/{TOKEN}/api/undo", headers={"Content-Length": length})
        assert refused.status_code == 413, length


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "https://127.0.0.1:8000", "http://127.0.0.1:9", "http://127.0.0.1", "null", ""],
)
def test_an_answer_from_the_page_of_another_address_is_refused(client, origin):
    payload = {"samples": [1], "column": 1, "answer": "yes"}
    for path in ("decide", "undo"):
        answer = client.post(f"/{TOKEN}/api/{path}", json=payload, headers={"Origin": origin})
        assert answer.status_code == 403
        assert answer.json() == {
            "error": "Answers are taken from this page only, not from one of another address."
        }
    assert client.get(f"/{TOKEN}/api/queue", headers={"Origin": origin}).json()["progress"]["yes"] == 0
    own = {"Origin": "http://127.0.0.1:8000"}
    assert client.post(f"/{TOKEN}/api/decide", json=payload, headers=own).status_code == 200


def test_a_locked_database_is_an_error_soon_and_nothing_is_lost(audit, monkeypatch):
    monkeypatch.setattr("spml.review.store.SECONDS_TO_WAIT", 0.1)
    client, review = client_of(audit)
    decide(client, 1, 1, "yes")
    with closing(sqlite3.connect(audit / "review.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        answers = [
            decide(client, 0, 2, "yes"),
            client.get(f"/{TOKEN}/api/queue"),
            client.post(f"/{TOKEN}/api/undo"),
        ]
    for answer in answers:
        assert answer.status_code == 503
        assert answer.json()["error"].endswith("Nothing was saved, and nothing is lost. Try again.")
    assert decide(client, 0, 2, "yes").json()["progress"]["yes"] == 2
    review.store.close()


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "0.0.0.0"]
)
def test_other_names_of_the_machine_are_refused(client, host):
    """DNS rebinding: a page of another site that makes its name point here."""
    answer = client.get(f"/{TOKEN}/api/about", headers={"Host": host})
    assert answer.status_code == 400
    assert "ann" not in answer.text


@pytest.mark.parametrize("host", ["http://localhost:8000", "http://127.0.0.1:1"])
def test_names_of_this_machine_are_accepted(audit, host):
    client, _ = client_of(audit, host)
    assert client.get(f"/{TOKEN}/").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "static/../app.py",
        "static/..%2fapp.py",
        "static/%2e%2e/app.py",
        "static/..\\app.py",
        "static/app.py",
        "static//etc/passwd",
        "static/%2fetc%2fpasswd",
        "photo/../../labels.csv",
        "photo/..%2flabels.csv",
        "photo/0/../../review.sqlite",
        "photo/a.png",
        "photo/%2e%2e",
        "thumbnail/0.jpg",
        "photo/1e0",
        "photo/0x1",
    ],
)
def test_no_path_leads_to_a_file(client, path):
    answer = client.get(f"/{TOKEN}/{path}")
    assert answer.status_code in (403, 404, 422)
    assert b"import" not in answer.content
    assert b"root:" not in answer.content


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_answer_has_the_headers_of_a_closed_page(client, address):
    answer = client.get(f"/{TOKEN}/{address}")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    sources = re.findall(r"(?:script|style|img|connect)-src ([^;]*)", policy)
    assert sources == ["'self'"] * 4
    for name in HEADERS:
        assert name in answer.headers
    assert "server" not in answer.headers


def test_requests_are_bounded(client):
    samples = "&".join(["samples=0"] * (MOST_CARDS + 1))
    assert client.get(f"/{TOKEN}/api/cards?{samples}").status_code == 422
    assert client.get(f"/{TOKEN}/api/queue?minimum=nan").status_code == 422
    assert client.get(f"/{TOKEN}/api/queue?column=99").json()["samples"] == []


def test_query_parameters_are_known_and_given_once(client):
    for path, message in {
        "api/queue?colunm=1": "unknown parameter 'colunm'. Did you mean column?",
        "api/queue?column=1&column=2": "column is given 2 times. Expected one value.",
        "api/cards?samples=0&show=all": "unknown parameter 'show'. "
        "Known: column, list, minimum, order, samples.",
        "api/about?x": "unknown parameter 'x'. This address takes none.",
    }.items():
        answer = client.get(f"/{TOKEN}/{path}")
        assert (answer.status_code, answer.json()) == (422, {"error": f"query: {message}"})
    for path in ("api/undo?minimun=0", "api/decide?show=all"):
        assert client.post(f"/{TOKEN}/{path}", json={}).json()["error"].startswith("query: unknown parameter")
    assert client.get(f"/{TOKEN}/?t=1").status_code == 200
    assert client.get(f"/{TOKEN}", follow_redirects=False).status_code == 404


def test_the_page_holds_no_script_or_style_of_its_own_and_nothing_of_others():
    page = (STATIC / "index.html").read_text()
    assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=|javascript:", page)
    for path in Path(STATIC).iterdir():
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import", path.read_text())


def test_names_from_the_data_never_become_html(tmp_path):
    for path in STATIC.glob("*.js"):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", path.read_text()
        )
