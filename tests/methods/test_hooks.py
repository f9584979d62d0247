"""Hooks of methods with a memory, a schedule or parameters of their own."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from spml.common.errors import InputError
from spml.labels import ObservedLabels
from spml.losses import (
    em_apl_loss,
    expected_labels,
    high_rank_loss,
    large_loss_mask,
    ll_loss,
    opml_loss,
    role_loss,
    show_loss,
    soft_opml_loss,
)
from spml.methods.base import Batch, Facts, Outputs, Progress
from spml.methods.registry import create
from spml.metrics import average_precision
from tests.reference.em_apl import lowest

N, C = 12, 5
INDEX = [0, 1, 2, 3, 0, 1, 2, 0, 1, 0, 2, 3]  # class 4 has no known positive
OBSERVED = ObservedLabels.from_index(INDEX, C)
FACTS = Facts(OBSERVED, tuple(map(str, range(N))), tuple("vwxyz"), 1.5)
TARGET = torch.tensor(INDEX)
ROWS = torch.arange(N)
BATCH = Batch(TARGET, ROWS)
KNOWN = torch.from_numpy(OBSERVED.to_ternary()) == 1


def draw(seed: int) -> torch.Tensor:
    return 2 * torch.randn(N, C, generator=torch.Generator().manual_seed(seed))


Z = draw(0)


def start(method: str, facts: Facts = FACTS, epoch: int = 0, epochs: int = 10, **hp):
    objective = create(method, hp)
    objective.on_fit_start(facts)
    objective.on_epoch_start(Progress(epoch, epochs))
    return objective


def outputs(z: torch.Tensor) -> Outputs:
    return Outputs(z, z)


def loss(objective, z: torch.Tensor = Z, batch: Batch = BATCH) -> float:
    return float(torch.stack(list(objective(outputs(z), batch).values())).sum())


# -- ROLE ------------------------------------------------------------------------------------------------


def test_role_starts_with_confident_known_and_uncertain_unknown_labels():
    ternary = np.zeros((N, C), np.int8)
    ternary[:, 0], ternary[:, 1] = 1, -1
    facts = Facts(ObservedLabels.from_ternary(ternary), FACTS.ids, FACTS.classes, 1.5)
    q = torch.sigmoid(start("role", facts).estimates)
    assert torch.allclose(q[:, 0], torch.tensor(0.995))
    assert torch.allclose(q[:, 1], torch.tensor(0.005))
    assert ((q[:, 2:] > 0.4) & (q[:, 2:] < 0.6)).all()
    assert q[:, 2:].std() > 0.03


def test_the_start_of_role_follows_the_seed_and_not_the_order_of_classes():
    def estimates(seed: int, facts: Facts = FACTS):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            torch.rand(3)
            return start("role", facts).estimates.detach()

    assert torch.equal(estimates(1), estimates(1))
    assert not torch.equal(estimates(1), estimates(2))
    turned = ObservedLabels.from_index([C - 1 - column for column in INDEX], C)
    assert torch.equal(estimates(1, Facts(turned, FACTS.ids, FACTS.classes[::-1], 1.5)), estimates(1).flip(1))


def test_role_uses_the_estimates_of_its_samples_at_ten_times_the_learning_rate():
    rows = torch.tensor([7, 2, 5])
    for hp in ({}, {"weight": 0.5, "norm": "samples"}):
        objective = start("role", **hp)
        actual = objective(outputs(Z[rows]), Batch(TARGET[rows], rows))["role"]
        estimates = objective.estimates[rows].detach()
        expected = role_loss(Z[rows], TARGET[rows], estimates, mean_labels=1.5, **hp)
        assert actual.item() == pytest.approx(expected.item(), rel=1e-6)
    actual.backward()
    touched = objective.estimates.grad.abs().sum(1) > 0
    assert touched.nonzero()[:, 0].tolist() == [2, 5, 7]
    (group,) = objective.param_groups()
    assert group["lr_factor"] == 10
    assert group["params"][0] is objective.estimates


# -- large losses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "treatment"), [("ll_r", "reject"), ("ll_ct", "correct")])
def test_the_share_of_large_losses_grows_with_the_epochs(method, treatment):
    for epoch, rate in ((0, 0.0), (1, 0.1), (4, 0.4), (15, 1.0)):
        actual = loss(start(method, epoch=epoch, percent=10))
        assert actual == pytest.approx(ll_loss(Z, TARGET, rate=rate, treatment=treatment).item(), rel=1e-6)


def test_the_clean_rate_is_counted_down_in_floating_point_as_released():
    assert start("ll_r", epoch=1, percent=0.2).rate == 1 - (1 - 0.002) > 0.002
    assert start("ll_ct", epoch=3, percent=0.2).rate == 1 - (1 - 0.002 - 0.002 - 0.002)
    assert start("ll_cp", epoch=3, percent=0.2).rate == 0.002


@pytest.mark.parametrize("strict", [False, True])
def test_ll_cp_corrects_permanently(strict):
    objective = start("ll_cp", epoch=1, percent=5, strict=strict)
    assert loss(objective) == pytest.approx(ll_loss(Z, TARGET, rate=0.05, treatment="correct").item())
    objective.after_step(outputs(Z), BATCH)
    marked = large_loss_mask(Z, TARGET, rate=0.05, strict=strict)
    assert marked.sum() == (2 if strict else 3)
    assert torch.equal(objective.memory.labels.inferred == 1, marked)
    assert not (marked & KNOWN).any()
    # In the next step they are positives, and other labels are the large ones.
    target = (KNOWN | marked).to(torch.int8)
    expected = ll_loss(Z, target, rate=0.05, treatment="correct")
    assert loss(objective) == pytest.approx(expected.item(), rel=1e-6)
    objective.after_step(outputs(Z), BATCH)
    assert (objective.memory.labels.inferred == 1).sum() == 2 * marked.sum()


def test_ll_cp_corrects_the_samples_of_the_batch_and_none_in_the_first_epoch():
    objective = start("ll_cp", percent=20)
    objective.after_step(outputs(Z), BATCH)
    assert (objective.memory.labels.inferred == -1).all()
    objective.on_epoch_start(Progress(1, 10))
    rows = torch.tensor([9, 4])
    objective.after_step(outputs(Z[rows]), Batch(TARGET[rows], rows))
    assert sorted(set((objective.memory.labels.inferred == 1).nonzero()[:, 0].tolist())) <= [4, 9]
    assert (objective.memory.labels.inferred == 1).sum() == 2


# -- EM + APL --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("predictions", ["pass", "training"])
def test_pseudo_negatives_are_the_lowest_scores_of_each_class(predictions):
    objective = start(
        "em_apl", epochs=6, warmup=2, proportion=0.9, alpha=0.3, beta=0.7, predictions=predictions
    )
    assert objective.needs.train_pass == (predictions == "pass")
    # Of 12 - (4, 3, 3, 2, 0) unknown labels 0.9 in 4 passes.
    unknown = [8, 9, 9, 10, 12]
    counts = [int(0.9 * count / 4) for count in unknown]
    assert counts == [1, 2, 2, 2, 2]
    soft, free = torch.full((N, C), -1.0), ~KNOWN
    passes = []
    for epoch in range(6):
        z = draw(epoch + 1)
        objective.on_epoch_start(Progress(epoch, 6))
        for rows in (ROWS[::2], ROWS[1::2]):
            objective.after_step(outputs(z[rows]), Batch(TARGET[rows], rows))

        def train_pass(z=z):
            passes.append(z)
            return z

        objective.on_epoch_end(Progress(epoch, 6), train_pass if predictions == "pass" else None)
        happens = epoch + 1 in (2, 3, 4, 5)
        if happens:
            for row, column in lowest(z.tolist(), free.tolist(), counts):
                soft[row, column], free[row, column] = torch.sigmoid(z[row, column]), False
        assert torch.allclose(objective.memory.labels.inferred, soft)
    assert len(passes) == (4 if predictions == "pass" else 0)
    assert (~free & ~KNOWN).sum(0).tolist() == [4, 8, 8, 8, 8]
    expected = em_apl_loss(Z, TARGET, soft, alpha=0.3, beta=0.7)
    assert loss(objective) == pytest.approx(expected.item(), rel=1e-6)


def test_known_negatives_are_not_pseudo_negatives():
    ternary = OBSERVED.to_ternary().copy()
    ternary[:8, 4] = -1
    facts = Facts(ObservedLabels.from_ternary(ternary), FACTS.ids, FACTS.classes)
    for proportion, expected in ((1.0, [8, 9, 9, 10, 4]), (0.5, [4, 4, 4, 5, 2])):
        objective = start("em_apl", facts, epochs=2, warmup=1, proportion=proportion)
        objective.on_epoch_end(Progress(0, 2), lambda: Z)
        inferred = objective.memory.labels.inferred >= 0
        assert not inferred[torch.from_numpy(ternary != 0)].any()
        assert inferred.sum(0).tolist() == expected


# -- OPML-SP ---------------------------------------------------------------------------------------------


def test_opml_sp_with_everything_off_is_opml():
    objective = start("opml_sp", alpha=0.5, smoothing="none", rank_weight=0, correction=0)
    assert not objective.needs.train_pass
    assert not objective.needs.batch_coupled
    assert loss(objective) == pytest.approx(opml_loss(Z, TARGET, alpha=0.5).item(), rel=1e-6)


def test_opml_sp_adds_the_enabled_terms():
    actual = loss(
        start("opml_sp", smoothing="constant", share=0.3, rank_weight=0.2, rank="singular", delta=0.5)
    )
    expected = soft_opml_loss(Z, TARGET, share=0.3) + 0.2 * high_rank_loss(Z, form="singular", delta=0.5)
    assert actual == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize("smoothing", ["product", "score"])
def test_opml_sp_smooths_by_the_average_precision_of_the_last_epoch(smoothing):
    objective = start("opml_sp", smoothing=smoothing, gamma=2.0, rank_weight=0, correction=0)
    assert objective.needs.train_pass
    assert loss(objective) == pytest.approx(opml_loss(Z, TARGET).item(), rel=1e-6)
    objective.on_epoch_end(Progress(0, 3), lambda: draw(1))
    precision = average_precision(draw(1), KNOWN.numpy())
    assert np.isnan(precision[4])
    precision = torch.from_numpy(np.nan_to_num(precision)).float()
    expected = soft_opml_loss(Z, TARGET, smoothing=smoothing, average_precision=precision, gamma=2.0)
    assert loss(objective) == pytest.approx(expected.item(), rel=1e-6)


def test_opml_sp_corrects_more_labels_of_classes_with_a_low_average_precision():
    objective = start("opml_sp", smoothing="none", rank_weight=0, correction=0.5)
    z, free, corrected = draw(1), ~KNOWN, torch.zeros(N, C, dtype=torch.bool)
    for epoch in range(2):
        objective.on_epoch_end(Progress(epoch, 3), lambda: z)
        precision = np.nan_to_num(average_precision(z, KNOWN.numpy()), nan=1.0)
        counts = [int(0.5 * N * (1 - value)) for value in precision]
        assert counts[4] == 0 < max(counts)
        for row, column in lowest((-z).tolist(), free.tolist(), counts):
            corrected[row, column], free[row, column] = True, False
        assert torch.equal(objective.memory.labels.inferred == 1, corrected)
    expected = opml_loss(Z, (KNOWN | corrected).to(torch.int8))
    assert loss(objective) == pytest.approx(expected.item(), rel=1e-6)
    objective.on_epoch_end(Progress(2, 3), lambda: pytest.fail("no training follows the last epoch"))


# -- SHOW ------------------------------------------------------------------------------------------------


def test_show_keeps_a_running_number_of_labels():
    objective = start("show", momentum=0.25)
    assert objective.running.item() == 1.5
    now = expected_labels(Z, TARGET, mean_labels=1.5, shifted=False)
    expected = show_loss(Z, TARGET, mean_labels=1.5, shifted=False, running=torch.tensor(1.5), momentum=0.25)
    assert loss(objective) == pytest.approx(expected.item(), rel=1e-6)
    objective.after_step(outputs(Z), BATCH)
    assert objective.running.item() == pytest.approx(0.75 * 1.5 + 0.25 * now.item(), rel=1e-6)
    unlabelled = Batch(torch.zeros(N, C, dtype=torch.int8), ROWS)
    objective.after_step(outputs(Z), unlabelled)
    assert objective.running.item() == pytest.approx(0.75 * 1.5 + 0.25 * now.item(), rel=1e-6)


# -- softmax ---------------------------------------------------------------------------------------------


def test_softmax_needs_unknown_labels():
    full = Facts(ObservedLabels.from_ternary(np.where(KNOWN, 1, -1)), FACTS.ids, FACTS.classes)
    with pytest.raises(InputError, match=r"'softmax'.*no unknown label.*data.observe=single"):
        start("softmax", full)
