"""The auto head: its spaces against scikit-learn, its selection and its sum against plain NumPy."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import msgspec
import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge

from spml.common.errors import InputError
from spml.data import Samples
from spml.data.matrix import FeatureMatrix
from spml.labels import ObservedLabels
from spml.metrics import sp_score
from spml.models import Top
from spml.models.solved import auto, search, spaces
from spml.models.solved.ensemble import EnsembleSettings
from spml.models.solved.linear import PENALTIES, head_scores
from spml.models.solved.members import class_logits
from spml.models.solved.moments import moments
from spml.models.solved.spaces import Pool, Spaces
from tests.helpers.solved import fit_by_sp, samples_of

D, C, K = 6, 4, 1.5


def make_samples(count, seed=0, sparse=False, width=D):
    """Features that tell the classes, through a product of two of them for the last class."""
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(count, width))
    scores = features[:, :C] + 0.3 * generator.normal(size=(count, C))
    scores[:, C - 1] = features[:, 4] * features[:, 5]
    index = scores.argmax(1)
    if sparse:
        features = np.where(features > 1, np.rint(3 * features), 0)
    return samples_of(features, index, C)


def fit(train, val, **settings):
    return fit_by_sp(train, val, **{"mean_labels": K, "forest": False, **settings})


def features_of(samples):
    return samples.inputs.fetch(range(len(samples)), None)


@cache
def auto_head(cross_validate):
    """The auto head of 200 training and 80 validation samples, which tests only read."""
    return fit(make_samples(200), make_samples(80, seed=1), cross_validate=cross_validate)


@pytest.mark.parametrize("scaling", ["standard", "sqrtl2"])
def test_kernel_features_equal_those_of_scikit_learn(scaling):
    samples = make_samples(40)
    fitted = Spaces(Pool(samples), np.arange(40), scaling, [0.3], seed=0)
    scaled = fitted.scaling(features_of(samples))
    between = torch.cdist(scaled.double(), scaled.double()).square().numpy()
    median = np.sort(between[np.triu_indices(40, 1)])[(40 * 39 // 2 - 1) // 2]
    gamma = 1 / (2 * 0.3 * median)
    assert fitted.maps[0.3].gamma.item() == pytest.approx(gamma, rel=1e-5)
    (ours,) = fitted.inputs(np.arange(40), [0.3])
    theirs = Nystroem(gamma=gamma, n_components=40, random_state=0).fit_transform(scaled.numpy())
    # The features differ by a rotation; their products approximate the kernel.
    assert np.abs((ours @ ours.T).numpy() - theirs @ theirs.T).max() < 1e-3
    assert np.abs((ours @ ours.T).numpy() - np.exp(-gamma * between)).max() < 1e-3


def test_landmarks_are_a_part_of_the_rows(monkeypatch):
    monkeypatch.setattr(spaces, "LANDMARKS", 7)
    samples = make_samples(50)
    fitted = Spaces(Pool(samples), np.arange(10, 40), "standard", [1.0], seed=3)
    scaled = fitted.scaling(features_of(samples))
    distances = torch.cdist(fitted.landmarks.double(), scaled.double())
    assert len(fitted.landmarks) == 7
    assert distances.min(1).values.max() < 1e-6
    assert set(distances.argmin(1).tolist()) <= set(range(10, 40))


def test_a_member_equals_ridge_regression_of_scikit_learn():
    train, val = make_samples(90), make_samples(60, seed=1)
    fitted = Spaces(Pool(train, val), np.arange(90), "standard", [0.0], seed=0)
    layer = torch.nn.Linear(D, C)
    fitted.solve()[0].fill(layer, "ridge", 2.0)
    scaled = fitted.scaling(features_of(train)).double().numpy()
    model = Ridge(alpha=2.0 * scaled.var(0).mean() * 90).fit(scaled, train.observed.to_multi_hot())
    np.testing.assert_allclose(layer.weight.detach(), model.coef_, atol=1e-5)
    np.testing.assert_allclose(layer.bias.detach(), model.intercept_, atol=1e-5)
    fitted.add(np.arange(90, 150))
    both = np.concatenate([scaled, fitted.scaling(features_of(val)).double().numpy()])
    labels = np.concatenate([part.observed.to_multi_hot() for part in (train, val)])
    model = Ridge(alpha=2.0 * both.var(0).mean() * 150).fit(both, labels)
    fitted.solve()[0].fill(layer, "ridge", 2.0)
    np.testing.assert_allclose(layer.weight.detach(), model.coef_, atol=1e-5)


def reference(head, features):
    """The sum of the members, one after the other, in float64."""
    total = torch.zeros(len(features), C, dtype=torch.float64)
    for number, member in enumerate(head.settings.members):
        space = head.settings.spaces[member.space]
        inputs = head.scalings[space.scaling](features)
        if space.width:
            kernel = head.maps[member.space]
            distances = torch.cdist(inputs.double(), head.landmarks[space.scaling].double()).square()
            inputs = (-kernel.gamma * distances).exp()
            if not space.folded:
                inputs = inputs @ kernel.projection.double()
        layer = head.heads[number]
        outputs = inputs.double() @ layer.weight.double().T + layer.bias.double()
        scores = outputs.log_softmax(1) if member.head == "lda" else outputs
        total += member.weight * (scores - head.centre[number]) / head.spread[number]
    return head.offset + head.scale * total


@pytest.mark.parametrize("cross_validate", [True, False])
def test_the_head_is_the_weighted_sum_of_its_members(cross_validate):
    head = auto_head(cross_validate).head
    members = head.settings.members
    assert sum(member.weight for member in members) == pytest.approx(1)
    assert min(member.weight for member in members) >= 0.05 * max(member.weight for member in members)
    best = max(member.score for member in members)
    raw = [np.exp((member.score - best) / (0.03 * best)) for member in members]
    np.testing.assert_allclose([member.weight for member in members], raw / np.sum(raw), rtol=1e-9)
    features = features_of(make_samples(50, seed=2))
    torch.testing.assert_close(head(features).double(), reference(head, features), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(head(features.view(5, 10, D)), head(features).view(5, 10, C))


def test_projections_are_multiplied_into_small_heads(monkeypatch):
    """They change no logit, neither of the head nor of a saved one; large heads are kept apart from them."""
    train, val = make_samples(200), make_samples(80, seed=1)
    features = features_of(make_samples(50, seed=2))
    head = auto_head(False).head
    kernels = [number for number, space in enumerate(head.settings.spaces) if space.width]
    assert len(kernels) > 1
    for number in kernels:
        assert head.settings.spaces[number].folded
        assert head.settings.spaces[number].features == 200
        assert head.maps[number].projection is None
    monkeypatch.setattr(Spaces, "head_inputs", lambda self, width, outputs: (self.features(width), None))
    apart = fit(train, val).head
    assert not any(space.folded for space in apart.settings.spaces)
    expected = reference(apart, features)
    assert (head(features) - expected).abs().max() < 1e-4
    assert (apart(features) - expected).abs().max() < 1e-4


def test_a_projection_is_folded_where_that_saves_arithmetic():
    fitted = Spaces(Pool(make_samples(90)), np.arange(90), "standard", [0.0, 3.0], seed=0)
    features = fitted.features(3.0)
    assert features < 90  # with 90 x 10 outputs: 900 x 90 against 90 x R + R x 900
    assert fitted.head_inputs(0.0, 1) == (D, None)
    pays = 90 * features // (90 - features)
    inputs, projection = fitted.head_inputs(3.0, pays)
    assert inputs == 90
    assert projection is fitted.maps[3.0].projection
    assert fitted.head_inputs(3.0, pays + 1) == (features, None)


def test_held_out_scores_are_those_of_members_that_did_not_see_the_samples():
    """In the split mode these are the scores of a head fitted to the training samples, standardised."""
    train, val = make_samples(200), make_samples(80, seed=1)
    result = auto_head(False)
    assert result.rows.tolist() == list(range(200, 280))
    pool, parts = Pool(train, val), []
    for member in result.head.settings.members:
        space = result.head.settings.spaces[member.space]
        of_member = Spaces(pool, np.arange(200), space.scaling, [space.width], seed=0)
        (inputs,) = of_member.inputs(np.arange(200, 280), [space.width])
        layer = torch.nn.Linear(inputs.shape[1], C)
        of_member.solve()[space.width].fill(
            layer.requires_grad_(False), member.head, member.penalty or np.inf
        )
        scores = head_scores(member.head, layer(inputs)).double()
        spread = scores.std(0, correction=0)
        parts.append(member.weight * (scores - scores.mean(0)) / spread)
    total = torch.stack(parts).sum(0)
    labels = torch.from_numpy(val.observed.to_multi_hot())
    offset, scale, _ = class_logits(total, labels, K)
    np.testing.assert_allclose(result.head.scale, scale, rtol=1e-3)
    expected = offset + scale * total
    np.testing.assert_allclose(result.held_out, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("cross_validate", [True, False])
def test_heads_of_parts_give_the_held_out_scores_of_the_head_for_windows(cross_validate):
    """On the scale of the final head, which has learned from all samples."""
    train, val = make_samples(300), make_samples(100, seed=1)
    result = fit(train, val, cross_validate=cross_validate, windows=True)
    assert {space.width for space in result.head.settings.spaces} == {0.0}
    pool = Pool(train, val)
    found = torch.cat([head(pool.features(rows)) for rows, head in result.parts])
    np.testing.assert_allclose(found, result.held_out, atol=1e-4)
    assert np.concatenate([rows for rows, _ in result.parts]).tolist() == result.rows.tolist()
    new = result.head(features_of(make_samples(400, seed=2)))
    np.testing.assert_allclose(new.mean(0), found.mean(0), atol=0.4 * float(found.std()))
    np.testing.assert_allclose(new.std(0), found.std(0), rtol=0.3)


def test_labels_of_a_fold_do_not_change_its_own_scores():
    """Cross-validation: a sample's score does not depend on its label."""
    train, val = make_samples(60), make_samples(20, seed=1)
    seen = {}

    def remember(name):
        def score(scores, rows, classes):
            seen.setdefault(name, []).append((scores[np.argsort(rows)], rows))
            return 0.5

        return score

    fit(train, val, cross_validate=True, score=remember("before"))
    index = train.observed.index.copy()
    index[0] = (index[0] + 1) % C
    other = Samples(train.ids, train.inputs, ObservedLabels.from_index(index, C))
    fit(other, val, cross_validate=True, score=remember("after"))
    folds = spaces.permutation(80, "folds", 0)
    own = next(set(folds[first::5].tolist()) for first in range(5) if 0 in folds[first::5])
    rest = sorted(set(range(80)) - own)
    for (before, rows), (after, _) in zip(seen["before"], seen["after"], strict=True):
        assert sorted(rows) == list(range(80))
        np.testing.assert_allclose(before[sorted(own)], after[sorted(own)], atol=1e-5)
    assert np.abs(seen["before"][0][0][rest] - seen["after"][0][0][rest]).max() > 1e-4


