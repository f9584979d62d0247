"""The registry of writers."""

from __future__ import annotations

import pytest

import spml.data.writers as registry
from spml.common import plugins
from spml.common.errors import InputError
from spml.data.writers import find_writer, register_writer, writers


@pytest.fixture
def empty_registry(monkeypatch):
    monkeypatch.setattr(registry._REGISTRY, "entries", {})


def test_writers_are_listed_by_name():
    assert list(writers()) == sorted(writers())
    assert {"csv", "coco", "labelstudio", "nan"} <= set(writers())
    assert find_writer("nan").suffix == ".npz"


def test_an_unknown_format_names_the_nearest_ones():
    with pytest.raises(InputError, match=r"unknown format 'cooc'\. Did you mean coco"):
        find_writer("cooc")


def test_two_modules_can_not_register_the_same_name(empty_registry):
    def write(records, inferred, output):
        return {}, ()

    write.__module__ = "elsewhere"
    register_writer("x", "X")(write)
    register_writer("x", "X")(write)  # a module that is imported again
    with pytest.raises(ValueError, match="writer 'x' is already registered by elsewhere"):
        register_writer("x", "X")(lambda records, inferred, output: ({}, ()))


def test_a_broken_package_is_named_and_the_others_work(monkeypatch):
    class Point:
        value = "their_module"

        def load(self):
            raise RuntimeError("no such luck")

    monkeypatch.setattr(plugins, "entry_points", lambda group: [Point()])
    plugins.import_plugins.cache_clear()
    with pytest.warns(UserWarning, match=r"spml\.writers: their_module can't be imported \(no such luck\)"):
        assert "csv" in writers()
