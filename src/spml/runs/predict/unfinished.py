"""An output that grows block by block, and that the same command continues after a kill."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from ...common.documents import parse_json
from ...common.errors import InputError, SpmlError
from ...common.locks import only_writer
from ...common.messages import log
from ...common.phrases import counted

SUFFIX, JOURNAL = ".partial", ".partial.journal"
_PIECE = 1 << 20  # bytes that are read at a time


class Unfinished:
    """The file OUTPUT.partial, to which blocks are appended until it is renamed to OUTPUT.

    Next to it, OUTPUT.partial.journal has a line of JSON that says what the output is made of and one per
    block: how many samples are done, how long the file is by then, and the SHA-256 of all of it and of these
    lines. The next process that makes the same output keeps the blocks that agree with the journal and
    continues after them; if the output is made of something else, it starts from the beginning.

    As a context manager, it leaves both files behind if there is an exception and a block is complete.

    Args:
        output: Final file.
        identity: What the content depends on, JSON-able.
        start: First bytes of the file, before any block.

    Attributes:
        samples: Number of samples that are done.
        skipped: Those of them that were left out, with the reason.

    Raises:
        InputError: Another process is making the same output.
        SpmlError: The files can't be written.
    """

    def __init__(self, output: Path, identity: Mapping[str, Any], start: bytes) -> None:
        self._output, self._start = output, start
        self.path = output.with_name(output.name + SUFFIX)
        self._journal_path = output.with_name(output.name + JOURNAL)
        self._identity = json.dumps(identity, sort_keys=True).encode() + b"\n"
        self._digest = hashlib.sha256()
        self.samples = 0
        self.skipped: dict[int, str] = {}

    def __enter__(self) -> Unfinished:
        with self._os_errors_explained(), contextlib.ExitStack() as stack:
            stack.enter_context(only_writer(self._output))
            self._files = stack.enter_context(contextlib.ExitStack())
            self._journal: BinaryIO = self._files.enter_context(open(self._journal_path, "a+b"))
            self._file: BinaryIO = self._files.enter_context(open(self.path, "a+b"))
            if self._resume():
                log.info(f"{self.path}: continuing after {counted(self.samples, 'sample')} done before")
            else:
                self._file.truncate(0)
                self._journal.truncate(0)
                self._journal.write(self._identity)
                self.add(self._start, 0, {})
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        with self._stack:  # the lock is released last
            with contextlib.suppress(OSError):  # on a full disk, closing fails again
                self._files.close()
            # After an InputError the same command would not come to another end.
            if kind and self.samples and not issubclass(kind, InputError):
                done = counted(self.samples, "sample")
                log.info(f"{self.path}: {done} done so far; the same command continues after them")
                return
            for path in (self.path, self._journal_path):
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)

    def add(self, content: bytes, samples: int, skipped: Mapping[int, str]) -> None:
        """Append a block.

        Args:
            content: Bytes of the block.
            samples: Number of samples that are done with it.
            skipped: Reason for each of its samples that was left out.

        Raises:
            SpmlError: It can't be written.
        """
        with self._os_errors_explained():
            # The content first: a process that is killed in between leaves bytes that no line accounts for.
            self._file.write(content)
            self._file.flush()
            line: dict[str, Any] = {"samples": samples, "size": self._file.tell()}
            if skipped:
                line["skipped"] = list(skipped.items())
            self._digest.update(content)
            self._digest.update(json.dumps(line).encode())
            line["sha256"] = self._digest.hexdigest()
            self._journal.write(json.dumps(line).encode() + b"\n")
            self._journal.flush()
        self.samples = samples
        self.skipped.update(skipped)

    def finish(self, complete: Callable[[Path, Path], None]) -> None:
        """Make the output of the file.

        Args:
            complete: Called with the path of the file and of the output. It renames the file, or writes the
                output completely or not at all.

        Raises:
            SpmlError: The output can't be written.
        """
        with self._os_errors_explained():
            os.fsync(self._file.fileno())
            complete(self.path, self._output)

    def _resume(self) -> bool:
        """Keep the blocks that agree with the journal, and cut off the rest. False if there are none."""
        self._journal.seek(0)
        first = self._journal.readline()
        if first != self._identity:
            if first and self.path.stat().st_size:
                log.info(
                    f"{self.path}: was made of other samples, by another model or with other settings: "
                    "starting from the beginning"
                )
            return False
        self._file.seek(0)
        end, size, digest = self._journal.tell(), 0, self._digest.copy()
        whole = os.fstat(self._file.fileno()).st_size
        for text in self._journal:
            try:
                line = parse_json(text)
                if not size <= line["size"] <= whole:
                    break
                for at in range(size, line["size"], _PIECE):
                    digest.update(self._file.read(min(_PIECE, line["size"] - at)))
                stated = line.pop("sha256")
                digest.update(json.dumps(line).encode())
                if not text.endswith(b"\n") or digest.hexdigest() != stated:
                    break
                self.skipped.update({int(row): str(reason) for row, reason in line.get("skipped", ())})
            except (ValueError, KeyError, TypeError):
                break
            end, size, self.samples = end + len(text), line["size"], line["samples"]
            self._digest = digest.copy()
        self._file.truncate(size)
        self._journal.truncate(end)
        return size > 0

    @contextlib.contextmanager
    def _os_errors_explained(self) -> Any:
        try:
            yield
        except OSError as error:
            raise SpmlError(
                f"{self._output}: could not be written ({error.strerror or error}). What is done so far is "
                f"kept in {self.path.name}. Free some space, then run the same command again."
            ) from error
