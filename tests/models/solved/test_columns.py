"""Columns that many classes share: the same heads as with a column for each class."""

from __future__ import annotations

import copy

import msgspec
import numpy as np
import pytest
import torch

from spml.common.errors import InputError
from spml.data import Samples
from spml.data.matrix import FeatureMatrix
from spml.labels import ObservedLabels
from spml.models import CLOSED_FORM, LDA, ClosedForm, Top
from spml.models.solved import auto, linear, search, spaces
from spml.models.solved.ensemble import Ensemble, EnsembleSettings
from spml.models.solved.moments import Columns, moments
from tests.helpers.solved import by_sp, fit_by_sp

D, C, K = 5, 30, 1.5
SEEN = np.array([2, 3, 11, 29])


def make_samples(count, seed=0, several=False):
    """Samples that show four of the classes."""
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(count, D)).astype(np.float32)
    index = SEEN[(features[:, :4] + 0.5 * generator.normal(size=(count, 4))).argmax(1)]
    observed = ObservedLabels.from_index(index, C)
    if several:
        ternary = observed.to_ternary()
        ternary[::3, 11], ternary[1::4, 7] = 1, -1
        observed = ObservedLabels.from_ternary(ternary)
    return Samples(tuple(f"{seed}-{row}" for row in range(count)), FeatureMatrix(features), observed)


@pytest.fixture
def shared(monkeypatch):
    """Function that makes classes share a column from now on."""
    return lambda: monkeypatch.setattr("spml.models.solved.moments.MOST_COLUMNS", 10)


def test_classes_without_a_known_positive_share_the_last_column(shared):
    one, other = make_samples(40), make_samples(9, seed=1)
    every = Columns.of_samples(one)
    assert every.own is None
    assert every.log_sizes is None
    assert every.of_class.tolist() == list(range(C))
    shared()
    only = Samples(other.ids, other.inputs, ObservedLabels.from_index(np.full(9, 5), C))
    found = Columns.of_samples(one, only)
    assert found.own.tolist() == [2, 3, 5, 11, 29]
    assert found.of_class[[2, 5, 29]].tolist() == [0, 2, 4]
    assert set(found.of_class[[0, 1, 28]]) == {5}
    assert found.sizes.tolist() == [1, 1, 1, 1, 1, 25]
    assert found.log_sizes[-1].item() == pytest.approx(np.log(25))
    values = np.arange(6)[None]
    assert found.expand(values)[0, [0, 2, 5, 29]].tolist() == [5, 0, 2, 4]
    assert found.expand(values, np.array([5, 6])).tolist() == [[2, 5]]


