"""The commands `spml audit`, `audit sample` and `audit use`. Heavy modules are imported when one runs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from ..common.errors import InputError
from ..common.locks import only_writer
from ..common.phrases import counted, first_few, first_warnings
from ..config import DataConfig
from .arguments import DataSettings
from .shared import Cluster, Network, Prediction, columns, runs_and_data, with_path

if TYPE_CHECKING:
    from ..runs.audits.use import UsedAudit

_MOST_NAMED = 5
"""Classes that a line names."""
_FIRST = 10
_BEGINNINGS = (100, 300, 1000)
"""Lengths of beginnings of the list whose expected yield is printed."""
_WORTH = (
    "What such samples are worth was measured on data sets whose labels are all known. K from 50, 100 or 200 "
    "samples was off by 4.1, 2.9 or 2.0 % on average. mAP of 100 samples was 9.2 points above mAP of all "
    "samples, ±8.1 points, and a difference of 4.3 points between two models was found with probability 80 %."
)
"""Measured: `benchmarks/results/audit_sample.md` and `decisions.md`."""


def audit(
    run: Path,
    path: str = "",
    *,
    data: DataSettings,
    prediction: Prediction,
    cluster: Cluster,
    output: Path | None = None,
    overwrite: bool = False,
    folds: int | None = None,
    top: int = 1000,
    per_class: int = 0,
    min_probability: float = 0.05,
    mean_labels: float | None = None,
) -> None:
    """Find labels that are probably missing in a data set, with the scores of a trained run: a ranked list
    with its expected yield, given labels that look wrong, and a report on every class. Samples that the run
    was trained on are scored by models that were fitted without them.

    Args:
        run: Folder of the run.
        path: Data; default: that of the training.
        data: Settings of the data, in place of those of the training.
        prediction: How scores are computed.
        cluster: Where samples are scored.
        output: Folder of the audit; default: `audit` in the folder of the run.
        overwrite: Replace an earlier audit.
        folds: Parts of the training samples, each scored by a model that is fitted without it; 0 = none.
            Default: 5 where the head is solved, in seconds; 0 where the model is trained, because each part
            takes as long as the training. A command that was killed goes on when it is given again.
        top: Most labels that are listed; 0 = all.
        per_class: Most labels of a class; 0 = any.
        min_probability: Least probability of a label that is listed.
        mean_labels: Mean number of labels per sample K; default: as stated for the training.
    """
    import numpy as np

    from ..audit.questions import Yield
    from ..engine import Interrupted
    from ..plots.style import cut
    from ..runs.audits.find import Limits, run_audit

    output = output or run / "audit"
    engine = prediction.engine(cluster=cluster.find())
    try:
        found, health = run_audit(
            run,
            with_path(data, path),
            output=output,
            folds=folds,
            limits=Limits(top, per_class, min_probability),
            mean_labels=mean_labels,
            overwrite=overwrite,
            engine=engine,
        )
    except Interrupted as stop:
        raise Interrupted(f"{stop}; the same command goes on with what is saved.") from stop
    about = found.about
    print(
        f"{counted(about.samples, 'sample')}, {counted(len(about.classes), 'class', 'classes')}, "
        f"{about.mean_labels:g} labels per sample ({about.mean_labels_source}): "
        f"{health['share_missing']:.0%} of the labels are missing, about {about.hidden:,.0f}"
    )
    print(f"scores: {about.how}")
    print(f"probably missing (probability above .5): {about.probable:,}")
    print(f"listed: {about.listed:,}; expected to be right: {Yield(about.listed, about.expected)}")
    total = np.cumsum([row.probability for row in found.missing])
    firsts = [f"{total[n - 1]:,.0f} of the first {n:,}" for n in _BEGINNINGS if n < about.listed]
    if firsts:
        print(f"expected to be right: {', '.join(firsts)}")
    if found.missing:
        rows = [("rank", "prob.", "probably missing", "given", "file")]
        for row in found.missing[:_FIRST]:
            given = row.given.replace("|", ", ") or "-"
            rows.append(
                (str(row.rank), f"{row.probability:.2f}", cut(row.label, 30), cut(given, 30), row.file)
            )
        print("\n".join(["", *columns(rows, right=range(2))]))
    ranked = sorted(found.classes, key=lambda each: (each.learnable, each.separation if each.known else 0.0))
    rows = [("class", "known", "hidden", "separation", "")]
    for each in ranked[:_FIRST]:
        separation = f"{each.separation:.2f}" if each.known else "-"
        reason = f"not learnable: {each.reason}" if each.reason else ""
        rows.append((cut(each.label, 30), f"{each.known:,}", f"{each.hidden:,.0f}", separation, reason))
    print("\n".join(["", *columns(rows)]))
    more = len(ranked) - len(rows) + 1
    print(f"({counted(more, 'class', 'classes')} with a better separation: classes.csv)" if more else "")
    if found.wrong:
        first = found.wrong[0]
        print(
            f"given labels that look most like mistakes: {len(found.wrong):,} in wrong.csv, first "
            f"{first.label} of {first.file}. How many of them are wrong can't be told from the data."
        )
    for line in first_warnings(about.warnings, str(output / "audit.json")):
        print(line)
    print(f"{output}: audit.json, missing.csv, wrong.csv, classes.csv, audit.png written")
    print(f"next: spml review {shlex.quote(str(output))}")


def audit_sample(
    runs: list[str],
    *,
    data: DataSettings,
    network: Network,
    rows: int = 100,
    seed: int = 0,
    output: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Draw random samples to label in full, and write a table for their labels. They tell the mean labels per
    sample K, mAP, and which of several models is better. Images are neither copied nor linked.

    Args:
        runs: Folder of a run, or of several to compare, and after them, optionally, the data to draw from;
            default: all samples that the runs have held-out scores of.
        data: Settings of the data.
        network: Network of the user's own.
        rows: Number of samples to label in full.
        seed: Seed of the draw.
        output: Table to write (CSV); default: sample.csv in the folder of the first run.
        overwrite: Replace the table if it exists.
    """
    from ..audit.sheets import check_sheet
    from ..runs.audits.sample import sample_for_audit
    from ..runs.run import load_each

    folders, config = runs_and_data(runs, data)
    if not config.path and config != DataConfig():
        raise InputError("--data options say how data is read: name the data after the runs.")
    sheet = output or Path(folders[0]) / "sample.csv"
    loaded = dict(zip(folders, load_each(folders), strict=True))
    check_sheet(sheet, overwrite=overwrite)
    sample = sample_for_audit(loaded, config if config.path else None, rows=rows, seed=seed)
    with only_writer(sheet):
        check_sheet(sheet, overwrite=overwrite)  # another process may have written it since
        files = sample.write(sheet)
    print(
        f"{sheet}: {counted(len(sample.ids), 'sample')}, drawn at random (seed {sample.seed}) from "
        f"{counted(sample.available, 'sample')} with held-out scores. Names are those in "
        f"{sample.data['path'] if sample.data else 'the training data'}."
    )
    if sample.groups:
        print(
            f"They are of {counted(sample.groups, 'group')}. Each was drawn by itself, not with its group, "
            "so K and shares are those of the samples that they were drawn from; models are compared by "
            "draws of groups."
        )
    print(
        f"Label them on a page: spml review {shlex.quote(str(sheet))}. Or write ALL labels of each row into "
        "`labels`, with | between them, and then yes into `complete`. "
        f"The names of the {counted(len(sample.classes), 'class', 'classes')} are in {files.classes}."
    )
    print(_WORTH)
    print(f"Afterwards: spml audit use {shlex.join([str(sheet), *folders])}")


