"""From the content of a request to its answer: decode, compute, decide."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..common.errors import InputError
from ..common.files import sha256_file
from ..data.images.decoding import UnreadableImageError, load_pixels
from ..data.texts import Texts
from ..decisions import Decision
from ..engine import find_device
from ..runs.folder.layout import THRESHOLDS
from ..runs.predict.batches import Batch
from ..runs.predict.files import Scores, as_objects, scores_to_give
from ..runs.run import Run
from ..version import __version__
from .bodies import Upload, read_features, read_texts
from .limits import Limits, RefusedError
from .metrics import Metrics

# -- batches of the samples of several requests ----------------------------------------------------------


LONGEST_WAIT = 0.005
"""Seconds that a sample waits for others that are still being decoded, if the model is free."""

Score = Callable[[Sequence[Tensor]], npt.NDArray[np.float32]]


class _Waiting(NamedTuple):
    sample: Tensor
    future: asyncio.Future[npt.NDArray[np.float32]]
    since: float


class Batcher:
    """Computes logits of samples in batches, in a thread of the model; all else happens in the event loop.

    While the model computes, samples queue up. When it is free, it takes what waits, up to a whole batch. It
    waits for more only while others are announced, and for `LONGEST_WAIT` at most, so that a single client
    never waits.

    Args:
        score: Function from B prepared samples to logits (B, C).
        model: Where it is called.
        batch_size: Largest B.
        after_batch: Called with the size of each batch.
    """

    def __init__(
        self, score: Score, model: Executor, batch_size: int, after_batch: Callable[[int], None]
    ) -> None:
        self._score, self._model = score, model
        self._batch_size, self._after_batch = batch_size, after_batch
        self._queue: deque[_Waiting] = deque()
        self._announced = 0
        self._closed = False
        self._changed = asyncio.Event()

    def announce(self, samples: int) -> None:
        """Say that samples will be submitted soon; negative = that they are now, or will not be."""
        self._announced += samples
        if samples < 0:
            self._changed.set()

    async def logits(self, sample: Tensor) -> npt.NDArray[np.float32]:
        """Logits (C,) of a prepared sample."""
        future: asyncio.Future[npt.NDArray[np.float32]] = asyncio.get_running_loop().create_future()
        self._queue.append(_Waiting(sample, future, time.monotonic()))
        self._changed.set()
        return await future

    def close(self) -> None:
        """Let `run` end once what waits is computed."""
        self._closed = True
        self._changed.set()

    async def run(self) -> None:
        """Compute batches until the end."""
        loop = asyncio.get_running_loop()
        while self._queue or not self._closed:
            left = self._queue[0].since + LONGEST_WAIT - time.monotonic() if self._queue else None
            is_full = len(self._queue) >= self._batch_size
            if left is None or not (is_full or left <= 0 or self._announced <= 0 or self._closed):
                self._changed.clear()
                timer = None if left is None else loop.call_later(left, self._changed.set)
                await self._changed.wait()
                if timer is not None:
                    timer.cancel()
                continue
            batch = [self._queue.popleft() for _ in range(min(self._batch_size, len(self._queue)))]
            wanted = [each for each in batch if not each.future.cancelled()]  # its client may have gone
            if not wanted:
                continue
            samples, results = [each.sample for each in wanted], list[Any]()
            try:
                results = list(await loop.run_in_executor(self._model, self._score, samples))
            except Exception as error:  # whatever torch raises belongs to these samples, not to the others
                results = [error] * len(wanted)
            self._after_batch(len(wanted))
            for each, result in zip(wanted, results, strict=True):
                if each.future.done():
                    continue
                if isinstance(result, Exception):
                    each.future.set_exception(result)
                else:
                    each.future.set_result(result)


# -- from a request to its answer ------------------------------------------------------------------------


_NOT_FINITE = "its scores are NaN or infinite: its features are too large, or the model is damaged"

Logits = npt.NDArray[np.float32]
T = TypeVar("T")

Answer = tuple[bytes, bool]
"""Answer to a request as JSON, and whether at least one sample was answered."""


class Service:
    """A run with the threads that serve it. The arguments are those of `spml.serve.create_app`.

    Raises:
        InputError: A number is out of its domain, the device does not exist, or thresholds.json is damaged.
    """

    def __init__(
        self, run: Run, limits: Limits, *, batch_size: int, decoders: int, threads: int, device: str
    ) -> None:
        for name, value in (("batch_size", batch_size), ("decoders", decoders), ("threads", threads)):
            if value < 1:
                raise InputError(f"{name} must be at least 1, got {value}.")
        self.run, self.limits = run, limits
        self.decision = run.decision()  # reads thresholds.json
        self.metrics = Metrics()
        self.draining = False
        """Whether the service is about to end."""
        self.answered = 0
        """Requests with predictions that were answered."""
        self.cut_off = 0
        """Requests that could not be finished before the end."""
        self.held_bytes = 0
        """Bytes of the bodies of all requests."""
        self._loading = run.decoding
        self._device = find_device(device)
        self.locates = run.locates
        """Whether the model can tell where in an image a label is."""
        self._network = (run.located if self.locates else run.model).to(self._device)
        if self.takes_texts:
            self._score([_bytes_of("a")])  # loads an embedding, or says at once why that is not possible
        self._decoders = decoders
        self._admitted = 0
        self._decoding = ThreadPoolExecutor(decoders, "decode")
        self._texts = ThreadPoolExecutor(1, "json")
        self._model = ThreadPoolExecutor(1, "model", torch.set_num_threads, (threads,))
        self._batcher = Batcher(self._score, self._model, batch_size, self.metrics.after_batch)
        file = run.folder / THRESHOLDS
        self.version = {
            "weights_sha256": run.weights_sha256,
            "thresholds_sha256": sha256_file(file) if file.is_file() else None,
            "spml": __version__,
        }

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Compute while the context lasts. In the end, compute what waits, and end all threads."""
        computing = asyncio.create_task(self._batcher.run())
        yield
        self.draining = True
        self._batcher.close()
        await computing
        for pool in (self._model, self._decoding, self._texts):
            # The event loop goes on, so that the last answers are sent.
            await asyncio.to_thread(pool.shutdown, cancel_futures=True)

    @property
    def takes_images(self) -> bool:
        """Whether samples are images."""
        return self.run.spec.kind == "image"

    @property
    def takes_texts(self) -> bool:
        """Whether samples are texts; if they are neither these nor images, they are rows of features."""
        return self.run.spec.kind == "text"

    @property
    def kind(self) -> str:
        """What samples are, for people."""
        if self.takes_images:
            return "photos"
        return "texts" if self.takes_texts else f"rows of {' x '.join(map(str, self.shape))} features"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a row of features: (D,), or (P, D) of a model that scores P parts."""
        return self.run.classifier.feature_shape

    def about(self) -> dict[str, Any]:
        """Description of the model for clients: its classes, thresholds and limits."""
        cut = np.broadcast_to(np.asarray(self.decision.threshold, np.float32), len(self.run.classes))
        scores = self.run.probabilities(cut[None])[0].tolist()
        policy, never = self.run.thresholds, set(self.decision.never)
        about: dict[str, Any] = {"kind": "texts"}
        if self.takes_images:
            about = {"kind": "images", "size": self.run.spec.size, "where": self.locates}
        elif not self.takes_texts:
            *parts, width = self.shape
            about = {"kind": "features", "width": width, **({"parts": parts[0]} if parts else {})}
        # At the threshold of each class; there is none without K, or where a class is never predicted.
        chance = self.run.calibrated(np.nan_to_num(cut[None], posinf=0.0))
        chances = [] if chance is None else zip(cut.tolist(), chance[0].tolist(), strict=True)
        probabilities = [None if math.isinf(logit) else p for logit, p in chances]
        return {
            "model": self.version,
            "input": about,
            "classes": self.run.classes,
            # Scores at and above which a class is predicted; null = never.
            "thresholds": [
                None if math.isinf(logit) or column in never else score
                for column, (logit, score) in enumerate(zip(cut.tolist(), scores, strict=True))
            ],
            "threshold_probabilities": None if chance is None else probabilities,
            "target": policy.target.describe(),
            "calibrated": self.run.calibration is not None,
            "limits": asdict(self.limits),
        }

    def check_room(self, samples: int = 1) -> None:
        """Check that samples can be taken. Several at once leave a sixteenth of the queue to single ones."""
        most = self.limits.max_queue
        if samples > 1 and self._admitted:  # the largest request can be taken while nothing waits
            most -= most // 16
        if self._admitted + samples > most:
            raise RefusedError(429, f"{self._admitted} samples are waiting already. Try again in a second.")

    async def images(
        self, uploads: Sequence[Upload], decision: Decision, scores: Scores, where: bool
    ) -> Answer:
        """Predict encoded images, each of which is answered or has its own error.

        Args:
            uploads: Images.
            decision: How logits become labels.
            scores: Classes whose scores and probabilities are in the answer.
            where: Say where in the image each label is, too.

        Raises:
            RefusedError: Too many samples are waiting.
        """
        gate = asyncio.Semaphore(self._decoders)  # so that many images of a request let those of others pass

        async def decoded(data: bytes) -> Tensor:
            async with gate:
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._decoding, self._prepare, data)

        loads = [partial(decoded, upload.data) for upload in uploads]
        return await self._answer([upload.name for upload in uploads], loads, decision, scores, where)

    async def rows(self, body: bytes, decision: Decision, scores: Scores) -> Answer:
        """Predict the rows of features, or the texts, of a JSON body, as `images` does.

        Raises:
            RefusedError: The body does not suit, or too many samples are waiting.
        """
        rows = await self._in_background(partial(self._read, body))

        async def row(position: int) -> Tensor:
            return rows[position]

        loads = [partial(row, position) for position in range(len(rows))]
        return await self._answer([*map(str, range(len(rows)))], loads, decision, scores)

    async def _answer(
        self,
        names: Sequence[str],
        loads: Sequence[Callable[[], Awaitable[Tensor]]],
        decision: Decision,
        scores: Scores,
        where: bool = False,
    ) -> Answer:
        self.check_room(len(loads))
        self._admitted += len(loads)
        self.metrics.queue.inc(len(loads))

        async def logits(load: Callable[[], Awaitable[Tensor]]) -> Logits | str:
            self._batcher.announce(1)
            try:
                sample = await load()
            except UnreadableImageError as error:
                self.metrics.unreadable.inc()
                return str(error)
            finally:
                self._batcher.announce(-1)
            found = await self._batcher.logits(sample)
            return found if np.isfinite(found).all() else _NOT_FINITE

        tasks = [asyncio.ensure_future(logits(load)) for load in loads]
        try:
            results = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            self._admitted -= len(loads)
            self.metrics.queue.dec(len(loads))
        return await self._in_background(partial(self._as_json, names, results, decision, scores, where))

    def _read(self, body: bytes) -> Sequence[Tensor]:
        most = self.limits.max_samples
        if self.takes_texts:
            return [*map(_bytes_of, read_texts(body, most))]
        return torch.from_numpy(read_features(body, self.shape, most)).unbind()

    async def _in_background(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._texts, work)

    def _prepare(self, data: bytes) -> Tensor:
        """Decode an image as `Run.predict` does, uint8 (3, size, size)."""
        if not data:
            raise UnreadableImageError("the file is empty")
        spec, most = self.run.spec, self.limits.max_pixels
        return load_pixels(
            data, spec.size, spec.interpolation, max_pixels=most, limit="max_pixels", **self._loading
        )

    @torch.inference_mode()
    def _score(self, samples: Sequence[Tensor]) -> Logits:
        batch = pad_sequence([*samples], batch_first=True)  # with zeros, which end a text; others are as long
        logits: Logits = self._network(batch.to(self._device)).float().cpu().numpy()
        return logits

    def _as_json(
        self,
        names: Sequence[str],
        results: Sequence[Logits | str],
        decision: Decision,
        scores: Scores,
        where: bool,
    ) -> Answer:
        found = [result for result in results if not isinstance(result, str)]
        objects: Iterator[dict[str, Any]] = iter(())
        if found:
            values, classes = np.stack(found), len(self.run.classes)
            windows = values[:, classes:].astype(np.int64) if where else None
            batch = Batch(len(found), np.arange(len(found)), values[:, :classes], {}, windows)
            given = scores_to_give(scores, len(self.run.classes))
            predictions = self.run.labelled(("",) * len(found), batch, decision, sparse=given != "all")
            objects = as_objects(predictions, given)
        answers = [
            {"name": name, "error": result} if isinstance(result, str) else {"name": name, **next(objects)}
            for name, result in zip(names, results, strict=True)
        ]
        content = msgspec.json.encode({"model": self.version, "predictions": answers})
        return content, bool(found)


def _bytes_of(text: str) -> Tensor:
    """A text as networks take it, uint8 (L,)."""
    return Texts.of([text]).fetch([0])[0]
