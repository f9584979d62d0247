"""Write the files of a finished run: the model, the summary, the pictures."""

from __future__ import annotations

import math
import os
import platform
import shlex
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ... import models, plots
from ...common.files import sha256_file, write_checked_json
from ...common.messages import muted
from ...common.phrases import counted, first_warnings
from ...common.torch_draws import borrowed_generators
from ...config import Config
from ...data import Dataset
from ...decisions import Judge, global_threshold, threshold_curve, true_map
from ...metrics import FEWEST_SHOWN
from ...scores import Scores
from ...version import __version__
from ..decide.policies import decide_thresholds, evidence_from_shares, write_thresholds
from ..fit.build import Build
from ..fit.solve import Fitted, HeldOutScores
from ..headline import headline
from ..predict.batches import Engine
from ..run import Run
from ..settle import init_from
from . import layout as run_files
from .held_out import drawn_part, gather_held_out, keep_scores, write_held_out
from .layout import identity_in

_EXAMPLES = 12

_RISE = 10.0
"""The loss of a training that diverged is more than this many times that of its first step."""

_MARGIN, _DEVIATIONS = 0.05, 2.0
"""An A above 1/2 by less than this, and by less than so many standard deviations, counts as chance."""

_ENOUGH = 20
"""Fewest known positives with which A can be distinguished from 1/2."""


class FinalScores(NamedTuple):
    """Scores of a trained model.

    Attributes:
        held_out: Scores of samples that the scoring model was not fitted to, which decide thresholds.
        val: Those of validation samples among them.
        test_map: mAP of the test samples; None if their labels are not fully known.
    """

    held_out: HeldOutScores
    val: Scores
    test_map: float | None


def final_scores(build: Build, fitted: Fitted) -> FinalScores:
    """Compute the scores of a trained model, on every process.

    Where the scores of the validation samples do not fit (`spml.scores.fits`), those of a random
    part are kept: all scores of as many samples as 5,000,000 scores allow for, or, of more than 5,000
    classes, the 1,000 highest scores of 5,000 samples.
    """
    data, count, held_out = build.data, len(build.data.splits["train"]), fitted.held_out
    if held_out is None:
        val = data.splits["val"]
        scores = build.scores(val)
        held_out = HeldOutScores(scores, count + np.arange(len(scores)))
        if scores.array is None:
            drawn = drawn_part(*scores.shape, build.run.config.seed)
            samples = val.take(drawn)
            held_out = HeldOutScores(keep_scores(build.scores(samples), samples.observed), count + drawn)
    test_map = None
    if "test" in data.splits and "test" in data.truth:
        test = build.scores(data.splits["test"]) if build.test is None else build.test
        test_map = true_map(test, data.truth["test"], data.empty)
    return FinalScores(held_out, held_out.of_validation(count), test_map)


