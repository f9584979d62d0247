"""Write the files of a finished run: the model, the summary, the pictures."""

from __future__ import annotations

import os
import platform
import shlex
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ... import models, plots
from ...common.files import sha256_file, write_checked_json
from ...data import Samples
from ...decisions import Decision, Judge, global_threshold, scores_of, threshold_curve, true_map
from ...metrics import FEWEST_SHOWN, shown_score
from ...scores import Scores
from ...version import __version__
from ..decide.policies import decide_thresholds, evidence_from_shares, write_thresholds
from ..fit.build import Build
from ..fit.divergence import fit_warnings
from ..fit.solve import Fitted, HeldOutScores
from ..run import Run
from ..settle import init_from
from . import layout as run_files
from .held_out import drawn_part, gather_held_out, keep_scores, write_held_out

_EXAMPLES = 12


class FinalScores(NamedTuple):
    """Scores of a trained model.

    Attributes:
        held_out: Scores of samples that the scoring model was not fitted to, which decide thresholds.
        val: Those of validation samples among them.
        test_map: mAP of the test samples; None if their labels are not fully known.
        examples: Logits (E, C) of the samples that are drawn as examples, `example_rows` of the test split,
            or of the validation split without one.
        places: Window of each of them that speaks most for each class, float32 (E, C, 4); None of a model
            that does not score windows.
    """

    held_out: HeldOutScores
    val: Scores
    test_map: float | None
    examples: npt.NDArray[np.float32]
    places: npt.NDArray[np.float32] | None


def final_scores(build: Build, fitted: Fitted) -> FinalScores:
    """Compute the scores of a trained model, on every process.

    Where the scores of the validation samples do not fit (`spml.scores.fits`), those of a random
    part are kept: all scores of as many samples as 5,000,000 scores allow for, or, of more than 5,000
    classes, the 1,000 highest scores of 5,000 samples.
    """
    data, count = build.data, len(build.data.splits["train"])
    held_out = fitted.held_out
    names = ["val"] * (held_out is None) + ["test"] * ("test" in data.splits)
    scores = {name: build.scores(data.splits[name]) for name in names}
    if held_out is None and scores["val"].array is not None:
        held_out = HeldOutScores(scores["val"], count + np.arange(len(scores["val"])))
    elif held_out is None:
        drawn = drawn_part(*scores["val"].shape, build.run.config.seed)
        samples = data.splits["val"].take(drawn)
        held_out = HeldOutScores(keep_scores(build.scores(samples), samples.observed), count + drawn)
    val = held_out.of_validation(count)
    test_map = None
    if "test" in scores and "test" in data.truth:
        test_map = true_map(scores["test"], data.truth["test"], data.empty)
    split = "test" if "test" in scores else "val"
    rows = example_rows(data.splits[split])
    known = (scores["test"] if split == "test" else val).array
    if known is None or len(known) < len(data.splits[split]):
        examples = build.logits(data.splits[split].take(rows))
    else:
        examples = np.asarray(known[rows], np.float32)
    return FinalScores(held_out, val, test_map, examples, _places(build, data.splits[split].take(rows)))


def example_rows(samples: Samples) -> npt.NDArray[np.int64]:
    """Up to 12 samples that are drawn as examples, evenly spaced."""
    rows = np.linspace(0, len(samples) - 1, min(_EXAMPLES, len(samples)))
    return np.asarray(rows.round(), np.int64)


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
    folder = Path(config.output)
    held_out = gather_held_out(data, *scores.held_out, seed=config.seed)
    k = run.threshold_mean_labels
    head, unseen = build.top.head, data.splits["train"].observed.positives_per_class() == 0
    by_name = head.by_name.numpy() if isinstance(head, models.Ensemble) else np.zeros_like(unseen)
    without_positives = np.flatnonzero(unseen & ~by_name)
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
        "without_positives": [data.classes[column] for column in without_positives],
        "by_name": [data.classes[column] for column in np.flatnonzero(by_name)],
        "feature_names": list(getattr(data.splits["train"].inputs, "names", ())),
        "spml": __version__,
    }
    if fitted.state:
        init_from.write_state(folder, fitted.state, data.splits["train"])
    write_held_out(folder, held_out, data.classes)
    assert build.classifier is not None
    models.save_classifier(folder, build.classifier, build.classifier.spec, card)
    evidence = evidence_from_shares(held_out, k.value, k.source)
    model = sha256_file(folder / run_files.MODEL[0])
    policy = decide_thresholds(model, build.top.scale, data.classes, held_out, evidence)
    start, test_map = run.start, scores.test_map
    local = dict(fitted.local) if fitted.local else None
    measured = (local or {}).pop("validation", fitted.history[fitted.best])
    summary: dict[str, Any] = {
        "method": method["name"],
        "hp": config.hp,
        "init_from": start and {**start.describe(), "objective": build.carried},
        "selected": {**judge.describe(), **_selected(fitted)},
        "members": list(fitted.members),
        "local": local,
        "validation": {key: value for key, value in measured.items() if key.startswith("val/")},
        "test": None if test_map is None else {"mAP": test_map},
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
    }
    # Before the summary, which says that the run has finished.
    write_thresholds(folder, policy, held_out, picture=pictures)
    write_checked_json(folder / run_files.SUMMARY, summary)
    if pictures:
        _draw_curves(folder, fitted, judge.metric)
    if pictures and data.kind == "image":
        never = tuple(without_positives.tolist())
        _draw_examples(build, scores, Decision(policy.logits, never=never))
    finished = Run(folder, build.classifier, {**card, "weights_sha256": model}, summary)
    return finished, _closing_lines(folder, summary, judge.known, pictures)


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


