"""Scores of all samples of a data set, as far as possible by models that were not fitted to them.

Where the run has kept none of a sample that it was fitted to, the head is solved again, or the model trained
again, without a part of the samples, which it then scores.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from os.path import exists
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ... import models
from ...common.draws import permutation
from ...common.errors import InputError, SpmlError
from ...common.files import same_path
from ...common.messages import log, muted, progress
from ...common.phrases import counted
from ...common.safe import quote
from ...config import AUTO, Config, DataConfig, differences
from ...data import MEMORY, Dataset, Samples, start_opening
from ...data.groups import count_groups, deal_groups
from ...decisions import Judge
from ...engine import make_fabric
from ...engine.loop import Judging
from ...labels import ObservedLabels
from ...scores import HIGHEST, InMemory, Scores, ScoreTable
from ..fit.build import Build, frozen_features
from ..fit.fine_tune import HEAD, TUNED
from ..fit.local import use_windows
from ..fit.solve import Solver
from ..folder import layout as run_files
from ..folder.contents import read_metrics, read_summary
from ..folder.held_out import HeldOut, join_labels, read_held_out
from ..predict.batches import Engine, check_samples
from ..run import Run, load
from ..settle.resolve import Opened, Resolved, check_stated, resolve
from ..train import run_training
from .answers import digests

Rows = npt.NDArray[np.int64]
Held = npt.NDArray[np.bool_]

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
        kept: Held-out scores of the run, if some of the scores are these; else None.
    """

    ids: tuple[str, ...]
    scores: Scores
    labels: ObservedLabels
    how: str
    warnings: tuple[str, ...]
    kept: HeldOut | None


