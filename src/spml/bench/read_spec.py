"""Read and check a specification: every mistake is reported with its line before anything runs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

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

T = TypeVar("T")

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

_FACTOR = re.compile(r"x(\d+\.?\d*)")


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
    first: dict[str, Any] | None = None


class _Range(Struct):
    low: float
    high: float
    log: bool = False
    integer: bool = False


# -- Finding and reading -------------------------------------------------------------------------------------


def ready_made() -> list[str]:
    """Names of the specifications that come with the package."""
    folder = resources.files(__package__) / "specs"
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir())


def find_spec(name: str) -> Spec:
    """Read a specification from a file, or a ready-made one by its name.

    Raises:
        InputError: There is neither a file nor a ready-made specification of this name; or as `read_spec`.
    """
    path = Path(name)
    if path.is_file():
        return read_spec(path)
    if name in ready_made():
        text = (resources.files(__package__) / "specs" / f"{name}.yaml").read_text(encoding="utf-8")
        return read_spec(Path(f"{name}.yaml"), text)
    raise InputError(
        f"{name}: there is no such file, and no ready-made specification of this name. "
        f"{nearest(name, ready_made())}"
    )


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
    """Check that the data of a specification exists.

    Raises:
        InputError: A path leads nowhere; the message states the line that names it.
    """
    for data in spec.data:
        path = data.settings["path"]
        if path != "digits" and not (root / path).exists():
            raise Document(spec.path, spec.text).error(
                ("data", data.name, "path"),
                f"{root / path}: there is no such file or folder. Paths start from --root.",
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
        modes = self._modes()
        guided_by = search.guided_by or modes[0]
        if guided_by not in modes:
            raise self.document.error(
                ("search", "guided_by"), f"guided_by must be one of {', '.join(modes)}, got {guided_by!r}"
            )
        return Spec(
            title=(self.document.path.stem if top.title is None else top.title).strip(),
            about=tuple(part.strip() for part in re.split(r"\n\s*\n", top.about) if part.strip()),
            data=tuple(self._data_set(name, value) for name, value in top.data.items()),
            hidings=tuple(self._hiding(name, value) for name, value in top.hiding.items()),
            candidates=self._candidates(self._space(("search", "space"), search.space)),
            seeds=self._seeds(),
            modes=modes,
            sampler=search.sampler,
            trials=search.trials,
            guided_by=guided_by,
            train=self._train(("train",), top.train),
            baseline=top.baseline.strip(),
            ceiling=top.ceiling.strip(),
            draws=top.draws,
            path=self.document.path,
            text=self.document.text,
        )

    def _modes(self) -> tuple[str, ...]:
        modes = self.top.modes
        for position, mode in enumerate(modes):
            if mode not in (ORACLE, OBSERVED) and not AUDIT.fullmatch(mode):
                raise self.document.error(
                    ("modes", position), f"unknown mode {mode!r}; known are oracle, observed, audit:N"
                )
        return self._distinct("modes", modes)

    def _seeds(self) -> tuple[int, ...]:
        seeds = self.top.seeds
        return tuple(range(seeds)) if isinstance(seeds, int) else self._distinct("seeds", seeds)

    def _distinct(self, key: str, values: tuple[T, ...]) -> tuple[T, ...]:
        if len({*values}) < len(values):
            raise self.document.error((key,), f"{key}: expected different {key}")
        return values

    def _data_set(self, name: str, value: Any) -> DataSet:
        at: KeyPath = ("data", name)
        data = self.document.convert(at, value, _DataSet, "a data set", {*_OBSERVE, *_SET_BY_COMPARISON})
        if not data.path:
            raise self.document.error(at, f"data set {name!r} needs a path")
        settings = {key: part for key, part in value.items() if key not in _OF_DATA_SET}
        return DataSet(name, settings, data.mean_labels, self._train((*at, "train"), data.train), data.empty)

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
        own_keys = list(_Candidate.__struct_fields__)
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
        mean_labels = self._mean_labels((*at, "mean_labels"), candidate.mean_labels)
        first = self._first((*at, "first"), candidate.first)
        return Candidate(candidate.name, settings, space, candidate.labels, mean_labels, first)

    def _first(self, at: KeyPath, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is None:
            return None
        first = self._nested(at, value, _FIRST, "first")
        model = first.get("model")
        if isinstance(model, dict) and model.keys() != {"frozen"}:
            raise self.document.error(
                at, "first: both phases train the same model, so of its settings only model.frozen may differ"
            )
        return first

    def _method(self, at: KeyPath, name: Any) -> dict[str, Any]:
        """Settings of a method, with the hyper-parameters that its card gives for the benchmark in `card`."""
        if name == AUTO:  # no registered method: it has neither a card nor hyper-parameters
            return {"method": AUTO}
        try:
            card = find(name if isinstance(name, str) else repr(name)).card
        except InputError as error:
            raise self.document.error(at, str(error)) from error
        if self.top.card is None:
            return {"method": name}
        return {"method": name, "hp": dict(card.defaults.get(self.top.card, {}))}

    def _mean_labels(self, at: KeyPath, text: str | float) -> float | None:
        if text in ("stated", "unstated"):
            return 1.0 if text == "stated" else None
        factor = _FACTOR.fullmatch(str(text))
        if not factor or not float(factor[1]) > 0:
            raise self.document.error(
                at, f"mean_labels of a candidate must be stated, unstated, or a factor (x1.4), got {text!r}"
            )
        return float(factor[1])

    # -- search space and settings ---------------------------------------------------------------------------

    def _space(self, at: KeyPath, value: dict[str, Any]) -> dict[str, Range]:
        for key in value:
            if key.partition(".")[0] not in _SEARCHABLE:
                raise self.document.error(
                    (*at, key),
                    f"{key!r} can't be searched. {nearest(key.partition('.')[0], _SEARCHABLE)}",
                )
        return {key: self._range((*at, key), key, part) for key, part in value.items()}

    def _range(self, at: KeyPath, name: str, value: Any) -> Range:
        if isinstance(value, list):
            if not value:
                raise self.document.error(at, f"{name}: the list of values is empty")
            return Range(choices=tuple(value))
        part = self.document.convert(at, value, _Range, f"the range of {name}")
        finite = math.isfinite(part.low) and math.isfinite(part.high)
        whole = not part.integer or (finite and part.low.is_integer() and part.high.is_integer())
        if not finite or not whole or not part.low < part.high or (part.log and not part.low > 0):
            raise self.document.error(
                at,
                f"{name}: expected a list of values, or low < high (log: true needs low > 0, integer: true "
                f"whole numbers), got {value}",
            )
        return Range(part.low, part.high, part.log, part.integer)

    def _train(self, at: KeyPath, value: dict[str, Any]) -> dict[str, Any]:
        return self._nested(at, value, _TRAIN, "train")

    def _nested(self, at: KeyPath, value: Mapping[str, Any], known: list[str], what: str) -> dict[str, Any]:
        for key in value:
            group = key.partition(".")[0]
            if group not in known:
                raise self.document.error(
                    (*at, key), f"unknown key {key!r} of {what}. {nearest(group, known)}"
                )
        try:
            return nested(value)
        except InputError as error:
            raise self.document.error(at, str(error)) from error
