"""Train one model, from its configuration to its folder."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..common.errors import InputError
from ..common.files import remove_leftovers, write_rows
from ..config import Config, differences
from ..decisions import Judge
from ..engine import AFTER_LAST_EPOCH, Interrupted, Trainer, make_fabric
from ..engine.checkpoint import data_changed
from ..engine.process_memory import give_back_freed_memory, peak_memory
from ..models import Classifier
from .by_names import open_unlabelled, run_by_names
from .compute.predict import Engine
from .compute.trained_model import TrainedModel
from .console import Console
from .fit.build import Build, frozen_features, some_features
from .fit.fine_tune import fine_tune
from .fit.local import fit_with_windows
from .fit.logs import Add, check_logger, open_log
from .fit.recording import Recorder, choose_samples
from .fit.solve import Fitted, describe_scores
from .folder import layout as run_files
from .folder.contents import load_model, read_summary
from .folder.summary import final_scores, write_results
from .report.page import write_report
from .settle.method_memory import check_recording
from .settle.resolve import Opener, Resolved, open_for_backbone, resolve, run_folder


def run_training(
    config: Config,
    *,
    resume: bool = False,
    overwrite: bool = False,
    console: Console | None = None,
    open_data: Opener | None = None,
    pictures: bool = True,
    cluster: str | None = None,
    command: str = "",
    logger: str = "none",
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
        command: Command that makes the run, for its summary; empty where it is made by other means.
        logger: Where settings and metrics are logged, too: `none`, `tensorboard`, `wandb` or `mlflow`.

    Returns:
        The folder.

    Raises:
        InputError: A setting, the data or the folder does not suit; nothing was written.
        SpmlError: Training failed; the last checkpoint is in the folder.
    """
    started = time.perf_counter()
    check_logger(logger)
    config, first = _with_folder(config, resume), _is_first(config)
    folder = Path(config.output)
    console = (console or Console()) if first else Console(silent=True)
    if config.data.classes:
        with _threads(config.threads):
            return run_by_names(config, resume=resume, overwrite=overwrite, console=console, cluster=cluster)
    only_trainer: AbstractContextManager[None] = nullcontext()
    if first:
        run_files.check_free(folder, resume=resume, overwrite=overwrite)
        only_trainer = run_files.only_trainer(folder, console.line, resume=resume, overwrite=overwrite)
    with _threads(config.threads), torch.random.fork_rng():
        opener = open_data or partial(open_for_backbone, report=console.line, progress=console.progress)
        run = resolve(config, opener, features=partial(some_features, report=console.line))
        if run.fine_tunes:
            if resume:
                _check_same_settings(run.config)
            train = partial(
                run_training,
                console=console,
                open_data=open_data,
                pictures=pictures,
                cluster=cluster,
                logger=logger,
            )
            with only_trainer:
                fine_tune(
                    run.config,
                    run.data.classes,
                    command,
                    resume=resume,
                    train=train,
                    console=console,
                    pictures=pictures,
                )
                if pictures:
                    _report(run, *load_model(folder), console)
                return folder
        recorded = choose_samples(config.record_samples, run.data) if config.record == "scores" else {}
        check_recording(run.data, recorded)
        val, truth = run.data.splits["val"], run.data.truth.get("val")
        judge = Judge(val, truth, config.select, config.mean_labels, run.data.empty)
        for note in (*(f"note: {note}." for note in run.notes), *run.data.notes):
            console.line(note)
        build = Build(run, make_fabric(config.accelerator, config.devices, config.precision), console.line)
        if run.start and build.carried:
            console.line(f"starts from the model of {run.start.folder}; state of the method: {build.carried}")
        # Before other processes are started, which would wait for one that has given up.
        with only_trainer, ExitStack() as stack:
            fingerprint = _start_folder(build, resume)
            own = logger if build.fabric.is_global_zero else "none"
            log = stack.enter_context(open_log(own, run.config, resume=resume, report=console.line))
            features = _place(build, console, cluster)
            fitted = _fit(build, judge, recorded, fingerprint, resume=resume, console=console, log=log)
            try:
                scores = final_scores(build, fitted)
                if build.fabric.is_global_zero:
                    cost = _cost(build, fitted, features, started)
                    card, lines = write_results(
                        build, judge, fitted, scores, fingerprint, cost, command, pictures=pictures
                    )
                    if pictures:
                        assert build.classifier is not None
                        _report(run, build.classifier, card, console)
                    log(_final_metrics(folder), int(fitted.history[-1].get("epoch", 0)))
                    console.line(lines)
                build.fabric.barrier()
            except KeyboardInterrupt as stop:
                if run.solved:  # nothing is saved
                    raise
                raise Interrupted(AFTER_LAST_EPOCH) from stop
    give_back_freed_memory()
    return folder


