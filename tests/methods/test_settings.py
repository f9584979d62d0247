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
    focal_loss,
    hill_loss,
    iu_loss,
    las_loss,
    lasd_full_loss,
    lasd_loss,
    opml_loss,
    role_loss,
    splc_loss,
)
from spml.methods.base import Batch, Facts, Outputs, Progress
from spml.methods.registry import create, methods

INDEX = [0, 2, 1, 0, 3, 0]
IDS, CLASSES = tuple("abcdef"), tuple("wxyz")
FACTS = Facts(ObservedLabels.from_index(INDEX, 4), IDS, CLASSES, 1.5)
Z = 3 * torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
TARGET = torch.tensor(INDEX)
ONE_VIEW = {"consistency": 0}


def loss_of(method: str, hp: dict[str, object], facts: Facts = FACTS, epoch: int = 0) -> float:
    objective = create(method, hp)
    objective.on_fit_start(facts)
    objective.on_epoch_start(Progress(epoch, 10))
    rows = torch.arange(6)
    (term,) = objective(Outputs(Z, Z), Batch(facts.observed.target(rows), rows)).values()
    return float(term)


def per_sample(loss, **hp) -> float:
    """Sum a loss over classes and average it over samples."""
    return float(loss(Z, TARGET, reduction="sum", **hp) / len(Z))


@pytest.mark.parametrize(
    ("method", "hp", "epoch", "expected"),
    [
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
        ("opml", {"form": "hard"}, 0, float(opml_loss(Z, TARGET, form="hard"))),
        ("opml", {"alpha": 0, "beta": 0}, 0, float(opml_loss(Z, TARGET, alpha=0, beta=0))),
        ("csl", {"topk": 2, "clip": 0.05}, 0, per_sample(csl_loss, topk=2, clip=0.05)),
    ],
)  # fmt: skip
def test_a_method_is_its_loss(method, hp, epoch, expected):
    assert loss_of(method, hp, epoch=epoch) == pytest.approx(expected, rel=1e-6)


A = {"leverage": False, "disambiguation": False, "consistency": 0}
B = {"weight_neg": 1.0, "disambiguation": False, "consistency": 0}
C = {"weight_pos": 0.1, "tau": 0.9, "consistency": 0}


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (A, lambda z: 4 * an_loss(z, TARGET)),
        (B, lambda z: 4 * asl_loss(z, TARGET, clip=0)),
        (C, lambda z: 4 * lasd_loss(z, TARGET, weight_neg=balanced_weight(0.1, 1.5, 4))),
    ],
)
def test_the_cases_of_the_ablation_of_lasd_are_sums_over_classes_of_other_losses(case, expected):
    """Table 3: the results of A and B are exactly those of AN and of ASL without shift in Table 2."""
    objective = create("lasd", case)
    assert not objective.needs.views
    objective.on_fit_start(FACTS)
    found = []
    for loss in (lambda z: objective(Outputs(z, z), Batch(TARGET, torch.arange(6)))["lasd"], expected):
        z = Z.double().requires_grad_()
        value = loss(z)
        found.append((value.detach(), torch.autograd.grad(value, z)[0]))
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-15)
    assert create("lasd", {}).needs.views  # case D


FULL = np.where(np.random.default_rng(0).random((6, 4)) < 0.4, 1, -1)
FULL_TARGET = torch.from_numpy(FULL)
PARTIAL = np.where(np.arange(4) == 3, 0, FULL)


def known_negatives_of(method: str, hp: dict[str, object], labels: np.ndarray, epoch: int) -> torch.Tensor:
    """Gradient of a method on known negatives, divided by that of l-."""
    facts = Facts(ObservedLabels.from_ternary(labels), IDS, CLASSES, 1.5)
    objective = create(method, hp)
    objective.on_fit_start(facts)
    objective.on_epoch_start(Progress(epoch, 10))
    z = Z.double().requires_grad_()
    rows = torch.arange(6)
    loss = sum(objective(Outputs(z, z), Batch(facts.observed.target(rows), rows)).values())
    (gradient,) = torch.autograd.grad(loss, z)
    return (6 * gradient / torch.sigmoid(z.detach()))[torch.from_numpy(labels) == -1]


@pytest.mark.parametrize(
    ("method", "hp", "epoch"),
    [
        ("focal", {}, 0),
        ("asl", {}, 0),
        ("hill", {}, 0),
        ("splc", {"tau": 0.1}, 0),
        ("splc", {"tau": 0.1}, 5),
        ("lasd", {**ONE_VIEW, "tau": 0.1}, 0),
        ("lasd", B, 0),
    ],
)
def test_only_on_full_labels_do_known_negatives_have_the_loss_of_the_paper(method, hp, epoch):
    def found(choice, labels):
        return known_negatives_of(method, {**hp, "known_negatives": choice}, labels, epoch)

    scale = 0.25 if method == "focal" else 1.0
    for labels in (FULL, PARTIAL):
        plain, own = found("plain", labels), found("own", labels)
        assert torch.allclose(plain, torch.full_like(plain, scale), rtol=1e-12)
        assert not torch.allclose(own, plain, rtol=0.1)
        assert (own >= 0).all()
        auto = known_negatives_of(method, hp, labels, epoch)
        assert torch.equal(auto, own if labels is FULL else plain)


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


