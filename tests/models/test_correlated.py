"""The head whose logits are corrected by probabilities of other classes, against loops and numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from spml.common.errors import InputError
from spml.config import ModelConfig
from spml.data.matrix import FeatureMatrix
from spml.models import Classifier, Top, build_backbone, load_classifier, save_classifier
from spml.models.heads import CorrelatedHead
from tests.helpers.networks import FEATURES, GREY, describe


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


def test_a_new_head_is_linear() -> None:
    torch.manual_seed(0)
    top, plain = Top(6, 5, head="correlated"), Top(6, 5)
    plain.head.load_state_dict(top.head.last.state_dict())  # type: ignore[union-attr]
    features = torch.randn(7, 6)
    assert torch.equal(top(features).logits, plain(features).logits)


def test_a_new_head_starts_with_the_weights_of_a_linear_one_of_the_same_seed() -> None:
    tops = []
    for head in ("linear", "correlated"):
        torch.manual_seed(3)
        tops.append(Top(6, 5, head=head))
    assert torch.equal(tops[0].head.weight, tops[1].head.last.weight)  # type: ignore[union-attr]


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


def test_co_occurrence_by_hand() -> None:
    """Classes 0 and 1 are predicted together, class 2 where they are not."""
    probabilities = torch.tensor([[0.8, 0.9, 0.1], [0.6, 0.7, 0.2], [0.1, 0.2, 0.9]], dtype=torch.float64)
    head = CorrelatedHead(1, 3)
    head.start_from_co_occurrence(probabilities.logit().float())
    torch.testing.assert_close(head.centre, torch.tensor([0.5, 0.6, 0.4]))
    # P(0 | 1) = (.72 + .42 + .02) / 1.8,  P(0 | 2) = (.08 + .12 + .09) / 1.2,  P(1 | 2) = .41 / 1.2
    expected = [
        [0, 1.16 / 1.8 - 0.5, 0.29 / 1.2 - 0.5],
        [1.16 / 1.5 - 0.6, 0, 0.41 / 1.2 - 0.6],
        [0.29 / 1.5 - 0.4, 0.41 / 1.8 - 0.4, 0],
    ]
    torch.testing.assert_close(head.correlation.detach(), torch.tensor(expected))


def test_co_occurrence_equals_a_loop_over_samples() -> None:
    logits = 3 * torch.randn(50, 6, generator=torch.Generator().manual_seed(0))
    head = CorrelatedHead(2, 6)
    head.start_from_co_occurrence(logits)
    values = [[sigmoid(z) for z in row] for row in logits.tolist()]
    for c, j in np.ndindex(6, 6):
        conditional = sum(p[c] * p[j] for p in values) / sum(p[j] for p in values)
        expected = 0.0 if c == j else conditional - sum(p[c] for p in values) / 50
        assert head.correlation[c, j].item() == pytest.approx(expected, abs=1e-6)


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


# -- saving ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("images", [False, True])
def test_a_saved_head_is_the_same_after_loading(images: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = ModelConfig()
    spec = describe(config, GREY if images else FEATURES)
    backbone = build_backbone(spec, config)
    top = Top(backbone.num_features, 2, head="correlated", scaling="raw" if images else "standard")
    classifier = Classifier(backbone, top).eval()
    with torch.no_grad():
        for tensor in (*top.head.parameters(), *top.head.buffers()):
            tensor.normal_()
    save_classifier(tmp_path, classifier, spec, {"classes": ["a", "b"]})
    assert json.loads((tmp_path / "model.json").read_text())["top"]["head"] == "correlated"
    loaded, _ = load_classifier(tmp_path)
    samples = torch.randint(0, 256, (3, 1, 40, 40), dtype=torch.uint8) if images else torch.randn(3, 7)
    assert torch.equal(loaded(samples).logits, classifier(samples).logits)


def test_correlations_of_another_number_of_classes_are_refused(tmp_path: Path) -> None:
    config = ModelConfig()
    spec = describe(config, FEATURES)
    save_classifier(
        tmp_path,
        Classifier(build_backbone(spec, config), Top(7, 2, head="correlated")),
        spec,
        {"classes": ["a", "b"]},
    )
    card = json.loads((tmp_path / "model.json").read_text())
    del card["sha256"]
    card["classes"], card["top"]["num_classes"] = ["a", "b", "c"], 3
    (tmp_path / "model.json").write_text(json.dumps(card))
    with pytest.raises(InputError, match=r"top.head.correlation \(2, 2\) instead of \(3, 3\)"):
        load_classifier(tmp_path)


def test_312_classes() -> None:
    """As many as the attributes of CUB: 97,344 correlations."""
    torch.manual_seed(0)
    top = Top(16, 312, head="correlated", scaling="raw")
    head = top.head
    assert isinstance(head, CorrelatedHead)
    assert head.correlation.numel() == 97_344
    logits = torch.randn(1000, 312)
    head.start_from_co_occurrence(logits)
    probabilities = logits.double().sigmoid().numpy()
    expected = np.cov(probabilities.T, bias=True) / probabilities.mean(0)
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(head.correlation.detach(), expected, atol=1e-7)
    top(torch.randn(64, 16)).logits.sum().backward()
    assert head.correlation.grad is not None
    assert torch.isfinite(head.correlation.grad).all()
