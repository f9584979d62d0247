"""Names of classes as a text tower reads them: cleaned, replaced, and put into prompts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from ...common.errors import InputError, nearest
from ...common.phrases import counted, first_few
from ...common.safe import check_readable, quote
from ...data.rename import read_names

PLACE = "{}"
PROMPTS = (
    "a photo of a {}.", "a photo of the {}.", "a photo of one {}.", "a photo of many {}.",
    "a close-up photo of a {}.", "a blurry photo of a {}.", "a photo of a {} in a scene.",
    "a picture with a {} in it.",
)  # fmt: skip
"""Sentences that the name of a class is put into where the user gives none."""

_MOST_PROMPTS, _LONGEST_PROMPT = 1000, 1000
_NUMBER = re.compile(r"^\d+[._ -]+(?=\D)")  # in front of the names of folders, such as 001.Laysan_Albatross
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_GAPS = re.compile(r"[\s_./\\|+]+|(?<=\w)-(?=\w)")
_WITHOUT_BLANKS = re.compile("[\u0e00-\u0eff\u2e80-\u9fff\uac00-\ud7af]")  # a letter may be a word
_GENERAL = frozenset({"class", "label", "category", "tag", "cluster", "topic", "group", "type", "id", "no"})


def readable(name: str) -> str:
    """The name of a class in words: without underscores, camel case and a number in front, in lower case.

    Empty for a code, which has no word: nothing of two letters without a digit, or only words such as
    `class`.

    Example:
        >>> [readable(name) for name in ("trafficLight", "001.Laysan_Albatross", "c07", "class_3")]
        ['traffic light', 'laysan albatross', '', '']
    """
    text = _GAPS.sub(" ", _CAMEL.sub(" ", _NUMBER.sub("", name.strip()))).lower().strip()
    return text if any(map(_is_word, text.split())) else ""


def _is_word(part: str) -> bool:
    if any(map(str.isdigit, part)) or part in _GENERAL:
        return False
    return sum(map(str.isalpha, part)) >= 2 or bool(_WITHOUT_BLANKS.search(part))


def read_as_names(classes: Sequence[str], file: str = "") -> tuple[list[str], list[str]]:
    """Names of classes as the text tower reads them.

    Args:
        classes: Names of the classes.
        file: CSV or TSV file with other names for some of them; an empty one leaves the class without a name.

    Returns:
        The names, empty for a class without one, and remarks for the user.

    Raises:
        InputError: The file is damaged or names a class that does not exist; two classes have the same name;
            or no class has a name.
    """
    stated = read_names(Path(file)) if file else {}
    for given in stated:
        if given not in classes:
            raise InputError(
                f"{file}: names the class {quote(given)}, which the data does not have. "
                f"{nearest(given, classes)}"
            )
    names = [stated.get(each, readable(each)) for each in classes]
    how = "--model.names_file FILE: rows of a class of the data and the name to read"
    codes = [
        quote(each) for each, name in zip(classes, names, strict=True) if not name and each not in stated
    ]
    if not any(names):
        raise InputError(
            f"--names: no class has a name that a text tower could read ({first_few(codes, 3)}): give names "
            f"({how}), or leave out --names."
        )
    before: dict[str, str] = {}
    for each, name in zip(classes, names, strict=True):
        if name and before.setdefault(name, each) != each:
            raise InputError(
                f"--names: the classes {quote(before[name])} and {quote(each)} both read {quote(name)}, so "
                f"that names can't tell them apart: give one of them another name ({how})."
            )
    remarks = []
    if codes:
        remarks.append(
            f"{counted(len(codes), 'class has a code', 'classes have codes')} in place of a name "
            f"({first_few(codes, 3)}), so that their names say nothing; {how}"
        )
    if foreign := [quote(name) for name in names if not _is_latin(name)]:
        remarks.append(
            f"{counted(len(foreign), 'name is', 'names are')} not in Latin script ({first_few(foreign, 3)}), "
            f"which most text towers have not learned; {how}"
        )
    return names, remarks


def _is_latin(name: str) -> bool:
    return all(unicodedata.name(letter, "").startswith("LATIN") for letter in name if letter.isalpha())


def read_prompts(file: str = "") -> tuple[str, ...]:
    """Prompts of a text file, one per line, or the default ones.

    Raises:
        InputError: The file is missing, empty or too long, or a prompt has no place for the name.
    """
    if not file:
        return PROMPTS
    path = Path(file)
    check_readable(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text. Save the prompts as text, one per line.") from error
    prompts = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        if line.count(PLACE) != 1 or len(line) > _LONGEST_PROMPT:
            raise InputError(
                f"{path}: line {number}: {quote(line[:60])} must have one place for the name, such as "
                f"'a photo of a {PLACE}.'"
            )
        prompts.append(line.strip())
    if not 0 < len(prompts) <= _MOST_PROMPTS:
        raise InputError(
            f"{path}: has {counted(len(prompts), 'prompt')}; expected 1 to {_MOST_PROMPTS}, one per line, "
            f"such as 'a photo of a {PLACE}.'"
        )
    return tuple(prompts)
