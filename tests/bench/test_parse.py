"""What can be wrong with a specification is told with its line, before anything runs."""

from __future__ import annotations

import pytest

from spml.bench.parse import find_spec, read_spec, ready_made
from spml.bench.space import Range
from spml.errors import InputError
from spml.methods.registry import methods
from tests.bench.toys import TOY, save_spec


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
    assert full.full
    assert not an.full
    assert spec.train == {"epochs": 3, "batch_size": 32}


def test_all_methods_but_some(tmp_path):
    text = TOY.replace("  - an\n", "  - {all: true, except: [em, iu, combine, gpr]}\n")
    spec = read_spec(save_spec(tmp_path, text.replace("epochs: 3", "epochs: 6")))
    assert {one.name for one in spec.candidates} >= {*methods()} - {"em", "iu", "combine", "gpr"}
    assert "iu" not in {one.name for one in spec.candidates}


def test_mean_labels_that_a_candidate_is_told(tmp_path):
    path = edited(tmp_path, "  - an\n", "  - an\n  - {name: w, method: an, mean_labels: x1.4}\n"
                  "  - {name: u, method: an, mean_labels: unstated}\n")  # fmt: skip
    told = {one.name: one.mean_labels for one in read_spec(path).candidates}
    assert told["an"] == 1.0
    assert told["w"] == 1.4
    assert told["u"] is None


def test_a_warmup_that_ends_in_time(tmp_path):
    assert read_spec(edited(tmp_path, "  - an\n", "  - an\n  - {name: e, method: em_apl, hp.warmup: 2}\n"))


def test_an_empty_space_is_one_trial(tmp_path):
    path = edited(tmp_path, "space: {hp.alpha: [0.05, 0.1, 0.2]}", "space: {}")
    spec = read_spec(path)
    assert [spec.trials_of(one) for one in spec.candidates] == [3, 1, 3]


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