def test_the_best_penalty_of_each_head_and_space_is_kept():
    train, val = make_samples(120), make_samples(60, seed=1)
    calls = []

    def prefer_the_third(scores, rows, classes):
        calls.append(len(rows))
        return 1.0 if len(calls) % 25 == 3 else 0.5

    head = fit(train, val, score=prefer_the_third).head
    # Penalties are tried from infinity down, ridge and LDA in turn; 8 spaces with 13 + 12 solutions each.
    assert calls == [60] * 200
    assert len(head.settings.spaces) == 8
    assert {member.penalty for member in head.settings.members} == {PENALTIES[-2]}
    assert len(head.settings.members) == 8


def test_kernels_learn_what_no_linear_head_can():
    generator = np.random.default_rng(0)
    features = generator.normal(size=(700, D))
    index = (features[:, 0] * features[:, 1] > 0).astype(np.int64)
    parts = [
        samples_of(features[rows], index[rows], 2)
        for rows in (np.arange(400), np.arange(400, 500), np.arange(500, 700))
    ]
    head = fit(*parts[:2]).head
    assert all(head.settings.spaces[member.space].width for member in head.settings.members)
    predicted = head(features_of(parts[2])).argmax(1).numpy()
    assert (predicted == index[500:]).mean() > 0.8


