"""Content of a request: images, as a form or one as it is, or rows of features or texts as JSON, within
limits."""

from __future__ import annotations

import math
import sys
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from python_multipart.multipart import parse_options_header
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartParser
from starlette.requests import Request
from starlette.types import Message

from .limits import Limits, RefusedError

FIELD = "images"
"""Name of the form field that holds images."""
_MOST_FIELD_BYTES = 1_000  # of a field that is no file
_LONGEST_NAME = 255
MultiPartParser.spool_max_size = sys.maxsize  # nothing is written to the disk, which may be read-only


class Upload(NamedTuple):
    """A file of a request."""

    name: str  # that the client stated, which is only repeated in the answer; else the position
    data: bytes


async def read_form(request: Request, limits: Limits) -> list[Upload]:
    """Read the images of a form.

    Args:
        request: Request whose `receive` limits the size of its body.
        limits: What a request may cost.
    """
    content_type = request.headers["content-type"].encode("latin-1")
    closing = b"--" + parse_options_header(content_type)[1].get(b"boundary", b"") + b"--"
    end = b""  # of the body, since Starlette takes a truncated one, without its last image

    async def receive() -> Message:
        nonlocal end
        message = await request.receive()
        end = (end + message.get("body", b""))[-len(closing) - 2 :]
        return message

    most = limits.max_samples
    try:
        form = await Request(request.scope, receive).form(
            max_files=most, max_fields=most, max_part_size=_MOST_FIELD_BYTES
        )
    except HTTPException as error:
        if "Too many files" in error.detail:
            raise RefusedError(413, f"More than {most} images in one request. Send fewer.") from error
        raise RefusedError(422, f"The multipart body is malformed: {error.detail}") from error
    async with AsyncExitStack() as stack:
        stack.push_async_callback(form.close)
        if not end.rstrip(b"\r\n").endswith(closing):
            raise RefusedError(422, "The multipart body is truncated: its last boundary is missing.")
        uploads = []
        for number, (field, file) in enumerate(form.multi_items()):
            if field != FIELD or isinstance(file, str):
                unknown = f"The form field {field[:100]!r} is unknown."
                raise RefusedError(422, f"{unknown} Send images as files in the field `{FIELD}`.")
            name = (file.filename or "")[-_LONGEST_NAME:] or str(number)
            uploads.append(Upload(name, _limited(await file.read(), limits, f"{name}: an")))
    if not uploads:
        raise RefusedError(422, f"The request holds no image. Send files in the field `{FIELD}`.")
    return uploads


async def read_image(request: Request, limits: Limits) -> list[Upload]:
    """Read a body that is an image, as `read_form` does the files of a form."""
    data = _limited(await request.body(), limits, "An")
    if not data:
        raise RefusedError(422, "The request holds no image: its body is empty.")
    return [Upload("0", data)]


def _limited(data: bytes, limits: Limits, what: str) -> bytes:
    if len(data) > limits.max_image_bytes:
        raise RefusedError(413, f"{what} image of more than {limits.max_image_bytes:,} bytes.")
    return data


class _Rows(msgspec.Struct, forbid_unknown_fields=True):
    features: list[list[float]]


class _Parts(msgspec.Struct, forbid_unknown_fields=True):
    features: list[list[list[float]]]


class _Texts(msgspec.Struct, forbid_unknown_fields=True):
    texts: list[str]


_EXAMPLES = {
    _Rows: '{"features": [[0.5, 1.2, ...]]}',
    _Parts: '{"features": [[[0.5, 1.2, ...], ...]]}',
    _Texts: '{"texts": ["...", "..."]}',
}


def _decoded(body: bytes, kind: Any, of: str = "") -> list[Any]:
    """The list that a JSON body of one field holds."""
    try:
        found: list[Any] = getattr(msgspec.json.decode(body, type=kind), kind.__struct_fields__[0])
    except (ValueError, RecursionError) as error:
        raise RefusedError(422, f"Expected JSON such as {_EXAMPLES[kind]}{of}: {error}") from error
    return found


def read_features(body: bytes, shape: tuple[int, ...], most: int) -> npt.NDArray[np.float32]:
    """Read `{"features": [[...], ...]}`, rows of numbers, or of lists of numbers for models of parts.

    Args:
        body: The body of a request.
        shape: Shape of a row, (D,) or (P, D) for P parts.
        most: Largest number of rows.

    Returns:
        Finite numbers, float32 (n, ...).
    """
    # Before any number is made an object of Python, which takes ten times its text.
    numbers = " x ".join(map(str, shape))
    if body.count(b",") > most * math.prod(shape) + 8:
        raise RefusedError(
            413, f"The request holds more than {most} rows of {numbers} numbers. Send fewer rows."
        )
    rows = _decoded(body, _Rows if len(shape) == 1 else _Parts, f" with rows of {numbers} numbers")
    if body.count(b'"') > 2:  # rows of numbers have no quotes, and the last of equal keys is taken
        raise RefusedError(422, "`features` is given more than once. Expected one list of rows.")
    if not rows:
        raise RefusedError(422, "The request holds no row: `features` is empty.")
    if len(rows) > most:
        raise RefusedError(413, f"{len(rows)} rows, more than {most}. Send fewer rows.")
    for position, row in enumerate(rows):
        if len(row) != shape[0]:
            what = "numbers" if len(shape) == 1 else "parts"
            raise RefusedError(
                422, f"Row {position} (counted from 0) has {len(row)} {what}; the model takes {shape[0]}."
            )
        if wrong := [len(part) for part in row if len(part) != shape[1]] if len(shape) == 2 else []:
            raise RefusedError(
                422,
                f"Row {position} (counted from 0) has a part of {wrong[0]} numbers; the model takes "
                f"{shape[1]}.",
            )
    with np.errstate(over="ignore"):
        matrix = np.asarray(rows, np.float64).astype(np.float32)
    finite = np.isfinite(matrix.reshape(len(matrix), -1)).all(1)
    if not finite.all():
        position = int(np.argmin(finite))
        raise RefusedError(
            422,
            f"Row {position} (counted from 0) has a number that float32 can't hold. Expected finite numbers.",
        )
    return matrix


def read_texts(body: bytes, most: int) -> list[str]:
    """Read `{"texts": ["...", ...]}`.

    Args:
        body: The body of a request.
        most: Largest number of texts.

    Returns:
        Texts, none of them blank.
    """
    # Quotes that end or begin a string: two for each text and two for the name of the field. At most half of
    # them are missed, after backslashes that are escaped themselves.
    quotes = body.count(b'"') - body.count(b'\\"')
    too_many = RefusedError(413, f"The request holds more than {most} texts. Send fewer.")
    if quotes > 2 * most + 2:
        raise too_many
    texts: list[str] = _decoded(body, _Texts)
    if quotes > 2 * len(texts) + 2:  # the last of equal keys is taken
        raise RefusedError(422, "`texts` is given more than once. Expected one list of texts.")
    if not texts:
        raise RefusedError(422, "The request holds no text: `texts` is empty.")
    if len(texts) > most:
        raise too_many
    for position, text in enumerate(texts):
        if not text.strip():
            raise RefusedError(422, f"Text {position} (counted from 0) is empty. Leave it out.")
    return texts