def test_positives_are_those_of_the_labels(shared):
    shared()
    samples = make_samples(20, several=True)
    found = Columns.of_samples(samples)
    rows = np.array([0, 3, 4, 9])
    positions, of_rows = found.positives(samples, rows)
    dense = np.zeros((4, len(found)))
    dense[positions, of_rows] = 1
    assert (dense[:, found.of_class][:, SEEN] == samples.observed.to_multi_hot()[rows][:, SEEN]).all()
    assert dense.sum() == samples.observed.to_multi_hot()[rows].sum()


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("head", CLOSED_FORM)
@pytest.mark.parametrize("entries", [1 << 20, 7])
def test_heads_in_closed_form_are_those_of_all_columns(head, several, entries, shared, monkeypatch):
    samples = make_samples(60, several=several)
    expected, layer = Top(D, C, scaling="raw"), torch.nn.Linear(D, C)
    full = ClosedForm(head, moments(samples, expected.scaling), K)
    shared()
    monkeypatch.setattr(linear, "_ENTRIES", entries)
    few = ClosedForm(head, moments(samples, expected.scaling), K)
    features = make_samples(8, seed=3).inputs.fetch(range(8), None)
    for penalty in full.penalties[::4]:
        full.fill(expected.head, penalty)
        few.fill(layer, penalty)
        torch.testing.assert_close(layer.weight, expected.head.weight, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(layer.bias, expected.head.bias, rtol=1e-5, atol=1e-6)
        with torch.no_grad():
            logits = expected.head(features)
        logits = logits.log_softmax(1) if head == LDA else logits
        for solver in (full, few):
            some = solver.scorer(penalty, np.array([3, 8, 29]))(features)
            torch.testing.assert_close(some, logits[:, [3, 8, 29]], rtol=1e-5, atol=1e-5)


def fit(several=False, count=120, **settings):
    parts = make_samples(count, several=several), make_samples(80, seed=1, several=several)
    judge, asked = by_sp(parts, K), []

    def score(scores, rows, classes):
        asked.append((scores.shape, rows, classes))
        return judge(scores, rows, classes)

    return fit_by_sp(*parts, mean_labels=K, score=score, forest=False, **settings), asked


@pytest.fixture(scope="module")
def both():
    """The auto head with a column for each class, and with shared ones; tests only read them."""
    every = fit()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spml.models.solved.moments.MOST_COLUMNS", 10)
        return every, fit()


@pytest.mark.parametrize(
    "settings", [{}, {"cross_validate": True}, {"several": True}, {"classes": np.arange(C)}]
)
def test_the_auto_head_is_that_of_all_columns(settings, shared, both):
    expected, all_asked = fit(**settings) if settings else both[0]
    shared()
    found, asked = fit(**settings) if settings else both[1]
    assert len(asked) == len(all_asked) == 200
    assert (asked[0][1] == all_asked[0][1]).all()
    assert all_asked[0][2].tolist() == list(range(C))
    assert asked[0][2].tolist() == (list(range(C)) if "classes" in settings else SEEN.tolist())
    assert asked[0][0][1] == len(asked[0][2])
    for one, other in zip(found.tried, expected.tried, strict=True):
        assert one["score"] == pytest.approx(other["score"], abs=2e-3)  # near ties
    assert found.rows.tolist() == expected.rows.tolist()
    assert found.held_out.flags.c_contiguous  # as files of tensors demand
    np.testing.assert_allclose(found.held_out, expected.held_out, rtol=1e-3, atol=1e-3)
    features = make_samples(9, seed=2).inputs.fetch(range(9), None)
    torch.testing.assert_close(found.head(features), expected.head(features), rtol=1e-3, atol=1e-3)
    assert [layer.out_features for layer in found.head.heads] == [5] * len(found.head.heads)
    tops = []
    for result in (expected, found):
        top = Top(D, C)
        top.set_ensemble(result.head)
        tops.append(top.linear_start())
    for one, other in zip(tops[1].parameters(), tops[0].parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_a_head_with_shared_columns_is_saved(both, monkeypatch):
    head = copy.deepcopy(both[1][0].head)
    assert head.settings.columns == 5
    settings = msgspec.convert(msgspec.to_builtins(head.settings), EnsembleSettings)
    again = Ensemble(D, C, settings)
    again.load_state_dict(head.state_dict())
    features = make_samples(9, seed=2).inputs.fetch(range(9), None)
    logits = head(features)
    assert logits.shape == (9, C)
    assert torch.equal(again(features), logits)
    from spml.models.solved import ensemble

    monkeypatch.setattr(ensemble, "_ENTRIES", 1)  # one sample at a time
    # In float64: in float32, another order of the sums shows in the fifth digit on some CPUs.
    head, features = head.double(), features.double()
    one_at_a_time = head(features)
    monkeypatch.undo()
    assert one_at_a_time.dtype == torch.float64
    torch.testing.assert_close(one_at_a_time, head(features), rtol=1e-9, atol=1e-9)
    wrong = {**head.state_dict(), "of_class": torch.full((C,), 5)}
    with pytest.raises(ValueError, match="names a column that does not exist"):
        again.load_state_dict(wrong)


def test_a_column_for_each_class_is_not_mentioned_in_the_settings(both):
    head = both[0][0].head
    assert "columns" not in msgspec.to_builtins(head.settings)
    assert not [name for name in head.state_dict() if "of_class" in name or "log_sizes" in name]


def test_what_is_kept_of_the_held_out_logits(shared, both):
    shared()
    every = both[1][0].held_out

    def keep(logits):
        parts = list(logits(np.array([3, 4])))
        return np.concatenate([rows for rows, _ in parts]), np.concatenate([part for _, part in parts])

    result = fit(keep=keep)[0]
    rows, some = result.held_out
    assert rows.tolist() == result.rows.tolist()
    np.testing.assert_array_equal(some, every[:, [3, 4]])


def test_more_samples_decide_where_few_classes_are_known(shared, monkeypatch):
    """Only scores of classes with a known positive count, and of all others no more are kept."""
    monkeypatch.setattr(auto, "MOST_JUDGED", 50 * len(SEEN))
    whole, asked = fit()
    assert asked[0][0] == (50 * len(SEEN) // C, C)
    shared()
    few, asked = fit()
    assert asked[0][0] == (50, len(SEEN))
    monkeypatch.setattr(
        auto, "_ENTRIES", 40 * 5 * len(few.head.settings.members)
    )  # 40 samples for the logits
    again, asked = fit()
    assert asked[0][0] == (50, len(SEEN))
    for result in (whole, few, again):
        assert result.held_out.shape == (80, C)
        assert result.rows.tolist() == list(range(120, 200))
    for column in SEEN:
        assert np.corrcoef(again.held_out[:, column], few.held_out[:, column])[0, 1] > 0.999


def test_spaces_that_do_not_fit_are_left_out(monkeypatch, lines):
    monkeypatch.setattr(search, "MOST_WEIGHTS", 2 * 2 * D * C)
    head = fit()[0].head
    assert all(space.width == 0 for space in head.settings.spaces)
    assert "without Gaussian kernels, because heads of 30 classes" in lines[0]
    monkeypatch.setattr(search, "MOST_WEIGHTS", 2 * 2 * D * C - 1)
    with pytest.raises(InputError, match=r"30 classes with known positives on 5 features .*head=ridge"):
        fit()


def test_positives_of_training_and_validation_samples_are_numbered_together():
    train, val = make_samples(20), make_samples(9, seed=1, several=True)
    pool = spaces.Pool(train, val)
    rows = np.array([0, 7, 19, 20, 21, 24, 28])
    expected = np.concatenate([each.observed.to_ternary() for each in (train, val)])[rows] == 1
    np.testing.assert_array_equal(pool.labels(rows), expected)
    np.testing.assert_array_equal(pool.features(rows)[4], val.inputs.fetch([1], None)[0])


@pytest.mark.parametrize("share", [False, True])
def test_scores_of_some_columns_are_those_of_all(shared, monkeypatch, share):
    """LDA's probabilities sum to 1 over all columns, which are gone through in blocks."""
    if share:
        shared()
    monkeypatch.setattr(linear, "_BLOCK", 2)
    train, val = make_samples(200), make_samples(30, seed=1, several=True)
    pool = spaces.Pool(train, val)
    space = spaces.Spaces(pool, np.arange(200), "raw", (0.0,), seed=0)
    solver = space.solve()[0]
    parts = [
        solver.centred(next(space.inputs(rows, [0.0]))) for rows in (np.arange(200, 215), np.arange(215, 230))
    ]
    chosen = torch.tensor([3, 0, len(pool.columns) - 1])
    for head in (LDA, "ridge"):
        every = solver.scores(head, 0.1, parts)
        some = solver.scores(head, 0.1, parts, chosen)
        torch.testing.assert_close(some, every[:, chosen], rtol=0, atol=1e-5)
        if head == LDA:
            sizes = torch.from_numpy(pool.columns.sizes)
            torch.testing.assert_close((every.exp() * sizes).sum(1), torch.ones(30), rtol=0, atol=1e-4)
