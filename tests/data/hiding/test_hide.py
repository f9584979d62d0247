"""Hiding by configuration: settings of each rule, notes, and runs that train on the observed labels."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import get_args, get_type_hints

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.config import DataConfig, read_yaml
from spml.data import hiding as rules
from spml.data import open_dataset
from spml.data.assemble import to_dataset
from spml.data.dataset import Samples
from spml.data.hiding import USES, hide
from spml.data.matrix import FeatureMatrix
from spml.data.records import Objects, Records
from spml.labels import ObservedLabels
from tests.helpers.commands import execute

RULES = get_args(get_type_hints(DataConfig)["observe"])
LABELS = ObservedLabels.from_multi_hot(np.random.default_rng(0).random((50, 4)) < 0.5, unlisted="negative")


INPUTS = FeatureMatrix(np.arange(50, dtype=np.float32)[:, None])


def records(labels=LABELS, **options):
    return Records(
        source="here/data", name="data", ids=tuple(map(str, range(len(labels)))),
        inputs=INPUTS, classes=tuple("abcd"), classes_given=True, labels=labels,
        split=None, **options,
    )  # fmt: skip


def boxes():
    row, column = np.nonzero(LABELS.to_multi_hot())
    return Objects(row, column, (row * 3 + column) % 7 / 7, (row + column * 2) % 5 / 5)


ONE = "One positive label per sample is observed, with probability proportional to "


# -- each rule -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "expected", "note"),
    [
        ({"observe": "single"}, rules.single_positive(LABELS, 3),
         "One positive label per sample is observed, drawn with seed 3."),
        ({"observe": "counts", "observe_positives": 2, "observe_negatives": 1},
         rules.label_counts(LABELS, 2, 1, 3),
         "Up to 2 positive and 1 negative labels per sample are observed, drawn with seed 3."),
        ({"observe": "fraction", "observe_share": 0.3}, rules.label_share(LABELS, 0.3, 3),
         "61 of 200 labels are observed, each with probability 0.3, drawn with seed 3."),
        ({"observe": "frequency", "observe_power": -2.0},
         rules.biased_positive(LABELS, rules.log_weights(LABELS, "frequency", -2.0), 3),
         ONE + "(frequency of its class)^-2, drawn with seed 3."),
        ({"observe": "salience", "observe_power": 0.5},
         rules.biased_positive(LABELS, rules.log_weights(LABELS, "salience", 0.5, 3), 3),
         ONE + "a random salience of its class (log-normal, sigma 0.5), drawn with seed 3."),
        ({"observe": "size", "observe_power": 2.0},
         rules.biased_positive(LABELS, rules.log_weights(LABELS, "size", 2.0, objects=boxes()), 3),
         ONE + "(area of its largest box)^2, drawn with seed 3."),
        ({"observe": "position"},
         rules.biased_positive(LABELS, rules.log_weights(LABELS, "position", 1.0, objects=boxes()), 3),
         ONE + "(closeness of its box to the centre)^1, drawn with seed 3."),
        (
            {"observe": "questions"},
            rules.questions(LABELS, 3),
            "For each sample, classes are asked for in random order until one is present; that class is an "
            "observed positive, and those asked for before it are observed negatives, drawn with seed 3.",
        ),
    ],
    ids=lambda value: value["observe"] if isinstance(value, dict) else "",
)  # fmt: skip
def test_a_rule_by_its_name(settings, expected, note):
    config = DataConfig(observe_seed=3, **settings)
    assert hide(records(objects=boxes()), config) == (expected, note)
    data = to_dataset(records(objects=boxes()), config, INPUTS, {})
    assert note in data.notes
    for name, samples in data.splits.items():
        rows = [int(row) for row in samples.ids]
        assert samples.observed == expected.take(rows)
        assert data.truth[name] == LABELS.take(rows), "hidden labels remain available to evaluators"
        assert Samples.__dataclass_fields__.keys() == {"ids", "inputs", "observed", "groups"}


def test_a_skipped_sample_does_not_change_the_others():
    config = DataConfig(observe="frequency", observe_power=3.0)
    complete, lacking = (
        to_dataset(records(), config, INPUTS, skipped, "evaluate").splits["test"]
        for skipped in ({}, {0: "damaged", 30: "damaged"})
    )
    assert {"0", "30"} == {*complete.ids} - {*lacking.ids}
    rows = [complete.ids.index(name) for name in lacking.ids]
    assert lacking.observed == complete.observed.take(rows)


def test_protocol_observes_the_published_labels():
    published = rules.single_positive(LABELS, 77)
    config = DataConfig(observe="protocol")
    observed, note = hide(records(protocol=published, empty="zero"), config)
    assert observed is published
    assert note == "The observed labels are those of the published protocol of data."
    with pytest.raises(InputError, match=r"here/data: data\.observe=protocol takes the labels that a benchm"):
        hide(records(), config)


# -- all negatives and wrong positives -----------------------------------------------------------------------

ONE_POSITIVE = ("single", "frequency", "salience", "size", "position", "protocol")


@pytest.mark.parametrize("rule", ONE_POSITIVE)
def test_all_negatives_on_top_of_a_rule(rule):
    """The positive is the one that the rule keeps; a hidden positive is unknown, a true negative is -1."""
    source = records(objects=boxes(), protocol=rules.single_positive(LABELS, 77))
    seed = 0 if rule == "protocol" else 3
    one, note = hide(source, DataConfig(observe=rule, observe_seed=seed))
    both, longer_note = hide(source, DataConfig(observe=rule, observe_seed=seed, observe_all_negatives=True))
    assert longer_note == note + " Every true negative is observed, too."
    ternary, truth = both.to_ternary(), LABELS.to_ternary()
    assert (ternary[truth == -1] == -1).all()
    assert (ternary[truth == 1] == one.to_ternary()[truth == 1]).all()
    assert ((ternary == 0) == ((truth == 1) & (one.to_ternary() == 0))).all()
    assert (ternary == 0).any()


@pytest.mark.parametrize("rule", ONE_POSITIVE)
def test_wrong_positives_on_top_of_a_rule(rule):
    """The truth stays as it is, and the notes, which every run's summary repeats, state the number."""
    source = records(objects=boxes(), protocol=rules.single_positive(LABELS, 77))
    config = DataConfig(observe=rule, observe_noise=0.4, observe_seed=3)
    clean_seed = 0 if rule == "protocol" else 3
    clean, note = hide(source, replace(config, observe_noise=0.0, observe_seed=clean_seed))
    expected, wrong = rules.with_wrong_positives(clean, LABELS, 0.4, 3)
    noisy, longer_note = hide(source, config)
    assert noisy == expected
    known = int((LABELS.positives_per_sample() > 0).sum())
    assert longer_note == (
        f"{note} {wrong} of the {known} observed positives are wrong on purpose: a label that is absent "
        "replaces each with probability 0.4, drawn with seed 3."
    )
    assert wrong == ((noisy.to_ternary() == 1) & (LABELS.to_ternary() == -1)).sum() > 0
    data = to_dataset(source, replace(config, observe_all_negatives=True), INPUTS, {})
    assert any("observed positives are wrong on purpose" in note for note in data.notes)
    for name, samples in data.splits.items():
        assert data.truth[name] == LABELS.take([int(row) for row in samples.ids])
        assert not ((samples.observed.to_ternary() == -1) & (data.truth[name].to_ternary() == 1)).any()


