"""The head whose logits are corrected by probabilities of other classes, against loops and numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from spml.data.matrix import FeatureMatrix
from spml.models import Top
from spml.models.heads import CorrelatedHead


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def known_head() -> CorrelatedHead:
    """z = (x, 0, -x) and A as given."""
    head = CorrelatedHead(1, 3)
    with torch.no_grad():
        head.last.weight.copy_(torch.tensor([[1.0], [0.0], [-1.0]]))
        head.last.bias.zero_()
        head.correlation.copy_(torch.tensor([[0.0, 2.0, -1.0], [0.5, 0.0, 0.0], [0.0, 4.0, 0.0]]))
        head.centre.copy_(torch.tensor([0.1, 0.2, 0.3]))
    return head


def test_a_new_head_is_the_linear_one_of_the_same_seed() -> None:
    logits = []
    for head in ("linear", "correlated"):
        torch.manual_seed(3)
        logits.append(Top(6, 5, head=head)(torch.ones(7, 6)).logits)
    assert torch.equal(*logits)


def test_logits_by_hand() -> None:
    logits = known_head()(torch.tensor([[0.0], [2.0]]))
    # x = 0: every probability is 1/2.
    expected = [[2 * 0.3 - 1 * 0.2, 0.5 * 0.4, 4 * 0.3]]
    expected += [[2 + 2 * 0.3 - (sigmoid(-2) - 0.3), 0.5 * (sigmoid(2) - 0.1), -2 + 4 * 0.3]]
    torch.testing.assert_close(logits, torch.tensor(expected))


def test_a_class_does_not_correct_itself() -> None:
    head, features = known_head(), torch.tensor([[0.7]])
    before = head(features)
    with torch.no_grad():
        head.correlation.fill_diagonal_(9.0)
    assert torch.equal(head(features), before)


def test_gradients_reach_every_correlation_but_the_diagonal() -> None:
    torch.manual_seed(0)
    top = Top(6, 4, head="correlated", scaling="raw")
    features, slope = torch.randn(5, 6), torch.randn(5, 4)
    outputs = top(features)
    outputs.logits.backward(slope)
    head = top.head
    assert isinstance(head, CorrelatedHead)
    assert head.correlation.grad is not None
    # With A = 0: the slope of a logit times the probability of the other class.
    expected = slope.T @ outputs.logits.detach().sigmoid()
    torch.testing.assert_close(head.correlation.grad, expected.fill_diagonal_(0))
    assert torch.equal(head.correlation.grad.diagonal(), torch.zeros(4))
    assert head.last.weight.grad is not None
    torch.testing.assert_close(head.last.weight.grad, slope.T @ features)


def test_the_gradient_of_the_linear_layer_passes_through_the_probabilities() -> None:
    head = known_head()
    head(torch.tensor([[0.0]]))[0, 0].backward()
    # d logit_0 / d b = 1, A[0, 1] p (1 - p), A[0, 2] p (1 - p) with p = 1/2
    assert head.last.bias.grad is not None
    torch.testing.assert_close(head.last.bias.grad, torch.tensor([1.0, 0.5, -0.25]))


def test_weight_decay_and_adam_leave_the_diagonal_at_zero() -> None:
    torch.manual_seed(0)
    top = Top(6, 4, head="correlated", scaling="raw")
    optimizer = torch.optim.AdamW(top.parameters(), lr=0.1, weight_decay=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        top(torch.randn(8, 6)).logits.square().sum().backward()
        optimizer.step()
    correlation = top.head.get_parameter("correlation").detach()
    assert torch.equal(correlation.diagonal(), torch.zeros(4))
    assert (correlation.abs() > 1e-3).sum() == 12


# -- co-occurrence ---------------------------------------------------------------------------------------


def test_co_occurrence_equals_a_loop_over_samples() -> None:
    logits = 3 * torch.randn(50, 6, generator=torch.Generator().manual_seed(0))
    head = CorrelatedHead(2, 6)
    head.start_from_co_occurrence(logits)
    values = [[sigmoid(z) for z in row] for row in logits.tolist()]
    for c, j in np.ndindex(6, 6):
        conditional = sum(p[c] * p[j] for p in values) / sum(p[j] for p in values)
        expected = 0.0 if c == j else conditional - sum(p[c] for p in values) / 50
        assert head.correlation[c, j].item() == pytest.approx(expected, abs=1e-6)
    torch.testing.assert_close(head.centre, torch.tensor(values).mean(0))


def test_independent_classes_and_those_never_predicted_start_at_zero() -> None:
    both = torch.tensor([[a, b, -1000.0] for a in (-1.0, 2.0) for b in (-2.0, 0.5, 3.0)])
    head = CorrelatedHead(1, 3)
    head.start_from_co_occurrence(both)
    torch.testing.assert_close(head.correlation[:2, :2], torch.zeros(2, 2))
    assert head.correlation[2].abs().max() == 0
    assert torch.isfinite(head.correlation).all()
    assert head.centre[2] == 0


def test_correlate_keeps_the_linear_layer_and_its_standardisation() -> None:
    torch.manual_seed(0)
    top = Top(4, 3, dropout=0.25)
    inputs = FeatureMatrix(np.random.default_rng(0).normal(2, 3, (20, 4)).astype(np.float32))
    top.fit_scaling(inputs)
    top.eval()
    features = inputs.fetch(range(20))
    logits = top(features).logits.detach()
    linear = top.head
    top.correlate(logits)
    assert isinstance(top.head, CorrelatedHead)
    assert top.head.last is linear
    assert not top.head.training
    assert top.settings()["head"] == "correlated"
    correlation = top.head.correlation.detach()
    assert correlation.abs().max() > 0.01
    probabilities = logits.sigmoid()
    expected = logits + (probabilities - probabilities.mean(0)) @ correlation.T
    torch.testing.assert_close(top(features).logits.detach(), expected)
    # The correction is centred: it does not change the mean logit.
    torch.testing.assert_close(top(features).logits.mean(0), logits.mean(0))


def test_log_probabilities_are_of_the_corrected_logits() -> None:
    top = Top(1, 3, head="correlated", scaling="raw", scores="log_softmax")
    top.head.load_state_dict(known_head().state_dict())
    features = torch.tensor([[0.3], [-1.0]])
    torch.testing.assert_close(top(features).logits, known_head()(features).log_softmax(1))
