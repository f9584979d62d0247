"""The pages on the papers: what they name exists, and every figure of the program is on them."""

from __future__ import annotations

import csv
import importlib
import re
import shlex
import sys
from pathlib import Path

import pytest

from spml.analysis import figures
from spml.bench.space import Range
from spml.bench.spec import find_spec
from spml.cli.main import parse, split_command

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "papers"
ITEMS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (PAGES / "items.md").read_text().splitlines()
    if re.match(r"\| \d", line)
]

sys.path.insert(0, str(ROOT / "docs"))
papers = importlib.import_module("papers_figures")
claims = importlib.import_module("papers_claims")
FIGURES = {figure.name: figure for figure in papers.FIGURES}


def test_every_item_has_a_row():
    assert [int(number) for number, *_ in ITEMS] == list(range(1, 126))
    assert {there for _, _, there, _ in ITEMS} == {"yes", "partly"}


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item[0])
def test_what_an_item_names_exists(item):
    names = re.findall(r"`([^`]+)`", item[3])
    for path in (name for name in names if name.startswith(("src/", "tests/", "docs/", "benchmarks/"))):
        assert (ROOT / path).exists(), path
    for kind, name in re.findall(r"spml (analyse|bench run) ([\w-]+)", item[3]):
        if kind == "analyse":
            assert name in figures()
        else:
            assert (ROOT / "src/spml/bench/specs" / f"{name}.yaml").exists(), name
    assert item[3]
    # What is missing is said in words.
    assert item[2] == "yes" or len(re.sub(r"`[^`]*`", "", item[3])) > 25


def test_numbers_of_claims_are_those_of_the_committed_results():
    assert (PAGES / "claims.md").read_text(encoding="utf-8") == claims.page()
    verdicts = [claim.verdict for claim in claims.claims()]
    assert len(verdicts) > 15
    assert {*verdicts} == {"seen", "partly", "not seen", "contradicted", "untested"}


def test_a_verdict_follows_from_difference_interval_and_pairs():
    assert claims.ruled(2.0, 1.0, 3) == ("not seen", "+2.0 (-0.5 to +4.5")  # t(2) = 4.303
    assert claims.ruled(2.0, 0.8, 3) == ("seen", "+2.0 (+0.0 to +4.0")
    assert claims.ruled(-2.0, 0.8, 3)[0] == "contradicted"
    assert claims.ruled(2.0, 0.8, 2)[0] == "not seen"  # t(1) = 12.706
    assert claims.ruled(9.0, float("nan"), 1) == ("not seen", "+9.0 (no interval")
    low, high = {"mAP": "0.90", "sd": "0.003", "seeds": "2"}, {"mAP": "0.96", "sd": "0.004", "seeds": "2"}
    said = "a - b +6.0 (+1.5 to +10.5; 2 seeds, 4 runs)"  # 12.706 x 0.5 / sqrt(2)
    assert claims.compared(("a", high, "b", low)) == ("seen", said)
    assert claims.compared(("a", high, "b", low), ("b", low, "a", high))[0] == "partly"


@pytest.mark.parametrize(
    ("name", "rows", "rates"),
    [
        *((f"paper-{data}", {"opml", "opml_sp"}, (1e-4, 1e-1)) for data in ("voc", "coco", "nus", "cub")),
        ("opml-table4", {"opml", "high rank", "smoothing", "correction", "all three"}, (1e-4, 1e-1)),
        ("opml-table5", {"opml"}, (1e-4, 1e-1)),
        ("features", {"opml"}, (1e-4, 8e-2)),
        ("features-added", {"opml"}, (1e-4, 8e-2)),
    ],
)
def test_the_constants_of_opml_are_searched_with_the_budget_of_the_others(name, rows, rates):
    """With constants of 1 OPML is ZLPR."""
    spec = find_spec(name)
    candidates = {candidate.name: candidate for candidate in spec.candidates}
    around_one, rate = Range(0.1, 10, log=True), Range(*rates, log=True)
    for row in rows:
        candidate = candidates[row]
        assert spec.sampler_of(candidate) == "random"
        space = {"optim.lr": rate, "hp.alpha": around_one, "hp.beta": around_one}
        assert candidate.space == space
    assert {spec.trials_of(candidate) for candidate in spec.candidates if candidate.space} == {spec.trials}
    if name.startswith("opml"):
        assert spec.train["optim"]["name"] == "sgd"
        assert {candidate.space["optim.lr"] for candidate in spec.candidates} == {rate}
        assert "momentum of SGD, 0.9" in " ".join(" ".join(spec.about).split())


