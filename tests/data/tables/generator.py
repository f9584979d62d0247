"""Label sets with odd names, written in every form that people use, and whether they are read as written.

    python -m tests.data.tables.generator [--number 200000] [--seed 0]

Each table must be read as it was written, or be refused. Counts are printed per form; a table that is read as
something else is made small and printed.

A table is honest if it says what it means: names do not hold what separates them, and no name consists of
other names joined by a separator. Those that are not honest look the same as tables of other labels.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data.memory.frames import read_frame
from spml.data.memory.labels import understand_labels
from spml.data.tables.cells import SEPARATORS, Column, label_cells
from spml.data.tables.class_columns import _MEASURE
from spml.data.tables.read import read_table
from spml.data.tables.values import is_blank

Rows = list[tuple[str, ...]]

_WORDS = (
    "cat dog sea sun car bus tree red blue hot big traffic light house finch crane bird Ente Straße café "
    "solo smile hat long_hair 1girl scab rust complex dogs catfish carpet nano Nancy None-such nanometre "
    "NaNa "
    "na Nil unknowns null-island label labels file split train val test class tag x y yes no true 3 7 42 007 "
    "3.5 2nd a b z I 犬 猫 海辺 Größe Ærø 🐱 🌊🌊 R2D2 cs.CV q-bio n02084071 img.png IMG_1 A4 C# C++ .NET"
)
WORDS = _WORDS.split()
ODD = (
    "R&B", "AC/DC", "rock/pop", "animal/dog", "Home & Garden", "salt & pepper", "C+", "Google+", "#1 fan",
    "no. #5", "it's", "dog's", "'n'", "O'Brien's", "rock 'n' roll", '12" record', '"quoted"', "a \"b\" c",
    "[removed]", "x[0]", "{other}", "(small)", "dog (small)", "<unk>", "a<b", "f(x)", "tench, Tinca tinca",
    "Cattle, domestic", "light, red", "shirt; blue", ";)", ":)", ";_;", ":D", "a|b", "|", "back\\slash", "\\",
    "C:\\x", "\\n", "100%", "50 %", "a = b", "~", "--x", "-x", "+1", "-1", "*", "!", "?!", "...", "e.g.",
    "@home", "犬、猫", "猫；犬", "AC＋DC", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "e\u0301", "\u00c9",
    "'", '"', "[", "]", "{}x", "()", "[]x", "x,", ",x", "don't", "''", "a, b, c", "['a']", "a #b", "$5", "^",
    "None of these", "nan bread", "null value", "N/A-like", "unknown bird", "- dash", "1,5", "1/2", "a  b",
)  # fmt: skip
JOINS = (" ", " ", " ", "-", "_", ", ", "/", " & ", " + ", ".", "'", "; ", ": ")
STYLES = {
    ";": (";", "; ", " ; ", "；"),
    ",": (",", ", ", " , ", "，", "、"),
    "|": ("|", " | ", "｜"),
    "#": ("#", " # "),
    "/": ("/", " / "),
    "+": ("+", " + "),
    "&": ("&", " & "),
    " ": (" ", "  "),
    "\n": ("\n", "\r\n"),
}
MARKS = {
    "1/0": ("1", "0"), "1/blank": ("1", ""), "x/blank": ("x", ""), "X/blank": ("X", ""),
    "yes/no": ("yes", "no"),
    "Yes/blank": ("Yes", ""), "ja/nein": ("ja", "nein"), "WAHR/FALSCH": ("WAHR", "FALSCH"),
    "True/False": ("True", "False"), "check/blank": ("✓", ""), "check/cross": ("✔", "✗"),
    "1.0/0.0": ("1.0", "0.0"),
    "1/-1": ("1", "-1"), "counts/0": ("2", "0"), "counts/blank": ("3", ""), "bool": (True, False),
    "int": (1, 0), "float/nan": (1.0, None),
}  # fmt: skip


class Written(NamedTuple):
    """A table, or labels in memory.

    Attributes:
        form: How labels are written, and where.
        rows: Labels of each row.
        cells: What is written in each row: a cell, or marks of all classes.
        place: Where it is written: a kind of file, or what holds it in memory.
        column: Name of the column.
        header: Classes that have a column each; empty if labels are in one column.
        honest: Whether it says what it means.
    """

    form: str
    rows: Rows
    cells: Sequence[Any]
    place: str
    column: str
    header: tuple[str, ...]
    honest: bool


# -- names and labels ------------------------------------------------------------------------------------


def draw_name(draw: random.Random) -> str:
    """Draw a class name, most of them odd."""
    kind = draw.random()
    if kind < 0.4:
        return draw.choice(WORDS)
    if kind < 0.65:
        return draw.choice(ODD)
    if kind < 0.9:
        words = draw.choices(WORDS, k=draw.choice((2, 2, 2, 3)))
        return draw.choice(JOINS).join(words)
    letters = "abcXYZ019 .-_'\"[]{}()<>,;|/+&#:!?*éß犬🐱\\"
    return "".join(draw.choices(letters, k=draw.randint(1, 8)))


def draw_names(draw: random.Random, number: int, fit: Callable[[str], bool] = lambda name: True) -> list[str]:
    """Draw different class names; none is a word for a missing value, or a whole number with a point."""
    plain = draw.random() < 0.3  # names of one kind
    names: dict[str, None] = {}
    for _ in range(40 * number):
        name = (draw.choice(WORDS) if plain else draw_name(draw)).strip()
        if name and not is_blank(name) and not re.fullmatch(r"[-+]?\d+\.0*", name) and fit(name):
            names[name] = None
        if len(names) == number:
            break
    return list(names)


def draw_rows(draw: random.Random, names: Sequence[str], *, several: bool) -> Rows:
    """Draw the labels of 3 to 60 rows."""
    number = draw.choice((3, 4, 6, 10, 20, 30, 40, 60))
    weights = [1 / (1 + k) ** draw.choice((0, 0.5, 1)) for k in range(len(names))]
    mean = draw.choice((0.3, 1, 2, 4))
    blank = draw.choice((0, 0, 0.1))
    rows: Rows = []
    for _ in range(number):
        count = 1
        while several and count < len(names) and draw.random() < mean / (1 + mean):
            count += 1
        some = dict.fromkeys(draw.choices(names, weights, k=count))
        rows.append(() if draw.random() < blank else tuple(some))
    return rows


def joined_of_others(names: Sequence[str]) -> bool:
    """Whether a name consists of other names joined by a separator, so that it looks like several labels."""
    known = {*names}
    for name in names:
        for separator, (_, forms) in SEPARATORS.items():
            parts = [part.strip() for part in re.split(f"[{re.escape(forms)}]" if forms else r"\s+", name)]
            inner = [part for part in parts if part]
            if separator == " " and len(inner) < 2:
                continue
            if len(parts) > 1 and inner and all(part in known for part in inner):
                return True
    return False


def like_lists(cells: Sequence[str]) -> bool:
    """Whether names look like lists: one of them surely, such as `['a']`, or all of them, such as `{a}`."""
    surely = re.compile(r"""[\[({]\s*(['"].*['"])?\s*[\])}]|\[[-+\d\s.,]*\]""", re.DOTALL)
    filled = [cell.strip() for cell in cells if cell]
    return any(map(surely.fullmatch, filled)) or all(cell[0] in "[({<#" for cell in filled)


def ended(cells: Sequence[str]) -> bool:
    """Whether half of the cells end as if a separator stood at their ends."""
    used = {*cells} - {""}
    return 2 * sum(cell[-1] in ";,|；，、｜" for cell in used) >= len(used)


def recurs(rows: Rows) -> bool:
    """Whether the labels of rows with several recur, so that the text tells that it holds several.

    At least half of them stand in another combination, too, or hardly any row repeats.
    """
    cells = {frozenset(some) for some in rows if some}
    uses = Counter(name for some in cells for name in some)
    several = [name for some in cells if len(some) > 1 for name in some]
    if not several:
        return True
    unlike = len(rows) >= 20 and 2 * len(cells) > len(rows)
    common = 2 * sum(len(some) > 1 for some in cells) >= len(cells)
    return 2 * sum(uses[name] > 1 for name in several) >= len(several) or (unlike and common)


# -- forms of cells --------------------------------------------------------------------------------------


def postgres(names: Sequence[str]) -> str:
    def element(name: str) -> str:
        if re.search(r'[{},"\\\s]', name) or not name or name.upper() == "NULL":
            return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
        return name

    return "{" + ",".join(map(element, names)) + "}"


LISTS: dict[str, Callable[[Sequence[str]], str]] = {
    "json": lambda names: json.dumps(names),
    "json-compact": lambda names: json.dumps(names, ensure_ascii=False, separators=(",", ":")),
    "python-list": lambda names: repr([*names]),
    "python-tuple": lambda names: repr(tuple(names)),
    "python-set": lambda names: repr({*names}),
    "frozenset": lambda names: repr(frozenset(names)),
    "postgres": postgres,
    "numpy-str": lambda names: str(np.array(names, str)),
    "numpy-object": lambda names: str(np.array(names, object)),
    "numpy-repr": lambda names: repr(np.array(names, object)),
    "label-studio": lambda names: json.dumps({"choices": names}) if len(names) > 1 else "".join(names),
    "angle": lambda names: "".join(f"<{name}>" for name in names),
    "hashtags": lambda names: " ".join(f"#{name}" for name in names),
    "hashtags-close": lambda names: "".join(f"#{name}" for name in names),
}
_FIT: dict[str, Callable[[str], bool]] = {
    "angle": lambda name: not {*name} & {*"<>"} and name != "na",
    "hashtags": lambda name: not re.search(r"[#＃\s]", name),
    "hashtags-close": lambda name: not re.search(r"[#＃\s]", name),
    "label-studio": lambda name: "[" not in name,
    "postgres": lambda name: name[0] != "'" or name[-1] != "'",
}


def _fits(separator: str) -> Callable[[str], bool]:
    forms = SEPARATORS[separator][1]
    pattern = re.compile(f"[{re.escape(forms)}]" if forms else r"\s")
    marks = {*"".join(forms for _, forms in SEPARATORS.values())}
    return lambda name: not pattern.search(name) and not {*name} <= marks


def draw_cells(draw: random.Random) -> tuple[str, Rows, list[Any], bool]:
    """Draw labels and write them in a column. Returns the form, labels, cells, and if it is honest."""
    number = draw.choice((2, 3, 4, 6, 10, 20, 40))
    form = draw.choice(("one", "one", "one", "native", *LISTS, *LISTS, *STYLES, *STYLES, *STYLES))
    lossy = draw.random() < 0.03
    if form == "one":
        names = draw_names(draw, number)
        rows = draw_rows(draw, names, several=False)
        cells = ["".join(some) for some in rows]
        return "one name", rows, cells, not (ended(cells) or joined_of_others(names) or like_lists(cells))
    several = draw.random() < 0.9
    if form in STYLES:
        fit = _fits(form)
        names = draw_names(draw, number, (lambda name: True) if lossy else fit)
        rows = draw_rows(draw, names, several=several)
        mark = draw.choice(STYLES[form])
        ends = draw.choice(("", "", "", "", "end", "both")) if form in ";,|\n" else ""
        mixed = draw.random() < 0.1
        cells = []
        for some in rows:
            cell = (draw.choice(STYLES[form]) if mixed else mark).join(some)
            cell = f"{mark}{cell}" if ends == "both" and some else cell
            cells.append(f"{cell}{mark.rstrip(' ')}" if ends and some else cell)
        honest = all(map(fit, names)) and not joined_of_others(names) and recurs(rows)
        honest = honest and not like_lists(cells) and (bool(ends) or not ended(cells))
        return f"separated by {form!r}{' at the ends' if ends else ''}", rows, cells, honest
    names = draw_names(draw, number, _FIT.get(form, lambda name: True))
    rows = draw_rows(draw, names, several=several)
    if form == "native":
        kind = draw.choice((list, tuple))
        return "native lists", rows, [kind(some) for some in rows], True
    blank = draw.random() < 0.5 or form in ("angle", "hashtags", "hashtags-close")
    cells = ["" if blank and not some else LISTS[form](some) for some in rows]
    alike = form == "label-studio" and (joined_of_others(names) or like_lists([*chain(*rows)]))
    return form, rows, cells, not alike


# -- where they are written ------------------------------------------------------------------------------

FILES = ("csv", "csv;", "csv-tab", "csv-bar", "csv-bom", "csv-utf16", "tsv", "jsonl", "parquet")
PLURAL = ("labels", "tags")
MEMORY = ("frame", "series", "list")


def draw_table(draw: random.Random) -> Written:
    """Draw a table."""
    if draw.random() < 0.12:
        return _draw_marks(draw)
    form, rows, cells, honest = draw_cells(draw)
    native = form == "native lists"
    places = ("jsonl", "parquet", *MEMORY) if native else (*FILES, *MEMORY)
    place = "cells" if draw.random() < 0.75 else draw.choice(places)
    column = draw.choice(("label", "label", "labels", "tags", "category", "Genre"))
    if column in PLURAL and len(rows) < 20 and (form not in LISTS or form == "label-studio"):
        # A column with this name is expected to hold several labels.
        honest = honest and (
            (("';'" in form or "'|'" in form) and max(map(len, rows)) > 1)
            or native
            or not any(re.search("[;|；｜]", name) for some in rows for name in some)
        )
    return Written(form, rows, cells, place, column, (), honest)


def _draw_marks(draw: random.Random) -> Written:
    kind = draw.choice([*MARKS])
    names = draw_names(
        draw, draw.choice((2, 3, 5, 10, 20)), lambda name: name not in ("file", "label", "labels")
    )
    rows = draw_rows(draw, names, several=True)
    present, absent = MARKS[kind]
    counts = kind.startswith("counts")
    cells = [
        [
            (draw.choice(("1", present, "7")) if counts else present) if name in some else absent
            for name in names
        ]
        for some in rows
    ]
    places = ("csv", "csv;", "tsv", "jsonl", "parquet", "frame")
    native = not isinstance(present, str)
    return Written(
        f"marks {kind}",
        rows,
        cells,
        draw.choice(places[3:] if native else places),
        "",
        tuple(names),
        not counts or not any(map(_MEASURE.search, names)),
    )


def read_written(table: Written, folder: Path) -> list[set[str]]:
    """Write a table, and read it: the labels of each row.

    Args:
        table: The table.
        folder: Folder with the files 0.png to 59.png.

    Raises:
        InputError: The table is refused.
    """
    if table.place == "cells":
        plural = table.column in PLURAL
        found = label_cells(Column(table.cells), "x.csv: column", lambda row: f"row {row}", plural=plural)
        if len(found.unread):
            raise InputError(found.notes[-1])
        return [{*found.names[code]} for code in found.codes]
    if table.place in ("series", "list"):
        labels: Any = [*table.cells]
        if table.place == "series":
            import pandas

            labels = pandas.Series(labels, dtype=object)
        found = understand_labels(labels, None, (), "unknown")
        return [*map(set, found.observed.to_names(found.classes))]
    config = DataConfig(
        images=str(folder), label_column=table.column if table.column == "Genre" else "", unlabelled="stop"
    )
    header = ["file", *(table.header or (table.column,))]
    body = [[f"{row}.png", *(cells if table.header else [cells])] for row, cells in enumerate(table.cells)]
    if table.place == "frame":
        import pandas

        frame = pandas.DataFrame(body, columns=header, dtype=object)
        records = read_frame(frame, config)
    else:
        records = read_table(_write(header, body, table.place, folder), config)
    names = dict(
        zip((Path(name).name for name in records.ids), records.labels.to_names(records.classes), strict=True)
    )
    if table.header and {*records.classes} != {*table.header}:
        return [{f"classes are {records.classes}"}]
    return [{*names[f"{row}.png"]} for row in range(len(body))]


def _write(header: Sequence[str], body: Sequence[Sequence[Any]], place: str, folder: Path) -> Path:
    path = folder / f"table.{place[:3] if place[:3] == 'csv' else place}"
    if place == "parquet":
        import pyarrow
        from pyarrow import parquet

        columns = [
            [*map(list, cells)] if isinstance(cells[0], tuple) else [*cells]
            for cells in zip(*body, strict=True)
        ]
        parquet.write_table(pyarrow.Table.from_arrays([*map(pyarrow.array, columns)], names=header), path)
    elif place == "jsonl":
        lines = [json.dumps(dict(zip(header, row, strict=True))) for row in body]
        path.write_text("\n".join(lines), encoding="utf-8")
    else:
        delimiter = {"csv;": ";", "csv-tab": "\t", "csv-bar": "|", "tsv": "\t"}.get(place, ",")
        encoding = {"csv-bom": "utf-8-sig", "csv-utf16": "utf-16"}.get(place, "utf-8")
        with open(path, "w", encoding=encoding, newline="") as stream:
            csv.writer(stream, delimiter=delimiter).writerows([header, *body])
    return path


# -- what comes of them ----------------------------------------------------------------------------------


def make_folder(folder: Path) -> Path:
    """Make the files that tables name."""
    for row in range(60):
        (folder / f"{row}.png").write_bytes(b"")
    return folder


def outcome(table: Written, folder: Path) -> tuple[str, str]:
    """Outcome for a table: equal, refused or wrong; and the message, or what was read."""
    try:
        found = read_written(table, folder)
    except InputError as error:
        nothing = not any(table.rows)
        return ("equal" if nothing else "refused"), str(error)
    if found == [*map(set, table.rows)]:
        return "equal", ""
    row = next((k for k, some in enumerate(found) if some != {*table.rows[k]}), 0)
    return "wrong", f"row {row}: {table.cells[row]!r} is {sorted(found[row])}, not {sorted(table.rows[row])}"


def shrunk(table: Written, folder: Path) -> Written:
    """Leave out rows, as long as the table is read as something else."""
    size = max(1, len(table.rows) // 2)
    while size:
        start = 0
        while start < len(table.rows):
            keep = [k for k in range(len(table.rows)) if not start <= k < start + size]
            shorter = table._replace(rows=[table.rows[k] for k in keep], cells=[table.cells[k] for k in keep])
            if keep and recurs(shorter.rows) and outcome(shorter, folder)[0] == "wrong":
                table = shorter
            else:
                start += size
        size //= 2
    return table


def main() -> int:
    """Try tables and print what came of them. Returns the exit code: 1 if an honest one was read wrongly."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--number", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=20, help="tables that are printed")
    parser.add_argument("--refused", default="", help="form of which refused tables are printed")
    parsed = parser.parse_args()
    counts: Counter[tuple[str, str, str]] = Counter()
    left, start = parsed.show, time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = make_folder(Path(name))
        for number in range(parsed.number):
            table = draw_table(random.Random(f"{parsed.seed} {number}"))
            result, text = outcome(table, folder)
            large = len(table.rows) >= 20 and len({name for some in table.rows for name in some}) >= 3
            kind = (
                "honest, large"
                if table.honest and large
                else "honest, small"
                if table.honest
                else "not honest"
            )
            counts[table.form, kind, result] += 1
            if left and (
                (result == "wrong" and table.honest)
                or (result == "refused" and kind == "honest, large" and table.form == parsed.refused)
            ):
                left -= 1
                small = shrunk(table, folder) if result == "wrong" else table
                print(f"{number} {result}: {table.form}, {table.place}, {table.column}: {text}")
                print(
                    f"    {[*small.cells][:60]} {small.header}\n    {outcome(small, folder)[1]}", flush=True
                )
    for form, kind in sorted({key[:2] for key in counts}, key=lambda key: (key[1], key[0])):
        equal, refused, wrong = (counts[form, kind, result] for result in ("equal", "refused", "wrong"))
        total = equal + refused + wrong
        print(
            f"{kind:14} {form:28} {equal:7,} equal {refused:6,} refused ({refused / total:6.1%})"
            f" {wrong:5,} wrong"
        )
    totals = Counter[tuple[str, str]]()
    for (_, kind, result), count in counts.items():
        totals[kind, result] += count
    print(
        {" ".join(key): count for key, count in sorted(totals.items())}, f"{time.monotonic() - start:.0f} s"
    )
    return int(
        any(count for (_, kind, result), count in counts.items() if result == "wrong" and kind[0] == "h")
    )


if __name__ == "__main__":
    sys.exit(main())
