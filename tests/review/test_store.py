"""The log of decisions."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import datetime, timedelta, timezone

import pytest

from spml.common.errors import InputError, SpmlError
from spml.common.files import _remove_own_leftovers
from spml.review.store import FORMAT, Decision, Store
from tests.helpers.commands import refusal

DATA = "f" * 64


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "review.sqlite", DATA)
    yield store
    store.close()


def test_decisions_come_back_in_order_with_name_and_time(store):
    first = store.add("a.jpg", "cat", "yes", "ann", random_check=False)
    second = store.add("b.jpg", "dog", "unsure", "ben", random_check=True)
    rows = store.since(0)
    assert rows == [first, second]
    assert [row[:5] for row in rows] == [
        (1, "a.jpg", "cat", "yes", "ann"),
        (2, "b.jpg", "dog", "unsure", "ben"),
    ]
    assert [row.random_check for row in rows] == [False, True]
    time = datetime.fromisoformat(first.time)
    assert time.utcoffset() == timedelta(0)
    assert abs(datetime.now(timezone.utc) - time) < timedelta(minutes=5)
    assert store.since(1) == [second]
    assert store.since(2) == []


def test_undo_takes_back_the_newest_answer_of_the_reviewer_each_time(store):
    for answer, reviewer in [("yes", "ann"), ("no", "ann"), ("yes", "ben")]:
        store.add("a.jpg", "cat", answer, reviewer, random_check=True)
    (undone,) = store.undo("ann")
    assert undone == Decision(4, "a.jpg", "cat", "undo", "ann", undone.time, True, undoes=2)
    assert [row.undoes for row in store.undo("ann")] == [1]
    assert store.undo("ann") == []
    assert store.undo("nobody") == []
    store.add("a.jpg", "cat", "unsure", "ann", random_check=False)
    assert [row.undoes for row in store.undo("ann")] == [6]
    assert [row.undoes for row in store.since(0)] == [None, None, None, 2, 1, None, 6]


def test_answers_of_one_step_are_undone_in_one_step(store):
    store.add("a.jpg", "cat", "no", "ann", random_check=False)
    step = store.add_all([("a.jpg", "dog", "yes", False), ("b.jpg", "dog", "yes", True)], "ann")
    assert len({row.time for row in step}) == 1
    store.add("c.jpg", "dog", "no", "ben", random_check=False)
    assert [row.undoes for row in store.undo("ann")] == [3, 2]
    assert [row.undoes for row in store.undo("ann")] == [1]
    times = [row.time for row in store.since(0)]
    assert times == sorted(times)
    assert [times.count(time) for time in dict.fromkeys(times)] == [1, 2, 1, 2, 1]


def test_quick_answers_are_steps_of_their_own_even_if_the_clock_stands(store, monkeypatch):
    class Clock(datetime):
        @classmethod
        def now(cls, zone):
            return datetime(2025, 1, 1, tzinfo=zone)

    monkeypatch.setattr("spml.review.store.datetime", Clock)
    for label in ("cat", "dog"):
        store.add("a.jpg", label, "yes", "ann", random_check=False)
    assert [row.time[-10:] for row in store.since(0)] == [".000+00:00", ".001+00:00"]
    assert [row.label for row in store.undo("ann")] == ["dog"]


def test_answers_of_one_step_are_kept_all_or_none(store):
    with pytest.raises(SpmlError, match="Nothing was saved"):
        store.add_all([("a.jpg", "cat", "yes", False), ("b.jpg", "cat", "maybe", False)], "ann")
    assert store.since(0) == []


def test_the_log_only_grows(store):
    store.add("a.jpg", "cat", "yes", "ann", random_check=False)
    with sqlite3.connect(store.path) as other:
        for statement in ("DELETE FROM decisions", "UPDATE decisions SET answer = 'no'"):
            with pytest.raises(sqlite3.IntegrityError, match="decisions are never"):
                other.execute(statement)
        for answer in ("maybe", "undo"):
            with pytest.raises(sqlite3.IntegrityError, match="CHECK constraint"):
                other.execute(
                    "INSERT INTO decisions (file, label, answer, reviewer, time, random_check, sha256) "
                    f"VALUES ('a', 'cat', '{answer}', 'ann', '', 0, '')"
                )
    assert len(store.since(0)) == 1


def test_commits_wait_for_the_disk_and_a_database_opens_again(store):
    def pragma(name):
        return store._connection.execute(f"PRAGMA {name}").fetchone()[0]

    assert pragma("journal_mode") == "delete"
    assert pragma("synchronous") == 3  # EXTRA: the end of the journal is on the disk, too
    store.add("a.jpg", "cat", "yes", "ann", random_check=False)
    assert [path.name for path in store.path.parent.iterdir()] == ["review.sqlite"]
    again = Store(store.path, DATA, create=False)
    assert again.since(0) == store.since(0)
    again.add("a.jpg", "cat", "no", "ben", random_check=False)
    assert [row.reviewer for row in store.since(0)] == ["ann", "ben"]
    again.close()


def test_a_review_that_was_not_begun_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nothing has been reviewed yet. Start with spml review"):
        Store(tmp_path / "review.sqlite", DATA, create=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("version", [-1, 0, 1, FORMAT + 1, 2**31 - 1])
def test_a_database_of_another_format_is_refused_and_unchanged(store, version):
    store._connection.execute(f"PRAGMA user_version = {version}")
    content = store.path.read_bytes()
    for create in (True, False):
        assert refusal(Store, store.path, DATA, create=create) == (
            f"{store.path}: has the format {version}, but this version of spml reads the format 2 only. "
            "Nothing was changed. Use the version that wrote it, or move it away to begin again."
        )
    assert store.path.read_bytes() == content


def emptied(path):
    path.write_bytes(b"")


def without_tables(path):
    path.unlink()
    with closing(sqlite3.connect(path)) as other:
        other.execute("VACUUM")


def of_others(path):
    path.unlink()
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE about (key, value)")


ADVICE = "Restore a copy, or move it away to begin again."


class Failing:
    """A connection to a disk that fails where a statement holds some words."""

    def __init__(self, connection, words):
        self.connection, self.words = connection, words

    def __getattr__(self, name):
        return getattr(self.connection, name)

    def execute(self, statement, *more):
        if self.words in statement:
            raise sqlite3.OperationalError("disk I/O error")
        return self.connection.execute(statement, *more)


@pytest.mark.parametrize("words", ["quick_check", "SELECT id, file", "user_version"])
def test_a_disk_that_fails_says_nothing_about_the_answers(store, words):
    store.add("a.jpg", "cat", "yes", "ann", random_check=False)
    whole = store._connection
    store._connection = Failing(whole, words)
    with pytest.raises(SpmlError, match=r"can't be read \(disk I/O error\)\. Nothing was saved\.$"):
        store.since(0)
    store._connection = Failing(whole, "INSERT")
    with pytest.raises(SpmlError, match=r"can't be written \(disk I/O error\)\. Nothing was saved\.$"):
        store.undo("ann")
    store._connection = whole
    whole.execute("PRAGMA query_only = ON")
    with pytest.raises(SpmlError, match=r"can't be written .* Nothing was saved"):
        store.add("b.jpg", "cat", "yes", "ann", random_check=False)
    whole.execute("PRAGMA query_only = OFF")
    store.add("c.jpg", "cat", "yes", "ann", random_check=False)
    assert [row.file for row in store.since(0)] == ["a.jpg", "c.jpg"]


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (emptied, "is empty, so the answers that it held are gone."),
        (without_tables, "is another database, or was emptied."),
        (of_others, "is another database, or was emptied."),
    ],
)
def test_an_emptied_database_is_refused_and_unchanged(store, change, problem, create):
    store.add("a.jpg", "cat", "yes", "ann", random_check=False)
    store.close()
    change(store.path)
    content = store.path.read_bytes()
    assert refusal(Store, store.path, DATA, create=create) == f"{store.path}: {problem} {ADVICE}"
    assert store.path.read_bytes() == content


KILLED = """
import os, signal, sys
from pathlib import Path
from spml.review.store import Store