def test_a_grid_is_counted(tmp_path):
    text = TOY.replace("sampler: random", "sampler: grid").replace(
        "optim.lr: {low: 1e-3, high: 1e-1, log: true}", "optim.lr: [0.01, 0.1]"
    )
    spec = read_spec(save_spec(tmp_path, text))
    assert [spec.trials_of(one) for one in spec.candidates] == [2, 3, 2]


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("  - an\n", "  - ann\n", 9, "'ann'"),
        ("title: toys", "titel: toys", 2, "unknown key 'titel'.*title"),
        ("path: toy.npz,", "", 4, "needs a path"),
        ("unlisted: negative,", "unlisted: negative, train: {epoch: 3},", 4, "unknown key 'epoch' of train"),
        ("unlisted: negative,", "unlisted: negative, train: 3,", 4, "train: expected settings by name"),
        ("unlisted: negative", "unlistet: negative", 4, "unknown key 'unlistet'.*unlisted"),
        ("unlisted: negative", "unlisted: none", 9, "data.unlisted must be one of"),
        ("mean_labels: 1.6", "mean_labels: 0", 4, "mean_labels must be a number above 0, got 0"),
        ("observe: single", "observe_seed: 3", 6, "unknown key 'observe_seed'"),
        ("observe_power: 1.0", "power: 1.0", 7, "unknown key 'power'"),
        ("hp.alpha: [0.05, 0.1, 0.2]", "hp.alhpa: [0.05]", 10, "alhpa"),
        ("hp.alpha: [0.05, 0.1, 0.2]", "hp.alpha: []", 10, "nothing to choose from"),
        ("hp.alpha: [0.05, 0.1, 0.2]", "hp.alpha: [0.1, -3.0]", 10, "alpha"),
        ("method: em,", "methode: em,", 10, "unknown key 'methode'"),
        ("labels: full", "labels: all", 11, "labels must be one of observed, full"),
        ("baseline: an", "baseline: annn", 12, "no candidate is called 'annn'"),
        ("ceiling: full", "ceiling: none", 13, "no candidate is called 'none'"),
        ('"audit:20"', '"audit:0"', 14, "unknown mode 'audit:0'"),
        ('"audit:20"', "oracle", 14, "different modes"),
        ("seeds: 2", "seeds: 0", 15, "seeds: expected how many"),
        ("seeds: 2", "seeds: [1, 1]", 15, "seeds"),
        ("draws: 20", "draws: 0.5", 16, "draws: expected a number of at least 2"),
        ("sampler: random", "sampler: rand", 18, "sampler must be one of random, grid, tpe"),
        ("sampler: random", "sampler: grid", 9, "a list of values for optim.lr"),
        ("trials: 3", "trials: 0", 19, "trials: expected a number of at least 1"),
        ("trials: 3", "trials: 100000000", 17, "at most 1,000,000 are possible"),
        ("low: 1e-3", "low: 1e+3", 21, "low < high"),
        ("low: 1e-3", "low: -1", 21, "low < high"),
        ("low: 1e-3", "lo: 1e-3", 21, "unknown key 'lo'"),
        ("epochs: 3", "epochs: 0", 9, "epochs must be at least 1, got 0"),
        ("epochs: 3", "epoch: 3", 22, "unknown key 'epoch' of train.*epochs"),
        ("epochs: 3", "seed: 3", 22, "unknown key 'seed'"),
        ("epochs: 3", "devices: 2", 22, "unknown key 'devices'"),
        ("  - an\n", "  - an\n  - em_apl\n", 10, "nothing before epoch 6 .*epochs is 3"),
        ("method: em,", "method: em, devices: 2,", 10, "unknown key 'devices' of a candidate"),
        ("draws: 20", "seeds: 2", 16, "'seeds' is there twice"),
        ("draws: 20", "draws: 1", 16, "draws: expected a number of at least 2"),
        ("mean_labels: 1.6", "mean_labels: .inf", 4, "mean_labels must be a number above 0"),
        ("observe: single", "observe: single, observe_share: 3.0", 9, "observe_share 3 has no effect"),
        ("method: em,", "method: em, init_from: runs/x,", 10, "unknown key 'init_from'"),
        ("method: em,", "method: em, 7: 1,", 10, "'7' is no name of a setting"),
        ("name: em slow", 'name: ""', 10, "has at least a name"),
        ("method: em,", "method: em, optim: 3,", 10, "optim.lr is a part of optim"),
        ("method: em,", "method: em, optim: {lr: 1},", 10, "is given twice"),
        ("optim.lr: {low", "data.path: {low", 21, "'data.path' can't be searched"),
        ("optim.lr: {low", "devices: {low", 21, "'devices' can't be searched"),
        ("optim.lr: {low", "threads: {low", 21, "'threads' can't be searched"),
        ("optim.lr: {low", "seed: {low", 21, "'seed' can't be searched"),
        ("optim.lr: {low", "mean_labels: {low", 21, "'mean_labels' can't be searched"),
        ("optim.lr: {low", "on: {low", 21, "'on' is no name of a setting"),
        ("log: true", "log: [1]", 21, "low < high"),
        ("high: 1e-1, log: true", "high: .inf", 21, "low < high"),
        ("log: true", "integer: true", 21, "integer: true whole numbers"),
        ("epochs: 3", "3: 4, epochs: 3", 22, "'3' is no name of a setting"),
        ("epochs: 3", "optim: 3, optim.lr: 1", 22, "optim.lr is a part of optim"),
        ("seeds: 2", "seeds: [99999999999]", 15, r"below 2\^31"),
    ],
)
def test_mistakes_have_their_line(tmp_path, old, new, line, words):
    path = edited(tmp_path, old, new)
    with pytest.raises(InputError, match=words) as caught:
        read_spec(path)
    assert str(caught.value).startswith(f"{path}, line {line}: "), str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected settings by name"),
        ("- a", "expected settings by name"),
        ("a: [", "is not YAML"),
        ("a: &x [1]\nb: *x", r"references \(\*name\) are not read"),
        ("title: !!python/object:os.system {}", "is not YAML"),
        ("title: x", "data: expected at least one entry"),
    ],
)
def test_files_that_are_no_specification(tmp_path, text, words):
    with pytest.raises(InputError, match=words):
        read_spec(save_spec(tmp_path, text))


def test_two_candidates_of_one_name(tmp_path):
    path = edited(tmp_path, "  - an\n", "  - an\n  - an\n")
    with pytest.raises(InputError, match="line 10: there are two candidates called 'an'"):
        read_spec(path)


def test_no_such_specification():
    with pytest.raises(InputError, match=r"quik: there is no such file.*quick"):
        find_spec("quik")


@pytest.mark.parametrize("name", ready_made())
def test_ready_made_ones_can_be_read(name):
    spec = find_spec(name)
    assert spec.title
    assert spec.baseline
    assert spec.ceiling
    assert {"oracle", "observed"} <= set(spec.modes)
