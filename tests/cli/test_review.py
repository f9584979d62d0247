"""The command `spml review`."""

from __future__ import annotations

import getpass
import importlib.util
import socket

import pytest

from spml.audit.folder import read_observed
from spml.cli.main import main
from spml.config import DataConfig
from spml.review import serve
from spml.runs.settle import resolve
from tests.review.conftest import make_audit
from tests.review.test_export import MERGED, answer


@pytest.fixture
def audit(tmp_path):
    return make_audit(tmp_path)


def run(capsys, *words):
    """(exit code, standard output, standard error) of a command."""
    code = 0
    try:
        main([str(word) for word in words])
    except SystemExit as end:
        code = end.code
    output = capsys.readouterr()
    return code, output.out, output.err


@pytest.fixture
def served(monkeypatch):
    """Pages that would be served: folder, reviewer and options."""
    calls = []

    def prepare(*arguments, **options):
        calls.append((*arguments, options))

    monkeypatch.setattr(serve, "prepare", prepare)
    monkeypatch.setattr(serve, "serve", lambda site, *, browser, report: calls[-1][2].update(browser=browser))
    return calls


def test_the_page_is_served(audit, served, capsys):
    options = ["--port", "8765", "--reviewer", " ann ", "--open", "--order", "class"]
    assert run(capsys, "review", audit, *options)[0] == 0
    folder, reviewer, given = served[0]
    assert (folder, reviewer) == (audit, "ann")
    assert (given["port"], given["browser"], given["data"], given["by_class"]) == (8765, True, "", True)


def test_an_option_may_come_first(audit, served, capsys):
    run(capsys, "review", "--port", "1234", audit)
    assert served[0][0] == audit
    assert served[0][1] == getpass.getuser()


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
        f"spml review: The package {package} is not installed. Install it: pip install 'spml[review]'.\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{audit}/nothing"], "is not the folder of an audit, since it has no audit.json. Run spml audit."),
        (["{audit}", "--port", "70000"], "port 70000 can't be used"),
        (["{audit}", "--port", "eighty"], "--port must be a whole number, got 'eighty'"),
        (["{audit}", "--data", "{audit}/none.csv"], "none.csv: no such file or folder"),
        (["{audit}", "--reviewer", "a\nb"], "--reviewer must be a name of at most 100 printable characters."),
        ([], "AUDIT is missing: folder that `spml audit` wrote."),
    ],
)
def test_mistakes_are_named_in_one_line(words, message, audit, capsys):
    code, _, err = run(capsys, "review", *(word.format(audit=audit) for word in words))
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_a_port_in_use_is_named(audit, capsys):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        code, _, err = run(capsys, "review", audit, "--port", port)
    assert code == 2
    assert err == (
        f"spml review: port {port} can't be used (Address already in use). Pass another --port; "
        "0 takes a free one.\n"
    )


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
    opened = []
    start = resolve.start_opening

    class Remembered:
        """Opening that remembers its result."""

        def __init__(self, opening):
            self._opening = opening

        def __getattr__(self, name):
            return getattr(self._opening, name)

        def finish(self, **options):
            opened.append(self._opening.finish(**options))
            return opened[-1]

    def remembered(*given, **options):
        return Remembered(start(*given, **options))

    monkeypatch.setattr(resolve, "start_opening", remembered)
    code, _, err = run(
        capsys, "train", output, "--method", "an", "--model.backbone", "small_cnn", "--data.size", "16",
        "--epochs", "1", "--data.workers", "0", "--output", tmp_path / "run",
    )  # fmt: skip
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
    assert "exists already. Name another file, or replace it with --overwrite." in err
    assert run(capsys, *words, "csv", "--overwrite")[0] == 0
