"""Logs of a training for programs that draw it while it runs: TensorBoard, Weights & Biases, MLflow."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ...common.documents import parse_json
from ...common.errors import InputError, first_line, nearest, require_packages
from ...common.files import write_json
from ...common.messages import log as messages
from ...config import Config, flat
from ..folder import layout as run_files

Add = Callable[[Mapping[str, Any], int], None]
"""Adds the numbers among some values to the log, at an epoch."""


class _Log(NamedTuple):
    """Log of a run.

    Attributes:
        id: What the program calls the run.
        settings: Adds the settings of the run.
        metrics: Adds numbers, at a step.
        close: Closes the log of a run that has finished, or that has stopped for another reason.
    """

    id: str
    settings: Callable[[Mapping[str, Any]], object]
    metrics: Callable[[Mapping[str, float], int], object]
    close: Callable[[bool], object]


def _tensorboard(folder: Path, known: str, name: str) -> _Log:
    """Event files in the folder of the run, which TensorBoard reads together."""
    from torch.utils.tensorboard import SummaryWriter

    writer: Any = SummaryWriter(str(folder / run_files.EVENTS))

    def settings(values: Mapping[str, Any]) -> None:
        rows = [f"| {name} | `{value}` |" for name, value in values.items()]
        writer.add_text("settings", "\n".join(["| setting | value |", "|---|---|", *rows]))

    def metrics(values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step)
        writer.flush()  # it would wait for two minutes

    return _Log(run_files.EVENTS, settings, metrics, lambda finished: writer.close())


def _wandb(folder: Path, known: str, name: str) -> _Log:
    """A run of Weights & Biases, in the project and mode that its environment variables and settings name."""
    import wandb

    # A run that the caller has open is another one.
    run = wandb.init(dir=str(folder), name=name, id=known or None, resume="allow", reinit="create_new")
    return _Log(
        run.id,
        lambda values: run.config.update(dict(values)),
        lambda values, step: run.log(dict(values), step=step),
        lambda finished: run.finish(exit_code=0 if finished else 1),
    )


def _mlflow(folder: Path, known: str, name: str) -> _Log:
    """A run of MLflow, at the tracking address that is set, or in a database in the folder of the run."""
    # It would report its use to its makers, also where the log stays on this machine.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    import mlflow
    from mlflow.entities import Metric, Param

    own = f"sqlite:///{folder.absolute().as_posix()}/{run_files.MLFLOW}"
    client = mlflow.MlflowClient(mlflow.get_tracking_uri() if mlflow.is_tracking_uri_set() else own)
    if not known:
        title = os.environ.get("MLFLOW_EXPERIMENT_NAME", "spml")
        experiment = client.get_experiment_by_name(title)
        number = experiment.experiment_id if experiment else client.create_experiment(title)
        known = client.create_run(number, run_name=name).info.run_id
    client.update_run(known, status="RUNNING")  # an error if it is not there

    def metrics(values: Mapping[str, float], step: int) -> None:
        now = int(1000 * time.time())
        client.log_batch(known, [Metric(name, value, now, step) for name, value in values.items()])

    return _Log(
        known,
        lambda values: client.log_batch(
            known, params=[Param(name, str(value)) for name, value in values.items()]
        ),
        metrics,
        lambda finished: client.set_terminated(known, "FINISHED" if finished else "FAILED"),
    )


_LOGS: dict[str, Callable[[Path, str, str], _Log]] = {
    "tensorboard": _tensorboard, "wandb": _wandb, "mlflow": _mlflow,
}  # fmt: skip


def check_logger(name: str) -> None:
    """Check, before any work, that a logger is known and installed.

    Raises:
        InputError: It is not.
    """
    if name not in ("none", *_LOGS):
        raise InputError(f"logger {name!r} is unknown. {nearest(name, ('none', *_LOGS))}")
    if name != "none":
        require_packages(name, name)  # extra and package are called the same


@contextmanager
def open_log(name: str, config: Config, *, resume: bool) -> Iterator[Add]:
    """Log a run, with its settings. A log that fails is given up, and the training goes on.

    Args:
        name: Name of a logger.
        config: Resolved settings.
        resume: Go on with the log that the folder of the run names, if it names one.

    Raises:
        InputError: The log can't be opened.
    """
    if name == "none":
        yield lambda values, step: None
        return
    folder = Path(config.output)
    path = folder / run_files.LOGS
    try:
        logs = parse_json(path.read_bytes()) if resume and path.is_file() else {}
        log = _LOGS[name](folder, logs.get(name, ""), config.output)
        if name not in logs:
            log.settings(flat(asdict(config)))
    except Exception as error:
        if not resume:
            run_files.clear(folder)  # so that the next command finds no run there
        raise InputError(
            f"logger={name} can't be used ({first_line(error)}). Correct its settings, or leave it out."
        ) from error
    write_json(path, {**logs, name: log.id})
    works, finished = True, False

    def attempt(action: Callable[[], object]) -> None:
        nonlocal works
        try:
            if works:
                action()
        except Exception as error:  # libraries that talk to servers raise almost anything
            works = False
            messages.info(f"note: nothing more is logged with {name}: {first_line(error)}")

    def add(values: Mapping[str, Any], step: int) -> None:
        numbers = {
            key: float(value)
            for key, value in values.items()
            if isinstance(value, (int, float)) and key not in ("epoch", "step")
        }
        attempt(partial(log.metrics, numbers, step))

    try:
        yield add
        finished = True
    finally:
        attempt(partial(log.close, finished))
