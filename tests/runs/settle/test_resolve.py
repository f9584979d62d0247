"""Notes of `resolve` on the settings that it fills in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spml.common.errors import InputError
from spml.config import Config, from_dict
from spml.runs.settle.resolve import assumed_mean_labels, mean_labels_of, run_folder
from tests.helpers.training import make_data

ALL = "the SP-score and the bias that the head starts with"


def remark(*, classes=4, new_head=True, full=(), **settings):
    """The remark on K for data with one known label per sample; the splits in `full` are fully labelled."""
    data = make_data(classes=classes)
    splits = {
        name: replace(samples, observed=data.truth[name]) if name in full else samples
        for name, samples in data.splits.items()
    }
    return assumed_mean_labels(from_dict(settings), replace(data, splits=splits), new_head=new_head)


PRIOR = {"method": "gr", "model": {"head_bias": "prior"}}
ZERO = {"method": "gr", "model": {"head_bias": "zero"}}
RIDGE = {"model": {"head": "ridge"}}


@pytest.mark.parametrize(
    ("settings", "for_what"),
    [
        (PRIOR, ALL),
        (ZERO, "the SP-score"),
        ({**PRIOR, "new_head": False}, "the SP-score"),
        ({**PRIOR, "full": ("train", "val")}, "the bias that the head starts with"),
        ({**ZERO, "full": ("train", "val"), "select": "observed"}, "the SP-score"),
        (RIDGE, "the SP-score and the bias of the head"),
        ({**RIDGE, "full": ("train",)}, "the SP-score"),
    ],
)
def test_the_remark_names_what_an_assumed_k_affects(settings, for_what):
    assert remark(**settings) == (
        f"2 labels per sample assumed for {for_what}: pass mean_labels=K if you know better"
    )


def test_thresholds_have_their_own_k_and_nothing_else_uses_one():
    assert remark(**ZERO, select="oracle") == ""


def test_few_classes_and_a_stated_k():
    assert remark(classes=3, **ZERO).startswith(
        "1.5 labels per sample assumed (half of the 3 classes) for the"
    )
    assert remark(classes=2, **ZERO).startswith("1 label per sample assumed (half of the 2 classes) for the")
    assert remark(**PRIOR, mean_labels=2.5) == ""
    assert remark(**ZERO, full=("train", "val")) == ""


def test_an_output_that_no_file_system_can_hold():
    with pytest.raises(InputError) as caught:
        run_folder(Config(output="a\0b"))
    assert str(caught.value) == "output: 'a\\x00b' holds a NUL byte, which no file name has. Correct it."


@pytest.mark.parametrize(
    ("settings", "full", "split", "expected"),
    [
        ({"mean_labels": 1.5}, ("train", "val"), "train", (1.5, "stated")),
        ({}, (), "", (2.0, "default")),
        ({}, ("train",), "", (2.0, "default")),
        ({}, ("train",), "val", (2.0, "default")),
        ({}, ("train",), "train", (None, "labels")),
        ({}, ("val",), "val", (None, "labels")),
    ],
)
def test_k_is_stated_or_that_of_a_split_whose_labels_are_known(settings, full, split, expected):
    data = make_data(classes=4)
    splits = {
        name: replace(samples, observed=data.truth[name]) if name in full else samples
        for name, samples in data.splits.items()
    }
    value, source = expected
    if value is None:
        value = float(data.truth[split].positives_per_sample().mean())
    found = mean_labels_of(from_dict(settings), replace(data, splits=splits), split)
    assert (found.value, found.source) == (value, source)
