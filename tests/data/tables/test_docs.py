"""The rules of `docs/data.md`: every example of its two tables is read as the page says."""

from __future__ import annotations

import html
import re
from itertools import islice
from pathlib import Path

import pytest

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data.tables.rows import read_table

PAGE = Path(__file__).parents[3].joinpath("docs/data.md").read_text(encoding="utf-8")


def rows(header):
    """Cells of the rows of a table of the page."""
    lines = iter(PAGE[PAGE.index(header) :].splitlines())
    for line in islice(lines, 2, None):
        if not line.startswith("|"):
            return
        yield [html.unescape(cell.strip()) for cell in line.strip("|").split(" | ")]


def code(text):
    """Examples in a cell of the page."""
    return re.findall("`([^`]*)`", text)


ROLES = dict(rows("| role | names |"))
CELLS = [*rows("| cell | in a column | is read as |")]


@pytest.mark.parametrize("name", code(ROLES["image"]))
def test_names_for_images(table, name):
    records = read_table(table(f"n,{name},label", "7,a.png,cat"), DataConfig())
    assert records.ids == ("a.png",)
    used = f"images are those of the column {name!r}"
    assert (used in " ".join(records.notes)) == (name != "file")


@pytest.mark.parametrize("name", code(ROLES["labels"]))
def test_names_for_labels(table, name):
    records = read_table(table(f"file,{name},other", "a.png,cat,1", "b.png,dog,far"), DataConfig())
    assert records.classes == ("cat", "dog")
    used = f"labels are those of the column {name!r}"
    assert (used in " ".join(records.notes)) == (name not in ("label", "labels"))


def test_columns_for_several(table):
    first, *_ = code(ROLES["labels in several columns"])
    records = read_table(table(f"file,{first},{first}_2", "a.png,cat,dog"), DataConfig())
    assert records.labels.to_names(records.classes) == [["cat", "dog"]]


@pytest.mark.parametrize("name", sorted({*code(ROLES["split"])} - {"train", "dev", "eval"}))
def test_names_for_splits(table, name):
    one, other = ("1", "0") if name.startswith("is_") else ("train", "dev")
    path = table(f"file,label,{name}", f"a.png,x,{one}", f"b.png,y,{other}")
    assert len({*read_table(path, DataConfig()).split}) == 2


@pytest.mark.parametrize(("cell", "column", "meaning"), CELLS)
def test_what_a_cell_holds(table, cell, column, meaning):
    (cell,), (column,) = code(cell), code(column)
    quoted = cell.replace('"', '""')
    path = table(f"file,{column}", f'a.png,"{quoted}"')
    if meaning.startswith("refused"):
        with pytest.raises(InputError, match=r"ambiguous|no known labels|zeros and ones"):
            read_table(path, DataConfig())
        return
    path.write_text(f'{path.read_text()}\nb.png,"{quoted}"')
    records = read_table(path, DataConfig())
    present = code(meaning.split(";")[0])
    expected = [*present, cell.split(";")[1]] if ";-" in cell else present
    assert sorted(records.labels.to_names(records.classes)[0]) == sorted(expected)
