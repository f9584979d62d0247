"""The command `spml evaluate`. Heavy modules are imported when it runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace

from ..config import DataConfig, from_dict
from ..errors import InputError
from ..files import check_folder, check_output, make_folder

_EVALUATION = "evaluation.json"


def add_evaluate_command(parent: Any) -> None:
    """Add `evaluate` to the commands of `spml`."""
    parser = ArgumentParser(
        description="Measure a trained model on labelled data, or compare several. Where the data is not "
        "fully labelled, they are judged by observed labels alone."
    )
    parser.add_argument(
        "runs", nargs="+", help="folders of runs, and after them the data, unless --data.path names it"
    )
    parser.add_class_arguments(DataConfig, "data")
    parser.add_argument("--split", default="test", help="which part of the data")
    parser.add_argument(
        "--observed", action="store_true", help="judge by observed labels even if the data is fully labelled"
    )
    parser.add_argument(
        "--mean_labels",
        type=float | None,
        default=None,
        help="mean labels per sample K; if not stated 2, or half of fewer than 4 classes",
    )
    parser.add_argument(
        "--output",
        default="",
        help="JSON file, or a folder for the table and the picture of runs judged by observed labels; "
        f"default: {_EVALUATION} in the folder of the run, if it is one or the data is fully labelled",
    )
    add_engine_arguments(parser)
    parent.add_subcommand("evaluate", parser, help="measure or compare models on labelled data")


def add_engine_arguments(parser: ArgumentParser) -> None:
    """Add the options of prediction."""
    parser.add_argument("--batch_size", type=int, default=64, help="samples per step")
    parser.add_argument(
        "--workers",
        type=int,
        default=-1,
        help="number of processes that decode images; -1 = one per core, at most 8",
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or mps")


def run_evaluate(arguments: Namespace) -> None:
    """Evaluate runs, print the result and write it.

    Raises:
        InputError: Runs, data or output do not suit.
    """
    settings: dict[str, Any] = arguments.data.as_dict()
    runs, settings["path"] = _runs_and_data(arguments.runs, settings["path"])
    config = from_dict({"data": settings}).data
    output = Path(arguments.output) if arguments.output else None
    if output and output.suffix != ".json" and output.is_file():
        raise InputError(f"{output}: is a file; --output must name a .json file or a folder.")
    if output and output.suffix == ".json":
        # In the folder of a run, only an earlier evaluation may be replaced.
        check_output(output, map(Path, [config.path, *(runs if output.name != _EVALUATION else [])]))
    elif output:
        check_folder(output)

    from ..runs.api import Engine, evaluate_runs
    from ..runs.console import Console
    from ..runs.evaluate import of_one

    result = evaluate_runs(
        runs,
        config,
        Engine(arguments.batch_size, arguments.workers, arguments.device, Console()),
        arguments.split,
        observed=arguments.observed,
        mean_labels=arguments.mean_labels,
    )
    print(f"{result['data']}, {result['split']}: {result['samples']} samples, labels: {result['labels']}")
    single = of_one(result) if len(runs) == 1 else None
    if result["labels"] == "full":
        _print_full(result["runs"])
        _print_notes(result)
    elif single:
        _print_observed(single)
    else:
        _print_comparison(result)
    for line in _write(result, single, runs, output):
        print(line)


def _runs_and_data(paths: Sequence[str], data: str) -> tuple[list[str], str]:
    """Separate the folders of the runs from the data, which is named last or by --data.path."""
    from ..runs.folder import holds_run

    if data:
        return list(paths), data
    *runs, last = paths
    if not runs or holds_run(Path(last)):
        raise InputError("name the labelled data to evaluate on, after the folder of the run")
    return runs, last


def _write(
    result: dict[str, Any], single: dict[str, Any] | None, runs: Sequence[str], output: Path | None
) -> list[str]:
    """Write the result. Returns a line for each file."""
    from ..files import write_json
    from ..runs.evaluate import CSV, JSON, PICTURE, write_comparison

    full = result["labels"] == "full"
    if output is None:
        each = {runs[0]: single} if single else result.get("runs", {})
        about = {key: value for key, value in result.items() if key != "runs"} if full else {}
        paths = [Path(run) / _EVALUATION for run in each]
        for file, metrics in zip(paths, each.values(), strict=True):
            write_json(file, {**about, **metrics})
        return [f"{file}: written" for file in paths]
    if full or output.suffix == ".json":
        write_json(output, single or result)
        return [f"{output}: written"]
    make_folder(output)
    write_comparison(output, result)
    return [f"{output}: {JSON}, {CSV}, {PICTURE} written"]


def _print_full(runs: dict[str, dict[str, Any]]) -> None:
    from ..metrics import metrics

    for name, result in runs.items():
        if len(runs) > 1:
            print(f"\n{name}")
        print(f"mAP {100 * result['mAP']:.2f}")
        for average, row in result["thresholded"].items():
            print(
                f"{average:<8} precision {100 * row['precision']:.2f}  recall {100 * row['recall']:.2f}  "
                f"F1 {100 * row['f1']:.2f}"
            )
        for metric in metrics().values():
            if metric.name not in ("mAP", "threshold") and isinstance(result[metric.name], int | float):
                print(f"{metric.title} {result[metric.name]:.4f}")
        for label, ap in result["AP"].items():
            print(f"  AP {100 * ap:6.2f}  {label}")


def _print_observed(result: dict[str, Any]) -> None:
    low, high = result["SP_interval"]
    print(
        f"SP-score {100 * result['SP']:.2f} (95 % interval {100 * low:.2f} to {100 * high:.2f}), "
        f"P {100 * result['P']:.2f}, A {100 * result['A']:.2f}; naive mAP {100 * result['naive_mAP']:.2f}"
    )
    _print_remarks(result)


def _print_comparison(result: dict[str, Any]) -> None:
    from rich.console import Console as RichConsole
    from rich.table import Table
    from rich.text import Text

    candidates = sorted(result["candidates"], key=lambda candidate: candidate["ranks"]["SP"])
    terminal = sys.stdout.isatty()
    table = Table(pad_edge=False, box=None) if not terminal else Table()
    table.add_column("run", overflow="fold")
    for name in ("SP-score", "95 % interval", "P", "A", "naive mAP", "behind", "z", "tie set"):
        table.add_column(name, justify="right", no_wrap=True)
    for c in candidates:
        ranks, (low, high) = c["ranks"], c["SP_interval"]
        table.add_row(
            Text(c["run"], style="bold" if c["in_tie_set"] else ""),
            f"{100 * c['SP']:.2f} ({ranks['SP']})",
            f"{100 * low:.2f} to {100 * high:.2f}",
            *(f"{100 * c[key]:.2f} ({ranks[key]})" for key in ("P", "A", "naive_mAP")),
            f"{100 * c['behind']:.2f}",
            c["z"] if isinstance(c["z"], str) else f"{c['z']:.2f}",
            "yes" if c["in_tie_set"] else "",
        )
    print()
    RichConsole(width=None if terminal else 160).print(table)
    count = len(candidates)
    checks = result["cross_checks"]
    tie_set = result["tie_set"]
    print(f"\n(in brackets: ranks)\ntie set, {len(tie_set)} of {count}: {', '.join(tie_set)}")
    print("Trust a difference only if z is above 2.5. z is not a p-value: it is over-confident.")
    print(
        f"Spearman of SP-score and naive mAP over {count} runs: {_number(checks['spearman_SP_naive_mAP'])}; "
        f"of P and A over the upper {-(-count // 2)}: {_number(checks['spearman_P_A_upper_half'])}"
    )
    _print_remarks(result)


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2f}"


def _print_remarks(result: dict[str, Any]) -> None:
    assumed = (
        " (assumed; state yours with --mean_labels)" if result["mean_labels_source"] == "default" else ""
    )
    print(
        f"K = {result['mean_labels']:g} labels per sample{assumed}. The SP-score ranks models; it is not mAP."
    )
    _print_notes(result)


def _print_notes(result: dict[str, Any]) -> None:
    for note in result["notes"]:
        print(note)
    for warning in result["warnings"]:
        print(f"warning: {warning}")
