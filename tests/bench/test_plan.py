"""From a specification to configurations."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from spml.bench import plan
from spml.bench.space import Range, propose
from spml.bench.spec import find_spec, read_spec
from spml.common.errors import InputError
from spml.data.hiding import check_observe
from tests.bench.toys import GRID, TOY, save_spec

KEYS = {
    "quick": "dbe060a6d7f9af89",
    "features": "3c05dce341957eec",
    "photographs": "5ef56087c0c8ed58",
    "opml-table5": "d9d74b69dbb124c8",
}
"""What identified runs of ready-made specifications at 8e5862dc, when the first were stored."""

# -- labels of a candidate -------------------------------------------------------------------------------


def configs(spec):
    """Configuration of the first trial of each candidate, by name and seed."""
    trials = {series.key: plan.next_trial(spec, series, [], Path()) for series in plan.all_series(spec)}
    return {(key.candidate, key.seed): trial.config for key, trial in trials.items()}


@pytest.mark.parametrize("name", ["paper-voc", "paper-coco", "paper-nus", "paper-cub"])
def test_one_positive_and_all_negatives_of_the_papers_hides_the_other_positives(name):
    """With full labels, `iun` would be the ceiling under another name."""
    by_name = configs(find_spec(name))
    oracle, ceiling = (
        by_name[candidate, 0] for candidate in ("one positive and all negatives", "full labels")
    )
    assert oracle.method == "iun"
    assert (oracle.data.observe, oracle.data.observe_all_negatives) == ("protocol", True)
    assert (ceiling.data.observe, ceiling.data.observe_all_negatives) == ("none", False)
    check_observe(oracle.data)


def test_a_candidate_may_have_a_sampler_of_its_own(tmp_path):
    own = "{name: drawn, method: an, sampler: random, space: {optim.lr: {low: 1e-3, high: 1e-1, log: true}}}"
    spec = read_spec(save_spec(tmp_path, GRID.replace("  - an\n", f"  - an\n  - {own}\n")))
    assert {c.name: spec.trials_of(c) for c in spec.candidates} == {
        "an": 2,
        "drawn": 3,
        "em slow": 3,
        "full": 2,
    }
    rates = {}
    for series in plan.all_series(spec):
        trials = [plan.plan_trial(spec, series, number, [], Path()) for number in (0, 1)]
        rates[series.candidate.name] = [trial.params.get("optim.lr") for trial in trials]
    assert rates["an"] == rates["full"] == [1e-2, 1e-1]
    seed, space = spec.seeds[0], {"optim.lr": Range(1e-3, 1e-1, log=True)}
    assert rates["drawn"] == [propose("random", space, "", seed, n, [])["optim.lr"] for n in (0, 1)]
    assert not any(spec.learns(candidate) for candidate in spec.candidates)


ORACLE = "  - {name: oracle, method: iun, labels: positive_and_negatives}\n"
WITH_ORACLE = TOY.replace("  - an\n", "  - an\n" + ORACLE)


def test_the_labels_of_a_candidate(tmp_path):
    by_name = configs(read_spec(save_spec(tmp_path, WITH_ORACLE)))
    settings = {
        (name, seed): (config.data.observe, config.data.observe_seed, config.data.observe_all_negatives)
        for (name, seed), config in by_name.items()
        if name != "em slow"
    }
    assert settings == {
        ("an", 0): ("frequency", 0, False), ("an", 1): ("frequency", 1, False),
        ("oracle", 0): ("frequency", 0, True), ("oracle", 1): ("frequency", 1, True),
        ("full", 0): ("none", 0, False), ("full", 1): ("none", 0, False),
    }  # fmt: skip


def test_all_negatives_need_a_rule_that_keeps_one_positive(tmp_path):
    path = save_spec(tmp_path, WITH_ORACLE.replace("{observe: single}", "{observe: questions}"))
    with pytest.raises(
        InputError, match=r"candidate .*observe_all_negatives true has no effect with .*questions"
    ):
        read_spec(path)


@pytest.mark.parametrize(
    ("hiding", "seeds"),
    [
        ("observe: protocol", [0, 0]),
        ("observe: protocol, observe_noise: 0.1", [0, 1]),
        ("observe: none", [0, 0]),
    ],
)
def test_the_seed_of_what_is_drawn(hiding, seeds, tmp_path):
    """Published labels have no seed; the wrong ones among them do."""
    text = TOY.replace("observe: single", hiding).replace(
        "  frequent: {observe: frequency, observe_power: 1.0}\n", ""
    )
    by_name = configs(read_spec(save_spec(tmp_path, text)))
    assert [by_name["an", seed].data.observe_seed for seed in (0, 1)] == seeds


def test_the_keys_of_stored_runs_stay():
    """Settings that the configuration has gained since must not change what identifies a run."""
    points = {
        name: hashlib.sha256(
            "".join(
                plan.plan_trial(spec, series, 0, [], Path("root")).point
                for series in plan.all_series(spec)[:8]
            ).encode()
        ).hexdigest()[:16]
        for name in ("quick", "features", "photographs", "opml-table5")
        for spec in [find_spec(name)]
    }
    assert points == KEYS
