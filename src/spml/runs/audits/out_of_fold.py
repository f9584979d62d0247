"""Scores of all samples of a data set, as far as possible by models that were not fitted to them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ...common.errors import InputError, SpmlError
from ...common.files import same_path
from ...common.locks import Report
from ...common.phrases import counted
from ...common.progress import Progress, no_progress
from ...config import Config, DataConfig
from ...data import Dataset, Samples, start_opening
from ...data.groups import count_groups
from ...labels import ObservedLabels
from ...scores import Scores, ScoreTable
from ..compute.predict import Engine, check_samples
from ..fit.fine_tune import HEAD, TUNED
from ..folder import layout as run_files
from ..folder.held_out import join_labels, read_held_out
from ..run import Run
from ..settle.resolve import Resolved, resolve
from .answers import digests
from .refits import SolvedHead, draw_folds, train_folds

SOLVED_FOLDS = 5
"""Parts of the training samples for which a head is solved again where nothing else is stated."""


class Scored(NamedTuple):
    """Samples with scores.

    Attributes:
        ids: Names of the N samples.
        scores: Logits (N, C), comparable between classes and samples, or the highest of each sample.
        labels: Their observed labels.
        how: How the scores were made, for people.
        warnings: Why some scores can't be trusted as others can, one sentence each.
    """

    ids: tuple[str, ...]
    scores: Scores
    labels: ObservedLabels
    how: str
    warnings: tuple[str, ...]


def open_for_run(run: Run, config: DataConfig, report: Report, progress: Progress = no_progress) -> Dataset:
    """Open data for the model of a run.

    Raises:
        InputError: The data can't be opened, has a class that the model does not know, or samples of another
            kind or width than the model takes.
    """
    opening = start_opening(config, report=report, progress=progress)
    run.columns(config.path, opening.classes)
    data = opening.finish(size=config.size or run.spec.size, interpolation=run.spec.interpolation)
    check_samples(run.folder, run.classifier, next(iter(data.splits.values())).inputs)
    return data


def settings_of_model(run: Run) -> Config:
    """Settings of the training; those of the head, where method `auto` has kept that and not the network."""
    kept = [each["run"] for each in run.summary.get("candidates", ()) if each["kept"]]
    return run_files.read_config(run.folder / HEAD) if kept == [HEAD] else run.settings


def score_samples(
    trained: Run,
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
        data: Data set, from `open_for_run`.
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
        raise InputError(f"`folds` must be 0 or at least 2, got {folds}.")
    scorer = _Scorer(trained, data, config, engine)
    if scorer.unseen:
        return scorer.gather(f"scores of the model in {trained.folder}, which has seen none of the samples")
    settings = settings_of_model(trained)
    used = trained.classifier.top.local
    local: Literal["on", "off", "crops"] = "off"
    if used:
        local = "crops" if used.settings.windows.crops else "on"
    settings = replace(settings, data=config, model=replace(settings.model, local=local))
    run = resolve(settings, lambda config, start: (data, trained.spec))
    with torch.random.fork_rng():
        how = scorer.fit(run, folds, folder, overwrite)
    return scorer.gather(how)


class _Scorer:
    """Fills in the scores of every split."""

    def __init__(self, trained: Run, data: Dataset, config: DataConfig, engine: Engine) -> None:
        self._trained, self._data, self._config, self._engine = trained, data, config, engine
        self._console = engine.display
        self._labels = join_labels([samples.observed for samples in data.splits.values()])
        self._table = ScoreTable(self._labels)
        self._scored: set[str] = set()
        self._warnings: list[str] = []
        self._same = data.fingerprint() == trained.summary["data"]["fingerprint"]
        self.unseen = not self._same and not self._overlaps()

    def fit(self, run: Resolved, folds: int | None, folder: Path, overwrite: bool) -> str:
        """Score the samples that the run was fitted to by models that are fitted again; says how."""
        solved = run.solved and not run.fine_tunes
        self._use_held_out()
        missing = [name for name in (("train", "val") if solved else ("train",)) if name not in self._scored]
        if not missing:
            return f"held-out scores of {self._trained.folder}"
        folds = _settle_folds(folds, self._data.splits["train"], solved=solved)
        if not folds:
            self._warn_in_sample(["train"] if self._same else list(self._data.splits))
            return f"scores of the model in {self._trained.folder}"
        train = self._data.splits["train"]
        if solved:
            backbone, cluster = self._trained.classifier.backbone, self._engine.cluster
            head = SolvedHead(run, self._trained.folder, backbone, self._console, cluster)
            name = run.config.method or run.config.model.head
            how = f"{folds} solutions of {name}, each without a part of the samples, which it scores"
            every = head.score_every() if folds == SOLVED_FOLDS else None
            if every:
                order = np.argsort(every.rows)
                for split, part in zip(("train", "val"), np.split(order, [len(train)]), strict=True):
                    self._put(split, every.scores.take(part))
                return how
            if "val" in missing:
                for split, scores in head.score_others().items():
                    self._put(split, scores)
            if "train" in missing:
                parts = _parts(train, folds, run.config)
                with self._console.progress(folds, "solving the head without each part") as advance:
                    for number in range(folds):
                        part = np.flatnonzero(parts == number)
                        self._put("train", head.score_part(parts == number), part)
                        advance(1)
            return how
        if not self._same:
            self._warn_in_sample([name for name in self._data.splits if name != "train"])
        if run.config.init_from:
            self._warnings.append(
                f"The trainings start from {run.config.init_from}, which may have seen the samples that they "
                "score."
            )
        cache = run.config.data.cache or str(self._trained.folder / run_files.FEATURES)
        config = replace(run.config, data=replace(run.config.data, cache=cache))
        for held, scores in train_folds(
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
            self._put("train", scores, np.flatnonzero(held))
        return f"{folds} trainings, each without a part of the training samples, which it scores"

    def gather(self, how: str) -> Scored:
        """All samples, those without a score yet by the model of the run."""
        columns = self._trained.columns(self._config.path, self._data.classes)
        for name, samples in self._data.splits.items():
            if name not in self._scored:
                logits = self._trained.scores(samples, self._engine)
                self._put(name, logits.select(columns))
        scores = self._table.finish()
        if not np.isfinite(scores.pairs.scores).all():
            raise SpmlError(f"{self._config.path}: some scores are NaN or infinite. Scale the features.")
        ids = tuple(name for samples in self._data.splits.values() for name in samples.ids)
        return Scored(ids, scores, self._labels, how, tuple(self._warnings))

    def _put(self, split: str, scores: Scores, part: npt.NDArray[np.int64] | None = None) -> None:
        """Fill in the scores of a split, or of some of its samples."""
        sizes = {name: len(samples) for name, samples in self._data.splits.items()}
        first = sum(sizes[name] for name in list(sizes)[: list(sizes).index(split)])
        self._table.put(first + (np.arange(sizes[split]) if part is None else part), scores)
        self._scored.add(split)

    def _use_held_out(self) -> None:
        """Take the scores that the run has kept, for splits of which all samples have one."""
        if not self._same or not (self._trained.folder / run_files.HELD_OUT).is_file():
            return
        held_out = read_held_out(self._trained.folder, self._data.classes)
        if held_out.scores.array is None and not self._table.highest:
            return  # all scores are wanted
        for name in ("train", "val"):
            scores = held_out.scores_of(self._data.splits[name].ids)
            if scores is not None:
                self._put(name, scores)

    def _overlaps(self) -> bool:
        """Whether the run may have seen a sample of the data, in training or validation."""
        stated = self._trained.settings.data
        if same_path(stated.path, self._config.path):
            return True
        try:
            before = open_for_run(self._trained, stated, lambda line: None)
        except InputError as error:
            self._console.line(
                f"note: the training data of {self._trained.folder} can't be read ({error}), so samples of "
                f"{self._config.path} may be among it."
            )
            return True
        seen = {name for split in ("train", "val") for name in digests(before.splits[split].inputs)}
        return any(not seen.isdisjoint(digests(part.inputs)) for part in self._data.splits.values())

    def _warn_in_sample(self, splits: list[str]) -> None:
        """Warn of samples that are scored by a model which may have been fitted to them."""
        count = sum(len(self._data.splits[name]) for name in splits if name not in self._scored)
        if count:
            self._warnings.append(
                f"{counted(count, 'sample')} may be scored by a model that was fitted to them. It has "
                "learned not to predict what was not shown, so missing labels rank too low and probabilities "
                f"are wrong. folds={SOLVED_FOLDS} fits models without them."
            )


def _parts(train: Samples, folds: int, config: Config) -> npt.NDArray[np.int64]:
    if len(train) < 2 * folds:
        raise InputError(f"folds={folds} is too many for {counted(len(train), 'training sample')}.")
    return draw_folds(train.observed, folds, config.seed, train.groups)


def _settle_folds(folds: int | None, train: Samples, *, solved: bool) -> int:
    """Number of parts; where none is stated and a head is solved, fewer for few groups."""
    groups = count_groups(train.groups)
    if folds is None:
        folds = (min(SOLVED_FOLDS, groups) if groups else SOLVED_FOLDS) if solved else 0
        return folds if folds > 1 else 0
    if 0 < groups < folds:
        raise InputError(
            f"folds={folds} is too many for {counted(groups, 'group')} of training samples, since a group "
            f"is in one part only. Pass folds={groups if groups > 1 else 0}, or leave data.group out."
        )
    return folds
