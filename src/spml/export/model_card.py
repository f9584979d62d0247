"""The model card: what a model is, what it learned from, how it was judged, and what it can't do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from ..common.errors import CONTROL
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
    "default": "assumed",
}


def model_card(model: Model, *, with_timm: bool, reason: str = "") -> str:
    """Write README.md of a folder for the Hugging Face hub.

    Args:
        model: Trained model.
        with_timm: Whether timm loads the folder.
        reason: Why it does not, if it does not.
    """
    lines = [*_front_matter(model, with_timm), "", *_introduction(model), "", *_use(model, with_timm, reason)]
    if model.summary is not None:
        lines += ["", *_data(model, model.summary), "", *_evaluation(model.summary)]
    lines += ["", *_thresholds(model), "", *_limits(model), "", *_versions(model)]
    return "\n".join(lines) + "\n"


def _front_matter(model: Model, with_timm: bool) -> list[str]:
    fields: dict[str, Any] = {
        "library_name": "timm" if with_timm else "spml",
        "tags": ["multi-label-classification", "single-positive", "spml"],
    }
    if model.size:
        fields["pipeline_tag"] = "image-classification"
        fields["tags"].append("image-classification")
    return ["---", *yaml.safe_dump(fields, sort_keys=False, allow_unicode=True).splitlines(), "---"]


def _introduction(model: Model) -> list[str]:
    spec, top = model.classifier.spec, model.classifier.top.settings()
    inputs = f"{spec.size} x {spec.size} pixels" if model.size else f"{top['num_features']} features"
    backbone = f"{text(spec.name)}, " if model.size else ""
    return [
        f"# Multi-label classifier of {len(model.classes):,} classes",
        "",
        f"Network: {backbone}head {text(top['head'])}, inputs of {inputs}. Method: "
        f"{text(model.card['method']['name'])}. Each class has a probability and a decision of its own: a "
        "sample has any number of labels.",
    ]


def _use(model: Model, with_timm: bool, reason: str) -> list[str]:
    lines = ["## Use", ""]
    if with_timm:
        spec = model.classifier.spec
        return [
            *lines,
            "```python",
            "import timm",
            "",
            'network = timm.create_model("local-dir:FOLDER", pretrained=True).eval()  # or hf-hub:NAME',
            "```",
            "",
            f"Images are made upright, converted to RGB, resized to {spec.size} x {spec.size} pixels without "
            f"keeping the aspect ratio (Pillow, {spec.interpolation}), divided by 255, and normalised with "
            f"mean {list(spec.mean)} and standard deviation {list(spec.std)}. `thresholds.json` holds the "
            "logit from which on each class is predicted, and, where K is known, the map from logits to "
            "probabilities.",
        ]
    return [
        *lines,
        f"The folder keeps the layout of a run, because {text(reason)}:",
        "",
        "```python",
        "import spml",
        "",
        f'run = spml.load("FOLDER"{", backbone=NETWORK" if model.classifier.spec.is_own else ""})',
        "run.predict(SAMPLES).labels",
        "```",
    ]


def _data(model: Model, summary: dict[str, Any]) -> Iterator[str]:
    data = summary["data"]
    yield "## Data"
    yield ""
    if "name" in data:
        yield f"Trained on {text(data['name'])}."
        yield ""
    if "samples" in data and "observed" in data:
        yield "| split | samples | known labels |"
        yield "|---|---:|---|"
        for split, count in data["samples"].items():
            known = data["observed"].get(split, "")
            yield f"| {text(split)} | {count:,} | {_EXTENTS.get(known, text(known))} |"
    if model.policy is not None:
        k = model.policy.mean_labels
        interval = "" if k.low is None or k.high is None else f", 95 % interval {k.low:.2f} to {k.high:.2f}"
        yield ""
        yield f"K, the mean number of labels per sample: {k.value:g} ({_ORIGINS[k.source]}{interval})."


def _evaluation(summary: dict[str, Any]) -> Iterator[str]:
    selected = summary["selected"]
    metric = selected["metric"]
    yield "## Selection and evaluation"
    yield ""
    yield (
        f"Selected ({text(selected.get('mode', 'not recorded'))}) by {text(metric)} on validation samples, "
        f"judged by {text(selected.get('labels', metric))}."
    )
    yield ""
    yield "| measured on | metric | value | labels |"
    yield "|---|---|---:|---|"
    for name, value in summary["validation"].items():
        if isinstance(value, (int, float)):
            labels = _labels_of(name, summary["data"].get("observed", {}).get("val", ""))
            yield f"| validation | {text(name.removeprefix('val/'))} | {value:.3f} | {labels} |"
    for name, value in (summary.get("test") or {}).items():
        yield f"| test | {text(name)} | {value:.3f} | all, hidden from training |"
    if not summary.get("test"):
        yield ""
        yield "There were no fully labelled test samples, so mAP on such is not known."


def _labels_of(metric: str, extent: str) -> str:
    """Which labels a validation metric needs."""
    if metric == "val/mAP":
        return "all, hidden from training"
    return _EXTENTS.get(extent, "labels that were used")


def _thresholds(model: Model) -> Iterator[str]:
    yield "## Thresholds"
    yield ""
    if model.policy is None:
        yield "One logit for all classes, at which K labels per validation sample were predicted."
    else:
        rows = model.policy.rows
        yield (
            f"Target: {text(model.policy.target.describe())}, decided on {rows.count:,} samples "
            f"({text(rows.source)}). Precision and recall are estimates, because most labels are unknown."
        )
    yield ""
    yield "| class | logit | precision | recall |"
    yield "|---|---:|---:|---:|"
    cuts = {cut.name: cut for cut in model.policy.classes} if model.policy else {}
    for name, threshold in list(zip(model.classes, model.thresholds, strict=True))[:_SHOWN]:
        cut = cuts.get(name)
        shares = [
            "" if share is None else f"{100 * share:.0f} %"
            for share in ((cut.precision, cut.recall) if cut else (None, None))
        ]
        logit = "never" if threshold == float("inf") else f"{threshold:.3f}"
        yield f"| {text(name)} | {logit} | {' | '.join(shares)} |"
    if len(model.classes) > _SHOWN:
        yield ""
        yield f"The other {len(model.classes) - _SHOWN:,} classes are in `thresholds.json`."


def _limits(model: Model) -> Iterator[str]:
    observed = (model.summary or {}).get("data", {}).get("observed", {})
    yield "## Limits"
    yield ""
    if observed.get("train") == "single-positive":
        yield (
            "- The model learned from one known positive label per sample. A label that was not known may "
            "have been present, so absence was never shown to it."
        )
    if model.calibration is None:
        yield "- K is not known, so there are no calibrated probabilities: scores rank, and nothing more."
    never = [name for name, cut in zip(model.classes, model.thresholds, strict=True) if cut == float("inf")]
    if never:
        shown = ", ".join(map(text, never[:_SHOWN])) + (", ..." if len(never) > _SHOWN else "")
        yield f"- Never predicted: {shown}."
    for warning in (
        *(model.policy.warnings if model.policy else ()),
        *(model.summary or {}).get("warnings", ()),
    ):
        yield f"- {text(warning)}"
    yield "- Numbers hold for samples like those above. Other sources need an evaluation of their own."


def _versions(model: Model) -> Iterator[str]:
    yield "## Versions"
    yield ""
    yield f"Weights (SHA-256): `{model.card['weights_sha256']}`"
    versions = (model.summary or {}).get("versions", {})
    kept = {name: version for name, version in versions.items() if name != "machine"}
    if kept:
        yield ""
        yield (
            "Trained with "
            + ", ".join(f"{text(name)} {text(version)}" for name, version in kept.items())
            + "."
        )


def text(value: object) -> str:
    r"""Text of a user as one line of Markdown that shows it as it is: nothing in it is markup.

    Example:
        >>> print(text("a|b <i>*c*</i>"))
        a\|b &lt;i&gt;\*c\*&lt;/i&gt;
    """
    line = CONTROL.sub(" ", str(value)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|#!~$])", r"\\\1", line)
