"""`spml audit` on the command line, and `spml.audit` in Python."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from spml.audit.folder import read_audit
from spml.audit.selection import Contender, Selection
from spml.cli.audit import learned
from spml.decisions import Interval
from spml.engine import Interrupted
from spml.metrics import PairedScore
from spml.runs.audits import find as auditing
from spml.runs.audits.use import MovedClass, UsedAudit
from tests.helpers.commands import execute, fails
from tests.helpers.features import train_hidden


@pytest.fixture(scope="module")
def run(features, tmp_path_factory):
    output = tmp_path_factory.mktemp("runs") / "one run"
    return train_hidden(features, output, "--head lda --mean_labels 2")


@pytest.mark.long
def test_an_audit_says_what_is_missing_and_what_to_do_next(run, capsys):
    execute("audit", run, "--top 40")
    printed = capsys.readouterr().out
    audit = read_audit(run / "audit")
    lines = printed.splitlines()
    assert lines[0].startswith("300 samples, 4 classes, 2 labels per sample (stated): 50% of the labels are")
    assert f"probably missing (probability above .5): {audit.about.probable}" in lines
    assert (
        f"listed: 40; expected to be right: about {audit.about.expected:.2g} of 40 (+-15 points if" in printed
    )
    header = lines.index("rank  prob.  probably missing  given  file")
    for line, row in zip(lines[header + 1 : header + 11], audit.missing, strict=False):
        assert line.split() == [str(row.rank), f"{row.probability:.2f}", row.label, row.given, row.file]
    assert lines[header + 11] == ""
    assert lines[header + 12].split() == ["class", "known", "hidden", "separation"]
    separations = [float(line.split()[3]) for line in lines[header + 13 : header + 17]]
    assert separations == sorted(separations)
    assert any(line.startswith("warning: ") and "uniform draw" in line for line in lines)
    assert lines[-1] == f"next: spml review '{run / 'audit'}'"


def test_the_yield_of_the_first_entries_is_told(run, capsys, tmp_path):
    execute("audit", run, "--top 0 --min-probability 0 --output", tmp_path / "all")
    printed = capsys.readouterr().out
    rows = read_audit(tmp_path / "all").missing
    assert 300 < len(rows) < 1000
    first, second = (sum(row.probability for row in rows[:n]) for n in (100, 300))
    assert f"expected to be right: {first:.0f} of the first 100, {second:.0f} of the first 300\n" in printed


def test_data_and_its_settings_are_those_of_the_training_unless_stated(run, features, tmp_path):
    execute("audit", run, "--output", tmp_path / "one")
    options = "--data.observe_seed 7 --mean-labels 2.2 --folds 3 --per-class 5 --output"
    execute("audit", run, features, options, tmp_path / "two")
    one, two = (read_audit(tmp_path / name).about for name in ("one", "two"))
    changed = {name for name in one.data if one.data[name] != two.data[name]}
    assert changed == {"observe_seed"}
    assert one.data["observe"] == "single"
    assert one.fingerprint != two.fingerprint
    assert (one.mean_labels, two.mean_labels) == (2.0, 2.2)
    assert two.how.startswith("3 solutions of lda")
    assert two.listed == 20


def test_data_that_is_named_twice_is_refused(run, features, capsys):
    assert "named twice" in fails(capsys, "audit", run, features, "--data.path other.npz")


def test_an_interrupted_audit_says_how_it_goes_on(run, tmp_path, capsys, monkeypatch):
    def interrupted(*arguments, **options):
        raise Interrupted("stopped after epoch 3")

    monkeypatch.setattr(auditing, "score_samples", interrupted)
    said = fails(capsys, "audit", run, "--output", tmp_path / "audit", code=130)
    assert said.strip() == "spml audit: stopped after epoch 3; the same command goes on with what is saved."


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
