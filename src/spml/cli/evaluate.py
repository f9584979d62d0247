"""The command `spml evaluate`. Heavy modules are imported when it runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from ..common.errors import InputError
from ..common.files import check_folder, check_output, check_writable, make_folder, same_path, write_json
from .arguments import DataSettings
from .shared import Decision, Prediction, Tables, runs_and_data


def evaluate(
    runs: list[str],
    *,
    data: DataSettings,
    decision: Decision,
    prediction: Prediction,
    tables: Tables,
    split: str = "test",
    observed: bool = False,
    unknown_classes: Literal["stop", "leave_out"] = "stop",
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
        tables: How names are written.
        split: Which part of the data.
        observed: Judge by observed labels even if the data is fully labelled.
        unknown_classes: What to do about classes of the data that the model lacks; leave_out evaluates over
            the others and says what was left out.
        draws: Number of bootstrap draws of the samples, for intervals.
        output: JSON file, or a folder for JSON, a table (CSV) and a picture; default: evaluation.json in the
            folder of the run, if it is one.
    """
    runs, config = runs_and_data(runs, data)
    if not config.path:
        raise InputError("name the labelled data to evaluate on, after the folder of the run")
    if output and output.suffix != ".json" and output.is_file():
        raise InputError(f"{output}: is a file; --output must name a .json file or a folder.")
    if output and output.suffix.lower() in (".csv", ".tsv", ".jsonl", ".parquet", ".xlsx", ".txt"):
        raise InputError(
            f"{output}: --output must name a .json file, or a folder for JSON, CSV and a picture."
        )
    from ..runs.folder.layout import EVALUATION

    if output and output.suffix == ".json":
        # In the folder of a run, only an earlier evaluation may be replaced.
        check_output(output, map(Path, [config.path, *(runs if output.name != EVALUATION else [])]))
    elif output:
        check_folder(output)
    elif len(runs) == 1 and Path(runs[0]).is_dir():
        check_writable(Path(runs[0]) / EVALUATION)

    from ..runs.api import load_each
    from ..runs.judge.evaluate import evaluate as evaluate_runs
    from ..runs.report.page import renew_report
    from .evaluation_text import print_evaluation

    settings = vars(decision)
    folder = output if output and output.suffix != ".json" else None
    loaded, engine = load_each(runs), prediction.engine()
    result = evaluate_runs(
        loaded,
        config,
        split=split,
        observed=observed,
        mean_labels=settings.pop("mean_labels"),
        decision=settings,
        engine=engine,
        unknown_classes=unknown_classes,
        intervals=len(runs) > 1 or folder is not None,
        draws=draws,
    )
    print_evaluation(result)
    for line in _write(result, runs, output, folder):
        print(line)
    if len(runs) == 1 and (output is None or same_path(output, loaded[0].folder / EVALUATION)):
        renew_report(loaded[0], engine)


def _write(
    result: dict[str, Any], runs: Sequence[str], output: Path | None, folder: Path | None
) -> list[str]:
    """Write the result. Returns a line for each file."""
    from ..runs.folder.layout import EVALUATION
    from ..runs.judge.comparison_files import write_comparison
    from ..runs.judge.evaluate import of_one

    if folder:
        make_folder(folder)
        return [f"{folder}: {', '.join(write_comparison(folder, result))} written"]
    if output is None and len(runs) > 1:
        return []
    file = output or Path(runs[0]) / EVALUATION
    write_json(file, of_one(result) if len(runs) == 1 else result)
    return [f"{file}: written"]
