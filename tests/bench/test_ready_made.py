"""Every candidate of the ready-made studies trains, on small data in place of the papers'."""

from __future__ import annotations

from collections import Counter

import pytest
import yaml

from spml.analysis import sensitivity
from spml.bench.spec import find_spec
from spml.bench.workers import work
from tests.helpers.comparisons import job_in, state_of

STUDIES = ["gr-table3", "gr-noise", "gr-forms", "opml-table4", "opml-table5", "lasd-table3", "photographs"]
MANY_RUNS = [pytest.param(name, marks=pytest.mark.long) for name in ("mlml", "sensitivity")]


def small(name):
    """The study on few feature vectors, with one seed and the first value of every shared setting."""
    text = find_spec(name).text
    spec = yaml.safe_load(text)
    spec["data"] = {"toy": {"path": "toy.npz", "unlisted": "negative", "mean_labels": 1.6}}
    if "published" in spec["hiding"]:
        spec["hiding"] = {"published": {"observe": "single"}}
    if name != "mlml":  # the first and the last way of hiding
        ways = [*spec["hiding"].items()]
        spec["hiding"] = dict([*ways[:1], *ways[-1:]])
    if "search" in spec:
        spec["search"].pop("space", None)
        if spec["search"].get("sampler") != "grid":  # which has as many trials as combinations
            spec["search"]["trials"] = 1
    rate = float(spec["train"].get("optim.lr", 1e-3))
    epochs = 2 if name in ("mlml", "sensitivity") else 3  # which are many runs of few methods
    if name == "mlml":
        late = spec["candidates"].index("em_apl")  # infers nothing before its sixth epoch
        spec["candidates"][late] = {"name": "em_apl", "method": "em_apl", "epochs": 6}
    spec |= {"seeds": 1, "draws": 5, "train": {"epochs": epochs, "batch_size": 64, "optim.lr": rate}}
    return yaml.safe_dump(spec, sort_keys=False)


@pytest.mark.long
@pytest.mark.parametrize("name", [*STUDIES, *MANY_RUNS])
def test_every_candidate_trains(tmp_path, name):
    job = job_in(tmp_path, small(name))
    assert work(job) == []
    rows = state_of(job).rows
    assert {row.message for row in rows} == {""}
    assert {row.series.candidate for row in rows} == {candidate.name for candidate in job.spec().candidates}
    if name == "mlml":
        table = sensitivity([job.folder], x="hiding").table
        assert table["hiding"][:6] == ["1 positive", "10 %", "30 %", "50 %", "70 %", "90 %"]
        assert len(table["hiding"]) == 6 * 7
    if name == "sensitivity":
        taus = [0.4, 0.55, 0.7, 0.85, 1.0]
        assert sorted(sensitivity([job.folder], x="tau").table["tau"]) == sorted(taus * 3)
        result = sensitivity([job.folder], x="hp.mu", references=["an", "em"])
        assert result.table["kind"] == ["point"] * 15 + ["reference"] * 2
        fives = ("q2", "q3", "weight_pos", "tau", "consistency", "alpha", "beta", "rank_weight")
        points = Counter(name for row in rows for name in row.params)
        assert points == {"hp.w": 15, "hp.mu": 15, **{f"hp.{name}": 5 for name in fives}}
