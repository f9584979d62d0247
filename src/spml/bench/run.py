"""One run: train, judge every epoch by all that a selection mode needs, test where a mode would pick it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from .. import models
from ..config import LBFGS, Config
from ..data import Dataset, cached_features, open_dataset
from ..data.draws import permutation
from ..data.matrix import FeatureMatrix
from ..decisions.selection import Judge
from ..engine import Interrupted, Trainer, make_fabric, predict_logits
from ..engine.process_memory import count_peak_anew, give_back_freed_memory, peak_memory
from ..errors import InputError, SpmlError, unexpected
from ..files import sha256_file
from ..metrics import mean_average_precision
from ..runs.build import make_top, start_objective
from ..runs.resolve import check_maps, check_mean_labels, with_data, with_defaults
from ..runs.solve import solve
from ..runs.summary import versions
from .bootstrap import bootstrap_draws, bootstrap_map
from .features import shared
from .plan import Series, Trial, code_version, content, pseudo_labels, run_key
from .rows import OBSERVED, TEST, Row, best_epoch, column
from .spec import Spec, audit_size

_OPEN = 3  # data sets that a worker holds open

Scores = npt.NDArray[np.float32]


@dataclass
class Opened:
    """A data set as runs take it.

    Attributes:
        data: images, or features that all workers share.
        facts: of it and of weights that lie in a file; see `Row`.
        spec: of the backbone.
        frozen: with the backbone's features in place of images, once a run needed them.
    """

    data: Dataset
    facts: dict[str, Any]
    spec: models.BackboneSpec
    frozen: Dataset | None = None


class Runner:
    """Makes runs of a specification, one after the other, in one process.

    Args:
        spec: what is compared.
        cache: folder for features.
        report: told what takes long.
    """

    def __init__(self, spec: Spec, cache: Path, report: Callable[[str], None]) -> None:
        self.spec, self.cache, self.report = spec, cache, report
        self._opened: dict[str, Opened] = {}
        self._fabrics: dict[tuple[Any, ...], Any] = {}
        self._digests: dict[str, str] = {}

    def facts(self, trial: Trial) -> dict[str, Any]:
        """Of the data and the weights of a run; see `Row`.

        Raises:
            InputError: the data can't be opened, or does not suit.
        """
        opened, config = self._open(trial.config)
        pseudo = pseudo_labels(config)
        if pseudo is None:
            return opened.facts
        if pseudo not in self._digests:
            try:
                self._digests[pseudo] = sha256_file(Path(pseudo))
            except OSError as error:
                raise InputError(f"{pseudo}: no pseudo-labels can be read ({error.strerror}).") from error
        return {**opened.facts, "pseudo_labels": self._digests[pseudo]}

    def run(self, series: Series, trial: Trial, before: Sequence[Row]) -> Row:
        """Make one run. A failure in training gives a row that says so.

        Args:
            series: what it belongs to.
            trial: which.
            before: the earlier trials of the series.

        Raises:
            InputError: the data can't be opened, or does not suit.
        """
        opened, config = self._open(trial.config)
        check_mean_labels(series.data.mean_labels, len(opened.data.classes))
        facts, data = self.facts(trial), self._taken(config, opened)
        self._fabric(config)
        started = time.perf_counter()  # what later runs share is not paid for by the first
        if not before:
            give_back_freed_memory()  # which another candidate needed
        count_peak_anew()
        row = Row(
            key=run_key(trial.point, content(facts), code_version()), series=series.key,
            trial=trial.number, params=trial.params, config=asdict(trial.config), facts=facts,
            versions={**versions(), "code": code_version(), "commit": _commit()},
        )  # fmt: skip
        try:
            check_mean_labels(config.mean_labels, len(data.classes))
            watch = _Watch(self.spec, series, data)
            self._train(config, opened.spec, data, watch)
            row = replace(row, history=watch.history, draws=watch.draws(before))
        except Interrupted:
            raise  # it has not failed
        except SpmlError as error:
            row = replace(row, status="failed", message=str(error))
        except Exception as error:
            # Too little memory, a mistake in a method: the other runs are made all the same.
            row = replace(row, status="failed", message=unexpected(error))
        return replace(
            row,
            seconds=round(time.perf_counter() - started, 3),
            memory=round(peak_memory() / 2**20, 1),
            finished=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        )

    def _open(self, config: Config) -> tuple[Opened, Config]:
        """The data of a run, which later runs on it share; and the run's complete configuration."""
        config = with_defaults(config)
        name = repr((config.data, config.model.backbone, config.model.weights))
        opened = self._opened.get(name)
        if opened is None:
            opened = self._open_anew(config)
            while len(self._opened) >= _OPEN:
                del self._opened[next(iter(self._opened))]
            self._opened[name] = opened
        return opened, with_data(config, opened.data, opened.spec)

    def _open_anew(self, config: Config) -> Opened:
        data = open_dataset(config.data, report=self.report)
        if "test" not in data.truth:
            raise InputError(
                f"{config.data.path}: a comparison needs fully labelled test samples. If every true label is "
                "listed, say `unlisted: negative`; without a test split, say `test_share`."
            )
        by_truth = [mode for mode in self.spec.modes if mode != OBSERVED]
        if "val" not in data.truth and by_truth:
            raise InputError(
                f"{config.data.path}: to select by {', '.join(by_truth)} takes fully labelled validation "
                "samples. If every true label is listed, say `unlisted: negative`; else `modes: [observed]`."
            )
        spec = models.describe_backbone(
            config.model, data.kind, data.width, size=config.data.size, source=data.name
        )
        complete = with_data(config, data, spec)
        data = data.resized(complete.data.size, spec.interpolation)
        facts = {
            "name": data.name,
            "kind": data.kind,
            "classes": len(data.classes),
            **{name: len(samples) for name, samples in data.splits.items()},
            "mean_labels": round(float(data.truth["test"].positives_per_sample().mean()), 4),
            "fingerprint": _fingerprint(data),
        }
        if spec.weights == "file":
            facts["backbone"] = _digest(spec)
        return Opened(shared(data, self.cache), facts, spec)

    def _taken(self, config: Config, opened: Opened) -> Dataset:
        """The data as what is trained takes it: features in place of images whose backbone is frozen."""
        if config.model.frozen != "yes":
            return opened.data
        if opened.frozen is None:
            opened.frozen = self._features(config, opened.data, opened.spec)
        return opened.frozen

    def _features(self, config: Config, data: Dataset, spec: models.BackboneSpec) -> Dataset:
        backbone = models.build_backbone(spec, config.model, report=self.report)
        splits = {
            name: replace(
                samples,
                inputs=cached_features(
                    backbone,
                    samples.inputs,
                    self.cache,
                    key=backbone.key(),
                    batch_size=config.batch_size,
                    workers=config.data.workers,
                    report=self.report,
                    progress=lambda done: None,
                ),
            )
            for name, samples in data.splits.items()
        }
        return replace(data, splits=splits)

    def _train(self, config: Config, spec: models.BackboneSpec, data: Dataset, watch: _Watch) -> None:
        torch.set_num_threads(config.threads or 1)
        fabric = self._fabric(config)
        objective = start_objective(config, data) if config.method else None
        torch.manual_seed(config.seed)
        if config.model.frozen == "yes":
            inputs = data.splits["train"].inputs
            assert isinstance(inputs, FeatureMatrix)
            top, head_bias = make_top(config, data, inputs.width)
            trained: nn.Module = top
        else:
            backbone = models.build_backbone(spec, config.model, report=self.report)
            if objective:
                check_maps(config, objective.needs, backbone)
            top, head_bias = make_top(config, data, backbone.num_features)
            trained = models.Classifier(backbone, top)

        def predict(split: str, model: nn.Module = trained) -> Scores:
            return predict_logits(
                model, data.splits[split], fabric, batch_size=4 * config.batch_size,
                workers=config.data.workers,
            )  # fmt: skip

        if objective is None or config.optim.name == LBFGS:
            judge = _AtOnce(watch, lambda: predict("test"))
            fitted = solve(
                config, objective, top, data.splits["train"], judge, mean_labels=head_bias["mean_labels"],
                predict=lambda: predict("val"), report=lambda line: None,
            )  # fmt: skip
            if "penalty" in fitted.history[0]:
                watch.history["penalty"] = [float(record["penalty"]) for record in fitted.history]
            return
        trainer = Trainer(
            config,
            fabric,
            trained,
            top.head,
            objective,
            data,
            watch,
            workers=config.data.workers,
            on_epoch=lambda history: watch.test(
                lambda: predict("test", trainer.judged_model), last=trainer.loop.finished
            ),
        )
        trainer.fit()

    def _fabric(self, config: Config) -> Any:
        wanted = (config.accelerator, config.devices, config.precision)
        if wanted not in self._fabrics:
            self._fabrics[wanted] = make_fabric(*wanted)
        return self._fabrics[wanted]


