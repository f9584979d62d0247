"""Class names that are probably mistakes: spelled in two ways, with stray spaces, empty, or numbers."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MIN_LENGTH, MAX_LENGTH = 5, 100  # letters of the names that are compared letter by letter
MAX_CLASSES = 20_000  # more names are not compared letter by letter
EMPTY, SPACES, NUMBERS = "empty", "spaces around the name", "numbers only"
ALIKE, ONE_LETTER = "same up to case, spaces and underscores", "one letter apart"


@dataclass(frozen=True)
class Finding:
    """Class names with the same oddity.

    Attributes:
        problem: What is odd about them.
        names: The names; those of `ALIKE` and `ONE_LETTER` may mean the same class.
    """

    problem: str
    names: tuple[str, ...]


def suspicious_names(classes: Sequence[str]) -> tuple[Finding, ...]:
    """Find odd class names; none is changed or merged.

    Names are one letter apart if one letter was added, left out or replaced, or two neighbours swapped; names
    of fewer than 5 letters and names that differ in their digits only (`part 1`, `part 2`) are not reported.

    Example:
        >>> suspicious_names(["traffic light", "Traffic_Light", "horse", "hrose"])[1].names
        ('horse', 'hrose')
    """
    odd_alone = {
        EMPTY: [name for name in classes if not name.strip()],
        SPACES: [name for name in classes if name.strip() and name != name.strip()],
        NUMBERS: [name for name in classes if re.fullmatch(r"[-+]?\d+([.,]\d+)?", name.strip())],
    }
    findings = [Finding(problem, tuple(names)) for problem, names in odd_alone.items() if names]
    alike = group_alike([name for name in classes if name.strip()])
    findings += [Finding(ALIKE, tuple(names)) for names in alike.values() if len(names) > 1]
    if len(alike) <= MAX_CLASSES:
        pairs = _one_letter_pairs(list(alike))
        findings += [Finding(ONE_LETTER, (alike[left][0], alike[right][0])) for left, right in pairs]
    return tuple(findings)


def group_alike(classes: Sequence[str]) -> dict[str, list[str]]:
    """Class names by their folded form, in which case, spaces, hyphens and underscores do not count."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in classes:
        groups[_folded(name)].append(name)
    return groups


def _folded(name: str) -> str:
    """The name without the differences in spelling that people make; symbols alone stay as they are."""
    plain = unicodedata.normalize("NFKC", name).casefold().strip()
    return re.sub(r"[\s_\-]+", "", plain) or plain


def _one_letter_pairs(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of distinct names that are one letter apart.

    Such names agree after at most one letter is left out of each, so candidates are found without comparing
    all pairs.
    """
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
    if re.sub(r"\d+", "", left) == re.sub(r"\d+", "", right):
        return False
    if len(left) != len(right):
        short, long = sorted((left, right), key=len)
        return any(long[:i] + long[i + 1 :] == short for i in range(len(long)))
    different = [i for i, (a, b) in enumerate(zip(left, right, strict=True)) if a != b]
    if len(different) != 2:
        return len(different) == 1
    first, second = different
    return second == first + 1 and left[first] == right[second] and left[second] == right[first]
