"""Texts in the server: the answers of the run, and what is refused."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import torch

import spml
from spml.common.errors import InputError
from spml.models.backbones.texts import Tfidf
from tests.helpers.serving import client_of, service_of
from tests.helpers.texts import make_texts, write_texts


@pytest.fixture(scope="module")
def client(text_run):
    with client_of(text_run, max_samples=8) as client:
        yield client


def ask(client, texts, query="scores=all"):
    return client.post(f"/predict?{query}", json={"texts": texts}).json()["predictions"]


def test_texts_are_answered_as_by_the_run(client, text_run):
    texts = ["the kitten purrs", 'milk "in" the barn, \\ \u00fc', "x" * 300, "puppy\non a leash \\"]
    expected, answers = spml.load(text_run).predict(texts), ask(client, texts)
    assert [each["name"] for each in answers] == list("0123")
    assert [each["labels"] for each in answers] == expected.labels
    assert expected.labels[0] == ["cat"]
    for key in ("scores", "probabilities"):
        values = [[each[key][name] for name in expected.classes] for each in answers]
        np.testing.assert_allclose(values, getattr(expected, key), atol=1e-5)
    assert (
        ask(client, texts[:1], "top_k=2")[0]["labels"]
        == spml.load(text_run).predict(texts, top_k=2).labels[0]
    )


def test_columns_are_joined_as_in_tables(client, text_run, tmp_path):
    """A table that `spml predict` reads has the scores of its columns, one below the other."""
    rows = make_texts(8, seed=3)
    path = write_texts(tmp_path / "new.csv", rows)
    expected = spml.load(text_run).predict(path)
    answers = ask(client, [f"{title}\n{abstract}" for _, title, abstract, *_ in rows])
    values = [[each["scores"][name] for name in expected.classes] for each in answers]
    np.testing.assert_allclose(values, expected.scores, atol=1e-5)
    assert next(csv.reader(path.open()))[1:3] == ["title", "abstract"]


def test_long_texts_are_cut_as_by_the_run(client, text_run):
    text = "day " * 5000 + "kitten"  # beyond the 20,000 characters that are read
    (answer,) = ask(client, [text])
    np.testing.assert_allclose(
        list(answer["scores"].values()), spml.load(text_run).predict([text]).scores[0], atol=1e-5
    )
    assert answer["scores"]["cat"] < ask(client, ["day kitten"])[0]["scores"]["cat"]


def test_the_service_says_that_it_takes_texts(client):
    assert client.get("/model").json()["input"] == {"kind": "texts"}
    body = client.get("/openapi.json").json()["paths"]["/predict"]["post"]["requestBody"]["content"]
    assert body["application/json"]["schema"]["properties"] == {
        "texts": {"type": "array", "items": {"type": "string"}}
    }
    assert client.service.kind == "texts"


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"", 422, "Expected JSON such as"),
        (b'{"texts": "one"}', 422, "Expected `array`"),
        (b'{"texts": [1]}', 422, "Expected `str`"),
        (b'{"texts": ["\xff"]}', 422, "Expected JSON such as"),
        (b'{"texts": ["\\ud800"]}', 422, "Expected JSON such as"),
        (b'{"texts": []}', 422, "no text"),
        (b'{"texts": ["a", " \\n"]}', 422, "Text 1 (counted from 0) is empty."),
        (b'{"texts": ["a"], "texts": ["b"]}', 422, "`texts` is given more than once."),
        (b'{"features": [[1]]}', 422, "unknown field"),
        (b'{"texts": [' + b'"a",' * 8 + b'"a"]}', 413, "more than 8 texts"),
        (b'{"texts": [' + b'"\\\\",' * 8 + b'"\\\\"]}', 413, "more than 8 texts"),
        (b'{"texts": [' + b'"a",' * 100_000, 413, "more than 8 texts"),  # before it is read as JSON
        (b'{"texts": ' + b"[" * 100_000, 422, "Expected JSON such as"),
    ],
)
def test_malformed_texts(client, body, status, message):
    response = client.post("/predict", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == status, response.text
    assert message in response.json()["error"]


def test_another_kind_of_body_is_refused(client):
    response = client.post("/predict", content=b"text", headers={"Content-Type": "text/plain"})
    assert response.status_code == 415
    assert response.json()["error"].startswith(
        'This model takes application/json with {"texts": ["...", ...]}'
    )


def test_a_model_that_can_t_be_loaded_is_refused_at_the_start(text_run, monkeypatch):
    """An embedding is loaded where it is first needed."""

    def missing(self, inputs):
        assert inputs.dtype == torch.uint8
        raise InputError("sentence-transformers:gone: there is no such folder")

    monkeypatch.setattr(Tfidf, "forward", missing)
    with pytest.raises(InputError, match="there is no such folder"):
        service_of(text_run)
