"""From a specification to runs: which series there are, what each trial's configuration is, by what a run is
known."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ..config import Config, from_dict
from .rows import Row, SeriesKey, best_epoch, column
from .space import propose
from .spec import Candidate, DataSet, Hiding, Spec, merged, nested

_SOURCES = (
    "losses", "methods", "metrics", "models", "engine", "decisions", "labels.py", "data/hiding",
    "data/assemble.py", "data/draws.py", "data/images.py", "data/matrix.py", "data/records.py",
    "data/splits.py", "data/views.py", "data/readers/digits.py", "runs/build.py", "runs/resolve.py",
    "runs/solve.py", "bench/bootstrap.py", "bench/run.py",
)  # fmt: skip
"""Packages and modules that the numbers of a run depend on."""

_PLACES = ("path", "images", "cache", "workers", "draft")
"""Settings of the data that say where it lies and how it is loaded; its fingerprint says what it is."""


class Series(NamedTuple):
    """All trials of one candidate under the same conditions."""

    data: DataSet
    hiding: Hiding
    candidate: Candidate
    seed: int

    @property
    def key(self) -> SeriesKey:
        """By which rows refer to it."""
        return SeriesKey(self.data.name, self.hiding.name, self.candidate.name, self.seed)


class Trial(NamedTuple):
    """One run to be made.

    Attributes:
        number: its place in the series.
        params: what was searched.
        config: the whole configuration.
        point: SHA-256 of everything but data content and code that its numbers depend on.
    """

    number: int
    params: dict[str, Any]
    config: Config
    point: str


def all_series(spec: Spec) -> list[Series]:
    """Every series; those on the same data with the same labels lie together."""
    return [
        Series(data, hiding, candidate, seed)
        for data in spec.data
        for hiding in spec.hidings
        for seed in spec.seeds
        for candidate in spec.candidates
    ]


def next_trial(spec: Spec, series: Series, before: Sequence[Row], root: Path) -> Trial | None:
    """The trial that follows those in `before` (rows of trials 0, 1, ... in order); None at the end."""
    number = len(before)
    if number >= spec.trials_of(series.candidate):
        return None
    known = [(row.params, _value(row, spec.guided_by)) for row in before]
    name = "/".join(map(str, series.key))
    params = propose(spec.sampler, series.candidate.space, name, series.seed, number, known)
    config = _config(spec, series, params, root)
    return Trial(number, params, config, _point(spec, series, params, config))


def _value(row: Row, mode: str) -> float | None:
    return row.history[column(mode)][best_epoch(row.history, mode)] if row.status == "done" else None


def _config(spec: Spec, series: Series, params: Mapping[str, Any], root: Path) -> Config:
    data, candidate = series.data, series.candidate
    settings = dict(data.settings)
    if settings["path"] != "digits":
        settings["path"] = str(root / settings["path"])
    if settings.get("images"):
        settings["images"] = str(root / settings["images"])
    if not candidate.full:
        settings |= series.hiding.settings
        if settings.get("observe", "none") not in ("none", "protocol"):
            settings["observe_seed"] = series.seed
    told = None
    if data.mean_labels is not None and candidate.mean_labels is not None:
        told = data.mean_labels * candidate.mean_labels
    config = from_dict(
        merged(
            {"threads": 1, "select": "observed", "seed": series.seed, "mean_labels": told, "output": "run"},
            spec.train,
            data.train,
            candidate.settings,
            nested(params),
            # All cores make runs already, so none of them has further processes that decode images.
            {"data": {"workers": 0, **settings, "split_seed": series.seed}},
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
    """The file of pseudo-labels that a method is given."""
    path = config.hp.get("pseudo_labels")
    return path if isinstance(path, str) else None


def _point(spec: Spec, series: Series, params: Mapping[str, Any], config: Config) -> str:
    settings = asdict(config)
    if _from_file(config):
        # Where the file lies does not matter, and `content` says what it holds; but of several files that
        # are searched, this is one.
        settings["model"]["weights"] = params.get("model.weights", "file")
    if pseudo_labels(config):
        settings["hp"]["pseudo_labels"] = params.get("hp.pseudo_labels", "file")
    for place in _PLACES:
        del settings["data"][place]
    for place in ("output", "threads"):
        del settings[place]
    parts = [settings, series.key, series.data.empty, sorted(spec.modes), spec.draws]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def content(facts: Mapping[str, Any]) -> str:
    """What the files of a run hold, given `facts` of its row: data, and where they are files weights and
    pseudo-labels."""
    return " ".join(
        str(facts[name]) for name in ("fingerprint", "backbone", "pseudo_labels") if name in facts
    )


def run_key(point: str, files: str, code: str) -> str:
    """What a run is known by: its configuration, the content of its files, the code that computes it."""
    return hashlib.sha256(f"{point} {files} {code}".encode()).hexdigest()


@cache
def code_version() -> str:
    """SHA-256 over the sources that a run's numbers depend on, first 16 digits."""
    package, digest = Path(__file__).parents[1], hashlib.sha256()
    for path in _sources(package):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _sources(package: Path) -> Iterator[Path]:
    """Every Python file of `_SOURCES`.

    Raises:
        FileNotFoundError: a name stands for nothing: it was moved, and would silently drop out.
    """
    for name in _SOURCES:
        source = package / name
        files = [source] if source.is_file() else sorted(source.rglob("*.py"))
        if not files:
            raise FileNotFoundError(f"{source}: a source that the numbers of a run depend on was moved")
        yield from files
