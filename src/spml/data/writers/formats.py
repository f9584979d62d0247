"""The formats that are written: CSV, COCO JSON, Label Studio JSON and NaN matrices."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterable, Sequence
from itertools import starmap
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ...common.errors import InputError
from ...common.spreadsheets import csv_text
from ..matrix import FeatureMatrix
from ..readers.coco import PATTERN, PREFIX
from ..records import Records
from ..splits import SPLITS
from ..tables.names import INFERRED, has_other_meaning
from ..texts import Texts
from . import Files, register_writer
from .samples import Inferred, Sample, image_files, image_names, labelled_samples


@register_writer("csv", "CSV", holds_groups=True)
def write_table(records: Records, inferred: Inferred, output: Path) -> tuple[Files, tuple[str, ...]]:
    """Write one column per class with 1 (positive), -1 (negative) or an empty cell (unknown).

    Columns in front are `file`, or `id` and `text` of texts, perhaps `split` and `group`. Inferred labels are
    in the further columns `inferred` and `inferred_negative`, each if there are any: names with scores, as in
    `cat:0.93;dog:0.71`. There, a backslash precedes `;`, `:` and a backslash that are part of a name.
    """
    texts = records.inputs if isinstance(records.inputs, Texts) else None
    names, notes = image_names(records, output.parent) if texts is None else (records.ids, ())
    own = ["file"] if texts is None else ["id", "text"]
    own += [*(["split"] if records.split else []), *(["group"] if records.groups else [])]
    further = {name: value for name, value in INFERRED.items() if (inferred.values == value).any()}
    for name in records.classes:
        others = (*own, *further)
        if name.lower() in others or has_other_meaning(name):
            raise InputError(
                f"{records.source}: the class {name!r} would be a column with another meaning in CSV. Rename "
                "it, or write another format."
            )

    def with_score(name: str, score: float | None) -> str:
        # The colon is always written, since `1` alone would look like a label of a class.
        return re.sub(r"([;:\\])", r"\\\1", name) + (":" if score is None else f":{score:.6g}")

    rows = [[*own, *records.classes, *further]]
    for row, sample in enumerate(labelled_samples(records, inferred, names)):
        marks = dict.fromkeys(sample.positive, "1") | dict.fromkeys(sample.negative, "-1")
        scores = {1: sample.inferred, -1: sample.inferred_negative}
        rows.append(
            [
                sample.name,
                *([] if texts is None else [texts[row]]),
                *([sample.split] if sample.split else []),
                *([sample.group] if sample.group is not None else []),
                *(marks.get(name, "") for name in records.classes),
                *(";".join(starmap(with_score, scores[value].items())) for value in further.values()),
            ]
        )
    return {output: csv_text(rows)}, notes


@register_writer("coco", "COCO JSON")
def write_coco(records: Records, inferred: Inferred, output: Path) -> tuple[Files, tuple[str, ...]]:
    """Write images, categories and annotations without boxes; known negatives are `neg_category_ids`.

    Data with a split becomes a folder with annotations/instances_SPLIT.json. Inferred labels are not
    annotations, so that no reader treats them as given. Positives are in a list `inferred_annotations`, each
    with `"inferred": true` and, if there is one, a `score`; negatives are in `inferred_neg_category_ids` of
    an image.
    """
    split = records.split
    names, notes = image_names(records, output.parent if split is None else output)
    samples = list(enumerate(labelled_samples(records, inferred, names), start=1))
    if records.objects is not None:
        notes = (*notes, "Boxes are not written: annotations say which classes an image shows.")
    if split is None:
        return {output: _coco(records.classes, samples)}, notes
    parts = [name for name in SPLITS if name in set(split)]
    if output.suffix.lower() == ".json" or output.is_file():
        raise InputError(
            f"{output}: COCO JSON holds each split in a file of its own, so data with {', '.join(parts)} "
            "samples is written to a folder; name one."
        )
    for path in sorted(output.glob(PATTERN)):
        if path.stem.removeprefix(PREFIX) not in parts:
            raise InputError(f"{path}: would be read as a part of this data. Move it away first.")
    return {
        output / PATTERN.replace("*", part): _coco(
            records.classes, [(number, sample) for number, sample in samples if sample.split == part]
        )
        for part in parts
    }, notes


def _coco(classes: Sequence[str], samples: Iterable[tuple[int, Sample]]) -> str:
    """Text of a file with numbered samples; the ids of categories and annotations begin with 1, too."""
    category = {name: number for number, name in enumerate(classes, start=1)}
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    inferred: list[dict[str, Any]] = []

    def annotate(entries: list[dict[str, Any]], image: int, name: str, **more: Any) -> None:
        entries.append({"id": len(entries) + 1, "image_id": image, "category_id": category[name], **more})

    for number, sample in samples:
        negatives = {
            "neg_category_ids": sample.negative, "inferred_neg_category_ids": sample.inferred_negative
        }  # fmt: skip
        absent = {key: [category[name] for name in names] for key, names in negatives.items() if names}
        images.append({"id": number, "file_name": sample.name, **absent})
        for name in sample.positive:
            annotate(annotations, number, name)
        for name, score in sample.inferred.items():
            annotate(inferred, number, name, inferred=True, **({} if score is None else {"score": score}))
    document = {
        "images": images,
        "categories": [{"id": number, "name": name} for name, number in category.items()],
        "annotations": annotations,
        **({"inferred_annotations": inferred} if inferred else {}),
    }
    return msgspec.json.encode(document).decode() + "\n"


@register_writer("labelstudio", "Label Studio JSON", suffix=".json")
def write_labelstudio(records: Records, inferred: Inferred, output: Path) -> tuple[Files, tuple[str, ...]]:
    """Write one task per image, for a project whose control is `<Choices name="choice" toName="image">`.

    Known labels are annotations, and inferred ones predictions. A sample without any known label has no
    annotation. `meta` of a task holds what Label Studio has no field for: `known_negatives`,
    `inferred_negatives` and, in the first task, all `classes`; `meta` of the result of a prediction holds the
    score of each label. The split is a column of the data.
    """
    names, notes = image_names(records, output.parent)

    def choices(labels: Iterable[str]) -> dict[str, Any]:
        # The names of the tags are those of Label Studio's template for image classification.
        value = {"choices": list(labels)}
        return {"from_name": "choice", "to_name": "image", "type": "choices", "value": value}

    tasks: list[dict[str, Any]] = []
    for number, sample in enumerate(labelled_samples(records, inferred, names), start=1):
        data = {"image": "/data/local-files/?d=" + urllib.parse.quote(sample.name)}
        if sample.split is not None:
            data["split"] = sample.split
        task: dict[str, Any] = {"id": number, "data": data}
        if sample.positive or sample.negative:
            task["annotations"] = [{"result": [choices(sample.positive)] if sample.positive else []}]
        if sample.inferred:
            prediction: dict[str, Any] = {"model_version": "spml"}
            # All choices are one result, as Label Studio writes them, and a result has a single score.
            result = choices(sample.inferred)
            if scores := {label: score for label, score in sample.inferred.items() if score is not None}:
                # The least certain of its labels says how much a task needs a look.
                prediction["score"] = min(scores.values())
                result["meta"] = {"scores": scores}
            task["predictions"] = [prediction | {"result": [result]}]
        meta = {"known_negatives": sample.negative, "inferred_negatives": list(sample.inferred_negative)}
        if any(meta.values()):
            task["meta"] = {key: labels for key, labels in meta.items() if labels}
        tasks.append(task)
    tasks[0].setdefault("meta", {})["classes"] = records.classes
    return {output: msgspec.json.encode(tasks).decode() + "\n"}, notes


@register_writer("nan", "a NaN matrix", suffix=".npz", holds_groups=True)
def write_nan(records: Records, inferred: Inferred, output: Path) -> tuple[Files, tuple[str, ...]]:
    """Write `Y`, float32 (N, C) with 1, 0 and NaN (unknown), `names`, `classes`, perhaps `split` and `group`.

    Features are in `X`, or in the arrays of a CSR matrix as the data has them, and their names, if there are,
    in `feature_names`. Inferred labels are in `inferred` and `inferred_score`, both float32 (N, C), NaN
    where there is none.
    """
    arrays: dict[str, Any] = {"Y": records.labels.to_nan(), "classes": np.array(records.classes, "U")}
    names: Sequence[str] = records.ids
    notes: tuple[str, ...] = ()
    if image_files(records) is not None:
        names, notes = image_names(records, output.parent)
    elif isinstance(records.inputs, FeatureMatrix):
        arrays |= _feature_arrays(records.inputs)
        if records.feature_names:
            arrays["feature_names"] = np.array(records.feature_names, "U")
    else:
        notes = ("The images are not in files of their own, so only their names and labels are written.",)
    for key, texts in (("names", names), ("split", records.split), ("group", records.groups)):
        if texts is not None:
            arrays[key] = np.array(texts, "U")
    if len(inferred.rows):
        for key, values in (("inferred", inferred.values == 1), ("inferred_score", inferred.scores)):
            arrays[key] = np.full((len(names), len(records.classes)), np.nan, np.float32)
            arrays[key][inferred.rows, inferred.columns] = values
    if records.labels.full:
        notes = (*notes, "Every label is known: read it with data.unlisted=negative.")
    return {output: lambda stream: np.savez_compressed(stream, **arrays)}, notes


def _feature_arrays(features: FeatureMatrix) -> dict[str, Any]:
    """The matrix, dense or as the arrays of a CSR matrix, as the data has it; all parts, if there are."""
    rows = np.arange(len(features))
    if features.num_parts:
        return {"X": features.by_part().fetch(rows).numpy()}
    if features.sparse is None:
        return {"X": features.dense(rows)}
    matrix = features.csr(rows)
    arrays = {key: getattr(matrix, key) for key in ("data", "indices", "indptr")}
    return {**arrays, "shape": np.array(matrix.shape), "format": np.array("csr")}
