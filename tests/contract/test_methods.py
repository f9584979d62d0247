"""Every registered method passes the contract, and the contract fails for methods that break it."""

from __future__ import annotations

import pytest
import torch

from spml import contract
from spml.contract import check_objective, checks
from spml.losses import an_loss
from spml.objective import Batch, Card, Objective, methods

VARIANTS = [
    ("combine", {"weights": {"gr": 1.0, "ll_cp": 0.5, "role": 0.1}, "hp": {"gr": {"q2": 0.5}}}),
    ("gr", {"k": "learned", "v": "learned"}),
    ("gr", {"k": "scar", "v": "one"}),
    ("gr", {"k": "step", "tau": 0.6, "schedule": "cosine"}),
    ("gr", {"k": "constant", "q1": 0.01, "q3": [1, 1.5], "schedule": "exponential"}),
    ("gr", {"w": [0, 10], "b": [-2, -8], "timing": "paper"}),
    ("bce", {"swap": 0.1}),
    ("n_ls", {"swap": 0.3}),
    ("wan", {"weight": 0.2}),
    ("focal", {"gamma": 1.5, "margin": 1.0, "detach_weights": True}),
    ("asl", {"gamma_pos": 1, "clip": 0.0, "detach_weights": False}),
    ("hill", {"margin": 0.0, "gamma": 0.0}),
    ("splc", {"warmup": 5}),
    ("lasd", {"disambiguation": False}),
    ("lasd", {"leverage": False, "tau": 0.6}),
    ("lasd", {"weight_neg": 0.2, "gamma_pos": 1}),
    ("en", {"decay": 0.0}),
    ("csl", {"topk": 3, "prior_threshold": 0.3, "clip": 0.05}),
    ("csl", {"mode": "ignore_normalize_classes"}),
    ("csl", {"mode": "ignore"}),
    ("csl", {"mode": "negative"}),
    ("vlpl", {"beta_neg": 0.5}),
    ("gpr", {"reg": 0, "w": [0, 10], "b": [-2, -8], "schedule": "cosine"}),
    ("epr", {"norm": "samples", "weight": 0.5}),
    ("role", {"weight": 0.2, "lr_factor": 1.0}),
    ("ll_r", {"percent": 5}),
    ("ll_ct", {"percent": 5}),
    ("ll_cp", {"percent": 5}),
    ("ll_cp", {"percent": 5, "strict": True}),
    ("em_apl", {"predictions": "training", "warmup": 0}),
    ("opml", {"alpha": 0.3, "beta": 2.0}),
    ("opml_sp", {"smoothing": "none", "rank_weight": 0.0, "correction": 0.0}),
    ("opml_sp", {"smoothing": "constant", "share": 0.3, "rank": "singular", "delta": 0.1}),
    ("opml_sp", {"smoothing": "score", "gamma": 2.0, "rank_weight": 0.01}),
    ("show", {"rho": 1.0, "weight": 1.0, "momentum": 0.1}),
    ("pumlc", {"gamma": 0.85, "alpha": 2.0}),
]


ALL = [
    pytest.param(run, id=f"{name}{hp or ''}-{check}")
    for name, hp in [*((name, {}) for name in methods()), *VARIANTS]
    for check, run in checks(name, **hp)
]


@pytest.mark.parametrize("run", ALL)
def test_contract(run):
    run()


class Good(Objective):
    """A method from outside the package."""

    card = Card(title="Good", paper="nobody", year=2026, equations="none")

    def forward(self, outputs, batch):
        return {"good": an_loss(outputs.logits, batch.target)}


class Leaky(Good):
    """Counts its calls."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, outputs, batch):
        self.calls += 1
        return super().forward(outputs, batch)


class Random(Good):
    """Uses the global random state."""

    def forward(self, outputs, batch):
        return {"random": super().forward(outputs, batch)["good"] * torch.rand(())}


class WrongGradient(Good):
    """Its gradient is twice what it should be."""

    def forward(self, outputs, batch):
        loss = super().forward(outputs, batch)["good"]
        return {"wrong": 2 * loss - loss.item()}


class Forgetful(Good):
    """Keeps what it has learned outside of its state."""

    def on_fit_start(self, facts):
        self.factor = 1.0

    def after_step(self, outputs, batch):
        self.factor = 2.0

    def forward(self, outputs, batch):
        return {"forgetful": super().forward(outputs, batch)["good"] * self.factor}


class Contrary(Good):
    """Takes known negatives for positives."""

    def forward(self, outputs, batch):
        target = batch.target
        if target.ndim == 2:
            target = target.abs()
        return super().forward(outputs, Batch(target, batch.index))


class Naive(Good):
    """Takes logarithms of probabilities."""

    def forward(self, outputs, batch):
        p = torch.sigmoid(outputs.logits)
        one_hot = torch.zeros_like(p, dtype=torch.bool)
        if batch.target.ndim == 1:
            one_hot.scatter_(1, batch.target[:, None], True)
        else:
            one_hot = batch.target == 1
        return {"naive": torch.where(one_hot, -p.log(), -(1 - p).log()).sum() / max(p.numel(), 1)}


class ByPosition(Good):
    """Weighs classes by their position."""

    def forward(self, outputs, batch):
        each = an_loss(outputs.logits, batch.target, reduction="none")
        return {"by position": (each * torch.arange(1, each.shape[1] + 1)).sum()}


class Undocumented(Good):
    """Has a hyper-parameter that it does not mention."""

    def __init__(self, *, strength: float = 1.0):
        super().__init__()


def test_a_good_method_from_outside_passes():
    check_objective(Good)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (Leaky, "forward changed the state 'calls'"),
        (Random, "two calls|random state"),
        (WrongGradient, "numerical"),
        (Forgetful, "state is incomplete"),
        (Contrary, "raises the logit of a known negative"),
        (Naive, "the loss is inf|not finite|nan"),
        (ByPosition, "reordered classes"),
        (Undocumented, "not in the docstring: strength"),
    ],
)
def test_the_contract_fails_for_a_method_that_breaks_it(method, message):
    with pytest.raises(AssertionError, match=message):
        check_objective(method)


def test_the_numerical_gradient_follows_the_surrogate():
    """A method that detaches a factor passes; one whose factor carries gradient but is not followed fails."""

    class Weighted(Good):
        """A detached weight."""

        def forward(self, outputs, batch):
            return {"weighted": (outputs.logits.detach() * outputs.logits).sum()}

    run = dict(checks(Weighted))["gradient equals numerical one"]
    run()

    class Broken(Good):
        """Hides a factor from autograd without detaching it."""

        def forward(self, outputs, batch):
            return {"broken": (outputs.logits.data * outputs.logits).sum()}

    with pytest.raises(AssertionError, match="numerical"):
        dict(checks(Broken))["gradient equals numerical one"]()


def test_frozen_weights_inside_losses_are_seen_by_the_contract():
    """The unified framework detaches with `detach()`: the tape of the contract must not be empty for GR."""
    case = contract._case(methods()["gr"])
    tape: list[torch.Tensor] = []
    with contract._Frozen(tape, replay=False):
        contract._loss(case.started(), contract._outputs(), case.batch())
    assert tape