def test_sparse_features_have_a_tfidf_space_and_fewer_kernels():
    train, val = make_samples(150, sparse=True), make_samples(70, seed=1, sparse=True)
    head = fit(train, val, score=lambda scores, rows, classes: 0.5).head
    assert {(space.scaling, space.width) for space in head.settings.spaces} == {
        (scaling, width) for scaling in ("standard", "sqrtl2", "tfidf") for width in (0.0, 1.0, 0.3)
    }
    assert head.settings.start in ("standard", "sqrtl2")
    # A SciPy matrix of the same values gives the same head.
    stored = [
        Samples(part.ids, FeatureMatrix(csr_matrix(features_of(part).numpy())), part.observed)
        for part in (train, val)
    ]
    other = fit(*stored, score=lambda scores, rows, classes: 0.5).head
    features = features_of(make_samples(20, seed=2, sparse=True))
    torch.testing.assert_close(head(features), other(features), rtol=1e-4, atol=1e-4)


def test_many_features_have_kernels_only(monkeypatch):
    monkeypatch.setattr(search, "LINEAR_LIMIT", D - 1)
    monkeypatch.setattr(search, "WIDE_LIMIT", 0)
    head = fit(make_samples(120), make_samples(60, seed=1)).head
    assert all(space.width for space in head.settings.spaces)
    assert head.start is None
    top = Top(D, C)
    top.set_ensemble(head)
    with pytest.raises(InputError, match="no linear member"):
        top.linear_start()


