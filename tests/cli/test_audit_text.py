"""Output of `spml audit use` for an audit, line by line; the commands are tested with the runs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from spml.audit.selection import Contender, Selection
from spml.cli.audit import learned
from spml.decisions import Interval
from spml.metrics import PairedScore
from spml.runs.audits.use import MovedClass, UsedAudit


def used(**changes):
    moved = (MovedClass("dog", 0.4, 0.25), MovedClass("cat", 0.1, 0.2), MovedClass("cow", 0.05, 0.04))
    plain = UsedAudit(
        file=Path("s.csv"),
        samples=50,
        mean_labels=Interval(1.5, 1.4, 1.6),
        gamma=1.0,
        looks_biased=False,
        moved=moved,
        thresholds={},
        held_out={},
        selection=None,
        contradicted=0,
    )
    return plain._replace(**changes)


def contender(sp, z_sp, value, z_audited, z):
    observed = SimpleNamespace(sp=sp, z=z_sp)
    return Contender(observed, PairedScore(value, 0.05, 0.0, 0.0), z_audited, z)


def test_k_and_shares():
    assert learned(used()) == [
        "s.csv: 50 fully labelled samples",
        "K 1.50 labels per sample (95 % interval 1.40 to 1.60)",
        "shares of the samples, by known labels -> with the audit: dog 40.0 -> 25.0 %, cat 10.0 -> 20.0 %, "
        "cow 5.0 -> 4.0 %",
    ]


def test_only_classes_that_were_preferred_are_named():
    (line,) = learned(used(looks_biased=True, gamma=0.55))[3:]
    assert (
        "preferred as known labels: dog, cow (gamma 0.55; it is at most 0.7 in about two thirds of data sets"
        in line
    )


@pytest.mark.parametrize(
    ("count", "words"), [(1, "1 known label is not in the table"), (2, "2 known labels are not in the table")]
)
def test_contradictions(count, words):
    (line,) = learned(used(contradicted=count))[3:]
    assert words in line


def test_runs_that_the_two_judge_differently():
    contenders = {"a": contender(0.7, 0.0, 0.5, 0.0, 0.0), "run b": contender(0.68, 1.0, 0.6, -4.0, -2.12)}
    selection = Selection(contenders, "a", "run b", "run b", 2.12, ("be careful",))
    lines = learned(used(selection=selection))[3:]
    table = [line.split() for line in lines[2:4]]
    assert table[0] == ["run", "b", "68.00", "1.0", "60.0", "±5.0", "-4.0", "-2.1"]
    assert table[1] == ["a", "70.00", "0.0", "50.0", "±5.0", "0.0", "0.0"]
    assert {len(line) for line in lines[1:4]} == {len(lines[1])}
    text = "\n".join(lines)
    assert "behind: a in standard deviations" in text
    assert (
        "disagree: a is the best by the SP-score, run b by mAP of the audited samples, and run b by" in text
    )
    assert "run b is only 2.1 standard deviations ahead of a: label more samples" in text
    assert lines[-1] == "warning: be careful"


def test_a_clear_choice_needs_no_further_samples():
    contenders = {"a": contender(0.7, 0.0, 0.5, 0.0, 0.0), "b": contender(0.6, 3.0, 0.4, 2.0, 3.54)}
    text = "\n".join(learned(used(selection=Selection(contenders, "a", "a", "a", 3.54, ()))))
    assert "SP-score and audit agree: a is the best." in text
    assert "label more samples" not in text
