"""The model in a thread of its own, which takes the samples of several requests at once."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

LONGEST_WAIT = 0.005
"""Seconds that a sample waits for others that are still being decoded, if the model is free."""

Score = Callable[[Sequence[Tensor]], npt.NDArray[np.float32]]


class _Waiting(NamedTuple):
    sample: Tensor
    future: asyncio.Future[npt.NDArray[np.float32]]
    since: float


class Batcher:
    """Computes logits of samples in batches.

    While the model computes, samples queue up. When it is free, it takes what waits, up to a whole batch. It
    waits for more only while others are announced, and for `LONGEST_WAIT` at most, so that a single client
    never waits.

    Args:
        score: Function from B prepared samples to logits (B, C).
        batch_size: Largest B.
        threads: Number of threads that torch computes with.
        after_batch: Called with the size of each batch, in the thread of the model.
    """

    def __init__(
        self, score: Score, *, batch_size: int, threads: int, after_batch: Callable[[int], None]
    ) -> None:
        self._score, self._batch_size, self._threads = score, batch_size, threads
        self._after_batch = after_batch
        self._queue: deque[_Waiting] = deque()
        self._announced = 0
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)

    def start(self) -> None:
        """Start the thread of the model."""
        self._thread.start()

    def close(self) -> None:
        """Compute what waits, and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def announce(self, samples: int) -> None:
        """Say that samples will be submitted soon; negative = they will not be."""
        with self._changed:
            self._announced += samples
            self._changed.notify()

    async def logits(self, sample: Tensor) -> npt.NDArray[np.float32]:
        """Logits (C,) of a prepared sample, which was announced."""
        waiting = _Waiting(sample, asyncio.get_running_loop().create_future(), time.monotonic())
        with self._changed:
            self._announced -= 1
            self._queue.append(waiting)
            self._changed.notify()
        return await waiting.future

    def _run(self) -> None:
        torch.set_num_threads(self._threads)
        while batch := self._take():
            wanted = [each for each in batch if not each.future.cancelled()]  # its client may have gone
            if not wanted:
                continue
            results: list[Any]
            try:
                results = list(self._score([each.sample for each in wanted]))
            except Exception as error:  # whatever torch raises belongs to these samples, not to the thread
                results = [error] * len(wanted)
            self._after_batch(len(wanted))
            for each, result in zip(wanted, results, strict=True):
                each.future.get_loop().call_soon_threadsafe(_resolve, each.future, result)

    def _take(self) -> list[_Waiting]:
        """The next batch; empty at the end."""
        with self._changed:
            while True:
                left = self._queue[0].since + LONGEST_WAIT - time.monotonic() if self._queue else 0
                if len(self._queue) >= self._batch_size or (
                    self._queue and (left <= 0 or self._announced <= 0 or self._closed)
                ):
                    return [self._queue.popleft() for _ in range(min(self._batch_size, len(self._queue)))]
                if self._closed:
                    return []
                self._changed.wait(left if self._queue else None)


def _resolve(future: asyncio.Future[Any], result: Any) -> None:
    if isinstance(result, Exception) and not future.done():
        future.set_exception(result)
    elif not future.done():
        future.set_result(result)
