"""Each row is stored once; a series is claimed by one process at a time."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
import threading
import time
import zlib
from dataclasses import asdict

import pytest
import sqlalchemy as sql

from spml.bench import store as module
from spml.bench.rows import SeriesKey
from spml.bench.store import Store
from spml.common.errors import InputError, SpmlError
from tests.bench.rows import row
from tests.helpers.commands import refusal

SERIES = SeriesKey("voc", "uniform", "an", 0)


def url_of(tmp_path):
    return f"sqlite:///{tmp_path / 'store.sqlite'}"


def change(tmp_path, statement, **values):
    """Change the store by a statement of SQL."""
    with sql.create_engine(url_of(tmp_path)).begin() as connection:
        connection.execute(sql.text(statement), values)


def made(trial=0, **rest):
    history = {"val/SP": [0.1, 0.2], "test/mAP": [math.nan, 0.5]}
    return row(SERIES, trial, values=history, draws={"oracle": [0.25, 0.5]}, **rest)


def test_a_row_is_read_as_it_was_written(tmp_path):
    store = Store(url_of(tmp_path))
    assert store.add(made(), "p0")
    assert store.add(made(1), "p1")
    found = Store(url_of(tmp_path)).find()
    assert set(found) == {"p0", "p1"}
    (back,) = found["p0"]
    assert math.isnan(back.history["test/mAP"][0])
    assert back.history["test/mAP"][1] == 0.5
    back.history["test/mAP"][0] = 0.0
    first = made()
    first.history["test/mAP"][0] = 0.0
    assert back == first
    assert store.find(["p1"])["p1"][0].trial == 1
    assert store.find(["x"]) == {}
    assert store.count() == 2


def test_points_by_series(tmp_path):
    store = Store(url_of(tmp_path))
    assert store.points() == {}
    other = SERIES._replace(seed=1)
    store.add(made(versions={"code": "new"}), "p0")
    store.add(made(1, versions={"code": "new"}), "p1")
    store.add(made(2, versions={"code": "old"}), "p0")
    store.add(row(other, versions={"code": "old"}), "q")
    assert store.points() == {SERIES: {"p0", "p1"}, other: {"q"}}
    assert store.points("new") == {SERIES: {"p0", "p1"}}
    assert store.points("old") == {SERIES: {"p0"}, other: {"q"}}


def packed(**changes):
    body = asdict(made())
    return zlib.compress(json.dumps({**body, **changes}).encode())


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"xx", "its body can't be unpacked: Error -3 while decompressing data: incorrect header check"),
        (packed()[:-6], "its body is cut off, or unpacks to more than 16,777,216 bytes"),
        (zlib.compress(bytes(1 << 25)), "its body is cut off, or unpacks to more than 16,777,216 bytes"),
        (123456789, "its body is not binary"),
        ("text", "its body is not binary"),
        (zlib.compress(b"[" * 100_000), "lists or objects in it are nested too deeply"),
        (zlib.compress(b"[]"), "Expected `object`, got `array`"),
        (zlib.compress(b"{}"), "Object missing required field `trial`"),
        (packed(config=[]), "Expected `object`, got `array` - at `$.config`"),
        (packed(trial="1"), "Expected `int`, got `str` - at `$.trial`"),
        (packed(history={"val/SP": [1, None]}), "Expected `float`, got `null` - at `$.history[...][1]`"),
        (
            packed(history={"val/SP": [1], "test/mAP": []}),
            "the columns of its history have different lengths",
        ),
    ],
    ids=range(12),
)
def test_a_damaged_row_is_named(tmp_path, body, reason):
    store = Store(url_of(tmp_path))
    store.add(made(), "p")
    change(tmp_path, "UPDATE runs SET body = :body", body=body)
    for read in (store.find, lambda: store.get(made().key[:8])):
        assert refusal(read) == (
            f"{store.url}: the run '{made().key}' is damaged ({reason}). Restore the store from a copy, or "
            "delete this row from its table `runs`, so that the run is made again."
        )


@pytest.mark.parametrize("column", ["key", "point", "status", "data", "hiding", "candidate", "seed", "code"])
def test_a_column_that_another_value_took_the_place_of_is_named(tmp_path, column):
    store = Store(url_of(tmp_path))
    store.add(made(), "p")
    change(tmp_path, f"UPDATE runs SET {column} = :value", value=7 if column == "seed" else "x")
    name = "series" if column in SeriesKey._fields else column
    assert f"is damaged (its {name} is " in refusal(store.find)


def test_rows_of_earlier_versions_do_not_repeat_their_columns(tmp_path):
    store, row = Store(url_of(tmp_path)), made()
    store.add(row, "p")
    body = {name: value for name, value in asdict(row).items() if name not in ("key", "series", "status")}
    change(tmp_path, "UPDATE runs SET body = :body", body=zlib.compress(json.dumps(body).encode()))
    assert repr(store.find()) == repr({"p": [row]})  # its history holds NaN


@pytest.mark.long
def test_a_row_of_many_zeros_is_not_unpacked(tmp_path):
    """256 MiB of zeros in a quarter of a megabyte, with 200 MiB of memory."""
    store = Store(url_of(tmp_path))
    store.add(made(), "p")
    pieces = zlib.compressobj(1)
    zeros = b"".join([*(pieces.compress(bytes(1 << 20)) for _ in range(256)), pieces.flush()])
    change(tmp_path, "UPDATE runs SET body = :body", body=zeros)
    code = (
        "import resource, sys\n"
        "from spml.bench.store import Store\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (200 << 20, 200 << 20))\n"
        "try:\n"
        "    Store(sys.argv[1]).find()\n"
        "except ValueError as error:\n"
        "    print(error)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code, store.url], capture_output=True, text=True)
    assert "unpacks to more than 16,777,216 bytes" in ended.stdout, ended.stderr


def test_a_stored_row_is_never_replaced_and_the_newest_is_the_first(tmp_path):
    store = Store(url_of(tmp_path))
    assert store.add(made(seconds=1.0, finished="2025-01-01"), "p")
    assert not store.add(made(seconds=2.0, finished="2025-01-03"), "p")
    store.add(made(1, seconds=3.0, finished="2025-01-02"), "p")
    assert [one.seconds for one in store.find()["p"]] == [3.0, 1.0]


def test_a_run_is_found_by_the_beginning_of_its_key(tmp_path):
    store = Store(url_of(tmp_path))
    store.add(made(), "p")
    key = made().key
    assert store.get(key[:8]).key == key
    with pytest.raises(InputError, match="no key of a run begins with 'zz'"):
        store.get("zz")
    store.add(made(1), "p")
    with pytest.raises(InputError, match="several keys begin"):
        store.get("")


def test_runs_can_be_forgotten(tmp_path):
    store, failed = Store(url_of(tmp_path)), made(1, status="failed", message="NaN")
    store.add(made(), "p")
    store.add(failed, "q")
    store.forget([failed])
    assert set(store.find()) == {"p"}


def test_a_series_is_claimed_by_one_process_at_a_time(tmp_path):
    one, other = Store(url_of(tmp_path)), Store(url_of(tmp_path))
    assert one.owner != other.owner
    assert one.claim(SERIES)
    assert not other.claim(SERIES)
    assert other.claim(SERIES._replace(seed=1))
    other.release(SERIES)  # not its own
    assert not other.claim(SERIES)
    one.release(SERIES)
    assert other.claim(SERIES)


@pytest.mark.long
def test_a_new_store_opened_by_several_processes_at_once(tmp_path):
    code = "import sys; from spml.bench.store import Store; print(Store(sys.argv[1]).count())"
    command = [sys.executable, "-c", code, url_of(tmp_path)]
    several = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[0] for process in several] == ["0\n"] * 3


def test_a_series_of_a_process_that_was_killed_is_taken_over(tmp_path):
    code = (
        "import sys, json; from spml.bench.store import Store; from spml.bench.rows import SeriesKey; "
        "print(Store(sys.argv[1]).claim(SeriesKey(*json.loads(sys.argv[2]))), flush=True); "
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, url_of(tmp_path), json.dumps(SERIES)], capture_output=True, text=True
    )
    assert ended.stdout == "True\n"
    assert ended.returncode == -9
    one, other = Store(url_of(tmp_path)), Store(url_of(tmp_path))
    assert one.claim(SERIES)
    assert not other.claim(SERIES)


def test_claims_of_processes_that_have_ended_are_released(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    here, store = socket.gethostname(), Store(url_of(tmp_path))
    owners = {name: Store(url_of(tmp_path)) for name in (f"{here}:{ended.pid}:1", "elsewhere:1:1")}
    for number, (owner, other) in enumerate(owners.items()):
        other.owner = owner
        assert other.claim(SERIES._replace(seed=number))
    assert store.claim(SERIES._replace(seed=2))
    store.release_ended()
    with sql.create_engine(store.url).connect() as connection:
        left = connection.execute(sql.text("SELECT owner FROM claims ORDER BY owner")).scalars().all()
    assert left == sorted(["elsewhere:1:1", store.owner])


def test_a_series_of_another_machine_is_taken_over_without_heartbeats(tmp_path, monkeypatch):
    elsewhere, local = Store(url_of(tmp_path)), Store(url_of(tmp_path))
    elsewhere.owner = f"elsewhere:{os.getpid()}:1"
    assert elsewhere.claim(SERIES)
    assert not local.claim(SERIES)
    late = time.time() + module.STALE + 1
    monkeypatch.setattr(module.time, "time", lambda: late)
    assert local.claim(SERIES)
    elsewhere.release(SERIES)  # no longer its own
    assert not elsewhere.claim(SERIES)


@pytest.mark.parametrize(
    ("owner", "beat"),
    [
        ("elsewhere:1:1", "soon"),
        ("elsewhere:1:1", 1e300),
        ("nobody", None),
        ("elsewhere:x:y", None),
        (b"elsewhere:1:1", None),
    ],
)
def test_a_claim_that_no_process_has_made_is_taken_over(tmp_path, owner, beat):
    store = Store(url_of(tmp_path))
    values = {"series": json.dumps(SERIES), "owner": owner, "beat": beat or time.time()}
    change(tmp_path, "INSERT INTO claims VALUES (:series, :owner, :beat)", **values)
    assert store.claim(SERIES)


def test_a_schema_that_is_no_text(tmp_path):
    Store(url_of(tmp_path))._engine.dispose()
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE claims", b"CREATE \xf3ABLE claims"))
    with pytest.raises(InputError, match=r"store\.sqlite: can't be opened as a store \("):
        Store(url_of(tmp_path), create=False)


def beat_of(tmp_path):
    with sql.create_engine(url_of(tmp_path)).connect() as connection:
        return connection.execute(sql.text("select beat from claims")).scalar()


def await_beat(tmp_path, before):
    deadline = time.monotonic() + 20
    while beat_of(tmp_path) == before and time.monotonic() < deadline:
        time.sleep(0.02)


def test_heartbeats_which_continue_after_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BEAT", 0.05)
    store = Store(url_of(tmp_path))
    store.claim(SERIES)
    failed = threading.Event()
    sql.event.listen(store._engine, "handle_error", lambda context: failed.set())
    with store.alive():
        change(tmp_path, "alter table claims rename to gone")
        assert failed.wait(20)
        change(tmp_path, "alter table gone rename to claims")
        before = beat_of(tmp_path)
        await_beat(tmp_path, before)
    assert beat_of(tmp_path) > before


def test_a_newer_store_is_left_alone(tmp_path):
    Store(url_of(tmp_path)).add(made(), "p")
    change(tmp_path, "update spml_bench set version = 2")
    before = (tmp_path / "store.sqlite").read_bytes()
    with pytest.raises(InputError, match=r"newer version of spml \(store version 2, this one reads 1\)"):
        Store(url_of(tmp_path))
    assert (tmp_path / "store.sqlite").read_bytes() == before


def test_a_url_without_a_store(tmp_path):
    (tmp_path / "store.sqlite").write_bytes(b"no data base" * 1000)
    missing = "sqlite:////no/such/folder/x.sqlite"
    for url in ("nonsense", missing, "whatever://host/x", url_of(tmp_path)):
        with pytest.raises(InputError, match="can't be opened as a store"):
            Store(url)


def test_a_missing_driver(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    with pytest.raises(InputError, match=r"driver of this database is .*pip install psycopg2-binary"):
        Store("postgresql://nowhere.invalid/x")


def test_no_store_is_created_where_one_is_required(tmp_path):
    with pytest.raises(InputError, match="holds no comparison"):
        Store(url_of(tmp_path), create=False)
    assert not list(tmp_path.iterdir())
    change(tmp_path, "create table other (x integer)")
    before = (tmp_path / "store.sqlite").read_bytes()
    with pytest.raises(InputError, match="holds no comparison"):
        Store(url_of(tmp_path), create=False)
    assert (tmp_path / "store.sqlite").read_bytes() == before
    Store(url_of(tmp_path)).add(made(), "p")
    assert Store(url_of(tmp_path), create=False).count() == 1


def test_a_store_whose_tables_disappear(tmp_path):
    store = Store(url_of(tmp_path))
    change(tmp_path, "drop table runs")
    with pytest.raises(SpmlError, match="can't be written"):
        store.add(made(), "p")
    with pytest.raises(SpmlError, match="can't be written"):
        store.forget([made()])
    with pytest.raises(SpmlError, match="can't be read"):
        store.find()
    change(tmp_path, "drop table claims")
    with pytest.raises(SpmlError, match="can't be written"):
        store.claim(SERIES)
    with pytest.raises(SpmlError, match="can't be written"):
        store.release(SERIES)
