"""Logits of classes from scores: optimal for the stated penalty, calibrated in total, rankings kept."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from spml.models import LDA, keep_all
from spml.models.solved import members as calibration
from spml.models.solved.members import STRENGTH, class_logits
from tests.helpers.solved import fit_by_sp, samples_of

N, K = 400, 1.5


def make(classes=4):
    """Scores that rise where a class is the label, with one rare class, and one-hot labels."""
    generator = np.random.default_rng(0)
    share = np.array([0.5, 0.3, 0.19, 0.01, *[0.1] * (classes - 4)])
    index = generator.choice(classes, N, p=share / share.sum())
    labels = np.eye(classes)[index]
    scores = generator.normal(size=(N, classes)) + labels * np.arange(1, classes + 1) / 2
    return torch.tensor(scores), torch.tensor(labels)


def penalised_loss(parameters, z, y, slope, typical):
    offset, scale = parameters
    pseudo = np.logaddexp(0, -(offset + scale * typical)) / 2
    logits = offset + scale * z
    return (np.logaddexp(0, logits) - y * logits).sum() + pseudo + STRENGTH / 2 * (scale / slope - 1) ** 2


def test_logits_minimise_the_penalised_loss():
    scores, labels = make()
    offset, scale, _ = class_logits(scores, labels, K)
    centre, deviation = scores.numpy().mean(0), scores.numpy().std(0)
    z, y = (scores.numpy() - centre) / deviation, labels.numpy()
    typical, counts, slope = (z * y).sum() / y.sum(), y.sum(0), 1.0
    for _ in range(6):
        found = [
            minimize(penalised_loss, [0, slope], (z[:, c], y[:, c], slope, typical), tol=1e-10).x
            for c in range(4)
        ]
        slope = (counts * [scale for _, scale in found]).sum() / counts.sum()
    expected = np.array(found).T
    np.testing.assert_allclose(scale * deviation, expected[1], rtol=1e-4)
    offset = offset.numpy() + scale.numpy() * centre
    np.testing.assert_allclose(offset - offset[0], expected[0] - expected[0][0], atol=1e-4)


def test_the_own_label_is_left_out_of_a_logit():
    """As by a fit without it, in which the common slope stays nearly as it is."""
    scores, labels = make()
    offset, scale, logits = class_logits(scores, labels, K)
    plain = offset + scale * scores
    for row in range(0, N, 37):
        others = np.arange(N) != row
        again = class_logits(scores[others], labels[others], K)
        refitted = again.offset + again.scale * scores[row]
        # All logits are shifted to the same sum, which one sample hardly moves.
        assert float((logits[row] - refitted).abs().max()) < 0.02
        assert (logits[row] < plain[row])[labels[row] == 1].all()
        assert (logits[row] > plain[row])[labels[row] == 0].all()


def test_where_scores_say_nothing_known_positives_of_few_are_not_on_top():
    generator = np.random.default_rng(0)
    labels = torch.zeros(300, 100, dtype=torch.int64)
    labels[torch.arange(300), torch.from_numpy(generator.integers(100, size=300))] = 1
    scores = torch.from_numpy(generator.normal(size=(300, 100)))
    offset, scale, logits = class_logits(scores, labels, K)
    known = labels == 1
    plain = offset + scale * scores
    assert float(plain[known].mean() - plain[~known].mean()) > 0.2
    assert float(logits[known].mean() - logits[~known].mean()) < 0


def test_sigmoids_sum_to_the_mean_number_of_labels():
    scores, labels = make()
    for mean_labels, found in ((0.5, 0.5), (1.5, 1.5), (3.0, 3.0), (4.0, 4 * 0.999)):  # of four classes
        offset, scale, _ = class_logits(scores, labels, mean_labels)
        total = float((offset + scale * scores).sigmoid().sum(1).mean())
        assert total == pytest.approx(found, rel=1e-6)


def test_the_unit_of_scores_does_not_matter():
    scores, labels = make()
    units, zeros = torch.tensor([1e-3, 1.0, 1e3, 5.0]), torch.tensor([5.0, -3.0, 0.0, 1.0])
    offset, scale, _ = class_logits(scores, labels, K)
    of_others, scale_of_others, _ = class_logits(units * scores + zeros, labels, K)
    torch.testing.assert_close(scale_of_others * units, scale)
    torch.testing.assert_close(of_others + scale_of_others * zeros, offset)


def test_a_score_against_its_class_still_ranks_upwards():
    scores, labels = make()
    _, scale, _ = class_logits(-scores * torch.tensor([1, -1, -1, -1]), labels, K)
    assert (scale > 0).all()


def test_a_class_without_positives_is_unlikely_everywhere():
    scores, labels = make(5)
    labels[:, 4] = 0
    labels[labels.sum(1) == 0, 0] = 1
    offset, scale, _ = class_logits(scores, labels, K)
    assert 0 < scale[4] < 0.1 * scale[:4].min()
    logits = offset + scale * scores
    assert logits[:, 4].median() < logits[:, :3].median(0).values.min() - 2


def test_a_constant_score_and_no_positives_at_all_give_finite_logits():
    scores, labels = make()
    offset, scale, _ = class_logits(scores, torch.zeros_like(labels), K)
    assert torch.isfinite(offset).all()
    assert (scale > 0).all()
    scores[:, 1] = 7.0
    offset, scale, _ = class_logits(scores, labels, K)
    assert scale[1] == 0
    assert torch.isfinite(offset).all()
    assert torch.isfinite(scale).all()


def test_batches_of_classes_change_nothing(monkeypatch):
    scores, labels = make(7)
    together = class_logits(scores, labels, K)
    monkeypatch.setattr(calibration, "_ENTRIES", 2 * N)
    torch.testing.assert_close(class_logits(scores, labels, K), together)


@pytest.mark.long
@pytest.mark.parametrize("cross_validate", [False, True])
def test_held_out_logits_of_the_auto_head_are_calibrated(cross_validate):
    generator = np.random.default_rng(0)
    features = generator.normal(size=(300, 6)).astype(np.float32)
    index = (features[:, :4] + 0.5 * generator.normal(size=(300, 4))).argmax(1)
    parts = [samples_of(features[rows], index[rows], 4) for rows in (slice(200), slice(200, 300))]
    result = fit_by_sp(
        *parts,
        cross_validate=cross_validate,
        mean_labels=K,
        keep=lambda logits: (keep_all(logits), logits.left_out),
    )
    logits, left_out = map(torch.tensor, result.held_out)
    logits, labels = logits.double(), torch.tensor(np.eye(4)[index[result.rows]])
    assert float(logits.sigmoid().sum(1).mean()) == pytest.approx(K, rel=1e-4)
    # They are those of the logistic regressions already, so that doing it again changes nothing.
    offset, scale, again = class_logits(logits, labels, K)
    torch.testing.assert_close(offset + scale * logits, logits, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(left_out, again, rtol=1e-3, atol=1e-3)


def train_and_val(features, index):
    """The first 300 and the next 100 samples, with one of four classes each."""
    return [samples_of(features[rows], index[rows], 4) for rows in (slice(300), slice(300, 400))]


def test_members_are_centred_as_they_are_solved_in_the_end():
    generator = np.random.default_rng(1)
    features = generator.normal(size=(400, 5)).astype(np.float32)
    index = features[:, :3].argmax(1)
    index[300:320] = 3  # a class of validation samples alone
    head = fit_by_sp(*train_and_val(features, index), mean_labels=K).head
    of_val = head.member_scores(torch.from_numpy(features[300:]))
    difference = head.centre - of_val.mean(1)
    of_lda = torch.tensor([member.head == LDA for member in head.settings.members])
    assert of_lda.any()
    # Those of LDA differ by what its members are surer of the samples that they were solved on.
    torch.testing.assert_close(difference[~of_lda], 0 * difference[~of_lda], rtol=0, atol=1e-5)
    torch.testing.assert_close(difference, difference[:, :1].expand(-1, 4), rtol=0, atol=1e-4)
    torch.testing.assert_close(head.spread[:, 3], of_val[:, :, 3].std(1, correction=0), rtol=1e-4, atol=1e-5)
    fresh = torch.from_numpy(generator.normal(size=(500, 5)).astype(np.float32))
    logits = head(fresh)
    assert float(logits.sigmoid().sum(1).mean()) == pytest.approx(K, rel=0.1)
    assert logits[:, 3].max() < logits[:, :3].median()
    assert head.scale[3] > 0


@pytest.mark.long
@pytest.mark.parametrize(("cross_validate", "width"), [(False, 60), (False, 280), (True, 280)])
def test_new_samples_have_as_many_labels_as_held_out_ones(cross_validate, width):
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(4, width))
    index = generator.integers(0, 4, 1500)
    # With nearly as many features as samples, LDA is much surer of the samples that it was solved on.
    features = (centres[index] + 4 * generator.normal(size=(1500, width))).astype(np.float32)
    result = fit_by_sp(*train_and_val(features, index), cross_validate=cross_validate, mean_labels=K)
    assert any(member.head == LDA for member in result.head.settings.members)
    logits = result.head(torch.from_numpy(features[400:]))
    assert float(logits.sigmoid().sum(1).mean()) == pytest.approx(K, rel=0.05)
