"""Methods that use further views, a further forward pass or a head of their own."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from spml.labels import ObservedLabels
from spml.losses import an_loss, ignore_loss, plc_loss, pumlc_loss
from spml.methods.base import Batch, Facts, Outputs, Progress
from spml.methods.registry import create, find
from tests.reference import boostlu, ignore, lasd, plc, pumlc
from tests.reference.baselines import an

N, C = 6, 4
INDEX = [0, 2, 1, 0, 3, 0]
LABELS = ObservedLabels.from_index(INDEX, C)
FACTS = Facts(LABELS, tuple("abcdef"), tuple("wxyz"), 1.5)
TARGET = torch.tensor(INDEX)
MATRIX = torch.tensor([[1, 0, 0, 1], [0, 0, 0, 0], [-1, 1, 0, 0], [1, 0, -1, 0], [0, -1, 0, 1], [1, 1, 1, 0]])
BATCH, PARTIAL = Batch(TARGET, torch.arange(N), 5), Batch(MATRIX.to(torch.int8), torch.arange(N), 5)


def draw(seed: int) -> torch.Tensor:
    return 3 * torch.randn(N, C, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


Z, WEAK, STRONG, MASKED = (draw(seed) for seed in range(4))


def start(method: str, epoch: int = 0, **hp):
    objective = create(method, hp)
    objective.on_fit_start(FACTS)
    objective.double()
    objective.on_epoch_start(Progress(epoch, 10))
    return objective


def terms(objective, outputs: Outputs, batch: Batch = BATCH) -> dict[str, float]:
    return {name: float(value) for name, value in objective(outputs, batch).items()}


# -- LASD ------------------------------------------------------------------------------------------------


def test_lasd_adds_the_differences_of_three_views():
    objective = start("lasd", weight_neg=0.3, consistency=0.4)
    assert objective.needs.views == ("weak", "strong")
    assert start("lasd", consistency=0).needs.views == ()
    actual = terms(objective, Outputs(Z, Z, (WEAK, STRONG)), PARTIAL)
    labels = lasd.lasd(Z.tolist(), MATRIX.tolist(), 0.1, 0.3, 0.9, 0.0, 4.0) / N
    between = lasd.consistency([Z.tolist(), WEAK.tolist(), STRONG.tolist()])
    assert actual == pytest.approx({"lasd": labels, "consistency": 0.4 * between}, rel=1e-9)


def test_all_three_views_of_lasd_learn_but_labels_come_through_the_ordinary_one():
    views = [view.clone().requires_grad_() for view in (Z, WEAK, STRONG)]
    actual = start("lasd")(Outputs(views[0], views[0], (views[1], views[2])), BATCH)
    actual["consistency"].backward(retain_graph=True)
    assert all((view.grad != 0).all() for view in views)
    before = [view.grad.clone() for view in views]
    actual["lasd"].backward()
    same = [torch.equal(view.grad, old) for view, old in zip(views, before, strict=True)]
    assert same == [False, True, True]


def test_the_published_weights_of_lasd():
    actual = {name: values["consistency"] for name, values in find("lasd").card.defaults.items()}
    assert actual == {"voc": 0.7, "coco": 0.1, "nus": 0.15, "cub": 0.03}


# -- PLC -------------------------------------------------------------------------------------------------


def test_plc_is_an_on_the_ordinary_view_and_pseudo_labels_on_the_strong_one():
    objective = start("plc", weight=0.7, tau=0.75)
    assert objective.needs.views == ("strong",)
    assert objective.needs.batch_coupled
    actual = terms(objective, Outputs(Z, Z, (STRONG,)), PARTIAL)
    expected = {
        "an": an(Z.tolist(), MATRIX.tolist()),
        "plc": 0.7 * plc.plc(Z.tolist(), MATRIX.tolist(), STRONG.tolist(), 0.75),
    }
    assert actual == pytest.approx(expected, rel=1e-9)
    actual = terms(start("plc"), Outputs(Z, Z, (STRONG,)))
    assert actual["an"] == pytest.approx(float(an_loss(Z, TARGET)))
    assert actual["plc"] == pytest.approx(float(plc_loss(Z, TARGET, STRONG, tau=0.6)))


# -- IGNORE ----------------------------------------------------------------------------------------------

H, W = 12, 20
IMAGES = torch.randint(0, 256, (N, 3, H, W), generator=torch.Generator().manual_seed(7), dtype=torch.uint8)
MAPS = torch.randn(N, C, 3, 4, generator=torch.Generator().manual_seed(8))


def masked_pixels(batch: Batch, **hp) -> torch.Tensor:
    """Return where the images changed, after checking the colour at these positions."""
    extra = start("ignore", **hp).extra_inputs(IMAGES, Outputs(Z, Z, class_maps=MAPS), batch)
    assert extra.inputs.dtype == torch.uint8
    assert extra.target is None
    changed = (extra.inputs != IMAGES).any(1)
    colour = IMAGES.float().mean((2, 3)).round().to(torch.uint8)
    for row in range(N):
        assert (extra.inputs[row][:, changed[row]] == colour[row][:, None]).all()
    return changed


@pytest.mark.parametrize("batch", [BATCH, PARTIAL])
@pytest.mark.parametrize("hp", [{}, {"threshold": 0.5}])
def test_ignore_masks_the_region_of_the_observed_class(batch, hp):
    changed = masked_pixels(batch, **hp)
    matrix = torch.from_numpy(LABELS.to_ternary()) if batch is BATCH else MATRIX
    for row in range(N):
        maps = [MAPS[row, c].double().tolist() for c in range(C) if matrix[row, c] == 1]
        assert changed[row].tolist() == ignore.hidden(maps, H, W, hp.get("threshold", 0.8))
        assert changed[row].any() == bool(maps)
    assert changed.float().mean() < 0.5


def test_a_map_without_a_peak_masks_no_pixel():
    outputs = Outputs(Z, Z, class_maps=torch.full((N, C, 3, 4), 2.5))
    assert torch.equal(start("ignore").extra_inputs(IMAGES, outputs, BATCH).inputs, IMAGES)
    assert not masked_pixels(BATCH, threshold=1.0).any()


def test_ignore_rejects_after_the_warm_up_only():
    outputs = Outputs(Z, Z, (STRONG,), extra=MASKED)
    for epoch, masked in ((0, None), (2, None), (3, MASKED), (7, MASKED)):
        objective = start("ignore", epoch=epoch)
        objective.gap_threshold.fill_(1.5)
        objective.mean_logits.copy_(torch.tensor([-0.5, 0.0, 1.0, -2.0]))
        means = objective.mean_logits.tolist()
        lists = None if masked is None else masked.tolist()
        expected = ignore.ignore(Z.tolist(), MATRIX.tolist(), STRONG.tolist(), lists, 1.5, means)
        assert terms(objective, outputs, PARTIAL) == pytest.approx({"ignore": expected}, rel=1e-9)
    assert terms(start("ignore", warmup=0), outputs) != pytest.approx(
        terms(start("ignore"), outputs), rel=1e-3
    )


def test_the_running_means_of_ignore():
    objective = start("ignore", decay=0.9)
    masks = [MASKED, STRONG, WEAK]
    steps = [(Z, BATCH), (draw(9), PARTIAL), (draw(10), BATCH)]
    gaps, means = [], []
    for (z, batch), masked in zip(steps, masks, strict=True):
        objective.after_step(Outputs(z, z, (STRONG,), extra=masked), batch)
        known = torch.from_numpy(LABELS.to_ternary()) if batch is BATCH else MATRIX
        gaps.append(float((z - masked).abs()[known == 1].mean()))
        means.append(z.mean(0).tolist())
    assert objective.gap_threshold.item() == pytest.approx(ignore.running(gaps, 0.9), rel=1e-9)
    expected = [ignore.running(list(column), 0.9) for column in zip(*means, strict=True)]
    assert objective.mean_logits.tolist() == pytest.approx(expected, rel=1e-9)


def test_a_batch_without_a_known_positive_leaves_the_gap_unchanged():
    objective = start("ignore", decay=0.5)
    objective.gap_threshold.fill_(2.0)
    unlabelled = Batch(torch.zeros(N, C, dtype=torch.int8), torch.arange(N))
    objective.after_step(Outputs(Z, Z, (STRONG,), extra=MASKED), unlabelled)
    assert objective.gap_threshold.item() == 2.0
    assert objective.mean_logits.tolist() == pytest.approx((0.5 * Z.mean(0)).tolist())


def test_the_weights_of_ignore():
    hp = {"weight_pos": 0.5, "weight_an": 2.0, "weight_views": 0.1}
    actual = terms(start("ignore", **hp), Outputs(Z, Z, (STRONG,), extra=MASKED))
    assert actual == pytest.approx({"ignore": float(ignore_loss(Z, TARGET, STRONG, **hp))}, rel=1e-12)


# -- PU-MLC ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [BATCH, PARTIAL])
@pytest.mark.parametrize("inputs", [IMAGES, torch.randn(N, 5)])
def test_pumlc_mixes_samples_and_their_labels_alike(batch, inputs):
    extra = start("pumlc").extra_inputs(inputs, Outputs(Z, Z), batch)
    generator = np.random.Generator(np.random.PCG64(5))
    share, partner = generator.beta(0.3, 0.3, N), generator.permutation(N)
    assert ((share > 0) & (share < 1)).all()
    assert len(set(share.tolist())) == N
    for row, (a, second) in enumerate(zip(share, partner, strict=True)):
        expected = a * inputs[row].double() + (1 - a) * inputs[second].double()
        assert torch.allclose(extra.inputs[row].double(), expected, rtol=1e-4, atol=1e-3)
    matrix = LABELS.to_ternary().tolist() if batch is BATCH else MATRIX.tolist()
    labels = pumlc.mixed_labels(Z.tolist(), matrix, partner.tolist(), share.tolist())
    assert torch.allclose(extra.target.exp(), torch.tensor(labels, dtype=torch.float64), rtol=1e-5)


def test_the_mixture_follows_the_seed_of_the_step():
    def mixture(seed: int) -> torch.Tensor:
        batch = Batch(TARGET, torch.arange(N), seed)
        return start("pumlc").extra_inputs(IMAGES, Outputs(Z, Z), batch).inputs

    before = torch.get_rng_state()
    assert torch.equal(mixture(1 << 40), mixture(1 << 40))
    assert not torch.equal(mixture(1), mixture(2))
    assert torch.equal(torch.get_rng_state(), before)


def test_pumlc_adds_the_mixed_term():
    objective = start("pumlc", gamma=0.7, mix=0.25)
    extra = objective.extra_inputs(IMAGES, Outputs(Z, Z), BATCH)
    actual = terms(objective, Outputs(Z, Z, extra=MASKED, extra_target=extra.target))
    expected = pumlc.mixed(MASKED.tolist(), extra.target.exp().tolist())
    assert actual["mixed"] == pytest.approx(0.25 * expected, rel=1e-9)
    assert actual["pumlc"] == pytest.approx(float(pumlc_loss(Z, TARGET, gamma=0.7)), rel=1e-12)


def test_without_mixing_there_is_no_further_pass():
    objective = start("pumlc", mix=0)
    assert objective.extra_inputs(IMAGES, Outputs(Z, Z), BATCH) is None
    assert list(terms(objective, Outputs(Z, Z))) == ["pumlc"]


# -- BoostLU ---------------------------------------------------------------------------------------------


def test_boostlu_is_large_loss_rejection_with_a_head_of_its_own():
    card = find("boostlu").card
    assert card.head == "boosted_cam"
    assert card.formula.startswith(find("ll_r").card.formula)
    maps = draw(11)[:, :, None, None] * torch.randn(1, 1, 2, 3, generator=torch.Generator().manual_seed(12))
    logits = torch.tensor(boostlu.boosted(maps.tolist()), dtype=torch.float64)
    assert not torch.allclose(logits, maps.mean((2, 3)))
    objective = start("boostlu", epoch=3, percent=10)
    expected = boostlu.boostlu(maps.tolist(), LABELS.to_ternary().tolist(), objective.rate)
    assert sum(terms(objective, Outputs(logits, logits)).values()) == pytest.approx(expected, rel=1e-9)
    assert objective.rate == pytest.approx(0.3)
