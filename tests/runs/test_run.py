"""Views of a run in Python, from wherever it is used; trainings beside each other."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from PIL import Image

import spml
from spml.common.errors import InputError
from spml.data.images.image_files import ImageFiles
from spml.runs.network import Transform
from spml.runs.predict.predictions import Predictions
from tests.helpers import write_image
from tests.helpers.commands import execute, fails, refusal
from tests.helpers.features import make_features


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    make_features(folder / "x.npz")
    return spml.train(folder / "x.npz", head="ridge", threads=1, quiet=True, output=folder / "run")


def test_the_network_gives_the_logits_of_predictions(run):
    x = np.load(run.folder.parent / "x.npz")["X"]
    assert isinstance(run.model, torch.nn.Module)
    assert not run.model.training
    with torch.no_grad():
        logits = run.model(torch.from_numpy(x))
    assert logits.shape == (300, 4)
    np.testing.assert_allclose(torch.sigmoid(logits).numpy(), run.predict(x).scores, rtol=1e-6)
    assert run.transform is None
    assert run.weights_sha256 == json.loads((run.folder / "model.json").read_text())["weights_sha256"]


def test_pictures_can_be_left_out(run, tmp_path):
    settings = {"head": "ridge", "threads": 1, "quiet": True, "output": tmp_path / "run"}
    same = spml.train(run.folder.parent / "x.npz", pictures=False, **settings)
    assert same.weights_sha256 == run.weights_sha256
    left_out = {path.name for path in run.folder.iterdir()} - {path.name for path in same.folder.iterdir()}
    assert left_out == {"curves.png", "report.html"}  # K is not stated


def test_a_transform_prepares_an_image_as_prediction_does(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    path = write_image(tmp_path / "a.jpg", (20, 10), exif=exif)
    transform = Transform(8, "bicubic")
    expected = ImageFiles([path], [""], size=8, interpolation="bicubic").fetch([0])[0]
    pixels = transform(Image.open(path))
    assert (pixels.dtype, pixels.shape) == (torch.uint8, (3, 8, 8))
    assert torch.equal(pixels, expected)
    assert repr(transform) == "Transform(size=8, interpolation='bicubic')"


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros((4, 4, 3)), "expected an image of Pillow, got ndarray: PIL.Image.fromarray(...)"),
        (
            Image.new("F", (4, 4)),
            "the image can't be used: pixels of mode F, whose range is not known: save the image with 8 or "
            "16 bits",
        ),
    ],
)
def test_a_transform_refuses_what_it_can_not_prepare(image, message):
    assert refusal(Transform(8, "bicubic"), image) == message


def test_summary_and_history_are_those_of_the_folder(run):
    assert run.summary == json.loads((run.folder / "summary.json").read_text())
    lines = (run.folder / "metrics.jsonl").read_text().splitlines()
    assert run.history == [json.loads(line) for line in lines]
    assert len(run.history) == 13


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("summary.json", None, "can't be read \\(.*No such file"),
        ("summary.json", b'{"a": 1}', "can't be read \\(.*missing required field `selected`"),
        ("metrics.jsonl", None, "can't be read \\(No such file"),
        ("metrics.jsonl", b"3\n", "damaged \\(a line holds no JSON object"),
    ],
)
def test_damaged_files_are_named(run, name, content, message):
    path = run.folder / name
    kept = path.read_bytes()
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    try:
        fresh = spml.load(run.folder)
        with pytest.raises(InputError, match=f"{name}: {message}"):
            _ = fresh.summary if name == "summary.json" else fresh.history
        assert repr(fresh).startswith(f"Run('{run.folder}': ridge")
    finally:
        path.write_bytes(kept)


def test_a_run_describes_itself(run):
    score = f"held-out score {100 * run.summary['validation']['val/naive_mAP']:.2f}"
    assert repr(run) == f"Run('{run.folder}': ridge, features, head linear, {score}, 4 classes)"
    html = run._repr_html_()
    assert f">{run.folder}<" in html
    assert ">4 (a, b, c, d)<" in html
    assert ">f1, per class, K not known<" in html
    assert html.count("<tr>") == html.count("</tr>") == 8


def test_html_escapes_the_names_of_classes(run):
    fresh = spml.load(run.folder)
    fresh.classes = ("<b>", "b", "c", "d")
    assert "4 (&lt;b&gt;, b, c, d)" in fresh._repr_html_()


PREDICTIONS = Predictions(
    ("x.png", "y.png"),
    ("a", "labels"),
    np.array([[0.25, 0.5], [0.75, 1.0]], np.float32),
    [["labels"], []],
    probabilities=np.array([[0.125, 0.25], [0.5, 1.0]], np.float32),
)


def test_predictions_become_a_frame():
    pytest.importorskip("pandas", reason="pandas is not installed")
    frame = PREDICTIONS.to_frame()
    columns = ["labels", "a", "score of labels", "probability of a", "probability of labels"]
    assert list(frame.columns) == columns
    assert list(frame.index) == ["x.png", "y.png"]
    assert frame.index.name == "file"
    assert frame.iloc[0].tolist() == [["labels"], 0.25, 0.5, 0.125, 0.25]


def test_a_frame_without_pandas_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert refusal(PREDICTIONS.to_frame) == (
        "The package pandas is not installed. Install what this needs: "
        "pip install pyarrow pandas (the extra `tables`)."
    )


def test_a_single_sample_is_predicted(run):
    x = np.load(run.folder.parent / "x.npz")["X"]
    expected = run.predict(x[:1])
    for one in (x[0], torch.from_numpy(x[0]), x[0].tolist()):
        found = run.predict(one)
        assert found.labels == expected.labels
        np.testing.assert_array_equal(found.scores, expected.scores)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(x, index=[f"row {k}" for k in range(len(x))])
    found = run.predict(frame.iloc[3])
    assert found.ids == ("row 3",)
    np.testing.assert_array_equal(found.scores, run.predict(x[3:4]).scores)
    with pytest.raises(InputError, match="features per sample"):
        run.predict(x[0, :-1])


def test_a_single_image_is_predicted(photo_run, photos):
    path = photos / "red" / "00.png"
    image = Image.open(path).convert("RGB")
    pixels = np.asarray(image)
    expected = photo_run.predict(str(path))
    assert len(expected.ids) == 1
    for one in (image, pixels, torch.from_numpy(pixels.copy()).permute(2, 0, 1), path):
        np.testing.assert_allclose(photo_run.predict(one).scores, expected.scores, rtol=1e-5)


def test_a_missing_run_is_answered_with_the_nearest_one(run, tmp_path):
    parent = run.folder.parent
    with pytest.raises(InputError, match=r"runn: no such folder\. Did you mean run\?"):
        spml.load(parent / "runn")
    with pytest.raises(InputError, match=r"zzz: no such folder\. Name the folder of a run\."):
        spml.load(parent / "zzz")
    with pytest.raises(InputError, match="nor a folder"):
        spml.load(parent / "none" / "run")
    with pytest.raises(InputError, match=r"is a file; name the folder of a run"):
        spml.load(parent / "x.npz")
    with pytest.raises(InputError, match=r"runn: no such folder\. Did you mean run\?"):
        spml.train(parent / "x.npz", init_from=str(parent / "runn"), quiet=True, output=tmp_path / "next")


@pytest.mark.long
def test_trainings_in_eight_threads(tmp_path):
    data = str(make_features(tmp_path / "x.npz"))

    def train(number, where):
        kinds = ({}, {"model": {"head": "mlp", "dropout": 0.5}}, {"method": "gr", "mean_labels": 2.0})
        run = spml.train(
            data,
            data={"unlisted": "negative", "observe": "single"},
            epochs=1,
            threads=1,
            seed=number % 9,
            pictures=False,
            quiet=True,
            output=tmp_path / where / str(number),
            **{"method": "an", **kinds[number % 3]},
        )
        return run.weights_sha256

    alone = [train(number, "alone") for number in range(9)]
    states = torch.get_rng_state(), np.random.get_state()[1].tolist()
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda number: train(number, "together"), range(32)))
    assert together == [alone[number % 9] for number in range(32)]
    assert len({*alone}) == 9
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.random.get_state()[1].tolist() == states[1]


@pytest.mark.long
def test_relative_paths_are_found_from_elsewhere(tmp_path, monkeypatch, capsys):
    start, elsewhere = tmp_path / "start", tmp_path / "elsewhere"
    start.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(start)
    rows = np.arange(60)
    matrix = np.eye(3, dtype=np.float32)[rows % 3] + np.random.default_rng(0).normal(0, 0.1, (60, 3))
    np.savez("x.npz", X=matrix.astype(np.float32), Y=rows % 3, classes=np.array(["a", "b", "c"]))
    spml.train("x.npz", model={"head": "ridge"}, output="runs/one", threads=1, quiet=True, mean_labels=1.5)
    assert spml.load("runs/one").config.data.path == "x.npz"
    monkeypatch.chdir(elsewhere)
    run = spml.load(start / "runs" / "one")
    assert run.config.data.path == str(start / "x.npz")
    execute("audit", run.folder, "--output audit")
    (start / "x.npz").rename(elsewhere / "y.npz")
    said = fails(capsys, "audit", run.folder, "--output another")
    assert "one: the data that it has learned from, 'x.npz', is not there. Name" in said
    execute("audit", run.folder, "y.npz --output another")
