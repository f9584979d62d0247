"""Thresholds of classes as a file holds them, and the targets that they aim at."""

from __future__ import annotations

import json
import math

import msgspec
import numpy as np
import pytest

from spml.common.errors import InputError
from spml.decisions import (
    ClassCut,
    Knots,
    MeanLabels,
    Policy,
    RecallCurves,
    Rows,
    Target,
    decide_cuts,
    decode_policy,
    encode_policy,
    f1_cuts,
    fit_calibration,
    label_cuts,
    logits_of,
    precision_cuts,
    priors_from_shares,
    read_target,
    recall_cuts,
    scores_of,
)


def make_policy(**changes):
    settings = {
        "spml": "0.1", "model": "abc", "scale": "sigmoid", "target": Target(),
        "mean_labels": MeanLabels(1.5, "stated"), "rows": Rows(40, "held out"),
        "calibration": Knots([-1.0, 2.0], [0.1, 0.8], [0.05, 0.6]), "warnings": ("Beware.",),
        "classes": (
            ClassCut("cat", 0.25, 0.5, 0.75, 10.0, 0.25, 7), ClassCut("dog", None, None, 0.0, 20.0, 0.5, 13),
        ),
        **changes,
    }  # fmt: skip
    return Policy(**settings)


def test_what_is_written_is_read():
    policy = make_policy(gamma=0.65, mean_labels=MeanLabels(1.5, "audit", 1.2, 1.8))
    read = decode_policy(encode_policy(policy))
    assert read == policy
    assert read.logits == pytest.approx((-math.log(3), math.inf))
    assert read.names == ("cat", "dog")
    assert read.priors.shares.tolist() == [0.25, 0.5]
    assert (read.priors.mean_labels, read.priors.source, read.priors.gamma) == (1.5, "audit", 0.65)
    assert read.priors.looks_biased
    assert read.calibrated([-5.0, 0.5, 9.0]) == pytest.approx([0.1, 0.45, 0.8])


@pytest.mark.parametrize("scale", ["sigmoid", "exp"])
def test_thresholds_are_scores_that_give_the_logits_back(scale):
    logits = -np.geomspace(1e-6, 600, 50)
    if scale == "sigmoid":
        logits = np.r_[logits, np.linspace(0, 20, 30)]
    scores = scores_of(logits, scale)
    assert ((scores > 0) & (scores < 1)).all()
    assert scores == pytest.approx(1 / (1 + np.exp(-logits)) if scale == "sigmoid" else np.exp(logits))
    assert np.abs(logits_of(scores, scale) - logits).max() < 1e-6
    assert scores_of([np.inf], scale).tolist() == logits_of([np.inf], scale).tolist() == [np.inf]
    # What rounding has made 0 or 1 is still predicted by some score.
    assert np.isfinite(logits_of(scores_of([-900.0, 900.0], scale), scale)).all()
    cuts = tuple(ClassCut(str(k), float(score), 0.5, 0.5, 1.0, 0.1, 1) for k, score in enumerate(scores))
    read = decode_policy(encode_policy(make_policy(classes=cuts, scale=scale)))
    assert read.classes == cuts
    assert read.logits == pytest.approx(logits, abs=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 1}, {"model": 3}, {"more": 1}, {"classes": [{"name": "cat"}]},
        {"target": {"name": "f2", "value": None, "per_class": True}},
        {"mean_labels": {"value": -1.0, "source": "stated", "low": None, "high": None}},
        {"mean_labels": {"value": 1.5, "source": "default", "low": None, "high": None}},
        {"calibration": {"logits": [1.0, 0.0], "probabilities": [0.1, 0.2], "hidden": [0.1, 0.2]}},
        {"calibration": {"logits": [1.0], "probabilities": [0.1, 0.2], "hidden": [0.1, 0.2]}},
        {"mean_labels": {"value": 1.5, "source": "default", "low": None, "high": None}, "calibration": None},
        {"columns": [1, 4]}, {"num_classes": 6}, {"columns": [1], "num_classes": 6},
        {"columns": [1, 2, 3], "num_classes": 6}, {"columns": [4, 1], "num_classes": 6},
        {"columns": [1, 1], "num_classes": 6}, {"columns": [1, 6], "num_classes": 6},
        {"columns": [-1, 4], "num_classes": 6}, {"columns": [1, 4], "num_classes": -6},
        {"columns": [1, 1 << 70], "num_classes": 6}, {"columns": [1.5, 4], "num_classes": 6},
        {"columns": ["1", "4"], "num_classes": 6}, {"columns": 1, "num_classes": 6},
        {"columns": [], "num_classes": 6}, {"columns": [1, 4], "num_classes": 1 << 70},
    ],
)  # fmt: skip
def test_a_file_of_another_structure_is_refused(change):
    content = json.loads(encode_policy(make_policy())) | change
    del content["sha256"]
    words = r"columns|num_classes|[Ee]xpected" if {"columns", "num_classes"} & change.keys() else r"."
    with pytest.raises(ValueError, match=words) as error:
        decode_policy(json.dumps(content).encode())
    assert not isinstance(error.value, AssertionError)


