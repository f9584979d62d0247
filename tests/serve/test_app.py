"""The web application in this process: answers, refusals, and what stands in the headers."""

from __future__ import annotations

import json
import re
import shutil
import threading

import numpy as np
import pytest
from fastapi.testclient import TestClient

import spml
from spml.common.errors import InputError
from spml.serve import Limits, create_app
from tests.helpers.serving import bomb, client_of, files, png, service_of


@pytest.fixture(scope="module")
def client(photo_run):
    with client_of(photo_run, max_image_bytes=50_000, max_request_bytes=100_000, max_samples=8) as client:
        yield client


@pytest.fixture(scope="module")
def rows(feature_run):
    with client_of(feature_run, max_samples=8) as client:
        yield client


def error_of(response, status):
    """The message of a refusal."""
    assert response.status_code == status, response.text
    assert set(response.json()) == {"error"}
    return response.json()["error"]


# -- answers ---------------------------------------------------------------------------------------------


def test_images_are_answered_as_by_the_run(client, photo_run, photos):
    paths = [photos / name for name in ("blue/00.png", "green/01.png", "red/02.png")]
    response = client.post("/predict", files=files(*paths))
    assert response.status_code == 200
    expected = spml.load(photo_run).predict(paths)
    answer = response.json()
    assert [each["name"] for each in answer["predictions"]] == ["00.png", "01.png", "02.png"]
    assert [each["labels"] for each in answer["predictions"]] == expected.labels
    for key in ("scores", "probabilities"):
        values = [[each[key][name] for name in expected.classes] for each in answer["predictions"]]
        np.testing.assert_allclose(values, getattr(expected, key), atol=1e-5)
    card, model = json.loads((photo_run / "model.json").read_text()), answer["model"]
    assert (model["weights_sha256"], model["spml"]) == (card["weights_sha256"], spml.__version__)
    assert len(model["thresholds_sha256"]) == 64


def test_a_body_that_is_an_image(client, photos):
    path = photos / "blue/00.png"
    content, headers = path.read_bytes(), {"Content-Type": "image/png; name=x"}
    sent = client.post("/predict?scores=all", content=content, headers=headers)
    (answer,) = sent.json()["predictions"]
    assert answer.pop("name") == "0"
    (expected,) = client.post("/predict?scores=all", files=files(path)).json()["predictions"]
    assert expected.pop("name") == "00.png"
    assert answer == expected
    broken = client.post("/predict", content=content[:100], headers=headers)
    assert broken.status_code == 422
    assert "error" in broken.json()["predictions"][0]


def test_the_description_for_programs(client, rows):
    described = client.get("/openapi.json").json()
    assert set(described["paths"]) == {"/predict", "/health", "/model", "/metrics"}
    predict = described["paths"]["/predict"]["post"]
    assert {each["name"] for each in predict["parameters"]} == {"top_k", "threshold", "scores", "where"}
    assert list(predict["requestBody"]["content"]) == ["multipart/form-data", "image/*"]
    content = rows.get("/openapi.json").json()["paths"]["/predict"]["post"]["requestBody"]["content"]
    features = content["application/json"]["schema"]["properties"]["features"]
    assert features["items"] == {"type": "array", "items": {"type": "number"}, "minItems": 8, "maxItems": 8}
    assert all(each["description"] for each in predict["parameters"])
    for operations in described["paths"].values():
        for operation in operations.values():
            assert operation["summary"]
            assert all(each["description"] for each in operation["responses"].values())
    assert set(predict["responses"]) == {"200", "408", "413", "415", "422", "429", "503"}


def test_examples_of_answers_have_the_form_of_answers(client):
    """The description shows what /predict and /health do answer."""
    described = client.get("/openapi.json").json()["paths"]

    def example(operation, status):
        return operation["responses"][status]["content"]["application/json"]["example"]

    predict = described["/predict"]["post"]
    answer, shown = client.post("/predict", files=files(png())).json(), example(predict, "200")
    assert set(shown) == set(answer)
    assert set(shown["model"]) == set(answer["model"])
    assert set(shown["predictions"][0]) == set(answer["predictions"][0])
    assert set(example(predict, "415")) == set(client.post("/predict", json={}).json())
    assert example(described["/health"]["get"], "200") == client.get("/health").json()


