"""Scores of samples before the first and after every epoch of a run, kept for figures.

The folder `scores` of a run holds `samples.safetensors` (names, classes, observed labels and, if they are
there, true labels) and a file per epoch, `epoch-000.safetensors` for the one before the first, with float16
logits. A file is written whole before the checkpoint of its epoch, so that a run which is killed and resumed
leaves the same files as one that is not. True labels go from the data to the file, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import torch

from ...common.errors import InputError
from ...common.files import make_folder
from ...config import Config
from ...data import Dataset
from ...decisions import scores_of
from ...models import LOG_SOFTMAX
from ...scores.forms import check_tensor, read_tensor
from ..folder import layout as run_files
from ..folder.contents import open_tensors, write_tensors

Logits = npt.NDArray[np.float32]

_EPOCH = re.compile(r"epoch-(\d{3,9})\.safetensors")
_LARGEST = float(np.finfo(np.float16).max)
_AGAIN = "Train the run again with record=scores `overwrite`."


# -- writing ---------------------------------------------------------------------------------------------


def splits_to_record(setting: str, data: Dataset) -> list[str]:
    """Splits that `--record_samples` names, separated by commas.

    Raises:
        InputError: The data has no such split.
    """
    names = [name.strip() for name in setting.split(",")]
    if missing := [name for name in names if name not in data.splits]:
        raise InputError(
            f"{data.name}: has no {missing[0]!r} split to record, but {', '.join(data.splits)} "
            "(`record_samples`)."
        )
    return names


def write_scores(
    folder: Path, config: Config, data: Dataset, names: Sequence[str], epoch: int, logits: Logits
) -> None:
    """Write the logits (N, C) after `epoch` epochs; before the first, also which samples these are.

    Args:
        folder: Folder of the run.
        config: Resolved settings of the run.
        data: Data set that the model is trained on.
        names: Splits that are recorded.
        epoch: Number of finished epochs.
        logits: Logits of the samples of these splits, one split after the other.

    Raises:
        SpmlError: A file could not be written.
    """
    scores, samples = folder / run_files.SCORES, [data.splits[name] for name in names]
    make_folder(scores)
    if not epoch:
        labels = {"observed": np.concatenate([each.observed.to_ternary() for each in samples])}
        if all(name in data.truth for name in names):
            labels["truth"] = np.concatenate([data.truth[name].to_multi_hot() for name in names])
        write_tensors(
            scores / run_files.SCORED_SAMPLES,
            {name: torch.from_numpy(array) for name, array in labels.items()},
            folder,
            method=config.method,
            output=config.model.scores,
            classes=data.classes,
            ids=[name for each in samples for name in each.ids],
        )
    halves = torch.from_numpy(logits.clip(-_LARGEST, _LARGEST).astype(np.float16))
    write_tensors(scores / _epoch_file(epoch), {"logits": halves}, folder, epoch=epoch)


def _epoch_file(epoch: int) -> str:
    return f"epoch-{epoch:03}.safetensors"


# -- reading ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recording:
    """Recorded scores of a run. Scores are read from the memory-mapped file of an epoch when asked for.

    Attributes:
        folder: Folder of the run.
        method: Method of the run.
        classes: Names of the C classes.
        ids: Names of the N samples.
        observed: Observed labels, int8 (N, C) in {-1, 0, +1}.
        truth: True labels, bool (N, C); None if the samples are not fully labelled.
        epochs: Numbers of the recorded epochs; 0 is before the first one.
        normalised: Whether scores are log-probabilities over the classes of a sample, not logits.
    """

    folder: Path
    method: str
    classes: tuple[str, ...]
    ids: tuple[str, ...]
    observed: npt.NDArray[np.int8]
    truth: npt.NDArray[np.bool_] | None
    epochs: range
    normalised: bool

    @property
    def unknown(self) -> npt.NDArray[np.bool_]:
        """Labels that were not observed, bool (N, C)."""
        return np.asarray(self.observed == 0)

    def check_epoch(self, epoch: int) -> None:
        """Check that an epoch was recorded.

        Raises:
            InputError: It was not.
        """
        if epoch not in self.epochs:
            raise InputError(
                f"{self.folder}: epoch {epoch} was not recorded, only 0 (before the first) to "
                f"{self.epochs[-1]}."
            )

    def logits(self, epoch: int) -> Logits:
        """Logits after an epoch, float32 (N, C), with the precision of float16.

        Raises:
            InputError: The epoch was not recorded, or its file is damaged.
        """
        self.check_epoch(epoch)
        path = self.folder / run_files.SCORES / _epoch_file(epoch)
        with open_tensors(path, _AGAIN, self.folder) as (stored, about):
            if (number := about["epoch"]) != epoch:
                raise ValueError(f"it is the file of epoch {number!r}")
            logits = read_tensor(stored, "logits", "F16", self.observed.shape).astype(np.float32)
            if not np.isfinite(logits).all():
                raise ValueError("it holds scores that are not finite")
        return logits

    def probabilities(self, epoch: int) -> npt.NDArray[np.float32]:
        """Probabilities after an epoch, float32 (N, C): sigmoid of the logits, or what a model gave.

        Raises:
            InputError: As for `logits`.
        """
        return np.asarray(scores_of(self.logits(epoch), "exp" if self.normalised else "sigmoid"), np.float32)


def read_recording(run: str | Path) -> Recording:
    """Read the recorded scores in the folder of a run.

    Raises:
        InputError: The folder holds no run or no recorded scores, an epoch is missing, or a file is damaged.
    """
    folder = Path(run)
    scores = folder / run_files.SCORES
    path = scores / run_files.SCORED_SAMPLES
    if not path.is_file():
        if not run_files.holds_run(folder):
            raise InputError(
                f"{folder}: holds no run: name the folder of one that was trained with record=scores."
            )
        raise InputError(
            f"{folder}: this run did not record its scores. Train it with record=scores: spml train "
            f"--config {folder / run_files.CONFIG} --record scores --output ANOTHER"
        )
    found = sorted(int(match[1]) for file in scores.iterdir() if (match := _EPOCH.fullmatch(file.name)))
    epochs = range(max(len(found), 1))
    if missing := sorted({*epochs} - {*found}):
        raise InputError(
            f"{scores / _epoch_file(missing[0])}: is missing, so the recording is not complete. Restore it, "
            "or train the run again with `overwrite`."
        )
    with open_tensors(path, _AGAIN, folder) as (stored, about):
        method, output = msgspec.convert([about["method"], about["output"]], list[str])
        classes, ids = msgspec.convert([about["classes"], about["ids"]], list[list[str]])
        "".join(classes).encode()  # fails for halves of surrogate pairs, which can't be printed
        arrays = {}
        for key in ("observed", "truth"):
            if key == "observed" or key in stored.keys():  # noqa: SIM118
                arrays[key] = read_tensor(stored, key, "I8", (len(ids), len(classes)))
        if not ids or not classes:
            raise ValueError("it names no samples or no classes")
        for key, allowed in (("observed", (-1, 0, 1)), ("truth", (0, 1))):
            if key in arrays and not np.isin(arrays[key], allowed).all():
                raise ValueError(f"{key} holds other values than {allowed}")
    for epoch in epochs:
        # The scores themselves are checked when they are read.
        with open_tensors(scores / _epoch_file(epoch), _AGAIN, folder, check=False) as (stored, _):
            check_tensor(stored, "logits", "F16", arrays["observed"].shape)
    truth = arrays.get("truth")
    return Recording(
        folder=folder,
        method=method,
        classes=tuple(classes),
        ids=tuple(ids),
        observed=arrays["observed"],
        truth=None if truth is None else truth == 1,
        epochs=epochs,
        normalised=output == LOG_SOFTMAX,
    )