ELSEWHERE = Objects(np.zeros(1, int), np.flatnonzero(LABELS.to_multi_hot()[0] == 0)[:1], *np.ones((2, 1)))
NO_BOX = Objects(np.zeros(0, int), np.zeros(0, int), *np.zeros((2, 0)))


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule not in ("none", "protocol")])
def test_what_a_rule_needs(rule):
    partial = ObservedLabels.from_multi_hot(LABELS.to_multi_hot())
    with pytest.raises(InputError, match=rf"observe={rule} hides.*pass data.unlisted=negative"):
        hide(records(partial, objects=boxes()), DataConfig(observe=rule))
    for objects in (None, NO_BOX, ELSEWHERE) if rule in ("size", "position") else ():
        with pytest.raises(InputError, match=rf"here/data: data\.observe={rule} needs boxes.*COCO JSON"):
            hide(records(objects=objects), DataConfig(observe=rule))


# -- settings --------------------------------------------------------------------------------------------


CHANGED = {"observe_positives": 2, "observe_negatives": 3, "observe_share": 0.5, "observe_power": 2.0,
           "observe_all_negatives": True, "observe_noise": 0.1}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", CHANGED)
def test_a_setting_without_effect_is_refused(rule, name, tmp_path):
    config = DataConfig(path=str(tmp_path / "absent.csv"), observe=rule, **{name: CHANGED[name]})
    message = "no such file" if name in USES.get(rule, ()) else rf"data\.{name} .* no effect with .*{rule}"
    with pytest.raises(InputError, match=message):
        open_dataset(config)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"observe": "counts", "observe_positives": -1}, "positives must be at least 1, or 0 if some neg"),
        ({"observe": "counts", "observe_negatives": -1}, "negatives must be at least 0, got -1"),
        ({"observe": "counts", "observe_positives": 0}, "positives must be at least 1, or 0 if some neg"),
        ({"observe": "fraction", "observe_share": 0.0}, r"share must be between 0 and 1, got 0\.0"),
        ({"observe": "fraction", "observe_share": 1.0}, r"share must be between 0 and 1, got 1\.0"),
        ({"observe": "fraction", "observe_share": float("nan")}, "share must be between 0 and 1, got nan"),
        ({"observe": "single", "observe_noise": -0.1}, r"noise must be in \[0, 1\), got -0\.1"),
        ({"observe": "single", "observe_noise": 1.0}, r"noise must be in \[0, 1\), got 1\.0"),
        ({"observe": "single", "observe_noise": float("nan")}, r"noise must be in \[0, 1\), got nan"),
        ({"observe": "frequency", "observe_power": float("inf")}, r"power must be in \[-100, 100\] with"),
        ({"observe": "size", "observe_power": float("nan")}, r"power must be in \[-100, 100\] with size"),
        ({"observe": "salience", "observe_power": -1.0}, r"power must be in \[0, 100\] with salience, g"),
        ({"observe": "single", "observe_share": 0.5}, r"share 0\.5 has no effect with .*: .* \(fraction\)\."),
        ({"observe_power": 2.0}, r"power 2 has .*=none: .* \(frequency, salience, size, position\)\."),
        ({"observe": "counts", "observe_all_negatives": True}, r"negatives true .*, position, protocol\)\."),
        ({"observe": "protocol", "observe_seed": 4}, "seed=4 has no effect with data.observe=protocol"),
    ],
)  # fmt: skip
def test_settings_outside_their_domain_and_without_effect(settings, message):
    with pytest.raises(InputError, match=r"data\.observe_.*" + message):
        open_dataset(DataConfig(path="digits", **settings))


