"""The command `spml predict`. Heavy modules are imported when it runs."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jsonargparse import ArgumentParser, Namespace

from ..common.errors import InputError
from .decision import add_decision_arguments, decision_settings
from .evaluate import add_cluster_arguments, add_engine_arguments

if TYPE_CHECKING:
    from ..data import Inputs
    from ..decisions import Decision
    from ..runs.compute.predict import Engine
    from ..runs.compute.prediction_files import Format
    from ..runs.run import Run


def add_predict_command(commands: Any) -> None:
    """Add `predict` to the commands of `spml`."""
    parser = ArgumentParser(
        description="Label new samples with a trained model, however many they are. A command that was "
        "stopped or killed continues when it is given again: until the output is complete, it is "
        "called OUTPUT.partial."
    )
    parser.add_argument("run", help="folder of the run")
    parser.add_argument(
        "paths",
        nargs="+",
        help="images, folders of images, tables (CSV, TSV, Parquet) with a column `file` that names images, "
        "or a feature file",
    )
    parser.add_argument("--output", default="", help="file to write; standard output by default")
    parser.add_argument("--overwrite", action="store_true", help="replace the output if it exists")
    parser.add_argument(
        "--format",
        type=Literal["auto", "csv", "tsv", "jsonl", "parquet", "xlsx"],
        default="auto",
        help="csv, tsv, jsonl (an object per line), parquet or xlsx (Excel); by default as the suffix of "
        "--output says, or csv on standard output",
    )
    parser.add_argument(
        "--scores",
        type=Literal["auto", "all", "predicted", "none"],
        default="auto",
        help="scores to write: of all classes, of the predicted labels only, or none; auto = all up to 100 "
        "classes, otherwise of the predicted labels",
    )
    parser.add_argument(
        "--images",
        type=str | None,
        default=None,
        help="folder that file names in tables are relative to; default: the folder of the table",
    )
    add_decision_arguments(parser)
    add_engine_arguments(parser)
    parser.add_argument(
        "--cache",
        type=str | None,
        default=None,
        help="folder for the features of a frozen backbone, or `none` to keep none; default: the one that "
        "the run was trained with",
    )
    add_cluster_arguments(parser, "images and features are processed")
    commands.add_subcommand("predict", parser, help="label new samples")


def run_predict(arguments: Namespace) -> None:
    """Predict, and print or write the result.

    Raises:
        InputError: Run, samples or output do not suit.
    """
    from ..common.files import check_output
    from ..runs.compute.cluster.connection import check_engine

    cluster = check_engine(arguments.engine, arguments.address)
    output = Path(arguments.output) if arguments.output else None
    name = _format_name(arguments.format, output)
    if output:
        check_output(output, map(Path, [arguments.run, *arguments.paths]))
        if output.exists() and not arguments.overwrite:
            raise InputError(f"{output}: already exists. Replace it (--overwrite), or name another --output.")

    from ..runs.api import load
    from ..runs.compute.predict import Engine
    from ..runs.compute.prediction_files import make_format
    from ..runs.console import Console

    run = load(arguments.run)
    form = make_format(name, run.classes, arguments.scores, calibrated=run.calibration is not None)
    console = Console()
    engine = Engine(
        arguments.batch_size, arguments.workers, arguments.device, console, arguments.cache, cluster
    )
    engine.check()
    ids, inputs = run.list_inputs(arguments.paths, arguments.images, console.line)
    form.check(len(ids))
    if output is None:
        _to_standard_output(run, ids, inputs, engine, arguments, form)
    else:
        _to_file(run, ids, inputs, engine, arguments, form, output)


def _format_name(stated: str, output: Path | None) -> str:
    """Name of the format, as stated or as the suffix of the output says.

    Raises:
        InputError: The suffix is that of no format, or of another one than stated.
    """
    from ..runs.compute.prediction_files import FORMATS

    if output is None:
        if stated in ("parquet", "xlsx"):
            raise InputError(f"--format {stated} needs a file to write: pass --output FILE.{stated}.")
        return "csv" if stated == "auto" else stated
    suffix = output.suffix.lower().removeprefix(".")
    if suffix not in FORMATS and stated == "auto":
        raise InputError(
            f"{output}: its name does not say what to write. Name a file that ends in "
            f"{', '.join('.' + name for name in FORMATS)}, or pass --format."
        )
    if suffix in FORMATS and stated not in ("auto", suffix):
        raise InputError(f"{output}: is named as {suffix}, but --format is {stated}. Leave --format out.")
    return suffix if stated == "auto" else stated


def _to_standard_output(
    run: Run,
    ids: Sequence[str],
    inputs: Inputs,
    engine: Engine,
    arguments: Namespace,
    form: Format,
) -> None:
    from ..runs.compute.prediction_files import scores_to_give

    decision = run.decision(**decision_settings(arguments))
    sparse = scores_to_give(arguments.scores, len(run.classes)) != "all"
    skipped: dict[int, str] = {}
    _print(form.start())
    for batch in run.stream(inputs, engine):
        _print(form.block(run.labelled(ids, batch, decision, sparse=sparse)))
        skipped |= batch.unreadable
    _note(run, ids, skipped, engine)


def _to_file(
    run: Run,
    ids: Sequence[str],
    inputs: Inputs,
    engine: Engine,
    arguments: Namespace,
    form: Format,
    output: Path,
) -> None:
    from ..common.files import sha256_file
    from ..common.phrases import counted
    from ..runs.compute.prediction_files import scores_to_give
    from ..runs.compute.unfinished import Unfinished

    assert engine.console is not None
    decision = run.decision(**decision_settings(arguments))
    sparse = scores_to_give(arguments.scores, len(run.classes)) != "all"
    identity = {
        "model": sha256_file(run.folder / "model.json"),  # which names the SHA-256 of the weights
        "samples": _digest(ids, inputs),
        "decision": _digest_of_decision(decision),
        "calibration": None if run.calibration is None else run.calibration.to_dict(),
        "format": [type(form).__name__, arguments.scores],
        "engine": [engine.batch_size, engine.device],
    }
    with Unfinished(output, identity, form.start(), engine.console.line) as unfinished:
        for batch in run.stream(inputs, engine, unfinished.samples):
            content = form.block(run.labelled(ids, batch, decision, sparse=sparse))
            unfinished.add(content, batch.end, batch.unreadable)
        _note(run, ids, unfinished.skipped, engine)
        unfinished.finish(form.complete)
    engine.console.line(f"{output}: {counted(len(ids) - len(unfinished.skipped), 'sample')}")


def _digest_of_decision(decision: Decision) -> str:
    """SHA-256 of everything that a decision states, of which there may be a number per class."""
    import numpy as np

    rest = repr((decision.top_k, decision.top1_fallback, decision.threshold is None))
    digest = hashlib.sha256(rest.encode())
    if decision.threshold is not None:
        digest.update(np.asarray(decision.threshold, np.float64).tobytes())
    digest.update(np.asarray(decision.never, np.int64).tobytes())
    return digest.hexdigest()


def _note(run: Run, ids: Sequence[str], skipped: dict[int, str], engine: Engine) -> None:
    assert engine.console is not None
    for note in run.notes(ids, skipped):
        engine.console.line(note)


def _print(content: bytes) -> None:
    sys.stdout.write(content.decode())
    sys.stdout.flush()


def _digest(ids: Sequence[str], inputs: Inputs) -> str:
    """SHA-256 by which samples that were changed are noticed without reading all of them."""
    from ..data.images.image_files import ImageFiles

    digest = hashlib.sha256("\n".join(ids).encode(errors="backslashreplace"))
    if isinstance(inputs, ImageFiles):
        digest.update(inputs.stamp().encode())
    else:
        digest.update(inputs.fingerprint().encode())
    return digest.hexdigest()
