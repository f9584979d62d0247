"""Specifications are read completely, and mistakes are reported with their place before anything runs."""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import re
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spml.bench.plan import all_series, next_trial
from spml.bench.space import Range
from spml.bench.spec import chosen, merged, read_spec, ready_made
from spml.common.errors import InputError
from spml.config import AUTO
from spml.methods.registry import methods
from spml.models import CLOSED_FORM
from tests.bench.toys import TOY, save_spec

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))
specifications = importlib.import_module("specifications")
published_results = specifications.published_results
find_spec = functools.cache(specifications.find_spec)  # a large one takes a second to be read and checked


@pytest.fixture(scope="module", autouse=True)
def specifications_are_read_once():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(specifications, "find_spec", find_spec)
        yield


def edited(tmp_path, old, new):
    assert TOY.count(old) == 1
    return save_spec(tmp_path, TOY.replace(old, new))


def test_everything_is_read(tmp_path):
    spec = read_spec(save_spec(tmp_path))
    assert spec.title == "toys"
    assert spec.seeds == (0, 1)
    assert spec.trials == 3
    assert spec.draws == 20
    assert spec.modes == ("oracle", "observed", "audit:20")
    assert spec.audits == ("audit:20",)
    assert spec.guided_by == "oracle"
    assert spec.sampler == "random"
    (data,) = spec.data
    assert data.mean_labels == 1.6
    assert data.empty is None
    assert data.settings == {"path": "toy.npz", "unlisted": "negative"}
    assert [hiding.name for hiding in spec.hidings] == ["uniform", "frequent"]
    an, em, full = spec.candidates
    assert an.settings == {"method": "an"}
    assert an.space == {"optim.lr": Range(1e-3, 1e-1, log=True)}
    assert em.name == "em slow"
    assert em.settings == {"method": "em", "optim": {"lr": 1e-3}}
    assert em.space == {"hp.alpha": Range(choices=(0.05, 0.1, 0.2))}  # what is fixed is not searched
    assert full.labels == "full"
    assert an.labels == "observed"
    assert spec.train == {"epochs": 3, "batch_size": 32}


def test_all_methods_except_some(tmp_path):
    text = TOY.replace("  - an\n", "  - {all: true, except: [em, iu, combine, gpr]}\n")
    spec = read_spec(save_spec(tmp_path, text.replace("epochs: 3", "epochs: 6")))
    assert {candidate.name for candidate in spec.candidates} >= {*methods()} - {"em", "iu", "combine", "gpr"}
    assert "iu" not in {candidate.name for candidate in spec.candidates}


def test_mean_labels_of_a_candidate(tmp_path):
    path = edited(tmp_path, "  - an\n", "  - an\n  - {name: w, method: an, mean_labels: x1.4}\n"
                  "  - {name: u, method: an, mean_labels: unstated}\n")  # fmt: skip
    mean_labels = {candidate.name: candidate.mean_labels for candidate in read_spec(path).candidates}
    assert mean_labels["an"] == 1.0
    assert mean_labels["w"] == 1.4
    assert mean_labels["u"] is None


def test_a_warmup_that_ends_in_time(tmp_path):
    assert read_spec(edited(tmp_path, "  - an\n", "  - an\n  - {name: e, method: em_apl, hp.warmup: 2}\n"))


SOLVED = [f"method: {AUTO}", *(f"model.head: {head}" for head in CLOSED_FORM)]


@pytest.mark.parametrize("settings", SOLVED)
def test_what_is_solved_in_closed_form_is_a_candidate(settings, tmp_path):
    path = edited(tmp_path, "  - an\n", f"  - an\n  - {{name: solved, {settings}, space: {{}}}}\n")
    spec = read_spec(path)
    (candidate,) = (candidate for candidate in spec.candidates if candidate.name == "solved")
    assert (candidate.space, spec.trials_of(candidate)) == ({}, 1)
    series = next(series for series in all_series(spec) if series.candidate is candidate)
    config = next_trial(spec, series, [], Path("root")).config
    key, value = settings.split(": ")
    assert (config.method if key == "method" else config.model.head) == value


