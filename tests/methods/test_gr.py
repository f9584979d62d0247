"""GR: schedules, norm, and what follows from the mean labels per sample."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from spml.common.errors import InputError
from spml.labels import ObservedLabels
from spml.losses import gpr_loss, gr_loss
from spml.methods.base import Batch, Facts, Outputs, Progress
from spml.methods.registry import create
from tests.reference.gr import gr

INDEX = [0, 2, 1, 4]
IDS, CLASSES = tuple("abcd"), tuple("vwxyz")
OBSERVED = ObservedLabels.from_index(INDEX, 5)
Z = 2 * torch.randn(4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
BATCH = Batch(torch.tensor(INDEX), torch.arange(4))
MATRIX = torch.nn.functional.one_hot(BATCH.target, 5)
AT_END = {"schedule": "constant"}


def start(name="gr", mean_labels=None, observed=OBSERVED, epoch=0, epochs=5, **hp):
    objective = create(name, hp)
    objective.on_fit_start(Facts(observed, IDS, CLASSES, mean_labels))
    objective.on_epoch_start(Progress(epoch, epochs))
    return objective


def loss(objective) -> float:
    return objective(Outputs(Z, Z), BATCH)["gr"].item()


def test_the_loss_as_printed_is_the_class_sum_of_equations_4_to_14():
    """Tables 1 and 6 for VOC: in the last epoch t = T all parameters have their end values."""
    hp = {"q1": 0.01, "norm": "samples", "timing": "paper"}
    values = {"q1": 0.01, "q2": 0.01, "q3": 1.0}
    first = values | {"w": 0.0, "b": -2.0, "mu": 0.5, "sigma": 2.0}
    middle = values | {"w": 1.0, "b": -2.0, "mu": 0.65, "sigma": 1.25}
    last = values | {"w": 2.0, "b": -2.0, "mu": 0.8, "sigma": 0.5}
    for epoch, now in ((0, first), (2, middle), (4, last)):
        mean = gr(Z.tolist(), MATRIX.tolist(), "logistic", "gaussian", now)
        assert loss(start(epoch=epoch, **hp)) == pytest.approx(5 * mean, rel=1e-12)
        assert loss(start(epoch=epoch, **hp | {"norm": "elements"})) == pytest.approx(mean, rel=1e-12)


@pytest.mark.parametrize("name", ["gr", "gpr"])
@pytest.mark.parametrize(
    ("timing", "w", "mu"),
    [
        ("released", [0, 0.5, 1, 1.5], [0.575, 0.65, 0.725, 0.8]),
        ("paper", [0, 2 / 3, 4 / 3, 2], [0.5, 0.6, 0.7, 0.8]),
        ("from_start", [0, 0.5, 1, 1.5], [0.5, 0.575, 0.65, 0.725]),
        ("to_end", [0.5, 1, 1.5, 2], [0.575, 0.65, 0.725, 0.8]),
    ],
)
def test_timings_of_four_epochs(name, timing, w, mu):
    """Eq. 9 and 12 for VOC; t = 0 ... T has five values for four epochs."""
    hp = {"timing": timing} | ({"reg": 0} if name == "gpr" else {})
    epochs = [start(name, epoch=epoch, epochs=4, **hp).now for epoch in range(4)]
    assert [now["w"] for now in epochs] == pytest.approx(w)
    assert [now["mu"] for now in epochs] == pytest.approx(mu)


@pytest.mark.parametrize("timing", ["released", "paper", "from_start", "to_end"])
def test_one_epoch_has_the_first_or_the_last_value(timing):
    expected = 2.0 if timing == "to_end" else 0.0
    assert start(timing=timing, epoch=0, epochs=1).now["w"] == expected


@pytest.mark.parametrize(
    ("mean_labels", "classes", "share"), [(1.46, 20, 0.0242), (2.94, 80, 0.02456), (31.4, 312, 0.09775)]
)
def test_the_share_of_positives_among_unknown_labels_of_the_benchmarks(mean_labels, classes, share):
    """Remark 1: #{y = 1, s = 0} / #{s = 0} = (K - 1) / (C - 1) with one observed positive per sample."""
    objective = create("gr", {"b": ["auto", -2]})
    names = tuple(map(str, range(classes)))
    observed = ObservedLabels.from_index(np.arange(classes), classes)
    objective.on_fit_start(Facts(observed, names, names, mean_labels))
    objective.on_epoch_start(Progress(0, 10))
    assert 1 / (1 + math.exp(-objective.now["b"])) == pytest.approx(share, rel=1e-3)
    assert objective.now["b"] == pytest.approx(math.log((mean_labels - 1) / (classes - mean_labels)))


def test_an_automatic_start_of_b_makes_k_the_automatic_share_while_w_is_zero():
    logistic = loss(start(mean_labels=2.0, b=["auto", -8]))
    constant = loss(start(mean_labels=2.0, k="constant", share="auto"))
    assert logistic == pytest.approx(constant, rel=1e-12)
    expected = gr_loss(Z, BATCH.target, k="constant", share=1 / 4, mu=0.5 + 0.3 / 5, sigma=2 - 1.5 / 5)
    assert constant == pytest.approx(expected.item(), rel=1e-12)


