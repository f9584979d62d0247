"""Train one model, from its configuration to its folder."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from .. import models
from ..common.errors import InputError
from ..common.files import remove_leftovers, write_rows
from ..config import Config, differences
from ..data import Dataset
from ..decisions import Judge
from ..engine import AFTER_LAST_EPOCH, Interrupted, Trainer, make_fabric
from ..engine.process_memory import give_back_freed_memory, peak_memory
from ..engine.resume import data_changed
from ..methods.base import Objective
from .compute.cluster.stream import features_computed_by
from .console import Console
from .fit.build import Build, frozen_features, make_backbone, start_objective
from .fit.fine_tune import fine_tune
from .fit.recording import Recorder, choose_samples
from .fit.solve import Fitted, describe_scores
from .folder import layout as run_files
from .folder.contents import read_summary
from .folder.final_scores import final_scores
from .folder.held_out import gather_held_out
from .folder.summary import Finished, write_results
from .settle.method_memory import check_recording
from .settle.resolve import Opener, Resolved, open_for_backbone, resolve, run_folder
from .settle.scaling import settle_scaling, some_rows


def run_training(
    config: Config,
    *,
    resume: bool = False,
    overwrite: bool = False,
    console: Console | None = None,
    open_data: Opener | None = None,
    pictures: bool = True,
    cluster: str | None = None,
) -> Path:
    """Train a model and write the folder of the run.

    Args:
        config: Settings; what is left open is filled in.
        resume: Go on with the run in the folder.
        overwrite: Replace the run in the folder.
        console: Shows progress; by default on standard error.
        open_data: Opens the data, where it is not to be split as the settings say.
        pictures: Draw the pictures of the folder.
        cluster: Address of a Ray cluster that computes the features of a frozen backbone, empty to start Ray
            on this machine; None = this process computes them.

    Returns:
        The folder.

    Raises:
        InputError: A setting, the data or the folder does not suit; nothing was written.
        SpmlError: Training failed; the last checkpoint is in the folder.
    """
    if resume and not config.data.path:
        config = _saved_config(config)
    first = _is_first(config)
    console = (console or Console()) if first else Console(silent=True)
    folder = run_folder(config)
    config = replace(config, output=str(folder))
    if first:
        run_files.check_free(folder, resume=resume, overwrite=overwrite)
    only_trainer = partial(run_files.only_trainer, folder, console.line, resume=resume, overwrite=overwrite)
    threads = torch.get_num_threads()
    if config.threads:
        torch.set_num_threads(config.threads)
    try:
        with torch.random.fork_rng(), ExitStack() as stack:

            def claim() -> None:
                if first:
                    stack.enter_context(only_trainer())

            return _train(config, folder, resume, console, open_data, claim, pictures, cluster)
    finally:
        torch.set_num_threads(threads)


def _is_first(config: Config) -> bool:
    """Whether this is the first of the processes that make a run, or the only one."""
    # SLURM and torchrun number their processes even if each of them makes a run of its own.
    names = ("RANK", "LOCAL_RANK", "SLURM_PROCID") if config.devices > 1 else ()
    return next((os.environ[name] for name in names if name in os.environ), "0") == "0"


def complete_config(config: Config, *, resume: bool = False, console: Console | None = None) -> Config:
    """Settle every setting of a run without training it; nothing is written.

    Args:
        config: Settings; what is left open is filled in.
        resume: Take the settings of the run in the folder, if no data is named.
        console: Shows notes; by default on standard error.

    Raises:
        InputError: A setting or the data does not suit.
    """
    console = console or Console()
    if resume and not config.data.path:
        config = _saved_config(config)
    config = replace(config, output=str(run_folder(config)))
    run = resolve(config, partial(open_for_backbone, report=console.line))
    for note in run.notes:
        console.line(f"note: {note}.")
    return run.config


def _train(
    config: Config,
    folder: Path,
    resume: bool,
    console: Console,
    open_data: Opener | None,
    claim: Callable[[], None],
    pictures: bool,
    cluster: str | None,
) -> Path:
    """Train; `claim` is called before anything is written, and keeps other processes from writing there."""
    started = time.perf_counter()
    run = resolve(config, open_data or partial(open_for_backbone, report=console.line))
    config, data, fingerprint = run.config, run.data, run.data.fingerprint()
    if run.fine_tunes:
        if resume:
            _check_same_settings(folder, config)

        def train(part: Config, goes_on: bool) -> None:
            run_training(
                part,
                resume=goes_on,
                overwrite=not goes_on,
                console=console,
                open_data=open_data,
                pictures=pictures,
                cluster=cluster,
            )

        claim()
        return fine_tune(config, folder, data.classes, resume=resume, train=train, console=console)
    recorded = choose_samples(config.record_samples, data) if config.record == "scores" else {}
    check_recording(data, recorded)
    for note in run.notes:
        console.line(f"note: {note}.")
    objective = start_objective(run, data)
    judge = Judge(data.splits["val"], data.truth.get("val"), config.select, config.mean_labels, data.empty)
    for note in data.notes:
        console.line(note)
    backbone = make_backbone(run, console.line)
    config = settle_scaling(config, partial(_some_features, data, backbone))
    run = run._replace(config=config)
    origin = _carry_over(run, objective, console)
    fabric = make_fabric(config.accelerator, config.devices, config.precision)
    # Before other processes are started, which would wait for one that has given up.
    if fabric.is_global_zero:
        claim()
    if resume:
        _check_same_settings(folder, config)
        _check_same_data(folder, fingerprint)
    if config.devices > 1:
        fabric.launch()
    if fabric.is_global_zero:
        _prepare_folder(folder, run, resume)
    fabric.barrier()

    feature_cost = None
    if run.frozen:
        data, feature_cost = _features(run, backbone.to(fabric.device), folder, fabric, console, cluster)
    build = Build(run, data, objective, backbone, fabric)
    recorder = Recorder(folder / run_files.SCORES, config, data, recorded)
    if recorder.samples:
        if resume:
            recorder.check_same_samples()
        console.line(recorder.announcement)
    steps = 0 if run.solved else len(data.splits["train"]) * config.epochs
    with console.progress(steps, config.method) as advance:
        fitted = build.fit(
            judge,
            folder=folder,
            resume=resume,
            identity=_identity(run, fingerprint),
            report=console.line,
            on_epoch=partial(_end_epoch, folder, console),
            on_step=advance,
            recorded=recorder.samples,
            on_scores=recorder.write,
        )
    with _after_training(run):
        scores = final_scores(build, fitted)
        if fabric.is_global_zero:
            # Of a network too: a run that was killed after its last checkpoint lacks the last epoch here.
            run_files.write_lines(folder / run_files.METRICS, [*fitted.tried, *fitted.history])
            assert build.classifier is not None
            finished = Finished(
                run=run,
                judge=judge,
                classifier=build.classifier,
                fitted=fitted,
                scores=scores,
                held_out=gather_held_out(data, *scores.held_out, seed=config.seed),
                head_bias=build.head_bias,
                init_from=origin,
                fingerprint=fingerprint,
                cost={
                    "seconds": round(time.perf_counter() - started, 2),
                    **_training_cost(run, fitted),
                    "features": feature_cost,
                    "device": str(fabric.device),
                    "devices": config.devices,
                },
            )
            console.line(write_results(folder, finished, pictures=pictures))
        fabric.barrier()
    give_back_freed_memory()
    return folder


@contextmanager
def _after_training(run: Resolved) -> Iterator[None]:
    """Say what is saved when the user stops what follows the last epoch; of a solved head, nothing is."""
    try:
        yield
    except KeyboardInterrupt as stop:
        if run.solved:
            raise
        raise Interrupted(AFTER_LAST_EPOCH) from stop


def _saved_config(config: Config) -> Config:
    """Configuration of the run to resume, where only its folder is named."""
    if not config.output:
        raise InputError("--resume needs the folder of the run: --output FOLDER.")
    path = Path(config.output) / run_files.CONFIG
    if not path.exists():
        raise InputError(f"{config.output}: holds no run to resume ({run_files.CONFIG} is missing).")
    return replace(run_files.read_config(path.parent), output=config.output)  # the folder may have been moved


def _carry_over(run: Resolved, objective: Objective | None, console: Console) -> dict[str, str] | None:
    """Take over what the method of the run to start from had inferred. Returns a description of it."""
    if not run.start or not objective:
        return None
    outcome = run.start.carry(objective, run.config.method, run.data.splits["train"])
    console.line(f"starts from the model of {run.start.folder}; state of the method: {outcome}")
    return {"run": str(run.start.folder), "weights_sha256": run.start.weights, "objective": outcome}


def _check_same_settings(folder: Path, config: Config) -> None:
    saved = run_files.read_config(folder)
    changed = [key for key in differences(saved, config) if key != "output"]
    if changed:
        raise InputError(
            f"{folder}: can't be resumed with other settings; these differ from its {run_files.CONFIG}: "
            f"{', '.join(changed)}. Resume with the same ones (or only `--output {folder} --resume`), or "
            "start again in another folder."
        )


def _identity(run: Resolved, fingerprint: str) -> str:
    """Fingerprint of what a checkpoint goes on with: data, and weights that it does not hold itself."""
    own = run.spec.sha256 if run.frozen and run.spec.is_own else ""
    return fingerprint + (run.start.weights if run.start else "") + own


def _check_same_data(folder: Path, fingerprint: str) -> None:
    """Refuse other data for a run that has finished; the checkpoint of another one has its own record."""
    try:
        before = read_summary(folder)["data"]["fingerprint"]
    except InputError:  # it has not finished, or its summary is damaged and will be written again
        return
    if before != fingerprint:
        raise data_changed(folder)


def _prepare_folder(folder: Path, run: Resolved, resume: bool) -> None:
    if resume:
        remove_leftovers(folder)
        remove_leftovers(folder / run_files.SCORES)
    else:
        run_files.clear(folder)
    # When a run is resumed, too: the folder may have been moved, or the line with the checksum be damaged.
    run_files.write_config(folder, run.config)
    if run.data.skipped:
        write_rows(folder / run_files.SKIPPED, ("file", "reason"), run.data.skipped)


@torch.no_grad()
def _some_features(data: Dataset, backbone: models.Backbone, count: int) -> torch.Tensor:
    """Features of some training samples."""
    was_training = backbone.training
    features: torch.Tensor = backbone.eval()(some_rows(data.splits["train"].inputs, count))
    backbone.train(was_training)
    return features


def _features(
    run: Resolved,
    backbone: models.Backbone,
    folder: Path,
    fabric: Any,
    console: Console,
    cluster: str | None,
) -> tuple[Dataset, dict[str, float]]:
    """Features in place of images, and what they cost."""
    started = time.perf_counter()
    data = frozen_features(
        run,
        run.data,
        backbone,
        Path(run.config.data.cache or folder / "features"),
        report=console.line,
        progress=lambda label, total: console.progress(total, label),
        barrier=fabric.barrier,
        first=fabric.is_global_zero,
        compute=features_computed_by(cluster, console.line),
    )
    seconds = time.perf_counter() - started
    count = sum(len(samples) for samples in data.splits.values())
    return data, {"seconds": round(seconds, 2), "samples_per_second": round(count / seconds, 1)}


def _end_epoch(folder: Path, console: Console, trainer: Trainer) -> None:
    history = trainer.state.history
    run_files.write_lines(folder / run_files.METRICS, history)
    last = history[-1]
    scores = f"loss {last['train/loss']:.4f}  {describe_scores(last, trainer.judge)}"
    console.line(f"epoch {last['epoch']:>3}/{trainer.config.epochs}  {scores}  {last['seconds']:.1f} s")


def _training_cost(run: Resolved, fitted: Fitted) -> dict[str, float]:
    samples = fitted.passes * len(run.data.splits["train"])
    return {
        "training_seconds": round(fitted.seconds, 2),
        "samples_per_second": round(samples / max(fitted.seconds, 1e-9), 1),
        "peak_memory_mib": round(peak_memory() / 2**20, 1),
    }