@pytest.mark.parametrize("entry", [AUTO, f"{{name: heads, method: {AUTO}}}"])
def test_nothing_is_searched_where_nothing_is_trained(entry, tmp_path):
    name = "heads" if "heads" in entry else AUTO
    path = edited(tmp_path, "  - an\n", f"  - an\n  - {entry}\n")
    words = rf"candidate '{name}': method {AUTO} solves .* nothing to search in optim\.lr\. Write {{name"
    with pytest.raises(InputError, match=words):
        read_spec(path)
    path.write_text(path.read_text().replace("    optim.lr: {low: 1e-3, high: 1e-1, log: true}", "    {}"))
    assert AUTO in [candidate.settings["method"] for candidate in read_spec(path).candidates]


def test_other_settings_of_what_is_solved_can_be_searched(tmp_path):
    searched = "model.weights: [a.safetensors, b.safetensors]"
    entry = f"{{name: heads, method: {AUTO}, optim.lr: 0.1, space: {{{searched}}}}}"
    spec = read_spec(edited(tmp_path, "  - an\n", f"  - an\n  - {entry}\n"))
    assert [spec.trials_of(candidate) for candidate in spec.candidates if candidate.name == "heads"] == [3]


@pytest.mark.parametrize("settings", [*SOLVED, "method: an, optim.name: lbfgs"])
def test_what_is_solved_has_no_first_phase(settings, tmp_path):
    entry = f"{{name: solved, {settings}, space: {{}}, first: {{epochs: 1}}}}"
    with pytest.raises(InputError, match=r"candidate .*a head that is solved has no first phase"):
        read_spec(edited(tmp_path, "  - an\n", f"  - an\n  - {entry}\n"))


def test_trials_are_counted(tmp_path):
    spec = read_spec(edited(tmp_path, "space: {hp.alpha: [0.05, 0.1, 0.2]}", "space: {}"))
    assert [spec.trials_of(candidate) for candidate in spec.candidates] == [3, 1, 3]
    text = TOY.replace("sampler: random", "sampler: grid")
    text = text.replace("optim.lr: {low: 1e-3, high: 1e-1, log: true}", "optim.lr: [0.01, 0.1]")
    spec = read_spec(save_spec(tmp_path, text))
    assert [spec.trials_of(candidate) for candidate in spec.candidates] == [2, 3, 2]


