"""Attacks by images, folders of images, archives and weights."""

from __future__ import annotations

import json
import os
import pickle
import struct
import zlib
from pathlib import Path

from PIL import Image

from tests.hostile.attacks.attack import ESCAPE, Attack, Make, RunsCode, all_of, file, picture

PREDICT = "predict seen x.png --output p.csv"
INSPECT = "data inspect new"
OPTIONS = "--epochs 1 --data.size 32 --data.workers 0 --output out"
WEIGHTS = f"train photos --model.backbone auto --model.weights w.safetensors {OPTIONS}"


def chunk(kind: bytes, data: bytes) -> bytes:
    """Part of a PNG file."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, pixels: bytes, *more: bytes) -> bytes:
    """A PNG file with these compressed pixels and further parts."""
    size = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", size), *more, chunk(b"IDAT", pixels), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def image(width: int = 32, height: int = 32, *more: tuple[bytes, bytes], pixels: int = 32 * 97) -> Make:
    """Write x.png with pixels that are all zero, and parts of zeros: their kind, and how they begin."""

    def make(folder: Path) -> None:
        zeros = zlib.compress(bytes(100_000_000)) if more else b""
        parts = [chunk(kind, start + zeros) for kind, start in more]
        (folder / "x.png").write_bytes(png(width, height, zlib.compress(bytes(pixels)), *parts))

    return make


def classes(*more: Make) -> Make:
    """Write a folder with two classes of two images each, and something else."""

    def make(folder: Path) -> None:
        for number, name in enumerate(("a", "a", "b", "b")):
            path = folder / "new" / name / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (32, 32), (number, 0, 0)).save(path)
        all_of(*more)(folder)

    return make


def link(name: str, target: str) -> Make:
    return lambda folder: (folder / name).symlink_to(target)


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "new" / "a" / "x.png")


def cut_off(folder: Path) -> None:
    picture(folder / "y.png")
    data = (folder / "y.png").read_bytes()
    (folder / "x.png").write_bytes(data[: len(data) - 30])


def frames(folder: Path) -> None:
    """A GIF of 20,000 images, of which the first is read."""
    image = Image.new("P", (2, 2))
    more = [Image.new("P", (2, 2), number % 2) for number in range(20_000)]
    image.save(folder / "x.png", format="GIF", save_all=True, append_images=more)


def tiff(folder: Path) -> None:
    """A TIFF file of which one part claims 4 GB."""
    tags = {256: 32, 257: 32, 258: 8, 259: 1, 262: 1, 273: 8, 277: 1, 278: 32, 279: 0xFFFFFFFF}
    entries = b"".join(struct.pack("<HHLL", tag, 4, 1, value) for tag, value in tags.items())
    (folder / "x.png").write_bytes(b"II*\0" + struct.pack("<LH", 8, len(tags)) + entries + bytes(4))


POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 32 32\n(executed) (w) file closefile showpage\n"


def weights(sidecar: object) -> Make:
    """Write weights with a description next to them."""
    import torch
    from safetensors.torch import save

    text = sidecar if isinstance(sidecar, str) else json.dumps(sidecar)
    return all_of(file("w.safetensors", save({"a": torch.ones(1)})), file("w.json", text))


LISTS = [
    f"root/formatted_{part}.npy" for part in ("train_images", "train_labels", "val_images", "val_labels")
]
ATTACKS = (
    Attack("an image of 4e10 pixels", image(200_000, 200_000, pixels=40_000_000), PREDICT,
        "No usable image among 1 file: x.png (Image size (40000000000 pixels) exceeds limit of"),
    Attack("an image of 99 million pixels in 300 KB", image(9_900, 10_000, pixels=297_010_000), PREDICT,
        "p.csv: 1 sample", 0),
    Attack("an image with a text of 100 MB", image(32, 32, (b"zTXt", b"a\0\0")), PREDICT,
        "No usable image among 1 file: x.png (damaged: Decompressed data too large for"),
    Attack("an image with a colour profile of 100 MB", image(32, 32, (b"iCCP", b"a\0\0")), PREDICT,
        "No usable image among 1 file: x.png (damaged: Decompressed data too large for"),
    Attack("an image whose pixels unpack to 100 MB", image(pixels=100_000_000), PREDICT, "p.csv: 1 sample",
        0),
    Attack("an image that is cut off", cut_off, PREDICT,
        "No usable image among 1 file: x.png (damaged: image file is truncated)."),
    Attack("an image of 20,000 frames", frames, PREDICT, "p.csv: 1 sample", 0),
    Attack("an image that claims 4 GB", tiff, PREDICT,
        "No usable image among 1 file: x.png (damaged: image file is truncated (18 bytes not"),
    Attack("a PostScript program called x.png", file("x.png", POSTSCRIPT), PREDICT,
        "No usable image among 1 file: x.png (not an image of a known format (JPEG, PNG, WEBP, BMP,"),
    Attack("a pickle called x.png", file("x.png", pickle.dumps(RunsCode())), PREDICT,
        "No usable image among 1 file: x.png (not an image of a known format (JPEG, PNG, WEBP, BMP,"),
    Attack("an image that is an endless device", link("x.png", "/dev/zero"), PREDICT,
        "x.png: is a device or a pipe, but must be a file or a folder."),
    Attack("unreadable images in training", classes(file("new/a/x.png", POSTSCRIPT)),
        f"train new --model.backbone small_cnn --mean_labels 1 {OPTIONS}",
        "new: 1 of 5 images can't be used, more than data.max_unreadable = 0.01 allows: a/x.png (not"),
    Attack("a pipe that nobody writes to", classes(pipe), INSPECT, "1 file is not read: 1 .png.", 0),
    Attack("a link to an endless device", classes(link("new/a/x.png", "/dev/zero")), INSPECT,
        "1 file is not read: 1 .png.", 0),
    Attack("a link to a file elsewhere", classes(link("new/a/x.png", "../../../secret.txt")), INSPECT,
        "secret.txt', outside the folder new. Replace the link by the file."),
    Attack("a class that is a link to a folder elsewhere", classes(link("new/c", "/etc")), INSPECT,
        "new: 'new/c' is a link to '/etc', outside the folder new. Replace the link by the file. If"),
    Attack("a class that is a link to its own folder", classes(link("new/a/loop", "..")), INSPECT,
        "new: 4 images; no split", 0),
    Attack("a terminal escape as name of a class folder",
        classes(lambda folder: picture(folder / "new" / ESCAPE / "x.png")), INSPECT,
        "new: the name '\\x1b]0;owned\\x07' holds a line break, another control character, or a byte"),
    Attack("a terminal escape as name of an image",
        classes(lambda folder: picture(folder / "new" / "a" / f"{ESCAPE}.png")), INSPECT,
        "new/a: the name '\\x1b]0;owned\\x07.png' holds a line break, another control character, or a"),
    Attack("a name of bytes that are not text",
        classes(lambda folder: picture(folder / "new" / "a" / "\udcff.png")), INSPECT,
        r"new/a: the name '\udcff.png' holds a line break, another control character, or a byte that is"),
    Attack("lists of a benchmark that run code",
        all_of(*(file(name, pickle.dumps(RunsCode())) for name in LISTS)),
        "data prepare nuswide --root root",
        "root/formatted_train_images.npy: is not a .npy file, or is incomplete"),
    Attack("weights that run code", file("w.pt", pickle.dumps(RunsCode())),
        f"train photos --model.backbone test_efficientnet --model.weights w.pt {OPTIONS}",
        "Other formats are not opened, because they can contain programs."),
    Attack("weights that are a renamed pickle", file("w.safetensors", pickle.dumps(RunsCode())),
        f"train photos --model.backbone test_efficientnet --model.weights w.safetensors {OPTIONS}",
        "w.safetensors: not a readable .safetensors file (Error while deserializing header: header"),
    Attack("weights of a model from the network", weights({"timm_model": "hf-hub:somebody/model"}), WEIGHTS,
        "unknown backbone 'hf-hub:somebody/model': neither small_cnn nor a timm model. Known:"),
    Attack("weights with an option that opens files",
        weights({"timm_model": "test_efficientnet", "timm_kwargs": {"checkpoint_path": "../secret.txt"}}),
        WEIGHTS, "w.json: option 'checkpoint_path' is not one of pad_type, act_layer, norm_layer, bn_eps,"),
    Attack("weights for images of 10^9 pixels",
        weights({"timm_model": "test_efficientnet", "input_size": [3, 10**9, 10**9]}),
        WEIGHTS.replace("--data.size 32 ", ""),
        "w.json: size must be from 1 to 8192, got 1000000000. Correct the file, or remove it."),
)  # fmt: skip
