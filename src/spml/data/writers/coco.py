"""COCO JSON: one file, or with a split a folder with annotations/instances_SPLIT.json."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...errors import InputError, SpmlError
from ...files import write_text
from ..readers.coco import PATTERN, PREFIX
from ..records import Records
from ..splits import SPLITS
from .common import Inferred, image_names, known_by_sample, refuse_existing

FOLDER = "annotations"
Entry = dict[str, Any]


def write_coco(records: Records, inferred: Inferred, output: Path, overwrite: bool) -> tuple[str, ...]:
    """Write images, categories and annotations without boxes; known negatives are `neg_category_ids`.

    Inferred labels are no annotations, so that no reader takes them for given ones: positives are in a list
    `inferred_annotations`, each with `"inferred": true` and, if there is one, a `score`; negatives in
    `inferred_neg_category_ids` of an image.

    Raises:
        InputError: `output` is there, or is called as a file although the data has a split.
    """
    split = records.split
    if split is None:
        refuse_existing(output, overwrite)
    else:
        _check_folder(output, _parts(split), overwrite)
    names, notes = image_names(records, output.parent if split is None else output)
    images, given, guessed = _entries(records, names, inferred)
    if records.objects is not None:
        notes = (*notes, "Boxes are not written: annotations say which classes an image shows.")
    if split is None:
        _write(output, records.classes, images, given, guessed)
        return notes
    try:
        (output / FOLDER).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SpmlError(f"{output}: can't be made ({error.strerror}).") from error
    for part in _parts(split):
        rows = [row for row, of in enumerate(split) if of == part]
        _write(
            output / FOLDER / f"{PREFIX}{part}.json",
            records.classes,
            [images[row] for row in rows],
            [given[row] for row in rows],
            [guessed[row] for row in rows],
        )
    return notes


def _check_folder(output: Path, parts: Sequence[str], overwrite: bool) -> None:
    """Refuse a name of a file, and a folder with files that would be replaced or read as other splits."""
    if output.suffix.lower() == ".json" or output.is_file():
        raise InputError(
            f"{output}: COCO JSON holds each split in a file of its own, so data with {', '.join(parts)} "
            "samples is written to a folder; name one."
        )
    for path in sorted(output.glob(PATTERN)):
        refuse_existing(path, overwrite)
        if path.stem.removeprefix(PREFIX) not in parts:
            raise InputError(f"{path}: would be read as a part of this data. Move it away first.")


def _parts(split: Sequence[str]) -> list[str]:
    return [name for name in SPLITS if name in set(split)]


def _entries(
    records: Records, names: Sequence[str], inferred: Inferred
) -> tuple[list[Entry], list[list[Entry]], list[list[Entry]]]:
    """An image, its annotations, and the inferred ones, for each sample; ids of categories begin with 1."""
    positive, negative = (known_by_sample(records.labels, value) for value in (1, -1))
    images, given, guessed = [], [], []
    known = zip(names, positive, negative, inferred.by_sample(len(names)), strict=True)
    for number, (name, yes, no, guesses) in enumerate(known, start=1):
        image: Entry = {"id": number, "file_name": name}
        if no:
            image["neg_category_ids"] = [column + 1 for column in no]
        if wrong := [column + 1 for column, value, _ in guesses if value == -1]:
            image["inferred_neg_category_ids"] = wrong
        images.append(image)
        given.append([{"image_id": number, "category_id": column + 1} for column in yes])
        guessed.append(
            [
                {"image_id": number, "category_id": column + 1, "inferred": True}
                | ({"score": score} if score == score else {})
                for column, value, score in guesses
                if value == 1
            ]
        )
    return images, given, guessed


def _write(
    path: Path,
    classes: Sequence[str],
    images: Sequence[Entry],
    given: Sequence[Sequence[Entry]],
    guessed: Sequence[Sequence[Entry]],
) -> None:
    document = {
        "images": images,
        "categories": [{"id": number, "name": name} for number, name in enumerate(classes, start=1)],
        "annotations": _numbered(given),
    }
    if inferred := _numbered(guessed):
        document["inferred_annotations"] = inferred
    write_text(path, json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n")


def _numbered(groups: Sequence[Sequence[Entry]]) -> list[Entry]:
    flat = [entry for group in groups for entry in group]
    return [{"id": number, **entry} for number, entry in enumerate(flat, start=1)]
