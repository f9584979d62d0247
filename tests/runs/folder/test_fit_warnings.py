"""A run that diverged, or whose model is no better than chance, says so at its end."""

from __future__ import annotations

import json

import numpy as np
import pytest

from spml.cli.main import main
from spml.config import from_dict
from spml.runs.fit.solve import Fitted
from spml.runs.folder.summary import fit_warnings

CONFIG = from_dict({"optim": {"lr": 0.02}})


def warnings_of(*, start=0.7, last=0.5, a=0.9, positives=100, share=0.1):
    history = [{"epoch": 1, "train/loss": 0.6, "val/A": a}, {"epoch": 2, "train/loss": last, "val/A": 0.5}]
    return fit_warnings(
        Fitted(history, 0, 1.0, 2, {}, start_loss=start), CONFIG, positives=positives, share=share
    )


@pytest.mark.parametrize(
    ("start", "last", "diverged"),
    [(0.7, 7.1, True), (0.7, 6.9, False), (-0.1, 6.9, False), (0.0, 6.9, False), (None, 99.0, False)],
)
def test_a_loss_ten_times_that_of_the_first_step_is_told(start, last, diverged):
    found = warnings_of(start=start, last=last)
    assert len(found) == diverged
    if diverged:
        assert found[0].startswith(
            "training diverged: the loss rose from 0.7 in the first step to 7.1 in epoch 2. "
            "Try a smaller learning rate (lr=0.002)"
        )


@pytest.mark.parametrize(
    ("a", "positives", "share", "told"),
    [
        (0.5, 100, 0.1, True),
        (0.54, 100, 0.1, True),  # within 0.05 and two deviations, 2 * 0.0321
        (0.56, 100, 0.1, False),
        (0.53, 10_000, 0.1, False),  # two deviations are 0.0064
        (0.505, 10_000, 0.1, True),
        (0.3, 10_000, 0.1, True),
        (0.52, 1200, 0.5, True),  # two deviations are 0.0333; without the share they would be 0.0167
        (0.5, 19, 0.1, False),
    ],
)
def test_a_model_at_chance_is_told(a, positives, share, told):
    found = warnings_of(a=a, positives=positives, share=share)
    assert len(found) == told
    if told:
        assert "no better than chance" in found[0]
        assert f"(A {100 * a:.1f}, chance 50)" in found[0]


def test_a_head_that_was_solved_has_no_learning_rate():
    record = {"penalty": 1.0, "val/A": 0.5}
    (found,) = fit_warnings(Fitted([record], 0, 1.0, 1, {}), CONFIG, positives=100, share=0.1)
    assert found.endswith("chance 50). Check that features and labels belong together.")


def test_a_run_that_diverged_ends_with_warnings_and_exit_code_0(tmp_path, capsys):
    generator = np.random.default_rng(0)
    split = np.array(["train"] * 96 + ["val"] * 48)
    features = generator.normal(size=(144, 6)).astype(np.float32)
    labels = np.eye(4, dtype=np.uint8)[generator.integers(0, 4, 144)]
    path, output = tmp_path / "noise.npz", tmp_path / "run"
    np.savez(path, X=features, Y=labels, classes=np.array(list("abcd")), split=split)
    main([
        "train", str(path), "--method", "an", "--optim.name", "sgd", "--lr", "1000", "--epochs", "2",
        "--batch_size", "32", "--threads", "1", "--output", str(output),
    ])  # fmt: skip
    *_, diverged, _, done, use, learn_k = capsys.readouterr().err.splitlines()
    written = json.loads((output / "summary.json").read_text())["warnings"]
    assert diverged == f"warning: {written[0]}"
    assert "training diverged: the loss rose from 0.69" in diverged
    assert "(lr=100)" in diverged
    assert done == f"{output}: done"
    assert use.startswith(f"next: open {output}/report.html in a browser; `spml predict {output} NEW`")
    assert f"`spml audit {output}` lists" in use
    assert learn_k.startswith(f"next, in ten minutes: `spml audit sample {output}`")
