"""The order of samples, with random checks."""

from __future__ import annotations

import numpy as np
import pytest

from spml.audit.folder import MissingLabel, WrongLabel
from spml.common.errors import InputError
from spml.data.records import Records
from spml.labels import ObservedLabels
from spml.review.progress import Entries, Selection, make_entries, make_order

CLASSES = ("bird", "cat", "dog")


def records(ids=("a", "b", "c"), labels=((1, 0, 0), (0, 1, -1), (0, 0, 1))):
    observed = ObservedLabels.from_ternary(np.array(labels))
    return Records("labels.csv", "photos", tuple(ids), (), CLASSES, True, observed, None)


def listed(*pairs):
    return [
        MissingLabel(name, "", label, 1 - rank / 10, rank, 1)
        for rank, (name, label) in enumerate(pairs, start=1)
    ]


def test_entries_are_looked_up():
    entries = make_entries(listed(("c", "cat"), ("a", "dog"), ("c", "bird")), records(), "seed")
    assert entries.rows.tolist() == [2, 0, 2]
    assert entries.columns.tolist() == [1, 2, 0]
    assert entries.probabilities == pytest.approx([0.9, 0.8, 0.7])
    assert sorted(entries.shuffled.tolist()) == [0, 1, 2]


def test_the_random_order_depends_on_the_seed_only():
    ids = [str(row) for row in range(40)]
    data = records(ids, [(1, 0, 0)] * 40)
    rows = listed(*((name, "cat") for name in ids[:9]))
    first, again, other = (make_entries(rows, data, seed).shuffled.tolist() for seed in ("x", "x", "y"))
    assert first == again != other


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("a", "dog"), ("z", "cat")], "missing.csv: row 3: there is no sample 'z' in the data"),
        ([("b", "dog")], "missing.csv: row 2: 'dog' is a known label of 'b'"),
        ([("a", "bird")], "missing.csv: row 2: 'bird' is a known label of 'a'"),
        ([("a", "dog"), ("a", "cat"), ("a", "dog")], "missing.csv: row 4: 'dog' of 'a' is listed twice"),
    ],
)
def test_a_list_that_does_not_fit_the_data_is_named(pairs, message):
    with pytest.raises(InputError, match=message):
        make_entries(listed(*pairs), records(), "seed")
    with pytest.raises(InputError, match="some samples have the same name"):
        make_entries([], records(("a", "b", "a")), "seed")


def test_given_labels_that_look_wrong():
    rows = [WrongLabel("b", "cat", 0.1, 1), WrongLabel("a", "bird", 0.2, 2)]
    entries = make_entries(rows, records(), "seed", "wrong")
    assert (entries.rows.tolist(), entries.columns.tolist()) == ([1, 0], [1, 0])
    assert entries.probabilities == pytest.approx([0.1, 0.2])
    assert (entries.name, entries.windows) == ("wrong", [(), ()])
    for label in ("dog", "bird"):  # a known negative, and an unknown label
        with pytest.raises(InputError, match=rf"wrong.csv: row 2: '{label}' is not a given label of 'b'"):
            make_entries([WrongLabel("b", label, 0.1, 1)], records(), "seed", "wrong")


def entries(rows, columns=None, probabilities=None, shuffled=None):
    count = len(rows)
    return Entries(
        np.array(rows),
        np.array(columns if columns is not None else [0] * count),
        np.array(probabilities if probabilities is not None else np.linspace(0.9, 0.1, count)),
        np.array(shuffled if shuffled is not None else range(count)),
        [()] * count,
        [""] * count,
    )


def test_every_fifth_sample_is_the_next_of_the_random_order():
    order = make_order(entries(list(range(12)), shuffled=[11, 0, 9, *range(1, 9), 10]), Selection())
    # Entry 0 is next in the random order at the second check, but was shown by rank already.
    assert order.samples.tolist() == [0, 1, 2, 3, 11, 4, 5, 6, 7, 9, 8, 10]
    assert order.checks.tolist() == [-1] * 4 + [11] + [-1] * 4 + [9] + [-1] * 2


def test_a_sample_stands_at_its_best_rank_once_and_its_check_is_the_entry_whose_turn_it_is():
    order = make_order(entries([5, 3, 5, 3, 1, 1, 8]), Selection())
    assert order.samples.tolist() == [5, 3, 1, 8]
    assert order.entries.tolist() == [0, 1, 2, 3, 4, 5, 6]
    order = make_order(entries([0, 1, 2, 3, 4, 4], shuffled=[5, 4, 3, 2, 1, 0]), Selection())
    assert order.samples.tolist() == [0, 1, 2, 3, 4]
    assert order.checks.tolist() == [-1, -1, -1, -1, 5]


def test_a_selection_by_class_and_probability():
    made = entries([0, 1, 2, 0], [1, 2, 1, 2], [0.9, 0.5, 0.3, 0.2], [3, 2, 0, 1])
    order = make_order(made, Selection(1))
    found = order.entries.tolist(), order.shuffled.tolist(), order.samples.tolist()
    assert found == ([0, 2], [2, 0], [0, 2])
    assert make_order(made, Selection(minimum=0.5)).entries.tolist() == [0, 1]
    assert make_order(made, Selection(2, 0.3)).samples.tolist() == [1]
    nothing = make_order(made, Selection(0))
    assert nothing.samples.tolist() == nothing.checks.tolist() == []


def test_all_samples_are_shown_once_in_a_random_list():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 300, 1000)
    order = make_order(entries(rows, shuffled=rng.permutation(1000)), Selection())
    assert sorted(order.samples.tolist()) == sorted(set(rows.tolist()))
    checks = order.checks[4::5]
    assert (checks >= 0).all()
    assert (np.delete(order.checks, np.s_[4::5]) == -1).all()
    assert (rows[checks] == order.samples[4::5]).all()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("class", [0, 3, 5, 1, 6, 7, 2, 4]),  # the best of each class, then the second of each
        ("unsure", [3, 2, 4, 1, 5, 0, 6, 7]),
    ],
)
def test_other_orders(name, expected):
    """Every fifth sample is a random one all the same."""
    likely = [0.95, 0.8, 0.6, 0.45, 0.3, 0.1, 0.04, 0.02]
    made = entries(list(range(8)), [1, 1, 1, 0, 1, 2, 0, 2], likely)
    order = make_order(made, Selection(order=name))
    first = [sample for sample, check in zip(order.samples, order.checks, strict=True) if check < 0]
    random = set(order.samples[order.checks >= 0].tolist())
    assert len(random) == 1
    assert first == [sample for sample in expected if sample not in random]
    assert sorted(order.samples.tolist()) == list(range(8))
    assert (order.entries == make_order(made, Selection()).entries).all()
