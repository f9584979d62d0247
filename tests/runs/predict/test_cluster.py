"""Batches that a cluster computes: what is sent, what a machine does, and what comes back."""

from __future__ import annotations

import os
import shutil
import sys

import numpy as np
import pytest
import torch
from PIL import Image

import spml
from spml.common.errors import InputError, SpmlError
from spml.data.images.image_files import FilePart, ImageFiles, MemoryImage
from spml.engine.loader import Batches
from spml.models.backbones import Backbone
from spml.runs.predict import cluster as stream
from spml.runs.predict.batches import Engine
from spml.runs.predict.cluster import Job, portable, versions, work_on
from tests.helpers.commands import execute, fails, refusal
from tests.helpers.photos import make_photos
from tests.helpers.run_folders import save_run

# -- samples that are opened on other machines -----------------------------------------------------------


def test_images_are_named_by_absolute_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inputs = ImageFiles(["a.png", FilePart("b.arrow", 4, 7), "/c.png"], ["1", "2", "3"], size=8, draft=True)
    sent = portable(inputs)
    assert sent.paths == [str(tmp_path / "a.png"), FilePart(str(tmp_path / "b.arrow"), 4, 7), "/c.png"]
    assert sent.digests == inputs.digests
    assert sent.fingerprint() == inputs.fingerprint()


def test_images_in_memory_can_not_be_sent():
    image = MemoryImage("X[0]", lambda: Image.new("RGB", (4, 4)))
    with pytest.raises(InputError, match=r"^X\[0\]: is an image in memory, which other machines can't read"):
        portable(ImageFiles([image], [""], size=8))


# -- a machine of the cluster computes the same as this process ------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return spml.load(save_run(tmp_path_factory.mktemp("run"))).classifier.eval()


@pytest.fixture(scope="module")
def nine(tmp_path_factory):
    """Nine images: the third is damaged, and the sixth is a copy of the fifth."""
    folder = make_photos(tmp_path_factory.mktemp("data") / "photos", per_class=3)
    paths = sorted(folder.rglob("*.png"))
    paths[2].write_bytes(b"no image")
    paths[5].write_bytes(paths[4].read_bytes())
    return paths


def job(model, files, **settings):
    return Job(model, files, "cpu", torch.get_num_threads(), versions())._replace(**settings)


def batches_of(numbers, size=4, count=9):
    batches = Batches(range(count), size)
    return [batches[number] for number in numbers]


@torch.inference_mode()
def test_logits_of_readable_images(model, nine):
    images = ImageFiles(nine, [""] * 9, size=model.spec.size)
    results = work_on(job(model, images), batches_of([0, 1, 2]), None)
    assert [result.rows for result in results] == [[0, 1, 3], [0, 1, 2, 3], [0]]
    assert [list(result.unreadable) for result in results] == [[2], [], []]
    assert results[0].unreadable[2].startswith("not an image")
    expected = model(images.fetch([0, 1, 3])).logits.numpy()
    np.testing.assert_array_equal(results[0].values, expected)
    ahead = work_on(job(model, images, decoders=2), batches_of([0, 1, 2]), None)
    for one, other in zip(results, ahead, strict=True):
        assert one.rows == other.rows
        np.testing.assert_array_equal(one.values, other.values)


@torch.inference_mode()
def test_features_of_new_images_are_computed_once(model, nine):
    images = ImageFiles(nine, [""] * 9, size=model.spec.size)
    identities = images.load([6, 8], np.empty(0, np.uint64)).identities
    known = np.sort(identities[:, :8].copy().view("<u8")[:, 0])
    distinct = job(model.backbone, images, distinct=True, known=known)
    first, second, third = work_on(distinct, batches_of([0, 1, 2]), None)
    assert [first.rows, second.rows, third.rows] == [[0, 1, 3], [0, 3], []]  # 5 copies 4; 6 and 8 are known
    np.testing.assert_array_equal(second.values, model.backbone(images.fetch([4, 7])).numpy())
    assert third.values.size == 0
    np.testing.assert_array_equal(second.identities[2], identities[0])


@torch.inference_mode()
def test_features_are_sent_with_the_task():
    draw = np.random.default_rng(0)
    top = torch.nn.Linear(5, 2)
    values = [draw.normal(size=(count, 5)).astype(np.float32) for count in (4, 3)]
    first, second = work_on(job(top, None), [[0, 1, 2, 3], [4, 5, 6]], values)
    assert (first.rows, second.rows) == ([0, 1, 2, 3], [0, 1, 2])
    np.testing.assert_array_equal(second.values, top(torch.from_numpy(values[1])).numpy())


def test_the_number_of_threads_is_that_of_the_command(model, nine):
    before = torch.get_num_threads()
    try:
        images = ImageFiles(nine, [""] * 9, size=model.spec.size)
        work_on(job(model, images, threads=before + 2), batches_of([0]), None)
        assert torch.get_num_threads() == before + 2
    finally:
        torch.set_num_threads(before)


