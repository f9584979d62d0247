"""Image files: colour modes, orientation, limits, damage, augmentation."""

from __future__ import annotations

import pickle
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torchvision import transforms

from spml.common.errors import InputError, SpmlError
from spml.config import DataConfig
from spml.data import Augment, Samples, open_dataset
from spml.data.images import decoding as module
from spml.data.images.decoding import FORMATS
from spml.data.images.image_files import ImageFiles, check_images
from spml.engine.loader import EpochBatches, make_loader
from spml.labels import ObservedLabels
from tests.helpers.photos import scene


def pixels(path: Path, size: int = 8) -> np.ndarray:
    """Decoded pixels of one image, uint8 (size, size, 3)."""
    return opened([path], size).fetch([0]).numpy()[0].transpose(1, 2, 0)


def opened(paths: list[Path], size: int = 8, **options: object) -> ImageFiles:
    digests, wrong = check_images(paths, max_pixels=10**6)
    assert not wrong
    return ImageFiles(paths, digests, size=size, **options)


def reason(path: Path, max_pixels: int = 10**6) -> str:
    return check_images([path], max_pixels=max_pixels)[1][0]


def grey(value: float, kind: object) -> Image.Image:
    return Image.fromarray(np.full((8, 8), value, kind))


def test_resizes_without_crop(tmp_path, picture):
    path = picture("a.png", (40, 10))
    expected = np.asarray(Image.open(path).resize((8, 8), Image.Resampling.BILINEAR))
    assert (pixels(path) == expected).all()
    other = opened([path], 8, interpolation="bicubic").fetch([0]).numpy()[0].transpose(1, 2, 0)
    assert (other == np.asarray(Image.open(path).resize((8, 8), Image.Resampling.BICUBIC))).all()
    with pytest.raises(InputError, match="'cubic' is none of nearest, bilinear"):
        ImageFiles([path], [""], size=8, interpolation="cubic")


WHITE = [255, 255, 255]
PALETTE = Image.new("P", (8, 8), 1)
PALETTE.putpalette([0, 0, 0, 10, 200, 30])
CLEAR = Image.new("RGBA", (8, 8), (10, 200, 30, 0))
MODES = {
    "palette": (PALETTE, "x.png", {}, [10, 200, 30]),
    "a transparent colour of a palette": (PALETTE, "x.png", {"transparency": 1}, WHITE),
    "an opacity per colour": (PALETTE, "x.png", {"transparency": bytes([255, 51])}, [206, 244, 210]),
    "GIF": (PALETTE, "x.gif", {"transparency": 1}, WHITE),
    "a transparent colour": (Image.new("RGB", (8, 8)), "x.png", {"transparency": (0, 0, 0)}, WHITE),
    "a transparent grey": (Image.new("L", (8, 8), 10), "x.png", {"transparency": 10}, WHITE),
    "transparent": (CLEAR, "x.png", {}, WHITE),
    "transparent WebP": (CLEAR, "x.webp", {}, WHITE),
    "transparent TIFF": (CLEAR, "x.tif", {}, WHITE),
    "transparent grey": (Image.new("LA", (8, 8), (0, 0)), "x.png", {}, WHITE),
    "black and white": (Image.new("1", (8, 8), 1), "x.png", {}, WHITE),
    "16 bits, which Pillow would clip": (grey(0x8040, np.uint16), "x.png", {}, [0x80] * 3),
    "16 bits in 32": (grey(0x8040, np.int32), "x.tif", {}, [0x80] * 3),
    "16 bits in TIFF": (grey(0x8040, ">u2"), "x.tif", {}, [0x80] * 3),
    "CMYK": (Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "x.jpg", {"quality": 100}, [255, 0, 0]),
}


@pytest.mark.parametrize(("image", "name", "options", "expected"), MODES.values(), ids=MODES)
def test_colour_modes(tmp_path, image, name, options, expected):
    image.save(tmp_path / name, **options)
    nearly = pytest.approx(expected, abs=8 if image.mode == "CMYK" else 0)
    assert pixels(tmp_path / name)[3, 3].tolist() == nearly


