"""A machine of the cluster computes the same as this process."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import spml
from spml.common.errors import InputError
from spml.data.images.image_files import ImageFiles
from spml.data.matrix import FeatureMatrix
from spml.engine.loader import Batches
from spml.runs.predict.cluster import Job, versions, work_on
from tests.helpers.photos import make_photos
from tests.helpers.run_folders import save_run


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return spml.load(save_run(tmp_path_factory.mktemp("run"))).classifier.eval()


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
    job = Job(model, inputs, batches, "cpu", torch.get_num_threads())
    return job._replace(versions=versions(), **settings)


@torch.inference_mode()
def test_logits_of_readable_images(model, photos):
    images = ImageFiles(photos, [""] * 9, size=model.spec.size)
    results = list(work_on(job(model, images), [0, 1, 2]))
    assert [result.rows for result in results] == [[0, 1, 3], [0, 1, 2, 3], [0]]
    assert [list(result.unreadable) for result in results] == [[2], [], []]
    assert results[0].unreadable[2].startswith("not an image")
    expected = model(images.fetch([0, 1, 3])).logits.numpy()
    np.testing.assert_array_equal(results[0].values, expected)
    ahead = list(work_on(job(model, images, decoders=2), [0, 1, 2]))
    for one, other in zip(results, ahead, strict=True):
        assert one.rows == other.rows
        np.testing.assert_array_equal(one.values, other.values)


@torch.inference_mode()
def test_features_of_new_images_are_computed_once(model, photos):
    images = ImageFiles(photos, [""] * 9, size=model.spec.size)
    identities = images.load([6, 8], np.empty(0, np.uint64)).identities
    known = np.sort(identities[:, :8].copy().view("<u8")[:, 0])
    first, second, third = work_on(job(model.backbone, images, distinct=True, known=known), [0, 1, 2])
    assert [first.rows, second.rows, third.rows] == [[0, 1, 3], [0, 3], []]  # 5 copies 4; 6 and 8 are known
    np.testing.assert_array_equal(second.values, model.backbone(images.fetch([4, 7])).numpy())
    assert third.values.numel() == 0
    np.testing.assert_array_equal(second.identities[2], identities[0])


def test_the_number_of_threads_is_that_of_the_command(model, photos):
    before = torch.get_num_threads()
    try:
        images = ImageFiles(photos, [""] * 9, size=model.spec.size)
        list(work_on(job(model, images)._replace(threads=before + 2), [0]))
        assert torch.get_num_threads() == before + 2
    finally:
        torch.set_num_threads(before)


def test_other_versions_are_refused(model):
    inputs = FeatureMatrix(np.zeros((3, 2), np.float32))
    with pytest.raises(InputError) as caught:
        next(work_on(job(model, inputs)._replace(versions="spml 0.0, torch 1.0, Python 2.7"), [0]))
    assert f"of the cluster has {versions()}, but the command runs with spml 0.0, torch 1.0" in str(
        caught.value
    )
