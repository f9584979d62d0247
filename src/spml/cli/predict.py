"""The command `spml predict`. Heavy modules are imported when it runs."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Literal

from ..common.errors import InputError
from ..common.messages import log
from .shared import Cluster, Decision, Prediction, check_order


def predict(
    run: str,
    paths: list[str],
    *,
    decision: Decision,
    prediction: Prediction,
    cluster: Cluster,
    output: Path | None = None,
    overwrite: bool = False,
    format: Literal["auto", "csv", "tsv", "jsonl", "parquet"] = "auto",
    scores: Literal["auto", "all", "predicted", "none"] = "auto",
    where: bool = False,
    sidecars: bool = False,
    images: str | None = None,
    cache: str | None = None,
) -> None:
    """Label new samples with a trained model, however many they are. A command that was stopped or killed
    continues when it is given again: until the output is complete, it is called OUTPUT.partial.

    Args:
        run: Folder of the run.
        paths: Images, folders of images, tables (CSV, TSV, Parquet) with a column `file` that names images,
            or a feature file.
        decision: How labels are predicted from scores.
        prediction: How scores are computed.
        cluster: Where images and features are processed.
        output: File to write; standard output by default.
        overwrite: Replace the output, or sidecars, if they exist.
        format: csv, tsv, jsonl (an object per line) or parquet; by default as the suffix of --output says, or
            csv on standard output.
        scores: Scores (0 to 1) to write: of all classes, of the predicted labels only, or none; auto = all up
            to 100 classes, otherwise of the predicted labels.
        where: Write, for each label, the window of the image that speaks most for it: left, top, width and
            height as shares of the image. For models that score windows (spml train --local).
        sidecars: Write no table, but the labels of each photo to PHOTO.xmp next to it, for photo programs.
        images: Folder that file names in tables are relative to; default: the folder of the table.
        cache: Folder for the features of a frozen backbone, or `none` to keep none; default: the one that the
            run was trained with.
    """
    from ..common.files import check_new, check_output, sha256_file

    if sidecars:
        if output or where or (format, scores) != ("auto", "auto"):
            raise InputError(
                "--sidecars writes no table: leave out --output, --format, --scores and --where, or give the "
                "command twice."
            )
        scores = "none"
    check_order(run, paths)
    address = cluster.find()
    format_name = _format_name(format, output)
    if output:
        check_output(output, map(Path, [run, *paths]))
        check_new(output, overwrite=overwrite)

    import numpy as np

    from ..common.phrases import counted, first_few
    from ..data.images.image_files import ImageFiles
    from ..runs.predict.files import FORMATS, scores_to_give
    from ..runs.predict.sidecars import Sidecars
    from ..runs.predict.unfinished import Unfinished
    from ..runs.run import load

    engine = prediction.engine(cache, address)
    model = load(run)
    if where:
        model.check_windows()
    calibrated = model.calibration is not None
    form = FORMATS[format_name](model.classes, scores, calibrated=calibrated, where=where)
    engine.check()
    ids, inputs = model.list_inputs(paths, images)
    writer = Sidecars(inputs, overwrite) if sidecars else None
    cut = model.decision(**vars(decision))
    sparse = scores_to_give(scores, len(model.classes)) != "all"
    if output is None:
        skipped: dict[int, str] = {}
        if not writer:
            _print(form.start())
        for batch in model.stream(inputs, engine, where=where):
            predictions = model.labelled(ids, batch, cut, sparse=sparse)
            if writer:
                writer.write(batch.rows, predictions.labels)
            else:
                _print(form.block(predictions))
            skipped |= batch.unreadable
        for note in model.notes(ids, skipped):
            log.info(note)
        if writer:
            if writer.left:
                log.info(
                    f"note: {counted(len(writer.left), 'sidecar')} of another program appeared in the "
                    f"meantime, and stayed as it was ({first_few(writer.left, 3)})."
                )
            log.info(f"{counted(writer.written, 'sidecar')} written")
        return
    # Samples that were changed are noticed without reading all of them.
    samples = hashlib.sha256("\n".join(ids).encode(errors="backslashreplace"))
    samples.update((inputs.stamp() if isinstance(inputs, ImageFiles) else inputs.fingerprint()).encode())
    rule = repr((cut.top_k, cut.top1_fallback, cut.threshold is None))
    decided = hashlib.sha256(rule.encode())
    if cut.threshold is not None:
        decided.update(np.asarray(cut.threshold, np.float64).tobytes())
    decided.update(np.asarray(cut.never, np.int64).tobytes())
    identity = {
        "model": sha256_file(model.folder / "model.json"),  # which names the SHA-256 of the weights
        "samples": samples.hexdigest(),
        "decision": decided.hexdigest(),
        "calibration": None if model.calibration is None else model.calibration.to_dict(),
        "format": [type(form).__name__, scores, where],
        "engine": [engine.batch_size, engine.device],
    }
    with Unfinished(output, identity, form.start()) as unfinished:
        for batch in model.stream(inputs, engine, unfinished.samples, where=where):
            content = form.block(model.labelled(ids, batch, cut, sparse=sparse))
            unfinished.add(content, batch.end, batch.unreadable)
        for note in model.notes(ids, unfinished.skipped):
            log.info(note)
        unfinished.finish(form.complete)
    rule = "" if any(vars(decision).values()) else f", thresholds: {model.thresholds.describe()}"
    log.info(f"{output}: {counted(len(ids) - len(unfinished.skipped), 'sample')}{rule}")


def _format_name(stated: str, output: Path | None) -> str:
    """Name of the format, as stated or as the suffix of the output says."""
    from ..runs.predict.files import FORMATS

    if output is None:
        if stated == "parquet":
            raise InputError("--format parquet needs a file to write: pass --output FILE.parquet.")
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


def _print(content: bytes) -> None:
    sys.stdout.write(content.decode())
    sys.stdout.flush()
