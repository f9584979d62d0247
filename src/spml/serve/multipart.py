"""Files of a multipart/form-data body, kept in memory while it arrives, within limits."""

from __future__ import annotations

from typing import NamedTuple

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from .limits import Limits
from .refusal import RefusedError

FIELD = "images"
"""Name of the form field that holds images."""
_MOST_HEADER_BYTES = 8_000
_LONGEST_NAME = 255


class Upload(NamedTuple):
    """A file of a request.

    Attributes:
        name: File name that the client stated, which is only repeated in the answer; else the position.
        data: Its content.
    """

    name: str
    data: bytes


class Uploads:
    """Collects the files of a body, piece by piece.

    Args:
        content_type: Header of the request.
        limits: What a request may cost.

    Raises:
        RefusedError: The header names no boundary.
    """

    def __init__(self, content_type: str, limits: Limits) -> None:
        self._limits = limits
        self._files: list[Upload] = []
        self._field, self._value, self._data = bytearray(), bytearray(), bytearray()
        self._headers: dict[bytes, bytes] = {}
        self._ended = False
        boundary = parse_options_header(content_type)[1].get(b"boundary", b"")
        callbacks = {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._header(self._field, data[start:end]),
            "on_header_value": lambda data, start, end: self._header(self._value, data[start:end]),
            "on_header_end": self._header_end,
            "on_part_data": self._part_data,
            "on_part_end": self._part_end,
            "on_end": self._end,
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
        """Take in the next bytes of the body.

        Raises:
            RefusedError: They are malformed, or exceed a limit.
        """
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise RefusedError(422, f"The multipart body is malformed: {error}") from error

    def finish(self) -> list[Upload]:
        """The files, once the body has ended.

        Raises:
            RefusedError: The body is truncated, or holds no file.
        """
        if not self._ended:
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

    def _end(self) -> None:
        self._ended = True

    def _options(self) -> dict[bytes, bytes]:
        return parse_options_header(self._headers.get(b"content-disposition"))[1]

    def _name(self) -> str:
        stated = self._options().get(b"filename", b"").decode(errors="replace")
        return stated[-_LONGEST_NAME:] or str(len(self._files))
