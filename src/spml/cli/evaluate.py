"""The command `spml evaluate`. Heavy modules are imported when it runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from jsonargparse import ArgumentParser, Namespace

from ..common.errors import InputError
from ..common.files import check_folder, check_output, check_writable, make_folder, write_json
from ..config import DataConfig, from_dict
from .decision import add_decision_arguments, decision_settings
from .own_network import add_backbone_argument

_EVALUATION = "evaluation.json"


def add_evaluate_command(parent: Any) -> None:
    """Add `evaluate` to the commands of `spml`."""
    parser = ArgumentParser(
        description="Measure a trained model on labelled data, or compare several. Where the data is not "
        "fully labelled, they are judged by observed labels alone: by the SP-score, whose K is --mean_labels."
    )
    parser.add_argument(
        "runs", nargs="+", help="folders of runs, and after them the data, unless --data.path names it"
    )
    parser.add_class_arguments(DataConfig, "data")
    parser.add_argument("--split", default="test", help="which part of the data")
    parser.add_argument(
        "--observed", action="store_true", help="judge by observed labels even if the data is fully labelled"
    )
    add_decision_arguments(parser)
    parser.add_argument(
        "--unknown_classes",
        type=Literal["stop", "leave_out"],
        default="stop",
        help="what to do about classes of the data that the model lacks; leave_out evaluates over the others "
        "and says what was left out",
    )
    parser.add_argument(
        "--draws", type=int, default=200, help="number of bootstrap draws of the samples, for intervals"
    )
    parser.add_argument(
        "--output",
        default="",
        help="JSON file, or a folder for JSON, a table (CSV) and a picture; "
        f"default: {_EVALUATION} in the folder of the run, if it is one",
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
    add_backbone_argument(parser)


def add_cluster_arguments(parser: ArgumentParser, what: str) -> None:
    """Add the options that let the machines of a Ray cluster compute.

    Args:
        parser: Parser to add them to.
        what: What they compute.
    """
    parser.add_argument(
        "--engine",
        type=Literal["local", "ray"],
        default="local",
        help=f"where {what}: in this process, or on the machines of a Ray cluster; the result is the same",
    )
    parser.add_argument(
        "--address", default="", help="address of a Ray cluster (HOST:PORT); default: start Ray here"
    )


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
    if output and output.suffix.lower() in (".csv", ".tsv", ".jsonl", ".parquet", ".xlsx", ".txt"):
        raise InputError(
            f"{output}: --output must name a .json file, or a folder for JSON, CSV and a picture."
        )
    if output and output.suffix == ".json":
        # In the folder of a run, only an earlier evaluation may be replaced.
        check_output(output, map(Path, [config.path, *(runs if output.name != _EVALUATION else [])]))
    elif output:
        check_folder(output)
    elif len(runs) == 1 and Path(runs[0]).is_dir():
        check_writable(Path(runs[0]) / _EVALUATION)

    from ..runs.compute.predict import Engine
    from ..runs.console import Console
    from ..runs.judge.compare import evaluate_runs
    from .evaluation_text import print_evaluation

    decision = decision_settings(arguments)
    folder = output if output and output.suffix != ".json" else None
    result = evaluate_runs(
        runs,
        config,
        Engine(arguments.batch_size, arguments.workers, arguments.device, Console()),
        arguments.split,
        observed=arguments.observed,
        mean_labels=decision.pop("mean_labels"),
        decision=decision,
        unknown_classes=arguments.unknown_classes,
        intervals=len(runs) > 1 or folder is not None,
        draws=arguments.draws,
    )
    print_evaluation(result)
    for line in _write(result, runs, output, folder):
        print(line)


def _runs_and_data(paths: Sequence[str], data: str) -> tuple[list[str], str]:
    """Separate the folders of the runs from the data, which is named last or by --data.path."""
    from ..runs.folder.layout import holds_run

    if data:
        return list(paths), data
    *runs, last = paths
    if not runs or holds_run(Path(last)):
        raise InputError("name the labelled data to evaluate on, after the folder of the run")
    return runs, last


def _write(
    result: dict[str, Any], runs: Sequence[str], output: Path | None, folder: Path | None
) -> list[str]:
    """Write the result. Returns a line for each file."""
    from ..runs.judge.comparison_files import write_comparison
    from ..runs.judge.evaluate import of_one

    if folder:
        make_folder(folder)
        return [f"{folder}: {', '.join(write_comparison(folder, result))} written"]
    if output is None and len(runs) > 1:
        return []
    file = output or Path(runs[0]) / _EVALUATION
    write_json(file, of_one(result) if len(runs) == 1 else result)
    return [f"{file}: written"]
