"""Switches and hyper-parameters of the element-wise methods."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
import torch

from spml.common.errors import InputError
from spml.labels import ObservedLabels
from spml.losses import (
    an_loss,
    asl_loss,
    balanced_weight,
    csl_loss,
    em_loss,
    epr_loss,
    focal_loss,
    hill_loss,
    iu_loss,
    las_loss,
    lasd_full_loss,
    lasd_loss,
    opml_loss,
    pumlc_loss,
    show_loss,
    softmax_loss,
    splc_loss,
    zlpr_loss,
)
from spml.methods.base import Batch, Facts, Outputs, Progress
from spml.methods.registry import create, methods

INDEX = [0, 2, 1, 0, 3, 0]
IDS, CLASSES = tuple("abcdef"), tuple("wxyz")
FACTS = Facts(ObservedLabels.from_index(INDEX, 4), IDS, CLASSES, 1.5)
Z = 3 * torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
TARGET = torch.tensor(INDEX)
ONE_VIEW = {"consistency": 0}
# Cases of the ablation of LASD (Table 3), whose results are those of AN and of ASL without shift in Table 2.
A = {"leverage": False, "disambiguation": False, "consistency": 0}
B = {"weight_neg": 1.0, "disambiguation": False, "consistency": 0}


def loss_of(method: str, hp: dict[str, object], facts: Facts = FACTS, epoch: int = 0) -> float:
    objective = create(method, hp)
    objective.on_fit_start(facts)
    objective.on_epoch_start(Progress(epoch, 10))
    rows = torch.arange(6)
    return float(sum(objective(Outputs(Z, Z), Batch(facts.observed.target(rows), rows)).values()))


def per_sample(loss, **hp) -> float:
    """Sum a loss over classes and average it over samples."""
    return float(loss(Z, TARGET, reduction="sum", **hp) / len(Z))


@pytest.mark.parametrize(
    ("method", "hp", "epoch", "expected"),
    [
        ("epr", {}, 0, float(epr_loss(Z, TARGET, mean_labels=1.5))),
        ("epr", {"weight": 0.3, "norm": "samples"}, 0,
         float(epr_loss(Z, TARGET, mean_labels=1.5, weight=0.3, norm="samples"))),
        ("zlpr", {}, 0, float(zlpr_loss(Z, TARGET))),
        ("softmax", {}, 0, float(softmax_loss(Z, TARGET))),
        ("pumlc", {"gamma": 0.7, "alpha": 2.0}, 0, float(pumlc_loss(Z, TARGET, gamma=0.7, alpha=2))),
        ("em_apl", {"alpha": 0.3}, 0, float(em_loss(Z, TARGET, alpha=0.3))),
        ("show", {"rho": 1.0, "weight": 2.0, "momentum": 1.0}, 0,
         float(show_loss(Z, TARGET, mean_labels=1.5, rho=1, weight=2, shifted=False))),
        ("focal", {"gamma": 1, "margin": 0.5}, 0, float(focal_loss(Z, TARGET, gamma=1, margin=0.5))),
        ("asl", {"clip": 0.1}, 0, per_sample(asl_loss, clip=0.1)),
        ("hill", {"lam": 2.0}, 0, per_sample(hill_loss, lam=2.0)),
        ("splc", {"tau": 0.3, "warmup": 2}, 1, per_sample(focal_loss, margin=1.0)),
        ("splc", {"tau": 0.3, "warmup": 2}, 2, per_sample(splc_loss, tau=0.3)),
        ("splc", {"warmup": 0}, 0, per_sample(splc_loss)),
        ("splc", {"negative": "hill", "lam": 2.0, "margin": 0.5}, 0,
         per_sample(hill_loss, lam=2.0, margin=0.5)),
        ("splc", {"negative": "hill", "lam": 2.0, "margin": 0.5, "margin_corrected": True, "tau": 0.3}, 1,
         per_sample(splc_loss, negative="hill", lam=2.0, margin=0.5, margin_corrected=True, tau=0.3)),
        ("lasd", {**ONE_VIEW, "weight_pos": 0.2, "tau": 0.7}, 0,
         per_sample(lasd_loss, weight_pos=0.2, tau=0.7, weight_neg=balanced_weight(0.2, 1.5, 4))),
        ("lasd", {**ONE_VIEW, "weight_neg": 0.3}, 0, per_sample(lasd_loss, weight_neg=0.3)),
        ("lasd", {**ONE_VIEW, "weight_neg": 0.3, "disambiguation": False}, 0,
         per_sample(las_loss, weight=0.3)),
        ("lasd", {**ONE_VIEW, "leverage": False}, 0,
         per_sample(lasd_loss, weight_pos=1, weight_neg=1, gamma_neg=0)),
        ("lasd", A, 0, per_sample(an_loss)),
        ("lasd", B, 0, per_sample(asl_loss, clip=0)),
        ("opml", {"form": "hard"}, 0, float(opml_loss(Z, TARGET, form="hard"))),
        ("opml", {"alpha": 0, "beta": 0}, 0, float(opml_loss(Z, TARGET, alpha=0, beta=0))),
        ("csl", {"topk": 2, "clip": 0.05}, 0, per_sample(csl_loss, topk=2, clip=0.05)),
    ],
)  # fmt: skip
def test_a_method_is_its_loss(method, hp, epoch, expected):
    assert loss_of(method, hp, epoch=epoch) == pytest.approx(expected, rel=1e-6)


FULL = np.where(np.random.default_rng(0).random((6, 4)) < 0.4, 1, -1)
FULL_TARGET = torch.from_numpy(FULL)
PARTIAL = np.where(np.arange(4) == 3, 0, FULL)


@pytest.mark.parametrize(
    ("method", "hp", "expected"),
    [
        ("focal", {}, lambda: focal_loss(Z, FULL_TARGET, known_negatives="own")),
        ("asl", {}, lambda: 4 * asl_loss(Z, FULL_TARGET, known_negatives="own")),
        ("hill", {}, lambda: 4 * hill_loss(Z, FULL_TARGET, known_negatives="own")),
        ("lasd", {**ONE_VIEW, "weight_pos": 0.2},
         lambda: 4 * lasd_full_loss(Z, FULL_TARGET, weight_pos=0.2, weight_neg=balanced_weight(0.2, 1.5, 4))),
        ("lasd", {**ONE_VIEW, "disambiguation": False},
         lambda: 4 * las_loss(Z, FULL_TARGET, weight=balanced_weight(0.1, 1.5, 4), known_negatives="own")),
        ("lasd", A, lambda: 4 * an_loss(Z, FULL_TARGET)),
        ("lasd", B, lambda: 4 * asl_loss(Z, FULL_TARGET, clip=0, known_negatives="own")),
        ("lasd", {**ONE_VIEW, "known_negatives": "plain", "weight_neg": 0.3},
         lambda: 4 * las_loss(Z, FULL_TARGET, weight=0.3)),
    ],
)  # fmt: skip
def test_a_method_on_full_labels_is_the_loss_of_its_paper(method, hp, expected):
    facts = Facts(ObservedLabels.from_ternary(FULL), IDS, CLASSES, 1.5)
    assert loss_of(method, hp, facts) == pytest.approx(float(expected()), rel=1e-6)


@pytest.mark.parametrize("method", ["focal", "asl", "hill", "splc", "lasd"])
def test_only_on_full_labels_do_known_negatives_have_the_loss_of_the_paper(method):
    hp = {"tau": 0.1} if method in ("splc", "lasd") else {}
    hp |= ONE_VIEW if method == "lasd" else {}
    for labels, choice, other in ((FULL, "own", "plain"), (PARTIAL, "plain", "own")):
        facts = Facts(ObservedLabels.from_ternary(labels), IDS, CLASSES, 1.5)
        found = [
            loss_of(method, hp | {"known_negatives": each}, facts, 5) for each in ("auto", choice, other)
        ]
        assert found[0] == found[1] != pytest.approx(found[2], rel=1e-3)


@pytest.mark.parametrize(
    ("constants", "values", "alpha", "beta"),
    [
        ("direct", (0.3, 2.0), 0.3, 2.0),
        ("odds", (0.5, 0.8), 1.0, 4.0),
        ("logarithm", (math.exp(-1), 0.1), 1.0, math.log(10)),
        ("tangent", (0.5, 2 / 3), 1.0, math.sqrt(3)),
    ],
)
def test_constants_of_opml_may_be_stated_in_the_unit_interval(constants, values, alpha, beta):
    stated = {"constants": constants, "alpha": values[0], "beta": values[1]}
    expected = float(opml_loss(Z, TARGET, alpha=alpha, beta=beta))
    assert loss_of("opml", stated) == pytest.approx(expected, rel=1e-6)
    plain = {"smoothing": "none", "rank_weight": 0, "correction": 0}
    assert loss_of("opml_sp", {**plain, **stated}) == pytest.approx(expected, rel=1e-6)


def test_csl_leaves_out_unknown_labels_of_frequent_classes():
    # Three of six known positives are of class w: its share is 1.5 * 3 / 6 = 0.75, that of others 0.25.
    frequent = torch.tensor([True, False, False, False])
    expected = per_sample(csl_loss, topk=0, ignored_classes=frequent)
    assert loss_of("csl", {"topk": 0, "prior_threshold": 0.6}) == pytest.approx(expected, rel=1e-6)
    assert loss_of("csl", {"topk": 0}) != pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("method", ["iu", "iun"])
def test_iu_needs_a_known_negative(method):
    with pytest.raises(InputError, match=r"no known negative.*observe_all_negatives=true"):
        create(method).on_fit_start(FACTS)
    ternary = np.zeros((6, 4), np.int8)
    ternary[:, 0], ternary[:, 1] = 1, -1
    facts = Facts(ObservedLabels.from_ternary(ternary), IDS, CLASSES)
    assert loss_of(method, {}, facts) == float(iu_loss(Z, torch.from_numpy(ternary)))


def test_every_warmup_is_known_before_training():
    having = [name for name in methods() if "warmup" in inspect.signature(methods()[name]).parameters]
    assert {"em_apl", "ignore", "mime", "splc"} <= set(having)
    assert [create(name, {"warmup": 4}).warmup for name in having] == [4] * len(having)
    assert create("an").warmup == 0
    hp = {"weights": {"splc": 1.0}, "hp": {"splc": {"warmup": 2}}, "memory": {"apl": {"warmup": 3}}}
    assert create("combine", hp).warmup == 3
