"""What a machine of the cluster computes is what this process would."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import spml
from spml.common.errors import InputError, SpmlError
from spml.data.images.image_files import ImageFiles
from spml.data.matrix import FeatureMatrix
from spml.runs.compute.cluster.work import Batches, Job, Worker, describe_error, versions
from tests.faults.test_kill import make_photos
from tests.runs.test_contents import save_run


def test_batches_are_those_of_a_loop():
    batches = Batches(range(6, 20), 6)
    assert list(batches) == [range(6, 12), range(12, 18), range(18, 20)]
    assert len(batches) == 3
    assert batches[0:2] == [range(6, 12), range(12, 18)]
    assert list(Batches(range(12, 12), 6)) == []
    assert list(Batches([4, 1, 9], 2)) == [[4, 1], [9]]
    with pytest.raises(IndexError):
        batches[3]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return spml.load(save_run(tmp_path_factory.mktemp("run")))._classifier.eval()


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Nine images: the third is damaged, and the sixth is a copy of the fifth."""
    folder = make_photos(tmp_path_factory.mktemp("data") / "photos", per_class=3)
    paths = sorted(folder.rglob("*.png"))
    paths[2].write_bytes(b"no image")
    paths[5].write_bytes(paths[4].read_bytes())
    return paths


def job(model, inputs, size=4, **settings):
    batches = Batches(range(len(inputs)), size)
    job = Job(model, settings.pop("output", "logits"), inputs, batches, "cpu", torch.get_num_threads())
    return job._replace(versions=versions(), **settings)


@torch.inference_mode()
def test_logits_of_readable_images(model, photos):
    images = ImageFiles(photos, [""] * 9, size=model.spec.size)
    results = list(Worker(job(model, images)).results([0, 1, 2]))
    assert [result.rows for result in results] == [[0, 1, 3], [0, 1, 2, 3], [0]]
    assert [list(result.unreadable) for result in results] == [[2], [], []]
    assert results[0].unreadable[2].startswith("not an image")
    expected = model(images.fetch([0, 1, 3])).logits.numpy()
    np.testing.assert_array_equal(results[0].values, expected)
    ahead = list(Worker(job(model, images, decoders=2)).results([0, 1, 2]))
    for one, other in zip(results, ahead, strict=True):
        assert one.rows == other.rows
        np.testing.assert_array_equal(one.values, other.values)


@torch.inference_mode()
def test_features_of_new_images_are_computed_once(model, photos):
    images = ImageFiles(photos, [""] * 9, size=model.spec.size)
    identities = images.load([6, 8], np.empty(0, np.uint64)).identities
    known = np.sort(identities[:, :8].copy().view("<u8")[:, 0])
    worker = Worker(job(model.backbone, images, output="features", known=known))
    first, second, third = worker.results([0, 1, 2])
    assert [first.rows, second.rows, third.rows] == [[0, 1, 3], [0, 3], []]  # 5 copies 4; 6 and 8 are known
    np.testing.assert_array_equal(second.values, model.backbone(images.fetch([4, 7])).numpy())
    assert third.values.size == 0
    np.testing.assert_array_equal(second.identities[2], identities[0])


def test_the_number_of_threads_is_that_of_the_command(model, photos):
    before = torch.get_num_threads()
    try:
        Worker(job(model, ImageFiles(photos, [""] * 9, size=8))._replace(threads=before + 2))
        assert torch.get_num_threads() == before + 2
    finally:
        torch.set_num_threads(before)


def test_other_versions_are_refused(model):
    inputs = FeatureMatrix(np.zeros((3, 2), np.float32))
    with pytest.raises(InputError) as caught:
        Worker(job(model, inputs)._replace(versions="spml 0.0, torch 1.0, Python 2.7"))
    assert f"of the cluster has {versions()}, but the command runs with spml 0.0, torch 1.0" in str(
        caught.value
    )


def test_errors_keep_their_exit_code():
    assert describe_error(InputError("a.png: wrong")) == ("a.png: wrong", 2)
    assert describe_error(SpmlError("failed")) == ("failed", 1)
    with pytest.raises(KeyError) as caught:
        {}["x"]
    text, code = describe_error(caught.value)
    assert text.startswith("KeyError: 'x' (test_work.py, line ")
    assert code == 1
