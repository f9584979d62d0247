"""Hostile, damaged and oversized archives are refused, and no file is written."""

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
def root(tmp_path):
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


def refused(archive: Path, root: Path, match: str, **limits) -> None:
    before = {p for p in root.rglob("*") if p.is_relative_to(root / "in") or p.parent == root}
    with pytest.raises(InputError, match=match) as caught:
        extract(archive, root / "in", Limits(**limits))
    assert str(archive) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert {p for p in root.rglob("*") if p.is_relative_to(root / "in") or p.parent == root} == before


MEMBERS = [("a/b/c.txt", b"1"), ("a/d.txt", b"22" * 1000), ("e", b"")]


@pytest.mark.parametrize("name", ["x.tar", "x.tgz", "x.zip"])
def test_unpacking(root, name):
    write = zipped if name == "x.zip" else tar
    archive = write(root / name, *MEMBERS)
    extract(archive, root / "in")
    assert tree(root / "in") == dict(MEMBERS)
    assert sorted(os.listdir(root / "in")) == ["a", "e"], "no temporary folder remains"


def test_folders_are_merged_and_files_replaced(root):
    (root / "in/a").mkdir()
    (root / "in/a/d.txt").write_bytes(b"old")
    (root / "in/a/other").write_bytes(b"other")
    extract(tar(root / "x.tar", *MEMBERS), root / "in")
    assert tree(root / "in") == {**dict(MEMBERS), "a/other": b"other"}


def test_explicit_folders_and_modes(root):
    folder = special("a/", tarfile.DIRTYPE)
    folder.mode = 0
    odd = tarfile.TarInfo("a/x")
    odd.mode = 0o4777
    extract(tar(root / "x.tar", folder, odd, special("empty", tarfile.DIRTYPE)), root / "new")
    assert (root / "new/empty").is_dir()
    assert not (root / "new/a/x").stat().st_mode & stat.S_ISUID


@pytest.mark.parametrize(
    "name", ["../x", "a/../../x", "/tmp/x", "a/..", "..\\x", "C:\\x", "C:x", "\\\\host\\share\\x", "//x"]
)
def test_names_outside_the_folder(root, name):
    refused(tar(root / "x.tar", ("fine", b"1"), (name, b"2")), root, "would lie outside the folder")
    refused(zipped(root / "x.zip", ("fine", b"1"), (name, b"2")), root, "would lie outside the folder")


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, b"?"]
)
def test_links_and_devices_in_a_tar(root, kind):
    members = [("fine", b"1"), special("link", kind, "fine"), ("link/x", b"2")]
    refused(tar(root / "x.tar", *members), root, "'link' is a link or a device")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO, stat.S_IFSOCK])
def test_links_and_devices_in_a_zip(root, kind):
    info = zipfile.ZipInfo("link")
    info.external_attr = (kind | 0o777) << 16
    refused(zipped(root / "x.zip", ("fine", b"1"), (info, b"/etc")), root, "'link' is a link or a device")


def test_links_in_the_folder_are_not_followed(root):
    (root / "elsewhere").mkdir()
    (root / "in/a").symlink_to(root / "elsewhere")
    with pytest.raises(InputError, match=r"in/a: is a link, but x\.tar has a member of this name"):
        extract(tar(root / "x.tar", ("0first", b"1"), *MEMBERS), root / "in")
    assert not any((root / "elsewhere").iterdir())
    assert os.listdir(root / "in") == ["a"]


@pytest.mark.parametrize("members", [[("a", b"1"), ("a", b"2")], [("a", b"1"), ("a/b", b"2")]])
def test_duplicate_names(root, members):
    refused(tar(root / "x.tar", *members), root, "occurs twice, or both as a file and as a folder")


def test_too_many_members_and_too_deep(root):
    many = [(str(i), b"") for i in range(11)]
    refused(tar(root / "x.tar", *many), root, "holds more than 10 files", members=10)
    refused(zipped(root / "x.zip", *many), root, "holds more than 10 files", members=10)
    extract(tar(root / "x.tar", *many[:10]), root / "in", Limits(members=10))
    refused(tar(root / "x.tgz", ("d/" * 500 + "x", b"")), root, "more than 32 folders deep")
    refused(tar(root / "x.tgz", ("n" * 300, b"")), root, "or is damaged .*name too long")


@pytest.mark.parametrize("name", ["x.tgz", "x.zip"])
def test_bombs(root, name):
    """Three MB of zeros from a few kB: more than 50 bytes per byte of the archive."""
    write = zipped if name == "x.zip" else tar
    bomb = write(root / name, ("small", b"1"), ("big", bytes(3 << 20)))
    assert bomb.stat().st_size < 20_000
    refused(bomb, root, r"unpacks to more than 1,048,576 bytes")
    refused(bomb, root, r"unpacks to more than 2,000,000 bytes", ratio=1e9, size=2_000_000)
    extract(bomb, root / "in", Limits(ratio=1e9))
    assert (root / "in/big").stat().st_size == 3 << 20


