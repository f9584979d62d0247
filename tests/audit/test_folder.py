"""The folder of an audit."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from spml.audit import ClassSummary
from spml.audit.folder import (
    About,
    Audit,
    MissingLabel,
    WrongLabel,
    data_settings,
    fingerprint,
    read_audit,
    read_observed,
    write_audit,
)
from spml.common.errors import InputError
from spml.common.files import sha256_file, write_checked_json
from spml.config import DataConfig
from spml.labels import ObservedLabels

CLASSES = ("cat", "dog, wet", 'the "rest"')
AUDIT = Audit(
    About(
        run="runs/one",
        data=data_settings(DataConfig(path="digits", observe="single")),
        fingerprint="ab" * 32,
        classes=CLASSES,
        mean_labels=1.5,
        mean_labels_source="stated",
        samples=4,
        unknown=8,
        listed=2,
        expected=1.25,
        warnings=("Only 4 samples.",),
        how="leave-one-out scores of ridge regression",
    ),
    [
        MissingLabel("a,b.jpg", 'dog, wet|the "rest"', "cat", 0.9, 1, 1, "0.5 0 0.5 0.25"),
        MissingLabel("line\nbreak.jpg", "", "dog, wet", 0.35, 2, 1),
    ],
    [WrongLabel("c.jpg", 'the "rest"', 0.3, 1)],
    [
        ClassSummary("cat", 3, 0.4, 1.25, 0.75, True, ""),
        ClassSummary("dog, wet", 0, 0.0, 0.0, 0.5, False, "no known positive"),
    ],
)


@pytest.fixture
def folder(tmp_path) -> Path:
    write_audit(tmp_path / "audit", AUDIT)
    return tmp_path / "audit"


def change(folder, **values):
    path = folder / "audit.json"
    content = json.loads(path.read_text()) | values
    del content["sha256"]
    path.write_text(json.dumps(content))


def test_an_audit_comes_back_as_it_was_written(folder):
    assert read_audit(folder) == AUDIT
    assert read_audit(folder).about.config == DataConfig(path="digits", observe="single")
    assert not list(folder.glob(".*.tmp"))


def test_the_files_are_as_documented(folder):
    about = json.loads((folder / "audit.json").read_text())
    assert about["format"] == 1
    assert list(about) == [
        "format", "spml", "run", "data", "fingerprint", "classes", "mean_labels", "mean_labels_source",
        "samples", "unknown", "listed", "expected", "warnings", "how", "hidden", "probable",
        "spreadsheet_safe", "files", "sha256",
    ]  # fmt: skip
    rows = list(csv.reader((folder / "missing.csv").open(newline="")))
    assert rows[0] == ["file", "given", "label", "probability", "rank", "rank_in_class", "where", "by_name"]
    assert rows[1] == ["a,b.jpg", 'dog, wet|the "rest"', "cat", "0.9", "1", "1", "0.5 0 0.5 0.25", ""]
    rows = list(csv.reader((folder / "wrong.csv").open(newline="")))
    assert rows == [["file", "label", "confidence", "rank"], ["c.jpg", 'the "rest"', "0.3", "1"]]
    rows = list(csv.reader((folder / "classes.csv").open(newline="")))
    assert rows[0] == ["label", "known", "prior", "hidden", "separation", "learnable", "reason"]
    assert rows[2] == ["dog, wet", "0", "0.0", "0.0", "0.5", "False", "no known positive"]


def test_an_audit_that_was_written_for_spreadsheets_comes_back(tmp_path):
    classes = ("=cat", "'=cat", "dog")
    audit = Audit(
        msgspec.structs.replace(AUDIT.about, classes=classes, listed=2),
        [
            MissingLabel("-a.jpg", "dog|=cat", "=cat", 0.9, 1, 1),
            MissingLabel("'-a.jpg", "=cat|dog", "'=cat", 0.35, 2, 1),
        ],
        [WrongLabel("@c.jpg", "=cat", 0.3, 1)],
        [ClassSummary("=cat", 3, 0.4, 1.25, 0.75, True, "")],
    )
    write_audit(tmp_path, audit)
    assert read_audit(tmp_path) == audit
    about = json.loads((tmp_path / "audit.json").read_text())
    for name in ("missing.csv", "wrong.csv", "classes.csv"):  # as an earlier version wrote them
        with open(tmp_path / name, newline="") as stream:
            rows = [[re.sub(r"^(?='*[=@-])", "'", cell) for cell in row] for row in csv.reader(stream)]
        with open(tmp_path / name, "w", newline="") as stream:
            csv.writer(stream, lineterminator="\n").writerows(rows)
        about["files"][name] = sha256_file(tmp_path / name)
    write_checked_json(tmp_path / "audit.json", {**about, "spreadsheet_safe": True})
    assert "\n'-a.jpg," in (tmp_path / "missing.csv").read_text()
    expected = audit._replace(about=msgspec.structs.replace(audit.about, spreadsheet_safe=True))
    assert read_audit(tmp_path) == expected


def test_an_audit_replaces_an_earlier_one(folder):
    write_audit(folder, Audit(msgspec.structs.replace(AUDIT.about, listed=0), [], []))
    assert read_audit(folder).missing == []


def test_data_is_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = data_settings(DataConfig(path="photos.csv", images="photos"))
    assert settings["path"] == str(tmp_path / "photos.csv")
    assert settings["images"] == str(tmp_path / "photos")
    assert data_settings(DataConfig(path="digits"))["path"] == "digits"


def test_the_fingerprint_depends_on_names_classes_and_labels():
    labels = ObservedLabels.from_ternary([[1, 0], [0, -1]])
    known = fingerprint(["a", "b"], ["x", "y"], labels)
    assert len(known) == 64
    assert known == fingerprint(("a", "b"), ("x", "y"), labels)
    others = [
        fingerprint(["a", "c"], ["x", "y"], labels),
        fingerprint(["b", "a"], ["x", "y"], labels),
        fingerprint(["a", "b"], ["x", "z"], labels),
        fingerprint(["a", "b"], ["x", "y"], ObservedLabels.from_ternary([[1, 0], [0, 0]])),
    ]
    assert len({known, *others}) == 5


def test_labels_are_hidden_as_the_data_settings_say():
    config = DataConfig(path="digits")
    assert read_observed(config).labels.full
    hidden = read_observed(replace(config, observe="single"))
    assert hidden.labels.single_positive
    assert len(hidden.labels) == len(hidden.ids) == 6000


def write(name, content):
    data = content if isinstance(content, bytes) else content.encode()
    return lambda folder: (folder / name).write_bytes(data)


def remove(name):
    return lambda folder: (folder / name).unlink()


def set_to(**values):
    return lambda folder: change(folder, **values)


WRONG = "file,label,confidence,rank\n"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove("audit.json"), "is not the folder of an audit, since it has no audit.json"),
        (write("audit.json", "{"), "audit.json: is damaged"),
        (write("audit.json", "[" * 100_000), "audit.json: is damaged"),
        (write("audit.json", b'{"format": 1, "spml": "\xff"}'), "audit.json: is damaged"),
        (set_to(mean_labels=0), r"is damaged \(Expected `float` > 0.0 - at `\$.mean_labels`"),
        (set_to(mean_labels_source="guessed"), "Invalid enum value 'guessed'"),
        (set_to(format=2, spml="9.0"), r"newer version of spml \(9.0; format 2, this one"),
        (set_to(listed=3), "missing.csv: has 2 rows, but audit.json says 3"),
        (set_to(classes=["cat"]), "row 3: the class 'dog, wet' is not in audit.json"),
        (remove("missing.csv"), "missing.csv: no such file"),
        (remove("wrong.csv"), "wrong.csv: no such file"),
        (remove("classes.csv"), "classes.csv: no such file"),
        (write("wrong.csv", "file,label\n"), "has the columns file, label; expected"),
        (
            write("wrong.csv", WRONG + "a,cat,nan,1\n"),
            r"row 2: Expected `float` >= 0.0 - at `\$.confidence`",
        ),
        (write("wrong.csv", WRONG + "a,cat,0.5\n"), "row 2 has 3 cells, but the header has 4"),
        (write("wrong.csv", WRONG + '"a,cat,0.5,1\n'), "wrong.csv: is not valid CSV near line 2"),
        (write("wrong.csv", b"file\xff"), "wrong.csv: "),
    ],
)
def test_a_damaged_audit_is_named(folder, damage, message):
    damage(folder)
    with pytest.raises(InputError, match=message) as error:
        read_audit(folder)
    assert "\n" not in str(error.value)


def test_settings_of_another_version_are_named(folder):
    change(folder, data={"path": "digits", "colour": "blue"})
    with pytest.raises(InputError, match=r"unknown setting 'data.colour'"):
        _ = read_audit(folder).about.config


def test_an_interrupted_audit_is_none(folder, monkeypatch):
    monkeypatch.setattr(
        "spml.audit.folder.write_checked_json", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        write_audit(folder, AUDIT)
    with pytest.raises(InputError, match="is not the folder of an audit"):
        read_audit(folder)


def test_a_class_without_known_positives_has_no_separation(tmp_path):
    unknown = ClassSummary("cat", 0, 0.0, 0.0, float("nan"), False, "no known positive")
    write_audit(tmp_path, AUDIT._replace(classes=[unknown]))
    (back,) = read_audit(tmp_path).classes
    assert back.separation != back.separation
    assert msgspec.structs.replace(back, separation=0.5) == msgspec.structs.replace(unknown, separation=0.5)
