"""Models fitted again without a part of the training samples, which they then score."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ... import models
from ...common.draws import permutation
from ...common.errors import InputError
from ...common.phrases import counted
from ...config import AUTO, Config, differences
from ...data import Dataset, Samples
from ...decisions import Judge
from ...engine import make_fabric
from ...engine.loop import Judging
from ...labels import ObservedLabels
from ...metrics import ScoreBlocks
from ...metrics.top_scores import HIGHEST, TopScores, top_scores
from ..api import load
from ..compute.cluster.stream import features_computed_by
from ..compute.predict import Engine
from ..compute.score_table import take_scores
from ..console import Console
from ..fit.build import Build, frozen_features, make_backbone, start_objective
from ..folder import layout as run_files
from ..folder.contents import read_metrics, read_summary
from ..folder.held_out import read_held_out
from ..settle.init_from import Start
from ..settle.resolve import Resolved
from ..train import run_training

Rows = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]


def draw_folds(observed: ObservedLabels, folds: int, seed: int) -> Rows:
    """Part of each sample, int64 (N,) in [0, folds): about the same share of every class in each part.

    Samples are dealt out one after the other, those of the same class in random order. A sample with several
    known positives counts for the rarest of them.

    Args:
        observed: Observed labels.
        folds: Number of parts.
        seed: Seed of the draw.
    """
    rows, columns = observed.entries(1)
    rarest = np.full(len(observed), observed.num_classes)
    # The last entry of a sample that is written is the one of its rarest class.
    order = np.argsort(-observed.positives_per_class()[columns], kind="stable")
    rarest[rows[order]] = columns[order]
    shuffled = permutation(len(observed), "audit folds", seed)
    part = np.empty(len(observed), np.int64)
    part[shuffled[np.argsort(rarest[shuffled], kind="stable")]] = np.arange(len(observed)) % folds
    return part


def without(data: Dataset, held: npt.NDArray[np.bool_]) -> Dataset:
    """Data set whose training samples lack some, which take the place of the validation samples.

    Args:
        data: Data set.
        held: Training samples to leave out, bool (N,).
    """
    train = data.splits["train"]
    splits = {"train": train.take(np.flatnonzero(~held)), "val": train.take(np.flatnonzero(held))}
    return replace(data, splits=splits, truth={}, notes=(), skipped=())


class SolvedHead:
    """A head that is solved again on parts of the samples, on features that are computed once.

    Args:
        run: Resolved run whose head is solved.
        folder: Folder of the run, whose cache has the features of a frozen backbone.
        backbone: Backbone of the model.
        console: Shows progress.
        cluster: As in `Engine`.

    Raises:
        InputError: The run does not say which penalty it chose.
    """

    def __init__(
        self,
        run: Resolved,
        folder: Path,
        backbone: models.Backbone,
        console: Console,
        cluster: str | None = None,
    ) -> None:
        self._run, self._fabric = run, make_fabric(run.config.accelerator, 1, run.config.precision)
        self._position = None if run.config.method == AUTO else _chosen_position(folder)
        self._data = run.data
        self._backbone = None if run.frozen else make_backbone(run, console.line)
        if run.frozen:
            self._data = frozen_features(
                run,
                run.data,
                backbone.to(self._fabric.device),
                Path(run.config.data.cache or folder / run_files.FEATURES),
                report=console.line,
                progress=lambda label, total: console.progress(total, label),
                compute=features_computed_by(cluster, console.line),
            )

    def score_part(self, held: npt.NDArray[np.bool_]) -> Scores | TopScores:
        """Solve the head without some training samples, and score these.

        A linear head has the penalty that the run chose, so that the scores of all parts are of one scale.

        Args:
            held: Training samples to leave out, bool (N,).

        Returns:
            Logits (H, C), in the order of the samples; the highest of each where they do not fit.
        """
        return self._solve(without(self._data, held))[1]

    def score_others(self) -> dict[str, Scores | TopScores]:
        """Solve the head on all training samples, and score those of the other splits.

        Returns:
            Logits (N, C) of `val` and, if the data has one, `test`.
        """
        build, scores = self._solve(self._data)
        others = {
            name: _kept(build.scores(samples), samples)
            for name, samples in self._data.splits.items()
            if name not in ("train", "val")
        }
        return {"val": scores, **others}

    def _solve(self, data: Dataset) -> tuple[Build, Scores | TopScores]:
        """The solved head, and the scores of the validation samples by one that was not solved on them."""
        config, val = self._run.config, data.splits["val"]
        judge: Judging = (
            Judge(val, None, "observed", config.mean_labels)
            if self._position is None
            else _ChoosesPosition(self._position)
        )
        build = Build(self._run, data, start_objective(self._run, data), self._backbone, self._fabric)
        fitted = build.fit(judge)
        if fitted.held_out is None:
            return build, _kept(build.scores(val), val)
        scores = fitted.held_out.of_validation(len(data.splits["train"]))
        if len(scores) < len(val):
            raise InputError(
                f"scores of {counted(len(val), 'sample')} x {len(data.classes):,} classes do not fit into "
                "the memory, so an auto head can't score them all without being solved on them. Audit fewer "
                "samples, or with a ridge head (--head ridge)."
            )
        return build, scores


def _kept(scores: Scores | ScoreBlocks, samples: Samples) -> Scores | TopScores:
    """All scores where they fit, else the highest of each sample."""
    if not isinstance(scores, ScoreBlocks):
        return scores
    return top_scores(scores.blocks(), HIGHEST, samples.observed.entries(1))


class _ChoosesPosition:
    """A judge that prefers one of the solutions by its number, whatever its scores."""

    metric = "val/SP"

    def __init__(self, position: int) -> None:
        self._position, self._judged = position, 0

    def __call__(self, scores: Scores | ScoreBlocks) -> dict[str, float]:
        self._judged += 1
        return {self.metric: float(self._judged - 1 == self._position)}


def train_folds(
    config: Config,
    data: Dataset,
    spec: models.BackboneSpec,
    parts: Rows,
    folder: Path,
    *,
    within: str = "",
    overwrite: bool,
    console: Console,
) -> Iterator[tuple[npt.NDArray[np.bool_], Scores]]:
    """Train a model without each part of the training samples, each in a folder of its own.

    The part that is left out takes the place of the validation samples, by which the best epoch is chosen. A
    training that was interrupted goes on, and one that is complete is not made again.

    Args:
        config: Settings of the run that is made again.
        data: Data set.
        spec: Backbone that the data was opened for.
        parts: Part of each training sample, int64 (N,).
        folder: Folder for the folders of the trainings.
        within: Name of the folder in that of a training that holds the model which scores; by default the
            training itself.
        overwrite: Replace a training with other settings or data.
        console: Shows progress.

    Yields:
        Training samples that were left out, bool (N,), and their logits (H, C).

    Raises:
        InputError: A folder holds a training with other settings or data.
        SpmlError: A training failed or was interrupted.
    """
    total = int(parts.max()) + 1
    for number in range(total):
        held = parts == number
        part = without(data, held)
        own = folder / f"fold-{number + 1}-of-{total}"
        own_config = replace(config, output=str(own), record="none", devices=1)
        console.line(f"{own}: training without {counted(int(held.sum()), 'sample')}")
        if not _finished(own, own_config, part.fingerprint()):
            started = run_files.holds_run(own)
            stale = started and ((own / run_files.SUMMARY).is_file() or bool(_changed(own, own_config)))
            if stale and not overwrite:
                raise InputError(
                    f"{own}: holds a training with other settings or data. Replace it (--overwrite), or name "
                    "another --output."
                )
            run_training(
                own_config,
                resume=started and not stale,
                overwrite=stale,
                console=console,
                open_data=_opener(part, spec),
            )
        yield held, _scores_of_part(own / within, part)


def _opener(
    data: Dataset, spec: models.BackboneSpec
) -> Callable[[Config, Start | None], tuple[Dataset, models.BackboneSpec]]:
    return lambda config, start: (data, start.spec(config.data.size) if start else spec)


def _finished(folder: Path, config: Config, fingerprint: str) -> bool:
    """Whether a folder holds a finished run with these settings on this data."""
    if not (folder / run_files.SUMMARY).is_file() or _changed(folder, config):
        return False
    return bool(read_summary(folder)["data"]["fingerprint"] == fingerprint)


def _changed(folder: Path, config: Config) -> list[str]:
    if not (folder / run_files.CONFIG).is_file():
        return []
    return [key for key in differences(run_files.read_config(folder), config) if key != "output"]


def _scores_of_part(folder: Path, part: Dataset) -> Scores:
    """Held-out scores of the samples that a run was trained without."""
    val, held_out = part.splits["val"], read_held_out(folder, part.classes)
    row = {name: number for number, name in enumerate(held_out.ids)}
    if row.keys() >= set(val.ids):
        own = take_scores(held_out.scores, np.asarray([row[name] for name in val.ids], np.int64))
        if not isinstance(own, TopScores):
            return own
    # More scores than a run keeps.
    return load(folder).logits(val, Engine())


def _chosen_position(folder: Path) -> int:
    """Number of the solution that a run with a linear head chose, in the order in which they are solved."""
    chosen = read_summary(folder)["selected"].get("penalty")
    try:
        return [record.get("penalty") for record in read_metrics(folder)].index(chosen)
    except ValueError as error:
        raise InputError(
            f"{folder / run_files.METRICS}: does not say which penalty the run chose ({error}). Train again."
        ) from error
