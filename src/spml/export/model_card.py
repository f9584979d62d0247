"""The model card: what a model is, what it learned from, how it was judged, and what it can't do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from ..common.errors import CONTROL
from ..common.phrases import first_few
from ..decisions import scores_of
from .model import Model

_SHOWN = 100
"""Classes in the table."""

_EXTENTS = {
    "single-positive": "one known positive label per sample; all others unknown",
    "partial": "some labels known, others unknown",
    "full": "all labels known",
}
_ORIGINS = {
    "stated": "stated by whoever trained the model",
    "audit": "estimated from fully labelled random samples",
    "labels": "mean of labels that are all known",
    "default": "not known; thresholds are placed as for this number",
}


def model_card(model: Model, *, with_timm: bool, reason: str = "") -> str:
    """Write README.md of a folder for the Hugging Face hub.

    Args:
        model: Trained model.
        with_timm: Whether timm loads the folder.
        reason: Why it does not, if it does not.
    """
    fields: dict[str, Any] = {
        "library_name": "timm" if with_timm else "spml",
        "tags": ["multi-label-classification", "single-positive", "spml"],
    }
    if model.size:
        fields["pipeline_tag"] = "image-classification"
        fields["tags"].append("image-classification")
    spec, top = model.classifier.spec, model.classifier.top.settings()
    numbers = " x ".join(map(str, model.classifier.feature_shape))
    inputs = f"{spec.size} x {spec.size} pixels" if model.size else f"{numbers} features"
    backbone = f"{text(spec.name)}, " if model.size else ""
    paragraphs = [
        f"---\n{yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)}---",
        f"# Multi-label classifier of {len(model.classes):,} classes",
        f"Network: {backbone}head {text(top['head'])}, inputs of {inputs}. Method: "
        f"{text(model.card['method']['name'])}. Each class has a probability and a decision of its own: a "
        "sample has any number of labels.",
        *_use(model, with_timm, reason),
    ]
    if model.summary is not None:
        paragraphs += [*_data(model, model.summary), *_evaluation(model.summary)]
    paragraphs += [*_thresholds(model), *_limits(model)]
    paragraphs += ["## Versions", f"Weights (SHA-256): `{model.card['weights_sha256']}`"]
    versions = (model.summary or {}).get("versions", {}).items()
    if kept := [f"{text(name)} {text(version)}" for name, version in versions if name != "machine"]:
        paragraphs.append(f"Trained with {', '.join(kept)}.")
    return "\n\n".join(paragraphs) + "\n"


def _use(model: Model, with_timm: bool, reason: str) -> list[str]:
    spec = model.classifier.spec
    if with_timm:
        return [
            "## Use",
            "```python\nimport timm\n\n"
            'network = timm.create_model("local-dir:FOLDER", pretrained=True).eval()  # or hf-hub:NAME\n```',
            f"Images are made upright, converted to RGB, resized to {spec.size} x {spec.size} pixels without "
            f"keeping the aspect ratio (Pillow, {spec.interpolation}), divided by 255, and normalised with "
            f"mean {list(spec.mean)} and standard deviation {list(spec.std)}. `thresholds.json` holds the "
            "score from which on each class is predicted, and, where K is known, the map from logits to "
            "probabilities.",
        ]
    return [
        "## Use",
        f"The folder keeps the layout of a run, because {text(reason)}:",
        "```python\nimport spml\n\n"
        f'run = spml.load("FOLDER"{", backbone=NETWORK" if spec.is_own else ""})\n'
        "run.predict(SAMPLES).labels\n```",
    ]


def _data(model: Model, summary: dict[str, Any]) -> Iterator[str]:
    data = summary["data"]
    yield "## Data"
    if "name" in data:
        yield f"Trained on {text(data['name'])}."
    if "samples" in data and "observed" in data:
        rows = ["| split | samples | known labels |", "|---|---:|---|"]
        for split, count in data["samples"].items():
            known = data["observed"].get(split, "")
            rows.append(f"| {text(split)} | {count:,} | {_EXTENTS.get(known, text(known))} |")
        yield "\n".join(rows)
    k = model.policy.mean_labels
    interval = "" if k.low is None or k.high is None else f", 95 % interval {k.low:.2f} to {k.high:.2f}"
    yield f"K, the mean number of labels per sample: {k.value:g} ({_ORIGINS[k.source]}{interval})."


def _evaluation(summary: dict[str, Any]) -> Iterator[str]:
    selected, test = summary["selected"], summary.get("test") or {}
    metric = selected["metric"]
    yield "## Selection and evaluation"
    yield (
        f"Selected ({text(selected.get('mode', 'not recorded'))}) by {text(metric)} on validation samples, "
        f"judged by {text(selected.get('labels', metric))}."
    )
    hidden = "all, hidden from training"
    known = _EXTENTS.get(summary["data"].get("observed", {}).get("val", ""), "labels that were used")
    rows = ["| measured on | metric | value | labels |", "|---|---|---:|---|"]
    for name, value in summary["validation"].items():
        if isinstance(value, (int, float)):
            labels = hidden if name == "val/mAP" else known
            rows.append(f"| validation | {text(name.removeprefix('val/'))} | {value:.3f} | {labels} |")
    rows += [f"| test | {text(name)} | {value:.3f} | {hidden} |" for name, value in test.items()]
    yield "\n".join(rows)
    if not test:
        yield "There were no fully labelled test samples, so mAP on such is not known."


def _thresholds(model: Model) -> Iterator[str]:
    yield "## Thresholds"
    source = model.policy.rows
    yield (
        f"Target: {text(model.policy.target.describe())}, decided on {source.count:,} samples "
        f"({text(source.source)}). Scores lie between 0 and 1. "
        + (
            "Precision and recall are estimates, because most labels are unknown."
            if model.policy.mean_labels.known
            else "K is not known, so precision and recall are not either."
        )
    )
    known = model.policy.mean_labels.known
    heads = ["class", "score", *(["precision", "recall"] if known else [])]
    rows = [f"| {' | '.join(heads)} |", "|---" + "|---:" * (len(heads) - 1) + "|"]
    cuts = {cut.name: cut for cut in model.policy.classes}
    thresholds = scores_of(model.thresholds, model.classifier.top.scale).tolist()
    for name, threshold in list(zip(model.classes, thresholds, strict=True))[:_SHOWN]:
        cut = cuts.get(name)
        estimates = (cut.precision, cut.recall) if cut else (None, None)
        shares = ["" if share is None else f"{100 * share:.0f} %" for share in estimates if known]
        score = "never" if threshold == float("inf") else f"{threshold:.3g}"
        rows.append(f"| {' | '.join([text(name), score, *shares])} |")
    yield "\n".join(rows)
    if len(model.classes) > _SHOWN:
        yield f"The other {len(model.classes) - _SHOWN:,} classes are in `thresholds.json`."


def _limits(model: Model) -> list[str]:
    summary = model.summary or {}
    limits = []
    if summary.get("data", {}).get("observed", {}).get("train") == "single-positive":
        limits.append(
            "The model learned from one known positive label per sample. A label that was not known may have "
            "been present, so absence was never shown to it."
        )
    if model.calibration is None:
        limits.append(
            "K is not known, so there are no calibrated probabilities: scores rank, and nothing more."
        )
    never = [name for name, cut in zip(model.classes, model.thresholds, strict=True) if cut == float("inf")]
    if never:
        limits.append(f"Never predicted: {first_few([*map(text, never)], _SHOWN)}.")
    limits += map(text, (*model.policy.warnings, *summary.get("warnings", ())))
    limits.append("Numbers hold for samples like those above. Other sources need an evaluation of their own.")
    return ["## Limits", "\n".join(f"- {limit}" for limit in limits)]


def text(value: object) -> str:
    r"""Text of a user as one line of Markdown that shows it as it is: nothing in it is markup.

    Example:
        >>> print(text("a|b <i>*c*</i>"))
        a\|b &lt;i&gt;\*c\*&lt;/i&gt;
    """
    line = CONTROL.sub(" ", str(value)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|#!~$])", r"\\\1", line)
