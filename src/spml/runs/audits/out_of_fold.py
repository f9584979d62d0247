"""Scores of all samples of a data set, as far as possible by models that were not fitted to them."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ...common.errors import InputError, SpmlError
from ...common.phrases import counted
from ...config import Config, DataConfig
from ...data import Dataset, Inputs, Samples, start_opening
from ...data.dataset import ImageInputs
from ...labels import ObservedLabels
from ...metrics.top_scores import TopScores
from ..compute.predict import Engine, check_kind
from ..compute.score_table import ScoreTable, take_scores
from ..console import Console
from ..fit.fine_tune import HEAD, TUNED
from ..folder import layout as run_files
from ..folder.contents import load_model, read_summary
from ..folder.held_out import join_labels, read_held_out
from ..run import Run
from ..settle.resolve import Resolved, resolve
from .refits import SolvedHead, draw_folds, train_folds

SOLVED_FOLDS = 5
"""Parts of the training samples for which a head is solved again where nothing else is stated."""

_ROWS = 4096  # feature vectors hashed at a time

Scores = npt.NDArray[np.float32]


class Scored(NamedTuple):
    """Samples with scores.

    Attributes:
        ids: Names of the N samples.
        scores: Logits, float32 (N, C), comparable between classes and samples, or the highest of each sample.
        labels: Their observed labels.
        how: How the scores were made, for people.
        warnings: Why some scores can't be trusted as others can, one sentence each.
    """

    ids: tuple[str, ...]
    scores: Scores | TopScores
    labels: ObservedLabels
    how: str
    warnings: tuple[str, ...]


class TrainedRun:
    """A finished run with what is needed to fit its model again.

    Args:
        folder: Folder of the run.

    Attributes:
        folder: Folder of the run.
        config: Settings of its training; of the head, where method `auto` has kept that instead of the
            network that was fine-tuned from it.
        model: Its model.
        run: The run, for prediction.
        fingerprint: Fingerprint of the data that it was trained on.

    Raises:
        InputError: The folder holds no finished run, or a file is missing or damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model, card = load_model(folder)
        self.run = Run(folder, self.model, card)
        if not (folder / run_files.CONFIG).is_file():
            raise InputError(
                f"{folder / run_files.CONFIG}: is missing, so the settings of the run are not known. Name "
                "the folder of a run as `spml train` writes it."
            )
        self.config = run_files.read_config(folder)
        summary = read_summary(folder)
        self.fingerprint = str(summary["data"]["fingerprint"])
        kept = [each["run"] for each in summary.get("candidates", ()) if each["kept"]]
        if kept == [HEAD]:
            self.config = run_files.read_config(folder / HEAD)

    def open(self, config: DataConfig, console: Console) -> Dataset:
        """Open data for the model.

        Raises:
            InputError: The data can't be opened, has a class that the model does not know, or samples of
                another kind or width than the model takes.
        """
        opening = start_opening(config, report=console.line)
        self.run.columns(config.path, opening.classes)
        spec = self.model.spec
        data = opening.finish(size=config.size or spec.size, interpolation=spec.interpolation)
        check_kind(self.folder, self.model, next(iter(data.splits.values())).inputs)
        return data


def score_samples(
    trained: TrainedRun,
    data: Dataset,
    config: DataConfig,
    *,
    folds: int | None,
    folder: Path,
    overwrite: bool,
    engine: Engine,
) -> Scored:
    """Score all samples, those that the run was fitted to by models that were fitted to others.

    Scores that the run has kept of samples that it was not fitted to are used. Other training samples are
    divided into parts, and a model is fitted without each: a head that is solved, in seconds; a model that is
    trained, only if `folds` says so, in a folder of its own. If the data has other labels or samples than the
    run was trained on, but has some of these samples, everything is fitted again. If the run has seen none of
    the samples, its model scores them.

    Args:
        trained: Run whose model is used.
        data: Data set, opened by `trained`.
        config: Settings of the data.
        folds: Number of parts; 0 = fit nothing again; None = 5 where a head is solved, else 0.
        folder: Folder for trainings on parts of the samples.
        overwrite: Replace earlier trainings there that had other settings or data.
        engine: Settings of prediction, with a console.

    Raises:
        InputError: `folds` or the data does not suit.
        SpmlError: A training failed.
    """
    if folds is not None and (folds == 1 or folds < 0):
        raise InputError(f"--folds must be 0 or at least 2, got {folds}.")
    scorer = _Scorer(trained, data, config, engine)
    if scorer.unseen:
        return scorer.gather(f"scores of the model in {trained.folder}, which has seen none of the samples")
    run = scorer.resolved()
    with torch.random.fork_rng():
        if run.solved and not run.fine_tunes:
            how = scorer.solve(run, SOLVED_FOLDS if folds is None else folds)
        else:
            how = scorer.train(run, folds or 0, folder, overwrite)
    return scorer.gather(how)


