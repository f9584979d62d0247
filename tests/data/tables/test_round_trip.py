"""Label sets with odd names, in every form: read as they were written, or refused."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.data.tables.generator import draw_table, make_folder, outcome


@pytest.mark.parametrize("number", [400, pytest.param(5000, marks=pytest.mark.long)])
def test_tables_are_read_as_they_were_written(tmp_path, number):
    folder = make_folder(tmp_path)
    counts: Counter[str] = Counter()
    for k in range(number):
        table = draw_table(random.Random(f"test {k}"))
        result, text = outcome(table, folder)
        assert result != "wrong" or not table.honest, f"{table.form} in {table.place}: {text}"
        counts[result] += table.honest
    assert counts["equal"] > 0.8 * counts.total()
