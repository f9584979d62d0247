"""Attacks by tables: CSV, Parquet, lists of files to predict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.hostile.attacks.attack import ESCAPE, Attack, Make, file, picture

INSPECT = "data inspect data/labels.csv"
PREDICT = "predict seen data/labels.csv --output p.csv"


def table(*rows: str, header: str = "file,label", name: str = "labels.csv") -> Make:
    """Write a CSV file next to a photo, in a folder next to a photo that is none of its business."""

    def make(folder: Path) -> None:
        picture(folder / "data" / "a.png")
        picture(folder / "secret.png")
        (folder / "data" / name).write_text("\n".join([header, *rows, ""]))

    return make


def leaving(folder: Path) -> None:
    """A table that names a link to a photo elsewhere."""
    table("a.png,a", "b.png,b")(folder)
    (folder / "data" / "b.png").symlink_to(folder / "secret.png")


def parquet(content: Callable[[], dict[str, Any]], groups: int = 1) -> Make:
    """Write a Parquet file whose row groups are all the same."""

    def make(folder: Path) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        rows = pa.table(content())
        with parquet.ParquetWriter(folder / "x.parquet", rows.schema) as writer:
            for _ in range(groups):
                writer.write_table(rows)

    return make


def footer(folder: Path) -> None:
    """A Parquet file whose footer claims more than the file has."""
    parquet(lambda: {"file": ["a.png"], "label": ["a"]})(folder)
    path = folder / "x.parquet"
    data = path.read_bytes()
    path.write_bytes(data[:-8] + (1 << 31).to_bytes(4, "little") + data[-4:])


ATTACKS = (
    Attack("a path out of the folder", table("a.png,a", "../secret.png,b"), INSPECT,
        "row 3: '../secret.png' lies outside the folder data"),
    Attack("a path out of the folder with backslashes", table("a.png,a", "..\\secret.png,b"), INSPECT,
        "data/labels.csv: row 3: '..\\\\secret.png' lies outside the folder data. Name files relative"),
    Attack("an absolute path", table("a.png,a", "/etc/hostname,b"), INSPECT,
        "row 3: '/etc/hostname' lies outside the folder data"),
    Attack("a link out of the folder", leaving, INSPECT,
        "secret.png', outside the folder data. Replace the link by the file."),
    Attack("a path of 10,000 folders", table("a.png,a", "x/" * 10_000 + ",b"), INSPECT,
        "data/labels.csv: row 3:"),
    Attack("a line break in the name of a file", table("a.png,a", '"b\n.png",b'), INSPECT,
        "data/labels.csv: row 3: 'b\\n.png' holds a character that no file name has (a line break,"),
    Attack("a terminal escape as class name", table(f"a.png,{ESCAPE}"), INSPECT,
        r"the class name '\x1b]0' holds control characters"),
    Attack("NUL bytes in a table", table("a.png,a\0"), INSPECT, "line 2 holds a NUL byte"),
    Attack("an endless line", file("data/labels.csv", "file,label\n" + "a" * 9_000_000), INSPECT,
        "line 2 is longer than 8,000,000 characters"),
    Attack("a million columns", file("data/labels.csv", "file" + ",a" * 1_000_000), INSPECT,
        "the header has 1,000,001 columns, more than 100,000"),
    Attack("a quote that is never closed", file("data/labels.csv", 'file,label\n"a.png,b\n' * 5), INSPECT,
        "is not valid CSV near line 4"),
    Attack("a class for each of 50,000 rows",
        lambda folder: table(*(f"a.png,c{row}" for row in range(50_000)))(folder), INSPECT,
        "training is refused: 1 training sample is too few to hold out 20% for validation: provide", 0),
    Attack("a list of files to predict that leads out", table("a.png", "../secret.png", header="file"),
        PREDICT, "data/labels.csv: row 3: '../secret.png' lies outside the folder data. Name files relative"),
    Attack("a Parquet file of 10,000,000 rows in 50 KB",
        parquet(lambda: {"file": ["a.png"] * 1_000_000, "label": ["a"] * 1_000_000}, 10),
        "data inspect x.parquet",
        "x.parquet: claims to have 10,000,000 rows, more than the limit of 5,269,500."),
    Attack("a Parquet file that repeats a long text",
        parquet(lambda: {"file": ["a" * 100_000] * 2000, "label": ["a"] * 2000}), "data inspect x.parquet",
        "x.parquet: has more than 1,000 characters of text per byte of the file."),
    Attack("a Parquet file with a footer of 2 GB", footer, "data inspect x.parquet",
        "x.parquet: can't be read as a Parquet file: Parquet file size is 653 bytes, smaller than"),
)  # fmt: skip
