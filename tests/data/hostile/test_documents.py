"""Random, damaged and hostile JSON: COCO files and exports of Label Studio."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import strategies as st

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data.readers import read
from tests.data.hostile.fuzzing import DELETE, bounded, change_document, fuzz
from tests.helpers.originals import COCO, TASKS

names = ["a.png", "..", "cat", "", "choices", "\0", "\ud800", 10**400, 10**30]
scalars = st.one_of(st.none(), st.booleans(), st.integers(-3, 12), st.floats(), st.sampled_from(names))
coco_keys = st.sampled_from(["id", "images", "annotations", "categories", "data", "x"])
task_keys = st.sampled_from(
    ["data", "image", "annotations", "result", "type", "value", "choices", "was_cancelled", "meta"]
)


def values_with(keys):
    """Strategy of JSON values whose objects have some of the given keys."""
    return st.recursive(
        scalars,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
        max_leaves=10,
    )


def changes_with(keys):
    """Strategy of changes of a document."""
    value = st.one_of(values_with(keys), st.just(DELETE))
    return st.lists(st.tuples(st.integers(0, 200), value), min_size=1, max_size=3)


def read_within_limits(path, content, read_or_refuse):
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with bounded():
        read_or_refuse(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[" * 500_000, "nested too deeply"),
        (b'{"a":' * 500_000, "nested too deeply"),
        (b'{"images": [], "annotations": [], "categories": [], "x": ' + b"[" * 500_000, "nested too deeply"),
        (b'[{"data": {}}, ' + b"[" * 500_000, "nested too deeply|expected an object, got a list"),
        (b'{"images": ' + b"9" * 5000 + b"}", "found the keys 'images'"),
        (b"9" * 5000, "is not valid JSON|out of range|of a known kind"),
        (b'["' + b"a" * 1_000_000 + b'"', "found a list"),
        (b'{"' + b"a" * 1_000_000 + b'": 1}', "found the keys 'aaa"),
        (b'{"images": [], "images": NaN, "categories": [], "annotations": []}', "images: expected a list"),
        (b'{"images": [], "annotations": [{"x": "\xff"}], "categories": []}', "is not UTF-8: byte 0xff"),
        (b'{"images": [{"id": 1, "file_name": "a', "is not valid JSON: Unterminated string"),
        (b'{"images": []} {}', "holds a second JSON value at line 1, column 16"),
        (b"\xef\xbb\xbf", "is not valid JSON"),
    ],
)
def test_hostile_files(tmp_path, content, message):
    (tmp_path / "x.json").write_bytes(content)
    with bounded(), pytest.raises(InputError, match=message) as caught:
        read(DataConfig(path=str(tmp_path / "x.json")))
    assert len(str(caught.value)) < 1000


@fuzz(some_read=False, content=st.binary(max_size=300))
def test_random_bytes_as_json(folder, read_or_refuse, content):
    read_within_limits(folder / "x.json", content, read_or_refuse)


@fuzz(some_read=False, content=values_with(coco_keys))
def test_random_json(folder, read_or_refuse, content):
    read_within_limits(folder / "x.json", content, read_or_refuse)


@fuzz(some_read=False, changes=changes_with(coco_keys))
def test_changed_coco(folder, read_or_refuse, changes):
    content = copy.deepcopy(COCO)
    change_document(content, changes)
    read_within_limits(folder / "coco.json", content, read_or_refuse)


@fuzz(
    some_read=False,
    content=st.lists(st.dictionaries(task_keys, values_with(task_keys), max_size=4)),
)
def test_random_tasks(folder, read_or_refuse, content):
    read_within_limits(folder / "x.json", content, read_or_refuse)


@fuzz(some_read=False, changes=changes_with(task_keys))
def test_changed_tasks(folder, read_or_refuse, changes):
    content = copy.deepcopy(TASKS)
    change_document(content, changes)
    read_within_limits(folder / "tasks.json", content, read_or_refuse)


def test_half_a_surrogate_pair_instead_of_an_object(folder):
    content = copy.deepcopy(TASKS)
    content[0]["annotations"][0]["result"][0]["value"] = "\ud800"
    path = folder / "half.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"result\[0\].value: '.ud800' is half of a surrogate pair"):
        read(DataConfig(path=str(path)))


@pytest.mark.parametrize("content", [COCO, TASKS])
def test_unchanged_documents_can_be_read(folder, content):
    path = folder / "good.json"
    path.write_text(json.dumps(content))
    assert len(read(DataConfig(path=str(path))).ids) >= 3
