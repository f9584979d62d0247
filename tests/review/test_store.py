"""The log of decisions."""

from __future__ import annotations

import multiprocessing
import sqlite3
from datetime import datetime, timedelta, timezone

import pytest

from spml.common.errors import InputError, SpmlError
from spml.review.store import Decision, Store

DATA = ("f" * 64, ("cat", "dog"))


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "review.sqlite", *DATA)
    yield store
    store.close()


SET_FORMAT = "UPDATE about SET value = '{}' WHERE key = 'format'"


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
    undone = store.undo("ann")
    assert undone == Decision(4, "a.jpg", "cat", "undo", "ann", undone.time, True, undoes=2)
    assert store.undo("ann").undoes == 1
    assert store.undo("ann") is None
    assert store.undo("nobody") is None
    store.add("a.jpg", "cat", "unsure", "ann", random_check=False)
    assert store.undo("ann").undoes == 6
    assert [row.undoes for row in store.since(0)] == [None, None, None, 2, 1, None, 6]


def test_the_log_only_grows(store):
    store.add("a.jpg", "cat", "yes", "ann", random_check=False)
    with sqlite3.connect(store.path) as other:
        for statement in ("DELETE FROM decisions", "UPDATE decisions SET answer = 'no'"):
            with pytest.raises(sqlite3.IntegrityError, match="decisions are never"):
                other.execute(statement)
        for answer in ("maybe", "undo"):
            with pytest.raises(sqlite3.IntegrityError, match="CHECK constraint"):
                other.execute(
                    "INSERT INTO decisions (file, label, answer, reviewer, time, random_check) "
                    f"VALUES ('a', 'cat', '{answer}', 'ann', '', 0)"
                )
    assert len(store.since(0)) == 1


def test_commits_wait_for_the_disk(store):
    def pragma(name):
        return store._connection.execute(f"PRAGMA {name}").fetchone()[0]

    assert pragma("journal_mode") == "wal"
    assert pragma("synchronous") == 2  # FULL


def test_a_database_opens_again_and_goes_on(store):
    store.add("a.jpg", "cat", "yes", "ann", random_check=False)
    again = Store(store.path, *DATA, create=False)
    assert again.since(0) == store.since(0)
    again.add("a.jpg", "cat", "no", "ben", random_check=False)
    assert [row.reviewer for row in store.since(0)] == ["ann", "ben"]
    again.close()


def test_a_review_that_was_not_begun_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nothing has been reviewed yet. Start with spml review"):
        Store(tmp_path / "review.sqlite", *DATA, create=False)
    assert not list(tmp_path.iterdir())


def test_a_database_of_other_data_is_refused(store):
    with pytest.raises(InputError, match="holds decisions about other data"):
        Store(store.path, "0" * 64, DATA[1])


def test_a_database_of_a_newer_version_is_refused_and_unchanged(store):
    with sqlite3.connect(store.path) as other:
        other.execute("UPDATE about SET value = '2' WHERE key = 'format'")
    with pytest.raises(InputError, match=r"newer version of spml \(format 2, this one reads 1\)"):
        Store(store.path, *DATA)


def test_other_files_are_refused(tmp_path):
    text = tmp_path / "text.sqlite"
    text.write_text("These are no decisions, but a letter. " * 100)
    with pytest.raises(InputError, match=r"text.sqlite: can't be used .*not a database"):
        Store(text, *DATA)
    with sqlite3.connect(tmp_path / "other.sqlite") as other:
        other.execute("CREATE TABLE birds (name TEXT)")
    with pytest.raises(InputError, match="is another database"):
        Store(tmp_path / "other.sqlite", *DATA)
    with pytest.raises(InputError, match="can't be opened"):
        Store(tmp_path / "no folder" / "review.sqlite", *DATA)
    for number, change in enumerate(
        ["DELETE FROM about", *(SET_FORMAT.format(text) for text in ("9" * 5000, "²"))]
    ):
        path = tmp_path / f"damaged{number}.sqlite"
        damaged = Store(path, *DATA)
        damaged._connection.execute(change)
        damaged.close()
        with pytest.raises(InputError, match="does not say its format"):
            Store(path, *DATA)


def test_a_schema_that_is_no_text(store):
    store.close()
    path = store.path
    with sqlite3.connect(path) as connection:  # writes everything into one file
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    content = path.read_bytes()
    assert b"CREATE TABLE about" in content
    path.write_bytes(content.replace(b"CREATE TABLE about", b"CREATE TABL\xe0 about"))
    with pytest.raises(InputError, match=r"review.sqlite: can't be used as the database of a review"):
        Store(path, *DATA)


def test_a_database_that_can_not_be_written_says_so_and_keeps_what_it_has(store):
    store.add("a.jpg", "cat", "yes", "ann", random_check=False)
    store._connection.execute("PRAGMA query_only = ON")
    with pytest.raises(SpmlError, match=r"can't be written .* Nothing was saved"):
        store.add("b.jpg", "cat", "yes", "ann", random_check=False)
    store._connection.execute("PRAGMA query_only = OFF")
    store.add("c.jpg", "cat", "yes", "ann", random_check=False)
    assert [row.file for row in store.since(0)] == ["a.jpg", "c.jpg"]


def _answer(path, reviewer, barrier):
    barrier.wait()
    store = Store(path, *DATA)
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
    rows = Store(path, *DATA).since(0)
    assert [row.id for row in rows] == list(range(1, 101))
    for name in ("ann", "ben"):
        assert [row.file for row in rows if row.reviewer == name] == [f"{n}.jpg" for n in range(50)]
