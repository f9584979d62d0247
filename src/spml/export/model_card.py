"""The model card: what a model is, what it learned from, how it was judged, and what it can't do."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import jinja2
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
    """Write README.md of a folder for the Hugging Face hub, from `model_card.md.j2`.

    Args:
        model: Trained model.
        with_timm: Whether timm loads the folder.
        reason: Why it does not, if it does not.
    """
    tags = ["multi-label-classification", "single-positive", "spml"]
    fields: dict[str, Any] = {"library_name": "timm" if with_timm else "spml", "tags": tags}
    if model.size:
        fields["pipeline_tag"] = "image-classification"
        tags.append("image-classification")
    policy, summary, top = model.policy, model.summary or {}, model.classifier.top
    known = summary.get("data", {}).get("observed", {}).get("val", "")
    never = [name for name, cut in zip(model.classes, model.thresholds, strict=True) if cut == float("inf")]
    versions = summary.get("versions", {}).items()
    environment = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    environment.filters |= {"text": text, "extent": lambda known: _EXTENTS.get(known, text(known))}
    template = (files(__package__) / "model_card.md.j2").read_text(encoding="utf-8")
    filled = environment.from_string(template).render(
        fields=yaml.safe_dump(fields, sort_keys=False, allow_unicode=True),
        classes=len(model.classes),
        size=model.size,
        spec=model.classifier.spec,
        head=top.settings()["head"],
        shape=model.classifier.feature_shape,
        method=model.card["method"]["name"],
        with_timm=with_timm,
        reason=reason,
        summary=summary,
        policy=policy,
        k=policy.mean_labels,
        origin=_ORIGINS[policy.mean_labels.source],
        known_labels=_EXTENTS.get(known, "labels that were used"),
        cuts=_cuts(model),
        calibrated=model.calibration is not None,
        never=first_few([*map(text, never)], _SHOWN),
        warnings=(*policy.warnings, *summary.get("warnings", ())),
        weights_sha256=model.card["weights_sha256"],
        versions=", ".join(f"{text(name)} {text(each)}" for name, each in versions if name != "machine"),
    )
    return re.sub(r"\n{3,}", "\n\n", filled).rstrip() + "\n"


def _cuts(model: Model) -> list[tuple[str, str, list[str]]]:
    """Name, score and, where K is known, estimated precision and recall of the first classes."""
    cuts = {cut.name: cut for cut in model.policy.classes}
    scores, rows = scores_of(model.thresholds, model.classifier.top.scale).tolist(), []
    for name, score in list(zip(model.classes, scores, strict=True))[:_SHOWN]:
        cut = cuts.get(name)
        estimates = (cut.precision, cut.recall) if cut else (None, None)
        shares = ["" if share is None else f"{100 * share:.0f} %" for share in estimates]
        rows.append(
            (
                name,
                "never" if score == float("inf") else f"{score:.3g}",
                shares if model.policy.mean_labels.known else [],
            )
        )
    return rows


def text(value: object) -> str:
    r"""Text of a user as one line of Markdown that shows it as it is: nothing in it is markup.

    Example:
        >>> print(text("a|b <i>*c*</i>"))
        a\|b &lt;i&gt;\*c\*&lt;/i&gt;
    """
    line = CONTROL.sub(" ", str(value)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|#!~$])", r"\\\1", line)
