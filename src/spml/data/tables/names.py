"""Names: of the columns of tables and what each may mean, and as they are listed in a setting."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Iterable, Sequence

from ...common.safe import CONTROL, quote
from ..splits import SPELLINGS

EXPECTED = (
    "Expected the columns `file` and `label`, or `file` and `labels`, or `file` and one column per class, "
    "and optionally `split`"
)
# A name of an earlier group wins, so that a table with `file` may have a column `image`, too.
FILE_COLUMNS = (
    ("file",),
    (
        "filename", "file_name", "filepath", "file_path", "path", "image", "img", "image_path", "img_path",
        "image_file", "image_name", "photo", "picture", "fname",
    ),
    ("id", "image_id", "img_id", "imageid"),
)  # fmt: skip
LABEL_COLUMNS = (
    ("label", "labels"),
    (
        "tag", "tags", "category", "categories", "class", "classes", "keyword", "keywords", "genre", "genres",
        "species", "common_name", "labelname",
    ),
)  # fmt: skip
SPLIT_COLUMNS = (
    "split", "subset", "set", "partition", "phase", "usage", "ml_use", "learn_tag", "fold", "data_split",
    "dataset_split", "data_set",
)  # fmt: skip
PRESENT_COLUMNS = (
    "present", "is_present", "presence", "exists", "positive", "is_positive", "polarity", "sign",
    "label_type",
)  # fmt: skip
"""Names of columns that say whether the label of a row is present."""
PRESENCE_COLUMNS = (
    *PRESENT_COLUMNS, "value", "answer", "truth", "verified", "observed", "confidence", "vote", "score",
)  # fmt: skip
"""The same, with names that say so only where a file has several rows."""
INFERRED = {"inferred": 1, "inferred_negative": -1}
"""Columns in which `spml data convert` writes labels that a model inferred, which are no known ones."""

_FLAG = re.compile(
    r"(?:is|in|for|use_for)_?(train|training|val|valid|validation|dev|test|testing|eval|evaluation|holdout)"
    r"(?:_?(?:set|image|img|photo|picture|sample|example|split|data))?"
)
MEASURE = re.compile(
    r"(?i)(?:^|[\W_])(?:id|ids|no|nr|number|index|row|width|height|size|age|year|month|day|hour|time|date|area|"
    r"lat\w*|lon\w*|x|y|w|h|page|frame|weight|price|rating|seed|version|bytes)(?:$|[\W_\d])"
)
LIKELY = re.compile(
    r"(?i)label|tag|class|categor|keyword|genre|species|breed|kind|type|target|topic|object|concept|finding|"
    r"diagnos|disease|annotation|subject|scene|choice|taxon|variety|accept|"
    r"malignan|outcome|result|condition|grade"
)


def canonical(name: str) -> str:
    """A name of a column in lower case, with `_` for blanks and hyphens."""
    return re.sub(r"[\s-]+", "_", name.strip().lower())


def is_named(name: str) -> bool:
    """Whether a column has a name of its own, unlike the index that pandas writes."""
    return bool(name) and not name.lower().startswith(("unnamed:", "__index_level_"))


def is_plural(name: str) -> bool:
    """Whether the name of a column says that a cell may hold several labels, as `Finding Labels` does."""
    words = re.findall(r"[A-Z]*[^\W\d_A-Z]+|[A-Z]+|[^\W\d_]+", name.replace("(s)", "s"))
    plurals = [word.lower() for word in words]
    known = ("labels", "tags", "categories", "classes", "keywords", "genres")
    last = plurals[-1] if plurals else ""
    ends = last.endswith("s") and not last.endswith(("ss", "us", "is", "species", "series")) and len(last) > 2
    return ends or last in ("list", "tagset") or any(word in known for word in plurals)


def names_files(names: Sequence[str], file_column: str = "", *, ids: bool = True) -> bool:
    """Whether one of the names of columns is that of the column that names the images.

    That is `file_column` if it is not empty, else one of `FILE_COLUMNS`, of which `id` and the like count
    only with `ids`.
    """
    known = {name for group in FILE_COLUMNS[: None if ids else -1] for name in group}
    if file_column:
        return file_column.lower() in map(str.lower, names)
    return not known.isdisjoint(map(canonical, names))


def split_flag(name: str) -> str:
    """Split of the rows in which a column of this name is true, such as `is_train`; empty for other names."""
    found = _FLAG.fullmatch(canonical(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)))
    return SPELLINGS[found[1]] if found else ""


def has_other_meaning(name: str) -> bool:
    """Whether a column of this name would not be read as that of a class, whatever it holds."""
    other = (*LABEL_COLUMNS[0], *SPLIT_COLUMNS)
    return canonical(name) in other or bool(split_flag(name)) or not is_named(name)


def option(setting: str, value: str) -> str:
    """A setting of the data with a value as it is typed in a shell."""
    return f"data.{setting}={quote(value) if CONTROL.search(value) else shlex.quote(value)}"


def typed_names(names: Iterable[str]) -> str:
    """Names as they are listed in one setting, which `listed_names` reads."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="").writerow(names)
    return stream.getvalue()


def listed_names(stated: str) -> list[str]:
    """Names in a setting, separated by commas; one that holds a comma is in quotes."""
    (cells,) = csv.reader([" ".join(stated.splitlines())], skipinitialspace=True)
    return [name for cell in cells if (name := cell.strip())]