os.link = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
Store(Path(sys.argv[1]), sys.argv[2])
"""


def test_a_database_that_was_not_finished_is_never_there(tmp_path):
    path = tmp_path / "review.sqlite"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path), DATA], check=False)
    assert killed.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.suffix == ".tmp"
    _remove_own_leftovers.cache_clear()  # as in a new process
    Store(path, DATA).close()
    assert [*tmp_path.iterdir()] == [path]


def test_a_database_that_another_process_made_first_is_not_replaced(tmp_path, monkeypatch):
    path, link = tmp_path / "review.sqlite", os.link

    def late(*arguments):
        monkeypatch.setattr(os, "link", link)
        with closing(Store(path, DATA)) as other:
            other.add("a.jpg", "cat", "yes", "ben", random_check=False)
        link(*arguments)

    monkeypatch.setattr(os, "link", late)
    with closing(Store(path, DATA)) as store:
        assert [row.reviewer for row in store.since(0)] == ["ben"]


def test_without_hard_links(tmp_path, monkeypatch):
    def unknown(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", unknown)
    Store(tmp_path / "review.sqlite", DATA).close()
    assert [*tmp_path.iterdir()] == [tmp_path / "review.sqlite"]


@pytest.mark.parametrize("suffix", ["-journal", "-wal"])
def test_what_is_left_of_a_database_that_was_moved_away_is_named(tmp_path, suffix):
    """SQLite would write it into the new database."""
    (left := tmp_path / f"review.sqlite{suffix}").write_bytes(b"x")
    for create in (True, False):
        assert refusal(Store, tmp_path / "review.sqlite", DATA, create=create) == (
            f"{left}: belongs to a database review.sqlite that is not there. Move it back, or move this one "
            "away, too."
        )
    assert [*tmp_path.iterdir()] == [left]


def test_a_locked_database_is_not_waited_for_long(store, monkeypatch):
    monkeypatch.setattr("spml.review.store.SECONDS_TO_WAIT", 0.1)
    store.add("a.jpg", "cat", "yes", "ann", random_check=False)
    late = Store(store.path, DATA)
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        calls = (
            lambda: late.add("b.jpg", "cat", "yes", "ann", random_check=False),
            lambda: late.undo("ann"),
            lambda: late.since(1),
            late.intact,
            lambda: Store(store.path, DATA),
        )
        for call in calls:
            with pytest.raises(SpmlError) as error:
                call()
            assert str(error.value) == (
                f"{store.path}: another process has kept it locked for 0.1 seconds. Nothing was saved, and "
                "nothing is lost. Try again."
            )
            assert not isinstance(error.value, InputError)
    late.add("b.jpg", "cat", "yes", "ann", random_check=False)
    late.close()
    assert [row.file for row in store.since(0)] == ["a.jpg", "b.jpg"]


def test_other_files_are_refused(tmp_path):
    text = tmp_path / "text.sqlite"
    text.write_text("These are no decisions, but a letter. " * 100)
    with pytest.raises(InputError, match=r"text.sqlite: can't be used .*not a database"):
        Store(text, DATA)
    with pytest.raises(InputError, match="can't be opened"):
        Store(tmp_path / "no folder" / "review.sqlite", DATA)
    path = tmp_path / "review.sqlite"
    Store(path, DATA).close()
    content = path.read_bytes()
    assert b"CREATE TABLE about" in content
    path.write_bytes(content.replace(b"CREATE TABLE about", b"CREATE TABL\xe0 about"))  # not text
    with pytest.raises(InputError, match=r"review.sqlite: can't be used as the database of a review"):
        Store(path, DATA)


def _answer(path, reviewer, barrier):
    barrier.wait()
    store = Store(path, DATA)
    for number in range(50):
        store.add(f"{number}.jpg", "cat", "yes", reviewer, random_check=False)


def test_two_processes_begin_and_write_at_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    path, barrier = tmp_path / "review.sqlite", context.Barrier(2)
    workers = [context.Process(target=_answer, args=(path, name, barrier)) for name in ("ann", "ben")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    rows = Store(path, DATA).since(0)
    assert [row.id for row in rows] == list(range(1, 101))
    for name in ("ann", "ben"):
        assert [row.file for row in rows if row.reviewer == name] == [f"{n}.jpg" for n in range(50)]
