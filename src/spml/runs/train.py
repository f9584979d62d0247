"""Train one model, from its configuration to its folder."""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..common.budget import Budget
from ..common.errors import InputError
from ..common.files import remove_leftovers, write_rows
from ..common.messages import log, muted, progress
from ..common.phrases import counted
from ..config import Config, differences
from ..data import Records
from ..decisions import Judge
from ..engine import AFTER_LAST_EPOCH, Interrupted, Trainer, make_fabric
from ..engine.checkpoint import data_changed
from ..engine.process_memory import give_back_freed_memory, peak_memory
from .by_names import open_unlabelled, run_by_names
from .fit.build import Build, frozen_features, some_features
from .fit.fine_tune import fine_tune
from .fit.local import fit_with_windows
from .fit.logs import check_logger, open_log
from .fit.recording import splits_to_record, write_scores
from .fit.sizes import check_sizes, fit_sizes
from .fit.solve import Fitted, describe_scores
from .folder import layout as run_files
from .folder.contents import load_model, read_summary
from .folder.layout import continued, identity_of
from .folder.summary import final_scores, write_results
from .predict.batches import Engine
from .predict.features import drop_windows
from .report.page import write_report
from .run import Run
from .settle.conflicts import check_recording
from .settle.resolve import Opened, check_stated, open_for_backbone, resolve, run_folder