class _Scorer:
    """Fills in the scores of every split."""

    def __init__(self, trained: TrainedRun, data: Dataset, config: DataConfig, engine: Engine) -> None:
        assert engine.console is not None
        self._trained, self._data, self._config, self._engine = trained, data, config, engine
        self._console: Console = engine.console
        self._labels = join_labels([samples.observed for samples in data.splits.values()])
        self._table = ScoreTable(self._labels)
        self._scored: set[str] = set()
        self._warnings: list[str] = []
        self._same = data.fingerprint() == trained.fingerprint
        self.unseen = not self._same and not self._overlaps()

    def resolved(self) -> Resolved:
        """The run as it would be trained on this data."""
        config = replace(self._trained.config, data=self._config)
        spec = self._trained.model.spec
        return resolve(config, lambda config, start: (self._data, spec))

    def solve(self, run: Resolved, folds: int) -> str:
        """Score training and validation samples by heads that are solved again; says how."""
        self._use_held_out()
        missing = [name for name in ("train", "val") if name not in self._scored]
        if not missing:
            return f"held-out scores of {self._trained.folder}"
        if not folds:
            self._warn_in_sample(["train"] if self._same else list(self._data.splits))
            return f"scores of the model in {self._trained.folder}"
        backbone, cluster = self._trained.model.backbone, self._engine.cluster
        head = SolvedHead(run, self._trained.folder, backbone, self._console, cluster)
        if "val" in missing:
            for name, scores in head.score_others().items():
                self._put(name, scores)
        if "train" in missing:
            train = self._data.splits["train"]
            parts = _parts(train, folds, run.config)
            with self._console.progress(folds, "solving the head without each part") as advance:
                for number in range(folds):
                    part = np.flatnonzero(parts == number)
                    self._put("train", head.score_part(parts == number), part)
                    advance(1)
        name = run.config.method or run.config.model.head
        return f"{folds} solutions of {name}, each without a part of the training samples, which it scores"

    def train(self, run: Resolved, folds: int, folder: Path, overwrite: bool) -> str:
        """Score training samples by models that are trained again, or by the model itself; says how."""
        self._use_held_out()
        if "train" in self._scored:
            return f"held-out scores of {self._trained.folder}"
        if not folds:
            self._warn_in_sample(["train"] if self._same else list(self._data.splits))
            return f"scores of the model in {self._trained.folder}"
        if not self._same:
            self._warn_in_sample([name for name in self._data.splits if name != "train"])
        train = self._data.splits["train"]
        if run.config.init_from:
            self._warnings.append(
                f"The trainings start from {run.config.init_from}, which may have seen the samples that they "
                "score."
            )
        cache = run.config.data.cache or str(self._trained.folder / run_files.FEATURES)
        config = replace(run.config, data=replace(run.config.data, cache=cache))
        for held, part in train_folds(
            config,
            self._data,
            run.spec,
            _parts(train, folds, config),
            folder,
            # The head and the network differ in the scale of their scores, and this run has kept the network.
            within=TUNED if run.fine_tunes else "",
            overwrite=overwrite,
            console=self._console,
        ):
            self._put("train", part, np.flatnonzero(held))
        return f"{folds} trainings, each without a part of the training samples, which it scores"

    def gather(self, how: str) -> Scored:
        """All samples, those without a score yet by the model of the run."""
        columns = self._trained.run.columns(self._config.path, self._data.classes)
        for name, samples in self._data.splits.items():
            if name not in self._scored:
                blocks = self._trained.run.logit_blocks(samples, self._engine)
                in_order = ((rows, logits[:, columns]) for rows, logits in blocks)
                self._table.put_blocks(self._rows_of(name), in_order)
        scores = self._table.finish()
        values = scores.scores if isinstance(scores, TopScores) else scores
        if not np.isfinite(values).all():
            raise SpmlError(f"{self._config.path}: some scores are NaN or infinite. Scale the features.")
        ids = tuple(name for samples in self._data.splits.values() for name in samples.ids)
        return Scored(ids, scores, self._labels, how, tuple(self._warnings))

    def _rows_of(self, split: str) -> npt.NDArray[np.int64]:
        """Numbers of the samples of a split among all samples."""
        sizes = {name: len(samples) for name, samples in self._data.splits.items()}
        names = list(sizes)
        first = sum(sizes[name] for name in names[: names.index(split)])
        return np.arange(first, first + sizes[split])

    def _put(self, split: str, scores: Scores | TopScores, part: npt.NDArray[np.int64] | None = None) -> None:
        """Fill in the scores of a split, or of some of its samples."""
        rows = self._rows_of(split)
        self._table.put(rows if part is None else rows[part], scores)
        self._scored.add(split)

    def _use_held_out(self) -> None:
        """Take the scores that the run has kept, for splits of which all samples have one."""
        if not self._same or not (self._trained.folder / run_files.HELD_OUT).is_file():
            return
        held_out = read_held_out(self._trained.folder, self._data.classes)
        if isinstance(held_out.scores, TopScores) and not self._table.highest:
            return  # all scores are wanted
        row = {name: number for number, name in enumerate(held_out.ids)}
        for name in ("train", "val"):
            ids = self._data.splits[name].ids
            if row.keys() >= set(ids):
                self._put(name, take_scores(held_out.scores, np.asarray([row[each] for each in ids])))

    def _overlaps(self) -> bool:
        """Whether the run may have seen a sample of the data, in training or validation."""
        stated = self._trained.config.data
        if Path(stated.path).resolve() == Path(self._config.path).resolve():
            return True
        try:
            before = self._trained.open(stated, Console(silent=True))
        except InputError as error:
            self._console.line(
                f"note: the training data of {self._trained.folder} can't be read ({error}), so samples of "
                f"{self._config.path} may be among it."
            )
            return True
        seen = {name for split in ("train", "val") for name in _contents(before.splits[split].inputs)}
        return any(not seen.isdisjoint(_contents(part.inputs)) for part in self._data.splits.values())

    def _warn_in_sample(self, splits: list[str]) -> None:
        """Warn of samples that are scored by a model which may have been fitted to them."""
        count = sum(len(self._data.splits[name]) for name in splits if name not in self._scored)
        if count:
            self._warnings.append(
                f"{counted(count, 'sample')} may be scored by a model that was fitted to them. It has "
                "learned not to predict what was not shown, so missing labels rank too low and probabilities "
                f"are wrong. --folds {SOLVED_FOLDS} fits models without them."
            )


def _parts(train: Samples, folds: int, config: Config) -> npt.NDArray[np.int64]:
    if len(train) < 2 * folds:
        raise InputError(f"--folds {folds} is too many for {counted(len(train), 'training sample')}.")
    return draw_folds(train.observed, folds, config.seed)


def _contents(inputs: Inputs) -> set[bytes]:
    """Digest of the content of each sample."""
    if isinstance(inputs, ImageInputs):
        return {digest.tobytes() for digest in inputs.identities()}
    digests: set[bytes] = set()
    for first in range(0, len(inputs), _ROWS):
        rows = range(first, min(first + _ROWS, len(inputs)))
        digests |= {hashlib.sha256(row.tobytes()).digest() for row in inputs.fetch(rows, None).numpy()}
    return digests
