"""Checkpoints are whole, keep their predecessor, and hold everything."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from spml.common.errors import InputError, SpmlError
from spml.engine.checkpoint import (
    BLANK,
    CURRENT,
    PREVIOUS,
    load_checkpoint,
    random_state,
    save_checkpoint,
    set_random_state,
    write_checked,
)

STATE = {
    "numbers": [1, 2.5, None, True, "text", -1e300],
    "pair": (1, (2, 3)),
    "by integer": {0: {"step": torch.tensor(3.0)}, 7: {}},
    "tensors": {"a": torch.arange(6).reshape(2, 3), "half": torch.ones(2, dtype=torch.bfloat16)},
}


def same(one, other):
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def test_a_nested_state_comes_back_as_it_was(tmp_path):
    save_checkpoint(tmp_path, STATE)
    assert same(load_checkpoint(tmp_path), STATE)


def test_optimiser_state_comes_back(tmp_path):
    model = torch.nn.Linear(3, 2)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.ones(4, 3)).sum().backward()
    optimiser.step()
    save_checkpoint(tmp_path, {"optimiser": optimiser.state_dict()})
    restored = load_checkpoint(tmp_path)["optimiser"]
    assert same(restored, optimiser.state_dict())
    torch.optim.AdamW(model.parameters()).load_state_dict(restored)


def test_tied_and_sliced_tensors_are_stored(tmp_path):
    weight = torch.arange(12.0).reshape(3, 4)
    row = torch.arange(6.0).reshape(2, 3)[1]
    empty = {"one": torch.empty(0), "two": torch.empty(0, 3)}
    state = {"a": weight, "b": weight, "slice": weight[:, 1], "rows": weight[1:], "row": row, **empty}
    save_checkpoint(tmp_path, state)
    restored = load_checkpoint(tmp_path)
    assert same(restored, state)
    assert restored["slice"].tolist() == [1, 5, 9]
    assert restored["row"].tolist() == [3, 4, 5]


def test_random_states_come_back(tmp_path):
    torch.manual_seed(1)
    np.random.seed(2)
    random.seed(3)
    np.random.standard_normal()  # leaves a cached value
    save_checkpoint(tmp_path, random_state())

    def draw():
        return torch.rand(3).tolist(), np.random.standard_normal(3).tolist(), random.random()

    expected = draw()
    set_random_state(load_checkpoint(tmp_path))
    assert draw() == expected


def test_the_one_before_is_kept_and_used_when_the_current_one_is_damaged(tmp_path):
    save_checkpoint(tmp_path, {"step": 1})
    save_checkpoint(tmp_path, {"step": 2})
    assert load_checkpoint(tmp_path) == {"step": 2}
    data = (tmp_path / CURRENT).read_bytes()
    for damaged in (data[: len(data) // 2], b"", b"\xff" * 100, data[:9] + b"\x00" + data[10:]):
        (tmp_path / CURRENT).write_bytes(damaged)
        assert load_checkpoint(tmp_path) == {"step": 1}


def flipped(data, bit):
    damaged = bytearray(data)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def test_no_damaged_bit_is_resumed(tmp_path, caplog):
    """Some bits of the header, with names and numbers as JSON, and of a tensor, one at a time."""
    state = {"classes": ["a", "b"], "loop": {"best": {"w": torch.arange(4.0)}, "seconds": 1.5}}
    save_checkpoint(tmp_path, {"step": 1})
    save_checkpoint(tmp_path, state)
    path = tmp_path / CURRENT
    caplog.set_level("INFO", "spml")
    data = path.read_bytes()
    assert same(load_checkpoint(tmp_path), state)
    assert not caplog.messages
    bits = range(0, 8 * len(data), 29)
    for bit in bits:
        path.write_bytes(flipped(data, bit))
        assert load_checkpoint(tmp_path) == {"step": 1}, f"bit {bit} of byte {data[bit // 8]}"
    assert len(caplog.messages) == len(bits)
    assert caplog.messages[-1] == (
        f"{path}: damaged (its content does not match its checksum); continuing from {PREVIOUS} instead"
    )


def test_two_damaged_checkpoints_are_refused(tmp_path):
    for step in (1, 2):
        save_checkpoint(tmp_path, {"step": step, "w": torch.zeros(9)})
    for name in (CURRENT, PREVIOUS):
        data = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(flipped(data, 8 * len(data) - 1))
    reason = "damaged (its content does not match its checksum)"
    with pytest.raises(InputError) as caught:
        load_checkpoint(tmp_path)
    assert str(caught.value) == (
        f"no checkpoint can be read. {tmp_path / CURRENT}: {reason}; {tmp_path / PREVIOUS}: {reason}. "
        "Restore one of them, or start again with `overwrite`."
    )


def test_a_kill_after_a_damaged_checkpoint_was_replaced_loses_nothing(tmp_path, monkeypatch):
    """The damaged file takes the place of its good predecessor just before the new one is in place."""
    import spml.engine.checkpoint as checkpoint

    for step in (1, 2):
        save_checkpoint(tmp_path, {"step": step})
    (tmp_path / CURRENT).write_bytes(b"damaged")
    renamed, real = [], checkpoint.os.replace

    def killed_before_the_last(source, target):
        if target == tmp_path / CURRENT:
            raise KeyboardInterrupt
        renamed.append((source.name, target.name))
        real(source, target)

    monkeypatch.setattr(checkpoint.os, "replace", killed_before_the_last)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(tmp_path, {"step": 3})
    assert renamed[-1] == (CURRENT, PREVIOUS)
    assert load_checkpoint(tmp_path) == {"step": 3}


def write_tree(folder, tree, **tensors):
    """Write a checkpoint with any structure, whose checksum is right."""
    content = f'{{"checksum": "{BLANK}", "content": {tree}}}'
    metadata = {"format": "spml checkpoint", "version": "2", "state": content}
    write_checked(folder / CURRENT, {f"/{name}": value for name, value in tensors.items()}, metadata)


def test_a_checkpoint_without_checksum_is_refused(tmp_path):
    tree = {"dict": [["step", 4], ["w", {"tensor": "/w"}]]}
    write_tree(tmp_path, json.dumps(tree), w=torch.ones(2))
    assert same(load_checkpoint(tmp_path), {"step": 4, "w": torch.ones(2)})
    metadata = {"format": "spml checkpoint", "version": "2", "state": json.dumps({"content": tree})}
    save_file({"/w": torch.ones(2)}, tmp_path / CURRENT, metadata)
    with pytest.raises(InputError, match=r"damaged \(its checksum is missing\)"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize(
    "tree",
    ["[]", "5", "{}", '{"dict": 3}', '{"dict": [[[], 1]]}', '{"tensor": "/x"}', '{"surprise": 1}', "{"],
)
def test_another_structure_is_refused(tmp_path, tree):
    write_tree(tmp_path, tree, w=torch.ones(2))
    reason = r"its tensor '/x' is missing\)" if "/x" in tree else ""
    with pytest.raises(InputError, match=rf"no checkpoint can be read\. .*safetensors: damaged \({reason}"):
        load_checkpoint(tmp_path)


def test_nothing_to_load_and_newer_versions_are_said(tmp_path):
    with pytest.raises(InputError, match="holds no checkpoint"):
        load_checkpoint(tmp_path)
    save_file({"a": torch.ones(1)}, tmp_path / CURRENT, {"version": "99", "state": "{}"})
    with pytest.raises(InputError, match="newer version"):
        load_checkpoint(tmp_path)


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    """The write fails half-way, as on a full disk."""
    save_checkpoint(tmp_path, {"step": 1})
    import spml.common.files as files

    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(SpmlError, match=r"No space left on device.*untouched"):
        save_checkpoint(tmp_path, {"step": 2})
    assert load_checkpoint(tmp_path) == {"step": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == [CURRENT]


def test_what_can_not_be_stored_is_refused(tmp_path):
    with pytest.raises(TypeError, match=r"/a/1: a checkpoint can't hold a set"):
        save_checkpoint(tmp_path, {"a": [1, {2}]})
