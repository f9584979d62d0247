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
from tests.helpers.reviews import audit_of, make_audit

TestClient = pytest.importorskip("fastapi.testclient").TestClient
TOKEN = "t0ken-of_the-page"
ANSWER = {"samples": [1], "column": 1, "answer": "yes"}


def client_of(audit):
    review = Review(audit, "ann")
    app = create_app(review, Pictures(review.records, audit / "thumbnails", 10**6), TOKEN)
    return TestClient(app, base_url="http://127.0.0.1:8000", raise_server_exceptions=False), review


@pytest.fixture
def client(audit):
    client, review = client_of(audit)
    yield client
    review.store.close()


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    """Client of a review in which nothing is answered."""
    client, review = client_of(make_audit(tmp_path_factory.mktemp("untouched")))
    yield client
    assert get(client, "api/queue")["progress"]["yes"] == 0
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
    ("change", "status"),
    [
        ({"column": 2}, 409),
        ({"column": 3}, 404),
        ({"column": -1}, 404),
        ({"samples": [99], "column": 0}, 404),
        ({"samples": [6], "column": 0, "answer": "no"}, 404),
        ({"answer": "maybe"}, 422),
        ({"samples": ["b"]}, 422),
        ({"samples": [True]}, 422),
        ({"column": True}, 422),
        ({"samples": ["1"]}, 422),
        ({"samples": [1.0]}, 422),
        ({"samples": []}, 422),
        ({"samples": [1] * 201}, 422),
        ({"samples": 1}, 422),
        ({"reviewer": "ben"}, 422),
    ],
)
def test_an_impossible_answer_is_refused(untouched, change, status):
    answer = untouched.post(f"/{TOKEN}/api/decide", json={**ANSWER, **change})
    assert answer.status_code == status
    assert get(untouched, "api/queue")["progress"]["yes"] == 0


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


def test_nothing_is_answered_without_the_token(untouched):
    for token in ("", "wrong", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "ö", f"x/{TOKEN}"):
        for address in ADDRESSES:
            answer = untouched.get(f"/{token}/{address}")
            assert answer.status_code == 403, (token, address)
            assert "secret" in answer.json()["error"]
            assert answer.headers["content-security-policy"]
    for path in ("http://127.0.0.1:8000", "/", "/docs", "/openapi.json", "/redoc", "*"):
        assert untouched.get(path).status_code == 403, path
    for path in ("docs", "openapi.json"):
        assert untouched.get(f"/{TOKEN}/{path}").status_code == 404
    for path in ("/api/decide", "/wrong/api/decide", "/wrong/api/undo"):
        assert untouched.post(path, json=ANSWER).status_code == 403


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("samples=1&column=1&answer=yes", "x-www-form-urlencoded", ""),  # a form of another page
        (json.dumps(ANSWER), "x-www-form-urlencoded", ""),
        ('[1, 1, "yes"]', "json", ""),
        ("[" * 9_000, "json", ""),
        ("9" * 9_000, "json", ""),
        ("{", "json", ""),
        ("", "json", ""),
        ('{"samples": [0], "column": 1, "answer": "no", "answer": "yes"}', "json", "more than once."),
        ('{"samples": [0], "column": 1, "answer": "no", "\\u0061nswer": "yes"}', "json", "more than once."),
    ],
)
def test_what_is_no_answer_is_one_error(untouched, body, kind, message):
    headers = {"Content-Type": f"application/{kind}"}
    answer = untouched.post(f"/{TOKEN}/api/decide", content=body, headers=headers)
    assert answer.status_code in (400, 422)
    assert answer.json().keys() == {"error"}
    assert message in answer.json()["error"]


def test_a_large_body_is_refused_before_it_is_read(untouched):
    answer = untouched.post(f"/{TOKEN}/api/decide", json={**ANSWER, "more": "x" * MOST_BYTES})
    assert answer.status_code == 413
    assert answer.json() == {"error": "A request has at most 10,000 bytes, and says in advance how many."}
    assert untouched.post(f"/{TOKEN}/api/decide", content=iter([b"{}"])).status_code == 413
    for length in ("10001", "9" * 5000, "-1", "x"):
        refused = untouched.post(f"/{TOKEN}/api/undo", headers={"Content-Length": length})
        assert refused.status_code == 413, length


