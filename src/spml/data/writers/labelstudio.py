"""Label Studio JSON: a list of tasks with annotations (given labels) and predictions (inferred ones)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from ..records import Records
from . import Files, register_writer
from .samples import Inferred, Sample, image_names, labelled_samples


@register_writer("labelstudio", "Label Studio JSON", suffix=".json")
def write_labelstudio(records: Records, inferred: Inferred, output: Path) -> tuple[Files, tuple[str, ...]]:
    """Write one task per image, for a project whose control is `<Choices name="choice" toName="image">`.

    A sample without any known label has no annotation. `meta` of a task holds what Label Studio has no field
    for: `known_negatives`, `inferred_negatives` and, in the first task, all `classes`; `meta` of the result
    of a prediction holds the score of each label. The split is a column of the data.
    """
    names, notes = image_names(records, output.parent)
    samples = labelled_samples(records, inferred, names)
    tasks = [_task(number, sample) for number, sample in enumerate(samples, start=1)]
    tasks[0].setdefault("meta", {})["classes"] = records.classes
    return {output: msgspec.json.encode(tasks).decode() + "\n"}, notes


def _task(number: int, sample: Sample) -> dict[str, Any]:
    data = {"image": "/data/local-files/?d=" + quote(sample.name)}
    if sample.split is not None:
        data["split"] = sample.split
    task: dict[str, Any] = {"id": number, "data": data}
    if sample.positive or sample.negative:
        task["annotations"] = [{"result": [_choices(sample.positive)] if sample.positive else []}]
    if sample.inferred:
        prediction: dict[str, Any] = {"model_version": "spml"}
        # All choices are one result, as Label Studio writes them, and a result has a single score.
        result = _choices(sample.inferred)
        if scores := {label: score for label, score in sample.inferred.items() if score is not None}:
            # The least certain of its labels says how much a task needs a look.
            prediction["score"] = min(scores.values())
            result["meta"] = {"scores": scores}
        task["predictions"] = [prediction | {"result": [result]}]
    meta = {"known_negatives": sample.negative, "inferred_negatives": list(sample.inferred_negative)}
    if any(meta.values()):
        task["meta"] = {key: labels for key, labels in meta.items() if labels}
    return task


def _choices(labels: Iterable[str]) -> dict[str, Any]:
    # The names of the tags are those of Label Studio's template for image classification.
    return {"from_name": "choice", "to_name": "image", "type": "choices", "value": {"choices": list(labels)}}