def test_rows_are_answered_as_by_the_run(rows, feature_run):
    X = np.random.default_rng(1).normal(size=(5, 8)).astype(np.float32)
    response = rows.post("/predict", json={"features": X.tolist()})
    expected = spml.load(feature_run).predict(X)
    predictions = response.json()["predictions"]
    assert [each["name"] for each in predictions] == list("01234")
    assert [each["labels"] for each in predictions] == expected.labels
    np.testing.assert_allclose(
        [list(each["scores"].values()) for each in predictions], expected.scores, atol=1e-5
    )
    assert "probabilities" not in predictions[0]  # K is not known


def test_a_client_chooses_labels_and_scores(client, photo_run, photos):
    path = photos / "red/03.png"

    def ask(query):
        return client.post(f"/predict?{query}", files=files(path)).json()["predictions"][0]

    run = spml.load(photo_run)
    assert ask("top_k=2")["labels"] == run.predict(path, top_k=2).labels[0]
    assert ask("threshold=0.01")["labels"] == run.predict(path, threshold=0.01).labels[0]
    assert ask("threshold=0.99")["labels"] == []
    assert list(ask("top_k=1&scores=predicted")["scores"]) == run.predict(path, top_k=1).labels[0]
    assert set(ask("scores=none")) == {"name", "labels"}


def test_a_corrupt_image_has_its_own_error(client):
    good = png(1)
    response = client.post("/predict", files=files(good, b"no image", png(2)[:900], bomb(), b"", good))
    assert response.status_code == 200
    predictions = response.json()["predictions"]
    assert predictions[0]["scores"] == pytest.approx(predictions[5]["scores"], abs=1e-5)
    errors = [each.get("error", "") for each in predictions[1:5]]
    assert errors[0].startswith("not an image of a known format")
    assert errors[1].startswith("damaged")
    assert "60000" in errors[2] or "3600000000" in errors[2]
    assert errors[3] == "the file is empty"
    alone = client.post("/predict", files=files(b"no image"))
    assert alone.status_code == 422
    assert "error" in alone.json()["predictions"][0]


def test_what_the_service_tells_about_itself(client, rows, photo_run):
    about = client.get("/model").json()
    assert about["classes"] == ["blue", "green", "red"]
    assert about["input"] == {"kind": "images", "size": 32, "where": False}
    assert about["limits"]["max_samples"] == 8
    assert about["calibrated"] is True
    policy = spml.load(photo_run).thresholds
    assert about["target"] == policy.target.describe()
    assert (about["threshold_probabilities"] is None) == (policy.calibrated is None)
    expected = [None if np.isinf(logit) else 1 / (1 + np.exp(-logit)) for logit in policy.logits]
    assert about["thresholds"] == pytest.approx(expected, abs=1e-6)
    assert rows.get("/model").json()["input"] == {"kind": "features", "width": 8}


def test_health_says_when_the_service_is_about_to_end(feature_run):
    with client_of(feature_run) as client:
        for draining, status, word in ((False, 200, "ready"), (True, 503, "draining")):
            client.service.draining = draining
            answer = client.get("/health")
            assert (answer.status_code, answer.json()) == (status, {"status": word})
        # What was taken is still answered.
        answer = client.post("/predict", json={"features": [[0.0] * 8]})
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")


