"""Files of another audit, sample or loop in the place of one's own are noticed."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from spml.audit.folder import read_audit
from spml.audit.sheets import read_answers, read_sample
from spml.cli.main import main
from spml.common.errors import InputError
from tests.helpers.audits import HIDDEN, answer, fill_in, truth_of
from tests.helpers.commands import fails
from tests.helpers.features import make_features


@pytest.fixture(scope="module")
def loops(tmp_path_factory):
    """Folder with the loops `one` and `two`, on data of other seeds, each in its second round."""
    folder = tmp_path_factory.mktemp("loops")
    for seed, name in enumerate(("one", "two")):
        data, work = make_features(folder / f"{name}.npz", seed), folder / name
        words = ["loop", str(data), *HIDDEN, "--head", "ridge", "--rows", "25", "--top", "40"]
        words += ["--data.split", "ignore", "--data.split_seed", str(seed)]
        main([*words, "--output", str(work)])
        fill_in(work / "sample.csv", truth_of(data))
        main(["loop", "--output", str(work)])
        answer(work / "round-1" / "audit", truth_of(data), 10)
        main(["loop", "--output", str(work)])
    return folder


@pytest.fixture
def one(loops, tmp_path):
    return shutil.copytree(loops / "one", tmp_path / "one")


@pytest.mark.long
def test_files_of_the_loop_itself_are_accepted(one, capsys):
    main(["loop", "--output", str(one)])
    assert "next: spml review" in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("loop.json", r"round-1/data\.json: can't be used \(it is of the loop "),
        ("round-2/data.json", r"round-2/data\.json: can't be used \(it is of the loop "),
        ("round-2/labels.npz", r"labels\.npz is not the file that it was written for"),
        ("sample.json", "is not one of the samples that were drawn"),
        ("round-1/run/held_out.safetensors", "is of run"),
    ],
)
def test_a_file_of_another_loop_is_refused(loops, one, capsys, name, said):
    if name == "round-1/run/held_out.safetensors":
        (one / "round-1" / "run" / "audited.json").unlink()  # it is read to learn from the sample again
    shutil.copy(loops / "two" / name, one / name)
    message = fails(capsys, "loop", "--output", str(one))
    assert re.search(said, message), message


@pytest.mark.parametrize("name", ["audit.json", "missing.csv", "classes.csv"])
def test_a_file_of_another_audit_is_refused(loops, one, name):
    folder = one / "round-1" / "audit"
    read_audit(folder)
    shutil.copy(loops / "two" / "round-1" / "audit" / name, folder / name)
    with pytest.raises(InputError, match="was changed, or is of another audit: it does not have the SHA-256"):
        read_audit(folder)


def test_a_changed_description_of_an_audit_is_refused(one):
    path = one / "round-1" / "audit" / "audit.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "mean_labels": 1.25}))
    with pytest.raises(InputError, match=r"audit\.json: is damaged .*SHA-256 that it states"):
        read_audit(path.parent)


@pytest.mark.parametrize("name", ["sample.csv", "sample.json"])
def test_the_table_of_another_sample_is_refused(loops, one, name):
    classes = read_sample(one / "sample.csv").classes
    shutil.copy(loops / "two" / name, one / name)
    with pytest.raises(InputError, match="is not one of the samples that were drawn, as sample"):
        read_answers(one / "sample.csv", classes)


def test_classes_of_another_sample_are_refused(one):
    (one / "sample.classes.txt").write_text("a\nb\nd\nc\n")
    with pytest.raises(InputError, match="does not have the classes that sample"):
        read_sample(one / "sample.csv")


@pytest.mark.parametrize(
    ("fault", "said"), [("cut", "damaged"), ("other", "another model"), ("no", "is missing")]
)
def test_damaged_thresholds_are_refused(loops, one, capsys, fault, said):
    path = one / "round-2" / "run" / "thresholds.json"
    content = {"cut": path.read_bytes()[:500], "other": (loops / "two" / path.relative_to(one)).read_bytes()}
    path.unlink()
    if fault in content:
        path.write_bytes(content[fault])
    message = fails(capsys, "loop", "--output", str(one))
    assert "round-2/run/thresholds.json: " in message
    assert said in message


def test_thresholds_that_do_not_stand_on_the_sample_are_decided_again(one):
    path = one / "round-2" / "run" / "thresholds.json"
    before = path.read_bytes()
    main(["thresholds", str(path.parent), "--mean_labels", "1.1"])
    assert path.read_bytes() != before
    main(["loop", "--output", str(one)])
    assert path.read_bytes() == before
