"""Tables written by the rules are read as they were written, whatever the names; others are refused.

python -m tests.data.tables.test_round_trip 100000
"""

from __future__ import annotations

import csv
import json
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data.tables.rows import read_table

WORDS = (
    "cat", "dog", "sea", "sun", "red", "hot", "big", "light", "house", "Ente", "Straße", "café", "long_hair",
    "1girl", "rust", "NaNa", "x", "yes", "3", "7", "42", "2nd", "z", "犬", "猫", "海辺", "🐱",
    "R2D2", "cs.CV",
    "q-bio", "n02084071", "img.png", "A4", "C#", "C++", ".NET", "label", "file", "split", "train", "tag",
)  # fmt: skip
ODD = (
    "R&B", "AC/DC", "Home & Garden", "#1 fan", "it's", "rock 'n' roll", '12" record', "[removed]", "{other}",
    "(small)", "dog (small)", "<unk>", "Cattle, domestic", "light, red", ";)", ";_;", "a|b", "shirt; blue",
    "\\n",
    "100%", "-x", "no sea", "not red", "?!", "a:b", "GO:0005500", "犬、猫", "living room", "no effusion", "'",
    '"',
    "None of these", "unknown bird", "1,5", "Dune (2021)", "M8 x 20", "what?", "dog and cat", "a  b",
)  # fmt: skip
JOINS = {";": "; ", "|": "|", "\n": "\n", "、": "、", ",": ", "}
MARKS = (
    ("1", "0"),
    ("1", ""),
    ("x", ""),
    ("yes", "no"),
    ("True", "False"),
    ("+", "-"),
    ("✓", ""),
    ("1", "-1"),
)


def draw(random_: random.Random) -> tuple[list[list[str]], str, list[list[str]], dict[str, object]]:
    """Rows of a table with the settings that a person would state, the form, and the labels of each row."""
    form = random_.choice((*JOINS, "json", "python", "marks", "one", "stated"))
    # By the rules, separators and marks at names say something, except where names are quoted or stated.
    said = "" if form in ("marks", "stated") else "?" if form in ("json", "python") else ";|、,?"
    odd = [name for name in ODD if not {*said} & {*name} and not (said and name.startswith(("-", "no")))]
    odd = [name for name in odd if form != "one" or name[0] not in "[{(<"]  # all of them would be lists
    pool = [random_.choice(WORDS if random_.random() < 0.6 else odd) for _ in range(random_.randint(2, 6))]
    names = [name if random_.random() < 0.7 else f"{name} {random_.choice(WORDS)}" for name in pool]
    names = [*dict.fromkeys([*names, "cat", "dog"])]
    most = 1 if form == "one" else 2  # and the first row shows how several are written
    counts = [most, *(random_.randint(1, most) for _ in range(random_.randint(2, 8)))]
    labels = [sorted(random_.sample(names, count)) for count in counts]
    columns = ("label", "class", "Genre") if form == "one" else ("labels", "tags", "Categories")
    column, options = random_.choice(columns), dict[str, object]()
    if form == "marks":
        yes, no = random_.choice(MARKS)
        header = [*names]
        cells = [[yes if name in some else no for name in names] for some in labels]
        options["label_column"] = ",".join('"' + name.replace('"', '""') + '"' for name in names)
    else:
        header = [column]
        joined = {"json": json.dumps, "python": repr, "one": "".join, "stated": "::".join}
        cells = [[joined.get(form, JOINS.get(form, "").join)(some)] for some in labels]
    if form == "stated":
        options |= {"separator": "::", "marks": "keep"}
    rows = [["file", *header], *([f"{k}.png", *some] for k, some in enumerate(cells))]
    return rows, form, labels, options


def outcome(folder: Path, seed: str) -> tuple[str, str]:
    """Whether a table was `read`, `refused`, or `wrong`, and its form and what was read."""
    rows, form, labels, options = draw(random.Random(seed))
    with open(folder / "data.csv", "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows(rows)
    try:
        records = read_table(folder / "data.csv", DataConfig(**options))
    except InputError:
        return "refused", form
    found = [sorted(some) for some in records.labels.to_names(records.classes)]
    if found == labels:
        return "read", form
    return "wrong", f"{form}: {rows} -> {found}"


def folder_of_images(folder: Path) -> Path:
    for k in range(9):
        (folder / f"{k}.png").touch()
    return folder


def test_tables_are_read_as_they_were_written(tmp_path):
    counts: Counter[str] = Counter()
    place = folder_of_images(tmp_path)
    for k in range(300):
        result, what = outcome(place, f"test {k}")
        assert result != "wrong", what
        counts[result] += 1
    assert counts["read"] > 100


if __name__ == "__main__":
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        place = folder_of_images(Path(name))
        for k in range(int(sys.argv[1])):
            result, what = outcome(place, f"{k}")
            total[result] += 1
            if result == "wrong":
                print(what)
    print(dict(total))
