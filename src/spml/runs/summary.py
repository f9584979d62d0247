"""What a finished run leaves: the model, the summary, the pictures."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import models, plots
from ..config import Config
from ..data import Dataset
from ..decisions.selection import Judge, default_mean_labels
from ..decisions.thresholds import global_threshold
from ..files import write_json
from ..metrics import mean_average_precision
from ..version import __version__
from . import folder as runfolder
from . import start

_EXAMPLES = 12


@dataclass(frozen=True)
class Finished:
    """A run that has been trained.

    Attributes:
        config: its resolved settings.
        data: as it was opened, with images where there are images.
        judge: what chose the epoch.
        classifier: with the weights of that epoch.
        history: one record per epoch, or per solution of a head that is solved.
        best: the chosen one, from 0.
        tied: how many penalties can't be told from the chosen one by the SP-score; None for epochs.
        scores: logits (N, C) of the splits other than `train`.
        head_bias: where the head's bias came from, for the summary.
        init_from: what was taken from another run, for the summary.
        state: of the objective at the chosen epoch.
        fingerprint: of the data.
        cost: seconds, memory, device.
    """

    config: Config
    data: Dataset
    judge: Judge
    classifier: models.Classifier
    history: list[dict[str, Any]]
    best: int
    tied: int | None
    scores: dict[str, Any]
    head_bias: dict[str, Any]
    init_from: dict[str, str] | None
    state: dict[str, torch.Tensor]
    fingerprint: str
    cost: dict[str, Any]

    @property
    def method(self) -> str:
        """What it was trained with, or the name of the head in closed form."""
        return self.config.method or self.config.model.head


def write_results(folder: Path, run: Finished) -> str:
    """Write model, summary and pictures to `folder`; gives the closing line for the user.

    Raises:
        SpmlError: a file could not be written.
    """
    config, best = run.config, run.history[run.best]
    mean_labels, source = _mean_labels(run)
    threshold = global_threshold(run.scores["val"], mean_labels)
    card = {
        "classes": list(run.data.classes),
        "method": {"name": run.method, "hp": config.hp},
        "threshold": {"logit": threshold, "labels_per_sample": mean_labels, "source": source},
        "spml": __version__,
    }
    if run.state:
        start.write_state(folder, run.state, run.data.splits["train"])
    models.save_classifier(folder, run.classifier, run.classifier.spec, card)
    keys = ("epoch", "penalty", "l2", "gradient", "converged", "schedule_epoch")
    chosen: dict[str, Any] = {key: best[key] for key in keys if key in best}
    chosen["of"] = len(run.history)
    if run.tied is not None:
        # No warning of a large one: neighbouring penalties are nearly one model, so that many tie is no flaw
        # of the data, and any of them will do.
        chosen["tie_set"] = run.tied
    summary: dict[str, Any] = {
        "method": run.method,
        "hp": config.hp,
        "init_from": run.init_from,
        "selected": {**run.judge.describe(), **chosen},
        "validation": {key: value for key, value in best.items() if key.startswith("val/")},
        "test": _test(run),
        "head_bias": run.head_bias,
        "threshold": card["threshold"],
        "data": _describe_data(run),
        "cost": run.cost,
        "versions": versions(),
    }
    write_json(folder / runfolder.SUMMARY, summary)
    if "epoch" in best:
        plots.learning_curves(
            folder / runfolder.CURVES, run.history, metric=run.judge.metric, best_epoch=best["epoch"]
        )
    elif "penalty" in best:
        plots.penalty_curves(folder / runfolder.CURVES, run.history, metric=run.judge.metric, best=run.best)
    if run.data.kind == "image":
        _draw_examples(folder, run, threshold)
    return _closing(folder, summary)


def _mean_labels(run: Finished) -> tuple[float, str]:
    """Labels per sample that the threshold aims at, and where the number comes from."""
    observed = run.data.splits["val"].observed
    if run.config.mean_labels is not None:
        return run.config.mean_labels, "stated"
    if observed.full:
        return float(observed.positives_per_sample().mean()), "validation labels"
    return default_mean_labels(len(run.data.classes)), "default"


def _test(run: Finished) -> dict[str, Any] | None:
    truth = run.data.truth.get("test")
    if truth is None or "test" not in run.scores:
        return None
    return {"mAP": mean_average_precision(run.scores["test"], truth.to_ternary(), run.data.empty)}


def _describe_data(run: Finished) -> dict[str, Any]:
    return {
        "name": run.data.name,
        "classes": len(run.data.classes),
        "samples": {name: len(samples) for name, samples in run.data.splits.items()},
        "observed": {name: samples.observed.extent for name, samples in run.data.splits.items()},
        "skipped": len(run.data.skipped),
        "notes": list(run.data.notes),
        "fingerprint": run.fingerprint,
    }


def _draw_examples(folder: Path, run: Finished, threshold: float) -> None:
    split = "test" if "test" in run.scores else "val"
    samples, scores, classes = run.data.splits[split], run.scores[split], run.data.classes
    rows = np.linspace(0, len(samples) - 1, min(_EXAMPLES, len(samples))).round().astype(int)
    truth = run.data.truth.get(split)
    plots.example_sheet(
        folder / runfolder.EXAMPLES,
        samples.inputs.fetch(rows, None).numpy(),
        samples.observed.take(rows).to_names(classes),
        [[classes[c] for c in np.flatnonzero(row >= threshold)] for row in scores[rows]],
        truth.take(rows).to_names(classes) if truth is not None else None,
    )


def versions() -> dict[str, str]:
    """What a result was computed with."""
    import timm
    import torchvision

    return {
        "spml": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
        "timm": timm.__version__,
        "numpy": np.__version__,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def _closing(folder: Path, summary: dict[str, Any]) -> str:
    selected, cost = summary["selected"], summary["cost"]
    value = summary["validation"][selected["metric"]]
    text = f"{selected['metric']} {100 * value:.2f} ({selected['labels']})"
    for key in ("epoch", "penalty"):
        if key in selected:
            tied = f" ({selected['tie_set']} in the tie set)" if "tie_set" in selected else ""
            text = f"best {key} {selected[key]} of {selected['of']}{tied}, selected by {text}"
    if summary["test"]:
        text += f"; test mAP {100 * summary['test']['mAP']:.2f}"
    text += f"; {cost['seconds']:.0f} s, {cost['peak_memory_mib']:.0f} MiB"
    lines = [text, *(f"note: {warning}" for warning in selected.get("warnings", ())), f"{folder}: done"]
    return "\n".join(lines)