def write_results(
    build: Build,
    judge: Judge,
    fitted: Fitted,
    scores: FinalScores,
    fingerprint: str,
    cost: dict[str, Any],
    command: str,
    *,
    pictures: bool,
) -> tuple[Run, str]:
    """Write model, summary and, unless they are not wanted, pictures to the folder of a run.

    Args:
        build: Model with the weights of the best epoch; the data of its run holds images where there are any.
        judge: Chose that epoch.
        fitted: Result of the training.
        scores: Scores of the samples that were not trained on.
        fingerprint: Fingerprint of the data.
        cost: Seconds, memory and device.
        command: Command that makes the run; empty where it is made by other means.
        pictures: Draw the pictures.

    Returns:
        The finished run, and closing lines for the user.

    Raises:
        SpmlError: A file could not be written.
    """
    run, config, data = build.run, build.run.config, build.run.data
    folder, best = Path(config.output), fitted.history[fitted.best]
    assert build.classifier is not None
    if fitted.state:
        init_from.write_state(folder, fitted.state, data.splits["train"])
    held_out = gather_held_out(data, *scores.held_out, seed=config.seed)
    write_held_out(folder, held_out, data.classes)

    # The model.
    k = run.threshold_mean_labels
    head, unseen = build.top.head, data.splits["train"].observed.positives_per_class() == 0
    by_name = head.by_name.numpy() if isinstance(head, models.Ensemble) else np.zeros_like(unseen)
    method = {"name": config.method or config.model.head, "hp": config.hp}
    threshold = {
        "logit": global_threshold(scores.val, k.value),
        "labels_per_sample": k.value,
        "source": "validation labels" if k.source == "labels" else k.source,
    }
    card: dict[str, Any] = {
        "classes": list(data.classes),
        "method": method,
        "threshold": {**threshold, "curve": threshold_curve(scores.val)},
        "thresholds": run_files.THRESHOLDS,
        "without_positives": [data.classes[column] for column in np.flatnonzero(unseen & ~by_name)],
        "by_name": [data.classes[column] for column in np.flatnonzero(by_name)],
        "feature_names": list(getattr(data.splits["train"].inputs, "names", ())),
        "spml": __version__,
        "run": identity_in(folder),
    }
    models.save_classifier(folder, build.classifier, build.classifier.spec, card)
    weights = sha256_file(folder / run_files.MODEL[0])

    # Thresholds, then the summary, which says that the run has finished.
    evidence = evidence_from_shares(held_out, k.value, k.source)
    policy = decide_thresholds(weights, build.top.scale, data.classes, held_out, evidence)
    write_thresholds(folder, policy, held_out, picture=pictures)
    kept = ("epoch", "penalty", "l2", "gradient", "converged", "schedule_epoch")
    selected = {**judge.describe(), **{key: best[key] for key in kept if key in best}}
    selected["of"] = len(fitted.history)
    if fitted.tied is not None:
        # A large tie set is not worth a warning here: neighbouring penalties are nearly the same model.
        selected["tie_set"] = fitted.tied
    local = dict(fitted.local) if fitted.local else None
    measured = (local or {}).pop("validation", best)
    summary: dict[str, Any] = {
        "method": method["name"],
        "hp": config.hp,
        "init_from": run.start and {**run.start.describe(), "objective": build.carried},
        "selected": selected,
        "members": list(fitted.members),
        "local": local,
        **({} if fitted.sizes is None else {"sizes": fitted.sizes}),
        "validation": {key: value for key, value in measured.items() if key.startswith("val/")},
        "test": None if scores.test_map is None else {"mAP": scores.test_map},
        "head_bias": run.head_bias,
        "threshold": threshold,
        "data": {
            "name": data.name,
            "classes": len(data.classes),
            "samples": {name: len(samples) for name, samples in data.splits.items()},
            "observed": {name: samples.observed.extent for name, samples in data.splits.items()},
            "skipped": len(data.skipped),
            "notes": list(data.notes),
            "fingerprint": fingerprint,
        },
        "cost": cost,
        "warnings": fit_warnings(
            fitted,
            config,
            positives=int(data.splits["val"].observed.positives_per_class().sum()),
            share=judge.mean_labels / len(data.classes),
        ),
        "command": command,
        "versions": versions(),
        "metrics_sha256": sha256_file(folder / run_files.METRICS),
        "run": card["run"],
    }
    write_checked_json(folder / run_files.SUMMARY, summary)
    finished = Run(folder, build.classifier, {**card, "weights_sha256": weights}, summary)
    if pictures and "epoch" not in best and fitted.tried:
        plots.member_curves(folder / run_files.CURVES, fitted.tried, fitted.members, metric=judge.metric)
    elif pictures and ("epoch" in best or "penalty" in best):
        plots.fit_curves(folder / run_files.CURVES, fitted.history, metric=judge.metric, best=fitted.best)
    if pictures and data.kind == "image":
        draw_examples(finished, data, config.accelerator)
    return finished, _closing_lines(folder, summary, pictures)


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


def fit_warnings(fitted: Fitted, config: Config, *, positives: int, share: float) -> list[str]:
    """List what a user must know before the model is used; empty if nothing is wrong.

    Args:
        fitted: Result of the training, or of solving a head.
        config: Complete settings of the run.
        positives: Number of known positives among the validation samples.
        share: Mean share of the classes that are labels of a sample, K / C.
    """
    advice = f"Try a smaller learning rate (lr={(config.optim.lr or 1e-3) / 10:g})"
    warnings = []
    last = fitted.history[-1].get("train/loss")
    if fitted.start_loss is not None and last is not None and last > _RISE * fitted.start_loss > 0:
        warnings.append(
            f"training diverged: the loss rose from {fitted.start_loss:.3g} in the first step to {last:.3g} "
            f"in epoch {fitted.history[-1]['epoch']}. {advice}, a warm-up (optim.warmup_epochs=1) or "
            "gradient clipping (optim.clip=1)."
        )
    a = fitted.history[fitted.best]["val/A"]
    # Ranks of random rankings are uniform, and A divides by 1 - share.
    deviation = 1 / (math.sqrt(12 * max(positives, 1)) * (1 - min(0.5, share)))
    if positives >= _ENOUGH and a < 0.5 + min(_MARGIN, _DEVIATIONS * deviation):
        remedy = "Check that features and labels belong together."
        if fitted.start_loss is not None:
            remedy = f"{advice}, or train longer; check that inputs and labels belong together."
        warnings.append(
            f"the model is no better than chance: it ranks the {counted(positives, 'known positive')} of the "
            f"validation samples like a model that ignores its input (A {100 * a:.1f}, chance 50). {remedy}"
        )
    return warnings


