"""Memory of this process: whether freed blocks are kept, and the peak."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import sys
from pathlib import Path

# Of mallopt, from glibc's malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4


def keep_freed_memory() -> None:
    """Keep the memory that a step frees for the next one, as torch does on a GPU.

    By default glibc returns large blocks to the system, which has to clear their pages when they are
    allocated again; on CPU this can take a good part of a training step. Other C libraries are left alone.
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        for option, value in ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, -1)):
            libc.mallopt(option, value)


def give_back_freed_memory() -> None:
    """Return kept memory to the system, before other work begins in this process."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)


def total_memory() -> int:
    """Memory that this process may take, in bytes: that of the machine, or less if the process is limited."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return machine if limit == resource.RLIM_INFINITY else min(machine, limit)


def peak_memory() -> int:
    """Peak memory of this process, in bytes."""
    try:
        # On Linux, `getrusage` counts from the memory of the parent process.
        status = Path("/proc/self/status").read_text()
        return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def resident_memory() -> int:
    """Memory that this process holds now, in bytes; its peak where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return peak_memory()


def reset_peak_memory() -> None:
    """Restart the count of `peak_memory` where the system can (Linux). Kept memory counts."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