def audit_use(
    file: str,
    runs: list[str],
    *,
    prediction: Prediction,
    target: str = "",
    per_class: bool = False,
    images: str | None = None,
    draws: int = 200,
    seed: int = 0,
) -> None:
    """Learn from samples that people labelled in full: the mean labels per sample K, the shares of the
    classes, thresholds and probabilities of each run, and which of several runs is best. Writes
    thresholds.json, thresholds.png and audited.json into the folder of each run.

    Args:
        file: Table that `spml audit sample` wrote and people filled in, or labelled with `spml review`.
        runs: Folder of a run, or of several to compare.
        prediction: How scores are computed.
        target: What thresholds aim at, as for `spml thresholds`; default: as in the run.
        per_class: Reach the target in each class.
        images: Folder that file names are relative to, for samples that a run has no held-out scores of;
            default: the folder of the table.
        draws: Number of bootstrap draws, at least 50.
        seed: Seed of the bootstrap draws.
    """
    from ..decisions import read_target
    from ..metrics import MIN_DRAWS
    from ..review.labelling import write_page_labels
    from ..runs.audits.use import use_audit
    from ..runs.run import load_each
    from ..runs.settle.conflicts import first_training

    if draws < MIN_DRAWS:
        raise InputError(f"--draws must be at least {MIN_DRAWS}, got {draws}")
    if per_class and not target:
        raise InputError("--per_class belongs to --target: pass both.")
    aim = read_target(target, per_class=per_class) if target else None
    table, remarks = write_page_labels(Path(file))
    for remark in remarks:
        print(remark)
    models = dict(zip(runs, load_each(runs), strict=True))
    if len(runs) == 1 and (config := models[runs[0]].config) and config.data.classes:
        print(
            f"{table}: written. {runs[0]} was made from names of classes alone, so there is nothing to "
            f"estimate yet.\nnext: {first_training(config, str(table))}"
        )
        return
    engine = prediction.engine()
    used = use_audit(
        table,
        models,
        images=images,
        target=aim,
        draws=draws,
        seed=seed,
        engine=engine,
    )
    used.write(models, engine)
    for line in learned(used):
        print(line)
    for name, policy in used.thresholds.items():
        print(
            f"{name}: thresholds.json, thresholds.png and audited.json written ({policy.target.describe()})"
        )


