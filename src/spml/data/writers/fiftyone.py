"""FiftyOne: a folder with samples.json and metadata.json, as FiftyOne exports a dataset."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from ...common.errors import InputError
from ..readers.fiftyone import FIELDS, GIVEN, METADATA, SAMPLES, SEVERAL, SINGLE
from ..records import Records
from . import Files, register_writer
from .samples import Inferred, Sample, image_names, labelled_samples

VERSION = "1.0.0"  # of FiftyOne; later versions migrate the dataset when they read it
Entry = dict[str, Any]


@register_writer("fiftyone", "a FiftyOne dataset")
def write_fiftyone(records: Records, inferred: Inferred, output: Path) -> tuple[Files, tuple[str, ...]]:
    """Write a dataset that `fiftyone.Dataset.from_dir` reads with the type `FiftyOneDataset`.

    Each kind of label has a field of type `Classifications`: known positives `ground_truth`, known negatives
    `negatives`, inferred positives `predictions`, each with its score as confidence, and inferred negatives
    `predicted_negatives`. `ground_truth` is not set where nothing is known. The split is a tag.
    """
    if output.suffix.lower() == ".json" or output.is_file():
        raise InputError(f"{output}: a FiftyOne dataset is a folder with two files; name a folder.")
    names, notes = image_names(records, output)
    if notes:
        notes = (*notes, "FiftyOne's Dataset.from_dir needs the same folder as rel_dir.")
    samples = [*map(_sample, labelled_samples(records, inferred, names))]
    fields = [key for key in FIELDS if any(key in sample for sample in samples)]
    metadata = {
        "name": records.name,
        "version": VERSION,
        "media_type": "image",
        "default_classes": records.classes,
        "sample_fields": [*_USUAL_FIELDS, *map(_label_field, fields)],
    }
    files = {SAMPLES: {"samples": samples}, METADATA: metadata}
    return {
        output / name: msgspec.json.encode(content).decode() + "\n" for name, content in files.items()
    }, notes


def _sample(sample: Sample) -> Entry:
    """One sample. Its ids depend on its name only, so that the same data gives the same file."""
    digest = _digest(sample.name)
    entry: Entry = {
        "_id": {"$oid": digest[:24]},
        "filepath": sample.name,
        "tags": [] if sample.split is None else [sample.split],
        "_media_type": "image",
        "_rand": 0.999 + 0.001 * int(digest[24:32], 16) / (1 << 32),  # by which FiftyOne draws samples
    }
    given, negative = dict.fromkeys(sample.positive), dict.fromkeys(sample.negative)
    labels = zip(FIELDS, (given, negative, sample.inferred, sample.inferred_negative), strict=True)
    for field, scores in labels:
        # Whoever stated what an image does not show has looked at it.
        if scores or (field == GIVEN and negative):
            classifications = [
                {"_id": {"$oid": _digest(sample.name, field, label)[:24]}, "_cls": SINGLE, "tags": []}
                | {"label": label}
                | ({} if score is None else {"confidence": score})
                for label, score in scores.items()
            ]
            entry[field] = {"_cls": SEVERAL, "classifications": classifications}
    return entry


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


# -- description of the fields -----------------------------------------------------------------------------


def _field(name: str, kind: str, **more: Any) -> Entry:
    return {
        "name": name,
        "ftype": f"fiftyone.core.fields.{kind}Field",
        "embedded_doc_type": None,
        "subfield": None,
        "fields": [],
        "db_field": "_id" if name == "id" else name,
        "description": None,
        "info": None,
        "read_only": False,
        "created_at": None,
    } | more


_LABELS = "fiftyone.core.labels."
_ID, _TAGS = _field("id", "ObjectId"), _field("tags", "List", subfield="fiftyone.core.fields.StringField")
_LABEL = [_ID, _TAGS, _field("label", "String"), _field("confidence", "Float"), _field("logits", "Vector")]
_IMAGE = [_field(name, "Int") for name in ("size_bytes", "width", "height", "num_channels")]
_IMAGE += [_field("mime_type", "String")]
_IMAGE_TYPE = "fiftyone.core.metadata.ImageMetadata"
_USUAL_FIELDS = (
    _ID,
    _field("filepath", "String"),
    _TAGS,
    _field("metadata", "EmbeddedDocument", embedded_doc_type=_IMAGE_TYPE, fields=_IMAGE),
    _field("_media_type", "String"),
    _field("_rand", "Float"),
    _field("_dataset_id", "ObjectId"),
    _field("created_at", "DateTime", read_only=True),
    _field("last_modified_at", "DateTime", read_only=True),
)
"""Fields that every dataset of images has."""


def _label_field(name: str) -> Entry:
    several = _field(
        "classifications",
        "List",
        embedded_doc_type=_LABELS + SINGLE,
        subfield="fiftyone.core.fields.EmbeddedDocumentField",
        fields=_LABEL,
    )
    fields = [several, _field("logits", "Vector")]
    return _field(name, "EmbeddedDocument", embedded_doc_type=_LABELS + SEVERAL, fields=fields)