def test_metrics_count(photo_run):
    with client_of(photo_run, max_samples=3, max_pixels=2_000) as client:
        answer = client.post("/predict", files=files(png(), png(2, (60, 50)), png(3))).json()
        error = "50 x 60 = 3,000 pixels, more than max_pixels = 2,000"
        assert [each.get("error") for each in answer["predictions"]] == [None, error, None]
        client.post("/predict", files=files(*[png()] * 4))
        client.get("/somewhere")
        text = client.get("/metrics").text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert values['spml_requests_total{path="/predict",status="200"}'] == "1.0"
    assert values['spml_requests_total{path="/predict",status="413"}'] == "1.0"
    assert values['spml_requests_total{path="other",status="404"}'] == "1.0"
    assert values["spml_unreadable_images_total"] == "1.0"
    assert values["spml_batch_size_sum"] == "2.0"
    assert values["spml_queue_samples"] == "0.0"
    assert values['spml_request_seconds_count{path="/predict"}'] == "2.0"
    assert float(values["spml_memory_bytes"]) > 1e7


# -- refusals --------------------------------------------------------------------------------------------


def test_sizes_are_limited(client):
    assert "more than 50,000 bytes" in error_of(client.post("/predict", files=files(bytes(60_000))), 413)
    stated = client.post("/predict", files=files(*[bytes(40_000)] * 3))
    assert error_of(stated, 413) == "The request has more than 100,000 bytes. Send less at once."
    many = client.post("/predict", files=files(*[b"x"] * 5_000))
    assert "100,000 bytes" in error_of(many, 413)
    assert "More than 8 images" in error_of(client.post("/predict", files=files(*[b"x"] * 9)), 413)


def test_a_body_of_unknown_length_is_limited_while_it_is_read(client):
    sent = 0

    def chunks():
        nonlocal sent
        yield b'--b\r\nContent-Disposition: form-data; name="images"; filename="a"\r\n\r\n'
        while sent < 10_000_000:
            sent += 10_000
            yield bytes(10_000)

    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    response = client.post("/predict", content=chunks(), headers=headers)
    assert "more than" in error_of(response, 413)


@pytest.mark.parametrize(
    ("content_type", "body", "status", "message"),
    [
        ("application/json", b"{}", 415, "takes multipart/form-data"),
        ("text/plain", b"x", 415, "or an image (image/jpeg, image/png, ...), not text/plain"),
        ("image/png", b"", 422, "The request holds no image: its body is empty."),
        ("image/png", bytes(50_001), 413, "An image of more than 50,000 bytes."),
        ("multipart/form-data", b"x", 422, "boundary"),
        ("multipart/form-data; boundary=" + "b" * 999, b"x", 422, "malformed"),
        ("multipart/form-data; boundary=b", b"", 422, "truncated"),
        ("multipart/form-data; boundary=b", b"something else", 422, "malformed"),
        ("multipart/form-data; boundary=b", b"--b\r\n\r\n\r\n--b--\r\n", 422, "malformed"),
        ("multipart/form-data; boundary=b",
         b'--b\r\nContent-Disposition: form-data; name="images"; filename="a"\r\n\r\nhalf', 422, "truncated"),
        ("multipart/form-data; boundary=b",
         b'--b\r\nContent-Disposition: form-data; name="photo"\r\n\r\nx\r\n--b--\r\n', 422,
         "'photo' is unknown. Send images as files in the field `images`."),
        ("multipart/form-data; boundary=b", b"--b\r\nX: " + b"y" * 20_000, 4, ""),
    ],
)  # fmt: skip
def test_malformed_requests(client, content_type, body, status, message):
    response = client.post("/predict", content=body, headers={"Content-Type": content_type})
    if status == 4:  # as the version of the parser has it
        assert response.status_code in (413, 422)
    else:
        assert message in error_of(response, status)


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"", 422, "Expected JSON"),
        (b"{", 422, "Expected JSON"),
        (b"[1]", 422, "Expected `object`"),
        (b'{"features": []}', 422, "no row"),
        (b'{"features": [[1, 2]]}', 422, "Row 0 (counted from 0) has 2 numbers; the model takes 8."),
        (b'{"features": [[1,2,3,4,5,6,7,"8"]]}', 422, "Expected `float`"),
        (b'{"features": [[1,2,3,4,5,6,7,NaN]]}', 422, "Expected JSON"),
        (b'{"features": [[1,2,3,4,5,6,7,1e999]]}', 422, ""),
        (b'{"features": [[1,2,3,4,5,6,7,1e300]]}', 422, "float32 can't hold"),
        (b'{"features": ' + b"[" * 100_000, 422, "Expected JSON"),
        (b'{"features": [[' + b"1," * 1_000 + b"1]]}", 413, "more than 8 rows"),
        (b'{"features": [' + b"[]," * 8 + b"[]]}", 413, "9 rows, more than 8"),
        (b'{"other": 1}', 422, "unknown field"),
        (b'{"features": [[0]], "features": [[0,0,0,0,0,0,0,0]]}', 422, "`features` is given more than once."),
        (b'{"features": [], "f\\u0065atures": [[0,0,0,0,0,0,0,0]]}', 422, "given more than once."),
    ],
)
def test_malformed_rows(rows, body, status, message):
    response = rows.post("/predict", content=body, headers={"Content-Type": "application/json"})
    assert message in error_of(response, status)


