"""Labels in cells: every form, what decides between forms, and what is refused."""

from __future__ import annotations

import time

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.data.tables.cells import parse_cells, split_cell, whole_numbers
from spml.data.tables.values import Listed, is_blank, parse_list


def parse(*cells, counts=None, **options):
    """Names in some distinct cells."""
    number = np.ones(len(cells), np.int64) if counts is None else np.array(counts)
    return parse_cells(cells, number, "x.csv: column 'tags'", **options)


@pytest.mark.parametrize(
    ("cell", "names"),
    [
        ("['cat', 'dog']", ("cat", "dog")),
        ('["cat", "traffic light, red"]', ("cat", "traffic light, red")),
        (r'["caf\u00e9", "a \"b\""]', ("café", 'a "b"')),
        ("['cat' 'dog']", ("cat", "dog")),
        ("['cat'\n 'dog']", ("cat", "dog")),
        ("['it''s']", ("it", "s")),
        ("[\"dog's\", 'x']", ("dog's", "x")),
        ("['dog's', 'boys' room']", ("dog's", "boys' room")),
        (r"['dog\'s', 'caf\xe9', 'a\\b']", ("dog's", "café", r"a\b")),
        ("('cat', 'dog')", ("cat", "dog")),
        ("('cat',)", ("cat",)),
        ("{'cat', 'dog'}", ("cat", "dog")),
        ("set()", ()),
        ("frozenset({'cat'})", ("cat",)),
        ("array(['cat', 'dog'], dtype=object)", ("cat", "dog")),
        ("array(['cat', 'dog'], dtype='<U3')", ("cat", "dog")),
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
    ],
)
def test_what_may_be_a_list_or_a_name(cell, names):
    assert parse_list(cell) == Listed(names, False)


@pytest.mark.parametrize(
    "cell", ["cat", "cat]", "[cat", "['cat' ... 'dog']", "[{'id': 1, 'name': 'cat'}]", "##", "<>", "["]
)
def test_what_is_no_list(cell):
    assert parse_list(cell) is None


@pytest.mark.parametrize(
    ("separator", "cell", "names"),
    [
        (";", "cat ; dog;", ("cat", "dog")),
        ("|", "|cat|dog|", ("cat", "dog")),
        (";", "cat；dog", ("cat", "dog")),
        (",", "cat、dog，sea", ("cat", "dog", "sea")),
        (" ", "cat  dog", ("cat", "dog")),
        ("\n", "cat\r\n\r\ndog", ("cat", "dog")),
        ("::", "cat:: dog", ("cat", "dog")),
        (";", "cat;;dog", None),
    ],
)
def test_split_cell(separator, cell, names):
    assert split_cell(cell, separator) == names


@pytest.mark.parametrize("separator", ["; ", "|", ", ", " # ", "/", " + ", " & ", " ", "\n", "；", "、"])
def test_parts_that_recombine_are_labels(separator):
    cells = [separator.join(names) for names in (["cat", "dog"], ["dog", "sea"], ["cat"], ["dog"], ["sea"])]
    reading = parse(*cells)
    assert reading.names == [("cat", "dog"), ("dog", "sea"), ("cat",), ("dog",), ("sea",)]
    assert "100% of the parts also occur in other cells, 100% alone; 2 cells of 5" in reading.why


def test_many_parts_in_cells_that_hardly_repeat_are_labels():
    tags = ["1girl", "solo", "smile", "hat", "tree", "cat"]
    cells = [
        " ".join(tags[k] for k in range(6) if number >> k & 1)
        for number in range(64)
        if number.bit_count() > 1
    ]
    reading = parse(*cells, "1girl solo ;)")
    assert reading.names[-1] == ("1girl", "solo", ";)")
    assert reading.names[0] == ("1girl", "solo")
    # The same cells, each many times, may as well be names.
    with pytest.raises(InputError, match="ambiguous"):
        parse(*cells[:20], counts=[100] * 20)


