"""The command `spml demo`: compare methods with each other and with full labels, on scenes of digits."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..common.errors import InputError
from ..common.files import check_folder, write_bytes, write_json, write_text
from ..common.parsing import parse_yaml

if TYPE_CHECKING:
    from ..bench.plan import Series
    from ..bench.spec import Spec


class DemoRun(NamedTuple):
    """A finished run: its place in the specification, its learning rate and folder, and what came of it."""

    series: Series
    trial: int
    rate: float
    folder: Path
    score: float
    test: float
    seconds: float
    curve: list[float]


def demo(*, output: Path = Path("demo"), processes: int = 0) -> None:
    """Compare methods on embedded scenes of digits and draw the results.

    Args:
        output: Folder for the results.
        processes: Number of runs at a time; 0 = one per core.
    """
    from ..bench.plan import all_series
    from ..bench.spec import read_ready_made

    if processes < 0:
        raise InputError(f"--processes must be at least 0 (0 = one per core), got {processes}")
    check_folder(output)
    spec, started = read_ready_made("demo"), time.perf_counter()
    searched = [
        (series, trial)
        for series in all_series(spec)
        if series.seed == spec.seeds[0]
        for trial in range(spec.trials)
    ]
    total = len(searched) + len(spec.candidates) * (len(spec.seeds) - 1)
    print(f"{total} runs of {spec.train['epochs']} epochs on scenes of handwritten digits ...")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes or os.cpu_count() or 1, mp_context=context) as pool:
        runs = _run_all(pool, spec, searched, output)
        # The learning rate of a method is chosen on its first seed, by the SP-score (full labels: by mAP).
        of_candidates = [runs[first : first + spec.trials] for first in range(0, len(runs), spec.trials)]
        best = [max(of_candidate, key=attrgetter("score")) for of_candidate in of_candidates]
        rest = [(run.series._replace(seed=seed), run.trial) for run in best for seed in spec.seeds[1:]]
        runs = _run_all(pool, spec, rest, output)
    chosen = {
        run.series.candidate.name: [run, *(r for r in runs if r.series.candidate == run.series.candidate)]
        for run in best
    }
    table = _table(spec, chosen)
    _write(output, spec, table, chosen)
    print(_as_text(table))
    print(
        f"{time.perf_counter() - started:.0f} s. {output}: table.md, table.json, curves.png, scenes.png, "
        "and each run in runs"
    )


def _run_all(
    pool: ProcessPoolExecutor, spec: Spec, trials: list[tuple[Series, int]], output: Path
) -> list[DemoRun]:
    runs = []
    for run in pool.map(partial(_run, spec, output), *zip(*trials, strict=True)):
        runs.append(run)
        print(
            f"  {run.series.candidate.name:<18} lr {run.rate:<6g} seed {run.series.seed}  test mAP "
            f"{100 * run.test:.2f}  ({run.seconds:.1f} s)"
        )
    return runs


def _run(spec: Spec, output: Path, series: Series, number: int) -> DemoRun:
    """Train one trial in a worker process."""
    from ..bench.plan import plan_trial
    from ..runs.folder.contents import read_metrics, read_summary
    from ..runs.train import run_training

    trial = plan_trial(spec, series, number, [], Path())
    config, rate = trial.config, trial.params["optim.lr"]
    folder = output / "runs" / f"{config.method}-lr{rate:g}-seed{series.seed}"
    config = replace(
        config,
        select="auto",  # full labels are selected by mAP
        data=replace(config.data, observe_seed=0),  # the same labels are hidden for every seed
        output=str(folder),
    )
    run_training(config, overwrite=True)
    summary = read_summary(folder)
    return DemoRun(
        series, number, rate, folder,
        score=summary["validation"][summary["selected"]["metric"]],
        test=summary["test"]["mAP"],
        seconds=summary["cost"]["seconds"],
        curve=[record["val/mAP"] for record in read_metrics(folder)],
    )  # fmt: skip


def _table(spec: Spec, chosen: dict[str, list[DemoRun]]) -> list[dict[str, Any]]:
    tests = {name: [run.test for run in runs] for name, runs in chosen.items()}
    gap = statistics.mean(tests[spec.ceiling]) - statistics.mean(tests[spec.baseline])
    table = []
    for name, values in tests.items():
        differences = [value - base for value, base in zip(values, tests[spec.baseline], strict=True)]
        table.append(
            {
                "label": name,
                "learning_rate": chosen[name][0].rate,
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


def _write(output: Path, spec: Spec, table: list[dict[str, Any]], chosen: dict[str, list[DemoRun]]) -> None:
    from ..plots import compare_curves
    from ..runs.folder.summary import versions

    write_text(output / "table.md", _as_text(table) + "\n")
    recipe = parse_yaml(spec.text, str(spec.path))
    made = {"date": time.strftime("%Y-%m-%d"), "versions": versions(), "rows": table, "recipe": recipe}
    write_json(output / "table.json", made)
    curves = {
        name: [
            (statistics.mean(epoch), statistics.stdev(epoch))
            for epoch in zip(*(run.curve for run in runs), strict=True)
        ]
        for name, runs in chosen.items()
    }
    compare_curves(output / "curves.png", curves, ylabel="validation mAP (true labels)")
    best = max((runs[0] for name, runs in chosen.items() if name != spec.ceiling), key=attrgetter("score"))
    write_bytes(output / "scenes.png", (best.folder / "examples.png").read_bytes())
