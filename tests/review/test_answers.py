"""What stands of a log of decisions."""

from __future__ import annotations

import pytest

from spml.review.answers import Answers
from spml.review.store import Decision

PAIR = ("a.jpg", "cat")


def log(*entries):
    """Rows from (reviewer, answer), or (reviewer, number of the row that is undone)."""
    return [
        Decision(
            number,
            *PAIR,
            answer if isinstance(answer, str) else "undo",
            reviewer,
            "",
            False,
            None if isinstance(answer, str) else answer,
        )
        for number, (reviewer, answer) in enumerate(entries, start=1)
    ]


@pytest.mark.parametrize(
    ("entries", "status"),
    [
        ([], "undecided"),
        ([("ann", "yes")], "yes"),
        ([("ann", "yes"), ("ann", "no")], "no"),
        ([("ann", "yes"), ("ann", "no"), ("ann", 2)], "yes"),
        ([("ann", "yes"), ("ann", 1)], "undecided"),
        ([("ann", "yes"), ("ann", 1), ("ann", "unsure")], "unsure"),
        ([("ann", "yes"), ("ben", "yes")], "yes"),
        ([("ann", "yes"), ("ben", "no")], "conflict"),
        ([("ann", "yes"), ("ben", "no"), ("ben", "yes")], "yes"),
        ([("ann", "yes"), ("ben", "no"), ("ben", 2)], "yes"),
        ([("ann", "unsure"), ("ben", "no")], "no"),
        ([("ann", "unsure"), ("ben", "no"), ("eve", "yes")], "conflict"),
    ],
)
def test_status(entries, status):
    answers = Answers()
    answers.follow(log(*entries))
    assert answers.status(PAIR) == status
    assert dict(answers.decided()) == ({} if status == "undecided" else {PAIR: status})


def test_a_log_may_be_followed_in_parts():
    rows = log(("ann", "yes"), ("ben", "no"), ("ann", "no"), ("ben", 2))
    answers = Answers()
    assert answers.follow(rows[:2]) == {PAIR}
    assert (answers.last, answers.status(PAIR)) == (2, "conflict")
    assert answers.follow([]) == set()
    answers.follow(rows[2:])
    assert (answers.last, answers.status(PAIR)) == (4, "no")
    assert answers.of(PAIR) == [rows[2]]
    assert answers.of(("b.jpg", "cat")) == []