@pytest.mark.parametrize("image", [grey(0.5, np.float32), grey(70_000, np.int32)])
def test_pixels_whose_range_is_not_known(tmp_path, image):
    image.save(tmp_path / "x.tif")
    assert "range is not known" in reason(tmp_path / "x.tif")


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(colour_type: int, depth: int, rows: bytes, side: int = 8) -> bytes:
    """A PNG with the given rows, each of which begins with a zero (no filter)."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, depth, colour_type, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + header + body


@pytest.mark.parametrize(
    ("colour_type", "pixel", "expected"),
    [
        (0, (0x8040,), [0x80] * 3),
        (2, (0x1080, 0x20FF, 0xFF00), [0x10, 0x20, 0xFF]),
        (4, (0x8040, 0xFFFF), [0x80] * 3),
        (4, (0x8040, 0), [255] * 3),
        (6, (0x1080, 0x20FF, 0xFF00, 0xFFFF), [0x10, 0x20, 0xFF]),
        (6, (0x1080, 0x20FF, 0xFF00, 0), [255] * 3),
    ],
    ids=["grey", "colour", "grey opaque", "grey clear", "colour opaque", "colour clear"],
)
def test_sixteen_bits(tmp_path, colour_type, pixel, expected):
    path = tmp_path / "x.png"
    path.write_bytes(png(colour_type, 16, (b"\0" + struct.pack(f">{len(pixel)}H", *pixel) * 8) * 8))
    assert pixels(path)[3, 3].tolist() == expected


@pytest.mark.parametrize("name", ["x.gif", "x.webp", "x.png", "x.tif", "x.mpo"])
def test_first_of_several_frames(tmp_path, name):
    """Animations, pages, and the JPEG files with several images that phones write."""
    first, *others = (Image.new("RGB", (8, 8), colour) for colour in ("red", "blue", "lime"))
    path = tmp_path / name
    first.save(path, save_all=True, append_images=others)
    with Image.open(path) as image:
        assert image.n_frames == 3
    assert pixels(path)[3, 3].tolist() == pytest.approx([255, 0, 0], abs=3)


STORED = np.zeros((8, 8, 3), np.uint8)
STORED[:3, :5] = 255
# Upright image for each orientation; comments: where the Exif standard puts the first stored row and column.
UPRIGHT = {
    1: STORED,  # top, left
    2: STORED[:, ::-1],  # top, right
    3: STORED[::-1, ::-1],  # bottom, right
    4: STORED[::-1],  # bottom, left
    5: STORED.swapaxes(0, 1),  # left, top
    6: STORED.swapaxes(0, 1)[:, ::-1],  # right, top
    7: STORED.swapaxes(0, 1)[::-1, ::-1],  # right, bottom
    8: STORED.swapaxes(0, 1)[::-1],  # left, bottom
}


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tif"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation(tmp_path, orientation, suffix):
    path = tmp_path / f"x.{suffix}"
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"jpg": {"quality": 100}, "webp": {"lossless": True}}.get(suffix, {})
    Image.fromarray(STORED).save(path, exif=exif, **options)
    assert ((pixels(path) > 127) == (UPRIGHT[orientation] > 127)).all()


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "gif", "bmp", "tif", "avif"])
def test_truncation_is_detected(picture, suffix, progressive):
    path = picture(f"x.{suffix}", (64, 64), progressive=progressive)  # which only JPEG heeds
    assert check_images([path], max_pixels=10**6)[1] == {}
    data = path.read_bytes()
    for share in (0.3, 0.6, 0.9):
        path.write_bytes(data[: int(len(data) * share)])
        assert reason(path).startswith(("damaged", "not an image"))


def test_reasons(tmp_path, picture):
    path = tmp_path / "x.jpg"
    assert reason(path) == "can't be read: No such file or directory"
    path.write_bytes(b"")
    assert reason(path) == "the file is empty"
    path.write_bytes(b"not an image at all")
    assert reason(path).startswith(f"not an image of a known format ({', '.join(FORMATS)}")
    large = picture("large.png", (50, 40))
    assert reason(large, 1999) == "50 x 40 = 2,000 pixels, more than data.max_pixels = 1,999"
    assert check_images([large], max_pixels=2000)[1] == {}


@pytest.mark.parametrize("kind", ["PPM", "TGA", "PCX", "ICO", "EPS", "JPEG2000", "PDF", "SGI", "DDS", "IM"])
def test_other_formats_are_not_opened(tmp_path, kind):
    path = tmp_path / "x.jpg"
    Image.new("RGB", (16, 16)).save(path, format=kind)
    assert reason(path).startswith("not an image of a known format")


def test_a_file_that_changes_during_a_run(picture):
    path = picture("x.png")
    images = opened([path])
    path.unlink()
    with pytest.raises(SpmlError, match=r"x\.png: can't be read.*do not change the data") as caught:
        images.fetch([0])
    assert caught.value.exit_code == 1


def test_the_papers_transform(picture):
    """Resizing without crop and mirroring give the pixels of torchvision's transforms."""
    path = picture("x.jpg", (100, 75))
    with Image.open(path) as image:
        expected = transforms.PILToTensor()(transforms.Resize((448, 448))(image.convert("RGB")))
    images = opened([path], 448, flip=True)
    assert images.fetch([0])[0].equal(expected)
    views = [images.fetch([0], Augment(0, epoch))[0] for epoch in range(9)]
    assert {view.equal(expected) for view in views} == {True, False}
    assert all(view.equal(expected) or view.equal(expected.flip(-1)) for view in views)


