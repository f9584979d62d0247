"""The command `spml review`."""

from __future__ import annotations

import getpass
import importlib.util
import json
import shutil

import numpy as np
import pytest

from spml.audit.folder import read_observed
from spml.config import DataConfig
from spml.review import app as serve
from spml.review.labelling import Labelling
from spml.review.progress import Selection
from spml.runs.folder.held_out import read_held_out
from spml.runs.settle import resolve
from tests.helpers.commands import execute, run
from tests.helpers.features import train_hidden
from tests.helpers.reviews import MERGED, answer, make_audit


@pytest.fixture
def audit(tmp_path):
    return make_audit(tmp_path)


@pytest.fixture
def served(monkeypatch):
    """Pages that would be served: what is reviewed, the port, and whether a browser is opened."""
    calls = []

    def open_site(review, *, port):
        return [review, port]

    monkeypatch.setattr(serve, "open_site", open_site)
    monkeypatch.setattr(serve, "serve", lambda site, *, browser: calls.append((*site, browser)))
    yield calls
    for review, *_ in calls:
        review.store.close()


def test_the_page_is_served(audit, served, capsys):
    options = ["--port", "8765", "--reviewer", " ann ", "--open", "--order", "class"]
    assert run(capsys, "review", audit, options)[0] == 0
    review, port, browser = served[0]
    assert (review.store.path.parent, review.reviewer, port, browser) == (audit, "ann", 8765, True)
    assert review.order == "class"
    # The best entries of dog, cat and bird come before the second ones.
    assert review.shown(Selection(order=review.order))[0][:4] == [0, 1, 3, 2]


def test_an_option_may_come_first(audit, served, capsys):
    run(capsys, "review", "--port", "1234", audit)
    review, port, _ = served[0]
    assert (review.store.path.parent, review.reviewer, port) == (audit, getpass.getuser(), 1234)


@pytest.fixture(scope="module")
def trained(features, tmp_path_factory):
    return train_hidden(features, tmp_path_factory.mktemp("runs") / "run", "--head ridge --mean_labels 2")


@pytest.fixture
def sheet(trained, tmp_path):
    """Table of samples to label in full, in a copy of a run."""
    folder = shutil.copytree(trained, tmp_path / "run")
    execute("audit sample", folder, "--rows 25")
    return folder / "sample.csv"


def test_a_sample_is_served_with_the_most_probable_classes_first(sheet, tmp_path, served, capsys):
    assert run(capsys, "review", sheet, "--reviewer", "ann")[0] == 0
    page = served[0][0]
    assert (page.sheet, page.reviewer, page.ordered) == (sheet, "ann", True)
    (card,) = page.cards(page.shown()[0][:1])
    held_out = read_held_out(tmp_path / "run")
    scores = held_out.scores.array[held_out.ids.index(card.name)]
    rest = [column for column in np.argsort(-scores).tolist() if column not in card.given]
    assert card.order == [*card.given, *rest]
    (tmp_path / "run" / "config.yaml").rename(tmp_path / "config.yaml")
    code, _, err = run(capsys, "review", sheet)
    assert code == 0
    assert err == f"note: {tmp_path / 'run'} is gone, so classes are not ordered by its scores.\n"
    assert not served[1][0].ordered


def test_a_sample_that_is_labelled_on_the_page_is_used(sheet, capsys):
    page, folder = Labelling(sheet, "ann"), sheet.parent
    for sample in page.shown()[0][:22]:
        page.complete(sample, complete=True)
    page.store.close()
    capsys.readouterr()
    code, out, err = run(capsys, "audit use", sheet, folder)
    assert code == 0, err
    assert out.splitlines()[:1] == [
        f"{folder}/sample.labelled.csv: 22 samples as labelled on the page of spml review."
    ]
    told = json.loads((folder / "audited.json").read_text())
    assert (told["samples"], told["mean_labels"]["value"]) == (22, 1.0)


