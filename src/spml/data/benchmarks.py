"""The four benchmarks of the field: their official files, and the protocol of the publications.

The protocol says which images of the official training set are held out, and which positive label of each
image is observed: Cole et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021; later papers
kept it. Results are comparable with published ones only with these draws, reproduced to the bit, so they use
NumPy's legacy generator, whose stream is frozen.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..common.documents import MAX_BYTES, load_json, read_text
from ..common.draws import permutation
from ..common.errors import InputError, nearest
from ..common.files import json_sha256, write_text
from ..common.locks import only_writer
from ..common.messages import log
from ..common.phrases import counted
from ..common.safe import is_file, quote
from ..labels import LabelError, ObservedLabels
from .readers.coco import Document
from .readers.manifest import FORMAT, PARTS, image_paths
from .readers.shards import load_array
from .writers.samples import known_by_sample

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


# -- PASCAL VOC 2012: `train` for training and validation, `val` for the test ------------------------------

VOC_CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable",
    "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
_VOC = Path("VOCdevkit/VOC2012")


def _read_voc(root: Path) -> Official:
    """Read the lists, with lines such as `2008_000008 -1`.

    1 = present, -1 = absent, 0 = present but difficult, which is treated as absent. Images are sorted by
    name; images without a present class are left out.
    """
    parts, notes = [], []
    for phase in ("train", "val"):
        present: dict[str, list[str]] = {}
        for name in VOC_CLASSES:
            path = root / _VOC / "ImageSets/Main" / f"{name}_{phase}.txt"
            for number, line in enumerate(read_lines(path), start=1):
                image, _, value = line.partition(" ")
                if value.strip() not in ("1", "0", "-1"):
                    raise InputError(
                        f"{path}: line {number} is {line[:100]!r}, but must be an image and -1, 0 or 1."
                    )
                names = present.setdefault(image, [])
                if value.strip() == "1":
                    names.append(name)
        images = sorted(image for image, names in present.items() if names)
        if count := len(present) - len(images):
            show = f"of the official {phase} list show"
            notes.append(
                f"{counted(count, f'image {show}s', f'images {show}')} no class (or only difficult objects) "
                f"and {'is' if count == 1 else 'are'} left out."
            )
        labels = ObservedLabels.from_names(
            (present[image] for image in images), VOC_CLASSES, unlisted="negative"
        )
        files = tuple(f"{image}.jpg" for image in images)
        parts.append(Part((_VOC / "JPEGImages").as_posix(), files, labels))
    return Official(VOC_CLASSES, parts[0], parts[1], tuple(notes))


VOC2012 = Benchmark(
    name="voc2012",
    title="PASCAL VOC 2012",
    page="http://host.robots.ox.ac.uk/pascal/VOC/voc2012/",
    obtain=(
        "Download VOCtrainval_11-May-2012.tar (2.0 GB) and unpack it into the root folder, so that it "
        "contains VOCdevkit/VOC2012/ImageSets/Main and VOCdevkit/VOC2012/JPEGImages."
    ),
    train=5717,
    test=5823,
    mean_labels=1.46,
    read=_read_voc,
)


# -- MS-COCO 2014: `train2014` for training and validation, `val2014` for the test -------------------------


def _read_coco(root: Path) -> Official:
    paths = [root / "annotations" / f"instances_{phase}.json" for phase in ("train2014", "val2014")]
    train, val = map(_read_coco_part, paths)
    if train[0] != val[0]:
        raise InputError(
            f"{paths[1]}: its categories are not those of instances_train2014.json, in the "
            "same order with the same ids. Use the official files."
        )
    return Official(tuple(train[0].values()), train[1], val[1])


def _read_coco_part(path: Path) -> tuple[dict[int, str], Part]:
    """Read the categories by id and the annotated images of an official annotation file.

    Categories have the order of the file, which is that of the label columns. Images have at least one
    annotation, crowds included, and are ordered by their ids as strings ('100010' before '9').
    """
    document = load_json(existing(path), Document)
    try:
        categories = {int(category.id): category.name for category in document.categories}
        files = {int(image.id): str(image.file_name) for image in document.images}
        present: dict[int, set[str]] = {}
        for annotation in document.annotations:
            present.setdefault(int(annotation.image_id), set()).add(categories[int(annotation.category_id)])
        images = sorted(present, key=str)
        names = tuple(files[image] for image in images)
        labels = ObservedLabels.from_names(
            (list(present[image]) for image in images), [*categories.values()], unlisted="negative"
        )
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise InputError(
            f"{path}: is not the official annotation file, or is damaged ({type(error).__name__}: {error})."
        ) from error
    return categories, Part(path.stem.removeprefix("instances_"), names, labels)


COCO2014 = Benchmark(
    name="coco2014",
    title="MS-COCO 2014",
    page="https://cocodataset.org/#download",
    obtain=(
        "Download annotations_trainval2014.zip, train2014.zip (13.5 GB) and val2014.zip (6.6 GB) and unpack "
        "them into the root folder, so that it contains annotations, train2014 and val2014."
    ),
    train=82_081,
    test=40_137,
    mean_labels=2.94,
    read=_read_coco,
)


# -- CUB-200-2011: 312 binary attributes of birds, with the official split ---------------------------------


def _read_cub(root: Path) -> Official:
    base = root / "CUB_200_2011"
    files, attributes = _numbered(base / "images.txt"), _numbered(root / "attributes.txt")
    is_train = _numbered(base / "train_test_split.txt")
    if len(is_train) != len(files) or not {*is_train} <= {"0", "1"}:
        raise InputError(
            f"{base / 'train_test_split.txt'}: must say 1 (training) or 0 (test) of each of the "
            f"{len(files):,} images of images.txt."
        )
    present = _attributes(
        existing(base / "attributes/image_attribute_labels.txt"), len(files), len(attributes)
    )
    parts = []
    for value in ("1", "0"):
        rows = [row for row, stated in enumerate(is_train) if stated == value]
        labels = ObservedLabels.from_multi_hot(present[rows], unlisted="negative")
        names = tuple(files[row] for row in rows)
        parts.append(Part("CUB_200_2011/images", names, labels))
    return Official(tuple(attributes), parts[0], parts[1])


def _numbered(path: Path) -> list[str]:
    """Read the texts of lines that are numbered from 1."""
    lines = [line.split(" ", 1) for line in read_lines(path)]
    for row, line in enumerate(lines, start=1):
        if line[0] != str(row) or len(line) == 1:
            raise InputError(
                f"{path}: line {row} is {quote(' '.join(line))}, but must be the number {row} and a text."
            )
    if not lines:
        raise InputError(f"{path}: is empty.")
    return [text.strip() for _, text in lines]


def _attributes(path: Path, images: int, attributes: int) -> npt.NDArray[np.uint8]:
    """Read is_present as a {0, 1} matrix of shape (images, attributes), ignoring the annotators' certainty.

    Lines are `image attribute is_present certainty seconds`; a few lines of the official file have a sixth
    number.
    """
    matrix = np.full((images, attributes), 2, np.uint8)
    try:
        table = np.loadtxt(
            path, np.int64, comments=None, usecols=(0, 1, 2), ndmin=2, max_rows=matrix.size + 1
        )
        if not ((table >= [1, 1, 0]) & (table <= [images, attributes, 1])).all():
            raise ValueError("an image or attribute is in no list, or is_present is neither 0 nor 1")
        matrix[table[:, 0] - 1, table[:, 1] - 1] = table[:, 2]
        if len(table) != matrix.size or (matrix == 2).any():
            raise ValueError(f"expected {matrix.size:,} lines, one for each image and attribute")
    except (OSError, ValueError, IndexError) as error:
        raise InputError(f"{path}: is not the official file, or is damaged ({error}).") from error
    return matrix


CUB200 = Benchmark(
    name="cub200",
    title="CUB-200-2011",
    page="https://www.vision.caltech.edu/datasets/cub_200_2011/",
    obtain=(
        "Download CUB_200_2011.tgz (1.2 GB) and unpack it into the root folder, so that it contains "
        "attributes.txt and CUB_200_2011/images.txt."
    ),
    train=5994,
    test=5794,
    mean_labels=31.4,
    read=_read_cub,
)


# -- NUS-WIDE: 81 concepts in photographs from Flickr, which are available on request only -----------------
# Publications on single positives use 150,000 training and 60,260 test images, in two ways: `nuswide` are the
# lists that some of them give as files, `nuswide-merged` is a random split of the official sets.

_CONCEPTS = "ConceptsList/Concepts81.txt"

TRAIN, TEST = 150_000, 60_260
MERGED = {"Train": 126_034, "Test": 84_226}
"""Images of the official training and test sets that Cui et al. merged."""


def _formatted(root: Path) -> list[Path]:
    return [
        root / f"formatted_{part}_{kind}.npy" for part in ("train", "val") for kind in ("images", "labels")
    ]


def _concepts(root: Path) -> tuple[str, ...]:
    names = tuple(read_lines(root / _CONCEPTS))
    if len(set(names)) < len(names) or any("/" in name or "\\" in name for name in names):
        raise InputError(f"{root / _CONCEPTS}: must hold distinct names of concepts, one per line.")
    return names


def _read_nuswide(root: Path) -> Official:
    """Read the formatted lists, which publications used, if they exist; else the official release.

    The release has `ImageList/{Train,Test}Imagelist.txt`, and one file of 0 and 1 per concept and part.
    """
    if any(path.is_file() for path in _formatted(root)):
        return _read_formatted(root)
    train, test = (_read_nuswide_part(root, phase) for phase in MERGED)
    note = (
        "Images and split are those of the official release, also images with no concept. Publications on "
        "single positives use lists of 150,000 and 60,260 images instead, which they give as "
        "formatted_*.npy: put those into the root folder to use them, or prepare nuswide-merged."
    )
    return Official(_concepts(root), train, test, (note,))


def _read_formatted(root: Path) -> Official:
    """Read `formatted_{train,val}_images.npy` (file names) and `_labels.npy` ((N, C) in {0, 1})."""
    parts: list[Part] = []
    lists = _formatted(root)
    for images_path, path in zip(lists[::2], lists[1::2], strict=True):
        names = load_array(existing(images_path))
        if names.ndim != 1 or names.dtype.kind != "U":
            raise InputError(f"{images_path}: must hold file names, but holds {names.dtype} {names.shape}.")
        try:
            labels = ObservedLabels.from_multi_hot(load_array(existing(path)), unlisted="negative")
        except LabelError as error:
            raise InputError(f"{path}: {error}.") from error
        if len(labels) != len(names):
            raise InputError(f"{path}: has {len(labels):,} rows for {len(names):,} images.")
        parts.append(_nuswide_part(names.tolist(), labels))
    width = parts[0].labels.num_classes
    if parts[1].labels.num_classes != width:
        raise InputError(f"{path}: has {parts[1].labels.num_classes} columns, but that of training {width}.")
    notes = ["Images and labels are those of the formatted lists (formatted_*.npy)."]
    if (root / _CONCEPTS).is_file() and len(_concepts(root)) == width:
        classes = _concepts(root)
        notes.append(f"Classes are named by {_CONCEPTS}; the columns are assumed to be in its order.")
    else:
        classes = tuple(map(str, range(width)))
        notes.append(f"Classes are called 0 to {width - 1}: the lists do not name them ({_CONCEPTS} would).")
    return Official(classes, parts[0], parts[1], tuple(notes))


def _read_nuswide_part(root: Path, phase: str) -> Part:
    classes, names = _concepts(root), read_lines(root / "ImageList" / f"{phase}Imagelist.txt")
    matrix = np.empty((len(names), len(classes)), np.uint8)
    for column, name in enumerate(classes):
        path = root / "Groundtruth" / "TrainTestLabels" / f"Labels_{name}_{phase}.txt"
        values = read_lines(path)
        if len(values) != len(names) or not set(values) <= {"0", "1"}:
            raise InputError(
                f"{path}: must hold 0 or 1 for each of the {len(names):,} images of "
                f"{phase}Imagelist.txt, but has {len(values):,} lines."
            )
        matrix[:, column] = np.array(values) == "1"
    return _nuswide_part(names, ObservedLabels.from_multi_hot(matrix, unlisted="negative"))


def _read_merged(root: Path) -> Official:
    """Merge the official sets and split them at random, as Cui et al. (LASD), appendix A.2.1.

    They state 126,034 and 84,226 images of the official sets (of 161,789 and 107,859), 150,000 for training
    and 60,260 for testing, and 1.89 labels per training image. Both sets lack the same share, and 1.89 is the
    mean with images that show no concept, so their images are probably those that Flickr still had. Neither
    the images nor the split are published: of more images as many are drawn, fewer are split in proportion.
    """
    parts = {phase: _read_nuswide_part(root, phase) for phase in MERGED}
    rows: dict[str, npt.NDArray[np.int64]] = {}
    absent = 0
    for phase, part in parts.items():
        present = np.flatnonzero(images_exist(root, part))
        absent += len(part.files) - len(present)
        drawn = permutation(len(present), "nuswide-merged", phase)[: MERGED[phase]]
        rows[phase] = present[np.sort(drawn)]
    files = tuple(parts[phase].files[row] for phase in MERGED for row in rows[phase])
    if not files:
        raise InputError(f"{root / 'Flickr'}: contains none of the images of the lists.")
    labels = ObservedLabels.join([parts[phase].labels.take(rows[phase]) for phase in MERGED])
    order, training = permutation(len(files), "nuswide-merged"), round(len(files) * TRAIN / (TRAIN + TEST))
    split = [np.sort(order[:training]), np.sort(order[training:])]
    train, test = (Part("Flickr", tuple(files[row] for row in part), labels.take(part)) for part in split)
    sizes = " and ".join(f"{len(rows[phase]):,}" for phase in MERGED)
    notes = [
        f"{sizes} images of the official training and test sets were merged and split at random, as in the "
        "publication of LASD. It does not say which images and which split it used: both are draws of spml."
    ]
    if absent:
        notes.append(f"{counted(absent, 'listed image is', 'listed images are')} not there and left out.")
    return Official(_concepts(root), train, test, tuple(notes))


def _nuswide_part(names: list[str], labels: ObservedLabels) -> Part:
    """Make a part of listed names, which have `\\` between folder and file."""
    files = tuple(name.strip().replace("\\", "/") for name in names)
    return Part("Flickr", files, labels)


_OBTAIN = (
    "Download ImageList.zip, Groundtruth.zip and ConceptsList.zip, ask for the images, which are given on "
    "request only, and unpack all into the root folder, images as Flickr/FOLDER/FILE.jpg."
)

NUSWIDE = Benchmark(
    name="nuswide",
    title="NUS-WIDE",
    page="https://lms.comp.nus.edu.sg/wp-content/uploads/2019/research/nuswide/NUS-WIDE.html",
    obtain=(
        f"{_OBTAIN} To compare with publications, add their formatted_train_images.npy, "
        "formatted_train_labels.npy, formatted_val_images.npy and formatted_val_labels.npy."
    ),
    train=TRAIN,
    test=TEST,
    mean_labels=1.89,
    read=_read_nuswide,
)

NUSWIDE_MERGED = replace(
    NUSWIDE,
    name="nuswide-merged",
    title="NUS-WIDE, merged and split at random",
    obtain=_OBTAIN,
    read=_read_merged,
)

BENCHMARKS = {benchmark.name: benchmark for benchmark in (VOC2012, COCO2014, NUSWIDE, NUSWIDE_MERGED, CUB200)}


# -- the protocol, and the manifest that `spml train` reads ------------------------------------------------


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
    notes = [*official.notes, *_differences(benchmark, statistics)]
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