# -- views -----------------------------------------------------------------------------------------------

VIEWS = [Augment(3, 5, 1), Augment(3, 5, 2, "strong"), Augment(3, 5, 3, "strong"), Augment(3, 5, 4)]


@pytest.fixture
def decoded(monkeypatch):
    """Counter of decoded images, in a list."""
    count, decode = [0], module.decode

    def counting(*arguments, **options):
        count[0] += 1
        return decode(*arguments, **options)

    monkeypatch.setattr(module, "decode", counting)
    return count


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("augment", [None, Augment(3, 5)], ids=["plain", "augmented"])
def test_fetch_views_equals_fetch_but_decodes_once(picture, decoded, augment, flip):
    images = opened([picture(f"{row}.png") for row in range(9)], 16, flip=flip)
    rows = [4, 8, 0, 4, 1, 2, 3, 5, 6]
    for further in ([], VIEWS[:1], VIEWS):
        decoded[0] = 0
        views = images.fetch_views(rows, augment, further)
        assert decoded[0] == len(rows)
        expected = [images.fetch(rows, each) for each in (augment, *further)]
        assert len(views) == len(expected)
        assert all(a.equal(b) for a, b in zip(views, expected, strict=True))
    assert [len(view) for view in images.fetch_views([], augment, VIEWS)] == [0] * 5


def test_a_loader_decodes_once_for_all_views(picture, decoded):
    images = opened([picture(f"{row}.png") for row in range(9)], 16, flip=True)
    samples = Samples(tuple("abcdefghi"), images, ObservedLabels.from_index(np.zeros(9, int), 2))
    batches = EpochBatches(9, 4, seed=3)
    batches.epoch, decoded[0] = 5, 0
    loaded = list(make_loader(samples, batches, 3, 0, False, views=[view.strength for view in VIEWS]))
    assert decoded[0] == 9
    for inputs, views, batch in loaded:
        for got, augment in zip((inputs, *views), (Augment(3, 5), *VIEWS), strict=True):
            assert got.equal(images.fetch(batch.index, augment))


# -- large photos ----------------------------------------------------------------------------------------


def test_draft_decodes_large_jpegs_smaller(tmp_path):
    large = tmp_path / "large.jpg"
    scene(800, 600).save(large, quality=90)
    plain, draft = opened([large], 64), opened([large], 64, draft=True)
    with Image.open(large) as image:
        image.draft(None, (128, 128))
        assert image.size == (200, 150)  # a quarter: an eighth would be 100 x 75
        expected = np.asarray(image.resize((64, 64), Image.Resampling.BILINEAR))
    got = draft.fetch([0]).numpy()[0].transpose(1, 2, 0)
    assert (got == expected).all()
    difference = abs(plain.fetch([0]).int() - draft.fetch([0]).int()).float()
    assert 0 < difference.mean() < 1
    assert difference.max() < 40
    assert draft.take([0]).fetch([0]).equal(draft.fetch([0]))
    assert draft.fingerprint() != plain.fingerprint()


