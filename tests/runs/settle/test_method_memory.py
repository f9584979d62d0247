"""Methods and recordings that would not fit into memory are refused before anything is allocated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spml.common.errors import InputError
from spml.config import from_dict
from spml.methods.base import Facts
from spml.methods.registry import create, methods
from spml.runs.settle import conflicts
from spml.runs.settle.conflicts import bytes_per_score, check_method_memory, check_recording
from spml.scores import forms
from tests.helpers.training import make_data


def facts(samples=100, classes=4):
    data = make_data(n=samples + 50, classes=classes)
    train = data.splits["train"].take(range(samples))
    return Facts(train.observed, train.ids, data.classes, 2.0)


@pytest.mark.parametrize("name", sorted(set(methods()) - {"combine", "bce", "iu", "iun"}))
def test_what_a_method_keeps_is_measured_on_a_few_samples(name):
    given, objective = facts(), create(name)
    found = bytes_per_score(objective, given)
    state = methods()[name].card.state
    assert found == 0 or state != "none"
    objective.on_fit_start(given)  # was not started by the measurement
    expected = 4 * objective.needs.train_pass
    for tensors, copies in ((objective.buffers(), 2), (objective.parameters(), 5)):
        held = [each for each in tensors if each.shape[:2] == (100, 4)]
        expected += copies * sum(each.element_size() * each[0, 0].numel() for each in held)
    assert found == expected


def test_a_method_that_does_not_fit_is_refused_with_its_size(monkeypatch):
    monkeypatch.setattr(conflicts, "total_memory", lambda: 1000)
    role = create("role")
    check_method_memory(role, "role", facts())  # few scores: nothing is measured
    monkeypatch.setattr(forms, "MOST_SCORES", 399)
    with pytest.raises(InputError) as refused:
        check_method_memory(role, "role", facts())
    message = str(refused.value)
    assert "method 'role' keeps 0.0 GB for 100 samples x 4 classes" in message
    others = message.split("(`method`): ")[1].split(";")[0].split(", ")
    assert {"an", "wan", "em"} <= set(others)
    assert not {"role", "ll_cp", "em_apl"} & set(others)
    monkeypatch.setattr(conflicts, "total_memory", lambda: 20 * 400)
    check_method_memory(role, "role", facts())
    monkeypatch.setattr(conflicts, "total_memory", lambda: 20 * 400 - 1)
    with pytest.raises(InputError):
        check_method_memory(role, "role", facts())
    check_method_memory(create("an"), "an", facts())


def test_a_method_without_memory_starts_whatever_the_size(monkeypatch):
    monkeypatch.setattr(conflicts, "total_memory", lambda: 0)
    monkeypatch.setattr(forms, "MOST_SCORES", 0)
    config = from_dict({"method": "an"})
    check_method_memory(create(config.method), config.method, facts())


def test_features_of_all_samples_that_do_not_fit_are_refused_with_their_size(monkeypatch):
    smile, given = create("smile"), facts()
    monkeypatch.setattr(conflicts, "total_memory", lambda: 32 * 100 * 7 - 1)
    with pytest.raises(InputError, match=r"'smile' compares .* 0\.0 GB for 100 samples x 7 features"):
        check_method_memory(smile, "smile", replace(given, width=7))
    check_method_memory(smile, "smile", replace(given, width=6))
    check_method_memory(smile, "smile", given)


def test_a_recording_that_does_not_fit_is_refused(monkeypatch):
    data = make_data()
    monkeypatch.setattr(conflicts, "total_memory", lambda: 10 * 103 * 4)
    check_recording(data, {})
    check_recording(data, {"train": None, "val": [1, 2, 3]})
    with pytest.raises(InputError, match=r"scores of 104 samples x 4 classes takes 0\.0 GB"):
        check_recording(data, {"train": None, "val": [1, 2, 3, 4]})
