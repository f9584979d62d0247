"""Counters and histograms for Prometheus."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from ..common.locks import has_ended
from ..engine.process_memory import resident_memory
from .limits import RefusedError

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable with the folder in which several processes keep their numbers."""
_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Numbers about requests. Several processes add up theirs if `FOLDER` was set before they started."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry: CollectorRegistry | None = self.registry
        self.folder = Path(os.environ[FOLDER]) if FOLDER in os.environ else None
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)  # what cleans /tmp may have removed it
            registry = None  # the collector reads the files of all processes instead
            MultiProcessCollector(self.registry)  # type: ignore[no-untyped-call]
            for path in self.folder.glob("gauge_live*_*.db"):
                process = int(path.stem.rpartition("_")[2])
                if has_ended(socket.gethostname(), process):  # such as one that was killed and is replaced
                    mark_process_dead(process, str(self.folder))  # type: ignore[no-untyped-call]
        self.requests = Counter(
            "spml_requests", "Requests that were answered.", ["path", "status"], registry=registry
        )
        self.seconds = Histogram(
            "spml_request_seconds", "Seconds from the headers of a request to its answer.", ["path"],
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self.batch = Histogram(
            "spml_batch_size", "Samples that the model took at once.", buckets=_SIZES, registry=registry
        )
        self.unreadable = Counter(
            "spml_unreadable_images", "Images that could not be used.", registry=registry
        )
        self.queue = Gauge(
            "spml_queue_samples", "Samples that are decoded, wait for the model, or are in it.",
            multiprocess_mode="livesum", registry=registry,
        )  # fmt: skip
        self.memory = Gauge(
            "spml_memory_bytes", "Memory that a process holds.",
            multiprocess_mode="liveall", registry=registry,
        )  # fmt: skip

    def after_batch(self, size: int) -> None:
        """Count a batch, and look at the memory."""
        self.batch.observe(size)
        self.memory.set(resident_memory())

    def text(self) -> bytes:
        """All numbers in the text format of Prometheus."""
        if self.folder is not None and not self.folder.is_dir():
            raise RefusedError(503, f"{self.folder}, with the numbers of all workers, is gone. Start again.")
        self.memory.set(resident_memory())
        return generate_latest(self.registry)
