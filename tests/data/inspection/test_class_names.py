"""Class names that are probably mistakes."""

from __future__ import annotations

import numpy as np
import pytest

from spml.data.inspection.class_names import ALIKE, EMPTY, NUMBERS, ONE_LETTER, SPACES, suspicious_names


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["cat", "dog"], []),
        (["cat ", "dog"], [(SPACES, ("cat ",))]),
        ([" ", "dog"], [(EMPTY, (" ",))]),
        (["1", "-2.5", "3a"], [(NUMBERS, ("1", "-2.5"))]),
        (
            ["T-shirt", "t shirt", "T_SHIRT", "tshirts"],
            [(ALIKE, ("T-shirt", "t shirt", "T_SHIRT")), (ONE_LETTER, ("T-shirt", "tshirts"))],
        ),
        (["horse", "house"], [(ONE_LETTER, ("horse", "house"))]),
        (["horse", "hrose"], [(ONE_LETTER, ("horse", "hrose"))]),
        (["horse", "horsey"], [(ONE_LETTER, ("horse", "horsey"))]),
        (["orse1", "horse1"], [(ONE_LETTER, ("orse1", "horse1"))]),
        (["horse", "shore"], []),
        (["cats", "cat"], []),
        (["part 1", "part 2", "part 12"], []),
        (["ﬁrefly", "firefly"], [(ALIKE, ("ﬁrefly", "firefly"))]),
        (["_", "-"], []),
    ],
)
def test_suspicious_names(names, expected):
    assert [(finding.problem, finding.names) for finding in suspicious_names(names)] == expected


def test_pairs_of_names_are_those_of_comparing_all():
    generator = np.random.default_rng(0)
    names = sorted({"".join(generator.choice(list("abc"), generator.integers(5, 8))) for _ in range(150)})
    pairs = {f.names for f in suspicious_names(names)}
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


def test_many_long_names_are_quick():
    assert suspicious_names(["x" * 5000 + str(i) for i in range(20)]) == ()
    assert len(suspicious_names([f"class{chr(0x4E00 + i)}" for i in range(3000)])) <= 50 * 3000