def complete_config(config: Config, *, resume: bool = False, console: Console | None = None) -> Config:
    """Settle the settings of a run without training it, as far as no weights are needed; nothing is written.

    Args:
        config: Settings; what is left open is filled in.
        resume: Take the settings of the run in the folder, if no data is named.
        console: Shows notes; by default on standard error.

    Raises:
        InputError: A setting or the data does not suit.
    """
    console = console or Console()
    config = _with_folder(config, resume)
    if config.data.classes:
        return open_unlabelled(config, console, resume=resume).config
    run = resolve(config, partial(open_for_backbone, report=console.line))
    for note in run.notes:
        console.line(f"note: {note}.")
    return run.config


# -- before anything is written --------------------------------------------------------------------------


def _with_folder(config: Config, resume: bool) -> Config:
    """Settings with the folder of the run; those of the run to resume where only its folder is named."""
    if resume and not config.data.path:
        if not config.output:
            raise InputError("`resume` needs the folder of the run: output=FOLDER.")
        folder = Path(config.output)
        if not (folder / run_files.CONFIG).exists():
            raise InputError(f"{folder}: holds no run to resume ({run_files.CONFIG} is missing).")
        config = replace(run_files.read_config(folder), output=config.output)  # it may have been moved
    return replace(config, output=str(run_folder(config)))


def _is_first(config: Config) -> bool:
    """Whether this is the first of the processes that make a run, or the only one."""
    # SLURM and torchrun number their processes even if each of them makes a run of its own.
    names = ("RANK", "LOCAL_RANK", "SLURM_PROCID") if config.devices > 1 else ()
    return next((os.environ[name] for name in names if name in os.environ), "0") == "0"


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """Use a number of torch threads; 0 = as torch decides."""
    before = torch.get_num_threads()
    if number:
        torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _check_same_settings(config: Config) -> None:
    saved = run_files.read_config(Path(config.output))
    changed = [key for key in differences(saved, config) if key != "output"]
    if changed:
        raise InputError(
            f"{config.output}: can't be resumed with other settings; these differ from its "
            f"{run_files.CONFIG}: {', '.join(changed)}. Resume with the same ones (or state `output` and "
            "`resume` alone), or start again in another folder."
        )


# -- in the folder of the run ----------------------------------------------------------------------------


def _start_folder(build: Build, resume: bool) -> str:
    """Start the processes of a run, and make its folder ready. Returns the fingerprint of the data.

    Raises:
        InputError: A run to resume has other settings, or was finished on other data.
    """
    config, data, fabric = build.run.config, build.run.data, build.fabric
    folder, fingerprint = Path(config.output), data.fingerprint()
    if resume:
        _check_same_settings(config)
        before = fingerprint
        # The checkpoint of a run that has not finished has a record of its own; a damaged summary will be
        # written again.
        with suppress(InputError):
            before = read_summary(folder)["data"]["fingerprint"]
        if before != fingerprint:
            raise data_changed(folder)
    if config.devices > 1:
        fabric.launch()
    if fabric.is_global_zero:
        if resume:
            remove_leftovers(folder)
            remove_leftovers(folder / run_files.SCORES)
        else:
            run_files.clear(folder)
        # Of a resumed run, too: the folder may have been moved, or the line with the checksum be damaged.
        run_files.write_config(folder, config)
        if data.skipped:
            write_rows(folder / run_files.SKIPPED, ("file", "reason"), data.skipped)
    fabric.barrier()
    return fingerprint


