"""Targets for data: every registered reader, tables of files to predict, and images."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.sparse
from PIL import Image

from spml.common.errors import LONGEST, InputError
from spml.common.files import json_sha256
from spml.config import DataConfig
from spml.data import list_inputs, open_dataset, start_opening
from spml.data.benchmarks import prepare
from spml.data.images.image_files import check_images
from tests.data.benchmarks.layouts import LAYOUTS
from tests.helpers.originals import (
    ARFF,
    COCO,
    GOOD,
    LABELS,
    PIECES,
    TABLE,
    TASKS,
    WIDE,
    feature_files,
    save_dataset,
)
from tests.hostile.fuzz.change import WORDS, of_bytes, of_images, of_json, of_npz, of_text
from tests.hostile.fuzz.judge import Target

COLUMNS = b"file label labels split train val cat dog | cat;dog a.png".split()
KEYS = (
    "X", "Y", "names", "classes", "split", "test", "data", "indices", "indptr", "shape", "Y_data", "Y_shape",
)  # fmt: skip
ARFF_WORDS = (
    b"@relation", b"@attribute", b"@data", b"numeric", b"{0,1}", b"-C 1", b"-C -9", b"%", b"?", b"{0 1}",
    b"string", b"date", b"{", b"}", b"0 1,",
)  # fmt: skip


def opened(path: Path, **options: object) -> Sequence[str]:
    """Open data for training, images unread, under both meanings of labels that are not listed."""
    texts: list[str] = []
    for unlisted in ("unknown", "negative"):
        config = DataConfig(path=str(path), unlisted=unlisted, **options)  # type: ignore[arg-type]
        data = start_opening(config).finish_unread()
        texts += [*data.notes, *(name[:LONGEST] for name in data.classes)]
    return texts


def file_target(
    name: str,
    path: Path,
    seeds: Sequence[bytes],
    change: object,
    *,
    weight: float = 1.0,
    source: Path | None = None,
) -> Target:
    """A target whose inputs are one file; what is opened is that file, or `source`."""

    def attempt(data: bytes) -> Sequence[str]:
        path.write_bytes(data)
        return opened(source or path)

    return Target(name, path.suffix, tuple(seeds), change, attempt, weight)  # type: ignore[arg-type]


def pictures(folder: Path, names: str) -> Path:
    """Make a folder with small images."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names.split()):
        Image.new("RGB", (20, 10), (number, 0, 0)).save(folder / name)
    return folder


def tables(folder: Path) -> list[Target]:
    """CSV and TSV, Parquet, and lists of files to predict."""
    pictures(folder, "a.png b.png c.png d.png")
    table = TABLE.replace(b"big cow;cat", b"cat")
    separated = b'"file";"labels"\r\na.png;"cat, dog"\r\nb.png;dog\r\nc.png;cat\r\nd.png;\r\n'
    targets = [
        file_target("csv", folder / "x.csv", [table, WIDE, separated], of_text((*WORDS, *COLUMNS))),
        file_target(
            "tsv", folder / "x.tsv", [each.replace(b",", b"\t") for each in (table, WIDE)], of_text()
        ),
        file_target("parquet", folder / "x.parquet", _parquet(), of_bytes((*WORDS, *COLUMNS))),
    ]
    listed = folder / "listed.csv"

    def predict(data: bytes) -> Sequence[str]:
        listed.write_bytes(data)
        return list_inputs([str(listed)])[0]

    targets.append(Target("files-to-predict", ".csv", (b"file\na.png\nb.png\n", table), of_text(), predict))
    return targets


def _parquet() -> list[bytes]:
    import pyarrow as pa
    from pyarrow import parquet

    files = [f"{name}.png" for name in "abcd"]
    lists = [["cat", "dog"], ["dog"], ["cat"], ["cat"]]
    marks = {"cat": [1, None, 0, 1], "dog": [True, False, None, True], "w": [4, 5, 6, 7]}
    split = ["train", "train", "val", "train"]
    found = []
    for compression in ("none", "snappy", "zstd"):
        for table in (
            pa.table({"file": files, "labels": lists, "split": split}),
            pa.table({"file": files, **marks}),
        ):
            stream = io.BytesIO()
            parquet.write_table(table, stream, compression=compression, row_group_size=3)
            found.append(stream.getvalue())
    return found


