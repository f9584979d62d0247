"""COCO JSON: one file, or a folder with annotations/instances_SPLIT.json if the data has a split."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import InputError
from ..readers.coco import PATTERN, PREFIX
from ..records import Records
from ..splits import SPLITS
from .inferred import Inferred, known_by_sample
from .names import image_names
from .registry import Files, register_writer

FOLDER = "annotations"
Entry = dict[str, Any]


class _Sample(NamedTuple):
    """One image with its annotations and its inferred annotations, which have no ids yet."""

    image: Entry
    annotations: list[Entry]
    inferred: list[Entry]


@register_writer("coco", "COCO JSON")
def write_coco(records: Records, inferred: Inferred, output: Path) -> tuple[Files, tuple[str, ...]]:
    """Write images, categories and annotations without boxes; known negatives are `neg_category_ids`.

    Inferred labels are not annotations, so that no reader treats them as given. Positives are in a list
    `inferred_annotations`, each with `"inferred": true` and, if there is one, a `score`; negatives are in
    `inferred_neg_category_ids` of an image.

    Raises:
        InputError: The data has a split, but `output` is named like a file, or holds files that would be read
            as further splits.
    """
    split = records.split
    names, notes = image_names(records, output.parent if split is None else output)
    samples = _samples(records, names, inferred)
    if records.objects is not None:
        notes = (*notes, "Boxes are not written: annotations say which classes an image shows.")
    if split is None:
        return {output: _document(records.classes, samples)}, notes
    parts = [name for name in SPLITS if name in set(split)]
    _check_folder(output, parts)
    files = {}
    for part in parts:
        chosen = [sample for sample, name in zip(samples, split, strict=True) if name == part]
        files[output / FOLDER / f"{PREFIX}{part}.json"] = _document(records.classes, chosen)
    return files, notes


def _check_folder(output: Path, parts: Sequence[str]) -> None:
    """Refuse the name of a file, and a folder with files that would be read as other splits."""
    if output.suffix.lower() == ".json" or output.is_file():
        raise InputError(
            f"{output}: COCO JSON holds each split in a file of its own, so data with {', '.join(parts)} "
            "samples is written to a folder; name one."
        )
    for path in sorted(output.glob(PATTERN)):
        if path.stem.removeprefix(PREFIX) not in parts:
            raise InputError(f"{path}: would be read as a part of this data. Move it away first.")


def _samples(records: Records, names: Sequence[str], inferred: Inferred) -> list[_Sample]:
    """Entries of each sample; ids of images and categories begin with 1."""
    positive, negative = (known_by_sample(records.labels, value) for value in (1, -1))
    samples = []
    labels = zip(names, positive, negative, inferred.by_sample(len(names)), strict=True)
    for number, (name, present, absent, guesses) in enumerate(labels, start=1):
        image: Entry = {"id": number, "file_name": name}
        if absent:
            image["neg_category_ids"] = [column + 1 for column in absent]
        if guessed_absent := [column + 1 for column, value, _ in guesses if value == -1]:
            image["inferred_neg_category_ids"] = guessed_absent
        given = [{"image_id": number, "category_id": column + 1} for column in present]
        guessed = [
            {"image_id": number, "category_id": column + 1, "inferred": True}
            | ({"score": score} if score == score else {})
            for column, value, score in guesses
            if value == 1
        ]
        samples.append(_Sample(image, given, guessed))
    return samples


def _document(classes: Sequence[str], samples: Sequence[_Sample]) -> str:
    document = {
        "images": [sample.image for sample in samples],
        "categories": [{"id": number, "name": name} for number, name in enumerate(classes, start=1)],
        "annotations": _number([sample.annotations for sample in samples]),
    }
    if inferred := _number([sample.inferred for sample in samples]):
        document["inferred_annotations"] = inferred
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n"


def _number(groups: Sequence[Sequence[Entry]]) -> list[Entry]:
    flat = [entry for group in groups for entry in group]
    return [{"id": number, **entry} for number, entry in enumerate(flat, start=1)]
