"""Rows of a comparison, made without training."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np

from spml.bench.rows import Row, SeriesKey, best_epoch

MODES = ("oracle", "observed", "audit:50")
HOSTILE = "a|b_$%&<script>alert(1)</script>\\`*{}~^#\n"


def row(
    series: tuple[str, str, str, int],
    trial: int = 0,
    *,
    values: dict[str, list[float]] | None = None,
    draws: dict[str, list[float]] | None = None,
    **rest: Any,
) -> Row:
    """A finished run with the history `values`."""
    settings: dict[str, Any] = {
        "params": {"optim.lr": 10.0 ** -(trial + 1)},
        "config": {"objective": series[2]},
        "facts": {
            "classes": 20, "train": 3000, "val": 1000, "test": 1000, "mean_labels": 1.5,
            "fingerprint": series[0],
        },
        "seconds": 1.5,
        "memory": 300.0,
        "versions": {
            "spml": "0.1.0", "code": "c0de", "commit": "abc1234", "torch": "2.6.0",
            "machine": "x86_64, 2 cores",
        },
        "finished": "2025-01-01T00:00:00Z",
    }  # fmt: skip
    settings.update(rest)
    key = hashlib.sha256(repr((series, trial)).encode()).hexdigest()
    return Row(key, SeriesKey(*series), trial, history=values or {}, draws=draws or {}, **settings)


def sweep(
    data: tuple[str, ...] = ("voc", "corel5k", "yeast"),
    hidings: tuple[str, ...] = ("uniform",),
    candidates: dict[str, float] | None = None,
    seeds: int = 3,
    trials: int = 3,
    draws: int = 99,
    modes: tuple[str, ...] = MODES,
) -> list[Row]:
    """Rows of all candidates on all tasks; mAP scatters around a level of the data set plus that of the
    candidate."""
    candidates = candidates or {"an": 0.0, "wan": 0.02, "em": 0.04, "full": 0.08, HOSTILE: 0.01}
    rows = []
    for d, name in enumerate(data):
        for h, hiding in enumerate(hidings):
            for c, (candidate, value) in enumerate(candidates.items()):
                for seed in range(seeds):
                    for trial in range(trials):
                        rng = np.random.default_rng([d, h, c, seed, trial])
                        peak = 0.3 + 0.15 * d - 0.04 * h + value - 0.012 * trial + rng.normal(0, 0.008)
                        test = peak - 0.02 * (np.arange(6) - 3) ** 2 / 9
                        history = {
                            "val/mAP": (test + rng.normal(0, 0.004, 6)).tolist(),
                            "val/SP": (test * 0.8 + rng.normal(0, 0.008, 6)).tolist(),
                            "audit:50": (test + rng.normal(0, 0.02, 6)).tolist(),
                        }
                        picked = {best_epoch(history, mode) for mode in modes}
                        history["test/mAP"] = [
                            value if e in picked else math.nan for e, value in enumerate(test)
                        ]
                        drawn = np.random.default_rng([d, h, seed, 7]).normal(0, 0.01, draws)
                        own = {
                            mode: (
                                test[best_epoch(history, mode)] + drawn + rng.normal(0, 0.004, draws)
                            ).tolist()
                            for mode in modes
                        }
                        rows.append(
                            row(
                                (name, hiding, candidate, seed),
                                trial,
                                values=history,
                                draws=own,
                                seconds=float(rng.uniform(1, 3) * (1 + c)),
                                memory=float(rng.uniform(300, 500)),
                            )
                        )
    return rows
