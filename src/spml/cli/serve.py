"""The command `spml serve`. Heavy modules are imported when it runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from ..common.errors import require_packages
from ..serve import PACKAGES
from ..serve.limits import Limits
from .shared import Network


def serve(
    run: Path,
    *,
    network: Network,
    limits: Limits,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    batch_size: int = 32,
    threads: int = 1,
    decoders: int = min(4, os.cpu_count() or 1),
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
    shutdown_timeout: float = 30.0,
) -> None:
    """Answer HTTP requests with the labels of photos, texts or feature rows: POST /predict, GET /health,
    /metrics, /model, and / for a page where a photo is dropped. SIGTERM or Ctrl-C finishes what was taken, a
    second one ends at once.

    Args:
        run: Folder of the run.
        network: Network of the user's own.
        limits: What a request may cost.
        host: Address to listen at; 0.0.0.0 = every machine that reaches this one may use it.
        port: Port; 0 = a free one.
        workers: Processes, each with its own model.
        batch_size: Samples that the model takes at once, at most.
        threads: Threads of each model on CPU.
        decoders: Threads that decode images, per worker.
        device: Device of the model.
        shutdown_timeout: Seconds to finish requests in at the end.
    """
    require_packages("serve", *PACKAGES)

    from ..serve.server import Settings
    from ..serve.server import serve as run_server

    settings = Settings(
        run, host, port, workers, shutdown_timeout, batch_size, decoders, threads, device, limits
    )
    run_server(settings)