def test_many_features_of_few_samples_have_linear_spaces_while_their_heads_fit(monkeypatch):
    monkeypatch.setattr(search, "LINEAR_LIMIT", 59)
    monkeypatch.setattr(search, "WIDE_LIMIT", 60 * 58**2)

    def has_linear(train, val):
        head = fit(make_samples(train, width=60), make_samples(val, seed=1, width=60)).head
        return head.start is not None and not all(space.width for space in head.settings.spaces)

    assert has_linear(30, 28)
    assert not has_linear(30, 29)
    monkeypatch.setattr(search, "WIDE_LIMIT", 10**9)
    assert has_linear(30, 28)  # 60 x 58 <= 59^2
    assert not has_linear(30, 29)
    monkeypatch.setattr(search, "MOST_WEIGHTS", 2 * 2 * 60 * C)
    assert has_linear(10, 8)
    monkeypatch.setattr(search, "MOST_WEIGHTS", 2 * 2 * 60 * C - 1)
    assert not has_linear(10, 8)  # kernels need less


def test_training_starts_from_the_best_ridge_regression_of_the_training_samples():
    train, val = make_samples(200), make_samples(80, seed=1)
    for cross_validate in (True, False):
        head = auto_head(cross_validate).head
        assert not any(parameter.requires_grad for parameter in head.parameters())
        top = Top(D, C).eval()
        top.set_ensemble(head)
        start = top.linear_start()
        assert start.settings()["head"] == "linear"
        assert start.settings()["scaling"] == head.settings.start
        plain = Top(D, C, scaling=head.settings.start)
        plain.fit_scaling(train.inputs)
        stats = moments(train, plain.scaling)
        shares = start(features_of(train)).logits.add(2).div(4 * K).mean(0)
        # The tangent at 1/2 of K times the estimated share of each class among the shown labels.
        torch.testing.assert_close(shares, stats.share.float(), rtol=1e-3, atol=1e-4)
        assert sp_score(start(features_of(val)).logits.detach(), val.observed.index, K).score > 0.3


def test_a_structure_that_contradicts_itself_is_refused():
    settings = {
        "spaces": [{"scaling": "standard", "features": 3}],
        "members": [{"space": 0, "head": "ridge", "penalty": 1.0, "score": 0.5, "weight": 1.0}],
        "landmarks": 0,
        "start": "standard",
    }
    msgspec.convert(settings, EnsembleSettings)
    for change in (
        {"start": "minmax"}, {"landmarks": -1}, {"members": []}, {"spaces": []},
        {"members": [{**settings["members"][0], "space": 1}]},
        {"members": [{**settings["members"][0], "head": "svm"}]},
        {"members": [{**settings["members"][0], "penalty": 0}]},
        {"spaces": [{"scaling": "none", "features": 3}]}, {"more": 1},
        {"spaces": [{"scaling": "standard", "features": 3, "width": 1.0, "folded": True}], "landmarks": 4},
        {"spaces": [{"scaling": "standard", "features": 3, "folded": True}], "landmarks": 3},
    ):  # fmt: skip
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({**settings, **change}, EnsembleSettings)


