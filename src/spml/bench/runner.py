"""Make one run: train, judge every epoch for each selection mode, test where a mode would pick the epoch."""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from .. import models
from ..common.draws import permutation, raw
from ..common.errors import InputError, SpmlError, unexpected
from ..common.files import sha256_file
from ..common.plugins import source_digest
from ..config import Config
from ..data import Dataset
from ..data.images.feature_store import shared_features
from ..data.readers import Source, find_reader
from ..decisions import Judge, true_map
from ..engine import Interrupted, Trainer, make_fabric
from ..engine.process_memory import give_back_freed_memory, peak_memory, reset_peak_memory
from ..metrics import bootstrap_map, mean_average_precision
from ..metrics.bootstrap import drawn_groups
from ..runs.fit.build import Build, frozen_features, make_backbone
from ..runs.fit.local import use_windows
from ..runs.folder.summary import versions
from ..runs.settle.conflicts import check_mean_labels
from ..runs.settle.init_from import Start, fingerprint
from ..runs.settle.resolve import Opened as OpenedData
from ..runs.settle.resolve import Resolved, check_stated, open_for_backbone, resolve, some_rows
from ..scores import Scores, fits
from ..scores.forms import MOST_SCORES
from .plan import CODE_VERSION, Series, Trial, content, own_source, pseudo_labels, run_key
from .rows import OBSERVED, TEST, Row, column, picks_of_runs
from .spec import Spec, audit_size

_OPEN = 3
"""Number of data sets that a worker keeps open."""

Logits = npt.NDArray[np.float32]


@dataclass
class Opened:
    """A data set, opened for a backbone, that runs share.

    Attributes:
        data: Images, or features that all workers share.
        spec: Backbone, and how its inputs are prepared.
        facts: Description of the data and of weights from a file; see `Row`.
        decoders: Processes that decode images where the data leaves their number open.
        features: Features of the frozen backbone in place of images, once a run has needed them.
    """

    data: Dataset
    spec: models.BackboneSpec
    facts: dict[str, Any]
    decoders: int = 0
    features: Dataset | None = None

    def resolve(self, config: Config, start: Start | None = None) -> Resolved:
        """Complete and check the settings of a run on this data; `start` is its first phase."""
        config, stated = check_stated(_decoded_by(config, self.decoders))
        run = resolve(config, OpenedData(self.data, self.spec), start or stated)
        if run.scaling_open and self.features:
            run.settle_scaling(some_rows(self.features.splits["train"].inputs))
        if run.fine_tunes:
            raise InputError(
                f"method {config.method} with model.frozen 'no' makes two runs, and a candidate is one: "
                "freeze the backbone, or name a method that trains it."
            )
        if start and run.frozen and not start.card["frozen"]:
            raise InputError(
                "the first phase trains the backbone, and model.frozen is 'yes' after it: freeze it in the "
                "first phase (first: {model.frozen: yes}), or in neither."
            )
        return run

    def inputs(self, run: Resolved) -> Dataset:
        """The data as the trained part of the model takes it."""
        return self.features if run.frozen and self.features else self.data


