"""Files of a report: their content, that they are safe, and that equal rows give equal files."""

from __future__ import annotations

import csv
import hashlib
import io
import random
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from spml.bench.report import build_report
from spml.bench.report import write_report as write_files
from spml.bench.report.figures import _lanes
from spml.bench.report.page import escape
from spml.common.errors import SpmlError
from tests.bench.rows import HOSTILE, MODES, row, sweep
from tests.helpers.pages import check_report

pytestmark = pytest.mark.usefixtures("painted_pictures")  # since files are compared
SETTINGS = {
    "title": HOSTILE,
    "modes": MODES[:2],
    "baseline": "an",
    "ceiling": "full",
    "reference_only": ["full"],
}
TABLES = {f"{name}.csv" for name in ("results", "summary", "trials", "cost")}
FILES = {"report.md", "report.html", "tables.tex", *TABLES}
ABOUT = ["First **words** <script>alert(2)</script> [link](https://a.b)", "- one\n- two"]


def write_report(
    rows: list, folder: Path, *, title: str, about: list[str] | None = None, **settings: Any
) -> None:
    write_files(build_report(rows, **settings), folder, title=title, about=about or ())


def hashes(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


class Tags(HTMLParser):
    """Collects the tags of a page and checks that they are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: list[str] = []
        self.styles: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        self.styles |= {value for name, value in attrs if name == "style"}
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def rows() -> list:
    made = sweep(data=("voc", HOSTILE), seeds=2, trials=2, draws=399)
    failed = replace(made[0], status="failed", message="<b>out of\nmemory</b> | `x`", trial=9, key="f" * 64)
    return [*made, failed]


@pytest.fixture(scope="module")
def folder(rows: list, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "deeper"
    write_report(rows, path, about=ABOUT, **SETTINGS)
    return path


def table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(), newline="")))


@pytest.mark.long
def test_the_same_rows_in_any_order_give_the_same_files(folder: Path, rows: list, tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "scores-99.png").write_bytes(b"of an earlier report")
    (tmp_path / "figures" / "mine.png").write_bytes(b"unrelated")
    write_report(random.Random(1).sample(rows, len(rows)), tmp_path, about=ABOUT, **SETTINGS)
    again = hashes(tmp_path)
    assert again.pop("figures/mine.png")
    assert again == hashes(folder)
    names = {"scores-01", "scores-02", "ranks-01", "ranks-02"}
    assert set(again) == FILES | {f"figures/{name}.{kind}" for name in names for kind in ("png", "svg")}


@pytest.mark.long
def test_only_cost_changes_with_time(folder: Path, rows: list, tmp_path: Path) -> None:
    slower = [replace(r, seconds=2 * r.seconds, memory=1.0, finished="2031-01-01T00:00:00Z") for r in rows]
    write_report(slower, tmp_path, about=ABOUT, **SETTINGS)
    one, two = hashes(tmp_path), hashes(folder)
    assert {name for name in two if one[name] != two[name]} == {"cost.csv"}


def test_results_name_the_run_of_every_seed(folder: Path, rows: list) -> None:
    lines = table(folder / "results.csv")
    assert len(lines) == 2 * 5 * 2 * 2  # data, candidates, modes, seeds
    by_key = {r.key: r for r in rows}
    for line in lines:
        source = by_key[line["key"]]
        assert (source.series.candidate, str(source.series.seed)) == (line["candidate"], line["seed"])
        column = {"oracle": "val/mAP", "observed": "val/SP"}[line["selection"]]
        same = [r for r in rows if r.series == source.series and r.status == "done"]
        assert max(max(r.history[column]) for r in same) == source.history[column][int(line["epoch"]) - 1]
        value = source.history["test/mAP"][int(line["epoch"]) - 1]
        assert float(line["test_mAP"]) == pytest.approx(value, rel=1e-5)
    assert {line["candidate"] for line in lines} == {"an", "wan", "em", "full", HOSTILE}


def test_summary_agrees_with_results(folder: Path) -> None:
    lines = table(folder / "results.csv")
    for cell in table(folder / "summary.csv"):
        same = [
            float(line["test_mAP"])
            for line in lines
            if all(line[k] == cell[k] for k in ("data", "hiding", "candidate", "selection"))
        ]
        assert float(cell["mean_mAP"]) == pytest.approx(sum(same) / 2, rel=1e-5)
        assert float(cell["sd_mAP"]) == pytest.approx(abs(same[0] - same[1]) / 2**0.5, abs=2e-6)
        assert cell["best"] == str(int(cell["candidate"] == "em"))


def test_the_page_has_both_columns_and_failures(folder: Path) -> None:
    text = (folder / "report.md").read_text()
    assert "| candidate | seeds | `oracle`: mAP | `observed`: mAP |" in text
    compared = [f"`{mode}`: {column}" for mode in MODES[:2] for column in ("gap", "to an", "p")]
    assert f"| candidate | {' | '.join(compared)} |" in text
    best = next(c for c in table(folder / "summary.csv") if c["best"] == "1" and c["data"] == "voc")
    assert f"**{100 * float(best['mean_mAP']):.2f} ± {100 * float(best['sd_mAP']):.2f}**" in text
    assert r"| \<b\>out of memory\</b\> \| \`x\` |" in text
    assert "1 run failed" in text
    assert "spml bench config STORE KEY > run.yaml" in text
    assert "abc1234" in text
    assert "| full ° |" in text
    # Every line of a table has as many cells as its head: no name breaks out of its cell.
    head = 0
    for line in text.splitlines():
        cells = line.replace(r"\\", "").replace(r"\|", "").count("|")
        if line.startswith("|"):
            assert head in (0, cells)
            head = cells
        else:
            head = 0


def test_html_holds_everything_and_runs_nothing(folder: Path) -> None:
    text = (folder / "report.html").read_text()
    page = Tags()
    page.feed(text)
    assert page.open == []
    assert page.tags.count("script") == 1  # which sorts tables
    attributes = {"lang", "charset", "name", "content", "http-equiv", "class", "tabindex", "id", "style"}
    attributes |= {"alt", "src", "href", "type"}
    assert set(page.attributes) <= attributes
    assert page.styles == {"text-align:right"}
    assert page.tags.count("img") == 4
    assert page.tags.count("table") == text.count("<tbody>") >= 8
    assert text.count('src="data:image/svg+xml;base64,') == 4
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<strong>words</strong> &lt;script&gt;" in text
    assert '<a href="https://a.b">link</a>' in text
    assert "<ul>\n<li>one</li>\n<li>two</li>\n</ul>" in text


def test_latex(folder: Path) -> None:
    text = (folder / "tables.tex").read_text()
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 2
    assert r"a\textbar{}b\_\$\%\&\textless{}script" in text
    best = next(c for c in table(folder / "summary.csv") if c["best"] == "1" and c["data"] == "voc")
    assert f"\\textbf{{{100 * float(best['mean_mAP']):.2f}}}" in text
    assert "full$^\\circ$ &" in text
    bodies = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert all(line.replace(r"\&", "").count("&") == 2 for line in bodies)
    assert escape("[x]*^~\\") == r"{[}x]{*}\textasciicircum{}\textasciitilde{}\textbackslash{}"


def test_pictures(folder: Path) -> None:
    for path in (folder / "figures").glob("*.png"):
        with Image.open(path) as image:
            assert image.format == "PNG"
            assert image.width > 900
    svg = (folder / "figures" / "scores-01.svg").read_text()
    assert "<script" not in svg
    assert "<dc:date>" not in svg


def test_groups_of_one_lane_do_not_touch() -> None:
    assert _lanes(((0, 1, 2), (2, 3), (3, 4), (5, 6))) == [0, 1, 0, 0]


def test_little_data_is_enough(tmp_path: Path) -> None:
    one = row(("voc", "uniform", "an", 0), values={"val/mAP": [0.5], "test/mAP": [0.4]})
    write_report([one], tmp_path, title="One", modes=MODES, baseline="an", ceiling="full")
    text = (tmp_path / "report.md").read_text()
    assert "| an | 1 | **40.00** |" in text
    assert "One seed only" in text
    failed = replace(one, status="failed", message="no", history={})
    write_report([failed], tmp_path, title="None", modes=MODES)
    assert "1 series without a result" in (tmp_path / "report.md").read_text()
    assert not (tmp_path / "figures" / "scores-01.png").exists()


def test_a_folder_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpmlError, match="figures: can't be made"):
        write_report([], tmp_path / "file", title="x", modes=MODES)


@pytest.mark.long
def test_the_page_fits_a_computer_and_a_phone_and_is_accessible(tmp_path: Path) -> None:
    names = ["an", "full", "em", "ROLE, learning rate of the head times 10"]
    candidates = {name: 0.02 * k for k, name in enumerate(names)}
    made = sweep(data=("voc", "yeast"), candidates=candidates, seeds=2, trials=1, draws=49)
    settings = {"modes": MODES, "baseline": "an", "ceiling": "full", "reference_only": ["full"]}
    write_report(made, tmp_path, title="Four methods", **settings)
    check_report(tmp_path / "report.html")
