"""The forest of the auto head against scikit-learn, and its share in the sum."""

from __future__ import annotations

from functools import partial

import msgspec
import numpy as np
import pytest
import torch
from sklearn.tree import ExtraTreeClassifier

from spml.common.draws import raw
from spml.data import Samples
from spml.data.matrix import FeatureMatrix
from spml.labels import ObservedLabels
from spml.metrics import sp_score
from spml.models.solved import auto, members, moments
from spml.models.solved.ensemble import Ensemble, EnsembleSettings
from spml.models.solved.forest import MORE_TREES, TREES, grow
from spml.models.solved.members import FOREST_SHARES, Members, add_member, grow_on
from spml.models.solved.spaces import Pool
from tests.helpers.solved import fit_by_sp, samples_of

D, C = 6, 5
fit = partial(fit_by_sp, mean_labels=1.2)


def make_data(count, seed=0):
    """Steps of single features tell the classes, so that trees are better than linear heads; class 3 has no
    sample."""
    generator = np.random.default_rng(seed)
    features = np.rint(4 * generator.normal(size=(count, D))).astype(np.float32) / 3
    bands = (np.abs(features[:, 0]) > 1) + 2 * (np.abs(features[:, 1] - 0.5) < 0.7)
    index = np.where(generator.random(count) < 0.1, 4, np.where(bands == 3, 4, bands))
    return features, index.astype(np.int64)


def theirs(features, index, seed, count, **settings):
    """The same trees by scikit-learn."""
    seeds = raw(count, "forest", seed) >> np.uint64(32)
    return [
        ExtraTreeClassifier(min_samples_leaf=2, random_state=int(each), **settings).fit(features, index)
        for each in seeds
    ]


def mean_of(models, features):
    total = np.zeros((len(features), C))
    for model in models:
        total[:, model.classes_] += model.predict_proba(features) / len(models)
    return total


