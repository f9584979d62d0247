"""Names of classes as a text tower reads them, and prompts."""

from __future__ import annotations

import pytest

from spml.models.names import PROMPTS, read_as_names, read_prompts, readable
from tests.helpers.commands import refusal


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cat", "cat"), ("traffic_light", "traffic light"), ("trafficLight", "traffic light"),
        ("TVMonitor", "tv monitor"), ("001.Black_footed_Albatross", "black footed albatross"),
        ("hot-dog", "hot dog"), ("person/bicycle", "person bicycle"), ("boeing a380", "boeing a380"),
        ("class room", "class room"), ("кошка", "кошка"), ("猫", "猫"), ("  Tv ", "tv"),
        ("c07", ""), ("n02084071", ""), ("7", ""), ("class_3", ""), ("label", ""), ("F-16", ""),
        ("x", ""), ("-", ""),
    ],
)  # fmt: skip
def test_names_in_words(name, words):
    assert readable(name) == words


def test_a_file_replaces_names(tmp_path):
    file = tmp_path / "names.csv"
    file.write_text("given,wanted\nc07,traffic light\ndog,\n")
    names, remarks = read_as_names(["c07", "dog", "cat", "c08", "Katze"], str(file))
    assert names == ["traffic light", "", "cat", "", "katze"]
    (remark,) = remarks
    assert remark.startswith("1 class has a code in place of a name ('c08'), so that their names say nothing")
    assert "model.names_file=FILE" in remark


def test_other_scripts_are_remarked():
    names, remarks = read_as_names(["кошка", "dog"])
    assert names == ["кошка", "dog"]
    assert remarks[0].startswith("1 name is not in Latin script ('кошка')")


@pytest.mark.parametrize(
    ("classes", "text", "message"),
    [
        (["c07", "c08"], "", "no class has a name that a text tower could read ('c07', 'c08'): give names"),
        (["hot_dog", "HotDog"], "", "the classes 'hot_dog' and 'HotDog' both read 'hot dog'"),
        (["cat", "dog"], "cat,animal\ndog,animal\n", "the classes 'cat' and 'dog' both read 'animal'"),
        (["cat", "dog"], "cta,cat\n", "names the class 'cta', which the data does not have. Did you mean"),
        (["cat", "dog"], "cat,\ndog,\n", "no class has a name that a text tower could read"),
    ],
)
def test_names_that_do_not_suit(tmp_path, classes, text, message):
    file = tmp_path / "names.csv"
    file.write_text(text)
    assert message in refusal(read_as_names, classes, str(file) if text else "")


def test_prompts(tmp_path):
    assert read_prompts() == PROMPTS
    assert all(prompt.count("{}") == 1 for prompt in PROMPTS)
    file = tmp_path / "prompts.txt"
    file.write_text("\ufeffa {}\n\n  the {} here \n", encoding="utf-8")
    assert read_prompts(str(file)) == ("a {}", "the {} here")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"a {}\na photo\n",
            "line 2: 'a photo' must have one place for the name, such as 'a photo of a {}.'",
        ),
        (b"{} and {}\n", "line 1"),
        (b"\n", "has 0 prompts; expected 1 to 1000, one per line"),
        (b"\xff\xfe\x00{}", "is not UTF-8 text"),
    ],
)
def test_prompts_that_do_not_suit(tmp_path, content, message):
    file = tmp_path / "prompts.txt"
    file.write_bytes(content)
    assert message in refusal(read_prompts, str(file))