@pytest.mark.parametrize(
    "cells",
    [
        ["cat", "mouse, grey", "dog"],
        ["tench, Tinca tinca", "goldfish, Carassius auratus", "house finch, linnet, Carpodacus mexicanus"],
        ["traffic light", "stop sign", "hot dog", "dog", "fire hydrant", "baseball bat", "baseball glove"],
        ["C#", "C++", "R&B", "AC/DC", "dog (small)", "[removed]", "it's", '12" record', ";)", "a;"],
        [
            "Laysan Albatross",
            "Sooty Albatross",
            "Rusty Blackbird",
            "Yellow headed Blackbird",
            "Indigo Bunting",
        ],
        ["#1 fan", "cat", "dog", "sea"],
        ["{x", "y]"],
    ],
)
def test_names_with_separators_stay_whole(cells):
    assert parse(*cells).names == [(cell,) for cell in cells]


def test_one_cell_never_decides():
    cells = [f"tag{k % 7} tag{k % 5 + 7} tag{k % 3 + 12}" for k in range(40)] + ["tag1 tag8", "tag3"]
    assert parse(*cells, "tag2 ;)").names[-1] == ("tag2", ";)")


@pytest.mark.parametrize(
    ("cells", "first", "second"),
    [
        (
            ["Cattle, domestic", "Cattle, wild", "Sheep, domestic", "Dog"],
            (
                "one label per cell (4 classes, 1.00 labels per sample, such as 'Cattle, domestic'): pass "
                "data.separator=''"
            ),
            (
                "separated by commas (5 classes, 1.75 labels per sample, such as 'Cattle', 'domestic'): pass "
                "data.separator=','"
            ),
        ),
        (
            ["dog / beach", "dog + beach", "dog", "beach"],
            (
                "separated by slashes (3 classes, 1.25 labels per sample, such as 'dog', 'beach'): pass "
                "data.separator='/'"
            ),
            (
                "separated by plus signs (3 classes, 1.25 labels per sample, such as 'dog', 'beach'): pass "
                "data.separator='+'"
            ),
        ),
        (
            ["animal/dog", "animal/cat", "plant/rose"],
            (
                "one label per cell (3 classes, 1.00 labels per sample, such as 'animal/dog'): pass"
                " data.separator=''"
            ),
            (
                "separated by slashes (5 classes, 2.00 labels per sample, such as 'animal', 'dog'): pass "
                "data.separator='/'"
            ),
        ),
        (
            ["red car", "red bus", "blue car", "blue bus"],
            (
                "one label per cell (4 classes, 1.00 labels per sample, such as 'blue car'): pass"
                " data.separator=''"
            ),
            (
                "separated by spaces (4 classes, 2.00 labels per sample, such as 'blue', 'car'): pass"
                " data.separator=' '"
            ),
        ),
    ],
)
def test_without_clear_evidence_both_readings_are_named(cells, first, second):
    with pytest.raises(InputError) as caught:
        parse(*cells)
    assert str(caught.value) == f"x.csv: column 'tags': ambiguous: labels may be {first}; or {second}."


def test_a_separator_that_hardly_occurs_in_names_is_expected_in_a_column_for_several():
    assert parse("cat;dog", "big cow", plural=True).names == [("cat", "dog"), ("big cow",)]
    with pytest.raises(InputError, match="ambiguous"):
        parse("cat;dog", "sea;sun")
    with pytest.raises(InputError, match="ambiguous"):
        parse("cat, dog", "big cow", plural=True)


