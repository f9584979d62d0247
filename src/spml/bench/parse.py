"""Reading a specification: whatever can be wrong with it is told with its line, before anything runs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import Any

from ..config import Config, DataConfig
from ..errors import InputError, nearest
from ..methods.registry import find, methods
from .checks import check_spec
from .document import Document, Where
from .nesting import merged, nested
from .rows import OBSERVED, ORACLE
from .space import Range, Space
from .spec import AUDIT, Candidate, DataSet, Hiding, Spec

_TOP = [
    "title", "about", "data", "hiding", "candidates", "baseline", "ceiling", "modes", "seeds", "search",
    "train", "card", "draws",
]  # fmt: skip
_SEARCH = ["sampler", "trials", "guided_by", "space"]
_RANGE = ["low", "high", "log", "integer"]
_BESIDE = ["mean_labels", "empty", "train"]
"""Keys of a data set that are no settings of `Config.data`."""

_OWN = ["data", "output", "seed", "select", "mean_labels", "method", "hp", "init_from", "devices"]
"""Settings of a run that `train` must not fix: something else of the specification does, or nothing may."""

_NO_MATTER = ("threads", "checkpoint_steps")
"""Settings that no number depends on, so that nothing can be searched in them."""

CARDS = ("voc", "coco", "nus", "cub")
"""Benchmarks for which cards give published hyper-parameters."""

_TIMES = re.compile(r"x(\d+\.?\d*)")


def ready_made() -> list[str]:
    """Names of the specifications that come with the package."""
    folder = resources.files(__package__) / "specs"
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir())


def find_spec(name: str) -> Spec:
    """A specification from a file, or a ready-made one by name.

    Raises:
        InputError: neither; or as `read_spec`.
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
    """Read and check a specification; nothing is run and no data is opened.

    Raises:
        InputError: an unknown key, method or setting, or a budget that is not possible, with its line.
    """
    return _Reader(Document(path, text), text if text is not None else path.read_text("utf-8")).spec()


def check_places(spec: Spec, root: Path) -> None:
    """Whether there is something where the data is said to lie.

    Raises:
        InputError: there is nothing, with the line that names it.
    """
    for data in spec.data:
        path = data.settings["path"]
        if path != "digits" and not (root / path).exists():
            raise Document(spec.path, spec.text).error(
                ("data", data.name, "path"),
                f"{root / path}: there is no such file or folder. Paths start from --root.",
            )


