"""Commands write nothing outside the places that they are told."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.helpers.features import HIDE, make_features


@pytest.mark.long
def test_only_caches_of_matplotlib_and_pytorch_are_written_elsewhere(tmp_path):
    """As the documentation says, and nothing of them where the user names another folder."""
    features, folders = make_features(tmp_path / "features.npz"), ("home", "temporary", "cache")
    for name in folders:
        (tmp_path / name).mkdir()
    home = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "temporary")}
    named = {name: str(tmp_path / "cache") for name in ("MPLCONFIGDIR", "TORCHINDUCTOR_CACHE_DIR")}
    ours = {
        name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "MPL", "TORCH"))
    }
    train = [sys.executable, "-m", "spml", "train", str(features), *HIDE, "--epochs", "1", "--threads", "1"]
    for variables, output in (({**home, **named}, "first"), (home, "second")):
        command = [*train, "--method", "em", "--output", str(tmp_path / output)]
        subprocess.run(command, check=True, env={**ours, **variables}, capture_output=True, timeout=300)
        written = {path for name in folders[:2] for path in (tmp_path / name).rglob("*") if path.is_file()}
        if output == "first":
            assert not written
            assert not [*(tmp_path / "temporary").iterdir()]
    (fonts,) = written
    assert str(fonts.relative_to(tmp_path)).startswith("home/.cache/matplotlib/fontlist-")
    # Some versions of PyTorch make an empty folder.
    assert {path.name.split("_")[0] for path in (tmp_path / "temporary").iterdir()} <= {"torchinductor"}
