"""The packages that serving needs."""

from __future__ import annotations

import importlib.util

from ..errors import missing_extra

_PACKAGES = ("fastapi", "uvicorn", "python_multipart", "prometheus_client")


def require_packages() -> None:
    """Check that the packages of the extra `serve` are installed.

    Raises:
        InputError: One is missing.
    """
    for package in _PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise missing_extra(package.replace("_", "-"), "serve")