def run_training(
    config: Config,
    *,
    resume: bool = False,
    overwrite: bool = False,
    data: Records | Opened | None = None,
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
        data: Data in memory, or data that has been opened and split; None = what `config.data` names.
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
    started, budget = time.perf_counter(), Budget(config.minutes)
    check_logger(logger)
    config = _with_folder(config, resume)
    folder = Path(config.output)
    first = is_first(config)
    only_trainer: AbstractContextManager[None] = nullcontext()
    with ExitStack() as stack:
        stack.callback(torch.set_num_threads, torch.get_num_threads())
        if config.threads:
            torch.set_num_threads(config.threads)
        if not first:
            stack.enter_context(muted())
        if config.data.classes:
            return run_by_names(config, resume=resume, overwrite=overwrite, cluster=cluster)
        if first:
            run_files.check_free(folder, resume=resume, overwrite=overwrite)
            only_trainer = run_files.only_trainer(folder, resume=resume, overwrite=overwrite)

        # Settings and data. Nothing is written.
        config, start = check_stated(config)
        if isinstance(data, Opened):
            opened = data._replace(spec=start.spec(config.data.side)) if start else data
        else:
            opened = open_for_backbone(config, start, data, several=True)
        run = resolve(config, opened, start)
        if run.scaling_open:
            run.settle_scaling(some_features(run))
        config, fingerprint = run.config, run.data.fingerprint()
        # Weights that the settings do not name: of the run to start from, and of a network of the user's own.
        weights = run.start.weights if run.start else ""
        weights += run.spec.sha256 if run.frozen and run.spec.is_own else ""
        identity = identity_of(config, fingerprint, run.data.classes, weights)
        if resume:
            saved = run_files.read_config(folder)
            if changed := [key for key in differences(saved, config) if key not in ("output", "minutes")]:
                raise InputError(
                    f"{folder}: can't be resumed with other settings; these differ from its "
                    f"{run_files.CONFIG}: {', '.join(changed)}. Resume with the same ones (or state `output` "
                    "and `resume` alone), start again in another folder, or train on from its model "
                    f"(init_from={folder}, another `output`)."
                )
            identity = continued(folder, identity)
        if run.fine_tunes:
            options: dict[str, Any] = {"data": data, "pictures": pictures, "cluster": cluster}
            train = partial(run_training, **options, logger=logger)
            with only_trainer:
                summary = fine_tune(
                    config, run.data.classes, command, identity, resume=resume, train=train, pictures=pictures
                )
                if pictures:
                    kept = Run(folder, *load_model(folder), summary)
                    write_report(kept, run.data.splits.values(), Engine(device=config.accelerator))
            return folder
        recorded = splits_to_record(config.record_samples, run.data) if config.record == "scores" else []
        check_recording(run.data, recorded)
        val, truth = run.data.splits["val"], run.data.truth.get("val")
        judge = Judge(val, truth, config.select, config.mean_labels, run.data.empty)
        for note in (*(f"note: {note}." for note in run.notes), *run.data.notes):
            log.info(note)

        # The method, the backbone and the head.
        build = Build(run, make_fabric(config.accelerator, config.devices, config.precision))
        build.budget = budget
        if build.backbone is not None:
            check_sizes(build.backbone, run.sizes)
        if run.start and build.carried:
            log.info(f"starts from the model of {run.start.folder}; state of the method: {build.carried}")
        stack.enter_context(
            only_trainer
        )  # before other processes start: they would wait for one that gave up
        if resume:
            # The checkpoint of a run that has not finished has a record of its own; a damaged summary will be
            # written again.
            before = fingerprint
            with suppress(InputError):
                before = read_summary(folder)["data"]["fingerprint"]
            if before != fingerprint:
                raise data_changed(folder)
        fabric = build.fabric
        if config.devices > 1:
            fabric.launch()
        if fabric.is_global_zero:
            if resume:
                remove_leftovers(folder)
                remove_leftovers(folder / run_files.SCORES)
            else:
                run_files.clear(folder)
            # Of a resumed run, too: the folder may have been moved, or the line with the checksum be damaged.
            run_files.write_config(folder, config, identity)
            if run.data.skipped:
                write_rows(folder / run_files.SKIPPED, ("file", "reason"), run.data.skipped)
        fabric.barrier()
        add = stack.enter_context(
            open_log(logger if fabric.is_global_zero else "none", config, resume=resume)
        )
        features, placing = None, time.perf_counter()
        if run.frozen:
            assert build.backbone is not None
            cache = Path(config.data.cache or folder / run_files.FEATURES)
            backbone = build.backbone.to(fabric.device)
        if run.frozen and not run.sizes:
            on_features = frozen_features(run, backbone, fabric, cache, cluster=cluster, windows=True)
            build.pass_seconds = seconds = time.perf_counter() - placing
            count = sum(len(samples) for samples in on_features.splits.values())
            features = {"seconds": round(seconds, 2), "samples_per_second": round(count / seconds, 1)}
            build.place(on_features)
        elif not run.sizes:
            build.place()

        # Training, or solving.
        to_record = tuple(build.data.splits[name] for name in recorded)
        if count := sum(map(len, to_record)):
            # Two bytes for a score, one for an observed and one for a true label.
            size = (2 * (config.epochs + 1) + 2) * count * len(run.data.classes) / 1e6
            log.info(
                f"recording the scores of {counted(count, 'sample')} x {len(run.data.classes)} classes over "
                f"{counted(config.epochs, 'epoch')}: {size:.1f} MB in {folder / run_files.SCORES}"
            )

        def end_epoch(trainer: Trainer) -> None:
            history = trainer.state.history
            run_files.write_lines(folder / run_files.METRICS, history)
            last = history[-1]
            add(last, int(last["epoch"]))
            scores = f"loss {last['train/loss']:.4f}  {describe_scores(last, judge)}"
            log.info(f"epoch {last['epoch']:>3}/{config.epochs}  {scores}  {last['seconds']:.1f} s")

        steps = 0 if run.solved else len(run.data.splits["train"]) * config.epochs

        def fit() -> Fitted:
            with progress(steps, config.method) as advance:
                return build.fit(
                    judge,
                    folder=folder,
                    resume=resume,
                    identity=fingerprint + weights,
                    run=identity,
                    on_epoch=end_epoch,
                    on_step=advance,
                    recorded=to_record,
                    on_scores=partial(write_scores, folder, config, build.data, recorded),
                )

        if run.sizes:
            fitted = fit_sizes(build, judge, cache, cluster=cluster)
        else:
            fitted = fit_with_windows(build, fit, judge)
        if fabric.is_global_zero:
            # Of a network too: a run that was killed after its last checkpoint lacks the last epoch here.
            run_files.write_lines(folder / run_files.METRICS, [*fitted.tried, *fitted.history])

        # The files of the finished run.
        try:
            scores = final_scores(build, fitted)
            if fabric.is_global_zero:
                cost = {
                    "seconds": round(time.perf_counter() - started, 2),
                    "training_seconds": round(fitted.seconds, 2),
                    "samples_per_second": round(
                        fitted.passes * len(run.data.splits["train"]) / max(fitted.seconds, 1e-9), 1
                    ),
                    "peak_memory_mib": round(peak_memory() / 2**20, 1),
                    "features": features,
                    "device": str(fabric.device),
                    "devices": config.devices,
                }
                finished, lines = write_results(
                    build, judge, fitted, scores, fingerprint, cost, command, pictures=pictures
                )
                if pictures:
                    write_report(finished, run.data.splits.values(), Engine(device=config.accelerator))
                test = {f"test/{name}": value for name, value in (finished.summary["test"] or {}).items()}
                measured = {**finished.summary["validation"], **test}
                add(
                    {f"final/{name}": value for name, value in measured.items()},
                    int(fitted.history[-1].get("epoch", 0)),
                )
                log.info(lines)
                if run.frozen and run.spec.size and not (config.data.cache or run.sizes):
                    drop_windows(cache, backbone.key())
            fabric.barrier()
        except KeyboardInterrupt as stop:
            if run.solved:  # nothing is saved
                raise
            raise Interrupted(AFTER_LAST_EPOCH) from stop
    give_back_freed_memory()
    return folder


def complete_config(config: Config, *, resume: bool = False) -> Config:
    """Settle the settings of a run without training it, as far as no weights are needed; nothing is written.

    Args:
        config: Settings; what is left open is filled in.
        resume: Take the settings of the run in the folder, if no data is named.

    Raises:
        InputError: A setting or the data does not suit.
    """
    config = _with_folder(config, resume)
    if config.data.classes:
        return open_unlabelled(config, resume=resume).config
    config, start = check_stated(config)
    run = resolve(config, open_for_backbone(config, start, several=True), start)
    for note in run.notes:
        log.info(f"note: {note}.")
    return run.config


def _with_folder(config: Config, resume: bool) -> Config:
    """Settings with the folder of the run; those of the run to resume where only its folder is named."""
    if resume and not config.data.path:
        if not config.output:
            raise InputError("`resume` needs the folder of the run: output=FOLDER.")
        folder = Path(config.output)
        if not (folder / run_files.CONFIG).exists():
            raise InputError(f"{folder}: holds no run to resume ({run_files.CONFIG} is missing).")
        saved = run_files.read_config(folder)
        # The folder may have been moved, there may be more time now, the command line states the number of
        # processes, and a network of the user's own is named again.
        goes_on = {"output", "minutes", "devices"}
        stated = {*differences(config, Config())} & {*differences(config, saved)}
        if idle := sorted(stated - goes_on):
            raise InputError(
                f"{folder}: is resumed with its own settings: {', '.join(idle)} would have no effect. Leave "
                "it out, or start a new run from its model (`init_from`)."
            )
        config = replace(saved, output=config.output, minutes=config.minutes or saved.minutes)
    return replace(config, output=str(run_folder(config)))


def is_first(config: Config) -> bool:
    """Whether this is the first of the processes that make a run, or the only one."""
    # SLURM and torchrun number their processes even if each of them makes a run of its own.
    ranks = ("RANK", "LOCAL_RANK", "SLURM_PROCID") if config.devices > 1 else ()
    return next((os.environ[name] for name in ranks if name in os.environ), "0") == "0"