def draw_examples(run: Run, data: Dataset, accelerator: str) -> None:
    """Draw up to 12 test samples, or validation samples without a test, with their labels: examples.png."""
    split = "test" if "test" in data.splits else "val"
    rows = np.linspace(0, len(data.splits[split]) - 1, min(_EXAMPLES, len(data.splits[split])))
    samples, truth = data.splits[split].take(rows.round().astype(np.int64)), data.truth.get(split)
    located = run.locates
    with muted(), borrowed_generators():
        (batch,) = run.stream(samples.inputs, Engine(device=accelerator), where=located)
    scores, predicted = run.probabilities(batch.logits), run.decision()(batch.logits)
    observed = samples.observed.to_ternary() == 1
    true = None if truth is None else truth.take(rows.round().astype(np.int64)).to_ternary() == 1
    relevant = predicted | observed if true is None else predicted | observed | true
    labels = [
        [
            plots.ExampleLabel(
                run.classes[c],
                float(scores[row, c]),
                bool(observed[row, c]),
                bool(predicted[row, c]),
                None if true is None else bool(true[row, c]),
                () if batch.windows is None else run.places[batch.windows[row, c]].tolist(),
            )
            for c in np.flatnonzero(relevant[row])
        ]
        for row in range(len(samples))
    ]
    images = samples.inputs.fetch(range(len(samples)), None).numpy()
    plots.example_sheet(run.folder / run_files.EXAMPLES, images, labels, with_truth=true is not None)


def _closing_lines(folder: Path, summary: dict[str, Any], report: bool) -> str:
    """Closing lines: the held-out score, at most three warnings, and what to do next."""
    selected, cost, score = summary["selected"], summary["cost"], headline(summary)
    text = score.describe()
    for key in ("epoch", "penalty"):
        if key in selected:
            by = "" if score.full else " by the SP-score"
            tied = f" ({selected['tie_set']} in the tie set)" if "tie_set" in selected else ""
            text = f"best {key} {selected[key]} of {selected['of']}{by}{tied}: {text}"
    if summary["test"]:
        text += f"; test mAP {100 * summary['test']['mAP']:.2f}"
    text += f"; {cost['seconds']:.0f} s, {cost['peak_memory_mib']:.0f} MiB"
    warnings = [*summary["warnings"], *selected.get("warnings", ())]
    if summary["threshold"]["source"] == "default":  # what to do about K is the last line
        warnings = [warning for warning in warnings if not warning.startswith("K = ")]
    if not score.full and score.samples < FEWEST_SHOWN:  # said in place of the score
        warnings = [warning for warning in warnings if not warning.startswith("Only ")]
    warnings = first_warnings(warnings, str(folder / (run_files.REPORT if report else run_files.SUMMARY)))
    return "\n".join([text, *warnings, f"{folder}: done", *next_steps(folder, summary, report)])


def next_steps(folder: Path, summary: dict[str, Any], report: bool) -> list[str]:
    """Last lines of a training: what to look at, what to do, and how to learn K where it is not known.

    Args:
        folder: Folder of the run.
        summary: Content of its summary.json.
        report: Whether the folder holds a report.
    """
    name = shlex.quote(str(folder))
    look = f"open {folder / run_files.REPORT} in a browser; " if report else ""
    steps = [f"next: {look}`spml predict {name} NEW` labels new samples."]
    if summary["threshold"]["source"] == "default":
        steps.append(
            f"next, in ten minutes: `spml audit sample {name}` draws 100 random samples to label in full. "
            "They measure K, the mean number of labels per sample. Without K, no precision or probability is "
            "estimated, and no missing label is listed."
        )
    elif summary["data"]["observed"]["train"] != "full":
        steps[0] += f" `spml audit {name}` lists labels that are probably missing."
    return steps
