"""FiftyOne: a folder with samples.json and metadata.json, as FiftyOne exports a dataset."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...errors import InputError
from ..readers.fiftyone import (
    GIVEN,
    METADATA,
    NEGATIVES,
    PREDICTED_NEGATIVES,
    PREDICTIONS,
    SAMPLES,
    SEVERAL,
    SINGLE,
)
from ..records import Records
from .inferred import Inferred, known_by_sample
from .names import image_names
from .registry import Files, register_writer

VERSION = "1.0.0"  # of FiftyOne; later versions migrate the dataset when they read it
_KINDS = (GIVEN, NEGATIVES, PREDICTIONS, PREDICTED_NEGATIVES)
_FIELDS, _LABELS = "fiftyone.core.fields.", "fiftyone.core.labels."
Entry = dict[str, Any]


@register_writer("fiftyone", "a FiftyOne dataset")
def write_fiftyone(records: Records, inferred: Inferred, output: Path) -> tuple[Files, tuple[str, ...]]:
    """Write a dataset that `fiftyone.Dataset.from_dir` reads with the type `FiftyOneDataset`.

    Each kind of label has a field of type `Classifications`: known positives `ground_truth`, known negatives
    `negatives`, inferred positives `predictions`, each with its score as confidence, and inferred negatives
    `predicted_negatives`. `ground_truth` is not set where nothing is known. The split is a tag.

    Raises:
        InputError: `output` is a file, or is named like one.
    """
    if output.suffix.lower() == ".json" or output.is_file():
        raise InputError(f"{output}: a FiftyOne dataset is a folder with two files; name a folder.")
    names, notes = image_names(records, output)
    if notes:
        notes = (*notes, "FiftyOne's Dataset.from_dir needs the same folder as rel_dir.")
    positive, negative = (known_by_sample(records.labels, value) for value in (1, -1))
    labels = zip(names, positive, negative, inferred.by_sample(len(names)), strict=True)
    samples = [
        _sample(records, row, name, present, absent, guesses)
        for row, (name, present, absent, guesses) in enumerate(labels)
    ]
    fields = [key for key in _KINDS if any(key in sample for sample in samples)]
    metadata = {
        "name": records.name,
        "version": VERSION,
        "media_type": "image",
        "default_classes": list(records.classes),
        "sample_fields": [*_usual_fields(), *map(_label_field, fields)],
    }
    files = {SAMPLES: {"samples": samples}, METADATA: metadata}
    return {
        output / name: json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n"
        for name, content in files.items()
    }, notes


def _sample(
    records: Records,
    row: int,
    name: str,
    positive: Sequence[int],
    negative: Sequence[int],
    guesses: Sequence[tuple[int, int, float]],
) -> Entry:
    """One sample. Its ids depend on its name only, so that the same data gives the same file."""
    classes = records.classes
    digest = _digest(name)
    sample: Entry = {
        "_id": {"$oid": digest[:24]},
        "filepath": name,
        "tags": [] if records.split is None else [records.split[row]],
        "_media_type": "image",
        "_rand": 0.999 + 0.001 * int(digest[24:32], 16) / (1 << 32),  # by which FiftyOne draws samples
    }
    if positive or negative:
        sample[GIVEN] = _labels(name, GIVEN, [(classes[column], math.nan) for column in positive])
    if negative:
        sample[NEGATIVES] = _labels(name, NEGATIVES, [(classes[column], math.nan) for column in negative])
    for field, sign in ((PREDICTIONS, 1), (PREDICTED_NEGATIVES, -1)):
        guessed = [(classes[column], score) for column, value, score in guesses if value == sign]
        if guessed:
            sample[field] = _labels(name, field, guessed)
    return sample


def _labels(name: str, field: str, labels: Sequence[tuple[str, float]]) -> Entry:
    """`Classifications` of one field of a sample; (class, confidence or NaN) of each."""
    return {
        "_cls": SEVERAL,
        "classifications": [
            {"_id": {"$oid": _digest(name, field, label)[:24]}, "_cls": SINGLE, "tags": [], "label": label}
            | ({"confidence": confidence} if confidence == confidence else {})
            for label, confidence in labels
        ],
    }


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


# -- description of the fields -----------------------------------------------------------------------------


def _usual_fields() -> list[Entry]:
    """Fields that every dataset of images has."""
    numbers = [_field(name, "IntField") for name in ("size_bytes", "width", "height", "num_channels")]
    metadata = [*numbers, _field("mime_type", "StringField")]
    return [
        _field("id", "ObjectIdField", db_field="_id"),
        _field("filepath", "StringField"),
        _field("tags", "ListField", subfield="StringField"),
        _field(
            "metadata",
            "EmbeddedDocumentField",
            document="fiftyone.core.metadata.ImageMetadata",
            fields=metadata,
        ),
        _field("_media_type", "StringField"),
        _field("_rand", "FloatField"),
        _field("_dataset_id", "ObjectIdField"),
        _field("created_at", "DateTimeField", read_only=True),
        _field("last_modified_at", "DateTimeField", read_only=True),
    ]


def _label_field(name: str) -> Entry:
    """A field of type `Classifications`."""
    label = [
        _field("id", "ObjectIdField", db_field="_id"),
        _field("tags", "ListField", subfield="StringField"),
        _field("label", "StringField"),
        _field("confidence", "FloatField"),
        _field("logits", "VectorField"),
    ]
    several = [
        _field(
            "classifications",
            "ListField",
            document=_LABELS + SINGLE,
            subfield="EmbeddedDocumentField",
            fields=label,
        ),
        _field("logits", "VectorField"),
    ]
    return _field(name, "EmbeddedDocumentField", document=_LABELS + SEVERAL, fields=several)


def _field(
    name: str,
    kind: str,
    *,
    document: str | None = None,
    subfield: str | None = None,
    fields: Sequence[Entry] = (),
    db_field: str = "",
    read_only: bool = False,
) -> Entry:
    return {
        "name": name,
        "ftype": _FIELDS + kind,
        "embedded_doc_type": document,
        "subfield": None if subfield is None else _FIELDS + subfield,
        "fields": list(fields),
        "db_field": db_field or name,
        "description": None,
        "info": None,
        "read_only": read_only,
        "created_at": None,
    }
