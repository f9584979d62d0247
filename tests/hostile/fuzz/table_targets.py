"""Targets for the cells of tables: labels in every form, columns of classes, and JSON Lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from spml.common.errors import LONGEST
from spml.config import DataConfig
from spml.data.tables.cells import Column, Rules, label_cells
from spml.data.tables.columns import find_columns
from spml.data.tables.formats import Block, Table
from spml.data.values import MARKS, meaning
from tests.hostile.fuzz.change import WORDS, of_json_lines, of_text
from tests.hostile.fuzz.data_targets import file_target, pictures
from tests.hostile.fuzz.judge import Target

END = "\u241e"
"""Stands between the cells of an input."""
_COLUMNS = (
    ("cat", "dog;cat", "dog", "traffic light; dog", "", "nan", "3.0", "3"),
    ("['cat', 'dog']", "['dog\\'s']", "['caf\\xe9']", "[]", "sea"),
    ('["cat", "dog"]', '["caf\\u00e9"]', '{"choices": ["cat", "dog"]}', "cat", "[1, 2]"),
    ("{cat,dog}", '{"a b",cat}', "{}", "{dog}"),
    ("{'cat', 'dog'}", "set()", "('cat',)"),
    ("<cat><dog>", "<dog>", "<sea><cat>"),
    ("#cat #dog", "#dog#sea", "#sea"),
    ("clear partly_cloudy", "clear", "haze partly_cloudy", "haze"),
    ("犬、猫", "猫", "犬", "C#"),
    ("dog / beach", "dog / sea", "sea", "1girl solo ;)", "solo hat"),
    ("dog;-beach", "no dog", "dog?", "beach", "dog:0.82", "2x dog", "1 0 1"),
)
_WIDE = (  # five columns
    "file,cat,dog,width,x,a.png,1,0,640,yes,b.png,0,1,480,no",
    "file,labels,split,cat,present,a.png,cat;dog,train,x,1,b,dog,val,,0",
    "image,species,is_valid,✓,#,a.png,Rosa,False,WAHR,-1,b.png,Poa,True",
)
_PLAIN = r"""' " ',' "," \u00e9 \ud800 \ud83d\ude00 \U00110000 \x array( set( ( ) < > >< # ... None NA
1.0 ; | , 、 ； ＃ + & x yes ja file label tags"""
_WORDS = (
    *WORDS,
    *(
        word.encode()
        for word in (END, *_PLAIN.split(), "', '", '", "', "' '", ", dtype=object)", " #", " ; ")
    ),
    *(word.encode() for word in ("[" * 500, "{" * 500, "'" * 300, " " * 2000, "\u00a0", "\u200b", "\ufeff")),
    *(word.encode() for word in ("\U0001f468\u200d", "\u0301", "\x85")),
)


def cell_targets(folder: Path) -> list[Target]:
    """Cells of a column of labels, small tables in memory, and JSON Lines."""
    pictures(folder, "a.png b.png c.png d.png")
    lines = (
        b'{"file": "a.png", "labels": ["cat", "dog"]}\n{"file": "b.png", "labels": ["cat"]}\n'
        b'{"file": "c.png", "labels": ["dog"]}\n{"file": "d.png", "labels": ["cat"]}\n',
        b'{"file": "a.png", "label": "cat"}\n{"file": "b.png", "label": "dog"}\n'
        b'{"file": "c.png", "label": "cat"}\n{"file": "d.png", "label": "dog"}\n',
        b'{"file": "a.png", "cat": 1, "dog": 0}\n{"file": "b.png", "cat": true, "dog": null}\n'
        b'{"file": "c.png", "cat": 1, "dog": 1}\n{"file": "d.png", "cat": 0, "dog": 1}\n',
    )
    seeds = tuple(END.join(cells).encode() for cells in _COLUMNS)
    wide = tuple(cells.replace(",", END).encode() for cells in _WIDE)
    return [
        Target("cells", ".txt", seeds, of_text(_WORDS), _read_cells, 3.0),
        Target("marks", ".txt", wide, of_text(_WORDS), _read_marks),
        file_target("jsonl", folder / "x.jsonl", lines, of_json_lines()),
    ]


def _read_cells(data: bytes) -> Sequence[str]:
    """Read cells as the labels of a column: as they are, as lists, and with a separator."""
    cells = data.decode("utf-8", "replace").split(END)
    separator = {0: "", 1: ";", 2: "::"}.get(len(data) % 10)
    found = label_cells(
        Column(cells),
        "x.csv: column 'x'",
        "row {}".format,
        Rules(separator, plural=bool(len(data) % 2), marks=("read", "cut", "keep")[len(data) % 3]),
    )
    return [*found.notes, *(name[:LONGEST] for name in found.classes)]


def _read_marks(data: bytes) -> Sequence[str]:
    """Find the columns of a table of five columns, and read those that stand for classes."""
    cells = data.decode("utf-8", "replace").split(END)
    header = [cell.strip() for cell in cells[:5]]
    body = [cells[start : start + len(header)] for start in range(5, len(cells), 5)]
    body = [row for row in body if len(row) == len(header)]

    def blocks(columns: Sequence[int]) -> Iterator[Block]:
        yield Block(range(2, 2 + len(body)), [[row[k] for row in body] for k in columns])

    table = Table(Path("x.csv"), tuple(header), frozenset(range(len(header))), blocks)
    columns = find_columns(table, DataConfig())
    if columns.labels:
        return columns.notes
    codes = {MARKS[row[k]] for k in columns.marks for row in body}
    return [*columns.notes, meaning(codes, "unknown", "x.csv")[-1]]
