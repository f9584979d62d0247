"""JSON Lines whose values are nested: left out where that is usual, refused where it is not."""

from __future__ import annotations

import json

import pytest

from spml.common.errors import InputError
from spml.data.tables.formats import open_json_lines


def test_nested_values(tmp_path):
    path = tmp_path / "x.jsonl"
    rows = [{"file": f"{k}.png", "label": "cat", "meta": {"k": k} if k else None} for k in range(4)]
    rows.append({"file": {"name": "4.png"}, "label": "dog"})
    path.write_text("\n".join(map(json.dumps, rows)))
    table = open_json_lines(path)
    assert table.names == ("file", "label")
    assert [cells for _, cells in table.rows([1])] == [("cat",)] * 4 + [("dog",)]
    with pytest.raises(
        InputError, match=r"x.jsonl: line 5: 'file' is .*'4.png'.*, but must be text, a number"
    ):
        list(table.rows([0]))