def test_a_zip_with_a_wrong_size(root):
    path = zipped(root / "x.zip", ("big", bytes(3 << 20)))
    data = path.read_bytes().replace((3 << 20).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    path.write_bytes(data)
    refused(path, root, "unpacks to more than|is damaged")


def test_a_zip_that_points_before_its_start(root):
    path = zipped(root / "x.zip", ("a", b"1"))
    data = bytearray(path.read_bytes())
    field = data.rindex(b"PK\5\6") + 16  # offset of the list of members
    data[field : field + 4] = (int.from_bytes(data[field : field + 4], "little") + 5).to_bytes(4, "little")
    path.write_bytes(bytes(data))
    refused(path, root, "or is damaged")


def test_a_header_with_a_huge_size(root):
    """tarfile would read the entire extended header into memory."""
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 1 << 32
    compressor = zlib.compressobj(wbits=31)
    data = compressor.compress(info.tobuf(tarfile.USTAR_FORMAT) + bytes(1 << 20)) + compressor.flush()
    (root / "x.tgz").write_bytes(data)
    refused(root / "x.tgz", root, "it has a header of 4,294,967,296 bytes")


def test_many_extended_headers(root):
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 512
    body = b"12 path=abc\n".ljust(512, b"\0")
    (root / "x.tar").write_bytes((info.tobuf(tarfile.USTAR_FORMAT) + body) * 5000)
    refused(root / "x.tar", root, "or is damaged")


@pytest.mark.parametrize(
    "content", [b"", b"x", b"PK", b"PK\3\4" + b"x" * 99, b"\x1f\x8b\x08" + b"x" * 99, b"BZh91AY"]
)
def test_files_that_are_not_archives(root, content):
    (root / "x.tar").write_bytes(content)
    refused(root / "x.tar", root, "is not a .zip, .tar or .tar.gz file, or is damaged")


@pytest.mark.parametrize("name", ["x.tar", "x.tgz", "x.zip"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.8])
def test_truncated_archives_leave_no_files(root, name, share):
    noise = os.urandom(20_000)
    write = zipped if name == "x.zip" else tar
    archive = write(root / name, ("a", noise[:5000]), ("b/c", noise))
    archive.write_bytes(archive.read_bytes()[: int(share * archive.stat().st_size)])
    refused(archive, root, "or is damaged")


def test_unusual_compression_and_encryption_in_a_zip(root):
    refused(
        zipped(root / "x.zip", ("a", b"1"), compression=zipfile.ZIP_LZMA),
        root,
        "unsupported compression method",
    )
    path = zipped(root / "x.zip", ("a", b"1"))
    data = bytearray(path.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\1\2") + 8] |= 1
    path.write_bytes(bytes(data))
    refused(path, root, "or is damaged .*encrypted")


def test_files_of_a_killed_process_are_removed(root):
    (root / "in/.x.tar.unpacking/a").mkdir(parents=True)
    (root / "in/.x.tar.unpacking/junk").write_bytes(b"1")
    extract(tar(root / "x.tar", *MEMBERS), root / "in")
    assert tree(root / "in") == dict(MEMBERS)


def test_a_full_disk_is_not_reported_as_damage(root, monkeypatch):
    def fail(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archives.os, "replace", fail)
    with pytest.raises(SpmlError, match=r"could not be unpacked .*No space left on device") as caught:
        extract(tar(root / "x.tar", *MEMBERS), root / "in")
    assert not isinstance(caught.value, InputError)
    assert not any((root / "in").iterdir())


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["x.tar", "x.tgz", "x.zip"]),
    changes=st.lists(st.tuples(st.integers(0, 100_000), st.integers(0, 255)), max_size=6),
    cut=st.integers(0, 400),
)
def test_random_damage(tmp_path_factory, name, changes, cut):
    root = tmp_path_factory.mktemp("fuzz")
    write = zipped if name == "x.zip" else tar
    archive = write(root / name, ("a", b"1" * 700), ("b/c", bytes(range(256))))
    data = bytearray(archive.read_bytes())
    for position, value in changes:
        data[position % len(data)] = value
    archive.write_bytes(bytes(data[: len(data) - cut]))
    try:
        extract(archive, root / "in")
    except InputError:
        assert not any((root / "in").rglob("*"))
    assert sorted(p.name for p in root.iterdir()) == ["in", name]
