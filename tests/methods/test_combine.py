"""Several methods in one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from spml.errors import InputError
from spml.labels import ObservedLabels
from spml.losses import em_loss, epr_loss, gr_loss
from spml.objective import Batch, Facts, Outputs, Progress, create
from tests.reference.combine import weighted_sum

LABELS = ObservedLabels.from_index(np.arange(12) % 4, 4)
FACTS = Facts(LABELS, tuple(map(str, range(12))), tuple("abcd"), 1.5)
LOGITS = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
BATCH = Batch(LABELS.target(range(6)), torch.arange(6))


def started(**hp):
    objective = create("combine", hp)
    objective.on_fit_start(FACTS)
    objective.on_epoch_start(Progress(0, 4))
    return objective


def test_terms_are_weighted_and_named_after_their_method():
    weights = {"gr": 1.0, "em": 0.25}
    objective = started(weights=weights, hp={"gr": {"schedule": "constant", "q2": 0.5}, "em": {"alpha": 0.3}})
    terms = objective(Outputs(LOGITS, LOGITS), BATCH)
    assert list(terms) == ["gr/gr", "em/em"]
    alone = {
        "gr": gr_loss(LOGITS, BATCH.target, q2=0.5).item(),
        "em": em_loss(LOGITS, BATCH.target, alpha=0.3).item(),
    }
    assert sum(terms.values()).item() == pytest.approx(weighted_sum(alone, weights), rel=1e-12)


def test_needs_and_parameters_are_those_of_all_parts():
    objective = started(weights={"an": 1.0, "role": 0.5, "em_apl": 1.0})
    assert objective.needs.batch_coupled
    assert objective.needs.train_pass
    (group,) = objective.param_groups()
    assert group["lr_factor"] == 10
    assert not started(weights={"an": 1.0}).needs.batch_coupled


def test_a_memory_of_one_part_is_written_and_saved():
    objective = started(weights={"an": 1.0, "ll_cp": 1.0}, hp={"ll_cp": {"percent": 20}})
    objective.on_epoch_start(Progress(1, 4))  # in the first epoch LL-Cp marks nothing
    before = {name: value.clone() for name, value in objective.state_dict().items()}
    with torch.no_grad():
        objective.after_step(Outputs(LOGITS, LOGITS), BATCH)
    changed = [name for name, value in objective.state_dict().items() if not torch.equal(value, before[name])]
    assert changed
    assert all(name.startswith("parts.ll_cp.") for name in changed)


def test_one_of_one_is_that_method():
    found = started(weights={"epr": 2.0})(Outputs(LOGITS, LOGITS), BATCH)
    expected = epr_loss(LOGITS, BATCH.target, mean_labels=1.5)
    assert sum(found.values()).item() == pytest.approx(2 * expected.item(), rel=1e-12)


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
    ],
)
def test_wrong_settings_are_refused(hp, message):
    with pytest.raises(InputError, match=message):
        create("combine", hp)
