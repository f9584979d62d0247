"""Tables of files to predict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spml.common.errors import InputError
from spml.data import list_inputs
from spml.data.tables.rows import read_file_list

Picture = Callable[..., Path]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("l.csv", "file,label\na.png,cat\nsub/b.png,\na.png,dog\n"),
        ("l.csv", "n;Image_Path\n1;a.png\n2; sub/b.png\n"),
        ("l.tsv", "id\tphoto\n7\ta.png\n8\tsub/b.png\n"),
        ("l.csv", "filename\na.png\nsub/b.png\n"),
        ("l.csv", "image,file\nx,a.png\ny,sub/b.png\n"),  # `file` comes first
    ],
)
def test_a_column_of_file_names(tmp_path: Path, picture: Picture, name: str, text: str) -> None:
    files = picture("a.png"), picture("sub/b.png")
    (tmp_path / name).write_text(text)
    assert read_file_list(tmp_path / name, None) == (("a.png", "sub/b.png"), files)


def test_a_folder_of_many_files_is_listed(
    tmp_path: Path, picture: Picture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spml.data.files.MANY", 1)
    looked_for: list[str] = []
    monkeypatch.setattr(
        "spml.data.files.is_file", lambda path: looked_for.append(path.name) or path.is_file()
    )
    files = picture("a.png"), picture("sub/b.png"), picture("c.png")
    (tmp_path / "l.csv").write_text("file\na.png\nsub/b.png\nsub/../c.png\n")
    assert read_file_list(tmp_path / "l.csv", None) == (("a.png", "sub/b.png", "sub/../c.png"), files)
    assert looked_for == ["c.png"]


def test_names_relative_to_another_folder_and_absolute_ones_in_it(tmp_path: Path, picture: Picture) -> None:
    files = picture("images/a.png"), picture("images/b.png")
    (tmp_path / "l.csv").write_text(f"file\na.png\n{files[1]}\n")
    images = str(tmp_path / "images")
    assert read_file_list(tmp_path / "l.csv", images) == (("a.png", str(files[1])), files)
    with pytest.raises(InputError, match="`images`: 'nowhere' is not a folder"):
        read_file_list(tmp_path / "l.csv", "nowhere")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file\na.png\nb.png\nc.png\n", r"l\.csv: row 3: there is no file 'b\.png' in .* \(2 of 3 files are"),
        ("file\nb.png\n", r"no file 'b\.png' in [^(]*\. That folder holds 'a\.png', .* pass `images` with"),
        ("file,n\n,1\n", r"l\.csv: row 2: the name of a file is empty"),
        ("file\n../x.png\n", r"row 2: '\.\./x\.png' lies outside the folder .* `images`"),
        ("name,n\na.png,1\n", r"the header has no column `file` .* found: name, n\. Rename the column that"),
        ("file\n", "has no rows"),
    ],
)
def test_tables_that_can_not_be_used(tmp_path: Path, picture: Picture, text: str, message: str) -> None:
    picture("a.png")
    (tmp_path / "l.csv").write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_file_list(tmp_path / "l.csv", None)
    assert "data.images" not in str(caught.value)


def test_tables_next_to_images_and_folders(tmp_path: Path, picture: Picture) -> None:
    folder = picture("in/c.png").parent
    one = picture("a.png")
    picture("b.png")
    (tmp_path / "l.csv").write_text("file\nb.png\na.png\n")
    ids, inputs = list_inputs([str(one), f"{tmp_path}/l.csv", str(folder)], size=8)
    assert ids == (str(one), "b.png", f"{folder}/c.png")
    assert inputs.fetch(range(3), None).shape == (3, 3, 8, 8)