def _selected(fitted: Fitted) -> dict[str, Any]:
    """Report on the chosen epoch or penalty."""
    best = fitted.history[fitted.best]
    keys = ("epoch", "penalty", "l2", "gradient", "converged", "schedule_epoch")
    selected: dict[str, Any] = {key: best[key] for key in keys if key in best}
    selected["of"] = len(fitted.history)
    if fitted.tied is not None:
        # A large tie set is not worth a warning here: neighbouring penalties are nearly the same model.
        selected["tie_set"] = fitted.tied
    return selected


def _draw_curves(folder: Path, fitted: Fitted, metric: str) -> None:
    best = fitted.history[fitted.best]
    path = folder / run_files.CURVES
    if "epoch" not in best and fitted.tried:
        plots.member_curves(path, fitted.tried, fitted.members, metric=metric)
    elif "epoch" in best or "penalty" in best:
        plots.fit_curves(path, fitted.history, metric=metric, best=fitted.best)


def _draw_examples(build: Build, final: FinalScores, decision: Decision) -> None:
    data, path = build.run.data, Path(build.run.config.output, run_files.EXAMPLES)
    split = "test" if "test" in data.splits else "val"
    samples, classes, truth = data.splits[split], data.classes, data.truth.get(split)
    rows, scores = example_rows(samples), scores_of(final.examples, build.top.scale)
    predicted, places = decision(final.examples), final.places
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
                () if places is None else places[row, c].tolist(),
            )
            for c in np.flatnonzero(relevant[row])
        ]
        for row in range(len(rows))
    ]
    images = samples.inputs.fetch(rows, None).numpy()
    plots.example_sheet(path, images, labels, with_truth=true is not None)


def _places(build: Build, samples: Samples) -> npt.NDArray[np.float32] | None:
    """Window of each sample that speaks most for each class; see `FinalScores`."""
    local, classifier = build.top.local, build.classifier
    if local is None or classifier is None or samples.inputs.kind == "feature":
        return None
    found = build.logits(samples, models.Located(classifier))
    numbers: npt.NDArray[np.int64] = found[:, build.top.num_classes :].astype(np.int64)
    return local.settings.windows.places()[numbers]


def _closing_lines(folder: Path, summary: dict[str, Any], known: int, report: bool) -> str:
    """Closing lines; `known` counts the validation samples with a known positive label."""
    selected, cost = summary["selected"], summary["cost"]
    value = summary["validation"][selected["metric"]]
    if selected["metric"] == "val/mAP":
        text = f"mAP {100 * value:.2f} on the fully labelled validation samples (oracle)"
    elif known < FEWEST_SHOWN:
        samples = "1 validation sample is" if known == 1 else f"{known} validation samples are"
        text = f"SP-score not shown: {samples} fewer than {FEWEST_SHOWN}"
    else:
        text = f"SP-score {shown_score(value)} on validation samples, by their known labels only"
    for key in ("epoch", "penalty"):
        if key in selected:
            tied = f" ({selected['tie_set']} in the tie set)" if "tie_set" in selected else ""
            text = f"best {key} {selected[key]} of {selected['of']}{tied}: {text}"
    if summary["test"]:
        text += f"; test mAP {100 * summary['test']['mAP']:.2f}"
    text += f"; {cost['seconds']:.0f} s, {cost['peak_memory_mib']:.0f} MiB"
    notes = [f"note: {warning}" for warning in selected.get("warnings", ())]
    warnings = [f"warning: {warning}" for warning in summary["warnings"]]
    return "\n".join([text, *notes, *warnings, f"{folder}: done", *next_steps(folder, summary, report)])


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
    if summary["data"]["observed"]["train"] != "full":
        steps[0] += f" `spml audit {name}` lists labels that are probably missing."
    if summary["threshold"]["source"] == "default":
        steps.append(
            f"next, in ten minutes: `spml audit sample {name}` draws 100 random samples to label in full. "
            "They tell K, the mean labels per sample, without which no precision, probability or number of "
            "missing labels is stated."
        )
    return steps
