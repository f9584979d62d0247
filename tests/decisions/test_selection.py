"""Metrics by which models are chosen."""

from __future__ import annotations

import numpy as np
import pytest

from spml.data import Samples
from spml.decisions.selection import Judge
from spml.errors import InputError
from spml.labels import ObservedLabels
from tests.engine.test_loop import make_data


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
    with pytest.raises(InputError, match="--select oracle needs"):
        Judge(val, None, "oracle", None)
    nothing = ObservedLabels.from_ternary(np.zeros((len(val), 4), np.int8))
    with pytest.raises(InputError, match="known positive"):
        Judge(Samples(val.ids, val.inputs, nothing), None, "auto", None)