def test_a_huge_grid_is_counted_without_being_made(tmp_path):
    values = ", ".join(f"0.{number:03}" for number in range(1, 101))
    space = ", ".join(f"hp.x{number}: [{values}]" for number in range(20))
    path = edited(tmp_path, "hp.alpha: [0.05, 0.1, 0.2]", space)
    path.write_text(
        path.read_text()
        .replace("sampler: random", "sampler: grid")
        .replace("optim.lr: {low: 1e-3, high: 1e-1, log: true}", "optim.lr: [0.01]")
    )
    with pytest.raises(InputError, match=f"a grid of 1{'0' * 40} trials"):
        read_spec(path)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("  - an\n", "  - ann\n", "'ann'"),
        ("  - an\n", "  - an\n  - an\n", r"candidates\[1\]: there are two candidates called 'an'"),
        ("title: toys", "titel: toys", "unknown key 'titel'.*title"),
        ("path: toy.npz,", "", "data.toy needs a path"),
        ("unlisted: negative,", "unlisted: negative, train: {epoch: 3},",
         "unknown key 'epoch' of data.toy.train"),
        ("unlisted: negative,", "unlisted: negative, train: 3,", "data.toy.train: Expected `object`, got 3"),
        ("unlisted: negative", "unlistet: negative", "unknown key 'unlistet'.*unlisted"),
        ("unlisted: negative", "unlisted: none",
         "candidate 'an': data.unlisted must be unknown or negative, got 'none'"),
        ("mean_labels: 1.6", "mean_labels: 0", "data.toy.mean_labels: Expected `float` > 0.0, got 0"),
        ("observe: single", "observe_seed: 3", "unknown key 'observe_seed'"),
        ("observe_power: 1.0", "power: 1.0", "unknown key 'power'"),
        ("hp.alpha: [0.05, 0.1, 0.2]", "hp.alhpa: [0.05]", "alhpa"),
        ("hp.alpha: [0.05, 0.1, 0.2]", "hp.alpha: []", "hp.alpha: the list of values is empty"),
        ("hp.alpha: [0.05, 0.1, 0.2]", "hp.alpha: [0.1, -3.0]", "alpha"),
        ("method: em,", "methode: em,", "unknown key 'methode'"),
        ("labels: full", "labels: all",
         r"candidates\[2\]: labels: Expected one of observed, positive_and_negatives, full, got 'all'"),
        ("baseline: an", "baseline: annn", "no candidate is called 'annn'"),
        ("ceiling: full", "ceiling: none", "no candidate is called 'none'"),
        ('"audit:20"', '"audit:0"', "unknown mode 'audit:0'"),
        ('"audit:20"', "oracle", "different modes"),
        ("seeds: 2", "seeds: 0", "seeds: Expected `int` >= 1, got 0"),
        ("seeds: 2", "seeds: [1, 1]", "expected different seeds"),
        ("seeds: 2", "seeds: []", "seeds: Expected `array` of length >= 1"),
        ("  toy: {path: toy.npz, unlisted: negative, mean_labels: 1.6}", "  toy: 3",
         "expected a mapping, got 3"),
        ("trials: 3", "guided_by: audit:7", "guided_by must be one of oracle, observed, audit:20"),
        ("observe: single", "observe: singel", "data.observe must be one of none, single"),
        ("data:\n", "card: vok\ndata:\n", "card: Expected one of voc, coco, nus, cub, got 'vok'"),
        ("draws: 20", "draws: 0.5", "draws: Expected `int`, got 0.5"),
        ("sampler: random", "sampler: rand", "search.sampler: Expected one of random, grid, tpe, got 'rand'"),
        ("sampler: random", "sampler: grid", "a list of values for optim.lr"),
        ("trials: 3", "trials: 0", "search.trials: Expected `int` >= 1, got 0"),
        ("trials: 3", "trials: 100000000", "at most 1,000,000 are possible"),
        ("low: 1e-3", "low: 1e+3", "low < high"),
        ("low: 1e-3", "low: -1", "low < high"),
        ("low: 1e-3", "lo: 1e-3", "unknown key 'lo'"),
        ("epochs: 3", "epochs: 0", "epochs must be at least 1, got 0"),
        ("epochs: 3", "epoch: 3", "unknown key 'epoch' of train.*epochs"),
        ("epochs: 3", "seed: 3", "unknown key 'seed'"),
        ("epochs: 3", "devices: 2", "unknown key 'devices'"),
        ("  - an\n", "  - an\n  - em_apl\n", "nothing before epoch 6 .*epochs is 3"),
        ("method: em,", "method: em, devices: 2,", "unknown key 'devices' of a candidate"),
        ("draws: 20", "seeds: 2", "'seeds' is stated twice"),
        ("draws: 20", "draws: 1", "draws: Expected `int` >= 2, got 1"),
        ("mean_labels: 1.6", "mean_labels: .inf", "mean_labels: Expected `float` <= 1000000000.0, got inf"),
        ("observe: single", "observe: single, observe_share: 3.0", "observe_share 3 has no effect"),
        ("method: em,", "method: em, init_from: runs/x,", "unknown key 'init_from'"),
        ("method: em,", "method: em, record: scores,", "unknown key 'record'"),
        ("method: em,", "method: em, 7: 1,", "7 is not a name"),
        ("name: em slow", 'name: ""', "name: Expected `str` of length >= 1"),
        ("method: em,", "method: em, optim: 3,", "optim.lr is part of optim, which is stated as a whole"),
        ("method: em,", "method: em, optim: {lr: 1},", "optim.lr is stated twice"),
        ("optim.lr: {low", "data.path: {low", "'data.path' can't be searched"),
        ("optim.lr: {low", "devices: {low", "'devices' can't be searched"),
        ("optim.lr: {low", "threads: {low", "'threads' can't be searched"),
        ("optim.lr: {low", "seed: {low", "'seed' can't be searched"),
        ("optim.lr: {low", "mean_labels: {low", "'mean_labels' can't be searched"),
        ("optim.lr: {low", "on: {low", "True is not a name"),
        ("log: true", "log: [1]", r"search.space.optim.lr.log: Expected `bool`, got \[1\]"),
        ("high: 1e-1, log: true", "high: .inf", "low < high"),
        ("log: true", "integer: true", "integer: true whole numbers"),
        ("epochs: 3", "3: 4, epochs: 3", "3 is not a name"),
        ("epochs: 3", "optim: 3, optim.lr: 1", "optim.lr is part of optim, which is stated as a whole"),
        ("seeds: 2", "seeds: [99999999999]", r"seeds\[0\]: Expected `int` <= 2147483647"),
    ],
)  # fmt: skip
def test_mistakes_are_reported_with_their_place(tmp_path, old, new, words):
    path = edited(tmp_path, old, new)
    with pytest.raises(InputError, match=words) as caught:
        read_spec(path)
    assert str(caught.value).startswith(str(path)), str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected a mapping"),
        ("- a", "expected a mapping"),
        ("a: [", "not valid YAML"),
        ("a: &x [1]\nb: *x", r"references \(\*name\) are not supported"),
        ("title: !!python/object:os.system {}", "line 1: not valid YAML: could not determine a constructor"),
        ('title: "\\ud800"', "not valid YAML.*surrogates"),
        ("title: x", "missing required field `data`"),
    ],
)
def test_files_that_are_not_specifications(tmp_path, text, words):
    with pytest.raises(InputError, match=words):
        read_spec(save_spec(tmp_path, text))


