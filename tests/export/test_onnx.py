"""onnx: the file computes what the run predicts, and says of itself what is needed to use it."""

from __future__ import annotations

import importlib.util
import itertools
import subprocess
import sys
import venv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import spml
from spml.common.errors import InputError, SpmlError
from spml.config import ModelConfig
from spml.export.formats import onnx_file
from spml.models import Classifier, QuerySettings, Top, build_backbone, save_classifier
from spml.models.solved import forest, search
from tests.helpers import write_image
from tests.helpers.exported import computed, opened
from tests.helpers.features import make_steps
from tests.helpers.networks import GREY, describe
from tests.helpers.run_folders import CARD, save_run, save_thresholds

pytest.importorskip("onnxscript", reason="onnxscript is not installed")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "onnx_predict.py"
KERNEL = "Gaussian kernel, width 1"


def assert_predicted(run, session, samples, inputs):
    """The outputs of a file equal what a run predicts."""
    predicted = run.predict(samples)
    outputs = computed(session, inputs)
    np.testing.assert_allclose(outputs["scores"], predicted.scores, atol=1e-5)
    if predicted.probabilities is None:
        assert "probabilities" not in outputs
    else:
        np.testing.assert_allclose(outputs["probabilities"], predicted.probabilities, atol=1e-4)
    for labels, row in zip(predicted.labels, outputs["labels"], strict=True):
        assert set(labels) == {run.classes[column] for column in np.flatnonzero(row)}


@pytest.fixture(scope="module")
def grey_run(tmp_path_factory):
    """A run on grey images of any size, which is not trained, and its ONNX file."""
    folder = save_run(tmp_path_factory.mktemp("grey"))
    save_thresholds(folder, -1.0)
    run = spml.load(folder)
    return run, run.export()


@pytest.fixture(scope="module")
def exported(ridge):
    """Path of the run's model as an ONNX file, in its default place."""
    return ridge.export()


@pytest.mark.long
def test_a_run_on_features_in_batches_of_any_size(ridge, exported, digits):
    assert exported == ridge.folder / "export" / "model.onnx"
    session, _ = opened(exported)
    X = digits[0].astype(np.float32)
    for rows in (X[500:501], X[500:600]):
        assert_predicted(ridge, session, rows, rows)


def test_the_file_describes_itself(ridge, exported):
    session, about = opened(exported)
    assert about["classes"] == list(ridge.classes)
    assert about["thresholds"] == pytest.approx([cut.threshold for cut in ridge.thresholds.classes])
    assert about["weights_sha256"] == ridge.weights_sha256
    assert (about["spml"], about["torch"]) == (spml.__version__, torch.__version__)
    assert about["opset"] >= 18
    assert about["mean_labels"] == {"value": 1.0, "source": "stated"}
    assert about["input"]["shape"] == session.get_inputs()[0].shape == ["batch", 64]
    assert list(about["outputs"]) == [output.name for output in session.get_outputs()]
    assert session.get_outputs()[0].shape == ["batch", 10]


def test_nothing_of_this_machine_is_in_the_file(ridge, exported):
    content = exported.read_bytes()
    for word in (str(ridge.folder), "site-packages", ".py"):
        assert word.encode() not in content


