"""Outputs that are full or have no reader."""

from __future__ import annotations

import os

NO_SPACE = "No space left on device"


def open_full():
    return open("/dev/full", "w")


def open_pipe_without_reader():
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "w")