def test_unknown_specification():
    with pytest.raises(InputError, match=r"quik: no such file.*Did you mean quick") as caught:
        find_spec("quik")
    assert [name for name in ready_made() if name not in str(caught.value)] == []


def test_some_candidates_and_seeds_keep_their_keys(tmp_path):
    spec = read_spec(edited(tmp_path, "  - an\n", "  - an\n  - {name: 'an, wide', method: an}\n"))
    some = chosen(spec, "full,an, wide", "1")
    assert [series.key for series in all_series(some)] == [
        series.key
        for series in all_series(spec)
        if series.candidate.name in ("an, wide", "full") and series.seed == 1
    ]
    points = [
        {series.key: next_trial(each, series, [], tmp_path).point for series in all_series(each)}
        for each in (some, spec)
    ]
    assert points[0].items() <= points[1].items()
    assert (some.baseline, some.ceiling) == ("", "full")
    assert chosen(spec) == spec
    with pytest.raises(InputError, match=r"has no candidate 'ann'. Did you mean an"):
        chosen(spec, "ann")
    with pytest.raises(InputError, match=r"has no seed '2'"):
        chosen(spec, seeds="0,2")


@pytest.mark.parametrize("name", ready_made())
def test_ready_made_ones_can_be_read_and_planned(name):
    spec = find_spec(name)
    assert spec.title
    assert spec.baseline
    assert "oracle" in spec.modes
    nothing_hidden = all(hiding.settings == {"observe": "none"} for hiding in spec.hidings)
    assert nothing_hidden or "observed" in spec.modes
    points = set()
    for series in all_series(spec):
        trial = next_trial(spec, series, [], Path("root"))
        points.add(trial.point)
        assert trial.config.method or trial.config.model.head != "auto"
    assert len(points) == len(spec.data) * len(spec.hidings) * len(spec.seeds) * len(spec.candidates)


