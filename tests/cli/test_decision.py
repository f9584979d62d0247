"""Options that say how scores become labels."""

from __future__ import annotations

import pytest
from jsonargparse import ArgumentParser

from spml.cli.decision import add_decision_arguments, decision_settings


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], {"mean_labels": None, "threshold": None, "top_k": 0, "top1_fallback": False}),
        (
            ["--mean_labels", "1.5", "--top_k", "3", "--top1_fallback"],
            {"mean_labels": 1.5, "threshold": None, "top_k": 3, "top1_fallback": True},
        ),
        (
            ["--threshold", "0.25"],
            {"mean_labels": None, "threshold": 0.25, "top_k": 0, "top1_fallback": False},
        ),
    ],
)
def test_options_become_arguments_of_a_decision(options: list[str], expected: dict[str, object]) -> None:
    parser = ArgumentParser()
    add_decision_arguments(parser)
    assert decision_settings(parser.parse_args(options)) == expected
