"""What a finished run leaves in its folder: the model, the summary, the pictures."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ... import models, plots
from ...common.files import sha256_file, write_checked_json
from ...data import Dataset
from ...decisions import (
    Decision,
    Judge,
    Policy,
    Source,
    default_mean_labels,
    global_threshold,
    threshold_curve,
)
from ...metrics import FEWEST_SHOWN, shown_score
from ...version import __version__
from ..decide.thresholds import decide_thresholds, evidence_from_shares, write_thresholds
from ..fit.divergence import fit_warnings
from ..fit.solve import Fitted
from ..settle import init_from
from ..settle.resolve import Resolved
from . import layout as run_files
from .final_scores import FinalScores, example_rows
from .held_out import HeldOut, write_held_out


@dataclass(frozen=True)
class Finished:
    """A run that has been trained.

    Attributes:
        run: Resolved run; its data holds images where there are images.
        judge: Chose the best epoch.
        classifier: Model with the weights of that epoch.
        fitted: Result of the training.
        scores: Scores of the samples that were not trained on.
        held_out: Logits of samples that the scoring model was not fitted to, and their observed labels.
        head_bias: Start of the head's bias, for the summary.
        init_from: What was taken over from another run, for the summary.
        fingerprint: Fingerprint of the data.
        cost: Seconds, memory, device.
    """

    run: Resolved
    judge: Judge
    classifier: models.Classifier
    fitted: Fitted
    scores: FinalScores
    held_out: HeldOut
    head_bias: dict[str, Any]
    init_from: dict[str, str] | None
    fingerprint: str
    cost: dict[str, Any]

    @property
    def method(self) -> str:
        """Method that the model was trained with, or the name of the head in closed form."""
        return self.run.config.method or self.run.config.model.head


def write_results(folder: Path, finished: Finished, *, pictures: bool = True) -> str:
    """Write model, summary and, unless they are not wanted, pictures to `folder`.

    Returns:
        Closing lines for the user.

    Raises:
        SpmlError: A file could not be written.
    """
    config, data, fitted = finished.run.config, finished.run.data, finished.fitted
    best = fitted.history[fitted.best]
    mean_labels, source = _mean_labels(finished)
    threshold = global_threshold(finished.scores.val, mean_labels)
    card: dict[str, Any] = {
        "classes": list(data.classes),
        "method": {"name": finished.method, "hp": config.hp},
        "threshold": {
            "logit": threshold,
            "labels_per_sample": mean_labels,
            "source": source,
            "curve": threshold_curve(finished.scores.val),
        },
        "thresholds": run_files.THRESHOLDS,
        "without_positives": [data.classes[column] for column in _without_positives(data)],
        "feature_names": list(getattr(data.splits["train"].inputs, "names", ())),
        "spml": __version__,
    }
    if fitted.state:
        init_from.write_state(folder, fitted.state, data.splits["train"])
    write_held_out(folder, finished.held_out, data.classes)
    models.save_classifier(folder, finished.classifier, finished.classifier.spec, card)
    policy = _decide(folder, finished)
    summary: dict[str, Any] = {
        "method": finished.method,
        "hp": config.hp,
        "init_from": finished.init_from,
        "selected": {**finished.judge.describe(), **_selected(fitted)},
        "members": list(fitted.members),
        "validation": {key: value for key, value in best.items() if key.startswith("val/")},
        "test": None if finished.scores.test_map is None else {"mAP": finished.scores.test_map},
        "head_bias": finished.head_bias,
        "threshold": {key: value for key, value in card["threshold"].items() if key != "curve"},
        "data": _describe_data(finished),
        "cost": finished.cost,
        "warnings": fit_warnings(
            fitted,
            config,
            positives=int(data.splits["val"].observed.positives_per_class().sum()),
            share=finished.judge.mean_labels / len(data.classes),
        ),
        "versions": versions(),
        "metrics_sha256": sha256_file(folder / run_files.METRICS),
    }
    # Before the summary, which says that the run has finished.
    write_thresholds(folder, policy, finished.held_out, picture=pictures)
    write_checked_json(folder / run_files.SUMMARY, summary)
    if pictures:
        _draw_curves(folder, finished)
    if pictures and data.kind == "image":
        never = tuple(_without_positives(data).tolist())
        _draw_examples(folder, finished, Decision(policy.thresholds, never=never))
    return _closing_lines(folder, summary, finished.judge.known)


def versions() -> dict[str, str]:
    """Versions of the packages and the machine that a result was computed with."""
    return {
        "spml": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torchvision": version("torchvision"),
        "timm": version("timm"),
        "numpy": np.__version__,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def _mean_labels(finished: Finished) -> tuple[float, str]:
    """Number of labels per sample that the threshold aims at, and its source."""
    config, observed = finished.run.config, finished.run.data.splits["val"].observed
    if config.mean_labels is not None:
        return config.mean_labels, "stated"
    if observed.full:
        return float(observed.positives_per_sample().mean()), "validation labels"
    return default_mean_labels(len(finished.run.data.classes)), "default"


def _decide(folder: Path, finished: Finished) -> Policy:
    """Thresholds for the best F1 of each class."""
    k, origin = _mean_labels(finished)
    source: Source = (
        "labels" if origin == "validation labels" else "stated" if origin == "stated" else "default"
    )
    evidence = evidence_from_shares(finished.held_out, k, source)
    model = sha256_file(folder / run_files.MODEL[0])
    return decide_thresholds(model, finished.run.data.classes, finished.held_out, evidence)


def _without_positives(data: Dataset) -> npt.NDArray[np.int64]:
    """Columns of the classes that no training sample is known to have, which are never predicted."""
    return np.flatnonzero(data.splits["train"].observed.positives_per_class() == 0)


def _selected(fitted: Fitted) -> dict[str, Any]:
    """What is reported of the chosen epoch or penalty."""
    best = fitted.history[fitted.best]
    keys = ("epoch", "penalty", "l2", "gradient", "converged", "schedule_epoch")
    selected: dict[str, Any] = {key: best[key] for key in keys if key in best}
    selected["of"] = len(fitted.history)
    if fitted.tied is not None:
        # A large tie set is not worth a warning here: neighbouring penalties are nearly the same model.
        selected["tie_set"] = fitted.tied
    return selected


def _describe_data(finished: Finished) -> dict[str, Any]:
    data = finished.run.data
    return {
        "name": data.name,
        "classes": len(data.classes),
        "samples": {name: len(samples) for name, samples in data.splits.items()},
        "observed": {name: samples.observed.extent for name, samples in data.splits.items()},
        "skipped": len(data.skipped),
        "notes": list(data.notes),
        "fingerprint": finished.fingerprint,
    }


def _draw_curves(folder: Path, finished: Finished) -> None:
    fitted, metric = finished.fitted, finished.judge.metric
    best = fitted.history[fitted.best]
    path = folder / run_files.CURVES
    if "epoch" in best:
        plots.learning_curves(path, fitted.history, metric=metric, best_epoch=best["epoch"])
    elif fitted.tried:
        plots.member_curves(path, fitted.tried, fitted.members, metric=metric)
    elif "penalty" in best:
        plots.penalty_curves(path, fitted.history, metric=metric, best=fitted.best)


def _draw_examples(folder: Path, finished: Finished, decision: Decision) -> None:
    data = finished.run.data
    split = "test" if "test" in data.splits else "val"
    samples, classes, truth = data.splits[split], data.classes, data.truth.get(split)
    rows, logits = example_rows(samples), finished.scores.examples
    scores = models.probabilities(logits, finished.classifier.top.scores)
    predicted = decision(logits)
    observed = samples.observed.take(rows).to_ternary() == 1
    true = None if truth is None else truth.take(rows).to_ternary() == 1
    relevant = predicted | observed if true is None else predicted | observed | true
    labels = [
        [
            plots.ExampleLabel(
                classes[c],
                float(scores[row, c]),
                bool(observed[row, c]),
                bool(predicted[row, c]),
                None if true is None else bool(true[row, c]),
            )
            for c in np.flatnonzero(relevant[row])
        ]
        for row in range(len(rows))
    ]
    images = samples.inputs.fetch(rows, None).numpy()
    plots.example_sheet(folder / run_files.EXAMPLES, images, labels, with_truth=true is not None)


def _closing_lines(folder: Path, summary: dict[str, Any], known: int) -> str:
    """Closing lines; `known` counts the validation samples with a known positive label."""
    selected, cost = summary["selected"], summary["cost"]
    value = summary["validation"][selected["metric"]]
    if selected["metric"] == "val/mAP":
        shown = f" {100 * value:.2f}"
    elif known < FEWEST_SHOWN:
        samples = "1 sample is" if known == 1 else f"{known} samples are"
        shown = f", not shown because {samples} fewer than {FEWEST_SHOWN}"
    else:
        shown = f" {shown_score(value)}"
    text = f"{selected['metric']}{shown} ({selected['labels']})"
    for key in ("epoch", "penalty"):
        if key in selected:
            tied = f" ({selected['tie_set']} in the tie set)" if "tie_set" in selected else ""
            text = f"best {key} {selected[key]} of {selected['of']}{tied}, selected by {text}"
    if summary["test"]:
        text += f"; test mAP {100 * summary['test']['mAP']:.2f}"
    text += f"; {cost['seconds']:.0f} s, {cost['peak_memory_mib']:.0f} MiB"
    notes = [f"note: {warning}" for warning in selected.get("warnings", ())]
    warnings = [f"warning: {warning}" for warning in summary["warnings"]]
    return "\n".join([text, *notes, *warnings, f"{folder}: done"])
