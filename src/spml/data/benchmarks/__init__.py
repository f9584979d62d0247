"""The four benchmarks of the field, with the protocol of the publications.

The protocol says which images of the official training set are held out, and which positive label of each
image is observed: Cole et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021; later papers
kept it. Results are comparable with published ones only with these draws, reproduced to the bit, so they use
NumPy's legacy generator, whose stream is frozen.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...common.errors import InputError, nearest
from ...common.files import json_sha256, write_text
from ...common.locks import only_writer
from ...common.messages import log
from ...labels import ObservedLabels
from ..readers.manifest import FORMAT, PARTS
from ..writers.samples import known_by_sample
from .official import BENCHMARKS, Benchmark, Official, images_exist

SEED = 1200
VAL_SHARE = 0.2


def prepare(name: str, root: str | Path) -> Path:
    """Check that a benchmark is complete, and write the manifest that `spml train` reads.

    The manifest contains the files, their labels, the published split and the labels that the published
    protocol observes (`--data.observe protocol`). Nothing is downloaded or copied.

    Args:
        name: `voc2012`, `coco2014`, `nuswide`, `nuswide-merged` or `cub200`.
        root: Folder that contains the official folders.

    Returns:
        Path of the manifest, ROOT/spml-NAME.json.

    Raises:
        InputError: The benchmark is unknown, incomplete (the message names what is missing and where to get
            it), or one of its files is damaged; or another process prepares it in this folder.
        SpmlError: The manifest can't be written.
    """
    if name not in BENCHMARKS:
        raise InputError(f"no benchmark {name!r}. {nearest(name, BENCHMARKS)}")
    benchmark, root = BENCHMARKS[name], Path(root)
    if not root.is_dir():
        raise InputError(f"{root}: no such folder. {benchmark.source}")
    manifest = root / f"spml-{benchmark.name}.json"
    with only_writer(manifest):
        log.info(f"{root}: reading {benchmark.title}")
        try:
            official = benchmark.read(root)
        except InputError as error:
            raise InputError(f"{error} {benchmark.source}") from error
        _write_manifest(benchmark, manifest, official)
    return manifest


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


def _write_manifest(benchmark: Benchmark, path: Path, official: Official) -> None:
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
            log.info(
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
        log.info(note)
    for name, numbers in statistics.items():
        log.info(f"{name}: {numbers['images']:,} images, {numbers['mean_labels']:.2f} labels per image")


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


__all__ = ["BENCHMARKS", "prepare", "protocol_observed", "protocol_split"]