class Runner:
    """Makes the runs of a specification, one after the other, in one process.

    Args:
        spec: Specification of the comparison.
        cache: Folder for features.
        decoders: Processes that decode the images of a run where the data leaves their number open.
    """

    def __init__(self, spec: Spec, cache: Path, decoders: int = 0) -> None:
        self.spec, self.cache, self.decoders = spec, cache, decoders
        self._opened: dict[str, Opened] = {}
        self._fabric = lru_cache(maxsize=None)(make_fabric)
        self._digests: dict[str, str] = {}

    def facts(self, trial: Trial) -> dict[str, Any]:
        """Describe the data and the weights of a run; see `Row`."""
        facts = self._open(trial.config).facts
        pseudo = pseudo_labels(trial.config)
        if pseudo is None:
            return facts
        if pseudo not in self._digests:
            try:
                self._digests[pseudo] = sha256_file(Path(pseudo))
            except OSError as error:
                raise InputError(f"{pseudo}: the pseudo-labels can't be read ({error.strerror}).") from error
        return {**facts, "pseudo_labels": self._digests[pseudo]}

    def run(self, series: Series, trial: Trial, before: Sequence[Row]) -> Row:
        """Make one run after those `before` it in its series. If training fails, the row says why."""
        opened = self._open(trial.config)
        check_mean_labels(series.data.mean_labels, len(opened.data.classes))
        facts = self.facts(trial)
        run, failure = None, ""
        try:
            run = opened.resolve(trial.first or trial.config)
        except InputError as error:
            failure = str(error)
        fabric = self._fabric(trial.config.accelerator, trial.config.devices, trial.config.precision)
        if run and run.frozen and opened.features is None:
            backbone = make_backbone(run)
            opened.features = frozen_features(run, backbone, fabric, self.cache)
            run = opened.resolve(trial.first or trial.config)  # the features settle their scaling
        started = time.perf_counter()  # later runs share what was done so far
        if not before:
            give_back_freed_memory()  # of another candidate
        reset_peak_memory()
        row = Row(
            key=run_key(trial.point, content(facts)), series=series.key,
            trial=trial.number, params=trial.params, config=asdict(trial.config),
            first=asdict(trial.first) if trial.first else {}, facts=facts,
            versions={
                **versions(), "code": CODE_VERSION, "commit": _commit(),
                **({"method": source} if (source := own_source(trial.config)) else {}),
            },
        )  # fmt: skip
        if run:
            row = self._fill(row, series, trial, run, opened, before)
        else:
            row = replace(row, status="failed", message=failure)
        return replace(
            row,
            seconds=round(time.perf_counter() - started, 3),
            memory=round(peak_memory() / 2**20, 1),
            finished=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        )

    def _fill(
        self, row: Row, series: Series, trial: Trial, run: Resolved, opened: Opened, before: Sequence[Row]
    ) -> Row:
        """Train, in one phase or two, and add the history to the row, or the message of a failure."""
        try:
            if trial.first:
                run = opened.resolve(trial.config, self._first_phase(run, opened, series))
            watch = _Watch(self.spec, series, opened.inputs(run))
            self._train(run, opened, watch)
            return replace(row, history=watch.history, draws=watch.draws(before))
        except Interrupted:
            raise
        except SpmlError as error:
            return replace(row, status="failed", message=str(error))
        except Exception as error:
            # Out of memory, a mistake in a method: the other runs are made all the same.
            return replace(row, status="failed", message=unexpected(error))

    def _open(self, config: Config) -> Opened:
        """Open the data of a run, or take it as an earlier run opened it."""
        key = repr((config.data, config.model.backbone, config.model.weights, config.precision))
        if key in self._opened:
            return self._opened[key]
        data, spec = open_for_backbone(_decoded_by(config, self.decoders))[:2]
        if "test" not in data.truth:
            raise InputError(
                f"{config.data.path}: a comparison needs fully labelled test samples. If every true label is "
                "listed, set `unlisted: negative`; without a test split, set `test_share`."
            )
        by_truth = [mode for mode in self.spec.modes if mode != OBSERVED]
        if "val" not in data.truth and by_truth:
            raise InputError(
                f"{config.data.path}: selection by {', '.join(by_truth)} needs fully labelled validation "
                "samples. If every true label is listed, set `unlisted: negative`; else `modes: [observed]`."
            )
        for name in ("val", "test"):
            if not fits(len(data.splits[name]), len(data.classes)):
                raise InputError(
                    f"{config.data.path}: a comparison keeps all scores of the {name} samples in memory, and "
                    f"{len(data.splits[name])} samples x {len(data.classes)} classes are too many (the limit "
                    f"is {MOST_SCORES}). Take fewer samples, or compare runs of `spml train` with `spml "
                    "evaluate`."
                )
        # Over samples, observed labels, and the true labels that runs are judged by.
        truth = [data.truth[name].fingerprint() for name in sorted(data.truth)]
        facts = {
            "name": data.name,
            "kind": data.kind,
            "classes": len(data.classes),
            **{name: len(samples) for name, samples in data.splits.items()},
            "mean_labels": round(float(data.truth["test"].positives_per_sample().mean()), 4),
            "fingerprint": hashlib.sha256(" ".join([data.fingerprint(), *truth]).encode()).hexdigest(),
        }
        if spec.sha256:
            # Weights and the preparation of images; the name of the file does not matter.
            prepared = json.dumps({**spec.to_dict(), "file": ""}, sort_keys=True)
            facts["backbone"] = hashlib.sha256(prepared.encode()).hexdigest()
        path = Path(config.data.path)
        reader = find_reader(Source(path)) if path.exists() else None
        if reader and (source := source_digest(reader.read)):
            facts["reader"] = source
        opened = Opened(shared_features(data, self.cache), spec, facts, self.decoders)
        while len(self._opened) >= _OPEN:
            del self._opened[next(iter(self._opened))]
        self._opened[key] = opened
        return opened

    def _first_phase(self, run: Resolved, opened: Opened, series: Series) -> Start:
        """Train the first phase, as `spml train` would, and return its best epoch."""
        data, config, build = run.data, run.config, self._build(run, opened)
        val, truth = data.splits["val"], data.truth.get("val")
        empty = series.data.empty or data.empty
        fitted = build.fit(Judge(val, truth, config.select, config.mean_labels, empty))
        # Training has not touched a frozen backbone; it is made again because the top alone was trained.
        classifier = build.classifier or models.Classifier(make_backbone(run), build.top)
        card = {"classes": list(data.classes), "method": {"name": config.method}, "frozen": run.frozen}
        state = (fitted.state, fingerprint(data.splits["train"])) if fitted.state else None
        return Start(Path("the first phase"), classifier, card, state)

    def _build(self, run: Resolved, opened: Opened, *, windows: bool = False) -> Build:
        torch.set_num_threads(run.config.threads or 1)
        fabric = self._fabric(run.config.accelerator, run.config.devices, run.config.precision)
        build = Build(run, fabric, backbone=windows or not run.frozen)
        return build.place(opened.inputs(run))

    def _train(self, run: Resolved, opened: Opened, watch: _Watch) -> None:
        windows = run.config.model.local != "off"
        build = self._build(run, opened, windows=windows)
        predict = partial(build.predict, "test")
        if run.solved:
            watch.predict = predict
            fitted = build.fit(watch)
            if "penalty" in fitted.history[0]:
                watch.history["penalty"] = [float(record["penalty"]) for record in fitted.history]
        else:

            def test_epoch(trainer: Trainer) -> None:
                watch.test(partial(predict, trainer.judged_model), last=trainer.state.finished)

            fitted = build.fit(watch, on_epoch=test_epoch)
        if windows:
            # What windows add is one more candidate after all epochs, or the only one.
            watch.predict = predict
            if run.config.model.local != "auto":
                watch.forget()
            local = use_windows(build, fitted, watch).local
            if local and local["weights"] and "penalty" in watch.history:
                watch.history["penalty"].append(watch.history["penalty"][fitted.best])


