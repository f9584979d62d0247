"""Rules that infer labels, independent of any loss: which labels, when, and that known labels win."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from spml.labels import ObservedLabels
from spml.methods.base import Batch, Facts, Outputs, Progress
from spml.methods.inference_rules import RULES, make_rule

# Four samples, three classes. The third sample has a known negative.
KNOWN = torch.tensor([[1, 0, 0], [0, 1, 0], [1, 0, -1], [0, 0, 1]], dtype=torch.int8)
P = torch.tensor([[0.05, 0.97, 0.60], [0.20, 0.10, 0.92], [0.30, 0.80, 0.99], [0.96, 0.40, 0.02]])
ROWS = torch.arange(4)
BATCH = Batch(KNOWN, ROWS, seed=7)
FACTS = Facts(ObservedLabels.from_ternary(KNOWN), tuple("abcd"), tuple("xyz"), 1.5)
SINGLE = Facts(ObservedLabels.from_index([0, 1, 0, 2], 3), FACTS.ids, FACTS.classes, 1.5)


def start(name, facts=FACTS, **settings):
    rule = make_rule(name, settings)
    rule.on_fit_start(facts)
    return rule


def epoch(rule, number, p=P, epochs=4, batch=BATCH):
    """Train one epoch in one step."""
    rule.on_epoch_start(Progress(number, epochs))
    rule.after_step(Outputs(torch.logit(p), p), batch)
    rule.on_epoch_end(Progress(number, epochs), (lambda: torch.logit(p)) if rule.needs.train_pass else None)


def filled(rule, batch=BATCH):
    target = rule.fill(batch).target
    return target.tolist()


def test_apl_makes_negatives_of_the_lowest_scores():
    for predictions in ("pass", "training"):
        rule = start("apl", warmup=1, proportion=1.0, predictions=predictions)
        epoch(rule, 0)
        # Unknown are 2, 3, 2; in 3 passes int(2/3), int(3/3), int(2/3) of them.
        assert filled(rule) == [[1, 0, 0], [0, 1, 0], [1, 0, -1], [0, -1, 1]]
        assert rule.labels.inferred[3, 1].item() == pytest.approx(0.4)
        epoch(rule, 1)
        assert filled(rule) == [[1, 0, 0], [0, 1, 0], [1, -1, -1], [0, -1, 1]]
        epoch(rule, 3)
        assert filled(rule) == [[1, 0, 0], [0, 1, 0], [1, -1, -1], [0, -1, 1]]


def test_apl_with_training_predictions_needs_no_pass():
    rule = start("apl", warmup=1, proportion=1.0, predictions="training")
    rule.after_step(Outputs(torch.logit(P), P), BATCH)
    rule.on_epoch_end(Progress(0, 4), lambda: pytest.fail("no pass is needed"))
    assert filled(rule)[3] == [0, -1, 1]


def test_large_losses_become_positives_from_the_second_epoch_on():
    rule = start("large_loss", percent=10)
    epoch(rule, 0)
    assert filled(rule) == KNOWN.tolist()
    epoch(rule, 1)  # ceil(1.2) = 2 of 12
    assert filled(rule) == [[1, 1, 0], [0, 1, 0], [1, 0, -1], [1, 0, 1]]
    epoch(rule, 2)
    assert filled(rule) == [[1, 1, 0], [0, 1, 1], [1, 1, -1], [1, 0, 1]]
    strict = start("large_loss", percent=10, strict=True)
    epoch(strict, 1)
    assert filled(strict) == [[1, 1, 0], [0, 1, 0], [1, 0, -1], [0, 0, 1]]


def test_correction_flips_more_where_the_average_precision_is_low():
    # AP: x: known rows 0 and 2, ranks 4 and 2 -> (1/2 + 2/4) / 2 = 0.5; y: row 1 is last: 0.25; z: row 3 is
    # last: 0.25. Flips: int(0.7 * 4 * (1 - AP)) = 1, 2, 2.
    rule = start("correction", rate=0.7)
    epoch(rule, 0)
    assert filled(rule) == [[1, 1, 1], [0, 1, 1], [1, 1, -1], [1, 0, 1]]
    last = start("correction", rate=0.7)
    epoch(last, 3)
    assert filled(last) == KNOWN.tolist()


def test_confident_predictions_become_positives_permanently():
    rule = start("confident", theta=0.9, warmup=2)
    epoch(rule, 0)
    assert filled(rule) == KNOWN.tolist()
    epoch(rule, 1)
    expected = [[1, 1, 0], [0, 1, 1], [1, 0, -1], [1, 0, 1]]
    assert filled(rule) == expected
    epoch(rule, 2, 1 - P)
    assert filled(rule) == [[1, 1, 0], [0, 1, 1], [1, 0, -1], [1, 0, 1]]
    epoch(rule, 2, torch.full_like(P, 0.9))
    assert filled(rule) == expected  # not above theta
    last = start("confident", theta=0.9, warmup=0)
    epoch(last, 3)
    assert filled(last) == KNOWN.tolist()


def test_averages_are_labels_while_they_are_beyond_a_threshold():
    rule = start("ema", decay=0.5, positive=0.9, negative=0.1, warmup=1)
    rule.on_epoch_start(Progress(0, 4))
    assert rule.fill(BATCH) is BATCH
    epoch(rule, 0)
    assert filled(rule) == KNOWN.tolist()  # still the first epoch
    rule.on_epoch_start(Progress(1, 4))
    assert filled(rule) == [[1, 1, 0], [0, 1, 1], [1, 0, -1], [1, 0, 1]]
    epoch(rule, 1, torch.full_like(P, 0.5))
    assert filled(rule) == KNOWN.tolist()
    epoch(rule, 2, torch.zeros_like(P))
    # Averages of P, 0.5 and 0, at weights 1/4, 1/4, 1/2: all are below 0.3, but none is below 0.1.
    assert filled(rule) == KNOWN.tolist()
    for positive, negative, sign in ((0.5, None, 1), (None, 0.5, -1)):
        exact = start("ema", positive=positive, negative=negative, warmup=0)
        epoch(exact, 0, torch.full_like(P, 0.5))
        assert filled(exact) == torch.where(KNOWN == 0, sign, KNOWN).tolist()
    epoch(rule, 3, torch.zeros_like(P))
    assert torch.allclose(rule.averages.average, P / 8 + 0.5 / 8)
    assert filled(rule) == [[1, 0, 0], [-1, 1, 0], [1, 0, -1], [0, 0, 1]]


def test_one_threshold_is_enough_and_samples_without_a_prediction_do_not_change():
    for settings, expected in (
        ({"positive": 0.9}, [0, 0, 0]),
        ({"positive": None, "negative": 0.3}, [-1, 0, 0]),
    ):
        rule = start("ema", warmup=0, **settings)
        rule.on_epoch_start(Progress(0, 4))
        rule.after_step(Outputs(torch.logit(P[1:2]), P[1:2]), Batch(KNOWN[1:2], ROWS[1:2]))
        actual = filled(rule)
        assert actual[0] == KNOWN[0].tolist()
        assert actual[1] == [expected[0], 1, 1 if settings["positive"] else 0]


def test_expected_negatives_are_the_lowest_averages():
    # 2, 1 and 1 known positives of 4; K N = 6 positives: 3, 1.5, 1.5 expected, rounded 3, 2, 2; so 1, 2 and
    # 2 - 1 (one negative of z is known) negatives.
    rule = start("expected_negatives", decay=0.0)
    assert filled(rule) == [[1, -1, -1], [-1, 1, -1], [1, -1, -1], [-1, -1, 1]]
    epoch(rule, 0)
    assert filled(rule) == [[1, 0, -1], [-1, 1, 0], [1, -1, -1], [0, -1, 1]]


@pytest.mark.parametrize("name", RULES)
def test_known_labels_win_in_either_form_and_the_rest_of_the_batch_does_not_change(name):
    settings = {
        "apl": {"warmup": 1, "proportion": 1.0},
        "confident": {"theta": 0.0, "warmup": 0},
        "correction": {"rate": 1.0},
        "ema": {"positive": 0.0, "warmup": 0},
        "expected_negatives": {},
        "large_loss": {"percent": 100},
    }[name]
    single = Batch(torch.tensor([0, 1, 0, 2]), ROWS, seed=9)
    rule = start(name, SINGLE, **settings)
    for number in range(3):
        epoch(rule, number, batch=single)
    actual = rule.fill(single)
    matrix = rule.fill(Batch(torch.from_numpy(SINGLE.observed.to_ternary()), ROWS))
    assert torch.equal(actual.target, matrix.target)
    assert actual.target.dtype == torch.int8
    assert actual.seed == 9
    assert actual.index is single.index
    assert actual.target[ROWS, single.target].tolist() == [1, 1, 1, 1]
    assert (actual.target != 0).sum() > 4, "nothing was inferred"
    some = rule.fill(Batch(single.target[[3, 1]], torch.tensor([3, 1])))
    assert torch.equal(some.target, actual.target[[3, 1]])


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("apll", {}, r"unknown memory 'apll'\. Did you mean apl\?"),
        ("apl", {"warm_up": 2}, r"memory 'apl' has no setting 'warm_up'\. Did you mean warmup\?"),
        ("apl", 2, "memory 'apl': expected settings by name, got 2"),
        ("apl", {"warmup": 0.5}, "memory 'apl': warmup must be a whole number of epochs"),
        ("apl", {"predictions": "old"}, "memory 'apl': predictions must be one of"),
        ("confident", {"theta": 1.5}, r"memory 'confident': theta must lie in \[0, 1\]"),
        ("correction", {"rate": -1}, r"memory 'correction': rate must lie in \[0, 1\]"),
        ("ema", {"decay": 2}, r"memory 'ema': decay must lie in \[0, 1\]"),
        ("ema", {"positive": 2}, r"memory 'ema': positive must lie in \[0, 1\]"),
        ("ema", {"positive": None}, "memory 'ema': positive or negative must be given"),
        ("ema", {"positive": 0.5, "negative": 0.5}, "negative must be less than positive, 0.5, got 0.5"),
        ("ema", {"warmup": -1}, "memory 'ema': warmup must be"),
        ("expected_negatives", {"decay": -1}, "memory 'expected_negatives': decay must lie"),
        ("large_loss", {"percent": 0}, "memory 'large_loss': percent must be greater than 0"),
    ],
)
def test_wrong_settings_are_refused(name, settings, message):
    with pytest.raises(ValueError, match=message):
        make_rule(name, settings)


def test_a_sample_is_averaged_once_it_has_been_predicted():
    rule = start("ema")
    first = Outputs(torch.logit(P[:2]), P[:2])
    rule.after_step(first, Batch(KNOWN[:2], ROWS[:2]))
    average = rule.averages.rows(ROWS, 0.25)
    assert np.allclose(average[:2], P[:2])
    assert (average[2:] == 0.25).all()
