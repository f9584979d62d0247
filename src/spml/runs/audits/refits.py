"""Models fitted again without a part of the training samples, which they then score."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ... import models
from ...common.draws import permutation
from ...common.errors import InputError
from ...common.messages import log, muted
from ...common.phrases import counted
from ...config import AUTO, Config, differences
from ...data import Dataset, Samples
from ...data.groups import count_groups, deal_groups
from ...decisions import Judge
from ...engine import make_fabric
from ...engine.loop import Judging
from ...labels import ObservedLabels
from ...scores import HIGHEST, InMemory, Scores
from ..api import load
from ..fit.build import Build, frozen_features
from ..fit.local import use_windows
from ..fit.solve import HeldOutScores
from ..folder import layout as run_files
from ..folder.contents import read_metrics, read_summary
from ..folder.held_out import read_held_out
from ..predict.batches import Engine
from ..settle.resolve import Opened, Resolved
from ..train import run_training

Rows = npt.NDArray[np.int64]


def draw_folds(observed: ObservedLabels, folds: int, seed: int, groups: Rows | None = None) -> Rows:
    """Part of each sample, int64 (N,) in [0, folds): about the same share of every class in each part.

    Samples are dealt out one after the other, those of the same class in random order. A sample with several
    known positives counts for the rarest of them. Groups are dealt out as a whole, by `deal_groups`.

    Args:
        observed: Observed labels.
        folds: Number of parts.
        seed: Seed of the draw.
        groups: Group of each sample, int64 (N,); None = each is alone.
    """
    if groups is not None and count_groups(groups) < len(groups):
        return deal_groups(groups, observed.entries(1), folds, "audit folds", "groups", seed)
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
        cluster: As in `Engine`.

    Raises:
        InputError: The run does not say which penalty it chose.
    """

    def __init__(
        self, run: Resolved, folder: Path, backbone: models.Backbone, cluster: str | None = None
    ) -> None:
        self._run, self._fabric = run, make_fabric(run.config.accelerator, 1, run.config.precision)
        self._position, self._data = None, run.data
        if (
            run.config.method != AUTO
        ):  # of the solutions in the order in which they are solved, the chosen one
            chosen = read_summary(folder)["selected"].get("penalty")
            try:
                self._position = [record.get("penalty") for record in read_metrics(folder)].index(chosen)
            except ValueError as error:
                raise InputError(
                    f"{folder / run_files.METRICS}: does not say which penalty the run chose ({error}). "
                    "Train again."
                ) from error
        run.backbone = backbone if run.frozen else None
        if run.frozen:
            self._data = frozen_features(
                run,
                backbone.to(self._fabric.device),
                self._fabric,
                Path(run.config.data.cache or folder / run_files.FEATURES),
                cluster=cluster,
            )

    @muted()
    def score_every(self) -> HeldOutScores | None:
        """Score training and validation samples by auto heads of one cross-validation over all of them.

        Returns:
            None where they do not all fit into memory, or the head is another one.
        """
        run = self._run
        train, val = (self._data.splits[name] for name in ("train", "val"))
        count = len(train) + len(val)
        if run.config.method != AUTO or count * len(run.data.classes) > models.MOST_SCORES:
            return None
        judge = Judge(val, None, "observed", run.config.mean_labels)
        build = Build(run, self._fabric).place(self._data)
        if run.config.model.local == "off":
            solved = build.solver(judge).solve_auto(every=True)
            return HeldOutScores(solved.held_out[1].scores, solved.rows)
        held_out = use_windows(build, None, judge, every=True).held_out
        return held_out if held_out and len(held_out.rows) == count else None

    def score_part(self, held: npt.NDArray[np.bool_]) -> Scores:
        """Solve the head without some training samples, and score these.

        A linear head has the penalty that the run chose, so that the scores of all parts are of one scale.

        Args:
            held: Training samples to leave out, bool (N,).

        Returns:
            Logits (H, C), in the order of the samples; the highest of each where they do not fit.
        """
        return self._solve(without(self._run.data, held), without(self._data, held))[1]

    def score_others(self) -> dict[str, Scores]:
        """Solve the head on all training samples, and score those of the other splits.

        Returns:
            Logits (N, C) of `val` and, if the data has one, `test`.
        """
        build, scores = self._solve(self._run.data, self._data)
        others = {
            name: _in_memory(build.scores(samples), samples)
            for name, samples in build.data.splits.items()
            if name not in ("train", "val")
        }
        return {"val": scores, **others}

    @muted()
    def _solve(self, data: Dataset, features: Dataset) -> tuple[Build, Scores]:
        """The solved head, and the scores of the validation samples by one that was not solved on them.

        Args:
            data: Samples.
            features: Their features, if the backbone is frozen.
        """
        val = features.splits["val"]
        judge: Judging = _ChoosesPosition(self._position)
        if self._position is None:
            judge = Judge(val, None, "observed", self._run.config.mean_labels)
        build = Build(replace(self._run, data=data), self._fabric).place(features)
        with muted():
            fitted = use_windows(build, build.fit(judge), judge)
        if fitted.held_out is None:
            return build, _in_memory(build.scores(val), val)
        scores = fitted.held_out.of_validation(len(data.splits["train"]))
        if len(scores) < len(val):
            raise InputError(
                f"scores of {counted(len(val), 'sample')} x {len(data.classes):,} classes do not fit into "
                "the memory, so an auto head can't score them all without being solved on them. Audit fewer "
                "samples, or with a ridge head (head=ridge)."
            )
        return build, scores


def _in_memory(scores: Scores, samples: Samples) -> Scores:
    """All scores where they fit, else the highest of each sample."""
    return scores if scores.array is not None else scores.highest(HIGHEST, samples.observed.entries(1))


class _ChoosesPosition:
    """A judge that prefers one of the solutions by its number, whatever its scores."""

    metric = "val/SP"

    def __init__(self, position: int | None) -> None:
        self._position, self._judged = position, 0

    def __call__(self, scores: Scores) -> dict[str, float]:
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
        log.info(f"{own}: training without {counted(int(held.sum()), 'sample')}")
        finished = (own / run_files.SUMMARY).is_file()
        changed = (own / run_files.CONFIG).is_file() and any(
            key != "output" for key in differences(run_files.read_config(own), own_config)
        )
        if not finished or changed or read_summary(own)["data"]["fingerprint"] != part.fingerprint():
            started = run_files.holds_run(own)
            stale = started and (finished or changed)
            if stale and not overwrite:
                raise InputError(
                    f"{own}: holds a training with other settings or data. Replace it (`overwrite`), or name "
                    "another `output`."
                )
            run_training(
                own_config,
                resume=started and not stale,
                overwrite=stale,
                data=Opened(part, spec),
                pictures=False,
            )
        val = part.splits["val"]
        scores = read_held_out(own / within, part.classes).scores_of(val.ids)
        if scores is None or scores.array is None:  # more scores than a run keeps
            scores = InMemory(load(own / within).logits(val, Engine()))
        yield held, scores