@pytest.mark.parametrize("power", [-100.0, 100.0])
def test_the_strongest_preference_is_absolute(power):
    frequency = LABELS.positives_per_class()
    observed, _ = hide(records(), DataConfig(observe="frequency", observe_power=power))
    best = np.where(LABELS.to_multi_hot(), np.sign(power) * frequency, -np.inf)
    assert len(set(frequency.tolist())) == 4
    has_positive = LABELS.positives_per_sample() > 0
    assert (observed.take(np.flatnonzero(has_positive)).index == best.argmax(axis=1)[has_positive]).all()


# -- runs ------------------------------------------------------------------------------------------------


def test_a_run_on_the_observed_labels(features, tmp_path, capsys):
    config = DataConfig(path=str(features), unlisted="negative", observe="salience", observe_power=0.5)
    options = "--epochs 12 --batch_size 16 --optim.lr 0.01 --threads 1 --method an --output"
    rule = "--data.unlisted negative --data.observe salience --data.observe_power 0.5"
    execute("train", features, rule, options, tmp_path / "run")
    log = capsys.readouterr().err
    assert read_yaml(tmp_path / "run" / "config.yaml").data == replace(config, workers=0, size=0)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    data = open_dataset(config)
    (note,) = [note for note in data.notes if "drawn with seed 0." in note]
    assert note in log
    assert summary["data"]["observed"] == {name: part.observed.extent for name, part in data.splits.items()}
    assert summary["data"]["observed"]["train"] == "single-positive"
    assert summary["selected"]["mode"] == "observed"
    # K is a default unless the user states it; it must not come from the hidden labels.
    assert (summary["head_bias"]["source"], summary["threshold"]["source"]) == ("default", "default")
    assert summary["selected"]["mean_labels_source"] == "default"
    assert summary["test"]["mAP"] > 0.85
    execute("evaluate", tmp_path / "run", features, "--data.unlisted negative")
    metrics = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert metrics["mAP"] == pytest.approx(summary["test"]["mAP"], abs=1e-6)
