"""The command `spml predict`."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jsonargparse import ArgumentParser, Namespace

from ..errors import InputError
from .evaluate import add_engine_arguments

if TYPE_CHECKING:
    from ..runs.api import Predictions


def add_predict_command(commands: Any) -> None:
    """Add `predict` to the commands of `spml`."""
    parser = ArgumentParser(description="Label new samples with a trained model.")
    parser.add_argument("run", help="folder of the run")
    parser.add_argument("paths", nargs="+", help="images, folders of images, or feature files")
    parser.add_argument("--output", default="", help="file to write; standard output by default")
    parser.add_argument(
        "--format",
        type=Literal["csv", "jsonl"],
        default="csv",
        help="one column per class, or one object per line",
    )
    add_engine_arguments(parser)
    commands.add_subcommand("predict", parser, help="label new samples")


def run_predict(arguments: Namespace) -> None:
    """Predict, and print or write the result.

    Raises:
        InputError: Run, samples or output do not suit.
    """
    from ..files import check_output, write_text
    from ..runs.api import load
    from ..runs.console import Console

    console = Console()
    if arguments.output:
        check_output(Path(arguments.output), map(Path, [arguments.run, *arguments.paths]))
    run = load(arguments.run)
    with_semicolon = next((name for name in run.classes if ";" in name), None)
    if with_semicolon and arguments.format == "csv":
        raise InputError(
            f"the class {with_semicolon!r} contains `;`, which separates labels in CSV. Use --format jsonl."
        )
    predictions = run.predict(
        arguments.paths,
        batch_size=arguments.batch_size,
        workers=arguments.workers,
        device=arguments.device,
        console=console,
    )
    for note in predictions.notes:
        console.line(note)
    text = _as_csv(predictions) if arguments.format == "csv" else _as_jsonl(predictions)
    if arguments.output:
        write_text(Path(arguments.output), text)
        console.line(f"{arguments.output}: {len(predictions.ids)} samples")
    else:
        sys.stdout.write(text)


def _as_csv(predictions: Predictions) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["file", "labels", *predictions.classes])
    for name, labels, scores in zip(predictions.ids, predictions.labels, predictions.scores, strict=True):
        writer.writerow([name, ";".join(labels), *(f"{score:.6g}" for score in scores)])
    return stream.getvalue()


def _as_jsonl(predictions: Predictions) -> str:
    lines = []
    for name, labels, scores in zip(predictions.ids, predictions.labels, predictions.scores, strict=True):
        by_class = {c: float(f"{score:.6g}") for c, score in zip(predictions.classes, scores, strict=True)}
        lines.append(json.dumps({"file": name, "labels": labels, "scores": by_class}, ensure_ascii=False))
    return "".join(line + "\n" for line in lines)
