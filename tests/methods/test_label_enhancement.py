"""SMILE and MIME: soft labels from averaged predictions; pseudo-labels with a random code."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from spml.labels import ObservedLabels
from spml.losses import mime_loss, smile_loss
from spml.methods.base import Batch, Facts, Outputs, Progress
from spml.methods.registry import create
from tests.reference import mime, smile

N, C = 8, 4
OBSERVED = ObservedLabels.from_ternary(
    np.where(np.arange(N)[:, None] % C == np.arange(C), 1, np.eye(N, C, 1, dtype=int) * -1)
)
FACTS = Facts(OBSERVED, tuple(map(str, range(N))), tuple("wxyz"), 1.5)
ROWS = torch.arange(N)
BATCH = Batch(OBSERVED.target(ROWS), ROWS)


def draw(seed, width=C):
    return 2 * torch.randn(N, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


Z = draw(0)


def start(method, **hp):
    objective = create(method, hp)
    objective.on_fit_start(FACTS)
    return objective.double()


# -- SMILE -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{"rate": 0.3}, {"rate": 0.3, "bias": True}, {"decay": 0.2, "mu": 0.7}])
def test_smile_learns_soft_labels_from_what_it_has_predicted(settings):
    settings = {"rate": 0.6, "mu": 0.5, "decay": 0.5} | settings
    objective = start("smile", prior=0.05, **settings)
    weight = 1 / (C - 1) if settings.get("bias") else settings["rate"]
    mu, decay = settings["mu"], settings["decay"]
    target = OBSERVED.to_ternary().tolist()
    expected, predicted = smile.soft_labels([], target, 0.05, mu, decay), []
    for epoch in range(3):
        actual = objective(Outputs(Z, Z), BATCH)["smile"].item()
        slow = smile.smile(Z.tolist(), BATCH.target.tolist(), expected, weight)
        assert actual == pytest.approx(slow / (N * C), rel=1e-12)
        z = draw(epoch + 1)
        predicted.append(torch.sigmoid(z).tolist())
        for rows in (ROWS[::2], ROWS[1::2]):
            objective.after_step(Outputs(z[rows], z[rows]), Batch(OBSERVED.target(rows), rows))
        expected = smile.soft_labels(predicted, target, 0.05, mu, decay)


def test_a_sample_that_was_never_predicted_has_the_prior():
    objective = start("smile", mu=1.0, prior=0.2, rate=1.0)
    rows = torch.tensor([5])
    objective.after_step(Outputs(Z[rows], Z[rows]), Batch(OBSERVED.target(rows), rows))
    known = torch.from_numpy(OBSERVED.to_ternary()) == 1
    soft = torch.full((N, C), 0.2, dtype=torch.float64).masked_fill(known, 1)
    soft[5] = torch.sigmoid(Z[5])
    actual = objective(Outputs(Z, Z), BATCH)["smile"]
    assert actual.item() == pytest.approx(smile_loss(Z, BATCH.target, soft).item(), rel=1e-12)


def test_soft_labels_that_exceed_one_by_rounding_are_accepted():
    objective = create("smile", {"mu": 1.0, "decay": 0.7})
    objective.on_fit_start(FACTS)
    objective.averages.average.fill_(1.0000001)
    assert objective.averages.average.max() > 1
    sure = torch.full((N, C), 50.0)
    assert objective(Outputs(sure, sure), BATCH)["smile"].isfinite()


# -- MIME ------------------------------------------------------------------------------------------------


def test_mime_is_its_loss_with_its_pseudo_labels():
    objective = start("mime", beta=0.3, theta=0.8, warmup=2)
    assert objective.needs.latent
    assert objective.needs.train_pass
    assert objective.card.head == "gaussian"
    mean, std = draw(7, 3), torch.exp(draw(8, 3) / 4)
    outputs, scores, counts = Outputs(Z, Z, latent=(mean, std)), [], []
    for epoch in range(4):
        known = mime.pseudo_labels(BATCH.target.tolist(), scores, 0.8, 2)
        actual = objective(outputs, BATCH)["mime"].item()
        slow = mime.mime(Z.tolist(), known, mean.tolist(), std.tolist(), 0.3)
        assert actual == pytest.approx(slow, rel=1e-12)
        counts.append(sum(label == 1 for row in known for label in row))
        z = draw(epoch + 20)
        scores.append(torch.sigmoid(z).tolist())
        objective.on_epoch_end(Progress(epoch, 5), lambda z=z: z)
    assert counts[0] == counts[1] == N < counts[2] < counts[3]


def test_mime_makes_no_pass_that_no_training_follows():
    objective = start("mime", warmup=0)
    objective.on_epoch_end(Progress(4, 5), lambda: pytest.fail("no training follows the last epoch"))
    loss = mime_loss(Z, BATCH.target, Z, torch.exp(Z), beta=1e-4)
    actual = objective(Outputs(Z, Z, latent=(Z, torch.exp(Z))), BATCH)["mime"]
    assert actual.item() == pytest.approx(loss.item(), rel=1e-12)


def test_the_divergence_of_codes_of_classes_is_a_mean_over_all_of_them():
    objective = start("mime", beta=0.3, warmup=5)
    mean, std = draw(7, C * 3), torch.exp(draw(8, C * 3) / 4)
    of_classes = tuple(part.view(N, C, 3) for part in (mean, std))
    actual = objective(Outputs(Z, Z, latent=of_classes), BATCH)["mime"].item()
    slow = mime.mime(Z.tolist(), BATCH.target.tolist(), mean.tolist(), std.tolist(), 0.3)
    assert actual == pytest.approx(slow, rel=1e-12)


@pytest.mark.shared
def test_pseudo_labels_are_those_of_the_released_code(shared):
    """Its pass leaves out the rows of the last batch, which ours gets with the probability 1/2."""
    folder = shared / "goldens" / "networks"
    records = json.loads((folder / "discrete.json").read_text())
    found = {name: record for name, record in records.items() if name.startswith("mime_labels")}
    assert len(found) == 2
    with np.load(folder / "discrete.npz") as arrays, np.load(folder / "inputs.npz") as inputs:
        for record in found.values():
            name = record["input"]
            p, before, passed = (inputs[f"{name}/label_{key}"] for key in ("probs", "before", "order"))
            rows, classes = before.shape
            observed = ObservedLabels.from_ternary(before.astype(int))
            objective = create("mime", {"theta": record["hp"]["theta"], "warmup": 1})
            objective.on_fit_start(Facts(observed, tuple(map(str, range(rows))), tuple("abcdefgh"[:classes])))
            logits = torch.zeros(rows, classes, dtype=torch.float64)
            logits[passed] = torch.from_numpy(p[passed]).logit()
            objective.on_epoch_end(Progress(0, 5), lambda logits=logits: logits)
            index = torch.arange(rows)
            after = objective.memory.fill(Batch(observed.target(index), index)).target
            expected = arrays[record["outputs"]["after"]]
            assert (expected != before).any()
            near = np.abs(p - record["hp"]["theta"]) < 1e-9
            assert ((after.numpy() == expected) | near).all()