def test_a_schedule_may_begin_or_end_at_the_automatic_value():
    logit = math.log((1 / 4) / (3 / 4))  # K = 2, C = 5
    end = {"timing": "paper", "epoch": 4}
    assert start(mean_labels=2, b=["auto", -8], **end).now["b"] == -8
    assert start(mean_labels=2, b=[-8, "auto"], **end).now["b"] == pytest.approx(logit)
    assert start(mean_labels=2, b="auto", **end).now["b"] == pytest.approx(logit)
    assert start(mean_labels=2, share=[0.5, "auto"], **end).now["share"] == pytest.approx(1 / 4)
    learned = start(mean_labels=2, k="learned", b=["auto", -8]).learned_b
    assert learned.tolist() == pytest.approx([logit] * 5)


def test_known_positives_and_negatives_are_not_among_the_unknown_labels():
    ternary = np.zeros((4, 5), np.int8)
    ternary[:, 0], ternary[:2, 1], ternary[0, 2:4] = 1, 1, -1
    # Per sample 1.5 positives and 0.5 negatives are known: (2 - 1.5) / (5 - 2).
    objective = start(mean_labels=2, observed=ObservedLabels.from_ternary(ternary), share="auto")
    assert objective.now["share"] == pytest.approx(0.5 / 3)


@pytest.mark.parametrize(("name", "hp"), [("gr", {"share": "auto"}), ("gr", {"b": [-2, "auto"]})])
def test_the_mean_labels_must_be_stated_for_an_automatic_value(name, hp):
    setting = next(iter(hp))
    with pytest.raises(InputError, match=rf"'gr' with {setting} = 'auto' needs .*`mean_labels` \(got None\)"):
        start(name, **hp)


@pytest.mark.parametrize("mean_labels", [1, 1.0])
def test_mean_labels_that_leave_no_hidden_positive_are_refused(mean_labels):
    with pytest.raises(InputError, match=r"must exceed the known positives per sample, 1,.*\(got 1\)"):
        start(mean_labels=mean_labels, b="auto")


def test_full_labels_leave_no_unknown_label_to_derive_a_share_from():
    full = ObservedLabels.from_ternary(2 * np.eye(4, 5, dtype=np.int8) - 1)
    with pytest.raises(InputError, match="by less than the unknown labels per sample, 0:"):
        start(mean_labels=2, observed=full, b="auto")


def test_gpr_takes_the_automatic_start_of_gr():
    objective = start("gpr", mean_labels=2.0, b=["auto", -8], reg=0)
    found = objective(Outputs(Z, Z), BATCH)["gpr"]
    now = {"w": 0.0, "b": math.log(1 / 3), "mu": 0.56, "sigma": 1.7}
    expected = gpr_loss(Z, BATCH.target, torch.zeros(4, 5, dtype=torch.int8), **now)
    assert found.item() == pytest.approx(expected.item(), rel=1e-12)


def test_two_thresholds_follow_their_schedules():
    hp = {"k": "thresholds", "v": "thresholds", "tau_low": [0.1, 0.4], "tau_high": [0.9, 0.6]}
    expected = gr_loss(Z, BATCH.target, k="thresholds", v="thresholds", tau_low=0.25, tau_high=0.75)
    assert loss(start(timing="paper", epoch=2, **hp)) == pytest.approx(expected.item(), rel=1e-12)


@pytest.mark.parametrize(
    "form",
    [{"k": "polynomial", "degree": 3}, {"k": "exponential"}, {"v": "polynomial"}, {"v": "exponential"}],
)
def test_other_forms_have_the_scheduled_parameters(form):
    expected = gr_loss(Z, BATCH.target, w=1.0, b=-5.0, mu=0.8, sigma=0.5, **form)
    assert loss(start(w=[0, 1], b=[-2, -5], **AT_END, **form)) == pytest.approx(expected.item(), rel=1e-12)


@pytest.mark.parametrize(
    ("hp", "message"),
    [
        ({"k": "soft"}, "k must be one of logistic, .*learned"),
        ({"tau_low": [0.1, 0.8]}, "tau_low must be at most tau_high, got 0.8 and 0.75"),
        ({"tau_high": 1.2}, "tau_high must lie in"),
        ({"degree": 0}, "degree must be greater than 0, got 0"),
        ({"w": "auto"}, r"w must be a number or \[start, end\], got 'auto'"),
        ({"b": "much"}, r"b must be a number, auto or \[start, end\], got 'much'"),
        ({"share": ["auto", 2]}, r"share must lie in \[0, 1\], got 2"),
    ],
)
def test_wrong_values_are_refused_when_the_method_is_created(hp, message):
    with pytest.raises(InputError, match=f"method 'gr': {message}"):
        create("gr", hp)
