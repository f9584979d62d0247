"""The command `spml serve`. Heavy modules are imported when it runs."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

from jsonargparse import ArgumentParser, Namespace

from ..common.errors import require_packages
from ..serve import PACKAGES
from ..serve.limits import Limits
from .own_network import add_backbone_argument

_LIMITS = {
    "max_request_bytes": "bytes of a request",
    "max_image_bytes": "bytes of an image file",
    "max_pixels": "pixels of an image; decoding takes up to 20 bytes for each, in each of --decoders",
    "max_samples": "images or rows of a request",
    "max_queue": "samples that may wait at once; further requests get status 429",
    "body_timeout": "seconds in which the body of a request must arrive",
    "answer_timeout": "seconds after which a request is given up",
}


def add_serve_command(commands: Any) -> None:
    """Add `serve` to the commands of `spml`."""
    parser = ArgumentParser(
        description="Answer HTTP requests with the labels of photos or feature rows: POST /predict, GET "
        "/health, /metrics, /model, and / for a page where a photo is dropped. SIGTERM or Ctrl-C finishes "
        "what was taken, a second one ends at once."
    )
    parser.add_argument("run", help="folder of the run")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen at; 0.0.0.0 = every machine that reaches this one may use it",
    )
    parser.add_argument("--port", type=int, default=8000, help="port; 0 = a free one")
    parser.add_argument("--workers", type=int, default=1, help="processes, each with its own model")
    parser.add_argument(
        "--batch_size", type=int, default=32, help="samples that the model takes at once, at most"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of each model on CPU")
    parser.add_argument(
        "--decoders",
        type=int,
        default=min(4, os.cpu_count() or 1),
        help="threads that decode images, per worker",
    )
    parser.add_argument(
        "--device", type=Literal["auto", "cpu", "cuda", "mps"], default="auto", help="device of the model"
    )
    parser.add_argument(
        "--shutdown_timeout", type=float, default=30.0, help="seconds to finish requests in at the end"
    )
    add_backbone_argument(parser)
    defaults = Limits()
    for field in fields(Limits):
        value = getattr(defaults, field.name)
        parser.add_argument(
            f"--{field.name}", type=type(value), default=value, help=f"limit: {_LIMITS[field.name]}"
        )
    commands.add_subcommand("serve", parser, help="answer HTTP requests with labels")


def run_serve(arguments: Namespace) -> None:
    """Serve until a signal comes.

    Raises:
        InputError: The run, the port or a number does not suit, or a package of the extra `serve` is missing.
        SpmlError: Requests could not be finished in time.
    """
    require_packages("serve", *PACKAGES)
    limits = Limits(**{field.name: getattr(arguments, field.name) for field in fields(Limits)})

    from ..serve.server import serve
    from ..serve.settings import Settings

    settings = Settings(
        run=Path(arguments.run),
        host=arguments.host,
        port=arguments.port,
        workers=arguments.workers,
        shutdown_timeout=arguments.shutdown_timeout,
        batch_size=arguments.batch_size,
        decoders=arguments.decoders,
        threads=arguments.threads,
        device=arguments.device,
        limits=limits,
    )
    serve(settings, lambda text: print(text, flush=True))
