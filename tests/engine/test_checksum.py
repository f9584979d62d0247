"""Every damaged bit of a file that carries a checksum is noticed."""

from __future__ import annotations

import json
import random
import zlib

import pytest
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from spml.engine import checkpoint as checksum
from spml.engine.checkpoint import BLANK, has_checksum, write_checked

TENSORS = {"a": torch.arange(6.0)}


def metadata(about=BLANK):
    return {"about": json.dumps({"checksum": about, "names": ["b", "c"]})}


def content(about=BLANK):
    return save(TENSORS, metadata(about))


def test_the_checksum_is_that_of_the_file_with_a_blank_in_its_place(tmp_path):
    path = tmp_path / "x.safetensors"
    write_checked(path, TENSORS, metadata())
    with safe_open(path, framework="pt") as stored:
        checksum = json.loads(stored.metadata()["about"])["checksum"]
        assert stored.get_tensor("a").tolist() == [0, 1, 2, 3, 4, 5]
    assert checksum == f"crc32:{zlib.crc32(content()):08x}"
    assert path.read_bytes().replace(checksum.encode(), BLANK.encode()) == content()
    assert has_checksum(path)
    assert [file.name for file in tmp_path.iterdir()] == ["x.safetensors"]


@pytest.mark.parametrize("small", [-1, 3, 1 << 18])
def test_files_are_those_of_safetensors_for_all_types_and_pieces(tmp_path, monkeypatch, small):
    """Checksums are computed by a thread for all pieces, for the larger ones, and for none."""
    monkeypatch.setattr(checksum, "_PIECE", 5)
    monkeypatch.setattr(checksum, "_SMALL", small)
    path = tmp_path / "x.safetensors"
    tensors = {f"{dtype}": torch.arange(7).to(dtype) for dtype in checksum._TYPES}
    tensors |= {
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 3),
        "ü": torch.ones(2, 3, dtype=torch.int8),
    }
    write_checked(path, tensors, metadata())
    data = path.read_bytes()
    start = data.index(b"crc32:")
    assert data[:start] + BLANK.encode() + data[start + len(BLANK) :] == save(tensors, metadata())
    assert has_checksum(path)
    tied = {"one": tensors["ü"], "other": tensors["ü"]}
    write_checked(path, tied, metadata())
    with safe_open(path, framework="pt") as stored:
        for name in tied:
            assert torch.equal(stored.get_tensor(name), torch.ones(2, 3, dtype=torch.int8))


def test_a_file_without_a_checksum_is_told_from_a_damaged_one(tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(content("none"))
    assert not has_checksum(path)
    path.write_bytes(content())  # was never filled in
    with pytest.raises(ValueError, match="its content does not match its checksum"):
        has_checksum(path)


def test_each_bit_counts(tmp_path):
    path = tmp_path / "x.safetensors"
    write_checked(path, TENSORS, metadata())
    data = path.read_bytes()
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            checked = has_checksum(path)
        except ValueError:
            continue
        # The text that announces the checksum is damaged, so that it is not found: the reader misses it.
        assert not checked


def test_cut_files_are_noticed(tmp_path):
    path = tmp_path / "x.safetensors"
    write_checked(path, TENSORS, metadata())
    data, moments = path.read_bytes(), random.Random(0)
    for size in [len(data) - 1, *(moments.randrange(len(data)) for _ in range(20))]:
        path.write_bytes(data[:size])
        with pytest.raises((ValueError, SafetensorError)):
            assert has_checksum(path) or safe_open(path, framework="pt")