def test_stated_separator():
    assert parse("cat dog", "cow", separator=" ").names == [("cat", "dog"), ("cow",)]
    assert parse("cat;dog", "cat", "dog", separator="").names == [("cat;dog",), ("cat",), ("dog",)]
    assert parse("[1, 2]", "x", separator="").names == [("[1, 2]",), ("x",)]
    assert parse('{"choices":["cat","dog"]}', "cat,cow", separator=",").names == [
        ("cat", "dog"),
        ("cat", "cow"),
    ]
    assert parse("cat;;dog", "dog", separator=";").names == [None, ("dog",)]
    for typed in (r"\n", r"\t"):
        assert parse(typed.encode().decode("unicode_escape").join("ab"), separator=typed).names == [
            ("a", "b")
        ]


def test_separators_at_the_ends_are_part_of_no_name():
    assert parse("cat;", "dog;", "sea;").names == [("cat",), ("dog",), ("sea",)]
    assert parse("cat,", "cat", "dog").names == [("cat",), ("cat",), ("dog",)]
    assert parse("|cat|", "|cat|dog|", "|dog|").names == [("cat",), ("cat", "dog"), ("dog",)]
    with pytest.raises(InputError, match=r"one label per cell .* separated by commas"):
        parse("x,", "y,", "bird", "sea")


def test_lists_among_plain_cells():
    assert parse("['cat', 'dog']", "sea", "['sea']").names == [("cat", "dog"), ("sea",), ("sea",)]
    assert parse('{"choices":["cat","dog"]}', "cat", "dog").names == [("cat", "dog"), ("cat",), ("dog",)]
    assert parse("{cat,dog}", "cat", "dog", "sea", "sun").names[0] == ("cat", "dog")
    assert parse("{other}", "cat", "dog", "sea").names[0] == ("{other}",)
    reading = parse("['cat']", "['dog'", "['cat' ... 'dog']", "")
    assert reading.names == [("cat",), ("['dog'",), None, ()]


def test_a_mark_of_names_is_not_read_as_a_separator_or_a_missing_value():
    assert parse("{-}", "cat", "dog", "sea").names[0] == ("{-}",)
    with pytest.raises(InputError, match=r"separated by #.* or separated by spaces"):
        parse("[removed]", "[removed] #9", "old #9", "old")


def test_entries_of_lists_are_what_they_are():
    assert parse(("a", "b"), ("c",), ()).how == "lists"
    assert parse(("a", "b"), "c").how == "lists, otherwise one label per cell"
    assert parse(("a, b", "c"), ("c;d",), ()).names == [("a, b", "c"), ("c;d",), ()]


def test_known_names_are_whole():
    assert parse("cat, dog", "cat", "dog", known=("cat, dog", "cat", "dog")).names == [
        ("cat, dog",),
        ("cat",),
        ("dog",),
    ]
    assert parse("cat, dog", "cat", "dog", known=("cat", "dog")).names[0] == ("cat", "dog")


@pytest.mark.parametrize(
    "cells", [["[1, 0, 0]", "[0, 1, 0]"], ["1 0 0", "0 1 0", "1 1 0"], [("1", "0"), ("1", "1")]]
)
def test_rows_of_zeros_and_ones_are_refused(cells):
    with pytest.raises(InputError, match=r"rows of \d zeros and ones, such as .*do not name the classes"):
        parse(*cells, separator=None if cells[0] != "1 0 0" else " ")


def test_class_indices_are_no_rows():
    assert parse("0", "1").names == [("0",), ("1",)]
    assert parse("[0, 1]", "[1]").names == [("0", "1"), ("1",)]


def test_missing_values_and_numbers():
    words = ["nan", "None", "N/A", "NA", "null", "unknown", "-", "", "NaN", "<NA>"]
    assert all(map(is_blank, words))
    assert not any(map(is_blank, ["na", "Nan Madol", "nano", "x", "0"]))
    assert whole_numbers(["3", "3.0", "2.5"]) == {"3.0": "3"}
    assert whole_numbers(["3.0", "7.0"]) == {"3.0": "3", "7.0": "7"}
    assert whole_numbers(["1.0", "2.5"]) == {}
    assert whole_numbers(["1.0", "cat"]) == {}


