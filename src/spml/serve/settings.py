"""Everything that `spml serve` can be told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..common.errors import InputError
from ..runs.api import load
from .limits import Limits
from .service import Service


@dataclass(frozen=True)
class Settings:
    """Settings of a server.

    Attributes:
        run: Folder of the run.
        host: Address to listen at.
        port: Port; 0 = a free one.
        workers: Number of processes, each with its own model.
        shutdown_timeout: Seconds in which requests may finish once the server is asked to end.
        batch_size, decoders, threads, device: As in `spml.serve.create_app`.
        limits: What a request may cost.

    Raises:
        InputError: A number is out of its domain.
    """

    run: Path
    host: str
    port: int
    workers: int = 1
    shutdown_timeout: float = 30.0
    batch_size: int = 32
    decoders: int = 2
    threads: int = 1
    device: str = "auto"
    limits: Limits = Limits()  # noqa: RUF009 (immutable)

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise InputError(f"--workers must be at least 1, got {self.workers}.")
        if not 0 < self.shutdown_timeout < float("inf"):
            raise InputError(f"--shutdown_timeout must be greater than 0, got {self.shutdown_timeout:g}.")

    def open(self) -> Service:
        """Load the run.

        Raises:
            InputError: The folder holds no finished run, its files are damaged, or a number is out of its
                domain.
        """
        return Service(
            load(self.run),
            self.limits,
            batch_size=self.batch_size,
            decoders=self.decoders,
            threads=self.threads,
            device=self.device,
        )
