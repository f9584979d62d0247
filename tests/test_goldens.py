"""Our losses equal the published formulas and what the authors' released code computes."""

from __future__ import annotations

import pytest

from tests import goldens


@pytest.mark.shared
def test_every_record_of_a_built_loss_is_within_tolerance(shared):
    results, unclaimed = goldens.run(shared / "goldens")
    assert not unclaimed
    assert len(results) == 507
    permitted = ("smile_beta_kl", "pumlc_")
    assert all(r.case.name.startswith(permitted) for r in results if r.corrected)
    assert sum(bool(r.corrected) for r in results) == 5
    missed = [result.case.record["grad_key"] for result in results if not result.passed]
    assert not missed


@pytest.mark.shared
def test_a_wrong_loss_would_be_seen(shared):
    case = next(c for c in goldens.cases(shared / "goldens", "exact") if c.name == "exact_an")
    right = {entry[0].pattern: entry[1] for entry in goldens.ours()}[r"(exact_)?an"](case)
    assert goldens.compare(case, lambda _: right).passed
    assert not goldens.compare(case, lambda _: lambda logits: right(logits) * (1 + 1e-8)).passed


def test_a_folder_without_records_is_no_success(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["goldens", str(tmp_path)])
    assert goldens.main() == 2
    assert "holds no records" in capsys.readouterr().err
