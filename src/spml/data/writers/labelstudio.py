"""Label Studio JSON: a list of tasks with annotations (given labels) and predictions (inferred ones)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..records import Records
from .inferred import Inferred, known_by_sample
from .names import image_names
from .registry import Files, register_writer

CONTROL, OBJECT = "choice", "image"  # names of the tags in Label Studio's template for image classification
MODEL = "spml"


@register_writer("labelstudio", "Label Studio JSON", suffix=".json")
def write_labelstudio(records: Records, inferred: Inferred, output: Path) -> tuple[Files, tuple[str, ...]]:
    """Write one task per image, for a project whose control is `<Choices name="choice" toName="image">`.

    A sample without any known label has no annotation. `meta` of a task holds what Label Studio has no field
    for: `known_negatives`, `inferred_negatives` and, in the first task, all `classes`; `meta` of the result
    of a prediction holds the score of each label. The split is a column of the data.
    """
    names, notes = image_names(records, output.parent)
    positive, negative = (known_by_sample(records.labels, value) for value in (1, -1))
    labels = zip(names, positive, negative, inferred.by_sample(len(names)), strict=True)
    tasks = [
        _task(records, row, name, present, absent, guesses)
        for row, (name, present, absent, guesses) in enumerate(labels)
    ]
    tasks[0].setdefault("meta", {})["classes"] = list(records.classes)
    return {output: json.dumps(tasks, ensure_ascii=False, separators=(",", ":")) + "\n"}, notes


def _task(
    records: Records,
    row: int,
    name: str,
    positive: Sequence[int],
    negative: Sequence[int],
    guesses: Sequence[tuple[int, int, float]],
) -> dict[str, Any]:
    classes = records.classes
    data = {"image": "/data/local-files/?d=" + quote(name)}
    if records.split is not None:
        data["split"] = records.split[row]
    task: dict[str, Any] = {"id": row + 1, "data": data}
    if positive or negative:
        task["annotations"] = [{"result": _result([classes[column] for column in positive])}]
    scores = {classes[column]: score for column, value, score in guesses if value == 1}
    numbers = {label: score for label, score in scores.items() if score == score}
    if scores:
        # The least certain of its labels says how much a task needs a look.
        certainty = {"score": min(numbers.values())} if numbers else {}
        # All choices are one result, as Label Studio writes them, and a result has a single score.
        (choices,) = _result(list(scores))
        if numbers:
            choices["meta"] = {"scores": numbers}
        task["predictions"] = [{"model_version": MODEL, **certainty, "result": [choices]}]
    meta = {
        "known_negatives": [classes[column] for column in negative],
        "inferred_negatives": [classes[column] for column, value, _ in guesses if value == -1],
    }
    if any(meta.values()):
        task["meta"] = {key: value for key, value in meta.items() if value}
    return task


def _result(names: Sequence[str]) -> list[dict[str, Any]]:
    if not names:
        return []
    return [{"from_name": CONTROL, "to_name": OBJECT, "type": "choices", "value": {"choices": list(names)}}]