def documents(folder: Path) -> list[Target]:
    """COCO, Label Studio, and manifests of benchmarks."""
    pictures(folder, "a.png b.png c.png d.png")
    several = {**COCO, "annotations": [*COCO["annotations"], {"id": 4, "image_id": 5, "category_id": 9}]}
    coco, tasks = (json.dumps(each).encode() for each in (several, TASKS))
    pictures(folder / "coco" / "train", "a.png b.png c.png d.png")
    (folder / "coco" / "annotations").mkdir(parents=True)
    targets = [
        file_target("coco", folder / "coco.json", [coco], of_json((*WORDS, b'"id"', b'"images"'))),
        file_target("labelstudio", folder / "tasks.json", [tasks], of_json()),
        file_target(
            "coco-folder",
            folder / "coco" / "annotations" / "instances_train.json",
            [coco],
            of_json(),
            source=folder / "coco",
            weight=0.3,
        ),
    ]
    LAYOUTS["voc2012"](folder / "voc2012")
    manifest = prepare("voc2012", folder / "voc2012")
    content = json.loads(manifest.read_text())
    del content["sha256"]
    path = manifest.with_name("changed.json")

    def read(data: bytes) -> Sequence[str]:
        path.write_bytes(sealed(data))
        return opened(path)

    return [*targets, Target("manifest", ".json", (json.dumps(content).encode(),), of_json(), read, 0.5)]


def sealed(data: bytes) -> bytes:
    """JSON with its SHA-256, unless it has a field of that name already, or is damaged."""
    try:
        content = json.loads(data)
        if "sha256" in content:
            return data
        # The text stays as it is: it may hold a key twice, or numbers that Python would write in another way.
        end = data.rindex(b"}")
        return data[:end] + f', "sha256": "{json_sha256(content)}"'.encode() + data[end:]
    except (ValueError, TypeError, RecursionError, AttributeError):
        return data


def feature_targets(folder: Path) -> list[Target]:
    """Feature files and ARFF."""
    folder.mkdir(parents=True, exist_ok=True)
    sparse = _csr(scipy.sparse.csr_matrix(np.tile(np.eye(3, dtype=np.uint8), (2, 1))))
    labels = saved(**sparse)
    both = saved(X=np.eye(6), names=list("abcdef"), **{f"Y_{key}": value for key, value in sparse.items()})
    (folder / "pair").mkdir()
    np.savez(folder / "pair" / "p_X.npz", X=np.eye(6))
    (folder / "mulan.arff").write_bytes(ARFF)
    return [
        file_target("npz", folder / "x.npz", [*feature_files()[:4], both], of_npz(KEYS), weight=2),
        file_target("npz-labels", folder / "pair" / "p_Y.npz", [labels], of_npz(KEYS), weight=0.5),
        file_target("arff", folder / "x.arff", [ARFF], of_text((*WORDS, *ARFF_WORDS))),
        file_target("arff-labels", folder / "mulan.xml", [LABELS], of_text(), source=folder / "mulan.arff"),
    ]


def saved(**arrays: object) -> bytes:
    """Content of an .npz file."""
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def _csr(matrix: scipy.sparse.csr_matrix) -> dict[str, np.ndarray]:
    return {key: getattr(matrix, key) for key in ("data", "indices", "indptr", "shape")}


