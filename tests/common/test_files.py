"""Files that are complete or absent, and what killed processes leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spml.common.documents import load_json, read_yaml_text
from spml.common.errors import InputError
from spml.common.files import check_output, same_path, write_text, write_with
from spml.common.safe import open_file, read_bytes
from spml.data.images.decoding import UnreadableImageError
from spml.data.images.image_files import thumbnail
from spml.data.tables.formats import read_lines

KILLED = """
import os, sys
from pathlib import Path
from spml.common.files import write_with

def write(stream):
    stream.write(b"half")
    stream.flush()
    os.kill(os.getpid(), 9)

write_with(Path(sys.argv[1]), write)
"""


def test_the_next_file_that_is_written_removes_what_a_killed_process_left(tmp_path):
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "c.csv")], check=False)
    assert killed.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".c.csv.")
    assert left.read_bytes() == b"half"
    random = left.name.split(".")[-2]
    machine = left.name.split(".")[-3].split("-")[0]
    others = [
        tmp_path / f".c.csv.{machine}-{os.getpid()}.{random}.tmp",  # of a process that is running
        tmp_path / left.name.replace(machine, "ffffff" if machine != "ffffff" else "000000"),
        tmp_path / ".notes.tmp",
    ]
    for path in others:
        path.write_bytes(b"not ours")
    write_text(tmp_path / "c.csv", "whole")
    assert {*tmp_path.iterdir()} == {tmp_path / "c.csv", *others}
    assert (tmp_path / "c.csv").read_text() == "whole"


def test_a_failure_leaves_the_file_as_it_was(tmp_path):
    write_text(tmp_path / "c.csv", "before")

    def fail(stream):
        stream.write(b"half")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        write_with(tmp_path / "c.csv", fail)
    assert [path.name for path in tmp_path.iterdir()] == ["c.csv"]
    assert (tmp_path / "c.csv").read_text() == "before"


def test_a_pipe_is_never_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "p.csv")
    with pytest.raises(InputError) as caught:
        check_output(tmp_path / "p.csv")
    assert str(caught.value) == (f"{tmp_path / 'p.csv'}: is a device or a pipe; `output` must name a file.")


def test_two_paths_to_the_same_place(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    assert same_path(str(tmp_path / "a"), f"{tmp_path}/link/a")
    assert not same_path(str(tmp_path), str(tmp_path / "a"))
    assert not same_path("", "")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_named_pipe_is_refused_instead_of_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="it is a pipe or a device, not a file"):
            open_file(place)
        with pytest.raises(InputError, match="pipe or a device"):
            read_yaml_text(place)
        with pytest.raises(InputError, match="is not a file"):
            load_json(place, dict)
        with pytest.raises(UnreadableImageError, match="pipe or a device"):
            thumbnail(place, 8, 1000)
    with pytest.raises(IsADirectoryError):
        open_file(tmp_path)
    (tmp_path / "file").write_bytes(b"abc")
    assert read_bytes(tmp_path / "file") == b"abc"


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_a_name_that_no_file_can_have(tmp_path, name):
    with pytest.raises(OSError, match="no file can have this name"):
        open_file(tmp_path / name)
    with pytest.raises(InputError, match="can't be read: no file can have this name"):
        list(read_lines(tmp_path / name))
