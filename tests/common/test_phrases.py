"""Phrases that messages about data are made of."""

from __future__ import annotations

from spml.common.phrases import counted, first_few


def test_numbers_and_nouns_agree():
    assert counted(1, "image") == "1 image"
    assert counted(0, "image") == "0 images"
    assert counted(1200, "class has", "classes have") == "1,200 classes have"


def test_long_lists_are_cut():
    assert first_few(["a", "b"], 2) == "a, b"
    assert first_few(["a", "b", "c"], 2) == "a, b, ..."
    assert first_few(["a", "b", "c"], 2, "; ") == "a; b; ..."
    assert first_few([], 2) == ""
