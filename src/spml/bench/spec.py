"""Specification of a comparison: data sets, ways of hiding labels, candidates, budget, seeds, modes.

A specification is read completely, and every mistake in it is reported before anything runs.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

import msgspec
from msgspec import Meta, Struct, structs

from ..common.documents import parse_yaml, read_yaml_text
from ..common.errors import InputError, closest, nearest, quoted
from ..config import AUTO, LBFGS, Config, DataConfig, check, from_dict
from ..config.read import describe_type, nested, with_numbers
from ..data.hiding import check_observe
from ..methods.registry import create, find, methods
from ..models import CLOSED_FORM
from ..models.spec import OWN, origin_of
from ..runs.settle.resolve import missed_warmup
from .rows import OBSERVED, ORACLE
from .space import Range, Sampler, Space, grid_size

T = TypeVar("T")

AUDIT = re.compile(r"audit:([1-9]\d*)")
MAX_RUNS = 1_000_000

Labels = Literal["observed", "positive_and_negatives", "full"]
"""Labels that a candidate is given: those that stay observed, every true negative as well, or all."""


class DataSet(Struct, frozen=True):
    """A data set to learn from.

    Attributes:
        name: Name in tables.
        settings: Settings of `Config.data`.
        mean_labels: Mean labels per sample K that candidates are given; None = not stated.
        train: Settings for all runs on this data set, overriding the shared ones.
        empty: How a class without positives counts in mAP, `exclude` or `zero`; None = as the data says,
            which is `zero` for published benchmarks.
    """

    name: str
    settings: dict[str, Any]
    mean_labels: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    train: dict[str, Any] = {}
    empty: Literal["exclude", "zero"] | None = None


class Hiding(Struct, frozen=True):
    """A way of turning full labels into observed ones: the `observe*` settings of `Config.data`."""

    name: str
    settings: dict[str, Any]


class Candidate(Struct, frozen=True):
    """A method, or a variant of one, that is compared with the others.

    Attributes:
        name: Name in tables.
        settings: Settings of `Config`, nested.
        space: Settings to search, with their ranges.
        sampler: How its trials are proposed; None = as the specification says.
        labels: Labels to train and select with; `full` is a ceiling, `positive_and_negatives` an oracle that
            lacks the hidden positives only.
        mean_labels: Factor on the K that the specification states (1 = the stated K); None = K is withheld.
        first: Settings in which a first phase of training differs, from whose best epoch the run starts: its
            model, and what the method had inferred. None = there is no first phase.
        note: Footnote of the report, such as in what it is not the published network.
    """

    name: Annotated[str, Meta(min_length=1)]
    settings: dict[str, Any]
    space: Space = {}
    sampler: Sampler | None = None
    labels: Labels = "observed"
    mean_labels: float | None = 1.0
    first: dict[str, Any] | None = None
    note: str = ""

    def hide(self, hiding: Hiding) -> dict[str, Any]:
        """Settings of `Config.data` by which labels are hidden from this candidate."""
        if self.labels == "full":
            return {}
        settings = dict(hiding.settings)
        if self.labels == "positive_and_negatives":
            settings["observe_all_negatives"] = True
        return settings


@dataclass(frozen=True)
class Spec:
    """A comparison.

    Attributes:
        title: Title, one line.
        about: Paragraphs for the top of the report.
        data, hidings, candidates: What is crossed with each other and with `seeds`.
        seeds: Seeds, each used for split, hiding, training and search.
        modes: Ways of selecting trials and epochs: `oracle`, `observed`, `audit:N`.
        sampler: How trials are proposed, unless a candidate says otherwise.
        trials: Trials of each candidate with a search space.
        guided_by: Mode whose scores `tpe` learns from.
        train: Settings of every run.
        baseline: Candidate that the others are compared with.
        ceiling: Candidate with full labels, or empty.
        draws: Number of bootstrap draws of the test samples.
        path: File that the specification was read from.
        text: Content of that file.
    """

    title: str
    about: tuple[str, ...]
    data: tuple[DataSet, ...]
    hidings: tuple[Hiding, ...]
    candidates: tuple[Candidate, ...]
    seeds: tuple[int, ...]
    modes: tuple[str, ...]
    sampler: Sampler
    trials: int
    guided_by: str
    train: Mapping[str, Any]
    baseline: str
    ceiling: str
    draws: int
    path: Path
    text: str

    def trials_of(self, candidate: Candidate) -> int:
        """Number of trials of a candidate."""
        if not candidate.space:
            return 1
        return grid_size(candidate.space) if self.sampler_of(candidate) == "grid" else self.trials

    def sampler_of(self, candidate: Candidate) -> Sampler:
        """How the trials of a candidate are proposed."""
        return candidate.sampler or self.sampler

    def learns(self, candidate: Candidate) -> bool:
        """Whether the settings of a trial of a candidate depend on the scores of the earlier trials."""
        return self.sampler_of(candidate) == "tpe" and bool(candidate.space)

    @property
    def runs(self) -> int:
        """Number of runs."""
        return (
            sum(map(self.trials_of, self.candidates)) * len(self.data) * len(self.hidings) * len(self.seeds)
        )

    @property
    def audits(self) -> tuple[str, ...]:
        """Modes that use a limited number of fully labelled validation samples."""
        return tuple(mode for mode in self.modes if AUDIT.fullmatch(mode))


def audit_size(mode: str) -> int:
    """Return N of `audit:N`."""
    return int(mode.partition(":")[2])


def merged(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Merge nested settings; later ones win."""
    result: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            before = result.get(key)
            if isinstance(before, Mapping) and isinstance(value, Mapping):
                value = merged(before, value)
            result[key] = value
    return result


