"""Several tables as one data set, each with its own settings."""

from __future__ import annotations

import pytest

from spml.common.errors import InputError
from tests.helpers.records import opened

OLD = "file,label\nold/1.png,cat\nold/2.png,Tree\n"
NEW = "image;tags\n3.png;dog|tree\n4.png;\n"


@pytest.fixture
def sources(picture, tmp_path):
    """Function that writes a list of sources next to two tables and their images."""
    for name in ("old/1.png", "old/2.png", "new/3.png", "new/4.png"):
        picture(name)

    def write(text, old=OLD, new=NEW):
        (tmp_path / "old.csv").write_text(old)
        (tmp_path / "new" / "tags.csv").write_text(new)
        (tmp_path / "photos.yaml").write_text(text)
        return tmp_path / "photos.yaml"

    return write


def content(path, **options):
    records = opened(path, **options)
    return records.classes, dict(zip(records.ids, records.labels.to_ternary().tolist(), strict=True))


LIST = """\
sources:
  - path: old.csv
    unlisted: negative:cat,dog
  - path: new/tags.csv
    unlisted: negative
    separator: "|"
"""


def test_each_source_has_its_own_rule(sources):
    classes, found = content(sources(LIST))
    assert classes == ("Tree", "cat", "dog", "tree")
    assert found == {
        "old/1.png": [0, 1, -1, 0],  # unknown whether there is a tree
        "old/2.png": [1, -1, -1, 0],
        "new/3.png": [-1, -1, 1, 1],
        "new/4.png": [-1, -1, -1, -1],
    }
    records = opened(sources(LIST))
    assert records.notes[:2] == (
        "photos.yaml was read as a list of 2 sources.",
        "old.csv was read as a table.",
    )
    assert [file.is_file() for file in records.inputs] == [True] * 4
    assert records.split is None


def test_names_are_changed_in_all_sources(sources):
    classes, found = content(sources(LIST), rename={"Tree": "tree", "tree": "plant", "x": "y"})
    assert (classes, found["old/2.png"]) == (("cat", "dog", "plant", "tree"), [-1, -1, 0, 1])
    notes = opened(sources(LIST), rename={"Tree": "tree"}).notes
    assert not any("do not occur" in note for note in notes)


def test_settings_of_the_whole_apply_where_a_source_states_none(sources):
    text = "sources:\n- path: old.csv\n- path: new/tags.csv\n  separator: '|'\n  part: validation\n"
    path = sources(text)
    assert content(path, unlisted="negative")[1]["old/1.png"] == [-1, 1, -1, -1]
    assert content(path)[1]["old/1.png"] == [0, 1, 0, 0]
    assert opened(path).split == ("train", "train", "val", "val")
    assert len(opened(path, sample_rows=3).ids) == 3


def test_a_file_in_two_tables_is_one_sample(sources, tmp_path):
    again = "file,label\n../old/1.png,dog\n3.png,dog\n"
    text = "sources:\n- path: old.csv\n- path: new/tags.csv\n  images: .\n"
    path = sources(text, new=again.replace("../", "").replace("3.png", "new/3.png"))
    classes, found = content(path)
    assert (classes, found["old/1.png"]) == (("Tree", "cat", "dog"), [0, 1, 1])
    with pytest.raises(InputError, match=r"'old/1\.png' is named several times, .* contradict each other"):
        content(path, unlisted="negative")


TEXTS = {
    "one.csv": "id,title,label\na,Cats purr,cat\nb,,dog\nc,Dogs bark,dog\n",
    "more/two.csv": "title,label,split\nCows moo,cow,train\nCats meow,cat,test\n",
    "more/three.csv": "id,title,label\nc,Dogs bark,cat\nd,Cows moo,cow\n",
}


@pytest.fixture
def texts(tmp_path):
    """A list of three tables of texts, one of them without names of samples."""
    (tmp_path / "more").mkdir()
    for name, rows in TEXTS.items():
        (tmp_path / name).write_text(rows)
    path = tmp_path / "all.yaml"
    path.write_text("sources:\n" + "".join(f"- path: {name}\n" for name in TEXTS))
    return path


def test_tables_of_texts_are_joined(texts):
    records = opened(texts, text="title")
    assert list(zip(records.ids, records.inputs, records.split, strict=True)) == [
        ("a", "Cats purr", "train"),
        ("c", "Dogs bark", "train"),
        ("more/two.csv/2", "Cows moo", "train"),
        ("more/two.csv/3", "Cats meow", "test"),
        ("d", "Cows moo", "train"),
    ]
    labels = records.labels.to_names(records.classes)
    assert labels == [["cat"], ["cat", "dog"], ["cow"], ["cat"], ["cow"]]
    assert ("b", "no text") in records.skipped


def test_texts_that_can_t_be_joined(texts):
    three = texts.parent / "more" / "three.csv"
    three.write_text(three.read_text().replace("bark", "run"))
    with pytest.raises(InputError, match=r"'c' .* with different texts, .*data\.file_column"):
        opened(texts, text="title")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sources: []", "`sources` must be a list of 1 to 1,000 entries"),
        ("sources:\n- old.csv\n", r"sources\[0\]: must be settings with a `path`, got 'old.csv'"),
        ("sources:\n- path: old.csv\n  unlistd: negative\n", "unknown setting 'unlistd'. Did you mean unlis"),
        ("sources:\n- path: old.csv\ntrain: x\n", "unknown key 'train'"),
        ("sources:\n- path: ../old.csv\n", r"sources\[0\]: path is '../old.csv', which is not below"),
        ('sources:\n- path: "old\\0.csv"\n', r"sources\[0\]: path is 'old\\x00.csv', which holds a control"),
        ("sources:\n- path: photos.yaml\n", "is YAML, but must be a table or folder"),
        ("sources:\n- path: old.cvs\n", "old.cvs: no such file or folder. Did you mean old.csv"),
        ("sources:\n- path: old.csv\n  part: middle\n", "part is 'middle', but must be one of train"),
        ("sources:\n- path: old.csv\n  unlisted: 'no'\n", r"sources\[0\]: data.unlisted must be unknown"),
        (
            "sources:\n- path: old.csv\n  unlisted: negative:cat,dgo\n"
            "- path: new/tags.csv\n  separator: '|'\n",
            r"sources\[0\]: unlisted names the class 'dgo', which no source has. Did you mean dog",
        ),
    ],
)
def test_mistakes(sources, text, words):
    with pytest.raises(InputError, match=words):
        content(sources(text))


def test_other_yaml_is_not_a_list_of_sources(tmp_path):
    path = tmp_path / "data.yaml"
    path.write_text("names: [cat, dog]\ntrain: images/train\nval: images/val\n")
    with pytest.raises(InputError, match=r"data\.yaml: is YAML, of which only lists"):
        opened(path)
