"""What the log of decisions says about each entry: the answers that stand, and whether they agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from .store import Decision

Status = Literal["undecided", "yes", "no", "unsure", "conflict"]
STATUSES: tuple[Status, ...] = ("undecided", "yes", "no", "unsure", "conflict")

Pair = tuple[str, str]
"""Name of a sample and of a class."""


class Answers:
    """Answers that stand, from a log that is read once and followed.

    A later answer of the same reviewer replaces an earlier one, and an undo brings the earlier one back.
    Answers of several reviewers stand next to each other.
    """

    def __init__(self) -> None:
        # Of each pair, the answers of each reviewer that have not been taken back, the oldest first.
        self._standing: dict[Pair, dict[str, list[Decision]]] = {}
        self.last = 0
        """Number of the newest row that has been followed."""

    def follow(self, decisions: Iterable[Decision]) -> set[Pair]:
        """Take in the next rows of the log, and return the pairs that they are about."""
        pairs = set()
        for decision in decisions:
            pair = decision.file, decision.label
            of_reviewer = self._standing.setdefault(pair, {}).setdefault(decision.reviewer, [])
            if decision.undoes is None:
                of_reviewer.append(decision)
            else:
                of_reviewer[:] = [answer for answer in of_reviewer if answer.id != decision.undoes]
            pairs.add(pair)
            self.last = decision.id
        return pairs

    def of(self, pair: Pair) -> list[Decision]:
        """The newest answer of each reviewer to a pair, the oldest of them first."""
        newest = [answers[-1] for answers in self._standing.get(pair, {}).values() if answers]
        return sorted(newest, key=lambda decision: decision.id)

    def status(self, pair: Pair) -> Status:
        """What the answers to a pair amount to; `conflict` if one says yes and another one no."""
        answers = {decision.answer for decision in self.of(pair)}
        if {"yes", "no"} <= answers:
            return "conflict"
        for status in ("yes", "no", "unsure"):
            if status in answers:
                return status
        return "undecided"

    def decided(self) -> Iterator[tuple[Pair, Status]]:
        """Pairs that have an answer, and what their answers amount to."""
        for pair in self._standing:
            status = self.status(pair)
            if status != "undecided":
                yield pair, status