def test_other_versions_are_refused(model):
    (error,) = work_on(
        job(model, None, versions="spml 0.0, torch 1.0, Python 2.7"), [[0]], [np.zeros((1, 2))]
    )
    assert isinstance(error, InputError)
    assert f"of the cluster has {versions()}, but the command runs with spml 0.0, torch 1.0" in str(error)


def test_an_error_comes_after_the_batches_before_it(model):
    top = torch.nn.Linear(5, 2)
    first, error = work_on(job(top, None), [[0], [1]], [np.zeros((1, 5), np.float32), np.zeros((1, 4))])
    assert first.rows == [0]
    assert type(error) is SpmlError
    assert str(error).startswith("RuntimeError: ")


# -- the feature store and the order of batches, with a ray that this process plays; messages ------------


@pytest.fixture(scope="module")
def run(request, photos, tmp_path_factory):
    """A run whose backbone is trained, or frozen if a test asks for that."""
    output = tmp_path_factory.mktemp("runs") / "run"
    model = {"backbone": "test_efficientnet", "weights": "random", "frozen": getattr(request, "param", "no")}
    spml.train(
        photos, method="an", epochs=1, model=model, data={"size": 32, "workers": 0}, threads=1,
        output=str(output), quiet=True, pictures=False,
    )  # fmt: skip
    return output


@pytest.fixture
def samples(photos, tmp_path):
    """24 images. One is damaged; three are copies, two of them of images in earlier batches of ten."""
    paths = sorted(shutil.copytree(photos, tmp_path / "samples").rglob("*.png"))
    paths[7].write_bytes(paths[7].read_bytes()[:500])
    for copy, original in ((4, 2), (13, 1), (22, 11)):
        shutil.copy(paths[original], paths[copy])
    return tmp_path / "samples"


def predict(run, samples, output, *more):
    """Predict with an empty cache of its own; returns the content of the output."""
    cache = output.with_suffix("") / "features"
    arguments = ["--batch_size", "10", "--workers", "0", "--cache", cache, "--output", output, *more]
    execute("predict", run, samples, *arguments)
    return output.read_bytes()


@pytest.mark.parametrize("run", ["yes", "no"], indirect=True)
def test_the_output_is_that_of_one_process(run, samples, tmp_path, played, monkeypatch):
    forward = Backbone.forward
    # Like a library that sums in another order, features depend on the other images of the batch.
    monkeypatch.setattr(Backbone, "forward", lambda self, x: (y := forward(self, x)) + y.mean())
    one = predict(run, samples, tmp_path / "one.csv")
    assert one.count(b"\n") == 24  # with the header, and without the damaged image
    assert played == []
    assert predict(run, samples, tmp_path / "ray.csv", "--engine", "ray") == one
    frozen = spml.load(run).config.model.frozen == "yes"
    assert played == ["features" if frozen else "logits"]
    rows = [
        b"".join(path.read_bytes() for path in (tmp_path / name).rglob("*.rows")) for name in ("one", "ray")
    ]
    assert rows[0] == rows[1]


def test_a_job_is_continued_with_another_engine(run, samples, tmp_path, played, monkeypatch, capsys):
    one = predict(run, samples, tmp_path / "one.csv")
    results = stream._results

    def fail(*arguments):
        yield next(results(*arguments))
        raise SpmlError("the machine is gone")

    monkeypatch.setattr(stream, "_results", fail)
    with pytest.raises(SystemExit):
        predict(run, samples, tmp_path / "ray.csv", "--engine", "ray")
    assert "ray.csv.partial: 10 samples done so far" in capsys.readouterr().err
    assert predict(run, samples, tmp_path / "ray.csv") == one
    assert "continuing after 10 samples" in capsys.readouterr().err


def test_features_of_a_training_are_those_of_one_process(photos, tmp_path, played):
    for engine in ("local", "ray"):
        arguments = ["--backbone", "test_efficientnet", "--weights", "random", "--frozen", "yes"]
        arguments += ["--data.size", "32", "--method", "an", "--epochs", "1", "--batch_size", "10"]
        arguments += ["--data.workers", "0", "--threads", "1", "--engine", engine]
        execute("train", photos, *arguments, "--output", tmp_path / engine / "run")
        assert played == ([] if engine == "local" else ["features"] * 2)  # of two splits
    one, two = tmp_path / "local" / "run", tmp_path / "ray" / "run"
    assert (one / "model.safetensors").read_bytes() == (two / "model.safetensors").read_bytes()
    (rows,), (same,) = list(one.rglob("*.rows")), list(two.rglob("*.rows"))
    assert rows.read_bytes() == same.read_bytes()
    assert "engine" not in (two / "config.yaml").read_text()


