"""VLPL and GPR read pseudo-labels from a file, and refuse files that do not fit."""

from __future__ import annotations

import zipfile
from io import BytesIO

import numpy as np
import pytest
import torch

from spml.common.errors import InputError
from spml.labels import ObservedLabels
from spml.losses import epr_regulariser_loss, gpr_loss, vlpl_loss
from spml.methods.base import Batch, Facts, Outputs
from spml.methods.registry import create
from spml.testing import check_objective

FACTS = Facts(ObservedLabels.from_index([0, 2, 0], 3), ("a", "b", "c"), ("x", "y", "z"), 1.5)
GOOD = {
    "ids": np.array(["c", "other", "a", "b"]),
    "classes": np.array(["z", "x", "y"]),
    "labels": np.array([[1, 0, -1], [1, 1, 1], [0, 1, 1], [-1, 0, 0]]),
}
EXPECTED = torch.tensor([[1, 1, 0], [0, 0, -1], [0, -1, 1]], dtype=torch.int8)  # a b c by x y z


@pytest.fixture
def write(tmp_path):
    def save(**changes):
        path = tmp_path / "pseudo.npz"
        np.savez(path, **{k: v for k, v in (GOOD | changes).items() if v is not None})
        return str(path)

    return save


@pytest.mark.parametrize("method", ["vlpl", "gpr"])
def test_rows_and_classes_are_matched_by_name(method, write):
    objective = create(method, {"pseudo_labels": write()})
    objective.on_fit_start(FACTS)
    assert torch.equal(objective.pseudo, EXPECTED)
    assert torch.equal(objective.state_dict()["pseudo"], EXPECTED)


def test_vlpl_uses_the_rows_of_the_batch(write):
    objective = create("vlpl", {"pseudo_labels": write(), "beta_neg": 0.5, "alpha": 0.2})
    objective.on_fit_start(FACTS)
    z, rows = torch.randn(2, 3), torch.tensor([2, 0])
    actual = objective(Outputs(z, z), Batch(FACTS.observed.target(rows), rows))["vlpl"]
    expected = vlpl_loss(z, torch.tensor([0, 0]), EXPECTED[rows], beta_neg=0.5, alpha=0.2)
    assert actual.item() == expected.item()


def test_gpr_has_two_terms(write):
    objective = create(
        "gpr", {"pseudo_labels": write(), "reg": 0.3, "w": 2, "b": -2, "mu": 0.8, "sigma": 0.5}
    )
    assert objective.needs.batch_coupled
    assert not create("gpr", {"reg": 0}).needs.batch_coupled
    objective.on_fit_start(FACTS)
    z, rows = torch.randn(2, 3), torch.tensor([1, 2])
    terms = objective(Outputs(z, z), Batch(FACTS.observed.target(rows), rows))
    assert terms["gpr"].item() == gpr_loss(z, torch.tensor([2, 0]), EXPECTED[rows]).item()
    assert terms["regulariser"].item() == pytest.approx(
        0.3 * epr_regulariser_loss(z, mean_labels=1.5).item(), rel=1e-6
    )


@pytest.mark.parametrize("method", ["vlpl", "gpr"])
def test_names_make_pseudo_labels(method, write):
    objective = create(method, {})
    objective.on_fit_start(FACTS)
    assert objective.needs.names
    objective.on_names(torch.tensor([[0.31, 0.3, 0.39], [0.0, 1.0, 0.0], [0.2, 0.29, 0.51]]))
    expected = torch.tensor([[1, 0, 1], [0, 1, 0], [0, 0, 1]], dtype=torch.int8)
    assert torch.equal(objective.pseudo, expected)
    assert torch.equal(objective.state_dict()["pseudo"], expected)
    both = create(method, {"pseudo_labels": write()})
    both.on_fit_start(FACTS)
    with pytest.raises(InputError, match=r"`names` makes pseudo-labels, but hp\.pseudo_labels"):
        both.on_names(torch.ones(3, 3))


@pytest.mark.parametrize("method", ["vlpl", "gpr"])
def test_the_contract_holds_with_a_file(method, write):
    generator = np.random.default_rng(0)
    path = write(
        ids=np.array([f"sample {row}" for row in range(24)]),
        classes=np.array([f"class {column}" for column in range(7)]),
        labels=generator.integers(-1, 2, (24, 7)),
    )
    check_objective(method, pseudo_labels=path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": None}, "labels is not a file"),
        ({"ids": np.array([1, 2, 3, 4])}, "ids and classes are int64"),
        ({"ids": np.array(["a", "b", "c", "c"])}, "ids contain a name twice"),
        ({"ids": np.array(["a", "b", "d", "e"])}, "ids lack 1 of the 3 .* 'c'"),
        ({"classes": np.array(["x", "y", "w"])}, "classes lack 1 of the 3 .* 'z'"),
        ({"labels": GOOD["labels"].astype(float)}, "labels are float64"),
        ({"labels": GOOD["labels"][:3]}, r"labels are int64 \(3, 3\), with 4 ids and 3 classes"),
        ({"labels": 2 * GOOD["labels"]}, "2 for sample 'a', class 'x'"),
        ({"labels": np.array([["1"] * 3] * 4, dtype=object)}, "pseudo-labels could not be read"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(changes, message, write):
    with pytest.raises(InputError, match=message):
        create("vlpl", {"pseudo_labels": write(**changes)}).on_fit_start(FACTS)


def test_other_files_are_refused(tmp_path):
    wrong, header = tmp_path / "wrong.npz", tmp_path / "header.npz"
    array = BytesIO()
    np.save(array, np.array(["a", "b"]))
    with zipfile.ZipFile(header, "w") as archive:
        archive.writestr("ids.npy", array.getvalue().replace(b"(2,)", b"(2,i"))
    for path, content in (
        (tmp_path / "missing.npz", None),
        (wrong, b"not a zip file"),
        (wrong, b"PK\x03\x04"),
        (header, None),
    ):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(InputError, match=f"{path.name}: pseudo-labels could not be read"):
            create("gpr", {"pseudo_labels": str(path)}).on_fit_start(FACTS)
