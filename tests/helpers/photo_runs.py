"""Photographs by class, and runs that are trained on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import spml

CLASSES = ("blue", "green", "red")


_COLUMNS = {"red": 0, "green": 1, "blue": 2}


def write_photos(folder: Path, count: int = 60, classes: tuple[str, ...] = CLASSES) -> Path:
    """Write images with squares of one to three colours, and a CSV with all their labels."""
    folder.mkdir(parents=True)
    generator = np.random.default_rng(0)
    lines = ["file,labels,split"]
    for number in range(count):
        pixels = generator.integers(0, 60, (24, 24, 3), np.uint8)
        colours = sorted(generator.choice(CLASSES, generator.integers(1, 4), replace=False))
        for colour in colours:
            x, y = generator.integers(0, 16, 2)
            pixels[x : x + 8, y : y + 8, _COLUMNS[colour]] = 255
        Image.fromarray(pixels).save(folder / f"{number:02d}.png")
        names = " ".join(classes[CLASSES.index(colour)] for colour in colours)
        lines.append(f"{number:02d}.png,{names},{'val' if number % 4 == 0 else 'train'}")
    path = folder / "labels.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def train_on(source: Path, output: Path, **settings: Any) -> Path:
    """Train a small network on images with hidden labels; returns the folder of the run."""
    data = {"unlisted": "negative", "observe": "single", "size": 24, "workers": 0, "separator": " "}
    spml.train(
        source,
        data={**data, **settings.pop("data", {})},
        model={"backbone": "small_cnn", "weights": "random", **settings.pop("model", {})},
        **{"epochs": 2, "batch_size": 16, "threads": 1, "accelerator": "cpu", **settings},
        output=str(output),
        quiet=True,
    )
    return output