def _place(build: Build, console: Console, cluster: str | None) -> dict[str, float] | None:
    """Make the model of a run, on the features of a frozen backbone. Returns what these cost."""
    run, started = build.run, time.perf_counter()
    if not run.frozen:
        build.place()
        return None
    assert build.backbone is not None
    folder = Path(run.config.data.cache or Path(run.config.output, run_files.FEATURES))
    backbone = build.backbone.to(build.fabric.device)
    data = frozen_features(
        run, backbone, build.fabric, folder, report=console.line, console=console, cluster=cluster
    )
    seconds = time.perf_counter() - started
    build.place(data)
    count = sum(len(samples) for samples in data.splits.values())
    return {"seconds": round(seconds, 2), "samples_per_second": round(count / seconds, 1)}


def _fit(
    build: Build,
    judge: Judge,
    recorded: dict[str, Any],
    fingerprint: str,
    *,
    resume: bool,
    console: Console,
    log: Add,
) -> Fitted:
    """Train the model or solve its head; writes checkpoints, metrics, recordings and the log."""
    run, config, folder = build.run, build.run.config, Path(build.run.config.output)
    recorder = Recorder(folder / run_files.SCORES, config, build.data, recorded)
    if recorder.samples:
        if resume:
            recorder.check_same_samples()
        console.line(recorder.announcement)

    def end_epoch(trainer: Trainer) -> None:
        history = trainer.state.history
        run_files.write_lines(folder / run_files.METRICS, history)
        last = history[-1]
        log(last, int(last["epoch"]))
        scores = f"loss {last['train/loss']:.4f}  {describe_scores(last, judge)}"
        console.line(f"epoch {last['epoch']:>3}/{config.epochs}  {scores}  {last['seconds']:.1f} s")

    # A checkpoint goes on with the same data, and with the same weights where it does not hold them itself.
    own = run.spec.sha256 if run.frozen and run.spec.is_own else ""
    steps = 0 if run.solved else len(run.data.splits["train"]) * config.epochs

    def fit() -> Fitted:
        with console.progress(steps, config.method) as advance:
            return build.fit(
                judge,
                folder=folder,
                resume=resume,
                identity=fingerprint + (run.start.weights if run.start else "") + own,
                report=console.line,
                detail=console.detail,
                on_epoch=end_epoch,
                on_step=advance,
                recorded=recorder.samples,
                on_scores=recorder.write,
            )

    fitted = fit_with_windows(build, fit, judge, console.line, console=console)
    if build.fabric.is_global_zero:
        # Of a network too: a run that was killed after its last checkpoint lacks the last epoch here.
        run_files.write_lines(folder / run_files.METRICS, [*fitted.tried, *fitted.history])
    return fitted


def _final_metrics(folder: Path) -> dict[str, Any]:
    """Metrics of the chosen epoch or solution, from the summary of the run."""
    summary = read_summary(folder)
    test = {f"test/{name}": value for name, value in (summary["test"] or {}).items()}
    return {f"final/{name}": value for name, value in {**summary["validation"], **test}.items()}


def _report(run: Resolved, classifier: Classifier, card: dict[str, Any], console: Console) -> None:
    """Write the report of the run that has ended."""
    finished = TrainedModel(Path(run.config.output), classifier, card)
    write_report(finished, run.data.splits.values(), Engine(device=run.config.accelerator, console=console))


def _cost(build: Build, fitted: Fitted, features: dict[str, float] | None, started: float) -> dict[str, Any]:
    samples = fitted.passes * len(build.run.data.splits["train"])
    return {
        "seconds": round(time.perf_counter() - started, 2),
        "training_seconds": round(fitted.seconds, 2),
        "samples_per_second": round(samples / max(fitted.seconds, 1e-9), 1),
        "peak_memory_mib": round(peak_memory() / 2**20, 1),
        "features": features,
        "device": str(build.fabric.device),
        "devices": build.run.config.devices,
    }
