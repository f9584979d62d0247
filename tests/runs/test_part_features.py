"""Feature files with several parts of each sample, X of shape (N, P, D), and what is made of them."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import spml
from spml.config import DataConfig
from spml.data.matrix import FeatureMatrix, mean_of_parts
from spml.data.readers.features import read_features
from spml.data.readers.shards import read_shards
from tests.helpers.commands import execute, fails
from tests.helpers.exported import check_exported
from tests.helpers.members import few_members
from tests.helpers.records import read_rows
from tests.helpers.serving import client_of

SAMPLES, PARTS, WIDTH, CLASSES = 240, 4, 6, ("cat", "dog", "fox")
NEW = slice(200, SAMPLES)


@pytest.fixture(scope="module", autouse=True)
def small_heads():
    with few_members():
        yield


@pytest.fixture(scope="module")
def arrays():
    """Samples of which each part shows one thing or nothing: parts (N, P, D), known class, all classes."""
    rng = np.random.default_rng(0)
    parts = rng.normal(0, 0.6, (SAMPLES, PARTS, WIDTH)).astype(np.float32)
    shown = np.stack([rng.permutation(PARTS)[: len(CLASSES)] for _ in range(SAMPLES)])
    truth = rng.random((SAMPLES, len(CLASSES))) < 0.5
    truth[np.arange(SAMPLES), rng.integers(0, len(CLASSES), SAMPLES)] = True
    for column in range(len(CLASSES)):
        rows = np.flatnonzero(truth[:, column])
        parts[rows, shown[rows, column], column] += 4
    known = np.array([rng.choice(np.flatnonzero(row)) for row in truth])
    return parts, known, truth


@pytest.fixture(scope="module")
def folder(arrays, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    parts, known, truth = arrays
    labels = np.eye(len(CLASSES), dtype=np.uint8)[known]
    np.savez(folder / "train.npz", X=parts[: NEW.start], Y=labels[: NEW.start], classes=CLASSES)
    np.savez(folder / "new.npz", X=parts[NEW], Y=truth[NEW].astype(np.uint8), classes=CLASSES)
    return folder


@pytest.fixture(scope="module")
def run(folder):
    return spml.train(
        folder / "train.npz", mean_labels=1.8, local="on", quiet=True, pictures=False, output=folder / "run"
    )


def by_hand(run, parts):
    """Logits of the weights of a run: the mean of the parts, and the best part, of each sample."""
    top = run.classifier.top
    with torch.inference_mode():
        tensor = torch.from_numpy(parts.astype(np.float32))
        whole = top.head(torch.from_numpy(parts.astype(np.float32).mean(1)))
        best = torch.stack([top.head(tensor[:, part]) for part in range(parts.shape[1])]).amax(0)
        local = top.local
        variants = [whole, best, best]  # the mean over the one size
        logits = local.offset + local.scale * sum(
            weight * (scores - centre) / spread
            for weight, scores, centre, spread in zip(
                local.weight, variants, local.centre, local.spread, strict=True
            )
        )
    return logits.numpy()


def test_the_best_part_counts(run, folder, arrays):
    parts = arrays[0][NEW]
    expected = by_hand(run, parts)
    found = run.predict(folder / "new.npz").scores
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-expected.astype(np.float64))), atol=1e-5)
    assert run.classifier.top.local.settings.windows.counts == [PARTS]
    assert sum(run.summary["local"]["weights"].values()) == pytest.approx(1)


def test_parts_in_memory_and_in_shards_are_those_of_a_file(run, folder, arrays, tmp_path):
    parts = arrays[0][NEW]
    expected = run.predict(folder / "new.npz").scores
    for samples in (parts, torch.from_numpy(parts), parts.astype(np.float64)):
        np.testing.assert_allclose(run.predict(samples).scores, expected, atol=1e-6)
    np.save(tmp_path / "X_0.npy", parts[:15])
    np.save(tmp_path / "X_1.npy", parts[15:])
    np.testing.assert_allclose(run.predict(tmp_path).scores, expected, atol=1e-6)
    batches = run.predict_batches(parts, batch_size=7)
    np.testing.assert_allclose(np.concatenate([each.scores for each in batches]), expected, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64])
def test_the_whole_is_the_mean_of_the_parts(tmp_path, dtype):
    parts = np.arange(24).reshape(2, 3, 4).astype(dtype)
    np.savez(tmp_path / "a.npz", X=parts, Y=np.eye(2, dtype=np.uint8))
    inputs = read_features(tmp_path / "a.npz", DataConfig()).inputs
    np.testing.assert_array_equal(inputs.fetch([1, 0]).numpy(), parts.astype(np.float64).mean(1)[[1, 0]])
    np.testing.assert_array_equal(inputs.take([1]).by_part().fetch([0]).numpy(), parts[1:])
    assert (inputs.width, inputs.num_parts) == (4, 3)


def test_parts_of_equal_mean_are_other_data():
    parts = np.arange(12, dtype=np.float32).reshape(1, 3, 4)
    turned = parts[:, ::-1]
    means = mean_of_parts(parts)
    np.testing.assert_array_equal(mean_of_parts(turned), means)
    prints = {FeatureMatrix(means, parts=each).fingerprint() for each in (parts, turned)}
    assert len(prints) == 2
    assert FeatureMatrix(means).fingerprint() not in prints


def test_features_that_do_not_suit_are_refused(run, folder, arrays, tmp_path, capsys):
    parts = arrays[0][NEW]
    np.savez(tmp_path / "whole.npz", X=parts.mean(1))
    np.savez(tmp_path / "three.npz", X=parts[:, :3])
    for name, found in (("whole", "none (X is of shape (N, D))"), ("three", "3 parts")):
        said = fails(capsys, "predict", run.folder, tmp_path / f"{name}.npz", "--output", tmp_path / "a.csv")
        assert f"scores 4 parts of each sample, X of shape (N, 4, 6), but the data has {found}" in said
    said = fails(capsys, "predict", run.folder, folder / "new.npz", "--where")
    assert "scores features, so it can't tell where a label is" in said
    said = fails(capsys, "train", folder / "train.npz", "--local crops --output", tmp_path / "run")
    assert "local=crops scores parts of images" in said
    broken = parts.copy()
    broken[3, 1, 2] = np.inf
    np.savez(tmp_path / "broken.npz", X=broken)
    said = fails(capsys, "predict", run.folder, tmp_path / "broken.npz", "--output", tmp_path / "a.csv")
    assert "X holds inf at row 3, in one of its 4 parts, column 2" in said
    np.savez(tmp_path / "four.npz", X=parts[None])
    said = fails(capsys, "predict", run.folder, tmp_path / "four.npz", "--output", tmp_path / "a.csv")
    assert "(N, P, D) for P parts of each sample" in said


@pytest.mark.long
def test_a_model_of_means_takes_parts(folder, arrays, tmp_path):
    settings = {"local": "off", "mean_labels": 1.8, "quiet": True, "pictures": False}
    run = spml.train(folder / "train.npz", output=tmp_path / "run", **settings)
    assert run.classifier.top.local is None
    parts = arrays[0][NEW]
    np.testing.assert_allclose(run.predict(parts).scores, run.predict(parts.mean(1)).scores, atol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("form", ["onnx", "torch-export"])
def test_exported_models_score_parts(run, arrays, tmp_path, form):
    parts = arrays[0][NEW]
    about = check_exported(run, torch.from_numpy(parts), by_hand(run, parts), tmp_path, form)
    assert about is None or about["input"]["shape"] == ["batch", PARTS, WIDTH]


def test_the_server_takes_parts(run, arrays):
    parts = arrays[0][NEW][:2]
    expected = run.predict(parts)
    with client_of(run.folder) as client:
        assert client.get("/model").json()["input"] == {"kind": "features", "width": WIDTH, "parts": PARTS}
        found = client.post("/predict", json={"features": parts.tolist()}).json()["predictions"]
        wrong = [parts[0].mean(0).tolist(), parts[0, :2].tolist(), parts[0, :, :3].tolist()]
        answers = [client.post("/predict", json={"features": [each]}) for each in wrong]
    assert [each["labels"] for each in found] == expected.labels
    for each, scores in zip(found, expected.scores, strict=True):
        np.testing.assert_allclose([each["scores"][name] for name in CLASSES], scores, atol=1e-5)
    assert [answer.status_code for answer in answers] == [422] * 3
    assert "with rows of 4 x 6 numbers" in answers[0].json()["error"]
    assert "has 2 parts; the model takes 4" in answers[1].json()["error"]
    assert "has a part of 3 numbers; the model takes 6" in answers[2].json()["error"]


def test_an_audit_and_a_copy_of_the_data_keep_the_parts(run, folder, arrays, tmp_path, capsys):
    execute("audit", run.folder, "--output", tmp_path / "audit", "--folds 2")
    assert {row.get("where", "") for row in read_rows(tmp_path / "audit" / "missing.csv")} <= {""}
    execute("data convert", folder / "train.npz", tmp_path / "b.npz", "--format nan")
    np.testing.assert_array_equal(np.load(tmp_path / "b.npz")["X"], arrays[0][: NEW.start])
    capsys.readouterr()
    execute("data inspect", folder / "train.npz")
    assert "6 per sample (mean of 4 parts)" in capsys.readouterr().out


def test_trained_heads_score_parts(folder, arrays, tmp_path):
    run = spml.train(
        folder / "train.npz", method="an", epochs=3, mean_labels=1.8, local="on", quiet=True, pictures=False,
        output=tmp_path / "run",
    )  # fmt: skip
    top, parts = run.classifier.top, torch.from_numpy(arrays[0][NEW])
    with torch.inference_mode():
        best = torch.stack([top._log_scores(parts[:, part]) for part in range(PARTS)]).amax(0)
        expected = top.local(torch.stack([top._log_scores(parts.mean(1)), best, best])).numpy()
    found = run.predict(arrays[0][NEW]).scores
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-expected.astype(np.float64))), atol=1e-5)
    assert (
        json.loads((tmp_path / "run" / "model.json").read_text())["top"]["local"]["windows"]["width"] == PARTS
    )


def test_shards_have_the_parts_of_one_file_and_others_are_refused(tmp_path):
    parts = np.arange(48, dtype=np.float32).reshape(4, 3, 4)
    for number, rows in enumerate((slice(0, 2), slice(2, 4))):
        np.save(tmp_path / f"X_{number}.npy", parts[rows])
        np.save(tmp_path / f"Y_{number}.npy", np.array([0, 1]))
    (tmp_path / "classes.txt").write_text("cat\ndog")
    np.savez(tmp_path / "a.npz", X=parts, Y=np.eye(2, dtype=np.uint8)[[0, 1, 0, 1]])
    inputs = read_shards(tmp_path, DataConfig()).inputs
    np.testing.assert_array_equal(inputs.by_part().fetch([3, 0]).numpy(), parts[[3, 0]])
    assert inputs.fingerprint() == read_features(tmp_path / "a.npz", DataConfig()).inputs.fingerprint()
    np.save(tmp_path / "X_1.npy", np.zeros((2, 2, 4), np.float32))
    with pytest.raises(spml.InputError, match=r"holds float32 \(2, 2, 4\), but the shards before hold"):
        read_shards(tmp_path, DataConfig())
