"""Images in files: colours, orientation, limits, damage, augmentation."""

from __future__ import annotations

import pickle
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from spml.data import Augment
from spml.data.images import FORMATS, ImageFiles, check_images
from spml.errors import InputError, SpmlError


def pixels(path: Path, size: int = 8) -> np.ndarray:
    """The one image as the program sees it, uint8 (size, size, 3)."""
    return opened([path], size).fetch([0]).numpy()[0].transpose(1, 2, 0)


def opened(paths: list[Path], size: int = 8, **options: object) -> ImageFiles:
    digests, wrong = check_images(paths, max_pixels=10**6)
    assert not wrong
    return ImageFiles(paths, digests, size=size, **options)


def reason(path: Path, max_pixels: int = 10**6) -> str:
    return check_images([path], max_pixels=max_pixels)[1][0]


def test_resizes_without_crop(tmp_path, picture):
    path = picture("a.png", (40, 10))
    expected = np.asarray(Image.open(path).resize((8, 8), Image.Resampling.BILINEAR))
    assert (pixels(path) == expected).all()
    other = opened([path], 8, interpolation="bicubic").fetch([0]).numpy()[0].transpose(1, 2, 0)
    assert (other == np.asarray(Image.open(path).resize((8, 8), Image.Resampling.BICUBIC))).all()
    with pytest.raises(InputError, match="'cubic' is none of nearest, bilinear"):
        ImageFiles([path], [""], size=8, interpolation="cubic")


def test_colour_modes(tmp_path):
    path = tmp_path / "x.png"
    half = np.zeros((8, 8, 4), np.uint8)
    half[:, 4:] = (255, 0, 0, 255)
    Image.fromarray(half).save(path)  # the left half is transparent
    assert pixels(path)[0, 0].tolist() == [255, 255, 255]
    assert pixels(path)[0, 7].tolist() == [255, 0, 0]

    palette = Image.new("P", (8, 8), 1)
    palette.putpalette([0, 0, 0, 10, 200, 30])
    palette.save(path)
    assert pixels(path)[3, 3].tolist() == [10, 200, 30]
    palette.save(path, transparency=1)
    assert pixels(path)[3, 3].tolist() == [255, 255, 255]

    deep = np.full((8, 8), 0x8040, np.uint16)
    Image.fromarray(deep).save(path)  # 16-bit grey: Pillow's own conversion would give 255
    assert pixels(path)[3, 3].tolist() == [0x80] * 3

    Image.new("LA", (8, 8), (0, 0)).save(path)
    assert pixels(path)[3, 3].tolist() == [255, 255, 255]
    Image.new("1", (8, 8), 1).save(path)
    assert pixels(path)[3, 3].tolist() == [255, 255, 255]

    jpeg = tmp_path / "x.jpg"
    Image.new("CMYK", (8, 8), (0, 255, 255, 0)).save(jpeg, quality=100)
    assert pixels(jpeg)[3, 3].tolist() == pytest.approx([255, 0, 0], abs=8)

    floats = tmp_path / "x.tif"
    Image.new("F", (8, 8), 0.5).save(floats)
    assert "range is not known" in reason(floats)
    Image.fromarray(np.full((8, 8), 70_000, np.int32)).save(floats)
    assert "range is not known" in reason(floats)
    Image.fromarray(np.full((8, 8), 0x8040, np.int32)).save(floats)
    assert pixels(floats)[3, 3].tolist() == [0x80] * 3


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation(tmp_path, orientation):
    path = tmp_path / "x.png"
    corner = np.zeros((8, 8, 3), np.uint8)
    corner[:3, :5] = 255
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(corner).save(path, exif=exif)
    assert (pixels(path) == np.asarray(ImageOps.exif_transpose(Image.open(path)))).all()
    assert (pixels(path) == corner).all() == (orientation == 1)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_damaged_exif_is_no_reason_to_lose_an_image(tmp_path):
    path = tmp_path / "x.jpg"
    Image.new("RGB", (8, 8), "white").save(path, exif=b"Exif\x00\x00MM\x00*\xff\xff\xff\xff\x00\x01junk")
    assert pixels(path)[0, 0].tolist() == [255, 255, 255]


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "gif", "bmp", "tif"])
def test_truncation_is_found(tmp_path, picture, suffix):
    path = picture(f"x.{suffix}", (64, 64))
    assert check_images([path], max_pixels=10**6)[1] == {}
    data = path.read_bytes()
    for share in (0.3, 0.6, 0.9):
        path.write_bytes(data[: int(len(data) * share)])
        assert reason(path).startswith(("damaged", "not an image"))


