"""Decoding and resizing by torchvision: the pixels of Pillow, or nearly so, and its limits and messages."""

from __future__ import annotations

import io
import runpy
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import spml
from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import Augment, list_inputs
from spml.data.images import decoding
from spml.data.images.decoding import UnreadableImageError, decode
from spml.data.images.image_files import ImageFiles, MemoryImage
from tests.helpers.photos import scene


def encoded(image: Image.Image, kind: str = "JPEG", **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def by_pillow(data: bytes) -> np.ndarray:
    """Upright RGB by Pillow, (3, H, W)."""
    return decode(data, 10**6, lambda image: np.asarray(decoding.upright_rgb(image))).transpose(2, 0, 1)


def by_torchvision(data: bytes) -> torch.Tensor:
    return decode(data, 10**6, partial(decoding.decode_by_torchvision, data=data))


def turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Messages with which torchvision refused to decode; decoding is noted as an empty one."""
    import torchvision.io

    original, messages = torchvision.io.decode_jpeg, list[str]()

    def noting(*arguments: Any, **options: Any) -> torch.Tensor:
        try:
            result = original(*arguments, **options)
        except RuntimeError as error:
            messages.append(str(error))
            raise
        messages.append("")
        return result

    monkeypatch.setattr(torchvision.io, "decode_jpeg", noting)
    return messages


DAMAGED = b"Exif\x00\x00MM\x00*\xff\xff\xff\xff\x00\x01junk"


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"subsampling": 0},
        {"subsampling": 1},
        {"progressive": True},
        {"quality": 30, "optimize": True},
        {"kind": "MPO", "save_all": True, "append_images": [Image.new("RGB", (151, 113), "red")]},
        *({"exif": turned(orientation)} for orientation in range(10)),
        {"exif": DAMAGED},
    ],
)
def test_a_jpeg_has_the_pixels_of_pillow(refused: list[str], options: dict[str, Any]) -> None:
    data = encoded(scene(151, 113), **options)
    assert np.array_equal(by_torchvision(data), by_pillow(data))
    assert refused == [""]


OTHERS: dict[str, Callable[[], bytes]] = {
    "grey": lambda: encoded(scene().convert("L")),
    "CMYK": lambda: encoded(scene().convert("CMYK")),
    "PNG": lambda: encoded(scene(), "PNG"),
    "16 bits": lambda: encoded(Image.fromarray(np.arange(4000, dtype=np.uint16).reshape(50, 80) * 16), "PNG"),
    "transparent": lambda: encoded(scene().convert("RGBA").resize((20, 20)), "PNG"),
    "palette": lambda: encoded(scene().convert("P"), "GIF"),
    "WebP": lambda: encoded(scene(), "WEBP"),
    "turned TIFF": lambda: encoded(scene(), "TIFF", exif=turned(6)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_pillow_decodes_the_rest(refused: list[str], name: str) -> None:
    data = OTHERS[name]()
    assert np.array_equal(by_torchvision(data), by_pillow(data))
    assert refused == []


def load(data: bytes, decoder: str, max_pixels: int = 10**6, **options: Any) -> torch.Tensor:
    return decoding.load_pixels(data, 32, "bilinear", max_pixels=max_pixels, decoder=decoder, **options)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_a_truncated_file_is_refused_as_by_pillow(refused: list[str], share: float) -> None:
    data = encoded(scene())
    messages = []
    for decoder in decoding.DECODERS:
        with pytest.raises(UnreadableImageError) as caught:
            load(data[: int(share * len(data))], decoder)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert messages[0].startswith("damaged: ")
    assert all(refused)


def test_what_torchvision_refuses_is_decoded_by_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    import torchvision.io

    def refuse(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("not supported")

    data = encoded(scene(), exif=turned(8))
    expected = load(data, "torchvision")
    monkeypatch.setattr(torchvision.io, "decode_jpeg", refuse)
    assert load(data, "torchvision").equal(expected)


def test_large_images_are_refused_before_they_are_decoded(refused: list[str]) -> None:
    with pytest.raises(UnreadableImageError, match=r"150 x 110 = 16,500 pixels, more than data\.max_pixels"):
        load(encoded(scene()), "torchvision", 16_499)
    assert refused == []


def test_long_images_are_refused_since_resizing_takes_memory_for_each_pixel_of_a_side() -> None:
    data = encoded(Image.new("L", (65_536, 1)), "PNG")
    with pytest.raises(UnreadableImageError, match=r"^65536 x 1 pixels, a side of more than 65,535$"):
        load(data, "pillow")
    assert load(encoded(Image.new("L", (1, 65_535)), "PNG"), "pillow").shape == (3, 32, 32)


def test_lack_of_memory_is_not_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(image: Image.Image) -> Image.Image:
        raise MemoryError

    monkeypatch.setattr(decoding, "upright_rgb", fail)
    with pytest.raises(MemoryError):
        load(encoded(Image.new("RGB", (4, 4))), "pillow")
    with pytest.raises(MemoryError):
        MemoryImage("X[0]", lambda: Image.new("RGB", (4, 4))).read_bytes()


@pytest.mark.parametrize("side", [32, 128, 300])  # down, down and up, up
@pytest.mark.parametrize("interpolation", decoding.TORCH_INTERPOLATIONS)
def test_resized_pixels_are_close_to_those_of_pillow(side: int, interpolation: str) -> None:
    data = encoded(scene(157, 111))
    first, second = (
        decoding.load_pixels(data, side, interpolation, max_pixels=10**6, decoder=decoder).int()
        for decoder in decoding.DECODERS
    )
    difference = (first - second).abs()
    assert difference.max() <= 2
    assert difference.float().mean() < 0.05


@pytest.mark.parametrize("interpolation", ["nearest", "lanczos"])
def test_interpolations_that_torch_lacks_are_those_of_pillow(interpolation: str) -> None:
    data = encoded(scene())
    first, second = (
        decoding.load_pixels(data, 40, interpolation, max_pixels=10**6, decoder=decoder)
        for decoder in decoding.DECODERS
    )
    assert first.equal(second)


def test_a_draft_is_decoded_by_pillow_and_resized_by_torch(refused: list[str]) -> None:
    data = encoded(scene(640, 480))
    with Image.open(io.BytesIO(data)) as image:
        image.draft(None, (64, 64))
        assert image.size == (160, 120)  # a quarter
        reduced = torch.from_numpy(np.array(image)).permute(2, 0, 1)
    expected = torch.nn.functional.interpolate(reduced[None], (32, 32), mode="bilinear", antialias=True)[0]
    assert load(data, "torchvision", draft=True).equal(expected)
    assert refused == []
    small = encoded(scene(100, 80))  # half of it would be less than twice the size
    assert load(small, "torchvision", draft=True).equal(load(small, "torchvision"))


# -- as a setting of the data and of a run -----------------------------------------------------------------


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder of 12 images in two classes, one format each."""
    for row in range(12):
        path = tmp_path / "photos" / ("cat", "dog")[row % 2] / f"{row}.{('jpg', 'png')[row % 2]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        scene(100 + row, 90 - row).save(path)
    return tmp_path / "photos"


def test_images_are_mirrored_after_decoding(photos: Path) -> None:
    files = sorted(photos.rglob("*.*"))
    inputs = ImageFiles(files, [""] * 12, size=24, flip=True, decoder="torchvision")
    plain, augmented = inputs.fetch(range(12)), inputs.fetch(range(12), Augment(0, 0))
    mirrored = [not one.equal(other) for one, other in zip(plain, augmented, strict=True)]
    assert 0 < sum(mirrored) < 12
    assert augmented[mirrored].equal(plain[mirrored].flip(-1))


def test_a_decoder_is_part_of_the_identity_of_pixels(photos: Path) -> None:
    files = sorted(photos.rglob("*.*"))
    first = ImageFiles(files, ["ab"] * 12, size=24)
    second = replace(first, decoder="torchvision", draft=False)
    assert first.fingerprint() != second.fingerprint()
    assert not (first.identities() == second.identities()).all(1).any()
    assert replace(second, decoder="pillow").fingerprint() == first.fingerprint()
    assert second.take([0]).fetch([0]).equal(second.fetch([0]))
    with pytest.raises(InputError, match="decoder 'opencv' is none of pillow, torchvision"):
        ImageFiles(files, [""] * 12, size=24, decoder="opencv")


def test_a_run_predicts_with_its_decoder(photos: Path, tmp_path: Path) -> None:
    run = spml.train(
        str(photos),
        method="an",
        epochs=1,
        output=str(tmp_path / "run"),
        data={"size": 24, "decoder": "torchvision", "val_share": 0.5},
        model={"backbone": "small_cnn"},
    )
    assert run.config.data.decoder == "torchvision"
    seen = []
    original = ImageFiles.load

    def load(inputs: ImageFiles, rows: Any, known: Any) -> Any:
        loaded = original(inputs, rows, known)
        seen.append(loaded.values)
        return loaded

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ImageFiles, "load", load)
        run.predict([str(photos)], workers=0)
    inputs = list_inputs([str(photos)], DataConfig(decoder="torchvision"), size=24)[1]
    assert torch.cat(seen).equal(inputs.fetch(range(12), None))
    assert not torch.cat(seen).equal(list_inputs([str(photos)], size=24)[1].fetch(range(12), None))


def test_damaged_exif_data_does_not_fill_the_log() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module = runpy.run_module(decoding.__name__)  # which adds its filter anew
        module["load_pixels"](encoded(scene(), exif=DAMAGED), 8, "bilinear", max_pixels=10**6)
    assert not [warning for warning in caught if "EXIF" in str(warning.message)]
