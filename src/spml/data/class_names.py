"""Class names that are probably mistakes, and wanted names for them: other spellings of a class, words for a
missing value, and misspelled names."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..common.safe import quote
from .values import is_blank

MIN_LENGTH, MAX_LENGTH = 5, 100  # letters of the names that are compared letter by letter
MAX_CLASSES = 20_000  # more names are not compared letter by letter
MISSING, TWIN, RARE = "word for a missing value", "other spelling", "rare name one letter from a frequent one"
FREQUENT = 10  # times as often as a rare name, at least
# Joiners and variation selectors belong to emoji and to some scripts, so they only count as no difference.
_INVISIBLE = re.compile("[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
_JOINERS = re.compile("[\u034f\u200c\u200d\ufe00-\ufe0f]")
_DASHES = re.compile("[\u2010-\u2015\u2212\ufe58\ufe63\uff0d]")
_APOSTROPHES = re.compile("[\u2018\u2019\u02bc\u00b4`]")


@dataclass(frozen=True)
class Proposal:
    """Another name for a class."""

    given: str  # name in the data
    wanted: str  # name to use; empty to leave the class out
    why: str  # `MISSING`, `TWIN` or `RARE`


def propose_names(counts: Mapping[str, int]) -> tuple[Proposal, ...]:
    """Propose wanted names for class names that are probably mistakes, given the number of samples of each.

    Words for missing values are left out; of several spellings the most frequent one is wanted; a name of
    which a `FREQUENT` times more frequent one is one letter apart is treated as a misspelling of it. Names
    are one letter apart if one letter was added, left out or replaced, or two neighbours swapped; names of
    fewer than 5 letters and names that differ in their digits only (`part 1`, `part 2`) are not compared.

    Example:
        >>> counts = {"cat": 30, "Cat": 2, "null": 3}
        >>> [(each.given, each.wanted) for each in propose_names(counts)]
        [('Cat', 'cat'), ('null', '')]
    """
    missing = {name for name in counts if is_blank(_INVISIBLE.sub("", name).strip())}
    groups = group_alike(name for name in counts if name not in missing)
    total = {key: sum(counts[name] for name in names) for key, names in groups.items()}
    most = {key: max(names, key=lambda name: (counts[name], name)) for key, names in groups.items()}
    wanted = {key: _INVISIBLE.sub("", name).strip() for key, name in most.items()}
    near: dict[str, list[str]] = defaultdict(list)
    for pair in _one_letter_pairs(list(groups)):
        rare, frequent = sorted(pair, key=lambda key: total[key])
        if total[frequent] >= FREQUENT * total[rare] > 0:
            near[rare].append(frequent)
    for key in sorted(near, key=lambda key: -total[key]):  # so that a target has its own name already
        wanted[key] = wanted[max(near[key], key=lambda other: total[other])]
    proposals = []
    for name in counts:
        key = folded(name)
        if name in missing:
            proposals.append(Proposal(name, "", MISSING))
        elif name != wanted[key]:
            proposals.append(Proposal(name, wanted[key], RARE if key in near else TWIN))
    return tuple(proposals)


def group_alike(classes: Iterable[str]) -> dict[str, list[str]]:
    """Class names by their folded form, see `folded`."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in classes:
        groups[folded(name)].append(name)
    return groups


def folded(name: str) -> str:
    """The name without the differences in spelling that people make; symbols alone stay as they are.

    Case, blanks, underscores, hyphens in words, invisible characters and the Unicode form do not count. A
    hyphen counts in front of a number and at the end: -1 is not 1, and A- is not A.
    """
    visible = _JOINERS.sub("", _INVISIBLE.sub("", name))
    plain = unicodedata.normalize("NFKC", visible).casefold().strip()
    plain = _APOSTROPHES.sub("'", _DASHES.sub("-", plain))

    def between(gap: re.Match[str]) -> str:
        return "-" if (plain[gap.start() - 1] + plain[gap.end()]).isdigit() else ""

    words = re.sub(r"(?<=\w)[\s_-]+(?=\w)", between, plain)
    return re.sub(r"[\s_]+", "", words) or plain or name


def spelled(name: str) -> str:
    """A quoted name in which spellings that look alike differ: other Unicode forms are escaped."""
    return quote(name) if unicodedata.is_normalized("NFC", name) else ascii(name)


def _one_letter_pairs(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of distinct names that are one letter apart; none if there are more than `MAX_CLASSES` names.

    Such names agree after at most one letter is left out of each, so candidates are found without comparing
    all pairs.
    """
    if len(names) > MAX_CLASSES:
        return
    shared: dict[str, list[int]] = defaultdict(list)
    seen = set()
    for number, name in enumerate(names):
        if not MIN_LENGTH <= len(name) <= MAX_LENGTH:
            continue
        variants = {name} | {name[:i] + name[i + 1 :] for i in range(len(name))}
        for variant in sorted(variants):
            # A name has few neighbours unless names enumerate; the newest ones are enough then.
            for earlier in shared[variant][-50:]:
                if (earlier, number) not in seen and _one_letter_apart(names[earlier], name):
                    seen.add((earlier, number))
                    yield names[earlier], name
            shared[variant].append(number)


def _one_letter_apart(left: str, right: str) -> bool:
    """Whether names that agree after at most one letter is left out of each are one letter apart."""
    if re.sub(r"\d+", "", left) == re.sub(r"\d+", "", right):
        return False
    if len(left) != len(right):
        return True
    first, *further = (i for i, (a, b) in enumerate(zip(left, right, strict=True)) if a != b)
    swapped = left[first : first + 2] == right[first : first + 2][::-1]
    return not further or (len(further) == 1 and swapped)
