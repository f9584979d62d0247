"""A run that scores windows: what it predicts, where labels are, and that everything that uses it agrees."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

import spml
from spml.common.errors import InputError
from spml.review.progress import Selection
from spml.review.session import Review
from spml.runs.audits import out_of_fold
from spml.runs.decide.inferred_labels import _from_table
from spml.runs.folder.held_out import read_held_out
from spml.runs.predict.batches import Engine
from spml.runs.run import Run
from tests.helpers.commands import execute, fails
from tests.helpers.photo_runs import CLASSES, train_on
from tests.helpers.records import read_rows
from tests.helpers.serving import client_of

BACKBONE = "test_convnext"


def train_local(coloured, output, **settings):
    weights = str(coloured.parent.parent / "weights.safetensors")
    model = {"backbone": BACKBONE, "weights": weights, "frozen": "yes", "local": "on"}
    model |= settings.pop("model", {})
    settings = {"method": "auto", "mean_labels": 1.5, **settings}
    return train_on(coloured, output, data={"size": 96}, model=model, **settings)


@pytest.fixture(scope="module")
def run(local_run):
    return spml.load(local_run)


@pytest.fixture(scope="module")
def whole(coloured, tmp_path_factory):
    """A run of the same images that scores them as a whole."""
    output, model = tmp_path_factory.mktemp("runs") / "whole", {"head": "ridge", "local": "off"}
    return spml.load(train_local(coloured, output, method="", model=model))


@pytest.fixture(scope="module")
def images(coloured):
    return sorted(coloured.parent.glob("*.png"))[:10]


def scores_by_parts(run, images):
    """Logits, and the window of each class, from the parts of the model of a run."""
    top, pixels = run.classifier.top, torch.stack([run.transform(Image.open(path)) for path in images])
    windows = top.local.settings.windows
    with torch.inference_mode():
        outputs = top(*windows.features(run.classifier.backbone, pixels))
    return outputs.logits.numpy(), windows.places()[outputs.windows.numpy()]


@pytest.mark.long
def test_what_is_predicted_comes_from_windows(run, images):
    logits, places = scores_by_parts(run, images)
    predicted = run.predict(images, where=True)
    expected = 1 / (1 + np.exp(-logits.astype(np.float64)))
    np.testing.assert_allclose(predicted.scores, expected, atol=1e-4)
    for row, (labels, windows) in enumerate(zip(predicted.labels, predicted.where, strict=True)):
        columns = [run.classes.index(label) for label in labels]
        np.testing.assert_allclose(windows, places[row, columns], atol=1e-6)
    assert any(predicted.labels)


def test_the_run_says_what_it_has_tried(run):
    local = run.summary["local"]
    windows = run.classifier.top.local.settings.windows
    assert local["windows"] == {"height": 3, "width": 3, "sides": [1, 2]}
    assert windows.sides == [1, 2]
    assert list(local["scores"]) == ["whole image", "windows of 1", "windows of 2", "mean of the sizes"]
    weights = list(local["weights"].values())
    assert weights == run.classifier.top.local.settings.weights
    assert weights == [0, 0, 0, 1]
    assert run.summary["validation"]["val/SP"] > 0
    assert run.settings.model.local == "on"


def test_probabilities_add_up_to_the_stated_number_of_labels(run, coloured):
    """Which the held-out scores of other heads have settled: the final head must be on their scale."""
    predicted = run.predict(coloured.parent)
    assert 1.2 < float(predicted.scores.sum(1).mean()) < 1.9


@pytest.mark.long
def test_batches_and_a_saved_copy_give_the_same(run, images):
    once = run.predict(images, where=True)
    parts = list(spml.load(run.folder).predict_batches(images, batch_size=3, where=True))
    np.testing.assert_allclose(np.concatenate([part.scores for part in parts]), once.scores, atol=1e-5)
    assert [where for part in parts for where in part.where] == once.where


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_files_of_predictions_say_where(run, images, tmp_path, suffix):
    output = tmp_path / f"labels.{suffix}"
    execute("predict", run.folder, *images, "--where --output", output)
    expected = run.predict(images, where=True)
    if suffix == "csv":
        rows = read_rows(output)
        assert list(rows[0])[-1] == "where"
        found = [
            [[*map(float, text.split())] for text in filter(None, row["where"].split(";"))] for row in rows
        ]
        guesses = [[name for name, _, _ in guess.labels] for guess in _from_table(output)]
        assert guesses == expected.labels
    elif suffix == "jsonl":
        lines = [json.loads(line) for line in output.read_text().splitlines()]
        found = [[line["where"][label] for label in line["labels"]] for line in lines]
    else:
        from pyarrow import parquet

        found = parquet.read_table(output)["where"].to_pylist()
    for windows, others in zip(found, expected.where, strict=True):
        assert len(windows) == len(others)
        if windows:
            np.testing.assert_allclose(windows, others, atol=1e-4)


@pytest.mark.long
def test_a_cluster_scores_windows(run, coloured, images, tmp_path, played):
    alone, together = (run.predict(images, where=True, engine=engine) for engine in ("local", "ray"))
    np.testing.assert_allclose(together.scores, alone.scores, atol=1e-6)
    assert (together.labels, together.where) == (alone.labels, alone.where)
    one, other = (
        train_local(coloured, tmp_path / engine / "run", method="an", epochs=1, engine=engine)
        for engine in ("local", "ray")
    )
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    assert played == ["logits", "features", "features"]  # of both splits


def test_an_audit_and_its_review_say_where(run, tmp_path, capsys):
    audit = tmp_path / "audit"
    execute("audit", run.folder, "--output", audit, "--top 20 --folds 2")
    rows = read_rows(audit / "missing.csv")
    folder = run.trained_on.rpartition("/")[0]
    for row in rows[:5]:
        predicted = run.predict(f"{folder}/{row['file']}", where=True, top_k=len(CLASSES))
        window = predicted.where[0][predicted.labels[0].index(row["label"])]
        np.testing.assert_allclose([*map(float, row["where"].split())], window, atol=1e-4)
    review = Review(audit, "me")
    (card,) = review.cards(review.shown(Selection())[0][:1], Selection())
    first = next(row for row in rows if row["file"] == card.name)
    assert card.suggestions[0].window == tuple(map(float, first["where"].split()))
    review.store.close()


def test_an_audit_takes_the_windows_that_the_run_has_kept(run, tmp_path, monkeypatch):
    held_out = read_held_out(run.folder)
    monkeypatch.setattr(Run, "stream", lambda *arguments, **settings: pytest.fail("photos are predicted"))
    execute("audit", run.folder, "--output", tmp_path / "audit", "--top 20")
    rows = read_rows(tmp_path / "audit" / "missing.csv")
    assert rows
    for row in rows:
        number = held_out.windows[held_out.ids.index(row["file"]), run.classes.index(row["label"])]
        np.testing.assert_allclose([*map(float, row["where"].split())], run.places[number], atol=1e-4)


@pytest.mark.long
def test_heads_that_are_solved_without_a_part_score_windows(coloured, tmp_path, monkeypatch):
    run = spml.load(train_local(coloured, tmp_path / "run", method="", model={"head": "ridge"}))
    scored, use_windows = [], out_of_fold.use_windows

    def watched(build, *rest):
        fitted = use_windows(build, *rest)
        scored.append(build.top.local is not None and build.trained is build.classifier)
        return fitted

    monkeypatch.setattr(out_of_fold, "use_windows", watched)
    execute("audit", run.folder, "--output", tmp_path / "audit", "--folds 2")
    assert scored == [True, True]


@pytest.mark.long
def test_a_run_without_windows_can_not_say_where(whole, images, capsys):
    said = fails(capsys, "predict", whole.folder, images[0], "--where")
    assert f"the model in {whole.folder} scores images as a whole" in said
    assert "--local on" in said
    with pytest.raises(InputError, match="can't tell where a label is"):
        whole.predict(images[:1], where=True)
    with client_of(whole.folder) as client:
        files = [("images", ("a.png", images[0].read_bytes(), "image/png"))]
        answer = client.post("/predict?where=1", files=files)
        assert (answer.status_code, answer.json()["error"][:38]) == (
            422,
            "This model scores images as a whole, s",
        )


@pytest.mark.long
def test_trained_heads_score_windows(coloured, tmp_path, images):
    run = spml.load(train_local(coloured, tmp_path / "run", method="em", epochs=3))
    top = run.classifier.top
    pixels = torch.stack([run.transform(Image.open(path)) for path in images])
    with torch.inference_mode():
        maps = run.classifier.backbone.maps(pixels)
        features = run.classifier.backbone.pool(maps)
        whole = torch.nn.functional.logsigmoid(top.head(top.scaling(features)))
        found, _ = top.variants(*top.local.settings.windows.features(run.classifier.backbone, pixels))
        torch.testing.assert_close(found[0], whole)
        expected = top.local(found).numpy()
    np.testing.assert_allclose(
        run.predict(images).scores, 1 / (1 + np.exp(-expected.astype(np.float64))), atol=1e-4
    )
    # The windows of held-out photos are kept with their scores.
    held_out = read_held_out(run.folder)
    paths = [coloured.parent / name for name in held_out.ids]
    _, inputs = run.list_inputs([*map(str, paths)])
    located = [batch.windows for batch in run.stream(inputs, Engine(workers=0), where=True)]
    np.testing.assert_array_equal(held_out.windows, np.concatenate(located))


def test_thresholds_do_not_load_the_network_for_the_windows_of_photos(run, coloured, tmp_path, monkeypatch):
    folder = shutil.copytree(run.folder, tmp_path / "run")

    def photos_of(page):
        return page.count("data:image/jpeg"), page.count('class="window"')

    def loading(folder):
        raise AssertionError("the network was loaded")

    monkeypatch.setattr("spml.runs.run.load_model", loading)
    before = photos_of((folder / "report.html").read_text())
    assert before[1] > 0
    (folder / "report.html").write_text("old")
    execute("thresholds", folder, "--target labels")
    assert photos_of((folder / "report.html").read_text())[0] > 0
    assert photos_of((folder / "report.html").read_text())[1] > 0


@pytest.mark.long
def test_few_held_out_samples_do_not_decide(coloured, tmp_path):
    """Ridge regression is judged by the 20 validation samples alone."""
    run = spml.load(
        train_local(coloured, tmp_path / "run", method="", model={"head": "ridge", "local": "auto"})
    )
    assert run.classifier.top.local is None
    assert run.summary["local"] is None


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            "digits",
            ("the features of backbone small_cnn are not the mean of its map", "local=crops"),
        ),
        ("x.npz", ("the data holds one feature vector of each sample",)),
    ],
)
def test_what_has_no_windows_is_refused_before_it_is_trained(tmp_path, capsys, monkeypatch, source, words):
    monkeypatch.chdir(tmp_path)
    np.savez("x.npz", X=np.eye(40, dtype=np.float32), Y=np.eye(2, dtype=np.uint8).repeat(20, 0))
    said = fails(capsys, "train", source, "--local on --output run")
    assert all(each in said for each in words)
    assert not (tmp_path / "run").exists()
