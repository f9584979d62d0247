"""Label Studio JSON: a list of tasks with annotations (given labels) and predictions (inferred ones)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ...errors import InputError
from ...files import write_text
from ..records import Records
from .common import Inferred, image_names, known_by_sample, refuse_existing

CONTROL, OBJECT = "choice", "image"  # names of the tags in Label Studio's template for image classification
MODEL = "spml"


def write_labelstudio(records: Records, inferred: Inferred, output: Path, overwrite: bool) -> tuple[str, ...]:
    """Write one task per image, for a project whose control is `<Choices name="choice" toName="image">`.

    A sample of which nothing is known has no annotation. What Label Studio has no place for is in `meta` of a
    task: `known_negatives`, scores of inferred labels, `inferred_negatives`, and in the first task all
    `classes`. The split is a column of the data.

    Raises:
        InputError: `output` is there or not called .json.
    """
    if output.suffix.lower() != ".json":
        raise InputError(f"{output}: Label Studio reads .json; end the name so.")
    refuse_existing(output, overwrite)
    names, notes = image_names(records, output.parent)
    positive, negative = (known_by_sample(records.labels, value) for value in (1, -1))
    known = zip(names, positive, negative, inferred.by_sample(len(names)), strict=True)
    tasks = [
        _task(records, row, name, yes, no, guesses) for row, (name, yes, no, guesses) in enumerate(known)
    ]
    tasks[0].setdefault("meta", {})["classes"] = list(records.classes)
    write_text(output, json.dumps(tasks, ensure_ascii=False, separators=(",", ":")) + "\n")
    return notes


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
    known = [score for score in scores.values() if score == score]
    if scores:
        # The least sure of its labels says how much a task needs a look.
        sure = {"score": min(known)} if known else {}
        task["predictions"] = [{"model_version": MODEL, **sure, "result": _result(list(scores))}]
    meta = {
        "known_negatives": [classes[column] for column in negative],
        "inferred_scores": {label: score for label, score in scores.items() if score == score},
        "inferred_negatives": [classes[column] for column, value, _ in guesses if value == -1],
    }
    if any(meta.values()):
        task["meta"] = {key: value for key, value in meta.items() if value}
    return task


def _result(names: Sequence[str]) -> list[dict[str, Any]]:
    if not names:
        return []
    return [{"from_name": CONTROL, "to_name": OBJECT, "type": "choices", "value": {"choices": list(names)}}]
