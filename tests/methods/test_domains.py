"""Hyper-parameters are refused outside of the domains that docstrings state, and accepted at their ends."""

from __future__ import annotations

import pytest

from spml.common.errors import InputError
from spml.labels import ObservedLabels
from spml.methods.base import Facts
from spml.methods.registry import create, methods
from tests.helpers.domains import choices_of, domains_of

DOMAINS = [(name, *domain) for name, cls in methods().items() for domain in domains_of(cls)]
CHOICES = [(name, hp) for name, cls in methods().items() for hp in choices_of(cls)]


@pytest.mark.parametrize(("method", "hp", "held", "beside"), DOMAINS)
def test_a_number_lies_in_the_stated_domain(method, hp, held, beside):
    for value in held:
        create(method, {hp: value})
    for value in beside:
        with pytest.raises(InputError, match=f"method '{method}': {hp} must"):
            create(method, {hp: value})


def test_domains_and_choices_are_found():
    assert len(DOMAINS) > 100
    assert ("lac", "tau_first", [0.5, 1.0]) in [domain[:3] for domain in DOMAINS]
    assert len(CHOICES) > 30


@pytest.mark.parametrize(
    ("method", "hp"),
    [
        *((method, {name: "another"}) for method, name in CHOICES),
        ("ignore", {"threshold": 2}),
        ("csl", {"prior_threshold": -1}),
        ("lac", {"tau_second": 1.1}),
        ("nnpu", {"priors": "estimated"}),
        ("opml", {"alpha": 1.0, "beta": 0.5, "constants": "odds"}),
        ("opml_sp", {"beta": 0.0, "alpha": 0.5, "constants": "tangent"}),
        ("gpr", {"lam2": 0.8}),
        ("gpr", {"sigma": 0}),
        ("gpr", {"q2": -1}),
    ],
)
def test_other_values_are_refused(method, hp):
    with pytest.raises(InputError, match=f"method '{method}': {next(iter(hp))} must"):
        create(method, hp)


LABELS = ObservedLabels.from_index([0, 2, 1], 4)


@pytest.mark.parametrize(
    ("method", "hp", "words"),
    [
        *((method, {}, "") for method in ("en", "epr", "lasd", "nnpu", "role", "show", "upu")),
        ("combine", {"memory": {"expected_negatives": {}}}, " with memory expected_negatives"),
        ("crisp", {"priors": "stated"}, " with priors = 'stated'"),
        ("csl", {"prior_threshold": 0.1}, " with prior_threshold"),
        ("gpr", {}, " with reg > 0"),
        ("scl", {}, " with base = en"),
    ],
)
def test_the_mean_labels_must_be_stated_where_they_are_needed(method, hp, words):
    for mean_labels in (None, 0.9, 4):
        facts = Facts(LABELS, tuple("abc"), tuple("wxyz"), mean_labels)
        with pytest.raises(
            InputError, match=rf"'{method}'{words} needs .* number of classes, 4.*`mean_labels`"
        ):
            create(method, hp).on_fit_start(facts)


@pytest.mark.parametrize(
    ("method", "hp"),
    [
        ("crisp", {}), ("gpr", {"reg": 0}), ("lasd", {"leverage": False}), ("lasd", {"weight_neg": 0.1}),
        ("scl", {"base": "an"}),
    ],
)  # fmt: skip
def test_elsewhere_they_need_not_be_stated(method, hp):
    create(method, hp).on_fit_start(Facts(LABELS, tuple("abc"), tuple("wxyz")))