def open_for_run(run: Run, config: DataConfig) -> Dataset:
    """Open data for the model of a run.

    Raises:
        InputError: The data can't be opened, has a class that the model does not know, or samples of another
            kind or width than the model takes.
    """
    if config.path == run.trained_on and config.path not in (MEMORY, "digits") and not exists(config.path):
        raise InputError(
            f"{run.folder}: the data that it has learned from, {quote(config.path)}, is not there. Name the "
            "data after the folder of the run."
        )
    opening = start_opening(config)
    run.columns(config.path, opening.classes)
    data = opening.finish(size=config.side or run.spec.size, interpolation=run.spec.interpolation)
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
        engine: Settings of prediction.

    Raises:
        InputError: `folds` or the data does not suit.
        SpmlError: A training failed.
    """
    if folds is not None and (folds == 1 or folds < 0):
        raise InputError(f"`folds` must be 0 or at least 2, got {folds}.")
    labels = join_labels([samples.observed for samples in data.splits.values()])
    table, missing, warnings, kept = ScoreTable(labels), [*data.splits], list[str](), None
    ends = np.cumsum([len(samples) for samples in data.splits.values()])
    rows_of = dict(zip(missing, np.split(np.arange(ends[-1]), ends[:-1]), strict=True))
    same = data.fingerprint() == trained.summary["data"]["fingerprint"]
    if same and (trained.folder / run_files.HELD_OUT).is_file():
        held_out = read_held_out(trained.folder, data.classes)
        if held_out.scores.array is not None or table.highest:  # otherwise all scores are wanted
            for name in ("train", "val"):
                if (scores := held_out.scores_of(data.splits[name].ids)) is not None:
                    table.put(rows_of[name], scores)
                    missing.remove(name)
                    kept = held_out

    def warn_in_sample(names: list[str]) -> None:
        if count := sum(len(rows_of[name]) for name in names if name in missing):
            warnings.append(
                f"{counted(count, 'sample')} may be scored by a model that was fitted to them. It has "
                "learned not to predict what was not shown, so missing labels rank too low and probabilities "
                f"are wrong. folds={SOLVED_FOLDS} fits models without them."
            )

    how = f"scores of the model in {trained.folder}, which has seen none of the samples"
    if same or _overlaps(trained, data, config):
        settings = replace(settings_of_model(trained), data=config)
        settings = replace(settings, model=replace(settings.model, local=_windows(trained.classifier.top)))
        settings, start = check_stated(settings)
        run = resolve(settings, Opened(data, trained.spec), start)
        solved = run.solved and not run.fine_tunes
        if {*missing}.isdisjoint(("train", "val") if solved else ("train",)):
            how = f"held-out scores of {trained.folder}"
        elif not (folds := _settle_folds(folds, run, solved=solved)):
            warn_in_sample(["train"] if same else missing)
            how = f"scores of the model in {trained.folder}"
        elif solved:
            how = (
                f"{folds} solutions of {run.config.method or run.config.model.head}, each without a part of "
                "the samples, which it scores"
            )
            for name, part, scores in _solve_again(run, trained, folds, missing, engine.cluster):
                table.put(rows_of[name][part], scores)
                missing = [each for each in missing if each != name]
        else:
            how = f"{folds} trainings, each without a part of the training samples, which it scores"
            if not same:
                warn_in_sample([name for name in missing if name != "train"])
            if run.config.init_from:
                warnings.append(
                    f"The trainings start from {run.config.init_from}, which may have seen the samples that "
                    "they score."
                )
            cache = run.config.data.cache or str(trained.folder / run_files.FEATURES)
            again = replace(run.config, data=replace(run.config.data, cache=cache))
            # The head and the network differ in the scale of their scores; this run has kept the network.
            within, parts = TUNED if run.fine_tunes else "", _draw_parts(run, folds)
            trainings = train_folds(again, data, run.spec, parts, folder, within=within, overwrite=overwrite)
            for held, scores in trainings:
                table.put(rows_of["train"][held], scores)
            missing.remove("train")
    columns = trained.columns(config.path, data.classes)
    for name in missing:
        table.put(rows_of[name], trained.scores(data.splits[name], engine).select(columns))
    scores = table.finish()
    if not np.isfinite(scores.pairs.scores).all():
        raise SpmlError(f"{config.path}: some scores are NaN or infinite. Scale the features.")
    ids = tuple(name for samples in data.splits.values() for name in samples.ids)
    return Scored(ids, scores, labels, how, tuple(warnings), kept)


def _overlaps(trained: Run, data: Dataset, config: DataConfig) -> bool:
    """Whether a run may have seen a sample of the data, in training or validation."""
    stated = trained.settings.data
    if same_path(stated.path, config.path):
        return True
    try:
        before = open_for_run(trained, stated)
    except InputError as error:
        log.info(
            f"note: the training data of {trained.folder} can't be read ({error}), so samples of "
            f"{config.path} may be among it."
        )
        return True
    seen = {name for split in ("train", "val") for name in digests(before.splits[split].inputs)}
    return any(not seen.isdisjoint(digests(part.inputs)) for part in data.splits.values())


def _settle_folds(folds: int | None, run: Resolved, *, solved: bool) -> int:
    """Number of parts, 0 for one; where none is stated and a head is solved, 5, or fewer for few groups."""
    groups = count_groups(run.data.splits["train"].groups)
    if folds is None:
        folds = (min(SOLVED_FOLDS, groups) if groups else SOLVED_FOLDS) if solved else 0
        return folds if folds > 1 else 0
    if 0 < groups < folds:
        raise InputError(
            f"folds={folds} is too many for {counted(groups, 'group')} of training samples, since a group "
            f"is in one part only. Pass folds={groups if groups > 1 else 0}, or leave data.group out."
        )
    return folds


def _draw_parts(run: Resolved, folds: int) -> npt.NDArray[np.int64]:
    train = run.data.splits["train"]
    if len(train) < 2 * folds:
        raise InputError(f"folds={folds} is too many for {counted(len(train), 'training sample')}.")
    return draw_folds(train.observed, folds, run.config.seed, train.groups)


# -- models that are fitted again ---------------------------------------------------------------------------


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
        if run.config.method != AUTO:  # of the solutions, in the order in which they are solved
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
    def score_every(self) -> dict[str, Scores] | None:
        """Score training and validation samples by auto heads of one cross-validation over all of them.

        Returns:
            Logits (N, C) of `train` and `val`; None where they do not all fit into memory, or the head is
            another one.
        """
        run, train, val = self._run, self._data.splits["train"], self._data.splits["val"]
        count = len(train) + len(val)
        if run.config.method != AUTO or count * len(run.data.classes) > models.MOST_JUDGED:
            return None
        judge = Judge(val, None, "observed", run.config.mean_labels)
        build = Build(run, self._fabric).place(self._data)
        if run.config.model.local == "off":
            solved = Solver(build, judge).solve_auto(every=True)
            scores, rows = solved.held_out[1].scores, solved.rows
        else:
            held_out = use_windows(build, None, judge, every=True).held_out
            if not held_out or len(held_out.rows) != count:
                return None
            scores, rows = held_out.scores, held_out.rows
        of_train, of_val = np.split(np.argsort(rows), [len(train)])
        return {"train": scores.take(of_train), "val": scores.take(of_val)}

    @muted()
    def score(self, held: Held | None = None) -> dict[str, Scores]:
        """Solve the head, and score the samples that it was not solved on.

        A head that is not `auto` has the penalty that the run chose, so that all scores are of one scale.

        Args:
            held: Training samples to leave out, bool (N,), which are scored as `val`; None = solve it on all
                training samples, and score those of the other splits.

        Returns:
            Logits (H, C) by split; the highest of each sample where they do not fit.
        """
        data, features = self._run.data, self._data
        if held is not None:
            data, features = without(data, held), without(features, held)
        val = features.splits["val"]
        judge: Judging = _ChoosesPosition(self._position)
        if self._position is None:
            judge = Judge(val, None, "observed", self._run.config.mean_labels)
        build = Build(replace(self._run, data=data), self._fabric).place(features)
        fitted = use_windows(build, build.fit(judge), judge)
        scored = {
            name: _in_memory(build.scores(samples), samples)
            for name, samples in build.data.splits.items()
            if name != "train" and (name != "val" or fitted.held_out is None)
        }
        if fitted.held_out is not None:
            scored["val"] = fitted.held_out.of_validation(len(data.splits["train"]))
            if len(scored["val"]) < len(val):
                raise InputError(
                    f"scores of {counted(len(val), 'sample')} x {len(data.classes):,} classes do not fit "
                    "into the memory, so an auto head can't score them all without being solved on them. "
                    "Audit fewer samples, or with a ridge head (head=ridge)."
                )
        return scored


def _solve_again(
    run: Resolved, trained: Run, folds: int, missing: Collection[str], cluster: str | None
) -> Iterator[tuple[str, slice | Held, Scores]]:
    """Score samples by heads that are solved without them; of several sizes of images, the head of each.

    Yields:
        A split, the samples in it that were scored, and their scores.
    """
    classifier, heads = trained.classifier, list[SolvedHead]()
    for size, top in zip(classifier.sizes or [None], classifier.tops, strict=True):
        local = run.config.model.local if size is None else _windows(top)
        config = replace(run.config, model=replace(run.config.model, local=local))
        backbone = classifier.backbone if size is None else classifier.backbone.at(size.size)
        heads.append(SolvedHead(replace(run, config=config), trained.folder, backbone, cluster))

    def average(scores: Sequence[Scores]) -> Scores:
        if len(scores) == 1:
            return scores[0]
        weights = [size.weight for size in classifier.sizes]
        return InMemory(np.average([each.gather() for each in scores], 0, weights).astype(np.float32))

    everything = slice(None)
    every = [head.score_every() for head in heads] if folds == SOLVED_FOLDS else [None]
    if all(every):
        for name in ("train", "val"):
            yield name, everything, average([scores[name] for scores in every if scores])
        return
    if "val" in missing:
        others = [head.score() for head in heads]
        for name in others[0]:
            yield name, everything, average([scores[name] for scores in others])
    if "train" in missing:
        parts = _draw_parts(run, folds)
        with progress(folds, "solving the head without each part") as advance:
            for number in range(folds):
                held = parts == number
                yield "train", held, average([head.score(held)["val"] for head in heads])
                advance(1)


def _in_memory(scores: Scores, samples: Samples) -> Scores:
    """All scores where they fit, else the highest of each sample."""
    return scores if scores.array is not None else scores.highest(HIGHEST, samples.observed.entries(1))


def _windows(top: models.Top) -> Literal["on", "off", "crops"]:
    """Setting of windows that a model was trained with."""
    if not top.local:
        return "off"
    return "crops" if top.local.settings.windows.crops else "on"


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
            scores = load(own / within).scores(val, Engine())
        yield held, scores
