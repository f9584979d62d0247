"""`spml analyse` on the command line."""

from __future__ import annotations

import pytest

from spml.analysis import figures
from tests.helpers.commands import execute, fails


def test_the_list_names_every_figure(capsys):
    execute("analyse --list")
    printed = capsys.readouterr().out
    assert all(f"\n{name} " in printed for name in figures())


def test_a_figure_is_written_with_its_numbers(tmp_path, capsys):
    command = ["analyse losses 0.5 1 --points 3 --name l3 --output", tmp_path]
    execute(*command)
    assert capsys.readouterr().out == f"{tmp_path}: l3.png, l3.svg, l3.csv written\n"
    assert (tmp_path / "l3.csv").read_text().splitlines()[-1].startswith("q3 = 1,0,0.999,")
    assert "already exists. Replace it (`overwrite`)" in fails(capsys, *command)
    execute(*command, "--overwrite --format pdf")
    assert capsys.readouterr().out == f"{tmp_path}: l3.pdf, l3.csv written\n"


def test_nothing_is_drawn_where_it_could_not_be_written(tmp_path, capsys, monkeypatch):
    (tmp_path / "losses.csv").write_text("mine")
    monkeypatch.setattr("spml.analysis.curves._frame", lambda *_: pytest.fail("drawn"))
    fails(capsys, "analyse losses 1 --output", tmp_path)
    assert (tmp_path / "losses.csv").read_text() == "mine"


def test_a_path_as_data_is_not_read_as_settings(tmp_path, capsys):
    said = fails(capsys, "analyse maps", tmp_path / "run", "--data photos --output", tmp_path)
    assert "run: no such folder" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "name a figure; `spml analyse --list` lists them"),
        ("loses 1", "unknown command 'loses'. Did you mean losses?"),
        ("losses", "analyse losses: SOURCES is missing: exponents q3"),
        ("gradients em2", "Did you mean em?"),
        ("losses 1 --format png,jpg", "`format` must be png, svg, pdf, or several with commas, got 'jpg'"),
        ("gradients em --over q", "--over must be one of p, z, got 'q'"),
    ],
)
def test_wrong_usage(arguments, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in fails(capsys, f"analyse {arguments}")
    assert not list(tmp_path.iterdir())
