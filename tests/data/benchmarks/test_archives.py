"""Archives that are hostile, damaged or large: refused, with nothing written."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spml.data.benchmarks import archives
from spml.data.benchmarks.archives import Limits, extract
from spml.errors import InputError, SpmlError

MODES = {"x.tar": "w", "x.tgz": "w:gz"}


@pytest.fixture
def place(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path


def tar(path: Path, *members: tuple[str, bytes] | tarfile.TarInfo) -> Path:
    with tarfile.open(path, MODES[path.name]) as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
                continue
            info = tarfile.TarInfo(member[0])
            info.size = len(member[1])
            archive.addfile(info, io.BytesIO(member[1]))
    return path


def zipped(path: Path, *members: tuple[str | zipfile.ZipInfo, bytes], **options) -> Path:
    with zipfile.ZipFile(path, "w", options.pop("compression", zipfile.ZIP_DEFLATED)) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def tree(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def refused(archive: Path, place: Path, match: str, **limits) -> None:
    before = {p for p in place.rglob("*") if p.is_relative_to(place / "in") or p.parent == place}
    with pytest.raises(InputError, match=match) as caught:
        extract(archive, place / "in", Limits(**limits))
    assert str(archive) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert {p for p in place.rglob("*") if p.is_relative_to(place / "in") or p.parent == place} == before


MEMBERS = [("a/b/c.txt", b"1"), ("a/d.txt", b"22" * 1000), ("e", b"")]


@pytest.mark.parametrize("name", ["x.tar", "x.tgz", "x.zip"])
def test_what_is_unpacked(place, name):
    write = zipped if name == "x.zip" else tar
    archive = write(place / name, *MEMBERS)
    extract(archive, place / "in")
    assert tree(place / "in") == dict(MEMBERS)
    assert sorted(os.listdir(place / "in")) == ["a", "e"], "no temporary folder is left"


def test_folders_are_merged_and_files_replaced(place):
    (place / "in/a").mkdir()
    (place / "in/a/d.txt").write_bytes(b"cut")
    (place / "in/a/mine").write_bytes(b"mine")
    extract(tar(place / "x.tar", *MEMBERS), place / "in")
    assert tree(place / "in") == {**dict(MEMBERS), "a/mine": b"mine"}


def test_explicit_folders_and_modes(place):
    folder = special("a/", tarfile.DIRTYPE)
    folder.mode = 0
    odd = tarfile.TarInfo("a/x")
    odd.mode = 0o4777
    extract(tar(place / "x.tar", folder, odd, special("empty", tarfile.DIRTYPE)), place / "new")
    assert (place / "new/empty").is_dir()
    assert not (place / "new/a/x").stat().st_mode & stat.S_ISUID


@pytest.mark.parametrize(
    "name", ["../x", "a/../../x", "/tmp/x", "a/..", "..\\x", "C:\\x", "C:x", "\\\\host\\share\\x", "//x"]
)
def test_names_that_lead_out(place, name):
    refused(tar(place / "x.tar", ("fine", b"1"), (name, b"2")), place, "would lie outside the folder")
    refused(zipped(place / "x.zip", ("fine", b"1"), (name, b"2")), place, "would lie outside the folder")


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, b"?"]
)
def test_links_and_devices_in_a_tar(place, kind):
    members = [("fine", b"1"), special("link", kind, "fine"), ("link/x", b"2")]
    refused(tar(place / "x.tar", *members), place, "'link' is a link or a device")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO, stat.S_IFSOCK])
def test_links_and_devices_in_a_zip(place, kind):
    info = zipfile.ZipInfo("link")
    info.external_attr = (kind | 0o777) << 16
    refused(zipped(place / "x.zip", ("fine", b"1"), (info, b"/etc")), place, "'link' is a link or a device")


def test_nothing_is_written_through_links_in_the_folder(place):
    (place / "elsewhere").mkdir()
    (place / "in/a").symlink_to(place / "elsewhere")
    with pytest.raises(InputError, match=r"in/a: is a link, and x\.tar holds something of this name"):
        extract(tar(place / "x.tar", ("0first", b"1"), *MEMBERS), place / "in")
    assert not any((place / "elsewhere").iterdir())
    assert os.listdir(place / "in") == ["a"]


@pytest.mark.parametrize("members", [[("a", b"1"), ("a", b"2")], [("a", b"1"), ("a/b", b"2")]])
def test_names_that_occur_twice(place, members):
    refused(tar(place / "x.tar", *members), place, "occurs twice, or both as a file and as a folder")


def test_too_many_members_and_too_deep(place):
    many = [(str(i), b"") for i in range(11)]
    refused(tar(place / "x.tar", *many), place, "holds more than 10 files", members=10)
    refused(zipped(place / "x.zip", *many), place, "holds more than 10 files", members=10)
    extract(tar(place / "x.tar", *many[:10]), place / "in", Limits(members=10))
    refused(tar(place / "x.tgz", ("d/" * 500 + "x", b"")), place, "more than 32 folders deep")
    refused(tar(place / "x.tgz", ("n" * 300, b"")), place, "or is damaged .*name too long")


@pytest.mark.parametrize("name", ["x.tgz", "x.zip"])
def test_bombs(place, name):
    """Three MB of nothing from a few kB: more than fifty bytes per byte."""
    write = zipped if name == "x.zip" else tar
    bomb = write(place / name, ("small", b"1"), ("big", bytes(3 << 20)))
    assert bomb.stat().st_size < 20_000
    refused(bomb, place, r"unpacks to more than 1,048,576 bytes")
    refused(bomb, place, r"unpacks to more than 2,000,000 bytes", ratio=1e9, size=2_000_000)
    extract(bomb, place / "in", Limits(ratio=1e9))
    assert (place / "in/big").stat().st_size == 3 << 20


def test_a_zip_that_lies_about_its_size(place):
    path = zipped(place / "x.zip", ("big", bytes(3 << 20)))
    data = path.read_bytes().replace((3 << 20).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    path.write_bytes(data)
    refused(path, place, "unpacks to more than|is damaged")


def test_a_zip_that_points_before_its_start(place):
    path = zipped(place / "x.zip", ("a", b"1"))
    data = bytearray(path.read_bytes())
    field = data.rindex(b"PK\5\6") + 16  # where the list of members begins
    data[field : field + 4] = (int.from_bytes(data[field : field + 4], "little") + 5).to_bytes(4, "little")
    path.write_bytes(bytes(data))
    refused(path, place, "or is damaged")


def test_a_header_that_claims_to_be_huge(place):
    """tarfile would read an extended header into memory whole."""
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 1 << 32
    compressor = zlib.compressobj(wbits=31)
    data = compressor.compress(info.tobuf(tarfile.USTAR_FORMAT) + bytes(1 << 20)) + compressor.flush()
    (place / "x.tgz").write_bytes(data)
    refused(place / "x.tgz", place, "it has a header of 4,294,967,296 bytes")


def test_many_extended_headers(place):
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 512
    body = b"12 path=abc\n".ljust(512, b"\0")
    (place / "x.tar").write_bytes((info.tobuf(tarfile.USTAR_FORMAT) + body) * 5000)
    refused(place / "x.tar", place, "or is damaged")


@pytest.mark.parametrize(
    "content", [b"", b"x", b"PK", b"PK\3\4" + b"x" * 99, b"\x1f\x8b\x08" + b"x" * 99, b"BZh91AY"]
)
def test_no_archive(place, content):
    (place / "x.tar").write_bytes(content)
    refused(place / "x.tar", place, "is no .zip, .tar or .tar.gz file, or is damaged")


@pytest.mark.parametrize("name", ["x.tar", "x.tgz", "x.zip"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.8])
def test_cut_archives_leave_nothing(place, name, share):
    noise = os.urandom(20_000)
    write = zipped if name == "x.zip" else tar
    archive = write(place / name, ("a", noise[:5000]), ("b/c", noise))
    archive.write_bytes(archive.read_bytes()[: int(share * archive.stat().st_size)])
    refused(archive, place, "or is damaged")


def test_unusual_compression_and_encryption_in_a_zip(place):
    refused(
        zipped(place / "x.zip", ("a", b"1"), compression=zipfile.ZIP_LZMA), place, "packed in an unusual way"
    )
    path = zipped(place / "x.zip", ("a", b"1"))
    data = bytearray(path.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\1\2") + 8] |= 1
    path.write_bytes(bytes(data))
    refused(path, place, "or is damaged .*encrypted")


def test_what_a_killed_process_left_is_removed(place):
    (place / "in/.x.tar.unpacking/a").mkdir(parents=True)
    (place / "in/.x.tar.unpacking/junk").write_bytes(b"1")
    extract(tar(place / "x.tar", *MEMBERS), place / "in")
    assert tree(place / "in") == dict(MEMBERS)


def test_a_full_disk_is_no_fault_of_the_archive(place, monkeypatch):
    def fail(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archives.os, "replace", fail)
    with pytest.raises(SpmlError, match=r"could not be unpacked .*No space left on device") as caught:
        extract(tar(place / "x.tar", *MEMBERS), place / "in")
    assert not isinstance(caught.value, InputError)
    assert not any((place / "in").iterdir())


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["x.tar", "x.tgz", "x.zip"]),
    changes=st.lists(st.tuples(st.integers(0, 100_000), st.integers(0, 255)), max_size=6),
    cut=st.integers(0, 400),
)
def test_random_damage(tmp_path_factory, name, changes, cut):
    place = tmp_path_factory.mktemp("fuzz")
    write = zipped if name == "x.zip" else tar
    archive = write(place / name, ("a", b"1" * 700), ("b/c", bytes(range(256))))
    data = bytearray(archive.read_bytes())
    for position, value in changes:
        data[position % len(data)] = value
    archive.write_bytes(bytes(data[: len(data) - cut]))
    try:
        extract(archive, place / "in")
    except InputError:
        assert not any((place / "in").rglob("*"))
    assert sorted(p.name for p in place.iterdir()) == ["in", name]
