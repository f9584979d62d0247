"""Our losses equal the published formulas and what the authors' released code computes."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from spml.losses import epr_loss, role_loss
from tests import goldens
from tests.reference.epr import epr
from tests.reference.role import role


@pytest.mark.shared
def test_every_record_of_a_built_loss_is_within_tolerance(shared):
    results, unclaimed = goldens.run(shared / "goldens")
    assert not unclaimed
    assert len(results) == 507
    assert all(r.case.name.startswith("pumlc_") for r in results if r.corrected)
    assert sum(bool(r.corrected) for r in results) == 2
    missed = [result.case.record["grad_key"] for result in results if not result.passed]
    assert not missed


# Compared in test_queries.py and test_lac.py.
ELSEWHERE = ("lac_net", "lac_groupwise_linear", "lac_stage2", "mime_net", "smile_img_net")


@pytest.mark.shared
def test_records_of_papers_without_a_network_are_within_tolerance(shared):
    results, unclaimed = goldens.run(shared / "goldens" / "networks")
    assert all(case.name.startswith(ELSEWHERE) for case in unclaimed)
    assert len(results) == 190
    assert [result.case.record["grad_key"] for result in results if not result.passed] == []
    assert not any(result.corrected for result in results)


@pytest.mark.shared
def test_a_wrong_loss_is_a_miss(shared):
    case = next(c for c in goldens.cases(shared / "goldens", "exact") if c.name == "exact_an")
    right = {entry[0].pattern: entry[1] for entry in goldens.ours()}[r"(exact_)?an"](case)
    assert goldens.compare(case, lambda _: right).passed
    assert not goldens.compare(case, lambda _: lambda logits: right(logits) * (1 + 1e-8)).passed


def save_records(folder, mean_labels):
    """Write records of EPR and ROLE on an invented input, computed with K = 3.2 but stating `mean_labels`."""
    generator = torch.Generator().manual_seed(0)
    logits, estimates = torch.randn(2, 6, 9, generator=generator, dtype=torch.float64)
    observed = torch.eye(9, dtype=torch.int8)[:6]
    arrays = {"logits": logits, "est_logits": estimates, "obs": observed}
    np.savez(folder / "inputs.npz", **{f"mine/{name}": value.numpy() for name, value in arrays.items()})
    plain = [value.tolist() for value in (logits, observed, estimates)]
    losses = {"epr": epr(*plain[:2], 3.2, 1.0, "elements"), "role_wrt_logits": role(*plain, 3.2)}
    z = logits.clone().requires_grad_()
    terms = epr_loss(z, observed, mean_labels=3.2), role_loss(z, observed, estimates, mean_labels=3.2)
    records, gradients = {}, {}
    for (name, loss), term in zip(losses.items(), terms, strict=True):
        records[name] = {
            "dtype": "f64", "input": "mine", "wrt": "logits", "grad_key": f"{name}|mine", "loss": loss,
            "hp": {"k": mean_labels},
        }  # fmt: skip
        gradients[f"{name}|mine"] = torch.autograd.grad(term, z)[0].numpy()
    (folder / "exact.json").write_text(json.dumps(records))
    np.savez(folder / "exact.npz", **gradients)


@pytest.mark.parametrize(("mean_labels", "passed"), [(3.2, True), (1.5, False)])
def test_mean_labels_per_sample_come_from_the_record(tmp_path, mean_labels, passed):
    save_records(tmp_path, mean_labels)
    results, unclaimed = goldens.run(tmp_path)
    assert not unclaimed
    assert [result.passed for result in results] == [passed, passed]


def test_a_folder_without_records_is_an_error(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["goldens", str(tmp_path)])
    assert goldens.main() == 2
    assert "no records" in capsys.readouterr().err