class _Watch:
    """Judges every epoch for each selection mode; true labels reach nothing but these numbers.

    Attributes:
        metric: Metric by which the trainer keeps the best weights, which are not used here.
        history: One list per column of the row.
        predict: Computes the scores of the test samples by a solution, which is tested while the head holds
            it; None where `test` is called after each epoch.
    """

    metric = "val/SP"
    predict: Callable[[], Logits] | None = None

    def __init__(self, spec: Spec, series: Series, data: Dataset) -> None:
        self._spec = spec
        val, truth = data.splits["val"], data.truth.get("val")
        self._empty = series.data.empty or data.empty
        self._judge = Judge(val, truth, "observed", series.mean_labels, self._empty)
        self._val = truth
        self._test = data.truth["test"].to_ternary()
        self._groups = drawn_groups(len(self._test), data.splits["test"].groups)
        order = permutation(len(val), "audit", series.seed)
        self._audits = {mode: np.sort(order[: audit_size(mode)]) for mode in spec.audits}
        self.history: dict[str, list[float]] = {}
        self._best: dict[str, float] = {}
        self._improved: list[str] = []
        self._best_scores: dict[str, Logits] = {}

    def __call__(self, scores: Scores) -> dict[str, float]:
        """Compute the validation metrics of an epoch."""
        metrics = self._judge(scores)
        for mode, rows in self._audits.items():
            assert self._val is not None  # checked when the data was opened
            audited = self._val.take(rows)
            # A sample without any label still says that its labels are absent, but ranks nothing alone.
            labelled = audited.positives_per_class().any()
            metrics[mode] = true_map(scores.take(rows), audited) if labelled else 0.0
        for name, value in metrics.items():
            self.history.setdefault(name, []).append(value)
        self._improved = [
            mode for mode in self._spec.modes if metrics[column(mode)] > self._best.get(mode, -np.inf)
        ]
        self._best |= {mode: metrics[column(mode)] for mode in self._improved}
        if self.predict is not None:
            self.test(self.predict)
        return metrics

    def forget(self) -> None:
        """Take the next solution for the first one."""
        self.history, self._best = {}, {}

    def test(self, predict: Callable[[], Logits], last: bool = False) -> None:
        """Record the test mAP of the epoch just judged, if it is the best so far for a mode, or the last."""
        value = float("nan")
        if self._improved or last:
            scores = predict()
            value = mean_average_precision(scores, self._test, self._empty)
            self._best_scores |= dict.fromkeys(self._improved, scores)
        self.history.setdefault(TEST, []).append(value)

    def draws(self, before: Sequence[Row]) -> dict[str, list[float]]:
        """Test mAP on bootstrap draws of the test samples, per mode for which this run is the best so far."""
        bars = dict.fromkeys(self._spec.modes, -np.inf)
        for pick in picks_of_runs(before, self._spec.modes):
            bars[pick.mode] = max(bars[pick.mode], pick.value)
        modes = [mode for mode in self._spec.modes if self._best[mode] > bars[mode]]
        units = len(self._test) if self._groups is None else int(self._groups.max()) + 1
        multiplicity = bootstrap_draws(units, self._spec.draws)
        if self._groups is not None:
            multiplicity = multiplicity[:, self._groups]
        # A draw without any positive has no mAP; which draws those are depends on the test labels alone.
        multiplicity = multiplicity[multiplicity[:, (self._test > 0).any(axis=1)].any(axis=1)]
        by_scores: dict[int, list[float]] = {}
        for mode in modes:
            scores = self._best_scores[mode]
            if id(scores) not in by_scores:
                maps = bootstrap_map(scores, self._test, multiplicity, self._empty)
                by_scores[id(scores)] = [round(value, 6) for value in maps.tolist()]
        return {mode: by_scores[id(self._best_scores[mode])] for mode in modes}


