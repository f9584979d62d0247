"""The memory of this process: what it keeps of freed blocks, and the most that it has held."""

from __future__ import annotations

import contextlib
import ctypes
import resource
import sys
from pathlib import Path

# Of mallopt, from glibc's malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4


def keep_freed_memory() -> None:
    """Let this process keep the memory that a step frees for the next one, as torch does on a GPU.

    glibc gives large blocks back to the system, which clears every page of them when they are asked for
    again; on a CPU that can take a good part of a training step. Other C libraries are left alone.
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        for option, value in ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, -1)):
            libc.mallopt(option, value)


def give_back_freed_memory() -> None:
    """Give the system what was kept, when something else begins in this process."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)


def peak_memory() -> int:
    """The most memory that this process has held at a time, in bytes."""
    try:
        # What `getrusage` says begins, on Linux, with the memory of the process that started this one.
        status = Path("/proc/self/status").read_text()
        return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def count_peak_anew() -> None:
    """Let `peak_memory` count from now on, where the system can (Linux); what is kept counts."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
