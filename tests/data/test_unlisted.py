"""Unlisted labels that mean something else for each class, or for each row of a table."""

from __future__ import annotations

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import read_memory
from spml.data.readers import read
from spml.data.records import take_rows
from spml.data.rename import named_classes, with_negatives

ROWS = ("file,labels", "a.png,cat;dog", "b.png,dog", "c.png,bird", "d.png,cat", "e.png,")


def ternary(path, unlisted, **options):
    records = read(DataConfig(path=str(path), unlisted=unlisted, separator=";", **options))
    return records.classes, records.labels.to_ternary().tolist()


def test_classes(table):
    path = table(*ROWS)
    known = [[0, 1, 1], [0, -1, 1], [1, -1, -1], [0, 1, -1], [0, -1, -1]]
    assert ternary(path, "negative:dog,cat") == (("bird", "cat", "dog"), known)
    assert ternary(path, "negative:bird,cat,dog") == ternary(path, "negative")
    assert ternary(path, "negative:dog,cat", rename={"cat": "tom", "bird": "cat"})[1] == [
        [-1, 1, 1], [-1, 1, 0], [1, -1, 0], [-1, -1, 1], [-1, -1, 0],
    ]  # fmt: skip
    note = "A label that is not listed means absent for cat, dog, and unknown for 1 other class."
    assert note in read(DataConfig(path=str(path), unlisted="negative:cat,dog", separator=";")).notes
    with pytest.raises(
        InputError, match=r"names the class 'dgo', which the data does not have. Did you mean"
    ):
        ternary(path, "negative:cat,dgo")


def test_what_is_stated_to_be_unknown_stays_so(table):
    path = table("file,cat,dog", "a.png,1,0", "b.png,-1,0", "c.png,0,1")
    assert ternary(path, "negative:cat")[1] == ternary(path, "unknown")[1] == [[1, 0], [-1, 0], [0, 1]]


def test_samples_that_are_left_out_where_unlisted_labels_are_negative_stay_as_they_are():
    unknown, negative = (
        read_memory(np.eye(3), [["a"], [], ["b"]], DataConfig(unlisted=rule))
        for rule in ("unknown", "negative")
    )
    records = with_negatives(unknown, take_rows(negative, np.array([0, 2])), ["a"], may_lack=False)
    assert records.labels.to_ternary().tolist() == [[1, 0], [0, 0], [-1, 1]]


def test_names_are_as_in_a_row_of_csv():
    assert named_classes('negative:cat, "salt, pepper",7" disc') == ["cat", "salt, pepper", '7" disc']


@pytest.mark.parametrize("text", ["none", "negative:", "column: ", "Negative", ""])
def test_other_texts_are_refused(text):
    with pytest.raises(InputError, match="must be unknown, negative, negative:CLASS,CLASS or column:NAME"):
        DataConfig(unlisted=text)


def test_data_in_memory():
    x = np.zeros((3, 2), np.float32)
    y = [["cat"], ["dog"], []]
    records = read_memory(x, y, DataConfig(unlisted="negative:cat"))
    assert records.labels.to_ternary().tolist() == [[1, 0], [-1, 1], [-1, 0]]
    with pytest.raises(InputError, match="names a column of a DataFrame of image files"):
        read_memory(x, y, DataConfig(unlisted="column:seen"))


def test_a_column_lists_what_was_looked_for(table):
    path = table(
        "file,labels,classes",
        "a.png,cat;dog,cat;bird",
        'b.png,dog,"[""cat"", ""dog""]"',
        "c.png,bird,",
        "d.png,cat,fish;dog",
        "e.png,,cat",
    )
    classes, found = ternary(path, "column:classes")
    assert classes == ("bird", "cat", "dog")
    assert found == [[-1, 1, 1], [0, -1, 1], [1, 0, 0], [0, 1, -1], [0, -1, 0]]
    notes = read(DataConfig(path=str(path), unlisted="column:classes", separator=";")).notes
    assert any(
        "'classes' lists classes that no sample has, so that they are left out: fish." in n for n in notes
    )
    with pytest.raises(InputError, match=r"data.unlisted=clases: no column .* Did you mean classes"):
        ternary(path, "column:clases")


def test_rows_of_one_image_are_taken_together(table):
    path = table("file,label,seen", "a.png,cat,cat;dog;bird", "a.png,dog,cat;dog;bird", "b.png,bird,bird;cat")
    assert ternary(path, "column:seen") == (("bird", "cat", "dog"), [[-1, 1, 1], [1, -1, 0]])


def test_a_column_next_to_a_column_per_class(table):
    path = table("file,cat,dog,seen", "a.png,1,,cat;dog", "b.png,,1,dog", "c.png,1,1,", "d.png,,1,cat;dog")
    assert ternary(path, "column:seen") == (("cat", "dog"), [[1, -1], [0, 1], [1, 1], [-1, 1]])


def test_names_in_the_column_are_renamed(table):
    path = table("file,label,seen", "a.png,Dog,CAT", "b.png,cat,dog", "c.png,cat,Dog")
    found = ternary(path, "column:seen", rename={"Dog": "dog", "CAT": "cat"})
    assert found == (("cat", "dog"), [[-1, 1], [1, -1], [1, -1]])


def test_a_column_of_other_data_is_refused(picture, tmp_path):
    for name in ("cat/1.png", "dog/2.png"):
        picture(f"photos/{name}")
    with pytest.raises(InputError, match="names a column of a table, but this is"):
        read(DataConfig(path=str(tmp_path / "photos"), unlisted="column:seen"))


def test_a_column_of_a_frame(picture, tmp_path):
    pandas = pytest.importorskip("pandas")
    files = [str(picture(f"{name}.png")) for name in "abc"]
    frame = pandas.DataFrame(
        {"file": files, "label": ["cat", "dog", "cat"], "seen": ["dog", "dog;cat", None]}
    )
    records = read_memory(frame, None, DataConfig(unlisted="column:seen"))
    assert records.labels.to_ternary().tolist() == [[1, -1], [-1, 1], [1, 0]]
