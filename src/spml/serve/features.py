"""Rows of features of a JSON body."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from .refusal import RefusedError


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    features: list[list[float]]


def read_features(body: bytes, width: int, most: int) -> npt.NDArray[np.float32]:
    """Read `{"features": [[...], ...]}`.

    Args:
        body: The body of a request.
        width: Number of features that the model takes.
        most: Largest number of rows.

    Returns:
        Finite numbers, float32 (n, width).

    Raises:
        RefusedError: The body is something else.
    """
    # Before any number is made an object of Python, which takes ten times its text.
    if body.count(b",") > most * width + 8:
        raise RefusedError(
            413, f"The request holds more than {most} rows of {width} numbers. Send fewer rows."
        )
    try:
        rows = msgspec.json.decode(body, type=_Body).features
    except (ValueError, RecursionError) as error:
        raise RefusedError(
            422,
            f'Expected JSON such as {{"features": [[0.5, 1.2, ...]]}} with rows of {width} numbers: {error}',
        ) from error
    if not rows:
        raise RefusedError(422, "The request holds no row: `features` is empty.")
    if len(rows) > most:
        raise RefusedError(413, f"{len(rows)} rows, more than {most}. Send fewer rows.")
    for position, row in enumerate(rows):
        if len(row) != width:
            raise RefusedError(
                422, f"Row {position} (counted from 0) has {len(row)} numbers; the model takes {width}."
            )
    with np.errstate(over="ignore"):
        matrix = np.asarray(rows, np.float64).astype(np.float32)
    finite = np.isfinite(matrix).all(1)
    if not finite.all():
        position = int(np.argmin(finite))
        raise RefusedError(
            422,
            f"Row {position} (counted from 0) has a number that float32 can't hold. Expected finite numbers.",
        )
    return matrix
