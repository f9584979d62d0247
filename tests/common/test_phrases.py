"""Phrases that messages about data are made of."""

from __future__ import annotations

from spml.common.phrases import counted, first_few, first_warnings, one_per_cause


def test_numbers_and_nouns_agree():
    assert counted(1, "image") == "1 image"
    assert counted(0, "image") == "0 images"
    assert counted(1200, "class has", "classes have") == "1,200 classes have"


def test_long_lists_are_cut():
    assert first_few(["a", "b"], 2) == "a, b"
    assert first_few(["a", "b", "c"], 2) == "a, b, ..."
    assert first_few(["a", "b", "c"], 2, "; ") == "a; b; ..."
    assert first_few([], 2) == ""


def test_three_warnings_are_shown_one_for_each_cause():
    few, others = ["Only 90 samples.", "Only 12 samples."], ["K is high.", "It diverged.", "No label."]
    assert one_per_cause([*few, *others, "K is high."]) == ["Only 90 samples.", *others]
    assert first_warnings(few, "x.json") == ["warning: Only 90 samples."]
    assert first_warnings([*few, *others], "x.json") == [
        *("warning: Only 90 samples.", "warning: K is high.", "warning: It diverged."),
        "1 more warning: see x.json",
    ]
