"""Draws from torch's global generators: layers draw their weights, and dropout its masks, from nothing else.

All threads share these generators. Whoever needs them borrows them: one thread at a time, with a state of
its own, and they are as before afterwards. So two trainings in two threads draw what each would draw alone,
and the program around them never notices.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

_LOCK = threading.RLock()


def _unlock() -> None:
    """Begin with a free lock in a process that was forked while another thread held it."""
    global _LOCK
    _LOCK = threading.RLock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_unlock)


@contextmanager
def borrowed_generators(seed: int | None = None) -> Iterator[None]:
    """Let this thread alone draw from torch's global generators, and restore their states at the end.

    Args:
        seed: Seed of all of them; None = the block seeds what it needs.
    """
    with _LOCK:
        before = _states()
        try:
            if seed is not None:
                torch.manual_seed(seed)
            yield
        finally:
            _set_states(before)


class TorchDraws:
    """A random state of torch that lives on from one use of the global generators to the next.

    Args:
        seed: Seed of its first use.
    """

    def __init__(self, seed: int) -> None:
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Begin again with a seed."""
        self._seed, self._latest = seed, list[Tensor]()

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Draw from this state while the block runs."""
        with borrowed_generators(None if self._latest else self._seed):
            if self._latest:
                _set_states(self._latest)
            try:
                yield
            finally:
                self._latest = _states()


def _states() -> list[Tensor]:
    """States of the generators of the CPU and, if they are in use, of the GPUs."""
    of_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    return [torch.get_rng_state(), *of_gpus]


def _set_states(states: list[Tensor]) -> None:
    torch.set_rng_state(states[0])
    if len(states) > 1:
        torch.cuda.set_rng_state_all(states[1:])
