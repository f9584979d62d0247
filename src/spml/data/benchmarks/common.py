"""The parts common to all benchmarks: types of their facts and content, the published protocol, the manifest.

The protocol says which images of the official training set are held out, and which positive label of each
image is observed: Cole et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021; later papers
kept it. Results are comparable with published ones only with these draws, reproduced to the bit, so they use
NumPy's legacy generator, whose stream is frozen.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...common.documents import MAX_BYTES, read_text
from ...common.errors import InputError
from ...common.files import json_sha256, write_text
from ...common.locks import Report
from ...common.safe import is_file
from ...labels import ObservedLabels
from ..readers.manifest import FORMAT, PARTS, image_paths
from ..writers.samples import known_by_sample

SEED = 1200
VAL_SHARE = 0.2


class Part(NamedTuple):
    """An official part of a benchmark, in the row order of the protocol."""

    folder: str  # folder of the images, relative to the root
    files: tuple[str, ...]  # image files, relative to that folder, with `/` between names
    labels: ObservedLabels  # full labels; every label that is not listed is absent


class Official(NamedTuple):
    """Content of the official files of a benchmark."""

    classes: tuple[str, ...]  # class names, in the order of the label columns
    train: Part  # official training set, of which the protocol holds out a part for validation
    test: Part  # test set of the protocol
    notes: tuple[str, ...] = ()  # what was assumed or left out. Part of the manifest and its checksum


@dataclass(frozen=True)
class Benchmark:
    """A published benchmark."""

    name: str  # name on the command line
    title: str  # name in publications
    page: str  # URL of the official page
    obtain: str  # what to download there and where to unpack it, in whole sentences
    train: int  # published number of official training images
    test: int  # published number of test images
    mean_labels: float  # published mean of labels per training image
    read: Callable[[Path], Official]  # from the root. Errors need not say where to get the files

    @property
    def source(self) -> str:
        """Where to get the files, for messages about missing and damaged ones."""
        return f"{self.obtain} Official page: {self.page}"


def find_folder(root: Path, candidates: Sequence[str], marker: str) -> str:
    """Return the first candidate (relative to the root) that contains `marker`, or the first if none does."""
    return next((folder for folder in candidates if (root / folder / marker).exists()), candidates[0])


def existing(path: Path) -> Path:
    """The path of an official file."""
    if not path.exists():
        raise InputError(f"{path}: is missing.")
    return path


def read_lines(path: Path) -> list[str]:
    """Read the lines of a text file, stripped and without empty lines."""
    return [line.strip() for line in read_text(existing(path), MAX_BYTES).splitlines() if line.strip()]


def images_exist(root: Path, part: Part) -> list[bool]:
    """Whether there is a file for each image of a part."""
    return [is_file(path) for path in image_paths(root, part.folder, part.files, str(root))]


def protocol_split(count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Training and validation rows, ascending: round(0.2 * count) of the official training set are held out.

    The held-out rows are the last of RandomState(1200).permutation(count). The protocol then draws a share of
    1 of both parts with RandomState(999) and sorts it, which has no effect and is left out here.
    """
    held = round(VAL_SHARE * count)
    if not 0 < held < count:
        raise InputError(
            f"the official training set has {count} images, too few to hold out {VAL_SHARE:.0%} for "
            "validation. Check that the copy is complete."
        )
    order = np.random.RandomState(SEED).permutation(count).astype(np.int64)
    return np.sort(order[:-held]), np.sort(order[-held:])


def protocol_observed(labels: ObservedLabels) -> npt.NDArray[np.int64]:
    """Column of the one positive label per sample that the protocol observes; -1 if the sample has none.

    A single RandomState(1200) shuffles the positive columns of each sample, of which the first is taken, and
    then the negative columns; none of those is taken, but the shuffle advances the generator. So `labels`
    must be those of a complete official part, in the row order of the protocol.
    """
    generator = np.random.RandomState(SEED)
    columns = np.nonzero(labels.to_multi_hot())[1]
    observed = np.full(len(labels), -1, np.int64)
    start = 0
    for row, count in enumerate(labels.positives_per_sample().tolist()):
        positives = columns[start : start + count]
        start += count
        generator.shuffle(positives)
        if count:
            observed[row] = positives[0]
        generator.shuffle(np.arange(labels.num_classes - count))
    return observed


def write_manifest(benchmark: Benchmark, path: Path, official: Official, report: Report) -> None:
    """Split a benchmark, draw the observed labels, check the images, and write the manifest next to them."""
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
    notes = [*official.notes]
    # Images that are listed twice are kept, since the protocol's draws depend on them.
    files = [f"{part.folder}/{file}" for part in (official.train, official.test) for file in part.files]
    name, times = Counter(files).most_common(1)[0]
    if times > 1:
        notes.append(f"Some images are listed more than once, such as {name} ({times} times).")
    notes += _differences(benchmark, statistics)
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
