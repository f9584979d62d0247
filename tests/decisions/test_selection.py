"""Metrics by which models are chosen."""

from __future__ import annotations

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.data import Samples
from spml.decisions.selection import Judge, true_map
from spml.labels import ObservedLabels
from spml.metrics import mean_average_precision, naive_map, sp_score
from spml.scores import forms
from tests.helpers.slow import in_blocks
from tests.helpers.training import make_data


def test_the_judge_needs_what_it_is_asked_for():
    data = make_data()
    val = data.splits["val"]
    assert Judge(val, None, "auto", None).metric == "val/SP"
    assert Judge(val, data.truth["val"], "auto", None).metric == "val/SP"
    full = Samples(val.ids, val.inputs, data.truth["val"])
    assert Judge(full, data.truth["val"], "auto", None).metric == "val/mAP"
    assert Judge(val, data.truth["val"], "oracle", None).describe()["mode"] == "oracle"
    stated = Judge(val, None, "observed", 3.0).describe()
    assert (stated["mean_labels"], stated["mean_labels_source"]) == (3.0, "stated")
    assert [text.split()[0] for text in stated["warnings"]] == ["Only", "K"]
    assert "warnings" not in Judge(val, data.truth["val"], "oracle", None).describe()
    with pytest.raises(InputError, match="select=oracle needs"):
        Judge(val, None, "oracle", None)
    nothing = ObservedLabels.from_ternary(np.zeros((len(val), 4), np.int8))
    with pytest.raises(InputError, match="known positive"):
        Judge(Samples(val.ids, val.inputs, nothing), None, "auto", None)


@pytest.mark.parametrize("limit", [1 << 28, 0], ids=["columns kept", "counted"])
@pytest.mark.parametrize("empty", ["exclude", "zero"])
def test_blocks_are_judged_as_the_matrix_is(empty, limit, monkeypatch):
    val = make_data().splits["val"]
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(len(val), 9)).astype(np.float32).round(1)
    # Three classes have no label.
    full = ObservedLabels.from_multi_hot(
        np.pad(rng.random((len(val), 6)) < 0.4, ((0, 0), (0, 3))).astype(int), unlisted="negative"
    )
    index = rng.integers(6, size=len(val))
    judge = Judge(
        Samples(val.ids, val.inputs, ObservedLabels.from_index(index, 9)), full, "auto", None, empty
    )
    found = judge(scores)
    sp = sp_score(scores, index, 2.0)
    ternary = full.to_ternary()
    assert found == {
        "val/SP": sp.score,
        "val/P": sp.p,
        "val/A": sp.a,
        "val/naive_mAP": naive_map(scores, index),
        "val/mAP": mean_average_precision(scores, ternary, empty),
    }
    monkeypatch.setattr(forms, "MOST_SCORES", limit)
    assert judge(in_blocks(scores, 7)) == found
    assert true_map(in_blocks(scores, 7), full, empty) == found["val/mAP"]
    oracle = Judge(Samples(val.ids, val.inputs, full), full, "auto", None, empty)
    rows = np.array([5, 2, 9, 7])
    assert oracle.true_map(scores[rows], rows) == mean_average_precision(scores[rows], ternary[rows], empty)