def test_a_sample_with_other_classes_than_were_drawn_for(sheet, served, capsys):
    classes = sheet.with_suffix(".classes.txt")
    classes.write_text(classes.read_text() + "zebra\n")
    code, _, err = run(capsys, "review", sheet)
    assert (code, served) == (2, [])
    assert "sample.classes.txt: does not have the classes that sample.json lists." in err


def test_the_help_names_both_commands(capsys):
    code, out, _ = run(capsys, "review", "--help")
    assert code == 0
    assert "--port" in out
    assert "spml review export" in out


@pytest.mark.parametrize("package", ["fastapi", "uvicorn"])
def test_a_missing_extra_is_named(package, audit, served, capsys, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else find(name))
    code, _, err = run(capsys, "review", audit)
    assert (code, served) == (2, [])
    assert err == (
        f"spml review: The package {package} is not installed. Install what this needs: "
        "pip install fastapi uvicorn (the extra `review`).\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{audit}/nothing"], "is not the folder of an audit, since it has no audit.json. Run spml audit."),
        (["{audit}", "--port", "70000"], "port 70000 can't be used"),
        (["{audit}", "--port", "eighty"], "--port must be a whole number, got 'eighty'"),
        (["{audit}", "--data", "{audit}/none.csv"], "none.csv: no such file or folder"),
        (["{audit}", "--reviewer", "a\nb"], "--reviewer must be a name of at most 100 printable characters."),
        ([], "PATH is missing: folder that `spml audit` wrote, or table (CSV) that"),
    ],
)
def test_mistakes_are_named_in_one_line(words, message, audit, capsys):
    code, _, err = run(capsys, "review", [word.format(audit=audit) for word in words])
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


ANSWERS = [(0, 2, "yes"), (0, 0, "no"), (1, 1, "yes"), (2, 2, "no")]


def test_export_writes_what_train_reads(audit, capsys, tmp_path):
    answer(audit, "ann", *ANSWERS)
    output = tmp_path / "photos" / "reviewed.csv"
    code, out, _ = run(capsys, "review", "export", audit, output, "--format", "csv")
    assert code == 0
    assert out.splitlines() == [
        f"{output}: 7 samples",
        "2 known positives and 2 known negatives from the review.",
    ]
    assert output.read_text().splitlines()[:3] == ["file,bird,cat,dog", "a.png,-1,1,1", "b.png,,1,1"]
    assert read_observed(DataConfig(path=str(output))).labels.to_ternary().tolist() == [
        list(r) for r in MERGED
    ]


def test_train_gets_exactly_the_reviewed_labels(audit, capsys, tmp_path, monkeypatch):
    """Through `spml train` itself: what its training and validation samples are."""
    answer(audit, "ann", *ANSWERS)
    output = tmp_path / "photos" / "reviewed.csv"
    run(capsys, "review", "export", audit, output, "--format", "csv")
    opened, real = [], resolve.resolve

    def remembered(config, given, *rest):
        opened.append(given.data)
        return real(config, given, *rest)

    monkeypatch.setattr("spml.runs.train.resolve", remembered)
    options = "--method an --model.backbone small_cnn --data.size 16 --epochs 1 --data.workers 0 --output"
    code, _, err = run(capsys, "train", output, options, tmp_path / "run")
    assert code == 0, err
    (dataset,) = opened
    labels = {}
    for samples in dataset.splits.values():
        labels |= dict(zip(samples.ids, samples.observed.to_ternary().tolist(), strict=True))
    assert labels == dict(zip((f"{letter}.png" for letter in "abcdefg"), map(list, MERGED), strict=True))


def test_export_refuses_what_it_should(audit, capsys, tmp_path):
    words = ["review", "export", audit, tmp_path / "out.csv", "--format"]
    assert "nothing has been reviewed yet" in run(capsys, *words, "csv")[2]
    answer(audit, "ann", *ANSWERS)
    assert "unknown format 'cvs'. Did you mean csv" in run(capsys, *words, "cvs")[2]
    assert run(capsys, *words, "csv")[0] == 0
    code, _, err = run(capsys, *words, "csv")
    assert code == 2
    assert "already exists. Replace it (`overwrite`), or name another `output`." in err
    assert run(capsys, *words, "csv", "--overwrite")[0] == 0