class _Reader:
    """One specification being read."""

    def __init__(self, document: Document, text: str) -> None:
        self.document, self.value, self.text = document, document.value, text

    def spec(self) -> Spec:
        document, value = self.document, self.value
        document.check_keys((), value, _TOP, "a specification")
        search = self._mapping(("search",), {})
        document.check_keys(("search",), search, _SEARCH, "search")
        sampler = self._one_of(("search", "sampler"), search.get("sampler", "tpe"), ("random", "grid", "tpe"))
        space = self._space(("search", "space"), search.get("space", {}))
        modes = self._modes()
        spec = Spec(
            title=self._text(("title",), value.get("title", document.path.stem)),
            about=self._about(),
            data=self._data(),
            hidings=self._hidings(),
            candidates=self._candidates(space),
            seeds=self._seeds(),
            modes=modes,
            sampler=sampler,
            trials=self._count(("search", "trials"), search.get("trials", 12)),
            guided_by=self._one_of(("search", "guided_by"), search.get("guided_by", modes[0]), modes),
            train=self._train(("train",), self.value.get("train", {})),
            baseline=self._named("baseline"),
            ceiling=self._named("ceiling"),
            draws=self._count(("draws",), value.get("draws", 200), least=2),
            path=document.path,
            text=self.text,
        )
        check_spec(spec, document)
        return spec

    # -- parts -------------------------------------------------------------------------------------------

    def _about(self) -> tuple[str, ...]:
        text = self._text(("about",), self.value.get("about", ""))
        return tuple(part.strip() for part in re.split(r"\n\s*\n", text) if part.strip())

    def _data(self) -> tuple[DataSet, ...]:
        found = []
        allowed = [f.name for f in fields(DataConfig) if not f.name.startswith("observe")]
        for name, settings in self._entries("data").items():
            where: Where = ("data", name)
            self.document.check_keys(where, settings, [*allowed, *_BESIDE], "a data set")
            rest = {key: part for key, part in settings.items() if key not in _BESIDE}
            if not isinstance(rest.get("path"), str):
                raise self.document.error(where, f"data set {name!r} needs a path")
            for own in ("split_seed", "cache"):
                if own in rest:
                    raise self.document.error((*where, own), f"{own} is set by the comparison; leave it out")
            empty = settings.get("empty")
            if empty is not None:
                self._one_of((*where, "empty"), empty, ("exclude", "zero"))
            k = self._k((*where, "mean_labels"), settings)
            train = self._train((*where, "train"), settings.get("train", {}))
            found.append(DataSet(name, rest, k, train, empty))
        return tuple(found)

    def _k(self, where: Where, settings: Mapping[str, Any]) -> float | None:
        value = settings.get("mean_labels")
        if value is None:
            return None
        if type(value) not in (int, float) or not 0 < value < math.inf:
            raise self.document.error(where, f"mean_labels must be a number above 0, got {value!r}")
        return float(value)

    def _hidings(self) -> tuple[Hiding, ...]:
        allowed = [f.name for f in fields(DataConfig) if f.name.startswith("observe")]
        allowed.remove("observe_seed")
        for name, settings in self._entries("hiding").items():
            self.document.check_keys(("hiding", name), settings, allowed, "a way of hiding labels")
        return tuple(Hiding(name, settings) for name, settings in self._entries("hiding").items())

    def _candidates(self, shared: Space) -> tuple[Candidate, ...]:
        listed = self.value.get("candidates")
        if not isinstance(listed, list) or not listed:
            raise self.document.error(("candidates",), "candidates: expected a list of methods")
        found: dict[str, Candidate] = {}
        for number, entry in enumerate(listed):
            where: Where = ("candidates", number)
            for candidate in self._candidate(where, entry, shared):
                if candidate.name in found:
                    raise self.document.error(where, f"there are two candidates called {candidate.name!r}")
                found[candidate.name] = candidate
        return tuple(found.values())

    def _candidate(self, where: Where, entry: Any, shared: Space) -> list[Candidate]:
        if isinstance(entry, str):
            self._check_method(where, entry)
            return [Candidate(entry, self._published(entry), shared)]
        if isinstance(entry, dict) and "all" in entry:
            self.document.check_keys(where, entry, ["all", "except"], "a candidate")
            left_out = entry.get("except") or []
            if entry["all"] is not True or not isinstance(left_out, list):
                raise self.document.error(where, "expected `all: true` and `except:` with a list of methods")
            for name in left_out:
                self._check_method((*where, "except"), name)
            return [
                Candidate(name, self._published(name), shared) for name in methods() if name not in left_out
            ]
        return [self._own_candidate(where, entry, shared)]

    def _own_candidate(self, where: Where, entry: Any, shared: Space) -> Candidate:
        own = ["name", "space", "labels", "mean_labels"]
        known = [f.name for f in fields(Config) if f.name not in {*_OWN} - {"method", "hp"}]
        keys = [key for key in entry if key not in own] if isinstance(entry, dict) else []
        tops = {key: key.partition(".")[0] for key in keys}
        name = entry.get("name", entry.get("method")) if isinstance(entry, dict) else None
        if not isinstance(name, str) or not name:
            raise self.document.error(where, "a candidate is the name of a method, or has at least a name")
        for key, top in tops.items():
            if top not in known:
                raise self.document.error(
                    (*where, key), f"unknown key {key!r} of a candidate. {nearest(top, [*own, *known])}"
                )
        settings = self._nested(where, {key: entry[key] for key in keys})
        if settings.get("method"):
            self._check_method((*where, "method"), settings["method"])
            settings = merged(self._published(settings["method"]), settings)
        labels = self._one_of((*where, "labels"), entry.get("labels", "observed"), ("observed", "full"))
        space = dict(shared)
        if "space" in entry:
            # A setting that is given, and an empty space, take away what all others search.
            space = {**shared, **self._space((*where, "space"), entry["space"])} if entry["space"] else {}
        space = {key: part for key, part in space.items() if key not in keys}
        return Candidate(name, settings, space, labels == "full", self._told(where, entry))

    def _published(self, method: str) -> dict[str, Any]:
        """A method with the hyper-parameters that its card gives for the benchmark named by `card`."""
        name = self.value.get("card")
        if name is None:
            return {"method": method}
        benchmark = self._one_of(("card",), name, CARDS)
        return {"method": method, "hp": dict(find(method).card.defaults.get(benchmark, {}))}

    def _told(self, where: Where, entry: Mapping[str, Any]) -> float | None:
        text = entry.get("mean_labels", "stated")
        if text in ("stated", "unstated"):
            return 1.0 if text == "stated" else None
        times = _TIMES.fullmatch(str(text))
        if not times or not float(times[1]) > 0:
            raise self.document.error(
                (*where, "mean_labels"),
                f"mean_labels of a candidate must be stated, unstated, or a factor (x1.4), got {text!r}",
            )
        return float(times[1])

    def _space(self, where: Where, value: Any) -> dict[str, Range]:
        if not isinstance(value, dict):
            raise self.document.error(where, "space: expected ranges by setting, such as optim.lr")
        known = [f.name for f in fields(Config) if f.name not in {*_OWN} - {"hp"} | {*_NO_MATTER}]
        for key in value:
            top = key.partition(".")[0]
            if top not in known:
                raise self.document.error((*where, key), f"{key!r} can't be searched. {nearest(top, known)}")
        return {key: self._range((*where, key), key, part) for key, part in value.items()}

    def _range(self, where: Where, key: str, part: Any) -> Range:
        if isinstance(part, list):
            if not part:
                raise self.document.error(where, f"{key}: there is nothing to choose from")
            return Range(choices=tuple(part))
        self.document.check_keys(where, part, _RANGE, f"the range of {key}")
        low, high, log = part.get("low"), part.get("high"), part.get("log", False)
        integer = part.get("integer", False)
        numbers = all(type(one) in (int, float) and math.isfinite(one) for one in (low, high))
        switches = isinstance(log, bool) and isinstance(integer, bool)
        whole = not integer or (numbers and low == int(low) and high == int(high))
        if not numbers or not switches or not whole or not low < high or (log and not low > 0):
            raise self.document.error(
                where,
                f"{key}: expected a list of values, or low < high (log: true needs low > 0, integer: true "
                f"whole numbers), got {part}",
            )
        return Range(float(low), float(high), log, integer)

    def _modes(self) -> tuple[str, ...]:
        listed = self.value.get("modes", [ORACLE, OBSERVED])
        if not isinstance(listed, list) or not listed or len(set(map(str, listed))) < len(listed):
            raise self.document.error(("modes",), "modes: expected a list of different modes")
        for number, mode in enumerate(listed):
            if mode not in (ORACLE, OBSERVED) and not AUDIT.fullmatch(str(mode)):
                raise self.document.error(
                    ("modes", number), f"unknown mode {mode!r}; known are oracle, observed, audit:N"
                )
        return tuple(listed)

    def _seeds(self) -> tuple[int, ...]:
        seeds = self.value.get("seeds", 5)
        if isinstance(seeds, int) and not isinstance(seeds, bool) and 1 <= seeds <= 1000:
            return tuple(range(seeds))
        listed = seeds if isinstance(seeds, list) else []
        if (
            listed
            and all(type(seed) is int and 0 <= seed < 2**31 for seed in listed)
            and len({*listed}) == len(listed)
        ):
            return tuple(listed)
        raise self.document.error(
            ("seeds",), f"seeds: expected how many (1 to 1000), or a list of them below 2^31, got {seeds!r}"
        )

    def _train(self, where: Where, given: Any) -> dict[str, Any]:
        if not isinstance(given, dict):
            raise self.document.error(where, "train: expected settings by name")
        known = [f.name for f in fields(Config) if f.name not in _OWN]
        for key in given:
            if key.partition(".")[0] not in known:
                raise self.document.error(
                    (*where, key), f"unknown key {key!r} of train. {nearest(key.partition('.')[0], known)}"
                )
        return self._nested(where, given)

    def _nested(self, where: Where, given: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return nested(given)
        except InputError as error:
            raise self.document.error(where, str(error)) from error

    # -- values ------------------------------------------------------------------------------------------

    def _check_method(self, where: Where, name: Any) -> None:
        try:
            find(name if isinstance(name, str) else repr(name))
        except InputError as error:
            raise self.document.error(where, str(error)) from error

    def _entries(self, key: str) -> dict[str, Any]:
        found = self.value.get(key)
        if not isinstance(found, dict) or not found:
            raise self.document.error((key,), f"{key}: expected at least one entry, `name: {{...}}`")
        for name, settings in found.items():
            if not isinstance(name, str) or not isinstance(settings, dict):
                raise self.document.error((key, name), f"{key}: expected `name: {{setting: value}}`")
        return found

    def _mapping(self, where: Where, default: dict[str, Any]) -> dict[str, Any]:
        found = self.value.get(str(where[0]), default)
        if not isinstance(found, dict):
            raise self.document.error(where, f"{where[0]}: expected settings by name")
        return found

    def _named(self, key: str) -> str:
        return self._text((key,), self.value.get(key, ""))

    def _text(self, where: Where, value: Any) -> str:
        if not isinstance(value, str):
            raise self.document.error(where, f"{where[-1]}: expected text, got {value!r}")
        return value.strip()

    def _count(self, where: Where, value: Any, least: int = 1) -> int:
        if type(value) is not int or value < least:
            raise self.document.error(
                where, f"{where[-1]}: expected a number of at least {least}, got {value!r}"
            )
        return value

    def _one_of(self, where: Where, value: Any, allowed: Sequence[str]) -> Any:
        if value not in allowed:
            raise self.document.error(
                where, f"{where[-1]} must be one of {', '.join(allowed)}, got {value!r}"
            )
        return value