class _AtOnce:
    """A watch that tests a solution as soon as it is judged, while the head holds it."""

    metric = "val/SP"

    def __init__(self, watch: _Watch, predict: Callable[[], Scores]) -> None:
        self._watch, self._predict = watch, predict

    def __call__(self, scores: Scores) -> dict[str, float]:
        found = self._watch(scores)
        self._watch.test(self._predict)
        return found


class _Watch:
    """Judges every epoch by all that the modes need; true labels reach nothing but these numbers.

    Attributes:
        metric: by which the trainer keeps the best weights, which nobody uses here.
        history: one list per column.
    """

    metric = "val/SP"

    def __init__(self, spec: Spec, series: Series, data: Dataset) -> None:
        self._spec = spec
        val, truth = data.splits["val"], data.truth.get("val")
        told, candidate = series.data.mean_labels, series.candidate.mean_labels
        mean_labels = None if told is None or candidate is None else told * candidate
        self._empty = series.data.empty or data.empty
        self._judge = Judge(val, truth, "observed", mean_labels, self._empty)
        self._val = None if truth is None else truth.to_ternary()
        self._test = data.truth["test"].to_ternary()
        order = permutation(len(val), "audit", series.seed)
        self._audits = {mode: np.sort(order[: audit_size(mode)]) for mode in spec.audits}
        self.history: dict[str, list[float]] = {}
        self._best: dict[str, float] = {}
        self._improved: list[str] = []
        self._kept: dict[str, Scores] = {}

    def __call__(self, scores: Scores) -> dict[str, float]:
        """The validation metrics of an epoch."""
        found = self._judge(scores)
        for mode, rows in self._audits.items():
            assert self._val is not None  # or the data would have been refused
            audited = self._val[rows]
            # A sample without any label still says that its labels are absent, but ranks nothing alone.
            found[mode] = mean_average_precision(scores[rows], audited) if (audited > 0).any() else 0.0
        for name, value in found.items():
            self.history.setdefault(name, []).append(value)
        self._improved = [
            mode for mode in self._spec.modes if found[column(mode)] > self._best.get(mode, -np.inf)
        ]
        self._best |= {mode: found[column(mode)] for mode in self._improved}
        return found

    def test(self, predict: Callable[[], Scores], last: bool = False) -> None:
        """After the epoch was judged: its test mAP, if it is the best so far for some mode, or the last."""
        value = float("nan")
        if self._improved or last:
            scores = predict()
            value = mean_average_precision(scores, self._test, self._empty)
            self._kept |= dict.fromkeys(self._improved, scores)
        self.history.setdefault(TEST, []).append(value)

    def draws(self, before: Sequence[Row]) -> dict[str, list[float]]:
        """Per mode that this run is the best of its series for, test mAP on draws of the test samples."""
        bars = {
            mode: max(
                (
                    row.history[column(mode)][best_epoch(row.history, mode)]
                    for row in before
                    if row.status == "done"
                ),
                default=-np.inf,
            )
            for mode in self._spec.modes
        }
        wanted = [mode for mode in self._spec.modes if self._best[mode] > bars[mode]]
        multiplicity = _multiplicity(len(self._test), self._spec.draws)
        # A draw without any positive has no mAP; which draws those are depends on the test labels alone.
        multiplicity = multiplicity[multiplicity[:, (self._test > 0).any(axis=1)].any(axis=1)]
        made: dict[int, list[float]] = {}
        for mode in wanted:
            scores = self._kept[mode]
            if id(scores) not in made:
                maps = bootstrap_map(scores, self._test, multiplicity, self._empty)
                made[id(scores)] = [round(value, 6) for value in maps.tolist()]
        return {mode: made[id(self._kept[mode])] for mode in wanted}


@cache
def _multiplicity(count: int, draws: int) -> npt.NDArray[Any]:
    """The same for all candidates, so that their differences are paired."""
    return bootstrap_draws(count, draws, seed=0)


def _fingerprint(data: Dataset) -> str:
    """SHA-256 over samples, observed labels, and the true ones that runs are judged by."""
    truth = [data.truth[name].fingerprint() for name in sorted(data.truth)]
    return hashlib.sha256(" ".join([data.fingerprint(), *truth]).encode()).hexdigest()


def _digest(spec: models.BackboneSpec) -> str:
    """SHA-256 of weights and of how images are prepared for them, wherever the file lies."""
    return hashlib.sha256(json.dumps(asdict(replace(spec, file="")), sort_keys=True).encode()).hexdigest()


@cache
def _commit() -> str:
    """The commit of the sources, if they lie in a git checkout; with a + if they differ from it."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"],
            cwd=Path(__file__).parent, capture_output=True, text=True, check=True, timeout=10,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return found.stdout.strip()
