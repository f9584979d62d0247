"""The memory that a process keeps between steps, and gives back after them."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from spml.engine import process_memory

pytestmark = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="memory of other C libraries is left alone"
)


@pytest.mark.long
def test_memory_is_kept_from_step_to_step_and_the_peak_counted_without_what_was_given_back():
    """In a process of its own, whose memory no other test has touched."""
    code = (
        "import resource, torch\n"
        "from spml.engine.distributed import make_fabric\n"
        "from spml.engine.process_memory import *\n"
        "make_fabric('cpu')\n"
        "for _ in range(4):\n"
        "    torch.ones(2**23)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "for _ in range(16):\n"
        "    torch.ones(2**23)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)\n"
        "give_back_freed_memory()\n"
        "reset_peak_memory()\n"
        "print(peak_memory())\n"
        "torch.ones(2**26)\n"
        "print(peak_memory())\n"
        "give_back_freed_memory()\n"
        "reset_peak_memory()\n"
        "print(peak_memory())\n"
        "torch.ones(2**25)\n"
        "print(peak_memory())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    faults, start, high, anew, half = map(int, done.stdout.split())
    # Of 16 x 2**13 pages that would be cleared anew. A small block in between can cost a few steps.
    assert faults < 2**15
    assert abs(high - start - 2**28) < 2**24
    assert anew - start < 2**24
    assert abs(half - anew - 2**27) < 2**24


@pytest.mark.parametrize(("limit", "expected"), [(-1, None), (1 << 20, 1 << 20), (1 << 60, None)])
def test_the_total_is_that_of_the_machine_or_the_limit(monkeypatch, limit, expected):
    monkeypatch.setattr(process_memory.resource, "getrlimit", lambda kind: (limit, -1))
    lines = Path("/proc/meminfo").read_text().splitlines()
    machine = next(line for line in lines if line.startswith("MemTotal"))
    assert process_memory.total_memory() == (expected or 1024 * int(machine.split()[1]))