def folders(folder: Path) -> list[Target]:
    """PASCAL VOC, Hugging Face data sets, and folders of classes."""
    voc = folder / "voc"
    for name in ("Annotations", "ImageSets/Main"):
        (voc / name).mkdir(parents=True)
    pictures(voc / "JPEGImages", "1.jpg 2.jpg 3.jpg 4.jpg")
    cat = GOOD.replace(b"<difficult>1", b"<difficult>0")
    dog = cat.replace(b"cat", b"dog")
    for number, content in enumerate((cat, dog, dog, cat), 1):
        (voc / "Annotations" / f"{number}.xml").write_bytes(content)
    (voc / "ImageSets/Main/train.txt").write_text("1\n2\n4\n")
    (voc / "ImageSets/Main/val.txt").write_text("3\n")
    targets = [
        file_target(
            "voc-list", voc / "ImageSets/Main/train.txt", [b"1\n2\n4\n", b"2\n\n1\n"], of_text(), source=voc
        )
    ]
    annotated = shutil.copytree(voc, folder / "voc-annotated")
    words = of_text((*WORDS, *PIECES))
    path = annotated / "Annotations/1.xml"
    targets.append(
        file_target(
            "voc", path, [cat, cat.replace(b"<difficult>0", b"<difficult>1"), dog], words, source=annotated
        )
    )
    original = folder / "saved"
    save_dataset(original)
    for name, change in (("dataset_info", of_json()), ("state", of_json()), ("data", of_bytes())):
        copied = shutil.copytree(original, folder / f"saved-{name}")
        path = next(copied.glob(f"{name}.*"))
        targets.append(file_target(f"huggingface-{name}", path, [path.read_bytes()], change, source=copied))
    picture = (voc / "JPEGImages/1.jpg").read_bytes()

    def named(data: bytes) -> Sequence[str]:
        root = folder / "classes"
        shutil.rmtree(root, ignore_errors=True)
        for line in data.split(b"\n")[:20]:
            parts = [part[:100] for part in line.replace(b"\0", b"").split(b"/")[:4]]
            if not {b"..", b".", b""} & set(parts):
                path = root / Path(*map(_decoded, parts))
                try:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(picture + line)  # equal files would be one sample
                except OSError:  # one name is a folder of another one
                    continue
        root.mkdir(exist_ok=True)
        return opened(root)

    names = b"cat/1.png\ncat/2.png\ndog/3.png\ndog/4.jpg", b"train/cat/1.png\ntrain/dog/2.png\nval/cat/3.png"
    words = (*WORDS, b"train", b"val", b"test", b"/", b".png", b"cat", b"CAT", b"e\xcc\x81")
    return [*targets, Target("folders", ".txt", names, of_text(words), named, 0.3)]


def _decoded(name: bytes) -> str:
    return name.decode(errors="surrogateescape")


def image_targets(folder: Path) -> list[Target]:
    """Images in all formats: checking them, and a data set for training with one that is damaged."""
    seeds = []
    noise = np.random.default_rng(0).integers(0, 256, (16, 16, 4), np.uint8)
    for mode in ("RGB", "L", "RGBA", "P", "I;16", "CMYK"):
        image = Image.fromarray(noise).convert(mode if mode != "I;16" else "I").convert(mode)
        for kind in ("jpeg", "png", "webp", "gif", "tiff", "bmp"):
            stream = io.BytesIO()
            try:
                image.save(stream, format=kind)
            except (OSError, KeyError, ValueError):
                continue
            seeds.append(stream.getvalue())
    rotated = Image.Exif()
    rotated[0x0112] = 6
    stream = io.BytesIO()
    Image.fromarray(noise).convert("RGB").save(stream, format="jpeg", exif=rotated)
    seeds.append(stream.getvalue())
    path = pictures(folder, "a.png b.png c.png d.png") / "image"
    rows = folder / "rows.csv"
    rows.write_text("file,label\nimage,cat\nb.png,dog\nc.png,cat\nd.png,dog\n")

    def check(data: bytes) -> Sequence[str]:
        path.write_bytes(data)
        _, reasons = check_images([path], max_pixels=10**6, workers=0)
        if reasons:
            raise InputError(reasons[0])
        return []

    def load(data: bytes) -> Sequence[str]:
        path.write_bytes(data)
        config = DataConfig(path=str(rows), max_pixels=10**6, max_unreadable=0.5, workers=0, flip=True)
        data_set = open_dataset(config, size=8)
        for samples in data_set.splits.values():
            samples.inputs.fetch(range(len(samples)), None)
        return data_set.notes

    return [
        Target("images", ".image", tuple(seeds), of_images(), check, 3),
        Target("images-in-training", ".image", tuple(seeds), of_images(), load, 0.5),
    ]