@cache
def bootstrap_draws(count: int, draws: int, seed: int = 0) -> npt.NDArray[np.int32]:
    """Multiplicity of each of `count` samples, or groups, when `count` of them are drawn with replacement.

    The draws are the same on every platform and with every NumPy version; and for all candidates, so that
    their differences are paired.

    Args:
        count: Number of samples or groups, below 2^32.
        draws: Number of draws of the whole set, B.
        seed: Seed of the draws.

    Returns:
        int32 (B, count); each row sums to `count`.
    """
    result = np.empty((draws, count), np.int32)
    for draw in range(draws):
        high = raw(count, "bootstrap", seed, draw) >> np.uint64(32)  # the upper halves of 64 random bits
        chosen = np.asarray((high * np.uint64(count)) >> np.uint64(32), np.int64)
        result[draw] = np.bincount(chosen, minlength=count)
    return result


def _decoded_by(config: Config, decoders: int) -> Config:
    """Settle the number of processes that decode images, where it is left open."""
    workers = config.data.workers
    return replace(config, data=replace(config.data, workers=decoders if workers < 0 else workers))


@cache
def _commit() -> str:
    """Commit of the sources if they lie in a git checkout, with a + if they differ from it."""
    try:
        output = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"],
            cwd=Path(__file__).parent, capture_output=True, text=True, check=True, timeout=10,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return output.stdout.strip()
