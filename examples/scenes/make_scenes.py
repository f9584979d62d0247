"""Compose photographs of grass, gravel and bricks on which several things lie, with one tag per photograph.

    python examples/scenes/make_scenes.py FOLDER

writes FOLDER/<tag>/<number>.jpg, where the tag is drawn from all that the scene shows, and FOLDER.csv with
all labels of each. The tutorials and the pictures of the documentation are made with such photographs.
SOURCES.md says where the parts come from.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

FOLDER = Path(__file__).parent
THINGS = ("ball", "basket", "bicycle", "chair", "dog", "duck", "hat", "rabbit")
"""In the order of things.png, from left to right."""
GROUNDS = {
    # Colours of the darkest, middle and brightest parts: the photographs are grey.
    "bricks": ("#2b1712", "#9c4f38", "#e9b89c"),
    "grass": ("#0f2208", "#4f7d28", "#c9dc86"),
    "gravel": ("#26241f", "#8f887b", "#ece6d8"),
}
SIZE = (256, 256)


def make_scene(rng: np.random.Generator, things: list[Image.Image]) -> tuple[Image.Image, list[str]]:
    """Compose a photograph; the photograph, and the names of all that it shows."""
    ground = str(rng.choice(sorted(GROUNDS)))
    photo = _ground(ground, rng)
    number = int(rng.choice([1, 2, 3], p=[0.3, 0.45, 0.25]))
    chosen = rng.choice(len(THINGS), number, replace=False)
    # One thing per column of the photograph, so that none hides another.
    columns = rng.choice(3, number, replace=False)
    for thing, column in zip(chosen, columns, strict=True):
        height = int(rng.integers(36, 76))
        picture = things[thing].resize((height, height), Image.Resampling.LANCZOS)
        if rng.random() < 0.5:
            picture = ImageOps.mirror(picture)
        picture = picture.rotate(rng.uniform(-15, 15), Image.Resampling.BICUBIC, expand=True)
        colours, alpha = picture.convert("RGB"), picture.getchannel("A")
        colours = ImageEnhance.Brightness(colours).enhance(rng.uniform(0.75, 1.05))
        centre = (column + rng.uniform(0.4, 0.6)) * SIZE[0] / 3
        left = int(np.clip(centre - picture.width / 2, 0, SIZE[0] - picture.width))
        top = int(rng.integers(SIZE[1] - picture.height))
        shadow = alpha.filter(ImageFilter.GaussianBlur(5)).point(lambda value: value // 2)
        photo.paste((10, 10, 10), (left + 6, top + 7), shadow)
        photo.paste(colours, (left, top), alpha)
    return photo, sorted([ground, *(THINGS[thing] for thing in chosen)])


def _ground(name: str, rng: np.random.Generator) -> Image.Image:
    """A part of a photograph of a ground, in its colours and in the light of some hour."""
    with Image.open(FOLDER / f"{name}.jpg") as grey:
        width = int(rng.integers(240, 400))
        height = width * SIZE[1] // SIZE[0]
        left, top = rng.integers(grey.width - width), rng.integers(grey.height - height)
        part = grey.convert("L").crop((left, top, left + width, top + height)).resize(SIZE)
    if rng.random() < 0.5:
        part = ImageOps.mirror(part)
    black, middle, white = GROUNDS[name]
    photo = ImageOps.colorize(ImageOps.autocontrast(part, cutoff=1), black, white, middle)
    return ImageEnhance.Brightness(photo).enhance(rng.uniform(0.7, 1.2))


def make_photos(folder: Path, number: int, seed: int = 0) -> None:
    """Write photographs into one folder per tag, and a table of all labels next to them."""
    rng = np.random.default_rng(seed)
    with Image.open(FOLDER / "things.png") as sheet:
        width = sheet.width // len(THINGS)
        things = [sheet.crop((width * i, 0, width * (i + 1), sheet.height)) for i in range(len(THINGS))]
    rows = []
    for index in range(number):
        photo, labels = make_scene(rng, things)
        file = folder / str(rng.choice(labels)) / f"{index:04}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        photo.save(file, quality=90)
        rows.append((file.relative_to(folder.parent).as_posix(), "|".join(labels)))
    with folder.with_suffix(".csv").open("w", newline="", encoding="utf-8") as table:
        csv.writer(table).writerows([("file", "labels"), *rows])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--number", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    make_photos(arguments.folder, arguments.number, arguments.seed)
