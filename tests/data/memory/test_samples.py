"""Every kind of samples in memory, and every mistake in them."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.sparse import coo_matrix, csr_matrix
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from spml.config import DataConfig
from spml.data import read_memory, start_opening
from spml.data.images.image_files import ImageFiles, MemoryImage
from spml.data.matrix import FeatureMatrix
from spml.data.memory import read_samples
from tests.helpers import write_image
from tests.helpers.commands import refusal

X = np.arange(6, dtype=np.float32).reshape(3, 2)
PIXELS = np.random.default_rng(0).integers(0, 256, (3, 8, 6, 3), np.uint8)


def read(samples, **settings):
    return read_samples(samples, DataConfig(**settings))


class Pictures(Dataset):
    """A data set of (image, label) that counts how often each image is loaded."""

    def __init__(self, images, labels):
        self.images, self.labels, self.loaded = images, labels, []

    def __len__(self):
        return len(self.images)

    def __getitem__(self, row):
        self.loaded.append(row)
        return self.images[row], self.labels[row]


@pytest.mark.parametrize(
    "samples",
    [
        X,
        np.asfortranarray(X),
        X.astype(int),
        torch.tensor(X),
        torch.tensor(X).bfloat16(),
        torch.tensor(X, requires_grad=True),
        csr_matrix(X),
        coo_matrix(X),
        X.tolist(),
        list(X),
        list(torch.tensor(X)),
        TensorDataset(torch.tensor(X), torch.tensor([0, 1, 0])),
    ],
)
def test_every_kind_of_features(samples):
    ids, inputs = read(samples)
    assert isinstance(inputs, FeatureMatrix)
    assert inputs.fetch([0, 1, 2]).tolist() == X.tolist()
    assert ids == ("0", "1", "2")


@pytest.mark.parametrize(
    "samples",
    [
        PIXELS,
        list(PIXELS),
        torch.tensor(PIXELS).permute(0, 3, 1, 2),
        list(torch.tensor(PIXELS).permute(0, 3, 1, 2)),
        [Image.fromarray(pixels) for pixels in PIXELS],
        [Image.fromarray(pixels).convert("RGBA") for pixels in PIXELS],
        Pictures([Image.fromarray(pixels) for pixels in PIXELS], [0, 1, 2]),
    ],
)
def test_every_kind_of_images_has_the_pixels_of_a_file(samples, tmp_path):
    for row, pixels in enumerate(PIXELS):
        Image.fromarray(pixels).save(tmp_path / f"{row}.png")
    files = ImageFiles([tmp_path / f"{row}.png" for row in range(3)], [""] * 3, size=5)
    ids, inputs = read(samples)
    images = ImageFiles(inputs, [""] * 3, size=5)
    assert images.fetch([0, 1, 2]).equal(files.fetch([0, 1, 2]))
    assert [str(image) for image in inputs] == ["X[0]", "X[1]", "X[2]"]
    assert ids == ("0", "1", "2")


def test_images_are_prepared_like_files_and_told_apart_by_their_pixels(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    path = write_image(tmp_path / "a.jpg", (20, 10), exif=exif)
    grey = Image.fromarray(PIXELS[0, ..., 0])
    images = read([Image.open(path), grey, grey.copy(), grey.transpose(Image.Transpose.ROTATE_180)])[1]
    inputs = ImageFiles(images, [""] * 4, size=8)
    assert Image.open(path).getexif()[0x0112] == 6
    assert inputs.fetch([0]).equal(ImageFiles([path], [""], size=8).fetch([0]))
    loaded = inputs.load([0, 1, 2, 3], np.empty(0, np.uint64))
    assert len({identity.tobytes() for identity in loaded.identities}) == 3


def test_paths_are_relative_to_the_folder_of_the_images_and_keep_their_names(tmp_path, monkeypatch):
    for name in ("a.png", "b.png"):
        write_image(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert read(["b.png", Path("a.png")])[0] == ("b.png", "a.png")
    assert read(np.array(["b.png", "a.png"]))[1] == (Path("b.png"), Path("a.png"))
    monkeypatch.chdir("/")
    assert read(["b.png"], images=str(tmp_path))[1] == (tmp_path / "b.png",)
    absolute = str(tmp_path / "a.png")
    assert read([absolute])[0] == (absolute,)
    left_out = read(["b.png", "c.png"], images=str(tmp_path), missing="skip")
    assert left_out[1] == (tmp_path / "b.png", tmp_path / "c.png")


def test_a_data_set_is_loaded_when_its_images_are_needed():
    data = Pictures([Image.fromarray(pixels) for pixels in PIXELS], [0, 1, 2])
    images = read(data)[1]
    assert isinstance(images[2], MemoryImage)
    data.loaded.clear()
    ImageFiles(images, [""] * 3, size=8).fetch([2])
    assert data.loaded == [2]


class Changing(Pictures):
    """A data set with a random transform."""

    def __getitem__(self, row):
        self.images[row] = self.images[row] + 1
        return super().__getitem__(row)


class Failing(Pictures):
    """A data set whose first image can't be read."""

    def __getitem__(self, row):
        raise OSError("no such disk")


