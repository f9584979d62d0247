"""Class names that are probably mistakes: spelt twice, with stray spaces, empty, or numbers."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SHORTEST = 5  # letters from which on two names that differ in one of them are reported
LONGEST = 100  # letters of the names that are compared by letters
MOST = 20_000  # classes up to which names are compared by letters
EMPTY, SPACES, NUMBERS = "empty", "spaces around the name", "numbers only"
ALIKE, ONE_LETTER = "same up to case, spaces and underscores", "one letter apart"


@dataclass(frozen=True)
class Finding:
    """Class names to look at.

    Attributes:
        problem: what is odd about them.
        names: the names; those of `ALIKE` and `ONE_LETTER` may mean the same class.
    """

    problem: str
    names: tuple[str, ...]


def suspicious_names(classes: Sequence[str]) -> tuple[Finding, ...]:
    """What is odd about class names; nothing is changed or merged.

    Names are one letter apart if one letter was added, left out or replaced, or two neighbours swapped; names
    of fewer than 5 letters and names that differ in their digits only (`part 1`, `part 2`) are not reported.

    Example:
        >>> suspicious_names(["traffic light", "Traffic_Light", "horse", "hrose"])[1].names
        ('horse', 'hrose')
    """
    singles = {
        EMPTY: [name for name in classes if not name.strip()],
        SPACES: [name for name in classes if name.strip() and name != name.strip()],
        NUMBERS: [name for name in classes if re.fullmatch(r"[-+]?\d+([.,]\d+)?", name.strip())],
    }
    found = [Finding(problem, tuple(names)) for problem, names in singles.items() if names]
    same: dict[str, list[str]] = defaultdict(list)
    for name in classes:
        if name.strip():
            same[folded(name)].append(name)
    found += [Finding(ALIKE, tuple(names)) for names in same.values() if len(names) > 1]
    if len(same) <= MOST:
        first = {folded: names[0] for folded, names in same.items()}
        found += [Finding(ONE_LETTER, (first[one], first[other])) for one, other in _pairs(list(first))]
    return tuple(found)


def folded(name: str) -> str:
    """The name without what people write in two ways; symbols alone stay as they are."""
    plain = unicodedata.normalize("NFKC", name).casefold().strip()
    return re.sub(r"[\s_\-]+", "", plain) or plain


def _pairs(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Distinct names one letter apart. They agree after at most one letter is left out of each, so that
    candidates are found without comparing all pairs."""
    shared: dict[str, list[int]] = defaultdict(list)
    seen = set()
    for number, name in enumerate(names):
        if not SHORTEST <= len(name) <= LONGEST:
            continue
        variants = {name} | {name[:place] + name[place + 1 :] for place in range(len(name))}
        for variant in sorted(variants):
            # A name has few neighbours unless names enumerate; the newest ones are enough then.
            for other in shared[variant][-50:]:
                if (other, number) not in seen and _one_letter_apart(names[other], name):
                    seen.add((other, number))
                    yield names[other], name
            shared[variant].append(number)


def _one_letter_apart(one: str, other: str) -> bool:
    if re.sub(r"\d+", "", one) == re.sub(r"\d+", "", other):
        return False
    if len(one) != len(other):
        short, long = sorted((one, other), key=len)
        return any(long[:place] + long[place + 1 :] == short for place in range(len(long)))
    places = [place for place, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
    return len(places) == 1 or (
        len(places) == 2
        and places[1] == places[0] + 1
        and one[places[0]] == other[places[1]]
        and one[places[1]] == other[places[0]]
    )
