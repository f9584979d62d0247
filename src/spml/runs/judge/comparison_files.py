"""The files of a comparison of runs: JSON, CSV and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ... import plots
from ...common.files import write_json, write_rows
from ...metrics import FEWEST_SHOWN

JSON, CSV, PICTURE = "comparison.json", "comparison.csv", "comparison.png"
RELIABILITY = "reliability.png"


def write_comparison(folder: Path, comparison: dict[str, Any]) -> list[str]:
    """Write a result of `spml.runs.judge.evaluate.evaluate` as JSON, as CSV and as a picture.

    By observed labels, the CSV file has a row per run, against full labels a row per run and metric. There is
    no picture of SP-scores on fewer samples than they are shown for; an earlier one is removed. A second
    picture shows the calibration of the runs that have probabilities, where labels are full.

    Returns:
        Names of the files.

    Raises:
        SpmlError: A file could not be written.
    """
    write_json(folder / JSON, comparison)
    (folder / RELIABILITY).unlink(missing_ok=True)
    if comparison["labels"] != "full":
        candidates = comparison["candidates"]
        header = ["run", "SP", "SP_low", "SP_high", "P", "A", "naive_mAP"]
        header += ["rank_SP", "rank_P", "rank_A", "rank_naive_mAP", "behind", "sd", "z", "in_tie_set"]
        rows = [
            [
                *(c["run"], c["SP"], *c["SP_interval"], c["P"], c["A"], c["naive_mAP"], *c["ranks"].values()),
                *(c["behind"], c["sd"], c["z"], int(c["in_tie_set"])),
            ]
            for c in candidates
        ]
        write_rows(folder / CSV, header, rows)
        if comparison["samples_with_a_positive"] < FEWEST_SHOWN:
            (folder / PICTURE).unlink(missing_ok=True)
            return [JSON, CSV]
        plots.tie_set(folder / PICTURE, candidates)
        return [JSON, CSV, PICTURE]
    runs = comparison["runs"]
    header = ["run", "metric", "value", "low", "high", "behind", "behind_low", "behind_high", "tied"]
    rows = [
        [
            *(name, metric, score["value"], *score["interval"]),
            *(score["behind"], *score["behind_interval"], int(score["tied"])),
        ]
        for name, result in runs.items()
        for metric, score in result["intervals"].items()
    ]
    write_rows(folder / CSV, header, rows)
    of_map = {name: result["intervals"]["mAP"] for name, result in runs.items()}
    bars = [
        {"run": name, "mAP": score["value"], "mAP_interval": score["interval"], "in_tie_set": score["tied"]}
        for name, score in of_map.items()
    ]
    plots.tie_set(folder / PICTURE, bars, score="mAP", axis="mAP, %, and its 95 % interval")
    calibrated = {name: result["calibration"] for name, result in runs.items() if "calibration" in result}
    if not calibrated:
        return [JSON, CSV, PICTURE]
    plots.reliability_diagram(folder / RELIABILITY, calibrated)
    return [JSON, CSV, PICTURE, RELIABILITY]