def test_more_validation_samples_than_are_needed_are_scored_all_the_same(monkeypatch):
    monkeypatch.setattr(auto, "MOST_JUDGED", 40 * C + 1)
    train, val, used = make_samples(150), make_samples(90, seed=1), []

    def score(scores, rows, classes):
        used.append(rows)
        return 0.5

    result = fit(train, val, score=score)
    assert all(len(rows) == 40 and rows.min() >= 150 for rows in used)
    assert result.held_out.shape == (90, C)
    assert result.rows.tolist() == list(range(150, 240))
    # All of them are scored alike: those that selected have the same scores when selected by all.
    monkeypatch.setattr(auto, "MOST_JUDGED", 10_000)
    whole = fit(train, val, score=lambda scores, rows, classes: 0.5)
    for column in range(C):
        assert np.corrcoef(result.held_out[:, column], whole.held_out[:, column])[0, 1] > 0.999


def of(features, index):
    """Training and validation samples of the same features."""
    return (samples_of(features, index, 2),) * 2


@pytest.mark.parametrize("cross_validate", [True, False])
def test_a_scaling_that_makes_all_samples_equal_is_left_out(cross_validate):
    values = np.arange(1, 41)[:, None]
    head = fit(*of(values, values[:, 0] > 20), cross_validate=cross_validate).head
    assert {space.scaling for space in head.settings.spaces} == {"standard"}
    assert (head(torch.tensor([[3.0], [38.0]])).argmax(1) == torch.tensor([0, 1])).all()
    # With both signs, most distances between rows of length 1 are 0.
    signs = np.where(np.arange(40) < 30, 1, -1)[:, None]
    head = fit(*of(signs, signs[:, 0] < 0), cross_validate=cross_validate).head
    assert (head(torch.tensor([[1.0], [-1.0]])).argmax(1) == torch.tensor([0, 1])).all()


@pytest.mark.parametrize("cross_validate", [True, False])
def test_equal_samples_are_refused(cross_validate):
    with pytest.raises(InputError, match="have the same features"):
        fit(*of(np.ones((20, 3)), np.arange(20) % 2), cross_validate=cross_validate)


@pytest.fixture
def folds_of(monkeypatch):
    """Function that solves the auto head by cross-validation over 100 samples, and returns its folds."""
    found = []

    def spy(pool, folds, *rest):
        found.append(folds)
        return search.search(pool, folds, *rest)

    def solve(groups=None):
        train, val = make_samples(70), make_samples(30, 1)
        if groups is not None:
            train, val = replace(train, groups=groups[:70]), replace(val, groups=groups[70:])
        fit(train, val, cross_validate=True)
        return found[-1]

    monkeypatch.setattr(auto, "search", spy)
    return solve


@pytest.mark.parametrize("number", [3, 30])
def test_folds_keep_groups_together(folds_of, number):
    groups = np.random.default_rng(0).permutation(np.arange(100) % number)
    folds = folds_of(groups)
    assert len(folds) == min(5, number)
    assert sorted(np.concatenate([fold.held for fold in folds]).tolist()) == list(range(100))
    assert np.ptp([len(fold.held) for fold in folds]) <= 100 / number
    for fold in folds:
        assert set(groups[fold.solved_on]).isdisjoint(groups[fold.held])


def test_folds_of_one_group_and_of_groups_of_one_sample(folds_of):
    (only,) = folds_of(np.zeros(100, int))
    assert only.held.tolist() == list(range(70, 100)), "validation samples decide"
    for alone, without in zip(folds_of(np.arange(100)), folds_of(), strict=True):
        np.testing.assert_array_equal(alone.held, without.held)
