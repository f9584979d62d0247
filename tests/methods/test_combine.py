"""Combination of several methods."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from spml.common.errors import InputError
from spml.labels import ObservedLabels
from spml.losses import (
    an_loss,
    consistency_loss,
    em_apl_loss,
    em_loss,
    epr_loss,
    gr_loss,
    mime_loss,
    mixed_consistency_loss,
)
from spml.methods.base import Batch, Card, Facts, Needs, Objective, Outputs, Progress
from spml.methods.combine import _union_of_views, _view_positions
from spml.methods.registry import _REGISTRY as registry
from spml.methods.registry import create
from tests.reference.combine import weighted_sum

LABELS = ObservedLabels.from_index(np.arange(12) % 4, 4)
FACTS = Facts(LABELS, tuple(map(str, range(12))), tuple("abcd"), 1.5)
LOGITS = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
BATCH = Batch(LABELS.target(range(6)), torch.arange(6))


OUTPUTS = Outputs(LOGITS, LOGITS)


def started(**hp):
    objective = create("combine", hp)
    objective.on_fit_start(FACTS)
    objective.on_epoch_start(Progress(0, 4))
    return objective


def stepped(**hp):
    """A combination in its second epoch, after a step; in the first one, some rules infer nothing."""
    objective = started(**hp)
    objective.on_epoch_start(Progress(1, 4))
    with torch.no_grad():
        objective.after_step(OUTPUTS, BATCH)
    return objective


def test_terms_are_weighted_and_named_after_their_method():
    weights = {"gr": 1.0, "em": 0.25, "epr": 2.0}
    objective = started(weights=weights, hp={"gr": {"schedule": "constant", "q2": 0.5}, "em": {"alpha": 0.3}})
    terms = objective(OUTPUTS, BATCH)
    assert list(terms) == ["gr/gr", "em/em", "epr/epr"]
    alone = {
        "gr": gr_loss(LOGITS, BATCH.target, q2=0.5).item(),
        "em": em_loss(LOGITS, BATCH.target, alpha=0.3).item(),
        "epr": epr_loss(LOGITS, BATCH.target, mean_labels=1.5).item(),
    }
    assert sum(terms.values()).item() == pytest.approx(weighted_sum(alone, weights), rel=1e-12)


def test_a_memory_of_one_part_is_written_and_saved():
    objective = started(weights={"an": 1.0, "ll_cp": 1.0}, hp={"ll_cp": {"percent": 20}})
    objective.on_epoch_start(Progress(1, 4))  # in the first epoch LL-Cp corrects no label
    before = {name: value.clone() for name, value in objective.state_dict().items()}
    with torch.no_grad():
        objective.after_step(OUTPUTS, BATCH)
    changed = [name for name, value in objective.state_dict().items() if not torch.equal(value, before[name])]
    assert changed
    assert all(name.startswith("parts.ll_cp.") for name in changed)


def positives(*positions):
    """Return the labels of the batch with further positives."""
    target = torch.nn.functional.one_hot(BATCH.target, 4).to(torch.int8)
    for row, column in positions:
        target[row, column] = 1
    return target


def test_every_method_sees_the_labels_of_a_memory():
    objective = stepped(
        weights={"gr": 1.0, "an": 0.5},
        hp={"gr": {"schedule": "constant"}},
        memory={"large_loss": {"percent": 10}},
    )
    free = LOGITS.masked_fill(positives() == 1, -torch.inf)
    largest = free.flatten().topk(3).indices.tolist()  # ceil(24 * 0.1)
    target = positives(*[divmod(position, 4) for position in largest])
    assert target.sum() == 9
    terms = objective(OUTPUTS, BATCH)
    assert terms["an/an"].item() == pytest.approx(0.5 * an_loss(LOGITS, target).item(), rel=1e-12)
    assert terms["gr/gr"].item() == pytest.approx(gr_loss(LOGITS, target).item(), rel=1e-12)


def test_where_memories_differ_the_first_one_wins():
    both = {"ema": {"positive": None, "negative": 1.0, "warmup": 0}, "large_loss": {"percent": 100}}
    for memory, sign in ((both, -1), (dict(reversed(both.items())), 1)):
        objective = stepped(weights={"an": 1.0}, memory=memory)
        expected = an_loss(LOGITS, torch.where(positives() == 1, 1, sign).to(torch.int8))
        actual = objective(OUTPUTS, BATCH)["an/an"]
        assert actual.item() == pytest.approx(expected.item(), rel=1e-12)


def test_every_rule_infers_from_the_labels_that_the_user_gave():
    memory = {"ema": {"positive": None, "negative": 1.0, "warmup": 0}, "large_loss": {"percent": 25}}
    objective = stepped(weights={"an": 1.0}, memory=memory)
    with torch.no_grad():
        objective.after_step(OUTPUTS, BATCH)
    assert (objective.memory["large_loss"].labels.inferred == 1).sum() == 12  # of 24, six in each step


class Recorder(Objective):
    """Stores its arguments."""

    card = Card(title="Recorder", paper="-", year=2026, equations="-")
    needs = Needs(views=("strong",))

    def forward(self, outputs, batch):
        self.in_forward = outputs, batch
        return {"zero": outputs.logits.sum() * 0}

    def after_step(self, outputs, batch):
        self.after = outputs, batch

    def on_epoch_end(self, progress, train_pass):
        self.train_pass = train_pass


def test_forward_and_after_step_receive_the_same_and_only_what_the_method_needs(monkeypatch):
    monkeypatch.setitem(registry.entries, "recorder", ("", Recorder))
    objective = started(
        weights={"lasd": 1.0, "recorder": 1.0, "pumlc": 1.0},
        hp={"lasd": {"weight_neg": 0.3}},
        memory={"confident": {"theta": 0.4, "warmup": 0}},
    )
    part = objective.parts["recorder"]
    objective.on_epoch_end(Progress(0, 2), lambda: torch.zeros(12, 4))
    assert part.train_pass is None
    outputs = Outputs(LOGITS, LOGITS, (LOGITS + 1, LOGITS + 2), extra=LOGITS, extra_target=LOGITS)
    objective(outputs, BATCH)
    objective.after_step(outputs, BATCH)
    for outputs, batch in (part.in_forward, part.after):
        assert len(outputs.views) == 1
        assert torch.equal(outputs.views[0], LOGITS + 2)
        assert outputs.extra is None
        assert outputs.extra_target is None
        assert (batch.target == 1).all()


@pytest.mark.parametrize("shared", [False, True])
def test_soft_pseudo_negatives_are_hard_ones_where_the_memory_is_shared(shared):
    settings = {"warmup": 1, "proportion": 1.0}
    objective = started(
        weights={"em": 1.0, "em_apl": 1.0},
        hp={"em_apl": settings},
        memory={"apl": settings} if shared else {},
    )
    scores = torch.randn(12, 4, generator=torch.Generator().manual_seed(1))
    objective.on_epoch_end(Progress(0, 2), lambda: scores)
    terms = objective(OUTPUTS, BATCH)
    if shared:
        hard = torch.where(positives() == 1, 1, -1).to(torch.int8)
        expected = em_loss(LOGITS, hard), an_loss(LOGITS, hard)
    else:
        soft = torch.sigmoid(scores[:6])
        expected = em_loss(LOGITS, BATCH.target), em_apl_loss(LOGITS, BATCH.target, soft)
    assert terms["em/em"].item() == pytest.approx(expected[0].item(), rel=1e-6)
    assert terms["em_apl/em_apl"].item() == pytest.approx(expected[1].item(), rel=1e-6)


def test_all_parts_share_one_pass_over_the_training_set():
    passes = []
    objective = started(
        weights={"em_apl": 1.0, "mime": 1.0, "an": 1.0},
        hp={"em_apl": {"warmup": 0}, "mime": {"warmup": 0}},
        memory={"correction": {"rate": 0.1}, "large_loss": {}},
    )
    assert objective.needs.train_pass

    def train_pass():
        passes.append(1)
        return torch.zeros(12, 4)

    objective.on_epoch_end(Progress(0, 4), train_pass)
    assert len(passes) == 1
    assert started(weights={"an": 1.0}, memory={"confident": {}}).needs.train_pass
    assert not started(weights={"an": 1.0}, memory={"ema": {}}).needs.train_pass


def test_methods_share_views_and_each_has_its_own_in_its_order():
    needed = [("weak", "strong"), ("strong",), (), ("strong", "weak", "weak")]
    together = _union_of_views(needed)
    assert together == ("weak", "strong", "weak")
    assert [_view_positions(views, together) for views in needed] == [[0, 1], [1], [], [1, 0, 2]]


def test_the_needs_are_those_of_all_methods():
    objective = started(weights={"lasd": 1.0, "plc": 1.0, "ignore": 1.0, "mime": 1.0, "role": 0.5})
    assert objective.needs == Needs(
        train_pass=True, batch_coupled=True, views=("weak", "strong"), class_maps=True, latent=True
    )
    (group,) = objective.param_groups()
    assert group["lr_factor"] == 10  # of the estimates of ROLE
    assert started(weights={"an": 1.0}).needs == Needs()


def test_each_method_receives_the_outputs_it_needs():
    objective = started(
        weights={"lasd": 1.0, "mime": 1.0, "plc": 1.0, "pumlc": 1.0}, hp={"lasd": {"weight_neg": 0.3}}
    )
    generator = torch.Generator().manual_seed(2)
    weak, strong, extra, mean, share = torch.randn(5, 6, 4, generator=generator, dtype=torch.float64)
    code = mean, mean.exp()
    outputs = Outputs(LOGITS, LOGITS, (weak, strong), code, extra=extra, extra_target=share)
    actual = objective(outputs, BATCH)
    expected = 0.7 * consistency_loss(LOGITS, weak, strong)
    assert actual["lasd/consistency"].item() == pytest.approx(expected.item(), rel=1e-12)
    expected = mime_loss(LOGITS, BATCH.target, *code)
    assert actual["mime/mime"].item() == pytest.approx(expected.item(), rel=1e-12)
    alone = create("plc")
    expected = sum(alone(Outputs(LOGITS, LOGITS, (strong,)), BATCH).values())
    plc = sum(value for name, value in actual.items() if name.startswith("plc/"))
    assert plc.item() == pytest.approx(expected.item(), rel=1e-12)
    assert actual["pumlc/mixed"].item() == pytest.approx(
        mixed_consistency_loss(extra, share).item(), rel=1e-12
    )


def test_the_further_forward_pass_belongs_to_one_method_alone():
    objective = stepped(weights={"an": 1.0, "pumlc": 1.0}, memory={"large_loss": {"percent": 100}})
    inputs = LOGITS.float()
    actual = objective.extra_inputs(inputs, OUTPUTS, BATCH)
    filled = Batch(torch.ones(6, 4, dtype=torch.int8), BATCH.index)  # all unknown labels were large losses
    expected = create("pumlc").extra_inputs(inputs, OUTPUTS, filled)
    assert torch.equal(actual.inputs, expected.inputs)
    assert torch.equal(actual.target, expected.target)
    assert started(weights={"an": 1.0}).extra_inputs(inputs, OUTPUTS, BATCH) is None


def test_only_one_method_with_a_further_forward_pass_can_be_combined():
    with pytest.raises(InputError, match="'ignore' and 'pumlc', each of which needs a further forward pass"):
        create("combine", {"weights": {"ignore": 1.0, "an": 1.0, "pumlc": 1.0}})


@pytest.mark.parametrize(
    ("hp", "message"),
    [
        ({"weights": {}}, "at least one method"),
        ({"weights": {"grr": 1.0}}, "unknown method 'grr'"),
        ({"weights": {"gr": 0}}, "finite and greater than 0"),
        ({"weights": {"gr": "much"}}, "must be a number"),
        ({"weights": {"combine": 1.0}}, "itself"),
        ({"weights": {"gr": 1.0}, "hp": {"em": {}}}, "hp names 'em'"),
        ({"weights": {"gr": 1.0}, "hp": {"gr": {"q9": 1}}}, "no hyper-parameter 'q9'"),
        ({"memory": "apl"}, "memory must contain rules with their settings"),
        ({"memory": {"alp": {}}}, r"unknown memory 'alp'\. Did you mean apl"),
        ({"memory": {"apl": {"warmup": -1}}}, "memory 'apl': warmup must be a whole number"),
    ],
)
def test_wrong_settings_are_refused(hp, message):
    with pytest.raises(InputError, match=message):
        create("combine", hp)


def test_unknown_labels_can_be_ignored_where_a_rule_infers_negatives():
    en = started(weights={"iu": 1.0}, memory={"expected_negatives": {}})
    hard = torch.where(positives() == 1, 1, -1).to(torch.int8)  # in the first epoch
    assert en(OUTPUTS, BATCH)["iu/iu"].item() == pytest.approx(an_loss(LOGITS, hard).item())
    started(weights={"iu": 1.0}, memory={"apl": {}})
    for memory in ({}, {"ema": {"positive": 0.7}}, {"large_loss": {}}, {"confident": {}}):
        with pytest.raises(InputError, match=r"'combine' with a memory that infers negatives"):
            started(weights={"iu": 1.0}, memory=memory)
