"""Labels of mixed samples, and the consistency loss with them."""

from __future__ import annotations

import pytest
import torch

from spml.losses import mixed_consistency_loss, mixed_log_target
from tests.reference.pumlc import mixed, mixed_labels

TARGET = torch.tensor([[1, 0, -1, 0], [0, 0, 0, 0], [-1, -1, 1, 0], [0, 1, -1, 0]], dtype=torch.int8)
INDEX = torch.tensor([3, 0, 2, 2])
PARTNER = torch.tensor([2, 1, 0, 3])
SHARE = torch.tensor([0.3, 0.9, 0.5, 0.0])
Z = 3 * torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
MIXED = 3 * torch.randn(4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def expected_labels() -> list[list[float]]:
    return mixed_labels(Z.tolist(), TARGET.tolist(), PARTNER.tolist(), SHARE.double().tolist())


def test_mixed_labels_equal_the_slow_reference():
    found = mixed_log_target(Z, TARGET, PARTNER, SHARE)
    expected = torch.tensor(expected_labels(), dtype=torch.float64)
    assert torch.allclose(found.exp(), expected, rtol=1e-12, atol=0)
    # A known negative of a row mixed with itself, a known positive with a known negative.
    assert expected[3, 2].item() == pytest.approx(torch.sigmoid(Z[3, 2]).item(), rel=1e-12)
    assert expected[0, 0] == pytest.approx(0.3 + 0.7 * torch.sigmoid(Z[2, 0]).item(), rel=1e-6)
    assert torch.allclose(expected[1], torch.sigmoid(Z[1]))


def test_indices_are_a_matrix_with_one_known_positive():
    matrix = torch.zeros(4, 4, dtype=torch.int8).scatter_(1, INDEX[:, None], 1)
    found = mixed_log_target(Z, INDEX, PARTNER, SHARE)
    assert torch.equal(found, mixed_log_target(Z, matrix, PARTNER, SHARE))
    assert found[1, 0].item() == pytest.approx(0, abs=1e-12)
    assert found[3, 2] == 0


def test_the_loss_equals_the_slow_reference():
    labels = expected_labels()
    found = mixed_consistency_loss(MIXED, torch.tensor(labels, dtype=torch.float64).log())
    assert found.item() == pytest.approx(mixed(MIXED.tolist(), labels), rel=1e-12)
    z = MIXED.clone().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda z: mixed_consistency_loss(z, mixed_log_target(Z, INDEX, PARTNER, SHARE)), z
    )


def test_neither_the_samples_nor_the_labels_get_a_gradient():
    z, mixture = Z.clone().requires_grad_(), MIXED.clone().requires_grad_()
    log_target = mixed_log_target(z, INDEX, PARTNER, SHARE)
    assert not log_target.requires_grad
    mixed_consistency_loss(mixture, log_target.requires_grad_()).backward()
    assert log_target.grad is None
    assert (mixture.grad != 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [1e4, 100.0, 20.0])
@pytest.mark.parametrize("share", [0.0, 1e-30, 0.5, 1.0])
def test_extreme_logits_are_finite(dtype, size, share):
    z = (Z.sign() * size).to(dtype)
    for target in (TARGET, INDEX):
        log_target = mixed_log_target(z, target, PARTNER, torch.full((4,), share))
        assert log_target.dtype == torch.float32
        assert log_target.isfinite().all()
        mixture = (MIXED.sign() * size).to(dtype).requires_grad_()
        loss = mixed_consistency_loss(mixture, log_target)
        loss.backward()
        assert loss.isfinite()
        assert mixture.grad.isfinite().all()


def test_an_empty_batch_is_zero():
    empty = torch.zeros(0, 4)
    target = torch.zeros(0, dtype=torch.int64)
    log_target = mixed_log_target(empty, target, target, torch.zeros(0))
    assert mixed_consistency_loss(empty, log_target).item() == 0


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="log_target must be floating point with the shape of the logits"):
        mixed_consistency_loss(Z, Z[:2])
    with pytest.raises(ValueError, match="log_target must be"):
        mixed_consistency_loss(Z, TARGET)
    with pytest.raises(TypeError, match="Soft targets"):
        mixed_log_target(Z, Z, PARTNER, SHARE)
