"""From a specification to runs: the series, the configuration of each trial, and the identity of a run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from ..config import Config, from_dict
from ..config.read import RETIRED, nested
from ..methods.registry import source_of
from .rows import Row, SeriesKey, picks_of_runs
from .space import propose
from .spec import Candidate, DataSet, Hiding, Spec, merged

CODE_VERSION = "7"
"""Version of the code that makes the numbers of a run, a part of the key of each. Raise it with every change
after which equal settings give other numbers, so that stored runs are made again."""

CONTENT = {
    "fingerprint": "data",
    "backbone": "weights",
    "pseudo_labels": "pseudo-labels",
    "reader": "reader",
}
"""Digests among the facts of a row that are a part of its key, and what they are of."""

_LOADING = (
    "path", "images", "rename", "cache", "workers", "draft", "decoder", "marks", "one_hot", "present_above",
    "keywords",
)  # fmt: skip
"""Settings of the data that only say where it lies and how it is read; its fingerprint identifies it."""


class Series(NamedTuple):
    """All trials of one candidate under the same conditions."""

    data: DataSet
    hiding: Hiding
    candidate: Candidate
    seed: int

    @property
    def key(self) -> SeriesKey:
        """Key that rows refer to it by."""
        return SeriesKey(self.data.name, self.hiding.name, self.candidate.name, self.seed)

    @property
    def mean_labels(self) -> float | None:
        """Mean labels per sample K that the candidate is given; None = it is not stated, or withheld.

        A factor does not make it smaller than the one label that every sample is known to have.
        """
        stated, factor = self.data.mean_labels, self.candidate.mean_labels
        if stated is None or factor is None:
            return None
        return stated if factor == 1 else max(1.0, stated * factor)


class Trial(NamedTuple):
    """A run to make.

    Attributes:
        number: Position in the series.
        params: Values of the searched settings.
        config: Complete configuration.
        point: SHA-256 of everything that its numbers depend on, the source of a method outside the package
            included, except the content of its files and the code of the package.
        first: Complete configuration of the first phase of training, from which the run starts; None = the
            run has one phase.
    """

    number: int
    params: dict[str, Any]
    config: Config
    point: str
    first: Config | None = None


def all_series(spec: Spec) -> list[Series]:
    """All series, ordered so that those on the same data with the same labels are adjacent."""
    return [
        Series(data, hiding, candidate, seed)
        for data in spec.data
        for hiding in spec.hidings
        for seed in spec.seeds
        for candidate in spec.candidates
    ]


def next_trial(spec: Spec, series: Series, before: Sequence[Row], root: Path) -> Trial | None:
    """Return the trial after those in `before` (rows of trials 0, 1, ... in order), or None at the end."""
    number = len(before)
    if number >= spec.trials_of(series.candidate):
        return None
    return plan_trial(spec, series, number, before, root)


def plan_trial(spec: Spec, series: Series, number: int, before: Sequence[Row], root: Path) -> Trial:
    """Return the trial with a number, from 0; the rows `before` it matter only where `spec.learns`."""
    scores = {pick.row.trial: pick.value for pick in picks_of_runs(before, [spec.guided_by])}
    earlier = [(row.params, scores.get(row.trial)) for row in before]
    name = "/".join(map(str, series.key))
    sampler = spec.sampler_of(series.candidate)
    params = propose(sampler, series.candidate.space, name, series.seed, number, earlier)
    config = _config(spec, series, params, root)
    first = None
    if series.candidate.first is not None:
        first = from_dict(merged(asdict(config), series.candidate.first))
    return Trial(number, params, config, _point(spec, series, params, config, first), first)


def _config(spec: Spec, series: Series, params: Mapping[str, Any], root: Path) -> Config:
    data, candidate = series.data, series.candidate
    settings = dict(data.settings)
    if settings["path"] != "digits":
        settings["path"] = str(root / settings["path"])
    for name in ("images", "rename"):
        if isinstance(settings.get(name), str) and settings[name]:
            settings[name] = str(root / settings[name])
    settings |= candidate.hide(series.hiding)
    published = settings.get("observe") == "protocol" and not settings.get("observe_noise")
    if settings.get("observe", "none") != "none" and not published:
        settings["observe_seed"] = series.seed
    defaults = {
        "threads": 1, "select": "observed", "seed": series.seed, "mean_labels": series.mean_labels,
        "output": "run",
    }  # fmt: skip
    config = from_dict(
        merged(
            defaults,
            spec.train,
            data.train,
            candidate.settings,
            nested(params),
            # All ways of hiding and all candidates have the same splits.
            {"data": {**settings, "split_seed": series.seed, "stratify": False}},
        )
    )
    if _from_file(config):
        weights = str(root / config.model.weights)
        config = replace(config, model=replace(config.model, weights=weights))
    if pseudo := pseudo_labels(config):
        config = replace(config, hp={**config.hp, "pseudo_labels": str(root / pseudo)})
    return config


def _from_file(config: Config) -> bool:
    return config.model.weights not in ("pretrained", "random")


def pseudo_labels(config: Config) -> str | None:
    """Path of the file of pseudo-labels that a method uses, or None."""
    path = config.hp.get("pseudo_labels")
    return path if isinstance(path, str) else None


def _point(
    spec: Spec, series: Series, params: Mapping[str, Any], config: Config, first: Config | None = None
) -> str:
    parts = [_settings(params, config), series.key, series.data.empty, sorted(spec.modes), spec.draws]
    if first is not None:
        parts.append(_settings(params, first))
    if source := own_source(config):
        parts.append({"source": source})
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def own_source(config: Config) -> str:
    """SHA-256 of the source of the method of a run; empty for methods of this package."""
    return source_of(config.objective) if config.objective else ""


def _settings(params: Mapping[str, Any], config: Config) -> dict[str, Any]:
    """The part of a configuration that numbers depend on."""
    settings = asdict(config)
    if _from_file(config):
        # The path of the file does not matter, as `content` covers what it holds. Where several files are
        # searched, the path tells them apart.
        settings["model"]["weights"] = params.get("model.weights", "file")
    if pseudo_labels(config):
        settings["hp"]["pseudo_labels"] = params.get("hp.pseudo_labels", "file")
    for name in _LOADING:
        del settings["data"][name]
    if settings["data"]["separator"] == " ":
        settings["data"]["separator"] = (
            None  # spaces were recognised, unstated, when the first runs were made
        )
    for name in ("output", "record", "record_samples", "threads"):
        del settings[name]
    if settings["data"]["size"] == "auto":  # all candidates have one size
        settings["data"]["size"] = 0
    for setting, value in RETIRED.items():  # a part of the keys of earlier runs
        group, _, name = setting.rpartition(".")
        (settings[group] if group else settings)[name] = value
    if not settings["minutes"]:  # the first runs had no such setting
        del settings["minutes"]
    return settings


def content(facts: Mapping[str, Any]) -> str:
    """Digests of what a run was made from besides its settings, from the `facts` of its row."""
    return " ".join(str(facts[name]) for name in CONTENT if name in facts)


def run_key(point: str, files: str, code: str = CODE_VERSION) -> str:
    """Key of a run: SHA-256 over its configuration, the content of its files and the version of the code."""
    return hashlib.sha256(f"{point} {files} {code}".encode()).hexdigest()