PAPERS = ["paper-voc", "paper-coco", "paper-nus", "paper-cub"]


@pytest.mark.parametrize("name", PAPERS)
def test_what_the_papers_state_is_used(name):
    spec = find_spec(name)
    candidates = {candidate.name: candidate for candidate in spec.candidates}
    assert "published protocol" not in spec.title + " ".join(spec.about)
    assert len(spec.seeds) == 10
    budgets = {candidate.name: spec.trials_of(candidate) for candidate in spec.candidates}
    assert {budgets.pop("mime"), budgets.pop("lac")} == {1}  # recipes without a search
    assert {*budgets.values()} == {spec.trials}  # equal budgets
    rates = candidates["an"].space["optim.lr"].choices
    assert {1e-2, 1e-3, 1e-4, 1e-5} <= {*rates}
    assert (5e-5 in rates) == (name == "paper-cub")
    assert candidates["an"].space["batch_size"].choices == (8, 16)
    epochs = {"paper-voc": 8, "paper-coco": 8}.get(name, 10)
    assert merged(spec.train, candidates["gr"].settings)["epochs"] == epochs
    assert candidates["hill"].settings["hp"] == {"margin": 0.0, "gamma": 0.0}
    assert candidates["opml"].settings["optim"] == candidates["opml_sp"].settings["optim"] == {"name": "sgd"}
    size = candidates["l1r"].settings["batch_size"]
    assert candidates["opml"].settings["batch_size"] == candidates["opml_sp"].settings["batch_size"] == size
    assert candidates["l1r"].space.keys() == {"optim.lr", "optim.l1"}
    assert candidates["l2r"].space.keys() == {"optim.lr", "optim.l2"}
    first = candidates["role, LI"].first
    printed = merged(candidates["gr"].settings, {"hp": {"q1": 0.01, "norm": "samples", "timing": "paper"}})
    assert candidates["gr, as printed"].settings == printed
    assert (first["epochs"], first["optim"]["lr"], first["model"]["frozen"]) == (25, 1e-3, "yes")


@pytest.mark.parametrize("name", [f"{name}-table2" for name in PAPERS])
def test_the_rows_of_table_2_are_those_of_gr(name):
    spec = find_spec(name)
    assert spec.runs == 42
    settings = {c.name: merged(spec.train, c.settings) for c in spec.candidates}
    large, many = name in ("paper-coco-table2", "paper-nus-table2"), name == "paper-cub-table2"
    gr = settings["gr"]
    assert (gr["batch_size"], gr["optim"]["lr"]) == (16 if large else 8, 5e-5 if many else 1e-5)
    assert gr["epochs"] == (8 if name in ("paper-voc-table2", "paper-coco-table2") else 10)
    assert gr["hp"]["q3"] == (1.5 if many else 1)
    assert settings["an"]["optim"]["head_lr_factor"] == 1.0  # as Cole et al.; that of GR is as released
    assert {settings[n]["optim"]["head_lr_factor"] for n in ("gr", "ll_r", "ll_ct", "ll_cp", "mime")} == {
        10.0
    }
    assert settings["em"]["optim"]["lr"] == settings["em_apl"]["optim"]["lr"] == (1e-4 if many else 1e-5)
    mime = settings["mime"]
    assert (mime["optim"]["name"], mime["model"]["head"], mime["model"]["ffn"]) == ("adamax", "queries", 8192)
    assert mime["batch_size"] == (16 if name in ("paper-nus-table2", "paper-cub-table2") else 32)
    assert mime["hp"]["warmup"] == (5 if many else 2)
    published = published_results(spec)
    (data,) = spec.data
    rows = [c.name for c in spec.candidates if "(GR 2)" in published.get((data.name, c.name), "")]
    assert len(rows) == (13 if name in ("paper-nus-table2", "paper-cub-table2") else 14)  # no Hill there


