"""A sample of what `points` and `flips` do at every operation and to every file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs fork and /proc"),
]


def check(module, folder, *arguments):
    command = [sys.executable, "-m", f"tests.hostile.{module}", str(folder / "work"), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_killed_at_operations_on_files(tmp_path):
    assert ", 0 wrong" in check("points", tmp_path, "network", "predict", "convert", "--every", "80")


def test_damaged_files(tmp_path):
    assert ", 0 wrong" in check("flips", tmp_path, "auto", "sample", "review", "unfinished", "--places", "1")