class Endless(IterableDataset):
    """Samples in one order only."""

    def __iter__(self):
        yield from ()


class WithoutLength(Dataset):
    """Samples whose number is not known."""

    def __getitem__(self, row):
        return PIXELS[0]


EXPECTED = "expected a path; features (N, D), or (N, P, D) for P parts of each sample, as a NumPy array or"
IMAGES = "images are uint8 of shape (H, W, 3) in NumPy and (3, H, W) in torch."
FEATURES = "Features are numbers of the shape (N, D), or of floating point of the shape (N, P, D)"


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ({"a": X}, f"X is a value of the type dict; {EXPECTED}"),
        (None, f"X is None; {EXPECTED}"),
        (iter([1, 2]), f"X is a value of the type list_iterator; {EXPECTED}"),
        ([], f"X is empty; {EXPECTED}"),
        ([1, 2], f"X[0] is 1; {EXPECTED}"),
        ([None, "a.png"], f"X[0] is None; {EXPECTED}"),
        (X[0], f"X has the shape (2,) and the type float32. {FEATURES}"),
        (PIXELS / 255, f"X has the shape (3, 8, 6, 3) and the type float64. {FEATURES}"),
        (PIXELS.transpose(0, 3, 1, 2), f"X has the shape (3, 3, 8, 6) and the type uint8. {FEATURES}"),
        (torch.tensor(PIXELS), f"X has the shape (3, 8, 6, 3) and the type uint8. {FEATURES}"),
        (X.astype(complex), f"X has the shape (3, 2) and the type complex128. {FEATURES}"),
        (
            X[:0],
            "with at least one row, 1 to 10,000,000 columns and at most 8,192 parts; got float32 (0, 2)",
        ),
        ([X[0], X[1, :1]], "X[1] has 1 features, but X[0] has 2: every row needs the same."),
        ([PIXELS[0], None], f"X[1] is None; {IMAGES}"),
        ([PIXELS[0], PIXELS[1] / 255], "X[1] is a value of the type ndarray, shape (8, 6, 3), dtype float64"),
        ([PIXELS[0] / 255], f"X[0] is a value of the type ndarray, shape (8, 6, 3), dtype float64; {IMAGES}"),
        (["a.png", 3], "X[1] is 3, but X[0] is a path: give one kind of samples."),
        (["a.png", "a.png"], "X[1] and X[0] are both 'a.png': name an image once, with all labels."),
        (["none/a.png", "none/b.png"], "X[0]: there is no file 'none/a.png' (2 of 2 files are missing: 'n"),
        (Changing(list(PIXELS), [0, 1, 2]), "X: the data set gives another image each time. Remove its"),
        (Failing([None], [0]), "X[0]: the data set fails: no such disk. Remove or repair this sample."),
        (
            Endless(),
            "X is a value of the type Endless, an IterableDataset, whose samples have only one",
        ),
        (WithoutLength(), "X is a value of the type WithoutLength without a length: give its class a method"),
    ],
)
def test_every_mistake_is_told(samples, message):
    assert message in refusal(read, samples)


def test_a_memory_map_is_not_copied(tmp_path):
    """8 MB are read in blocks, and nothing of their size is allocated, from the array to its splits."""
    shape = 4000, 1000
    mapped = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float16, shape)
    mapped[:] = np.arange(1000) % 7
    labels = np.arange(4000) % 5
    for samples in (np.load(tmp_path / "x.npy", mmap_mode="r"), torch.from_numpy(mapped)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("spml.data.matrix.CHUNK", 1 << 16)
            tracemalloc.start()
            data = start_opening(DataConfig(), records=read_memory(samples, labels, DataConfig())).finish()
            data.fingerprint()
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        inputs = data.splits["train"].inputs
        assert np.shares_memory(inputs._matrix, np.asarray(samples))
        assert inputs.fetch([5]).tolist() == [(np.arange(1000) % 7).tolist()]
        assert peak < mapped.nbytes / 4
