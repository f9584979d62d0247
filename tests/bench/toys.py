"""A small data set that can be learned, specifications on it, and runs of them that nobody made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from spml.bench.plan import CODE_VERSION, all_series, plan_trial, run_key
from spml.bench.rows import Row, column
from spml.bench.spec import Spec
from spml.bench.store import Store
from tests.bench.rows import row

TOY = """
title: toys
data:
  toy: {path: toy.npz, unlisted: negative, mean_labels: 1.6}
hiding:
  uniform: {observe: single}
  frequent: {observe: frequency, observe_power: 1.0}
candidates:
  - an
  - {name: em slow, method: em, optim.lr: 1e-3, space: {hp.alpha: [0.05, 0.1, 0.2]}}
  - {name: full, method: bce, labels: full}
baseline: an
ceiling: full
modes: [oracle, observed, "audit:20"]
seeds: 2
draws: 20
search:
  sampler: random
  trials: 3
  space:
    optim.lr: {low: 1e-3, high: 1e-1, log: true}
train: {epochs: 3, batch_size: 32}
"""

GRID = (
    TOY.replace("  frequent: {observe: frequency, observe_power: 1.0}\n", "")
    .replace("seeds: 2", "seeds: 1")
    .replace("sampler: random", "sampler: grid")
    .replace("{low: 1e-3, high: 1e-1, log: true}", "[1e-2, 1e-1]")
)
"""One series of 2, 3 and 2 trials for each of the three candidates."""


def save_toy(folder: Path, name: str = "toy.npz", seed: int = 0, samples: int = 200) -> Path:
    """Features, and four labels that are noisy linear functions of them; one fifth are test samples."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(samples, 10)).astype(np.float32)
    scores = features @ rng.normal(size=(10, 4)) + rng.normal(size=(samples, 4))
    labels = (scores > 1.0).astype(np.uint8)
    labels[np.arange(samples), scores.argmax(1)] = 1
    test = np.arange(samples) % 5 == 0
    path = folder / name
    np.savez(path, X=features, Y=labels, test=test)
    return path


def save_spec(folder: Path, text: str = TOY, name: str = "toys.yaml") -> Path:
    """A specification next to its data."""
    path = folder / name
    path.write_text(text)
    return path


def add_runs(
    store: Store,
    spec: Spec,
    root: Path,
    trials: Mapping[str, Iterable[int]],
    before: Sequence[Row] = (),
    code: str | None = None,
    **rest: Any,
) -> None:
    """Add finished runs of the first series of candidates to a store, without making them.

    Args:
        store: Store of the runs.
        spec: Specification that they belong to.
        root: Folder that its paths start from.
        trials: Numbers of the trials by candidate.
        before: Rows of the trials before them, for `tpe`.
        code: Version of the code; by default, this one.
        rest: Parts of the rows, such as `seconds`.
    """
    for name, numbers in trials.items():
        series = next(series for series in all_series(spec) if series.candidate.name == name)
        for number in numbers:
            trial = plan_trial(spec, series, number, before, root)
            made = row(
                series.key, number, values={column(mode): [number / 10] for mode in spec.modes},
                params=trial.params, versions={"code": code or CODE_VERSION}, **rest,
            )  # fmt: skip
            assert store.add(replace(made, key=run_key(trial.point, "", code or CODE_VERSION)), trial.point)
