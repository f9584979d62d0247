"""Damage to the database of a review: what is exported is right, or the file is refused by name."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing, suppress

import pytest

from spml.common.errors import InputError
from spml.review.merged import reviewed
from spml.review.progress import Selection
from spml.review.session import Review, open_data
from spml.review.store import Store
from tests.helpers.commands import run
from tests.helpers.reviews import make_audit, sha256_of

FINGERPRINT = "f" * 64
COLUMNS = "id, file, label, answer, reviewer, time, random_check, undoes, sha256"


@pytest.fixture
def log(tmp_path):
    """Path of a log of 40 rows, some pages long. Every fourth row takes back the one before it."""
    path = tmp_path / "review.sqlite"
    with closing(Store(path, FINGERPRINT)) as store:
        for number in range(30):
            reviewer = ("ann", "ben")[number % 2]
            store.add(f"{number}.jpg", "cat" * 30, ("yes", "no", "unsure")[number % 3], reviewer,
                      random_check=number % 5 == 0)  # fmt: skip
            if number % 3 == 2:
                store.undo(reviewer)
    return path


def change(path, *statements):
    """Change a database in spite of its triggers, as damage does."""
    with closing(sqlite3.connect(path)) as connection, connection:
        triggers = connection.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        connection.execute("DROP TRIGGER decisions_stay")
        connection.execute("DROP TRIGGER decisions_do_not_change")
        for statement in (*statements, *(sql for (sql,) in triggers)):
            connection.execute(statement)


def problem_of(path):
    with closing(Store(path, FINGERPRINT)) as store, pytest.raises(InputError) as error:
        store.since(0)
    text = str(error.value)
    assert text.startswith(f"{path}: is damaged: ")
    return text.removeprefix(f"{path}: is damaged: ")


def test_checksums_are_those_that_are_documented(log):
    with closing(sqlite3.connect(log)) as connection:
        rows = connection.execute(f"SELECT {COLUMNS} FROM decisions ORDER BY id").fetchall()
        about = dict(connection.execute("SELECT key, value FROM about"))
    previous = ""
    for *row, sha256 in rows:
        assert sha256 == sha256_of(previous, FINGERPRINT, row)
        previous = sha256
    assert about == {"fingerprint": FINGERPRINT, "head": f"40 {previous}"}


END = (
    " {} rows are intact: spml review export with --damaged skip writes what they say. Restore a copy, or "
    "move it away to begin again."
)
WRITTEN = "its newest rows are missing, or its table `about` is not as it was written."


@pytest.mark.parametrize(
    ("statements", "problem", "lost"),
    [
        (["UPDATE decisions SET file = '9.jpg' WHERE id = 3"], "row 3 is not as it was written.", [3]),
        (["UPDATE decisions SET answer = 'no' WHERE id = 5"], "row 5 is not as it was written.", [5]),
        (["UPDATE decisions SET reviewer = 'eve' WHERE id IN (1, 9)"], "row 1 is not as it was", [1, 9]),
        (["UPDATE decisions SET random_check = 1 WHERE id = 2"], "row 2 is not as it was written.", [2]),
        (["UPDATE decisions SET undoes = 1 WHERE id = 4"], "row 4 is not as it was written.", [4]),
        (["UPDATE decisions SET sha256 = 'a' WHERE id = 6"], "row 6 is not as it was written.", [6, 7]),
        (["UPDATE decisions SET file = CAST(file AS BLOB) WHERE id = 3"], "row 3 is not as it was", [3]),
        (["DELETE FROM decisions WHERE id = 3"], "row 3 is not as it was written.", [3, 4]),
        (["DELETE FROM decisions WHERE id > 38"], WRITTEN, [39, 40]),
        (["DELETE FROM decisions"], WRITTEN, [*range(1, 41)]),
        (["UPDATE decisions SET id = 41 WHERE id = 5"], "row 5 is not as it was written.", [5, 6]),
        (
            ["UPDATE decisions SET id = -7 WHERE id = 5", "UPDATE decisions SET id = 5 WHERE id = 9",
             "UPDATE decisions SET id = 9 WHERE id = -7"],
            "row 5 is not as it was written.", [5, 6, 9, 10],
        ),
        (["UPDATE about SET value = '39' || substr(value, 3) WHERE key = 'head'"], WRITTEN, []),
        (["DELETE FROM about WHERE key = 'head'"], WRITTEN, []),
        (["UPDATE about SET value = 'g' WHERE key = 'fingerprint'"], WRITTEN, []),
        (["UPDATE about SET key = 'x' WHERE key = 'fingerprint'"], WRITTEN, []),
        (["INSERT INTO about VALUES ('x', 'y')"], WRITTEN, []),
    ],
)  # fmt: skip
def test_damage_is_named_with_its_rows(log, statements, problem, lost):
    rows = Store(log, FINGERPRINT).since(0)
    change(log, *statements)
    text = problem_of(log)
    assert text.startswith(problem)
    if len(lost) < 40:
        assert text.endswith(END.format(40 - len(lost)))
    if lost:
        shown = ", ".join(map(str, lost[:10])) + (", ..." if len(lost) > 10 else "")
        assert f" {len(lost)} row{'s are' if len(lost) > 1 else ' is'} lost: {shown}. " in text
    with closing(Store(log, FINGERPRINT)) as store:
        intact, found = store.intact()
    assert found == lost
    assert intact == [row for row in rows if row.id not in lost]


def test_a_page_that_is_gone_takes_no_other_rows_with_it(log):
    rows = Store(log, FINGERPRINT).since(0)
    content = bytearray(log.read_bytes())
    (page,) = {content.index(b"7.jpg") // 4096, content.index(b"8.jpg") // 4096}
    content[page * 4096 : (page + 1) * 4096] = bytes(4096)
    log.write_bytes(content)
    assert "rows are lost: 1, 2, 3, 4, " in problem_of(log)
    with closing(Store(log, FINGERPRINT)) as store:
        intact, lost = store.intact()
    assert len(rows) / 4 < len(intact) < len(rows)
    assert lost == [*range(1, 41 - len(intact))]
    assert intact == rows[-len(intact) :]


def test_later_rows_are_checked_as_they_come(log):
    with closing(Store(log, FINGERPRINT)) as store, closing(Store(log, FINGERPRINT)) as other:
        assert len(store.since(0)) == 40
        other.add("x.jpg", "cat", "yes", "ann", random_check=False)
        assert [row.file for row in store.since(40)] == ["x.jpg"]
        change(log, "UPDATE decisions SET label = 'dog' WHERE id = 41")
        assert store.since(41) == []
        with pytest.raises(InputError, match="row 41 is not as it was written"):
            store.since(40)
        change(log, "DELETE FROM decisions WHERE id = 41")
        for call in (
            lambda: store.since(41),
            lambda: store.add("y.jpg", "cat", "yes", "ann", random_check=False),
            lambda: store.undo("ann"),
        ):
            with pytest.raises(InputError, match="newest rows are missing"):
                call()


def test_rows_of_other_data_do_not_count_as_damaged(log):
    with pytest.raises(InputError, match="holds decisions about other data"):
        Store(log, "0" * 64)
    change(log, f"UPDATE about SET value = '{'0' * 64}' WHERE key = 'fingerprint'")
    with closing(Store(log, "0" * 64)) as store, pytest.raises(InputError, match="row 1 is not as it was"):
        store.since(0)


# -- random damage ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """An audit with a review: three reviewers, undo, a conflict, and random checks."""
    audit = make_audit(tmp_path_factory.mktemp("damage"))
    reviews = {name: Review(audit, name) for name in ("ann", "ben", "cleo")}
    pairs = [(0, 2), (0, 0), (1, 1), (2, 1), (2, 2), (3, 0), (4, 0), (5, 2)]
    draw = random.Random(0)
    for _ in range(8):
        for name, review in reviews.items():
            for sample, column in draw.sample(pairs, 3):
                review.decide(sample, column, draw.choice(["yes", "no", "unsure"]), Selection())
            if draw.random() < 0.5:
                review.undo()
            assert name == review.reviewer
    for name, said in (("ann", "yes"), ("ben", "no"), ("cleo", "unsure")):
        reviews[name].decide(0, 2, said, Selection())
    rows = reviews["ann"].store.since(0)
    assert any(row.random_check for row in rows)
    assert any(row.undoes for row in rows)
    assert reviews["ann"].progress(Selection()).conflicts
    for review in reviews.values():
        review.store.close()
    return audit


def outcome(audit):
    """Exported labels and notes, and what the page shows."""
    records, notes = reviewed(audit)
    review = Review(audit, "ann")
    with closing(review.store):
        shown = review.cards(range(6), Selection()), review.progress(Selection())
    return records.labels.to_ternary().tolist(), notes, repr(shown)


def flipped(content, draw):
    """One bit of a file."""
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)


def overwritten(content, draw):
    """Up to 200 bytes of a file, with zeros or others."""
    start, count = draw.randrange(len(content)), draw.randint(1, 200)
    content[start : start + count] = draw.choice([bytes, draw.randbytes])(len(content[start : start + count]))


def cut(content, draw):
    """The end of a file."""
    del content[draw.randrange(len(content)) :]


def swapped(content, draw):
    """Two pages of a file."""
    first, second = (page * 4096 for page in draw.sample(range(len(content) // 4096), 2))
    pages = content[second : second + 4096], content[first : first + 4096]
    content[first : first + 4096], content[second : second + 4096] = pages


@pytest.mark.long
@pytest.mark.parametrize(("damage", "times"), [(flipped, 200), (overwritten, 100), (cut, 50), (swapped, 10)])
def test_random_damage_changes_nothing_without_a_word(answered, damage, times):
    path = answered / "review.sqlite"
    content, right = path.read_bytes(), outcome(answered)
    fingerprint = open_data(answered)[0].about.fingerprint
    with closing(Store(path, fingerprint)) as store:
        rows = store.since(0)
    refused = unchanged = 0
    try:
        for number in range(times):
            draw = random.Random(f"{damage.__name__} {number}")
            damaged = bytearray(content)
            damage(damaged, draw)
            path.write_bytes(damaged)
            try:
                assert outcome(answered) == right, number
            except InputError as error:
                refused += str(error).startswith(f"{path}: ")
                with suppress(InputError), closing(Store(path, fingerprint)) as store:
                    assert {*store.intact()[0]} <= {*rows}, number
            else:
                unchanged += 1
            assert not [*answered.glob("review.sqlite?*")]
    finally:
        path.write_bytes(content)
    assert refused + unchanged == times
    assert refused > times / 3


def test_export_names_damage_and_leaves_it_out_on_request(answered, tmp_path, capsys):
    audit = shutil.copytree(answered, tmp_path / "audit")
    path, output = audit / "review.sqlite", answered.parent / "photos" / "out.csv"
    words = ["review", "export", audit, output, "--format", "csv"]
    assert run(capsys, *words)[0] == 0
    right = output.read_text()
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT max(id) FROM decisions").fetchone()[0]
    change(path, "UPDATE decisions SET file = 'b.png' WHERE id IN (3, 5)")
    code, out, err = run(capsys, *words, "--overwrite")
    assert (code, out, output.read_text()) == (2, "", right)
    assert err == (
        f"spml review export: {path}: is damaged: row 3 is not as it was written. 2 rows are lost: 3, 5."
        f"{END.format(rows - 2)}\n"
    )
    code, out, err = run(capsys, *words, "--overwrite --damaged skip")
    assert (code, err) == (0, "")
    assert out.splitlines()[2] == (
        "2 damaged rows are left out: 3, 5. An answer that one of them changed or took back counts as it did "
        "before."
    )
    code, _, err = run(capsys, "review", audit, "--reviewer ann")
    assert code == 2
    assert "is damaged: row 3 is not as it was written." in err
    written = output.read_text()
    change(path, "DELETE FROM decisions")
    for further in ([], ["--damaged", "skip"]):
        code, out, err = run(capsys, *words, "--overwrite", *further)
        assert (code, out, output.read_text()) == (2, "", written)
        assert f"{rows} rows are lost: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, .... Restore a copy" in err
    path.write_bytes(b"")
    for further in ([], ["--damaged", "skip"]):
        code, out, err = run(capsys, *words, "--overwrite", *further)
        assert (code, out, output.read_text()) == (2, "", written)
        assert "is empty, so the answers that it held are gone." in err
