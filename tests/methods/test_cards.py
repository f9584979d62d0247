"""Pieces of cards and docstrings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spml.cli.main import main
from spml.methods.base import Objective
from spml.methods.cards import arguments, bibtex_of, readable, summary
from spml.methods.registry import hyper_parameters, methods

PAGES = Path(__file__).parents[2] / "docs" / "methods"


class Documented(Objective):
    """What it does.

    In two paragraphs: with a colon.

    Args:
        alpha, beta: two weights,
            on two lines: with a colon.
        kind: `one`
            or `two`.
    """

    def __init__(self, *, alpha: float = 0.5, beta: float = 1.0, kind: str = "one") -> None:
        super().__init__()


def test_the_arguments_of_a_docstring():
    assert summary(Documented) == "What it does.\n\nIn two paragraphs: with a colon."
    assert arguments(Documented) == [
        (("alpha", "beta"), (0.5, 1.0), "two weights, on two lines: with a colon."),
        (("kind",), ("one",), "`one` or `two`."),
    ]


def test_a_method_without_hyper_parameters():
    class Plain(Objective):
        """What it does."""

    assert summary(Plain) == "What it does."
    assert arguments(Plain) == []


@pytest.mark.parametrize("name", methods())
def test_every_hyper_parameter_is_explained_once(name):
    cls = methods()[name]
    explained = [
        (key, default)
        for names, defaults, _ in arguments(cls)
        for key, default in zip(names, defaults, strict=True)
    ]
    assert dict(explained) == hyper_parameters(cls)
    assert len(explained) == len(hyper_parameters(cls))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (1.0, "1"),
        (1e-3, "0.001"),
        (3, "3"),
        (True, "true"),
        (None, "None"),
        ("linear", "linear"),
        ((0.0, 2.0), "[0, 2]"),
        ([0.5, None], "[0.5, None]"),
        ({"gr": {"q2": 0.5}}, "{gr: {q2: 0.5}}"),
        ({}, "{}"),
    ],
)
def test_values_are_readable(value, text):
    assert readable(value) == text


@pytest.mark.parametrize("name", ["hill", "splc"])
def test_what_differs_from_the_released_training_is_named(name):
    assert methods()[name].card.head_bias == "prior"
    page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert "starts at logit(K / C)" in page
    assert "partial last batch" in page


def test_bibtex():
    """Every published method has an entry with authors, title, venue and year; the others a comment."""
    entries = {name: bibtex_of(name, cls.card) for name, cls in methods().items()}
    without = {name for name, text in entries.items() if text.startswith("%")}
    assert without == {"combine", "show"}
    for name in entries.keys() - without:
        keys = re.findall(r"^@misc\{(\w+),$", entries[name], re.M)
        assert keys == [name, f"{name}2"][: len(keys)]
        for field in ("author", "title", "howpublished", "year"):
            assert len(re.findall(rf"^  {field} = \{{.+\}},$", entries[name], re.M)) == len(keys)
    assert entries["gr"] == (
        "@misc{gr,\n  author = {Chen and others},\n  title = {{Boosting Single Positive Multi-label "
        "Classification with Generalized Robust Loss}},\n  howpublished = {IJCAI 2024},\n  year = {2024},\n}"
    )
    assert "year = {2023}" in entries["opml"]  # an arXiv number is no year


def test_what_a_paper_prints_stands_apart_from_the_released_code(capsys):
    cards = {name: cls.card for name, cls in methods().items()}
    assert {name: dict(card.printed) for name, card in cards.items() if card.printed} == {
        "an_ls": {"swap": 0.05},
        "asl": {"detach_weights": False},
        "epr": {"norm": "samples"},
        "gr": {"q1": 0.01, "norm": "samples", "timing": "paper"},
        "role": {"norm": "samples"},
    }
    for name, card in cards.items():
        assert all(hyper_parameters(methods()[name])[key] != value for key, value in card.printed.items())
    main(["methods", "gr"])
    said = capsys.readouterr().out
    assert (
        "published (Table 6 of the paper; where schedules start: the released code):\nvoc: w = [0, 2]" in said
    )
    assert (
        "the paper prints, where the default is that of the released code: q1 = 0.01, norm = samples" in said
    )
    page = (PAGES / "gr.md").read_text(encoding="utf-8")
    assert "The paper prints `q1: 0.01`, `norm: samples`, `timing: paper`; the default is that" in page
    assert "From Table 6 of the paper; where schedules start: the released code:" in page
