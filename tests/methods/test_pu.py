"""uPU, nnPU and CRISP: where class priors come from, and what the methods remember."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from spml.common.errors import InputError
from spml.labels import ObservedLabels
from spml.losses import an_loss, crisp_loss, crisp_priors, negative_risk, pu_loss
from spml.methods.base import Batch, Facts, Outputs, Progress
from spml.methods.class_priors import class_priors
from spml.methods.registry import create

N, C = 12, 5
INDEX = [0, 1, 2, 3, 0, 1, 2, 0, 1, 0, 2, 3]  # class 4 has no known positive
COUNTS = torch.tensor([4, 3, 3, 2, 0])
FACTS = Facts(ObservedLabels.from_index(INDEX, C), tuple(map(str, range(N))), tuple("vwxyz"), 1.5)
TARGET = torch.tensor(INDEX)
BATCH = Batch(TARGET[:7], torch.arange(7))
Z = 2 * torch.randn(N, C, generator=torch.Generator().manual_seed(0))
OUTPUTS = Outputs(Z[:7], Z[:7])
PRIOR = 1.5 * COUNTS / N
SHARE = COUNTS / N


def start(method: str, facts: Facts = FACTS, epoch: int = 5, **hp):
    objective = create(method, hp)
    objective.on_fit_start(facts)
    objective.on_epoch_start(Progress(epoch, 10))
    return objective


def loss(objective, z: torch.Tensor = Z[:7]) -> float:
    return float(sum(objective(Outputs(z, z), BATCH).values()))


def test_priors_follow_from_the_mean_labels_and_stay_between_their_bounds():
    assert class_priors(FACTS, "'nnpu'").tolist() == pytest.approx(PRIOR.tolist())
    # K n / sum n = 1.6 for the first class; the mean of 6 known labels per sample is above the stated one.
    many = ObservedLabels.from_ternary(np.array([[1, 1, 0], [1, 0, 0], [1, 0, 0], [1, 0, -1]]))
    facts = Facts(many, tuple("abcd"), tuple("xyz"), 1.0)
    assert class_priors(facts, "'nnpu'").tolist() == [0.75, 0.25, 0]
    facts = Facts(many, tuple("abcd"), tuple("xyz"), 2.0)
    assert class_priors(facts, "'nnpu'").tolist() == [0.75, pytest.approx(0.4), 0]


def test_the_losses_get_priors_and_shares_of_known_positives():
    assert loss(start("upu")) == pytest.approx(
        pu_loss(Z[:7], TARGET[:7], prior=PRIOR, observed=SHARE, correction="none").item(), rel=1e-6
    )
    stated = [0.5, 0.3, 0.4, 0.2, 0.1]
    rest = (torch.tensor(stated) * N - COUNTS) / (N - COUNTS)
    hp = {"surrogate": "sigmoid", "unlabelled": "rest"}
    assert loss(start("upu", priors=stated, counts="batch", **hp)) == pytest.approx(
        pu_loss(Z[:7], TARGET[:7], prior=rest, correction="none", **hp).item(), rel=1e-6
    )
    facts = Facts(FACTS.observed, FACTS.ids, FACTS.classes)
    assert loss(start("upu", facts, priors=stated)) != loss(start("upu"))


def test_the_prior_among_the_rest_is_that_of_the_paper_for_mean_labels():
    prior = start("upu", unlabelled="rest").prior
    assert prior.tolist() == pytest.approx((0.5 * COUNTS / (N - COUNTS)).tolist())


@pytest.mark.parametrize("surrogate", ["sigmoid", "logistic"])
def test_nnpu_corrects_by_a_running_mean_that_starts_at_scores_equal_to_the_prior(surrogate):
    hp = {"surrogate": surrogate}
    objective = start("nnpu", beta=0.02, gamma=0.5, momentum=0.3, **hp)
    at_prior = PRIOR.logit().expand(N, C)
    labels = {"prior": PRIOR, "observed": SHARE, **hp}
    running = negative_risk(at_prior, TARGET, **labels)
    torch.testing.assert_close(objective.running, running, rtol=1e-5, atol=1e-7)
    assert (running >= 0).all()
    by_heart = torch.full((7, C), -6.0).scatter(1, TARGET[:7, None], 6.0)
    for _ in range(20):
        expected = pu_loss(
            by_heart, TARGET[:7], beta=0.02, gamma=0.5, running=running, momentum=0.3, **labels
        )
        assert loss(objective, by_heart) == pytest.approx(expected.item(), rel=1e-5)
        objective.after_step(Outputs(by_heart, by_heart), BATCH)
        running = 0.7 * running + 0.3 * negative_risk(by_heart, TARGET[:7], **labels)
        torch.testing.assert_close(objective.running, running, rtol=1e-5, atol=1e-7)
    assert (running < -0.02).any()


def test_with_momentum_one_the_batch_decides():
    assert not start("nnpu", momentum=1.0).remembers
    assert start("nnpu").remembers
    assert not start("upu").remembers
    expected = pu_loss(Z[:7], TARGET[:7], prior=PRIOR, observed=SHARE)
    assert loss(start("nnpu", momentum=1.0)) == pytest.approx(expected.item(), rel=1e-6)


def test_crisp_is_an_in_its_warmup_and_then_uses_the_estimate_of_the_last_epoch():
    objective, prior = start("crisp", epoch=0, warmup=2, delta=0.1, tau=0.2), SHARE
    assert objective.needs.train_pass
    for epoch in range(9):
        objective.on_epoch_start(Progress(epoch, 10))
        scores = torch.randn(N, C, generator=torch.Generator().manual_seed(epoch))
        if epoch < 2:
            assert loss(objective) == pytest.approx(an_loss(Z[:7], TARGET[:7]).item(), rel=1e-6)
        else:
            hp = {"prior": prior, "observed": SHARE, "running": objective.running, "momentum": 0.1}
            assert loss(objective) == pytest.approx(crisp_loss(Z[:7], TARGET[:7], **hp).item(), rel=1e-6)
        before = objective.running.clone()
        objective.after_step(OUTPUTS, BATCH)
        expected = 0.9 * before + 0.1 * torch.sigmoid(Z[:7]).mean(0)
        torch.testing.assert_close(objective.running, expected)
        objective.on_epoch_end(Progress(epoch, 10), lambda scores=scores: scores)
        prior = crisp_priors(scores, TARGET, delta=0.1, tau=0.2).float()
        assert prior[4].isnan()
        prior[4] = 0
        if epoch >= 1:
            assert torch.equal(objective.prior, prior)
        else:
            assert torch.equal(objective.prior, SHARE)


def test_stated_priors_of_crisp_stay():
    for priors, expected in (("stated", PRIOR), ([0.5, 0.3, 0.4, 0.2, 0.1], None)):
        objective = start("crisp", priors=priors)
        assert not objective.needs.train_pass
        expected = torch.tensor(priors) if expected is None else expected
        objective.on_epoch_end(Progress(5, 10), None)
        torch.testing.assert_close(objective.prior, expected)


@pytest.mark.parametrize(("method", "hp"), [("upu", {}), ("nnpu", {}), ("crisp", {"priors": "stated"})])
def test_data_without_a_known_positive_is_refused(method, hp):
    observed = ObservedLabels.from_ternary(np.full((N, C), -1))
    facts = Facts(observed, FACTS.ids, FACTS.classes, 1.5)
    with pytest.raises(InputError, match="no label is known to be positive: state the shares"):
        start(method, facts, **hp)


@pytest.mark.parametrize("method", ["upu", "nnpu", "crisp"])
@pytest.mark.parametrize(
    ("priors", "message"),
    [
        ([0.5] * 4, "hp.priors has 4 numbers, but there are 5 classes"),
        ([0.5, 0.1, 0.4, 0.2, 0.1], "hp.priors has 0.1 for class 'w', .* in more, 0.25 of the samples"),
        ([0.5, 0.3, 0.4, 0.2, 0.0], "method '.*': priors must be numbers between 0 and 1, .* got 0.0"),
        ([0.5, 0.3, 1.0, 0.2, 0.1], "priors must be numbers between 0 and 1, .* got 1.0"),
        ([0.5, 0.3, "half", 0.2, 0.1], "got 'half'"),
        ([float("nan")] * 5, "got nan"),
        (0.3, "priors must be a list of numbers, one for each class, got 0.3"),
        ([], "hp.priors has 0 numbers"),
    ],
)
def test_priors_that_cannot_be_are_refused(method, priors, message):
    with pytest.raises(InputError, match=message):
        start(method, priors=priors)


@pytest.mark.shared
def test_priors_are_those_of_the_reference_values(shared):
    folder = shared / "goldens" / "networks"
    records = json.loads((folder / "discrete.json").read_text())
    with np.load(folder / "discrete.npz") as outputs, np.load(folder / "inputs.npz") as inputs:
        for name in ("p16", "p40"):
            record = records[f"class_priors|{name}"]
            observed = ObservedLabels.from_ternary(inputs[f"{name}/obs"])
            classes = tuple(map(str, range(observed.num_classes)))
            facts = Facts(observed, (), classes, record["hp"]["K"])
            for settings, key in (({}, "prior"), ({"unlabelled": "rest"}, "prior_rest")):
                expected = outputs[record["outputs"][key]]
                inside = expected < 1 - 1 / len(observed)  # the record has no bounds
                assert inside.sum() >= 3
                found = start("upu", facts, **settings).prior.numpy()
                np.testing.assert_allclose(found[inside], expected[inside], rtol=1e-6)