def test_truncation_of_progressive_jpeg_is_found(tmp_path, picture):
    path = picture("x.jpg", (64, 64), progressive=True)
    path.write_bytes(path.read_bytes()[:-200])
    assert reason(path).startswith("damaged: image file is truncated")


def test_reasons(tmp_path, picture):
    path = tmp_path / "x.jpg"
    assert reason(path) == "can't be read: No such file or directory"
    path.write_bytes(b"")
    assert reason(path) == "the file is empty"
    path.write_bytes(b"not an image at all")
    assert reason(path) == f"not an image of a known format ({', '.join(FORMATS)})"
    Image.new("RGB", (4, 4)).save(path, format="PPM")  # a format that is not on the list
    assert reason(path).startswith("not an image of a known format")
    large = picture("large.png", (50, 40))
    assert reason(large, 1999) == "50 x 40 = 2,000 pixels, more than data.max_pixels = 1,999"
    assert check_images([large], max_pixels=2000)[1] == {}


@pytest.mark.parametrize(
    ("side", "message"), [(9_000, "9000 x 9000 = 81,000,000 pixels, more than"), (90_000, "exceeds limit")]
)
def test_header_is_looked_at_before_pixels_are_made(tmp_path, side, message):
    """A file of a few bytes that claims very many pixels is refused by its header."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    path = tmp_path / "bomb.png"
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + header + body)
    assert message in reason(path)
    assert "damaged" not in reason(path)


def test_a_file_that_changes_during_a_run(picture):
    path = picture("x.png")
    images = opened([path])
    path.unlink()
    with pytest.raises(SpmlError, match=r"x\.png: can't be read.*do not change the data") as caught:
        images.fetch([0])
    assert caught.value.exit_code == 1


def test_flip_depends_on_seed_epoch_and_row_only(picture):
    paths = [picture(f"{row}.png") for row in range(40)]
    images = opened(paths, flip=True)
    plain = images.fetch(range(40), None).numpy()

    def flipped(seed: int, epoch: int, rows: list[int]) -> list[bool]:
        batch = images.fetch(rows, Augment(seed, epoch)).numpy()
        for got, row in zip(batch, rows, strict=True):
            assert (got == plain[row]).all() or (got == plain[row][:, :, ::-1]).all()
        return [not (got == plain[row]).all() for got, row in zip(batch, rows, strict=True)]

    everything = list(range(40))
    first = flipped(0, 0, everything)
    assert 8 < sum(first) < 32
    assert flipped(0, 0, everything[::-1]) == first[::-1]
    assert flipped(0, 0, [7]) == [first[7]]
    assert flipped(0, 1, everything) != first
    assert flipped(1, 0, everything) != first
    assert not np.array_equal(images.fetch(everything, Augment(0, 0)), plain)
    assert np.array_equal(opened(paths, flip=False).fetch(everything, Augment(0, 0)), plain)


def test_take_fingerprint_and_pickle(picture):
    paths = [picture(f"{row}.png") for row in range(3)]
    images = opened(paths, flip=True)
    assert np.array_equal(images.take(np.array([2, 0])).fetch([0, 1]), images.fetch([2, 0]))
    assert len(images.take([1])) == 1
    copy = pickle.loads(pickle.dumps(images))
    assert np.array_equal(copy.fetch([1], Augment(0, 0)), images.fetch([1], Augment(0, 0)))
    assert copy.fingerprint() == images.fingerprint()
    assert images.take([0, 1]).fingerprint() != images.take([1, 0]).fingerprint()
    assert images.resized(16, "bilinear").fingerprint() != images.fingerprint()
    assert images.resized(16, "bicubic").fetch([0]).shape == (1, 3, 16, 16)
    before = images.fingerprint()
    Image.new("RGB", (20, 16)).save(paths[0])
    assert opened(paths).fingerprint() != before