def test_draft_does_not_affect_small_images_and_other_formats(tmp_path):
    # Half of 250 pixels would be less than twice the size.
    for name, *size in (("small.jpg", 250, 200), ("turned.jpg", 250, 800), ("other.png", 800, 600)):
        path = tmp_path / name
        scene(*size).save(path)
        assert opened([path], 64, draft=True).fetch([0]).equal(opened([path], 64).fetch([0]))


@pytest.mark.parametrize(
    "settings",
    [
        {"draft": True, "decoder": "torchvision", "flip": False, "crop": 0.5, "max_pixels": 999},
        {"draft": False, "decoder": "pillow", "flip": True, "crop": 1.0, "max_pixels": 10**6},
    ],
)
def test_settings_of_the_data_are_those_of_its_images(tmp_path, picture, settings):
    for name in ("cat/1.jpg", "cat/2.jpg", "dog/1.jpg", "dog/2.jpg"):
        picture(name)
    data = open_dataset(DataConfig(path=str(tmp_path), **settings), size=64)
    for samples in data.splits.values():
        assert {name: getattr(samples.inputs, name) for name in settings} == settings


def test_take_fingerprint_and_pickle(picture):
    paths = [picture(f"{row}.png") for row in range(3)]
    images = opened(paths, flip=True)
    assert np.array_equal(images.take(np.array([2, 0])).fetch([0, 1]), images.fetch([2, 0]))
    assert len(images.take([1])) == 1
    copy = pickle.loads(pickle.dumps(images))
    assert np.array_equal(copy.fetch([1], Augment(0, 0)), images.fetch([1], Augment(0, 0)))
    assert copy.fingerprint() == images.fingerprint()
    assert images.take([0, 1]).fingerprint() != images.take([1, 0]).fingerprint()
    assert opened(paths, 16, flip=True).fingerprint() != images.fingerprint()
    assert opened(paths, 16).fetch([0]).shape == (1, 3, 16, 16)
    before = images.fingerprint()
    Image.new("RGB", (20, 16)).save(paths[0])
    assert opened(paths).fingerprint() != before


# -- images that need not have been checked --------------------------------------------------------------


def test_a_batch_is_loaded_as_far_as_it_can_be_used(tmp_path, picture):
    broken, wide = tmp_path / "broken.png", tmp_path / "wide.tif"
    broken.write_bytes(b"broken")
    Image.fromarray(np.full((9, 9), 1.5, np.float32)).save(wide)
    paths = [picture("a.png"), broken, picture("b.png"), wide, tmp_path / "gone.png", picture("c.png")]
    images = ImageFiles(paths, [""] * 6, size=8)
    loaded = images.load(range(6), np.empty(0, np.uint64))
    assert loaded.rows == [0, 2, 5]
    assert loaded.values.equal(images.fetch([0, 2, 5]))
    assert sorted(loaded.unreadable) == [1, 3, 4]
    assert "not an image of a known format" in loaded.unreadable[1]
    assert "whose range is not known" in loaded.unreadable[3]
    assert loaded.unreadable[4].startswith("can't be read")
    digests, skipped = check_images(paths, max_pixels=10**6)
    assert skipped == loaded.unreadable
    checked = replace(images, digests=digests)
    assert np.array_equal(checked.identities()[[0, 2, 5]], loaded.identities[[0, 2, 5]])


def test_pixels_of_known_images_are_not_loaded(tmp_path, picture):
    paths = [picture("a.png"), picture("b.png")]
    digests, _ = check_images(paths, max_pixels=10**6)
    images = ImageFiles(paths, digests, size=8)
    known = np.sort(np.ascontiguousarray(images.identities()[:, :8]).view("<u8")[:, 0])
    paths[0].unlink()  # not read at all
    loaded = images.load([1, 0], known)
    assert (loaded.rows, loaded.unreadable, loaded.values.shape) == ([], {}, (0, 3, 8, 8))


