"""The page of a report: its sections in their order, as HTML without scripts or files of others."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Iterable
from html import escape
from importlib.resources import files

from ...common.errors import escaped
from ...config import AUTO
from ...methods.registry import methods
from ...metrics import FEWEST_SHOWN, shown_score
from .facts import Facts

# Nothing is loaded or run, whatever a name holds.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


_EXTENTS = {
    "single-positive": "one label of each, which it has; nothing is known about the others",
    "full": "all labels of each",
}
"""Which labels are known, in words."""


def text(value: object) -> str:
    """A value as HTML; control characters and halves of characters are escaped."""
    return escape(escaped(str(value)))


def data_address(content: bytes, media_type: str) -> str:
    """Address that holds a picture itself."""
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def paragraphs(*lines: str) -> str:
    """Paragraphs of HTML; empty ones are left out."""
    return "".join(f"<p>{line}</p>" for line in lines if line)


def bullets(items: Iterable[str]) -> str:
    """List of HTML."""
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def page(facts: Facts, classes: str, examples: str) -> str:
    """The whole page.

    Args:
        facts: What it tells besides classes.
        classes: Table of the classes, as HTML.
        examples: Samples of each class, as HTML.
    """
    title = f"What this model has learned from {text(facts.summary.data.name)}"
    style = (files(__package__) / "report.css").read_text(encoding="utf-8")
    sections = [
        ("", "In short", _in_short(facts)),
        ("warnings", "What to know before you rely on it", _warnings(facts)),
        ("", "How good it is", _quality(facts)),
        ("", "Classes", classes),
        ("", f"{facts.many.capitalize()} of each class", examples),
        ("", "How it was trained", _curves(facts)),
        ("", "What to do next", _next_steps(facts)),
        ("", "Commands", _commands(facts)),
    ]
    body = "".join(
        f'<section class="{kind}"><h2>{heading}</h2>{content}</section>\n'
        for kind, heading, content in sections
        if content
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title>\n<style>\n{style}</style></head>\n<body>\n"
        f'<h1>{title}</h1>\n<p class="soft">{text(facts.folder)}</p>\n{body}</body></html>\n'
    )


# -- sections ----------------------------------------------------------------------------------------------


def _in_short(facts: Facts) -> str:
    data, config, k = facts.summary.data, facts.config, facts.policy.mean_labels
    numbers = data.samples
    kept = (
        f"{facts.samples(numbers['train'])} to learn from, {facts.samples(numbers['val'])} held back to "
        "check what was learned (validation)"
    )
    if "test" in numbers:
        kept += f", {facts.samples(numbers['test'])} set aside for a test"
    rows = [
        ("Data", f"{text((config and config.data.path) or data.name)}: {kept}"),
        ("Labels that can be predicted", f"{facts.classes:,}"),
    ]
    rows.append(("Known labels", _EXTENTS.get(data.observed.get("train", ""), "some labels of each")))
    if config:
        backbone = config.model.backbone
        network = "none: the data holds features" if backbone == "none" else text(backbone)
        if backbone != "none":
            frozen = "used as it is" if config.model.frozen == "yes" else "trained as well"
            network += f" ({frozen})"
        rows.append(("Network that looks at photos" if facts.images else "Network", network))
    rows.append(("Method", text(_method(facts.summary.method))))
    told = {"stated": "as you stated", "labels": "all labels of the data are known"}
    if k.known:
        interval = "" if k.low is None or k.high is None else f" (95 % interval {k.low:.2f} to {k.high:.2f})"
        source = told.get(k.source, f"from {facts.policy.rows.audited} samples that were labelled in full")
        rows.append(("Labels per sample (K)", f"{k.value:.3g} on average, {source}{interval}"))
    else:
        rows.append(("Labels per sample (K)", "not known, so nothing here is an estimate that needs it"))
    return f"<dl>{''.join(f'<dt>{name}</dt><dd>{value}</dd>' for name, value in rows)}</dl>"


def _method(name: str) -> str:
    """A method in words."""
    if name == AUTO:
        return f"{name}: several simple models on the features, weighed by how well they do on held-back ones"
    objectives = methods()
    return f"{name}: {objectives[name].card.title}" if name in objectives else name


def _warnings(facts: Facts) -> str:
    summary, policy = facts.summary, facts.policy
    items = [text(warning) for warning in summary.warnings]
    items += [text(warning) for warning in summary.selected.warnings]
    items += [text(warning) for warning in policy.warnings]
    if skipped := summary.data.skipped:
        items.append(
            f"{facts.samples(skipped)} could not be used. The file <code>skipped.csv</code> in the folder of "
            "the run says which and why; mend or remove them, and train again."
        )
    items += [text(remark) for remark in facts.remarks]
    return bullets(items) if items else ""


def _quality(facts: Facts) -> str:
    summary, numbers = facts.summary, facts.summary.data.samples
    value = summary.score
    lines = []
    if summary.selected.metric == "val/mAP":
        lines.append(
            f"mAP of the validation {facts.many}, whose labels are all known: <b>{100 * value:.1f}</b>."
        )
    elif numbers["val"] < FEWEST_SHOWN:
        lines.append(
            f"No score is shown: {facts.samples(numbers['val'])} held back are fewer than {FEWEST_SHOWN}. "
            "Hold back more (<code>--data.val_share</code>), or collect more."
        )
    else:
        lines.append(
            f"SP-score: <b>{shown_score(value)}</b>. It tells how high the model ranks the known labels of "
            f"the {facts.many} that were held back, and it serves to compare models. It is not the share of "
            "right answers: for that, all labels of some samples must be known."
        )
    if summary.test:
        lines.append(
            f"mAP of the {facts.samples(numbers['test'])} of the test, whose labels are all known: "
            f"<b>{100 * summary.test.mAP:.1f}</b>. Their labels were used for this number only."
        )
    if evaluation := facts.evaluation:
        averages = evaluation.thresholded
        lines.append(
            f"On {facts.samples(evaluation.samples)} of {text(evaluation.data)} ({text(evaluation.split)}), "
            f"whose labels are all known: mAP <b>{100 * evaluation.mAP:.1f}</b>, macro F1 "
            f"<b>{100 * averages.macro.f1:.1f}</b>, micro F1 <b>{100 * averages.micro.f1:.1f}</b> "
            "(<code>spml evaluate</code>)."
        )
    if "mAP" in " ".join(lines):
        lines.append(
            '<span class="soft">mAP is 100 if, for each label, every sample that has it is ranked above '
            "every sample that does not. F1 weighs labels that were missed against labels that were wrong; "
            "100 is best.</span>"
        )
    if audited := facts.audited:
        k = audited.mean_labels
        lines.append(
            f"{facts.samples(audited.samples)} were labelled in full: they have {k.value:.2f} labels on "
            f"average (95 % interval {k.low:.2f} to {k.high:.2f})."
        )
    return paragraphs(*lines)


def _curves(facts: Facts) -> str:
    parts = []
    if facts.curves:
        parts.append(
            paragraphs(
                "How the score of held-back samples changed in training, or with the settings that were "
                "tried. What is marked was kept."
            )
            + _picture(facts.curves, "Curves of the training")
        )
    if facts.thresholds and facts.policy.mean_labels.known:
        parts.append(
            "<h3>Thresholds</h3>"
            + paragraphs(
                "A label is predicted from a threshold of its score on. A higher one gives fewer labels, of "
                "which more are right (precision), and misses more of them (recall). Both are estimates."
            )
            + _picture(facts.thresholds, "Estimated precision and recall over the threshold")
        )
    return "".join(parts)


def _picture(content: bytes, title: str) -> str:
    picture = f'<img class="picture" alt="{title}" src="{data_address(content, "image/png")}">'
    return f'<div class="wide">{picture}</div>'


def _next_steps(facts: Facts) -> str:
    folder = shell(facts.folder)
    new = "new-photos/" if facts.images else "new.npz"
    steps = []
    if not facts.policy.mean_labels.known:
        steps.append(
            "Say how many labels a sample has on average. Then there are estimates of how often a prediction "
            f"is right: {_code(f'spml thresholds {folder} --mean_labels K')}"
        )
    steps += [
        f"Label new {facts.many}: {_code(f'spml predict {folder} {new} --output tags.csv')}",
        f"Label some random {facts.many} in full, to learn K and how good the model is: "
        f"{_code(f'spml audit sample {folder}')}",
        f"Find labels that are missing in your data: {_code(f'spml audit {folder}')}",
    ]
    return bullets(steps)


def _commands(facts: Facts) -> str:
    lines = []
    if command := facts.summary.command:
        lines.append(f"This run was made by {_code(command)}")
    if facts.config:
        again = f"spml train --config {shell(facts.folder + '/config.yaml')} --output ANOTHER-FOLDER"
        lines.append(f"The same again, with every setting as it was: {_code(again)}")
    versions = facts.summary.versions
    made = ", ".join(f"{text(name)} {text(version)}" for name, version in versions.items())
    lines.append(f"<small>{made}</small>")
    return "".join(f"<div>{line}</div>" for line in lines)


def _code(command: str) -> str:
    return f"<pre>{text(command)}</pre>"


def shell(path: str) -> str:
    """A path as a word of a shell."""
    return shlex.quote(path)
