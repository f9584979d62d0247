"""mAP over settings, from stores whose trials are known."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest

from spml.analysis import sensitivity
from spml.analysis.sensitivity import axes_of, in_order, lowest_shown, name_of, value_of
from spml.bench.store import Store
from spml.cli.main import main
from spml.common.errors import InputError
from tests.bench.rows import row

SEEDS = (0, 1, 2)


def trial(candidate, seed, number, score, *, hp=None, hiding="uniform", lr=0.01, rise=0.0, **rest):
    """A trial of three epochs: the second is best by the true mAP, the third by the SP-score."""
    history = {
        "val/mAP": [score - 0.2, score, score - 0.1 + rise],
        "val/SP": [0.1, 0.2, 0.3],
        "test/mAP": [math.nan, score + 0.01, score - 0.09],
    }
    config = {"hp": hp or {}, "optim": {"lr": lr}, "data": {"observe_share": 0.1}, "seed": seed, "epochs": 3}
    return row(
        ("voc", hiding, candidate, seed), number, values=history, config=config,
        params={f"hp.{name}": value for name, value in (hp or {}).items()}, **rest,
    )  # fmt: skip


def noise(seed):
    return (0.0, 0.01, -0.01)[seed]


def store_in(folder, rows):
    folder.mkdir(exist_ok=True)
    store = Store(f"sqlite:///{folder / 'store.sqlite'}")
    for number, one in enumerate(rows):
        assert store.add(one, f"{number:064}")
    return folder


@pytest.fixture
def lines(tmp_path):
    """`gr` over sigma, at two learning rates of which the second is worse; `an` without any choice."""
    rows = [
        trial(
            "gr", seed, number, 0.5 + sigma / 10 + noise(seed) - (lr > 0.01) / 20, hp={"sigma": sigma}, lr=lr
        )
        for seed in SEEDS
        for number, (sigma, lr) in enumerate([(0.1, 0.01), (0.1, 0.1), (0.5, 0.01), (0.5, 0.1), (1.0, 0.01)])
    ]
    rows += [trial("an", seed, 0, 0.4 + noise(seed)) for seed in SEEDS]
    rows.append(trial("gr", 0, 9, 0.99, hp={"sigma": 0.1}, status="failed"))
    return store_in(tmp_path / "lines", rows)


def rows_of(result):
    return [
        dict(zip(result.table, values, strict=True)) for values in zip(*result.table.values(), strict=True)
    ]


def test_one_setting(lines):
    result = sensitivity([lines], x="hp.sigma", references=["an"])
    points = {line["hp.sigma"]: line for line in rows_of(result) if line["kind"] == "point"}
    assert [*points] == [0.1, 0.5, 1.0]
    for sigma, line in points.items():
        scores = [0.51 + sigma / 10 + noise(seed) for seed in SEEDS]
        assert line["candidate"] == "gr"
        assert line["seeds"] == 3
        assert line["test_mAP"] == pytest.approx(np.mean(scores), abs=1e-12)
        assert line["sd"] == pytest.approx(np.std(scores, ddof=1), abs=1e-12)
    (reference,) = (line for line in rows_of(result) if line["kind"] == "reference")
    assert (reference["candidate"], reference["hp.sigma"]) == ("an", "")
    assert reference["test_mAP"] == pytest.approx(0.41, abs=1e-12)
    assert "gr: best by oracle over optim.lr" in result.notes
    assert "1 failed trials are left out" in result.notes
    labels = [text.get_text() for text in result.figure.axes[0].get_legend().get_texts()]
    assert labels == ["gr", "an (reference)"]


def test_the_mode_picks_the_epoch_and_the_trial(lines):
    observed = rows_of(sensitivity([lines], x="hp.sigma", mode="observed", score="val"))
    # All trials have the same SP-scores, so the first trial is taken, at its third epoch.
    assert [line["val_mAP"] for line in observed] == pytest.approx([0.41, 0.45, 0.5], abs=1e-12)


def test_a_panel_for_each_epoch(lines):
    result = sensitivity([lines], x="hp.sigma", epochs=[1, 3])
    assert len(result.figure.axes) == 2
    assert [(line["epoch"], line["hp.sigma"]) for line in rows_of(result)] == [
        (1, 0.1), (1, 0.5), (1, 1.0), (3, 0.1), (3, 0.5), (3, 1.0),
    ]  # fmt: skip
    expected = [0.31, 0.35, 0.4, 0.41, 0.45, 0.5]
    assert [line["val_mAP"] for line in rows_of(result)] == pytest.approx(expected, abs=1e-12)
    assert any("test mAP is kept for selected epochs only" in note for note in result.notes)
    with pytest.raises(InputError, match="epoch 4: the trials of 'gr' have true validation mAP of 3 epochs"):
        sensitivity([lines], x="hp.sigma", epochs=[4])


def test_an_mAP_that_has_collapsed_leaves_room_for_the_others(tmp_path):
    scores = {0.6: 0.3, 0.8: 0.92, 0.9: 0.925, 0.95: 0.92}
    rows = [
        trial(name, seed, number, score - 0.01 + noise(seed) / 10, hp={"tau": tau})
        for seed in SEEDS
        for name in ("lasd", "other")
        for number, (tau, score) in enumerate(scores.items())
    ]
    rows += [trial("an", seed, 0, 0.89 + noise(seed)) for seed in SEEDS]
    result = sensitivity([store_in(tmp_path / "tau", rows)], x="hp.tau", references=["an"])
    (axes,) = result.figure.axes
    low, high = axes.get_ylim()
    assert 87 < low < 89.01  # AN's, 90, less its standard deviation
    assert 92.6 < high < 94
    assert [(text.get_text(), text.xy) for text in axes.texts] == [("30.0", (0.6, 0))] * 2
    assert axes.texts[0].get_position() != axes.texts[1].get_position()
    assert axes.get_xlabel() == "tau"
    band = axes.patches[0].get_extents().transformed(axes.transData.inverted())
    assert (band.y0, band.y1) == (pytest.approx(89), pytest.approx(91))


def test_a_reference_that_has_collapsed_is_marked(tmp_path):
    rows = [trial("gr", seed, i, 0.8 + i / 100, hp={"mu": i}) for seed in SEEDS for i in range(3)]
    rows += [trial("an", seed, 0, 0.2) for seed in SEEDS]
    folder = store_in(tmp_path / "reference", rows)
    (axes,) = sensitivity([folder], x="hp.mu", references=["an"]).figure.axes
    assert axes.get_ylim()[0] > 80
    assert [(text.get_text(), text.xy) for text in axes.texts] == [("21.0", (0.06, 0))]
    # Each epoch has its own axis.
    first, second = sensitivity([folder], x="hp.mu", epochs=[1, 2]).figure.axes
    assert first.get_ylim()[1] < 65 < 79 < second.get_ylim()[0]


@pytest.mark.parametrize(
    ("means", "lowest"),
    [
        ([0.9, 0.91, 0.92], 0.9),
        ([0.3, 0.91, 0.92], 0.91),
        ([0.82, 0.91, 0.92], 0.82),  # 9 points below the median
        ([0.3, 0.5, 0.7], 0.3),  # as far below the median as the best is above it
        ([0.4], 0.4),
    ],
)
def test_which_mAP_has_collapsed(means, lowest):
    assert lowest_shown(means) == lowest


def test_axes_have_the_names_of_the_papers():
    assert name_of("hp.weight_pos").startswith("lambda+ ")
    assert name_of("hp.mu") == "mu"
    assert name_of("data.observe_share") == "data.observe_share"
    assert name_of("tau") == "threshold tau = -b / w of k in the last epoch"


def test_the_threshold_of_k_is_an_axis(tmp_path):
    w = {5: 0.4, 2.8571: 0.7, 2: 1.0}
    rows = [
        trial("b = -2", seed, number, 0.5 - tau / 10, hp={"w": [0, slope], "b": [-2, -2]})
        for seed in SEEDS
        for number, (slope, tau) in enumerate(w.items())
    ]
    result = sensitivity([store_in(tmp_path / "tau", rows)], x="tau")
    assert {line["tau"]: round(line["test_mAP"], 9) for line in rows_of(result)} == {
        0.4: 0.47, 0.7: 0.44, 1.0: 0.41,
    }  # fmt: skip


def test_ways_of_hiding_are_an_axis(tmp_path):
    hidings = {"9 %": 0.2, "10 %": 0.5, "90 %": 0.6}
    rows = [
        trial(name, seed, 0, score + bonus, hiding=hiding)
        for seed in SEEDS
        for hiding, score in hidings.items()
        for name, bonus in (("an", 0.0), ("em", 0.02))
    ]
    folder = store_in(tmp_path / "mlml", rows)
    result = sensitivity([folder], x="hiding")
    found = {(line["candidate"], line["hiding"]): round(line["test_mAP"], 9) for line in rows_of(result)}
    assert found == {
        (name, hiding): round(score + 0.01 + bonus, 9)
        for name, bonus in (("an", 0.0), ("em", 0.02))
        for hiding, score in hidings.items()
    }
    (axes,) = result.figure.axes
    ticks = [text.get_text() for text in axes.get_xticklabels()]
    assert ticks == ["9 %", "10 %", "90 %"]
    # Kinds of labels are no scale: no line joins them, and candidates stand side by side.
    markers = [line for line in axes.lines if line.get_marker() == "o"]
    assert [line.get_linestyle() for line in markers] == ["None", "None"]
    np.testing.assert_allclose([line.get_xdata()[1] for line in markers], [0.94, 1.06])
    assert axes.get_ylim()[0] < 20  # few labels are no collapse
    assert axes.get_xlabel() == "observed labels"
    with pytest.raises(InputError, match=r"several data sets or ways of hiding .*voc / 10 %; voc / 9 %"):
        sensitivity([folder], x="hiding", references=["an"])


def test_bad_input(lines, tmp_path):
    for options, words in (
        ({"x": "hp.sigmo"}, "no trials that differ in hp.sigmo. Settings that differ: hp.sigma, optim.lr"),
        ({"x": "hp.sigma", "candidates": ["an"]}, "differ in hp.sigma for candidate 'an'.*differ: none"),
        ({"x": "hp.sigma", "candidates": ["gx"]}, "the comparison has no candidate 'gx'.*gr"),
        ({"x": "hp.sigma", "references": ["ah"]}, "the comparison has no candidate 'ah'.*an"),
        ({"x": "hp.sigma", "mode": "audit:7"}, "'gr' have no values of mode 'audit:7'"),
        ({"x": "hp.sigma", "data_set": "coco"}, "data_set 'coco': the comparison has 'voc'"),
    ):
        with pytest.raises(InputError, match=words):
            sensitivity([lines], **options)
    with pytest.raises(InputError, match="holds no comparison"):
        sensitivity([tmp_path], x="hp.sigma")
    failed = store_in(tmp_path / "failed", [trial("gr", 0, 0, 0.5, status="failed")])
    with pytest.raises(InputError, match="no run is finished"):
        sensitivity([failed], x="hp.sigma")


def test_without_true_validation_labels(tmp_path):
    rows = [
        row(("d", "h", "gr", 0), number, values={"val/SP": [0.1], "test/mAP": [0.2 + number]},
            config={"hp": {"a": number}}) for number in range(2)
    ]  # fmt: skip
    folder = store_in(tmp_path / "sp", rows)
    result = sensitivity([folder], x="hp.a", mode="observed")
    assert result.table["test_mAP"] == [0.2, 1.2]
    assert np.isnan(result.table["sd"]).all()
    with pytest.raises(InputError, match="no true validation mAP: draw score=test"):
        sensitivity([folder], x="hp.a", mode="observed", score="val")
    with pytest.raises(InputError, match="no values of mode 'oracle'"):
        sensitivity([folder], x="hp.a")


def test_axes_are_the_settings_that_differ(lines):
    rows = [trial("gr", seed, 0, 0.5, hp={"w": [0, w]}) for seed in SEEDS for w in (1, 2)]
    assert axes_of(rows) == ["hp.w"]  # the seed is no setting
    assert value_of(rows[0], "hp.w") == 1.0
    assert value_of(rows[0], "hp.v") is None
    assert value_of(rows[0], "tau") is None
    assert value_of(rows[0], "hiding") == "uniform"
    assert in_order(["b", 10.0, "a 10", 2.0, "a 9", 2.0]) == [2.0, 10.0, "a 9", "a 10", "b"]


def test_settings_that_differ_by_orders_of_magnitude(tmp_path):
    def scale(values):
        name = "-".join(map(str, values))
        rows = [trial("gr", 0, i, 0.5, hp={"a": value}) for i, value in enumerate(values)]
        return sensitivity([store_in(tmp_path / name, rows)], x="hp.a").figure.axes[0].get_xscale()

    assert scale([0.25, 1.0]) == "linear"
    assert scale([0.01, 0.25, 0.5, 0.75, 1.0]) == "linear"
    assert scale([0.01, 0.03, 0.1, 0.3, 1.0]) == "log"
    assert scale([0.001, 1.0]) == "log"
    assert scale([0.0, 0.001, 1.0]) == "symlog"


def test_the_command(lines, tmp_path, capsys):
    command = ["analyse", "sensitivity", str(lines), "--x", "hp.sigma", "--references", "[an]"]
    main([*command, "--output", str(tmp_path / "out")])
    assert "note: gr: best by oracle over optim.lr" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "sensitivity.png", "sensitivity.svg", "sensitivity.csv",
    }  # fmt: skip
    with open(tmp_path / "out" / "sensitivity.csv", newline="") as stream:
        table = list(csv.DictReader(stream))
    assert [line["hp.sigma"] for line in table] == ["0.1", "0.5", "1.0", ""]
