"""The parts common to all benchmarks: types of their facts and content, and the manifest."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ...common.documents import MAX_BYTES, read_text
from ...common.errors import InputError
from ...common.files import json_sha256, write_text
from ...common.safe import is_file
from ...labels import ObservedLabels
from ..hiding.protocol import protocol_observed, protocol_split
from ..readers.manifest import FORMAT, PARTS, image_paths
from ..writers.samples import known_by_sample

Report = Callable[[str], None]


class Part(NamedTuple):
    """An official part of a benchmark, in the row order of the protocol.

    Attributes:
        folder: Folder of the images, relative to the root.
        files: Image files, relative to that folder, with `/` between names.
        labels: Full labels; every label that is not listed is absent.
    """

    folder: str
    files: tuple[str, ...]
    labels: ObservedLabels


class Official(NamedTuple):
    """Content of the official files of a benchmark.

    Attributes:
        classes: Class names, in the order of the label columns.
        train: Official training set, of which the protocol holds out a part for validation.
        test: Test set of the protocol.
        notes: What was assumed or left out, one line each. They are part of the manifest and of its checksum.
    """

    classes: tuple[str, ...]
    train: Part
    test: Part
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Benchmark:
    """A published benchmark.

    Attributes:
        name: Name on the command line.
        title: Name in publications.
        page: URL of the official page.
        obtain: What to download there and where to unpack it, in whole sentences.
        train, test: Published numbers of official training and test images.
        mean_labels: Published mean of labels per training image.
        read: Function from the root to the content of its files; its errors need not say where to get them.
    """

    name: str
    title: str
    page: str
    obtain: str
    train: int
    test: int
    mean_labels: float
    read: Callable[[Path], Official]

    @property
    def source(self) -> str:
        """Where to get the files, for messages about missing and damaged ones."""
        return f"{self.obtain} Official page: {self.page}"


def find_folder(root: Path, candidates: Sequence[str], marker: str) -> str:
    """Return the first candidate (relative to the root) that contains `marker`, or the first if none does."""
    return next((folder for folder in candidates if (root / folder / marker).exists()), candidates[0])


def existing(path: Path) -> Path:
    """The path of an official file.

    Raises:
        InputError: It is missing.
    """
    if not path.exists():
        raise InputError(f"{path}: is missing.")
    return path


def read_lines(path: Path) -> list[str]:
    """Read the lines of a text file, stripped and without empty lines.

    Raises:
        InputError: The file is missing, can't be read, or is not UTF-8 text.
    """
    return [line.strip() for line in read_text(existing(path), MAX_BYTES).splitlines() if line.strip()]


def images_exist(root: Path, part: Part) -> list[bool]:
    """Whether there is a file for each image of a part.

    Raises:
        InputError: An image lies outside the root.
    """
    return [is_file(path) for path in image_paths(root, part.folder, part.files, str(root))]


def write_manifest(benchmark: Benchmark, path: Path, official: Official, report: Report) -> None:
    """Split the benchmark, draw the observed labels, check the images, and write the manifest next to them.

    Raises:
        InputError: A part is empty, too small to be split, or without any image file; or an image lies
            outside the root.
        SpmlError: The manifest can't be written.
    """
    root = path.parent
    parts: dict[str, dict[str, Any]] = {}
    for name, part in zip(PARTS, (official.train, official.test), strict=True):
        if not part.files:
            raise InputError(
                f"{root}: the official {name} list of {benchmark.title} is empty. {benchmark.source}"
            )
        absent = [name for name, there in zip(part.files, images_exist(root, part), strict=True) if not there]
        if len(absent) == len(part.files):
            raise InputError(
                f"{root / part.folder}: contains none of the {len(absent):,} images, such as {absent[0]}. "
                f"{benchmark.source}"
            )
        if absent:
            report(
                f"{root / part.folder}: {len(absent):,} of {len(part.files):,} images are missing, such as "
                f"{absent[0]}. Check that the copy is complete; training skips a few missing images as "
                "unreadable."
            )
        parts[name] = {
            "folder": part.folder,
            "files": list(part.files),
            "labels": list(known_by_sample(part.labels, 1)),
            "observed": protocol_observed(part.labels).tolist(),
        }
    train, val = protocol_split(len(official.train.files))
    labels = {
        "train": official.train.labels.take(train),
        "val": official.train.labels.take(val),
        "test": official.test.labels,
        "official_train": official.train.labels,
    }
    statistics = {
        name: {"images": len(each), "mean_labels": round(float(each.positives_per_sample().mean()), 4)}
        for name, each in labels.items()
    }
    notes = [*official.notes, *_repeated(official), *_differences(benchmark, statistics)]
    content: dict[str, Any] = {
        "format": FORMAT,
        "name": benchmark.name,
        "classes": list(official.classes),
        "parts": parts,
        "val": val.tolist(),
        "statistics": statistics,
        "notes": notes,
    }
    content["sha256"] = json_sha256(content)
    write_text(path, json.dumps(content, separators=(",", ":")) + "\n")
    for note in notes:
        report(note)
    for name, numbers in statistics.items():
        report(f"{name}: {numbers['images']:,} images, {numbers['mean_labels']:.2f} labels per image")


def _repeated(official: Official) -> list[str]:
    """A note on images that are listed twice; they are kept, since the protocol's draws depend on them."""
    files = [f"{part.folder}/{file}" for part in (official.train, official.test) for file in part.files]
    name, times = Counter(files).most_common(1)[0]
    return [f"Some images are listed more than once, such as {name} ({times} times)."] if times > 1 else []


def _differences(benchmark: Benchmark, statistics: dict[str, dict[str, float]]) -> list[str]:
    """A note on the differences between this copy and the published benchmark."""
    train, test = statistics["official_train"], statistics["test"]
    differences = [
        f"{actual:,} {what} images instead of {published:,}"
        for what, actual, published in (
            ("training", train["images"], benchmark.train),
            ("test", test["images"], benchmark.test),
        )
        if actual != published
    ]
    # Publications round; a misread label file changes the mean by far more than a hundredth.
    if abs(train["mean_labels"] / benchmark.mean_labels - 1) > 0.01:
        mean = train["mean_labels"]
        differences.append(f"{mean:.2f} labels per training image instead of {benchmark.mean_labels}")
    if not differences:
        return []
    return [
        f"This copy is not the published {benchmark.title}: {'; '.join(differences)}. Its results can't be "
        "compared with published ones."
    ]
