"""The miniature copies of the benchmarks, prepared once."""

from __future__ import annotations

import io

import pytest

from spml.common.messages import shown
from spml.data.benchmarks import prepare
from tests.data.benchmarks.layouts import LAYOUTS


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    """For each benchmark: its root, its expected content, its manifest, and the messages."""
    prepared = {}
    for name, make in LAYOUTS.items():
        root = tmp_path_factory.mktemp(name)
        expected, stream = make(root), io.StringIO()
        with shown(stream):
            path = prepare(name, root)
        prepared[name] = root, expected, path, stream.getvalue().splitlines()
    return prepared
