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
    """Add what says how samples are predicted."""
    parser.add_argument("--batch_size", type=int, default=64, help="samples per step")
    parser.add_argument("--workers", type=int, default=0, help="processes that decode images")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or mps")


def run_evaluate(arguments: Namespace) -> None:
    """Measure, print and write.

    Raises:
        InputError: runs, data or output don't suit.
    """
    settings: dict[str, Any] = arguments.data.as_dict()
    runs, settings["path"] = _runs_and_data(arguments.runs, settings["path"])
    config = from_dict({"data": settings}).data
    output = Path(arguments.output) if arguments.output else None
    if output and output.suffix != ".json" and output.is_file():
        raise InputError(f"{output}: is a file; --output must name a .json file or a folder.")
    if output and output.suffix == ".json":
        # An earlier evaluation of a run may be replaced, nothing else in its folder.
        check_output(output, map(Path, [config.path, *(runs if output.name != _EVALUATION else [])]))
    elif output:
        check_folder(output)

    from ..runs.api import Engine, evaluate_runs
    from ..runs.console import Console
    from ..runs.evaluate import of_one

    found = evaluate_runs(
        runs,
        config,
        Engine(arguments.batch_size, arguments.workers, arguments.device, Console()),
        arguments.split,
        observed=arguments.observed,
        mean_labels=arguments.mean_labels,
    )
    print(f"{found['data']}, {found['split']}: {found['samples']} samples, labels: {found['labels']}")
    alone = of_one(found) if len(runs) == 1 else None
    if found["labels"] == "full":
        _print_full(found["runs"])
        _print_notes(found)
    elif alone:
        _print_observed(alone)
    else:
        _print_comparison(found)
    for line in _write(found, alone, runs, output):
        print(line)


def _runs_and_data(given: Sequence[str], path: str) -> tuple[list[str], str]:
    """The folders of the runs, and the data, which is the last that is named."""
    from ..runs.folder import holds_run

    if path:
        return list(given), path
    *runs, last = given
    if not runs or holds_run(Path(last)):
        raise InputError("name the labelled data to evaluate on, after the folder of the run")
    return runs, last


def _write(
    found: dict[str, Any], alone: dict[str, Any] | None, runs: Sequence[str], output: Path | None
) -> list[str]:
    """Write what was asked for; what to tell of it."""
    from ..files import write_json
    from ..runs.evaluate import CSV, JSON, PICTURE, write_comparison

    full = found["labels"] == "full"
    if output is None:
        each = {runs[0]: alone} if alone else found.get("runs", {})
        about = {key: value for key, value in found.items() if key != "runs"} if full else {}
        paths = [Path(run) / _EVALUATION for run in each]
        for file, metrics in zip(paths, each.values(), strict=True):
            write_json(file, {**about, **metrics})
        return [f"{file}: written" for file in paths]
    if full or output.suffix == ".json":
        write_json(output, alone or found)
        return [f"{output}: written"]
    make_folder(output)
    write_comparison(output, found)
    return [f"{output}: {JSON}, {CSV}, {PICTURE} written"]


def _print_full(runs: dict[str, dict[str, Any]]) -> None:
    from ..metrics import metrics

    for name, found in runs.items():
        if len(runs) > 1:
            print(f"\n{name}")
        print(f"mAP {100 * found['mAP']:.2f}")
        for average, row in found["thresholded"].items():
            print(
                f"{average:<8} precision {100 * row['precision']:.2f}  recall {100 * row['recall']:.2f}  "
                f"F1 {100 * row['f1']:.2f}"
            )
        for metric in metrics().values():
            if metric.name not in ("mAP", "threshold") and isinstance(found[metric.name], int | float):
                print(f"{metric.title} {found[metric.name]:.4f}")
        for label, ap in found["AP"].items():
            print(f"  AP {100 * ap:6.2f}  {label}")


def _print_observed(found: dict[str, Any]) -> None:
    low, high = found["SP_interval"]
    print(
        f"SP-score {100 * found['SP']:.2f} (95 % interval {100 * low:.2f} to {100 * high:.2f}), "
        f"P {100 * found['P']:.2f}, A {100 * found['A']:.2f}; naive mAP {100 * found['naive_mAP']:.2f}"
    )
    _print_remarks(found)


def _print_comparison(found: dict[str, Any]) -> None:
    from rich.console import Console as RichConsole
    from rich.table import Table
    from rich.text import Text

    candidates = sorted(found["candidates"], key=lambda candidate: candidate["ranks"]["SP"])
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
    checks = found["cross_checks"]
    print(
        f"\n(in brackets: ranks)\ntie set, {len(found['tie_set'])} of {count}: {', '.join(found['tie_set'])}"
    )
    print("Take a difference for real at z above 2.5 only. z is not a p-value: it is over-confident.")
    print(
        f"Spearman of SP-score and naive mAP over {count} runs: {_number(checks['spearman_SP_naive_mAP'])}; "
        f"of P and A over the upper {-(-count // 2)}: {_number(checks['spearman_P_A_upper_half'])}"
    )
    _print_remarks(found)


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2f}"


def _print_remarks(found: dict[str, Any]) -> None:
    assumed = " (assumed; state yours with --mean_labels)" if found["mean_labels_source"] == "default" else ""
    print(
        f"K = {found['mean_labels']:g} labels per sample{assumed}. The SP-score ranks models; it is not mAP."
    )
    _print_notes(found)


def _print_notes(found: dict[str, Any]) -> None:
    for note in found["notes"]:
        print(note)
    for warning in found["warnings"]:
        print(f"warning: {warning}")