def learned(used: UsedAudit) -> list[str]:
    """Say what fully labelled samples tell, one line each."""
    from ..decisions.priors import BIASED_GAMMA
    from ..metrics import TRUSTED, shown_score

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
            "about two thirds of data sets where they were, and in one of eight where they were not). "
            "Precision and yield that were estimated without an audit are too optimistic."
        )
    if used.contradicted:
        some = counted(used.contradicted, "known label is", "known labels are")
        lines.append(f"note: {some} not in the table. Correct the data, or the table.")
    if used.selection is not None:
        selection = used.selection
        contenders = sorted(selection.contenders.items(), key=lambda item: item[1].z)
        rows = [("run", "SP-score", "behind", "mAP of these samples", "behind", "both")]
        for name, (observed, audited, z_audited, z) in contenders:
            interval = f"{100 * audited.value:.1f} ±{100 * audited.margin:.1f}"
            behind = f"{observed.z:.1f}", interval, f"{z_audited:.1f}"
            rows.append((name, shown_score(observed.sp), *behind, f"{z:.1f}"))
        sp, audit, best = selection.by_observed, selection.by_audit, selection.best
        lines += [
            "",
            *columns(rows, right=range(1, 6)),
            f"behind: {sp} in standard deviations of the difference; below 0 = ahead of it. both: their sum "
            "over the square root of 2.",
            "mAP of few samples compares runs; as a level it is too high, because rare classes score higher "
            "on them.",
            f"SP-score and audit agree: {best} is the best."
            if sp == audit
            else f"SP-score and audit disagree: {sp} is the best by the SP-score, {audit} by mAP of the "
            f"audited samples, and {best} by both together.",
        ]
        if selection.lead < TRUSTED:
            lines.append(
                f"{best} is only {selection.lead:.1f} standard deviations ahead of {contenders[1][0]}: label "
                "more samples if the choice matters."
            )
        lines += [f"warning: {warning}" for warning in selection.warnings]
    return lines
