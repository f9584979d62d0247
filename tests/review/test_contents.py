"""What the page shows of a sample: its picture, columns of a table, or named features."""

from __future__ import annotations

import io
import os
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from scipy.sparse import csr_matrix

from spml.audit.folder import read_observed
from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data.images.decoding import UnreadableImageError
from spml.data.matrix import FeatureMatrix
from spml.data.readers import make_digits
from spml.data.records import Records
from spml.labels import ObservedLabels
from spml.review.contents import MOST_CHARACTERS, MOST_FEATURES, Contents, Pictures
from spml.review.progress import Selection
from spml.review.session import Review
from tests.helpers import write_image
from tests.helpers.reviews import make_audit


def records(matrix, names=()):
    count = matrix.shape[0]
    return Records(
        source="rows.npz",
        name="rows",
        ids=tuple(f"row {row}" for row in range(count)),
        inputs=FeatureMatrix(matrix, names=names),
        classes=("a", "b"),
        classes_given=True,
        labels=ObservedLabels.from_index(np.zeros(count, np.int64), 2),
        split=None,
    )


def table(folder, *lines, name="texts.csv"):
    path = folder / name
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


@pytest.mark.parametrize("store", [np.asarray, csr_matrix])
def test_the_most_unusual_features_come_first(store):
    # Means 2, .25, 0, 0; standard deviations 0, sqrt(3) / 4, 0, 5.
    matrix = store(np.array([[2, 1, 0, 5], [2, 0, 0, -5], [2, 0, 0, 5], [2, 0, 0, -5]], np.float32))
    contents = Contents(records(matrix, ("always", "rare", "never", "often")), None, range(4))
    assert contents.available
    assert contents.of(0) == [("rare", "1"), ("often", "5"), ("always", "2")]
    assert contents.of(1) == [("often", "-5"), ("always", "2")]


def test_few_of_many_features_are_shown_and_those_without_names_are_not():
    matrix = np.eye(50, dtype=np.float32) * 3 + 1
    names = tuple(f"word {column}" for column in range(50))
    shown = Contents(records(matrix, names), None, range(50)).of(7)
    assert len(shown) == MOST_FEATURES
    assert shown[0] == ("word 7", "4")
    contents = Contents(records(np.ones((2, 3), np.float32)), None, range(2))
    assert not contents.available
    assert contents.of(0) == []


def test_columns_of_a_table_come_before_features_and_a_long_text_is_cut(tmp_path):
    lines = ["row 1;  two words ;", "row 0;first;1999", "row 9;not asked for;1", "row 9;nor this;1"]
    rows = table(tmp_path, "id;text;year", *lines)
    contents = Contents(records(np.eye(3, dtype=np.float32), ("x", "y", "z")), rows, [0, 1])
    assert contents.of(0) == [("text", "first"), ("year", "1999"), ("x", "1")]
    assert contents.of(1) == [("text", "two words"), ("y", "1")]
    rows = table(tmp_path, "file,text", f"row 0,{'x' * (MOST_CHARACTERS + 1)}")
    ((name, text),) = Contents(records(np.ones((1, 1), np.float32)), rows, [0]).of(0)
    assert (name, text) == ("text", "x" * MOST_CHARACTERS + " …")


def test_a_parquet_table(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    cells = {"name": ["row 0", "row 1"], "text": ["one", None], "share": [0.5, float("nan")]}
    parquet.write_table(arrow.table(cells), tmp_path / "texts.parquet")
    contents = Contents(records(np.ones((2, 1), np.float32)), tmp_path / "texts.parquet", [0, 1])
    assert contents.of(0) == [("text", "one"), ("share", "0.5")]
    assert contents.of(1) == []


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["id,text", "row 0,a", "row 0,b"], r"rows 2 and 3: both are 'row 0'\. Remove one\."),
        (
            ["id,text", "row 0,a"],
            r"has no row for 1 sample of the list, such as 'row 1'\. The first column, 'id', must hold the "
            r"names that the samples have in the data\.",
        ),
        (["id", "row 0"], r"has only the column id\. Expected names of samples in the first column"),
        ([""], "the file is empty"),
        (None, r"no such file\. Pass a CSV, TSV or Parquet file as `rows`\."),
    ],
)
def test_tables_that_do_not_fit(tmp_path, lines, message):
    rows = tmp_path / "texts.csv" if lines is None else table(tmp_path, *lines)
    with pytest.raises(InputError, match=f"^{rows}: {message}"):
        Contents(records(np.ones((2, 1), np.float32)), rows, [0, 1])


def test_photos_have_columns_too(tmp_path):
    audit = make_audit(tmp_path, {"a.png": ("cat", {"dog": 0.9}), "b.png": ("dog", {})})
    # b.png is not on the list, so the table may lack it.
    rows = table(tmp_path, "photo,taken", "a.png,at night")
    review = Review(audit, "ann", rows=rows)
    (card,) = review.cards([0], Selection())
    assert card.content == [("taken", "at night")]
    review.store.close()


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