@pytest.mark.parametrize("run", ["yes"], indirect=True)
def test_the_scores_of_an_audit(run, photos, tmp_path, played):
    written = []
    for engine in ("local", "ray"):
        shutil.rmtree(run / "features", ignore_errors=True)
        more = ["--workers", "0", "--mean_labels", "1.5", "--engine", engine]
        execute("audit", run, *more, "--output", tmp_path / engine)
        assert bool(played) == (engine == "ray")
        written.append([(tmp_path / engine / name).read_bytes() for name in ("missing.csv", "audit.json")])
    assert written[0] == written[1]


def test_an_image_that_only_this_machine_can_read(run, samples, played, monkeypatch, capsys, tmp_path):
    load = stream.ImageFiles.load

    def lose(self, rows, known):
        loaded = load(self, rows, known)
        loaded.unreadable[3] = "can't be read: No such file or directory"
        return loaded

    monkeypatch.setattr(stream.ImageFiles, "load", lose)
    with pytest.raises(SystemExit) as caught:
        predict(run, samples, tmp_path / "ray.csv", "--engine", "ray")
    assert caught.value.code == 2
    message = capsys.readouterr().err
    assert (
        f"{samples / 'blue' / '03.png'}: can't be read: No such file or directory on the machine" in message
    )
    assert "Every machine needs the images at the same paths, in a shared folder." in message


def test_an_image_that_is_missing_everywhere_is_left_out(run, samples, played):
    model = spml.load(run)
    _, inputs = model.list_inputs([str(samples)])
    (samples / "blue" / "01.png").unlink()
    for cluster in (None, ""):
        (batch,) = model.stream(inputs, Engine(cache="none", cluster=cluster))
        assert sorted(batch.unreadable) == [1, 7]
        assert batch.unreadable[1] == "can't be read: No such file or directory"
        assert len(batch.logits) == 22


# -- tasks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batches", "size", "slots", "per_task"),
    [
        (1000, 64, 4, 16),  # 1,024 samples
        (1000, 2000, 4, 1),  # a batch is not divided
        (100, 1, 8, 4),  # four tasks for each slot
        (3, 64, 8, 1),
    ],
)
def test_size_of_tasks(batches, size, slots, per_task):
    assert stream.batches_per_task(Batches(range(batches * size), size), slots) == per_task


def test_slots_of_a_cluster():
    machines = [{"CPU": 8.0, "GPU": 1.0}, {"CPU": 3.0}, {}]
    assert stream._slots(machines, 2, 0) == 5
    assert stream._slots(machines, 2, 1) == 1
    assert stream._decoders(-1, machines) == 8
    assert stream._decoders(3, machines) == 3
    assert refusal(stream._slots, machines, 16, 0) == (
        "no machine of the Ray cluster has 16 cores; the largest offers 8. A task takes as many as this "
        "process has threads, so that the numbers are the same: set OMP_NUM_THREADS=1 for one task per core."
    )


# -- the command line ------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["predict", "run", "a.png"], ["audit", "run"], ["train", "photos"]])
def test_an_address_needs_the_engine(command, capsys):
    assert fails(capsys, *command, "--address 10.0.0.1:6379") == (
        f"spml {command[0]}: `address` is the address of a Ray cluster: pass engine=ray as well.\n"
    )


def test_in_python(run, samples, played):
    model = spml.load(run)
    with pytest.raises(InputError, match="engine must be local or ray, got 'slurm'"):
        model.predict(samples, engine="slurm")
    one = model.predict(samples, cache="none")
    np.testing.assert_array_equal(model.predict(samples, cache="none", engine="ray").scores, one.scores)
    parts = list(model.predict_batches(samples, cache="none", batch_size=10, engine="ray"))
    assert [len(part.ids) for part in parts] == [9, 10, 4]


def test_ray_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(
            InputError, match=r"The package ray is not installed. Install what this needs: pip install ray "
        ),
        stream.connected(""),
    ):
        pass


def test_no_cluster_at_the_address():
    pytest.importorskip("ray")
    with (
        pytest.raises(InputError, match=r"^address=127.0.0.1:1: there is no Ray cluster \("),
        stream.connected("127.0.0.1:1"),
    ):
        pass


def test_ray_reports_nothing_to_its_makers_unless_asked_to(monkeypatch):
    ray = pytest.importorskip("ray")
    seen = []

    def start(**settings):
        seen.append(os.environ["RAY_USAGE_STATS_ENABLED"])
        raise ConnectionError

    monkeypatch.setattr(ray, "init", start)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "1")
    with pytest.raises(InputError), stream.connected(""):
        pass
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED")
    with pytest.raises(InputError), stream.connected(""):
        pass
    assert seen == ["1", "0"]