def test_a_score_that_is_not_finite_is_the_error_of_its_row(feature_run):
    def score(samples):
        return np.where(np.stack(samples)[:, :3] > 0, np.float32(1), np.float32("nan"))

    with client_of(feature_run) as client:
        client.service._batcher._score = score
        response = client.post("/predict", json={"features": [[0.0] * 8, [0.5] * 8]})
    first, second = response.json()["predictions"]
    assert "NaN or infinite" in first["error"]
    assert set(second["scores"]) == {"0", "1", "2"}


def test_wrong_parameters_addresses_and_methods(client):
    assert "top_k" in error_of(client.post("/predict?top_k=-1", files=files(png())), 422)
    assert "scores" in error_of(client.post("/predict?scores=some", files=files(png())), 422)
    both = client.post("/predict?threshold=2", files=files(png()))
    assert error_of(both, 422) == "a threshold must be between 0 and 1, as scores are, got 2"
    assert "nothing at this address" in error_of(client.get("/static/../../../etc/passwd"), 404)
    assert "nothing at this address" in error_of(client.get("/redoc"), 404)
    assert error_of(client.get("/predict"), 405) == "Method Not Allowed"
    for path in ("/predict/", "/health/"):  # not redirected, which would repeat the name in the request
        assert "nothing at this address" in error_of(client.get(path, follow_redirects=False), 404)


def test_query_parameters_are_known_and_given_once(client, rows):
    body = {"features": [[0.0] * 8]}
    for query, message in {
        "topk=2": "unknown parameter 'topk'. Did you mean top_k?",
        "thresold=0.99": "unknown parameter 'thresold'. Did you mean threshold?",
        "%0a=1": r"unknown parameter '\n'. Known: scores, threshold, top_k, where.",
        "top_k=1&top_k=3": "top_k is given 2 times. Expected one value.",
        "scores=all&scores=all": "scores is given 2 times. Expected one value.",
    }.items():
        assert error_of(rows.post(f"/predict?{query}", json=body), 422) == f"query: {message}"
    assert error_of(client.get("/model?x=1"), 422) == "query: unknown parameter 'x'. This address takes none."
    # Proxies and browsers add parameters to others.
    for path in ("/", "/docs", "/health", "/metrics", "/static/page.js"):
        assert client.get(f"{path}?t=1&t=2").status_code == 200


def test_a_request_that_waits_too_long_is_given_up(photo_run, monkeypatch):
    with client_of(photo_run, answer_timeout=0.2) as client:
        goes_on = threading.Event()
        score = client.service._batcher._score
        monkeypatch.setattr(
            client.service._batcher, "_score", lambda samples: goes_on.wait(20) and score(samples)
        )
        assert "within 0.2 seconds" in error_of(client.post("/predict", files=files(png())), 503)
        goes_on.set()
        assert client.service._admitted == 0
    assert client.service._batcher._announced == 0


def test_a_model_that_fails_fails_its_batch_only(photo_run, monkeypatch):
    def fail(samples):
        raise RuntimeError("a wrong number")

    with client_of(photo_run) as client:
        score = client.service._batcher._score
        client.service._batcher._score = fail
        assert client.post("/predict", files=files(png())).status_code == 500
        client.service._batcher._score = score
        assert client.post("/predict", files=files(png())).status_code == 200
        assert 'status="500"' in client.get("/metrics").text


