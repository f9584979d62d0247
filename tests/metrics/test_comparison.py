"""Comparison of models by observed labels: equal to its definition in plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from spml.metrics import (
    Comparison,
    compare_models,
    compare_ranks,
    naive_map,
    observed_ranks,
    sample_warnings,
    sp_score,
)
from spml.metrics.bootstrap import resamples
from spml.metrics.comparison import spearman
from spml.metrics.observed import sp_scores
from tests.helpers.slow import one_hot, slow_sp


def slow_draws(samples, draws, seed):
    """Number of draws of each sample, from the 64-bit numbers of PCG64 one after the other."""
    bits = np.random.PCG64(seed)
    times = []
    for _ in range(draws):
        row = [0] * samples
        for _ in range(samples):
            row[int(bits.random_raw()) % samples] += 1
        times.append(row)
    return times


def deviation(values):
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def slow_comparison(models, observed, mean_labels, times):
    """SP, low, high, behind, sd and z of each model."""
    sp = [slow_sp(scores, observed, mean_labels)[0] for scores in models]
    drawn = [[slow_sp(scores, observed, mean_labels, row)[0] for row in times] for scores in models]
    best = sp.index(max(sp))
    found = []
    for value, draws in zip(sp, drawn, strict=True):
        spread = deviation(draws)
        sd = deviation([of_best - draw for of_best, draw in zip(drawn[best], draws, strict=True)])
        behind = sp[best] - value
        interval = (max(0.0, value - 1.96 * spread), value + 1.96 * spread)
        found.append((value, *interval, behind, sd, behind / sd if sd else 0.0))
    return found


def pool(samples=60, classes=4, models=4, seed=0):
    """Models of rising quality, with ties among their scores, and the observed classes."""
    rng = np.random.default_rng(seed)
    index = rng.integers(classes, size=samples)
    noise = rng.integers(5, size=(samples, classes))
    scores = [
        (noise + rng.integers(4, size=(samples, classes)) + model * one_hot(index, classes)).astype(
            np.float32
        )
        for model in range(models)
    ]
    return scores, index


@pytest.mark.parametrize("mean_labels", [1.0, 2.5])
def test_equals_the_definition(mean_labels):
    models, index = pool()
    found = compare_models(models, index, mean_labels, draws=50, seed=3)
    expected = slow_comparison(
        [scores.tolist() for scores in models],
        one_hot(index, 4).tolist(),
        mean_labels,
        slow_draws(60, 50, 3),
    )
    for candidate, values in zip(found.candidates, expected, strict=True):
        fields = (candidate.sp, candidate.low, candidate.high, candidate.behind, candidate.sd, candidate.z)
        assert fields == pytest.approx(values, rel=1e-8, abs=1e-11)
    tied = [str(model + 1) for model, values in enumerate(expected) if values[-1] <= 2.5]
    assert sorted(found.tie_set) == tied
    assert 1 <= len(tied) < 4
    assert found.tie_set[0] == str(1 + int(np.argmax([values[0] for values in expected])))
    assert [candidate.tied for candidate in found.candidates] == [
        str(model + 1) in tied for model in range(4)
    ]


def test_equals_the_definition_where_draws_hold_no_known_positive():
    rng = np.random.default_rng(1)
    models = [rng.normal(size=(6, 2)).astype(np.float32) for _ in range(3)]
    observed = [[1, 0], [0, 0], [0, -1], [0, 0], [0, 1], [0, 0]]
    times = slow_draws(6, 80, 0)
    some = [row for row in times if row[0] or row[4]]
    assert len(some) < 80
    found = compare_models(models, observed, 2.0, draws=80)
    expected = slow_comparison([scores.tolist() for scores in models], observed, 2.0, some)
    for candidate, values in zip(found.candidates, expected, strict=True):
        assert (candidate.sp, candidate.low, candidate.high) == pytest.approx(values[:3], rel=1e-9)
        assert (candidate.behind, candidate.sd) == pytest.approx(values[3:5], rel=1e-8, abs=1e-11)
    assert found.samples == 2


def test_parts_and_naive_map_are_those_of_each_model():
    models, index = pool(seed=2)
    for candidate, scores in zip(compare_models(models, index, 1.5).candidates, models, strict=True):
        assert (candidate.sp, candidate.p, candidate.a) == tuple(sp_score(scores, index, 1.5))
        assert candidate.naive == naive_map(scores, index)


def test_ranks_are_by_each_statistic_and_equal_values_share_one():
    models, index = pool(seed=4)
    found = compare_models([*models, models[3]], index).candidates
    for statistic in ("sp", "p", "a", "naive"):
        values = [getattr(candidate, statistic) for candidate in found]
        ranks = [getattr(candidate, f"{statistic}_rank") for candidate in found]
        assert ranks == [1 + sum(other > value for other in values) for value in values]
        assert ranks[3] == ranks[4]


def test_draws_are_the_same_whatever_the_platform_and_the_blocks(monkeypatch):
    whole = np.concatenate(list(resamples(7, 60, 5)))
    np.testing.assert_array_equal(whole, slow_draws(7, 60, 5))
    monkeypatch.setattr("spml.metrics.bootstrap._BLOCK", 20)
    parts = list(resamples(7, 60, 5))
    assert [len(part) for part in parts] == [2] * 30
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    # Fixed values, which detect another generator or another use of it.
    assert whole[0].tolist() == [1, 2, 1, 1, 0, 0, 2]


def test_names_tensors_and_ranks_give_the_same():
    models, index = pool(seed=6)
    named = compare_models({str(model + 1): scores for model, scores in enumerate(models)}, index)
    assert named == compare_models(models, index)
    assert named == compare_models([torch.from_numpy(scores) for scores in models], torch.from_numpy(index))
    ranks = {str(model + 1): observed_ranks(scores, index) for model, scores in enumerate(models)}
    assert named == compare_ranks(ranks, len(index))


def test_a_candidate_equal_to_the_best_is_always_tied_and_its_position_does_not_matter():
    for seed in range(10):
        models, index = pool(samples=30, seed=seed)
        best = models[int(np.argmax([sp_score(scores, index).score for scores in models]))]
        twin = np.exp(best.astype(np.float64)) * 3 - 7  # other scores in the same order
        found = compare_models({"twin": twin, **dict(zip("abcd", models, strict=True))}, index)
        assert found.candidates[0].tied
        assert (found.candidates[0].behind, found.candidates[0].z) == (0, 0)
        assert found.tie_set[0] == "twin"  # the first of equals


def test_rounding_breaks_no_tie():
    """Tied samples may be ranked in any order, which changes the last digits of sums."""
    for seed in range(20):
        (*_, scores), index = pool(seed=seed)
        ranks, rng = observed_ranks(scores, index), np.random.default_rng(seed)
        order = np.lexsort((rng.random(len(index)), ranks.ge, ranks.columns))
        shuffled = ranks._replace(rows=ranks.rows[order])
        np.testing.assert_array_equal(ranks.ge[order], ranks.ge)
        found = compare_ranks({"a": ranks, "b": shuffled, "c": ranks}, len(index))
        assert [candidate.z for candidate in found.candidates] == [0, 0, 0]
        assert [candidate.sd for candidate in found.candidates] == [0, 0, 0]
        assert found.tie_set == ("a", "b", "c")


def test_a_difference_that_no_draw_changes_is_infinitely_clear():
    good, bad = [[1.0], [0.0]], [[0.0], [1.0]]  # the one known positive first, or last
    found = compare_models({"good": good, "bad": bad}, [[1], [0]])
    assert found.tie_set == ("good",)
    assert found.candidates[1].z == math.inf
    assert found.candidates[1].sd == 0


def test_one_model_alone():
    (scores, *_), index = pool(samples=200, classes=20, seed=7)
    found = compare_models({"only": scores}, index)
    assert found.tie_set == ("only",)
    assert (found.spearman_naive, found.spearman_p_a, found.warnings) == (None, None, ())
    assert found.candidates[0].low < found.candidates[0].sp < found.candidates[0].high
    assert found.candidates[0][7:] == (1, 1, 1, 1, 0.0, 0.0, 0.0, True)


@pytest.mark.parametrize(
    "values", [[1.0, 2.0, 2.0, 5.0, 3.0], [3.0, 3.0, 1.0, 1.0, 2.0], [5.0, 1.0, 4.0, 2.0, 3.0]]
)
def test_spearman_equals_scipy(values):
    from scipy.stats import spearmanr

    other = np.array([0.1, 0.5, 0.2, 0.2, 0.9])
    assert spearman(np.array(values), other) == pytest.approx(spearmanr(values, other).statistic)


def test_spearman_of_a_constant_is_undefined():
    assert spearman(np.ones(3), np.arange(3.0)) is None
    assert spearman(np.arange(3.0), np.ones(3)) is None


# -- when to warn ----------------------------------------------------------------------------------------


def test_few_samples():
    assert sample_warnings(150, 20, 2.0) == ()
    (warning,) = sample_warnings(149, 20, 2.0)
    assert "Only 149 samples have a known positive label" in warning
    models, index = pool(samples=149, classes=20)
    assert compare_models(models, index).warnings[0] == warning


def test_samples_without_a_known_positive_do_not_count():
    models, index = pool(samples=160, classes=20)
    observed = one_hot(index, 20)
    assert compare_models(models, observed).samples == 160
    observed[:20] = 0
    found = compare_models(models, observed)
    assert found.samples == 140
    assert "Only 140 samples" in found.warnings[0]


def test_many_labels_for_the_classes():
    assert sample_warnings(500, 10, 2.0) == ()
    (warning,) = sample_warnings(500, 9, 2.0)
    assert "K = 2 labels per sample are 22% of the 9 classes" in warning


def said(found: Comparison, text: str) -> bool:
    return any(text in warning for warning in found.warnings)


def test_a_large_tie_set():
    models, index = pool(samples=200, classes=20, models=4)
    found = compare_models([models[0]] * 3 + [models[3]] * 2, index)
    assert len(found.tie_set) == 2
    assert said(found, "2 of 5 candidates are in the tie set")
    assert said(found, "label 100 to 200 samples in full")
    # A quarter of the candidates, or the best one alone, is no reason for a warning.
    assert not said(compare_models([models[0]] * 6 + [models[3]] * 2, index), "tie set")
    assert not said(compare_models([models[0], models[3]], index), "tie set")
    assert said(compare_models([models[3], models[3]], index), "2 of 2 candidates are in the tie set")


def test_sp_and_naive_map_that_disagree():
    models, index = pool(samples=200, classes=20, models=5)
    agreed = compare_models(models, index)
    assert agreed.spearman_naive == pytest.approx(1.0)
    assert not said(agreed, "naive mAP")
    rng = np.random.default_rng(3)
    alike = [models[4] + 0.3 * rng.normal(size=models[4].shape) for _ in range(12)]
    found = compare_models(alike, index)
    scores, naive = zip(*((c.sp, c.naive) for c in found.candidates), strict=True)
    assert found.spearman_naive == spearman(np.array(scores), np.array(naive))
    assert found.spearman_naive < 0.8
    assert said(found, "SP-score and naive mAP order the 12 candidates differently (Spearman 0.")


def test_p_and_a_that_disagree_in_the_upper_half():
    models, index = pool(samples=300, classes=20, models=4)
    top = one_hot(index, 20)
    rng = np.random.default_rng(0)
    # A peak: half of the known positives at the very top, the others at random. A level: all a bit higher.
    lucky = rng.random((300, 1)) < 0.5
    noise = rng.normal(size=(300, 20))
    peaks = [np.where(lucky & (top == 1), 9.0, noise + step * top) for step in (0.0, 0.1)]
    levels = [noise + (1.2 + step) * top for step in (0.0, 0.1)]
    bad = [noise * 1.0, -noise, noise[::-1], noise[:, ::-1]]
    found = compare_models([*peaks, *levels, *bad], index)
    upper = sorted(found.candidates, key=lambda candidate: -candidate.sp)[:4]
    expected = spearman(np.array([c.p for c in upper]), np.array([c.a for c in upper]))
    assert {candidate.name for candidate in upper} == {"1", "2", "3", "4"}
    assert found.spearman_p_a == expected < 0.5
    assert said(found, "P and A, the two parts of the SP-score, order the upper half")
    agreed = compare_models([*models, *bad], index)
    assert agreed.spearman_p_a == pytest.approx(1.0)
    assert not said(agreed, "P and A")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], [0]), "no model"),
        (([[[0.0, 1.0]]], [0], 2.0, 49), "draws must be at least 50, got 49"),
        (({"a": [[0.0, 1.0]], "b": [[0.0, np.nan]]}, [0]), "b: scores: row 0, column 1 is NaN"),
        (({"a": [[0.0, 1.0]], "b": [[0.0]]}, [1]), "b: row 0: observed class 1"),
        (([[[0.0, 1.0]]], [0], 0.0), "mean_labels must be above 0"),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        compare_models(*arguments)


def test_ranks_of_other_labels_are_refused():
    scores = np.zeros((4, 2))
    ranks = {"a": observed_ranks(scores, [0, 1, 0, 1]), "b": observed_ranks(scores, [0, 0, 0, 1])}
    with pytest.raises(ValueError, match="b was ranked with other labels than a"):
        compare_ranks(ranks, 4)


def test_models_are_compared_by_draws_of_groups():
    """The standard deviation is that of SP-scores on the same draws of groups, by its definition."""
    rng = np.random.default_rng(0)
    observed, groups = rng.integers(0, 4, 90), rng.integers(0, 12, 90)
    truth = np.eye(4)[observed]
    scores = {name: truth + noise * rng.normal(size=(90, 4)) for name, noise in (("good", 1), ("bad", 2))}
    compared = compare_models(scores, observed, 1.5, draws=60, seed=3, groups=groups)
    drawn = np.concatenate([*resamples(12, 60, 3)])[:, groups]
    values = [sp_scores(observed_ranks(model, observed), drawn, 1.5)[:, 0] for model in scores.values()]
    assert compared.candidates[1].sd == pytest.approx((values[0] - values[1]).std(ddof=1), rel=1e-9)
    assert (
        compared.candidates[1].sd != compare_models(scores, observed, 1.5, draws=60, seed=3).candidates[1].sd
    )


@pytest.mark.long
def test_the_interval_covers_the_score_on_other_samples_of_the_same_size():
    """Of 200 sets of 200 samples, about 95 % of the intervals contain the mean over all sets."""
    rng = np.random.default_rng(0)
    intervals, scores = [], []
    for _ in range(200):
        truth = rng.random((200, 10)) < 0.2
        truth[np.arange(200), rng.integers(10, size=200)] = True
        index = np.argmax(truth * rng.random((200, 10)), axis=1)
        (found,) = compare_models([rng.normal(size=(200, 10)) + 1.5 * truth], index).candidates
        intervals.append((found.low, found.high))
        scores.append(found.sp)
    mean = np.mean(scores)
    assert 0.9 <= np.mean([low <= mean <= high for low, high in intervals]) <= 0.99
