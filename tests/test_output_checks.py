"""Outputs that can't be written are told before any work."""

from __future__ import annotations

import errno
import os

import pytest

from spml.audit.sheets import check_sheet
from spml.common import files
from spml.common.errors import InputError
from spml.common.files import check_folder, check_output, check_writable, write_text
from spml.data.writers import check_place, find_writer


@pytest.fixture
def checks():
    """All checks of an output that is a file."""
    return (
        check_writable,
        check_output,
        lambda path: check_sheet(path, overwrite=False),
        lambda path: check_place(path, find_writer("csv")),
    )


def refuse(*_):
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def test_a_name_that_leaves_no_room_for_a_temporary_one(tmp_path, checks):
    """255 bytes are the limit of file systems, so that this file could be made, but not by `write_with`."""
    path = tmp_path / ("a" * 240 + ".csv")
    path.touch()
    path.unlink()
    for check in checks:
        with pytest.raises(InputError) as caught:
            check(path)
        assert str(caught.value) == f"{path}: can't be written (File name too long). Name another `output`."


def test_a_folder_that_can_not_be_written_to(tmp_path, monkeypatch, checks):
    path = tmp_path / "tags.csv"
    monkeypatch.setattr(files, "open", refuse, raising=False)
    for check in checks:
        with pytest.raises(InputError) as caught:
            check(path)
        assert str(caught.value) == f"{path}: can't be written (Permission denied). Name another `output`."


def test_the_checks_leave_nothing_behind_and_touch_nothing(tmp_path, checks):
    path = tmp_path / "tags.csv"
    for check in checks:
        check(path)
    assert not list(tmp_path.iterdir())
    write_text(path, "mine")
    check_output(path)
    assert [each.read_text() for each in tmp_path.iterdir()] == ["mine"]


def test_a_folder_of_outputs_that_can_not_be_written_to(tmp_path, monkeypatch):
    monkeypatch.setattr(files.os, "access", lambda *_: False)
    with pytest.raises(InputError) as caught:
        check_folder(tmp_path)
    assert str(caught.value) == f"{tmp_path}: may not be written to. Name another `output`."
    with pytest.raises(InputError) as caught:
        check_folder(tmp_path / "run")
    assert str(caught.value) == (
        f"{tmp_path / 'run'}: can't be made, because {tmp_path} may not be written to. Name another `output`."
    )
