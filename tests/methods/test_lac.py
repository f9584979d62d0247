"""LAC: PLC, then a contrast of the embeddings of known and confident labels, with a queue of old ones."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch.nn import functional

import spml
from spml.common.errors import InputError
from spml.labels import ObservedLabels
from spml.losses import an_loss, lac_loss, plc_loss
from spml.methods.base import Batch, Facts, Outputs, Progress
from spml.methods.lac import PairQueue
from spml.methods.registry import create
from tests.goldens import TOLERANCE, cases
from tests.reference import lac

N, C, E = 6, 4, 3
OBSERVED = ObservedLabels.from_ternary(
    [[1, 0, 0, -1], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 1, 0], [0, 0, 0, 0]]
)
BATCH = Batch(OBSERVED.target(torch.arange(N)), torch.arange(N))
FIRST, SECOND = Progress(0, 10), Progress(5, 10)


def start(progress=SECOND, classes=C, **hp):
    objective = create("lac", {"width": E} | hp)
    names = tuple(f"class {number}" for number in range(classes))
    objective.on_fit_start(Facts(OBSERVED, tuple(map(str, range(N))), names))
    objective.double().on_epoch_start(progress)
    return objective


def outputs_of(seed):
    generator = torch.Generator().manual_seed(seed)
    weak, strong = 2 * torch.randn(2, N, C, generator=generator, dtype=torch.float64)
    embeddings = torch.randn(2, N, C, E, generator=generator, dtype=torch.float64)
    return Outputs(weak, weak, (strong,), embeddings=tuple(functional.normalize(embeddings, dim=-1)))


def entries_of(outputs, tau):
    first, second = (part.tolist() for part in outputs.embeddings)
    return lac.new_entries(outputs.logits.tolist(), BATCH.target.tolist(), first, second, tau)


# -- the contrast ----------------------------------------------------------------------------------------


def pairs(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(2, count, E, generator=generator, dtype=torch.float64)
    return tuple(functional.normalize(values, dim=-1))


@pytest.mark.parametrize("temperature", [0.5, 0.07])
@pytest.mark.parametrize("classes", [[0], [0, 0], [0, 1], [2, 0, 2, 1, 2, 0]])
def test_the_contrast_equals_slow_loops(classes, temperature):
    first, second = pairs(len(classes))
    loss = lac_loss(first, second, torch.tensor(classes), temperature=temperature)
    expected = lac.contrast(first.tolist(), second.tolist(), classes, temperature)
    assert loss.item() == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_one_pair_or_none_has_no_contrast():
    for count in (0, 1):
        first, second = (part.requires_grad_() for part in pairs(count))
        loss = lac_loss(first, second, torch.zeros(count, dtype=torch.long))
        loss.backward()
        assert loss.item() == 0
        assert not first.grad.any()


def test_entries_without_a_class_are_left_out():
    (first, second), classes = pairs(4), torch.tensor([1, -1, 0, -1])
    used = classes >= 0
    first.requires_grad_()
    loss = lac_loss(first, second, classes)
    torch.testing.assert_close(loss, lac_loss(first[used], second[used], classes[used]))
    loss.backward()
    assert torch.equal(first.grad.any(1), used)
    nothing = lac_loss(first, second, torch.full((4,), -1))
    assert nothing.item() == 0
    assert not torch.autograd.grad(nothing, first)[0].any()


def test_the_gradient_of_the_contrast_is_right():
    classes = torch.tensor([0, 1, 0, 2])
    torch.autograd.gradcheck(
        lambda first, second: lac_loss(first, second, classes), [part.requires_grad_() for part in pairs(4)]
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"temperature": 0}, "temperature must be greater than 0"),
        ({"second": torch.zeros(2, 4)}, "must have the same shape"),
        ({"classes": torch.zeros(3, dtype=torch.long)}, "must have the same shape"),
    ],
)
def test_the_contrast_refuses_what_does_not_fit(change, words):
    right = {"first": torch.zeros(2, 3), "second": torch.zeros(2, 3), "classes": torch.zeros(2).long()}
    with pytest.raises(ValueError, match=words):
        lac_loss(**(right | change))


# -- the method ------------------------------------------------------------------------------------------


def test_the_first_stage_is_plc():
    objective, outputs = start(FIRST, weight_plc=0.7), outputs_of(0)
    terms = objective(outputs, BATCH)
    assert terms["an"].item() == an_loss(outputs.logits, BATCH.target).item()
    plc = plc_loss(outputs.logits, BATCH.target, outputs.views[0], tau=0.6)
    assert terms["plc"].item() == pytest.approx(0.7 * plc.item(), rel=1e-12)
    assert terms["lac"].item() == 0
    objective.after_step(outputs, BATCH)
    assert (objective.queue.classes == -1).all()


@pytest.mark.parametrize(("share", "epochs"), [(0.5, 5), (0.0, 0), (1.0, 10), (0.24, 2)])
def test_the_stages_switch_after_a_share_of_the_epochs(share, epochs):
    objective = start(first_stage=share)
    second = []
    for epoch in range(10):
        objective.on_epoch_start(Progress(epoch, 10))
        second.append(objective(outputs_of(0), BATCH)["lac"].item() > 0)
    assert second == [False] * epochs + [True] * (10 - epochs)


@pytest.mark.parametrize("size", [5, 20, 100])
def test_the_second_stage_contrasts_the_last_entries(size):
    objective = start(queue=size, weight_lac=0.3, tau_second=0.8)
    steps = []
    for seed in range(5):
        outputs = outputs_of(seed)
        steps.append(entries_of(outputs, 0.8))
        classes, first, second = zip(*lac.ring(steps, size), strict=True)
        terms = objective(outputs, BATCH)
        expected = 0.3 * lac.contrast(first, second, classes, 0.5)
        assert terms["lac"].item() == pytest.approx(expected, rel=1e-12)
        plc = plc_loss(outputs.logits, BATCH.target, outputs.views[0], tau=0.8)
        assert terms["plc"].item() == pytest.approx(plc.item(), rel=1e-12)
        objective.after_step(outputs, BATCH)
    assert len(steps[0]) > 5
    assert (objective.queue.classes >= 0).sum() == min(size, sum(map(len, steps)))


def test_the_released_queue_restarts_before_it_is_full():
    queue = PairQueue(4, E, "released")
    for count, end, classes in (
        (3, 3, [0, 1, 2, -1]),
        (1, 1, [0, 1, 2, -1]),
        (2, 3, [0, 0, 1, -1]),
        (6, 4, [2, 3, 4, 5]),
    ):
        queue.add(torch.ones(count, 2, E), torch.arange(count))
        assert (int(queue.end), queue.classes.tolist()) == (end, classes)


def test_known_negatives_are_no_entries_whatever_is_predicted():
    outputs = outputs_of(0)._replace(logits=torch.full((N, C), 9.0, dtype=torch.float64))
    objective = start()
    objective.after_step(outputs, BATCH)
    assert (objective.queue.classes >= 0).sum() == N * C - 1


def test_old_embeddings_have_no_gradient():
    objective, old, new = start(), outputs_of(0), outputs_of(1)
    for part in (*old.embeddings, *new.embeddings):
        part.requires_grad_()
    objective(old, BATCH)["lac"].backward()
    before = old.embeddings[0].grad.clone()
    with torch.no_grad():
        objective.after_step(old, BATCH)
    objective(new, BATCH)["lac"].backward()
    assert before.any()
    assert torch.equal(old.embeddings[0].grad, before)
    classes = objective.queue.classes[objective.queue.classes >= 0].tolist()
    assert len(classes) == len(entries_of(old, 0.9))
    used = torch.zeros(N, C, dtype=torch.bool)
    used[BATCH.target == 1] = True
    used |= (BATCH.target == 0) & (torch.sigmoid(new.logits) >= 0.9)
    assert torch.equal(new.embeddings[1].grad.abs().sum(-1) > 0, used)


# -- reference values ------------------------------------------------------------------------------------


@pytest.mark.shared
def test_steps_and_queue_are_those_of_the_released_code(shared):
    folder = shared / "goldens" / "networks"
    found = [case for case in cases(folder, "released") if case.name.startswith("lac_stage2@")]
    assert len(found) == 2 * 4 * 4
    discrete = json.loads((folder / "discrete.json").read_text())
    with np.load(folder / "discrete.npz") as arrays:
        for name in ("l4", "l6"):
            of_input = {case.record["wrt"]: case for case in found if case.record["input"] == name}
            case = of_input["step1_weak"]
            hp, classes = case.record["hp"], case.inputs["step1_obs"].shape[1]
            objective = start(
                classes=classes,
                tau_second=hp["tau"],
                temperature=hp["temperature"],
                queue=hp["queue"],
                overwrites="released",
                width=case.inputs["step1_feats_weak"].shape[2],
            )
            restarted = False
            for step in range(1, 5):
                target = torch.from_numpy(case.inputs[f"step{step}_obs"]).to(torch.int8)
                batch = Batch(target, torch.arange(len(target)))
                parts = {
                    part: case.tensor(f"step{step}_{part}").requires_grad_()
                    for part in ("weak", "strong", "feats_weak", "feats_strong")
                }
                weak, strong, *embeddings = parts.values()
                outputs = Outputs(weak, weak, (strong,), embeddings=tuple(embeddings))
                loss = torch.stack(list(objective(outputs, batch).values())).sum()
                loss.backward()
                for part, value in parts.items():
                    record = of_input[f"step{step}_{part}"]
                    assert loss.item() == pytest.approx(record.record["loss"], rel=TOLERANCE["released"])
                    error = np.abs(value.grad.numpy() - record.gradient).max()
                    assert error <= TOLERANCE["released"] * np.abs(record.gradient).max()
                with torch.no_grad():
                    objective.after_step(outputs, batch)
                stored = discrete[f"lac_queue_step{step}|{name}"]["outputs"]
                expected = {key: arrays[path] for key, path in stored.items()}
                queue = objective.queue
                restarted |= int(queue.end) < sum(queue.classes >= 0)
                assert int(queue.end) == expected["pointer"]
                assert torch.equal(queue.classes + 1, torch.from_numpy(expected["labels"]).long())
                filled = queue.classes >= 0
                np.testing.assert_allclose(queue.pairs[filled], expected["feats"][filled], rtol=1e-12)
            assert restarted


# -- whole runs ------------------------------------------------------------------------------------------


def train(folder, **settings):
    return spml.train(
        "digits",
        **{"method": "lac", "epochs": 2, "hp": {"queue": 64, "width": 4}} | settings,
        model={"width": 8, "ffn": 6},
        data={"sample_rows": 100},
        threads=1,
        quiet=True,
        pictures=False,
        output=str(folder),
    )


@pytest.mark.long
def test_it_is_the_second_stage_after_a_run_of_plc(tmp_path):
    with pytest.raises(InputError, match="needs a head with an embedding of each class"):
        spml.train("digits", method="lac", head="linear", quiet=True, output=str(tmp_path / "linear"))
    first = spml.train(
        "digits", method="plc", head="queries", model={"width": 8, "ffn": 6}, data={"sample_rows": 100},
        epochs=1, threads=1, quiet=True, pictures=False, output=str(tmp_path / "first"),
    )  # fmt: skip
    assert first.card["top"]["queries"]["embedding"] == 0
    hp = {"first_stage": 0.0, "queue": 64, "width": 4}
    second = train(tmp_path / "second", hp=hp, init_from=str(first.folder))
    assert second.card["top"]["queries"]["embedding"] == 4
    history = [json.loads(line) for line in (second.folder / "metrics.jsonl").read_text().splitlines()]
    assert all(record["train/lac"] > 0 for record in history)
    third = train(tmp_path / "third", hp=hp, init_from=str(second.folder))
    assert json.loads((third.folder / "summary.json").read_text())["init_from"]["objective"] == "carried"
    again = train(tmp_path / "again", method="an", hp={}, init_from=str(second.folder))
    assert again.card["top"]["queries"]["embedding"] == 0
