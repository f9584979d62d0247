"""The command `spml thresholds`. Heavy modules are imported when it runs."""

from __future__ import annotations

from ..common.phrases import first_warnings
from .arguments import DataSettings
from .shared import Prediction, columns, data_config

_SHOWN = 20
"""Classes in the table."""


def thresholds(
    run: str,
    path: str = "",
    *,
    data: DataSettings,
    prediction: Prediction,
    target: str = "f1",
    per_class: bool = False,
    audit: str = "",
    mean_labels: float | None = None,
) -> None:
    """Decide from which score on each class is predicted, and calibrate probabilities. Writes thresholds.json
    and thresholds.png into the folder of the run, and its report.html again; predict, evaluate and data
    convert use them. The default, the best F1 of each class, has a better macro F1 and a slightly worse micro
    F1 than one threshold for all classes (--target labels).

    Args:
        run: Folder of the run.
        path: Samples with observed labels that decide; default: the held-out scores that the run has kept.
        data: Settings of the data.
        prediction: How scores are computed.
        target: f1 (best F1 of each class), labels (K labels per sample, by one threshold), precision=0.9 or
            recall=0.8.
        per_class: Reach the precision or recall in each class, not overall.
        audit: Randomly chosen, fully labelled samples (spml audit sample), from which K, class priors and
            probabilities are estimated.
        mean_labels: Mean labels per sample K, if you know it.
    """
    config = data_config(data, path)

    from ..runs.run import open_run

    model = open_run(run)
    images = {} if config.path else {"images": config.images}
    policy = model.set_thresholds(
        config if config.path else None,
        target=target,
        per_class=per_class,
        audit=audit or None,
        mean_labels=mean_labels,
        batch_size=prediction.batch_size,
        workers=prediction.workers,
        device=prediction.device,
        **images,
    )
    k, rows = policy.mean_labels, policy.rows
    sources = {
        "stated": "stated",
        "audit": f"from {rows.audited} audited samples" if rows.audited else "from an audit",
        "labels": "mean of labels that are all known",
        "default": "assumed",
    }
    interval = "" if k.low is None else f", 95 % interval {k.low:.2f} to {k.high:.2f}"
    origin = f"{sources[k.source]}{interval}"
    print(f"target {policy.target.describe()}; K = {k.value:.3g} labels per sample ({origin})")
    print(f"decided on {rows.count:,} samples ({rows.source})")
    classes = sorted(policy.classes, key=lambda cut: -(cut.support or 0))
    table: list[tuple[str, ...]] = [("class", "threshold", "precision", "recall", "positives", "known")]
    for cut in classes[:_SHOWN]:
        shares = ("" if share is None else f"{100 * share:.0f} %" for share in (cut.precision, cut.recall))
        threshold = "never" if cut.threshold is None else f"{cut.threshold:.3g}"
        table.append((cut.name, threshold, *shares, cut.positives, f"{cut.known:,}"))
    print("\n".join(columns(table, right=range(1, len(table[0])))))
    if len(classes) > _SHOWN:
        print(f"... and {len(classes) - _SHOWN:,} classes with fewer positives (all in thresholds.json)")
    print("precision, recall and positives are estimates; thresholds are scores, from 0 to 1")
    for line in first_warnings(policy.warnings, "thresholds.json"):
        print(line)
    print(f"{model.folder}: thresholds.json, thresholds.png written")
