"""Locks on files and folders: one writer at a time, and none that outlives its process."""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from spml.common.errors import InputError, SpmlError
from spml.common.locks import check_no_writer, one_at_a_time, only_writer

HERE = socket.gethostname()
REFUSED = (
    rf"^{{target}}: process {{process}} on {re.escape(HERE)} has been writing to it since "
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: \(.+\))?\. Wait until that process has ended, or write to another "
    r"place\.$"
)


def refused(target: Path, process: int) -> str:
    """Pattern of the message that a process writes to a target already."""
    return REFUSED.replace("{target}", re.escape(str(target))).replace("{process}", str(process))


def no_locks(*arguments: object) -> None:
    raise OSError(38, "Function not implemented")


@pytest.mark.parametrize(("inside", "name"), [(True, "out/.lock"), (False, ".out.lock")])
@pytest.mark.parametrize("locks", [True, False])
def test_a_second_writer_is_refused_and_told_by_whom(tmp_path, monkeypatch, inside, name, locks):
    (target := tmp_path / "out").mkdir()
    name += "" if locks else ".owner"
    if not locks:
        monkeypatch.setattr("fcntl.flock", no_locks)
    check_no_writer(target, inside=inside)
    with only_writer(target, inside=inside):
        files = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob(".*")]
        assert name in files
        message = refused(target, os.getpid())
        if not locks:
            hint = re.escape(f" If it has ended, remove {tmp_path / name}.")
            message = message.replace(r"place\.$", rf"place\.{hint}$")
        for _ in range(2):
            with pytest.raises(InputError, match=message), only_writer(target, inside=inside):
                pass
            with pytest.raises(InputError, match=message):
                check_no_writer(target, inside=inside)
    assert [*tmp_path.rglob("*")] == [target]
    check_no_writer(target, inside=inside)
    with only_writer(target, inside=inside):
        pass
    assert [*tmp_path.rglob("*")] == [target]


@pytest.mark.parametrize("before", ["", "process {} on {} since 2026-01-02 03:04:05, start 1\n"])
def test_a_writer_that_has_not_named_itself_yet_is_waited_for(tmp_path, monkeypatch, before):
    """Between the lock and the name, the file is empty or holds the name of a killed process."""
    with only_writer(tmp_path / "out"):
        lock = tmp_path / ".out.lock"
        name = lock.read_text()
        lock.write_text(before.format(ended_process(), HERE))
        waits = []

        def sleep(seconds):
            waits.append(seconds)
            if len(waits) == 3:
                lock.write_text(name)

        monkeypatch.setattr("spml.common.locks.time.sleep", sleep)
        with pytest.raises(InputError, match=refused(tmp_path / "out", os.getpid())):
            check_no_writer(tmp_path / "out")
        assert len(waits) == 3


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_a_second_writer_is_told_the_command(tmp_path):
    words = [
        sys.executable,
        "-c",
        HOLDER,
        str(tmp_path / "out"),
        "x/spml train rows.npz --output " + "run" * 40,
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as holder:
        child = int(holder.stdout.readline())
        try:
            with pytest.raises(
                InputError, match=r"\d \('spml train rows.npz --output (run)+…\)\. Wait until"
            ):
                check_no_writer(tmp_path / "out")
        finally:
            holder.kill()
            os.kill(child, signal.SIGKILL)


def test_an_exception_ends_the_lock(tmp_path):
    with pytest.raises(KeyboardInterrupt), only_writer(tmp_path / "out"):
        raise KeyboardInterrupt
    assert [*tmp_path.iterdir()] == []


HOLDER = """
import os, sys, time
from pathlib import Path
from spml.common.locks import only_writer
with only_writer(Path(sys.argv[1])):
    # A process that loads images outlives its parent by some seconds. The child itself tells its number,
    # which it can do once the functions that Python runs in it after a fork have ended.
    if not os.fork():
        print(os.getpid(), flush=True)
    time.sleep(600)
"""


def test_kill_ends_the_lock_even_if_a_forked_process_lives_on(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "out")], stdout=subprocess.PIPE, text=True
    )
    child = int(holder.stdout.readline())
    try:
        with (
            pytest.raises(InputError, match=refused(tmp_path / "out", holder.pid)),
            only_writer(tmp_path / "out"),
        ):
            pass
        holder.kill()
        holder.wait()
        assert [path.name for path in tmp_path.iterdir()] == [".out.lock"]
        os.kill(child, 0)  # is alive
        check_no_writer(tmp_path / "out")
        with only_writer(tmp_path / "out"):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        holder.stdout.close()
    assert [*tmp_path.iterdir()] == []


