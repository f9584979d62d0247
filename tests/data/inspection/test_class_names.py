"""Class names that are probably mistakes."""

from __future__ import annotations

import numpy as np
import pytest

from spml.data.class_names import (
    MISSING,
    RARE,
    TWIN,
    _one_letter_pairs,
    folded,
    group_alike,
    propose_names,
    spelled,
)


@pytest.mark.parametrize(
    "names",
    [
        ("T-shirt", "t shirt", "T_SHIRT"),
        ("\ufb01refly", "firefly"),
        ("cat", "c\u200bat"),
        ("caf\u00e9", "cafe\u0301"),
        ("dog\u2019s", "dog's"),
        ("T\u2013shirt", "t-shirt"),
        ("\u2764\ufe0f", "\u2764"),
        ("x 1-2", "X1_2"),
    ],
)
def test_spellings_of_one_name(names):
    assert len({*map(folded, names)}) == 1


def test_names_that_are_not_the_same():
    assert len(group_alike(["A-", "A", "A+", "x1-2", "x12", "x-1", "_", "-", "cats", "cat"])) == 10


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("horse", "house", True),
        ("horse", "hrose", True),
        ("horse", "horsey", True),
        ("orse1", "horse1", True),
        ("horse", "shore", False),
        ("cats", "cat", False),
        ("part 1", "part 12", False),
    ],
)
def test_names_one_letter_apart(one, other, expected):
    assert bool(propose_names({one: 30, other: 1})) == expected


def test_pairs_of_names_are_those_of_comparing_all():
    generator = np.random.default_rng(0)
    names = sorted({"".join(generator.choice(list("abc"), generator.integers(5, 8))) for _ in range(150)})
    pairs = {*_one_letter_pairs(names)}
    slow = {(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if _distance(a, b) == 1}
    assert {tuple(sorted(pair)) for pair in pairs} == slow
    assert len(slow) > 50


def _distance(one, other):
    """Optimal string alignment: insert, delete, replace, swap neighbours."""
    d = np.zeros((len(one) + 1, len(other) + 1), int)
    d[:, 0], d[0] = np.arange(len(one) + 1), np.arange(len(other) + 1)
    for i in range(1, len(one) + 1):
        for j in range(1, len(other) + 1):
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + (one[i - 1] != other[j - 1]))
            if i > 1 and j > 1 and one[i - 1] == other[j - 2] and one[i - 2] == other[j - 1]:
                d[i, j] = min(d[i, j], d[i - 2, j - 2] + 1)
    return d[-1, -1]


def test_too_many_names_are_not_compared(monkeypatch):
    monkeypatch.setattr("spml.data.class_names.MAX_CLASSES", 2)
    assert propose_names({"horse": 30, "hrose": 1, "cat": 5}) == ()
    assert len(propose_names({"horse": 30, "hrose": 1, "cat": 5, "Cat": 1})) == 1
    assert len(propose_names({"horse": 30, "hrose": 1})) == 1


def test_many_long_names_are_quick():
    assert [*_one_letter_pairs(["x" * 5000 + str(i) for i in range(20)])] == []
    assert len([*_one_letter_pairs([f"class{chr(0x4E00 + i)}" for i in range(3000)])]) <= 50 * 3000


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"cat": 3, "dog": 1}, []),
        ({"Dog": 2, "dog": 5, "DOG": 1}, [("Dog", "dog", TWIN), ("DOG", "dog", TWIN)]),
        ({"Dog": 5, "dog": 5}, [("Dog", "dog", TWIN)]),
        ({"c\u200bat": 9, "cat": 1, " x ": 1}, [("c\u200bat", "cat", TWIN), (" x ", "x", TWIN)]),
        ({"cat": 9, "Unknown": 2, "n/a": 1}, [("Unknown", "", MISSING), ("n/a", "", MISSING)]),
        ({"horse": 30, "hrose": 3, "house": 3}, [("hrose", "horse", RARE), ("house", "horse", RARE)]),
        ({"horse": 29, "hrose": 3}, []),
        ({"horse": 30, "hrose": 0}, []),
        ({"Horse": 20, "horse": 10, "Hrose": 2}, [("horse", "Horse", TWIN), ("Hrose", "Horse", RARE)]),
        # The target of a rare name has a frequent one itself: no chain is left to follow.
        ({"horses": 100, "horse": 10, "hrose": 1}, [("horse", "horses", RARE), ("hrose", "horses", RARE)]),
        ({"part 1": 50, "part 2": 1}, []),
    ],
)
def test_proposals(counts, expected):
    found = [(each.given, each.wanted, each.why) for each in propose_names(counts)]
    assert found == expected


def test_spellings_that_look_alike_are_told_apart():
    assert spelled("caf\u00e9") == "'caf\u00e9'"
    assert spelled("cafe\u0301") == "'cafe\\u0301'"
    assert spelled("c\u200bat") == "'c\\u200bat'"
