"""From the content of a request to its answer: decode, compute, decide."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..common.errors import InputError
from ..common.files import sha256_file
from ..data.images.decoding import UnreadableImageError, load_pixels
from ..decisions import Decision
from ..engine import make_fabric
from ..runs.compute.predict import Batch
from ..runs.compute.prediction_files import Scores, as_objects, scores_to_give
from ..runs.folder.layout import THRESHOLDS
from ..runs.run import Run
from ..version import __version__
from .batching import Batcher
from .features import read_features
from .limits import Limits
from .metrics import Metrics
from .multipart import Upload
from .refusal import RefusedError

_NOT_FINITE = "its scores are NaN or infinite: its features are too large, or the model is damaged"

Logits = npt.NDArray[np.float32]
T = TypeVar("T")


class Wanted(NamedTuple):
    """What a client asks for.

    Attributes:
        decision: How logits become labels.
        scores: Classes whose scores and probabilities are in the answer.
    """

    decision: Decision
    scores: Scores = "auto"


class Answer(NamedTuple):
    """Answer to a request.

    Attributes:
        content: JSON.
        useful: Whether at least one sample was answered.
    """

    content: bytes
    useful: bool


class Service:
    """A run with the threads that serve it.

    Args:
        run: The run.
        limits: What a request may cost.
        batch_size: Largest number of samples that the model takes at once.
        decoders: Number of threads that decode images.
        threads: Number of threads that torch computes with.
        device: `auto`, `cpu`, `cuda` or `mps`.

    Raises:
        InputError: A number is out of its domain, the device does not exist, or thresholds.json is damaged.
    """

    def __init__(
        self, run: Run, limits: Limits, *, batch_size: int, decoders: int, threads: int, device: str
    ) -> None:
        for name, value in (("batch_size", batch_size), ("decoders", decoders), ("threads", threads)):
            if value < 1:
                raise InputError(f"--{name} must be at least 1, got {value}.")
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
        self._device = make_fabric(device).device
        self._network = run.model.to(self._device)
        self._decoders = decoders
        self._admitted = 0
        self._decoding = ThreadPoolExecutor(decoders, "decode")
        self._texts = ThreadPoolExecutor(1, "json")
        self._batcher = Batcher(
            self._score, batch_size=batch_size, threads=threads, after_batch=self.metrics.after_batch
        )
        file = run.folder / THRESHOLDS
        self.version = {
            "weights_sha256": run.weights_sha256,
            "thresholds_sha256": sha256_file(file) if file.is_file() else None,
            "spml": __version__,
        }

    def start(self) -> None:
        """Start the thread of the model."""
        self._batcher.start()

    def close(self) -> None:
        """Compute what waits, and end all threads."""
        self.draining = True
        self._batcher.close()
        for pool in (self._decoding, self._texts):
            pool.shutdown(cancel_futures=True)

    @property
    def takes_images(self) -> bool:
        """Whether samples are images; otherwise they are rows of features."""
        return self.run.spec.size > 0

    @property
    def width(self) -> int:
        """Number of features of a row."""
        return self._network.classifier.backbone.num_features

    def about(self) -> dict[str, Any]:
        """What clients may want to know about the model: its classes, thresholds and limits."""
        size = self.run.spec.size
        cut = np.broadcast_to(np.asarray(self.decision.threshold, np.float32), len(self.run.classes))
        scores = self.run.probabilities(cut[None])[0].tolist()
        policy, never = self.run.thresholds, set(self.decision.never)
        return {
            "model": self.version,
            "input": {"kind": "images", "size": size} if size else {"kind": "features", "width": self.width},
            "classes": self.run.classes,
            # Scores at and above which a class is predicted; null = never.
            "thresholds": [
                None if math.isinf(logit) or column in never else score
                for column, (logit, score) in enumerate(zip(cut.tolist(), scores, strict=True))
            ],
            "target": None if policy is None else policy.target.describe(),
            "calibrated": self.run.calibration is not None,
            "limits": asdict(self.limits),
        }

    def check_room(self, samples: int = 1) -> None:
        """Check that samples can be taken.

        Raises:
            RefusedError: Too many are waiting.
        """
        if self._admitted + samples > self.limits.max_queue:
            raise RefusedError(429, f"{self._admitted} samples are waiting already. Try again in a second.")

    async def images(self, uploads: Sequence[Upload], wanted: Wanted) -> Answer:
        """Predict encoded images, each of which is answered or has its own error.

        Raises:
            RefusedError: Too many samples are waiting.
        """
        gate = asyncio.Semaphore(self._decoders)  # so that many images of a request let those of others pass

        async def decoded(data: bytes) -> Tensor:
            async with gate:
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._decoding, self._prepare, data)

        loads = [partial(decoded, upload.data) for upload in uploads]
        return await self._answer([upload.name for upload in uploads], loads, wanted)

    async def features(self, body: bytes, wanted: Wanted) -> Answer:
        """Predict the rows of a JSON body.

        Raises:
            RefusedError: The body does not suit, or too many samples are waiting.
        """
        read = partial(read_features, body, self.width, self.limits.max_samples)
        rows = torch.from_numpy(await self._in_background(read))

        async def row(position: int) -> Tensor:
            return rows[position]

        loads = [partial(row, position) for position in range(len(rows))]
        return await self._answer([str(position) for position in range(len(rows))], loads, wanted)

    async def _answer(
        self, names: Sequence[str], loads: Sequence[Callable[[], Awaitable[Tensor]]], wanted: Wanted
    ) -> Answer:
        with self._admit(len(loads)) as settle:

            async def logits(load: Callable[[], Awaitable[Tensor]]) -> Logits | str:
                try:
                    sample = await load()
                except UnreadableImageError as error:
                    self.metrics.unreadable.inc()
                    settle()
                    self._batcher.announce(-1)
                    return str(error)
                settle()
                found = await self._batcher.logits(sample)
                return found if np.isfinite(found).all() else _NOT_FINITE

            tasks = [asyncio.ensure_future(logits(load)) for load in loads]
            try:
                results = await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
        return await self._in_background(partial(self._as_json, names, results, wanted))

    @contextmanager
    def _admit(self, samples: int) -> Iterator[Callable[[], None]]:
        """Take samples in and announce them to the model; yields a callback for each that has reached it."""
        self.check_room(samples)
        announced = samples

        def settle() -> None:
            nonlocal announced
            announced -= 1

        self._admitted += samples
        self.metrics.queue.inc(samples)
        self._batcher.announce(samples)
        try:
            yield settle
        finally:
            self._batcher.announce(-announced)
            self._admitted -= samples
            self.metrics.queue.dec(samples)

    async def _in_background(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._texts, work)

    def _prepare(self, data: bytes) -> Tensor:
        """Decode an image as `Run.predict` does, uint8 (3, size, size)."""
        if not data:
            raise UnreadableImageError("the file is empty")
        spec = self.run.spec
        return load_pixels(
            data,
            spec.size,
            spec.interpolation,
            max_pixels=self.limits.max_pixels,
            limit="max_pixels",
            **self._loading,
        )

    @torch.inference_mode()
    def _score(self, samples: Tensor) -> Logits:
        logits: Logits = self._network(samples.to(self._device)).float().cpu().numpy()
        return logits

    def _as_json(self, names: Sequence[str], results: Sequence[Logits | str], wanted: Wanted) -> Answer:
        found = [result for result in results if not isinstance(result, str)]
        objects: Iterator[dict[str, Any]] = iter(())
        if found:
            batch = Batch(len(found), np.arange(len(found)), np.stack(found), {})
            scores = scores_to_give(wanted.scores, len(self.run.classes))
            names_of_batch = ("",) * len(found)
            predictions = self.run.labelled(names_of_batch, batch, wanted.decision, sparse=scores != "all")
            objects = as_objects(predictions, scores)
        answers = [
            {"name": name, "error": result} if isinstance(result, str) else {"name": name, **next(objects)}
            for name, result in zip(names, results, strict=True)
        ]
        content = msgspec.json.encode({"model": self.version, "predictions": answers})
        return Answer(content, bool(found))
