"""The command `spml demo`: compare methods with each other and with full labels, on scenes of digits."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace

from ..common.errors import InputError
from ..common.files import check_folder, write_bytes, write_json, write_text
from ..config import from_dict
from ..runs import recipes
from ..runs.console import Console


@dataclass(frozen=True)
class Trial:
    """One run of the comparison."""

    label: str
    method: str
    data: dict[str, Any] = field(hash=False)
    learning_rate: float
    seed: int

    def folder(self, output: Path) -> Path:
        return output / "runs" / f"{self.method}-lr{self.learning_rate:g}-seed{self.seed}"


def add_demo_command(commands: Any) -> None:
    """Add `demo` to the commands of `spml`."""
    parser = ArgumentParser(description="Compare methods on embedded scenes of digits and draw the results.")
    parser.add_argument("--output", default="demo", help="folder for the results")
    parser.add_argument("--processes", type=int, default=0, help="number of runs at a time; 0 = one per core")
    commands.add_subcommand("demo", parser, help="compare methods on embedded data")


def run_demo_command(arguments: Namespace) -> None:
    """Run the demo."""
    run_demo(Path(arguments.output), processes=arguments.processes)


def run_demo(output: Path, *, processes: int = 0, console: Console | None = None) -> list[dict[str, Any]]:
    """Train all methods of the recipe and write a table, curves and scenes to a folder.

    Args:
        output: Folder; runs of an earlier demo in it are replaced.
        processes: Number of runs at a time; 0 = one per core.
        console: Shows progress; by default on standard output.

    Returns:
        One row per method: label, learning rate, test mAP in [0, 1] (mean and standard deviation over seeds),
        and the share of the gap between floor and ceiling that is closed.
    """
    if processes < 0:
        raise InputError(f"--processes must be at least 0 (0 = one per core), got {processes}")
    check_folder(output)
    console = console or Console(sys.stdout)
    recipe, started = recipes.read("demo"), time.perf_counter()
    rates, seeds = recipe["learning_rates"], recipe["seeds"]
    contenders = [(m["label"], m["method"], m.get("data", {})) for m in recipe["methods"]]
    first = [Trial(*c, rate, seeds[0]) for c in contenders for rate in rates]
    total = len(first) + len(contenders) * (len(seeds) - 1)
    console.line(f"{total} runs of {recipe['settings']['epochs']} epochs on scenes of handwritten digits ...")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes or os.cpu_count() or 1, mp_context=context) as pool:
        results = _run_all(pool, first, recipe, output, console)
        chosen = {
            c[0]: max((t for t in first if t.label == c[0]), key=lambda t: results[t]["score"])
            for c in contenders
        }
        rest = [
            Trial(t.label, t.method, t.data, t.learning_rate, seed)
            for t in chosen.values()
            for seed in seeds[1:]
        ]
        results |= _run_all(pool, rest, recipe, output, console)
    table = _table(recipe, chosen, results)
    _write(output, recipe, table, chosen, results)
    console.line(_as_text(table))
    console.line(
        f"{time.perf_counter() - started:.0f} s. {output}: table.md, table.json, curves.png, scenes.png, "
        "and each run in runs"
    )
    return table


def _run_all(
    pool: ProcessPoolExecutor, trials: list[Trial], recipe: dict[str, Any], output: Path, console: Console
) -> dict[Trial, dict[str, Any]]:
    results = {}
    for trial, result in zip(
        trials,
        pool.map(_run, trials, [recipe["settings"]] * len(trials), [output] * len(trials)),
        strict=True,
    ):
        results[trial] = result
        console.line(
            f"  {trial.label:<18} lr {trial.learning_rate:<6g} seed {trial.seed}  test mAP "
            f"{100 * result['test_mAP']:.2f}  ({result['seconds']:.1f} s)"
        )
    return results


def _run(trial: Trial, settings: dict[str, Any], output: Path) -> dict[str, Any]:
    """Train one trial in a worker process."""
    from ..runs.folder.contents import read_metrics, read_summary
    from ..runs.train import run_training

    config = from_dict(
        {
            **settings,
            "data": {**settings["data"], **trial.data},
            "optim": {**settings["optim"], "lr": trial.learning_rate},
            "method": trial.method,
            "seed": trial.seed,
            "output": str(trial.folder(output)),
        }
    )
    folder = run_training(config, overwrite=True, console=Console(silent=True))
    summary = read_summary(folder)
    return {
        "score": summary["validation"][summary["selected"]["metric"]],
        "test_mAP": summary["test"]["mAP"],
        "seconds": summary["cost"]["seconds"],
        "curve": [record["val/mAP"] for record in read_metrics(folder)],
    }


def _table(
    recipe: dict[str, Any], chosen: dict[str, Trial], results: dict[Trial, dict[str, Any]]
) -> list[dict[str, Any]]:
    def scores(label: str) -> list[float]:
        pick = chosen[label]
        return [
            result["test_mAP"]
            for trial, result in results.items()
            if (trial.label, trial.learning_rate) == (label, pick.learning_rate)
        ]

    floor, ceiling = scores(recipe["floor"]), scores(recipe["ceiling"])
    gap = statistics.mean(ceiling) - statistics.mean(floor)
    table = []
    for label, pick in chosen.items():
        values = scores(label)
        differences = [value - base for value, base in zip(values, floor, strict=True)]
        table.append(
            {
                "label": label,
                "learning_rate": pick.learning_rate,
                "test_mAP": statistics.mean(values),
                "sd": statistics.stdev(values),
                "difference": statistics.mean(differences),
                "difference_sd": statistics.stdev(differences),
                "gap_closed": statistics.mean(differences) / gap if gap > 0 else None,
            }
        )
    return table


def _as_text(table: list[dict[str, Any]]) -> str:
    lines = [
        "| method | learning rate | test mAP | difference to AN | share of the gap closed |",
        "|---|---|---|---|---|",
    ]
    for row in table:
        share = "" if row["gap_closed"] is None else f"{100 * row['gap_closed']:.0f} %"
        lines.append(
            f"| {row['label']} | {row['learning_rate']:g} "
            f"| {100 * row['test_mAP']:.2f} ± {100 * row['sd']:.2f} "
            f"| {100 * row['difference']:+.2f} ± {100 * row['difference_sd']:.2f} | {share} |"
        )
    return "\n".join(lines)


def _write(
    output: Path,
    recipe: dict[str, Any],
    table: list[dict[str, Any]],
    chosen: dict[str, Trial],
    results: dict[Trial, dict[str, Any]],
) -> None:
    from ..plots import compare_curves
    from ..runs.folder.summary import versions

    write_text(output / "table.md", _as_text(table) + "\n")
    made = {"date": time.strftime("%Y-%m-%d"), "versions": versions(), "rows": table, "recipe": recipe}
    write_json(output / "table.json", made)
    curves = {}
    for label, pick in chosen.items():
        runs = [
            result["curve"]
            for trial, result in results.items()
            if (trial.label, trial.learning_rate) == (label, pick.learning_rate)
        ]
        curves[label] = [_mean_sd(epoch) for epoch in zip(*runs, strict=True)]
    compare_curves(output / "curves.png", curves, ylabel="validation mAP (true labels)")
    picks = [pick for label, pick in chosen.items() if label != recipe["ceiling"]]
    best = max(picks, key=lambda pick: float(results[pick]["score"]))
    write_bytes(output / "scenes.png", (best.folder(output) / "examples.png").read_bytes())


def _mean_sd(values: Iterable[float]) -> tuple[float, float]:
    values = list(values)
    return statistics.mean(values), statistics.stdev(values)