def test_leaves_and_shares_are_those_of_scikit_learn():
    features, index = make_data(300)
    forest, models = grow(features, index, C, seed=3, trees=12), theirs(features, index, 3, 12)
    # Thresholds themselves, and their neighbours, are where rounding would show.
    thresholds = np.concatenate([model.tree_.threshold[model.tree_.feature >= 0] for model in models])
    at = thresholds.astype(np.float32)
    at = np.concatenate([at, np.nextafter(at, np.float32(9)), np.nextafter(at, np.float32(-9))])
    asked = np.concatenate([make_data(200, seed=1)[0], np.resize(at, (len(at) // D, D))])
    leaves = forest.leaves(torch.from_numpy(asked)).numpy()
    assert leaves.shape == (len(asked), 12)
    start = 0
    for column, model in zip(leaves.T, models, strict=True):
        nodes = np.flatnonzero(model.tree_.children_left < 0)
        np.testing.assert_array_equal(nodes[column - start], model.apply(asked))
        start += len(nodes)
    assert start == forest.settings.leaves
    assert forest.settings.nodes == sum(model.tree_.node_count for model in models)
    assert forest.settings.depth == max(model.tree_.max_depth for model in models)
    np.testing.assert_allclose(forest(torch.from_numpy(asked)), mean_of(models, asked), rtol=1e-6, atol=1e-9)
    assert (forest(torch.from_numpy(asked))[:, 3] == 0).all()


def test_batches_change_nothing(monkeypatch):
    features, index = make_data(100)
    forest = grow(features, index, C, seed=0, trees=5)
    rows = torch.from_numpy(features)
    whole = forest(rows)
    monkeypatch.setattr("spml.models.solved.forest._ENTRIES", 7 * 5 * forest.settings.kept)
    assert torch.equal(forest(rows), whole)


def test_a_leaf_keeps_its_classes_of_largest_share():
    # Equal features can't be told apart, so that all samples are in one leaf: class c has c + 1 of them.
    index = np.repeat(np.arange(10), np.arange(1, 11))
    forest = grow(np.ones((55, 2), np.float32), index, 12, seed=0, trees=3)
    assert forest.settings.kept == 8
    assert (forest.settings.depth, forest.settings.leaves) == (0, 3)
    expected = np.append(np.where(np.arange(10) < 2, 0, np.arange(1, 11) / 55), [0, 0])
    np.testing.assert_allclose(forest(torch.ones(1, 2))[0], expected, rtol=1e-6)


def test_trees_have_a_largest_depth(monkeypatch):
    monkeypatch.setattr("spml.models.solved.forest.DEEPEST", 3)
    features, index = make_data(300)
    forest, models = grow(features, index, C, 0, 4), theirs(features, index, 0, 4, max_depth=3)
    assert forest.settings.depth == 3
    rows = torch.from_numpy(features)
    np.testing.assert_allclose(forest(rows), mean_of(models, features), rtol=1e-6, atol=1e-9)


def test_the_seed_decides():
    features, index = make_data(100)
    rows = torch.from_numpy(features)
    first, again, other = (grow(features, index, C, seed, 3)(rows) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_sample_with_two_known_positives_counts_twice_and_one_without_does_not_count():
    features, index = make_data(80)
    matrix = np.zeros((80, C), np.int8)
    matrix[np.arange(80), index] = 1
    matrix[0] = 0
    matrix[1, [0, 3]] = 1
    observed = ObservedLabels.from_ternary(matrix)
    pool = Pool(Samples(tuple(map(str, range(80))), FeatureMatrix(features), observed))
    rows, classes = np.nonzero(matrix[:60])
    expected = grow(features[:60][rows], classes, C, 5, 20)
    grown = grow_on(pool, np.arange(60), 5, 20)
    assert torch.equal(grown(torch.from_numpy(features)), expected(torch.from_numpy(features)))


@pytest.fixture(scope="module")
def parts():
    features, index = make_data(400)
    return samples_of(features[:300], index[:300], C), samples_of(features[300:], index[300:], C)


@pytest.fixture(scope="module")
def head(parts):
    """A head with a forest, which tests only read."""
    return fit(*parts).head


def forest_of(score):
    return auto.Candidate("raw", 0.0, "forest", np.inf, score)


def weights_of(head):
    """Weights of the linear members, and the share of the forest."""
    members = head.settings.members
    linear = [member.weight for member in members if member.head != "forest"]
    return linear, sum(member.weight for member in members if member.head == "forest")


@pytest.mark.long
@pytest.mark.usefixtures("all_trees")
@pytest.mark.parametrize("cross_validate", [True, False])
def test_a_forest_joins_the_sum_where_it_helps(parts, cross_validate, monkeypatch, caplog):
    caplog.set_level("DEBUG", "spml")
    grown_trees = []

    def counted(pool, rows, seed, number):
        grown_trees.append(number)
        return grow_on(pool, rows, seed, number)

    monkeypatch.setattr(auto, "grow_on", counted)
    result = fit(*parts, cross_validate=cross_validate)
    line = caplog.messages[-1]
    plain = fit(*parts, cross_validate=cross_validate, forest=False)
    assert grown_trees == (6 * [300] if cross_validate else 2 * [100])  # of folds, and the final one
    linear, share = weights_of(result.head)
    assert share in FOREST_SHARES[1:]
    expected, none = weights_of(plain.head)
    assert none == 0
    assert plain.head.settings.forest is None
    np.testing.assert_allclose(linear, (1 - share) * np.asarray(expected), rtol=1e-9)
    assert "forest" in line
    assert f"share of {100 * share:.0f} %" in line
    *_, member = result.head.settings.members
    space = result.head.settings.spaces[member.space]
    assert (member.head, member.penalty, space.scaling, space.features) == ("forest", None, "raw", D)
    assert result.head.describe()[-1] == {
        "space": "raw", "head": "forest", "penalty": None, "score": member.score, "weight": share
    }  # fmt: skip

    # The final forest has learned from all samples; the one of the selection from training samples alone.
    pool = Pool(*parts)
    features = torch.from_numpy(make_data(50, seed=2)[0])
    grown = grow_on(pool, np.arange(400), 0, MORE_TREES if cross_validate else TREES)
    head = result.head
    scores = head.member_scores(features)
    assert torch.equal(scores[-1], grown(features))
    total = sum(
        weight * (each - centre) / spread
        for weight, each, centre, spread in zip(head.weight, scores, head.centre, head.spread, strict=True)
    )
    torch.testing.assert_close(head(features), head.offset + head.scale * total, rtol=1e-4, atol=1e-4)
    # It is better than without, and has a share of it in held-out scores, too.
    if not cross_validate:
        held = grow_on(pool, np.arange(300), 0, TREES)(pool.features(np.arange(300, 400))).numpy()
        standardised = (held - held.mean(0)) / np.maximum(held.std(0), 0.005)
        offset, scale = head.offset.numpy(), head.scale.numpy()
        alone = sp_score(held, parts[1].observed.index, 1.2).score
        assert member.score == pytest.approx(alone, abs=1e-9)
        rest = (result.held_out - offset) / np.where(scale, scale, 1) - share * standardised
        before = (plain.held_out - plain.head.offset.numpy()) / np.maximum(plain.head.scale.numpy(), 1e-9)
        for column in (0, 1, 2, 4):
            assert np.corrcoef(rest[:, column], before[:, column])[0, 1] > 0.999


def test_the_share_is_that_of_the_highest_score(parts):
    for best in FOREST_SHARES:
        # Standardised, the one is 1 and -1, the other -1 and 1: their sum is (1 - 2 share) times the first.
        member = auto.Candidate("standard", 0.0, "ridge", 1.0, 0.9)
        one = np.asarray([[[1.0], [-1.0]]], np.float32)

        def by_size(scores, best=best):
            return -abs(float(scores[0, 0]) - (1 - 2 * best))

        unused = np.zeros((1, 1), np.bool_)
        added = Members([forest_of(0.8)], -3 * one, {"forest": []}, unused)
        both = add_member(Members([member], 5 * one, {}, unused), added, FOREST_SHARES, by_size)
        assert len(both.candidates) == len(both.scores) == len(both.unused) == 1 + (best > 0)
        assert both.candidates[0] == member._replace(weight=1 - best)
        if best:
            assert both.candidates[1].weight == best
            np.testing.assert_array_equal(both.scores, np.concatenate([5 * one, -3 * one]))


def test_a_class_that_hardly_any_leaf_knows_is_not_blown_up():
    scores = np.zeros((2, 400, 2), np.float32)
    scores[:, ::2, 0] = 1  # deviation .5
    scores[:, 0, 1] = 0.005  # deviation .00025
    candidates = [auto.Candidate("standard", 0.0, "lda", 1.0, 0.9), forest_of(0.8)]
    members = Members(
        [each._replace(weight=0.5) for each in candidates], scores, {}, np.zeros((2, 2), np.bool_)
    )
    np.testing.assert_allclose(members.spread, [[0.5, 0.005 * np.sqrt(399) / 400], [0.5, 0.005]], rtol=1e-5)


def test_a_forest_far_behind_is_left_out():
    generator = np.random.default_rng(0)
    features = generator.normal(size=(400, 40)).astype(np.float32)
    direction = generator.normal(size=(40, C))
    index = (features @ direction).argmax(1)
    head = fit(samples_of(features[:250], index[:250], C), samples_of(features[250:], index[250:], C)).head
    assert weights_of(head)[1] == 0
    assert head.settings.forest is None
    assert "forest" not in msgspec.to_builtins(head.settings)


def test_a_saved_forest_predicts_the_same_and_one_that_does_not_fit_is_refused(head):
    settings = msgspec.convert(msgspec.to_builtins(head.settings), EnsembleSettings)
    again = Ensemble(D, C, settings)
    again.load_state_dict(head.state_dict())
    features = torch.from_numpy(make_data(30, seed=2)[0])
    assert torch.equal(again(features), head(features))
    prefix = f"heads.{len(settings.members) - 1}"
    for name, value in (("feature", D), ("right", settings.forest.nodes), ("leaf", -1), ("classes", C)):
        state = {key: tensor.clone() for key, tensor in head.state_dict().items()}
        state[f"{prefix}.{name}"].flatten()[0] = value
        with pytest.raises(ValueError, match=f"{name} names what does not exist"):
            again.load_state_dict(state)
    described = msgspec.to_builtins(head.settings)
    sizes = described["forest"]
    for change in (
        {"forest": None}, {"forest": {**sizes, "kept": 9}}, {"forest": {**sizes, "depth": 65}},
        {"members": described["members"][:-1]}, {"columns": C},
        {"spaces": [*described["spaces"][:-1], {"scaling": "standard", "features": D}]},
        {"members": [*described["members"], described["members"][-1]]},
    ):  # fmt: skip
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({**described, **change}, EnsembleSettings)


@pytest.mark.long
def test_an_exported_head_computes_the_same_for_any_number_of_samples(head):
    rows = torch.from_numpy(make_data(30, seed=2)[0])
    shapes = ({0: torch.export.Dim.DYNAMIC},)
    program = torch.export.export(head, (rows[:2],), dynamic_shapes=shapes).module()
    for count in (1, 7, 30):
        torch.testing.assert_close(program(rows[:count]), head(rows[:count]))


@pytest.mark.parametrize(
    ("name", "limit", "what"),
    [
        ("MOST_SAMPLES", 399, "memory"),
        ("MOST_VALUES", 400 * D - 1, "memory"),
        ("MOST_COLUMNS", C - 1, "memory"),
        ("MOST_WORK", 400 * 2 * (C + 100) - 1, "time"),
    ],
)
def test_what_takes_too_much_is_left_out_and_said(parts, monkeypatch, lines, name, limit, what):
    assert members.affordable(Pool(*parts))
    module = moments if name == "MOST_COLUMNS" else members
    monkeypatch.setattr(module, name, limit + 1)
    assert members.affordable(Pool(*parts))
    assert not lines
    monkeypatch.setattr(module, name, limit)
    if name == "MOST_WORK":
        assert weights_of(fit(*parts).head)[1] == 0
    else:
        assert not members.affordable(Pool(*parts))
    assert lines == [
        "auto head: without a forest, because that of 400 samples with 6 features and 5 classes would take "
        f"too much {what}"
    ]


def test_heads_for_windows_have_none(parts):
    assert fit(*parts, windows=True).head.settings.forest is None
