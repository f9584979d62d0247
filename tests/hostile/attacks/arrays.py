"""Attacks by feature files: .npz archives and ARFF."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from tests.hostile.attacks.attack import ESCAPE, Attack, Make, RunsCode, all_of, file

INSPECT = "data inspect x.npz"
X, Y = np.eye(6, dtype=np.float32), np.tile(np.eye(3, dtype=np.uint8), (2, 1))


def arrays(**named: Any) -> Make:
    """Write a feature file."""
    return lambda folder: np.savez(folder / "x.npz", **{"X": X, "Y": Y, **named})


def member(data: bytes, method: int = zipfile.ZIP_STORED) -> Make:
    """Write a feature file with one array, of these bytes."""

    def make(folder: Path) -> None:
        with zipfile.ZipFile(folder / "x.npz", "w", method) as archive:
            archive.writestr("X.npy", data)

    return make


def header(shape: tuple[int, ...], kind: str = "<f4") -> bytes:
    """Header of an array."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": kind, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def program(text: str) -> bytes:
    """Header of an array whose description is a program."""
    data = text.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(data)) + data


def objects(folder: Path) -> None:
    array = np.empty(1, object)
    array[0] = RunsCode()
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=True)
    member(stream.getvalue())(folder)


def zeros(folder: Path) -> None:
    """Three megabytes that unpack to three gigabytes."""
    compress = zlib.compressobj(wbits=-15)
    head = compress.compress(header((3 << 10, 1 << 18))) + compress.flush(zlib.Z_FULL_FLUSH)
    block = compress.compress(bytes(1 << 20)) + compress.flush(zlib.Z_FULL_FLUSH)
    member(head + (3 << 10) * block + compress.flush())(folder)
    path = folder / "x.npz"
    data = bytearray(path.read_bytes())
    size = len(header((3 << 10, 1 << 18))) + (3 << 30)
    for start, method, stated in ((0, 8, 22), (data.index(b"PK\1\2"), 10, 24)):
        struct.pack_into("<H", data, start + method, zipfile.ZIP_DEFLATED)
        struct.pack_into("<L", data, start + stated, size)
    path.write_bytes(data)


def overlapping(folder: Path) -> None:
    """An archive that lists the same 16 megabytes a thousand times."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", header((2048, 2048)) + bytes(1 << 24))
    data = stream.getvalue()
    start, end = data.index(b"PK\1\2"), data.index(b"PK\5\6")
    entries = data[start:end] * 1000
    tail = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1000, 1000, len(entries), start, 0)
    (folder / "x.npz").write_bytes(data[:start] + entries + tail)


def lying(folder: Path) -> None:
    """An archive whose directory states fewer bytes than its member unpacks to."""
    stream = io.BytesIO()
    size = len(header((1, 1))) + (1 << 28)
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", header((1, 1)) + bytes(1 << 28))
    data = stream.getvalue().replace(struct.pack("<L", size), struct.pack("<L", 132))
    (folder / "x.npz").write_bytes(data)


SPARSE = {"data": np.ones(2), "indices": np.array([0, 2]), "indptr": np.array([0, 1, 2])}


def sparse(**changes: Any) -> Make:
    """Write a feature file with a sparse matrix."""
    content = {**SPARSE, "shape": np.array([2, 3]), "Y": np.eye(2), **changes}
    return lambda folder: np.savez(folder / "x.npz", **content)


def arff(data: str, relation: str = "x: -C 1", attributes: str = "@attribute l {0,1}\n") -> Make:
    return file("x.arff", f"@relation '{relation}'\n{attributes}@attribute a numeric\n@data\n{data}\n")


LABELS = '<!DOCTYPE x [<!ENTITY a SYSTEM "../secret.txt">]><labels><label name="&a;"/></labels>'
RECORDS = program("{'descr': [('a', 'O')], 'fortran_order': False, 'shape': (1,)}")
ATTACKS = (
    Attack("Python objects in an array", objects, INSPECT, "Python objects are not read"),
    Attack("a feature file that is a pickle", file("x.npz", pickle.dumps(RunsCode())), INSPECT,
        "x.npz: is not a .npz file, or can't be read: File is not a zip file. Write numbers and"),
    Attack("an array header that is a program", member(program("__import__('os').system('touch executed')")),
        INSPECT,
        "x.npz: is not a .npz file, or can't be read: malformed node or string on line 1: <ast.Call"),
    Attack("an array header of 10,000 levels", member(program("[" * 10_000)), INSPECT,
        "x.npz: is not a .npz file, or can't be read: Header info length (10001) is large and may"),
    Attack("an array of records with objects", member(RECORDS + pickle.dumps(RunsCode())), INSPECT,
        "x.npz: is not a .npz file, or can't be read: Object arrays cannot be loaded when"),
    Attack("three gigabytes of zeros in an array", zeros, INSPECT,
        "its arrays unpack to 3,221,225,600 bytes, more than the limit of 2,147,483,648"),
    Attack("an archive that lists one member a thousand times", overlapping, INSPECT,
        "x.npz: is not a .npz file, or can't be read: Overlapped entries"
        if "_end_offset" in zipfile.ZipInfo.__slots__  # versions of zipfile that refuse it themselves
        else "x.npz: has no labels: expected an array Y with one row per sample and one column per class,"),
    Attack("an archive that lies about the size of a member", lying, INSPECT,
        "x.npz: is not a .npz file, or can't be read: Bad CRC-32 for file 'X.npy'. Write numbers and"),
    Attack("an array that claims 4 TB", member(header((10**6, 10**6)) + bytes(64)), INSPECT,
        "X.npy states 4,000,000,000,000 bytes, but has 192"),
    Attack("an array compressed by an unusual method", member(header((1, 1)), zipfile.ZIP_LZMA), INSPECT,
        "x.npz: is not a .npz file, or can't be read: X.npy is compressed by a method that NumPy"),
    Attack("a sparse matrix with indices outside its memory", sparse(indices=np.array([0, 10**9])), INSPECT,
        "x.npz: the arrays of X are not a valid CSR matrix: indices must be < 3. Save it again."),
    Attack("a sparse matrix whose rows go backwards", sparse(indptr=np.array([0, 2, -5])), INSPECT,
        "x.npz: the arrays of X are not a valid CSR matrix: indptr must rise from 0 to 2, the"),
    Attack("a terminal escape as class name of an array", arrays(classes=np.array(["a", "b", ESCAPE])),
        INSPECT,
        "x.npz: classes: entry 2 is '\\x1b]0;owned\\x07', which holds control characters (counted from"),
    Attack("a terminal escape as name of a sample", arrays(names=np.array(["a", "b", "c", "d", "e", ESCAPE])),
        INSPECT,
        "x.npz: names: entry 5 is '\\x1b]0;owned\\x07', which holds control characters (counted from"),
    Attack("an ARFF file with a huge index", arff("{999999999 1}"), "data inspect x.arff",
        "attribute 999999999 has no value, occurs twice or is not below 2"),
    Attack("an ARFF attribute that never ends",
        arff("1,1", attributes="@attribute l {" + "0," * 1_000_000 + "\n"), "data inspect x.arff",
        "x.arff: line 2: expected distinct values between braces, found"),
    Attack("a file read through the label list of an ARFF file", all_of(arff("1,1"), file("x.xml", LABELS)),
        "data inspect x.arff", "x.xml: has a document type or entities, which are not read. Remove them."),
)  # fmt: skip