def test_classes_without_expected_positives_need_not_be_listed():
    policy = make_policy(columns=(1, 4), num_classes=6)
    read = decode_policy(encode_policy(policy))
    assert read == policy
    assert read.logits == pytest.approx((math.inf, -math.log(3), *[math.inf] * 4))
    assert read.priors.shares.tolist() == [0, 0.25, 0, 0, 0.5, 0]
    assert read.is_of(["a", "cat", "b", "c", "dog", "d"])
    assert not read.is_of(["a", "b", "cat", "c", "dog", "d"])
    assert not read.is_of(["a", "cat", "b", "c", "dog"])
    assert not read.is_of(["cat", "dog"])


def test_no_damaged_bit_changes_a_threshold():
    """It is refused, or it was only in the layout of the JSON."""
    policy = make_policy()
    content, same = encode_policy(policy), 0
    bits = range(0, 8 * len(content), 3)
    for bit in bits:
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            read = decode_policy(bytes(damaged))
        except (ValueError, UnicodeDecodeError):
            continue
        assert read == policy
        same += 1
    assert same < 0.01 * len(bits)


def test_a_changed_file_is_refused_unless_its_checksum_is_removed():
    content = json.loads(encode_policy(make_policy()))
    content["classes"][0]["threshold"] = 0.5
    with pytest.raises(ValueError, match="to keep a change of your own, remove the field sha256"):
        decode_policy(json.dumps(content).encode())
    del content["sha256"]
    assert decode_policy(json.dumps(content).encode()).logits == (0.0, math.inf)


def test_wrong_classes_are_named():
    cut = ClassCut("cat", 0.25, 0.5, 0.75, 10.0, 0.25, 7)
    with pytest.raises(ValueError, match="a class twice"):
        decode_policy(encode_policy(make_policy(classes=(cut, cut))))
    with pytest.raises(msgspec.ValidationError, match=r"classes\[0\].precision"):
        decode_policy(encode_policy(make_policy(classes=(ClassCut("cat", 0.2, 1.5, 0.7, 1.0, 0.2, 7),))))


@pytest.mark.parametrize(
    ("text", "per_class", "expected", "described"),
    [
        ("f1", False, Target("f1", None, True), "f1, per class"),
        ("labels", False, Target("labels", None, False), "labels"),
        ("precision=0.9", False, Target("precision", 0.9, False), "precision=0.9"),
        ("recall=.8", True, Target("recall", 0.8, True), "recall=0.8, per class"),
    ],
)
def test_targets_are_understood(text, per_class, expected, described):
    target = read_target(text, per_class=per_class)
    assert target == expected
    assert target.describe() == described


@pytest.mark.parametrize(
    "text", ["", "f2", "precision", "recall=1", "recall=0", "recall=a", "precision=1e", "f1=1"]
)
def test_other_targets_are_refused(text):
    with pytest.raises(InputError, match="`target` must be f1, labels, or precision=P or recall=R"):
        read_target(text)
    with pytest.raises(InputError, match="leave out `per_class`"):
        read_target("labels", per_class=True)


@pytest.fixture(scope="module")
def scored():
    """Simulated scores, one known label each."""
    rng = np.random.default_rng(0)
    truth = rng.random((400, 5)) < [0.5, 0.4, 0.3, 0.2, 0.1]
    truth[np.arange(400), rng.integers(0, 5, 400)] = True
    scores = (2.0 * truth + rng.normal(size=truth.shape)).astype(np.float32)
    labels = np.zeros(truth.shape, np.int8)
    for row, positive in enumerate(truth):
        labels[row, rng.choice(np.flatnonzero(positive))] = 1
    return scores, labels, priors_from_shares(labels.sum(0), truth.sum(1).mean())


def test_each_target_has_its_rule(scored):
    scores, labels, priors = scored
    calibration = fit_calibration(scores, labels, priors)
    expected = {
        Target(): f1_cuts(scores, labels, priors),
        Target("labels", None, False): label_cuts(scores, labels, priors, priors.mean_labels),
        Target("recall", 0.8, True): recall_cuts(scores, labels, priors, 0.8, per_class=True),
        Target("recall", 0.8, False): recall_cuts(scores, labels, priors, 0.8, per_class=False),
        Target("precision", 0.7, False): precision_cuts(
            scores, labels, priors, calibration, 0.7, per_class=False
        ),
    }
    for target, cuts in expected.items():
        decided = decide_cuts(target, scores, labels, priors, calibration)
        np.testing.assert_array_equal(decided.thresholds, cuts.thresholds)
        again = RecallCurves(scores, labels, priors, calibration).at(cuts.thresholds)
        np.testing.assert_array_equal(decided.precision, again.precision)
        np.testing.assert_array_equal(decided.recall, again.recall)
        assert np.isfinite(decided.precision[np.isfinite(cuts.thresholds)]).all()
        # Without probabilities nothing is estimated.
        if target.name != "precision":
            plain = decide_cuts(target, scores, labels, priors, None)
            np.testing.assert_array_equal(plain.thresholds, cuts.thresholds)
            assert np.isnan([plain.precision, plain.recall]).all()
    assert len({tuple(cuts.thresholds) for cuts in expected.values()}) == 5


def test_a_precision_needs_to_know_k(scored):
    with pytest.raises(InputError, match=r"needs probabilities. .*mean_labels=K\), or .* \(audit=FILE\)"):
        decide_cuts(Target("precision", 0.7, False), *scored, None)
