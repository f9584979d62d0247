"""Several recordings in one figure: their names, what they must share, and which labels are counted."""

from __future__ import annotations

import numpy as np
import pytest

from spml.analysis import densities, observed_only, posterior, pseudo_labels, separation
from spml.analysis.recorded import chosen_epochs, counted_labels, read_runs
from spml.cli.main import main
from spml.common.errors import InputError
from spml.runs.fit.recording import read_recording
from tests.analysis.recorded.recordings import make_labels, make_logits, save_recording

WITH_TRUTH = (separation, densities, posterior, pseudo_labels)


@pytest.fixture
def labels():
    return make_labels()


def save(folder, labels, **more):
    observed, truth = labels
    return save_recording(folder, make_logits(truth), observed, truth, **more)


def test_runs_are_named_by_method_then_by_folder_then_by_path(tmp_path, labels):
    one, two = save(tmp_path / "one", labels), save(tmp_path / "two", labels, method="gr")
    assert list(read_runs([one, two], truth=True)[0]) == ["an", "gr"]
    three = save(tmp_path / "three", labels, method="gr")
    assert list(read_runs([two, three], truth=True)[0]) == ["two", "three"]
    (tmp_path / "other").mkdir()
    again = save(tmp_path / "other" / "two", labels, method="gr")
    assert list(read_runs([two, again], truth=True)[0]) == [str(two), str(again)]


def test_runs_with_other_observed_labels_are_compared_with_a_note(tmp_path, labels):
    one = save(tmp_path / "one", labels)
    assert read_runs([one, save(tmp_path / "same", labels, method="gr")], truth=True)[1] == ()
    _, truth = labels
    other = save_recording(tmp_path / "two", make_logits(truth), np.where(truth, 1, 0), truth)
    (note,) = read_runs([one, other], truth=True)[1]
    assert "other observed labels" in note


def test_probabilities_over_the_classes_of_a_sample_are_noted(tmp_path, labels):
    run = save(tmp_path / "one", labels, output="log_softmax")
    (note,) = read_runs([run], truth=True)[1]
    assert "sum to 1" in note


@pytest.mark.parametrize("draw", WITH_TRUTH)
def test_true_labels_must_have_been_recorded(tmp_path, labels, draw):
    observed, truth = labels
    run = save_recording(tmp_path / "run", make_logits(truth), observed, None)
    with pytest.raises(InputError, match="no true labels were recorded, because its samples are not fully"):
        draw([run])
    observed_only([run])


@pytest.mark.parametrize("draw", [*WITH_TRUTH, observed_only])
def test_runs_that_do_not_go_together(tmp_path, labels, draw):
    one = save(tmp_path / "one", labels)
    with pytest.raises(
        InputError, match=r"two: recorded other classes than .*one: a figure compares runs on the"
    ):
        draw([one, save(tmp_path / "two", labels, classes=("a", "b", "d"))])
    with pytest.raises(InputError, match=r"three: recorded other samples than .*one"):
        draw([one, save(tmp_path / "three", make_labels(samples=39))])
    observed, truth = labels
    turned = save_recording(tmp_path / "four", make_logits(truth), observed, ~truth)
    if draw is not observed_only:
        with pytest.raises(InputError, match=r"four: recorded other true labels than .*one"):
            draw([one, turned])
    with pytest.raises(InputError, match="a run is named twice"):
        draw([one, tmp_path / "two" / ".." / "one"])
    with pytest.raises(InputError, match="no run to draw"):
        draw([])


@pytest.mark.parametrize("figure", ["separation", "densities", "posterior", "pseudo-labels", "observed-only"])
def test_on_the_command_line(tmp_path, labels, monkeypatch, capsys, figure):
    monkeypatch.chdir(tmp_path)
    runs = [save(tmp_path / "one", labels), save(tmp_path / "two", labels, method="gr")]
    main(["analyse", figure, *map(str, runs)])
    assert f"analysis: {figure}.png, {figure}.svg, {figure}.csv written" in capsys.readouterr().out
    header, *rows = (tmp_path / "analysis" / f"{figure}.csv").read_text().splitlines()
    assert header.startswith("run,epoch,")
    assert {row.partition(",")[0] for row in rows} == {"an", "gr"}
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "config.yaml").write_text("")
    with pytest.raises(SystemExit):
        main(["analyse", figure, "plain", "--overwrite"])
    assert "plain: this run did not record its scores. Train it with record=scores" in capsys.readouterr().err


@pytest.mark.parametrize("draw", [*WITH_TRUTH, observed_only])
def test_names_are_not_formulas(tmp_path, labels, draw):
    runs = [save(tmp_path / name, labels, classes=("a", "$b_$", "c")) for name in ("$x_$", "y")]
    result = draw(runs) if draw is observed_only else draw(runs, label="$b_$")
    assert result.table["run"][0] == "$x_$"
    result.write(tmp_path / "out", "figure")


def test_epochs_are_the_named_ones_or_the_last(tmp_path, labels):
    observed, truth = labels
    short = save_recording(tmp_path / "short", make_logits(truth, epochs=1), observed, truth)
    recordings = read_runs([save(tmp_path / "long", labels, method="gr"), short], truth=True)[0]
    assert chosen_epochs(recordings, None) == {"gr": [2], "an": [1]}
    assert chosen_epochs(recordings, [1, 0]) == {"gr": [1, 0], "an": [1, 0]}
    with pytest.raises(
        InputError, match=r"short: epoch 2 was not recorded, only 0 \(before the first\) to 1"
    ):
        chosen_epochs(recordings, [2])
    with pytest.raises(InputError, match="no epoch to draw"):
        chosen_epochs(recordings, [])


def test_which_labels_count(tmp_path, labels):
    observed, truth = labels
    negatives = np.argwhere((observed == 0) & ~truth)[:5]
    observed[tuple(negatives.T)] = -1
    recording = read_recording(save(tmp_path / "one", labels))
    assert recording.unknown.sum() == 2 * len(truth) - 5
    assert np.array_equal(counted_labels(recording)[0], observed == 0)
    assert counted_labels(recording, known=True)[0].all()
    of_b, true = counted_labels(recording, label="b")
    assert np.array_equal(true, truth)
    assert np.array_equal(of_b[:, 1], observed[:, 1] == 0)
    assert not of_b[:, [0, 2]].any()
    with pytest.raises(InputError, match=r"has no class 'x' \(`label`\)\. Known: a, b, c\."):
        counted_labels(recording, label="x")


def test_positives_and_negatives_are_needed(tmp_path):
    truth = np.array([[True, False, False], [True, True, False]])
    run = read_recording(save_recording(tmp_path / "full", [np.zeros((2, 3))], np.where(truth, 1, -1), truth))
    with pytest.raises(
        InputError, match="none of the unknown labels of its recorded samples is truly positive"
    ):
        counted_labels(run)
    assert counted_labels(run, known=True)[0].all()
    with pytest.raises(
        InputError, match="none of the labels of class 'a' of its recorded samples is truly neg"
    ):
        counted_labels(run, known=True, label="a")
