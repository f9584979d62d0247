"""Labels in cells: every rule, and what is refused."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from spml.common.errors import InputError
from spml.data.tables.cells import (
    Column,
    Listed,
    Rules,
    label_cells,
    parse_cells,
    parse_list,
    split_cell,
    whole_numbers,
)
from spml.data.values import is_blank

TAGS = Rules(plural=True)


def parse(*cells, rules=Rules()):  # noqa: B008
    """Names in some distinct cells."""
    return parse_cells(cells, "x.csv: column 'x'", rules).names


def labels(*cells, rules=TAGS):
    """Names that are present, absent and doubtful in some distinct cells, and the notes."""
    found = label_cells(Column(cells), "x", "row {}".format, rules)
    return found.names, found.absent, found.doubtful, " ".join(found.notes)


@pytest.mark.parametrize(
    ("cell", "names"),
    [
        ("['cat', 'dog']", ("cat", "dog")),
        ('["cat", "traffic light, red"]', ("cat", "traffic light, red")),
        (r'["caf\u00e9", "a \"b\""]', ("café", 'a "b"')),
        ("[\"dog's\", 'x']", ("dog's", "x")),
        (r"['dog\'s', 'caf\xe9', 'a\\b']", ("dog's", "café", r"a\b")),
        ("('cat', 'dog')", ("cat", "dog")),
        ("('cat',)", ("cat",)),
        ("{'cat', 'dog'}", ("cat", "dog")),
        ("set()", ()),
        ("frozenset({'cat'})", ("cat",)),
        ('{"choices":["cat","dog"]}', ("cat", "dog")),
        ("[3, 7]", ("3", "7")),
        ("[1 0 0]", ("1", "0", "0")),
        ("['cat', None, nan]", ("cat", "None", "nan")),
        ("[ ]", ()),
        ("{}", ()),
    ],
)
def test_what_only_a_list_is_written_like(cell, names):
    assert parse_list(cell) == Listed(names, True)


@pytest.mark.parametrize(
    ("cell", "names"),
    [
        ("[cat, traffic light]", ("cat", "traffic light")),
        ("{cat,dog}", ("cat", "dog")),
        ('{cat,"a, b"}', ("cat", "a, b")),
        ("(cat, dog)", ("cat", "dog")),
        ("<cat><dog>", ("cat", "dog")),
        ("#cat #dog#sea", ("cat", "dog", "sea")),
        ("{sea,''}", ("sea", "''")),  # apostrophes in arrays of PostgreSQL
        ("{'-/!]&}", ("'-/!]&",)),
    ],
)
def test_what_may_be_a_list_or_a_name(cell, names):
    assert parse_list(cell) == Listed(names, False)


@pytest.mark.parametrize(
    "cell", ["cat", "cat]", "[cat", "['dog's', 'x']", "[{'id': 1, 'name': 'cat'}]", "##", "<>", "["]
)
def test_what_is_no_list(cell):
    assert parse_list(cell) is None


@pytest.mark.parametrize(
    ("separator", "cell", "names"),
    [
        (";", "cat ; dog;", ("cat", "dog")),
        ("|", "|cat|dog|", ("cat", "dog")),
        (";", "cat；dog", ("cat", "dog")),
        (",", "cat，dog", ("cat", "dog")),
        ("、", "cat、dog", ("cat", "dog")),
        (" ", "cat  dog", ("cat", "dog")),
        ("\n", "cat\r\n \r\ndog\n", ("cat", "dog")),
        ("&", "cat and dog & sea or sun", ("cat", "dog", "sea", "sun")),
        ("::", "cat:: dog", ("cat", "dog")),
        (";", "cat;;dog", None),
        ("|", "cat || dog", ("cat", "dog")),
        (",", "cat, dog, and sea, or sun", ("cat", "dog", "sea", "sun")),
        (",", "cat, android", ("cat", "android")),
    ],
)
def test_split_cell(separator, cell, names):
    assert split_cell(cell, separator) == names


ONE = {"separator": ""}
READ = {  # besides the examples of docs/data.md
    # hard separators, in any column
    "Arabic commas": ({}, ["كلب، شاطئ", "بحر"], [("كلب", "شاطئ"), ("بحر",)]),
    "full-width bars": ({}, ["a｜b"], [("a", "b")]),
    "lines": ({}, ["a b\nc", "c"], [("a b", "c"), ("c",)]),
    "tabs": ({}, ["a\tb"], [("a", "b")]),
    "nothing between two": ({}, ["a;;b", "c;d"], [None, ("c", "d")]),
    "a comma beside a hard one": ({}, ["a, x;b", "b"], [("a, x", "b"), ("b",)]),
    # commas: by the name of the column
    "commas in a stated column": ({"stated": True}, ["a, b"], [("a", "b")]),
    # blanks
    "blanks in a singular": ({}, ["light rain", "rain"], [("light rain",), ("rain",)]),
    "a face": ({"plural": True}, ["1girl long_hair ;)"], [("1girl", "long_hair", ";)")]),
    # one label
    "marks inside names": ({}, ["C#", "C++", "R&B", "AC/DC"], [("C#",), ("C++",), ("R&B",), ("AC/DC",)]),
    "single names in brackets": ({}, ["(small)", "{other}", "[removed]", "cat"],
                                 [("(small)",), ("{other}",), ("[removed]",), ("cat",)]),
    # lists
    "lists and names": ({}, ["['a', 'b']", "c", '{"choices": ["a", "c"]}'], [("a", "b"), ("c",), ("a", "c")]),
    "lists and names with a comma": ({"plural": True}, ["['a', 'b']", "a, b"], [("a", "b"), ("a", "b")]),
    "lists and names with a blank": ({"plural": True}, ["['a b', 'c']", "d e"], [("a b", "c"), ("d e",)]),
    "names in lists are whole": ({}, ['["a, b"]', "a, b"], [("a, b",), ("a, b",)]),
    "damaged lists": ({}, ["['a']", "['b'", "['dog's', 'x']"], [("a",), ("['b'",), None]),
    "entries": ({}, [("a, b", "c"), ("c;d",), ()], [("a, b", "c"), ("c;d",), ()]),
    # what is stated wins
    "stated whole": (ONE, ["a;b", "[1, 2]", "a b"], [("a;b",), ("[1, 2]",), ("a b",)]),
    "stated blank": ({"separator": " "}, ["a b"], [("a", "b")]),
    "stated as typed": ({"separator": "\\n"}, ["a\nb"], [("a", "b")]),
    "stated beside lists": ({"separator": ","}, ['["a, b"]', "c,d"], [("a, b",), ("c", "d")]),
    "known names": ({"keep": ("a, b",)}, ["a, b", "c"], [("a, b",), ("c",)]),
    # one place per class
    "one-hot": ({"one_hot": ("x", "y", "z")}, ["1,0,1", "0 1 0", "[0, 0, 0]"], [("x", "z"), ("y",), ()]),
    "class numbers": ({"plural": True}, ["0", "1", "0,1"], [("0",), ("1",), ("0", "1")]),
    "one-hot digits": ({"one_hot": ("x", "y", "z")}, ["101", "010"], [("x", "z"), ("y",)]),
    "names of digits": (ONE, ["101", "010"], [("101",), ("010",)]),
    "numbers in base ten": ({}, ["10", "11", "100"], [("10",), ("11",), ("100",)]),
}  # fmt: skip


@pytest.mark.parametrize(("rules", "cells", "names"), READ.values(), ids=READ)
def test_what_cells_hold(rules, cells, names):
    assert parse(*cells, rules=Rules(**rules)) == names


REFUSED = {
    "two kinds": ({}, ["a;b", "c|d"], r"separator=''; or .*semicolons.*=';'; or .*bars.*='\|'"),
    "a comma in a singular": ({}, ["a, b", "b"], r"commas, such as 'a', 'b': pass data\.separator=,; or one"),
    "a comma in names": ({}, ["Cattle, domestic"], "commas.*; or one label per cell"),
    "plain names in a plural": ({"plural": True}, ["living room", "fried rice"], "spaces.*; or one label"),
    "and": ({}, ["a and b", "a", "b"], r"`and` or &, such as 'a', 'b': pass data\.separator='&'; or"),
    "with": ({"plural": True}, ["a with b_c"], "separated by `and` or &.*; or .*'a with b_c'"),
    "backslashes": ({}, ["a\\b", "a", "b"], r"backslashes, such as 'a', 'b': pass data\.separator='\\'; or"),
    "a taxonomy": ({"plural": True}, ["a > b", "a > c"], r"separated by >, such as 'a', 'b'.*; or one"),
    "middle dots": ({"plural": True}, ["a · b", "a"], r"middle dots, such as 'a', 'b'"),
    "one-hot": ({}, ["1,0,0", "0,1,0"], r"3 zeros and ones, such as '1 0 0'.*one_hot=CLASS1,CLASS2,CLASS3"),
    "one-hot digits": ({}, ["100", "010"], r"rows of 3 zeros and ones.*If they are names, .*separator=''"),
    "one-hot in lists": ({}, ["[1 0]", "[0 1]"], r"rows of 2 zeros and ones"),
    "one-hot in entries": ({}, [("1", "0"), ("1", "1")], r"rows of 2 zeros and ones"),
    "one-hot of others": ({"one_hot": ("x", "y")}, ["1 0 1"], "names 2 classes, but not every cell"),
    "printed by NumPy": ({}, ["['cat' 'dog']"], r"arrays as NumPy prints them\. Write lists with commas"),
    "shortened by NumPy": ({}, ["['cat'\n ... 'dog']"], "arrays as NumPy prints them"),
    "arrays": ({}, ["array(['cat', 'dog'], dtype=object)"], "arrays as NumPy prints them"),
    "nested JSON": ({}, ['{"a": {"b": true}}'], "nested JSON, such as .*Write the names of each row"),
    "a list of objects": ({}, ["[{'a': 1}]"], "nested JSON"),
    "objects in entries": ({}, [("{'a': 1}",)], "nested JSON"),
    "a list in a list": ({}, ['["a", ["b"]]'], "nested JSON"),
}  # fmt: skip


@pytest.mark.parametrize(("rules", "cells", "message"), REFUSED.values(), ids=REFUSED)
def test_what_no_rule_decides(rules, cells, message):
    with pytest.raises(InputError, match=message) as caught:
        parse(*cells, rules=Rules(**rules))
    assert str(caught.value).startswith("x.csv: column 'x': ")


@pytest.mark.parametrize("rules", [Rules(), TAGS])
def test_how_often_a_cell_occurs_decides_nothing(rules):
    cells = ["red car", "red bus", "blue car", "a; b"]
    once, often = (label_cells(Column(cells * n), "x", str, rules).names for n in (1, 500))
    assert once == often == [("red car",), ("red bus",), ("blue car",), ("a", "b")]


def test_marks_at_names():
    names, absent, doubtful, notes = labels("dog;-beach", "beach; !dog", "no dog", "not_dog", "without beach")
    assert names == [("dog",), ("beach",), (), (), ()]
    assert absent == [("beach",), ("dog",), ("dog",), ("dog",), ("beach",)]
    assert "'no dog' says that 'dog' is known to be absent" in notes
    _, _, _, notes = labels("dog;-beach", "beach;cat;!dog")
    assert "separated by semicolons, 3 classes, 1.50 labels per sample" in notes
    names, absent, doubtful, notes = labels("dog?;sea", "?dog", "dog (?)", "dog", "cat?")
    assert names == [("sea",), (), (), ("dog",), ()]
    assert doubtful == [("dog",), ("dog",), ("dog",), (), ("cat",)]
    assert "'dog?' says that 'dog' is unknown" in notes
    names, absent, _, _ = labels("maybe Hund;Hund", "non-Hund", "Hund absent", rules=Rules())
    assert names == [("maybe Hund", "Hund"), (), ()]
    assert absent == [(), ("Hund",), ("Hund",)]
    # without the bare name they are names
    assert labels("cf. Parus major;maybe cat;sin city")[0] == [("cf. Parus major", "maybe cat", "sin city")]
    assert labels("No Finding;Mass", "-x")[0] == [("No Finding", "Mass"), ("-x",)]
    assert labels("1", "-1")[0] == [("1",), ("-1",)]
    for rules in (Rules(marks="keep"), Rules(keep=("no dog", "dog?"))):
        assert labels("dog", "no dog", "dog?", rules=rules)[0] == [("dog",), ("no dog",), ("dog?",)]
    with pytest.raises(InputError, match="row 0: 'dog;-dog' says that 'dog' is present, and that it is not"):
        labels("dog;-dog")


SCORES = [
    ["dog:0.82; sea:0.1"], ["dog (0.98), sea (0.75)"], ["dog:0.98 sea:0.75"], ["dog 82%; sea"],
    ["2x dog; sea"], ["dog x3; sea"], [("dog:0.9", "sea")], ["dog = 0,5;sea"], ["dog (2);sea"],
    ["dog@0.9;sea"],
]  # fmt: skip


@pytest.mark.parametrize("cells", SCORES)
def test_scores_and_counts_are_no_labels(cells):
    with pytest.raises(InputError, match=r"scores or counts.*pass data\.marks=cut; .*pass data\.marks=keep"):
        labels(*cells)
    assert labels(*cells, rules=Rules(plural=True, marks="cut"))[0] == [("dog", "sea")]


def test_numbers_in_names_are_no_scores():
    names = ["GO:0005500", "Dune (2021)", "4x4", "n02084071", "cs.CV", "A4", "12:30", "7 up"]
    assert labels(";".join(names))[0] == [tuple(names)]


def test_missing_values_and_numbers():
    words = ["nan", "None", "N/A", "NA", "null", "unknown", "-", "", "NaN", "<NA>"]
    assert all(map(is_blank, words))
    assert not any(map(is_blank, ["na", "Nan Madol", "nano", "x", "0"]))
    assert whole_numbers(["3", "3.0", "2.5"]) == {"3.0": "3"}
    assert whole_numbers(["3.0", "7.0"]) == {"3.0": "3", "7.0": "7"}
    assert whole_numbers(["1.0", "2.5"]) == {}
    assert whole_numbers(["1.0", "cat"]) == {}


def test_long_cells_take_no_long_time():
    for cell in (
        "array([" + ", dtype=" * 12_000 + "])",
        "['" + "'" * 100_000 + "']",
        "{" + "a," * 50_000 + "}",
        "a" + " " * 100_000 + "b",
        "a:" * 50_000,
        "{" * 100_000 + "}",
    ):
        start = time.perf_counter()
        with suppress(InputError):
            labels(cell)
        assert time.perf_counter() - start < 3