def test_role_may_divide_known_labels_by_the_samples():
    role = create("role", {"norm": "samples"})
    role.on_fit_start(FACTS)
    rows = torch.arange(6)
    (found,) = role(Outputs(Z, Z), Batch(TARGET, rows)).values()
    estimates = role.estimates.detach()
    expected = role_loss(Z, TARGET, estimates, mean_labels=1.5, norm="samples")
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)
    by_elements = role_loss(Z, TARGET, estimates, mean_labels=1.5)
    known = [-torch.nn.functional.logsigmoid(s[rows, TARGET]).mean() for s in (Z, estimates)]
    assert (expected - by_elements).item() == pytest.approx(sum(known).item() / 2 * (1 - 1 / 4), rel=1e-5)


def test_csl_leaves_out_unknown_labels_of_frequent_classes():
    # Three of six known positives are of class w: its share is 1.5 * 3 / 6 = 0.75, that of others 0.25.
    frequent = torch.tensor([True, False, False, False])
    expected = per_sample(csl_loss, topk=0, ignored_classes=frequent)
    assert loss_of("csl", {"topk": 0, "prior_threshold": 0.6}) == pytest.approx(expected, rel=1e-6)
    assert loss_of("csl", {"topk": 0}) != pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("method", "hp", "name"),
    [
        ("lasd", {}, "'lasd'"),
        ("csl", {"prior_threshold": 0.1}, "'csl' with prior_threshold"),
        ("gpr", {}, "'gpr' with reg > 0"),
    ],
)
def test_the_mean_labels_are_required_where_they_are_needed(method, hp, name):
    for mean_labels in (None, 0.9, 4):
        facts = Facts(FACTS.observed, IDS, CLASSES, mean_labels)
        with pytest.raises(InputError, match=rf"method {name} needs .* number of classes, 4.*`mean_labels`"):
            create(method, hp).on_fit_start(facts)
    for method, hp in (("lasd", {"leverage": False}), ("lasd", {"weight_neg": 0.1}), ("gpr", {"reg": 0})):
        create(method, hp).on_fit_start(Facts(FACTS.observed, IDS, CLASSES))


@pytest.mark.parametrize("method", ["iu", "iun"])
def test_iu_needs_a_known_negative(method):
    with pytest.raises(InputError, match=r"no known negative.*observe_all_negatives=true"):
        create(method).on_fit_start(FACTS)
    ternary = np.zeros((6, 4), np.int8)
    ternary[:, 0], ternary[:, 1] = 1, -1
    facts = Facts(ObservedLabels.from_ternary(ternary), IDS, CLASSES)
    assert loss_of(method, {}, facts) == float(iu_loss(Z, torch.from_numpy(ternary)))


@pytest.mark.parametrize(
    ("method", "hp"),
    [
        ("bce", {"swap": 0.5}),
        ("an_ls", {"swap": -0.1}),
        ("n_ls", {"swap": 0.6}),
        ("wan", {"weight": 0}),
        ("em", {"alpha": 0}),
        ("entmin", {"alpha": -1}),
        ("focal", {"gamma": -1}),
        ("asl", {"clip": 1}),
        ("asl", {"gamma_pos": -1}),
        ("hill", {"lam": 1}),
        ("hill", {"margin": -1}),
        ("splc", {"tau": 2}),
        ("splc", {"warmup": -1}),
        ("splc", {"negative": "asl"}),
        ("splc", {"lam": 1.4}),
        ("lasd", {"tau": 2}),
        ("lasd", {"weight_neg": -1}),
        ("lasd", {"consistency": -1}),
        ("focal", {"known_negatives": "unknown"}),
        ("opml", {"alpha": -1}),
        ("opml", {"form": "soft"}),
        ("opml", {"constants": "square"}),
        ("opml", {"alpha": 1.0, "beta": 0.5, "constants": "odds"}),
        ("opml_sp", {"beta": 0.0, "alpha": 0.5, "constants": "tangent"}),
        ("role", {"norm": "batch"}),
        ("pumlc", {"mix": -1}),
        ("plc", {"weight": 0}),
        ("plc", {"tau": 0.4}),
        ("ignore", {"weight_pos": -1}),
        ("ignore", {"threshold": 2}),
        ("ignore", {"decay": -0.1}),
        ("ignore", {"warmup": 1.5}),
        ("boostlu", {"percent": 0}),
        ("scl", {"base": "role"}),
        ("scl", {"weight": -1}),
        ("scl", {"decay": 1.5}),
        ("scl", {"width": 0}),
        ("scl", {"gigabytes": -1}),
        ("en", {"decay": 2}),
        ("csl", {"mode": "all"}),
        ("csl", {"clip": 1}),
        ("csl", {"prior_threshold": -1}),
        ("vlpl", {"alpha": 0}),
        ("vlpl", {"beta_pos": -1}),
        ("vlpl", {"smoothing": 2}),
    ],
)
def test_wrong_values_are_refused_when_the_method_is_created(method, hp):
    with pytest.raises(InputError, match=f"method '{method}': {next(iter(hp))} must"):
        create(method, hp)


def test_every_warmup_is_known_before_training():
    having = [name for name in methods() if "warmup" in inspect.signature(methods()[name]).parameters]
    assert {"em_apl", "ignore", "mime", "splc"} <= set(having)
    assert [create(name, {"warmup": 4}).warmup for name in having] == [4] * len(having)
    assert create("an").warmup == 0
    hp = {"weights": {"splc": 1.0}, "hp": {"splc": {"warmup": 2}}, "memory": {"apl": {"warmup": 3}}}
    assert create("combine", hp).warmup == 3


def test_a_warmup_is_a_whole_number():
    with pytest.raises(InputError, match="warmup must be a whole number of epochs"):
        create("splc", {"warmup": 1.5})