@pytest.mark.long
def test_the_hours_and_runs_that_specifications_state():
    """Training at the speed that benchmarks/gpu.py measured; evaluation takes a third of that per image."""
    voc = find_spec("paper-voc-table2")
    epochs = 13 * 10 + 8  # of gr: 8
    images = 3 * epochs * (4574 + (1143 + 5823) / 3)
    assert specifications.gpu_hours(voc) == pytest.approx(images / 475 / 3600)
    assert specifications.gpu_hours(find_spec("digits")) is None
    measured = specifications.measured_hours
    assert measured(find_spec("gr-forms")) == pytest.approx(0.15)  # as committed: all 18 runs
    digits, quick = find_spec("digits"), find_spec("quick")
    assert (digits.runs, quick.runs) == (234, 20)
    assert measured(quick) == pytest.approx(20 / 234 * 6 / specifications.epochs(digits))
    checked = 0
    for spec in map(find_spec, ready_made()):
        if stated := re.search(r"about ([\d.]+) hours on one H100", spec.text):
            assert float(stated[1]) == pytest.approx(specifications.gpu_hours(spec), rel=0.05), spec.path
            checked += 1
    assert checked == 12


@pytest.mark.long
def test_the_pages_of_specifications_and_published_numbers_are_what_the_script_makes():
    page = (specifications.PAGES / "specifications.md").read_text(encoding="utf-8")
    assert page == specifications.specifications(), "run `python docs/specifications.py`"
    assert (specifications.PAGES / "published.md").read_text(encoding="utf-8") == specifications.published()
    for name in ready_made():
        assert f"| [{name}](#{name}) | " in page
        assert (
            f"Runs: {find_spec(name).runs:,}. " in page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        )


def test_published_results_are_those_of_the_tables():
    """Two cells of each table, and what papers copy differently."""
    published = published_results(find_spec("paper-voc"))
    assert published["voc2012", "gr"] == "89.83 ± 0.12 (GR 2)"
    assert (
        published["voc2012", "opml"]
        == "87.77 ± 0.04 (OPML II); 87.77 ± 0.04 (OPML III); 87.77 ± 0.04 (OPML IV)"
    )
    assert published["voc2012", "mime"] == "89.20 ± 0.16 (GR 2)"
    assert published["voc2012", "l1r"].startswith("85.97")
    assert not {"gr, as printed", "splc, Hill", "role, as printed"} & {name for _, name in published}
    assert published["voc2012", "em"].startswith("89.09 ± 0.17 (EM poster)*; 88.67 ± 0.08 (GR 2)*; ")
    assert published_results(find_spec("opml-table5"))["voc2012", "zlpr"] == "90.96 ± 0.05 (OPML V)"
    assert published_results(find_spec("lasd-table3"))["voc2012", "B"] == "86.99 ± 0.05 (LASD 3)"
    assert published_results(find_spec("gr-table3-coco"))["coco2014", "k and q"] == "72.86 (GR 3)"
    assert published_results(find_spec("digits")) == {}


def test_the_cases_of_lasd_are_those_of_its_table():
    cases = {
        candidate.name: candidate.settings.get("hp") for candidate in find_spec("lasd-table3").candidates
    }
    published = {"weight_pos": 0.1, "tau": 0.9, "consistency": 0.7}
    plain = {**published, "disambiguation": False, "consistency": 0.0}
    assert cases["A"] == {**plain, "leverage": False}
    assert cases["B"] == {**plain, "weight_neg": 1.0}
    assert cases["C"] == {**published, "consistency": 0.0}
    assert cases["D"] == published


def paths_of(value, path=()):
    """Paths of all values in a document."""
    yield path
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, part in entries:
        yield from paths_of(part, (*path, key))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=8), part, max_size=3),
    max_leaves=4,
)


@pytest.mark.long
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(path=st.sampled_from([path for path in paths_of(yaml.safe_load(TOY)) if path]), value=JSON)
def test_any_value_anywhere_is_accepted_or_reported(path, value):
    document = yaml.safe_load(TOY)
    inner = document
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with contextlib.suppress(InputError):
        read_spec(Path("toys.yaml"), json.dumps(document))
