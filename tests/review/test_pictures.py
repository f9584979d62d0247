"""Pictures for the page."""

from __future__ import annotations

import io
import os
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from spml.audit.folder import read_observed
from spml.config import DataConfig
from spml.data.images.decoding import UnreadableImageError
from spml.data.readers import make_digits
from spml.review.pictures import Pictures
from tests.helpers import write_image
from tests.review.conftest import make_audit


@pytest.fixture
def data(tmp_path):
    make_audit(tmp_path, {"a.png": ("cat", {}), "b.png": ("dog", {})}, size=(300, 120))
    return read_observed(DataConfig(path=str(tmp_path / "photos" / "labels.csv")))


def opened(picture):
    return Image.open(io.BytesIO(picture.data))


def test_pictures_are_reduced_and_small_ones_kept(data, tmp_path):
    pictures = Pictures(data, tmp_path / "thumbnails", 10**6)
    assert pictures.available
    small = pictures.thumbnail(0)
    assert (small.media_type, opened(small).format, opened(small).size) == ("image/jpeg", "JPEG", (192, 77))
    assert opened(pictures.photo(0)).size == (300, 120)  # never enlarged
    (kept,) = (tmp_path / "thumbnails").iterdir()
    assert kept.read_bytes() == small.data
    kept.write_bytes(b"kept")
    assert pictures.thumbnail(0).data == b"kept"
    assert opened(pictures.photo(0)).size == (300, 120)
    write_image(data.inputs[1], (2600, 1300))
    assert opened(Pictures(data, tmp_path, 10**7).photo(1)).size == (1280, 640)


def test_a_changed_file_gets_a_new_picture(data, tmp_path):
    pictures = Pictures(data, tmp_path / "thumbnails", 10**6)
    pictures.thumbnail(0)
    write_image(data.inputs[0], (50, 100))
    os.utime(data.inputs[0], (1, 1))
    assert opened(pictures.thumbnail(0)).size == (50, 100)


def test_a_picture_is_upright_and_on_white(data, tmp_path):
    turned = Image.new("RGB", (200, 100), "red")
    turned.paste("blue", (0, 0, 100, 100))
    exif = turned.getexif()
    exif[0x0112] = 6  # a quarter turn clockwise, so that the left half is on top
    turned.save(tmp_path / "turned.jpg", exif=exif)
    Image.new("RGBA", (10, 10), (0, 0, 0, 0)).save(tmp_path / "clear.png")
    some = replace(data, inputs=(tmp_path / "turned.jpg", tmp_path / "clear.png"))
    pictures = Pictures(some, tmp_path / "thumbnails", 10**6)
    upright = opened(pictures.photo(0))
    assert upright.size == (100, 200)
    assert np.asarray(upright)[20, 50] == pytest.approx((0, 0, 255), abs=8)
    assert np.asarray(upright)[180, 50] == pytest.approx((255, 0, 0), abs=8)
    assert np.asarray(opened(pictures.photo(1))).min() >= 250


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: path.unlink(), "can't be read: No such file or directory"),
        (lambda path: path.write_bytes(b""), "the file is empty"),
        (lambda path: path.write_bytes(b"no image"), "not an image of a known format"),
    ],
)
def test_a_file_that_is_gone_or_damaged_has_a_reason(data, tmp_path, damage, reason):
    damage(data.inputs[0])
    with pytest.raises(UnreadableImageError, match=reason):
        Pictures(data, tmp_path / "thumbnails", 10**6).thumbnail(0)


def test_a_large_image_is_not_opened(data, tmp_path):
    with pytest.raises(UnreadableImageError, match=r"more than data\.max_pixels"):
        Pictures(data, tmp_path / "thumbnails", 1000).photo(0)


def test_pixels_in_memory(tmp_path):
    digits = make_digits(4, 1, 1)
    pictures = Pictures(digits, tmp_path / "thumbnails", 10**6)
    assert pictures.available
    picture = pictures.thumbnail(2)
    assert (picture.media_type, opened(picture).mode) == ("image/png", "L")
    assert (np.asarray(opened(picture)) == digits.inputs.fetch([2], None)[0, 0].numpy()).all()
    assert not (tmp_path / "thumbnails").exists()


def test_features_have_no_pictures(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.eye(3, 4, dtype=np.float32), Y=np.eye(3), classes=["a", "b", "c"])
    assert not Pictures(read_observed(DataConfig(path=str(tmp_path / "x.npz"))), tmp_path, 10**6).available
