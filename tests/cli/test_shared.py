"""Options that several commands share."""

from __future__ import annotations

import pytest

from spml.cli.arguments import Parser
from spml.cli.shared import Decision


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], {}),
        (
            ["--mean_labels", "1.5", "--top_k", "3", "--top1_fallback"],
            {"mean_labels": 1.5, "top_k": 3, "top1_fallback": True},
        ),
        (["--threshold", "0.25"], {"threshold": 0.25}),
        (["--thresholds", "global"], {"thresholds": "global"}),
        (["--thresholds", "0.5"], {"thresholds": "0.5"}),
    ],
)
def test_options_become_arguments_of_a_decision(options: list[str], expected: dict[str, object]) -> None:
    def run(*, decision: Decision) -> None:
        """Nothing."""

    parser = Parser("x", run)
    defaults = dict.fromkeys(("mean_labels", "threshold", "thresholds"))
    settings = {**defaults, "top_k": 0, "top1_fallback": False, **expected}
    assert vars(parser.values(run, parser.parse(options))["decision"]) == settings
