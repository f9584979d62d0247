"""Read and check a specification: every mistake is reported with its line before anything runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from ..common.errors import InputError, nearest
from ..config import AUTO, Config, DataConfig
from ..methods.registry import find, methods
from ..short_names import nested
from .check_spec import check_spec
from .rows import OBSERVED, ORACLE
from .space import Range, Sampler, Space
from .spec import AUDIT, Candidate, DataSet, Hiding, Labels, Spec, merged
from .yaml_lines import Document, KeyPath

_RESERVED = {
    "data", "output", "seed", "select", "mean_labels", "method", "hp", "init_from", "devices", "record",
    "record_samples",
}  # fmt: skip
"""Settings of a run that `train` can't state: another part of the specification decides them, or, for
`record`, a comparison does without."""

_TRAIN = [part.name for part in fields(Config) if part.name not in _RESERVED]
_OF_CANDIDATE = [*_TRAIN, "method", "hp"]
_SEARCHABLE = {*_TRAIN, "hp"} - {"threads", "checkpoint_steps"}  # these two change no number

_FIRST = ["epochs", "batch_size", "select", "patience", "optim", "model"]
"""Settings in which a first phase may differ; of `model` only `frozen`, as both phases train one model."""

_OBSERVE = [part.name for part in fields(DataConfig) if part.name.startswith("observe")]
_SET_BY_COMPARISON = {"observe_seed", "split_seed", "stratify", "cache"}
_OF_DATA_SET = ["mean_labels", "empty", "train"]
"""Keys of a data set that are not settings of `Config.data`."""

_FACTOR = re.compile(r"stated|unstated|x(?=.*[1-9])(\d+\.?\d*)")
"""Mean labels of a candidate, as a factor on those that the data set states."""


# -- Types of the YAML ---------------------------------------------------------------------------------------

Seed = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class _Spec(Struct):
    data: Annotated[dict[str, Any], Meta(min_length=1)]
    hiding: Annotated[dict[str, Any], Meta(min_length=1)]
    candidates: Annotated[list[Any], Meta(min_length=1)]
    title: str | None = None
    about: str = ""
    baseline: str = ""
    ceiling: str = ""
    modes: Annotated[tuple[str, ...], Meta(min_length=1)] = (ORACLE, OBSERVED)
    seeds: Annotated[int, Meta(ge=1, le=1000)] | Annotated[tuple[Seed, ...], Meta(min_length=1)] = 5
    search: dict[str, Any] = {}
    train: dict[str, Any] = {}
    card: Literal["voc", "coco", "nus", "cub"] | None = None
    draws: Annotated[int, Meta(ge=2)] = 200


class _Search(Struct):
    sampler: Sampler = "tpe"
    trials: Annotated[int, Meta(ge=1)] = 12
    guided_by: str | None = None
    space: dict[str, Any] = {}


@dataclass
class _DataSet(DataConfig):
    mean_labels: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    empty: Literal["exclude", "zero"] | None = None
    train: dict[str, Any] = field(default_factory=dict)


class _Candidate(Struct):
    name: Annotated[str, Meta(min_length=1)]
    labels: Labels = "observed"
    mean_labels: str | float = "stated"
    space: dict[str, Any] | None = None
    sampler: Sampler | None = None
    first: dict[str, Any] | None = None


# -- Finding and reading -------------------------------------------------------------------------------------


def ready_made() -> list[str]:
    """Names of the specifications that come with the package."""
    folder = resources.files(__package__) / "specs"
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir())


def find_spec(name: str) -> Spec:
    """Read a specification from a file, or a ready-made one by its name."""
    path = Path(name)
    if path.is_file():
        return read_spec(path)
    if name in ready_made():
        return read_ready_made(name)
    raise InputError(
        f"{name}: no such file, and no ready-made specification of this name. {nearest(name, ready_made())}"
    )


def read_ready_made(name: str) -> Spec:
    """Read a specification that comes with the package."""
    text = (resources.files(__package__) / "specs" / f"{name}.yaml").read_text(encoding="utf-8")
    return read_spec(Path(f"{name}.yaml"), text)


def read_spec(path: Path, text: str | None = None) -> Spec:
    """Read and check a specification; no run is started and no data is opened.

    Args:
        path: Path of the YAML file.
        text: Its content, if it is known already.

    Raises:
        InputError: An unknown key, method or setting, a value outside its limits, or a budget that is not
            possible; the message states file and line.
    """
    document = Document(path, text)
    reader = _Reader(document)
    spec = reader.spec()
    check_spec(spec, document, reader.positions)
    return spec


def check_data_paths(spec: Spec, root: Path) -> None:
    """Check that the data of a specification exists."""
    for data in spec.data:
        path = data.settings["path"]
        if path != "digits" and not (root / path).exists():
            raise Document(spec.path, spec.text).error(
                ("data", data.name, "path"),
                f"{root / path}: no such file or folder. Paths start from `root`.",
            )


class _Reader:
    """Turns the YAML of a specification into a `Spec`."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.positions: dict[str, KeyPath] = {}
        self.top = document.convert((), document.value, _Spec, "a specification")

    def spec(self) -> Spec:
        top = self.top
        search = self.document.convert(("search",), top.search, _Search, "search")
        for position, mode in enumerate(top.modes):
            if mode not in (ORACLE, OBSERVED) and not AUDIT.fullmatch(mode):
                raise self.document.error(
                    ("modes", position), f"unknown mode {mode!r}; known are oracle, observed, audit:N"
                )
        guided_by = search.guided_by or top.modes[0]
        if guided_by not in top.modes:
            raise self.document.error(
                ("search", "guided_by"), f"guided_by must be one of {', '.join(top.modes)}, got {guided_by!r}"
            )
        seeds = tuple(range(top.seeds)) if isinstance(top.seeds, int) else top.seeds
        for key, values in (("modes", top.modes), ("seeds", seeds)):
            if len({*values}) < len(values):
                raise self.document.error((key,), f"{key}: expected different {key}")
        return Spec(
            title=(self.document.path.stem if top.title is None else top.title).strip(),
            about=tuple(part.strip() for part in re.split(r"\n\s*\n", top.about) if part.strip()),
            data=tuple(self._data_set(name, value) for name, value in top.data.items()),
            hidings=tuple(self._hiding(name, value) for name, value in top.hiding.items()),
            candidates=self._candidates(self._space(("search", "space"), search.space)),
            seeds=seeds,
            modes=top.modes,
            sampler=search.sampler,
            trials=search.trials,
            guided_by=guided_by,
            train=self._nested(("train",), top.train, _TRAIN, "train"),
            baseline=top.baseline.strip(),
            ceiling=top.ceiling.strip(),
            draws=top.draws,
            path=self.document.path,
            text=self.document.text,
        )

    def _data_set(self, name: str, value: Any) -> DataSet:
        at: KeyPath = ("data", name)
        data = self.document.convert(at, value, _DataSet, "a data set", {*_OBSERVE, *_SET_BY_COMPARISON})
        if not data.path:
            raise self.document.error(at, f"data set {name!r} needs a path")
        settings = {key: part for key, part in value.items() if key not in _OF_DATA_SET}
        train = self._nested((*at, "train"), data.train, _TRAIN, "train")
        return DataSet(name, settings, data.mean_labels, train, data.empty)

    def _hiding(self, name: str, value: Any) -> Hiding:
        other = {part.name for part in fields(DataConfig)}.difference(_OBSERVE) | _SET_BY_COMPARISON
        self.document.convert(("hiding", name), value, DataConfig, "a way of hiding labels", other)
        return Hiding(name, value)

    # -- candidates ------------------------------------------------------------------------------------------

    def _candidates(self, shared: Space) -> tuple[Candidate, ...]:
        candidates: dict[str, Candidate] = {}
        for position, entry in enumerate(self.top.candidates):
            at: KeyPath = ("candidates", position)
            for candidate in self._expand(at, entry, shared):
                if candidate.name in candidates:
                    raise self.document.error(at, f"there are two candidates called {candidate.name!r}")
                candidates[candidate.name] = candidate
                self.positions[candidate.name] = at
        return tuple(candidates.values())

    def _expand(self, at: KeyPath, entry: Any, shared: Space) -> list[Candidate]:
        """Candidates that one entry stands for."""
        if isinstance(entry, str):
            return [Candidate(entry, self._method(at, entry), shared)]
        if isinstance(entry, dict) and "all" in entry:
            self.document.check_keys(at, entry, ["all", "except"], "a candidate")
            excluded = entry.get("except") or []
            if entry["all"] is not True or not isinstance(excluded, list):
                raise self.document.error(at, "expected `all: true` and `except:` with a list of methods")
            for name in excluded:
                self._method((*at, "except"), name)
            return [
                Candidate(name, self._method(at, name), shared) for name in methods() if name not in excluded
            ]
        return [self._own_candidate(at, entry, shared)]

    def _own_candidate(self, at: KeyPath, entry: Any, shared: Space) -> Candidate:
        own_keys = _Candidate.__struct_fields__
        if not isinstance(entry, dict) or not ("name" in entry or "method" in entry):
            raise self.document.error(at, "a candidate is the name of a method, or a mapping with a name")
        own = {key: part for key, part in entry.items() if key in own_keys}
        candidate = self.document.convert(at, {"name": entry.get("method"), **own}, _Candidate, "a candidate")
        stated = {key: part for key, part in entry.items() if key not in own_keys}
        settings = self._nested(at, stated, [*_OF_CANDIDATE, *own_keys], "a candidate")
        if settings.get("method"):
            settings = merged(self._method((*at, "method"), settings["method"]), settings)
        space = {**shared, **self._space((*at, "space"), candidate.space or {})}
        if "space" in entry and not candidate.space:
            space = {}  # `space: {}` also removes what all others search
        space = {key: part for key, part in space.items() if key not in stated}
        factor = _FACTOR.fullmatch(str(candidate.mean_labels))
        if not factor:
            raise self.document.error(
                (*at, "mean_labels"),
                "mean_labels of a candidate must be stated, unstated, or a factor (x1.4), got "
                f"{candidate.mean_labels!r}",
            )
        mean_labels = None if factor[0] == "unstated" else float(factor[1] or 1)
        first = candidate.first
        if first is not None:
            first = self._nested((*at, "first"), first, _FIRST, "first")
            if isinstance(first.get("model"), dict) and first["model"].keys() != {"frozen"}:
                raise self.document.error(
                    (*at, "first"),
                    "first: both phases train the same model, so of its settings only model.frozen may "
                    "differ",
                )
        return Candidate(
            candidate.name, settings, space, candidate.sampler, candidate.labels, mean_labels, first
        )

    def _method(self, at: KeyPath, name: Any) -> dict[str, Any]:
        """Settings of a method, with the hyper-parameters that its card gives for the benchmark in `card`."""
        if name == AUTO:  # no registered method: it has neither a card nor hyper-parameters
            return {"method": AUTO}
        with self.document.at(at):
            card = find(name if isinstance(name, str) else repr(name)).card
        if self.top.card is None:
            return {"method": name}
        return {"method": name, "hp": dict(card.defaults.get(self.top.card, {}))}

    # -- search space and settings ---------------------------------------------------------------------------

    def _space(self, at: KeyPath, value: dict[str, Any]) -> dict[str, Range]:
        space = {}
        for key, part in value.items():
            group = key.partition(".")[0]
            if group not in _SEARCHABLE:
                raise self.document.error(
                    (*at, key), f"{key!r} can't be searched. {nearest(group, _SEARCHABLE)}"
                )
            if part == []:
                raise self.document.error((*at, key), f"{key}: the list of values is empty")
            space[key] = (
                Range(choices=tuple(part))
                if isinstance(part, list)
                else self.document.convert((*at, key), part, Range, f"the range of {key}", {"choices"})
            )
        return space

    def _nested(self, at: KeyPath, value: Mapping[str, Any], known: list[str], what: str) -> dict[str, Any]:
        for key in value:
            group = key.partition(".")[0]
            if group not in known:
                raise self.document.error(
                    (*at, key), f"unknown key {key!r} of {what}. {nearest(group, known)}"
                )
        with self.document.at(at):
            return nested(value)
