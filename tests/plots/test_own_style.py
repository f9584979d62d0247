"""Pictures do not depend on a user's matplotlib settings, and none prevents a result."""

from __future__ import annotations

import matplotlib
import pytest

from spml import plots
from tests.helpers.features import HIDE, make_features

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


@pytest.mark.parametrize("lines", ["text.usetex: True\nsavefig.dpi: 100000\n", "backend: nonsense\n"])
def test_a_training_with_a_matplotlibrc_of_the_user(tmp_path, monkeypatch, lines):
    import subprocess
    import sys

    (tmp_path / "matplotlibrc").write_text(lines)
    monkeypatch.setenv("MATPLOTLIBRC", str(tmp_path / "matplotlibrc"))
    words = [
        "train",
        make_features(tmp_path / "x.npz"),
        *HIDE,
        "--head",
        "ridge",
        "--output",
        tmp_path / "run",
    ]
    done = subprocess.run([sys.executable, "-m", "spml", *map(str, words)], capture_output=True, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert {"summary.json", "thresholds.json", "curves.png"} <= {
        path.name for path in (tmp_path / "run").iterdir()
    }