# -- types of the YAML -----------------------------------------------------------------------------------

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
_DATA = [part.name for part in fields(DataConfig) if part.name not in {*_OBSERVE, *_SET_BY_COMPARISON}]
_HIDING = [name for name in _OBSERVE if name not in _SET_BY_COMPARISON]

_OF_TRAINING = {"epochs", "batch_size", "patience", "optim", "hp"}
"""Settings that have no effect where heads are solved in closed form."""

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


# -- finding and reading ---------------------------------------------------------------------------------


def ready_made() -> list[str]:
    """Names of the specifications that come with the package."""
    folder = resources.files(__package__) / "specs"
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir())


def find_spec(name: str) -> Spec:
    """Read a specification from a file, or a ready-made one by its name."""
    path = Path(name)
    if path.is_file():
        return read_spec(path)
    known = ready_made()
    if name in known:
        return read_ready_made(name)
    advice = f"{closest(name, known)} There are {', '.join(known)}.".lstrip()
    raise InputError(f"{name}: no such file, and no ready-made specification of this name. {advice}")


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
            possible; the message names the file and the place in it.
    """
    text = read_yaml_text(path) if text is None else text
    value = with_numbers(parse_yaml(text, str(path)))
    with _at(f"{path}: "):
        for key in _keys(value):
            if not isinstance(key, str):
                raise InputError(
                    f"{key!r} is not a name; put it in quotes if it is one (YAML reads on, off, yes and no "
                    "as true and false)"
                )
        spec = _spec(path, text, value)
        names = [candidate.name for candidate in spec.candidates]
        for key, name in (("baseline", spec.baseline), ("ceiling", spec.ceiling)):
            if name and name not in names:
                raise InputError(f"{key}: no candidate is called {name!r}. {nearest(name, names)}")
        for candidate in spec.candidates:
            with _at(f"candidate {candidate.name!r}: "):
                _check_search(spec, candidate)
                _check_settings(spec, candidate)
        if spec.runs > MAX_RUNS:
            raise InputError(f"these are {spec.runs:,} runs; at most {MAX_RUNS:,} are possible")
    return spec


def chosen(spec: Spec, candidates: str = "", seeds: str = "") -> Spec:
    """Restrict a specification to some candidates and seeds; the runs that are left keep their keys.

    Args:
        spec: Specification.
        candidates: Names, separated by commas without a space after them; empty = all.
        seeds: Seeds of the specification, separated by commas; empty = all.

    Raises:
        InputError: A candidate or seed is not in the specification.
    """
    names = [candidate.name for candidate in spec.candidates]
    wanted = re.split(r",(?! )", candidates) if candidates else names
    numbers = seeds.split(",") if seeds else [*map(str, spec.seeds)]
    for what, some, known in (("candidate", wanted, names), ("seed", numbers, [*map(str, spec.seeds)])):
        for name in some:
            if name not in known:
                raise InputError(f"{spec.path}: has no {what} {name!r}. {nearest(name, known)}")
    return replace(
        spec,
        candidates=tuple(candidate for candidate in spec.candidates if candidate.name in wanted),
        seeds=tuple(seed for seed in spec.seeds if str(seed) in numbers),
        baseline=spec.baseline if spec.baseline in wanted else "",
        ceiling=spec.ceiling if spec.ceiling in wanted else "",
    )


def check_data_paths(spec: Spec, root: Path) -> None:
    """Check that the data of a specification exists."""
    for data in spec.data:
        path = data.settings["path"]
        if path != "digits" and not (root / path).exists():
            raise InputError(
                f"{spec.path}: data.{data.name}.path: {root / path}: no such file or folder. Paths start "
                "from `root`."
            )


@contextmanager
def _at(start: str) -> Iterator[None]:
    """Begin the message of a `ValueError`, such as an `InputError`, with the place that it is about."""
    try:
        yield
    except ValueError as error:
        raise InputError(f"{start}{error}") from error


def _keys(value: Any) -> Iterator[Any]:
    """Keys of all mappings in a value."""
    if isinstance(value, dict):
        yield from value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _keys(part)


def _known(value: Any, known: Collection[str], what: str) -> dict[str, Any]:
    """Return a mapping that has known keys only, or groups of them with a dot."""
    if not isinstance(value, dict):
        raise InputError(f"{what or 'the specification'}: expected a mapping, got {quoted(value)}")
    for key in value:
        if (group := key.partition(".")[0]) not in known:
            raise InputError(f"unknown key {key!r} of {what or 'the specification'}. {nearest(group, known)}")
    return value


def _convert(value: Any, cls: type[T], what: str) -> T:
    """Convert a mapping to a `Struct`; a message names the key and what is expected."""
    hints = get_type_hints(cls)
    _known(value, hints, what)
    try:
        return msgspec.convert(value, cls)
    except msgspec.ValidationError as error:
        text, _, at = str(error).partition(" - at `$")
        at, text = at.rstrip("`").lstrip("."), text.partition(", got `")[0]
        found = value.get(at, value)
        if text.startswith("Invalid enum value"):
            text = f"Expected {describe_type(hints[at])}"
        place = ".".join(filter(None, (what, at)))
        raise InputError(f"{place or 'the specification'}: {text}, got {quoted(found)}") from error


def _spec(path: Path, text: str, value: Any) -> Spec:
    top = _convert(value, _Spec, "")
    search = _convert(top.search, _Search, "search")
    for mode in top.modes:
        if mode not in (ORACLE, OBSERVED) and not AUDIT.fullmatch(mode):
            raise InputError(f"modes: unknown mode {mode!r}; known are oracle, observed, audit:N")
    guided_by = search.guided_by or top.modes[0]
    if guided_by not in top.modes:
        raise InputError(f"search.guided_by must be one of {', '.join(top.modes)}, got {guided_by!r}")
    seeds = tuple(range(top.seeds)) if isinstance(top.seeds, int) else top.seeds
    for key, values in (("modes", top.modes), ("seeds", seeds)):
        if len({*values}) < len(values):
            raise InputError(f"{key}: expected different {key}")
    shared = _space(search.space, "search.space")
    candidates: dict[str, Candidate] = {}
    for position, entry in enumerate(top.candidates):
        with _at(f"candidates[{position}]: "):
            for candidate in _candidates(entry, shared, top.card):
                if candidate.name in candidates:
                    raise InputError(f"there are two candidates called {candidate.name!r}")
                candidates[candidate.name] = candidate
    data_sets = []
    for name, value in top.data.items():
        what, own = f"data.{name}", ("mean_labels", "train", "empty")
        _known(value, [*own, *_DATA], what)
        settings = {key: part for key, part in value.items() if key in _DATA}
        if not settings.get("path"):
            raise InputError(f"{what} needs a path")
        stated = {key: part for key, part in value.items() if key in own}
        data = _convert({"name": name, "settings": settings, **stated}, DataSet, what)
        train = nested(_known(data.train, _TRAIN, f"{what}.train"))
        data_sets.append(structs.replace(data, train=train))
    return Spec(
        title=(path.stem if top.title is None else top.title).strip(),
        about=tuple(part.strip() for part in re.split(r"\n\s*\n", top.about) if part.strip()),
        data=tuple(data_sets),
        hidings=tuple(
            Hiding(name, _known(value, _HIDING, f"hiding.{name}")) for name, value in top.hiding.items()
        ),
        candidates=tuple(candidates.values()),
        seeds=seeds,
        modes=top.modes,
        sampler=search.sampler,
        trials=search.trials,
        guided_by=guided_by,
        train=nested(_known(top.train, _TRAIN, "train")),
        baseline=top.baseline.strip(),
        ceiling=top.ceiling.strip(),
        draws=top.draws,
        path=path,
        text=text,
    )


def _candidates(entry: Any, shared: Space, card: str | None) -> list[Candidate]:
    """Candidates that one entry stands for."""
    if isinstance(entry, str):
        return [Candidate(entry, _method(entry, card), shared)]
    if isinstance(entry, dict) and "all" in entry:
        excluded = _known(entry, ["all", "except"], "a candidate").get("except") or []
        if entry["all"] is not True or not isinstance(excluded, list):
            raise InputError("expected `all: true` and `except:` with a list of methods")
        for name in excluded:
            _method(name, card)
        return [Candidate(name, _method(name, card), shared) for name in methods() if name not in excluded]
    if not isinstance(entry, dict) or not ("name" in entry or "method" in entry):
        raise InputError("a candidate is the name of a method, or a mapping with a name")
    keys = Candidate.__struct_fields__
    _known(entry, {*_OF_CANDIDATE, *keys} - {"settings"}, "a candidate")
    own = {key: part for key, part in entry.items() if key in keys}
    stated = {key: part for key, part in entry.items() if key not in keys}
    settings = nested(stated)
    if settings.get("method"):
        settings = merged(_method(settings["method"], card), settings)
    searched = own.pop("space", None)
    space = {**shared, **_space(searched or {}, "space")}
    if "space" in entry and not searched:
        space = {}  # `space: {}` also removes what all others search
    factor = own.pop("mean_labels", "stated")
    found = re.fullmatch(r"stated|unstated|x(?=.*[1-9])(\d+\.?\d*)", str(factor))
    if not found:
        raise InputError(
            f"mean_labels of a candidate must be stated, unstated, or a factor (x1.4), got {factor!r}"
        )
    mean_labels = None if found[0] == "unstated" else float(found[1] or 1)
    if own.get("first") is not None:
        own["first"] = first = nested(_known(own["first"], _FIRST, "first"))
        if isinstance(first.get("model"), dict) and first["model"].keys() != {"frozen"}:
            raise InputError(
                "first: both phases train the same model, so of its settings only model.frozen may differ"
            )
    about = {"name": entry.get("method"), "settings": settings, "mean_labels": mean_labels, **own}
    candidate = _convert(about, Candidate, "")
    space = {key: part for key, part in space.items() if key not in stated}
    return [structs.replace(candidate, space=space)]


def _method(name: Any, card: str | None) -> dict[str, Any]:
    """Settings of a method, with the hyper-parameters that its card gives for the benchmark `card`."""
    if name == AUTO:  # no registered method: it has neither a card nor hyper-parameters
        return {"method": AUTO}
    found = find(name if isinstance(name, str) else repr(name)).card
    return {"method": name} if card is None else {"method": name, "hp": dict(found.defaults.get(card, {}))}


def _space(value: Any, what: str) -> dict[str, Range]:
    if not isinstance(value, dict):
        raise InputError(f"{what}: expected a mapping, got {quoted(value)}")
    space = {}
    for key, part in value.items():
        group = key.partition(".")[0]
        if group not in _SEARCHABLE:
            raise InputError(f"{what}: {key!r} can't be searched. {nearest(group, _SEARCHABLE)}")
        if part == []:
            raise InputError(f"{what}: {key}: the list of values is empty")
        is_list = isinstance(part, list)
        space[key] = Range(choices=tuple(part)) if is_list else _convert(part, Range, f"{what}.{key}")
    return space


# -- checks that the parts fit together ------------------------------------------------------------------


def _check_search(spec: Spec, candidate: Candidate) -> None:
    if spec.sampler_of(candidate) == "grid":
        for key, part in candidate.space.items():
            if not part.choices:
                raise InputError(f"sampler grid needs a list of values for {key}, not a range")
        if (count := grid_size(candidate.space)) > spec.trials:
            raise InputError(
                f"its space is a grid of {count} trials, but search.trials allows {spec.trials} for each "
                "candidate"
            )
    searched = [key for key in candidate.space if key.partition(".")[0] in _OF_TRAINING]
    if candidate.settings.get("method") == AUTO and searched:
        raise InputError(
            f"method {AUTO} solves its heads instead of training them and chooses their penalties itself, so "
            f"there is nothing to search in {', '.join(searched)}. Write {{name: {candidate.name}, method: "
            f"{AUTO}, space: {{}}}}"
        )


def _check_settings(spec: Spec, candidate: Candidate) -> None:
    """Check that all settings exist and are valid, on every data set and at both ends of every range."""
    ends = [part.ends for part in candidate.space.values()]
    for values in zip(*ends, strict=True) if ends else [()]:
        at_end = nested(dict(zip(candidate.space, values, strict=True)))
        for data, hiding in itertools.product(spec.data, spec.hidings):
            settings = merged(
                spec.train, data.train, candidate.settings, at_end,
                {"data": {**data.settings, **candidate.hide(hiding)}, "output": "-"},
            )  # fmt: skip
            config = from_dict(settings)
            _check_run(config)
            if candidate.first is not None:
                first = from_dict(merged(settings, candidate.first))
                _check_run(first)
                if first.select == ORACLE and {*spec.modes} != {ORACLE}:
                    raise InputError(
                        "a first phase that is selected by true labels would reach the modes that go without "
                        "them: leave out `select` in `first`, or compare in `modes: [oracle]` alone"
                    )
                if any(c.method in ("", AUTO) or c.optim.name == LBFGS for c in (config, first)):
                    raise InputError(
                        "a head that is solved has no first phase: leave out `first`, or train it"
                    )
            if not config.method and config.model.head not in CLOSED_FORM:
                raise InputError("it needs a method (method: ...)")


def _check_run(config: Config) -> None:
    check(config)
    if origin_of(config.model.backbone) == OWN:
        raise InputError(
            f"backbone {config.model.backbone!r} is code of your own, which no specification can name: "
            "compute its features once, and compare on these (.npz)"
        )
    check_observe(config.data)
    trained = config.method and config.method != AUTO
    if trained and (note := missed_warmup(config, create(config.method, config.hp))):
        raise InputError(note)