@pytest.mark.parametrize("part", ["image", "model"])
def test_lack_of_memory_is_not_the_fault_of_a_request(photo_run, monkeypatch, part):
    def fail(*_):
        raise MemoryError

    def ask():
        return client.post("/predict", files=files(png()))

    with client_of(photo_run) as client:
        with monkeypatch.context() as patch:
            if part == "image":
                patch.setattr("spml.data.images.decoding.upright_rgb", fail)
            else:
                patch.setattr(client.service._batcher, "_score", fail)
            assert error_of(ask(), 503) == "The server has too little memory."
        assert ask().status_code == 200


def test_a_full_queue_is_said_at_once_and_many_samples_leave_room_for_one(photo_run):
    with client_of(photo_run, max_queue=32, max_samples=32) as client:
        many, one = files(*[png()] * 3), files(png())
        client.service.held_bytes = 10**12
        response = client.post("/predict", files=one)
        assert "Too many large requests" in error_of(response, 503)
        assert response.headers["retry-after"] == "1"
        client.service.held_bytes = 0
        client.service._admitted = 28
        response = client.post("/predict", files=many)
        assert error_of(response, 429).startswith("28 samples are waiting already. Try again")
        assert response.headers["retry-after"] == "1"
        assert client.post("/predict", files=one).status_code == 200
        client.service._admitted = 27
        assert client.post("/predict", files=many).status_code == 200
        client.service._admitted = 32
        assert error_of(client.post("/predict", files=one), 429).startswith("32 samples are waiting")
        client.service._admitted = 0
        assert client.post("/predict", files=files(*[png()] * 32)).status_code == 200
        assert (client.service.held_bytes, client.service._admitted) == (0, 0)


def test_the_page_has_its_files_and_headers(client):
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert 'href="docs"' in page.text
    docs = client.get("/docs")
    assert docs.headers["content-type"] == "text/html; charset=utf-8"
    for text in (page.text, docs.text):
        assert "http" not in text
        for name in re.findall(r'(?:src|href)="(static/[^"]+)"', text):
            assert client.get(f"/{name}").status_code == 200
        assert text.count("static/") == 3
    for response in (page, docs, client.get("/nowhere"), client.post("/predict", files=files(png()))):
        assert response.headers["content-security-policy"].startswith("default-src 'none'")
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in response.headers


def test_other_names_are_refused_where_only_this_machine_listens(feature_run):
    with client_of(feature_run, hosts=["127.0.0.1", "localhost"]) as client:
        assert client.get("/health", headers={"Host": "localhost:8000"}).status_code == 200
        assert client.get("/health", headers={"Host": "evil.example"}).status_code == 400


# -- in other servers ------------------------------------------------------------------------------------


def test_the_application_for_servers_of_your_own(feature_run):
    app = create_app(str(feature_run), limits=Limits(max_samples=2), batch_size=4)
    with TestClient(app) as client:
        row = [0.1] * 8
        assert client.post("/predict", json={"features": [row, row]}).status_code == 200
        assert client.post("/predict", json={"features": [row] * 3}).status_code == 413
    assert callable(create_app(spml.load(feature_run)))


def test_a_missing_package_is_named(feature_run, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"fastapi is not installed.*\(the extra `serve`\)"):
        create_app(feature_run)


def test_wrong_numbers_and_damaged_thresholds_are_refused_at_the_start(feature_run, tmp_path):
    for wrong in ({"batch_size": 0}, {"decoders": -1}, {"threads": 0}):
        with pytest.raises(InputError, match=f"^{next(iter(wrong))} must be at least 1"):
            create_app(feature_run, **wrong)
    run = shutil.copytree(feature_run, tmp_path / "run")
    (run / "thresholds.json").write_text("{}")
    with pytest.raises(InputError, match=r"thresholds\.json: damaged"):
        service_of(run)
