"""The command `spml evaluate`. Heavy modules are imported when it runs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from ..common.errors import InputError
from ..common.files import (
    check_folder,
    check_output,
    check_writable,
    make_folder,
    same_path,
    write_checked_json,
)
from ..common.phrases import counted, first_few
from .arguments import DataSettings
from .shared import Decision, Prediction, new_table, print_table, runs_and_data

_LISTED = 500
"""Largest number of classes that are printed one by one."""

_COLUMNS = {
    "mAP": "mAP",
    "micro_F1": "micro F1",
    "micro_precision": "precision",
    "micro_recall": "recall",
    "macro_F1": "macro F1",
    "P@1": "P@1",
    "R@3": "R@3",
}
"""Metrics of the table of several runs, and their headers."""


def evaluate(
    runs: list[str],
    *,
    data: DataSettings,
    decision: Decision,
    prediction: Prediction,
    split: str = "test",
    observed: bool = False,
    draws: int = 200,
    output: Path | None = None,
) -> None:
    """Measure a trained model on labelled data, or compare several. Where the data is not fully labelled,
    they are judged by observed labels alone: by the SP-score, whose K is --mean_labels.

    Args:
        runs: Folders of runs, and after them the data, unless --data.path names it.
        data: Settings of the data.
        decision: How labels are predicted from scores.
        prediction: How scores are computed.
        split: Which part of the data.
        observed: Judge by observed labels even if the data is fully labelled.
        draws: Number of bootstrap draws of the samples, for intervals.
        output: JSON file, or a folder for JSON and a picture; default: evaluation.json in the folder of the
            run, if it is one.
    """
    runs, config = runs_and_data(runs, data)
    if not config.path:
        raise InputError("name the labelled data to evaluate on, after the folder of the run")
    if output and output.suffix != ".json" and output.is_file():
        raise InputError(f"{output}: is a file; --output must name a .json file or a folder.")
    if output and output.suffix.lower() in (".csv", ".tsv", ".jsonl", ".parquet", ".xlsx", ".txt"):
        raise InputError(f"{output}: --output must name a .json file, or a folder for JSON and a picture.")
    from ..runs.folder.layout import EVALUATION

    if output and output.suffix == ".json":
        # In the folder of a run, only an earlier evaluation may be replaced.
        check_output(output, map(Path, [config.path, *(runs if output.name != EVALUATION else [])]))
    elif output:
        check_folder(output)
    elif len(runs) == 1 and Path(runs[0]).is_dir():
        check_writable(Path(runs[0]) / EVALUATION)

    from ..runs.evaluate import compare, of_one, write_comparison
    from ..runs.report.page import renew_report
    from ..runs.run import load_each

    settings = vars(decision)
    folder = output if output and output.suffix != ".json" else None
    loaded, engine = load_each(runs), prediction.engine()
    result = compare(
        loaded,
        config,
        split=split,
        observed=observed,
        mean_labels=settings.pop("mean_labels"),
        decision=settings,
        batch_size=engine.batch_size,
        workers=engine.workers,
        device=engine.device,
        intervals=len(runs) > 1 or folder is not None,
        draws=draws,
    )
    print_evaluation(result)
    if folder:
        make_folder(folder)
        print(f"{folder}: {', '.join(write_comparison(folder, result))} written")
    elif output or len(loaded) == 1:
        file = output or loaded[0].folder / EVALUATION
        own = {**of_one(result), "run": loaded[0].identity} if len(loaded) == 1 else result
        write_checked_json(file, own)
        print(f"{file}: written")
    if len(runs) == 1 and (output is None or same_path(output, loaded[0].folder / EVALUATION)):
        renew_report(loaded[0], engine)


def print_evaluation(result: dict[str, Any]) -> None:
    """Print a result of `spml.compare`, for one run or several."""
    from ..metrics import FEWEST_SHOWN, shown_score
    from ..runs.evaluate import of_one

    print(f"{result['data']}, {result['split']}: {result['samples']} samples, labels: {result['labels']}")
    if result["labels"] == "full":
        if len(result["runs"]) == 1:
            _print_metrics(of_one(result))
        else:
            _print_table(result)
    elif result["samples_with_a_positive"] < FEWEST_SHOWN:
        few = result["samples_with_a_positive"]
        print(
            f"SP-score not shown: it says too little about {few} samples with a known positive label; "
            f"at least {FEWEST_SHOWN} are needed."
        )
    elif len(result["candidates"]) == 1:
        one = of_one(result)
        low, high = map(shown_score, one["SP_interval"])
        print(
            f"SP-score {shown_score(one['SP'])} (95 % interval {low} to {high}), P {shown_score(one['P'])}, "
            f"A {shown_score(one['A'])}; naive mAP {100 * one['naive_mAP']:.2f}"
        )
    else:
        _print_candidates(result)
    if result["labels"] != "full":
        sources = {"default": " (assumed; state yours with --mean_labels)", "runs": " (as the runs know it)"}
        source = sources.get(result["mean_labels_source"], "")
        if "groups" in result:
            print(f"Intervals and z are from bootstrap draws of {_drawn(result)}.")
        print(
            f"K = {result['mean_labels']:g} labels per sample{source}. The SP-score ranks models at this K; "
            "it is not mAP. The naive mAP (unknown labels are absent) needs no K: it is the held-out score "
            "of a run."
        )
    for note in result["notes"]:
        print(note)
    for warning in result["warnings"]:
        print(f"warning: {warning}")


def _print_metrics(result: dict[str, Any]) -> None:
    from ..metrics import metrics

    print(f"mAP {100 * result['mAP']:.2f}")
    for average, row in result["thresholded"].items():
        print(
            f"{average:<8} precision {100 * row['precision']:.2f}  recall {100 * row['recall']:.2f}  "
            f"F1 {100 * row['f1']:.2f}"
        )
    if "calibration" in result:
        print(f"calibration error {100 * result['calibration']['error']:.1f} % of the positives")
    for metric in metrics().values():
        value = result.get(metric.name)
        if metric.name not in ("mAP", "threshold") and isinstance(value, int | float):
            print(f"{metric.title} {value:.4f}")
    for k, row in result.get("propensity_scored_top_k", {}).items():
        print(f"PSP@{k} {100 * row['precision']:.2f}  PSR@{k} {100 * row['recall']:.2f}")
    never = set(result["never_predicted"])
    for label, ap in islice(result["AP"].items(), _LISTED):
        remark = "  (never predicted: had no training positive)" if label in never else ""
        print(f"  AP {100 * ap:6.2f}  {label}{remark}")
    if len(result["AP"]) > _LISTED:
        print(f"  and {len(result['AP']) - _LISTED} more classes, which the written file holds")


def _print_table(result: dict[str, Any]) -> None:
    """Print a row per run, the highest mAP first."""
    runs = sorted(result["runs"].items(), key=lambda item: -item[1]["intervals"]["mAP"]["value"])
    metrics_shown = [name for name in _COLUMNS if name in runs[0][1]["intervals"]]
    rows = []
    for name, run in runs:
        scores = run["intervals"]
        cells = [_with_margin(scores[metric], "value", "margin") for metric in metrics_shown]
        best = scores["mAP"]["behind"] == 0
        cells.insert(1, "" if best else _with_margin(scores["mAP"], "behind", "behind_margin"))
        tied = scores["mAP"]["tied"]
        rows.append((name, tied, [*cells, "yes" if tied else ""]))
    headers = [_COLUMNS[metric] for metric in metrics_shown]
    _print_rows([headers[0], "behind", *headers[1:], "tie set"], rows)
    count = len(runs)
    tie_set = result["tie_set"]
    print(f"\ntie set, {len(tie_set)} of {count} by mAP: {', '.join(tie_set)}")
    print(
        f"±: half of a 95 % interval, from {result['draws']} bootstrap draws of {_drawn(result)}, the same "
        "for all runs; precision and recall are micro averages.\n"
        "tie set: the interval of the difference to the best includes 0."
    )
    for name, run in runs:
        if "calibration" in run:
            error = run["calibration"]["error"]
            print(f"{name}: calibration error {100 * error:.1f} % of the positives")
    for name, run in runs:
        if run["never_predicted"]:
            never = first_few(run["never_predicted"], _LISTED)
            print(f"{name}: never predicted (no training positive): {never}")


def _drawn(result: dict[str, Any]) -> str:
    return f"the {counted(result['groups'], 'group')}" if "groups" in result else "the samples"


def _with_margin(score: dict[str, Any], value: str, margin: str) -> str:
    return f"{100 * score[value]:.2f} ±{100 * score[margin]:.2f}"


def _print_candidates(result: dict[str, Any]) -> None:
    """Print a row per run, the highest SP-score first."""
    from ..metrics import TRUSTED, shown_score

    candidates = sorted(result["candidates"], key=lambda candidate: candidate["ranks"]["SP"])
    rows = []
    for c in candidates:
        ranks, (low, high) = c["ranks"], c["SP_interval"]
        cells = [
            f"{shown_score(c['SP'])} ({ranks['SP']})",
            f"{shown_score(low)} to {shown_score(high)}",
            *(f"{shown_score(c[key])} ({ranks[key]})" for key in ("P", "A", "naive_mAP")),
            f"{100 * c['behind']:.2f}",
            c["z"] if isinstance(c["z"], str) else f"{c['z']:.2f}",
            "yes" if c["in_tie_set"] else "",
        ]
        rows.append((c["run"], c["in_tie_set"], cells))
    _print_rows(["SP-score", "95 % interval", "P", "A", "naive mAP", "behind", "z", "tie set"], rows)
    count = len(candidates)
    checks = result["cross_checks"]
    tie_set = result["tie_set"]
    print(f"\n(in brackets: ranks)\ntie set, {len(tie_set)} of {count}: {', '.join(tie_set)}")
    print(
        f"tie set: at most {TRUSTED:g} standard deviations of the difference (z) behind the best; no order "
        "among them can be trusted."
    )
    print(
        f"Spearman of SP-score and naive mAP over {count} runs: {_number(checks['spearman_SP_naive_mAP'])}; "
        f"of P and A over the upper {-(-count // 2)}: {_number(checks['spearman_P_A_upper_half'])}"
    )


def _print_rows(headers: Sequence[str], rows: Sequence[tuple[str, bool, Sequence[str]]]) -> None:
    """Print a table: the name of a run, whether it is emphasised, and its cells."""
    from rich.text import Text

    table = new_table(("run", *headers), wrapped=(0,), lines=True)
    table.columns[0].overflow = "fold"
    for name, emphasised, cells in rows:
        table.add_row(Text(name, style="bold" if emphasised else ""), *cells)
    print()
    # Rich would cut numbers where a terminal is narrow; a terminal wraps them. A file has room for names.
    print_table(table, max(shutil.get_terminal_size().columns, 120) if sys.stdout.isatty() else 1000)


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2f}"