@pytest.mark.parametrize(
    ("name", "data", "batch_size", "ends"),
    [
        ("gr-table3", "voc2012", 8, ([0, 2], [-2, -2])),
        ("gr-table3-coco", "coco2014", 16, ([0, 10], [-2, -8])),
    ],
)
def test_both_halves_of_table_3_of_gr_have_all_rows(name, data, batch_size, ends):
    spec = find_spec(name)
    off = {"k": {"k": "constant", "share": 0.0}, "v": {"v": "one"}, "q": {"q2": 0.01, "q3": 0.01}}
    full = {"w": ends[0], "b": ends[1], "mu": [0.5, 0.8], "sigma": [2, 0.5], "q1": 0.01, "q2": 0.01, "q3": 1}
    expected = {
        "k": full | off["v"] | off["q"],
        "v": full | off["k"] | off["q"],
        "q": full | off["k"] | off["v"],
        "k and v": full | off["q"],
        "k and q": full | off["v"],
        "v and q": full | off["k"],
        "k, v and q": full,
        "k, v and q, fixed": full | {"schedule": "constant"},
        "k, v and q, cosine": full | {"schedule": "cosine"},
        "k, v and q, exponential": full | {"schedule": "exponential"},
        "learned": full | {"k": "learned", "v": "learned"},
    }
    settings = {candidate.name: candidate.settings for candidate in spec.candidates}
    assert {settings.pop("an")["method"], settings.pop("full labels")["method"]} == {"an", "bce"}
    searched = {"k": ("b", "w"), "v": ("mu", "sigma"), "q": ("q2", "q3")}
    for candidate in spec.candidates:
        if candidate.name in settings:
            row, space = expected.pop(candidate.name), candidate.space
            parts = [] if candidate.name == "learned" else re.findall(r"\b[kvq]\b", candidate.name)
            assert set(space) == {f"hp.{name}" for part in parts for name in searched[part]}
            for name, value in row.items():  # what Table 6 states is fixed, or among what is searched
                choices = space.get(f"hp.{name}")
                stated = [candidate.settings["hp"][name]] if choices is None else choices.choices
                assert value in stated, (candidate.name, name)
            assert spec.trials_of(candidate) == (8 if parts else 1)
    assert expected == {}
    assert [part.name for part in spec.data] == [data]
    train = spec.train
    assert (train["batch_size"], train["epochs"], train["optim"]["lr"]) == (batch_size, 8, 1e-5)


@pytest.mark.parametrize("name", ["sensitivity-voc", "sensitivity-cub"])
def test_the_studies_of_hyper_parameters_on_the_papers_data_search_the_same(name):
    digits, papers = (find_spec(each).candidates for each in ("sensitivity", name))
    assert [(each.name, each.space) for each in papers] == [(each.name, each.space) for each in digits]
    assert find_spec(name).hidings[0].settings == {"observe": "protocol"}


def test_the_checks_that_the_summary_of_gr_proposes_differ_as_they_say():
    noise, forms = find_spec("gr-noise"), find_spec("gr-forms")
    shares = {hiding.name: hiding.settings.get("observe_noise", 0) for hiding in noise.hidings}
    assert shares == {"no noise": 0, **{f"{k} % wrong": k / 100 for k in (10, 20, 30, 40)}}
    assert noise.seeds == (0, 1, 2, 3, 4)
    settings = {candidate.name: dict(candidate.settings["hp"]) for candidate in noise.candidates[1:]}
    assert settings.pop("q1 = 1, q2 = .01, q3 = 1") == {"q1": 1.0, "q2": 0.01, "q3": 1.0}
    assert settings == {
        f"q2 = {low}, q3 = {high}": {"q2": float(low), "q3": float(high)}
        for low in (".01", "1")
        for high in (".01", "1")
    }
    assert {candidate.name: candidate.settings.get("hp", {}) for candidate in forms.candidates[2:]} == {
        "logistic k, Gaussian v": {},
        **{f"{form} {part}": {part: form} for form in ("polynomial", "exponential") for part in "kv"},
        **{f"both {form}": {"k": form, "v": form} for form in ("polynomial", "exponential")},
    }
    for spec in (noise, forms):
        assert {spec.trials_of(candidate) for candidate in spec.candidates} == {1}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_of_the_page_is_drawn_by_its_command(name):
    figure = FIGURES[name]
    words = shlex.split(figure.command)
    parse(words[1:])
    assert split_command(words[1:])[0] == f"analyse {words[2]}"
    page = (PAGES / "README.md").read_text()
    assert figure.command in page
    assert f"![{figure.title}]({name}.png)" in page
    assert len(figure.text) > 80
    rows = list(csv.reader((PAGES / f"{name}.csv").open()))
    assert len(rows) > 1
    assert (PAGES / f"{name}.png").stat().st_size < 1_000_000


@pytest.mark.parametrize(
    "command", [*papers.DIGITS.values(), *papers.PHOTOGRAPHS.values(), *papers.STORES.values()]
)
def test_the_runs_of_the_page_have_commands(command):
    parse([*shlex.split(command)[1:], "--output", "x"])


def test_every_figure_is_on_the_page():
    drawn = {shlex.split(figure.command)[2] for figure in FIGURES.values()}
    assert drawn == set(figures())
