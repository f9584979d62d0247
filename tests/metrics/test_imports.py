"""Metrics import torch and NumPy, and of the package only scores."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
import torch, numpy  # not counted, with everything they import
before = set(sys.modules)
import spml.metrics
for name in sorted(set(sys.modules) - before):
    print(name)
"""


def test_metrics_import_torch_and_numpy_only():
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    brought = run.stdout.split()
    assert "spml.metrics.average_precision" in brought
    rooms = ("spml.metrics", "spml.scores")
    own = [name for name in brought if name.startswith("spml") and not name.startswith(rooms)]
    names = ("errors", "label_checks", "plugins")
    assert own == ["spml", "spml.common", *(f"spml.common.{name}" for name in names)]
    others = {name.split(".")[0] for name in brought} - {"spml"} - set(sys.stdlib_module_names)
    assert others <= {"numpy", "torch"}
