"""Content of a request: images, as a form or one as it is, or rows of features or texts as JSON, within
limits."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, MultipartState, parse_options_header

from .limits import Limits, RefusedError

FIELD = "images"
"""Name of the form field that holds images."""
_MOST_HEADER_BYTES = 8_000
_LONGEST_NAME = 255


class Upload(NamedTuple):
    """A file of a request."""

    name: str  # that the client stated, which is only repeated in the answer; else the position
    data: bytes


class Uploads:
    """Collects the files of a body, piece by piece.

    Args:
        content_type: Header of the request.
        limits: What a request may cost.
    """

    def __init__(self, content_type: str, limits: Limits) -> None:
        self._limits = limits
        self._files: list[Upload] = []
        self._field, self._value, self._data = bytearray(), bytearray(), bytearray()
        self._headers: dict[bytes, bytes] = {}
        boundary = parse_options_header(content_type)[1].get(b"boundary", b"")
        callbacks = {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._header(self._field, data[start:end]),
            "on_header_value": lambda data, start, end: self._header(self._value, data[start:end]),
            "on_header_end": self._header_end,
            "on_part_data": self._part_data,
            "on_part_end": self._part_end,
        }
        try:
            if not boundary:
                raise FormParserError("no boundary")
            self._parser = MultipartParser(boundary, callbacks)  # type: ignore[arg-type]
        except FormParserError as error:
            raise RefusedError(
                422, f"The Content-Type of the request names no usable boundary ({error})."
            ) from error

    def feed(self, data: bytes) -> None:
        """Take in the next bytes of the body."""
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise RefusedError(422, f"The multipart body is malformed: {error}") from error

    def finish(self) -> list[Upload]:
        """The files, once the body has ended."""
        if self._parser.state != MultipartState.END:
            raise RefusedError(422, "The multipart body is truncated: its last boundary is missing.")
        if not self._files:
            raise RefusedError(422, f"The request holds no image. Send files in the field `{FIELD}`.")
        return self._files

    def _begin(self) -> None:
        if len(self._files) == self._limits.max_samples:
            raise RefusedError(
                413, f"More than {self._limits.max_samples} images in one request. Send fewer."
            )
        self._headers = {}
        self._data = bytearray()

    def _header(self, target: bytearray, data: bytes) -> None:
        target += data
        held = sum(map(len, (*self._headers, *self._headers.values(), self._field, self._value)))
        if held > _MOST_HEADER_BYTES:
            raise RefusedError(
                413, f"A part of the body has headers of more than {_MOST_HEADER_BYTES:,} bytes."
            )

    def _header_end(self) -> None:
        self._headers[bytes(self._field).lower()] = bytes(self._value)
        self._field.clear()
        self._value.clear()

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if len(self._data) + end - start > self._limits.max_image_bytes:
            raise RefusedError(
                413, f"{self._name()}: an image of more than {self._limits.max_image_bytes:,} bytes."
            )
        self._data += data[start:end]

    def _part_end(self) -> None:
        options = self._options()
        field = options.get(b"name", b"").decode(errors="replace")
        if field != FIELD:
            raise RefusedError(
                422,
                f"The form field {field[:100]!r} is unknown. Send images as files in the field `{FIELD}`.",
            )
        self._files.append(Upload(self._name(), bytes(self._data)))
        self._data = bytearray()

    def _options(self) -> dict[bytes, bytes]:
        return parse_options_header(self._headers.get(b"content-disposition"))[1]

    def _name(self) -> str:
        stated = self._options().get(b"filename", b"").decode(errors="replace")
        return stated[-_LONGEST_NAME:] or str(len(self._files))


class OneImage:
    """Collects a body that is an image, piece by piece, as `Uploads` does the files of a form."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._data = limits, bytearray()

    def feed(self, data: bytes) -> None:
        """Take in the next bytes of the body."""
        if len(self._data) + len(data) > self._limits.max_image_bytes:
            raise RefusedError(413, f"An image of more than {self._limits.max_image_bytes:,} bytes.")
        self._data += data

    def finish(self) -> list[Upload]:
        """The image, once the body has ended."""
        if not self._data:
            raise RefusedError(422, "The request holds no image: its body is empty.")
        return [Upload("0", bytes(self._data))]


class _Rows(msgspec.Struct, forbid_unknown_fields=True):
    features: list[list[float]]


class _Parts(msgspec.Struct, forbid_unknown_fields=True):
    features: list[list[list[float]]]


_BODIES: dict[int, Any] = {1: _Rows, 2: _Parts}  # by the number of axes of a row
_EXAMPLES = {1: "[[0.5, 1.2, ...]]", 2: "[[[0.5, 1.2, ...], ...]]"}


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
    rows: list[Any]
    try:
        rows = msgspec.json.decode(body, type=_BODIES[len(shape)]).features
    except (ValueError, RecursionError) as error:
        raise RefusedError(
            422,
            f'Expected JSON such as {{"features": {_EXAMPLES[len(shape)]}}} with rows of {numbers} numbers: '
            f"{error}",
        ) from error
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


class _Texts(msgspec.Struct, forbid_unknown_fields=True):
    texts: list[str]


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
    try:
        texts = msgspec.json.decode(body, type=_Texts).texts
    except (ValueError, RecursionError) as error:
        raise RefusedError(422, f'Expected JSON such as {{"texts": ["...", "..."]}}: {error}') from error
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