def test_an_identity_is_that_of_the_pixels_and_a_stamp_that_of_the_files(tmp_path, picture):
    paths = [picture("a.png"), picture("b.png")]
    digests, _ = check_images(paths, max_pixels=10**6)
    images = ImageFiles(paths, digests, size=8)
    first, second = images.identities()
    assert not np.array_equal(first, second)
    assert np.array_equal(ImageFiles(paths[:1], digests[:1], size=8, flip=True).identities()[0], first)
    for other in ({"size": 9}, {"size": 8, "interpolation": "bicubic"}, {"size": 8, "draft": True}):
        assert not np.array_equal(ImageFiles(paths[:1], digests[:1], **other).identities()[0], first)
    stamp = images.stamp()
    assert ImageFiles(paths, ["", ""], size=8).stamp() == stamp
    paths[1].write_bytes(paths[1].read_bytes() + b"\0")
    assert images.stamp() != stamp


def test_avif_and_other_suffixes_of_jpeg(tmp_path, picture):
    for name in ("cat/1.avif", "cat/2.JFIF", "dog/3.jpe", "dog/4.png"):
        picture(name.replace("JFIF", "jfif"), (16, 16))
    data = open_dataset(DataConfig(path=str(tmp_path)), size=8)
    names = {name for samples in data.splits.values() for name in samples.ids}
    assert names == {"cat/1.avif", "cat/2.jfif", "dog/3.jpe", "dog/4.png"}
    assert abs(pixels(tmp_path / "cat/1.avif", 16).astype(int) - 128).mean() > 20  # noise, not a grey square


@pytest.fixture
def heic(tmp_path):
    """Left half red, right half blue; to be turned by 90 degrees according to its EXIF data."""
    pytest.importorskip("pillow_heif", reason="pillow-heif, which reads HEIC, is not installed")
    import pillow_heif

    colours = np.zeros((64, 96, 3), np.uint8)
    colours[:, :48, 0], colours[:, 48:, 2] = 255, 255
    exif = Image.Exif()
    exif[0x0112] = 6
    path = tmp_path / "photo.heic"
    pillow_heif.from_pillow(Image.fromarray(colours)).save(path, quality=90, exif=exif.tobytes())
    return path


def test_heic(heic):
    shown = pixels(heic)  # upright: red above blue
    assert (shown[:3, :, 0] > 200).all()
    assert (shown[5:, :, 2] > 200).all()
    assert reason(heic, max_pixels=100).startswith("96 x 64 = 6,144 pixels") or reason(
        heic, max_pixels=100
    ).startswith("64 x 96 = 6,144 pixels")
    renamed = heic.rename(heic.with_suffix(".jpg"))
    assert (pixels(renamed) == shown).all()
    renamed.write_bytes(renamed.read_bytes()[:100])
    assert reason(renamed).startswith("damaged")


def test_heic_without_its_package(heic, monkeypatch):
    monkeypatch.setattr(module, "HAS_HEIF", False)
    assert reason(heic) == "a HEIC photo, which pillow-heif reads: pip install pillow-heif"


def grey16(path, largest):
    """A 16-bit grey image whose largest value is given; half of it has half that value."""
    values = np.full((8, 8), largest, np.uint16)
    values[:, :4] = largest // 2
    Image.fromarray(values).save(path)
    return path


@pytest.mark.parametrize("suffix", ["png", "tif"])
@pytest.mark.parametrize(
    ("largest", "expected"), [(4095, 255), (256, 16), (2047, 127), (255, 0), (4096, 16), (65535, 255)]
)
def test_twelve_bits_are_scaled(tmp_path, suffix, largest, expected):
    path = grey16(tmp_path / f"x.{suffix}", largest)
    assert pixels(path)[0, 7].tolist() == [expected] * 3
    checked, unchecked = opened([path]), ImageFiles([path], [""], size=8)
    loaded = unchecked.load([0], np.empty(0, np.uint64))
    assert (loaded.identities == checked.identities()).all()
    assert loaded.values.equal(checked.fetch([0]))


def test_progress_of_checks_is_told(tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    steps = []
    check_images([tmp_path / "a.png"] * 20, max_pixels=10**6, advance=steps.append)
    assert steps == [1] * 20
