"""Method auto on a network that is trained."""

from __future__ import annotations

import json

import pytest

from spml.config import from_dict
from spml.runs.fit.fine_tune import fine_tune
from spml.runs.folder.layout import write_config
from tests.helpers.commands import refusal
from tests.helpers.run_folders import SUMMARY, save_run

# -- two runs of which one is kept, without training them ------------------------------------------------


class Started(Exception):
    """A part is trained."""


def test_a_finished_part_is_not_reused_with_renamed_classes(tmp_path):
    head = tmp_path / "head"
    head.mkdir()
    save_run(head)
    (head / "summary.json").write_text(json.dumps(SUMMARY))
    config = from_dict({"method": "auto", "model": {"frozen": "no"}, "output": str(tmp_path)})
    write_config(head, config)
    trained = []

    def resume(classes):
        def train(part, **how):
            trained.append(part.output)
            raise Started

        fine_tune(config, classes, resume=True, train=train, pictures=False)

    assert refusal(resume, ["a", "x", "c"]) == (
        f"{head}: can't be resumed, because the class names changed since this run was started: class 1 "
        "(counted from 0) is 'x' instead of 'b'. Restore them, or start again with `overwrite`."
    )
    assert not trained
    with pytest.raises(Started):
        resume(["a", "b", "c"])
    assert trained == [str(tmp_path / "fine-tuned")]