@pytest.mark.parametrize(
    "cells",
    [
        ["C++", "cs.CV", "dog"],
        ["hot dog", "hot", "dog", "big sea"],
        ["Nancy/class/blue", "blue", "Nancy", "sea", "x_y"],
        ["[removed]", "cat", "dog"],
        ["{other}", '{"choices": ["{other}", "cat"]}', "cat"],
        ["(small)", "(large)", "cat"],
        ["2nd, 7", '{"choices": ["2nd, 7", "7"]}', "7", "2nd"],
        [";_;", "7", "dog", "sea"],
    ],
)
def test_names_that_look_like_several_stay_whole_or_are_refused(cells):
    try:
        names = parse(*cells).names
    except InputError:
        return
    assert all(found in (None, (cell,)) or cell[:2] == '{"' for cell, found in zip(cells, names, strict=True))


@pytest.mark.parametrize(
    ("cells", "counts"),
    [
        ([".NET", "C#", "sea", "7", ".NET/42", "7  .NET", "7  .NET/42"], [5, 4, 4, 4, 4, 2, 1]),
        (["hat'bird", "猫 hat'bird", "hat'bird #:犬", "猫 hat'bird #:犬"], [1, 1, 1, 1]),
    ],
)
def test_a_separator_is_not_taken_if_as_much_speaks_for_spaces(cells, counts):
    with pytest.raises(InputError, match=r"ambiguous: labels may be separated by .* separated by spaces"):
        parse(*cells, counts=counts)


@pytest.mark.parametrize(
    "cells",
    [
        ["猫；犬", "犬|/ß'.:é", "猫；犬|/ß'.:é"],
        ["a; traffic; cat|", "yes|a; traffic; cat|"],
        ["a{", ":)", "labels", "é! , | light; nano; finch", "light; nano; finch", "é"],
    ],
)
def test_a_separator_is_not_taken_if_as_much_speaks_for_another(cells):
    with pytest.raises(InputError, match=r"separated by semicolons .* separated by bars"):
        parse(*cells, plural=True)


@pytest.mark.parametrize("two", [["a|b", "'|b", "a"], ["sun + NaNa", "NaNa + old", "sun", "old"]])
def test_two_names_of_many_do_not_make_a_separator(two):
    cells = [*two, "tag", "7", "hair", "sea", "x", "nano", "big"]
    counts = [2, 1] + [3] * (len(cells) - 2)
    with pytest.raises(InputError, match="ambiguous"):
        parse(*cells, counts=counts, plural=True)


def test_hashtags_stand_in_all_cells():
    cells = ["#a#;x;é", "y;#a#;x", "x", "é", "#a#;y;#a#"]
    names = parse(*cells).names
    assert names == [("#a#", "x", "é"), ("y", "#a#", "x"), ("x",), ("é",), ("#a#", "y", "#a#")]


def test_a_separator_inside_names_does_not_compete_with_that_of_the_column():
    cells = ["|;_;|", "|cat|;_;|", "|cat|", "|dog|cat|", "|dog|"]
    assert parse(*cells, plural=True).names[1] == ("cat", ";_;")
    cells = ["y + x & Nancy", "Nancy & sea", "y + x", "sea", "Nancy", "sea & y + x"]
    assert parse(*cells).names[0] == ("y + x", "Nancy")


def test_apostrophes_in_arrays_of_postgresql():
    assert parse_list("{sea,''}") == Listed(("sea", "''"), False)
    assert parse_list("{'-/!]&}") == Listed(("'-/!]&",), False)


def test_long_cells_take_no_long_time():
    for cell in (
        "array([" + ", dtype=" * 12_000 + "])",
        "['" + "'" * 100_000 + "']",
        "{" + "a," * 50_000 + "}",
    ):
        start = time.perf_counter()
        parse_list(cell)
        assert time.perf_counter() - start < 3
