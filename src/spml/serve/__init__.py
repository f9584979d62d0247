"""A trained run as an HTTP service: images, features or texts in, labels and probabilities out.

`spml serve RUN` serves it; `create_app` returns the ASGI application for servers of your own:

- `limits`: what a request may cost
- `bodies`: what a request holds
- `service`: from the content of a request to its answer; the model takes samples of several requests at once
- `app`: addresses, status codes, headers
- `metrics`: counters for Prometheus
- `server`: processes, signals

Needs the extra `serve`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..common.errors import require_packages
from .limits import Limits

if TYPE_CHECKING:
    from fastapi import FastAPI

    from ..runs.run import Run

__all__ = ["PACKAGES", "Limits", "create_app"]

PACKAGES = ("fastapi", "uvicorn", "python_multipart", "prometheus_client")
"""Modules that serving needs, those of the extra `serve`."""


def create_app(
    run: Run | str | Path,
    *,
    limits: Limits = Limits(),  # noqa: B008 (immutable)
    batch_size: int = 32,
    decoders: int = 2,
    threads: int = 1,
    device: str = "auto",
) -> FastAPI:
    """Make an ASGI application that serves a run.

    The run is loaded at once; its threads start and end with the server (lifespan events). Limits to slow
    connections and to their number are those of your server.

    Args:
        run: A loaded run, or its folder.
        limits: What a request may cost.
        batch_size: Largest number of samples that the model takes at once.
        decoders: Number of threads that decode images.
        threads: Number of threads that the model computes with on CPU.
        device: `auto`, `cpu`, `cuda` or `mps`.

    Raises:
        InputError: The folder holds no finished run, its files are damaged, a number is out of its domain,
            or a package of the extra `serve` is not installed.

    Example:
        app = spml.serve.create_app("runs/photos")  # uvicorn module:app
    """
    require_packages("serve", *PACKAGES)

    from ..runs.run import Run, load
    from .app import make_app
    from .service import Service

    loaded = run if isinstance(run, Run) else load(run)
    service = Service(
        loaded, limits, batch_size=batch_size, decoders=decoders, threads=threads, device=device
    )
    return make_app(service)
