"""COCO JSON: one file, or a folder with annotations/instances_SPLIT.json if the data has a split."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ...common.errors import InputError
from ..readers.coco import PATTERN, PREFIX
from ..records import Records
from ..splits import SPLITS
from . import Files, register_writer
from .samples import Inferred, Sample, image_names, labelled_samples

FOLDER = "annotations"


@register_writer("coco", "COCO JSON")
def write_coco(records: Records, inferred: Inferred, output: Path) -> tuple[Files, tuple[str, ...]]:
    """Write images, categories and annotations without boxes; known negatives are `neg_category_ids`.

    Inferred labels are not annotations, so that no reader treats them as given. Positives are in a list
    `inferred_annotations`, each with `"inferred": true` and, if there is one, a `score`; negatives are in
    `inferred_neg_category_ids` of an image.
    """
    split = records.split
    names, notes = image_names(records, output.parent if split is None else output)
    samples = list(enumerate(labelled_samples(records, inferred, names), start=1))
    if records.objects is not None:
        notes = (*notes, "Boxes are not written: annotations say which classes an image shows.")
    if split is None:
        return {output: _document(records.classes, samples)}, notes
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
        output / FOLDER / f"{PREFIX}{part}.json": _document(
            records.classes, [(number, sample) for number, sample in samples if sample.split == part]
        )
        for part in parts
    }, notes


def _document(classes: Sequence[str], samples: Iterable[tuple[int, Sample]]) -> str:
    """Text of a file with numbered samples; the ids of categories and annotations begin with 1, too."""
    category = {name: number for number, name in enumerate(classes, start=1)}
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    inferred: list[dict[str, Any]] = []
    for number, sample in samples:
        image: dict[str, Any] = {"id": number, "file_name": sample.name}
        for key, absent in (
            ("neg_category_ids", sample.negative),
            ("inferred_neg_category_ids", sample.inferred_negative),
        ):
            if absent:
                image[key] = [category[name] for name in absent]
        images.append(image)
        for name in sample.positive:
            entry = {"id": len(annotations) + 1, "image_id": number, "category_id": category[name]}
            annotations.append(entry)
        for name, score in sample.inferred.items():
            entry = {"id": len(inferred) + 1, "image_id": number, "category_id": category[name]}
            inferred.append(entry | {"inferred": True} | ({} if score is None else {"score": score}))
    document = {
        "images": images,
        "categories": [{"id": number, "name": name} for name, number in category.items()],
        "annotations": annotations,
    }
    if inferred:
        document["inferred_annotations"] = inferred
    return msgspec.json.encode(document).decode() + "\n"