@pytest.mark.long
def test_an_image_of_any_size(grey_run):
    run, path = grey_run
    session, about = opened(path)
    assert about["input"]["shape"] == ["batch", "height", "width", 3]
    assert about["preparation"]["size"] == 40
    assert about["no_probabilities"].startswith("K, ")
    score = pytest.approx(1 / (1 + np.e))
    assert about["thresholds"] == [score, None, score]  # no training sample had the second class
    rng = np.random.default_rng(0)
    for shape in ((1, 40, 40), (3, 100, 61), (1, 200, 31), (1, 1, 1), (2, 17, 90)):
        images = rng.integers(0, 256, (*shape, 3), np.uint8)
        assert_predicted(run, session, images, images)


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory):
    """Python with onnxruntime, NumPy and Pillow, and nothing of this package."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in ("onnxruntime", "numpy", "PIL"):
        package = Path(importlib.util.find_spec(name).origin).parent
        for path in (package, *package.parent.glob(f"{name.lower().replace('pil', 'pillow')}.libs")):
            (site / path.name).symlink_to(path)
    return folder / "bin" / "python"


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="paths of POSIX")
def test_the_example_in_an_environment_without_torch(bare_python, grey_run, tmp_path):
    run, model = grey_run
    turned = Image.Exif()
    turned[0x0112] = 6
    photos = tmp_path / "photos"
    photos.mkdir()
    write_image(photos / "turned.jpg", (90, 40), exif=turned)
    write_image(photos / "plain.png", (33, 70))
    noise = np.random.default_rng(0).integers(0, 256, (50, 60, 4), np.uint8)
    Image.fromarray(noise, "RGBA").save(photos / "transparent.png")
    paths = sorted(map(str, photos.iterdir()))
    for package in ("torch", "spml"):
        missing = subprocess.run([bare_python, "-I", "-c", f"import {package}"], capture_output=True)
        assert missing.returncode
    done = subprocess.run(
        [bare_python, "-I", EXAMPLE, model, *paths], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    predicted = run.predict(paths)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    for (path, *labels), names, scores in zip(lines, predicted.labels, predicted.scores, strict=True):
        assert path in paths
        assert labels == [f"{name} {scores[run.classes.index(name)]:.3f}" for name in names]
    assert any(predicted.labels)


@pytest.mark.long
@pytest.mark.parametrize("head", ["mlp", "gaussian_per_class", "beta", "correlated"])
def test_every_head_on_features(head, digits, tmp_path):
    X, y = digits
    settings = {"head": head, "epochs": 2}
    if head == "mlp":
        settings["method"] = "softmax"  # its logits are log-probabilities
    run = spml.train(
        X[:150], y[:150], mean_labels=1, quiet=True, pictures=False, output=str(tmp_path / "run"), **settings
    )
    session, about = opened(run.export())
    assert about["scores"] == ("exp" if head == "mlp" else "sigmoid")
    rows = X[400:420].astype(np.float32)
    assert_predicted(run, session, rows, rows)


@pytest.mark.long
def test_every_member_of_an_auto_head(tmp_path, monkeypatch):
    # Levels of trees and widths of kernels repeat one another, and each takes its time to be exported.
    monkeypatch.setattr(forest, "DEEPEST", 4)
    monkeypatch.setattr(search, "DENSE_WIDTHS", (1.0,))
    X, y = make_steps(420)
    direct = 2 * np.eye(4)[y] + np.random.default_rng(1).normal(size=(420, 4))  # for linear members
    X = np.column_stack([X[:, :4], direct]).astype(np.float32)
    run = spml.train(
        X[:300], y[:300], method="auto", mean_labels=1, quiet=True, pictures=False,
        output=str(tmp_path / "run"),
    )  # fmt: skip
    members = {(member["space"], member["head"]) for member in run.summary["members"]}
    spaces = [f"{scaling}, {kind}" for scaling in ("standard", "sqrtl2") for kind in ("linear", KERNEL)]
    assert members == {("raw", "forest"), *itertools.product(spaces, ("ridge", "lda"))}
    session, _ = opened(run.export())
    # Distances of kernels differ in the fifth digit; another leaf of one tree would show in the third.
    for rows in (X[300:], X[:1]):
        predicted, outputs = run.predict(rows), computed(session, rows)
        np.testing.assert_allclose(outputs["scores"], predicted.scores, atol=1e-4)
        np.testing.assert_allclose(outputs["probabilities"], run.calibrated(outputs["logits"]), atol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("head", ["boosted_cam", "queries with codes", "queries with distributions"])
def test_heads_on_maps(head, tmp_path):
    head, _, part = head.partition(" with ")
    # Queries with distributions are scored as plain ones are. Further layers repeat the first one.
    parts = {
        "": {},
        "codes": {"code": 5, "embedding": 4, "encoder_layers": 0},
        "distributions": {"code": 5, "posterior": True},
    }
    queries = QuerySettings(**parts[part], decoder_layers=1)
    torch.manual_seed(0)
    backbone = build_backbone(describe(ModelConfig(), GREY), ModelConfig())
    spec = replace(backbone.spec, interpolation="nearest")  # exported faster
    save_classifier(tmp_path, Classifier(backbone, Top(64, 3, head=head, queries=queries)), spec, CARD)
    save_thresholds(tmp_path)
    run = spml.load(tmp_path)
    images = np.random.default_rng(0).integers(0, 256, (4, 90, 70, 3), np.uint8)
    session, _ = opened(run.export())
    assert_predicted(run, session, images, images)


@pytest.mark.long
def test_a_file_that_computes_something_else_is_not_written(ridge, tmp_path, monkeypatch):
    honest = onnx_file._computing

    def off_by_a_little(written, model):
        compute = honest(written, model)
        return lambda inputs: {**compute(inputs), "logits": compute(inputs)["logits"] + 3e-4}

    monkeypatch.setattr(onnx_file, "_computing", off_by_a_little)
    with pytest.raises(SpmlError, match=r"differs from the trained one by 0\.0003 in onnxruntime") as caught:
        ridge.export(tmp_path / "model.onnx")
    assert caught.value.exit_code == 1
    assert not list(tmp_path.iterdir())


def test_a_part_that_cannot_be_traced_is_named(ridge, tmp_path, monkeypatch):
    forward = Classifier.forward

    def depends_on_values(self, inputs, class_maps=False):
        return forward(self, inputs if inputs.mean() > 1 else inputs + 1, class_maps)

    monkeypatch.setattr(Classifier, "forward", depends_on_values)
    with pytest.raises(InputError, match=r"torch\.export can't trace a part of .* or of the head linear \("):
        ridge.export(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_a_missing_package_is_named_by_its_extra(ridge, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(InputError, match=r"onnxscript is not installed\. .*pip install onnx onnxscript"):
        ridge.export(tmp_path / "model.onnx")


def test_a_run_whose_thresholds_are_missing_is_refused(tmp_path):
    folder = save_run(tmp_path)
    (folder / "thresholds.json").unlink()
    with pytest.raises(InputError, match=r"thresholds\.json"):
        spml.load(folder).export()