def test_an_answer_from_the_page_of_another_address_is_refused(client):
    own = "http://127.0.0.1:8000"
    for origin in ("http://evil.example", "https://127.0.0.1:8000", own[:-4] + "9", own[:-5], "null", ""):
        for path in ("decide", "undo"):
            answer = client.post(f"/{TOKEN}/api/{path}", json=ANSWER, headers={"Origin": origin})
            assert answer.status_code == 403, origin
            assert answer.json()["error"].startswith("Answers are taken from this page only, not from one")
        assert client.get(f"/{TOKEN}/api/queue", headers={"Origin": origin}).json()["progress"]["yes"] == 0
    assert client.post(f"/{TOKEN}/api/decide", json=ANSWER, headers={"Origin": own}).status_code == 200


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


def test_other_names_of_the_machine_are_refused(untouched):
    """DNS rebinding: a page of another site that makes its name point here."""
    for host in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "0.0.0.0"):
        answer = untouched.get(f"/{TOKEN}/api/about", headers={"Host": host})
        assert answer.status_code == 400, host
        assert "ann" not in answer.text
    for host in ("localhost:8000", "127.0.0.1:1"):
        assert untouched.get(f"/{TOKEN}/", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        *("static/../app.py", "static/..%2fapp.py", "static/%2e%2e/app.py", "static/..\\app.py"),
        *("static/app.py", "static//etc/passwd", "static/%2fetc%2fpasswd"),
        *("photo/../../labels.csv", "photo/..%2flabels.csv", "photo/0/../../review.sqlite"),
        *("photo/a.png", "photo/%2e%2e", "thumbnail/0.jpg", "photo/1e0", "photo/0x1"),
    ],
)
def test_no_path_leads_to_a_file(untouched, path):
    answer = untouched.get(f"/{TOKEN}/{path}")
    assert answer.status_code in (403, 404, 422)
    assert b"import" not in answer.content
    assert b"root:" not in answer.content


def test_every_answer_has_the_headers_of_a_closed_page(untouched):
    for address in ADDRESSES:
        answer = untouched.get(f"/{TOKEN}/{address}")
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        sources = re.findall(r"(?:script|style|img|connect)-src ([^;]*)", policy)
        assert sources == ["'self'"] * 4
        assert {*map(str.lower, HEADERS)} <= {*answer.headers}
        assert "server" not in answer.headers


def test_query_parameters_are_bounded_known_and_given_once(untouched):
    samples = "&".join(["samples=0"] * (MOST_CARDS + 1))
    assert untouched.get(f"/{TOKEN}/api/cards?{samples}").status_code == 422
    assert untouched.get(f"/{TOKEN}/api/queue?minimum=nan").status_code == 422
    assert untouched.get(f"/{TOKEN}/api/queue?column=99").json()["samples"] == []
    for path, message in {
        "api/queue?colunm=1": "unknown parameter 'colunm'. Did you mean column?",
        "api/queue?column=1&column=2": "column is given 2 times. Expected one value.",
        "api/cards?samples=0&show=all": "unknown parameter 'show'. "
        "Known: column, list, minimum, order, samples.",
        "api/about?x": "unknown parameter 'x'. This address takes none.",
    }.items():
        answer = untouched.get(f"/{TOKEN}/{path}")
        assert (answer.status_code, answer.json()) == (422, {"error": f"query: {message}"})
    for path in ("api/undo?minimun=0", "api/decide?show=all"):
        answer = untouched.post(f"/{TOKEN}/{path}", json={})
        assert answer.json()["error"].startswith("query: unknown parameter")
    assert untouched.get(f"/{TOKEN}/?t=1").status_code == 200
    assert untouched.get(f"/{TOKEN}", follow_redirects=False).status_code == 404


def test_the_page_holds_no_script_or_style_of_its_own_and_makes_no_html_of_names():
    page = (STATIC / "index.html").read_text()
    assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=|javascript:", page)
    makes_html = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\("
    for path in Path(STATIC).iterdir():
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import", path.read_text())
        assert path.suffix != ".js" or not re.search(makes_html, path.read_text())