def ended_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_without_locks_the_file_of_an_ended_process_is_taken_over(tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO", "spml")
    monkeypatch.setattr("fcntl.flock", no_locks)
    owner = tmp_path / ".out.lock.owner"
    for process, start in ((ended_process(), "123"), (os.getpid(), "1")):  # the second: another one, before
        owner.write_text(f"process {process} on {HERE} since 2026-01-02 03:04:05, start {start}\n")
        check_no_writer(tmp_path / "out")
        with only_writer(tmp_path / "out"):
            assert owner.read_text().startswith(f"process {os.getpid()} on {HERE} since ")
        assert caplog.messages[-1] == f"{owner}: taken over from process {process} on {HERE}, which has ended"
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("content", "who"),
    [
        (
            "process 7 on elsewhere since 2026-01-02 03:04:05, start 1\n",
            "process 7 on elsewhere has been writing to it since 2026-01-02 03:04:05",
        ),
        ("", "another process is writing to it"),
        ("process 7 on \x1b[31m since 2026-01-02 03:04:05, start 1\n", "another process is writing to it"),
    ],
)
def test_without_locks_an_owner_that_may_be_running_is_not_replaced(tmp_path, monkeypatch, content, who):
    monkeypatch.setattr("fcntl.flock", no_locks)
    (owner := tmp_path / ".out.lock.owner").write_text(content)
    with pytest.raises(InputError) as error, only_writer(tmp_path / "out"):
        pass
    assert str(error.value) == (
        f"{tmp_path / 'out'}: {who}. Wait until that process has ended, or write to another place. If it has "
        f"ended, remove {owner}."
    )
    assert owner.read_text() == content


CAN_NOT = (
    "{path}: can't be written ({reason}). This file keeps other processes from writing to the same place. "
    "Check its permissions and those of its folder, or write to another place."
)


def make_link(path):
    (path.parent / "mine").write_text("mine")
    path.symlink_to(path.parent / "mine")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (make_link, "Too many levels of symbolic links"),
        (os.mkfifo, "Invalid argument"),
        (os.mkdir, "Is a directory"),
    ],
)
def test_what_lies_in_the_place_of_a_lock_file_is_not_touched(tmp_path, make, reason):
    for name in (".out.lock", ".out.lock.owner"):
        make(tmp_path / name)
    check_no_writer(tmp_path / "out")
    with pytest.raises(InputError) as error, only_writer(tmp_path / "out"):
        pass
    assert str(error.value) == CAN_NOT.format(path=tmp_path / ".out.lock", reason=reason)
    if make is make_link:
        assert (tmp_path / "mine").read_text() == "mine"


def test_a_full_disk_is_not_a_mistake_of_the_user(tmp_path, monkeypatch):
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    message = CAN_NOT.format(path=tmp_path / ".out.lock", reason="No space left on device")
    with pytest.raises(SpmlError) as error, only_writer(tmp_path / "out"):
        pass
    assert (str(error.value), error.value.exit_code) == (message, 1)
    assert [*tmp_path.iterdir()] == []
    message = CAN_NOT.format(path=tmp_path / "gone" / "lock", reason="No such file or directory")
    with pytest.raises(InputError) as error, one_at_a_time(tmp_path / "gone" / "lock", "waits"):
        pass
    assert (str(error.value), error.value.exit_code) == (message, 2)


def test_another_process_is_waited_for_where_it_does_the_same(tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO", "spml")
    with one_at_a_time(tmp_path / "lock", "writes the report"):

        def other_ends(file: int, flags: int) -> None:
            """Actions of the other process while this one waits."""
            (tmp_path / "lock").unlink(missing_ok=True)
            monkeypatch.undo()

        def flock(file: int, flags: int) -> None:
            monkeypatch.setattr("fcntl.flock", other_ends)
            raise BlockingIOError

        monkeypatch.setattr("fcntl.flock", flock)
        with one_at_a_time(tmp_path / "lock", "writes the report"):
            assert (tmp_path / "lock").exists()
    assert caplog.messages == ["another process writes the report: waiting for it"]
    assert [*tmp_path.iterdir()] == []
