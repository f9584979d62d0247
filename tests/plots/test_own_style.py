"""Pictures do not depend on a user's matplotlib settings, and none prevents a result."""

from __future__ import annotations

import os
import subprocess
import sys

import matplotlib

from spml import plots

HISTORY = [{"epoch": epoch, "train/loss": 1 / epoch, "val/mAP": 0.1 * epoch} for epoch in (1, 2, 3)]
RC = {"text.usetex": True, "savefig.dpi": 100000, "font.family": "no such font", "axes.facecolor": "red"}


def test_a_picture_is_the_same_whatever_the_user_has_set(tmp_path):
    plots.fit_curves(tmp_path / "plain.png", HISTORY, metric="val/mAP", best=2)
    with matplotlib.rc_context(RC):
        plots.fit_curves(tmp_path / "own.png", HISTORY, metric="val/mAP", best=2)
        assert matplotlib.rcParams["savefig.dpi"] == 100000
    assert (tmp_path / "own.png").read_bytes() == (tmp_path / "plain.png").read_bytes()


def test_a_picture_that_fails_is_left_out_with_a_line(tmp_path, monkeypatch, caplog):
    def fail(*_, **__):
        raise RuntimeError("no fonts\nat all")

    path = tmp_path / "curves.png"
    path.write_bytes(b"an earlier one")
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", fail)
    caplog.set_level("INFO", "spml")
    plots.fit_curves(path, HISTORY, metric="val/mAP", best=2)
    assert not path.exists()
    assert caplog.messages == [f"{path} is left out: matplotlib can't draw it (RuntimeError: no fonts)"]


def test_pictures_with_a_matplotlibrc_of_the_user(tmp_path):
    """Which a process reads when it imports matplotlib."""
    (tmp_path / "matplotlibrc").write_text("text.usetex: True\nsavefig.dpi: 100000\nbackend: nonsense\n")
    plots.fit_curves(tmp_path / "plain.png", HISTORY, metric="val/mAP", best=2)
    code = (
        "from pathlib import Path; from spml import plots; "
        f"plots.fit_curves(Path('own.png'), {HISTORY}, metric='val/mAP', best=2)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "MATPLOTLIBRC": "matplotlibrc"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert (tmp_path / "own.png").read_bytes() == (tmp_path / "plain.png").read_bytes()
