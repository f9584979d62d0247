"""Output of `spml audit sample` and `spml audit use` on the terminal."""

from __future__ import annotations

from ..audit.sampling import CORRELATION
from ..audit.selection import Selection
from ..common.phrases import counted, first_few
from ..decisions.priors import BIASED_GAMMA
from ..metrics import TRUSTED, shown_score
from ..runs.audits.sample import AuditSample
from ..runs.audits.use import UsedAudit
from .shared import columns

_MOST_NAMED = 5
"""Classes that a line names."""


def worth(sample: AuditSample) -> list[str]:
    """Say what the labels of a sample would tell, one line each."""
    forecast = sample.forecast
    if forecast is None:
        return [
            "K, the mean labels per sample, is not known, so it can't be computed how precise K, mAP and a "
            "comparison of models would be (--mean_labels states a guess). On ten data sets, K from 50, 100 "
            "or 200 samples was off by 4.3, 3.1 or 2.2 % on average."
        ]
    k, margin = sample.mean_labels, forecast.mean_labels_margin
    percent = 100 * margin / forecast.mean_labels
    side = "above" if forecast.map_shift >= 0 else "below"
    basis = (
        "simulated with these runs"
        if forecast.simulated
        else f"if the errors of the two models correlate by {CORRELATION:g}; name several runs to simulate it"
    )
    return [
        f"What {forecast.rows:,} fully labelled samples would tell, if K is {k:g} and the known label of a "
        "sample is a uniform draw among its labels:",
        f"  K             ±{margin:.2f} ({percent:.0f} %), half of a 95 % interval",
        f"  mAP           ±{100 * forecast.map_margin:.1f} points, likewise, around a value that lies "
        f"{100 * abs(forecast.map_shift):.1f} points {side} mAP on all samples",
        f"  model choice  a difference of {100 * forecast.smallest_difference:.1f} points of mAP is found "
        f"with probability 80 % ({basis})",
    ]


def learned(used: UsedAudit) -> list[str]:
    """Say what fully labelled samples tell, one line each."""
    k, low, high = used.mean_labels
    moved = [f"{name} {100 * known:.1f} -> {100 * audit:.1f} %" for name, known, audit in used.moved]
    lines = [
        f"{used.file}: {counted(used.samples, 'fully labelled sample')}",
        f"K {k:.2f} labels per sample (95 % interval {low:.2f} to {high:.2f})",
        f"shares of the samples, by known labels -> with the audit: {first_few(moved, _MOST_NAMED)}",
    ]
    if used.looks_biased:
        names = [moved.name for moved in used.preferred]
        lines.append(
            "warning: frequent classes seem to have been preferred as known labels: "
            f"{first_few(names, _MOST_NAMED)} (gamma {used.gamma:.2f}; it is at most {BIASED_GAMMA:g} in "
            "about two thirds of data sets where they were, and in one of seven where they were not). "
            "Precision and yield that were estimated without an audit are too optimistic."
        )
    if used.contradicted:
        some = counted(used.contradicted, "known label is", "known labels are")
        lines.append(f"note: {some} not in the table. Correct the data, or the table.")
    if used.selection is not None:
        lines += _compared(used.selection)
    return lines


def _compared(selection: Selection) -> list[str]:
    """A table of runs, the best one first, and what follows from it."""
    contenders = sorted(selection.contenders.items(), key=lambda item: item[1].z)
    rows = [("run", "SP-score", "behind", "mAP of these samples", "behind", "both")]
    for name, (observed, audited, z_audited, z) in contenders:
        interval = f"{100 * audited.value:.1f} ±{100 * audited.margin:.1f}"
        behind = f"{observed.z:.1f}", interval, f"{z_audited:.1f}"
        rows.append((name, shown_score(observed.sp), *behind, f"{z:.1f}"))
    sp, audit, best = selection.by_observed, selection.by_audit, selection.best
    lines = [
        "",
        *columns(rows, right=range(1, 6)),
        f"behind: {sp} in standard deviations of the difference; below 0 = ahead of it. both: their sum over "
        "the square root of 2.",
        "mAP of few samples compares runs; as a level it is too high, because rare classes score higher on "
        "them.",
        f"SP-score and audit agree: {best} is the best."
        if sp == audit
        else f"SP-score and audit disagree: {sp} is the best by the SP-score, {audit} by mAP of the audited "
        f"samples, and {best} by both together.",
    ]
    if selection.lead < TRUSTED:
        lines.append(
            f"{best} is only {selection.lead:.1f} standard deviations ahead of {contenders[1][0]}: label "
            "more samples if the choice matters."
        )
    return [*lines, *(f"warning: {warning}" for warning in selection.warnings)]
